# SPDX-License-Identifier: Apache-2.0
"""The operators of the golden files: our spelling on the left, PyTorch's on the right.

OPS maps a name to function(x, a): x is the list of input tensors in order (None where an
optional one is absent), a the attributes. Conventions for the attributes:

    dim, dims     an axis, a list of axes; negative ones count from the end; absent: all
    keepdim       false when absent
    scalar        a number, with scalar_kind "bool", "int", "float" or "complex" (then a
                  pair); "inf", "-inf" and "nan" are strings. Likewise min/max, value, ...
    dtype         a type's name: "float32", "int64", "bool", "complex64", ...
    stride, padding, dilation, kernel, output_padding: one number per spatial axis
    reduction     "mean" (when absent), "sum" or "none"

The comment behind an entry names its inputs and its further attributes.
"""

import math

import torch
from torch.nn import functional as F


def number(a, name="scalar"):
    """The Python number of an attribute, of the kind that was meant."""
    value, kind = a[name], a.get(f"{name}_kind", "float")
    if kind == "complex":
        return complex(*value)
    if kind == "float":
        return float(value)
    return bool(value) if kind == "bool" else int(value)


def optional(a, name):
    return number(a, name) if name in a else None


def dims_of(a):
    return {"dim": a["dims"], "keepdim": a.get("keepdim", False)} if "dims" in a else {}


def dim_of(a):
    return {"dim": a["dim"], "keepdim": a.get("keepdim", False)} if "dim" in a else {}


def dtype_of(a):
    return {"dtype": getattr(torch, a["dtype"])} if "dtype" in a else {}


def reduction(a):
    return {"reduction": a.get("reduction", "mean")}


def slice_dim(x, a):
    index = [slice(None)] * x.dim()
    index[a["dim"]] = slice(a["start"], a["stop"], a.get("step", 1))
    return x[tuple(index)]


def boolean_reduce(function):
    def apply(x, a):
        return function(x[0], **dim_of(a))

    return apply


def vector_norm(x, a):
    p = math.inf if a["p"] == "inf" else -math.inf if a["p"] == "-inf" else a["p"]
    return torch.linalg.vector_norm(x[0], p, a.get("dims"), a.get("keepdim", False))


def batch_norm(x, a):
    momentum = a["momentum"]
    if momentum is None:  # cumulative average: the batches seen before are given
        momentum = 1.0 / (a["batches_tracked"] + 1)
    return F.batch_norm(x[0], x[3], x[4], x[1], x[2], a["training"], momentum, a["eps"])


def max_pool(function):
    def apply(x, a):
        return function(
            x[0],
            a["kernel"],
            stride=a.get("stride"),
            padding=a.get("padding", 0),
            dilation=a.get("dilation", 1),
            ceil_mode=a.get("ceil_mode", False),
            return_indices=True,
        )

    return apply


def avg_pool(function):
    def apply(x, a):
        more = {"divisor_override": a["divisor"]} if "divisor" in a else {}
        return function(
            x[0],
            a["kernel"],
            stride=a.get("stride"),
            padding=a.get("padding", 0),
            ceil_mode=a.get("ceil_mode", False),
            count_include_pad=a.get("count_include_pad", True),
            **more,
        )

    return apply


def conv(function):
    def apply(x, a):
        return function(
            x[0],
            x[1],
            x[2],
            stride=a.get("stride", 1),
            padding=a.get("padding", 0),
            dilation=a.get("dilation", 1),
            groups=a.get("groups", 1),
        )

    return apply


def conv_transpose(function):
    def apply(x, a):
        return function(
            x[0],
            x[1],
            x[2],
            stride=a.get("stride", 1),
            padding=a.get("padding", 0),
            output_padding=a.get("output_padding", 0),
            groups=a.get("groups", 1),
            dilation=a.get("dilation", 1),
        )

    return apply


def cross_entropy(x, a):
    return F.cross_entropy(
        x[0],
        x[1],
        weight=x[2],
        ignore_index=a.get("ignore_index", -100),
        label_smoothing=a.get("label_smoothing", 0.0),
        **reduction(a),
    )


