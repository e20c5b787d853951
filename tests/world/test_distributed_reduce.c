/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of a world: reduce, all_reduce, their coalesced forms, and coalescing scopes. */
#include <math.h>

#include "world/distributed.h"

/* One member, called the source, has another value than the rest. */
typedef struct reduction {
    tt_reduce_op op;
    tt_dtype dtype;
    double source, other;       /* real parts */
    double source_im, other_im; /* of complex tensors */
    double want;                /* for min and max */
    bool async, twice;
} reduction;

static const reduction sum = { TT_REDUCE_SUM, TT_F32, 2, 10, 0, 0, 0, false, false };
static const reduction sum_async = { TT_REDUCE_SUM, TT_F32, 2, 10, 0, 0, 0, true, false };
static const reduction sum_twice = { TT_REDUCE_SUM, TT_F32, 2, 10, 0, 0, 0, false, true };
static const reduction sum_complex = { TT_REDUCE_SUM, TT_C64, 2, 10, 3, 11, 0, false, false };
static const reduction product = { TT_REDUCE_PRODUCT, TT_F32, 2, 10, 0, 0, 0, false, false };
static const reduction least = { TT_REDUCE_MIN, TT_F32, 1010, 1, 0, 0, 1, false, false };
static const reduction most = { TT_REDUCE_MAX, TT_F32, -1, 10, 0, 0, 10, false, false };

static tt_tensor *input(const dist_group *g, const reduction *r, int source)
{
    bool mine = g->me == source;

    return dist_full(dist_cube(source + 1), r->dtype, mine ? r->source : r->other,
                     mine ? r->source_im : r->other_im);
}

static void check_result(const dist_group *g, const reduction *r, int source, tt_tensor *t)
{
    double re = r->want, im = 0;

    if (r->op == TT_REDUCE_SUM) {
        re = r->source + r->other * (g->n - 1);
        im = r->source_im + r->other_im * (g->n - 1);
    } else if (r->op == TT_REDUCE_PRODUCT) {
        re = r->source * pow(r->other, g->n - 1);
    }
    DIST_CHECK_FULL(t, dist_cube(source + 1), re, im);
}

static void reduce(const dist_group *g, const void *arg)
{
    const reduction *r = arg;
    tt_coll_options opt = { .op = r->op, .global_ranks = true };
    int calls = r->twice ? 2 : 1;

    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            int source = g->ranks[k];
            tt_shape shape = dist_cube(source + 1);
            tt_tensor *ts[] = { input(g, r, source), input(g, r, source) };
            tt_prof *p = dist_prof_start();

            for (int i = 0; i < calls; i++)
                TT_REQUIRE_OK(tt_pg_reduce(g->pg, ts[i], source, &opt, NULL));
            dist_prof_end(p, g, "reduce", calls, &shape, 1);
            for (int i = 0; i < calls && g->me == source; i++)
                check_result(g, r, source, ts[i]);
            if (g->me != source)
                DIST_CHECK_FULL(ts[0], shape, r->other, 0);
        }
}

static void all_reduce(const dist_group *g, const void *arg)
{
    const reduction *r = arg;
    tt_coll_options opt = { .op = r->op };

    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            int source = g->ranks[k];
            tt_shape shape = dist_real(dist_cube(source + 1), r->dtype);
            tt_tensor *t = input(g, r, source);
            tt_prof *p = dist_prof_start();
            tt_work *w = NULL;

            TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, t, &opt, r->async ? &w : NULL));
            if (r->async) {
                TT_REQUIRE_OK(tt_work_wait(w, 0));
                TT_CHECK(tt_work_done(w));
                TT_CHECK_STR(tt_work_op(w), "all_reduce");
            }
            tt_work_free(w);
            dist_prof_end(p, g, "all_reduce", 1, &shape, 1);
            check_result(g, r, source, t);
        }
}

