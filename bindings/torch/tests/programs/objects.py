# SPDX-License-Identifier: Apache-2.0
"""Python objects between ranks, and a data loader with workers that are forked meanwhile."""

import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import harness

RUNS = ((2,), (3,), (4,))


def load(rank):
    numbers = TensorDataset(torch.arange(50))
    sampler = DistributedSampler(numbers, rank.size, rank.rank, shuffle=True, seed=3)
    seen = []
    for batch, in DataLoader(numbers, 4, sampler=sampler, num_workers=2, multiprocessing_context="fork"):
        total = batch.sum()
        dist.all_reduce(total)
        seen.append(total.item())
    return seen


def program(rank):
    mine = {"rank": rank.rank, "words": ["a" * (rank.rank * 1000 + 1)], "t": torch.full((2,), float(rank.rank))}
    every = [None] * rank.size
    dist.all_gather_object(every, mine)
    rank.say(" ".join(f"{o['rank']}:{len(o['words'][0])}:{o['t'].tolist()}" for o in every))
    some = ["first", {"x": (1, 2)}, None] if rank.rank == 1 else [None] * 3
    dist.broadcast_object_list(some, src=1)
    rank.say(str(some))
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in range(rank.size)] if rank.rank == 0 else None, src=0)
    gathered = [None] * rank.size if rank.rank == 0 else None
    dist.gather_object(out[0], gathered, dst=0)
    rank.say(str(gathered))
    if rank.rank == 1:
        dist.send_object_list(["hello", 5], dst=0)
    elif rank.rank == 0:
        got = [None, None]
        dist.recv_object_list(got, src=1)
        rank.say(str(got))
    rank.say(str(load(rank)))


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
