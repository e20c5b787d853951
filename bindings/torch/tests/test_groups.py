# SPDX-License-Identifier: Apache-2.0
"""Groups: how they are named, made, split, shrunk, aborted; time-outs; traces; messages with tags."""

import threading
import unittest

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as PlainBackend

import tutti_torch
from ranks import expect, join, raises, run, same, scratch, seconds

N = 100


def serves(rank, size, name):
    t = torch.ones(3)
    dist.all_reduce(t)
    expect(t[0].item() == size)
    expect(isinstance(tutti_torch.backend_of(), tutti_torch.Backend))
    expect(dist.get_backend() in (name, "undefined", "custom"), dist.get_backend())


def as_gloo(rank, size, place):
    tutti_torch.install_as_gloo()
    join(place, rank, size, backend="gloo")
    expect(isinstance(tutti_torch.backend_of(), tutti_torch.Backend))
    expect(dist.get_backend() == "gloo", dist.get_backend())
    t = torch.ones(3)
    dist.all_reduce(t)
    expect(t[0].item() == size)


def with_options(rank, size):
    options = tutti_torch.Options(timeout=seconds(7))
    options.no_cma = True
    options.staging_bytes = 1 << 20
    group = dist.new_group(backend="tutti", pg_options=options, timeout=seconds(5), group_desc="mine")
    got = tutti_torch.backend_of(group).options
    expect(got.no_cma and got.staging_bytes == 1 << 20, "options")
    t = torch.ones(1 << 19)
    dist.all_reduce(t, group=group)
    expect(t.min() == t.max() == size)
    with raises(TypeError, "tutti_torch.Options"):
        dist.new_group(backend="tutti", pg_options=object())


def with_plain_options(rank, size):
    """Options of PyTorch's own classes, as a program has that was written for another backend."""
    usual = tutti_torch.Options()
    for options in (PlainBackend.Options("tutti", seconds(9)), dist.ProcessGroupGloo._Options()):
        group = dist.new_group(backend="tutti", pg_options=options, timeout=seconds(5))
        got = tutti_torch.backend_of(group).options
        expect(isinstance(got, tutti_torch.Options), type(got))
        expect(got._timeout == seconds(5), got._timeout)
        expect(got.no_cma == usual.no_cma and got.staging_bytes == usual.staging_bytes, "ours are as usual")
        expect(list(got.global_ranks_in_group) == list(range(size)), got.global_ranks_in_group)
        t = torch.full((N,), rank + 1.0)
        dist.all_reduce(t, group=group)
        expect(t.min() == t.max() == size * (size + 1) / 2)


def numbers(rank, size):
    group = dist.new_group()
    backend = tutti_torch.backend_of(group)
    before = backend._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(2), group=group)
    work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
    work.wait()
    expect(backend._get_sequence_number_for_group() == before + 4, before)


