# SPDX-License-Identifier: Apache-2.0
"""Cases of reductions, cumulative operators, matrix products and ordering."""

import math

from casebook import B, Book, I, P, R, V, view

INF, NAN = math.inf, math.nan
HALF = ("float16", "bfloat16")
TRANSPOSED = [view("permute", 1, 0)]
SWAPPED = [view("permute", 0, 2, 1)]
EVERY_OTHER = [view("slice", 1, 0, 6, 2)]


def reduce():
    book = Book("reduce")
    for op in ("sum", "mean", "amax", "amin", "logsumexp", "norm", "var", "std"):
        attrs = {"correction": 1} if op in ("var", "std") else {"p": 2} if op == "norm" else {}
        every = {"dims": [0, 1]} if op == "logsumexp" else {}
        book.case(op, "all", [R(3, 4)], {**attrs, **every})
        book.case(op, "last", [R(3, 4)], {**attrs, "dims": [-1]})
        book.case(op, "first_keepdim", [R(3, 4)], {**attrs, "dims": [0], "keepdim": True})
        book.case(op, "two_dims", [R(2, 3, 4)], {**attrs, "dims": [0, 2]})
        book.case(op, "middle", [R(2, 3, 4)], {**attrs, "dims": [1]})
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED)], {**attrs, "dims": [1]})
        book.case(op, "strided", [R(3, 6, view=EVERY_OTHER)], {**attrs, "dims": [1]})
        book.case(op, "expanded", [R(3, 1, view=[view("expand", 3, 4)])], {**attrs, "dims": [0]})
        book.case(op, "float64", [R(3, 4, dtype="float64")], {**attrs, "dims": [1]})
        book.case(op, "nan", [V([[1.0, NAN], [2.0, 3.0]])], {**attrs, "dims": [1]}, grad=False)
        for dtype in HALF:
            book.case(op, dtype, [R(3, 4, dtype=dtype)], {**attrs, "dims": [1]})
    plain_sums(book)
    spreads(book)
    norms(book)
    extremes(book)
    booleans(book)
    cumulative(book)
    return book


def plain_sums(book):
    for op in ("sum", "prod"):
        for dtype in ("int64", "int32", "uint8"):
            book.case(op, dtype, [I(9, 2, 4, dtype=dtype, lo=1)])
        book.case(op, "bool", [B(6)])
        book.case(op, "complex64", [R(2, 3, dtype="complex64")])
        book.case(op, "zero_dim", [R()])
        book.case(op, "empty", [R(0, 3)])
    book.case("sum", "empty_dim", [R(0, 3)], {"dims": [0]})
    book.case("sum", "empty_kept", [R(2, 0)], {"dims": [1], "keepdim": True})
    book.case("sum", "to_float64", [R(2, 3)], {"dims": [1], "dtype": "float64"})
    book.case("sum", "int_to_float32", [I(9, 2, 3)], {"dims": [1], "dtype": "float32"})
    book.case("mean", "complex64", [R(2, 3, dtype="complex64")], {"dims": [1]})
    book.case("mean", "empty", [R(0, 3)], grad=False)
    book.case(
        "logsumexp", "large_values", [V([[1000.0, 1000.0], [-1000.0, -1001.0]])], {"dims": [1]}
    )
    book.case("logsumexp", "minus_inf", [V([[-INF, -INF], [-INF, 0.0]])], {"dims": [1]}, grad=False)
    book.case("logsumexp", "inf", [V([[INF, 1.0], [2.0, 0.0]])], {"dims": [1]}, grad=False)
    book.case("prod", "all", [R(5)])
    book.case("prod", "dim", [R(3, 4)], {"dim": 1})
    book.case("prod", "keepdim", [R(3, 4)], {"dim": 0, "keepdim": True})
    book.case("prod", "one_zero", [V([[2.0, 0.0, 3.0], [1.0, 2.0, 3.0]])], {"dim": 1})
    book.case("prod", "two_zeros", [V([2.0, 0.0, 3.0, 0.0])])
    book.case("prod", "bfloat16", [P(2, 3, dtype="bfloat16")], {"dim": 1})


