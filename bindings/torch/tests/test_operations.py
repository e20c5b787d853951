# SPDX-License-Identifier: Apache-2.0
"""Every collective, waited for at once and later, against values computed here."""

import unittest

import torch
import torch.distributed as dist

from ranks import close, expect, run, same

SIZES = (1, 2, 3, 4)


def source(rank, n=5, dtype=torch.float32):
    return (torch.arange(n) * 3 + rank * 7 + 1).to(dtype)


def all_reduce(rank, size):
    want = sum(source(r) for r in range(size))
    for is_async in (False, True):
        t = source(rank)
        work = dist.all_reduce(t, async_op=is_async)
        if is_async:
            work.wait()
            expect(work.is_completed() and work.is_success())
            same(work.result()[0], want)
        same(t, want, "all_reduce")


def every_reduction(rank, size):
    each = torch.stack([source(r, dtype=torch.int64) for r in range(size)])
    bits = each[0].clone()
    ands, xors = bits.clone(), torch.zeros_like(bits)
    for r in range(size):
        bits, ands, xors = bits | each[r], ands & each[r], xors ^ each[r]
    wants = {dist.ReduceOp.SUM: each.sum(0), dist.ReduceOp.PRODUCT: each.prod(0),
             dist.ReduceOp.MIN: each.min(0).values, dist.ReduceOp.MAX: each.max(0).values,
             dist.ReduceOp.BOR: bits, dist.ReduceOp.BAND: ands, dist.ReduceOp.BXOR: xors}
    for op, want in wants.items():
        t = each[rank].clone()
        dist.all_reduce(t, op=op)
        same(t, want, op)
        t = each[rank].clone()
        dist.reduce(t, dst=size - 1, op=op)
        if rank == size - 1:
            same(t, want, "reduce", op)
    t = source(rank)
    dist.all_reduce(t, op=dist.ReduceOp.AVG)
    close(t, each.float().mean(0))
    t = source(rank)
    dist.all_reduce(t, op=dist._make_nccl_premul_sum(0.5))
    close(t, each.float().sum(0) * 0.5)


def broadcast_reduce(rank, size):
    for root in range(size):
        for is_async in (False, True):
            t = source(rank)
            work = dist.broadcast(t, src=root, async_op=is_async)
            if is_async:
                work.wait()
            same(t, source(root), "broadcast")
            t = source(rank)
            work = dist.reduce(t, dst=root, async_op=is_async)
            if is_async:
                work.wait()
            if rank == root:
                same(t, sum(source(r) for r in range(size)), "reduce")


def gathers(rank, size):
    wants = [source(r) for r in range(size)]
    for is_async in (False, True):
        outs = [torch.zeros(5) for _ in range(size)]
        flat = torch.zeros(size * 5)
        stacked = torch.zeros(size, 5)
        works = [dist.all_gather(outs, source(rank), async_op=is_async),
                 dist.all_gather_into_tensor(flat, source(rank), async_op=is_async),
                 dist.all_gather_into_tensor(stacked, source(rank), async_op=is_async)]
        for work in works if is_async else ():
            work.wait()
        for r in range(size):
            same(outs[r], wants[r], "all_gather")
        same(flat, torch.cat(wants))
        same(stacked, torch.stack(wants))
        for root in range(size):
            outs = [torch.zeros(5) for _ in range(size)] if rank == root else None
            work = dist.gather(source(rank), outs, dst=root, async_op=is_async)
            if is_async:
                work.wait()
            for r in range(size if rank == root else 0):
                same(outs[r], wants[r], "gather")
            out = torch.zeros(5)
            ins = [source(r) + root for r in range(size)] if rank == root else None
            work = dist.scatter(out, ins, src=root, async_op=is_async)
            if is_async:
                work.wait()
            same(out, source(rank) + root, "scatter")


def reduce_scatters(rank, size):
    # part(r, k): what rank r has for rank k
    def part(r, k):
        return source(r, n=4) + 100 * k

    want = sum(part(r, rank) for r in range(size))
    for is_async in (False, True):
        out, flat, stacked = torch.zeros(4), torch.zeros(4), torch.zeros(4)
        ins = [part(rank, k) for k in range(size)]
        works = [dist.reduce_scatter(out, ins, async_op=is_async),
                 dist.reduce_scatter_tensor(flat, torch.cat(ins), async_op=is_async),
                 dist.reduce_scatter_tensor(stacked, torch.stack(ins), async_op=is_async)]
        for work in works if is_async else ():
            work.wait()
        for got in (out, flat, stacked):
            same(got, want, "reduce_scatter")
    out = torch.zeros(4)
    dist.reduce_scatter_tensor(out, torch.cat(ins), op=dist.ReduceOp.AVG)
    close(out, want / size)


def all_to_alls(rank, size):
    for is_async in (False, True):
        ins = [torch.full((k + 1,), rank * 10.0 + k) for k in range(size)]  # k + 1 elements for rank k
        outs = [torch.zeros(rank + 1) for _ in range(size)]
        work = dist.all_to_all(outs, ins, async_op=is_async)
        if is_async:
            work.wait()
        for r in range(size):
            same(outs[r], torch.full((rank + 1,), r * 10.0 + rank), "all_to_all")
        out = torch.zeros(2 * size)
        work = dist.all_to_all_single(out, torch.arange(2.0 * size) + 100 * rank, async_op=is_async)
        if is_async:
            work.wait()
        same(out, torch.cat([torch.arange(2.0) + 2 * rank + 100 * r for r in range(size)]), "equal")
        # unequal: rank r sends (k + r) % size rows of 3 to rank k
        counts = [(k + rank) % size for k in range(size)]
        expected = [(rank + r) % size for r in range(size)]
        send = torch.cat([torch.full((c, 3), rank * 10.0 + k) for k, c in enumerate(counts)])
        got = torch.zeros(sum(expected), 3)
        work = dist.all_to_all_single(got, send, expected, counts, async_op=is_async)
        if is_async:
            work.wait()
        same(got, torch.cat([torch.full((c, 3), r * 10.0 + rank) for r, c in enumerate(expected)]), "unequal")


