# SPDX-License-Identifier: Apache-2.0
"""Element types, strides, sizes and the errors for what cannot be done."""

import unittest

import torch
import torch.distributed as dist

from ranks import expect, raises, run, same

NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
           torch.int32, torch.int64, torch.complex64, torch.complex128)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def values(rank, dtype, n=6):
    return (torch.arange(n) % 3 + rank + 1).to(dtype)


def raw(t):
    return t.contiguous().view(torch.uint8)


def moved(rank, size, dtype):
    """Operations that only carry elements, of any type."""
    def check(got, want, op):
        expect(got.dtype == want.dtype and torch.equal(raw(got), raw(want)), op, dtype, got, want)

    mine, wants = values(rank, dtype), [values(r, dtype) for r in range(size)]
    t = mine.clone()
    dist.broadcast(t, src=size - 1)
    check(t, wants[-1], "broadcast")
    outs = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(outs, mine)
    for r in range(size):
        check(outs[r], wants[r], "all_gather")
    flat = torch.empty(size * 6, dtype=dtype)
    if not dtype.is_complex:
        dist.all_gather_into_tensor(flat, mine)
        check(flat, torch.cat([raw(w) for w in wants]).view(dtype), "all_gather_into_tensor")
    outs = [torch.empty_like(mine) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, outs, dst=0)
    for r in range(size if rank == 0 else 0):
        check(outs[r], wants[r], "gather")
    out = torch.empty_like(mine)
    dist.scatter(out, wants if rank == 0 else None, src=0)
    check(out, wants[rank], "scatter")
    outs = [torch.empty_like(mine) for _ in range(size)]
    dist.all_to_all(outs, [mine] * size)
    for r in range(size):
        check(outs[r], wants[r], "all_to_all")
    got = torch.empty_like(mine)
    works = [dist.irecv(got, src=(rank - 1) % size), dist.isend(mine, dst=(rank + 1) % size)]
    for work in works:
        work.wait()
    check(got, wants[(rank - 1) % size], "recv")


def all_moved(rank, size):
    for dtype in NUMBERS + UNSIGNED + FP8 + (torch.bool,):
        moved(rank, size, dtype)


def reduced(rank, size):
    for dtype in NUMBERS:
        t = values(rank, dtype)
        dist.all_reduce(t)
        same(t, sum(values(r, dtype) for r in range(size)), dtype)
    for dtype in UNSIGNED:  # sums as of signed numbers
        t = values(rank, dtype)
        dist.all_reduce(t)
        same(t.to(torch.int64), sum(values(r, torch.int64) for r in range(size)), dtype)
        with raises(RuntimeError, "cannot be reduced"):
            dist.all_reduce(values(rank, dtype), op=dist.ReduceOp.MAX)
    for dtype in FP8:
        for op in (lambda t: dist.all_reduce(t), lambda t: dist.reduce(t, dst=0),
                   lambda t: dist.reduce_scatter(t, [t] * size)):
            with raises(RuntimeError, "cannot be reduced", "loat8"):
                op(values(rank, dtype))
    t = torch.tensor([rank == 0, True, False])
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    same(t, torch.tensor([True, True, False]), "bool max")
    t = torch.tensor([rank == 0, True, False])
    dist.all_reduce(t, op=dist.ReduceOp.MIN)
    same(t, torch.tensor([size == 1, True, False]), "bool min")
    t = torch.tensor([rank == 0, True, False])
    dist.all_reduce(t)
    same(t, torch.tensor([True, True, False]), "bool sum")
    with raises(Exception):
        dist.all_reduce(torch.ones(2, dtype=torch.complex64), op=dist.ReduceOp.MAX)


def strided(rank, size):
    """Non-contiguous inputs and outputs; what lies between their elements stays."""
    base = torch.zeros(6, 8)
    view = base[::2, 1::3]
    view += rank + 1
    dist.all_reduce(view)
    same(view, torch.full((3, 3), float(sum(range(1, size + 1)))))
    expect(base.sum() == view.sum(), "elements between were written")
    t = torch.arange(12.0).view(3, 4).t() + rank
    dist.broadcast(t, src=size - 1)
    same(t, torch.arange(12.0).view(3, 4).t() + size - 1)
    outs = [torch.zeros(4, 6)[:, ::2] for _ in range(size)]
    dist.all_gather(outs, torch.arange(12.0).view(3, 4).t() + rank)
    for r in range(size):
        same(outs[r], torch.arange(12.0).view(3, 4).t() + r)
    whole = torch.zeros(2 * size, 3, 2)[:, :, 0]
    dist.all_gather_into_tensor(whole, (torch.arange(6.0).view(3, 2) + rank).t())
    same(whole, torch.cat([(torch.arange(6.0).view(3, 2) + r).t() for r in range(size)]))
    out = torch.zeros(4, 2)[:, 0]
    dist.reduce_scatter(out, [torch.ones(8)[::2] * (rank + 1) for _ in range(size)])
    same(out, torch.full((4,), float(sum(range(1, size + 1)))))
    got = torch.zeros(5, 3)[:, 1]
    works = [dist.irecv(got, src=(rank - 1) % size), dist.isend(torch.full((5, 2), rank + 1.0)[:, 0], (rank + 1) % size)]
    for work in works:
        work.wait()
    same(got, torch.full((5,), (rank - 1) % size + 1.0))
    t = torch.ones(3).expand(4, 3)  # several elements in one place: can be sent
    out = [torch.zeros(4, 3) for _ in range(size)]
    dist.all_gather(out, t * (rank + 1))
    same(out[-1], torch.full((4, 3), float(size)))


