/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training: accumulation, buckets, ranks that differ, failures, hooks, buffers. */
#include <stdio.h>
#include <string.h>

#include "tutti/sparse.h"
#include "world/ddp_models.h"

/* ---- accumulation without reduction --------------------------------------------------------------- */

static void loss_backward(tt_module *m, tt_ddp *d, tt_tensor *x, tt_tensor *y)
{
    tt_tensor *out = d != NULL ? tt_ddp_forward(d, x) : tt_module_forward(m, x);

    TT_REQUIRE_OK(tt_backward(tt_mse_loss(out, y)));
}

/* Frozen parameters have no gradient in both. */
static int n_equal_grads(const tt_module *a, const tt_ddp *d)
{
    int n = 0;

    for (int i = 0; i < tt_ddp_n_params(d); i++)
        n += tt_allclose(tt_grad_of(tt_module_param(a, tt_ddp_param_name(d, i))),
                         tt_grad_of(tt_ddp_param(d, i)), NULL);
    return n;
}

static void accumulate(const dist_group *g, const void *arg)
{
    const tt_ddp_options *given = arg;
    tt_ddp_options opt = *given;
    tt_module *m = ddp_net_new(), *local;
    tt_tensor *x = ddp_random(TT_SHAPE(g->n, 2), tt_test_seed());
    tt_tensor *y = ddp_random(TT_SHAPE(g->n, 4), tt_test_seed() + 1);
    tt_tensor *my_x = tt_narrow(x, 0, g->me, 1), *my_y = tt_narrow(y, 0, g->me, 1);
    tt_ddp *d;

    opt.bucket_cap_mb = 0.001;
    d = ddp_new(m, g->pg, &opt);
    local = ddp_module(tt_module_copy(m));
    TT_NO_GRAD TT_DDP_NO_SYNC(d)
    {
        TT_CHECK_NOT_NULL(tt_ddp_forward(d, my_x));
    }
    for (int i = 0; i < 4; i++) {
        loss_backward(local, NULL, x, y);
        if (i % 2 == 0)
            TT_DDP_NO_SYNC(d)
            {
                loss_backward(m, d, my_x, my_y);
            }
        else
            loss_backward(m, d, my_x, my_y);
        if (i % 2 == 1) {
            ddp_check_grads(local, m);
            TT_CHECK_EQ(n_equal_grads(local, d), tt_ddp_n_params(d));
            tt_module_zero_grad(i == 1 ? m : local);
            tt_module_zero_grad(i == 1 ? local : m);
        } else {
            TT_CHECK_EQ(n_equal_grads(local, d), 0);
        }
    }
    TT_CHECK_GE(tt_ddp_n_buckets(d), 2);
    tt_ddp_free(d);
    tt_module_free(m);
    tt_module_free(local);
}

static const tt_ddp_options copies = { .copy_gradients = true };
static const tt_ddp_options views = { 0 };

/* ---- buckets -------------------------------------------------------------------------------------- */

static void cap_list(const dist_group *g, const void *arg)
{
    const double list[] = { 1, 2 };
    tt_linear_options no_bias = { .no_bias = true };
    tt_module *m = ddp_module(
        TT_SEQUENTIAL(tt_linear_new(1000, 2000, &no_bias), tt_linear_new(2000, 500, &no_bias)));
    tt_ddp *d =
        ddp_new(m, g->pg, &(tt_ddp_options){ .bucket_cap_mb_list = list, .n_bucket_caps = 2 });
    tt_ddp_caps caps;

    (void)arg;
    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            ddp_step(d, ddp_random(TT_SHAPE(10, 1000), tt_test_seed() + (uint64_t)g->me));
            ddp_check_same(g->pg, tt_grad_of(tt_ddp_param(d, 0)));
        }
    TT_CHECK_EQ(tt_ddp_n_buckets(d), 2);
    TT_REQUIRE_OK(tt_ddp_caps_make(0, list, 2, &caps));
    TT_CHECK_EQ(caps.n_per_bucket, 2);
    TT_CHECK_EQ(caps.per_bucket[0], 1048576);
    TT_CHECK_EQ(caps.per_bucket[1], 2097152);
    TT_REQUIRE_OK(tt_ddp_caps_make(25, NULL, 0, &caps));
    TT_CHECK_EQ(caps.n_per_bucket, 0);
    tt_ddp_free(d);
    tt_module_free(m);
}

