# SPDX-License-Identifier: Apache-2.0
"""Operator cases: describe inputs, run PyTorch, write one safetensors file per family.

A case's values come from hashdata.py, keyed by family, case name and position, so a
case does not change when others are added. README.md describes the file.
"""

import json
import math
import struct

import torch

import hashdata
from torch_ops import OPS

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
TAGS = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
TOLERANCES = {
    "float16": [1e-3, 1e-5],
    "bfloat16": [1.6e-2, 1e-5],
    "float32": [1.3e-6, 1e-5],
    "float64": [1e-7, 1e-7],
    "complex64": [1.3e-6, 1e-5],
    "complex128": [1e-7, 1e-7],
}
COMPLEX_SUFFIX = "#complex"


def dtype_of(name):
    return getattr(torch, name)


class Tensor:
    """How to make one input: random in [lo, hi), or the given values; then views of it."""

    def __init__(self, shape, dtype="float32", lo=-2.0, hi=2.0, values=None, view=(), grad=None):
        self.shape, self.dtype, self.lo, self.hi = tuple(shape), dtype, lo, hi
        self.values, self.view, self.grad = values, list(view), grad

    def make(self, key):
        dtype = dtype_of(self.dtype)
        if self.values is not None:
            return torch.tensor(self.values, dtype=dtype).reshape(self.shape)
        if dtype.is_complex:
            pairs = self.random(key, self.shape + (2,)).double()
            return torch.view_as_complex(pairs).to(dtype)
        if dtype == torch.bool:
            return torch.from_numpy(hashdata.integers(key, self.shape, 2)) == 1
        if not dtype.is_floating_point:
            span = int(self.hi) - int(self.lo)
            return (torch.from_numpy(hashdata.integers(key, self.shape, span)) + int(self.lo)).to(
                dtype
            )
        return self.random(key, self.shape).to(dtype)

    def random(self, key, shape):
        half, middle = (self.hi - self.lo) / 2, (self.hi + self.lo) / 2
        return torch.from_numpy(hashdata.uniform(key, shape, half, middle))


def R(*shape, **options):
    """A random floating-point tensor (float32 unless dtype says otherwise)."""
    return Tensor(shape, **options)


def P(*shape, **options):
    """A random tensor away from zero on the positive side."""
    return Tensor(shape, **{"lo": 0.25, "hi": 3.0, **options})


def I(modulo, *shape, **options):
    """Random integers in [0, modulo)."""
    return Tensor(shape, **{"dtype": "int64", "lo": 0, "hi": modulo, **options})


def B(*shape, **options):
    """A random boolean tensor."""
    return Tensor(shape, dtype="bool", **options)


def V(values, dtype="float32", shape=None, **options):
    """Given values."""
    shape = torch.tensor(values).shape if shape is None else shape
    return Tensor(shape, dtype=dtype, values=values, **options)


def view(how, *args):
    return {"how": how, "args": list(args)}


def apply_views(tensor, steps):
    for step in steps:
        args = step["args"]
        if step["how"] == "permute":
            tensor = tensor.permute(args)
        elif step["how"] == "slice":
            dim, start, stop, stride = args
            index = [slice(None)] * tensor.dim()
            index[dim] = slice(start, stop, stride)
            tensor = tensor[tuple(index)]
        elif step["how"] == "select":
            tensor = tensor.select(*args)
        elif step["how"] == "expand":
            tensor = tensor.expand(args)
        else:
            raise ValueError(step["how"])
    return tensor


def scalar(value, name="scalar"):
    """Attributes that hold a number whose kind matters for the result's type."""
    kind = type(value).__name__
    if isinstance(value, complex):
        value = [value.real, value.imag]
    return {name: json_number(value), f"{name}_kind": kind}


