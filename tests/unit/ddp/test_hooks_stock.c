/* SPDX-License-Identifier: Apache-2.0 */
/* The stock hooks on ranks that are threads: which are exact, how far off the others are, and that all ranks get the
 * same bits. */
#include <math.h>
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

/* ---- the same as without, or as one process ------------------------------------------------------ */

/* Ten iterations of a model with the hook and one without; gradients after each. */
static void compare_with_none(const char *name, bool exact, const tt_ddp_options *opt)
{
    uint64_t seed = tt_test_seed();
    tt_module *plain = tool_mlp(seed), *m = tool_mlp(seed);
    tt_ddp *a = tool_wrap(plain, opt), *b = tool_wrap(m, opt);

    TT_REQUIRE_OK(tt_ddp_register_named(b, name, NULL));
    TT_CHECK_STR(tt_ddp_hook_name(b), name);
    for (int i = 0; i < 10; i++) {
        hook_step(a, seed + (uint64_t)i);
        hook_step(b, seed + (uint64_t)i);
        hook_check_grads(plain, m, exact);
    }
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(plain);
    tt_module_free(m);
}

static const tt_ddp_options small_buckets = { .bucket_cap_mb = 0.001 };
static const tt_ddp_options copies = { .bucket_cap_mb = 0.001, .copy_gradients = true };
static const tt_ddp_options searching = { .bucket_cap_mb = 0.001, .find_unused = true };
static const tt_ddp_options static_graph = { .static_graph = true };

TT_TEST_THREADS(4, ddp_hooks, allreduce_has_the_bits_of_no_hook)
{
    compare_with_none("allreduce_hook", true, NULL);
    compare_with_none("ALLREDUCE", true, &small_buckets);
    compare_with_none("allreduce_hook", true, &copies);
    compare_with_none("allreduce_hook", true, &searching);
    compare_with_none("allreduce_hook", true, &static_graph);
}

TT_TEST_THREADS(2, ddp_hooks, powersgd_is_the_mean_until_it_starts)
{
    compare_with_none("powerSGD_hook", true, &small_buckets);
    compare_with_none("batched_powerSGD_hook", true, NULL);
}

/* N ranks with the hook follow one process. */
static void follow_one(const char *name)
{
    uint64_t seed = tt_test_seed();
    tt_module *alone = tool_mlp(seed), *m = tool_mlp(seed);
    tt_ddp *d = tool_wrap(m, &small_buckets);
    tt_optim *a = tt_sgd_for(alone, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9 });
    tt_optim *b = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9 });

    TT_REQUIRE_OK(tt_ddp_register_named(d, name, NULL));
    for (int i = 0; i < 50; i++) {
        hook_step_alone(alone, seed + (uint64_t)i);
        hook_step(d, seed + (uint64_t)i);
        TT_REQUIRE_OK(tt_optim_step(a));
        TT_REQUIRE_OK(tt_optim_step(b));
    }
    hook_check_params(alone, m, false);
    tt_optim_free(a);
    tt_optim_free(b);
    tt_ddp_free(d);
    tt_module_free(alone);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_hooks, two_ranks_with_exact_hooks_follow_one_process)
{
    follow_one("allreduce_hook");
    follow_one("powerSGD_hook");
}

TT_TEST_THREADS(4, ddp_hooks, four_ranks_with_exact_hooks_follow_one_process)
{
    follow_one("allreduce_hook");
}

/* ---- those that are not exact --------------------------------------------------------------------- */

/* The greatest difference of a gradient from the exact one, as a part of the greatest gradient. */
static double worst_error(const tt_module *exact, const tt_module *m)
{
    tt_state_dict *as = tt_module_params(exact, NULL), *bs = tt_module_params(m, NULL);
    double worst = 0, largest = 0;

    for (int i = 0; i < tt_state_dict_count(as); i++)
        TT_SCOPE {
            tt_tensor *x = tt_grad_of(tt_state_dict_tensor(as, i));
            tt_tensor *y = tt_grad_of(tt_state_dict_tensor(bs, i));

            worst = fmax(worst, tt_item(tt_max(tt_abs(tt_sub(x, y)))));
            largest = fmax(largest, tt_item(tt_max(tt_abs(x))));
        }
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
    return worst / largest;
}