static const reduction sums[] = {
    { TT_REDUCE_SUM, TT_F32, 2, 10, 0, 0, 0, false, false },
    { TT_REDUCE_SUM, TT_F32, 3, 11, 0, 0, 0, false, false },
    { TT_REDUCE_SUM, TT_C64, 2, 10, 3, 11, 0, false, false },
    { 0 },
};
static const reduction products[] = {
    { TT_REDUCE_PRODUCT, TT_F32, 1, 3, 0, 0, 0, false, false },
    { TT_REDUCE_PRODUCT, TT_F32, 2, 4, 0, 0, 0, false, false },
    { 0 },
};
static const reduction leasts[] = {
    { TT_REDUCE_MIN, TT_F32, 1, 2, 0, 0, 1, false, false },
    { TT_REDUCE_MIN, TT_F32, 4, 3, 0, 0, 3, false, false },
    { 0 },
};
static const reduction mosts[] = {
    { TT_REDUCE_MAX, TT_F32, 1, 2, 0, 0, 2, false, false },
    { TT_REDUCE_MAX, TT_F32, 4, 3, 0, 0, 4, false, false },
    { 0 },
};

/* A list that ends with a row of zeros. */
static void coalesced(const dist_group *g, const void *arg)
{
    const reduction *rs = arg;
    tt_coll_options opt = { .op = rs[0].op };
    int n = 0;

    while (rs[n].other > 0)
        n++;
    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            int source = g->ranks[k];
            tt_tensor *ts[3];
            tt_shape shapes[3];
            tt_prof *p;

            for (int i = 0; i < n; i++) {
                ts[i] = input(g, &rs[i], source);
                shapes[i] = dist_real(dist_cube(source + 1), rs[i].dtype);
            }
            p = dist_prof_start();
            TT_REQUIRE_OK(tt_pg_all_reduce_coalesced(g->pg, ts, n, &opt, NULL));
            dist_prof_end(p, g, "all_reduce", 1, shapes, n);
            for (int i = 0; i < n; i++)
                check_result(g, &rs[i], source, ts[i]);
        }
}

static void coalescing_scope(const dist_group *g, const void *arg)
{
    const bool *async = arg;
    tt_tensor *small[] = { tt_ones(TT_SHAPE(8), TT_F32, dist_device()),
                           tt_ones(TT_SHAPE(8), TT_F32, dist_device()) };
    tt_tensor *big = tt_ones(TT_SHAPE(16), TT_F32, dist_device());
    tt_work *w = NULL;

    TT_REQUIRE_OK(tt_pg_coalesce_begin(g->pg));
    for (int i = 0; i < 2; i++)
        TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, small[i], NULL, NULL));
    TT_REQUIRE_OK(tt_pg_coalesce_end(g->pg, *async ? &w : NULL));
    if (*async)
        TT_REQUIRE_OK(tt_work_wait(w, 0));
    tt_work_free(w);
    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, big, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        TT_CHECK(tt_equal(small[i], tt_narrow(big, 0, 8 * i, 8)));
        DIST_CHECK_FULL(small[i], TT_SHAPE(8), g->n, 0);
    }
}

static void complex_unsupported(const dist_group *g, const void *arg)
{
    static const tt_reduce_op ops[] = { TT_REDUCE_MAX,  TT_REDUCE_MIN, TT_REDUCE_PRODUCT,
                                        TT_REDUCE_BAND, TT_REDUCE_BOR, TT_REDUCE_BXOR };
    const bool *list = arg;
    tt_tensor *t = dist_full(dist_cube(1), TT_C64, 1, 2);

    for (int i = 0; i < (*list ? 1 : 6); i++) {
        tt_coll_options opt = { .op = ops[i] };

        if (*list)
            TT_CHECK_ERR_SAYS(tt_pg_all_reduce_coalesced(g->pg, &t, 1, &opt, NULL), TT_ERR_INVALID,
                              "all_reduce");
        else
            TT_CHECK_ERR_SAYS(tt_pg_all_reduce(g->pg, t, &opt, NULL), TT_ERR_INVALID, "all_reduce");
        TT_CHECK_CONTAINS(tt_last_error(), "complex");
        TT_CHECK_CONTAINS(tt_last_error(), tt_reduce_op_name(ops[i]));
    }
    DIST_CHECK_FULL(t, dist_cube(1), 1, 2);
}

static const bool yes = true, no = false;

