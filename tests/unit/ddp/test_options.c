/* SPDX-License-Identifier: Apache-2.0 */
/* Options of tt_ddp: other types, hooks of buffers, buckets that nobody uses, other groups; and mistakes. */
#include <stdio.h>
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/functional.h"
#include "tutti/join.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static tt_tensor *numbers(tt_shape shape, uint64_t salt)
{
    return tool_numbers(shape, tt_test_seed() + salt);
}

static void check_same(tt_tensor *t)
{
    TT_SCOPE {
        tt_tensor *first;

        TT_REQUIRE_NOT_NULL(t);
        first = tt_clone(tt_detach(t));
        TT_REQUIRE_OK(tt_pg_broadcast(tt_test_pg(), first, 0, NULL, NULL));
        TT_CHECK(tt_equal(first, tt_detach(t)));
    }
}

static int64_t logged(const tt_ddp *d, const char *name)
{
    tt_value *log = tt_ddp_log_value(d);
    int64_t i;

    TT_REQUIRE_NOT_NULL(log);
    i = tt_value_as_int(tt_value_map_get(log, name));
    tt_value_free(log);
    return i;
}

/* ---- types -------------------------------------------------------------------------------------------- */

static double train(tt_ddp *d, int n)
{
    tt_optim *opt = tt_sgd_for(tt_ddp_module(d), &(tt_sgd_options){ .lr = 0.05 });
    double loss = 0;

    for (int i = 0; i < n; i++)
        TT_SCOPE {
            uint64_t salt = (uint64_t)(i % 4 * tt_test_size() + tt_test_rank());
            tt_tensor *x = numbers(TT_SHAPE(16, 6), salt);
            tt_tensor *y = tt_sum_dims(x, (const int[]){ 1 }, 1, true);
            tt_tensor *out = tt_ddp_forward(d, x), *l;

            if (out == NULL)
                TT_FAIL_TEST("%s", tt_last_error());
            l = tt_mse_loss(tt_to_dtype(out, TT_F32), y);
            TT_REQUIRE_OK(tt_backward(l));
            loss = tt_item(l);
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, i % 2 == 0));
        }
    tt_optim_free(opt);
    return loss;
}

/* It learns nearly as well as in float32, and ranks do not part. */
static void learns(tt_ddp_precision p, bool copies)
{
    tt_module *m = TT_MLP(TT_ACT_RELU, 6, 32, 1), *full;
    tt_ddp *d, *f;
    double a, b;

    TT_REQUIRE_NOT_NULL(m);
    full = tt_module_copy(m);
    d = tool_wrap(m, &(tt_ddp_options){ .precision = p, .copy_gradients = copies });
    f = tool_wrap(full, NULL);
    TT_REQUIRE_OK(tt_ddp_sync_states(f, 0));
    a = train(d, 40);
    b = train(f, 40);
    TT_CHECK_NEAR(a, b, 0.1 + 0.1 * b);
    for (int i = 0; i < tt_ddp_n_params(d); i++) {
        check_same(tt_ddp_param(d, i));
        TT_CHECK_EQ(tt_tensor_dtype(tt_ddp_param(d, i)), TT_F32);
    }
    tt_ddp_free(d);
    tt_ddp_free(f);
    tt_module_free(m);
    tt_module_free(full);
}

TT_TEST_THREADS(2, ddp_options, learns_in_other_types)
{
    learns((tt_ddp_precision){ .params = TT_BF16 }, false);
    learns((tt_ddp_precision){ .reduce = TT_BF16 }, false);
    learns((tt_ddp_precision){ .reduce = TT_F16 }, true);
    learns((tt_ddp_precision){ .params = TT_F16, .reduce = TT_F16, .buffers = TT_F16 }, false);
}

/* Inputs of a value: floating ones are converted, others and opaque ones are not. */
static tt_value *typed_call(tt_module *m, const tt_value *in)
{
    tt_tensor *x = tt_value_as_tensor(tt_value_map_get(in, "x"));

    TT_CHECK_EQ(tt_tensor_dtype(x), TT_BF16);
    TT_CHECK_EQ(tt_tensor_dtype(tt_value_as_tensor(tt_value_map_get(in, "index"))), TT_I64);
    TT_CHECK_STR(tt_value_as_text(tt_value_map_get(in, "words")), "kept");
    return tt_value_tensor_new(tt_module_run(m, "lin", x));
}

