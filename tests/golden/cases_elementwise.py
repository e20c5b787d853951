# SPDX-License-Identifier: Apache-2.0
"""Cases of element-wise operators: arithmetic, comparison, unary functions, activations."""

import math

from casebook import B, Book, I, P, R, V, scalar, view

INF, NAN = math.inf, math.nan
HALF = ("float16", "bfloat16")
INTS = ("int64", "int32", "uint8")
TRANSPOSED = [view("permute", 1, 0)]
STRIDED = [view("slice", 1, 1, 8, 2)]


def arithmetic():
    book = Book("arithmetic")
    for op in ("add", "sub", "mul", "div"):
        book.case(op, "plain", [R(2, 5), P(2, 5)])
        book.case(op, "broadcast", [R(2, 1, 3), P(4, 1)])
        book.case(op, "scalar_tensor", [R(), P(3)])
        book.case(op, "zero_dim", [R(), P()])
        book.case(op, "empty", [R(0, 3), P(1, 3)])
        book.case(op, "empty_widened", [R(2, 0, 1), P(1, 4)])
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED), P(4, 3)])
        book.case(op, "strided", [R(2, 8, view=STRIDED), P(2, 4)])
        book.case(op, "expanded", [R(1, 3, view=[view("expand", 4, 3)]), P(4, 3)])
        book.case(op, "float64", [R(2, 3, dtype="float64"), P(2, 3, dtype="float64")])
        for dtype in HALF:
            book.case(op, dtype, [R(2, 3, dtype=dtype), P(3, dtype=dtype)])
        for dtype in INTS:
            book.case(op, dtype, [I(9, 2, 3, dtype=dtype), I(9, 3, dtype=dtype, lo=1)])
        book.case(op, "mixed_int_float", [I(9, 2, 3), P(3)])
        book.case(op, "mixed_half_float", [R(2, 3, dtype="float16"), P(3)])
        book.case(op, "mixed_half_bfloat", [R(3, dtype="float16"), P(3, dtype="bfloat16")])
        book.case(op, "mixed_uint8_int32", [I(9, 4, dtype="uint8"), I(9, 4, dtype="int32", lo=1)])
        book.case(op, "complex64", [R(2, 3, dtype="complex64"), P(3, dtype="complex64")])
        book.case(op, "complex_real", [R(2, 3, dtype="complex64"), P(2, 3)])
        special = [INF, -INF, NAN, 0.0, -0.0, 1.0]
        book.case(op, "special", [V(special), V([[1.0], [INF], [0.0], [NAN]])])
        for value in (3, 1.5, True):
            kind = type(value).__name__
            if not (op == "sub" and value is True):
                book.case(f"{op}_scalar", f"float32_{kind}", [R(3)], scalar(value))
                book.case(f"{op}_scalar", f"int32_{kind}", [I(9, 3, dtype="int32")], scalar(value))
        book.case(f"{op}_scalar", "bfloat16_float", [R(4, dtype="bfloat16")], scalar(1.25))
        book.case(f"{op}_scalar", "complex", [R(3, dtype="complex64")], scalar(1.5 - 2j))
    same = R(3, 4)
    book.case("mul", "same_twice", [same, same])
    book.case("add", "alpha", [R(2, 3), R(3)], {"alpha": 2.5})
    book.case("sub", "alpha", [R(2, 3), R(3)], {"alpha": -0.5})
    book.case("add", "alpha_int", [I(9, 3), I(9, 3)], {"alpha": 3})
    book.case("rsub_scalar", "float", [R(3)], scalar(2.0))
    book.case("rsub_scalar", "int", [I(9, 3)], scalar(2))
    book.case("div", "by_zero", [V([1.0, -1.0, 0.0]), V([0.0, 0.0, 0.0])])
    book.case("add", "bool", [B(6), B(6)])
    book.case("mul", "bool", [B(6), B(6)])
    powers(book)
    remainders(book)
    extremes(book)
    fused(book)
    return book


