# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel of a small GPT, with gradient accumulation and several buckets."""

import sys

import torch
from torch.nn.parallel import DistributedDataParallel

import harness
import models


def program(rank):
    model = DistributedDataParallel(models.GPT(), bucket_cap_mb=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(12):
        tokens, targets = models.text(4, rank.data(step, rank.rank))
        optimizer.zero_grad()
        if step % 3 == 2:
            with model.no_sync():
                model(tokens, targets).backward()
        loss = model(tokens, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)
    rank.say(f"norm {norm.item():.6f}")


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
