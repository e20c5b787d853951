# SPDX-License-Identifier: Apache-2.0
"""Cases of losses, normalisation, convolutions, pools, embeddings and attention."""

import math

from casebook import Book, I, P, R, V, view

INF, NAN = math.inf, math.nan
HALF = ("float16", "bfloat16")
REDUCTIONS = ("mean", "sum", "none")
TRANSPOSED = [view("permute", 1, 0)]
CHANNELS_LAST = [view("permute", 0, 3, 1, 2)]
SMOOTH = {"label_smoothing": 0.1}


def probabilities(*shape):
    return R(*shape, lo=0.0, hi=0.3, grad=False)


def loss():
    book = Book("loss")
    class_losses(book)
    element_losses(book)
    binary_losses(book)
    return book


def class_losses(book):
    labels = V([1, 3, 0], "int64")
    ignored = V([1, -100, 3], "int64")
    weight = P(4, grad=False)
    for kind in REDUCTIONS:
        attrs = {"reduction": kind}
        book.case("cross_entropy", kind, [R(3, 4), labels, None], attrs)
        book.case("cross_entropy", f"weight_{kind}", [R(3, 4), labels, weight], attrs)
        book.case("cross_entropy", f"ignored_{kind}", [R(3, 4), ignored, None], attrs)
        book.case("cross_entropy", f"smooth_{kind}", [R(3, 4), labels, None], {**attrs, **SMOOTH})
        book.case(
            "cross_entropy", f"everything_{kind}", [R(3, 4), ignored, weight], {**attrs, **SMOOTH}
        )
        book.case(
            "cross_entropy", f"extra_dims_{kind}", [R(2, 3, 2, 2), I(3, 2, 2, 2), None], attrs
        )
        book.case(
            "cross_entropy", f"probabilities_{kind}", [R(3, 4), probabilities(3, 4), None], attrs
        )
        book.case(
            "cross_entropy",
            f"probabilities_smooth_weight_{kind}",
            [R(3, 4), probabilities(3, 4), weight],
            {**attrs, **SMOOTH},
        )
        book.case("nll_loss", kind, [R(3, 4), labels, None], attrs)
        book.case("nll_loss", f"weight_ignored_{kind}", [R(3, 4), ignored, weight], attrs)
        book.case("nll_loss", f"extra_dims_{kind}", [R(2, 3, 2, 2), I(3, 2, 2, 2), None], attrs)
    book.case("cross_entropy", "one_sample", [R(4), V(2, "int64"), None])
    book.case(
        "cross_entropy",
        "own_ignore_index",
        [R(3, 4), V([1, 2, 1], "int64"), None],
        {"ignore_index": 1},
    )
    book.case("cross_entropy", "all_ignored", [R(2, 4), V([-100, -100], "int64"), None])
    book.case(
        "cross_entropy", "probabilities_extra_dims", [R(2, 3, 2), probabilities(2, 3, 2), None]
    )
    book.case(
        "cross_entropy",
        "large_logits",
        [V([[1000.0, -1000.0], [0.0, 500.0]]), V([0, 0], "int64"), None],
    )
    book.case("cross_entropy", "transposed", [R(4, 3, view=TRANSPOSED), labels, None])
    book.case("cross_entropy", "float64", [R(3, 4, dtype="float64"), labels, None])
    for dtype in HALF:
        book.case("cross_entropy", dtype, [R(3, 4, dtype=dtype), labels, None])


