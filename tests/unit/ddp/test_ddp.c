/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training on ranks that are threads: the same numbers as one process, where gradients live,
 * going on after a failure, memory that runs out. */
#include <stdio.h>
#include <string.h>

#include "tutti/ddp.h"
#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static void step(tt_module *m, tt_ddp *d, tt_optim *opt, tt_tensor *x, tt_tensor *y)
{
    tt_tensor *out = d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x);

    if (out == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_OK(tt_backward(tt_mse_loss(out, y)));
    TT_REQUIRE_OK(tt_optim_step(opt));
}

static void check_close(const tt_module *a, const tt_module *b)
{
    tt_state_dict *as = tt_module_params(a, NULL), *bs = tt_module_params(b, NULL);

    for (int i = 0; i < tt_state_dict_count(as); i++) {
        tt_close_report r = { 0 };

        if (!tt_compare(tt_state_dict_tensor(as, i), tt_state_dict_tensor(bs, i),
                        &(tt_close_options){ .rtol = 1e-5, .atol = 1e-5 }, &r))
            TT_FAIL_TEST("%s: %s", tt_state_dict_name(as, i), r.text);
    }
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
}

/* ---- the same as one process ------------------------------------------------------------------- */

static void follow(const tt_ddp_options *opt, bool keep_grads)
{
    int n = tt_test_size(), me = tt_test_rank();
    uint64_t seed = tt_test_seed();
    tt_module *alone = tool_mlp(seed), *m = tool_mlp(seed + (uint64_t)me);
    tt_ddp *d = tool_wrap(m, opt);
    tt_optim *a = tt_sgd_for(alone, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9 });
    tt_optim *b = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9 });

    for (int i = 0; i < 50; i++)
        TT_SCOPE {
            tt_tensor *x = tool_numbers(TT_SHAPE(4 * n, 6), seed + 10 + (uint64_t)i);
            tt_tensor *y = tool_numbers(TT_SHAPE(4 * n, 3), seed + 1000 + (uint64_t)i);

            step(alone, NULL, a, x, y);
            step(m, d, b, tt_narrow(x, 0, 4 * me, 4), tt_narrow(y, 0, 4 * me, 4));
            TT_REQUIRE_OK(tt_optim_zero_grad(a, false));
            TT_REQUIRE_OK(tt_optim_zero_grad(b, keep_grads));
        }
    check_close(alone, m);
    tt_optim_free(a);
    tt_optim_free(b);
    tt_ddp_free(d);
    tt_module_free(alone);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp, two_ranks_follow_one_process)
{
    follow(NULL, true);
}

TT_TEST_THREADS(4, ddp, four_ranks_follow_one_process)
{
    follow(NULL, false);
}

TT_TEST_THREADS(2, ddp, copies_of_gradients_give_the_same)
{
    follow(&(tt_ddp_options){ .copy_gradients = true }, false);
}

TT_TEST_THREADS(2, ddp, many_small_buckets_give_the_same)
{
    follow(&(tt_ddp_options){ .bucket_cap_mb = 0.0005 }, true);
}

TT_TEST_THREADS(2, ddp, a_search_for_unused_parameters_gives_the_same)
{
    follow(&(tt_ddp_options){ .find_unused = true, .bucket_cap_mb = 0.0005 }, true);
}

TT_TEST_RANKS(2, ddp, processes_follow_one_process)
{
    follow(NULL, true);
}

/* ---- where gradients are ------------------------------------------------------------------------- */

static char *data_of(tt_module *m, const char *name)
{
    return tt_tensor_data(tt_grad_of(tt_module_param(m, name)));
}

TT_TEST_THREADS(2, ddp, gradients_are_views_of_one_bucket)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(8, 8, NULL), tt_linear_new(8, 8, NULL));
    tt_ddp *d = tool_wrap(m, NULL);
    char *first = NULL;

    for (int i = 0; i < 4; i++)
        TT_SCOPE {
            tt_tensor *x = tool_numbers(TT_SHAPE(2, 8), tt_test_seed());
            char *a, *b;

            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            a = data_of(m, "0.weight");
            b = data_of(m, "1.weight");
            TT_CHECK_LT(a < b ? b - a : a - b, 2048);
            TT_CHECK_EQ((uintptr_t)a % 64, 0);
            if (i == 1)
                first = a; /* buckets were built again before */
            if (i > 1)
                TT_CHECK_PTR(a, first);
        }
    TT_CHECK_EQ(tt_ddp_n_buckets(d), 1);
    tt_ddp_free(d);
    TT_CHECK_NOT_NULL(data_of(m, "0.weight")); /* still there */
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp, values_survive_a_rebuild)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(3, 3, NULL), tt_linear_new(3, 3, NULL));
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.00001 });
    tt_tensor *x = tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU);

    TT_CHECK_EQ(tt_ddp_n_buckets(d), 1);
    for (int i = 0; i < 3; i++) {
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
        /* The bias of the last layer has gradient 2 each time, and nobody cleared it. */
        TT_CHECK(tt_equal(tt_grad_of(tt_module_param(m, "1.bias")),
                          tt_full(TT_SHAPE(3), 2 * (i + 1), TT_F32, TT_CPU)));
    }
    TT_CHECK_EQ(tt_ddp_n_buckets(d), 4);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* The second parameter counts only when x is positive. */
