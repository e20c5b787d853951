/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm over ranks that are threads: values and gradients of the whole batch in float64, empty and
 * uneven batches, bits, modes, and the conversion of trees. */
#include <math.h>
#include <signal.h>

#include "tutti/collective.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/syncbn.h"
#include "tutti/testing_tools.h"

static tt_tensor *numbers(tt_shape shape, tt_dtype dtype, uint64_t seed)
{
    tt_generator *gen = tt_generator_new(seed);
    tt_tensor *t = tt_normal_(tt_empty(shape, dtype, TT_CPU), 0, 1, gen);

    tt_generator_free(gen);
    TT_REQUIRE_NOT_NULL(t);
    return t;
}

static void check_close(const char *what, tt_tensor *a, tt_tensor *b, double tol)
{
    tt_close_report r = { 0 };

    TT_REQUIRE_NOT_NULL(a);
    TT_REQUIRE_NOT_NULL(b);
    if (!tt_compare(a, b, &(tt_close_options){ .rtol = tol, .atol = tol }, &r))
        TT_FAIL_TEST("%s: %s", what, r.text);
}

static void check_same_everywhere(tt_tensor *t)
{
    tt_tensor *first = tt_clone(tt_detach(t));

    TT_REQUIRE_OK(tt_pg_broadcast(tt_test_pg(), first, 0, NULL, NULL));
    TT_CHECK(tt_equal(first, tt_detach(t)));
}

/* ---- the operator -------------------------------------------------------------------------------- */

typedef struct vectors {
    tt_tensor *w, *b, *mean, *var;
} vectors;

static vectors vectors_new(int64_t c, tt_dtype dtype, uint64_t seed)
{
    return (vectors){ .w = tt_require_grad(numbers(TT_SHAPE(c), dtype, seed)),
                      .b = tt_require_grad(numbers(TT_SHAPE(c), dtype, seed + 1)),
                      .mean = tt_zeros(TT_SHAPE(c), dtype, TT_CPU),
                      .var = tt_ones(TT_SHAPE(c), dtype, TT_CPU) };
}

/* Forward and backward of all rows at once, and of this rank's rows [at, at + n) over the ranks. */
static void compare(tt_tensor *x, int64_t at, int64_t n, double tol)
{
    tt_dtype dtype = tt_tensor_dtype(x);
    int64_t c = tt_tensor_size(x, 1);
    tt_tensor *all = tt_require_grad(tt_clone(x)), *g, *y, *own;
    tt_tensor *part = tt_require_grad(tt_clone(tt_narrow(x, 0, at, n)));
    vectors a = vectors_new(c, dtype, 5), b = vectors_new(c, dtype, 5);

    g = numbers(tt_tensor_shape(x), dtype, tt_test_seed() + 7);
    y = tt_batch_norm(
        all, a.w, a.b,
        &(tt_batch_norm_options){ .running_mean = a.mean, .running_var = a.var, .training = true });
    own = tt_sync_batch_norm(
        part, b.w, b.b, tt_test_pg(),
        &(tt_batch_norm_options){ .running_mean = b.mean, .running_var = b.var });
    check_close("result", own, tt_narrow(y, 0, at, n), tol);
    check_close("running mean", b.mean, a.mean, tol);
    check_close("running variance", b.var, a.var, tol);
    check_same_everywhere(b.mean);
    check_same_everywhere(b.var);
    TT_REQUIRE_OK(tt_backward_with(y, &(tt_backward_options){ .gradient = g }));
    TT_REQUIRE_OK(
        tt_backward_with(own, &(tt_backward_options){ .gradient = tt_narrow(g, 0, at, n) }));
    check_close("gradient", tt_grad_of(part), tt_narrow(tt_grad_of(all), 0, at, n), tol);
    TT_REQUIRE_OK(tt_pg_all_reduce(tt_test_pg(), tt_grad_of(b.w), NULL, NULL));
    TT_REQUIRE_OK(tt_pg_all_reduce(tt_test_pg(), tt_grad_of(b.b), NULL, NULL));
    check_close("gradient of the weight", tt_grad_of(b.w), tt_grad_of(a.w), tol * 10);
    check_close("gradient of the bias", tt_grad_of(b.b), tt_grad_of(a.b), tol * 10);
}

