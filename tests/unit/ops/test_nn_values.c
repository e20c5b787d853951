/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, losses and normalisation: values and gradients in float32 against double on sizes that
 * fill vectors and threads, the same bits for any number of threads, messages, and failing
 * allocations. */
#include <math.h>
#include <stdlib.h>

#include "ops/op.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

typedef tt_tensor *(*nn_fn)(tt_tensor *const *in);

typedef struct nn_case {
    const char *name;
    nn_fn fn;
    int n_in;
    tt_shape shape[3];
} nn_case;

static tt_tensor *classes(int64_t n, int64_t limit)
{
    tt_tensor *t = tt_empty(TT_SHAPE(n), TT_I64, TT_CPU);

    for (int64_t i = 0; t != NULL && i < n; i++)
        ((int64_t *)tt_tensor_data(t))[i] = (i * 7) % limit;
    return t;
}

static tt_tensor *softmax_last(tt_tensor *const *in)
{
    return tt_softmax(in[0], -1);
}
static tt_tensor *softmax_middle(tt_tensor *const *in)
{
    return tt_softmax(in[0], 1);
}
static tt_tensor *log_softmax(tt_tensor *const *in)
{
    return tt_log_softmax(in[0], 0);
}
static tt_tensor *entropy(tt_tensor *const *in)
{
    return tt_cross_entropy(in[0], classes(in[0]->dims[0], in[0]->dims[1]));
}
static tt_tensor *mse(tt_tensor *const *in)
{
    return tt_mse_loss(in[0], in[1]);
}
static tt_tensor *smooth(tt_tensor *const *in)
{
    return tt_smooth_l1_loss(in[0], in[1], 0.5, NULL);
}
static tt_tensor *bce(tt_tensor *const *in)
{
    return tt_bce_with_logits(in[0], in[1], NULL);
}
static tt_tensor *layer(tt_tensor *const *in)
{
    return tt_layer_norm(in[0], 1, in[1], in[2], 1e-5);
}
static tt_tensor *rms(tt_tensor *const *in)
{
    return tt_rms_norm(in[0], 1, in[1], 1e-5);
}
static tt_tensor *group(tt_tensor *const *in)
{
    return tt_group_norm(in[0], 4, in[1], in[2], 1e-5);
}
static tt_tensor *batch(tt_tensor *const *in)
{
    return tt_batch_norm(in[0], in[1], in[2], &(tt_batch_norm_options){ .training = true });
}
static tt_tensor *batch_last(tt_tensor *const *in)
{
    tt_tensor *x = tt_to_format(in[0], TT_FORMAT_CHANNELS_LAST);

    return tt_batch_norm(x, in[1], in[2], &(tt_batch_norm_options){ .training = true });
}

static nn_case cases[] = {
    { "softmax over the last", softmax_last, 1, { { 2, { 300, 257 } } } },
    { "softmax over the middle", softmax_middle, 1, { { 3, { 5, 33, 300 } } } },
    { "log_softmax over the first", log_softmax, 1, { { 2, { 65, 700 } } } },
    { "cross_entropy", entropy, 1, { { 2, { 500, 129 } } } },
    { "mse_loss", mse, 2, { { 2, { 100, 1003 } }, { 2, { 100, 1003 } } } },
    { "smooth_l1_loss", smooth, 2, { { 2, { 77, 1003 } }, { 2, { 77, 1003 } } } },
    { "bce_with_logits", bce, 2, { { 2, { 77, 1003 } }, { 2, { 77, 1003 } } } },
    { "layer_norm", layer, 3, { { 2, { 300, 383 } }, { 1, { 383 } }, { 1, { 383 } } } },
    { "rms_norm", rms, 2, { { 2, { 300, 383 } }, { 1, { 383 } } } },
    { "group_norm", group, 3, { { 4, { 6, 8, 31, 33 } }, { 1, { 8 } }, { 1, { 8 } } } },
    { "batch_norm", batch, 3, { { 4, { 8, 9, 31, 33 } }, { 1, { 9 } }, { 1, { 9 } } } },
    { "batch_norm of a matrix", batch, 3, { { 2, { 700, 99 } }, { 1, { 99 } }, { 1, { 99 } } } },
    { "batch_norm, channels last",
      batch_last,
      3,
      { { 4, { 8, 9, 31, 33 } }, { 1, { 9 } }, { 1, { 9 } } } },
};

