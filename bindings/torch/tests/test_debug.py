# SPDX-License-Identifier: Apache-2.0
"""Ranks that call different things, with and without PyTorch's debug mode; PyTorch's flight recorder."""

import contextlib
import os
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_file

import tutti_torch
from ranks import expect, join, raises, run, same, scratch, seconds

SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


# ---- different calls -----------------------------------------------------------------------------

# What rank 0 and what the others call; what the words name of each.
DIFFERENT = {
    "sizes": (lambda g: dist.all_reduce(torch.ones(5), group=g), lambda g: dist.all_reduce(torch.ones(4), group=g),
              ("20 bytes", "16 bytes"), ("TensorShape=[5]", "TensorShape=[4]")),
    "types": (lambda g: dist.all_reduce(torch.ones(4, dtype=torch.float64), group=g),
              lambda g: dist.all_reduce(torch.ones(4), group=g), ("float64", "float32"), ("Double", "Float")),
    "operations": (lambda g: dist.all_gather([torch.ones(4)] * g.size(), torch.ones(4), group=g),
                   lambda g: dist.all_reduce(torch.ones(4), group=g),
                   ("all_gather", "all_reduce"), ("ALLGATHER", "ALLREDUCE")),
    "reductions": (lambda g: dist.all_reduce(torch.ones(4), op=MAX, group=g),
                   lambda g: dist.all_reduce(torch.ones(4), group=g), ("max", "rank 1"), ("max", "rank 1")),
    "scattered": (lambda g: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(2 * g.size()), group=g),
                  lambda g: dist.reduce_scatter_tensor(torch.ones(3), torch.ones(3 * g.size()), group=g),
                  ("reduce_scatter", "16 bytes", "24 bytes"), ("TensorShape=[4]", "TensorShape=[6]")),
}


def differ(rank, size, kind, words):
    """Every rank hears what each called, at once; other groups go on."""
    group = dist.new_group(timeout=seconds(20))
    dist.all_reduce(torch.ones(1), group=group)
    with raises(RuntimeError, *words) as e:
        DIFFERENT[kind][0 if rank == 0 else 1](group)
    expect(e.seconds < 10, e.seconds)
    t = torch.ones(1)
    dist.all_reduce(t)
    expect(t.item() == size, t)


def differ_in_broadcast(rank, size):
    """The root may be gone on when it is noticed: it hears of it with its next operation at the latest."""
    group = dist.new_group(timeout=seconds(20))
    with raises(dist.DistBackendError, "20 bytes", "16 bytes", "rank 0", "rank 1") as e:
        dist.broadcast(torch.ones(5 if rank == 0 else 4), src=0, group=group)
        dist.all_reduce(torch.ones(1), group=group)
    expect(e.seconds < 10, e.seconds)


def in_detail(rank, size, place, fn, *args):
    """TORCH_DISTRIBUTED_DEBUG was set after PyTorch was loaded."""
    dist.set_debug_level_from_env()
    expect(dist.get_debug_level() == dist.DebugLevel.DETAIL)
    join(place, rank, size)
    fn(rank, size, *args)


def detail(size, fn, *args):
    with scratch() as folder, mock.patch.dict(os.environ, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        run(size, in_detail, os.path.join(folder, "store"), fn, *args, group=False)


def all_well(rank, size):
    """The wrapper of the debug mode has another way to each operation."""
    group = dist.new_group()
    for g in (None, group):
        t = torch.ones(3)
        dist.all_reduce(t, group=g)
        dist.all_reduce(t, async_op=True, group=g).get_future().wait()
        same(t, torch.full((3,), float(size * size)))
        outs = [torch.zeros(1) for _ in range(size)]
        dist.all_gather(outs, torch.tensor([float(rank)]), group=g)
        same(torch.cat(outs), torch.arange(float(size)))
        out = torch.zeros(size)
        dist.all_gather_into_tensor(out, torch.tensor([float(rank)]), group=g)
        same(out, torch.arange(float(size)))
        dist.reduce_scatter_tensor(out[:1], torch.arange(float(size)), group=g)
        expect(out[0].item() == rank * size, out)
        dist.all_to_all_single(out, torch.arange(float(size)), group=g)
        same(out, torch.full((size,), float(rank)))
        dist.broadcast(t, src=0, group=g)
        dist.barrier(group=g)
        if rank == 0:
            dist.send(t, dst=1)
        elif rank == 1:
            dist.recv(t, src=0)
    dist.monitored_barrier()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    model(torch.full((1, 3), float(rank))).sum().backward()
    same(model.module.weight.grad, torch.full((2, 3), (size - 1) / 2))


class Different(unittest.TestCase):
    def test_normal(self):
        for size, kind in ((2, "sizes"), (2, "types"), (3, "operations"), (2, "reductions"), (2, "scattered")):
            with self.subTest(kind=kind):
                run(size, differ, kind, ("ranks called different", "rank 0") + DIFFERENT[kind][2])

    def test_broadcast(self): run(2, differ_in_broadcast)

    def test_detail(self):
        for kind in DIFFERENT:
            with self.subTest(kind=kind):
                detail(2, differ, kind, DIFFERENT[kind][3])

    def test_detail_all_well(self): detail(3, all_well)


# ---- flight recorder -----------------------------------------------------------------------------


def analyse(folder):
    """(the database that PyTorch's analyser makes of the dumps, what it says)."""
    path = os.path.join(folder, "db")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", folder,
                           "-p", "rank_", "-o", path], text=True, timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise AssertionError(done.stdout)
    with open(path, "rb") as f:
        return pickle.load(f)[1], done.stdout