static tt_shape shape_of(int n_dims, int64_t rows)
{
    static const int64_t sizes[] = { 0, 3, 4, 2, 3 };
    tt_shape s = { .n_dims = n_dims };

    for (int i = 0; i < n_dims; i++)
        s.dims[i] = i == 0 ? rows : sizes[i];
    return s;
}

TT_TEST_THREADS(3, syncbn, equals_the_whole_batch_in_2_to_5_dimensions)
{
    int64_t me = tt_test_rank();

    for (int n_dims = 2; n_dims <= 5; n_dims++)
        TT_SCOPE {
            tt_tensor *x = numbers(shape_of(n_dims, 6), TT_F64, tt_test_seed());

            compare(x, 2 * me, 2, 1e-12);                                /* the same number each */
            compare(x, me * (me + 1) / 2, me + 1, 1e-12);                /* 1, 2, 3 */
            compare(x, me == 0 ? 0 : 3 * (me - 1), 3 * (me > 0), 1e-12); /* 0, 3, 3 */
        }
}

TT_TEST_THREADS(2, syncbn, takes_strided_and_channels_last_inputs)
{
    int64_t me = tt_test_rank();
    tt_tensor *x = numbers(TT_SHAPE(6, 5, 3, 4), TT_F32, tt_test_seed());

    compare(tt_to_format(x, TT_FORMAT_CHANNELS_LAST), 3 * me, 3, 1e-5);
    compare(tt_permute(x, (int[4]){ 2, 3, 1, 0 }, 4), 2 * me, 2 - me, 1e-5);
}

/* Sums of squares would lose all digits here. */
TT_TEST_THREADS(4, syncbn, does_not_cancel_with_large_means)
{
    tt_tensor *x = tt_add_scalar(numbers(TT_SHAPE(8, 2, 50), TT_F64, tt_test_seed()), 1e9);

    compare(x, 2 * tt_test_rank(), 2, 1e-6);
}

TT_TEST_THREADS(3, syncbn, gives_the_same_bits_in_every_run)
{
    tt_tensor *x = numbers(TT_SHAPE(5, 7, 9), TT_F32, tt_test_seed() + (uint64_t)tt_test_rank());
    tt_tensor *first = NULL;

    for (int i = 0; i < 5; i++) {
        tt_tensor *in = tt_require_grad(tt_clone(x)), *y;

        y = tt_sync_batch_norm(in, NULL, NULL, tt_test_pg(), NULL);
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, tt_mul(y, y)))));
        if (first == NULL)
            first = tt_grad_of(in);
        TT_CHECK(tt_equal(first, tt_grad_of(in)));
    }
}

TT_TEST_THREADS(2, syncbn, half_types_keep_their_type)
{
    tt_dtype types[] = { TT_F16, TT_BF16 };
    int64_t me = tt_test_rank();

    for (int i = 0; i < 2; i++) {
        tt_tensor *x = numbers(TT_SHAPE(8, 3), types[i], tt_test_seed()), *y;
        tt_tensor *part = tt_require_grad(tt_clone(tt_narrow(x, 0, 4 * me, 4))), *whole;

        y = tt_sync_batch_norm(part, NULL, NULL, tt_test_pg(), NULL);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_EQ(tt_tensor_dtype(y), types[i]);
        whole = tt_batch_norm(x, NULL, NULL, &(tt_batch_norm_options){ .training = true });
        check_close("result", y, tt_narrow(whole, 0, 4 * me, 4), 1e-2);
        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, y))));
        TT_CHECK_EQ(tt_tensor_dtype(tt_grad_of(part)), types[i]);
    }
}