static tt_tensor *second_forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *y = tt_mul(x, tt_module_param_at(m, 0));

    return tt_item(x) > 0 ? tt_mul(y, tt_module_param_at(m, 1)) : y;
}

static const tt_module_class second_class = { .name = "Second", .forward = second_forward };

static void nobody_computed(bool copies)
{
    tt_module *m = tt_module_new(&second_class);
    tt_tensor *b;
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_add_param(m, "a", tt_ones(TT_SHAPE(1), TT_F32, TT_CPU)));
    TT_REQUIRE_OK(tt_module_add_param(m, "b", tt_ones(TT_SHAPE(1), TT_F32, TT_CPU)));
    b = tt_module_param_at(m, 1);
    d = tool_wrap(m, &(tt_ddp_options){ .find_unused = true, .copy_gradients = copies });
    for (int i = 0; i < 4; i++)
        TT_SCOPE {
            tt_tensor *x = tt_full(TT_SHAPE(1), i % 2 == 1 ? 1 : -1, TT_F32, TT_CPU);

            if (i == 2) /* another one on every rank */
                tt_fill_(tt_grad_of(b), 10 + tt_test_rank());
            TT_REQUIRE_OK(tt_backward(tt_ddp_forward(d, x)));
            if (i == 0)
                TT_CHECK_NULL(tt_grad_of(b));
            else
                TT_CHECK_NEAR(tt_item(tt_grad_of(b)),
                              i == 1   ? 1
                              : i == 2 ? 10 + tt_test_rank()
                                       : 12, /* mean of 10, 11, 12; and 1 */
                              1e-6);
            TT_CHECK_EQ(tt_ddp_n_users(d, 1), i % 2 == 1 ? 3 : 0);
        }
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(3, ddp, a_gradient_that_nobody_computed_stays)
{
    nobody_computed(false);
    nobody_computed(true);
}

/* The parameter counts on rank 0 only; the input requires a gradient on all. */
static tt_tensor *lonely_forward(tt_module *m, tt_tensor *x)
{
    return tt_test_rank() == 0 ? tt_mul(x, tt_module_param_at(m, 0)) : tt_mul_scalar(x, 2);
}

static const tt_module_class lonely_class = { .name = "Lonely", .forward = lonely_forward };

TT_TEST_THREADS(3, ddp, a_rank_that_uses_no_parameter_takes_part)
{
    tt_module *m = tt_module_new(&lonely_class);
    tt_tensor *w = tt_ones(TT_SHAPE(1), TT_F32, TT_CPU);
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_add_param(m, "w", w));
    d = tool_wrap(m, &(tt_ddp_options){ .find_unused = true });
    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            tt_tensor *x = tt_require_grad(tt_full(TT_SHAPE(1), 6, TT_F32, TT_CPU));

            tt_module_zero_grad(m);
            TT_REQUIRE_OK(tt_backward(tt_ddp_forward(d, x)));
            TT_CHECK_NEAR(tt_item(tt_grad_of(w)), 2, 1e-6);
            TT_CHECK_EQ(tt_ddp_n_users(d, 0), 1);
        }
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- types --------------------------------------------------------------------------------------- */

static tt_tensor *mixed_forward(tt_module *m, tt_tensor *x)
{
    return tt_add(tt_to_dtype(tt_mul(x, tt_module_param_at(m, 0)), TT_F64),
                  tt_mul(tt_to_dtype(x, TT_F64), tt_module_param_at(m, 1)));
}

static const tt_module_class mixed_class = { .name = "Mixed", .forward = mixed_forward };

