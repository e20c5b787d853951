/* SPDX-License-Identifier: Apache-2.0 */
/* Moving data in a world: broadcast, scatter, gather, all_gather, reduce_scatter and all_to_all. */
#include <stdio.h>

#include "world/distributed.h"

static const tt_dtype f32 = TT_F32, c64 = TT_C64;

/* ---- broadcast ------------------------------------------------------------------------------ */

static void broadcast(const dist_group *g, const void *arg)
{
    static const struct {
        tt_dtype dtype;
        double value;
    } rows[] = {
        { TT_F32, -1e-10 }, { TT_F64, -1e-100 }, { TT_I8, -2 },
        { TT_U8, 129 },     { TT_I32, -100000 }, { TT_I64, -1e15 },
    };

    (void)arg;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < g->n; k++)
            TT_SCOPE {
                int root = g->ranks[k];
                tt_shape shape = dist_cube(root + 1);
                tt_tensor *t =
                    dist_full(shape, rows[i].dtype, g->me == root ? rows[i].value : -1, 0);
                tt_prof *p = dist_prof_start();

                TT_REQUIRE_OK(tt_pg_broadcast(g->pg, t, root, &dist_global, NULL));
                dist_prof_end(p, g, "broadcast", 1, g->me == root ? &shape : NULL, 1);
                DIST_CHECK_FULL(t, shape, rows[i].value, 0);
            }
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* One tensor per member: filled with the member's rank, or with -1. */
static void make_list(const dist_group *g, tt_tensor **ts, tt_shape shape, tt_dtype dtype,
                      bool ranks)
{
    for (int i = 0; i < g->n; i++)
        ts[i] = dist_full(shape, dtype, ranks ? g->ranks[i] : -1, 0);
}

static void check_list(const dist_group *g, tt_tensor *const *ts, tt_shape shape)
{
    for (int i = 0; i < g->n; i++)
        DIST_CHECK_FULL(ts[i], shape, g->ranks[i], 0);
}

static void scatter(const dist_group *g, const void *arg)
{
    const tt_dtype *dtype = arg;

    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            int root = g->ranks[k];
            tt_shape shape = dist_cube(root + 1);
            tt_tensor *ins[DIST_MAX], *out = dist_full(shape, *dtype, -1, 0);
            bool mine = g->me == root;

            make_list(g, ins, shape, *dtype, true);
            TT_REQUIRE_OK(tt_pg_scatter(g->pg, out, mine ? ins : NULL, mine ? g->n : 0, root,
                                        &dist_global, NULL));
            DIST_CHECK_FULL(out, shape, g->me, 0);
        }
}

static void gather(const dist_group *g, const void *arg)
{
    const tt_dtype *dtype = arg;

    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            int root = g->ranks[k];
            tt_shape shape = dist_cube(root + 1);
            tt_tensor *outs[DIST_MAX], *in = dist_full(shape, *dtype, g->me, 0);
            bool mine = g->me == root;

            make_list(g, outs, shape, *dtype, false);
            TT_REQUIRE_OK(tt_pg_gather(g->pg, in, mine ? outs : NULL, mine ? g->n : 0, root,
                                       &dist_global, NULL));
            if (mine)
                check_list(g, outs, shape);
        }
}

/* With lists on rank 0 only; a list elsewhere, or none there, is refused before anything is sent. */
static void scatter_checks(const dist_group *g, const void *arg)
{
    tt_tensor *ins[DIST_MAX], *out = dist_full(TT_SHAPE(1), TT_F32, -1, 0);
    bool mine = g->me == 0;

    (void)arg;
    make_list(g, ins, TT_SHAPE(1), TT_F32, true);
    TT_CHECK_ERR(tt_pg_scatter(g->pg, out, mine ? NULL : ins, mine ? 0 : g->n, 0, NULL, NULL),
                 TT_ERR_INVALID);
    TT_REQUIRE_OK(tt_pg_scatter(g->pg, out, mine ? ins : NULL, mine ? g->n : 0, 0, NULL, NULL));
    DIST_CHECK_FULL(out, TT_SHAPE(1), g->me, 0);
}