def spreads(book):
    for op in ("var", "std"):
        for correction in (0, 1, 2):
            label = f"correction_{correction}"
            book.case(op, label, [R(2, 5)], {"dims": [1], "correction": correction})
        book.case(op, "one_element", [R(3, 1)], {"dims": [1], "correction": 1}, grad=False)
        book.case(op, "offset_mean", [R(2, 6, lo=99, hi=101)], {"dims": [1], "correction": 0})


def norms(book):
    for p in (0, 1, 2, 3, "inf", "-inf"):
        label = f"p_{p}".replace("-", "minus_")
        book.case("norm", label, [R(3, 4)], {"p": p, "dims": [1]})
        book.case("norm", label + "_all", [R(3, 4)], {"p": p})
    book.case("norm", "zeros", [V([[0.0, 0.0], [3.0, 4.0]])], {"p": 2, "dims": [1]})
    book.case("norm", "zeros_one", [V([[0.0, 0.0], [3.0, -4.0]])], {"p": 1, "dims": [1]})
    book.case("norm", "inf_ties", [V([[2.0, -2.0, 1.0]])], {"p": "inf", "dims": [1]})
    book.case("norm", "complex64", [R(4, dtype="complex64")], {"p": 2})
    book.case("norm", "empty", [R(0)], {"p": 2})


def extremes(book):
    ties = V([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    for op in ("max", "min"):
        book.case(op, "all", [R(3, 4)])
        book.case(op, "all_ties", [ties])
        book.case(op, "nan", [V([1.0, NAN, 2.0])], grad=False)
        book.case(op, "int64", [I(99, 2, 4)])
        dim = f"{op}_dim"
        book.case(dim, "last", [R(3, 4)], {"dim": 1})
        book.case(dim, "first_keepdim", [R(3, 4)], {"dim": 0, "keepdim": True})
        book.case(dim, "middle", [R(2, 3, 2)], {"dim": 1})
        book.case(dim, "ties", [ties], {"dim": 1})
        book.case(dim, "nan", [V([[1.0, NAN, NAN], [2.0, 5.0, -INF]])], {"dim": 1}, grad=False)
        book.case(dim, "int32", [I(99, 2, 4, dtype="int32")], {"dim": 1})
        book.case(dim, "bool", [B(3, 4)], {"dim": 1})
        book.case(dim, "transposed", [R(3, 4, view=TRANSPOSED)], {"dim": 1})
        book.case(dim, "bfloat16", [R(2, 4, dtype="bfloat16")], {"dim": 1})
        book.case(f"a{op}", "ties", [ties], {"dims": [1]})
        book.case(f"a{op}", "int64", [I(99, 2, 4)], {"dims": [0]})
        book.case(f"a{op}", "bool", [B(2, 4)], {"dims": [0]})
        arg = f"arg{op}"
        book.case(arg, "all", [R(3, 4)])
        book.case(arg, "dim", [R(3, 4)], {"dim": 1})
        book.case(arg, "keepdim", [R(3, 4)], {"dim": 0, "keepdim": True})
        book.case(arg, "ties", [ties], {"dim": 1})
        book.case(arg, "nan", [V([1.0, NAN, 3.0, NAN])])
        book.case(arg, "int64", [I(99, 3, 3)], {"dim": 1})
        book.case(arg, "float16", [R(2, 4, dtype="float16")], {"dim": 1})


def booleans(book):
    for op in ("all", "any"):
        book.case(op, "whole", [B(2, 3)])
        book.case(op, "dim", [B(4, 2)], {"dim": 1})
        book.case(op, "keepdim", [B(4, 2)], {"dim": 0, "keepdim": True})
        book.case(op, "float32", [V([[0.0, NAN], [1.0, 2.0], [0.0, 0.0]])], {"dim": 1})
        book.case(op, "int64", [I(2, 3, 2)], {"dim": 1})
        book.case(op, "uint8", [I(3, 3, 2, dtype="uint8")], {"dim": 1})
        book.case(op, "empty", [B(0)])
        book.case(op, "empty_dim", [B(2, 0)], {"dim": 1})


def cumulative(book):
    for op in ("cumsum", "cumprod"):
        book.case(op, "last", [R(2, 5)], {"dim": 1})
        book.case(op, "first", [R(4, 2)], {"dim": 0})
        book.case(op, "middle", [R(2, 3, 2)], {"dim": 1})
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED)], {"dim": -1})
        book.case(op, "int32", [I(5, 2, 4, dtype="int32", lo=1)], {"dim": 1})
        book.case(op, "bool", [B(5)], {"dim": 0})
        book.case(op, "float64", [R(4, dtype="float64")], {"dim": 0})
        book.case(op, "bfloat16", [R(2, 4, dtype="bfloat16")], {"dim": 1})
        book.case(op, "zero_dim", [R()], {"dim": 0})
        book.case(op, "empty", [R(2, 0)], {"dim": 1})
    book.case("cumprod", "zeros", [V([[2.0, 0.0, 3.0, 0.0], [1.0, 0.0, 2.0, 4.0]])], {"dim": 1})