TT_TEST_THREADS(2, ddp, each_type_has_buckets_of_its_own)
{
    tt_module *m = tt_module_new(&mixed_class);
    tt_ddp *d;

    TT_REQUIRE_OK(tt_module_add_param(m, "f", tt_ones(TT_SHAPE(4), TT_F32, TT_CPU)));
    TT_REQUIRE_OK(tt_module_add_param(m, "d", tt_ones(TT_SHAPE(4), TT_F64, TT_CPU)));
    d = tool_wrap(m, NULL);
    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            tt_tensor *x = tt_full(TT_SHAPE(4), tt_test_rank() + 1, TT_F32, TT_CPU);

            tt_module_zero_grad(m);
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
            TT_CHECK(tt_equal(tt_grad_of(tt_module_param_at(m, 0)),
                              tt_full(TT_SHAPE(4), 1.5, TT_F32, TT_CPU)));
            TT_CHECK(tt_equal(tt_grad_of(tt_module_param_at(m, 1)),
                              tt_full(TT_SHAPE(4), 1.5, TT_F64, TT_CPU)));
        }
    TT_CHECK_EQ(tt_ddp_n_buckets(d), 2);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- failures ------------------------------------------------------------------------------------- */

static tt_status fail_once(void *ctx, tt_tensor **grad_p)
{
    bool *armed = ctx;

    (void)grad_p;
    if (!*armed)
        return TT_OK;
    *armed = false;
    return tt_fail(TT_ERR_INVALID, "once only");
}

TT_TEST_THREADS(2, ddp, training_goes_on_after_a_failed_backward)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 4, NULL), tt_linear_new(4, 4, NULL));
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.00001 });
    tt_tensor *x = tt_full(TT_SHAPE(1, 4), tt_test_rank(), TT_F32, TT_CPU);
    bool armed = false;
    tt_hook *h = tt_tensor_add_hook(tt_module_param(m, "0.weight"), fail_once, &armed);

    for (int i = 0; i < 6; i++) {
        tt_module_zero_grad(m);
        armed = i % 2 == 1;
        if (armed)
            TT_CHECK_ERR_SAYS(tt_backward(tt_sum(tt_ddp_forward(d, x))), TT_ERR_INVALID,
                              "once only");
        else
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
        TT_CHECK_OK(tt_ddp_check_finished(d));
        if (i % 2 == 0)
            TT_CHECK(tt_equal(tt_grad_of(tt_module_param(m, "1.bias")),
                              tt_ones(TT_SHAPE(4), TT_F32, TT_CPU)));
    }
    tt_hook_remove(h);
    tt_ddp_free(d);
    tt_module_free(m);
}

static tt_status whole_life(void *ctx)
{
    tt_module *m = ctx;
    tt_ddp *d = tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .find_unused = true });
    tt_status st = d != NULL ? TT_OK : tt_last_status();
    tt_value *log = NULL;

    TT_SCOPE {
        for (int i = 0; st == TT_OK && i < 2; i++) {
            tt_tensor *y = tt_ddp_forward(d, tt_ones(TT_SHAPE(1, 4), TT_F32, TT_CPU));

            st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
        }
        if (st == TT_OK) {
            log = tt_ddp_log_value(d);
            st = log != NULL ? TT_OK : tt_last_status();
        }
    }
    tt_value_free(log);
    tt_ddp_free(d);
    tt_module_zero_grad(m);
    return st;
}

TT_TEST_THREADS(1, ddp, survives_every_failed_allocation)
{
    tt_module *m = tt_linear_new(4, 2, NULL);

    (void)tt_test_pg();
    TT_CHECK_GT(tt_test_fail_allocs(whole_life, m), 50);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp, mistakes_are_refused)
{
    const char *const ignored[] = { "weight", "bias" };
    tt_module *m = tt_linear_new(4, 2, NULL);

    TT_CHECK_NULL(tt_ddp_new(NULL, tt_test_pg(), NULL));
    TT_CHECK_NULL(tt_ddp_new(m, NULL, NULL));
    TT_CHECK_NULL(tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .bucket_cap_mb = -1 }));
    TT_CHECK_CONTAINS(tt_last_error(), "-1 MB");
    TT_CHECK_NULL(tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .n_ignored = 1 }));
    TT_CHECK_NULL(
        tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .ignored = ignored, .n_ignored = 2 }));
    TT_CHECK_CONTAINS(tt_last_error(), "no parameter that requires a gradient");
    TT_CHECK_NULL(
        tt_ddp_new(m, tt_test_pg(), &(tt_ddp_options){ .find_unused = tt_test_rank() == 1 }));
    TT_CHECK_CONTAINS(tt_last_error(), "on rank 1");
    TT_CHECK_NULL(tt_ddp_forward(NULL, NULL));
    TT_CHECK_ERR(tt_ddp_verify(NULL), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_ddp_n_params(NULL), 0);
    tt_ddp_free(NULL);
    tt_module_free(m);
}

/* ---- the record ------------------------------------------------------------------------------------ */

static const char *text_of(const tt_value *log, const char *name)
{
    return tt_value_as_text(tt_value_map_get(log, name));
}

