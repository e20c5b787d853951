# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel of ResNet-18: buffers are broadcast, also with synchronised batch norm."""

import sys

import torch
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import harness
import models


def train(rank, model, n_steps):
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for step in range(n_steps):
        pictures, labels = models.images(4, rank.data(step, rank.rank))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    rank.say_losses(losses)
    mean = next(b for name, b in model.module.named_buffers() if name.endswith("running_mean"))
    rank.say(f"running mean {mean.sum().item():.6f}")


def program(rank):
    train(rank, models.resnet18(width=16), 5)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
