#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank of Gloo, through PyTorch: measures what `tutti bench` measures, by the same method.

usage: gloo_coll.py RANK SIZE STORE_FILE

Reads lines "OP in|out BUDGET_MS LIMIT_S SIZE..." from standard input, all ranks the same; rank 0 answers each with a
line per size (size, median, 99th percentile and least time in us, wrong, repetitions) and "done". Between
lines it waits in read(), without using a core. float32 sums.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist

PERIOD, BATCH_BYTES, MAX_BATCH, MIN_REPS, MAX_REPS, WARM_UP = 1021, 256 << 10, 64, 3, 2000, 5
IN_PARTS = ("reduce_scatter", "all_to_all")
OUT_PARTS = ("all_gather", "all_to_all")


def blocks_of(size):
    """As in mpi_coll.c; the last is the sum."""
    i = torch.arange(PERIOD, dtype=torch.int64)
    blocks = []
    for r in range(size):
        h = (i * 2654435761 + r * 40503) & 0xFFFFFFFF
        h = ((h ^ (h >> 15)) * 2246822519) & 0xFFFFFFFF
        blocks.append((1 + (h ^ (h >> 13)) % 3).float())
    return blocks + [torch.stack(blocks).sum(0)]


class Case:
    def __init__(self, op, in_place, nbytes, rank, size):
        self.op, self.rank, self.size = op, rank, size
        parts = size if op in IN_PARTS + OUT_PARTS else 1
        self.part = 0 if op == "barrier" else max(1, nbytes // 4 // parts)
        n_in = self.part * (size if op in IN_PARTS else 1)
        n_out = self.part * (size if op in OUT_PARTS else 1)
        actual = self.part * parts * 4
        self.batch = min(MAX_BATCH, max(1, BATCH_BYTES // actual)) if actual else MAX_BATCH
        # Gloo's all_reduce knows no other way.
        same = op in ("broadcast", "reduce", "all_reduce")
        self.out = [torch.empty(n_out) for _ in range(self.batch)]
        self.ins = self.out if same else [torch.empty(n_in) for _ in range(self.batch)]
        if op == "all_gather" and in_place:
            self.ins = [o[rank * self.part:(rank + 1) * self.part] for o in self.out]
        self.wrong = 0

    def row(self, n, block, start):
        """n elements from `start` on of the endless row that a block makes."""
        start %= PERIOD
        return torch.cat((block[start:], block[:start])).repeat((n + PERIOD - 1) // PERIOD)[:n]

    def expected(self, start):
        op, rank, part = self.op, self.rank, self.part
        if op == "all_reduce" or (op == "reduce" and rank == 0):
            return self.row(part, BLOCKS[-1], start)
        if op == "reduce_scatter":
            return self.row(part, BLOCKS[-1], start + rank * part)
        if op == "broadcast":
            return self.row(part, BLOCKS[0], start)
        if op == "sendrecv" and rank ^ 1 < self.size:
            return self.row(part, BLOCKS[rank ^ 1], start)
        if op == "exchange":
            return self.row(part, BLOCKS[rank - 1 if rank else self.size - 1], start)
        if op in OUT_PARTS:
            start += rank * part if op == "all_to_all" else 0
            return torch.cat([self.row(part, BLOCKS[r], start) for r in range(self.size)])
        return None

    def call(self, i):
        op, t, out, rank, size = self.op, self.ins[i], self.out[i], self.rank, self.size
        if op == "all_reduce":
            dist.all_reduce(t)
        elif op == "all_gather":
            dist.all_gather_into_tensor(out, t)
        elif op == "reduce_scatter":
            dist.reduce_scatter_tensor(out, t)
        elif op == "all_to_all":
            dist.all_to_all_single(out, t)
        elif op == "broadcast":
            dist.broadcast(t, 0)
        elif op == "reduce":
            dist.reduce(t, 0)
        elif op == "barrier":
            dist.barrier()
        elif op == "sendrecv":
            other = rank ^ 1
            if rank < other < size:
                dist.send(t, other)
                dist.recv(out, other)
            elif other < rank:
                dist.recv(out, other)
                dist.send(t, other)
        elif op == "exchange":
            both = [dist.P2POp(dist.isend, t, (rank + 1) % size),
                    dist.P2POp(dist.irecv, out, (rank - 1) % size)]
            for work in dist.batch_isend_irecv(both):
                work.wait()
        else:
            sys.exit(f"gloo_coll: no operation {op}")

    def repeat(self, rep):
        for i in range(self.batch):
            if self.part:
                self.ins[i].copy_(self.row(self.ins[i].numel(), BLOCKS[self.rank], rep * 131 + i * 17))
        dist.barrier()
        start = time.perf_counter()
        for i in range(self.batch):
            self.call(i)
        us = (time.perf_counter() - start) * 1e6 / self.batch
        for i in range(self.batch):
            want = self.expected(rep * 131 + i * 17)
            if want is not None and not torch.equal(want, self.out[i]):
                self.wrong += int((want != self.out[i]).sum())
        return us / 2 if self.op == "sendrecv" else us


def agree(numbers, op):
    t = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(t, op)
    return t.tolist()


def best_of(case, n, left):
    """The best of some repetitions, none more once the time is over; the same on all ranks."""
    best, rep = float("inf"), 0
    while rep == 0 or (rep < n and left > 0):
        us = agree([case.repeat(rep)], dist.ReduceOp.MAX)[0]
        left -= us * case.batch
        best = min(best, us)
        rep += 1
    return best


def measure(case, nbytes, budget_us):
    batch, case.batch = case.batch, 1
    best = best_of(case, 3, budget_us)
    case.batch = max(1, min(batch, int(budget_us / 4 / best)))
    if best < budget_us:
        best = best_of(case, WARM_UP, budget_us / 2)
    reps = int(min(MAX_REPS, max(MIN_REPS, budget_us / (best * case.batch))))
    case.wrong = 0
    times = sorted(agree([case.repeat(i + 1) for i in range(reps)], dist.ReduceOp.MAX))
    wrong = agree([case.wrong], dist.ReduceOp.SUM)[0]
    median = (times[(reps - 1) // 2] + times[reps // 2]) / 2
    return nbytes, median, times[(99 * reps + 99) // 100 - 1], times[0], int(wrong), reps


def main():
    global BLOCKS
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=300))
    BLOCKS = blocks_of(size)
    dist.barrier()
    if rank == 0:
        print("ready", flush=True)
    for line in sys.stdin:
        op, form, budget, limit, *sizes = line.split()
        start = time.monotonic()
        for nbytes in (int(s) for s in sizes):
            if agree([time.monotonic() - start], dist.ReduceOp.MAX)[0] > float(limit):
                break
            row = measure(Case(op, form == "in", nbytes, rank, size), nbytes, float(budget) * 1e3)
            if rank == 0:
                print("%d\t%.4f\t%.4f\t%.4f\t%d\t%d" % row, flush=True)
        if rank == 0:
            print("done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
