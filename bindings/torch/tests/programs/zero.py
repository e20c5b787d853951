# SPDX-License-Identifier: Apache-2.0
"""ZeroRedundancyOptimizer: each rank keeps the state of its part of the parameters and broadcasts them."""

import io
import sys

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import harness
import models


def program(rank):
    model = DistributedDataParallel(models.GPT())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=3e-3)
    losses = []
    for step in range(8):
        tokens, targets = models.text(4, rank.data(step, rank.rank))
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)
    optimizer.consolidate_state_dict(to=0)
    if rank.rank == 0:
        state = optimizer.state_dict()
        torch.save(state, io.BytesIO())
        total = sum(s["exp_avg"].abs().sum().item() for s in state["state"].values())
        rank.say(f"state of {len(state['state'])} parameters, {total:.5f}")


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