RANKS = [
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 3)),
    ((2, 4), (4, 3)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4, 2)),
    ((3, 4), (2, 4, 2)),
    ((2, 3, 4), (2, 4, 2)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((1, 3, 4), (2, 4, 2)),
]


def matmul():
    book = Book("matmul")
    for left, right in RANKS:
        label = "_by_".join("x".join(map(str, s)) for s in (left, right))
        book.case("matmul", label, [R(*left), R(*right)])
    book.case("matmul", "left_transposed", [R(4, 3, view=TRANSPOSED), R(4, 2)])
    book.case("matmul", "right_transposed", [R(3, 4), R(2, 4, view=TRANSPOSED)])
    book.case("matmul", "both_transposed", [R(4, 3, view=TRANSPOSED), R(2, 4, view=TRANSPOSED)])
    book.case("matmul", "batch_transposed", [R(2, 4, 3, view=SWAPPED), R(2, 4, 2)])
    book.case("matmul", "sliced", [R(3, 6, view=EVERY_OTHER), R(3, 2)])
    book.case("matmul", "expanded", [R(1, 4, view=[view("expand", 3, 4)]), R(4, 2)])
    book.case("matmul", "inner_empty", [R(2, 0), R(0, 3)])
    book.case("matmul", "outer_empty", [R(0, 4), R(4, 3)])
    book.case(
        "matmul", "nan", [V([[1.0, NAN], [INF, 0.0]]), V([[1.0, 0.0], [1.0, 1.0]])], grad=False
    )
    book.case("matmul", "odd_sizes", [R(7, 13), R(13, 9)])
    for op, left, right in (
        ("bmm", (2, 3, 4), (2, 4, 2)),
        ("mv", (3, 4), (4,)),
        ("dot", (5,), (5,)),
    ):
        book.case(op, "float32", [R(*left), R(*right)])
        book.case(op, "int64", [I(9, *left), I(9, *right)])
    for op, left, right in (
        ("matmul", (2, 3), (3, 2)),
        ("bmm", (2, 2, 3), (2, 3, 2)),
        ("dot", (4,), (4,)),
    ):
        for dtype in ("float64", "complex64") + HALF:
            book.case(op, dtype, [R(*left, dtype=dtype), R(*right, dtype=dtype)])
    book.case("bmm", "transposed", [R(2, 4, 3, view=SWAPPED), R(2, 2, 4, view=SWAPPED)])
    book.case("bmm", "empty", [R(0, 2, 3), R(0, 3, 2)])
    book.case("mv", "transposed", [R(4, 3, view=TRANSPOSED), R(4)])
    book.case("dot", "empty", [R(0), R(0)])
    fused_products(book)
    return book