def element_losses(book):
    for kind in REDUCTIONS:
        attrs = {"reduction": kind}
        for op, more in (
            ("mse_loss", {}),
            ("l1_loss", {}),
            ("smooth_l1_loss", {"beta": 1.0}),
            ("huber_loss", {"delta": 0.75}),
        ):
            book.case(op, kind, [R(2, 4), R(2, 4)], {**attrs, **more})
        book.case("kl_div", kind, [R(2, 4, lo=-3, hi=0), P(2, 4, lo=0.1, hi=0.5)], attrs)
    book.case("smooth_l1_loss", "beta", [R(6), R(6)], {"beta": 0.25})
    book.case("smooth_l1_loss", "beta_zero", [R(6), R(6)], {"beta": 0.0})
    book.case("kl_div", "batchmean", [R(2, 4, lo=-3, hi=0), P(2, 4)], {"reduction": "batchmean"})
    log_target = {"reduction": "sum", "log_target": True}
    book.case("kl_div", "log_target", [R(2, 4, lo=-3, hi=0), R(2, 4, lo=-3, hi=0)], log_target)
    book.case(
        "kl_div",
        "zero_target",
        [R(3, lo=-3, hi=0), V([0.0, 0.5, 0.5], grad=False)],
        {"reduction": "sum"},
    )
    for op in ("mse_loss", "l1_loss"):
        book.case(op, "equal", [V([1.0, 2.0]), V([1.0, 3.0])])
        book.case(op, "float64", [R(3, dtype="float64"), R(3, dtype="float64")])
        book.case(op, "bfloat16", [R(4, dtype="bfloat16"), R(4, dtype="bfloat16")])


def binary_losses(book):
    target = R(3, 4, lo=0, hi=1, grad=False)
    for kind in REDUCTIONS:
        attrs = {"reduction": kind}
        book.case("bce_with_logits", kind, [R(3, 4), target, None, None], attrs)
        both = [R(3, 4), target, P(4, grad=False), P(4, grad=False)]
        book.case("bce_with_logits", f"weights_{kind}", both, attrs)
    book.case("bce_with_logits", "pos_weight", [R(3, 4), target, None, P(4, grad=False)])
    book.case("bce_with_logits", "weight", [R(3, 4), target, P(3, 1, grad=False), None])
    wide = V([-200.0, -50.0, 50.0, 200.0])
    book.case("bce_with_logits", "wide", [wide, V([1.0, 0.0, 1.0, 0.0], grad=False), None, None])


def norm():
    book = Book("norm")
    eps = {"eps": 1e-5}
    book.case("layer_norm", "plain", [R(3, 5), R(5), R(5)], {"shape": [5], **eps})
    book.case("layer_norm", "bare", [R(3, 5), None, None], {"shape": [5], **eps})
    book.case("layer_norm", "no_bias", [R(3, 5), R(5), None], {"shape": [5], **eps})
    book.case("layer_norm", "two_dims", [R(2, 3, 4), R(3, 4), R(3, 4)], {"shape": [3, 4], **eps})
    book.case("layer_norm", "large_eps", [R(3, 5), R(5), R(5)], {"shape": [5], "eps": 0.5})
    book.case(
        "layer_norm", "transposed", [R(5, 3, view=TRANSPOSED), R(5), R(5)], {"shape": [5], **eps}
    )
    book.case(
        "layer_norm",
        "constant_row",
        [V([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]]), R(3), R(3)],
        {"shape": [3], **eps},
    )
    book.case("layer_norm", "empty", [R(0, 4), R(4), R(4)], {"shape": [4], **eps})
    book.case("rms_norm", "plain", [R(3, 5), R(5)], {"shape": [5], **eps})
    book.case("rms_norm", "bare", [R(3, 5), None], {"shape": [5], **eps})
    book.case("rms_norm", "default_eps", [R(3, 5), R(5)], {"shape": [5], "eps": None})
    book.case("rms_norm", "two_dims", [R(2, 3, 4), R(3, 4)], {"shape": [3, 4], **eps})
    book.case("group_norm", "plain", [R(2, 6, 3), R(6), R(6)], {"groups": 3, **eps})
    book.case("group_norm", "bare", [R(2, 4), None, None], {"groups": 2, **eps})
    book.case("group_norm", "one_group", [R(2, 4, 2, 2), R(4), R(4)], {"groups": 1, **eps})
    book.case("group_norm", "instance", [R(2, 3, 2, 2), R(3), R(3)], {"groups": 3, **eps})
    for dtype in ("float64",) + HALF:
        t = {"dtype": dtype}
        book.case("layer_norm", dtype, [R(3, 5, **t), R(5, **t), R(5, **t)], {"shape": [5], **eps})
        book.case("rms_norm", dtype, [R(3, 5, **t), R(5, **t)], {"shape": [5], **eps})
        book.case(
            "group_norm", dtype, [R(2, 4, 3, **t), R(4, **t), R(4, **t)], {"groups": 2, **eps}
        )
    batch(book)
    return book


