# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that move elements: views, joining, splitting, indexing."""

import math

from casebook import B, Book, I, R, V, scalar, view

NAN = math.nan
TRANSPOSED = [view("permute", 1, 0)]
SHAPE_OPS = [
    ("transpose", "last_two", (2, 3, 4), {"dim0": 1, "dim1": 2}),
    ("transpose", "negative", (2, 3, 4), {"dim0": 0, "dim1": -1}),
    ("permute", "three", (2, 3, 4), {"dims": [2, 0, 1]}),
    ("permute", "negative", (2, 3), {"dims": [-1, 0]}),
    ("reshape", "merge", (2, 3, 4), {"shape": [6, 4]}),
    ("reshape", "inferred", (2, 6), {"shape": [3, -1]}),
    ("reshape", "to_scalar", (1, 1), {"shape": []}),
    ("view", "split", (4, 3), {"shape": [2, 2, 3]}),
    ("view", "inferred", (4, 3), {"shape": [-1]}),
    ("slice", "range", (5, 3), {"dim": 0, "start": 1, "stop": 4}),
    ("slice", "step", (2, 7), {"dim": 1, "start": 1, "stop": 7, "step": 3}),
    ("slice", "negative", (6,), {"dim": 0, "start": -4, "stop": -1}),
    ("slice", "beyond", (4,), {"dim": 0, "start": 2, "stop": 99}),
    ("slice", "nothing", (4, 2), {"dim": 0, "start": 3, "stop": 1}),
    ("select", "first", (3, 4), {"dim": 0, "index": 1}),
    ("select", "negative", (3, 4), {"dim": -1, "index": -1}),
    ("narrow", "middle", (3, 5), {"dim": 1, "start": 1, "length": 3}),
    ("narrow", "empty", (3, 5), {"dim": 1, "start": 2, "length": 0}),
    ("split", "even", (4, 2), {"dim": 0, "size": 2}),
    ("split", "rest", (2, 5), {"dim": 1, "size": 2}),
    ("split_sizes", "uneven", (6, 2), {"dim": 0, "sizes": [1, 3, 2]}),
    ("split_sizes", "with_empty", (3,), {"dim": 0, "sizes": [3, 0]}),
    ("chunk", "even", (6,), {"dim": 0, "chunks": 3}),
    ("chunk", "rest", (2, 5), {"dim": 1, "chunks": 3}),
    ("chunk", "fewer", (3,), {"dim": 0, "chunks": 5}),
    ("expand", "row", (1, 3), {"shape": [4, 3]}),
    ("expand", "leading", (3,), {"shape": [2, 2, 3]}),
    ("expand", "keep", (2, 1), {"shape": [-1, 3]}),
    ("expand", "from_scalar", (), {"shape": [2, 2]}),
    ("repeat", "both", (2, 3), {"repeats": [2, 2]}),
    ("repeat", "leading", (3,), {"repeats": [2, 1]}),
    ("repeat", "zero", (2,), {"repeats": [0]}),
    ("flip", "one", (2, 3), {"dims": [1]}),
    ("flip", "two", (2, 2, 3), {"dims": [0, 2]}),
    ("roll", "one", (5,), {"shifts": [2], "dims": [0]}),
    ("roll", "two", (3, 4), {"shifts": [1, -1], "dims": [0, 1]}),
    ("roll", "flat", (2, 3), {"shifts": [4]}),
    ("tril", "main", (3, 4), {}),
    ("tril", "above", (3, 3), {"diagonal": 1}),
    ("tril", "batch_below", (2, 3, 3), {"diagonal": -1}),
    ("triu", "main", (4, 3), {}),
    ("triu", "above", (3, 3), {"diagonal": 1}),
    ("triu", "below", (3, 3), {"diagonal": -1}),
    ("diagonal", "main", (3, 3), {"dim1": 0, "dim2": 1}),
    ("diagonal", "offset", (3, 4), {"offset": 1, "dim1": 0, "dim2": 1}),
    ("diagonal", "batch", (2, 3, 3), {"offset": -1, "dim1": 1, "dim2": 2}),
    ("squeeze", "all", (1, 3, 1), {}),
    ("squeeze", "one", (1, 3, 1), {"dims": [0]}),
    ("squeeze", "not_one", (2, 3), {"dims": [0]}),
    ("unsqueeze", "first", (3,), {"dim": 0}),
    ("unsqueeze", "last", (2, 3), {"dim": -1}),
    ("flatten", "all", (2, 3, 2), {"start": 0, "end": -1}),
    ("flatten", "tail", (2, 3, 2), {"start": 1, "end": -1}),
    ("flatten", "scalar", (), {"start": 0, "end": -1}),
]