static const tt_module_class typed_class = { .name = "Typed", .call = typed_call };

TT_TEST_THREADS(2, ddp_options, floating_inputs_are_converted)
{
    tt_module *m = tt_module_new(&typed_class);
    tt_value *in = tt_value_map_new(), *out;
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_give_child(m, "lin", tt_linear_new(4, 4, NULL)));
    TT_REQUIRE_OK(tt_value_map_give(in, "x", tt_value_tensor_new(numbers(TT_SHAPE(2, 4), 0))));
    TT_REQUIRE_OK(
        tt_value_map_give(in, "index", tt_value_tensor_new(tt_zeros(TT_SHAPE(2), TT_I64, TT_CPU))));
    TT_REQUIRE_OK(tt_value_map_give(in, "words", tt_value_text_new("kept")));
    d = tool_wrap(m, &(tt_ddp_options){ .precision = { .params = TT_BF16 } });
    out = tt_ddp_call(d, in);
    TT_REQUIRE_NOT_NULL(out);
    TT_CHECK_EQ(tt_tensor_dtype(tt_value_as_tensor(out)), TT_BF16);
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_value_as_tensor(out))));
    check_same(tt_grad_of(tt_module_param(m, "lin.weight")));
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_param(m, "lin.weight")), TT_F32);
    tt_value_free(out);
    tt_value_free(in);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- hooks of buffers ------------------------------------------------------------------------------------ */

static tt_status broken_hook(void *ctx, tt_ddp *d, const tt_state_dict *buffers,
                             tt_future **future_p)
{
    (void)d, (void)buffers;
    if (*(const bool *)ctx) {
        *future_p = tt_future_new();
        return tt_future_fail(*future_p, TT_ERR_IO, "the buffers' own failure");
    }
    return tt_fail(TT_ERR_IO, "the buffers' own failure");
}

TT_TEST_THREADS(2, ddp_options, failures_of_buffer_hooks_come_through)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 4, NULL), tt_batch_norm1d_new(4, NULL));
    tt_ddp *d = tool_wrap(m, NULL);
    tt_tensor *x = numbers(TT_SHAPE(4, 4), 0), *y;
    bool late = false;

    TT_REQUIRE_OK(tt_ddp_set_buffer_hook(d, TT_DDP_BEFORE_FORWARD, broken_hook, &late));
    TT_CHECK_NULL(tt_ddp_forward(d, x));
    TT_CHECK_CONTAINS(tt_last_error(), "the buffers' own failure");
    TT_CHECK_EQ(logged(d, "has_error"), 1);
    late = true;
    TT_CHECK_NULL(tt_ddp_forward(d, x));
    TT_CHECK_CONTAINS(tt_last_error(), "the buffers' own failure");
    TT_REQUIRE_OK(tt_ddp_set_buffer_hook(d, TT_DDP_AFTER_FORWARD, broken_hook, &late));
    y = tt_ddp_forward(d, x);
    TT_REQUIRE_NOT_NULL(y);
    TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_IO, "the buffers' own failure");
    TT_REQUIRE_OK(tt_ddp_set_buffer_hook(d, TT_DDP_AFTER_FORWARD, NULL, NULL));
    tt_module_zero_grad(m);
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
    check_same(tt_grad_of(tt_ddp_param(d, 0)));
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- buckets that nobody uses ------------------------------------------------------------------------------ */

/* "a" always; "b" when the first element is above 1. */
static tt_tensor *either_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *y = tt_module_run(m, "a", x);

    return tt_item(tt_select(tt_select(x, 0, 0), 0, 0)) > 1 ? tt_add(y, tt_module_run(m, "b", x))
                                                            : y;
}

static const tt_module_class either_class = { .name = "Either", .forward = either_forward };

static tt_module *either_new(void)
{
    static const tt_linear_options no_bias = { .no_bias = true };
    tt_module *m = tt_module_new(&either_class);

    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(4, 4, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(4, 4, &no_bias)));
    return m;
}

static const tt_ddp_options skips = { .find_unused = true,
                                      .skip_unused_buckets = true,
                                      .bucket_cap_mb = 1e-5 };

