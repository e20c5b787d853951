/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD: what it gets right, what it remembers, what it refuses, and its state in records and files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ddp/hooks/powersgd.h"
#include "tutti/ddp_hooks.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

/* ---- orthonormal columns -------------------------------------------------------------------------- */

static void check_orthonormal(tt_tensor *t, double tol)
{
    tt_tensor *x = tt_to_dtype(t, TT_F64);
    tt_tensor *eye = tt_eye(tt_tensor_size(t, 1), TT_F64, TT_CPU);
    tt_close_report r = { 0 };

    if (!tt_compare(tt_matmul(tt_t(x), x), eye, &(tt_close_options){ .atol = tol }, &r))
        TT_FAIL_TEST("%s", r.text);
}

static tt_tensor *made_orthonormal(tt_tensor *t)
{
    bool finite = false;

    TT_REQUIRE_OK(tti_orthogonalize(t, 0, &finite));
    TT_CHECK(finite);
    return t;
}

TT_TEST(ddp_hooks, columns_become_orthonormal)
{
    tt_tensor *t = tool_numbers(TT_SHAPE(50, 4), tt_test_seed()), *before = tt_clone(t);
    tt_tensor *coefficients;

    check_orthonormal(made_orthonormal(t), 1e-6);
    /* They span the same space: projecting changes nothing. */
    coefficients = tt_matmul(tt_t(t), before);
    TT_CHECK(tt_allclose(tt_matmul(t, coefficients), before,
                         &(tt_close_options){ .atol = 1e-5, .rtol = 1e-5 }));
    check_orthonormal(made_orthonormal(tt_to_dtype(before, TT_F64)), 1e-14);
    check_orthonormal(made_orthonormal(tt_to_dtype(before, TT_F16)), 1e-2);
    check_orthonormal(made_orthonormal(tt_to_dtype(before, TT_BF16)), 5e-2);
}

TT_TEST(ddp_hooks, columns_that_depend_on_others_become_new_ones)
{
    tt_tensor *t = tt_zeros(TT_SHAPE(7, 3), TT_F32, TT_CPU);

    check_orthonormal(made_orthonormal(t), 1e-6);
    t = tt_ones(TT_SHAPE(7, 3), TT_F32, TT_CPU);
    check_orthonormal(made_orthonormal(t), 1e-6);
    t = tt_full(TT_SHAPE(3, 3), 1e-20, TT_F32, TT_CPU);
    check_orthonormal(made_orthonormal(t), 1e-6);
    t = tt_full(TT_SHAPE(1, 1), -4, TT_F32, TT_CPU);
    TT_CHECK_NEAR(tt_item(made_orthonormal(t)), -1, 1e-7);
}

TT_TEST(ddp_hooks, epsilon_shortens_columns)
{
    tt_tensor *t = tt_full(TT_SHAPE(4, 1), 1, TT_F32, TT_CPU);
    bool finite = false;

    TT_REQUIRE_OK(tti_orthogonalize(t, 2, &finite));
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 3, 0 }), 0.25, 1e-7);
}

TT_TEST(ddp_hooks, nan_is_noticed_and_left_alone)
{
    tt_tensor *t = tt_full(TT_SHAPE(4, 2), NAN, TT_F32, TT_CPU);
    bool finite = true;

    TT_REQUIRE_OK(tti_orthogonalize(t, 0, &finite));
    TT_CHECK(!finite);
}

/* ---- options ---------------------------------------------------------------------------------------- */

static void check_refused(tt_powersgd_options opt, const char *words)
{
    TT_CHECK_NULL(tt_powersgd_new(NULL, &opt));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), words);
}

