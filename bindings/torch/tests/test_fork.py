# SPDX-License-Identifier: Apache-2.0
"""Forked children of a rank are harmless: they cannot use its groups, and their end disturbs nobody."""

import os
import signal
import sys
import traceback
import unittest

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import tutti_torch
from ranks import expect, raises, run, scratch


def forked(body, limit=15):
    """body() in a child, which ends with `limit` in any case; gives its exit status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(limit)
            body()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def child_cannot_use(rank, size):
    dist.all_reduce(torch.ones(3), async_op=True).wait()  # the group has a thread now
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()

    def body():
        for op in (lambda: dist.all_reduce(torch.ones(3)), lambda: dist.all_reduce(torch.ones(3), async_op=True),
                   dist.barrier, lambda: dist.isend(torch.ones(3), dst=(rank + 1) % size)):
            with raises(dist.DistBackendError, "forked"):
                op()

    expect(forked(body) == 0)
    t = torch.ones(3)
    dist.all_reduce(t)
    expect(t[0].item() == size)


def child_destroys(rank, size, how):
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    pending = dist.irecv(torch.ones(3), src=(rank + 1) % size)
    dist.barrier()

    def body():
        if how == "abort":
            tutti_torch.backend_of().abort()
        elif how == "wait":
            with raises(dist.DistBackendError, "forked"):
                pending.wait()
        dist.destroy_process_group()

    for _ in range(3):
        expect(forked(body) == 0)
    for _ in range(10):
        t = torch.ones(3)
        dist.all_reduce(t)
        expect(t[0].item() == size)
    dist.send(torch.ones(3), dst=(rank - 1) % size)
    pending.wait()


def child_has_own_group(rank, size, place):
    """The children of the ranks are ranks of a group of their own."""
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()

    def body():
        dist.destroy_process_group()
        dist.init_process_group("tutti", store=dist.FileStore(place, size), rank=rank, world_size=size)
        out = []
        t = torch.full((4,), rank + 1.0)
        dist.all_reduce(t, async_op=True).get_future().then(lambda f: out.append(f.value()[0].sum())).wait()
        expect(out[0].item() == 4 * sum(range(1, size + 1)), out)
        dist.destroy_process_group()

    expect(forked(body) == 0)
    dist.barrier()


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((4,), float(i))


def loader(rank, size):
    """Data-loader workers come and go while collectives are under way."""
    for _ in range(2):
        total = torch.zeros(4)
        works = []
        for batch in DataLoader(Numbers(), batch_size=8, num_workers=2):
            part = batch.sum(0)
            works.append((dist.all_reduce(part, async_op=True), part))
            dist.barrier()
        for work, part in works:
            work.wait()
            total += part
        expect(total[0].item() == size * sum(range(64)), total)


def forks_while_busy(rank, size):
    works = []
    for i in range(200):
        works.append(dist.all_reduce(torch.ones(1 << 14), async_op=True))
        if i % 50 == 25:
            expect(forked(lambda: None) == 0)
    for work in works:
        work.wait()


class Fork(unittest.TestCase):
    def test_child_cannot_use(self):
        run(2, child_cannot_use)

    def test_child_destroys(self):
        for how in ("", "abort", "wait"):
            with self.subTest(how=how):
                run(2, child_destroys, how)

    def test_child_has_own_group(self):
        with scratch() as folder:
            run(2, child_has_own_group, os.path.join(folder, "children"))

    def test_loader(self):
        run(2, loader)

    def test_forks_while_busy(self):
        run(2, forks_while_busy)


if __name__ == "__main__":
    unittest.main()