static tt_tensor *sparse(int64_t n, tt_dtype dtype)
{
    tt_tensor *index = tt_zeros(TT_SHAPE(1, 1), TT_I64, dist_device());

    return tt_sparse_coo(index, tt_ones(TT_SHAPE(1), dtype, dist_device()), TT_SHAPE(n));
}

static void sparse_assignment(const dist_group *g, const void *arg)
{
    tt_ddp_limits limits = { .bytes = { 400 }, .n = 1 };
    tt_tensor *ts[6];
    int bucket_of[6], n;

    (void)arg;
    for (int i = 0; i < 6; i++) {
        ts[i] = i % 2 == 0 ? sparse(50, TT_F32) : sparse(25, TT_F64);
        TT_REQUIRE_NOT_NULL(ts[i]);
    }
    TT_CHECK_ERR_SAYS(tt_ddp_assign(ts, 6, &limits, bucket_of, &n), TT_ERR_UNSUPPORTED,
                      "sparse tensors are not supported");
    TT_CHECK_OK(tt_pg_barrier(g->pg, NULL, NULL));
}

/* ---- ranks that differ ------------------------------------------------------------------------------ */

/* How many ranks got an error. */
static int n_failed(const dist_group *g, bool failed)
{
    tt_tensor *flag = tt_full(TT_SHAPE(1), failed, TT_I32, dist_device());

    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, flag, NULL, NULL));
    return (int)tt_item_int(flag);
}

static void diff_shape(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(TT_SEQUENTIAL(tt_embedding_new(10, g->me == 0 ? 500 : 50, NULL)));
    tt_ddp *d = tt_ddp_new(m, g->pg, NULL);

    (void)arg;
    TT_CHECK_NULL(d);
    TT_CHECK_CONTAINS(tt_last_error(), "\"0.weight\" is float32 [10, 500] on rank 0");
    TT_CHECK_CONTAINS(tt_last_error(), "float32 [10, 50] on rank 1");
    TT_CHECK_EQ(n_failed(g, d == NULL), g->n);
    tt_module_free(m);
}

static void diff_number(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(TT_SEQUENTIAL(tt_linear_new(4, 4, NULL)));
    tt_ddp *d;

    (void)arg;
    if (g->me == 1)
        TT_REQUIRE_OK(tt_module_give_child(m, "extra", tt_linear_new(4, 4, NULL)));
    d = tt_ddp_new(m, g->pg, NULL);
    TT_CHECK_NULL(d);
    TT_CHECK_CONTAINS(tt_last_error(), "rank 1 has 4");
    TT_CHECK_CONTAINS(tt_last_error(), "\"extra.weight\"");
    TT_CHECK_EQ(n_failed(g, d == NULL), g->n);
    tt_module_free(m);
}

/* ---- failures ------------------------------------------------------------------------------------- */

/* Between two layers: the second one's gradient is on its way when it fails. */
static _Thread_local bool fail_now;

static tt_tensor *failing_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "second", ddp_fuse(tt_module_run(m, "first", x), &fail_now));
}

static const tt_module_class failing_class = { .name = "Failing", .forward = failing_forward };

static tt_module *failing_new(void)
{
    tt_module *m = ddp_module(tt_module_new(&failing_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "first", tt_linear_new(10, 10, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "second", tt_linear_new(10, 10, NULL)));
    return m;
}

static void failing_step(tt_ddp *d, tt_tensor *x)
{
    fail_now = true;
    TT_SCOPE {
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(tt_ddp_forward(d, x))), TT_ERR_INVALID,
                          DDP_FUSE_WORDS);
    }
    fail_now = false;
}