static void check_same_bits(const tt_module *m)
{
    tt_state_dict *ps = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++)
        TT_SCOPE {
            tt_tensor *g = tt_grad_of(tt_state_dict_tensor(ps, i)), *first = tt_clone(g);

            TT_REQUIRE_OK(tt_pg_broadcast(tt_test_pg(), first, 0, NULL, NULL));
            TT_CHECK(tt_equal(first, g));
        }
    tt_state_dict_free(ps);
}

static void check_near(const char *name, double least, double most)
{
    uint64_t seed = tt_test_seed();
    tt_module *plain = tool_mlp(seed), *m = tool_mlp(seed);
    tt_ddp *a = tool_wrap(plain, &small_buckets), *b = tool_wrap(m, &small_buckets);
    double worst = 0;

    TT_REQUIRE_OK(tt_ddp_register_named(b, name, NULL));
    for (int i = 0; i < 4; i++) {
        hook_step(a, seed + (uint64_t)i);
        hook_step(b, seed + (uint64_t)i);
        worst = fmax(worst, worst_error(plain, m));
        check_same_bits(m);
    }
    if (worst > most || worst < least) /* too small: nothing was compressed */
        TT_FAIL_TEST("%s: off by %g of the largest gradient", name, worst);
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(plain);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_hooks, half_precision_is_off_by_its_last_bits)
{
    check_near("fp16_compress_hook", 1e-6, 1.0 / 200);
    check_near("FP16_COMPRESS", 1e-6, 1.0 / 200);
    check_near("bf16_compress_hook", 1e-5, 1.0 / 25);
    check_near("fp16_compress_wrapper(allreduce_hook)", 1e-6, 1.0 / 200);
}

TT_TEST_THREADS(4, ddp_hooks, eight_bits_are_off_by_one_in_255)
{
    check_near("quantization_pertensor_hook", 1e-4, 1.0 / 20);
    check_near("quantization_perchannel_hook", 1e-4, 1.0 / 20);
}

TT_TEST_THREADS(2, ddp_hooks, wrappers_inside_of_wrappers)
{
    check_near("bf16_compress_wrapper(fp16_compress_wrapper(allreduce_hook))", 1e-5, 1.0 / 25);
    check_near("fp16_compress_wrapper(quantization_perchannel_hook)", 1e-4, 1.0 / 20);
    check_near("fp16_compress_wrapper(powerSGD_hook)", 1e-6, 1.0 / 200);
}

TT_TEST_THREADS(2, ddp_hooks, noop_leaves_everybody_his_own)
{
    uint64_t seed = tt_test_seed();
    tt_module *own = tool_mlp(seed), *m = tool_mlp(seed);
    tt_ddp *a = tool_wrap(own, NULL), *b = tool_wrap(m, NULL);

    TT_REQUIRE_OK(tt_ddp_register_named(b, "noop_hook", NULL));
    for (int i = 0; i < 3; i++) {
        TT_DDP_NO_SYNC(a)
        {
            hook_step(a, seed + (uint64_t)i);
        }
        hook_step(b, seed + (uint64_t)i);
        hook_check_grads(own, m, true);
    }
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(own);
    tt_module_free(m);
}

/* ---- quantization of what is not ordinary ------------------------------------------------------- */

/* What the hook makes of one bucket with these numbers on every rank. */
static tt_tensor *through(tt_ddp_hook_fn fn, tt_tensor *flat)
{
    tt_ddp_bucket b = { .is_last = true, .pg = tt_test_pg(), .flat = flat };
    tt_future *f = fn(NULL, &b);

    TT_REQUIRE_NOT_NULL(f);
    TT_REQUIRE_OK(tt_future_wait(f, 0));
    tt_future_free(f);
    return flat;
}

TT_TEST_THREADS(2, ddp_hooks, zeros_stay_zeros_in_eight_bits)
{
    tt_tensor *t =
        through(tt_ddp_quantize_per_channel_hook, tt_zeros(TT_SHAPE(700), TT_F32, TT_CPU));

    TT_CHECK(tt_equal(t, tt_zeros(TT_SHAPE(700), TT_F32, TT_CPU)));
    t = through(tt_ddp_quantize_per_tensor_hook, TT_FLOATS(0, 3, 0, -1));
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 0 }), 0, 0);
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 1 }), 3, 4.0 / 255);
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 3 }), -1, 4.0 / 255);
}

