#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read the golden files as README.md describes them and compute everything again.

Shows that the files say what they mean to say, and, run with other kernels or another
version of PyTorch, that the tolerances leave room for a correct implementation:

    ATEN_CPU_CAPABILITY=default build/torch-venv/bin/python tests/golden/verify.py

--no-onednn also turns oneDNN off; its bfloat16 convolution sums in float32, PyTorch's own
does not, and is then reported.
"""

import json
import math
import pathlib
import sys
import warnings

import torch
from safetensors import safe_open

import cases_types
import make_trainings
from casebook import apply_views
from torch_ops import OPS

HERE = pathlib.Path(__file__).resolve().parent


def load(file, key):
    tensor = file.get_tensor(key)
    return torch.view_as_complex(tensor) if key.endswith("#complex") else tensor


def agrees(ours, stored, case, tolerances):
    if ours.dtype != stored.dtype or ours.shape != stored.shape:
        return False
    kind = str(stored.dtype).removeprefix("torch.")
    if kind not in tolerances:
        return torch.equal(ours, stored)
    rtol, atol = tolerances[kind]
    rtol = case.get("rtol", rtol) * case.get("rtol_scale", 1)
    atol = case.get("atol", atol) * case.get("atol_scale", 1)
    return torch.allclose(ours, stored, rtol=rtol, atol=atol, equal_nan=True)


def replay(file, case):
    """The pairs (what, ours, stored) of one case."""
    leaves, views = {}, []
    grads = case.get("grads", [None] * len(case["inputs"]))
    for entry, grad in zip(case["inputs"], grads):
        if entry is None:
            views.append(None)
            continue
        key = entry["key"]
        if key not in leaves:
            leaves[key] = load(file, key).clone().requires_grad_(grad is not None)
        views.append(apply_views(leaves[key], entry.get("view", [])))
    outputs = OPS[case["op"]](views, case["attrs"])
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    yield "number of outputs", torch.tensor(len(outputs)), torch.tensor(len(case["outputs"]))
    for ours, key in zip(outputs, case["outputs"]):
        yield key, ours.detach().resolve_conj(), load(file, key)
    if "grads" in case:
        pairs = [(o, load(file, k)) for o, k in zip(outputs, case["grad_outputs"]) if k]
        torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
    for entry, key in zip(case["inputs"], grads):
        if key:
            grad = leaves[entry["key"]].grad
            stored = load(file, key)
            yield key, torch.zeros_like(stored) if grad is None else grad, stored
    for update in case.get("updated", []):
        yield (
            update["key"],
            leaves[case["inputs"][update["input"]]["key"]],
            load(file, update["key"]),
        )


def verify_ops():
    wrong = count = 0
    tables = cases_types.promote()
    for path in sorted((HERE / "ops").glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            document = json.loads(file.metadata()["cases"])
            for case in document["cases"]:
                count += 1
                if case["op"] == "result_type":
                    key = case["outputs"][0]
                    wrong += not torch.equal(tables.tensors[key], load(file, key))
                    continue
                for what, ours, stored in replay(file, case):
                    if not agrees(ours, stored, case, document["tolerances"]):
                        wrong += 1
                        print(f"{path.stem}: {what}: {ours.tolist()} is not {stored.tolist()}")
    print(f"operators: {count} cases, {wrong} differences")
    return wrong


def verify_training(spec):
    stored = json.loads((HERE / "trainings" / f"{spec['name']}.json").read_text())
    losses, model, _, _ = make_trainings.train(spec, torch.float32)
    t = stored["tolerance"]
    worst = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(losses, stored["losses"]))
    for (name, tensor), entry in zip(make_trainings.named_state(model), stored["final"]):
        ours = make_trainings.summary(spec, name, tensor)
        n, norm = tensor.numel(), entry["norm"]
        if norm == 0:
            worst = max(worst, math.inf if ours["norm"] else 0.0)
            continue
        rms = norm / math.sqrt(n)
        worst = max(
            worst, abs(ours["norm"] - norm) / norm, abs(ours["sum"] - entry["sum"]) / n / rms
        )
        for a, b in zip(ours["values"], entry["values"]):
            worst = max(worst, abs(a - b) / max(abs(b), rms))
    print(f"{spec['name']}: {worst / t:.4f} of the tolerance")
    return worst > t


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    torch.sparse.check_sparse_tensor_invariants.enable()
    torch.backends.mkldnn.enabled = "--no-onednn" not in sys.argv
    wrong = verify_ops() + sum(verify_training(spec) for spec in make_trainings.TRAININGS)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
