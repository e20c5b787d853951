/* SPDX-License-Identifier: Apache-2.0 */
/* Nested values and sparse tensors that ranks of a world send each other. */
#include "tutti/sparse.h"
#include "world/distributed.h"

enum { N_KINDS = 5 };

/* {"key1": 3, "key2": 4, "key3": {"nested": true}} */
static tt_value *nested_map(void)
{
    tt_value *v = tt_value_map_new(), *inner = tt_value_map_new();

    TT_CHECK_OK(tt_value_map_give(inner, "nested", tt_value_bool_new(true)));
    TT_CHECK_OK(tt_value_map_give(v, "key1", tt_value_int_new(3)));
    TT_CHECK_OK(tt_value_map_give(v, "key2", tt_value_int_new(4)));
    TT_CHECK_OK(tt_value_map_give(v, "key3", inner));
    return v;
}

static tt_value *record(bool tensor)
{
    tt_value *v = tt_value_record_new(tensor ? "FooWithTensor" : "Foo");

    TT_CHECK_OK(tt_value_map_give(v, "bar", tt_value_int_new(10)));
    if (!tensor)
        TT_CHECK_OK(tt_value_map_give(v, "baz", tt_value_int_new(-1)));
    else
        TT_SCOPE {
            tt_tensor *t = tt_reshape(tt_arange(0, 9, 1, TT_F32, TT_CPU), TT_SHAPE(3, 3));

            TT_CHECK_OK(tt_value_map_give(v, "t", tt_value_tensor_new(t)));
        }
    return v;
}

static tt_value *nested_list(void)
{
    tt_value *v = tt_value_list_new(), *inner = tt_value_list_new();

    TT_CHECK_OK(tt_value_list_give(inner, tt_value_text_new("inner")));
    TT_CHECK_OK(tt_value_list_give(inner, tt_value_null_new()));
    TT_CHECK_OK(tt_value_list_give(v, inner));
    TT_CHECK_OK(tt_value_list_give(v, tt_value_float_new(2.5)));
    TT_CHECK_OK(tt_value_list_give(v, nested_map()));
    return v;
}

static tt_value *object(int i)
{
    switch (i % N_KINDS) {
    case 0:
        return nested_map();
    case 1:
        return record(false);
    case 2:
        return record(true);
    case 3:
        return tt_value_text_new("foo");
    default:
        return nested_list();
    }
}

/* Takes over what came. */
static void check_object(tt_value *got, int i)
{
    tt_value *want = object(i);
    char *text = tt_value_text(got);

    if (!tt_value_equal(got, want))
        TT_FAIL_TEST("object %d arrived as %s", i, text);
    tt_text_free(text);
    tt_value_free(want);
    tt_value_free(got);
}

/* ---- gathering ---------------------------------------------------------------------------------- */

static const tt_debug_level levels[] = { TT_DEBUG_DETAIL, TT_DEBUG_OFF, TT_DEBUG_INFO };

static void all_gather_object(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int l = 0; l < 3; l++) {
        tt_value *values[DIST_MAX] = { NULL }, *mine = object(g->me);

        tt_set_debug_level(levels[l]);
        TT_REQUIRE_OK(tt_pg_all_gather_object(g->pg, mine, values, NULL));
        for (int i = 0; i < g->n; i++)
            check_object(values[i], i);
        tt_value_free(mine);
    }
}

static const tt_opaque_class ticket = { .type_name = "Ticket" };

/* An opaque value on some ranks fails on all: with its place there, with the rank elsewhere. */
static void gather_opaque(const dist_group *g, bool everybody)
{
    tt_value *values[DIST_MAX] = { NULL }, *mine = tt_value_list_new();
    bool bad = everybody || g->me == 1;

    TT_CHECK_OK(
        tt_value_list_give(mine, bad ? tt_value_opaque_new(&ticket, mine) : tt_value_int_new(1)));
    TT_CHECK_ERR_SAYS(tt_pg_gather_object(g->pg, mine, g->me == 0 ? values : NULL, 0, NULL),
                      TT_ERR_FORMAT, bad ? "list[0]" : "rank 1");
    for (int i = 0; i < g->n; i++)
        TT_CHECK_NULL(values[i]);
    tt_value_free(mine);
}

static void gather_object(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int l = 0; l < 3; l++) {
        tt_value *values[DIST_MAX] = { NULL }, *mine = object(g->me);

        tt_set_debug_level(levels[l]);
        TT_REQUIRE_OK(tt_pg_gather_object(g->pg, mine, g->me == 0 ? values : NULL, 0, NULL));
        for (int i = 0; i < g->n; i++)
            if (g->me == 0)
                check_object(values[i], i);
            else
                TT_CHECK_NULL(values[i]);
        tt_value_free(mine);
        gather_opaque(g, true);
        gather_opaque(g, false);
    }
    /* The group works on. */
    TT_CHECK_OK(tt_pg_barrier(g->pg, NULL, NULL));
}

/* ---- from one rank ------------------------------------------------------------------------------ */

static void broadcast_list(const dist_group *g, int n, const tt_coll_options *opt)
{
    tt_value *values[N_KINDS] = { NULL };

    for (int i = 0; i < n; i++)
        values[i] = g->me == 0 ? object(i) : tt_value_null_new();
    TT_REQUIRE_OK(tt_pg_broadcast_objects(g->pg, values, n, 0, opt));
    for (int i = 0; i < n; i++)
        check_object(values[i], i);
}