def powers(book):
    book.case("pow", "plain", [P(2, 3), R(2, 3)])
    book.case("pow", "broadcast", [P(2, 1), R(3)])
    book.case("pow", "float64", [P(3, dtype="float64"), R(3, dtype="float64")])
    book.case("pow", "zero_base", [V([0.0, 0.0, 2.0, -2.0]), V([0.0, 2.0, 0.0, 3.0])])
    book.case("pow", "int64", [I(5, 2, 3), I(4, 3)])
    book.case(
        "pow",
        "special",
        [V([1.0, NAN, INF, -INF, 0.5]), V([[NAN], [0.0], [-1.0], [3.0]])],
        grad=False,
    )
    for value in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.0, -0.5, 2.5):
        label = str(value).replace("-", "minus_").replace(".", "_")
        book.case("pow_scalar", label, [P(5)], scalar(value))
    book.case("pow_scalar", "negative_base", [R(6)], scalar(3.0))
    book.case("pow_scalar", "int_int", [I(7, 4)], scalar(3))
    book.case("pow_scalar", "int_float", [I(7, 4, lo=1)], scalar(0.5))
    book.case("pow_scalar", "float_int", [R(4)], scalar(2))
    book.case("pow_scalar", "bfloat16", [P(4, dtype="bfloat16")], scalar(1.5))
    book.case("scalar_pow", "float", [R(4)], scalar(2.5))
    book.case("scalar_pow", "zero", [V([0.0, 1.0, 2.0])], scalar(0.0))
    book.case("scalar_pow", "int", [I(6, 4)], scalar(2))


def remainders(book):
    for op in ("fmod", "remainder"):
        book.case(
            op,
            "float32",
            [V([5.5, -5.5, 5.5, -5.5, 0.0, 7.25]), V([2.0, 2.0, -2.0, -2.0, 3.0, 0.5])],
        )
        book.case(op, "broadcast", [R(2, 3, lo=-8, hi=8), P(3)])
        book.case(op, "int64", [V([7, -7, 7, -7, 0], "int64"), V([3, 3, -3, -3, 5], "int64")])
        book.case(op, "uint8", [V([7, 200, 255], "uint8"), V([3, 7, 16], "uint8")])
        book.case(
            op,
            "special",
            [V([1.0, -1.0, INF, 1.0, NAN, -0.0]), V([0.0, INF, 2.0, -INF, 1.0, 2.0])],
            grad=False,
        )
        book.case(f"{op}_scalar", "float32", [R(6, lo=-8, hi=8)], scalar(2.5))
        book.case(f"{op}_scalar", "int32", [V([7, -7, 8, -8], "int32")], scalar(3))


def extremes(book):
    for op in ("maximum", "minimum"):
        book.case(op, "plain", [R(2, 4), R(4)])
        book.case(op, "ties", [V([1.0, 2.0, 3.0]), V([1.0, 3.0, 2.0])])
        book.case(
            op, "special", [V([NAN, 1.0, INF, -INF, 0.0]), V([1.0, NAN, 2.0, 2.0, NAN])], grad=False
        )
        book.case(op, "int32", [I(9, 5, dtype="int32"), I(9, 5, dtype="int32")])
        book.case(op, "bfloat16", [R(4, dtype="bfloat16"), R(4, dtype="bfloat16")])
        book.case(op, "bool", [B(5), B(5)])


def fused(book):
    book.case("lerp", "number", [R(2, 3), R(2, 3)], {"weight": 0.25})
    book.case("lerp", "number_high", [R(2, 3), R(3)], {"weight": 0.75})
    book.case("lerp_tensor", "plain", [R(2, 3), R(2, 3), R(2, 3, lo=0, hi=1)])
    book.case("lerp_tensor", "broadcast", [R(2, 3), R(3), R(2, 1, lo=0, hi=1)])
    for op in ("addcmul", "addcdiv"):
        book.case(op, "plain", [R(2, 3), R(2, 3), P(2, 3)])
        book.case(op, "value", [R(2, 3), R(3), P(2, 1)], {"value": -0.5})
        book.case(
            op,
            "float64",
            [R(3, dtype="float64"), R(3, dtype="float64"), P(3, dtype="float64")],
            {"value": 2.0},
        )
    book.case("addcmul", "int64", [I(9, 4), I(9, 4), I(9, 4)], {"value": 2})