def embedding_bag(x, a):
    return F.embedding_bag(
        x[1],
        x[0],
        x[2],
        mode=a["mode"],
        per_sample_weights=x[3],
        include_last_offset=a.get("include_last_offset", False),
        padding_idx=a.get("padding_idx"),
    )


def attention(x, a):
    return F.scaled_dot_product_attention(
        x[0], x[1], x[2], attn_mask=x[3], is_causal=a.get("causal", False), scale=a.get("scale")
    )


def unary(name):
    return lambda x, a: getattr(torch, name)(x[0])


def binary(name):
    return lambda x, a: getattr(torch, name)(x[0], x[1])


def with_scalar(function):
    return lambda x, a: function(x[0], number(a))


UNARY = (
    "neg abs exp expm1 log log1p log2 log10 sqrt rsqrt tanh sigmoid sin cos reciprocal square "
    "sign floor ceil round trunc erf isnan isinf isfinite logical_not bitwise_not relu"
).split()
BINARY = (
    "mul div maximum minimum fmod remainder eq ne lt le gt ge logical_and logical_or "
    "logical_xor bitwise_and bitwise_or bitwise_xor matmul bmm mv dot"
).split()

OPS = {name: unary(name) for name in UNARY}  # x
OPS |= {name: binary(name) for name in BINARY}  # x, y
OPS |= {
    # arithmetic; *_scalar: a tensor and a number
    "add": lambda x, a: torch.add(x[0], x[1], alpha=a.get("alpha", 1)),  # x + alpha * y
    "sub": lambda x, a: torch.sub(x[0], x[1], alpha=a.get("alpha", 1)),
    "add_scalar": with_scalar(lambda x, s: x + s),
    "sub_scalar": with_scalar(lambda x, s: x - s),
    "rsub_scalar": with_scalar(lambda x, s: s - x),
    "mul_scalar": with_scalar(lambda x, s: x * s),
    "div_scalar": with_scalar(lambda x, s: x / s),
    "fmod_scalar": with_scalar(torch.fmod),
    "remainder_scalar": with_scalar(torch.remainder),
    "eq_scalar": with_scalar(torch.eq),
    "lt_scalar": with_scalar(torch.lt),
    "ge_scalar": with_scalar(torch.ge),
    "pow": lambda x, a: torch.pow(x[0], x[1]),  # x ** y
    "pow_scalar": with_scalar(torch.pow),  # x ** scalar
    "scalar_pow": with_scalar(lambda x, s: torch.pow(s, x)),  # scalar ** x
    "where": lambda x, a: torch.where(x[0], x[1], x[2]),  # condition, x, y
    "clamp": lambda x, a: torch.clamp(x[0], optional(a, "min"), optional(a, "max")),
    "clamp_tensor": lambda x, a: torch.clamp(x[0], x[1], x[2]),  # x, min or none, max or none
    # weight, value: numbers. lerp_tensor: x, end, weight
    "lerp": lambda x, a: torch.lerp(x[0], x[1], a["weight"]),
    "lerp_tensor": lambda x, a: torch.lerp(x[0], x[1], x[2]),
    "addcmul": lambda x, a: torch.addcmul(x[0], x[1], x[2], value=a.get("value", 1)),
    "addcdiv": lambda x, a: torch.addcdiv(x[0], x[1], x[2], value=a.get("value", 1)),
    # reductions
    "sum": lambda x, a: torch.sum(x[0], **dims_of(a), **dtype_of(a)),
    "mean": lambda x, a: torch.mean(x[0], **dims_of(a)),
    "prod": lambda x, a: torch.prod(x[0], **dim_of(a)),
    "var": lambda x, a: torch.var(x[0], correction=a["correction"], **{"dim": None, **dims_of(a)}),
    "std": lambda x, a: torch.std(x[0], correction=a["correction"], **{"dim": None, **dims_of(a)}),
    "max": lambda x, a: torch.max(x[0]),  # over everything
    "min": lambda x, a: torch.min(x[0]),
    "max_dim": lambda x, a: tuple(torch.max(x[0], **dim_of(a))),  # gives values, indices
    "min_dim": lambda x, a: tuple(torch.min(x[0], **dim_of(a))),
    "amax": lambda x, a: torch.amax(x[0], **dims_of(a)),
    "amin": lambda x, a: torch.amin(x[0], **dims_of(a)),
    "argmax": lambda x, a: torch.argmax(x[0], **dim_of(a)),
    "argmin": lambda x, a: torch.argmin(x[0], **dim_of(a)),
    "all": boolean_reduce(torch.all),
    "any": boolean_reduce(torch.any),
    "norm": vector_norm,  # p
    "logsumexp": lambda x, a: torch.logsumexp(x[0], **dims_of(a)),
    "cumsum": lambda x, a: torch.cumsum(x[0], a["dim"]),
    "cumprod": lambda x, a: torch.cumprod(x[0], a["dim"]),
    # products; addmm, baddbmm: input, m1, m2 with beta, alpha. linear: x, weight, bias or none
    "addmm": lambda x, a: torch.addmm(*x, beta=a.get("beta", 1), alpha=a.get("alpha", 1)),
    "baddbmm": lambda x, a: torch.baddbmm(*x, beta=a.get("beta", 1), alpha=a.get("alpha", 1)),
    "linear": lambda x, a: F.linear(x[0], x[1], x[2]),
    # shape
    "transpose": lambda x, a: x[0].transpose(a["dim0"], a["dim1"]),
    "permute": lambda x, a: x[0].permute(a["dims"]),
    "reshape": lambda x, a: x[0].reshape(a["shape"]),
    "view": lambda x, a: x[0].view(a["shape"]),
    "slice": lambda x, a: slice_dim(x[0], a),  # dim, start, stop, step
    "select": lambda x, a: x[0].select(a["dim"], a["index"]),
    "narrow": lambda x, a: x[0].narrow(a["dim"], a["start"], a["length"]),
    "cat": lambda x, a: torch.cat(x, a["dim"]),  # any number of inputs
    "stack": lambda x, a: torch.stack(x, a["dim"]),
    "split": lambda x, a: torch.split(x[0], a["size"], a["dim"]),
    "split_sizes": lambda x, a: torch.split(x[0], a["sizes"], a["dim"]),
    "chunk": lambda x, a: torch.chunk(x[0], a["chunks"], a["dim"]),
    "expand": lambda x, a: x[0].expand(a["shape"]),
    "repeat": lambda x, a: x[0].repeat(a["repeats"]),
    "flip": lambda x, a: torch.flip(x[0], a["dims"]),
    "roll": lambda x, a: torch.roll(x[0], a["shifts"], a.get("dims")),
    "tril": lambda x, a: torch.tril(x[0], a.get("diagonal", 0)),
    "triu": lambda x, a: torch.triu(x[0], a.get("diagonal", 0)),
    "diagonal": lambda x, a: torch.diagonal(x[0], a.get("offset", 0), a["dim1"], a["dim2"]),
    "squeeze": lambda x, a: torch.squeeze(x[0], *([a["dims"]] if "dims" in a else [])),
    "unsqueeze": lambda x, a: torch.unsqueeze(x[0], a["dim"]),
    "flatten": lambda x, a: torch.flatten(x[0], a["start"], a["end"]),
    # indexing
    "index_select": lambda x, a: torch.index_select(x[0], a["dim"], x[1]),  # x, index
    "gather": lambda x, a: torch.gather(x[0], a["dim"], x[1]),  # x, index
    "scatter": lambda x, a: torch.scatter(x[0], a["dim"], x[1], x[2]),  # x, index, source
    "scatter_scalar": lambda x, a: torch.scatter(x[0], a["dim"], x[1], number(a)),  # x, index
    "scatter_add": lambda x, a: torch.scatter_add(x[0], a["dim"], x[1], x[2]),
    "index_add": lambda x, a: torch.index_add(x[0], a["dim"], x[1], x[2], alpha=a.get("alpha", 1)),
    "masked_fill": lambda x, a: torch.masked_fill(x[0], x[1], number(a)),  # x, mask
    "masked_select": lambda x, a: torch.masked_select(x[0], x[1]),  # x, mask
    "one_hot": lambda x, a: F.one_hot(x[0], a["classes"]),
    # order; topk and sort give values, indices
    "topk": lambda x, a: tuple(torch.topk(x[0], a["k"], a["dim"], a.get("largest", True), True)),
    "sort": lambda x, a: tuple(
        torch.sort(x[0], dim=a["dim"], descending=a.get("descending", False), stable=True)
    ),
    "argsort": lambda x, a: torch.argsort(
        x[0], dim=a["dim"], descending=a.get("descending", False), stable=True
    ),
    "to": lambda x, a: x[0].to(getattr(torch, a["dtype"])),
    # activations
    "softmax": lambda x, a: torch.softmax(x[0], a["dim"], **dtype_of(a)),
    "log_softmax": lambda x, a: torch.log_softmax(x[0], a["dim"], **dtype_of(a)),
    "gelu": lambda x, a: F.gelu(x[0], approximate=a["approximate"]),  # "none" or "tanh"
    "silu": lambda x, a: F.silu(x[0]),
    "celu": lambda x, a: F.celu(x[0], a["alpha"]),
    "elu": lambda x, a: F.elu(x[0], a["alpha"]),
    "leaky_relu": lambda x, a: F.leaky_relu(x[0], a["slope"]),
    "softplus": lambda x, a: F.softplus(x[0], a["beta"], a["threshold"]),
    "hardtanh": lambda x, a: F.hardtanh(x[0], a["min"], a["max"]),
    # losses: input, target, then optional weights (none when absent)
    "cross_entropy": cross_entropy,  # weight; ignore_index, label_smoothing
    "nll_loss": lambda x, a: F.nll_loss(
        x[0], x[1], weight=x[2], ignore_index=a.get("ignore_index", -100), **reduction(a)
    ),
    "mse_loss": lambda x, a: F.mse_loss(x[0], x[1], **reduction(a)),
    "l1_loss": lambda x, a: F.l1_loss(x[0], x[1], **reduction(a)),
    "smooth_l1_loss": lambda x, a: F.smooth_l1_loss(x[0], x[1], beta=a["beta"], **reduction(a)),
    "huber_loss": lambda x, a: F.huber_loss(x[0], x[1], delta=a["delta"], **reduction(a)),
    "bce_with_logits": lambda x, a: F.binary_cross_entropy_with_logits(
        x[0], x[1], weight=x[2], pos_weight=x[3], **reduction(a)
    ),  # weight, pos_weight
    "kl_div": lambda x, a: F.kl_div(
        x[0], x[1], log_target=a.get("log_target", False), **reduction(a)
    ),  # reduction also "batchmean"
    # normalisation: x, weight or none, bias or none; eps
    "layer_norm": lambda x, a: F.layer_norm(x[0], a["shape"], x[1], x[2], a["eps"]),
    "rms_norm": lambda x, a: F.rms_norm(x[0], a["shape"], x[1], a["eps"]),  # eps may be null
    "group_norm": lambda x, a: F.group_norm(x[0], a["groups"], x[1], x[2], a["eps"]),
    # x, weight, bias, running mean, running variance (updated in place when training);
    # training, momentum (null: cumulative, with batches_tracked), eps
    "batch_norm": batch_norm,
    # convolutions: x, weight, bias or none; groups
    "conv1d": conv(F.conv1d),
    "conv2d": conv(F.conv2d),
    "conv_transpose1d": conv_transpose(F.conv_transpose1d),
    "conv_transpose2d": conv_transpose(F.conv_transpose2d),
    # pools; max pools give values, indices (into the flattened plane)
    "max_pool1d": max_pool(F.max_pool1d),  # ceil_mode
    "max_pool2d": max_pool(F.max_pool2d),
    "avg_pool1d": avg_pool(F.avg_pool1d),  # ceil_mode, count_include_pad
    "avg_pool2d": avg_pool(F.avg_pool2d),  # also divisor
    "adaptive_avg_pool2d": lambda x, a: F.adaptive_avg_pool2d(x[0], a["output"]),
    "adaptive_max_pool2d": lambda x, a: F.adaptive_max_pool2d(
        x[0], a["output"], return_indices=True
    ),
    # weight, indices; padding_idx
    "embedding": lambda x, a: F.embedding(x[1], x[0], padding_idx=a.get("padding_idx")),
    # weight, indices, offsets or none, per-sample weights or none; mode, padding_idx
    "embedding_bag": embedding_bag,
    # q, k, v, mask or none (bool: true takes part); causal, scale (absent: 1/sqrt(width))
    "attention": attention,
}
