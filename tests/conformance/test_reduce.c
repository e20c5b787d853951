/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: reductions and running sums. */
#include "conformance/conformance.h"

#include <math.h>

#include <tutti/testing.h>

static tt_tensor *indices_of(tt_tensor *(*fn)(tt_tensor *, int, bool, tt_tensor **), tt_tensor *x)
{
    tt_tensor *indices = NULL;

    return fn(x, 1, false, &indices) != NULL ? indices : NULL;
}

static tt_tensor *sum_row(tt_tensor *const *in)
{
    return tt_sum(in[0]);
}

static tt_tensor *mean_row(tt_tensor *const *in)
{
    return tt_mean(in[0]);
}

static tt_tensor *prod_row(tt_tensor *const *in)
{
    return tt_prod(in[0]);
}

static tt_tensor *sum_dims_row(tt_tensor *const *in)
{
    return tt_sum_dims(in[0], (const int[]){ 0, 2 }, 2, false);
}

static tt_tensor *mean_dims_row(tt_tensor *const *in)
{
    return tt_mean_dims(in[0], (const int[]){ 0, 2 }, 2, false);
}

static tt_tensor *sum_dim_row(tt_tensor *const *in)
{
    return tt_sum_dim(in[0], 1, true);
}

static tt_tensor *mean_dim_row(tt_tensor *const *in)
{
    return tt_mean_dim(in[0], 1, true);
}

static tt_tensor *prod_dim_row(tt_tensor *const *in)
{
    return tt_prod_dim(in[0], 1, true);
}

static tt_tensor *sum_dim_first_row(tt_tensor *const *in)
{
    return tt_sum_dim(in[0], 0, false);
}

static tt_tensor *var_dims_row(tt_tensor *const *in)
{
    return tt_var_dims(in[0], (const int[]){ 0, 2 }, 2, 1, true);
}

static tt_tensor *std_dims_row(tt_tensor *const *in)
{
    return tt_std_dims(in[0], (const int[]){ 0, 2 }, 2, 1, true);
}

static tt_tensor *max_row(tt_tensor *const *in)
{
    return tt_max(in[0]);
}

static tt_tensor *min_row(tt_tensor *const *in)
{
    return tt_min(in[0]);
}

static tt_tensor *max_dim_row(tt_tensor *const *in)
{
    return tt_max_dim(in[0], 1, false, NULL);
}

static tt_tensor *min_dim_row(tt_tensor *const *in)
{
    return tt_min_dim(in[0], 1, false, NULL);
}

static tt_tensor *amax_row(tt_tensor *const *in)
{
    return tt_amax(in[0], (const int[]){ 1 }, 1, false);
}

static tt_tensor *amin_row(tt_tensor *const *in)
{
    return tt_amin(in[0], (const int[]){ 1 }, 1, false);
}

static tt_tensor *argmax_row(tt_tensor *const *in)
{
    return tt_argmax(in[0]);
}

static tt_tensor *argmin_row(tt_tensor *const *in)
{
    return tt_argmin(in[0]);
}

static tt_tensor *argmax_dim_row(tt_tensor *const *in)
{
    return tt_argmax_dim(in[0], 1, true);
}

static tt_tensor *argmin_dim_row(tt_tensor *const *in)
{
    return tt_argmin_dim(in[0], 1, true);
}

static tt_tensor *all_row(tt_tensor *const *in)
{
    return tt_all(in[0]);
}

static tt_tensor *any_row(tt_tensor *const *in)
{
    return tt_any(in[0]);
}

static tt_tensor *all_dim_row(tt_tensor *const *in)
{
    return tt_all_dim(in[0], 1, false);
}

static tt_tensor *any_dim_row(tt_tensor *const *in)
{
    return tt_any_dim(in[0], 1, false);
}

static tt_tensor *norm_2_row(tt_tensor *const *in)
{
    return tt_norm(in[0], 2);
}

static tt_tensor *norm_1_row(tt_tensor *const *in)
{
    return tt_norm(in[0], 1);
}

static tt_tensor *norm_3_row(tt_tensor *const *in)
{
    return tt_norm(in[0], 3);
}

static tt_tensor *norm_inf_row(tt_tensor *const *in)
{
    return tt_norm(in[0], INFINITY);
}

static tt_tensor *norm_dims_row(tt_tensor *const *in)
{
    return tt_norm_dims(in[0], 2, (const int[]){ 1 }, 1, true);
}

static tt_tensor *logsumexp_row(tt_tensor *const *in)
{
    return tt_logsumexp(in[0], 1, false);
}

static tt_tensor *cumsum_row(tt_tensor *const *in)
{
    return tt_cumsum(in[0], 0);
}