def odd_sizes(rank, size):
    for shape in ((0,), (0, 3), (2, 0, 4)):
        t = torch.ones(shape)
        dist.all_reduce(t)
        dist.broadcast(t, src=0)
        outs = [torch.ones(shape) for _ in range(size)]
        dist.all_gather(outs, t)
        dist.all_to_all(outs, [t] * size)
    t = torch.tensor(rank + 1.0)
    dist.all_reduce(t)
    expect(t.shape == () and t.item() == sum(range(1, size + 1)), t)
    outs = [torch.tensor(0.0) for _ in range(size)]
    dist.all_gather(outs, torch.tensor(float(rank)))
    expect([o.item() for o in outs] == [float(r) for r in range(size)])
    flat = torch.zeros(size)
    dist.all_gather_into_tensor(flat, torch.tensor(float(rank)))
    same(flat, torch.arange(float(size)))
    t = torch.full((1, 2) * 5, rank + 1.0)
    dist.all_reduce(t)
    same(t, torch.full((1, 2) * 5, float(sum(range(1, size + 1)))), "10 dimensions")
    out = torch.zeros((size, 2) + (1, 2) * 4)
    dist.all_gather_into_tensor(out, torch.full((1, 2) * 5, float(rank)))
    expect(out[-1].flatten()[0].item() == size - 1)
    big = torch.full((1 << 20,), rank + 1.0)
    dist.all_reduce(big)
    expect(big.min() == big.max() == sum(range(1, size + 1)))


def wrong_input(rank, size):
    """Wrong calls fail on each rank by itself, with words, and the group still works."""
    wrong = [
        (RuntimeError, "one for each rank", lambda: dist.all_gather([torch.ones(3)] * (size + 1), torch.ones(3))),
        (Exception, "type", lambda: dist.all_gather([torch.ones(3)] * size, torch.ones(3).long())),
        (Exception, "", lambda: dist.all_gather_into_tensor(torch.ones(3 * size + 1), torch.ones(3))),
        (Exception, "", lambda: dist.reduce_scatter_tensor(torch.ones(3), torch.ones(3 * size + 1))),
        (RuntimeError, "split", lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1] * (size + 1), None)),
        (Exception, "", lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [9] * size, [9] * size)),
        (Exception, "", lambda: dist.broadcast(torch.ones(3), src=size + 3)),
        (Exception, "", lambda: dist.all_to_all([torch.ones(1)], [torch.ones(1)])),
        (RuntimeError, "equal parts", lambda: dist.all_to_all_single(torch.ones(2 * size + 1), torch.ones(2 * size + 1))),
        (Exception, "resolve_conj", lambda: dist.broadcast(torch.ones(3, dtype=torch.complex64).conj(), src=0)),
        (RuntimeError, "dimensions", lambda: dist.all_reduce(torch.ones((2,) * 10).transpose(0, 9))),
        (Exception, "tag", lambda: dist.send(torch.ones(2), dst=(rank + 1) % size, tag=-3)),
    ]
    for i, (kind, part, call) in enumerate(wrong):
        try:
            with raises(kind, part):
                call()
        except BaseException as e:
            raise AssertionError(f"case {i}: {e!r}") from e
    t = torch.ones(3)
    dist.all_reduce(t)
    expect(t[0].item() == size)


class Types(unittest.TestCase):
    def test_moved(self): run(2, all_moved)
    def test_reduced(self): run(3, reduced)
    def test_strided(self):
        for size in (1, 2, 3):
            run(size, strided)

    def test_odd_sizes(self):
        for size in (1, 2, 3):
            run(size, odd_sizes)

    def test_wrong_input(self): run(2, wrong_input)


if __name__ == "__main__":
    unittest.main()