TT_TEST(ddp_hooks, powersgd_options_are_checked)
{
    tt_powersgd *s = tt_powersgd_new(NULL, NULL);
    tt_powersgd_info info;

    TT_REQUIRE_NOT_NULL(s);
    info = tt_powersgd_ask(s);
    TT_CHECK_EQ(info.options.rank, 1);
    TT_CHECK_EQ(info.options.start_iter, 1000);
    TT_CHECK_NEAR(info.options.min_compression_rate, 2, 0);
    TT_CHECK_NULL(info.pg);
    tt_powersgd_free(s);
    check_refused((tt_powersgd_options){ .start_iter = 1 }, "expected start_iter > 1");
    check_refused((tt_powersgd_options){ .start_iter = 1, .no_warm_start = true },
                  "start_iter > 1");
    check_refused((tt_powersgd_options){ .start_iter = TT_POWERSGD_AT_ONCE }, "start_iter > 1");
    check_refused((tt_powersgd_options){ .rank = -2 }, "got -2");
    check_refused((tt_powersgd_options){ .start_iter = -7 }, "got 1 and -7");
    check_refused((tt_powersgd_options){ .min_compression_rate = -1 }, "got -1");
    check_refused((tt_powersgd_options){ .orthogonalization_epsilon = NAN }, "nan");
    s = tt_powersgd_new(NULL, &(tt_powersgd_options){ .start_iter = TT_POWERSGD_AT_ONCE,
                                                      .no_error_feedback = true,
                                                      .no_warm_start = true });
    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_EQ(tt_powersgd_ask(s).options.start_iter, 0);
    tt_powersgd_free(s);
}

/* ---- one bucket --------------------------------------------------------------------------------------- */

typedef struct one_bucket {
    tt_ddp_bucket b;
    tt_tensor *grads[2];
} one_bucket;

/* Two gradients in a bucket: a matrix and a vector of 3. */
static void fill_bucket(one_bucket *o, int64_t rows, int64_t columns)
{
    int64_t n = rows * columns;
    tt_tensor *flat = tt_pg_alloc(tt_test_pg(), TT_SHAPE(n + 3), TT_F32);

    o->grads[0] = tt_view(tt_narrow(flat, 0, 0, n), TT_SHAPE(rows, columns));
    o->grads[1] = tt_narrow(flat, 0, n, 3);
    o->b = (tt_ddp_bucket){
        .is_last = true, .pg = tt_test_pg(), .flat = flat, .n = 2, .grads = o->grads
    };
}

static void run(tt_ddp_hook_fn fn, tt_powersgd *s, one_bucket *o)
{
    tt_future *f = fn(s, &o->b);

    if (f == NULL || tt_future_wait(f, 0) != TT_OK)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_CHECK_PTR(tti_hook_tensor(tt_future_value(f)), o->b.flat);
    tt_future_free(f);
}

static const tt_powersgd_options at_once = {
    .rank = 2, .start_iter = TT_POWERSGD_AT_ONCE, .no_error_feedback = true, .no_warm_start = true
};

static void set(one_bucket *o, tt_tensor *matrix, double vector)
{
    TT_REQUIRE_NOT_NULL(tt_copy_(o->grads[0], matrix));
    TT_REQUIRE_NOT_NULL(tt_fill_(o->grads[1], vector));
}

TT_TEST_THREADS(2, ddp_hooks, a_matrix_of_low_rank_survives_powersgd)
{
    tt_powersgd *s = tt_powersgd_new(NULL, &at_once);
    tt_tensor *left = tool_numbers(TT_SHAPE(40, 2), tt_test_seed());
    tt_tensor *right = tool_numbers(TT_SHAPE(2, 30), tt_test_seed() + 1);
    tt_tensor *m = tt_matmul(left, right);
    tt_close_options close = { .rtol = 1e-4, .atol = 1e-4 };
    one_bucket o;

    fill_bucket(&o, 40, 30);
    set(&o, tt_mul_scalar(m, 1 + 2 * tt_test_rank()), tt_test_rank()); /* mean: 2 m */
    run(tt_ddp_powersgd_hook, s, &o);
    TT_CHECK(tt_allclose(o.grads[0], tt_mul_scalar(m, 2), &close));
    TT_CHECK_NEAR(tt_at(o.grads[1], (int64_t[]){ 2 }), 0.5, 0); /* sent as it is */
    TT_CHECK_EQ(tt_powersgd_ask(s).numel_before, 1203);
    TT_CHECK_EQ(tt_powersgd_ask(s).numel_after, 2 * (40 + 30) + 3);
    TT_CHECK_EQ(tt_powersgd_ask(s).iter, 1);
    tt_powersgd_free(s);
}