static void gather_checks(const dist_group *g, const void *arg)
{
    tt_tensor *outs[DIST_MAX], *in = dist_full(TT_SHAPE(1), TT_F32, g->me, 0);
    bool mine = g->me == 0;

    (void)arg;
    make_list(g, outs, TT_SHAPE(1), TT_F32, false);
    TT_CHECK_ERR(tt_pg_gather(g->pg, in, mine ? NULL : outs, mine ? 0 : g->n, 0, NULL, NULL),
                 TT_ERR_INVALID);
    TT_REQUIRE_OK(tt_pg_gather(g->pg, in, mine ? outs : NULL, mine ? g->n : 0, 0, NULL, NULL));
    if (mine)
        check_list(g, outs, TT_SHAPE(1));
}

static void all_gather(const dist_group *g, const void *arg)
{
    const tt_dtype *dtype = arg;

    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            tt_shape shape = dist_cube(g->ranks[k] + 1), shown = dist_real(shape, *dtype);
            tt_tensor *outs[DIST_MAX], *in = dist_full(shape, *dtype, g->me, 0);
            tt_prof *p;

            make_list(g, outs, shape, *dtype, false);
            p = dist_prof_start();
            TT_REQUIRE_OK(tt_pg_all_gather(g->pg, in, outs, g->n, NULL, NULL));
            dist_prof_end(p, g, "all_gather", 1, &shown, 1);
            check_list(g, outs, shape);
            DIST_CHECK_FULL(in, shape, g->me, 0);
        }
}

static void all_gather_coalesced(const dist_group *g, const void *arg)
{
    static const tt_shape shapes[] = { { 1, { 1 } }, { 2, { 2, 2 } }, { 3, { 3, 3, 3 } } };
    const tt_dtype *dtype = arg;

    for (int n = 1; n <= 3; n++)
        TT_SCOPE {
            tt_tensor *ins[3], *outs[3 * DIST_MAX];
            tt_shape shown[3];
            tt_prof *p;

            for (int t = 0; t < n; t++) {
                ins[t] = dist_full(shapes[t], *dtype, g->me + t, 0);
                shown[t] = dist_real(shapes[t], *dtype);
            }
            for (int i = 0; i < g->n * n; i++)
                outs[i] = dist_full(shapes[i % n], *dtype, -1, 0);
            p = dist_prof_start();
            TT_REQUIRE_OK(tt_pg_all_gather_coalesced(g->pg, ins, n, outs, NULL, NULL));
            dist_prof_end(p, g, "all_gather", 1, shown, n);
            for (int i = 0; i < g->n * n; i++)
                DIST_CHECK_FULL(outs[i], shapes[i % n], g->ranks[i / n] + i % n, 0);
        }
}

static void all_gather_with_empty(const dist_group *g, const void *arg)
{
    static const tt_shape shapes[] = {
        { 2, { 2, 2 } }, { 1, { 0 } }, { 2, { 3, 3 } }, { 1, { 0 } }, { 1, { 0 } }
    };
    tt_tensor *ins[5], *outs[5 * DIST_MAX];

    (void)arg;
    for (int t = 0; t < 5; t++)
        ins[t] = dist_full(shapes[t], TT_F32, t == 2 ? g->me + 1 : g->me, 0);
    for (int i = 0; i < 5 * g->n; i++)
        outs[i] = dist_full(shapes[i % 5], TT_F32, -1, 0);
    TT_REQUIRE_OK(tt_pg_all_gather_coalesced(g->pg, ins, 5, outs, NULL, NULL));
    for (int i = 0; i < 5 * g->n; i++)
        DIST_CHECK_FULL(outs[i], shapes[i % 5], i % 5 == 2 ? i / 5 + 1 : i / 5, 0);
}

/* ---- unequal sizes, single tensors ----------------------------------------------------------- */

/* Rows 0, 1 to 2, 3 to 5, ... of a tensor. */
static tt_tensor *slice_of(tt_tensor *t, int i)
{
    return tt_narrow(t, 0, i * (i + 1) / 2, i + 1);
}

static void wait_for(tt_work *w)
{
    if (w == NULL)
        return;
    TT_CHECK_OK(tt_work_wait(w, 0));
    tt_work_free(w);
}

