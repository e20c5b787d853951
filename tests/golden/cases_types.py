# SPDX-License-Identifier: Apache-2.0
"""The result types of operators, as tables of type numbers, and casts between all types.

A table holds indices into attrs["dtypes"], -1 where PyTorch raises an
error, or -2 where it promotes to a type that is not in the list (complex numbers of halves).
"""

import math

import torch

from casebook import DTYPES, Book, V

INF, NAN = math.inf, math.nan
EXACT = {"rtol": 0.0, "atol": 0.0}
TYPES = [getattr(torch, name) for name in DTYPES]
NUMBERS = {"bool": True, "int": 2, "float": 2.0, "complex": 2j}


def result_of(function, *args):
    if len(args) == 2 and torch.result_type(*args) not in TYPES:
        return -2
    try:
        return TYPES.index(function(*args).dtype)
    except (RuntimeError, TypeError):
        return -1


def table(rows):
    return torch.tensor(rows, dtype=torch.int64)


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "maximum": torch.maximum,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "eq": torch.eq,
    "bitwise_and": torch.bitwise_and,
    "where": lambda x, y: torch.where(torch.ones(1, dtype=torch.bool), x, y),
}
UNARY = {
    name: getattr(torch, name)
    for name in (
        "neg abs exp sqrt sigmoid reciprocal square sign floor round relu logical_not bitwise_not "
        "isnan sum prod mean amax std"
    ).split()
}
UNARY |= {
    "cumsum": lambda x: torch.cumsum(x, 0),
    "softmax": lambda x: torch.softmax(x, 0),
    "argmax": torch.argmax,
    "all": torch.all,
}


def promote():
    book = Book("promote")
    for op, function in BINARY.items():
        attrs = {"operator": op, "dtypes": DTYPES}
        ones = [torch.ones(1, dtype=t) for t in TYPES]
        zero_dim = [torch.ones((), dtype=t) for t in TYPES]
        pairs = [[result_of(function, x, y) for y in ones] for x in ones]
        mixed = [[result_of(function, x, y) for y in zero_dim] for x in ones]
        numbers = [[result_of(function, x, n) for n in NUMBERS.values()] for x in ones]
        numbers_zero = [[result_of(function, x, n) for n in NUMBERS.values()] for x in zero_dim]
        book.table("result_type", f"{op}_tensor_tensor", {**attrs, "right": "tensor"}, table(pairs))
        book.table(
            "result_type", f"{op}_tensor_zero_dim", {**attrs, "right": "zero_dim"}, table(mixed)
        )
        if op not in ("maximum", "where"):
            kinds = {**attrs, "kinds": list(NUMBERS)}
            book.table(
                "result_type", f"{op}_tensor_number", {**kinds, "right": "number"}, table(numbers)
            )
            book.table(
                "result_type",
                f"{op}_zero_dim_number",
                {**kinds, "right": "zero_dim_number"},
                table(numbers_zero),
            )
    for op, function in UNARY.items():
        row = [result_of(function, torch.ones(3, dtype=t)) for t in TYPES]
        attrs = {"operator": op, "dtypes": DTYPES, "right": "none"}
        book.table("result_type", f"{op}_one_tensor", attrs, table(row))
    return book


SIGNED = [0, 1, -1, 7, 100, -100, 127, -128]
VALUES = {
    "bool": [True, False],
    "uint8": [0, 1, 2, 127, 128, 255],
    "int8": SIGNED,
    "int16": SIGNED + [300, -32768, 32767],
    "int32": SIGNED + [300, 70000, 16777217, 2147483647, -2147483648],
    "int64": SIGNED + [300, 70000, 16777217, 2147483647, 9007199254740993, -4294967297],
    "float": [0.0, -0.0, 1.0, 0.5, 1.5, 2.5, 2.99, 100.75],
    "negative": [-0.5, -1.0, -1.99, -100.25],
    "wide": [1e-8, 1 / 3, 65504.0, 65519.0, 65520.0, 1e5, 3.3e38, INF, -INF, NAN],
    "double": [1e-300, 1e300, 0.1, 1.0000000001, 5.9604645e-08, 2.9802322e-08, 1e-45],
}


def source_values(source, target):
    """Values whose cast is defined: floats to integers only in range."""
    if source not in VALUES and not source.startswith("complex"):
        values = VALUES["float"] + ([] if target == "uint8" else VALUES["negative"])
        if target.startswith(("float", "bfloat", "complex")) or target == "bool":
            values = values + VALUES["wide"]
            values = values + (VALUES["double"] if source in ("float32", "float64") else [])
        return values
    if source.startswith("complex"):
        values = [complex(v, 0.5) for v in VALUES["float"]] + [0j, 0.5j]
        if target.startswith("complex"):
            values += [complex(-1.25, INF), complex(NAN, -2.0)]
        return values
    return VALUES[source]


def cast():
    book = Book("cast")
    for source in DTYPES:
        for target in DTYPES:
            values = source_values(source, target)
            book.case(
                "to",
                f"{source}_to_{target}",
                [V(values, source)],
                {"dtype": target},
                grad=False,
                **EXACT,
            )
    for source, target in (("float32", "bfloat16"), ("float16", "float32"), ("float32", "float64")):
        book.case(
            "to",
            f"gradient_{source}_to_{target}",
            [V([0.5, 1.25, -3.0], source)],
            {"dtype": target},
        )
    ties = [1 + k / 256 for k in range(9)] + [1 + 1 / 256 + 2**-20, 1 + 3 / 256 - 2**-20]
    book.case("to", "bfloat16_ties", [V(ties)], {"dtype": "bfloat16"}, grad=False, **EXACT)
    ties = [1 + k / 2048 for k in range(9)] + [6e-8, 3e-8, 2.9e-8, 6.1e-5, 2048.5, 2049.5]
    book.case("to", "float16_ties", [V(ties)], {"dtype": "float16"}, grad=False, **EXACT)
    return book


FAMILIES = [promote, cast]
