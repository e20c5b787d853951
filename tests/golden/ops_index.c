/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operators that choose, place and order elements by index, and embeddings. */
#include <string.h>

#include "golden/golden.h"

static int dim(const golden_call *c)
{
    return (int)golden_int(c, "dim", 0);
}

static void index_select(golden_call *c)
{
    c->out[0] = tt_index_select(c->in[0], dim(c), c->in[1]);
}

static void gather(golden_call *c)
{
    c->out[0] = tt_gather(c->in[0], dim(c), c->in[1]);
}

static void scatter(golden_call *c)
{
    c->out[0] = tt_scatter(c->in[0], dim(c), c->in[1], c->in[2]);
}

static void scatter_scalar(golden_call *c)
{
    tt_tensor *source = tt_full(tt_tensor_shape(c->in[1]), golden_real(c, "scalar", 0),
                                tt_tensor_dtype(c->in[0]), TT_CPU);

    c->out[0] = tt_scatter(c->in[0], dim(c), c->in[1], source);
}

static void scatter_add(golden_call *c)
{
    c->out[0] = tt_scatter_add(c->in[0], dim(c), c->in[1], c->in[2]);
}

static void index_add(golden_call *c)
{
    tt_tensor *source = c->in[2];

    if (golden_has(c, "alpha"))
        source = tt_mul_scalar(source, golden_real(c, "alpha", 1));
    c->out[0] = tt_index_add(c->in[0], dim(c), c->in[1], source);
}

static void masked_fill(golden_call *c)
{
    c->out[0] = tt_masked_fill(c->in[0], c->in[1], golden_real(c, "scalar", 0));
}

static void one_hot(golden_call *c)
{
    c->out[0] = tt_one_hot(c->in[0], golden_int(c, "classes", -1));
}

static void topk(golden_call *c)
{
    c->out[0] = tt_topk(c->in[0], golden_int(c, "k", 1), dim(c), golden_flag(c, "largest", true),
                        &c->out[1]);
}

static void sort(golden_call *c)
{
    c->out[0] = tt_sort(c->in[0], dim(c), golden_flag(c, "descending", false), &c->out[1]);
}

static void argsort(golden_call *c)
{
    c->out[0] = tt_argsort(c->in[0], dim(c), golden_flag(c, "descending", false));
}

static void embedding(golden_call *c)
{
    tt_embedding_options opt = { .padding_idx = golden_int(c, "padding_idx", 0),
                                 .has_padding_idx = golden_has(c, "padding_idx") };

    c->out[0] = tt_embedding(c->in[0], c->in[1], &opt);
}

static tt_bag_mode bag_mode(const golden_call *c)
{
    const char *mode = golden_word(c, "mode", "mean");

    if (strcmp(mode, "sum") == 0)
        return TT_BAG_SUM;
    return strcmp(mode, "max") == 0 ? TT_BAG_MAX : TT_BAG_MEAN;
}

static void embedding_bag(golden_call *c)
{
    tt_bag_options opt = { .mode = bag_mode(c),
                           .per_sample_weights = c->in[3],
                           .padding_idx = golden_int(c, "padding_idx", 0),
                           .has_padding_idx = golden_has(c, "padding_idx"),
                           .include_last_offset = golden_flag(c, "include_last_offset", false) };

    c->out[0] = tt_embedding_bag(c->in[0], c->in[1], c->in[2], &opt);
}

const golden_op golden_ops_index[] = {
    { "index_select", .run = index_select },
    { "gather", .run = gather },
    { "scatter", .run = scatter },
    { "scatter_scalar", .run = scatter_scalar },
    { "scatter_add", .run = scatter_add },
    { "index_add", .run = index_add },
    { "masked_fill", .run = masked_fill },
    { "masked_select", .binary = tt_masked_select },
    { "one_hot", .run = one_hot },
    { "topk", .run = topk },
    { "sort", .run = sort },
    { "argsort", .run = argsort },
    { "embedding", .run = embedding },
    { "embedding_bag", .run = embedding_bag },
    { NULL },
};