static tt_tensor *operand(tt_shape shape, int which)
{
    tt_tensor *t = tt_empty(shape, TT_F64, TT_CPU);
    double *p = t != NULL ? tt_tensor_data(t) : NULL;
    uint32_t state = 77u + (uint32_t)which;

    for (int64_t i = 0; p != NULL && i < tt_shape_numel(shape); i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (double)(float)((int)(state >> 16) - 32768) / 16384.0;
    }
    return t;
}

/* out[0]: the result; then the gradients of its elements weighted by a fixed pattern. */
static void compute(const nn_case *c, tt_dtype dtype, tt_tensor **out)
{
    tt_tensor *in[3], *y, *weights;

    for (int i = 0; i < c->n_in; i++)
        in[i] = tt_require_grad(tt_to_dtype(operand(c->shape[i], i), dtype));
    out[0] = c->fn(in);
    TT_REQUIRE_NOT_NULL(out[0]);
    weights = tt_to_dtype(operand(tt_tensor_shape(out[0]), 9), dtype);
    y = tt_sum(tt_mul(out[0], weights));
    TT_REQUIRE_OK(tt_grad(&y, 1, in, c->n_in, NULL, out + 1));
}

static void check_close(const nn_case *c, tt_dtype dtype, double tol)
{
    tt_tensor *exact[4], *got[4];

    compute(c, TT_F64, exact);
    compute(c, dtype, got);
    for (int i = 0; i <= c->n_in; i++) {
        tt_close_report r;
        double size = tt_item(tt_norm(exact[i], INFINITY));
        const tt_close_options opt = { .rtol = tol, .atol = tol * size };

        TT_CHECK_EQ(tt_tensor_dtype(got[i]), dtype);
        if (!tt_compare(tt_to_dtype(got[i], TT_F64), exact[i], &opt, &r))
            TT_FAIL_TEST("%s %d: %s", tt_dtype_name(dtype), i, r.text);
    }
}

static void check_values(void *ctx)
{
    TT_SCOPE {
        check_close(ctx, TT_F32, 1e-5);
        check_close(ctx, TT_BF16, 3e-2);
        check_close(ctx, TT_F16, 5e-3);
    }
}

static void check_threads(void *ctx)
{
    const nn_case *c = ctx;
    tt_tensor *one[4], *two[4];

    TT_SCOPE {
        TT_REQUIRE_OK(tt_set_num_threads(1));
        compute(c, TT_F32, one);
        TT_REQUIRE_OK(tt_set_num_threads(2));
        compute(c, TT_F32, two);
        for (int i = 0; i <= c->n_in; i++)
            TT_CHECK(tt_equal(one[i], two[i]));
    }
}

TT_TEST_TABLE(nn_values)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tt_test_add("nn_values", cases[i].name, check_values, &cases[i]);
        tt_test_add("nn_threads", cases[i].name, check_threads, &cases[i]);
    }
}

/* The gradient of the sum of the results is 0 up to rounding for softmax and layer norm; here
 * values that can be worked out by hand. */
TT_TEST(nn_by_hand, cross_entropy_and_its_gradient)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(tt_reshape(TT_FLOATS(0, 0, 0, 0, 0, 0), TT_SHAPE(2, 3)));
        tt_tensor *loss = tt_cross_entropy(x, TT_INTS(2, -100));
        const float *g;

        TT_REQUIRE_NOT_NULL(loss);
        TT_CHECK_NEAR(tt_item(loss), log(3.0), 1e-6);
        TT_REQUIRE_OK(tt_backward(loss));
        g = tt_tensor_data(tt_grad_of(x));
        TT_CHECK_NEAR(g[0], 1.0 / 3.0, 1e-6);
        TT_CHECK_NEAR(g[2], -2.0 / 3.0, 1e-6);
        TT_CHECK_NEAR(g[3], 0.0, 0.0);
        TT_CHECK_STR(tt_grad_fn_name(loss), "cross_entropy");
    }
}