def compare():
    book = Book("compare")
    special = [INF, -INF, NAN, 0.0, -0.0, 1.0]
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        book.case(op, "float32", [V([1.0, 2.0, 3.0]), V([[1.0], [3.0]])])
        book.case(op, "special", [V(special), V([[NAN], [INF], [0.0]])])
        book.case(op, "mixed", [I(3, 2, 4), V([0.0, 0.5, 1.0, 2.0])])
        book.case(op, "uint8_int8", [V([1, 200, 255], "uint8"), V([1, -56, -1], "int8")])
        book.case(op, "bool", [B(6), B(6)])
        book.case(op, "empty", [R(0, 2), R(1)])
        book.case(op, "bfloat16", [R(4, dtype="bfloat16"), R(4, dtype="bfloat16")])
        book.case(op, "transposed", [I(3, 2, 3, view=TRANSPOSED), I(3, 3, 2)])
    for op in ("eq", "ne"):
        book.case(
            op, "complex64", [V([1 + 1j, 2 - 1j], "complex64"), V([1 + 1j, 2 + 1j], "complex64")]
        )
    for op in ("eq_scalar", "lt_scalar", "ge_scalar"):
        book.case(op, "float32", [V([1.0, 2.0, 3.0])], scalar(2.0))
        book.case(op, "int64_float", [I(4, 5)], scalar(1.5))
        book.case(op, "uint8_int", [V([0, 1, 255], "uint8")], scalar(1))
    for op in ("logical_and", "logical_or", "logical_xor"):
        book.case(op, "bool", [B(2, 4), B(4)])
        book.case(op, "float32", [V([0.0, 1.0, NAN, -0.0]), V([1.0, 1.0, 0.0, 2.0])])
        book.case(op, "int_float", [I(2, 4), V([0.0, 0.5, 0.0, 2.0])])
    book.case("logical_not", "bool", [B(5)])
    book.case("logical_not", "float32", [V([0.0, -0.0, 1.0, NAN])])
    book.case("logical_not", "int64", [I(3, 5)])
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        book.case(op, "int64", [V([5, -3, 12], "int64"), V([[3], [-8]], "int64")])
        book.case(op, "uint8", [I(255, 4, dtype="uint8"), I(255, 4, dtype="uint8")])
        book.case(op, "bool", [B(5), B(5)])
    book.case("bitwise_not", "int32", [V([0, 5, -3], "int32")])
    book.case("bitwise_not", "uint8", [V([0, 5, 255], "uint8")])
    book.case("bitwise_not", "bool", [B(4)])
    book.case("isnan", "float32", [V(special)])
    book.case("isinf", "float32", [V(special)])
    book.case("isfinite", "float32", [V(special)])
    book.case("isnan", "int64", [I(3, 3)])
    book.case("isnan", "bfloat16", [V([NAN, 1.0, INF], "bfloat16")])
    book.case("isinf", "float16", [V([NAN, 1.0, -INF], "float16")])
    choose(book)
    return book