static void all_gather_v(const dist_group *g, const void *arg)
{
    int64_t l = g->n * (g->n + 1) / 2;

    (void)arg;
    for (int sync = 0; sync < 2; sync++)
        TT_SCOPE {
            tt_tensor *all = dist_full(dist_cube(l), TT_F32, -1, 0), *outs[DIST_MAX];
            tt_tensor *in = dist_full(TT_SHAPE(g->me + 1, l, l), TT_F32, 2, 0);
            tt_work *w = NULL;

            for (int i = 0; i < g->n; i++)
                outs[i] = slice_of(all, i);
            TT_REQUIRE_OK(tt_pg_all_gather(g->pg, in, outs, g->n, NULL, sync ? NULL : &w));
            wait_for(w);
            DIST_CHECK_FULL(all, dist_cube(l), 2, 0);
        }
}

static void reduce_scatter_v(const dist_group *g, const void *arg)
{
    int64_t l = g->n * (g->n + 1) / 2;

    (void)arg;
    for (int sync = 0; sync < 2; sync++)
        TT_SCOPE {
            tt_tensor *all = dist_full(dist_cube(l), TT_F32, 10, 0), *ins[DIST_MAX];
            tt_tensor *out = dist_full(TT_SHAPE(g->me + 1, l, l), TT_F32, -1, 0);
            tt_work *w = NULL;

            tt_fill_(slice_of(all, g->me), 2);
            for (int i = 0; i < g->n; i++)
                ins[i] = slice_of(all, i);
            TT_REQUIRE_OK(tt_pg_reduce_scatter(g->pg, out, ins, g->n, NULL, sync ? NULL : &w));
            wait_for(w);
            DIST_CHECK_FULL(out, TT_SHAPE(g->me + 1, l, l), 2 + 10 * (g->n - 1), 0);
        }
}

static void reduce_scatter_tensor(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int flat = 0; flat < 2; flat++)
        TT_SCOPE {
            tt_tensor *in = tt_arange(0, 2 * g->n, 1, TT_I64, dist_device());
            tt_tensor *out = dist_full(TT_SHAPE(2), TT_I64, -1, 0);

            if (flat == 0)
                in = tt_reshape(in, TT_SHAPE(g->n, 2));
            TT_REQUIRE_OK(tt_pg_reduce_scatter_from(g->pg, out, in, NULL, NULL));
            TT_CHECK(tt_equal(tt_to_device(out, TT_CPU),
                              TT_INTS(g->n * 2 * g->me, g->n * (2 * g->me + 1))));
        }
}

static void all_gather_into(const dist_group *g, const void *arg)
{
    bool stack = arg != NULL;
    tt_shape shape = stack ? TT_SHAPE(g->n, 2, 2) : TT_SHAPE(2 * g->n, 2);
    tt_tensor *in = dist_full(TT_SHAPE(2, 2), TT_F32, g->me, 0);
    tt_tensor *out = dist_full(shape, TT_F32, -1, 0);

    TT_REQUIRE_OK(tt_pg_all_gather_into(g->pg, in, out, NULL, NULL));
    TT_CHECK(tt_shape_equal(tt_tensor_shape(out), shape));
    for (int i = 0; i < g->n; i++)
        DIST_CHECK_FULL(stack ? tt_select(out, 0, i) : tt_narrow(out, 0, 2 * i, 2), TT_SHAPE(2, 2),
                        i, 0);
}

/* ---- all_to_all ------------------------------------------------------------------------------ */

static void all_to_all_equal(const dist_group *g, const void *arg)
{
    const tt_dtype *dtype = arg;
    tt_shape shape = TT_SHAPE(g->n, g->n), shown = dist_real(shape, *dtype);
    tt_tensor *in = dist_full(shape, *dtype, g->me, 0);
    tt_tensor *out = dist_full(shape, *dtype, -1, 0);
    tt_prof *p = dist_prof_start();

    TT_REQUIRE_OK(tt_pg_all_to_all_single(g->pg, out, in, NULL, NULL, NULL, NULL));
    dist_prof_end(p, g, "all_to_all", 1, &shown, 1);
    for (int k = 0; k < g->n; k++)
        DIST_CHECK_FULL(tt_select(out, 0, k), TT_SHAPE(g->n), g->ranks[k], 0);
}