TT_TEST_THREADS(2, syncbn, refuses_what_cannot_be)
{
    tt_pg *pg = tt_test_pg();
    tt_tensor *x = tt_require_grad(tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU)), *y;
    bool one = tt_test_rank() == 0;

    TT_CHECK_NULL(tt_sync_batch_norm(tt_ones(TT_SHAPE(3), TT_F32, TT_CPU), NULL, NULL, pg, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_sync_batch_norm(x, tt_ones(TT_SHAPE(2), TT_F32, TT_CPU), NULL, pg, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "weight");
    /* one value over both ranks: both fail */
    TT_CHECK_NULL(tt_sync_batch_norm(tt_narrow(x, 0, 0, one), NULL, NULL, pg, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "more than one value");
    y = tt_sync_batch_norm(x, NULL, NULL, pg, NULL);
    TT_CHECK_ERR_SAYS(tt_backward_with(tt_sum(y), &(tt_backward_options){ .create_graph = true }),
                      TT_ERR_UNSUPPORTED, "create_graph");
    TT_CHECK_NULL(tt_sync_batch_norm(NULL, NULL, NULL, pg, NULL));
}

TT_TEST(syncbn, alone_is_batch_norm)
{
    tt_tensor *x = numbers(TT_SHAPE(4, 3), TT_F32, tt_test_seed());

    TT_CHECK(tt_equal(tt_sync_batch_norm(x, NULL, NULL, NULL, NULL),
                      tt_batch_norm(x, NULL, NULL, &(tt_batch_norm_options){ .training = true })));
}

/* ---- the layer ------------------------------------------------------------------------------------- */

TT_TEST_THREADS(2, syncbn, layer_counts_batches_and_averages_without_momentum)
{
    tt_norm_options o = { .momentum = -1 };
    tt_module *sync = tt_sync_batch_norm_new(3, tt_test_pg(), &o);
    tt_module *plain = tt_batch_norm1d_new(3, &o);

    for (uint64_t i = 0; i < 4; i++) {
        tt_tensor *x = numbers(TT_SHAPE(6, 3), TT_F32, tt_test_seed() + i);

        TT_REQUIRE_NOT_NULL(tt_module_forward(plain, x));
        TT_REQUIRE_NOT_NULL(tt_module_forward(sync, tt_narrow(x, 0, 3 * tt_test_rank(), 3)));
    }
    TT_CHECK_EQ(tt_item_int(tt_module_buffer(sync, "num_batches_tracked")), 4);
    check_close("mean", tt_module_buffer(sync, "running_mean"),
                tt_module_buffer(plain, "running_mean"), 1e-5);
    check_close("variance", tt_module_buffer(sync, "running_var"),
                tt_module_buffer(plain, "running_var"), 1e-5);
    tt_module_free(sync);
    tt_module_free(plain);
}

TT_TEST_THREADS(2, syncbn, layer_in_eval_mode_involves_nobody)
{
    tt_module *m = tt_sync_batch_norm_new(3, tt_test_pg(), NULL);
    tt_tensor *x = numbers(TT_SHAPE(6, 3, 2), TT_F32, tt_test_seed());
    uint64_t before;

    tt_module_eval(m);
    before = tt_pg_seq(tt_test_pg());
    if (tt_test_rank() == 0)
        check_close("eval", tt_module_forward(m, x), tt_div_scalar(x, sqrt(1 + 1e-5)), 1e-5);
    TT_CHECK_EQ(tt_pg_seq(tt_test_pg()), before);
    tt_module_train(m, true);
    TT_REQUIRE_NOT_NULL(tt_module_forward(m, x));
    TT_CHECK_EQ(tt_pg_seq(tt_test_pg()), before + 1); /* one gather */
    TT_CHECK_NULL(tt_module_forward(m, tt_ones(TT_SHAPE(2, 4), TT_F32, TT_CPU)));
    TT_CHECK_CONTAINS(tt_last_error(), "3 channels");
    tt_module_free(m);
}

TT_TEST_THREADS(2, syncbn, copies_keep_the_group)
{
    tt_module *m = tt_sync_batch_norm_new(2, tt_test_pg(), NULL), *copy;
    char *text;

    copy = tt_module_copy(m);
    TT_REQUIRE_NOT_NULL(copy);
    TT_CHECK_PTR(tt_sync_batch_norm_group(copy), tt_test_pg());
    TT_CHECK(tt_module_param(copy, "weight") != tt_module_param(m, "weight"));
    text = tt_module_text(m);
    TT_CHECK_CONTAINS(text, "SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                            "track_running_stats=True)");
    tt_text_free(text);
    tt_module_free(m);
    TT_REQUIRE_NOT_NULL(tt_module_forward(copy, numbers(TT_SHAPE(3, 2), TT_F32, tt_test_seed())));
    tt_module_free(copy);
}

/* ---- conversion ------------------------------------------------------------------------------------- */

/* Names of all parameters and buffers are the same, and so are the tensors. */
static void check_taken_over(const tt_state_dict *before, const tt_module *m)
{
    tt_state_dict *after = tt_module_state_dict(m);

    TT_REQUIRE_EQ(tt_state_dict_count(before), tt_state_dict_count(after));
    for (int i = 0; i < tt_state_dict_count(before); i++) {
        TT_CHECK_STR(tt_state_dict_name(before, i), tt_state_dict_name(after, i));
        TT_CHECK(tt_tensor_shares_storage(tt_state_dict_tensor(before, i),
                                          tt_state_dict_tensor(after, i)));
    }
    tt_state_dict_free(after);
}

static tt_status count_kinds(void *ctx, const char *name, tt_module *m)
{
    int *n = ctx;

    (void)name;
    n[0] += tt_module_is_batch_norm(m, NULL);
    n[1] += tt_module_is_sync_batch_norm(m, NULL);
    return TT_OK;
}

TT_TEST(syncbn, converts_a_tree_in_place)
{
    tt_module *m = tt_resnet(18, NULL), *same;
    tt_state_dict *before = tt_module_state_dict(m);
    tt_tensor *frozen = tt_module_param(m, "layer1.0.bn1.weight");
    int n[2] = { 0 };

    TT_REQUIRE_NOT_NULL(m);
    TT_REQUIRE_OK(tt_set_requires_grad(frozen, false));
    tt_module_eval(tt_module_child(m, "layer2"));
    same = tt_sync_batch_norm_convert(m, NULL);
    TT_REQUIRE_PTR(same, m);
    check_taken_over(before, m);
    TT_REQUIRE_OK(tt_module_each(m, count_kinds, n));
    TT_CHECK_EQ(n[0], 0);
    TT_CHECK_EQ(n[1], 20);
    TT_CHECK_PTR(tt_module_param(m, "layer1.0.bn1.weight"), frozen);
    TT_CHECK(!tt_requires_grad(frozen));
    TT_CHECK(tt_requires_grad(tt_module_param(m, "layer1.0.bn1.bias")));
    TT_CHECK(!tt_module_is_training(tt_module_child(m, "layer2.0.bn1")));
    TT_CHECK(tt_module_is_training(tt_module_child(m, "layer1.0.bn1")));
    tt_state_dict_free(before);
    tt_module_free(m);
}

TT_TEST(syncbn, converts_a_layer_itself_and_keeps_options)
{
    tt_norm_options o = { .eps = 0.25, .momentum = 0.5, .no_affine = true };
    tt_module *m = tt_sync_batch_norm_convert(tt_batch_norm2d_new(3, &o), NULL);
    tt_batch_norm_info info;

    TT_REQUIRE(tt_module_is_sync_batch_norm(m, &info));
    TT_CHECK_EQ(info.channels, 3);
    TT_CHECK_NEAR(info.options.eps, 0.25, 0);
    TT_CHECK_NEAR(info.options.momentum, 0.5, 0);
    TT_CHECK(tt_module_has(m, "weight"));
    TT_CHECK_NULL(tt_module_param(m, "weight"));
    TT_CHECK_NULL(tt_sync_batch_norm_group(m));
    tt_module_free(m);
    TT_CHECK_NULL(tt_sync_batch_norm_convert(NULL, NULL));
    m = tt_sync_batch_norm_convert(tt_linear_new(2, 2, NULL), NULL);
    TT_CHECK(!tt_module_has_sync_batch_norm(m));
    tt_module_free(m);
}

TT_TEST_THREADS(2, syncbn, converts_shared_layers_once_and_again_for_another_group)
{
    tt_module *m = tt_sequential_new(), *bn = tt_batch_norm1d_new(2, NULL);

    TT_REQUIRE_OK(tt_module_add_child(m, "a", bn));
    TT_REQUIRE_OK(tt_module_give_child(m, "mid", tt_relu_new()));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", bn));
    m = tt_sync_batch_norm_convert(m, NULL);
    TT_CHECK_STR(tt_module_child_name_at(m, 1), "mid");
    TT_CHECK_PTR(tt_module_child(m, "a"), tt_module_child(m, "b"));
    TT_CHECK_NULL(tt_sync_batch_norm_group(tt_module_child(m, "a")));
    m = tt_sync_batch_norm_convert(m, tt_test_pg());
    TT_CHECK_PTR(tt_module_child(m, "a"), tt_module_child(m, "b"));
    TT_CHECK_PTR(tt_sync_batch_norm_group(tt_module_child(m, "b")), tt_test_pg());
    tt_module_free(m);
}

/* A tree that could not be converted is gone, with all that was made so far. */
static tt_status convert(void *ctx)
{
    tt_module *m = tt_module_copy(ctx);

    m = m != NULL ? tt_sync_batch_norm_convert(m, NULL) : NULL;
    if (m == NULL)
        return tt_last_status();
    tt_module_free(m);
    return TT_OK;
}

TT_TEST(syncbn, conversion_survives_failing_allocations)
{
    tt_module *m = TT_SEQUENTIAL(
        tt_linear_new(2, 2, NULL), tt_batch_norm1d_new(2, NULL),
        TT_SEQUENTIAL(tt_batch_norm1d_new(2, &(tt_norm_options){ .no_affine = true })));

    TT_REQUIRE_NOT_NULL(m);
    TT_CHECK_GT(tt_test_fail_allocs(convert, m), 10);
    tt_module_free(m);
}

/* ---- a rank that dies ------------------------------------------------------------------------------- */

/* Rank 1 is killed before its second forward, or before its backward: the others are told who. */
static void die_in(bool in_backward)
{
    tt_tensor *x = tt_require_grad(numbers(TT_SHAPE(4, 3), TT_F32, tt_test_seed())), *y;
    tt_status st = TT_OK;

    tt_test_ignore_exit(1);
    y = tt_sync_batch_norm(x, NULL, NULL, tt_test_pg(), NULL);
    TT_REQUIRE_NOT_NULL(y);
    if (tt_test_rank() == 1)
        raise(SIGKILL);
    if (in_backward)
        st = tt_backward(tt_sum(tt_mul(y, y)));
    else if (tt_sync_batch_norm(x, NULL, NULL, tt_test_pg(), NULL) == NULL)
        st = tt_last_status();
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), "rank 1");
}

TT_TEST_RANKS(3, syncbn, names_a_rank_that_dies_in_forward)
{
    TT_SCOPE {
        die_in(false); /* a graph keeps the group */
    }
}

TT_TEST_RANKS(3, syncbn, names_a_rank_that_dies_in_backward)
{
    TT_SCOPE {
        die_in(true);
    }
}
