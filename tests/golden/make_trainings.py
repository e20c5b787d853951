#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/golden/trainings/*.json: whole trainings of 20 steps, run by PyTorch.

float32, one thread, deterministic algorithms. Weights and data come from hashdata.py
and are not stored; README.md describes the fields. Each training is run a second time
in float64: how far the two differ is stored as "drift", to show that the tolerance
leaves room for another order of summation.

    scripts/torch-venv >/dev/null && build/torch-venv/bin/python tests/golden/make_trainings.py
"""

import json
import math
import pathlib
import sys

import torch
from torch import nn

import hashdata
import models

STEPS = 20
BATCHES = 4
SAMPLES = 16
TOLERANCE = 1e-4


def real(name, *shape):
    return {"name": name, "shape": list(shape), "dtype": "float32", "scale": 1.0}


def index(name, modulo, *shape):
    return {"name": name, "shape": list(shape), "dtype": "int64", "modulo": modulo}


IMAGES = [real("x", 8, 3, 16, 16), index("y", 10, 8)]
SEQUENCES = [real("x", 6, 9, 6), index("y", 4, 6)]
TOKENS = [real("x", 5, 7, 6), index("y", 5, 5)]
SGD = {"kind": "sgd", "lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4}

TRAININGS = [
    {
        "name": "mlp_adam",
        "model": models.Mlp,
        "inputs": [real("x", 16, 20), index("y", 5, 16)],
        "optimizer": {"kind": "adam", "lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8},
    },
    {
        "name": "cnn_sgd_momentum",
        "model": models.Cnn,
        "inputs": IMAGES,
        "optimizer": {**SGD, "dampening": 0.0, "nesterov": False},
    },
    {
        "name": "cnn_sgd_nesterov",
        "model": models.Cnn,
        "inputs": IMAGES,
        "optimizer": {**SGD, "dampening": 0.0, "nesterov": True},
    },
    {
        "name": "resnet18_sgd",
        "model": models.ResNet18,
        "inputs": [real("x", 4, 3, 32, 32), index("y", 10, 4)],
        "optimizer": {"kind": "sgd", "lr": 3e-4, "momentum": 0.9, "weight_decay": 1e-4},
        # batch norm over four samples amplifies rounding; weak residual branches damp it
        "gain": 6,
        "small_branches": True,
    },
    {
        "name": "gpt2_adamw",
        "model": models.Gpt2,
        "config": {"vocab": 128, "context": 32, "width": 64, "heads": 4, "layers": 2},
        "inputs": [index("tokens", 128, 4, 33)],
        "optimizer": {
            "kind": "adamw",
            "lr": 1e-3,
            "betas": [0.9, 0.95],
            "eps": 1e-5,  # the key bias has no gradient but rounding noise
            "weight_decay": 0.1,
        },
    },
    {
        "name": "lstm_rmsprop",
        "model": lambda: models.Recurrent(nn.LSTM),
        "config": {"input": 6, "hidden": 12, "layers": 2, "batch_first": True},
        "inputs": SEQUENCES,
        "optimizer": {"kind": "rmsprop", "lr": 6e-3, "alpha": 0.99, "eps": 1e-6},
    },
    {
        "name": "gru_adam_amsgrad",
        "model": lambda: models.Recurrent(nn.GRU),
        "config": {"input": 6, "hidden": 12, "layers": 2, "batch_first": True},
        "inputs": SEQUENCES,
        "optimizer": {
            "kind": "adam",
            "lr": 5e-3,
            "betas": [0.9, 0.999],
            "eps": 1e-6,
            "weight_decay": 0.01,
            "amsgrad": True,
        },
    },
    {
        "name": "embedding_bag_adagrad",
        "model": models.Bag,
        "config": {"rows": 40, "width": 8, "mode": "mean", "offsets": [0, 3, 4, 8, 10]},
        "inputs": [index("words", 40, 14), index("y", 3, 5)],
        "optimizer": {"kind": "adagrad", "lr": 0.05, "eps": 1e-10},
    },
    {
        "name": "encoder_postnorm_sgd_clip",
        "model": lambda: models.Encoder(False),
        "config": {"norm_first": False, "width": 16, "heads": 4, "feedforward": 32, "layers": 2},
        "inputs": TOKENS,
        "optimizer": {"kind": "sgd", "lr": 0.2, "momentum": 0.0},
        "clip_grad_norm": 0.5,
    },
    {
        "name": "encoder_prenorm_sgd_clip",
        "model": lambda: models.Encoder(True),
        "config": {"norm_first": True, "width": 16, "heads": 4, "feedforward": 32, "layers": 2},
        "inputs": TOKENS,
        "optimizer": {"kind": "sgd", "lr": 0.2, "momentum": 0.0},
        "clip_grad_norm": 0.5,
    },
    {
        "name": "autoencoder_adamw_cosine",
        "model": models.Autoencoder,
        "inputs": [real("x", 4, 3, 16, 16)],
        "optimizer": {
            "kind": "adamw",
            "lr": 4e-3,
            "betas": [0.9, 0.999],
            "eps": 1e-6,
            "weight_decay": 0.01,
        },
        "schedule": {"kind": "warmup_cosine", "warmup": 5, "total": 20, "floor": 0.1},
    },
]

OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}


def fill_rule(spec, name, param):
    """Scale and shift of one parameter: norm weights near one, the rest by fan-in."""
    if param.dim() == 1:
        if not name.endswith("weight"):
            return 0.0625, 0.0
        if spec.get("small_branches") and ".bn2." in name:
            return 0.015625, 0.125
        return 0.125, 1.0
    if any(part in name for part in ("wte", "wpe", "bag.")):
        return 0.25, 0.0
    transposed = any(part in name for part in ("c_attn", "c_proj", "c_fc"))
    fan_in = param.shape[0] if transposed else param[0].numel()
    return float(torch.tensor(math.sqrt(spec.get("gain", 1) / fan_in), dtype=torch.float32)), 0.0


def factor(schedule, step):
    """What the learning rate is multiplied by in step 0, 1, ..."""
    if schedule is None:
        return 1.0
    warmup, total, floor = schedule["warmup"], schedule["total"], schedule["floor"]
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / (total - warmup)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


def build(spec, dtype):
    model = spec["model"]()
    fills = []
    with torch.no_grad():
        for name, param in model.named_parameters():
            scale, shift = fill_rule(spec, name, param)
            value = hashdata.uniform(f"{spec['name']}/{name}", tuple(param.shape), scale, shift)
            param.copy_(torch.from_numpy(value))
            fills.append({"name": name, "shape": list(param.shape), "scale": scale, "shift": shift})
    return model.to(dtype), fills


def make_batch(spec, number, dtype):
    batch = {}
    for entry in spec["inputs"]:
        key = f"{spec['name']}/{entry['name']}/{number}"
        if "modulo" in entry:
            value = torch.from_numpy(hashdata.integers(key, entry["shape"], entry["modulo"]))
        else:
            value = torch.from_numpy(hashdata.uniform(key, entry["shape"], entry["scale"])).to(
                dtype
            )
        batch[entry["name"]] = value
    return batch


def train(spec, dtype):
    """Run the steps; the losses, the model, how its parameters were filled, the rates."""
    model, fills = build(spec, dtype)
    options = {k: v for k, v in spec["optimizer"].items() if k != "kind"}
    optimizer = OPTIMIZERS[spec["optimizer"]["kind"]](model.parameters(), **options)
    losses, rates = [], []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = options["lr"] * factor(spec.get("schedule"), step)
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss = model.loss(make_batch(spec, step % BATCHES, dtype))
        loss.backward()
        if "clip_grad_norm" in spec:
            nn.utils.clip_grad_norm_(model.parameters(), spec["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.item())
    return losses, model, fills, rates


def named_state(model):
    """Parameters, then floating-point buffers, then counters."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def summary(spec, name, tensor):
    """Sum, norm and sampled elements of one tensor at the end."""
    flat = tensor.detach().double().flatten()
    hashes = hashdata.hashes(f"{spec['name']}/sample/{name}", SAMPLES)
    positions = [int(h) % flat.numel() for h in hashes]
    return {
        "name": name,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sum": float(flat.sum()),
        "norm": float(flat.norm()),
        "positions": positions,
        "values": [float(flat[p]) for p in positions],
    }


