# SPDX-License-Identifier: Apache-2.0
"""Tensor parallel (`parallelize_module`), also with sequence parallelism and under data parallel."""

import sys

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

import harness


class Feed(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.gate = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        return self.down(self.up(y) * torch.sigmoid(self.gate(y)))


PLAIN = {"up": ColwiseParallel(), "gate": ColwiseParallel(), "down": RowwiseParallel()}


def sequence():
    return {"norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)), "gate": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1))}


def train(rank, plan, mesh, data_mesh=None):
    torch.manual_seed(rank.seed)
    model = nn.Sequential(Feed(), Feed())
    for part in model:
        parallelize_module(part, mesh, plan)
        if data_mesh is not None:
            fully_shard(part, mesh=data_mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    replica = 0 if data_mesh is None else data_mesh.get_local_rank()
    local = plan is not PLAIN
    losses = []
    for step in range(6):
        x = torch.randn(3, 8, 32, generator=rank.data(step, replica))
        y = torch.sin(x)
        if local:  # each rank has its part of the sequence
            part = 8 // mesh.size()
            x, y = (t[:, mesh.get_local_rank() * part:][:, :part].contiguous() for t in (x, y))
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).sum() / 256
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)


def program(rank):
    mesh = init_device_mesh("cpu", (rank.size,))
    train(rank, PLAIN, mesh)
    train(rank, sequence(), mesh)
    if rank.size == 4:
        both = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        train(rank, PLAIN, both["model"], both["data"])


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
