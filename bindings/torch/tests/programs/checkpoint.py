# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint: save, load, go on; also with another number of ranks."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import harness
import models

RUNS = ((2, 2), (4, 2, 3), (2, 4))


def steps(rank, model, optimizer, first, n):
    losses = []
    for step in range(first, first + n):
        tokens, targets = models.text(4, rank.data(step))  # the same on all ranks
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)


def program(rank):
    model = models.GPT()
    model.head.weight = torch.nn.Parameter(model.words.weight.detach().clone())
    for block in model.blocks:
        fully_shard(block, mesh=init_device_mesh("cpu", (rank.size,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (rank.size,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    done = max([int(name) for name in os.listdir(rank.folder)], default=0)
    dist.barrier()  # all have looked before one writes
    path = os.path.join(rank.folder, str(done))
    if done > 0:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "done": torch.zeros(())}
        dcp.load(state, checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        assert int(state["done"]) == done
    rank.say(f"{rank.size} ranks go on after step {done}")
    steps(rank, model, optimizer, done, 4)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "done": torch.tensor(done + 4.0)}
    path = os.path.join(rank.folder, str(done + 4))
    if done == 0:
        dcp.save(state, checkpoint_id=path)
    else:
        dcp.async_save(state, checkpoint_id=path).result()
    dist.barrier()
    rank.say(f"{len(os.listdir(path))} files")


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
