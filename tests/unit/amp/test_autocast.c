/* SPDX-License-Identifier: Apache-2.0 */
/* Autocast: which operators compute in which type, what is converted once, nesting, and models in it. */
#include <math.h>
#include <string.h>

#include "tutti/amp.h"
#include "tutti/autograd.h"
#include "tutti/functional.h"
#include "tutti/models.h"
#include "tutti/observe.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"

static tt_tensor *numbers(tt_shape shape, tt_dtype dtype, uint64_t seed)
{
    tt_generator *gen = tt_generator_new(seed);
    tt_tensor *t = tt_uniform_(tt_empty(shape, dtype, TT_CPU), 0.1, 1, gen);

    tt_generator_free(gen);
    TT_REQUIRE_NOT_NULL(t);
    return t;
}

/* The result has this type. */
#define CHECK_TYPE(expression, want)                \
    do {                                            \
        tt_tensor *got_ = (expression);             \
                                                    \
        TT_REQUIRE_NOT_NULL(got_);                  \
        TT_CHECK_EQ(tt_tensor_dtype(got_), (want)); \
    } while (0)

/* ---- lists ---------------------------------------------------------------------------------------- */

static void check_low(tt_dtype low, tt_dtype in)
{
    tt_tensor *m = numbers(TT_SHAPE(4, 4), in, 1), *v = numbers(TT_SHAPE(4), in, 2);
    tt_tensor *b = numbers(TT_SHAPE(2, 4, 4), in, 3), *f = numbers(TT_SHAPE(4), TT_F32, 3);
    tt_tensor *x4 = numbers(TT_SHAPE(1, 4, 5, 5), in, 4),
              *w4 = numbers(TT_SHAPE(4, 4, 3, 3), in, 5);
    tt_tensor *x3 = numbers(TT_SHAPE(1, 4, 5), in, 4), *w3 = numbers(TT_SHAPE(4, 4, 3), in, 5);
    tt_tensor *q = numbers(TT_SHAPE(1, 2, 3, 4), in, 6);

    CHECK_TYPE(tt_linear(m, m, f), low);
    CHECK_TYPE(tt_linear(v, m, NULL), low);
    CHECK_TYPE(tt_mm(m, m), low);
    CHECK_TYPE(tt_matmul(b, m), low);
    CHECK_TYPE(tt_matmul(v, v), low);
    CHECK_TYPE(tt_bmm(b, b), low);
    CHECK_TYPE(tt_mv(m, v), low);
    CHECK_TYPE(tt_dot(v, v), low);
    CHECK_TYPE(tt_addmm(m, m, m, 1, 1), low);
    CHECK_TYPE(tt_baddbmm(b, b, b, 1, 1), low);
    CHECK_TYPE(tt_conv2d(x4, w4, f, NULL), low);
    CHECK_TYPE(tt_conv1d(x3, w3, f, NULL), low);
    CHECK_TYPE(tt_conv_transpose2d(x4, w4, f, NULL), low);
    CHECK_TYPE(tt_attention(q, q, q, NULL), low);
}

