/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operators that change the shape. */
#include "golden/golden.h"

static int dim_named(const golden_call *c, const char *name)
{
    return (int)golden_int(c, name, 0);
}

static void transpose(golden_call *c)
{
    c->out[0] = tt_transpose(c->in[0], dim_named(c, "dim0"), dim_named(c, "dim1"));
}

static void permute(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    c->out[0] = tt_permute(c->in[0], dims, n);
}

static void reshape(golden_call *c)
{
    c->out[0] = tt_reshape(c->in[0], golden_shape(c, "shape"));
}

static void view(golden_call *c)
{
    c->out[0] = tt_view(c->in[0], golden_shape(c, "shape"));
}

static void slice(golden_call *c)
{
    c->out[0] = tt_slice(c->in[0], dim_named(c, "dim"), golden_int(c, "start", 0),
                         golden_int(c, "stop", INT64_MAX), golden_int(c, "step", 1));
}

static void select_one(golden_call *c)
{
    c->out[0] = tt_select(c->in[0], dim_named(c, "dim"), golden_int(c, "index", 0));
}

static void narrow(golden_call *c)
{
    c->out[0] = tt_narrow(c->in[0], dim_named(c, "dim"), golden_int(c, "start", 0),
                          golden_int(c, "length", 0));
}

static void cat(golden_call *c)
{
    c->out[0] = tt_cat(c->in, c->n_in, dim_named(c, "dim"));
}

static void stack(golden_call *c)
{
    c->out[0] = tt_stack(c->in, c->n_in, dim_named(c, "dim"));
}

static void split(golden_call *c)
{
    c->n_out = GOLDEN_MAX;
    if (tt_split(c->in[0], golden_int(c, "size", 1), dim_named(c, "dim"), c->out, &c->n_out) !=
        TT_OK)
        c->out[0] = NULL;
}

static void split_sizes(golden_call *c)
{
    int64_t sizes[TT_MAX_DIMS];
    int n = golden_ints(c, "sizes", sizes);

    c->n_out = n;
    if (tt_split_sizes(c->in[0], sizes, n, dim_named(c, "dim"), c->out) != TT_OK)
        c->out[0] = NULL;
}

static void chunk(golden_call *c)
{
    c->n_out = GOLDEN_MAX;
    if (tt_chunk(c->in[0], dim_named(c, "chunks"), dim_named(c, "dim"), c->out, &c->n_out) != TT_OK)
        c->out[0] = NULL;
}

static void expand(golden_call *c)
{
    c->out[0] = tt_expand(c->in[0], golden_shape(c, "shape"));
}

static void repeat(golden_call *c)
{
    int64_t repeats[TT_MAX_DIMS];
    int n = golden_ints(c, "repeats", repeats);

    c->out[0] = tt_repeat(c->in[0], repeats, n);
}

static void flip(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    c->out[0] = tt_flip(c->in[0], dims, n);
}

/* Ours takes one dimension; several follow each other, none means the flattened tensor. */
static void roll(golden_call *c)
{
    int64_t shifts[TT_MAX_DIMS];
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);
    tt_tensor *x = c->in[0];

    golden_ints(c, "shifts", shifts);
    for (int i = 0; i < n; i++)
        x = tt_roll(x, shifts[i], dims[i]);
    if (n == 0)
        x = tt_view(tt_roll(tt_flatten(x, 0, -1), shifts[0], 0), tt_tensor_shape(x));
    c->out[0] = x;
}

static void tril(golden_call *c)
{
    c->out[0] = tt_tril(c->in[0], golden_int(c, "diagonal", 0));
}

static void triu(golden_call *c)
{
    c->out[0] = tt_triu(c->in[0], golden_int(c, "diagonal", 0));
}

static void diagonal(golden_call *c)
{
    c->out[0] = tt_diagonal(c->in[0], golden_int(c, "offset", 0), dim_named(c, "dim1"),
                            dim_named(c, "dim2"));
}

static void squeeze(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);
    tt_tensor *x = n > 0 ? c->in[0] : tt_squeeze(c->in[0]);

    for (int i = n - 1; i >= 0; i--)
        x = tt_squeeze_dim(x, dims[i]);
    c->out[0] = x;
}

static void unsqueeze(golden_call *c)
{
    c->out[0] = tt_unsqueeze(c->in[0], dim_named(c, "dim"));
}

static void flatten(golden_call *c)
{
    c->out[0] = tt_flatten(c->in[0], dim_named(c, "start"), dim_named(c, "end"));
}

const golden_op golden_ops_shape[] = {
    { "transpose", .run = transpose },
    { "permute", .run = permute },
    { "reshape", .run = reshape },
    { "view", .run = view },
    { "slice", .run = slice },
    { "select", .run = select_one },
    { "narrow", .run = narrow },
    { "cat", .run = cat },
    { "stack", .run = stack },
    { "split", .run = split },
    { "split_sizes", .run = split_sizes },
    { "chunk", .run = chunk },
    { "expand", .run = expand },
    { "repeat", .run = repeat },
    { "flip", .run = flip },
    { "roll", .run = roll },
    { "tril", .run = tril },
    { "triu", .run = triu },
    { "diagonal", .run = diagonal },
    { "squeeze", .run = squeeze },
    { "unsqueeze", .run = unsqueeze },
    { "flatten", .run = flatten },
    { NULL },
};
