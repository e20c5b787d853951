/* SPDX-License-Identifier: Apache-2.0 */
/* SyncBatchNorm under data parallel training: the same as batch norm on the whole batch in one process. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tutti/models.h"
#include "tutti/random.h"
#include "tutti/syncbn.h"
#include "world/ddp_models.h"

/* ---- modules ------------------------------------------------------------------------------------ */

static tt_tensor *net_forward(tt_module *m, tt_tensor *x)
{
    x = tt_reshape(tt_module_run(m, "fc1", x), TT_SHAPE(-1, 4, 10));
    x = tt_reshape(tt_module_run(m, "bn", x), TT_SHAPE(-1, 40));
    return tt_softmax(tt_module_run(m, "fc2", x), 1);
}

static const tt_module_class net_class = { .name = "BatchNormNet", .forward = net_forward };

static tt_module *net_new(const tt_norm_options *opt)
{
    static const tt_linear_options no_bias = { .no_bias = true };
    tt_module *m = ddp_module(tt_module_new(&net_class));

    TT_REQUIRE_OK(tt_module_give_child(m, "fc1", tt_linear_new(2, 40, &no_bias)));
    TT_REQUIRE_OK(tt_module_give_child(m, "bn", tt_batch_norm1d_new(4, opt)));
    TT_REQUIRE_OK(tt_module_give_child(m, "fc2", tt_linear_new(40, 4, &no_bias)));
    return ddp_module(m);
}

static tt_module *net_affine(void)
{
    return net_new(NULL);
}

static tt_module *net_plain(void)
{
    return net_new(&(tt_norm_options){ .no_affine = true });
}

static tt_module *norm_alone(void)
{
    return ddp_module(tt_batch_norm1d_new(2, NULL));
}

/* ---- the same as one process --------------------------------------------------------------------- */

typedef struct plan {
    tt_module *(*make)(void);
    int64_t each; /* samples per rank; 0: rank + 2 */
    int64_t out;  /* columns of the result */
} plan;

/* What this rank gets of the samples of all. */
typedef struct slice {
    int64_t at, n, all;
} slice;

static slice slice_of(const dist_group *g, const plan *p)
{
    int64_t me = g->me, w = g->n;

    if (p->each > 0)
        return (slice){ me * p->each, p->each, w * p->each };
    return (slice){ (me + 3) * me / 2, me + 2, (w + 3) * w / 2 };
}

static tt_module *sync_new(const plan *p, tt_pg *pg)
{
    tt_module *m = ddp_module(tt_sync_batch_norm_convert(p->make(), pg));

    TT_CHECK(tt_module_has_sync_batch_norm(m));
    return m;
}

/* Through a file into a module made anew, and that into a tt_ddp of its own. */
static void reload(const dist_group *g, const plan *p, tt_module **m_p, tt_ddp **d_p)
{
    tt_module *fresh = sync_new(p, g->pg);
    char path[512];

    snprintf(path, sizeof path, "%s/sync%d.safetensors", tt_test_tmpdir(), tt_test_rank());
    TT_REQUIRE_OK(tt_module_save(*m_p, path));
    TT_REQUIRE_OK(tt_module_load(fresh, path, NULL));
    ddp_check_params(fresh, *m_p, true);
    tt_ddp_free(*d_p);
    tt_module_free(*m_p);
    *m_p = fresh;
    *d_p = ddp_new(fresh, g->pg, NULL);
}