static void all_to_all_unequal(const dist_group *g, const void *arg)
{
    const tt_dtype *dtype = arg;
    int64_t in_splits[DIST_MAX], out_splits[DIST_MAX], rows = 0, mine = g->me + 1;
    tt_tensor *in, *out;
    tt_shape shape, shown;
    tt_prof *p;

    for (int k = 0; k < g->n; k++) {
        in_splits[k] = g->ranks[k] + 1;
        out_splits[k] = mine;
        rows += in_splits[k];
    }
    shape = TT_SHAPE(rows, g->n);
    shown = dist_real(shape, *dtype);
    in = dist_full(shape, *dtype, g->me, 0);
    out = dist_full(TT_SHAPE(mine * g->n, g->n), *dtype, -1, 0);
    p = dist_prof_start();
    TT_REQUIRE_OK(tt_pg_all_to_all_single(g->pg, out, in, out_splits, in_splits, NULL, NULL));
    dist_prof_end(p, g, "all_to_all", 1, &shown, 1);
    for (int k = 0; k < g->n; k++)
        DIST_CHECK_FULL(tt_narrow(out, 0, k * mine, mine), TT_SHAPE(mine, g->n), g->ranks[k], 0);
}

static void all_to_all_list(const dist_group *g, const void *arg)
{
    const tt_dtype *dtype = arg;
    tt_tensor *ins[DIST_MAX], *outs[DIST_MAX];
    tt_shape shape = TT_SHAPE(g->me + 1, g->n);

    for (int k = 0; k < g->n; k++) {
        ins[k] = dist_full(TT_SHAPE(g->ranks[k] + 1, g->n), *dtype, g->me, 0);
        outs[k] = dist_full(shape, *dtype, -1, 0);
    }
    TT_REQUIRE_OK(tt_pg_all_to_all(g->pg, outs, ins, g->n, NULL, NULL));
    check_list(g, outs, shape);
}

/* ---- bool ------------------------------------------------------------------------------------ */

static tt_tensor *two_bools(bool a, bool b)
{
    return tt_to_device(tt_from_data((const bool[]){ a, b }, TT_SHAPE(2), TT_BOOL), dist_device());
}

/* To everybody, or with `arg` to rank 0. */
static void bool_reduce(const dist_group *g, const void *arg)
{
    static const tt_reduce_op ops[] = { TT_REDUCE_PRODUCT, TT_REDUCE_MIN, TT_REDUCE_SUM,
                                        TT_REDUCE_MAX };

    for (int all_true = 0; all_true < 2; all_true++)
        for (int i = 0; i < 4; i++)
            TT_SCOPE {
                tt_coll_options opt = { .op = ops[i] };
                bool mine = all_true != 0 || g->me % 2 == 0, want = all_true != 0 || i >= 2;
                tt_tensor *t = two_bools(mine, mine);

                if (arg != NULL)
                    TT_REQUIRE_OK(tt_pg_reduce(g->pg, t, 0, &opt, NULL));
                else
                    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, t, &opt, NULL));
                if (arg == NULL || g->me == 0)
                    TT_CHECK(tt_equal(t, two_bools(want, want)));
            }
}

static void bool_all_gather(const dist_group *g, const void *arg)
{
    tt_tensor *outs[DIST_MAX], *in = two_bools(g->me % 2 == 0, true);

    (void)arg;
    for (int i = 0; i < g->n; i++)
        outs[i] = two_bools(false, false);
    TT_REQUIRE_OK(tt_pg_all_gather(g->pg, in, outs, g->n, NULL, NULL));
    for (int i = 0; i < g->n; i++)
        TT_CHECK(tt_equal(outs[i], two_bools(i % 2 == 0, true)));
    TT_CHECK(tt_equal(in, two_bools(g->me % 2 == 0, true)));
}

static void bool_broadcast(const dist_group *g, const void *arg)
{
    uint64_t seed = tt_test_seed() + (uint64_t)g->me;
    bool random[10];
    tt_tensor *outs[DIST_MAX], *t;

    (void)arg;
    for (int i = 0; i < 10; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        random[i] = (seed >> 40) % 2 != 0;
    }
    t = tt_to_device(tt_from_data(random, TT_SHAPE(10), TT_BOOL), dist_device());
    for (int i = 0; i < g->n; i++)
        outs[i] = tt_zeros(TT_SHAPE(10), TT_BOOL, dist_device());
    TT_REQUIRE_OK(tt_pg_broadcast(g->pg, t, 0, NULL, NULL));
    if (g->me == 0)
        TT_CHECK(tt_equal(tt_to_device(t, TT_CPU), tt_from_data(random, TT_SHAPE(10), TT_BOOL)));
    TT_REQUIRE_OK(tt_pg_all_gather(g->pg, t, outs, g->n, NULL, NULL));
    for (int i = 0; i < g->n; i++)
        TT_CHECK(tt_equal(outs[i], outs[0]));
    TT_CHECK(tt_equal(t, outs[0]));
}