def batch(book):
    def inputs(*shape, affine=True, stats=True, **options):
        channels = shape[1]
        pair = [P(channels, **options), R(channels, **options)] if affine else [None, None]
        own = {**options, "grad": False}
        running = [R(channels, **own), P(channels, **own)] if stats else [None, None]
        return [R(*shape, **options)] + pair + running

    train = {"training": True, "momentum": 0.1, "eps": 1e-5}
    test = {"training": False, "momentum": 0.1, "eps": 1e-5}
    for label, attrs in (("train", train), ("eval", test)):
        book.case("batch_norm", f"{label}_2d", inputs(3, 2, 2, 2), attrs)
        book.case("batch_norm", f"{label}_1d", inputs(3, 4, 2), attrs)
        book.case("batch_norm", f"{label}_flat", inputs(4, 3), attrs)
        book.case("batch_norm", f"{label}_bare", inputs(3, 2, 2, 2, affine=False), attrs)
        book.case("batch_norm", f"{label}_float64", inputs(3, 2, 2, dtype="float64"), attrs)
    book.case("batch_norm", "train_no_stats", inputs(3, 2, 2, 2, stats=False), train)
    book.case("batch_norm", "train_momentum", inputs(3, 2, 2, 2), {**train, "momentum": 0.75})
    for seen in (0, 1, 4):
        attrs = {**train, "momentum": None, "batches_tracked": seen}
        book.case("batch_norm", f"train_cumulative_{seen}", inputs(3, 2, 2, 2), attrs)
    last = inputs(3, 2, 2, 2)
    last[0] = R(3, 2, 2, 2, view=CHANNELS_LAST)
    book.case("batch_norm", "train_channels_last", last, train)
    book.case("batch_norm", "train_bfloat16", inputs(3, 2, 2, 2, dtype="bfloat16"), train)


def conv():
    book = Book("conv")
    x, w, b = (2, 3, 5, 4), (2, 3, 3, 2), (2,)
    for label, attrs in (
        ("plain", {}),
        ("stride", {"stride": [2, 1]}),
        ("padding", {"padding": [1, 2]}),
        ("dilation", {"dilation": [2, 1], "padding": [1, 0]}),
        ("everything", {"stride": [2, 2], "padding": [2, 1], "dilation": [1, 2]}),
    ):
        book.case("conv2d", label, [R(*x), R(*w), R(*b)], attrs)
        book.case("conv2d", f"{label}_no_bias", [R(*x), R(*w), None], attrs)
    book.case(
        "conv2d", "groups", [R(2, 4, 4, 4), R(4, 2, 3, 3), R(4)], {"groups": 2, "padding": [1, 1]}
    )
    book.case("conv2d", "depthwise", [R(1, 3, 4, 4), R(3, 1, 3, 3), R(3)], {"groups": 3})
    book.case("conv2d", "depthwise_multiplied", [R(1, 2, 4, 4), R(4, 1, 3, 3), None], {"groups": 2})
    book.case("conv2d", "pointwise", [R(2, 3, 3, 3), R(4, 3, 1, 1), R(4)])
    book.case(
        "conv2d", "pointwise_stride", [R(2, 3, 4, 4), R(4, 3, 1, 1), None], {"stride": [2, 2]}
    )
    book.case("conv2d", "unbatched", [R(3, 4, 4), R(2, 3, 3, 3), R(2)])
    book.case("conv2d", "empty_batch", [R(0, 3, 4, 4), R(2, 3, 3, 3), R(2)])
    book.case("conv2d", "channels_last", [R(2, 4, 4, 3, view=CHANNELS_LAST), R(2, 3, 3, 3), R(2)])
    book.case(
        "conv2d",
        "stem",
        [R(1, 2, 9, 9), R(2, 2, 7, 7), None],
        {"stride": [2, 2], "padding": [3, 3]},
    )
    for dtype in ("float64",) + HALF:
        t = {"dtype": dtype}
        book.case(
            "conv2d",
            dtype,
            [R(1, 2, 4, 4, **t), R(2, 2, 3, 3, **t), R(2, **t)],
            {"padding": [1, 1]},
        )
    book.case("conv1d", "plain", [R(2, 3, 6), R(4, 3, 3), R(4)])
    book.case(
        "conv1d",
        "everything",
        [R(2, 4, 8), R(4, 2, 3), R(4)],
        {"stride": [2], "padding": [2], "dilation": [2], "groups": 2},
    )
    book.case("conv1d", "no_bias", [R(2, 3, 6), R(4, 3, 2), None], {"padding": [1]})
    book.case("conv1d", "unbatched", [R(3, 6), R(4, 3, 3), R(4)])
    book.case("conv1d", "float64", [R(1, 2, 5, dtype="float64"), R(2, 2, 3, dtype="float64"), None])
    transposed(book)
    return book