static const dist_row rows[] = {
    { "test_reduce_sum", reduce, DIST_WORLD, &sum, 0 },
    { "test_reduce_product", reduce, DIST_WORLD, &product, 0 },
    { "test_reduce_min", reduce, DIST_WORLD, &least, 0 },
    { "test_reduce_max", reduce, DIST_WORLD, &most, 0 },
    { "test_reduce_sum_twice", reduce, DIST_WORLD, &sum_twice, 0 },
    { "test_reduce_group_sum", reduce, DIST_SUB, &sum, 0 },
    { "test_reduce_group_product", reduce, DIST_SUB, &product, 0 },
    { "test_reduce_group_min", reduce, DIST_SUB, &least, 0 },
    { "test_reduce_group_max", reduce, DIST_SUB, &most, 0 },
    { "test_reduce_full_group_sum", reduce, DIST_FULL, &sum, 0 },
    { "test_reduce_full_group_product", reduce, DIST_FULL, &product, 0 },
    { "test_reduce_full_group_min", reduce, DIST_FULL, &least, 0 },
    { "test_reduce_full_group_max", reduce, DIST_FULL, &most, 0 },
    { "test_all_reduce_sum", all_reduce, DIST_WORLD, &sum, 0 },
    { "test_all_reduce_sum_async", all_reduce, DIST_WORLD, &sum_async, 0 },
    { "test_all_reduce_sum_complex", all_reduce, DIST_WORLD, &sum_complex, 0 },
    { "test_all_reduce_product", all_reduce, DIST_WORLD, &product, 0 },
    { "test_all_reduce_min", all_reduce, DIST_WORLD, &least, 0 },
    { "test_all_reduce_max", all_reduce, DIST_WORLD, &most, 0 },
    { "test_all_reduce_group_sum", all_reduce, DIST_SUB, &sum, 0 },
    { "test_all_reduce_group_product", all_reduce, DIST_SUB, &product, 0 },
    { "test_all_reduce_group_min", all_reduce, DIST_SUB, &least, 0 },
    { "test_all_reduce_group_max", all_reduce, DIST_SUB, &most, 0 },
    { "test_all_reduce_full_group_sum", all_reduce, DIST_FULL, &sum, 0 },
    { "test_all_reduce_full_group_product", all_reduce, DIST_FULL, &product, 0 },
    { "test_all_reduce_full_group_min", all_reduce, DIST_FULL, &least, 0 },
    { "test_all_reduce_full_group_max", all_reduce, DIST_FULL, &most, 0 },
    { "test_all_reduce_coalesced_sum", coalesced, DIST_WORLD, sums, 0 },
    { "test_all_reduce_coalesced_product", coalesced, DIST_WORLD, products, 0 },
    { "test_all_reduce_coalesced_min", coalesced, DIST_WORLD, leasts, 0 },
    { "test_all_reduce_coalesced_max", coalesced, DIST_WORLD, mosts, 0 },
    { "test_all_reduce_coalesced_group_sum", coalesced, DIST_SUB, sums, 0 },
    { "test_all_reduce_coalesced_group_product", coalesced, DIST_SUB, products, 0 },
    { "test_all_reduce_coalesced_group_min", coalesced, DIST_SUB, leasts, 0 },
    { "test_all_reduce_coalesced_group_max", coalesced, DIST_SUB, mosts, 0 },
    { "test_all_reduce_coalesced_full_group_sum", coalesced, DIST_FULL, sums, 0 },
    { "test_all_reduce_coalesced_full_group_product", coalesced, DIST_FULL, products, 0 },
    { "test_all_reduce_coalesced_full_group_min", coalesced, DIST_FULL, leasts, 0 },
    { "test_all_reduce_coalesced_full_group_max", coalesced, DIST_FULL, mosts, 0 },
    { "test_all_reduce_complex_unsupported_ops", complex_unsupported, DIST_WORLD, &no, 2 },
    { "test_all_reduce_coalesced_max_complex_unsupported", complex_unsupported, DIST_WORLD, &yes,
      2 },
    { "test_coalescing_manager", coalescing_scope, DIST_WORLD, &no, 0 },
    { "test_coalescing_manager_async", coalescing_scope, DIST_WORLD, &yes, 0 },
};

static const dist_row on_devices[] = {
    { "test_reduce_sum_cuda", reduce, DIST_WORLD, &sum, 0 },
    { "test_reduce_sum_cuda_twice", reduce, DIST_WORLD, &sum_twice, 0 },
    { "test_all_reduce_sum_cuda", all_reduce, DIST_WORLD, &sum, 0 },
    { "test_all_reduce_sum_cuda_async", all_reduce, DIST_WORLD, &sum_async, 0 },
    { "test_all_reduce_sum_cuda_complex", all_reduce, DIST_WORLD, &sum_complex, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS(rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}
