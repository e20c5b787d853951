/* SPDX-License-Identifier: Apache-2.0 */
/* Golden operators that reduce or accumulate along dimensions. */
#include "golden/golden.h"

static bool keep(const golden_call *c)
{
    return golden_flag(c, "keepdim", false);
}

static int dim(const golden_call *c)
{
    return (int)golden_int(c, "dim", 0);
}

static void sum(golden_call *c)
{
    const char *name = golden_word(c, "dtype", NULL);
    tt_tensor *x = name != NULL ? tt_to_dtype(c->in[0], golden_dtype(name)) : c->in[0];
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    if (n == 0)
        c->out[0] = tt_sum(x);
    else if (n == 1)
        c->out[0] = tt_sum_dim(x, dims[0], keep(c));
    else
        c->out[0] = tt_sum_dims(x, dims, n, keep(c));
}

static void mean(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    if (n == 0)
        c->out[0] = tt_mean(c->in[0]);
    else if (n == 1)
        c->out[0] = tt_mean_dim(c->in[0], dims[0], keep(c));
    else
        c->out[0] = tt_mean_dims(c->in[0], dims, n, keep(c));
}

static void prod(golden_call *c)
{
    c->out[0] = golden_has(c, "dim") ? tt_prod_dim(c->in[0], dim(c), keep(c)) : tt_prod(c->in[0]);
}

static void var(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    c->out[0] =
        tt_var_dims(c->in[0], n > 0 ? dims : NULL, n, golden_real(c, "correction", 1), keep(c));
}

static void std(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    c->out[0] =
        tt_std_dims(c->in[0], n > 0 ? dims : NULL, n, golden_real(c, "correction", 1), keep(c));
}

static void max_dim(golden_call *c)
{
    c->out[0] = tt_max_dim(c->in[0], dim(c), keep(c), &c->out[1]);
}

static void min_dim(golden_call *c)
{
    c->out[0] = tt_min_dim(c->in[0], dim(c), keep(c), &c->out[1]);
}

static void amax(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    c->out[0] = tt_amax(c->in[0], n > 0 ? dims : NULL, n, keep(c));
}

static void amin(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);

    c->out[0] = tt_amin(c->in[0], n > 0 ? dims : NULL, n, keep(c));
}

static void argmax(golden_call *c)
{
    c->out[0] =
        golden_has(c, "dim") ? tt_argmax_dim(c->in[0], dim(c), keep(c)) : tt_argmax(c->in[0]);
}

static void argmin(golden_call *c)
{
    c->out[0] =
        golden_has(c, "dim") ? tt_argmin_dim(c->in[0], dim(c), keep(c)) : tt_argmin(c->in[0]);
}

static void all(golden_call *c)
{
    c->out[0] = golden_has(c, "dim") ? tt_all_dim(c->in[0], dim(c), keep(c)) : tt_all(c->in[0]);
}

static void any(golden_call *c)
{
    c->out[0] = golden_has(c, "dim") ? tt_any_dim(c->in[0], dim(c), keep(c)) : tt_any(c->in[0]);
}

static void norm(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);
    double p = golden_real(c, "p", 2);

    c->out[0] = n > 0 ? tt_norm_dims(c->in[0], p, dims, n, keep(c)) : tt_norm(c->in[0], p);
}

/* Ours takes one dimension; over several it nests, the last dimension first. */
static void logsumexp(golden_call *c)
{
    int dims[TT_MAX_DIMS], n = golden_dims(c, "dims", dims);
    tt_tensor *x = c->in[0];

    for (int i = n - 1; i >= 0; i--)
        x = tt_logsumexp(x, dims[i], keep(c));
    c->out[0] = x;
}

static void cumsum(golden_call *c)
{
    c->out[0] = tt_cumsum(c->in[0], dim(c));
}

static void cumprod(golden_call *c)
{
    c->out[0] = tt_cumprod(c->in[0], dim(c));
}

const golden_op golden_ops_reduce[] = {
    { "sum", .run = sum },
    { "mean", .run = mean },
    { "prod", .run = prod },
    { "var", .run = var },
    { "std", .run = std },
    { "max", .unary = tt_max },
    { "min", .unary = tt_min },
    { "max_dim", .run = max_dim },
    { "min_dim", .run = min_dim },
    { "amax", .run = amax },
    { "amin", .run = amin },
    { "argmax", .run = argmax },
    { "argmin", .run = argmin },
    { "all", .run = all },
    { "any", .run = any },
    { "norm", .run = norm },
    { "logsumexp", .run = logsumexp },
    { "cumsum", .run = cumsum },
    { "cumprod", .run = cumprod },
    { NULL },
};
