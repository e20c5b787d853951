/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: products of matrices. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *matmul_row(tt_tensor *const *in)
{
    return tt_matmul(in[0], in[1]);
}

static tt_tensor *mm_row(tt_tensor *const *in)
{
    return tt_mm(in[0], in[1]);
}

static tt_tensor *bmm_row(tt_tensor *const *in)
{
    return tt_bmm(in[0], in[1]);
}

static tt_tensor *mv_row(tt_tensor *const *in)
{
    return tt_mv(in[0], in[1]);
}

static tt_tensor *dot_row(tt_tensor *const *in)
{
    return tt_dot(in[0], in[1]);
}

static tt_tensor *outer_row(tt_tensor *const *in)
{
    return tt_outer(in[0], in[1]);
}

static tt_tensor *addmm_row(tt_tensor *const *in)
{
    return tt_addmm(in[0], in[1], in[2], 0.5, 1.5);
}

static tt_tensor *baddbmm_row(tt_tensor *const *in)
{
    return tt_baddbmm(in[0], in[1], in[2], 0.5, 1.5);
}

static tt_tensor *linear_row(tt_tensor *const *in)
{
    return tt_linear(in[0], in[1], in[2]);
}

static tt_tensor *matmul_vector_row(tt_tensor *const *in)
{
    return tt_matmul(in[0], in[1]);
}

static tt_tensor *matmul_batches_row(tt_tensor *const *in)
{
    return tt_matmul(in[0], in[1]);
}

static tt_tensor *linear_batches_row(tt_tensor *const *in)
{
    return tt_linear(in[0], in[1], in[2]);
}

static const conform_row rows[] = {
    { "matmul", matmul_row, "fNx2x5 f5x4", 0, 0 },
    { "mm", mm_row, "fNx5 f5x4", 0, 0 },
    { "bmm", bmm_row, "fNx2x5 fNx5x4", 0, 0 },
    { "mv", mv_row, "fNx5 f5", 0, 0 },
    { "dot", dot_row, "fN fN", 0, 0 },
    { "outer", outer_row, "fN f4", 0, 0 },
    { "addmm", addmm_row, "fNx4 fNx5 f5x4", 0, 0 },
    { "baddbmm", baddbmm_row, "fNx2x4 fNx2x5 fNx5x4", 0, 0 },
    { "linear", linear_row, "fNx5 f4x5 f4?", 0, 0 },
    { "matmul.vector", matmul_vector_row, "fNx5x4 f4", 0, 0 },
    { "matmul.batches", matmul_batches_row, "fNx1x2x5 f2x5x4", 0, 997 },
    { "linear.batches", linear_batches_row, "fNx2x5 f4x5 f4?", 0, 0 },
};

TT_TEST_TABLE(conformance_matrix)
{
    conform_add("matrix", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
