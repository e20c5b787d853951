# SPDX-License-Identifier: Apache-2.0
"""What programs call it by: backend names, automatic loading, old and new names of the operations, functional
collectives; groups that are split and shrunk, and the time-outs they are given."""

import importlib.metadata
import os
import signal
import subprocess
import sys
import threading
import unittest
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import tutti_torch
from ranks import Died, RankFailed, expect, raises, run, same, seconds

SHRINK_ABORT = dist.distributed_c10d.SHRINK_ABORT


# ---- names of the backend ------------------------------------------------------------------------


def serves(rank, size, config):
    t = torch.ones(3)
    dist.all_reduce(t)
    same(t, torch.full((3,), float(size)))
    expect(str(dist.get_backend_config()) == config, dist.get_backend_config())
    expect(isinstance(tutti_torch.backend_of(), tutti_torch.Backend))
    group = dist.new_group()  # made with the same backends
    dist.all_reduce(t, group=group)
    same(t, torch.full((3,), float(size * size)))
    expect(isinstance(tutti_torch.backend_of(group), tutti_torch.Backend))
    expect(dist.all_gather_object(got := [None] * size, rank) is None and got == list(range(size)), got)


def last_line(backend):
    """How a group of that backend fails here; "" if it does not."""
    try:
        run(2, lambda rank, size: dist.all_reduce(torch.ones(3)), group={"backend": backend})
        return ""
    except RankFailed as e:
        return str(e).strip().splitlines()[-1]


LOADED = """
import sys
import torch.distributed as dist
early = "tutti_torch" in sys.modules
dist.init_process_group({backend!r}, store=dist.HashStore(), rank=0, world_size=1)
import torch
t = torch.ones(3)
dist.all_reduce(t)
print(early, type(dist.group.WORLD._get_backend(torch.device("cpu"))).__module__, t.tolist())
dist.destroy_process_group()
"""


def installed():
    """Whether the package here has the metadata by which PyTorch finds it."""
    try:
        files = importlib.metadata.distribution("tutti-torch").locate_file("tutti_torch")
    except importlib.metadata.PackageNotFoundError:
        return False
    return os.path.samefile(files, os.path.dirname(tutti_torch.__file__))


class Names(unittest.TestCase):
    def test_by_device(self):
        for config in ("cpu:tutti", "cpu:tutti,cuda:gloo"):
            with self.subTest(config=config):
                run(2, serves, config, group={"backend": config})

    def test_beside_nccl(self):
        """Without a GPU it is NCCL that PyTorch refuses, beside Gloo too; Tutti is no reason of its own."""
        want, got = last_line("cpu:gloo,cuda:nccl"), last_line("cpu:tutti,cuda:nccl")
        self.assertEqual(got, want)
        if got:
            self.assertIn("nccl", got.lower())
            self.assertNotIn("tutti", got.lower())
        else:
            run(2, serves, "cpu:tutti,cuda:nccl", group={"backend": "cpu:tutti,cuda:nccl"})

    @unittest.skipUnless(installed(), "tutti_torch is not installed: this is a plain checkout")
    def test_automatic_loading(self):
        """By `import torch`; and by the name of the backend where that is turned off."""
        for autoload, backend in (("1", "tutti"), ("0", "tutti"), ("0", "cpu:tutti")):
            with self.subTest(autoload=autoload, backend=backend):
                done = subprocess.run([sys.executable, "-c", LOADED.format(backend=backend)], text=True, timeout=100,
                                      env=dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.strip(), f"{autoload == '1'} tutti_torch._C [1.0, 1.0, 1.0]")


# ---- names of the operations ---------------------------------------------------------------------


def old_and_new(rank, size):
    """Each pair forwards to one operation: of torch.distributed, of the group and of the backend."""
    warnings.simplefilter("ignore", FutureWarning)  # of the old names
    group, backend = dist.group.WORLD, tutti_torch.backend_of()
    mine, many = torch.full((2,), rank + 1.0), torch.arange(2.0 * size) + 100 * rank
    gathered = torch.arange(1.0, size + 1).repeat_interleave(2)
    total = torch.arange(2.0 * size)[2 * rank:2 * rank + 2] * size + 100 * sum(range(size))
    swapped = torch.cat([torch.arange(2.0) + 2 * rank + 100 * r for r in range(size)])

    def check(want, call, owner):
        out = torch.zeros(want.numel())
        work = call(out)
        if work is not None:
            work.wait()
        same(out, want, owner)

    for call in (dist.all_gather_single, dist.all_gather_into_tensor, dist.distributed_c10d._all_gather_base,
                 group.all_gather_single, group._allgather_base, backend.all_gather_single, backend._allgather_base):
        check(gathered, lambda out: call(out, mine), call)
    for call in (dist.reduce_scatter_single, dist.reduce_scatter_tensor, dist.distributed_c10d._reduce_scatter_base,
                 group.reduce_scatter_single, group._reduce_scatter_base, backend.reduce_scatter_single,
                 backend._reduce_scatter_base):
        check(total, lambda out: call(out, many), call)
    check(swapped, lambda out: dist.all_to_all_single(out, many), "all_to_all_single")
    for call in (group.all_to_all_single, group.alltoall_base, backend.all_to_all_single, backend.alltoall_base):
        check(swapped, lambda out: call(out, many, [], []), call)