/* ---- futures --------------------------------------------------------------------------------- */

/* Every tensor of the result times ctx[0] plus ctx[1]. */
static tt_value *scale(void *ctx, tt_future *f)
{
    const double *by = ctx;
    tt_value *in = tt_future_value(f), *out = tt_value_list_new();

    if (in == NULL)
        return NULL;
    for (size_t i = 0; i < tt_value_count(in); i++)
        TT_SCOPE {
            tt_tensor *t = tt_value_as_tensor(tt_value_at(in, i));

            (void)tt_value_list_give(
                out, tt_value_tensor_new(tt_add_scalar(tt_mul_scalar(t, by[0]), by[1])));
        }
    return out;
}

static void get_future(const dist_group *g, const void *arg)
{
    double times3[] = { 3, 0 }, plus1[] = { 1, 1 };
    tt_tensor *t = dist_full(dist_cube(3), TT_F32, 2, 0);
    tt_future *first, *second, *third;
    tt_work *w;

    (void)arg;
    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, t, NULL, &w));
    first = tt_work_future(w);
    second = tt_future_then(first, scale, times3);
    third = tt_future_then(second, scale, plus1);
    TT_REQUIRE_OK(tt_future_wait(third, 0));
    TT_CHECK(tt_future_done(first) && tt_future_done(second));
    TT_CHECK_EQ(tt_value_count(tt_future_value(third)), 1);
    DIST_CHECK_FULL(tt_value_as_tensor(tt_value_at(tt_future_value(third), 0)), dist_cube(3),
                    2 * g->n * 3 + 1, 0);
    tt_future_free(third);
    tt_future_free(second);
    tt_future_free(first);
    tt_work_free(w);
}

static const dist_row rows[] = {
    { "test_broadcast", broadcast, DIST_WORLD, NULL, 0 },
    { "test_broadcast_group", broadcast, DIST_SUB, NULL, 0 },
    { "test_broadcast_full_group", broadcast, DIST_FULL, NULL, 0 },
    { "test_scatter_checks", scatter_checks, DIST_WORLD, NULL, 0 },
    { "test_scatter", scatter, DIST_WORLD, &f32, 0 },
    { "test_scatter_complex", scatter, DIST_WORLD, &c64, 0 },
    { "test_scatter_group", scatter, DIST_SUB, &f32, 0 },
    { "test_scatter_full_group", scatter, DIST_FULL, &f32, 0 },
    { "test_gather_checks", gather_checks, DIST_WORLD, NULL, 0 },
    { "test_gather", gather, DIST_WORLD, &f32, 0 },
    { "test_gather_group", gather, DIST_SUB, &f32, 0 },
    { "test_gather_full_group", gather, DIST_FULL, &f32, 0 },
    { "test_all_gather", all_gather, DIST_WORLD, &f32, 0 },
    { "test_all_gather_complex", all_gather, DIST_WORLD, &c64, 0 },
    { "test_all_gather_group", all_gather, DIST_SUB, &f32, 0 },
    { "test_all_gather_full_group", all_gather, DIST_FULL, &f32, 0 },
    { "test_all_gather_coalesced_simple", all_gather_coalesced, DIST_WORLD, &f32, 0 },
    { "test_all_gather_coalesced_complex", all_gather_coalesced, DIST_WORLD, &c64, 0 },
    { "test_all_gather_coalesced_group", all_gather_coalesced, DIST_SUB, &f32, 0 },
    { "test_all_gather_coalesced_full_group", all_gather_coalesced, DIST_FULL, &f32, 0 },
    { "test_all_gather_coalesced_with_empty", all_gather_with_empty, DIST_WORLD, NULL, 0 },
    { "test_all_to_all_single_equal_split", all_to_all_equal, DIST_WORLD, &f32, 0 },
    { "test_all_to_all_single_equal_split_complex", all_to_all_equal, DIST_WORLD, &c64, 0 },
    { "test_all_to_all_single_equal_split_group", all_to_all_equal, DIST_SUB, &f32, 0 },
    { "test_all_to_all_single_equal_split_full_group", all_to_all_equal, DIST_FULL, &f32, 0 },
    { "test_all_to_all_single_unequal_split", all_to_all_unequal, DIST_WORLD, &f32, 0 },
    { "test_all_to_all_single_unequal_split_complex", all_to_all_unequal, DIST_WORLD, &c64, 0 },
    { "test_all_to_all_single_unequal_split_group", all_to_all_unequal, DIST_SUB, &f32, 0 },
    { "test_all_to_all_single_unequal_split_full_group", all_to_all_unequal, DIST_FULL, &f32, 0 },
    { "test_all_to_all", all_to_all_list, DIST_WORLD, &f32, 0 },
    { "test_all_to_all_complex", all_to_all_list, DIST_WORLD, &c64, 0 },
    { "test_all_to_all_group", all_to_all_list, DIST_SUB, &f32, 0 },
    { "test_all_to_all_full_group", all_to_all_list, DIST_FULL, &f32, 0 },
    { "test_get_future", get_future, DIST_WORLD, NULL, 0 },
};