static void backward(tt_tensor *out, tt_tensor *want, double factor)
{
    if (out == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_OK(tt_backward(tt_mul_scalar(tt_mse_loss(out, want), factor)));
}

static void check_buffers(const tt_module *a, const tt_module *b)
{
    tt_state_dict *as = tt_module_buffers(a, NULL), *bs = tt_module_buffers(b, NULL);

    TT_REQUIRE_EQ(tt_state_dict_count(as), tt_state_dict_count(bs));
    for (int i = 0; i < tt_state_dict_count(as); i++) {
        tt_close_report r = { 0 };

        TT_CHECK_STR(tt_state_dict_name(as, i), tt_state_dict_name(bs, i));
        if (!tt_compare(tt_state_dict_tensor(as, i), tt_state_dict_tensor(bs, i), NULL, &r))
            TT_FAIL_TEST("%s: %s", tt_state_dict_name(as, i), r.text);
    }
    tt_state_dict_free(as);
    tt_state_dict_free(bs);
}

static void train(const dist_group *g, const void *arg)
{
    const plan *p = arg;
    slice s = slice_of(g, p);
    tt_module *shared = sync_new(p, g->pg), *local = p->make();
    tt_ddp *d = ddp_new(shared, g->pg, NULL);
    tt_tensor *x = ddp_random(TT_SHAPE(s.all, 2), tt_test_seed());
    tt_tensor *y = ddp_random(TT_SHAPE(s.all, p->out), tt_test_seed() + 1);
    tt_generator *gen = tt_generator_new(tt_test_seed());
    tt_state_dict *state = tt_module_state_dict(shared);

    TT_REQUIRE_OK(tt_module_load_state_dict(local, state, NULL, NULL));
    tt_state_dict_free(state);
    reload(g, p, &shared, &d);
    for (int i = 0; i < 5; i++)
        TT_SCOPE {
            tt_tensor *in = tt_index_select(x, 0, tt_randperm(s.all, dist_device(), gen));

            backward(tt_module_forward(local, in), y, 1);
            backward(tt_ddp_forward(d, tt_narrow(in, 0, s.at, s.n)), tt_narrow(y, 0, s.at, s.n),
                     (double)(g->n * s.n) / (double)s.all);
            ddp_update(local);
            ddp_update(shared);
            ddp_check_params(local, shared, false);
            check_buffers(local, shared);
            if (i == 2)
                reload(g, p, &shared, &d);
        }
    tt_generator_free(gen);
    tt_ddp_free(d);
    tt_module_free(shared);
    tt_module_free(local);
}

static const plan affine = { net_affine, 2, 4 };
static const plan no_affine = { net_plain, 2, 4 };
static const plan matrix = { norm_alone, 2, 2 };
static const plan single = { norm_alone, 1, 2 };
static const plan uneven = { net_affine, 0, 4 };

/* ---- other layouts and types ----------------------------------------------------------------------- */

static const tt_norm_options fast = { .momentum = 0.99 };

static tt_ddp *layer_ddp(const dist_group *g, tt_module **m_p)
{
    *m_p = ddp_module(tt_sync_batch_norm_new(2, g->pg, &fast));
    return ddp_new(*m_p, g->pg, NULL);
}

static void train_layout(const dist_group *g, tt_shape shape, tt_memory_format format)
{
    tt_module *shared, *local;
    tt_ddp *d = layer_ddp(g, &shared);
    tt_tensor *x = tt_to_format(ddp_random(shape, tt_test_seed()), format);
    tt_tensor *y = tt_to_format(ddp_random(shape, tt_test_seed() + 1), format);

    local = ddp_module(shape.n_dims == 4 ? tt_batch_norm2d_new(2, &fast)
                                         : tt_batch_norm3d_new(2, &fast));
    for (int i = 0; i < 5; i++)
        TT_SCOPE {
            tt_tensor *out = tt_ddp_forward(d, tt_narrow(x, 0, 2 * g->me, 2));

            TT_CHECK(tt_tensor_is_contiguous(out, format));
            TT_CHECK(!tt_tensor_is_contiguous(out, TT_FORMAT_CONTIGUOUS));
            backward(out, tt_narrow(y, 0, 2 * g->me, 2), 1);
            backward(tt_module_forward(local, x), y, 1);
            ddp_update(local);
            ddp_update(shared);
            ddp_check_params(local, shared, false);
            check_buffers(local, shared);
        }
    tt_ddp_free(d);
    tt_module_free(shared);
    tt_module_free(local);
}

static void channels_last(const dist_group *g, const void *arg)
{
    (void)arg;
    train_layout(g, TT_SHAPE(2 * g->n, 2, 4, 4), TT_FORMAT_CHANNELS_LAST);
    train_layout(g, TT_SHAPE(2 * g->n, 2, 4, 4, 4), TT_FORMAT_CHANNELS_LAST_3D);
}

static void half(const dist_group *g, const void *arg)
{
    tt_module *m = net_affine();
    tt_state_dict *ps;
    tt_tensor *out;
    tt_ddp *d;

    (void)arg;
    TT_REQUIRE_OK(tt_module_to_dtype(m, TT_F16));
    m = ddp_module(tt_sync_batch_norm_convert(m, g->pg));
    d = ddp_new(m, g->pg, NULL);
    out = tt_ddp_forward(d, tt_to_dtype(ddp_random(TT_SHAPE(2, 2), tt_test_seed()), TT_F16));
    TT_REQUIRE_NOT_NULL(out);
    TT_CHECK_EQ(tt_tensor_dtype(out), TT_F16);
    TT_REQUIRE_OK(tt_backward(tt_sum(out)));
    ps = tt_module_params(m, NULL);
    TT_CHECK_EQ(tt_state_dict_count(ps), 4);
    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        tt_tensor *grad = tt_grad_of(tt_state_dict_tensor(ps, i));

        TT_REQUIRE_NOT_NULL(grad);
        TT_CHECK_EQ(tt_tensor_dtype(grad), TT_F16);
    }
    tt_state_dict_free(ps);
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- weighted by counts ------------------------------------------------------------------------------ */

/* Rank i has `2 * 10^(i+1)` elements of each channel, all of one value. */
static double value_of(int rank, int channel)
{
    return pow(channel == 0 ? 0.1 : 0.3, rank - 1);
}

static void expected(int w, int channel, double *mean_p, double *var_p)
{
    double n = 0, sum = 0, squares = 0;

    for (int r = 0; r < w; r++) {
        n += 2 * pow(10, r + 1);
        sum += 2 * pow(10, r + 1) * value_of(r, channel);
    }
    for (int r = 0; r < w; r++)
        squares += 2 * pow(10, r + 1) * pow(value_of(r, channel) - sum / n, 2);
    *mean_p = sum / n;
    *var_p = squares / (n - 1);
}

static void running_value(const dist_group *g, const void *arg)
{
    int64_t length = (int64_t)pow(10, g->me + 1);
    tt_module *m;
    tt_ddp *d = layer_ddp(g, &m);
    tt_tensor *x = tt_empty(TT_SHAPE(2, 2, length), TT_F32, dist_device());

    (void)arg;
    for (int c = 0; c < 2; c++)
        TT_REQUIRE_NOT_NULL(tt_fill_(tt_select(x, 1, c), value_of(g->me, c)));
    for (int i = 0; i < 100; i++)
        ddp_step(d, x);
    for (int64_t c = 0; c < 2; c++) {
        double mean, var;

        expected(g->n, (int)c, &mean, &var);
        TT_CHECK_NEAR(tt_at(tt_module_buffer(m, "running_mean"), &c), mean, 1e-5 * fabs(mean));
        TT_CHECK_NEAR(tt_at(tt_module_buffer(m, "running_var"), &c), var, 1e-5 * var);
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

/* ---- groups, records, profiles -------------------------------------------------------------------------- */

static void process_group(const dist_group *g, const void *arg)
{
    const int zero[] = { 0 };
    tt_pg *alone = tt_pg_subgroup(g->pg, zero, 1, NULL);
    tt_module *m = ddp_module(tt_resnet(50, NULL)), *layer;

    (void)arg;
    TT_REQUIRE_NOT_NULL(alone);
    TT_CHECK_EQ(tt_pg_is_member(alone), g->me == 0);
    m = ddp_module(tt_sync_batch_norm_convert(m, alone));
    layer = tt_module_child(m, "layer1.0.bn1");
    TT_REQUIRE(tt_module_is_sync_batch_norm(layer, NULL));
    TT_CHECK_PTR(tt_sync_batch_norm_group(layer), alone);
    layer = tt_module_child(m, "layer2.0.downsample.1");
    TT_REQUIRE(tt_module_is_sync_batch_norm(layer, NULL));
    TT_CHECK_PTR(tt_sync_batch_norm_group(layer), alone);
    tt_module_free(m);
    tt_pg_free(alone);
}

static void logged(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int sync = 0; sync < 2; sync++) {
        tt_module *m = sync ? sync_new(&affine, g->pg) : net_affine();
        tt_ddp *d = ddp_new(m, g->pg, NULL);
        tt_value *record = tt_ddp_log_value(d);

        TT_REQUIRE_NOT_NULL(record);
        TT_CHECK_EQ(tt_value_as_int(tt_value_map_get(record, "has_sync_bn")), sync);
        tt_value_free(record);
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

static int count_gathers(tt_prof *p)
{
    int n = 0;

    TT_CHECK_OK(tt_prof_stop(p));
    for (size_t i = 0; i < tt_prof_n_events(p); i++)
        n += strstr(tt_prof_event_at(p, i)->name, "all_gather") != NULL;
    tt_prof_free(p);
    return n;
}

static void training_vs_eval(const dist_group *g, const void *arg)
{
    tt_norm_options o = { .momentum = 0.99, .no_running_stats = true };
    tt_module *m = ddp_module(tt_sync_batch_norm_new(2, g->pg, &o));
    tt_ddp *d = ddp_new(m, g->pg, NULL);
    tt_tensor *x = ddp_random(TT_SHAPE(10, 2, 4, 4), tt_test_seed());
    tt_prof *p = dist_prof_start();

    (void)arg;
    for (int i = 0; i < 6; i++)
        ddp_step(d, x);
    TT_CHECK_EQ(count_gathers(p), 6);
    if (g->me == 0) {
        tt_module_eval(m);
        p = dist_prof_start();
        for (int i = 0; i < 6; i++)
            TT_SCOPE {
                backward(tt_module_forward(m, x), x, 1);
            }
        TT_CHECK_EQ(count_gathers(p), 0);
    }
    tt_ddp_free(d);
    tt_module_free(m);
}

static const dist_row rows[] = {
    { "test_DistributedDataParallel_SyncBatchNorm", train, DIST_WORLD, &affine, 0 },
    { "test_DistributedDataParallel_SyncBatchNorm_No_Affine", train, DIST_WORLD, &no_affine, 0 },
    { "test_DistributedDataParallel_SyncBatchNorm_2D_Input", train, DIST_WORLD, &matrix, 0 },
    { "test_DistributedDataParallel_SyncBatchNorm_Single_Input_Per_Process", train, DIST_WORLD,
      &single, 0 },
    { "test_DistributedDataParallel_SyncBatchNorm_Diff_Input_Sizes_gradient", train, DIST_WORLD,
      &uneven, 0 },
    { "test_DistributedDataParallel_SyncBatchNorm_Diff_Input_Sizes_Running_Value", running_value,
      DIST_WORLD, NULL, 0 },
    { "test_DistributedDataParallel_SyncBatchNorm_Channels_Last", channels_last, DIST_WORLD, NULL,
      0 },
    { "test_DistributedDataParallel_SyncBatchNorm_half", half, DIST_WORLD, NULL, 0 },
    { "test_SyncBatchNorm_process_group", process_group, DIST_WORLD, NULL, 0 },
    { "test_sync_bn_logged", logged, DIST_WORLD, NULL, 0 },
};

/* Threads share what is profiled. */
static const dist_row process_rows[] = {
    { "test_ddp_sync_bn_training_vs_eval", training_vs_eval, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
    DIST_ADD_ROWS(process_rows);
}