def drift(losses, wide_losses, model, wide_model):
    """The largest differences to the float64 run, in the units of the check."""
    worst_loss = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(losses, wide_losses))
    worst, where = 0.0, ""
    for (name, a), (_, b) in zip(named_state(model), named_state(wide_model)):
        b = b.detach().double()
        rms = float(b.norm()) / math.sqrt(b.numel())
        gap = float((a.detach().double() - b).abs().div(b.abs().clamp(min=rms)).max()) if rms else 0
        if gap > worst:
            worst, where = gap, name
    return {"loss": worst_loss, "state": worst, "state_name": where}


def record(spec):
    losses, model, fills, rates = train(spec, torch.float32)
    wide_losses, wide_model, _, _ = train(spec, torch.float64)
    result = {
        "format": "tutti-training-1",
        "name": spec["name"],
        "torch": torch.__version__.split("+")[0],
        "steps": STEPS,
        "batches": BATCHES,
        "tolerance": TOLERANCE,
        "config": spec.get("config", {}),
        "optimizer": spec["optimizer"],
        "schedule": spec.get("schedule"),
        "clip_grad_norm": spec.get("clip_grad_norm"),
        "inputs": spec["inputs"],
        "parameters": fills,
        "learning_rates": rates,
        "losses": losses,
        "final": [summary(spec, name, t) for name, t in named_state(model)],
        "drift": drift(losses, wide_losses, model, wide_model),
    }
    return result


def dump(result):
    """JSON with one line per list entry, so that changes can be read in a diff."""
    lines = []
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    torch.set_num_threads(1)
    torch.sparse.check_sparse_tensor_invariants.enable()
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(__file__).resolve().parent / "trainings"
    folder.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    for spec in TRAININGS:
        if wanted and spec["name"] not in wanted:
            continue
        result = record(spec)
        path = folder / f"{spec['name']}.json"
        path.write_text(dump(result))
        d = result["drift"]
        print(
            f"{spec['name']}: loss {result['losses'][0]:.4f} -> {result['losses'][-1]:.4f}, "
            f"drift {d['loss']:.1e} {d['state']:.1e} ({d['state_name']}), "
            f"{path.stat().st_size} bytes"
        )


if __name__ == "__main__":
    main()