static void check_wide(tt_dtype in)
{
    tt_tensor *m = numbers(TT_SHAPE(4, 4), in, 1), *t = numbers(TT_SHAPE(4, 4), TT_F32, 2);
    tt_tensor *w = numbers(TT_SHAPE(4), TT_F32, 3);
    tt_tensor *classes = tt_zeros(TT_SHAPE(4), TT_I64, TT_CPU);
    tt_tensor *unary[] = {
        tt_exp(m),        tt_expm1(m),         tt_log(m),     tt_log1p(m),
        tt_log2(m),       tt_log10(m),         tt_rsqrt(m),   tt_reciprocal(m),
        tt_pow(m, m),     tt_pow_scalar(m, 3), tt_prod(m),    tt_prod_dim(m, 0, false),
        tt_cumsum(m, 0),  tt_cumprod(m, 0),    tt_norm(m, 2), tt_softplus(m, 1, 20),
        tt_softmax(m, 1), tt_log_softmax(m, 1)
    };

    for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++)
        CHECK_TYPE(unary[i], TT_F32);
    CHECK_TYPE(tt_layer_norm(m, 1, w, w, 1e-5), TT_F32);
    CHECK_TYPE(tt_rms_norm(m, 1, w, 1e-5), TT_F32);
    CHECK_TYPE(tt_group_norm(m, 2, w, w, 1e-5), TT_F32);
    CHECK_TYPE(tt_mse_loss(m, t), TT_F32);
    CHECK_TYPE(tt_l1_loss(m, m, NULL), TT_F32);
    CHECK_TYPE(tt_smooth_l1_loss(m, t, 1, NULL), TT_F32);
    CHECK_TYPE(tt_bce_with_logits(m, t, NULL), TT_F32);
    CHECK_TYPE(tt_bce_with_logits(m, m, &(tt_loss_options){ .weight = t }), TT_F32);
    CHECK_TYPE(tt_kl_div(m, t, NULL), TT_F32);
    CHECK_TYPE(tt_cross_entropy(m, classes), TT_F32);
    CHECK_TYPE(tt_cross_entropy(m, m), TT_F32);
    CHECK_TYPE(tt_nll_loss(m, classes, NULL), TT_F32);
}

TT_TEST(amp, operators_compute_in_the_types_of_their_list)
{
    tt_dtype halves[] = { TT_F16, TT_BF16 };

    for (int i = 0; i < 2; i++)
        TT_AUTOCAST(TT_DEVICE_CPU, halves[i])
        {
            check_low(halves[i], TT_F32);
            check_low(halves[i], halves[1 - i]);
            check_wide(TT_F32);
            check_wide(halves[i]);
        }
}

TT_TEST(amp, others_keep_their_types)
{
    tt_tensor *f = numbers(TT_SHAPE(2, 2), TT_F32, 1), *h = numbers(TT_SHAPE(2, 2), TT_BF16, 1);
    tt_tensor *d = numbers(TT_SHAPE(2, 2), TT_F64, 1), *i = tt_ones(TT_SHAPE(2, 2), TT_I64, TT_CPU);

    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    {
        CHECK_TYPE(tt_add(f, h), TT_F32);
        CHECK_TYPE(tt_add(h, h), TT_BF16);
        CHECK_TYPE(tt_relu(h), TT_BF16);
        CHECK_TYPE(tt_mm(d, d), TT_F64);
        CHECK_TYPE(tt_softmax(d, 0), TT_F64);
        CHECK_TYPE(tt_cumsum(i, 0), TT_I64);
        CHECK_TYPE(tt_batch_norm(h, NULL, NULL, &(tt_batch_norm_options){ .training = true }),
                   TT_BF16);
        CHECK_TYPE(tt_cat((tt_tensor *[]){ f, h }, 2, 0), TT_F32);
        TT_CHECK_NULL(tt_mm(f, d)); /* float64 is left alone */
        TT_CHECK_NULL(tt_linear(NULL, f, NULL));
    }
}

/* ---- scopes ----------------------------------------------------------------------------------------- */

static tt_dtype product_type(void)
{
    tt_tensor *f = numbers(TT_SHAPE(2, 2), TT_F32, 1);

    return tt_tensor_dtype(tt_mm(f, f));
}

static int leave_early(void)
{
    TT_AUTOCAST(TT_DEVICE_CPU, TT_F16)
    {
        return (int)product_type();
    }
    return -1;
}

