/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and second gradients of reductions, softmax, losses and normalisation against finite
 * differences. One test per row of the table. */
#include <math.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

typedef tt_tensor *(*grad_case_fn)(tt_tensor *const *in);

typedef struct grad_case {
    const char *name;
    grad_case_fn fn;
    int n_in;
    tt_shape shape[3];
    bool first_only; /* the second derivative is 0 or undefined at finite differences */
} grad_case;

static const int first_last[2] = { 0, 2 };

static tt_tensor *sum(tt_tensor *const *in)
{
    return tt_square(tt_sum_dims(in[0], first_last, 2, false));
}
static tt_tensor *mean(tt_tensor *const *in)
{
    return tt_square(tt_mean_dim(in[0], 1, true));
}
static tt_tensor *prod(tt_tensor *const *in)
{
    return tt_prod_dim(in[0], 1, false);
}
static tt_tensor *prod_zero(tt_tensor *const *in)
{
    return tt_prod(tt_mul(in[0], TT_FLOATS(0, 1, 2, 1)));
}
static tt_tensor *var(tt_tensor *const *in)
{
    return tt_var_dims(in[0], first_last, 2, 1.0, false);
}
static tt_tensor *standard(tt_tensor *const *in)
{
    return tt_std_dims(in[0], first_last, 1, 0.0, true);
}
static tt_tensor *amax(tt_tensor *const *in)
{
    return tt_square(tt_amax(in[0], first_last, 2, false));
}
static tt_tensor *min_all(tt_tensor *const *in)
{
    return tt_square(tt_min(in[0]));
}
static tt_tensor *max_dim(tt_tensor *const *in)
{
    return tt_square(tt_max_dim(in[0], 1, false, NULL));
}
static tt_tensor *norm2(tt_tensor *const *in)
{
    return tt_norm_dims(in[0], 2.0, first_last, 2, false);
}
static tt_tensor *norm3(tt_tensor *const *in)
{
    return tt_norm(in[0], 3.0);
}
static tt_tensor *norm1(tt_tensor *const *in)
{
    return tt_square(tt_norm(in[0], 1.0));
}
static tt_tensor *norm_inf(tt_tensor *const *in)
{
    return tt_square(tt_norm_dims(in[0], INFINITY, first_last, 1, false));
}
static tt_tensor *logsumexp(tt_tensor *const *in)
{
    return tt_logsumexp(in[0], 1, true);
}
static tt_tensor *cumsum(tt_tensor *const *in)
{
    return tt_square(tt_cumsum(in[0], 1));
}
static tt_tensor *cumprod(tt_tensor *const *in)
{
    return tt_cumprod(in[0], 1);
}
static tt_tensor *cumprod_zero(tt_tensor *const *in)
{
    return tt_cumprod(tt_mul(in[0], TT_FLOATS(1, 0, 2, 0)), 0);
}
static tt_tensor *sorted(tt_tensor *const *in)
{
    return tt_mul(tt_square(tt_sort(in[0], 1, true, NULL)), in[1]);
}
static tt_tensor *topk(tt_tensor *const *in)
{
    return tt_square(tt_topk(in[0], 2, 1, false, NULL));
}
static tt_tensor *softmax(tt_tensor *const *in)
{
    return tt_mul(tt_softmax(in[0], 1), in[1]);
}
static tt_tensor *log_softmax(tt_tensor *const *in)
{
    return tt_mul(tt_log_softmax(in[0], -1), in[1]);
}