def split(rank, size):
    half = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    t = torch.tensor([rank + 1.0])
    dist.all_reduce(t, group=half)
    expect(t.item() == (4 if rank % 2 == 0 else 6), t)
    expect(dist.get_rank(half) == rank // 2 and dist.get_world_size(half) == 2)


def time_outs(rank, size):
    """A rank that does not come is named, after the time that was asked for."""
    group = dist.new_group(timeout=seconds(0.4))
    dist.barrier()
    if rank != size - 1:
        with raises(dist.DistBackendError, f"{size - 1}", "all_reduce") as e:
            dist.all_reduce(torch.ones(N), group=group)
        expect(0.3 < e.seconds < 10, e.seconds)
        work = dist.irecv(torch.ones(3), src=size - 1)
        with raises(dist.DistBackendError, "not done") as e:
            work.wait(timeout=seconds(0.2))
        expect(0.1 < e.seconds < 10, e.seconds)
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        for r in range(size - 1):
            dist.send(torch.ones(3), dst=r)
    if rank == 0:
        with raises(Exception, "1") as e:
            dist.monitored_barrier(timeout=seconds(0.4), wait_all_ranks=True)
    dist.broadcast(torch.ones(1), src=0)


def aborted(rank, size):
    """Abort ends the operations here and on the peers; who destroys the group goes on."""
    group = dist.new_group()
    if rank == 0:
        work = dist.irecv(torch.ones(N), src=1, group=group)
        threading.Timer(0.2, tutti_torch.backend_of(group).abort).start()
        with raises(dist.DistBackendError, "abort"):
            work.wait()
    else:
        with raises(dist.DistBackendError, "abort", "rank 0"):
            dist.all_reduce(torch.ones(N), group=group)
    dist.barrier()
    dist.destroy_process_group(group)
    dist.barrier()


def tags(rank, size):
    if rank == 0:
        works = [dist.isend(torch.full((4,), float(tag)), dst=1, tag=tag) for tag in (3, 1, 2)]
    else:
        got = {tag: torch.zeros(4) for tag in (1, 2, 3)}
        works = [dist.irecv(got[tag], src=0, tag=tag) for tag in (1, 2, 3)]
    for work in works:
        work.wait()
    for tag in (1, 2, 3) if rank == 1 else ():
        same(got[tag], torch.full((4,), float(tag)))
    other = 1 - rank
    ops, t = [], torch.zeros(5)
    ops = [dist.P2POp(dist.isend, torch.full((5,), rank + 1.0), other), dist.P2POp(dist.irecv, t, other)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(t, torch.full((5,), other + 1.0))
    if rank == 0:
        expect(dist.recv(t) == 1)
    else:
        dist.send(torch.full((5,), 9.0), dst=0)


def profiled(rank, size):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        dist.all_reduce(torch.ones(N))
        dist.all_reduce(torch.ones(N), async_op=True).wait()
    names = [e.name for e in prof.events()]
    expect(names.count("tutti:all_reduce") == 2, [n for n in names if "tutti" in n])


def python_store(rank, size, place):
    """A store written in Python, without clone()."""
    class Own(dist.Store):
        def __init__(self):
            super().__init__()
            self.inner = dist.FileStore(place, size)

        def set(self, key, value): self.inner.set(key, value)
        def get(self, key): return self.inner.get(key)
        def add(self, key, n): return self.inner.add(key, n)
        def check(self, keys): return self.inner.check(keys)
        def delete_key(self, key): return self.inner.delete_key(key)
        def compare_set(self, key, a, b): return self.inner.compare_set(key, a, b)
        def wait(self, keys, *timeout): return self.inner.wait(keys, *timeout)

    join("", rank, size, store=Own())
    t = torch.ones(3)
    dist.all_reduce(t)
    expect(t[0].item() == size)


def after_exception(rank, size):
    """A coalescing block that is left by an exception does not spoil the next."""
    with raises(ZeroDivisionError):
        with dist._coalescing_manager():
            dist.all_reduce(torch.ones(3))
            raise ZeroDivisionError
    dist.distributed_c10d._world.pg_coalesce_state.clear()
    t = torch.ones(3)
    with dist._coalescing_manager():
        dist.all_reduce(t)
    expect(t[0].item() == size, t)


class Groups(unittest.TestCase):
    def test_names(self):
        for name in ("tutti", "cpu:tutti"):
            with self.subTest(name=name):
                run(2, serves, name, group={"backend": name})

    def test_as_gloo(self):
        with scratch() as folder:
            run(2, as_gloo, folder + "/store", group=False)

    def test_with_options(self): run(2, with_options)
    def test_with_plain_options(self): run(2, with_plain_options)
    def test_numbers(self): run(2, numbers)
    def test_split(self): run(4, split)
    def test_time_outs(self): run(2, time_outs)
    def test_aborted(self): run(2, aborted)
    def test_tags(self): run(2, tags)
    def test_profiled(self): run(2, profiled)

    def test_python_store(self):
        with scratch() as folder:
            run(2, python_store, folder + "/own", group=False)

    def test_after_exception(self): run(2, after_exception)


if __name__ == "__main__":
    unittest.main()