TT_TEST(amp, scopes_nest_and_end)
{
    TT_CHECK(!tt_autocast_is_on(TT_DEVICE_CPU));
    TT_CHECK_EQ(tt_autocast_dtype(TT_DEVICE_CPU), TT_F32);
    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    {
        TT_CHECK(tt_autocast_is_on(TT_DEVICE_CPU));
        TT_CHECK_EQ(product_type(), TT_BF16);
        TT_AUTOCAST_OFF(TT_DEVICE_CPU)
        {
            TT_CHECK_EQ(product_type(), TT_F32);
            TT_AUTOCAST(TT_DEVICE_CPU, TT_F16)
            {
                TT_CHECK_EQ(product_type(), TT_F16);
                TT_CHECK_EQ(tt_autocast_dtype(TT_DEVICE_CPU), TT_F16);
            }
            TT_CHECK_EQ(product_type(), TT_F32);
        }
        TT_CHECK_EQ(product_type(), TT_BF16);
    }
    TT_CHECK_EQ(product_type(), TT_F32);
    TT_CHECK_EQ(leave_early(), TT_F16);
    TT_CHECK_EQ(product_type(), TT_F32);
}

TT_TEST(amp, is_for_one_kind_of_device)
{
    TT_AUTOCAST(TT_DEVICE_CUDA, TT_F16)
    {
        TT_CHECK(tt_autocast_is_on(TT_DEVICE_CUDA));
        TT_CHECK(!tt_autocast_is_on(TT_DEVICE_CPU));
        TT_CHECK_EQ(product_type(), TT_F32);
    }
    TT_CHECK(!tt_autocast_is_on(TT_DEVICE_CUDA));
}

static void count_warning(void *ctx, const char *category, const char *message)
{
    *(int *)ctx += strcmp(category, "amp") == 0 && strstr(message, "got float32") != NULL;
}

TT_TEST(amp, other_types_are_a_warning)
{
    int warnings = 0;

    TT_REQUIRE_OK(tt_warnings_push(count_warning, &warnings));
    TT_AUTOCAST(TT_DEVICE_CPU, TT_F32)
    TT_CHECK_EQ(product_type(), TT_F32);
    tt_warnings_pop();
    TT_CHECK_EQ(warnings, 1);
}

/* ---- weights ------------------------------------------------------------------------------------------ */

static tt_status count_casts(void *ctx, const tt_op_event *e)
{
    *(int *)ctx += !e->after;
    return TT_OK;
}

TT_TEST(amp, weights_are_converted_once)
{
    tt_tensor *w = tt_require_grad(numbers(TT_SHAPE(3, 3), TT_F32, 1));
    tt_tensor *x = numbers(TT_SHAPE(2, 3), TT_BF16, 2);
    int casts = 0;
    tt_observer *o = tt_observer_new("to_dtype", true, count_casts, &casts);

    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    {
        TT_NO_GRAD
        TT_CHECK(!tt_requires_grad(tt_linear(x, w, NULL))); /* not kept: it has no history */
        TT_CHECK_EQ(casts, 1);
        TT_CHECK(tt_requires_grad(tt_linear(x, w, NULL)));
        TT_CHECK(tt_requires_grad(tt_linear(x, w, NULL)));
        TT_CHECK_EQ(casts, 2);
        TT_NO_GRAD
        TT_REQUIRE_NOT_NULL(tt_fill_(w, 2));
        TT_CHECK_NEAR(tt_item(tt_mean(tt_linear(tt_ones_like(x), w, NULL))), 6, 0);
        TT_CHECK_EQ(casts, 3); /* it had changed */
    }
    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    TT_REQUIRE_NOT_NULL(tt_linear(x, w, NULL));
    TT_CHECK_EQ(casts, 4); /* another block */
    tt_observer_free(o);
}

TT_TEST(amp, gradients_have_the_type_of_the_weight)
{
    tt_tensor *w = tt_require_grad(numbers(TT_SHAPE(3, 3), TT_F32, 1));
    tt_tensor *x = numbers(TT_SHAPE(2, 3), TT_F32, 2), *y = NULL, *first;

    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    y = tt_sum(tt_linear(tt_linear(x, w, NULL), w, NULL));
    TT_REQUIRE_OK(tt_backward(y));
    CHECK_TYPE(tt_grad_of(w), TT_F32);
    first = tt_clone(tt_grad_of(w));
    TT_REQUIRE_OK(tt_set_grad(w, NULL));
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_linear(tt_linear(x, w, NULL), w, NULL))));
    TT_CHECK(tt_allclose(first, tt_grad_of(w), &(tt_close_options){ .rtol = 0.05, .atol = 0.05 }));
    TT_CHECK(!tt_equal(first, tt_grad_of(w)));
}