TT_TEST_THREADS(2, ddp_hooks, what_does_not_shrink_is_exact)
{
    tt_powersgd *s = tt_powersgd_new(
        NULL, &(tt_powersgd_options){ .start_iter = 2, .min_compression_rate = 10 });
    one_bucket o;

    fill_bucket(&o, 10, 10); /* 100 elements, 20 sent: not ten times fewer */
    for (int i = 0; i < 4; i++) {
        set(&o, tt_full(TT_SHAPE(10, 10), tt_test_rank() + i, TT_F32, TT_CPU), 1);
        run(tt_ddp_powersgd_hook, s, &o);
        TT_CHECK(tt_equal(o.grads[0], tt_full(TT_SHAPE(10, 10), 0.5 + i, TT_F32, TT_CPU)));
    }
    TT_CHECK_EQ(tt_powersgd_ask(s).numel_before, 2 * 103);
    TT_CHECK_EQ(tt_powersgd_ask(s).numel_after, 2 * 103);
    tt_powersgd_free(s);
}

/* With the same gradient again and again, all that is left out comes later: the mean over time is right. */
static void check_feedback(tt_ddp_hook_fn fn, bool feedback)
{
    tt_powersgd_options opt = { .start_iter = 2, .no_error_feedback = !feedback };
    tt_powersgd *s = tt_powersgd_new(NULL, &opt);
    tt_tensor *m = tool_numbers(TT_SHAPE(12, 13), tt_test_seed());
    tt_tensor *sum = tt_zeros(TT_SHAPE(12, 13), TT_F32, TT_CPU);
    one_bucket o;
    double off;

    fill_bucket(&o, 12, 13);
    for (int i = 0; i < 402; i++)
        TT_SCOPE {
            set(&o, m, 0);
            run(fn, s, &o);
            if (i >= 2)
                tt_add_(sum, o.grads[0]);
        }
    off = tt_item(tt_max(tt_abs(tt_sub(tt_div_scalar(sum, 400), m))));
    if (feedback ? off > 0.15 : off < 0.3)
        TT_FAIL_TEST("feedback %d: off by %g", feedback, off);
    tt_powersgd_free(s);
}

TT_TEST_THREADS(2, ddp_hooks, error_feedback_sends_the_rest_later)
{
    check_feedback(tt_ddp_powersgd_hook, true);
    check_feedback(tt_ddp_powersgd_hook, false);
    check_feedback(tt_ddp_batched_powersgd_hook, true);
    check_feedback(tt_ddp_batched_powersgd_hook, false);
}

/* How far a rank-1 approximation is from a matrix with one strong direction, after n iterations. */
static double off_after(int n, bool warm)
{
    tt_powersgd_options opt = { .start_iter = 2,
                                .no_error_feedback = true,
                                .no_warm_start = !warm };
    tt_powersgd *s = tt_powersgd_new(NULL, &opt);
    tt_tensor *m =
        tt_add(tool_numbers(TT_SHAPE(30, 30), tt_test_seed()),
               tt_mul_scalar(tt_matmul(tool_numbers(TT_SHAPE(30, 1), tt_test_seed() + 1),
                                       tool_numbers(TT_SHAPE(1, 30), tt_test_seed() + 2)),
                             2));
    one_bucket o;
    double off;

    fill_bucket(&o, 30, 30);
    for (int i = 0; i < n + 2; i++) {
        set(&o, m, 0);
        run(tt_ddp_powersgd_hook, s, &o);
    }
    off = tt_item(tt_sum(tt_square(tt_sub(o.grads[0], m))));
    tt_powersgd_free(s);
    return off;
}

TT_TEST_THREADS(2, ddp_hooks, warm_start_gets_better_with_time)
{
    TT_CHECK(off_after(10, true) < off_after(1, true));
    TT_CHECK(off_after(10, true) <= off_after(10, false));
}