TT_TEST(nn_by_hand, batch_norm_learns_its_statistics)
{
    TT_SCOPE {
        tt_tensor *mean = TT_FLOATS(0, 1), *var = TT_FLOATS(1, 1);
        tt_tensor *x = tt_reshape(TT_FLOATS(1, 10, 3, 10, 5, 16), TT_SHAPE(3, 2));
        const tt_batch_norm_options opt = {
            .running_mean = mean, .running_var = var, .momentum = 0.5, .training = true
        };
        tt_tensor *y = tt_batch_norm(x, NULL, NULL, &opt);
        const float *m = tt_tensor_data(mean), *v = tt_tensor_data(var);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_NEAR(m[0], 1.5, 1e-6);
        TT_CHECK_NEAR(m[1], 6.5, 1e-6);
        TT_CHECK_NEAR(v[0], 0.5 + 0.5 * 4.0, 1e-6);
        TT_CHECK_NEAR(v[1], 0.5 + 0.5 * 12.0, 1e-5);
        TT_CHECK_NEAR(((float *)tt_tensor_data(y))[4], 2.0 / sqrt(8.0 / 3.0 + 1e-5), 1e-5);
        TT_CHECK_GT(tt_tensor_version(mean), 0);
    }
}

TT_TEST(nn_by_hand, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(2, 3), TT_F32, TT_CPU);

        TT_CHECK_NULL(tt_cross_entropy(x, TT_INTS(0, 3)));
        TT_CHECK_CONTAINS(tt_last_error(), "got 3 at position 1 (3 classes)");
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK_NULL(tt_nll_loss(x, TT_INTS(-1, 0), NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "nll_loss: expected target classes from 0 to 2, got -1");
        TT_CHECK_NULL(tt_cross_entropy(x, TT_INTS(0, 1, 2)));
        TT_CHECK_CONTAINS(tt_last_error(), "got [2, 3] and [3]");
        TT_CHECK_NULL(tt_layer_norm(x, 1, TT_FLOATS(1, 2), NULL, 1e-5));
        TT_CHECK_CONTAINS(tt_last_error(), "layer_norm: expected weight and bias");
        TT_CHECK_NULL(tt_layer_norm(x, 3, NULL, NULL, 1e-5));
        TT_CHECK_NULL(tt_batch_norm(x, NULL, NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "batch_norm: expected running_mean and running_var");
        TT_CHECK_NULL(tt_batch_norm(tt_zeros(TT_SHAPE(1, 3), TT_F32, TT_CPU), NULL, NULL,
                                    &(tt_batch_norm_options){ .training = true }));
        TT_CHECK_CONTAINS(tt_last_error(), "more than one value per channel");
        TT_CHECK_NULL(tt_group_norm(x, 2, NULL, NULL, 1e-5));
        TT_CHECK_CONTAINS(tt_last_error(), "multiple of 2 groups");
        TT_CHECK_NULL(tt_softmax(TT_INTS(1, 2), 0));
        TT_CHECK_NULL(tt_bce_with_logits(x, TT_FLOATS(1), NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "bce_with_logits: expected targets shaped like");
        tt_clear_error();
        TT_CHECK_NULL(tt_mse_loss(NULL, x));
        TT_CHECK_CONTAINS(tt_last_error(), "mse_loss: operand 0 is NULL");
    }
}

static tt_status chain(void *ctx)
{
    tt_tensor *x = ctx, *h, *loss;
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *w = tt_require_grad(tt_ones(TT_SHAPE(6), TT_F32, TT_CPU));

        h = tt_layer_norm(x, 1, w, NULL, 1e-5);
        h = tt_softmax(tt_batch_norm(h, w, NULL, &(tt_batch_norm_options){ .training = true }), 1);
        h = tt_sub(tt_mul(h, w), tt_mean_dim(h, 0, true));
        loss =
            tt_add(tt_cross_entropy(h, TT_INTS(1, 2, 3, -100)), tt_max(tt_sort(h, 1, false, NULL)));
        loss = tt_add(loss, tt_mse_loss(h, x));
        st = loss != NULL ? tt_backward(loss) : tt_last_status();
    }
    return st;
}

TT_TEST(nn_by_hand, survives_failing_allocations)
{
    TT_SCOPE {
        tt_tensor *x = operand(TT_SHAPE(4, 6), 1);

        TT_CHECK_GT(tt_test_fail_allocs(chain, tt_to_dtype(x, TT_F32)), 20);
    }
}