static const dist_row on_devices[] = {
    { "test_all_to_all_single_equal_split_cuda_complex", all_to_all_equal, DIST_WORLD, &c64, 0 },
    { "test_all_to_all_single_equal_split_full_group_cuda", all_to_all_equal, DIST_FULL, &f32, 0 },
    { "test_all_to_all_single_unequal_split_cuda_complex", all_to_all_unequal, DIST_WORLD, &c64,
      0 },
    { "test_all_to_all_single_unequal_split_group_cuda", all_to_all_unequal, DIST_SUB, &f32, 0 },
    { "test_all_gather_v_cuda", all_gather_v, DIST_WORLD, NULL, 0 },
    { "test_all_gather_into_cat_tensor_cuda", all_gather_into, DIST_WORLD, NULL, 0 },
    { "test_all_gather_into_stack_tensor_cuda", all_gather_into, DIST_WORLD, &f32, 0 },
    { "test_reduce_scatter_v_cuda", reduce_scatter_v, DIST_WORLD, NULL, 0 },
    { "test_reduce_scatter_tensor_cuda", reduce_scatter_tensor, DIST_WORLD, NULL, 0 },
    { "test_broadcast_cuda", broadcast, DIST_WORLD, NULL, 0 },
    { "test_scatter_cuda", scatter, DIST_WORLD, &f32, 0 },
    { "test_scatter_cuda_complex", scatter, DIST_WORLD, &c64, 0 },
    { "test_gather_cuda", gather, DIST_WORLD, &f32, 0 },
    { "test_all_gather_cuda", all_gather, DIST_WORLD, &f32, 0 },
    { "test_all_gather_cuda_complex", all_gather, DIST_WORLD, &c64, 0 },
    { "test_all_to_all_single_equal_split_cuda", all_to_all_equal, DIST_WORLD, &f32, 0 },
    { "test_all_to_all_single_equal_split_group_cuda", all_to_all_equal, DIST_SUB, &f32, 0 },
    { "test_all_to_all_single_unequal_split_cuda", all_to_all_unequal, DIST_WORLD, &f32, 0 },
    { "test_all_to_all_single_unequal_split_full_group_cuda", all_to_all_unequal, DIST_FULL, &f32,
      0 },
    { "test_all_to_all_cuda", all_to_all_list, DIST_WORLD, &f32, 0 },
    { "test_all_to_all_cuda_complex", all_to_all_list, DIST_WORLD, &c64, 0 },
    { "test_all_to_all_group_cuda", all_to_all_list, DIST_SUB, &f32, 0 },
    { "test_all_to_all_full_group_cuda", all_to_all_list, DIST_FULL, &f32, 0 },
    { "test_nccl_backend_bool_allreduce", bool_reduce, DIST_WORLD, NULL, 0 },
    { "test_nccl_backend_bool_reduce", bool_reduce, DIST_WORLD, &f32, 0 },
    { "test_nccl_backend_bool_allgather", bool_all_gather, DIST_WORLD, NULL, 0 },
    { "test_nccl_backend_bool_broadcast", bool_broadcast, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS(rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}
