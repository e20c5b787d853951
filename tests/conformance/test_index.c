/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: choosing by index, sorting. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *topk_indices(tt_tensor *x)
{
    tt_tensor *indices = NULL;

    return tt_topk(x, 2, 1, true, &indices) != NULL ? indices : NULL;
}

static tt_tensor *index_select_row(tt_tensor *const *in)
{
    return tt_index_select(in[0], 1, in[1]);
}

static tt_tensor *gather_row(tt_tensor *const *in)
{
    return tt_gather(in[0], 1, in[1]);
}

static tt_tensor *scatter_row(tt_tensor *const *in)
{
    return tt_scatter(in[0], 1, in[1], in[2]);
}

static tt_tensor *scatter_add_row(tt_tensor *const *in)
{
    return tt_scatter_add(in[0], 1, in[1], in[2]);
}

static tt_tensor *index_add_row(tt_tensor *const *in)
{
    return tt_index_add(in[0], 1, in[1], in[2]);
}

static tt_tensor *index_copy_row(tt_tensor *const *in)
{
    return tt_index_copy(in[0], 1, in[1], in[2]);
}

static tt_tensor *scatter__row(tt_tensor *const *in)
{
    return tt_scatter_(in[0], 1, in[1], in[2]);
}

static tt_tensor *scatter_add__row(tt_tensor *const *in)
{
    return tt_scatter_add_(in[0], 1, in[1], in[2]);
}

static tt_tensor *index_add__row(tt_tensor *const *in)
{
    return tt_index_add_(in[0], 1, in[1], in[2]);
}

static tt_tensor *nonzero_row(tt_tensor *const *in)
{
    return tt_nonzero(in[0]);
}

static tt_tensor *one_hot_row(tt_tensor *const *in)
{
    return tt_one_hot(in[0], 5);
}

static tt_tensor *topk_row(tt_tensor *const *in)
{
    return tt_topk(in[0], 2, 1, true, NULL);
}

static tt_tensor *sort_row(tt_tensor *const *in)
{
    return tt_sort(in[0], 1, false, NULL);
}

static tt_tensor *sort_first_row(tt_tensor *const *in)
{
    return tt_sort(in[0], 0, true, NULL);
}

static tt_tensor *argsort_row(tt_tensor *const *in)
{
    return tt_argsort(in[0], 1, true);
}

static tt_tensor *index_select_first_row(tt_tensor *const *in)
{
    return tt_index_select(in[0], 0, in[1]);
}

static tt_tensor *gather_first_row(tt_tensor *const *in)
{
    return tt_gather(in[0], 0, in[1]);
}

static tt_tensor *topk_indices_row(tt_tensor *const *in)
{
    return topk_indices(in[0]);
}

static tt_tensor *topk_smallest_row(tt_tensor *const *in)
{
    return tt_topk(in[0], 3, -1, false, NULL);
}

static tt_tensor *index_add_first_row(tt_tensor *const *in)
{
    return tt_index_add(in[0], 0, in[1], in[2]);
}

static const conform_row rows[] = {
    { "index_select", index_select_row, "fNx4 i4:5", 0, 0 },
    { "gather", gather_row, "fNx4 i4:Nx2", 0, 0 },
    { "scatter", scatter_row, "fNx4 o1:1x2 f1x2", CONFORM_NO_EMPTY, 0 },
    { "scatter_add", scatter_add_row, "fNx4 i4:Nx3 fNx3", 0, 0 },
    { "index_add", index_add_row, "fNx4 i4:5 fNx5", 0, 0 },
    { "index_copy", index_copy_row, "fNx4 o1:3 fNx3", 0, 0 },
    { "scatter_", scatter__row, "fNx4 o1:1x2 f1x2", CONFORM_INPLACE | CONFORM_NO_EMPTY, 0 },
    { "scatter_add_", scatter_add__row, "fNx4 i4:Nx3 fNx3", CONFORM_INPLACE, 0 },
    { "index_add_", index_add__row, "fNx4 i4:5 fNx5", CONFORM_INPLACE, 0 },
    { "nonzero", nonzero_row, "bNx4", CONFORM_NO_GRAD | CONFORM_BY_VALUE, 0 },
    { "one_hot", one_hot_row, "i5:N", CONFORM_NO_GRAD, 0 },
    { "topk", topk_row, "fNx4", 0, 0 },
    { "sort", sort_row, "fNx4", 0, 0 },
    { "sort.first", sort_first_row, "fNx4", 0, 0 },
    { "argsort", argsort_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "index_select.first", index_select_first_row, "f5x4 i5:N", 0, 0 },
    { "gather.first", gather_first_row, "f5x4 i5:Nx4", 0, 0 },
    { "topk.indices", topk_indices_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "topk.smallest", topk_smallest_row, "fNx4", 0, 0 },
    { "index_add.first", index_add_first_row, "f5x4 i5:N fNx4", 0, 0 },
};

TT_TEST_TABLE(conformance_index)
{
    conform_add("index", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