static tt_tensor *cross_entropy(tt_tensor *const *in)
{
    return tt_cross_entropy(in[0], TT_INTS(1, 0, 4));
}
static tt_tensor *cross_entropy_odd(tt_tensor *const *in)
{
    const tt_loss_options opt = { .weight = TT_FLOATS(1, 2, 3, 0.5, 1),
                                  .ignore_index = 0,
                                  .has_ignore_index = true };

    return tt_cross_entropy_with(in[0], TT_INTS(1, 0, 4), &opt);
}
static tt_tensor *cross_entropy_smooth(tt_tensor *const *in)
{
    const tt_loss_options opt = { .label_smoothing = 0.2, .reduction = TT_REDUCTION_NONE };

    return tt_cross_entropy_with(in[0], tt_reshape(TT_INTS(1, 0, 2, 1), TT_SHAPE(2, 2)), &opt);
}
static tt_tensor *cross_entropy_soft(tt_tensor *const *in)
{
    return tt_cross_entropy(in[0], tt_softmax(in[1], 1));
}
static tt_tensor *nll(tt_tensor *const *in)
{
    return tt_nll_loss(tt_log_softmax(in[0], 1), TT_INTS(1, 0, 4), NULL);
}
static tt_tensor *mse(tt_tensor *const *in)
{
    return tt_mse_loss(in[0], in[1]);
}
static tt_tensor *l1(tt_tensor *const *in)
{
    return tt_square(tt_l1_loss(in[0], in[1], NULL));
}
static tt_tensor *smooth_l1(tt_tensor *const *in)
{
    return tt_smooth_l1_loss(in[0], in[1], 0.7,
                             &(tt_loss_options){ .reduction = TT_REDUCTION_SUM });
}
static tt_tensor *bce(tt_tensor *const *in)
{
    return tt_bce_with_logits(in[0], in[1], NULL);
}
static tt_tensor *bce_weighted(tt_tensor *const *in)
{
    const tt_loss_options opt = { .weight = TT_FLOATS(1, 2, 3), .pos_weight = TT_FLOATS(2, 1, 4) };

    return tt_bce_with_logits(in[0], in[1], &opt);
}
static tt_tensor *kl(tt_tensor *const *in)
{
    return tt_kl_div(tt_log_softmax(in[0], 1), tt_softmax(in[1], 1), NULL);
}

static tt_tensor *layer_norm(tt_tensor *const *in)
{
    return tt_square(tt_layer_norm(in[0], 2, in[1], in[2], 1e-3));
}
static tt_tensor *rms_norm(tt_tensor *const *in)
{
    return tt_square(tt_rms_norm(in[0], 1, in[1], 1e-3));
}
static tt_tensor *group_norm(tt_tensor *const *in)
{
    return tt_square(tt_group_norm(in[0], 2, in[1], in[2], 1e-3));
}
static tt_tensor *batch_norm(tt_tensor *const *in)
{
    const tt_batch_norm_options opt = { .training = true, .eps = 1e-3 };

    return tt_square(tt_batch_norm(in[0], in[1], in[2], &opt));
}
static tt_tensor *batch_norm_eval(tt_tensor *const *in)
{
    const tt_batch_norm_options opt = { .running_mean = TT_FLOATS(0.5, -1, 2),
                                        .running_var = TT_FLOATS(1, 2, 0.5) };

    return tt_square(tt_batch_norm(in[0], in[1], in[2], &opt));
}

static grad_case cases[] = {
    { "sum", sum, 1, { { 3, { 2, 3, 4 } } }, false },
    { "mean", mean, 1, { { 3, { 2, 3, 4 } } }, false },
    { "prod", prod, 1, { { 2, { 2, 4 } } }, false },
    { "prod with a zero", prod_zero, 1, { { 1, { 4 } } }, false },
    { "var", var, 1, { { 3, { 2, 3, 4 } } }, false },
    { "std", standard, 1, { { 2, { 4, 3 } } }, false },
    { "amax", amax, 1, { { 3, { 2, 3, 4 } } }, false },
    { "min", min_all, 1, { { 2, { 2, 3 } } }, false },
    { "max_dim", max_dim, 1, { { 3, { 2, 3, 4 } } }, false },
    { "norm 2", norm2, 1, { { 3, { 2, 3, 4 } } }, false },
    { "norm 3", norm3, 1, { { 1, { 5 } } }, false },
    { "norm 1", norm1, 1, { { 1, { 5 } } }, false },
    { "norm inf", norm_inf, 1, { { 2, { 3, 4 } } }, false },
    { "logsumexp", logsumexp, 1, { { 3, { 2, 3, 2 } } }, false },
    { "cumsum", cumsum, 1, { { 2, { 2, 4 } } }, false },
    { "cumprod", cumprod, 1, { { 2, { 2, 4 } } }, false },
    { "cumprod with zeros", cumprod_zero, 1, { { 1, { 4 } } }, false },
    { "sort", sorted, 2, { { 2, { 2, 5 } }, { 2, { 2, 5 } } }, false },
    { "topk", topk, 1, { { 2, { 2, 5 } } }, false },
    { "softmax", softmax, 2, { { 3, { 2, 3, 4 } }, { 3, { 2, 3, 4 } } }, false },
    { "log_softmax", log_softmax, 2, { { 2, { 3, 4 } }, { 2, { 3, 4 } } }, false },
    { "cross_entropy", cross_entropy, 1, { { 2, { 3, 5 } } }, false },
    { "cross_entropy, weighted, ignoring", cross_entropy_odd, 1, { { 2, { 3, 5 } } }, false },
    { "cross_entropy, smoothed, spatial", cross_entropy_smooth, 1, { { 3, { 2, 3, 2 } } }, false },
    { "cross_entropy of probabilities",
      cross_entropy_soft,
      2,
      { { 2, { 3, 4 } }, { 2, { 3, 4 } } },
      false },
    { "nll_loss", nll, 1, { { 2, { 3, 5 } } }, false },
    { "mse_loss", mse, 2, { { 2, { 3, 5 } }, { 2, { 3, 5 } } }, false },
    { "l1_loss", l1, 2, { { 2, { 3, 5 } }, { 2, { 3, 5 } } }, false },
    { "smooth_l1_loss", smooth_l1, 2, { { 2, { 3, 5 } }, { 2, { 3, 5 } } }, false },
    { "bce_with_logits", bce, 2, { { 2, { 3, 5 } }, { 2, { 3, 5 } } }, false },
    { "bce_with_logits, weighted", bce_weighted, 2, { { 2, { 2, 3 } }, { 2, { 2, 3 } } }, false },
    { "kl_div", kl, 2, { { 2, { 2, 3 } }, { 2, { 2, 3 } } }, false },
    { "layer_norm",
      layer_norm,
      3,
      { { 3, { 3, 2, 4 } }, { 2, { 2, 4 } }, { 2, { 2, 4 } } },
      false },
    { "rms_norm", rms_norm, 2, { { 2, { 3, 5 } }, { 1, { 5 } } }, false },
    { "group_norm", group_norm, 3, { { 3, { 2, 4, 3 } }, { 1, { 4 } }, { 1, { 4 } } }, false },
    { "batch_norm", batch_norm, 3, { { 3, { 3, 2, 3 } }, { 1, { 2 } }, { 1, { 2 } } }, false },
    { "batch_norm of a matrix",
      batch_norm,
      3,
      { { 2, { 5, 3 } }, { 1, { 3 } }, { 1, { 3 } } },
      false },
    { "batch_norm, not training",
      batch_norm_eval,
      3,
      { { 3, { 2, 3, 2 } }, { 1, { 3 } }, { 1, { 3 } } },
      false },
};

