/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: embedding and attention. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *embedding_row(tt_tensor *const *in)
{
    return tt_embedding(in[0], in[1], NULL);
}

static tt_tensor *embedding_padding_row(tt_tensor *const *in)
{
    return tt_embedding(in[0], in[1],
                        &(tt_embedding_options){ .padding_idx = 2, .has_padding_idx = true });
}

static tt_tensor *embedding_bag_mean_row(tt_tensor *const *in)
{
    return tt_embedding_bag(in[0], in[1], NULL, NULL);
}

static tt_tensor *embedding_bag_sum_row(tt_tensor *const *in)
{
    return tt_embedding_bag(in[0], in[1], NULL, &(tt_bag_options){ .mode = TT_BAG_SUM });
}

static tt_tensor *embedding_bag_max_row(tt_tensor *const *in)
{
    return tt_embedding_bag(in[0], in[1], NULL, &(tt_bag_options){ .mode = TT_BAG_MAX });
}

static tt_tensor *embedding_bag_offsets_row(tt_tensor *const *in)
{
    return tt_embedding_bag(in[0], tt_flatten(in[1], 0, 1), in[2],
                            &(tt_bag_options){ .mode = TT_BAG_SUM });
}

static tt_tensor *attention_row(tt_tensor *const *in)
{
    return tt_attention(in[0], in[1], in[2], NULL);
}

static tt_tensor *attention_causal_row(tt_tensor *const *in)
{
    return tt_attention(in[0], in[1], in[2], &(tt_attention_options){ .causal = true });
}

static tt_tensor *attention_mask_row(tt_tensor *const *in)
{
    return tt_attention(in[0], in[1], in[2], &(tt_attention_options){ .mask = in[3] });
}

static tt_tensor *attention_bool_mask_row(tt_tensor *const *in)
{
    return tt_attention(in[0], in[1], in[2], &(tt_attention_options){ .mask = in[3] });
}

static tt_tensor *embedding_bag_weighted_row(tt_tensor *const *in)
{
    return tt_embedding_bag(in[0], in[1], NULL,
                            &(tt_bag_options){ .mode = TT_BAG_SUM, .per_sample_weights = in[2] });
}

static const conform_row rows[] = {
    { "embedding", embedding_row, "f5x3 i5:Nx2", 0, 0 },
    { "embedding.padding", embedding_padding_row, "f5x3 i5:Nx2", 0, 0 },
    { "embedding_bag.mean", embedding_bag_mean_row, "f5x3 i5:Nx4", 0, 0 },
    { "embedding_bag.sum", embedding_bag_sum_row, "f5x3 i5:Nx4", 0, 0 },
    { "embedding_bag.max", embedding_bag_max_row, "f5x3 i5:Nx4", 0, 0 },
    { "embedding_bag.offsets", embedding_bag_offsets_row, "f5x3 i5:Nx4 o4:N", CONFORM_NO_EMPTY, 0 },
    { "attention", attention_row, "fNx2x3x4 fNx2x4x4 fNx2x4x3", 0, 503 },
    { "attention.causal", attention_causal_row, "fNx3x4 fNx3x4 fNx3x4", 0, 503 },
    { "attention.mask", attention_mask_row, "fNx3x4 fNx4x4 fNx4x3 f3x4?", 0, 503 },
    { "attention.bool_mask", attention_bool_mask_row, "fNx3x4 fNx4x4 fNx4x3 b3x4?", 0, 503 },
    { "embedding_bag.weighted", embedding_bag_weighted_row, "f5x3 i5:Nx4 fNx4?", 0, 0 },
};

TT_TEST_TABLE(conformance_embedding_attention)
{
    conform_add("embedding_attention", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
