# SPDX-License-Identifier: Apache-2.0
"""In Gloo's place: the values, the types of errors and the words that programs know from Gloo."""

import os
import subprocess
import sys
import unittest

import torch
import torch.distributed as dist

import tutti_torch
from ranks import expect, join, raises, run, same, scratch, seconds

SIZE = 3


def in_place_of_gloo(rank, size, place, body):
    """body(group, rank, size) on a group that says "gloo" and is Tutti's."""
    tutti_torch.install_as_gloo()
    join(place, rank, size, backend="gloo")
    group = dist.distributed_c10d._get_default_group()
    expect(isinstance(tutti_torch.backend_of(group), tutti_torch.Backend))
    return body(group, rank, size)


def both(size, body):
    """body on real Gloo and on Tutti in its place: [results of the ranks] of each."""
    def plain(rank, size):
        return body(dist.distributed_c10d._get_default_group(), rank, size)

    real = run(size, plain, group={"backend": "gloo"})
    with scratch() as folder:
        ours = run(size, in_place_of_gloo, os.path.join(folder, "store"), body, group=False)
    return real, ours


def options(kind, **fields):
    opts = getattr(dist, kind)()
    for name, value in fields.items():
        setattr(opts, name, value)
    return opts


# ---- values ----------------------------------------------------------------------------------------

def aliased(group, rank, size):
    """The same tensor twice in one call, and a view of another: each is reduced as it was."""
    t = torch.tensor([rank + 1.0, 2.0])
    whole = torch.arange(4.0) + rank
    group.allreduce_coalesced([t, t, whole, whole[1:3]]).wait()
    return t.tolist(), whole.tolist()


def several(group, rank, size):
    """Several tensors of each rank in one call."""
    found = {}
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        ts = [torch.tensor([2.0 * rank + 1]), torch.tensor([2.0 * rank + 2])]
        work = group.allreduce(ts, options("AllreduceOptions", reduceOp=getattr(dist.ReduceOp, op)))
        work.wait()
        found[op] = [t.item() for t in ts]
    for root_tensor in range(2):
        ts = [torch.tensor([10.0 * rank]), torch.tensor([10.0 * rank + 1])]
        group.broadcast(ts, options("BroadcastOptions", rootRank=size - 1, rootTensor=root_tensor)).wait()
        found["broadcast", root_tensor] = [t.item() for t in ts]
    for n in (1, 2, 3):
        ins = [torch.tensor([n * rank + i]) for i in range(n)]
        outs = [[torch.tensor([-1]) for _ in range(n * size)] for _ in range(n)]
        future = group.allgather(outs, ins).get_future()
        future.wait()
        found["allgather", n] = [[t.item() for t in list_] for list_ in outs]
        value = future.value() if n > 1 else [future.value()]
        expect([[t.item() for t in list_] for list_ in value] == found["allgather", n], "the future's value")
    sparse = [torch.sparse_coo_tensor([[i, rank + 1]], [1.0, i + 1.0], (5,)) for i in range(2)]
    group.allreduce(sparse).wait()
    found["sparse"] = [t.to_dense().tolist() for t in sparse]
    return found


# ---- errors ----------------------------------------------------------------------------------------