def json_number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def run(spec_list, tensors, op, attrs, grad_outputs, want_grad):
    """Apply the operator to the tensors (views applied); outputs, gradients of the bases."""
    bases = []
    for spec, tensor in zip(spec_list, tensors):
        if tensor is None:
            bases.append(None)
            continue
        known = [b for s, b in zip(spec_list, bases) if s is spec]
        if known:
            bases.append(known[0])
            continue
        base = tensor.clone()
        differentiable = base.is_floating_point() or base.is_complex()
        wants = want_grad if spec.grad is None else spec.grad
        base.requires_grad_(differentiable and wants)
        bases.append(base)
    views = [None if b is None else apply_views(b, s.view) for s, b in zip(spec_list, bases)]
    outputs = OPS[op](views, attrs)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    pairs = [(o, grad_outputs(i, o)) for i, o in enumerate(outputs) if o.requires_grad]
    leaves = [b for b in bases if b is not None and b.requires_grad]
    grads = [None] * len(bases)
    if pairs and leaves:
        found = torch.autograd.grad(
            [o for o, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True
        )
        by_id = {id(leaf): g for leaf, g in zip(leaves, found)}
        grads = [None if b is None else by_id.get(id(b)) for b in bases]
    return outputs, [g for _, g in pairs], grads, bases


def widen(tensor):
    if tensor is None:
        return None
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def shortfall(narrow, wide):
    """How far a result is from the wide one: in relative tolerances of its type beyond the
    absolute one, and in absolute tolerances beyond the relative one."""
    kind = None if narrow is None else str(narrow.dtype).removeprefix("torch.")
    if wide is None or kind not in TOLERANCES or kind in ("float64", "complex128"):
        return 0.0, 0.0
    rtol, atol = TOLERANCES[kind]
    a, b = widen(narrow.detach()), widen(wide.detach())
    good = torch.isfinite(a) & torch.isfinite(b) & (b.abs() > 0)
    if not good.any():
        return 0.0, 0.0
    gap, size = (a - b).abs()[good], b.abs()[good]
    relative = ((gap - atol).clamp(min=0) / size).max() / rtol
    absolute = (gap - rtol * size).clamp(min=0).max() / atol
    return float(relative), float(absolute)


class Book:
    """The cases of one family."""

    def __init__(self, family):
        self.family, self.cases, self.tensors, self.names = family, [], {}, set()

    def put(self, key, tensor):
        tensor = tensor.detach().resolve_conj().contiguous()
        if tensor.is_complex():
            key, tensor = key + COMPLEX_SUFFIX, torch.view_as_real(tensor)
        self.tensors[key] = tensor.clone(memory_format=torch.contiguous_format)
        return key

    def case(self, op, label, inputs, attrs=None, grad=True, wide_check=True, **tolerance):
        """Run one case. grad=False: no gradients. rtol=, atol=: wider than the default."""
        attrs = dict(attrs or {})
        name = f"{op}/{label}"
        if name in self.names:
            raise ValueError(f"{self.family}: case {name} exists twice")
        self.names.add(name)
        keys = [f"{name}:in{inputs.index(s)}" if s is not None else None for s in inputs]
        tensors = [
            None if s is None else s.make(f"{self.family}/{k}") for s, k in zip(inputs, keys)
        ]

        def grad_output(i, out):
            spec = Tensor(out.shape, dtype=str(out.dtype).removeprefix("torch."), lo=-1.0, hi=1.0)
            return spec.make(f"{self.family}/{name}:gout{i}")

        outputs, gouts, grads, bases = run(inputs, tensors, op, attrs, grad_output, grad)
        entry = {"name": name, "op": op, "attrs": attrs}
        entry["inputs"] = [self.input_entry(s, k, t) for s, k, t in zip(inputs, keys, tensors)]
        entry["outputs"] = [self.put(f"{name}:out{i}", o) for i, o in enumerate(outputs)]
        if any(g is not None for g in grads):
            gouts = iter(gouts)
            entry["grad_outputs"] = [
                self.put(f"{name}:gout{i}", next(gouts)) if o.requires_grad else None
                for i, o in enumerate(outputs)
            ]
            entry["grads"] = [
                None if g is None else self.put(f"{name}:grad{inputs.index(s)}", g)
                for s, g in zip(inputs, grads)
            ]
        updated = [
            {"input": i, "key": self.put(f"{name}:updated{i}", b)}
            for i, (b, t) in enumerate(zip(bases, tensors))
            if b is not None and not torch.equal(b.detach().nan_to_num(), t.nan_to_num())
        ]
        if updated:
            entry["updated"] = updated
        entry.update(tolerance)
        if wide_check and "rtol" not in tolerance:
            entry.update(self.measure(inputs, tensors, op, attrs, grad_output, outputs, grads))
        self.cases.append(entry)

    def input_entry(self, spec, key, tensor):
        if spec is None:
            return None
        entry = {"key": self.put(key, tensor)}
        if spec.view:
            entry["view"] = spec.view
        return entry

    def measure(self, inputs, tensors, op, attrs, grad_output, outputs, grads):
        """A wider tolerance when PyTorch's own result is far from the float64 one."""
        if "dtype" in attrs:
            return {}
        wide_out, _, wide_grads, _ = run(
            inputs,
            [widen(t) for t in tensors],
            op,
            attrs,
            lambda i, o: widen(grad_output(i, outputs[i])),
            any(g is not None for g in grads),
        )
        found = [shortfall(a, b) for a, b in zip(outputs + grads, wide_out + wide_grads)]
        relative, absolute = (max(column) for column in zip(*found))
        if relative <= 0.5:
            return {}
        if relative <= 1.5:
            return {"rtol_scale": math.ceil(3 * relative)}
        return {"atol_scale": math.ceil(3 * max(absolute, 0.5))}  # sums that cancel

    def table(self, op, label, attrs, tensor):
        """A case without inputs: the output is a table of PyTorch's rules."""
        name = f"{op}/{label}"
        entry = {"name": name, "op": op, "attrs": attrs, "inputs": []}
        entry["outputs"] = [self.put(f"{name}:out0", tensor)]
        self.cases.append(entry)

    def write(self, path):
        document = {
            "format": "tutti-ops-1",
            "family": self.family,
            "torch": torch.__version__.split("+")[0],
            "tolerances": TOLERANCES,
            "cases": self.cases,
        }
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        header, blobs, offset = {"__metadata__": {"cases": text}}, [], 0
        # widest elements first, so that every tensor is aligned to its element size
        for key, tensor in sorted(self.tensors.items(), key=lambda kv: -kv[1].element_size()):
            blob = bytes(tensor.reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""
            header[key] = {
                "dtype": TAGS[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [offset, offset + len(blob)],
            }
            blobs.append(blob)
            offset += len(blob)
        head = json.dumps(header, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 8)
        path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))