def choose(book):
    book.case("where", "plain", [B(2, 3), R(2, 3), R(2, 3)])
    book.case("where", "broadcast", [B(2, 1), R(3), R()])
    book.case("where", "empty_widened", [B(2, 0, 1, 1), R(1, 5, 3), R(5, 1)])
    book.case("where", "mixed", [B(4), I(9, 4), R(4)])
    book.case("where", "bfloat16", [B(4), R(4, dtype="bfloat16"), R(4, dtype="bfloat16")])
    book.case("where", "int32", [B(4), I(9, 4, dtype="int32"), I(9, 4, dtype="int32")])
    book.case("where", "nan_not_taken", [V([True, False], "bool"), V([1.0, NAN]), V([NAN, 2.0])])
    book.case("clamp", "both", [R(2, 4)], {**scalar(-0.5, "min"), **scalar(1.0, "max")})
    book.case("clamp", "min_only", [R(5)], scalar(-0.25, "min"))
    book.case("clamp", "max_only", [R(5)], scalar(0.25, "max"))
    book.case("clamp", "min_above_max", [R(5)], {**scalar(1.0, "min"), **scalar(-1.0, "max")})
    book.case(
        "clamp",
        "edges",
        [V([-1.0, 0.0, 1.0, NAN, INF])],
        {**scalar(-1.0, "min"), **scalar(1.0, "max")},
    )
    book.case("clamp", "int64", [I(9, 6)], {**scalar(2, "min"), **scalar(5, "max")})
    book.case("clamp", "int_with_float", [I(9, 4)], scalar(2.5, "min"))
    book.case(
        "clamp", "bfloat16", [R(5, dtype="bfloat16")], {**scalar(-0.5, "min"), **scalar(0.5, "max")}
    )
    book.case("clamp_tensor", "both", [R(2, 4), R(4, lo=-1, hi=0), R(4, lo=0, hi=1)])
    book.case("clamp_tensor", "min_only", [R(2, 4), R(4), None])
    book.case("clamp_tensor", "max_only", [R(4), None, R(2, 4)])
    book.case("clamp_tensor", "ties", [V([1.0, 2.0]), V([1.0, 0.0]), V([3.0, 2.0])])


POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "log1p", "reciprocal"}
SMOOTH = (
    "exp expm1 log log1p log2 log10 sqrt rsqrt tanh sigmoid sin cos reciprocal square erf".split()
)
ROUNDING = "sign floor ceil round trunc".split()