/* Twice in one block, and the second time with the weight as it was kept. */
TT_TEST(amp, backward_inside_a_block)
{
    tt_tensor *w = tt_require_grad(numbers(TT_SHAPE(3, 3), TT_F32, 1)), *once;
    tt_tensor *x = numbers(TT_SHAPE(2, 3), TT_F32, 2);

    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    {
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_softmax(tt_linear(x, w, NULL), 1))));
        TT_CHECK(tt_autocast_is_on(TT_DEVICE_CPU));
        once = tt_clone(tt_grad_of(w));
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_softmax(tt_linear(x, w, NULL), 1))));
        TT_CHECK(tt_equal(tt_add(once, once), tt_grad_of(w)));
    }
}

static tt_status segment(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = tt_relu(tt_linear(tt_relu(tt_linear(in[0], ctx, NULL)), ctx, NULL));
    return out[0] != NULL ? TT_OK : tt_last_status();
}

/* The second run happens in backward, outside of the block, and has to be the same as the first. */
TT_TEST(amp, checkpoints_run_again_as_they_ran)
{
    tt_tensor *x[3], *w[3], *out[1];

    for (int way = 0; way < 3; way++) {
        x[way] = tt_require_grad(numbers(TT_SHAPE(2, 3), TT_F32, 2));
        w[way] = tt_require_grad(numbers(TT_SHAPE(3, 3), TT_F32, 1));
        TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
        {
            if (way == 0)
                TT_REQUIRE_OK(segment(w[way], &x[way], 1, out, 1));
            else
                TT_REQUIRE_OK(tt_checkpoint(segment, w[way], &x[way], 1, out, 1,
                                            &(tt_checkpoint_options){ .reentrant = way == 2 }));
        }
        CHECK_TYPE(out[0], TT_BF16);
        TT_REQUIRE_OK(tt_backward(tt_sum(out[0])));
        TT_CHECK(!tt_autocast_is_on(TT_DEVICE_CPU));
        TT_REQUIRE_NOT_NULL(tt_grad_of(w[way]));
        TT_CHECK(tt_equal(tt_grad_of(x[0]), tt_grad_of(x[way])));
        /* converted once per use there: its gradients meet in another type */
        TT_CHECK(
            tt_allclose(tt_grad_of(w[0]), tt_grad_of(w[way]), &(tt_close_options){ .rtol = 0.02 }));
    }
}

/* ---- models --------------------------------------------------------------------------------------------- */

static double loss_of(tt_module *m, tt_tensor *x, tt_tensor *y)
{
    tt_tensor *loss = tt_cross_entropy(tt_module_forward(m, x), y);

    TT_REQUIRE_NOT_NULL(loss);
    CHECK_TYPE(loss, TT_F32);
    TT_REQUIRE_OK(tt_backward(loss));
    return tt_item(loss);
}

/* Close to float32, and every parameter gets a finite gradient. */
static void check_model(tt_module *m, tt_tensor *x, tt_tensor *y, tt_dtype low)
{
    double full, half = 0;
    tt_state_dict *ps;

    TT_REQUIRE_NOT_NULL(m);
    full = loss_of(m, x, y);
    tt_module_zero_grad(m);
    TT_AUTOCAST(TT_DEVICE_CPU, low)
    half = loss_of(m, x, y);
    TT_CHECK_NEAR(full, half, 0.05 * full);
    ps = tt_module_params(m, NULL);
    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        tt_tensor *g = tt_grad_of(tt_state_dict_tensor(ps, i));

        TT_REQUIRE_NOT_NULL(g);
        CHECK_TYPE(g, TT_F32);
        TT_CHECK(tt_item(tt_all(tt_isfinite(g))) != 0);
    }
    tt_state_dict_free(ps);
    tt_module_free(m);
}

