# SPDX-License-Identifier: Apache-2.0
"""Random operator cases: operators, shapes, types, views and attributes by a seed.

book(family, seed, count) makes a Book with `count` cases. Each maker below draws one case:
(operator, inputs, attributes). What PyTorch refuses is drawn again.
"""

import random

from casebook import Book, I, R, Tensor, scalar, view
from cases_elementwise import POSITIVE, SMOOTH

FLOATS = ["float32"] * 6 + ["float64"] * 2 + ["float16", "bfloat16"]
REDUCTIONS = ("mean", "sum", "none")
# Sums of halves that cancel keep the rounding of their terms, in any order of summation.
HALF_TOLERANCES = {
    "float16": {"rtol": 2e-3, "atol": 6e-3},
    "bfloat16": {"rtol": 1.6e-2, "atol": 5e-2},
}


def shape_of(rng, low=0, high=4, largest=7):
    """A shape; now and then with a dimension of 1, rarely with one of 0."""
    dims = [rng.choice([1, 2, 3, rng.randint(1, largest)]) for _ in range(rng.randint(low, high))]
    if dims and rng.random() < 0.03:
        dims[rng.randrange(len(dims))] = 0
    return dims


def full_shape(rng, low=1, high=4, largest=7):
    return [max(d, 1) for d in shape_of(rng, low, high, largest)]


def tensor(rng, shape, dtype="float32", **options):
    """A random tensor of this shape, often as a view: permuted, strided or expanded."""
    shape = list(shape)
    kind = rng.random()
    if len(shape) >= 2 and kind < 0.25:
        order = list(range(len(shape)))
        rng.shuffle(order)
        base = [0] * len(shape)
        for position, axis in enumerate(order):
            base[axis] = shape[position]
        return Tensor(base, dtype, view=[view("permute", *order)], **options)
    if shape and kind < 0.4:
        dim, step, start = rng.randrange(len(shape)), rng.randint(1, 3), rng.randint(0, 2)
        base = list(shape)
        stop = start + shape[dim] * step
        base[dim] = stop + rng.randint(0, 2)
        return Tensor(base, dtype, view=[view("slice", dim, start, stop, step)], **options)
    if shape and kind < 0.5:
        dim = rng.randrange(len(shape))
        base = shape[:dim] + [1] + shape[dim + 1 :]
        return Tensor(base, dtype, view=[view("expand", *shape)], **options)
    return Tensor(shape, dtype, **options)


def calm(rng, shape, dtype):
    """For norms: no expanded rows, whose variance is 0, and no permuted planes with a side of 1,
    for which PyTorch's own gradient of batch norm is wrong (it differs from that of a copy)."""
    while True:
        drawn = tensor(rng, shape, dtype)
        if not any(step["how"] in ("expand", "permute") for step in drawn.view):
            return drawn


def broadcast(rng, shape):
    """A shape that broadcasts to this one."""
    out = [1 if rng.random() < 0.25 else d for d in shape]
    return out[rng.randint(0, len(out)) :] if rng.random() < 0.3 else out


def positive(rng, shape, dtype):
    return tensor(rng, shape, dtype, lo=0.25, hi=3.0)


def elementwise(rng):
    dtype, shape = rng.choice(FLOATS), shape_of(rng)
    kind = rng.randrange(6)
    if kind == 0:
        op = rng.choice(SMOOTH + ["neg", "abs"])
        narrow = {"lo": -1.0, "hi": 1.0} if op == "tanh" else {}
        if op in POSITIVE:
            return op, [positive(rng, shape, dtype)], {}
        return op, [tensor(rng, shape, dtype, **narrow)], {}
    if kind == 1:
        op = rng.choice("add sub mul div maximum minimum lt ge".split())
        other = rng.choice([dtype, dtype, "float32", "float64"])
        return op, [tensor(rng, shape, dtype), positive(rng, broadcast(rng, shape), other)], {}
    if kind == 2:
        op = rng.choice("add sub mul maximum eq lt bitwise_and bitwise_xor".split())
        kinds = [rng.choice(["uint8", "int8", "int16", "int32", "int64"]) for _ in range(2)]
        x = tensor(rng, shape, kinds[0], lo=0, hi=9)
        return op, [x, tensor(rng, broadcast(rng, shape), kinds[1], lo=0, hi=9)], {}
    if kind == 3:
        op = rng.choice("add_scalar sub_scalar rsub_scalar mul_scalar div_scalar".split())
        return op, [tensor(rng, shape, dtype)], scalar(rng.choice([2, 3, 1.5, -0.25]))
    if kind == 4:
        op = rng.choice("relu silu gelu elu celu leaky_relu softplus hardtanh".split())
        attrs = {
            "gelu": {"approximate": rng.choice(["none", "tanh"])},
            "elu": {"alpha": rng.choice([1.0, 2.0])},
            "celu": {"alpha": rng.choice([1.0, 0.5])},
            "leaky_relu": {"slope": 0.1},
            "softplus": {"beta": rng.choice([1.0, 2.0]), "threshold": 20.0},
            "hardtanh": {"min": -1.0, "max": 0.5},
        }
        return op, [tensor(rng, shape, dtype)], attrs.get(op, {})
    mask = tensor(rng, broadcast(rng, shape), "bool")
    return "where", [mask, tensor(rng, shape, dtype), tensor(rng, broadcast(rng, shape), dtype)], {}


