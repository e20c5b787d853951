/* SPDX-License-Identifier: Apache-2.0 */
/* Uneven inputs for many modules, with every combination of who runs out early and when: nobody hangs, and
 * all end with the same model; or, if asked for, all stop when the first one runs out. */
#include <stdio.h>
#include <string.h>

#include "tutti/ddp_hooks.h"
#include "tutti/join.h"
#include "world/ddp_models.h"

static const tt_linear_options no_bias = { .no_bias = true };

/* ---- modules ------------------------------------------------------------------------------------ */

static tt_tensor *norm_forward(tt_module *m, tt_tensor *x)
{
    x = tt_module_run(m, "fc1", x);
    x = tt_module_run(m, "bn", tt_reshape(x, TT_SHAPE(-1, 4, 10)));
    return tt_softmax(tt_module_run(m, "fc2", tt_reshape(x, TT_SHAPE(-1, 40))), 1);
}

static const tt_module_class norm_class = { .name = "NormNet", .forward = norm_forward };

static tt_module *norm_net(void)
{
    tt_module *m = ddp_module(tt_module_new(&norm_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(2, 40, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "bn", tt_batch_norm1d_new(4, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(40, 4, &no_bias)));
    return m;
}

static tt_module *conv_net(void)
{
    return ddp_module(TT_SEQUENTIAL(tt_conv2d_new(1, 2, 5, NULL), tt_relu_new(),
                                    tt_conv2d_new(2, 3, 5, NULL), tt_relu_new(),
                                    tt_conv2d_new(3, 4, 5, NULL), tt_relu_new()));
}

static tt_module *large_linear(void)
{
    return ddp_module(tt_linear_new(1000, 1000, NULL));
}

/* "b" is left out on rank 0, or on all ranks but 0. */
static tt_tensor *partly_forward(tt_module *m, tt_tensor *x)
{
    x = tt_relu(tt_module_run(m, "a", x));
    return tt_test_rank() == 0 ? x : tt_module_run(m, "b", x);
}

static tt_tensor *mostly_forward(tt_module *m, tt_tensor *x)
{
    x = tt_relu(tt_module_run(m, "a", x));
    return tt_test_rank() != 0 ? x : tt_module_run(m, "b", x);
}

static const tt_module_class partly_class = { .name = "UnusedOnZero", .forward = partly_forward };
static const tt_module_class mostly_class = { .name = "UsedOnZero", .forward = mostly_forward };

static tt_module *with_unused(const tt_module_class *class)
{
    tt_module *m = ddp_module(tt_module_new(class));

    TT_REQUIRE_OK(tt_module_give_child(m, "a", tt_linear_new(10, 10, NULL)));
    TT_REQUIRE_OK(tt_module_give_child(m, "b", tt_linear_new(10, 10, NULL)));
    return m;
}

static tt_module *unused_on_zero(void)
{
    return with_unused(&partly_class);
}

static tt_module *used_on_zero(void)
{
    return with_unused(&mostly_class);
}

/* ---- hooks -------------------------------------------------------------------------------------- */

static void hook_mean(tt_ddp *d)
{
    TT_REQUIRE_OK(tt_ddp_register_named(d, "allreduce_hook", NULL));
}

static void register_power(tt_ddp *d, const tt_powersgd_options *opt)
{
    tt_powersgd *s = tt_powersgd_new(NULL, opt);

    TT_REQUIRE_NOT_NULL(s);
    TT_REQUIRE_OK(tt_ddp_register_named(d, "powerSGD_hook", s));
    tt_powersgd_free(s);
}

static void hook_power(tt_ddp *d)
{
    register_power(d, &(tt_powersgd_options){
                          .start_iter = 1, .no_error_feedback = true, .no_warm_start = true });
}

static void hook_power_memory(tt_ddp *d)
{
    register_power(d, &(tt_powersgd_options){ .start_iter = 3 });
}

/* ---- one run ------------------------------------------------------------------------------------ */

typedef struct model {
    const char *name;
    tt_module *(*make)(void);
    int64_t dims[4];
    int n_dims;
    bool find_unused;
    void (*hook)(tt_ddp *d);
} model;

static const model models[] = {
    { "batch norm", norm_net, { 10, 2 }, 2, false, NULL },
    { "three convolutions", conv_net, { 1, 1, 64, 64 }, 4, false, NULL },
    { "linear", large_linear, { 1, 1000 }, 2, false, NULL },
    { "unused on rank 0", unused_on_zero, { 3, 10 }, 2, true, NULL },
    { "used on rank 0 only", used_on_zero, { 3, 10 }, 2, true, NULL },
    { "linear, mean by a hook", large_linear, { 1, 1000 }, 2, false, hook_mean },
    { "linear, PowerSGD", large_linear, { 1, 1000 }, 2, false, hook_power },
    { "linear, PowerSGD with memory", large_linear, { 1, 1000 }, 2, false, hook_power_memory },
};

#define N_MODELS ((int)(sizeof models / sizeof models[0]))
#define N_ROW 7 /* those that the row names */

typedef struct setting {
    int n_early, base, offset; /* ranks that run out early, after how many; the others have more */
    int interval;              /* iterations between two reductions */
    bool throws;
} setting;

/* *done_p: iterations that went through. The first failure ends it. */
static tt_status iterate(tt_ddp *d, tt_tensor *x, int n, int interval, int *done_p)
{
    for (int i = 0; i < n; i++)
        TT_SCOPE {
            bool before = tt_ddp_set_sync(d, i % interval == 0);
            tt_tensor *y = tt_ddp_forward(d, x);
            tt_status st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();

            tt_ddp_set_sync(d, before);
            if (st != TT_OK)
                return st;
            ddp_update(tt_ddp_module(d));
            ++*done_p;
        }
    return TT_OK;
}

static void check_thrown(const dist_group *g, const setting *s, tt_status st, int done)
{
    char own[64];

    snprintf(own, sizeof own, "rank %d ran out of inputs", g->me);
    TT_CHECK_EQ(st, TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), g->me < s->n_early ? own : "ranks ran out of inputs");
    TT_CHECK_EQ(done, s->base);
}

static void check_logged(const tt_ddp *d)
{
    tt_value *log = tt_ddp_log_value(d);

    TT_REQUIRE_NOT_NULL(log);
    TT_CHECK_EQ(tt_value_as_int(tt_value_map_get(log, "join_uneven_inputs")), 1);
    tt_value_free(log);
}

static void run(const dist_group *g, const model *of, const setting *s)
{
    tt_module *m = of->make();
    tt_shape shape = { .n_dims = of->n_dims };
    tt_tensor *x;
    tt_ddp *d =
        ddp_new(m, g->pg, &(tt_ddp_options){ .bucket_cap_mb = 1, .find_unused = of->find_unused });
    tt_joinable list[] = { tt_ddp_joinable(d) };
    int n = s->base + (g->me < s->n_early ? 0 : s->offset), done = 0, failures = tt_test_failures();
    tt_join *j;
    tt_status st;

    memcpy(shape.dims, of->dims, sizeof of->dims);
    x = ddp_random(shape, tt_test_seed() + (uint64_t)(s->throws ? 0 : g->me));
    if (of->hook != NULL)
        of->hook(d);
    j = tt_join_new(list, 1, &(tt_join_options){ .throw_on_early_termination = s->throws });
    TT_REQUIRE_NOT_NULL(j);
    st = iterate(d, x, n, s->interval, &done);
    if (st == TT_OK)
        st = tt_join_finish(j);
    if (s->throws) {
        check_thrown(g, s, st, done);
    } else {
        TT_CHECK_OK(st);
        TT_CHECK_EQ(done, n);
        TT_CHECK_EQ(tt_join_last_rank(j), g->n - 1);
    }
    tt_join_free(j);
    for (int i = 0; i < tt_ddp_n_params(d); i++)
        ddp_check_same(g->pg, tt_ddp_param(d, i));
    check_logged(d);
    if (tt_test_failures() > failures)
        TT_FAIL_TEST("%s: %d early, base %d, offset %d, every %d, throws %d", of->name, s->n_early,
                     s->base, s->offset, s->interval, s->throws);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- all of them -------------------------------------------------------------------------------- */

static const int bases[] = { 0, 5 }, offsets[] = { 3, 2, 10 };
#ifdef __SANITIZE_THREAD__
enum { N_OFFSETS = 1, FEW = 1 }; /* all of them take many minutes there */
#else
enum { N_OFFSETS = 3, FEW = 0 };
#endif

static void run_mappings(const dist_group *g, const model *of, int interval, bool throws)
{
    for (int early = 1; early <= (g->n > 2 ? 2 : 1); early++)
        for (int b = 0; b < 2; b++)
            for (int o = 0; o < N_OFFSETS; o++)
                TT_SCOPE {
                    run(g, of, &(setting){ early, bases[b], offsets[o], interval, throws });
                }
}

static void matrix(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int i = 0; i < N_MODELS; i++) {
        run_mappings(g, &models[i], 1, false);
        if (FEW || dist_on_threads() || i >= N_ROW) /* enough: they would do nothing else */
            continue;
        for (int k = 2; k < g->n; k++)
            run_mappings(g, &models[i], k, false);
        run_mappings(g, &models[i], 1, true);
    }
}

static const dist_row rows[] = {
    { "test_ddp_uneven_inputs", matrix, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