def coalesced_names(rank, size):
    group, backend = dist.group.WORLD, tutti_torch.backend_of()
    ins = [torch.full((n,), rank + 1.0) for n in (1, 3)]
    for call in (group.all_gather_single_coalesced, group.allgather_into_tensor_coalesced,
                 backend.all_gather_single_coalesced):
        outs = [torch.zeros(n * size) for n in (1, 3)]
        call(outs, ins).wait()
        for n, out in zip((1, 3), outs):
            same(out, torch.arange(1.0, size + 1).repeat_interleave(n), call)
    ins = [torch.full((n * size,), rank + 1.0) for n in (1, 3)]
    for call in (group.reduce_scatter_single_coalesced, group.reduce_scatter_tensor_coalesced,
                 backend.reduce_scatter_single_coalesced):
        outs = [torch.zeros(n) for n in (1, 3)]
        call(outs, ins).wait()
        for n, out in zip((1, 3), outs):
            same(out, torch.full((n,), float(sum(range(1, size + 1)))), call)


def gather_single(rank, size):
    want = torch.arange(1, size + 1).repeat_interleave(4)
    mine = torch.full((2, 2), rank + 1)
    group, backend = dist.group.WORLD, tutti_torch.backend_of()
    for is_async in (False, True):
        for dst in range(size):
            out = torch.zeros(2 * size, 2, dtype=torch.int64) if rank == dst else None
            work = dist.gather_single(mine, out, dst=dst, async_op=is_async)
            if is_async:
                work.wait()
            if rank == dst:
                same(out.flatten(), want, dst)
    options = dist.GatherOptions()
    options.rootRank = size - 1
    for call in (group.gather_single, group.gather_into_tensor, backend.gather_single, backend.gather_into_tensor):
        out = torch.zeros(4 * size if rank == size - 1 else 0, dtype=torch.int64)
        call(out, mine.flatten(), options).wait()
        if rank == size - 1:
            same(out, want, call)


def functional_collectives(rank, size):
    warnings.simplefilter("ignore", FutureWarning)  # of the old names
    group, mine = dist.group.WORLD, torch.arange(4.0) + rank
    total = torch.arange(4.0) * size + sum(range(size))
    same(functional.all_reduce(mine, "sum", group).clone(), total)
    same(functional.all_reduce(mine, "avg", list(range(size))).clone(), total / size)
    same(mine, torch.arange(4.0) + rank, "the input is left alone")
    same(functional.broadcast(mine, size - 1, group).clone(), torch.arange(4.0) + size - 1)
    alls = [torch.arange(4.0) + r for r in range(size)]
    for call in (functional.all_gather_tensor, functional.all_gather_single):
        same(call(mine, 0, group).clone(), torch.cat(alls))
        same(call(mine.view(2, 2), 1, group).clone(), torch.cat([t.view(2, 2) for t in alls], 1))
    for call in (functional.reduce_scatter_tensor, functional.reduce_scatter_single):
        got = call(torch.arange(4.0 * size) + rank, "sum", 0, group).clone()
        same(got, (torch.arange(4.0) + 4 * rank) * size + sum(range(size)))
    got = functional.all_to_all_single(torch.arange(float(size)) + 10 * rank, None, None, group).clone()
    same(got, torch.tensor([10.0 * r + rank for r in range(size)]))
    sends, receives = [r + 1 for r in range(size)], [rank + 1] * size
    got = functional.all_to_all_single(torch.full((sum(sends),), float(rank)), receives, sends, group).clone()
    same(got, torch.arange(float(size)).repeat_interleave(rank + 1))
    several = functional.all_reduce_coalesced([mine, mine + 1], "sum", group)
    same(several[0].clone(), total)
    same(several[1].clone(), total + size)
    x = torch.ones(3, requires_grad=True)
    (functional.all_reduce(x, "sum", group) * (rank + 1)).sum().backward()
    same(x.grad, torch.full((3,), float(sum(range(1, size + 1)))))


def compiled(rank, size):
    """Traced into a graph with the collective in it; without a C++ compiler, which would take minutes."""
    def step(t):
        return functional.all_reduce(t * 2, "sum", dist.group.WORLD) + 1

    fast = torch.compile(step, backend="aot_eager", fullgraph=True)
    for i in range(3):
        same(fast(torch.full((5,), float(rank + i))), step(torch.full((5,), float(rank + i))))