TT_TEST_THREADS(3, ddp_options, buckets_are_skipped_only_if_nobody_uses_them)
{
    tt_module *m = either_new();
    tt_ddp *d = tool_wrap(m, &skips);
    tt_tensor *b = tt_module_param(m, "b.weight");

    TT_CHECK_EQ(tt_ddp_n_buckets(d), 2);
    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            bool mine = i % 3 == 1 && tt_test_rank() == 2; /* one rank, now and then */
            tt_tensor *x = tt_full(TT_SHAPE(1, 4), mine ? 3 : 1, TT_F32, TT_CPU);

            tt_module_zero_grad(m);
            if (i == 5) /* marks of a backward without reduction count as well */
                TT_DDP_NO_SYNC(d)
                {
                    tt_tensor *two = tt_full(TT_SHAPE(1, 4), 3, TT_F32, TT_CPU);

                    TT_REQUIRE_OK(
                        tt_backward(tt_sum(tt_ddp_forward(d, tt_test_rank() == 0 ? two : x))));
                }
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            TT_CHECK_EQ(logged(d, "num_buckets_reduced"), i % 3 == 1 || i == 5 ? 2 : 1);
            TT_CHECK_EQ(tt_grad_of(b) != NULL, i % 3 == 1 || i == 5);
            if (tt_grad_of(b) != NULL)
                TT_CHECK(tt_allclose(tt_grad_of(b), tt_ones(TT_SHAPE(4, 4), TT_F32, TT_CPU), NULL));
        }
    tt_module_eval(m); /* where a rank may be alone */
    if (tt_test_rank() == 0)
        TT_CHECK_NOT_NULL(tt_ddp_forward(d, tt_ones(TT_SHAPE(1, 4), TT_F32, TT_CPU)));
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(3, ddp_options, skipping_works_with_uneven_inputs)
{
    tt_module *m = either_new();
    tt_ddp *d = tool_wrap(m, &skips);
    tt_joinable list[] = { tt_ddp_joinable(d) };
    tt_join *j = tt_join_new(list, 1, NULL);
    int n = 2 + tt_test_rank();

    TT_REQUIRE_NOT_NULL(j);
    for (int i = 0; i < n; i++)
        TT_SCOPE {
            tt_tensor *x = tt_full(TT_SHAPE(1, 4), i == 3 ? 3 : 1, TT_F32, TT_CPU);

            tt_module_zero_grad(m);
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            TT_CHECK_EQ(logged(d, "num_buckets_reduced"), i == 3 ? 2 : 1);
        }
    TT_CHECK_ERR_SAYS(tt_ddp_set_group(d, tt_test_pg()), TT_ERR_INVALID,
                      "inside of a scope for uneven inputs");
    TT_REQUIRE_OK(tt_join_finish(j));
    tt_join_free(j);
    TT_CHECK_OK(tt_ddp_set_group(d, tt_test_pg()));
    check_same(tt_module_param(m, "a.weight"));
    tt_ddp_free(d);
    tt_module_free(m);
}

static tt_status mean_of_buffers(void *ctx, tt_ddp *d, const tt_state_dict *buffers,
                                 tt_future **future_p)
{
    tt_work *w;

    ++*(int *)ctx;
    TT_TRY(tt_pg_all_reduce(tt_ddp_group(d), tt_state_dict_get(buffers, "1.running_mean"),
                            &(tt_coll_options){ .op = TT_REDUCE_AVG }, &w));
    *future_p = tt_work_future(w);
    tt_work_free(w);
    return TT_OK;
}

TT_TEST_THREADS(3, ddp_options, hooks_of_buffers_work_with_uneven_inputs)
{
    for (int k = 0; k < 2; k++) {
        tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 4, NULL), tt_batch_norm1d_new(4, NULL));
        tt_ddp *d = tool_wrap(m, NULL);
        tt_joinable list[] = { tt_ddp_joinable(d) };
        int n_calls = 0;
        tt_join *j;

        TT_REQUIRE_OK(tt_ddp_set_buffer_hook(
            d, k == 0 ? TT_DDP_BEFORE_FORWARD : TT_DDP_AFTER_FORWARD, mean_of_buffers, &n_calls));
        j = tt_join_new(list, 1, NULL);
        for (int i = 0; i < 1 + tt_test_rank(); i++)
            TT_SCOPE {
                TT_REQUIRE_OK(tt_backward(
                    tt_sum(tt_ddp_forward(d, numbers(TT_SHAPE(4, 4), (uint64_t)(7 * i))))));
            }
        TT_REQUIRE_OK(tt_join_finish(j));
        TT_CHECK_EQ(n_calls, 3);
        tt_join_free(j);
        check_same(tt_module_buffer(m, "1.running_mean"));
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