TT_TEST_THREADS(2, ddp_hooks, eight_bits_of_extreme_numbers)
{
    tt_tensor *t = through(tt_ddp_quantize_per_tensor_hook, TT_FLOATS(3e38F, -3e38F, 0));

    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 0 }) / 3e38, 1, 0.01);
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 1 }) / 3e38, -1, 0.01);
    t = through(tt_ddp_quantize_per_tensor_hook, TT_FLOATS(1e-44F, 0));
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 0 }), 0, 1e-43);
    t = through(tt_ddp_quantize_per_tensor_hook, tt_full(TT_SHAPE(5), 0.25, TT_F64, TT_CPU));
    TT_CHECK_NEAR(tt_at(t, (int64_t[]){ 4 }), 0.25, 1e-3);
    TT_CHECK_EQ(tt_tensor_dtype(t), TT_F64);
}

TT_TEST_THREADS(2, ddp_hooks, an_infinity_is_not_hidden_by_eight_bits)
{
    tt_tensor *t = tt_full(TT_SHAPE(1024), 1, TT_F32, TT_CPU);
    double got[1024];

    if (tt_test_rank() == 1)
        ((float *)tt_tensor_data(t))[600] = INFINITY;
    TT_REQUIRE_OK(tt_copy_out_f64(through(tt_ddp_quantize_per_channel_hook, t), got, 1024));
    TT_CHECK_NEAR(got[0], 1, 0.01);
    TT_CHECK_NEAR(got[511], 1, 0.01);
    TT_CHECK(isnan(got[512]));
    TT_CHECK(isnan(got[1023]));
}

TT_TEST_THREADS(2, ddp_hooks, complex_gradients_have_no_eight_bits)
{
    tt_ddp_bucket b = { .pg = tt_test_pg(), .flat = tt_zeros(TT_SHAPE(3), TT_C64, TT_CPU) };
    tt_future *f;

    TT_CHECK_NULL(tt_ddp_quantize_per_tensor_hook(NULL, &b));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
    f = tt_ddp_fp16_compress_hook(NULL, &b); /* as they are */
    TT_REQUIRE_NOT_NULL(f);
    TT_REQUIRE_OK(tt_future_wait(f, 0));
    tt_future_free(f);
}

/* ---- names ---------------------------------------------------------------------------------------- */

TT_TEST(ddp_hooks, names_are_listed_and_found)
{
    tt_local_sgd_state *post = tt_local_sgd_state_new(NULL);
    tt_ddp_hook h;
    int n = 0;

    for (; tt_ddp_hook_list(n) != NULL; n++) {
        const char *name = tt_ddp_hook_list(n);
        bool stateful = strcmp(name, "post_localSGD_hook") == 0;

        TT_REQUIRE_OK(tt_ddp_hook_named(name, stateful ? post : NULL, &h));
        TT_CHECK_STR(h.name, name);
        TT_CHECK(h.fn != NULL);
        tt_ddp_hook_drop(&h);
        TT_CHECK(h.fn == NULL);
    }
    TT_CHECK_EQ(n, 11);
    TT_CHECK_NULL(tt_ddp_hook_list(-1));
    TT_CHECK_EQ(tt_ddp_hook_named("post_localSGD_hook", NULL, &h), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_ddp_hook_named("carrier_pigeon", NULL, &h), TT_ERR_NOT_FOUND);
    TT_CHECK_CONTAINS(tt_last_error(), "\"carrier_pigeon\"; there are allreduce_hook, ");
    TT_CHECK_EQ(tt_ddp_hook_named("fp16_compress_wrapper(pigeon)", NULL, &h), TT_ERR_NOT_FOUND);
    TT_CHECK_CONTAINS(tt_last_error(), "\"pigeon\"");
    TT_CHECK_EQ(tt_ddp_hook_named("fp16_compress_wrapper(noop_hook", NULL, &h), TT_ERR_NOT_FOUND);
    TT_CHECK_EQ(tt_ddp_hook_named(NULL, NULL, &h), TT_ERR_INVALID);
    tt_ddp_hook_drop(&h);
    tt_ddp_hook_drop(NULL);
    TT_REQUIRE_OK(tt_ddp_hook_named("bf16_compress_wrapper(powerSGD_hook)", NULL, &h));
    TT_CHECK_STR(h.name, "bf16_compress_wrapper(powerSGD_hook)");
    tt_ddp_hook_drop(&h);
    TT_CHECK_EQ(tt_ddp_fp16_compress_wrapper(&(tt_ddp_hook){ 0 }, &h), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_ddp_bf16_compress_wrapper(NULL, &h), TT_ERR_INVALID);
    tt_local_sgd_state_free(post);
}
