/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: views, joining and cutting, copies and conversions. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

/* The middle one of the pieces. */
static tt_tensor *split_sizes(tt_tensor *x)
{
    tt_tensor *out[3] = { NULL };

    return tt_split_sizes(x, (const int64_t[]){ 1, 2, 1 }, 3, 1, out) == TT_OK ? out[1] : NULL;
}

static tt_tensor *split(tt_tensor *x)
{
    tt_tensor *out[4] = { NULL };
    int n = 4;

    return tt_split(x, 3, 1, out, &n) == TT_OK && n == 2 ? out[1] : NULL;
}

static tt_tensor *chunk(tt_tensor *x)
{
    tt_tensor *out[4] = { NULL };
    int n = 4;

    return tt_chunk(x, 2, 1, out, &n) == TT_OK && n == 2 ? out[1] : NULL;
}

static tt_tensor *view_row(tt_tensor *const *in)
{
    return tt_view(in[0], TT_SHAPE(-1, 2));
}

static tt_tensor *reshape_row(tt_tensor *const *in)
{
    return tt_reshape(in[0], TT_SHAPE(tt_tensor_numel(in[0]) / 2, 2));
}

static tt_tensor *flatten_row(tt_tensor *const *in)
{
    return tt_flatten(in[0], 0, 1);
}

static tt_tensor *unflatten_row(tt_tensor *const *in)
{
    return tt_unflatten(in[0], 1, TT_SHAPE(2, -1));
}

static tt_tensor *transpose_row(tt_tensor *const *in)
{
    return tt_transpose(in[0], 0, -1);
}

static tt_tensor *t_row(tt_tensor *const *in)
{
    return tt_t(in[0]);
}

static tt_tensor *permute_row(tt_tensor *const *in)
{
    return tt_permute(in[0], (const int[]){ 2, 0, 1 }, 3);
}

static tt_tensor *squeeze_row(tt_tensor *const *in)
{
    return tt_squeeze(in[0]);
}

static tt_tensor *squeeze_dim_row(tt_tensor *const *in)
{
    return tt_squeeze_dim(in[0], 1);
}

static tt_tensor *unsqueeze_row(tt_tensor *const *in)
{
    return tt_unsqueeze(in[0], -1);
}

static tt_tensor *expand_row(tt_tensor *const *in)
{
    return tt_expand(in[0], TT_SHAPE(2, -1, 4));
}

static tt_tensor *repeat_row(tt_tensor *const *in)
{
    return tt_repeat(in[0], (const int64_t[]){ 2, 3 }, 2);
}

static tt_tensor *slice_row(tt_tensor *const *in)
{
    return tt_slice(in[0], 1, 1, INT64_MAX, 2);
}

static tt_tensor *narrow_row(tt_tensor *const *in)
{
    return tt_narrow(in[0], 1, 1, 2);
}

static tt_tensor *select_row(tt_tensor *const *in)
{
    return tt_select(in[0], 1, -1);
}

static tt_tensor *diagonal_row(tt_tensor *const *in)
{
    return tt_diagonal(in[0], 1, 1, 2);
}

static tt_tensor *as_strided_row(tt_tensor *const *in)
{
    return tt_as_strided(in[0], TT_SHAPE(2, 3), (const int64_t[]){ 4, 1 }, 1);
}

static tt_tensor *view_as_real_row(tt_tensor *const *in)
{
    return tt_view_as_real(in[0]);
}

static tt_tensor *view_as_complex_row(tt_tensor *const *in)
{
    return tt_view_as_complex(in[0]);
}

static tt_tensor *real_row(tt_tensor *const *in)
{
    return tt_real(in[0]);
}

static tt_tensor *imag_row(tt_tensor *const *in)
{
    return tt_imag(in[0]);
}

static tt_tensor *conj_row(tt_tensor *const *in)
{
    return tt_conj(in[0]);
}

static tt_tensor *abs_complex_row(tt_tensor *const *in)
{
    return tt_abs(in[0]);
}

static tt_tensor *mul_complex_row(tt_tensor *const *in)
{
    return tt_mul(in[0], in[1]);
}

static tt_tensor *cat_row(tt_tensor *const *in)
{
    return tt_cat(in, 2, 1);
}

static tt_tensor *stack_row(tt_tensor *const *in)
{
    return tt_stack(in, 2, 1);
}

static tt_tensor *split_sizes_row(tt_tensor *const *in)
{
    return split_sizes(in[0]);
}

static tt_tensor *split_row(tt_tensor *const *in)
{
    return split(in[0]);
}