static tt_tensor *cumprod_row(tt_tensor *const *in)
{
    return tt_cumprod(in[0], 1);
}

static tt_tensor *max_dim_indices_row(tt_tensor *const *in)
{
    return indices_of(tt_max_dim, in[0]);
}

static tt_tensor *min_dim_indices_row(tt_tensor *const *in)
{
    return indices_of(tt_min_dim, in[0]);
}

static tt_tensor *cumsum_last_row(tt_tensor *const *in)
{
    return tt_cumsum(in[0], -1);
}

static tt_tensor *cumprod_first_row(tt_tensor *const *in)
{
    return tt_cumprod(in[0], 0);
}

static tt_tensor *mean_dim_first_row(tt_tensor *const *in)
{
    return tt_mean_dim(in[0], 0, false);
}

static tt_tensor *amax_all_row(tt_tensor *const *in)
{
    return tt_amax(in[0], NULL, 0, false);
}

static tt_tensor *logsumexp_first_row(tt_tensor *const *in)
{
    return tt_logsumexp(in[0], 0, true);
}

static tt_tensor *var_dims_population_row(tt_tensor *const *in)
{
    return tt_var_dims(in[0], NULL, 0, 0, false);
}

static const conform_row rows[] = {
    { "sum", sum_row, "fNx4", 0, 0 },
    { "mean", mean_row, "fNx4", 0, 0 },
    { "prod", prod_row, "fNx4", 0, 7 },
    { "sum_dims", sum_dims_row, "fNx4x2", 0, 0 },
    { "mean_dims", mean_dims_row, "fNx4x2", 0, 0 },
    { "sum_dim", sum_dim_row, "fNx4", 0, 0 },
    { "mean_dim", mean_dim_row, "fNx4", 0, 0 },
    { "prod_dim", prod_dim_row, "fNx4", 0, 0 },
    { "sum_dim.first", sum_dim_first_row, "fNx4", 0, 0 },
    { "var_dims", var_dims_row, "fNx4x2", 0, 0 },
    { "std_dims", std_dims_row, "fNx4x2", 0, 0 },
    { "max", max_row, "fNx4", CONFORM_EMPTY_FAILS, 0 },
    { "min", min_row, "fNx4", CONFORM_EMPTY_FAILS, 0 },
    { "max_dim", max_dim_row, "fNx4", 0, 0 },
    { "min_dim", min_dim_row, "fNx4", 0, 0 },
    { "amax", amax_row, "fNx4", 0, 0 },
    { "amin", amin_row, "fNx4", 0, 0 },
    { "argmax", argmax_row, "fNx4", CONFORM_NO_GRAD | CONFORM_EMPTY_FAILS, 0 },
    { "argmin", argmin_row, "fNx4", CONFORM_NO_GRAD | CONFORM_EMPTY_FAILS, 0 },
    { "argmax_dim", argmax_dim_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "argmin_dim", argmin_dim_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "all", all_row, "bNx4", CONFORM_NO_GRAD, 0 },
    { "any", any_row, "bNx4", CONFORM_NO_GRAD, 0 },
    { "all_dim", all_dim_row, "bNx4", CONFORM_NO_GRAD, 0 },
    { "any_dim", any_dim_row, "bNx4", CONFORM_NO_GRAD, 0 },
    { "norm.2", norm_2_row, "fNx4", 0, 0 },
    { "norm.1", norm_1_row, "fNx4", 0, 0 },
    { "norm.3", norm_3_row, "fNx4", 0, 0 },
    { "norm.inf", norm_inf_row, "fNx4", CONFORM_EMPTY_FAILS, 0 },
    { "norm_dims", norm_dims_row, "fNx4", 0, 0 },
    { "logsumexp", logsumexp_row, "fNx4", 0, 0 },
    { "cumsum", cumsum_row, "fNx4", 0, 0 },
    { "cumprod", cumprod_row, "fNx4", 0, 0 },
    { "max_dim.indices", max_dim_indices_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "min_dim.indices", min_dim_indices_row, "fNx4", CONFORM_NO_GRAD, 0 },
    { "cumsum.last", cumsum_last_row, "fNx4", 0, 0 },
    { "cumprod.first", cumprod_first_row, "fNx4", 0, 97 },
    { "mean_dim.first", mean_dim_first_row, "fNx4", 0, 0 },
    { "amax.all", amax_all_row, "fNx4", CONFORM_EMPTY_FAILS, 0 },
    { "logsumexp.complex", logsumexp_row, "cNx4", 0, 0 },
    { "logsumexp.first", logsumexp_first_row, "fNx4", 0, 0 },
    { "var_dims.population", var_dims_population_row, "fNx4", 0, 0 },
};

TT_TEST_TABLE(conformance_reduce)
{
    conform_add("reduce", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