def reductions(rng):
    dtype, shape = rng.choice(FLOATS), full_shape(rng)
    op = rng.choice("sum mean amax amin logsumexp norm var std cumsum prod max_dim argmin".split())
    dim = rng.randrange(-len(shape), len(shape))
    dims = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    keep = {"keepdim": True} if rng.random() < 0.5 else {}
    x = tensor(rng, shape, dtype)
    if op in ("var", "std"):
        if all(shape[d] == 1 for d in dims):
            return None
        return op, [x], {"dims": dims, "correction": rng.choice([0, 1]), **keep}
    if op == "norm":
        return op, [x], {"dims": dims, "p": rng.choice([1, 2, 3, "inf"]), **keep}
    if op == "cumsum":
        return op, [x], {"dim": dim}
    if op in ("prod", "max_dim", "argmin"):
        return op, [x], {"dim": dim, **keep}
    return op, [x], {"dims": dims, **keep}


def softmaxes(rng):
    shape = full_shape(rng, largest=12)
    op = rng.choice(["softmax", "log_softmax"])
    dim = rng.randrange(-len(shape), len(shape))
    return op, [tensor(rng, shape, rng.choice(FLOATS))], {"dim": dim}


def products(rng):
    dtype = rng.choice(FLOATS)
    m, k, n = (rng.randint(1, 9) for _ in range(3))
    batch = full_shape(rng, 0, 2, 4)
    kind = rng.randrange(5)
    if kind == 0:
        left = tensor(rng, broadcast(rng, batch) + [m, k], dtype)
        return "matmul", [left, tensor(rng, batch + [k, n], dtype)], {}
    if kind == 1:
        bias = rng.choice([None, R(n, dtype=dtype)])
        return "linear", [tensor(rng, batch + [k], dtype), tensor(rng, [n, k], dtype), bias], {}
    if kind == 2:
        b = rng.randint(1, 4)
        return "bmm", [tensor(rng, [b, m, k], dtype), tensor(rng, [b, k, n], dtype)], {}
    if kind == 3:
        attrs = rng.choice([{}, {"beta": 0.5, "alpha": 2.0}])
        c = tensor(rng, rng.choice([[m, n], [n], [1, n]]), dtype)
        return "addmm", [c, tensor(rng, [m, k], dtype), tensor(rng, [k, n], dtype)], attrs
    return "mv", [tensor(rng, [m, k], dtype), tensor(rng, [k], dtype)], {}