def fused_products(book):
    book.case("addmm", "plain", [R(3, 2), R(3, 4), R(4, 2)])
    book.case("addmm", "row", [R(2), R(3, 4), R(4, 2)])
    book.case("addmm", "scaled", [R(3, 1), R(3, 4), R(4, 2)], {"beta": 0.5, "alpha": -2.0})
    book.case("addmm", "beta_zero", [V([[NAN, 1.0]]), R(3, 4), R(4, 2)], {"beta": 0.0}, grad=False)
    book.case(
        "addmm",
        "float64",
        [R(2, dtype="float64"), R(3, 4, dtype="float64"), R(4, 2, dtype="float64")],
    )
    book.case(
        "addmm",
        "bfloat16",
        [R(2, dtype="bfloat16"), R(3, 4, dtype="bfloat16"), R(4, 2, dtype="bfloat16")],
    )
    book.case("addmm", "inner_empty", [R(2), R(3, 0), R(0, 2)])
    book.case("baddbmm", "plain", [R(2, 3, 2), R(2, 3, 4), R(2, 4, 2)])
    book.case(
        "baddbmm", "broadcast", [R(3, 1), R(2, 3, 4), R(2, 4, 2)], {"beta": 2.0, "alpha": 0.5}
    )
    book.case("linear", "plain", [R(3, 4), R(2, 4), R(2)])
    book.case("linear", "no_bias", [R(3, 4), R(2, 4), None])
    book.case("linear", "three_dims", [R(2, 3, 4), R(2, 4), R(2)])
    book.case("linear", "vector", [R(4), R(2, 4), R(2)])
    book.case("linear", "transposed_input", [R(4, 3, view=TRANSPOSED), R(2, 4), R(2)])
    book.case("linear", "empty_batch", [R(0, 4), R(2, 4), R(2)])
    for dtype in ("float64",) + HALF:
        book.case("linear", dtype, [R(3, 4, dtype=dtype), R(2, 4, dtype=dtype), R(2, dtype=dtype)])


def order():
    book = Book("order")
    for op in ("sort", "argsort"):
        book.case(op, "ascending", [R(2, 6)], {"dim": 1})
        book.case(op, "descending", [R(2, 6)], {"dim": -1, "descending": True})
        book.case(op, "first", [R(5, 2)], {"dim": 0})
        book.case(op, "ties", [V([2.0, 1.0, 2.0, 1.0, 0.0, 2.0])], {"dim": 0})
        book.case(
            op, "ties_down", [V([2.0, 1.0, 2.0, 1.0, 0.0, 2.0])], {"dim": 0, "descending": True}
        )
        book.case(op, "nan", [V([NAN, 1.0, -INF, NAN, INF])], {"dim": 0}, grad=False)
        book.case(
            op,
            "nan_down",
            [V([NAN, 1.0, -INF, NAN, INF])],
            {"dim": 0, "descending": True},
            grad=False,
        )
        book.case(op, "int64", [I(99, 2, 5)], {"dim": 1})
        book.case(op, "bool", [B(6)], {"dim": 0})
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED)], {"dim": 1})
        book.case(op, "bfloat16", [V([0.5, -1.0, 3.0, 0.25], "bfloat16")], {"dim": 0})
        book.case(op, "zero_dim", [R()], {"dim": 0})
        book.case(op, "empty", [R(2, 0)], {"dim": 1})
    book.case("topk", "largest", [R(2, 6)], {"k": 3, "dim": 1})
    book.case("topk", "smallest", [R(2, 6)], {"k": 2, "dim": 1, "largest": False})
    book.case("topk", "first", [R(5, 2)], {"k": 2, "dim": 0})
    book.case("topk", "all", [R(4)], {"k": 4, "dim": 0})
    book.case("topk", "none", [R(4)], {"k": 0, "dim": 0})
    book.case("topk", "nan", [V([1.0, NAN, 3.0])], {"k": 2, "dim": 0}, grad=False)
    book.case("topk", "int64", [V([5, 1, 9, 7], "int64")], {"k": 2, "dim": 0})
    book.case("topk", "float16", [R(5, dtype="float16")], {"k": 2, "dim": 0})
    book.case("one_hot", "plain", [I(4, 5)], {"classes": 4})
    book.case("one_hot", "matrix", [I(3, 2, 3)], {"classes": 5})
    book.case("one_hot", "empty", [I(3, 0)], {"classes": 3})
    return book


FAMILIES = [reduce, matmul, order]
