/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training of modules with buffers: sent from rank 0, or given to a hook. */
#include <string.h>

#include "world/ddp_models.h"

static const tt_linear_options no_bias = { .no_bias = true };
static const tt_ddp_options no_sync = { .forward_sync_buffers = TT_DDP_OFF };

/* ---- a module that counts in its buffer ---------------------------------------------------------- */

static tt_tensor *counting_forward(tt_module *m, tt_tensor *x)
{
    TT_NO_GRAD
    {
        TT_REQUIRE_NOT_NULL(tt_add_scalar_(tt_module_buffer_at(m, 0), 1));
    }
    return tt_module_run(m, "b", tt_module_run(m, "a", x));
}

static const tt_module_class counting_class = { .name = "Counting", .forward = counting_forward };

/* The buffer [1, 2] is `start`. */
static tt_module *counting_new(double start)
{
    tt_module *m = ddp_module(tt_module_new(&counting_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 1, &no_bias)));
    TT_REQUIRE_OK(
        tt_module_add_buffer(m, "buffer", tt_full(TT_SHAPE(1, 2), start, TT_F32, dist_device())));
    return m;
}

static tt_tensor *buffer_of(tt_ddp *d)
{
    return tt_module_buffer(tt_ddp_module(d), "buffer");
}

/* A tt_ddp over a counting module, and its buffer other than that of the other ranks. */
static tt_ddp *counting_ddp(const dist_group *g, const tt_ddp_options *opt)
{
    tt_module *m = counting_new(0);
    tt_ddp *d = ddp_new(m, g->pg, opt);

    tt_module_free(m);
    TT_REQUIRE_NOT_NULL(tt_fill_(buffer_of(d), 10 * g->me));
    return d;
}

/* ---- hooks ---------------------------------------------------------------------------------------- */

typedef struct hook_ctx {
    bool gives_future;
    int n_calls;
    tt_tensor *seen; /* borrowed: the buffer it got */
} hook_ctx;

static tt_status all_reduce_buffers(void *ctx, tt_ddp *d, const tt_state_dict *buffers,
                                    tt_future **future_p)
{
    hook_ctx *h = ctx;
    tt_work *w;
    tt_status st;

    h->n_calls++;
    TT_CHECK_EQ(tt_state_dict_count(buffers), 1);
    h->seen = tt_state_dict_get(buffers, "buffer");
    TT_TRY(tt_pg_all_reduce(tt_ddp_group(d), h->seen, NULL, &w));
    if (h->gives_future)
        *future_p = tt_work_future(w);
    st = h->gives_future ? TT_OK : tt_work_wait(w, 0);
    tt_work_free(w);
    return st;
}

static void reduce_by_hand(const dist_group *g, tt_ddp *d)
{
    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, buffer_of(d), NULL, NULL));
}

/* One iteration with the hook, and one without it but with its work done by hand. */
static void hooked_step(const dist_group *g, tt_ddp *hooked, tt_ddp *plain, tt_ddp_when when,
                        bool early)
{
    tt_tensor *x = ddp_random(TT_SHAPE(2, 10), tt_test_seed()), *y;

    y = tt_ddp_forward(hooked, x);
    TT_REQUIRE_NOT_NULL(y);
    if (early)
        ddp_check_same(g->pg, buffer_of(hooked));
    TT_REQUIRE_OK(tt_backward(tt_sum(y)));
    if (when == TT_DDP_BEFORE_FORWARD)
        reduce_by_hand(g, plain);
    ddp_step(plain, x);
    if (when == TT_DDP_AFTER_FORWARD)
        reduce_by_hand(g, plain);
    TT_CHECK(tt_equal(buffer_of(hooked), buffer_of(plain)));
    ddp_check_same(g->pg, buffer_of(hooked));
}

static void hook_all_reduce(const dist_group *g, const void *arg)
{
    bool futures = arg != NULL;

    for (int k = 0; k < 2; k++) {
        tt_ddp_when when = k == 0 ? TT_DDP_BEFORE_FORWARD : TT_DDP_AFTER_FORWARD;
        tt_ddp *hooked = counting_ddp(g, NULL), *plain = counting_ddp(g, &no_sync);
        hook_ctx h = { .gives_future = futures };

        TT_REQUIRE_OK(tt_ddp_set_buffer_hook(hooked, when, all_reduce_buffers, &h));
        for (int i = 0; i < 2; i++)
            TT_SCOPE {
                hooked_step(g, hooked, plain, when, !futures);
            }
        TT_CHECK_EQ(h.n_calls, 2);
        TT_CHECK_PTR(h.seen, buffer_of(hooked));
        tt_ddp_free(hooked);
        tt_ddp_free(plain);
    }
}