def recorded(rank, size):
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(4), async_op=True).wait()
    group = dist.new_group(group_desc="second")
    dist.all_gather_into_tensor(torch.ones(4 * size, dtype=torch.int32), torch.ones(4, dtype=torch.int32), group=group)
    dist.barrier()
    _dump_fr_trace_file(rank, backend="tutti")
    return pickle.loads(_dump_fr_trace(backend="tutti"))


def hanging(rank, size):
    """The last rank does not come to the second operation."""
    group = dist.new_group(timeout=seconds(0.4))
    dist.all_reduce(torch.ones(3), group=group)
    if rank != size - 1:
        with raises(dist.DistBackendError, "all_gather", f"rank {size - 1}"):
            dist.all_gather_into_tensor(torch.ones(2 * size), torch.ones(2), group=group)
    _dump_fr_trace_file(rank, backend="tutti")
    dist.barrier()


def abort_hooks(rank, size):
    """Called once, before what is under way ends; one that is taken back is not."""
    group = dist.new_group()
    backend, seen = tutti_torch.backend_of(group), []
    expect(backend.supports_abort_hooks)
    work = dist.irecv(torch.ones(1), src=1 - rank, group=group)
    backend.register_abort_hook(1001, lambda: seen.append(work.is_completed()))
    backend.register_abort_hook(1002, lambda: seen.append("taken back"))
    backend.unregister_abort_hook(1002)
    dist.barrier()
    if rank == 0:
        backend.abort()
        expect(seen == [False], seen)
    with raises(dist.DistBackendError, "abort"):
        work.wait()
    dist.barrier()


class Recorder(unittest.TestCase):
    def folder_of_dumps(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        folder = stack.enter_context(scratch())
        stack.enter_context(mock.patch.dict(os.environ, TORCH_FR_DUMP_TEMP_FILE=os.path.join(folder, "rank_")))
        return folder

    def dumps_of(self, size, fn):
        folder = self.folder_of_dumps()
        results = run(size, fn)
        self.assertEqual(sorted(os.listdir(folder)), [f"rank_{r}" for r in range(size)])
        return folder, results

    def test_recorded(self):
        folder, dumps = self.dumps_of(2, recorded)
        want = [("0", "tutti:all_reduce", 1, [[3]], [[3]], ["Float"]),
                ("0", "tutti:all_reduce", 2, [[4]], [[4]], ["Float"]),
                ("1", "tutti:_all_gather_base", 1, [[4]], [[8]], ["Int"]),
                ("0", "tutti:barrier", 3, [], [], [])]
        for dump in dumps:
            entries = [(e["process_group"][0], e["profiling_name"], e["collective_seq_id"], e["input_sizes"],
                        e["output_sizes"], e["input_dtypes"]) for e in dump["entries"]]
            self.assertEqual(entries, want)
            self.assertEqual({(e["state"], e["is_p2p"]) for e in dump["entries"]}, {("completed", False)})
            self.assertEqual(dump["pg_config"]["0"]["ranks"], "[0, 1]")
        db, _ = analyse(folder)
        got = [(c.group_id, c.collective_name, c.collective_seq_id, c.input_sizes, c.output_sizes)
               for c in db.collectives]
        self.assertEqual(got, [w[:5] for w in want])
        self.assertTrue(all(c.pass_check and c.expected_ranks == {0, 1} for c in db.collectives), db.collectives)
        self.assertEqual(len(db.ncclcalls), 2 * len(want))

    def test_abort_hooks(self):
        """One of them is PyTorch's, which writes the recorder's dump."""
        folder = self.folder_of_dumps()
        run(2, abort_hooks)
        self.assertEqual(os.listdir(folder), ["rank_0"])

    def test_hanging(self):
        """The analyser finds the operation that hangs and the rank that is missing."""
        folder, _ = self.dumps_of(3, hanging)
        _, words = analyse(folder)
        for part in ("Not all ranks joining collective, sequence number: 2", "collective: tutti:_all_gather_base",
                     "missing ranks: {2}", "expected ranks: {0, 1, 2}"):
            self.assertIn(part, words)


if __name__ == "__main__":
    unittest.main()