def refused(group, rank, size):
    """Wrong arguments are refused, and the group works on afterwards."""
    group = group._get_backend(torch.device("cpu"))  # PyTorch's own dispatcher refuses empty lists
    one, double, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
    sparse, wide = (torch.sparse_coo_tensor([[0]], [1.0], (n,)) for n in (2, 4))
    mine, other = rank, (rank + 1) % size

    def root(kind, rank, tensor=None):
        return options(kind, rootRank=rank, **({} if tensor is None else {"rootTensor": tensor}))

    cases = [
        ("invalid root rank", lambda: group.broadcast([one], root("BroadcastOptions", -1, 0))),
        ("invalid root rank", lambda: group.broadcast([one], root("BroadcastOptions", size, 0))),
        ("invalid root tensor", lambda: group.broadcast([one], root("BroadcastOptions", mine, -1))),
        ("invalid root tensor", lambda: group.broadcast([], root("BroadcastOptions", mine, 0))),
        ("invalid tensor type", lambda: group.broadcast([one, double], root("BroadcastOptions", mine, 0))),
        ("invalid tensor size", lambda: group.broadcast([one, two], root("BroadcastOptions", mine, 0))),
        ("requires non-empty tensor list", lambda: group.allreduce([])),
        ("invalid tensor type", lambda: group.allreduce([one, double])),
        ("invalid tensor size", lambda: group.allreduce([one, two])),
        ("invalid tensor layout", lambda: group.allreduce([one, sparse])),
        ("invalid tensor size", lambda: group.allreduce([sparse, wide])),
        ("unsupported reduction operation",
         lambda: group.allreduce([sparse], options("AllreduceOptions", reduceOp=dist.ReduceOp.MAX))),
        ("requires non-empty tensor list", lambda: group.allreduce_coalesced([])),
        ("tensors must all have the same type", lambda: group.allreduce_coalesced([one, double])),
        ("invalid tensor layout at index", lambda: group.allreduce_coalesced([one, sparse])),
        ("unsupported layout", lambda: group.allreduce_coalesced([sparse, sparse.clone()])),
        ("invalid root rank", lambda: group.reduce([one], root("ReduceOptions", size, 0))),
        ("invalid root tensor", lambda: group.reduce([one], root("ReduceOptions", mine, 1))),
        ("requires a single-element tensor list", lambda: group.reduce([one, one], root("ReduceOptions", mine, 0))),
        ("requires non-empty input tensor list", lambda: group.allgather([], [])),
        ("requires input/output tensor lists to have the same length", lambda: group.allgather([], [one])),
        ("invalid output tensor list", lambda: group.allgather([[one] * (size - 1)], [one])),
        ("invalid tensor type", lambda: group.allgather([[one, one] * size] * 2, [one, double])),
        ("invalid tensor size", lambda: group.allgather([[one, one] * size] * 2, [one, two])),
        ("invalid tensor type", lambda: group.allgather([([one, double] * size)[:size]], [one])),
        ("invalid tensor size", lambda: group.allgather([([one, two] * size)[:size]], [one])),
        ("invalid size of output tensor at index 0",
         lambda: group.allgather_coalesced([[torch.zeros(0)]] * size, [one])),
        ("output lists should be equal to world size",
         lambda: group.allgather_coalesced([[one]] * (size + 1), [one])),
        ("invalid root rank", lambda: group.gather([], [one], root("GatherOptions", -1))),
        ("requires a single-element input tensor list", lambda: group.gather([], [], root("GatherOptions", 0))),
        ("requires a single-element output list", lambda: group.gather([], [one], root("GatherOptions", mine))),
        ("Incorrect output list size", lambda: group.gather([[one]], [one], root("GatherOptions", mine))),
        ("invalid tensor type", lambda: group.gather([[double] * size], [one], root("GatherOptions", mine))),
        ("invalid tensor size", lambda: group.gather([[two] * size], [one], root("GatherOptions", mine))),
        ("requires empty output on non-root", lambda: group.gather([[one] * size], [one], root("GatherOptions", other))),
        ("requires a single-element output tensor list", lambda: group.scatter([], [], root("ScatterOptions", 0))),
        ("requires a single-element input list", lambda: group.scatter([one], [], root("ScatterOptions", mine))),
        ("Incorrect input list size", lambda: group.scatter([one], [[one]], root("ScatterOptions", mine))),
        ("invalid tensor size", lambda: group.scatter([one], [[two] * size], root("ScatterOptions", mine))),
        ("requires empty input on non-root", lambda: group.scatter([one], [[one] * size], root("ScatterOptions", other))),
    ]
    for i, (words, call) in enumerate(cases):
        try:
            with raises(RuntimeError, words):
                call()
        except BaseException as e:
            raise AssertionError(f"case {i}, {words}: {e!r}") from e
    t = torch.ones(3)
    group.allreduce([t]).wait()
    return t.tolist()


def limited(group, rank, size):
    """Rank 0 waits alone for a millisecond; the others only end when it is done."""
    if rank == 0:
        with raises(RuntimeError, "Timed out waiting 1ms"):
            group.allreduce([torch.zeros(1)], options("AllreduceOptions", timeout=seconds(0.001))).wait()
    store = dist.distributed_c10d._get_default_store()
    store.set("done" if rank == 0 else f"unused{rank}", "1")
    store.wait(["done"])


def process_state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def limited_alone(group, rank, size):
    """The same, but the other one has left and ended: rank 0 is told of the time-out that it asked for."""
    store = dist.distributed_c10d._get_default_store()
    if rank != 0:
        store.set("pid", str(os.getpid()))
        return
    pid = int(store.get("pid"))
    while process_state(pid) != "Z":
        pass
    with raises(RuntimeError, "Timed out waiting 1ms", "left the group"):
        group.allreduce([torch.zeros(1)], options("AllreduceOptions", timeout=seconds(0.001))).wait()


# ---- works, groups ----------------------------------------------------------------------------------

def unregistered(rank, size):
    """A work that was waited for is no longer in PyTorch's list of those under way."""
    from torch._C._distributed_c10d import _get_work_registry_size
    from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx
    with allow_inflight_collective_as_graph_input_ctx():
        t = torch.ones(2)
        work = dist.all_reduce(t, async_op=True)
        expect(_get_work_registry_size() > 0, "PyTorch registers it")
        work.wait()
        expect(_get_work_registry_size() == 0, "after wait:", _get_work_registry_size())


