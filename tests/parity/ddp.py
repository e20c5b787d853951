#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden trainings on ranks: DistributedDataParallel over Gloo against tt_ddp, each rank with its own data.

    tests/parity/ddp.py build/release

PARITY_SEED: which weights and data (default: the clock). ResNet-18 is left out for its time. A training
whose float32 and float64 runs drift apart in PyTorch itself is drawn again.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402

import make_trainings  # noqa: E402
import ours  # noqa: E402
import trainings  # noqa: E402

RANKS = (2, 4)


class Whole(nn.Module):
    """The model with its loss as forward: what DistributedDataParallel wants."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model.loss(batch)


def train(spec, dtype, rank):
    """As make_trainings.train, on one of the ranks."""
    model, fills = make_trainings.build(spec, dtype)
    whole = nn.parallel.DistributedDataParallel(Whole(model))
    options = {k: v for k, v in spec["optimizer"].items() if k != "kind"}
    optimizer = make_trainings.OPTIMIZERS[spec["optimizer"]["kind"]](model.parameters(), **options)
    losses, rates = [], []
    for step in range(make_trainings.STEPS):
        for group in optimizer.param_groups:
            group["lr"] = options["lr"] * make_trainings.factor(spec.get("schedule"), step)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        number = f"{step % make_trainings.BATCHES}/rank{rank}"
        loss = whole(make_trainings.make_batch(spec, number, dtype))
        loss.backward()
        if "clip_grad_norm" in spec:
            nn.utils.clip_grad_norm_(model.parameters(), spec["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.item())
    return losses, model, fills, rates


def record(spec, rank, size):
    """As make_trainings.record; rank 0 gets the whole, the others nothing."""
    losses, model, fills, rates = train(spec, torch.float32, rank)
    wide_losses, wide_model, _, _ = train(spec, torch.float64, rank)
    everyone = [None] * size
    drift = make_trainings.drift(losses, wide_losses, model, wide_model)
    dist.all_gather_object(everyone, (losses, drift["loss"]))
    if rank != 0:
        return None
    return {
        "format": "tutti-training-1", "name": spec["name"], "torch": torch.__version__.split("+")[0],
        "steps": make_trainings.STEPS, "batches": make_trainings.BATCHES,
        "tolerance": make_trainings.TOLERANCE, "config": spec.get("config", {}),
        "optimizer": spec["optimizer"], "schedule": spec.get("schedule"),
        "clip_grad_norm": spec.get("clip_grad_norm"), "inputs": spec["inputs"], "parameters": fills,
        "learning_rates": rates, "losses": losses, "rank_losses": [e[0] for e in everyone],
        "final": [make_trainings.summary(spec, n, t) for n, t in make_trainings.named_state(model)],
        "drift": {**drift, "loss": max(e[1] for e in everyone)},
    }


def write_one(spec, seed, folder, rank, size):
    for attempt in range(trainings.TRIES):
        result = record(trainings.drawn(spec, seed, attempt), rank, size)
        good = [None]
        if rank == 0:
            drift = result["drift"]
            good = [drift["loss"] < trainings.LOSS_DRIFT and drift["state"] < trainings.STATE_DRIFT]
        dist.broadcast_object_list(good)
        if good[0]:
            if rank == 0:
                path = folder / f"{result['name']}@{size}.json"
                path.write_text(make_trainings.dump(result))
            return
    if rank == 0:
        print(f"{spec['name']}: PyTorch drifts in all {trainings.TRIES} draws; left out")


def run_rank(rank, size, seed, folder):
    torch.sparse.check_sparse_tensor_invariants.enable()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet{size}", rank=rank, world_size=size)
    for spec in make_trainings.TRAININGS:
        if not spec["name"].startswith("resnet18"):
            write_one(spec, seed, folder, rank, size)
    dist.destroy_process_group()


def main():
    build, seed, _ = ours.settings(0)
    folder = ours.empty_folder("ddp")
    for size in RANKS:
        mp.start_processes(run_rank, (size, seed, folder), nprocs=size, start_method="fork")
    ours.compare(build, folder)


if __name__ == "__main__":
    main()