def shape():
    book = Book("shape")
    for op, label, size, attrs in SHAPE_OPS:
        book.case(op, label, [R(*size)], attrs)
    for op, attrs in (
        ("reshape", {"shape": [2, 6]}),
        ("flatten", {"start": 0, "end": -1}),
        ("flip", {"dims": [0]}),
        ("roll", {"shifts": [1], "dims": [1]}),
        ("tril", {}),
        ("repeat", {"repeats": [1, 2]}),
        ("slice", {"dim": 1, "start": 0, "stop": 3, "step": 2}),
        ("split", {"dim": 1, "size": 2}),
    ):
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED)], attrs)
        book.case(op, "int64", [I(99, 4, 3)], attrs)
        book.case(op, "bool", [B(4, 3)], attrs)
        book.case(op, "bfloat16", [R(4, 3, dtype="bfloat16")], attrs)
        book.case(op, "complex64", [R(4, 3, dtype="complex64")], attrs)
    book.case("reshape", "empty", [R(0, 3)], {"shape": [3, 0]})
    book.case("flip", "empty", [R(0, 3)], {"dims": [1]})
    book.case("reshape", "expanded", [R(1, 3, view=[view("expand", 2, 3)])], {"shape": [6]})
    join(book)
    return book


def join(book):
    book.case("cat", "first", [R(2, 3), R(1, 3)], {"dim": 0})
    book.case("cat", "last", [R(2, 1), R(2, 3), R(2, 2)], {"dim": -1})
    book.case("cat", "with_empty", [R(2, 3), R(0, 3)], {"dim": 0})
    book.case("cat", "legacy_empty", [R(0), R(2, 3)], {"dim": 1})
    book.case("cat", "transposed", [R(3, 2, view=TRANSPOSED), R(2, 3)], {"dim": 0})
    book.case("cat", "mixed", [I(9, 3), R(2)], {"dim": 0})
    book.case("cat", "mixed_half", [R(2, dtype="float16"), R(2, dtype="bfloat16")], {"dim": 0})
    book.case("cat", "bool", [B(2), B(3)], {"dim": 0})
    same = R(2, 2)
    book.case("cat", "same_twice", [same, same], {"dim": 0})
    book.case("stack", "first", [R(2, 3), R(2, 3)], {"dim": 0})
    book.case("stack", "last", [R(2, 3), R(2, 3), R(2, 3)], {"dim": -1})
    book.case("stack", "middle", [R(2, 3), R(2, 3)], {"dim": 1})
    book.case("stack", "scalars", [R(), R()], {"dim": 0})
    book.case("stack", "int64", [I(9, 3), I(9, 3)], {"dim": 1})