def transposed(book):
    x, w, b = (2, 3, 3, 4), (3, 2, 3, 2), (2,)
    for label, attrs in (
        ("plain", {}),
        ("stride", {"stride": [2, 3]}),
        ("padding", {"padding": [1, 0]}),
        ("output_padding", {"stride": [2, 3], "padding": [1, 1], "output_padding": [1, 2]}),
        ("dilation", {"dilation": [2, 1]}),
    ):
        book.case("conv_transpose2d", label, [R(*x), R(*w), R(*b)], attrs)
    book.case("conv_transpose2d", "no_bias", [R(*x), R(*w), None], {"stride": [2, 2]})
    book.case(
        "conv_transpose2d",
        "groups",
        [R(1, 4, 3, 3), R(4, 3, 2, 2), R(6)],
        {"groups": 2, "stride": [2, 2]},
    )
    book.case("conv_transpose2d", "unbatched", [R(3, 3, 3), R(3, 2, 2, 2), R(2)])
    t = {"dtype": "float64"}
    book.case("conv_transpose2d", "float64", [R(1, 2, 3, 3, **t), R(2, 2, 2, 2, **t), R(2, **t)])
    book.case(
        "conv_transpose1d", "plain", [R(2, 3, 4), R(3, 2, 3), R(2)], {"stride": [2], "padding": [1]}
    )