def unequal_sizes(rank, size):
    outs = [torch.zeros(r + 1, 2) for r in range(size)]
    dist.all_gather(outs, torch.full((rank + 1, 2), float(rank)))
    for r in range(size):
        same(outs[r], torch.full((r + 1, 2), float(r)), "all_gather of unequal sizes")
    out = torch.zeros(rank + 1)
    dist.reduce_scatter(out, [torch.full((k + 1,), rank + k * 10.0) for k in range(size)])
    same(out, torch.full((rank + 1,), sum(range(size)) + size * rank * 10.0), "reduce_scatter of unequal sizes")


def sparse(rank, size):
    def one(r):
        i = torch.tensor([[r, r + 1, 0], [0, 1, 2]])
        return torch.sparse_coo_tensor(i, torch.tensor([1.0 + r, 2.0, 3.0]), (size + 1, 3))

    want = sum(one(r).to_dense() for r in range(size))
    for is_async in (False, True):
        t = one(rank)
        work = dist.all_reduce(t, async_op=is_async)
        if is_async:
            work.wait()
        same(t.to_dense(), want, "sparse")
    t = torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), (size + 1, 3))
    dist.all_reduce(t)
    same(t.to_dense(), torch.zeros(size + 1, 3), "empty")


def coalesced(rank, size):
    ts = [source(rank), source(rank, n=7) * 2]
    dist.all_reduce_coalesced(ts)
    same(ts[0], sum(source(r) for r in range(size)))
    same(ts[1], sum(source(r, n=7) * 2 for r in range(size)))
    outs = [[torch.zeros(5), torch.zeros(2, 2)] for _ in range(size)]
    dist.all_gather_coalesced(outs, [source(rank), torch.full((2, 2), float(rank))])
    for r in range(size):
        same(outs[r][0], source(r))
        same(outs[r][1], torch.full((2, 2), float(r)))


def manager(rank, size):
    for is_async in (False, True):
        a, b = source(rank), source(rank, n=9)
        with dist._coalescing_manager(async_ops=is_async) as cm:
            dist.all_reduce(a)
            dist.all_reduce(b)
        if is_async:
            cm.wait()
        same(a, sum(source(r) for r in range(size)))
        same(b, sum(source(r, n=9) for r in range(size)))
        outs = [torch.zeros(5 * size), torch.zeros(2 * size)]
        with dist._coalescing_manager(async_ops=is_async) as cm:
            dist.all_gather_into_tensor(outs[0], source(rank))
            dist.all_gather_into_tensor(outs[1], source(rank, n=2))
        if is_async:
            cm.wait()
        same(outs[0], torch.cat([source(r) for r in range(size)]))
        same(outs[1], torch.cat([source(r, n=2) for r in range(size)]))
        mine = [torch.zeros(2), torch.zeros(3)]
        with dist._coalescing_manager(async_ops=is_async) as cm:
            dist.reduce_scatter_tensor(mine[0], source(rank, n=2 * size))
            dist.reduce_scatter_tensor(mine[1], source(rank, n=3 * size))
        if is_async:
            cm.wait()
        total = sum(source(r, n=2 * size) for r in range(size))
        same(mine[0], total[2 * rank:2 * rank + 2])
        total = sum(source(r, n=3 * size) for r in range(size))
        same(mine[1], total[3 * rank:3 * rank + 3])


def barriers(rank, size):
    for _ in range(5):
        dist.barrier()
        dist.barrier(async_op=True).wait()
        dist.monitored_barrier()
        dist.monitored_barrier(wait_all_ranks=True)


def objects(rank, size):
    got = [None] * size
    dist.all_gather_object(got, {"rank": rank, "words": "x" * rank})
    expect(got == [{"rank": r, "words": "x" * r} for r in range(size)], got)
    one = [f"from {rank}"]
    dist.broadcast_object_list(one, src=size - 1)
    expect(one == [f"from {size - 1}"], one)
    got = [None] * size if rank == 0 else None
    dist.gather_object((rank, "y"), got, dst=0)
    expect(rank != 0 or got == [(r, "y") for r in range(size)], got)
    mine = [None]
    dist.scatter_object_list(mine, [[r] for r in range(size)] if rank == 0 else None, src=0)
    expect(mine == [[rank]], mine)


class Operations(unittest.TestCase):
    def each_size(self, body, sizes=SIZES):
        for size in sizes:
            with self.subTest(size=size):
                run(size, body)

    def test_all_reduce(self): self.each_size(all_reduce)
    def test_every_reduction(self): self.each_size(every_reduction, (2, 3))
    def test_broadcast_reduce(self): self.each_size(broadcast_reduce)
    def test_gathers(self): self.each_size(gathers)
    def test_reduce_scatters(self): self.each_size(reduce_scatters)
    def test_all_to_alls(self): self.each_size(all_to_alls)
    def test_unequal_sizes(self): self.each_size(unequal_sizes, (2, 3))
    def test_sparse(self): self.each_size(sparse, (1, 2, 3))
    def test_coalesced(self): self.each_size(coalesced, (2, 3))
    def test_manager(self): self.each_size(manager, (2, 3))
    def test_barriers(self): self.each_size(barriers)
    def test_objects(self): self.each_size(objects, (2, 3))


if __name__ == "__main__":
    unittest.main()