class Operations(unittest.TestCase):
    def test_old_and_new(self): run(2, old_and_new) and run(3, old_and_new)
    def test_coalesced_names(self): run(3, coalesced_names)
    def test_gather_single(self): run(3, gather_single)
    def test_functional(self): run(2, functional_collectives) and run(3, functional_collectives)
    def test_compiled(self): run(2, compiled)


# ---- groups --------------------------------------------------------------------------------------


def split_in_order(rank, size):
    """Ranks in the order given, some in no part; parts of parts; a part outlives its parent's neighbours."""
    part = dist.split_group(split_ranks=[[2, 0, 3]], group_desc="three")
    if rank == 1:
        expect(part == dist.GroupMember.NON_GROUP_MEMBER, part)
    else:
        expect(dist.get_rank(part) == [2, 0, 3].index(rank) and part.group_desc == "three", part.group_desc)
        out = torch.zeros(3)
        dist.all_gather_into_tensor(out, torch.tensor([float(rank)]), group=part)
        same(out, torch.tensor([2.0, 0.0, 3.0]))
        t = torch.tensor([float(rank)])
        dist.broadcast(t, src=3, group=part)  # the rank in the world
        expect(t.item() == 3, t)
        pair = dist.split_group(part, split_ranks=[[0, 2]], timeout=seconds(9))
        if rank != 0:
            t = torch.ones(1)
            dist.all_reduce(t, group=pair)
            expect(t.item() == 2 and tutti_torch.backend_of(pair).options._timeout == seconds(9))
    dist.barrier()


def shrunk(rank, size):
    """The last rank leaves; the others make a smaller world, twice."""
    for leaving in (3, 2):
        if rank == leaving:
            return "left"
        group = dist.shrink_group([leaving])
        expect(group == dist.group.WORLD and dist.get_world_size() == leaving and dist.get_rank() == rank)
        t = torch.tensor([rank + 1.0])
        dist.all_reduce(t)
        expect(t.item() == sum(range(1, leaving + 1)), t)
    with raises(RuntimeError, "exclusion list"):
        dist.shrink_group([rank])
    dist.barrier()
    return "stayed"


def shrunk_after_death(rank, size, flags):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with raises(dist.DistBackendError, "rank 1"):
        for _ in range(2):
            dist.all_reduce(torch.ones(1))
    dist.shrink_group([1], shrink_flags=flags)
    expect(dist.get_world_size() == 2 and dist.get_rank() == (0 if rank == 0 else 1))
    t = torch.tensor([rank + 1.0])
    dist.all_reduce(t)
    expect(t.item() == 4, t)
    dist.barrier()


def shrunk_with_abort(rank, size):
    """SHRINK_ABORT ends what is under way in the old group, here and on the rank that is left out."""
    store = dist.distributed_c10d._get_default_store()  # a barrier of the group might be aborted
    work, said = dist.irecv(torch.ones(1), src=2 if rank == 0 else 0), []

    def meet(word):
        store.set(f"{word} {rank}", "")
        store.wait([f"{word} {r}" for r in range(size)])

    def wait():
        try:
            work.wait()
        except dist.DistBackendError as e:
            said.append(str(e))

    waiting = threading.Thread(target=wait)
    waiting.start()
    meet("receives")
    if rank != 2:
        dist.shrink_group([2], shrink_flags=SHRINK_ABORT)
        t = torch.ones(1)
        dist.all_reduce(t)
        expect(t.item() == 2, t)
    waiting.join()
    expect(said and "abort" in said[0], said)
    meet("done")


def new_time_out(rank, size):
    """The time-out of a group is changed after it was made, by each of the names there are for it."""
    for change in (lambda g, t: dist.set_timeout(t, g), lambda g, t: g.set_timeout(t),
                   lambda g, t: tutti_torch.backend_of(g).set_timeout(t)):
        group = dist.new_group(timeout=seconds(60))
        change(group, seconds(0.3))
        expect(tutti_torch.backend_of(group).options._timeout == seconds(0.3))
        if rank == 0:
            with raises(dist.DistBackendError, "all_reduce", "rank 1", "300 ms") as e:
                dist.all_reduce(torch.ones(1), group=group)
            expect(0.2 < e.seconds < 10, e.seconds)
        dist.barrier()


class Groups(unittest.TestCase):
    def test_split_in_order(self): run(4, split_in_order)

    def test_shrunk(self):
        self.assertEqual(run(4, shrunk), ["stayed", "stayed", "left", "left"])

    def test_shrunk_after_death(self):
        for flags in (dist.distributed_c10d.SHRINK_DEFAULT, SHRINK_ABORT):
            with self.subTest(flags=flags):
                self.assertIsInstance(run(3, shrunk_after_death, flags, may_die=(1,))[1], Died)

    def test_shrunk_with_abort(self): run(3, shrunk_with_abort)
    def test_new_time_out(self): run(2, new_time_out)


if __name__ == "__main__":
    unittest.main()