static tt_tensor *classes(int64_t n, int64_t many)
{
    return tt_to_dtype(tt_remainder(tt_arange(0, (double)n, 1, TT_F32, TT_CPU),
                                    tt_full(TT_SHAPE(1), (double)many, TT_F32, TT_CPU)),
                       TT_I64);
}

TT_TEST(amp, trains_mlps_and_convolutions)
{
    tt_dtype halves[] = { TT_F16, TT_BF16 };

    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            check_model(TT_MLP(TT_ACT_GELU, 6, 20, 5), numbers(TT_SHAPE(8, 6), TT_F32, 1),
                        classes(8, 5), halves[i]);
            check_model(TT_SEQUENTIAL(tt_conv2d_new(1, 4, 3, NULL), tt_batch_norm2d_new(4, NULL),
                                      tt_relu_new(), tt_max_pool2d_new(2, NULL),
                                      tt_adaptive_avg_pool2d_new(2, 2), tt_flatten_new(),
                                      tt_dropout_new(0), tt_linear_new(16, 5, NULL)),
                        numbers(TT_SHAPE(8, 1, 8, 8), TT_F32, 1), classes(8, 5), halves[i]);
        }
}

TT_TEST(amp, trains_transformers)
{
    tt_gpt2_options o = { .layers = 2, .heads = 2, .width = 16, .vocab = 11, .context = 8 };
    tt_module *m = tt_gpt2(&o);
    tt_tensor *tokens = tt_reshape(classes(16, 11), TT_SHAPE(2, 8)), *out = NULL, *loss = NULL;

    TT_REQUIRE_NOT_NULL(m);
    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    {
        out = tt_module_forward(m, tokens);
        TT_REQUIRE_NOT_NULL(out);
        loss = tt_cross_entropy(tt_reshape(out, TT_SHAPE(16, 11)), classes(16, 11));
    }
    CHECK_TYPE(loss, TT_F32);
    TT_CHECK_NEAR(tt_item(loss), log(11), 0.5);
    TT_REQUIRE_OK(tt_backward(loss));
    TT_CHECK(tt_item(tt_all(tt_isfinite(tt_grad_of(tt_module_param(m, "wte.weight"))))) != 0);
    tt_module_free(m);
}

TT_TEST(amp, runs_recurrent_layers)
{
    tt_module *m = tt_lstm_new(4, 3, NULL);
    tt_tensor *x = numbers(TT_SHAPE(5, 2, 4), TT_F32, 1), *full, *half = NULL;

    full = tt_module_forward(m, x);
    TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
    half = tt_module_forward(m, tt_to_dtype(x, TT_BF16));
    TT_REQUIRE_NOT_NULL(half);
    TT_CHECK(tt_allclose(full, tt_to_dtype(half, TT_F32), &(tt_close_options){ .atol = 0.03 }));
    TT_REQUIRE_OK(tt_backward(tt_sum(half)));
    tt_module_free(m);
}

/* ---- memory that runs out ------------------------------------------------------------------------------- */

static tt_status cast_forward(void *ctx)
{
    tt_tensor *const *xw = ctx;
    tt_status st = TT_OK;

    TT_SCOPE {
        TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16)
        {
            tt_tensor *y = tt_softmax(tt_linear(tt_linear(xw[0], xw[1], NULL), xw[1], NULL), 1);

            st = y != NULL ? TT_OK : tt_last_status();
        }
    }
    return st;
}

TT_TEST(amp, survives_failing_allocations)
{
    tt_tensor *xw[] = { numbers(TT_SHAPE(2, 3), TT_F32, 1),
                        tt_require_grad(numbers(TT_SHAPE(3, 3), TT_F32, 2)) };

    TT_CHECK_GT(tt_test_fail_allocs(cast_forward, xw), 5);
    TT_CHECK(!tt_autocast_is_on(TT_DEVICE_CPU));
}