def pool():
    book = Book("pool")
    for op in ("max_pool2d", "avg_pool2d"):
        book.case(op, "plain", [R(2, 2, 4, 4)], {"kernel": [2, 2]})
        book.case(op, "overlapping", [R(1, 2, 5, 5)], {"kernel": [3, 3], "stride": [1, 1]})
        book.case(op, "uneven", [R(1, 2, 5, 6)], {"kernel": [3, 2], "stride": [2, 3]})
        book.case(
            op, "padding", [R(1, 2, 5, 5)], {"kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]}
        )
        ceil = {"kernel": [2, 2], "stride": [2, 2], "ceil_mode": True}
        book.case(op, "ceil_mode", [R(1, 2, 5, 5)], ceil)
        book.case(
            op, "ceil_padding", [R(1, 1, 6, 6)], {**ceil, "kernel": [3, 3], "padding": [1, 1]}
        )
        book.case(op, "unbatched", [R(2, 4, 4)], {"kernel": [2, 2]})
        book.case(op, "channels_last", [R(1, 4, 4, 2, view=CHANNELS_LAST)], {"kernel": [2, 2]})
        book.case(op, "float64", [R(1, 2, 4, 4, dtype="float64")], {"kernel": [2, 2]})
        book.case(op, "bfloat16", [R(1, 2, 4, 4, dtype="bfloat16")], {"kernel": [2, 2]})
        book.case(op, "empty_batch", [R(0, 2, 4, 4)], {"kernel": [2, 2]})
    book.case(
        "max_pool2d",
        "dilation",
        [R(1, 2, 6, 6)],
        {"kernel": [2, 2], "stride": [1, 1], "dilation": [2, 3]},
    )
    book.case(
        "max_pool2d",
        "ties",
        [V([[[[1.0, 1.0, 0.0], [1.0, 1.0, 2.0], [2.0, 2.0, 2.0]]]])],
        {"kernel": [2, 2], "stride": [1, 1]},
    )
    book.case(
        "max_pool2d", "nan", [V([[[[1.0, NAN], [3.0, 2.0]]]])], {"kernel": [2, 2]}, grad=False
    )
    book.case(
        "max_pool2d", "all_minus_inf", [V([[[[-INF, -INF], [-INF, -INF]]]])], {"kernel": [2, 2]}
    )
    outside = {"kernel": [3, 3], "stride": [2, 2], "padding": [1, 1], "count_include_pad": False}
    book.case("avg_pool2d", "exclude_pad", [R(1, 2, 5, 5)], outside)
    book.case("avg_pool2d", "exclude_pad_ceil", [R(1, 2, 6, 6)], {**outside, "ceil_mode": True})
    book.case("avg_pool2d", "divisor", [R(1, 1, 4, 4)], {"kernel": [2, 2], "divisor": 3})
    book.case("max_pool1d", "plain", [R(2, 2, 6)], {"kernel": [2]})
    book.case(
        "max_pool1d",
        "everything",
        [R(2, 2, 9)],
        {"kernel": [3], "stride": [2], "padding": [1], "dilation": [2], "ceil_mode": True},
    )
    book.case("max_pool1d", "unbatched", [R(2, 6)], {"kernel": [3], "stride": [1]})
    book.case("avg_pool1d", "plain", [R(2, 2, 6)], {"kernel": [2]})
    book.case(
        "avg_pool1d",
        "padding",
        [R(2, 2, 5)],
        {
            "kernel": [3],
            "stride": [2],
            "padding": [1],
            "ceil_mode": True,
            "count_include_pad": False,
        },
    )
    for op in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
        book.case(op, "one", [R(2, 3, 4, 5)], {"output": [1, 1]})
        book.case(op, "uneven", [R(1, 2, 5, 7)], {"output": [3, 2]})
        book.case(op, "larger", [R(1, 2, 2, 3)], {"output": [3, 4]})
        book.case(op, "same", [R(1, 2, 3, 3)], {"output": [3, 3]})
        book.case(op, "unbatched", [R(2, 5, 4)], {"output": [2, 3]})
        book.case(op, "channels_last", [R(1, 4, 4, 2, view=CHANNELS_LAST)], {"output": [2, 2]})
        book.case(op, "float64", [R(1, 2, 4, 4, dtype="float64")], {"output": [2, 2]})
        book.case(op, "bfloat16", [R(1, 2, 4, 4, dtype="bfloat16")], {"output": [2, 2]})
    return book


def embed():
    book = Book("embed")
    words = V([3, 0, 3, 5, 1], "int64")
    book.case("embedding", "vector", [R(6, 3), words])
    book.case("embedding", "matrix", [R(6, 3), I(6, 2, 3)])
    book.case("embedding", "one", [R(6, 3), V(2, "int64")])
    book.case("embedding", "empty", [R(6, 3), V([], "int64", (0,))])
    book.case("embedding", "padding", [R(6, 3), words], {"padding_idx": 3})
    book.case("embedding", "padding_negative", [R(6, 3), words], {"padding_idx": -1})
    book.case("embedding", "int32", [R(6, 3), V([4, 4, 0], "int32")])
    book.case("embedding", "transposed_indices", [R(6, 2), I(6, 3, 2, view=TRANSPOSED)])
    for dtype in ("float64",) + HALF:
        book.case("embedding", dtype, [R(6, 2, dtype=dtype), words])
    offsets = V([0, 2, 2], "int64")
    for mode in ("sum", "mean", "max"):
        attrs = {"mode": mode}
        book.case("embedding_bag", f"{mode}_offsets", [R(6, 3), words, offsets, None], attrs)
        book.case("embedding_bag", f"{mode}_matrix", [R(6, 3), I(6, 2, 3), None, None], attrs)
        book.case(
            "embedding_bag",
            f"{mode}_padding",
            [R(6, 3), words, offsets, None],
            {**attrs, "padding_idx": 3},
        )
        book.case(
            "embedding_bag",
            f"{mode}_last_offset",
            [R(6, 3), words, V([0, 1, 5], "int64"), None],
            {**attrs, "include_last_offset": True},
        )
        book.case(
            "embedding_bag", f"{mode}_empty_last", [R(6, 3), words, V([0, 5], "int64"), None], attrs
        )
        book.case(
            "embedding_bag",
            f"{mode}_int32",
            [R(6, 3), V([4, 4, 0], "int32"), V([0, 1], "int32"), None],
            attrs,
        )
        book.case(
            "embedding_bag",
            f"{mode}_float64",
            [R(6, 2, dtype="float64"), words, offsets, None],
            attrs,
        )
    book.case("embedding_bag", "weighted_offsets", [R(6, 3), words, offsets, R(5)], {"mode": "sum"})
    book.case(
        "embedding_bag", "weighted_matrix", [R(6, 3), I(6, 2, 3), None, R(2, 3)], {"mode": "sum"}
    )
    return book


def attention():
    book = Book("attention")
    q, kv = (2, 2, 3, 4), (2, 2, 5, 4)
    some = V([[True, False, True, True, False]] * 2 + [[True] * 5], "bool")
    book.case("attention", "plain", [R(*q), R(*kv), R(*kv), None])
    book.case("attention", "causal", [R(*q), R(*q), R(*q), None], {"causal": True})
    book.case("attention", "causal_uneven", [R(*q), R(*kv), R(*kv), None], {"causal": True})
    book.case("attention", "mask_bool", [R(*q), R(*kv), R(*kv), some])
    book.case(
        "attention",
        "mask_bool_batch",
        [R(*q), R(*kv), R(*kv), V([[[[True] * 5]], [[[True, True, False, False, True]]]], "bool")],
    )
    book.case("attention", "mask_float", [R(*q), R(*kv), R(*kv), R(3, 5, grad=False)])
    book.case("attention", "mask_float_grad", [R(*q), R(*kv), R(*kv), R(2, 1, 3, 5)])
    book.case(
        "attention",
        "mask_minus_inf",
        [
            R(1, 3, 2),
            R(1, 3, 2),
            R(1, 3, 2),
            V([[0.0, -INF, 1.0], [0.5, 0.0, -INF], [0.0, 0.0, 0.0]], grad=False),
        ],
    )
    book.case("attention", "scale", [R(*q), R(*kv), R(*kv), None], {"scale": 0.25})
    book.case("attention", "wider_values", [R(1, 2, 3, 4), R(1, 2, 5, 4), R(1, 2, 5, 3), None])
    book.case("attention", "three_dims", [R(2, 3, 4), R(2, 5, 4), R(2, 5, 4), None])
    heads_last = [view("permute", 0, 2, 1, 3)]
    book.case(
        "attention",
        "heads_transposed",
        [R(2, 3, 2, 4, view=heads_last) for _ in range(3)] + [None],
        {"causal": True},
    )
    book.case("attention", "one_query", [R(1, 2, 1, 4), R(1, 2, 5, 4), R(1, 2, 5, 4), None])
    for dtype in ("float64",) + HALF:
        t = {"dtype": dtype}
        book.case(
            "attention", dtype, [R(1, 2, 3, 4, **t) for _ in range(3)] + [None], {"causal": True}
        )
    return book


FAMILIES = [loss, norm, conv, pool, embed, attention]
