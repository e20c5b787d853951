/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: normalisation. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *batch_norm_evaluation(tt_tensor *const *in)
{
    tt_dtype dtype = in[0] != NULL ? tt_tensor_dtype(in[0]) : TT_F32;
    tt_tensor *mean = tt_to_dtype(TT_FLOATS(0.25F, -0.5F), dtype);
    tt_tensor *var = tt_to_dtype(TT_FLOATS(1.5F, 0.75F), dtype);

    return tt_batch_norm(in[0], in[1], in[2],
                         &(tt_batch_norm_options){ .running_mean = mean, .running_var = var });
}

static tt_tensor *layer_norm_row(tt_tensor *const *in)
{
    return tt_layer_norm(in[0], 1, in[1], in[2], 1e-5);
}

static tt_tensor *layer_norm_two_dims_row(tt_tensor *const *in)
{
    return tt_layer_norm(in[0], 2, in[1], in[2], 1e-5);
}

static tt_tensor *rms_norm_row(tt_tensor *const *in)
{
    return tt_rms_norm(in[0], 1, in[1], 1e-5);
}

static tt_tensor *group_norm_row(tt_tensor *const *in)
{
    return tt_group_norm(in[0], 2, in[1], in[2], 1e-5);
}

static tt_tensor *batch_norm_training_row(tt_tensor *const *in)
{
    return tt_batch_norm(in[0], in[1], in[2], &(tt_batch_norm_options){ .training = true });
}

static tt_tensor *batch_norm_evaluation_row(tt_tensor *const *in)
{
    return batch_norm_evaluation(in);
}

static const conform_row rows[] = {
    { "layer_norm", layer_norm_row, "fNx5 f5? f5?", 0, 0 },
    { "layer_norm.two_dims", layer_norm_two_dims_row, "fNx2x3 f2x3? f2x3?", 0, 0 },
    { "rms_norm", rms_norm_row, "fNx5 f5?", 0, 0 },
    { "rms_norm.complex", rms_norm_row, "cNx5 c5?", 0, 0 },
    { "group_norm", group_norm_row, "fNx4x3 f4? f4?", 0, 0 },
    { "batch_norm.training", batch_norm_training_row, "fNx2x4 f2? f2?", CONFORM_EMPTY_FAILS, 0 },
    { "batch_norm.evaluation", batch_norm_evaluation_row, "fNx2x4 f2? f2?", 0, 0 },
};

TT_TEST_TABLE(conformance_norm)
{
    conform_add("norm", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