def unary():
    book = Book("unary")
    special = [INF, -INF, NAN, 0.0, -0.0, -1.0, 1.0]
    for op in ["neg", "abs"] + SMOOTH + ROUNDING:
        source = P if op in POSITIVE else R
        book.case(op, "float32", [source(2, 6)])
        book.case(op, "special", [V(special)])
        book.case(op, "float64", [source(4, dtype="float64")])
        for dtype in HALF:
            narrow = {"lo": -1.0, "hi": 1.0} if op == "tanh" else {}
            book.case(op, dtype, [source(6, dtype=dtype, **narrow)])
        if op not in ("floor", "ceil", "trunc", "round"):
            book.case(op, "int64", [I(9, 4, lo=1)])
    for op in SMOOTH:
        source = P if op in POSITIVE else R
        book.case(op, "transposed", [source(3, 4, view=TRANSPOSED)])
        book.case(op, "strided", [source(2, 8, view=STRIDED)])
        book.case(op, "uint8", [I(5, 3, dtype="uint8", lo=1)])
        if op in ("exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "reciprocal", "square"):
            book.case(op, "complex64", [source(3, dtype="complex64")])
    book.case(
        "exp",
        "wide",
        [V([-120.0, -100.0, -88.0, -87.0, -20.0, -1e-6, 0.0, 1e-6, 20.0, 88.0, 89.0])],
    )
    book.case("tanh", "wide", [V([-30.0, -9.0, -0.01, -1e-6, 1e-6, 0.01, 9.0, 30.0])])
    book.case("sigmoid", "wide", [V([-120.0, -90.0, -20.0, -1e-6, 1e-6, 20.0, 90.0])])
    book.case("expm1", "small", [V([-1e-3, -1e-6, 1e-7, 1e-3])], atol=1e-10, rtol=1.3e-6)
    book.case("log1p", "small", [V([-1e-3, -1e-6, 1e-7, 1e-3])], atol=1e-10, rtol=1.3e-6)
    book.case("sin", "wide", [V([-1000.0, -100.0, 3.1415927, 100.0, 1000.0, 1e-5])])
    book.case("cos", "wide", [V([-1000.0, -100.0, 1.5707964, 100.0, 1000.0, 1e-5])])
    book.case("log", "wide", [V([1e-38, 1e-20, 0.999, 1.001, 1e20, 3e38])])
    book.case("erf", "wide", [V([-6.0, -3.0, -1e-5, 1e-5, 3.0, 6.0])])
    book.case("round", "half_to_even", [V([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997])])
    book.case("sign", "complex_free_int32", [V([-3, 0, 4], "int32")])
    book.case("abs", "complex64", [R(3, dtype="complex64")])
    book.case("abs", "int8", [V([-3, 0, 4], "int8")])
    book.case("neg", "complex64", [R(3, dtype="complex64")])
    book.case("neg", "uint8", [V([0, 1, 255], "uint8")])
    book.case("square", "int32", [V([-3, 0, 4], "int32")])
    book.case("exp", "zero_dim", [R()])
    book.case("exp", "empty", [R(0, 2)])
    book.case("exp", "bool", [B(4)])
    return book


def activation():
    book = Book("activation")
    kinds = {
        "relu": [("", {})],
        "silu": [("", {})],
        "gelu": [("none_", {"approximate": "none"}), ("tanh_", {"approximate": "tanh"})],
        "celu": [("", {"alpha": 1.0}), ("alpha_", {"alpha": 0.5})],
        "elu": [("", {"alpha": 1.0}), ("alpha_", {"alpha": 2.0})],
        "leaky_relu": [("", {"slope": 0.01}), ("slope_", {"slope": 0.3})],
        "softplus": [
            ("", {"beta": 1.0, "threshold": 20.0}),
            ("beta_", {"beta": 2.0, "threshold": 1.5}),
        ],
        "hardtanh": [("", {"min": -1.0, "max": 1.0}), ("range_", {"min": -0.5, "max": 1.5})],
    }
    for op, variants in kinds.items():
        for label, attrs in variants:
            book.case(op, label + "float32", [R(3, 8, lo=-4, hi=4)], attrs)
        attrs = variants[0][1]
        far = 60.0 if op == "gelu" else INF  # PyTorch's own kernels differ about gelu(inf)
        book.case(op, "edges", [V([-0.0, 0.0, -1.0, 1.0, far, NAN, -30.0, 30.0])], attrs)
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED)], attrs)
        book.case(op, "float64", [R(5, dtype="float64")], attrs)
        book.case(op, "empty", [R(0)], attrs)
        for dtype in HALF:
            book.case(op, dtype, [R(8, dtype=dtype, lo=-4, hi=4)], attrs)
    book.case("relu", "int64", [V([-2, 0, 3], "int64")])
    for op in ("softmax", "log_softmax"):
        book.case(op, "last", [R(3, 5)], {"dim": -1})
        book.case(op, "first", [R(4, 3)], {"dim": 0})
        book.case(op, "middle", [R(2, 4, 3)], {"dim": 1})
        book.case(
            op, "large_values", [V([[1000.0, 1001.0, -1000.0], [-1e30, 0.0, 1.0]])], {"dim": 1}
        )
        book.case(op, "minus_inf", [V([[0.0, -INF, 1.0], [-INF, -INF, 2.0]])], {"dim": 1})
        book.case(op, "all_minus_inf", [V([-INF, -INF])], {"dim": 0}, grad=False)
        book.case(op, "nan", [V([[0.0, NAN], [1.0, 2.0]])], {"dim": 1}, grad=False)
        book.case(op, "one", [R(3, 1)], {"dim": 1})
        book.case(op, "zero_dim", [R()], {"dim": 0})
        book.case(op, "empty", [R(0, 4)], {"dim": 1})
        book.case(op, "transposed", [R(3, 4, view=TRANSPOSED)], {"dim": 1})
        book.case(op, "float64", [R(2, 4, dtype="float64")], {"dim": 1})
        book.case(op, "half_to_float32", [R(2, 4, dtype="float16")], {"dim": 1, "dtype": "float32"})
        for dtype in HALF:
            book.case(op, dtype, [R(2, 4, dtype=dtype)], {"dim": 1})
    return book


FAMILIES = [arithmetic, compare, unary, activation]