static void broadcast_object_list(const dist_group *g, const void *arg)
{
    tt_value *bad;

    (void)arg;
    tt_set_debug_level(TT_DEBUG_DETAIL);
    broadcast_list(g, 1, &dist_global);
    broadcast_list(g, 1, NULL);
    broadcast_list(g, N_KINDS, NULL);
    broadcast_list(g, 0, NULL);
    bad = g->me == 0 ? tt_value_opaque_new(&ticket, &bad) : NULL;
    TT_CHECK_ERR_SAYS(tt_pg_broadcast_objects(g->pg, &bad, 1, 0, NULL), TT_ERR_FORMAT,
                      g->me == 0 ? "Ticket" : "rank 0");
    tt_value_free(bad);
    broadcast_list(g, 2, NULL);
}

static void scatter_object_list(const dist_group *g, const void *arg)
{
    tt_value *values[DIST_MAX] = { NULL }, *out = NULL;
    bool root = g->me == 0;

    (void)arg;
    for (int i = 0; root && i < g->n; i++)
        values[i] = object(i);
    for (int twice = 0; twice < 2; twice++) {
        TT_REQUIRE_OK(
            tt_pg_scatter_objects(g->pg, &out, 1, root ? values : NULL, root ? g->n : 0, 0, NULL));
        check_object(tt_value_retain(out), g->me); /* the second call frees what the first gave */
    }
    tt_value_free(out);
    TT_CHECK_ERR_SAYS(
        tt_pg_scatter_objects(g->pg, &out, 0, root ? values : NULL, root ? g->n : 0, 0, NULL),
        TT_ERR_INVALID, "at least one slot");
    for (int i = 0; i < g->n; i++)
        tt_value_free(values[i]);
}

/* ---- sparse ------------------------------------------------------------------------------------- */

/* Ones at 0 .. rank of the first dimension and 0 of the others; sizes are W and then 2. */
static tt_tensor *sparse_ones(int rank, int world, int sparse_dims, int dense_dims)
{
    tt_shape shape = { .n_dims = sparse_dims + dense_dims };
    tt_shape values = { .n_dims = 1 + dense_dims, .dims = { rank + 1 } };
    tt_tensor *indices = tt_zeros(TT_SHAPE(sparse_dims, rank + 1), TT_I64, dist_device());

    for (int i = 0; i < sparse_dims; i++)
        shape.dims[i] = world;
    for (int i = 0; i < dense_dims; i++)
        shape.dims[sparse_dims + i] = values.dims[1 + i] = 2;
    tt_copy_(tt_select(indices, 0, 0), tt_arange(0, rank + 1, 1, TT_I64, dist_device()));
    return tt_sparse_coo(indices, tt_ones(values, TT_F32, dist_device()), shape);
}

static void sparse_all_reduce(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int k = 0; k < 12; k++)
        TT_SCOPE {
            int sparse_dims = k % 6 < 3 ? k % 6 + 1 : 1, dense_dims = k % 6 < 3 ? 0 : k % 6 - 2;
            tt_tensor *t = sparse_ones(g->me, g->n, sparse_dims, dense_dims);
            tt_tensor *want = tt_to_dense(sparse_ones(0, g->n, sparse_dims, dense_dims));
            tt_work *w = NULL;

            for (int i = 1; i < g->n; i++)
                want = tt_add(want, tt_to_dense(sparse_ones(i, g->n, sparse_dims, dense_dims)));
            TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, t, NULL, k < 6 ? NULL : &w));
            if (w != NULL)
                TT_REQUIRE_OK(tt_work_wait(w, 0));
            tt_work_free(w);
            TT_CHECK(tt_tensor_is_sparse(t) && tt_sparse_is_coalesced(t));
            TT_CHECK_EQ(tt_sparse_nnz(t), g->n);
            TT_CHECK(tt_equal(tt_to_dense(t), want));
        }
    TT_SCOPE {
        tt_tensor *t = sparse_ones(g->me, g->n, 1, 0);

        TT_CHECK_ERR_SAYS(
            tt_pg_all_reduce(g->pg, t, &(tt_coll_options){ .op = TT_REDUCE_MAX }, NULL),
            TT_ERR_INVALID, "sparse");
        t = sparse_ones(g->me, g->me == 1 ? g->n + 1 : g->n, 1, 0);
        TT_CHECK_ERR_SAYS(tt_pg_all_reduce(g->pg, t, NULL, NULL), TT_ERR_INVALID,
                          "differ in shape or type");
    }
}

static const dist_row rows[] = {
    { "test_all_gather_object_default_pg", all_gather_object, DIST_WORLD, NULL, 0 },
    { "test_all_gather_object_subgroup", all_gather_object, DIST_FULL, NULL, 0 },
    { "test_gather_object", gather_object, DIST_WORLD, NULL, 4 },
    { "test_gather_object_subgroup", gather_object, DIST_FULL, NULL, 4 },
    { "test_broadcast_object_list", broadcast_object_list, DIST_WORLD, NULL, 0 },
    { "test_scatter_object_list", scatter_object_list, DIST_WORLD, NULL, 0 },
    { "test_sparse_all_reduce_sum", sparse_all_reduce, DIST_WORLD, NULL, 0 },
};

static const dist_row on_devices[] = {
    { "test_sparse_all_reduce_sum_cuda", sparse_all_reduce, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS(rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}