static tt_tensor *chunk_row(tt_tensor *const *in)
{
    return chunk(in[0]);
}

static tt_tensor *flip_row(tt_tensor *const *in)
{
    return tt_flip(in[0], (const int[]){ 0, 1 }, 2);
}

static tt_tensor *roll_row(tt_tensor *const *in)
{
    return tt_roll(in[0], 3, 1);
}

static tt_tensor *tril_row(tt_tensor *const *in)
{
    return tt_tril(in[0], 0);
}

static tt_tensor *triu_row(tt_tensor *const *in)
{
    return tt_triu(in[0], 1);
}

static tt_tensor *clone_row(tt_tensor *const *in)
{
    return tt_clone(in[0]);
}

static tt_tensor *contiguous_row(tt_tensor *const *in)
{
    return tt_contiguous(tt_transpose(in[0], 0, 1));
}

static tt_tensor *to_format_row(tt_tensor *const *in)
{
    return tt_to_format(in[0], TT_FORMAT_CHANNELS_LAST);
}

static tt_tensor *to_device_row(tt_tensor *const *in)
{
    return tt_to_device(tt_mul_scalar(in[0], 2), tt_tensor_device(in[0]));
}

static tt_tensor *to_dtype_row(tt_tensor *const *in)
{
    return tt_to_dtype(in[0], TT_F64);
}

static const conform_row rows[] = {
    { "view", view_row, "fNx4", CONFORM_STRIDED, 0 },
    { "reshape", reshape_row, "fNx4", 0, 0 },
    { "flatten", flatten_row, "fNx4x2", 0, 0 },
    { "unflatten", unflatten_row, "fNx4", 0, 0 },
    { "transpose", transpose_row, "fNx4x2", 0, 0 },
    { "t", t_row, "fNx4", 0, 0 },
    { "permute", permute_row, "fNx4x2", 0, 0 },
    { "squeeze", squeeze_row, "fNx1x4", 0, 0 },
    { "squeeze_dim", squeeze_dim_row, "fNx1x4", 0, 0 },
    { "unsqueeze", unsqueeze_row, "fNx4", 0, 0 },
    { "expand", expand_row, "fNx1", 0, 0 },
    { "repeat", repeat_row, "fNx4", 0, 0 },
    { "slice", slice_row, "fNx4", 0, 0 },
    { "narrow", narrow_row, "fNx4", 0, 0 },
    { "select", select_row, "fNx4", 0, 0 },
    { "diagonal", diagonal_row, "fNx4x4", 0, 0 },
    { "as_strided", as_strided_row, "fNx4", CONFORM_STRIDED | CONFORM_EMPTY_FAILS, 0 },
    { "view_as_real", view_as_real_row, "cNx4", 0, 0 },
    { "view_as_complex", view_as_complex_row, "fNx2", CONFORM_STRIDED | CONFORM_NO_HALF, 0 },
    { "real", real_row, "cNx4", 0, 0 },
    { "imag", imag_row, "cNx4", 0, 0 },
    { "conj", conj_row, "cNx4", 0, 0 },
    { "abs.complex", abs_complex_row, "cNx4", 0, 0 },
    { "mul.complex", mul_complex_row, "cNx4 cNx4", 0, 0 },
    { "mul.complex_column", mul_complex_row, "cNx5 cNx1", 0, 0 },
    { "mul.complex_row", mul_complex_row, "cNx5 c5", 0, 0 },
    { "cat", cat_row, "fNx4 fNx2", 0, 0 },
    { "stack", stack_row, "fNx4 fNx4", 0, 0 },
    { "split_sizes", split_sizes_row, "fNx4", 0, 0 },
    { "split", split_row, "fNx4", 0, 0 },
    { "chunk", chunk_row, "fNx4", 0, 0 },
    { "flip", flip_row, "fNx4", 0, 0 },
    { "roll", roll_row, "fNx4", 0, 0 },
    { "tril", tril_row, "fNx4", 0, 0 },
    { "triu", triu_row, "fNx4", 0, 0 },
    { "clone", clone_row, "fNx4", 0, 0 },
    { "contiguous", contiguous_row, "fNx4", 0, 0 },
    { "to_format", to_format_row, "fNx2x3x2", 0, 0 },
    { "to_device", to_device_row, "fNx4", 0, 0 },
    { "to_dtype", to_dtype_row, "fNx4", 0, 0 },
};

TT_TEST_TABLE(conformance_shape)
{
    conform_add("shape", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