static long long int_of(const tt_value *log, const char *name)
{
    return tt_value_as_int(tt_value_map_get(log, name));
}

TT_TEST_THREADS(2, ddp, the_record_tells_the_course)
{
    tt_linear_options no_bias = { .no_bias = true };
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 4, &no_bias), tt_linear_new(4, 2, &no_bias));
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .log_sample_rate = 2 });
    tt_value *log;
    char *table;

    for (int i = 0; i < 14; i++)
        TT_SCOPE {
            tt_tensor *x = tt_ones(TT_SHAPE(1, 4), TT_F32, TT_CPU);

            TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
        }
    log = tt_ddp_log_value(d);
    TT_REQUIRE_NOT_NULL(log);
    TT_CHECK_EQ(int_of(log, "world_size"), 2);
    TT_CHECK_EQ(int_of(log, "rank"), tt_test_rank());
    TT_CHECK_STR(text_of(log, "backend_name"), "threads");
    TT_CHECK_STR(text_of(log, "dtypes"), "float");
    TT_CHECK_STR(text_of(log, "bucket_sizes"), "96");
    TT_CHECK_EQ(int_of(log, "total_parameter_size_bytes"), 96);
    TT_CHECK_EQ(int_of(log, "num_parameter_tensors"), 2);
    TT_CHECK_EQ(int_of(log, "iteration"), 12);
    TT_CHECK_EQ(int_of(log, "has_rebuilt_buckets"), 1);
    TT_CHECK_STR(text_of(log, "prev_iteration_grad_ready_order_indices"), "1, 0");
    TT_CHECK_STR(text_of(log, "rebuilt_per_bucket_param_indices"), "1 0");
    TT_CHECK_GE(int_of(log, "forward_compute_time"), 1);
    TT_CHECK_GE(int_of(log, "avg_backward_comm_time"), 1);
    TT_CHECK_LE(int_of(log, "backward_compute_comm_overlap_time"),
                int_of(log, "backward_comm_time"));
    TT_CHECK_EQ(int_of(log, "has_error"), 0);
    table = tt_ddp_log(d);
    TT_CHECK_CONTAINS(table, "bucket_cap_bytes                         26214400\n");
    tt_text_free(table);
    tt_value_free(log);
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp, eval_and_no_grad_need_nobody)
{
    tt_module *m = TT_SEQUENTIAL(tt_linear_new(4, 4, NULL), tt_batch_norm1d_new(4, NULL));
    tt_ddp *d = tool_wrap(m, NULL);
    tt_tensor *x = tool_numbers(TT_SHAPE(8, 4), tt_test_seed());

    for (int i = 0; i < 3; i++) {
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_ddp_forward(d, x))));
        tt_module_eval(m);
        for (int k = 0; k < 3 && tt_test_rank() == 0; k++)
            TT_CHECK_NOT_NULL(tt_ddp_forward(d, x));
        tt_module_train(m, true);
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- mistakes --------------------------------------------------------------------------------- */

TT_TEST_THREADS(2, ddp, a_module_converted_after_wrapping_is_refused)
{
    tt_module *m = tool_mlp(1);
    tt_ddp *d = tool_wrap(m, NULL);

    TT_SCOPE {
        tt_tensor *x = tool_numbers(TT_SHAPE(4, 6), 2), *y = tool_numbers(TT_SHAPE(4, 3), 3);

        TT_REQUIRE_OK(tt_backward(tt_mse_loss(tt_ddp_forward(d, x), y)));
        TT_REQUIRE_OK(tt_module_to_dtype(m, TT_F64));
        TT_CHECK_NULL(tt_ddp_forward(d, tt_to_dtype(x, TT_F64)));
        TT_CHECK_CONTAINS(tt_last_error(), "was converted after the module was wrapped");
        TT_REQUIRE_OK(tt_module_to_dtype(m, TT_F32)); /* its gradients do not come back */
        TT_CHECK_NULL(tt_ddp_forward(d, x));
        TT_CHECK_CONTAINS(tt_last_error(), "was converted after the module was wrapped");
    }
    tt_test_barrier();
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp, a_parameter_of_two_in_one_backward_is_refused)
{
    tt_module *m = tool_mlp(1);
    tt_ddp *a = tool_wrap(m, NULL), *b = tool_wrap(m, NULL);

    TT_SCOPE {
        tt_tensor *x = tool_numbers(TT_SHAPE(4, 6), 2);
        tt_tensor *both = tt_add(tt_ddp_forward(a, x), tt_ddp_forward(b, x));

        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(both)), TT_ERR_INVALID,
                          "is reduced by another tt_ddp in the same backward");
    }
    tt_test_barrier();
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(m);
}