def complex_model(rank, size):
    """DDP with complex parameters, in buckets of shared memory."""
    torch.manual_seed(1)
    model = torch.nn.Linear(20, 30, dtype=torch.complex64)
    model.real = torch.nn.Linear(7, 5)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    expect(os.environ.get("DDP_DISABLE_COMM_MEM") == "0")
    x = torch.randn(4, 20, dtype=torch.complex64, generator=torch.Generator().manual_seed(rank))
    (ddp(x).abs().sum() + model.real(torch.ones(7)).sum()).backward()
    got = model.weight.grad.clone()
    alone = torch.nn.Linear(20, 30, dtype=torch.complex64)
    alone.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("real")})
    want = torch.zeros_like(alone.weight)
    for r in range(size):
        x = torch.randn(4, 20, dtype=torch.complex64, generator=torch.Generator().manual_seed(r))
        alone.zero_grad()
        alone(x).abs().sum().backward()
        want += alone.weight.grad
    expect(torch.allclose(got, want / size, rtol=1e-4, atol=1e-5), "gradient of the complex weight")


def reconfigured(rank, size, place):
    """Members by handles: all, in another order, fewer, all again; nothing works before the first time."""
    join(place, rank, size, enable_reconfigure=True)
    group = dist.distributed_c10d._get_default_group()
    backend = tutti_torch.backend_of(group)
    store = dist.distributed_c10d._get_default_store()
    expect(backend.supports_reconfigure, "supports_reconfigure")
    with raises(RuntimeError, "reconfigure"):
        group.allreduce([torch.ones(1)])

    def handles(turn, members):
        if rank in members:
            store.set(f"{turn}/{rank}", backend.get_reconfigure_handle())
        return [store.get(f"{turn}/{r}").decode() for r in members]

    def apply(uuid, given):
        opts = dist.distributed_c10d.ReconfigureOptions()
        opts.uuid, opts.handles = uuid, given
        backend.reconfigure(opts).wait()

    for turn, members in enumerate([range(size), range(size - 1, -1, -1), range(1, size), range(size)]):
        given = handles(turn, list(members))
        if rank not in members:
            with raises(RuntimeError, "not part"):
                apply(100 + turn, given)
            continue
        apply(100 + turn, given)
        expect(backend.rank() == list(members).index(rank) and backend.size() == len(members), turn)
        t = torch.tensor([rank + 1.0])
        group.allreduce([t]).wait()
        expect(t.item() == sum(r + 1 for r in members), turn, t)
    with raises(RuntimeError, "not used before"):
        apply(100, handles("again", list(range(size))))


PRODUCT = """
import ctypes, glob, importlib.util, os, torch
class Shape(ctypes.Structure):
    _fields_ = [("n_dims", ctypes.c_int), ("dims", ctypes.c_int64 * 8)]
package = importlib.util.find_spec("tutti_torch").submodule_search_locations[0]
lib = ctypes.CDLL(glob.glob(os.path.join(package, "libtutti.so*"))[0])
lib.tt_wrap.restype = lib.tt_matmul.restype = lib.tt_tensor_data.restype = ctypes.c_void_p
lib.tt_wrap.argtypes = [ctypes.c_void_p, Shape, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
lib.tt_matmul.argtypes, lib.tt_tensor_data.argtypes = [ctypes.c_void_p] * 2, [ctypes.c_void_p]
lib.tt_last_error.restype = ctypes.c_char_p
n = 64
a = torch.ones(n, n)
t = lib.tt_wrap(a.data_ptr(), Shape(2, (n, n)), None, 0, None, None)
product = lib.tt_matmul(t, t)
assert product, lib.tt_last_error()
found = ctypes.cast(lib.tt_tensor_data(product), ctypes.POINTER(ctypes.c_float))
assert all(found[i] == n for i in range(n * n)), found[0]
"""


class InPlaceOfGloo(unittest.TestCase):
    def test_values_are_those_of_gloo(self):
        for body in (aliased, several):
            with self.subTest(body.__name__):
                real, ours = both(SIZE, body)
                self.assertEqual(real, ours)
        self.assertEqual(ours[0]["SUM"], [21.0, 21.0])

    def test_errors_are_those_of_gloo(self):
        real, ours = both(SIZE, refused)
        self.assertEqual(real, ours)

    def test_timeouts_say_so(self):
        both(2, limited)

    def test_timeouts_say_so_when_the_others_left(self):
        with scratch() as folder:
            run(2, in_place_of_gloo, os.path.join(folder, "store"), limited_alone, group=False)

    def test_wait_unregisters(self):
        run(2, unregistered)

    def test_complex_parameters(self):
        run(2, complex_model)

    def test_reconfigure(self):
        with scratch() as folder:
            run(SIZE, reconfigured, os.path.join(folder, "store"), group=False)

    def test_imports_in_any_order(self):
        code = ("import tutti_torch", "import torch, tutti_torch", "import torch.distributed, tutti_torch")
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        for text in code:
            done = subprocess.run([sys.executable, "-c", text + "; assert tutti_torch.__version__"], cwd=folder,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, text + done.stderr)

    def test_products_of_libtutti_beside_pytorch(self):
        """PyTorch has a copy of oneDNN inside, which must not take the place of libtutti's."""
        first = {"with the plug-in": "import tutti_torch",
                 "visible to all": "import os, sys; sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)",
                 "beside it": ""}
        for name, line in first.items():
            env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(name == "with the plug-in"))}
            with self.subTest(name):
                done = subprocess.run([sys.executable, "-c", line + PRODUCT], capture_output=True, text=True, env=env)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