static void remove_hooks(const dist_group *g, const void *arg)
{
    tt_module *m = failing_new();
    tt_tensor *x = ddp_random(TT_SHAPE(10, 10), tt_test_seed() + (uint64_t)g->me);
    tt_ddp *d = ddp_new(m, g->pg, NULL), *again;

    (void)arg;
    failing_step(d, x);
    tt_ddp_remove_hooks(d);
    tt_module_zero_grad(m);
    again = ddp_new(m, g->pg, NULL);
    for (int i = 0; i < 3; i++) {
        ddp_step(again, x);
        for (int k = 0; k < tt_ddp_n_params(again); k++)
            ddp_check_same(g->pg, tt_grad_of(tt_ddp_param(again, k)));
    }
    tt_ddp_free(again);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- hooks of modules, and buffers ---------------------------------------------------------------- */

static tt_status relu_input(void *ctx, tt_module *m, tt_value **in_p)
{
    (void)ctx, (void)m;
    *in_p = tt_value_tensor_new(tt_relu(tt_value_as_tensor(*in_p)));
    return TT_OK;
}

static tt_status gelu_output(void *ctx, tt_module *m, tt_value *in, tt_value **out_p)
{
    (void)ctx, (void)m, (void)in;
    *out_p = tt_value_tensor_new(tt_gelu(tt_value_as_tensor(*out_p)));
    return TT_OK;
}

static tt_status celu_gradient(void *ctx, tt_module *m, tt_tensor **grad_in, int n_in,
                               tt_tensor *const *grad_out, int n_out)
{
    (void)ctx, (void)m, (void)grad_out, (void)n_out;
    if (n_in > 0 && grad_in[0] != NULL)
        grad_in[0] = tt_celu(grad_in[0], 1);
    return TT_OK;
}

static tt_module *hooked_new(tt_hook **hooks)
{
    tt_module *m = ddp_module(tt_linear_new(2, 2, NULL));

    hooks[0] = tt_module_add_forward_pre_hook(m, relu_input, NULL);
    hooks[1] = tt_module_add_forward_hook(m, gelu_output, NULL);
    hooks[2] = tt_module_add_backward_hook(m, celu_gradient, NULL);
    return m;
}

static void module_hooks(const dist_group *g, const void *arg)
{
    tt_hook *hooks[6];
    tt_module *m = hooked_new(hooks), *local = hooked_new(hooks + 3);
    tt_tensor *x = ddp_random(TT_SHAPE(5, 2), tt_test_seed()), *a, *b;
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_state_dict *sd = tt_module_state_dict(m);

    (void)arg;
    TT_REQUIRE_OK(tt_module_load_state_dict(local, sd, NULL, NULL));
    tt_state_dict_free(sd);
    a = tt_ddp_forward(d, x);
    b = tt_module_forward(local, x);
    TT_CHECK(tt_equal(tt_detach(a), tt_detach(b)));
    TT_REQUIRE_OK(tt_backward(tt_sum(a)));
    TT_REQUIRE_OK(tt_backward(tt_sum(b)));
    ddp_check_grads(m, local);
    for (int i = 0; i < 6; i++)
        tt_hook_remove(hooks[i]);
    tt_ddp_free(d);
    tt_module_free(m);
    tt_module_free(local);
}

static void broadcast_buffer(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(TT_SEQUENTIAL(tt_linear_new(10, 2, NULL)));
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(
        tt_module_add_buffer(m, "buffer", tt_full(TT_SHAPE(1, 2), g->me, TT_F32, dist_device())));
    d = ddp_new(m, g->pg, NULL);
    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            if (g->me == 0)
                TT_REQUIRE_NOT_NULL(tt_add_scalar_(tt_module_buffer(m, "buffer"), 1));
            ddp_step(d, ddp_random(TT_SHAPE(2, 10), tt_test_seed()));
            DIST_CHECK_FULL(tt_module_buffer(m, "buffer"), TT_SHAPE(1, 2), i + 1, 0);
        }
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_accumulate_gradients_no_sync", accumulate, DIST_WORLD, &copies, 0 },
    { "test_accumulate_gradients_no_sync_grad_is_view", accumulate, DIST_WORLD, &views, 0 },
    { "test_ddp_bucket_cap_mb_list", cap_list, DIST_WORLD, NULL, 0 },
    { "test_compute_bucket_assignment_by_size_sparse_error_without_logger", sparse_assignment,
      DIST_WORLD, NULL, 0 },
    { "test_ddp_model_diff_shape_across_ranks", diff_shape, DIST_WORLD, NULL, 0 },
    { "test_ddp_model_diff_num_params_across_ranks", diff_number, DIST_WORLD, NULL, 0 },
    { "test_ddp_remove_autograd_hooks", remove_hooks, DIST_WORLD, NULL, 0 },
    { "test_ddp_forward_backward_hook", module_hooks, DIST_WORLD, NULL, 0 },
    { "test_ddp_broadcast_buffer", broadcast_buffer, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
