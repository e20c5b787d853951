# SPDX-License-Identifier: Apache-2.0
"""Pipeline parallel (`torch.distributed.pipelining`): a stage per rank, three schedules."""

import sys

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

import harness

WIDTH, BATCH, PARTS = 24, 8, 4


def stage(rank, number, total):
    torch.manual_seed(rank.seed + number)
    part = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    return PipelineStage(part, number, total, torch.device("cpu")), part


def train(rank, schedule, numbers, total):
    stages, parts = zip(*(stage(rank, n, total) for n in numbers))
    loss_of = lambda out, y: (out - y).pow(2).mean()
    many = issubclass(schedule, ScheduleInterleaved1F1B)
    pipe = schedule(list(stages) if many else stages[0], PARTS, loss_fn=loss_of)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.3)
    means = []
    for step in range(5):
        x = torch.randn(BATCH, WIDTH, generator=rank.data(step))
        optimizer.zero_grad()
        losses = []
        if total - 1 in numbers:
            pipe.step(*([x] if 0 in numbers else []), target=x.cos(), losses=losses)
        else:
            pipe.step(*([x] if 0 in numbers else []))
        optimizer.step()
        means.append(torch.stack(losses).mean().item() if losses else 0.0)
    rank.say_losses(means)


def program(rank):
    train(rank, ScheduleGPipe, [rank.rank], rank.size)
    train(rank, Schedule1F1B, [rank.rank], rank.size)
    train(rank, ScheduleInterleaved1F1B, [rank.rank, rank.rank + rank.size], 2 * rank.size)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])