def index():
    book = Book("index")
    book.case("index_select", "first", [R(4, 3), V([2, 0, 2], "int64")], {"dim": 0})
    book.case("index_select", "last", [R(2, 5), V([4, 1], "int64")], {"dim": 1})
    book.case("index_select", "int32_index", [R(4, 2), V([3, 3, 1], "int32")], {"dim": 0})
    book.case("index_select", "empty", [R(4, 2), V([], "int64", (0,))], {"dim": 0})
    book.case(
        "index_select", "transposed", [R(3, 4, view=TRANSPOSED), V([1, 3], "int64")], {"dim": 0}
    )
    for dtype in ("bfloat16", "complex64"):
        book.case("index_select", dtype, [R(3, 2, dtype=dtype), V([2, 2], "int64")], {"dim": 0})
    book.case("index_select", "bool", [B(3, 2), V([2, 0], "int64")], {"dim": 0})
    book.case("gather", "first", [R(3, 2), V([[0, 2], [1, 1]], "int64")], {"dim": 0})
    book.case("gather", "last", [R(2, 4), V([[0, 0, 3], [2, 1, 2]], "int64")], {"dim": 1})
    book.case("gather", "three_dims", [R(2, 3, 2), I(3, 2, 2, 2)], {"dim": 1})
    book.case("gather", "int64", [I(99, 2, 3), I(3, 2, 2)], {"dim": 1})
    book.case("gather", "transposed", [R(4, 2, view=TRANSPOSED), I(4, 2, 3)], {"dim": 1})
    book.case("gather", "empty", [R(2, 3), V([], "int64", (2, 0))], {"dim": 1})
    once = V([[0, 2, 1], [1, 0, 2]], "int64")
    book.case("scatter", "last", [R(2, 4), once, R(2, 3)], {"dim": 1})
    book.case("scatter", "first", [R(4, 2), V([[0, 1], [2, 3]], "int64"), R(2, 2)], {"dim": 0})
    book.case(
        "scatter",
        "wider_source",
        [R(2, 4), V([[3], [0]], "int64"), R(2, 3)],
        {"dim": 1},
        grad=False,
    )
    book.case("scatter", "int64", [I(9, 2, 4), once, I(9, 2, 3)], {"dim": 1})
    book.case("scatter_scalar", "float", [R(2, 4), once], {"dim": 1, **scalar(1.5)})
    book.case("scatter_scalar", "int", [I(9, 2, 4), once], {"dim": 1, **scalar(7)})
    for label, dtype in (("float32", "float32"), ("float64", "float64"), ("bfloat16", "bfloat16")):
        x, src = R(2, 4, dtype=dtype), R(2, 3, dtype=dtype)
        book.case("scatter_add", label, [x, V([[0, 2, 0], [1, 1, 3]], "int64"), src], {"dim": 1})
    book.case("scatter_add", "first", [R(3, 2), V([[0, 2], [0, 2]], "int64"), R(2, 2)], {"dim": 0})
    book.case("scatter_add", "int64", [I(9, 3), V([0, 0, 2, 2], "int64"), I(9, 4)], {"dim": 0})
    book.case("index_add", "first", [R(3, 2), V([2, 0, 2], "int64"), R(3, 2)], {"dim": 0})
    book.case(
        "index_add", "alpha", [R(2, 3), V([1, 1], "int64"), R(2, 2)], {"dim": 1, "alpha": -0.5}
    )
    book.case("index_add", "int64", [I(9, 3), V([1, 1], "int64"), I(9, 2)], {"dim": 0})
    masks(book)
    return book


def masks(book):
    book.case("masked_fill", "plain", [R(2, 3), B(2, 3)], scalar(-1.5))
    book.case("masked_fill", "broadcast", [R(2, 3), B(3)], scalar(0.0))
    book.case("masked_fill", "minus_inf", [R(4), B(4)], scalar(-math.inf))
    book.case("masked_fill", "nan_hidden", [V([NAN, 1.0]), V([True, False], "bool")], scalar(0.0))
    book.case("masked_fill", "int64", [I(9, 4), B(4)], scalar(3))
    book.case("masked_fill", "bfloat16", [R(4, dtype="bfloat16"), B(4)], scalar(0.5))
    book.case("masked_select", "plain", [R(2, 4), B(2, 4)])
    book.case("masked_select", "broadcast", [R(2, 3), V([True, False, True], "bool")])
    book.case("masked_select", "none", [R(3), V([False] * 3, "bool")])
    book.case("masked_select", "transposed", [R(3, 2, view=TRANSPOSED), B(2, 3)])
    book.case("masked_select", "int64", [I(9, 5), B(5)])


FAMILIES = [shape, index]