TT_TEST_THREADS(2, ddp_hooks, powersgd_recovers_from_nan)
{
    tt_powersgd *s = tt_powersgd_new(NULL, &(tt_powersgd_options){ .start_iter = 2 });
    tt_tensor *m = tt_matmul(tool_numbers(TT_SHAPE(20, 1), 1), tool_numbers(TT_SHAPE(1, 20), 2));
    one_bucket o;

    fill_bucket(&o, 20, 20);
    for (int i = 0; i < 6; i++) {
        set(&o, m, 0);
        if (i == 3 && tt_test_rank() == 1)
            TT_REQUIRE_NOT_NULL(tt_fill_(tt_narrow(o.grads[0], 0, 0, 1), INFINITY));
        run(tt_ddp_powersgd_hook, s, &o);
        TT_CHECK_EQ(isfinite(tt_item(tt_sum(o.grads[0]))) != 0, i != 3);
    }
    TT_CHECK(tt_allclose(o.grads[0], m, &(tt_close_options){ .atol = 1e-4, .rtol = 1e-3 }));
    tt_powersgd_free(s);
}

/* ---- training ------------------------------------------------------------------------------------------- */

/* The loss after some training of one model with the hook, all ranks on their own data. */
static double trained_loss(const char *name, tt_powersgd *s, const tt_ddp_options *opt)
{
    uint64_t seed = tt_test_seed();
    tt_module *m = tool_mlp(seed);
    tt_ddp *d = tool_wrap(m, opt);
    tt_optim *sgd = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.1 });
    double loss = 0;

    if (name != NULL)
        TT_REQUIRE_OK(tt_ddp_register_named(d, name, s));
    for (int i = 0; i < 150; i++) {
        hook_step(d, seed);
        TT_REQUIRE_OK(tt_optim_step(sgd));
    }
    loss = hook_loss(m, seed);
    tt_optim_free(sgd);
    tt_ddp_free(d);
    tt_module_free(m);
    return loss;
}

static void check_trains(const char *name, const tt_ddp_options *opt)
{
    tt_powersgd *s = tt_powersgd_new(NULL, &(tt_powersgd_options){ .rank = 2, .start_iter = 3 });
    double exact = trained_loss(NULL, NULL, opt), loss = trained_loss(name, s, opt);
    tt_powersgd_info info = tt_powersgd_ask(s);

    if (loss > exact * 1.5 + 0.05)
        TT_FAIL_TEST("%s: loss %g instead of %g", name, loss, exact);
    TT_CHECK_LT(info.numel_after, info.numel_before);
    TT_CHECK_EQ(info.iter, 150);
    tt_powersgd_free(s);
}

TT_TEST_THREADS(2, ddp_hooks, a_model_trains_with_powersgd)
{
    check_trains("powerSGD_hook", NULL);
    check_trains("powerSGD_hook", &(tt_ddp_options){ .bucket_cap_mb = 0.001 });
    check_trains("batched_powerSGD_hook", &(tt_ddp_options){ .bucket_cap_mb = 0.002 });
    check_trains("bf16_compress_wrapper(powerSGD_hook)", NULL);
}

TT_TEST_RANKS(3, ddp_hooks, powersgd_in_detail_mode)
{
    tt_set_debug_level(TT_DEBUG_DETAIL);
    check_trains("powerSGD_hook", &(tt_ddp_options){ .bucket_cap_mb = 0.001 });
    tt_set_debug_level(TT_DEBUG_DEFAULT);
}

/* ---- saving ----------------------------------------------------------------------------------------------- */

static void count_warning(void *ctx, const char *category, const char *message)
{
    int *n = ctx;

    TT_CHECK_STR(category, "powersgd");
    TT_CHECK_CONTAINS(message, "process group");
    ++*n;
}

static tt_powersgd *trained_state(one_bucket *o)
{
    tt_powersgd *s = tt_powersgd_new(NULL, &(tt_powersgd_options){ .start_iter = 2, .seed = 5 });

    fill_bucket(o, 20, 20);
    for (int i = 0; i < 4; i++) {
        set(o, tool_numbers(TT_SHAPE(20, 20), (uint64_t)(i + 7 * tt_test_rank())), 0);
        run(tt_ddp_powersgd_hook, s, o);
    }
    return s;
}

static void check_goes_on(tt_powersgd *a, tt_powersgd *b, one_bucket *o)
{
    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            tt_tensor *m = tool_numbers(TT_SHAPE(20, 20), (uint64_t)(50 + i + tt_test_rank()));
            tt_tensor *first;

            set(o, m, 0);
            run(tt_ddp_powersgd_hook, a, o);
            first = tt_clone(o->grads[0]);
            set(o, m, 0);
            run(tt_ddp_powersgd_hook, b, o);
            TT_CHECK(tt_equal(first, o->grads[0]));
        }
}