def shapes(rng):
    dtype, shape = rng.choice(FLOATS + ["int64", "bool"]), full_shape(rng)
    x, dim = tensor(rng, shape, dtype), rng.randrange(len(shape))
    kind = rng.randrange(7)
    if kind == 0:
        order = list(range(len(shape)))
        rng.shuffle(order)
        return "permute", [x], {"dims": order}
    if kind == 1:
        return "reshape", [x], {"shape": [shape[0], -1]}
    if kind == 2:
        start = rng.randint(0, shape[dim])
        stop = rng.randint(0, shape[dim] + 2)
        return "slice", [x], {"dim": dim, "start": start, "stop": stop, "step": rng.randint(1, 3)}
    if kind == 3:
        others = []
        for _ in range(rng.randint(0, 3)):
            other = list(shape)
            other[dim] = rng.randint(1, 4)
            others.append(tensor(rng, other, dtype))
        return "cat", [x] + others, {"dim": dim}
    if kind == 4:
        return "flip", [x], {"dims": sorted(rng.sample(range(len(shape)), rng.randint(1, 1)))}
    if kind == 5:
        return "repeat", [x], {"repeats": [rng.randint(1, 3) for _ in shape]}
    return "split", [x], {"size": rng.randint(max(1, shape[dim] // 4), 8), "dim": dim}


def indices(rng):
    dtype, shape = rng.choice(FLOATS), full_shape(rng)
    dim = rng.randrange(len(shape))
    kind = rng.randrange(6)
    if kind == 0:
        index = I(shape[dim], rng.randint(0, 8))
        return "index_select", [tensor(rng, shape, dtype), index], {"dim": dim}
    if kind in (1, 2):
        picked = [d if i == dim else rng.randint(1, d) for i, d in enumerate(shape)]
        picked[dim] = rng.randint(1, 6)
        index = I(shape[dim], *picked)
        if kind == 1:
            return "gather", [tensor(rng, shape, dtype), index], {"dim": dim}
        inputs = [tensor(rng, shape, dtype), index, tensor(rng, picked, dtype)]
        return "scatter_add", inputs, {"dim": dim}
    if kind == 3:
        mask = tensor(rng, broadcast(rng, shape), "bool")
        return "masked_fill", [tensor(rng, shape, dtype), mask], scalar(0.5)
    if kind == 4:
        attrs = {"dim": dim, "descending": rng.random() < 0.5}
        return "sort", [tensor(rng, shape, "float64")], attrs
    rows, width = rng.randint(1, 9), rng.randint(1, 6)
    mode = rng.choice(["sum", "mean", "max", None])
    if mode is None:
        return "embedding", [R(rows, width, dtype=dtype), I(rows, *full_shape(rng, 1, 2))], {}
    bag = I(rows, rng.randint(1, 4), rng.randint(1, 5))
    return "embedding_bag", [R(rows, width), bag, None, None], {"mode": mode}


def losses(rng):
    dtype, n, c = rng.choice(FLOATS), rng.randint(1, 6), rng.randint(2, 7)
    attrs = {"reduction": rng.choice(REDUCTIONS)}
    if rng.random() < 0.5:
        extra = full_shape(rng, 0, 2, 3)
        weight = rng.choice([None, R(c, dtype=dtype, lo=0.25, hi=2.0, grad=False)])
        if rng.random() < 0.5:
            attrs["label_smoothing"] = 0.1
        inputs = [tensor(rng, [n, c] + extra, dtype), I(c, n, *extra), weight]
        return "cross_entropy", inputs, attrs
    op = rng.choice(["mse_loss", "l1_loss", "smooth_l1_loss", "bce_with_logits"])
    if op == "bce_with_logits":
        target = R(n, c, dtype=dtype, lo=0, hi=1, grad=False)
        return op, [tensor(rng, [n, c], dtype), target, None, None], attrs
    if op == "smooth_l1_loss":
        attrs["beta"] = rng.choice([1.0, 0.5])
    return op, [tensor(rng, [n, c], dtype), tensor(rng, [n, c], dtype)], attrs


def norms(rng):
    dtype = rng.choice(["float32", "float32", "float64"])
    affine = rng.random() < 0.7
    kind = rng.randrange(3)
    if kind == 0:
        shape = full_shape(rng, 2, 3, 9)
        own = [rng.randint(4, 12)]
        pair = [R(*own, dtype=dtype), R(*own, dtype=dtype)] if affine else [None, None]
        x = calm(rng, shape[:-1] + own, dtype)
        if rng.random() < 0.4:
            return "rms_norm", [x, pair[0]], {"shape": own, "eps": 1e-5}
        return "layer_norm", [x] + pair, {"shape": own, "eps": 1e-5}
    groups, width = rng.randint(1, 3), rng.randint(1, 3)
    channels = groups * width if kind == 1 else rng.randint(1, 6)
    shape = [rng.randint(2, 4), channels] + full_shape(rng, 1, 2, 4)
    pair = [R(channels, dtype=dtype), R(channels, dtype=dtype)] if affine else [None, None]
    x = calm(rng, shape, dtype)
    if kind == 1:
        return "group_norm", [x] + pair, {"groups": groups, "eps": 1e-3}
    running = [
        R(channels, dtype=dtype, grad=False),
        R(channels, dtype=dtype, lo=0.25, hi=3.0, grad=False),
    ]
    attrs = {"training": rng.random() < 0.6, "momentum": rng.choice([0.1, 0.5]), "eps": 1e-3}
    return "batch_norm", [x] + pair + running, attrs


def convolutions(rng):
    dtype = rng.choice(["float32", "float32", "float32", "float64"])
    n, groups = rng.randint(1, 3), rng.choice([1, 1, 1, 2, 3])
    inputs, outputs = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    kernel = [rng.randint(1, 3), rng.randint(1, 3)]
    attrs = {
        "stride": [rng.randint(1, 2), rng.randint(1, 2)],
        "padding": [rng.randint(0, 2), rng.randint(0, 2)],
        "dilation": [rng.choice([1, 1, 2]), rng.choice([1, 1, 2])],
        "groups": groups,
    }
    plane = [rng.randint(5, 9), rng.randint(5, 9)]
    x = tensor(rng, [n, inputs] + plane, dtype)
    kind = rng.randrange(3)
    if kind == 0:
        bias = rng.choice([None, R(outputs, dtype=dtype)])
        return "conv2d", [x, R(outputs, inputs // groups, *kernel, dtype=dtype), bias], attrs
    if kind == 1:
        bias = rng.choice([None, R(outputs, dtype=dtype)])
        attrs["padding"] = [min(p, k - 1) for p, k in zip(attrs["padding"], kernel)]
        weight = R(inputs, outputs // groups, *kernel, dtype=dtype)
        return "conv_transpose2d", [x, weight, bias], attrs
    one = {k: v[:1] for k, v in attrs.items() if k != "groups"}
    x = tensor(rng, [n, inputs, plane[0]], dtype)
    weight = R(outputs, inputs // groups, kernel[0], dtype=dtype)
    return "conv1d", [x, weight, None], {**one, "groups": groups}


def pools(rng):
    dtype = rng.choice(["float32", "float32", "float64"])
    x = tensor(rng, [rng.randint(1, 3), rng.randint(1, 3), rng.randint(4, 9), rng.randint(4, 9)], dtype)
    kind = rng.randrange(4)
    if kind >= 2:
        op = ["adaptive_avg_pool2d", "adaptive_max_pool2d"][kind - 2]
        return op, [x], {"output": [rng.randint(1, 6), rng.randint(1, 6)]}
    kernel = [rng.randint(1, 3), rng.randint(1, 3)]
    attrs = {
        "kernel": kernel,
        "stride": [rng.randint(1, 3), rng.randint(1, 3)],
        "padding": [rng.randint(0, k // 2) for k in kernel],
        "ceil_mode": rng.random() < 0.5,
    }
    if kind == 0:
        return "max_pool2d", [x], attrs
    return "avg_pool2d", [x], {**attrs, "count_include_pad": rng.random() < 0.5}


def attentions(rng):
    dtype = rng.choice(["float32", "float32", "float64"])
    lead = [rng.randint(1, 3), rng.randint(1, 3)]
    queries, keys, width = rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 8)
    inputs = [tensor(rng, lead + [n, width], dtype) for n in (queries, keys, keys)]
    kind = rng.randrange(3)
    if kind == 0:
        return "attention", inputs + [None], {"causal": True}
    mask = None if kind == 1 else R(queries, keys, dtype=dtype, grad=False)
    return "attention", inputs + [mask], rng.choice([{}, {"scale": 0.5}])


FAMILIES = {
    "elementwise": elementwise,
    "reduce": reductions,
    "softmax": softmaxes,
    "product": products,
    "shape": shapes,
    "index": indices,
    "loss": losses,
    "norm": norms,
    "conv": convolutions,
    "pool": pools,
    "attention": attentions,
}


def tolerance(inputs):
    """Wider tolerances for a case of halves only, else those of the file."""
    kinds = {x.dtype for x in inputs if x is not None and "float" in x.dtype}
    return HALF_TOLERANCES.get(kinds.pop(), {}) if len(kinds) == 1 else {}


def book(family, seed, count):
    """`count` random cases of a family."""
    rng = random.Random(f"{seed}/{family}")
    result = Book(family)
    tried = 0
    while len(result.cases) < count and tried < 20 * count:
        tried += 1
        drawn = FAMILIES[family](rng)
        if drawn is None:
            continue
        op, inputs, attrs = drawn
        try:
            result.case(op, f"seed_{seed}_{tried}", inputs, attrs, **tolerance(inputs))
        except (RuntimeError, ValueError, IndexError):
            continue
    return result