/* ---- mistakes, and memory that runs out --------------------------------------------------------------------- */

TT_TEST_THREADS(2, ddp_options, mistakes_are_refused)
{
    tt_module *m = tt_linear_new(4, 2, NULL);
    tt_ddp *d;

    TT_CHECK_NULL(
        tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .precision = { .params = TT_I64 } }));
    TT_CHECK_CONTAINS(tt_last_error(), "expected floating types, got int64");
    TT_CHECK_NULL(tt_ddp_new(
        m, tt_test_pg(),
        &(tt_ddp_options){ .precision = { .reduce = tt_test_rank() == 1 ? TT_F16 : TT_F32 } }));
    TT_CHECK_CONTAINS(tt_last_error(), "reduce float16\" on rank 1");
    d = tool_wrap(m, NULL);
    TT_CHECK_ERR(tt_ddp_set_group(d, NULL), TT_ERR_INVALID);
    TT_CHECK_EQ(logged(d, "has_error"), 1);
    TT_CHECK_ERR(tt_ddp_set_group(NULL, tt_test_pg()), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_ddp_as_module(NULL));
    TT_CHECK_ERR(tt_ddp_set_buffer_hook(NULL, TT_DDP_BEFORE_FORWARD, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_ddp_send_buffers(NULL, 0), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_ddp_name_params(NULL, NULL, 0, NULL), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_ddp_low_precision(d, "weight"));
    TT_CHECK_NULL(tt_ddp_low_precision(NULL, "weight"));
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_options, a_new_group_is_asked_for_its_parameters)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 4, NULL), tt_relu_new());
    tt_module *other = tt_linear_new(4, 3, NULL);
    tt_ddp *d = tool_wrap(m, NULL);

    if (tt_test_rank() == 1)
        TT_REQUIRE_OK(tt_module_set_child(m, "0", other));
    TT_CHECK_ERR_SAYS(tt_ddp_set_group(d, tt_test_pg()), TT_ERR_INVALID,
                      "\"0.weight\" is float32 [4, 4] on rank 0, but float32 [3, 4] on rank 1");
    TT_CHECK_EQ(logged(d, "has_error"), 1);
    tt_ddp_free(d);
    tt_module_free(other);
    tt_module_free(m);
}

static tt_status whole_life(void *ctx)
{
    tt_module *m = ctx;
    tt_ddp *d =
        tt_ddp_new(m, tt_test_pg(),
                   &(tt_ddp_options){ .find_unused = true,
                                      .skip_unused_buckets = true,
                                      .precision = { .params = TT_BF16, .reduce = TT_BF16 } });
    tt_status st = d != NULL ? TT_OK : tt_last_status();
    char *text = NULL;

    if (st == TT_OK && tt_ddp_as_module(d) == NULL)
        st = tt_last_status();
    TT_SCOPE {
        for (int i = 0; st == TT_OK && i < 2; i++) {
            tt_tensor *y =
                tt_module_forward(tt_ddp_as_module(d), tt_ones(TT_SHAPE(1, 4), TT_F32, TT_CPU));

            st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
            if (st == TT_OK && i == 0)
                st = tt_ddp_set_group(d, tt_test_pg());
        }
    }
    if (st == TT_OK) {
        text = tt_ddp_env_text();
        st = text != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    tt_text_free(text);
    tt_ddp_free(d);
    tt_module_zero_grad(m);
    return st;
}

TT_TEST_THREADS(1, ddp_options, survives_every_failed_allocation)
{
    tt_module *m = tt_linear_new(4, 2, NULL);

    (void)tt_test_pg();
    TT_CHECK_GT(tt_test_fail_allocs(whole_life, m), 100);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_options, the_environment_has_no_secrets)
{
    char *text = tt_ddp_env_text();

    TT_REQUIRE_NOT_NULL(text);
    TT_CHECK_CONTAINS(text, "env:TUTTI_BACKEND=");
    TT_CHECK_NULL(strstr(text, "SECRET"));
    tt_text_free(text);
}
