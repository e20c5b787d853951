# SPDX-License-Identifier: Apache-2.0
"""FSDP2 (`fully_shard`) of a small GPT on CPUs: parameters are gathered, gradients reduced and scattered."""

import sys

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

import harness
import models


def train(rank, n_steps, **options):
    torch.manual_seed(rank.seed)
    model = models.GPT()
    model.head.weight = torch.nn.Parameter(model.words.weight.detach().clone())
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(n_steps):
        tokens, targets = models.text(4, rank.data(step, rank.rank))
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)
    rank.say(f"norm {norm.full_tensor().item():.6f}")


def program(rank):
    train(rank, 8, mesh=init_device_mesh("cpu", (rank.size,)))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    train(rank, 4, mesh=init_device_mesh("cpu", (rank.size,)), mp_policy=half)
    if rank.size == 4:  # replicated twice, sharded twice
        train(rank, 4, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards")))


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