TT_TEST_THREADS(2, ddp_hooks, a_saved_state_goes_on_where_it_was)
{
    tt_powersgd *s, *loaded, *from_file;
    tt_value *v, *again;
    one_bucket o;
    char path[512];
    int n = 0;

    s = trained_state(&o);
    TT_REQUIRE_OK(tt_warnings_push(count_warning, &n));
    v = tt_powersgd_save(s);
    TT_REQUIRE_NOT_NULL(v);
    TT_CHECK_EQ(n, 1);
    loaded = tt_powersgd_load(v);
    TT_REQUIRE_NOT_NULL(loaded);
    TT_CHECK_EQ(n, 2);
    again = tt_powersgd_save(loaded);
    TT_CHECK(tt_value_equal(v, again));
    snprintf(path, sizeof path, "%s/state%d.cbor", tt_test_tmpdir(), tt_test_rank());
    TT_REQUIRE_OK(tt_powersgd_save_file(s, path));
    from_file = tt_powersgd_load_file(path);
    TT_REQUIRE_NOT_NULL(from_file);
    tt_value_free(again);
    again = tt_powersgd_save(from_file);
    TT_CHECK(tt_value_equal(v, again));
    tt_warnings_pop();
    TT_CHECK_EQ(tt_powersgd_ask(loaded).iter, 4);
    TT_CHECK_EQ(tt_powersgd_ask(loaded).generator_offset, tt_powersgd_ask(s).generator_offset);
    tt_powersgd_free(loaded);
    check_goes_on(s, from_file, &o);
    tt_value_free(v);
    tt_value_free(again);
    tt_powersgd_free(s);
    tt_powersgd_free(from_file);
}

static void check_format(tt_value *v, const char *words)
{
    TT_CHECK_NULL(tt_powersgd_load(v));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_CONTAINS(tt_last_error(), words);
}

static void ignore_warning(void *ctx, const char *category, const char *message)
{
    (void)ctx, (void)category, (void)message;
}

TT_TEST(ddp_hooks, a_broken_record_is_no_state)
{
    tt_powersgd *s = tt_powersgd_new(NULL, NULL);
    tt_value *v, *other = tt_value_record_new("Other"), *bucket = tt_value_map_new();
    tt_value *list = tt_value_list_new();

    TT_REQUIRE_OK(tt_warnings_push(ignore_warning, NULL));
    v = tt_powersgd_save(s);
    TT_CHECK_NULL(tt_powersgd_load(NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), "powersgd load: expected a value");
    check_format(other, "PowerSGDState");
    for (size_t i = 0; i < tt_value_count(v); i++) {
        tt_value *broken = tt_value_copy(v);
        const char *name = tt_value_name_at(v, i);

        TT_REQUIRE_OK(tt_value_map_give(broken, name, tt_value_text_new("?")));
        check_format(broken, name);
        tt_value_free(broken);
    }
    TT_REQUIRE_OK(tt_value_map_give(bucket, "error", tt_value_int_new(3)));
    TT_REQUIRE_OK(tt_value_list_add(list, bucket));
    TT_REQUIRE_OK(tt_value_map_set(v, "buckets", list));
    check_format(v, "\"error\" of kind tensor, got int");
    TT_REQUIRE_OK(tt_value_map_give(bucket, "error",
                                    tt_value_tensor_new(tt_zeros(TT_SHAPE(2, 2), TT_F32, TT_CPU))));
    check_format(v, "one dimension");
    TT_REQUIRE_OK(tt_value_list_give(list, tt_value_int_new(3)));
    TT_CHECK_NULL(tt_powersgd_load_file("/nonexistent/state"));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
    tt_clear_error();
    TT_CHECK_EQ(tt_powersgd_save_file(NULL, "x"), TT_ERR_INVALID);
    tt_warnings_pop();
    tt_value_free(bucket);
    tt_value_free(list);
    tt_value_free(other);
    tt_value_free(v);
    tt_powersgd_free(s);
}