/* Distinct values away from 0 and from each other, in no order. */
static tt_tensor *operand(tt_shape shape, int which)
{
    tt_tensor *t = tt_empty(shape, TT_F64, TT_CPU);
    double *p = t != NULL ? tt_tensor_data(t) : NULL;
    int64_t n = tt_shape_numel(shape);

    for (int64_t i = 0; p != NULL && i < n; i++) {
        double v = (double)((i * 37 + which * 11) % 101) / 40.0 - 1.2371;

        p[i] = v + (double)which * 0.0173;
    }
    return t;
}

static tt_status call(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    const grad_case *c = ctx;

    (void)n_in, (void)n_out;
    out[0] = c->fn(in);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static void run(void *ctx)
{
    const grad_case *c = ctx;
    tt_tensor *in[3];
    const tt_gradcheck_options opt = { .second_order = !c->first_only };

    TT_SCOPE {
        for (int i = 0; i < c->n_in; i++) {
            in[i] = tt_require_grad(operand(c->shape[i], i));
            TT_REQUIRE_NOT_NULL(in[i]);
        }
        TT_CHECK_OK(tt_gradcheck(call, ctx, in, c->n_in, 1, &opt));
    }
}

/* The fused gradient is another code path than the one that second derivatives go through. */
static void compare_paths(void *ctx)
{
    const grad_case *c = ctx;
    tt_tensor *in[3], *plain[3], *graph[3];

    TT_SCOPE {
        tt_tensor *y;

        for (int i = 0; i < c->n_in; i++)
            in[i] = tt_require_grad(operand(c->shape[i], i));
        y = tt_sum(c->fn(in));
        TT_REQUIRE_NOT_NULL(y);
        TT_REQUIRE_OK(
            tt_grad(&y, 1, in, c->n_in, &(tt_grad_options){ .retain_graph = true }, plain));
        TT_REQUIRE_OK(
            tt_grad(&y, 1, in, c->n_in, &(tt_grad_options){ .create_graph = true }, graph));
        for (int i = 0; i < c->n_in; i++)
            TT_CHECK(tt_allclose(plain[i], graph[i], NULL));
    }
}

TT_TEST_TABLE(reduce_grad)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_test_add("reduce_grad", cases[i].name, run, &cases[i]);
        tt_test_add("reduce_grad_paths", cases[i].name, compare_paths, &cases[i]);
    }
}
