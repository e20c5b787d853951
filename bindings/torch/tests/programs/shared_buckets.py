# SPDX-License-Identifier: Apache-2.0
"""Buckets of DDP and FSDP2 in the memory that the group shares: reduced in place, with the same losses."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

import harness
import models


def is_shared(address):
    """Whether it lies in memory that processes map together."""
    with open("/proc/self/maps") as f:
        for line in f:
            bounds, mode = line.split()[:2]
            low, high = (int(word, 16) for word in bounds.split("-"))
            if low <= address < high:
                return mode[3] == "s"
    return False


def spy(seen):
    """A hook that does what DDP does by itself and keeps where the buckets are, before and after."""
    def hook(_, bucket):
        buffer = bucket.buffer()
        work = dist.all_reduce(buffer.div_(dist.get_world_size()), async_op=True).get_future()
        seen.append((buffer.data_ptr(), buffer.numel()))
        return work.then(lambda future: check_place(future.value()[0], buffer))
    return hook


def check_place(result, buffer):
    assert result.data_ptr() == buffer.data_ptr(), "the bucket was not reduced in place"
    return result


def steps(rank, model, n=6):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(n):
        tokens, targets = models.text(4, rank.data(step, rank.rank))
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)


def program(rank):
    ours, seen = rank.backend == "tutti", []
    model = DistributedDataParallel(models.GPT(), bucket_cap_mb=0.1, gradient_as_bucket_view=True)
    model.register_comm_hook(None, spy(seen))
    steps(rank, model)
    assert len(seen) >= 12, seen
    assert all(is_shared(address) == ours for address, _ in seen), "buckets are in the wrong memory"
    gradients = [p.grad.data_ptr() for p in model.parameters()]
    assert all(is_shared(address) == ours for address in gradients), "gradients are not views of buckets"

    sharded = models.GPT()
    sharded.head.weight = torch.nn.Parameter(sharded.words.weight.detach().clone())
    for block in sharded.blocks:
        fully_shard(block, mesh=init_device_mesh("cpu", (rank.size,)))
    fully_shard(sharded, mesh=init_device_mesh("cpu", (rank.size,)))
    for module in sharded.modules():
        if ours and isinstance(module, FSDPModule):
            module.set_allocate_memory_from_process_group_for_comm(True)
    steps(rank, sharded)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