static tt_status send_buffers(void *ctx, tt_ddp *d, const tt_state_dict *buffers,
                              tt_future **future_p)
{
    (void)buffers, (void)future_p;
    ++*(int *)ctx;
    return tt_ddp_send_buffers(d, 0);
}

static void broadcast_via_hook(const dist_group *g, const void *arg)
{
    tt_ddp *hooked = counting_ddp(g, NULL), *plain = counting_ddp(g, NULL);
    int n = 0;

    (void)arg;
    TT_REQUIRE_OK(tt_ddp_set_buffer_hook(hooked, TT_DDP_BEFORE_FORWARD, send_buffers, &n));
    for (int i = 0; i < 2; i++)
        TT_SCOPE {
            tt_tensor *x = ddp_random(TT_SHAPE(2, 10), tt_test_seed());

            ddp_step(hooked, x);
            ddp_step(plain, x);
            TT_CHECK(tt_equal(buffer_of(hooked), buffer_of(plain)));
            DIST_CHECK_FULL(buffer_of(hooked), TT_SHAPE(1, 2), i + 1, 0);
        }
    TT_CHECK_EQ(n, 2);
    tt_ddp_free(hooked);
    tt_ddp_free(plain);
}

/* ---- switches ------------------------------------------------------------------------------------- */

static void initial_sync_only(const dist_group *g, const void *arg)
{
    tt_module *m = ddp_module(TT_SEQUENTIAL(tt_linear_new(10, 2, NULL)));
    tt_tensor *b = ddp_random(TT_SHAPE(10), tt_test_seed() + (uint64_t)g->me), *first;
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_add_buffer(m, "buffer", b));
    d = ddp_new(m, g->pg, &no_sync);
    ddp_check_same(g->pg, b);
    if (g->me == 0)
        TT_REQUIRE_NOT_NULL(tt_add_scalar_(b, 1));
    ddp_step(d, ddp_random(TT_SHAPE(2, 10), tt_test_seed()));
    first = tt_clone(b);
    TT_REQUIRE_OK(tt_pg_broadcast(g->pg, first, 0, NULL, NULL));
    TT_CHECK_EQ(tt_equal(first, b), g->me == 0);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void count_warning(void *ctx, const char *category, const char *message)
{
    if (strcmp(category, "deprecated") == 0 && strstr(message, "broadcast_buffers") != NULL)
        ++*(int *)ctx;
}

typedef struct switch_case {
    tt_ddp_switch old, new;
    bool syncs;
    int n_warnings;
} switch_case;

static void old_name(const dist_group *g, const void *arg)
{
    static const switch_case cases[] = {
        { TT_DDP_DEFAULT, TT_DDP_DEFAULT, true, 0 }, { TT_DDP_DEFAULT, TT_DDP_ON, true, 0 },
        { TT_DDP_DEFAULT, TT_DDP_OFF, false, 0 },    { TT_DDP_ON, TT_DDP_DEFAULT, true, 1 },
        { TT_DDP_OFF, TT_DDP_DEFAULT, false, 1 },    { TT_DDP_ON, TT_DDP_OFF, false, 1 },
        { TT_DDP_OFF, TT_DDP_ON, true, 1 },
    };
    tt_module *m = counting_new(0);

    (void)arg;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const switch_case *c = &cases[i];
        int n = 0;
        tt_ddp *d;

        TT_REQUIRE_OK(tt_warnings_push(count_warning, &n));
        d = ddp_new(
            m, g->pg,
            &(tt_ddp_options){ .broadcast_buffers = c->old, .forward_sync_buffers = c->new });
        tt_warnings_pop();
        TT_CHECK_EQ(n, c->n_warnings);
        TT_REQUIRE_NOT_NULL(tt_fill_(buffer_of(d), g->me));
        ddp_step(d, ddp_random(TT_SHAPE(2, 10), tt_test_seed()));
        DIST_CHECK_FULL(buffer_of(d), TT_SHAPE(1, 2), 1 + (c->syncs ? 0 : g->me), 0);
        tt_ddp_free(d);
    }
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_ddp_buffer_hook_allreduce", hook_all_reduce, DIST_WORLD, NULL, 0 },
    { "test_ddp_buffer_hook_allreduce_return_future", hook_all_reduce, DIST_WORLD, &no_sync, 0 },
    { "test_ddp_broadcast_buffer_via_hook", broadcast_via_hook, DIST_WORLD, NULL, 0 },
    { "test_ddp_init_sync_buffers_with_forward_sync_buffers_false", initial_sync_only, DIST_WORLD,
      NULL, 0 },
    { "test_ddp_broadcast_buffers_deprecation_warning", old_name, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
