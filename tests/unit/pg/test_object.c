/* SPDX-License-Identifier: Apache-2.0 */
/* Object collectives where the behaviours say nothing: sizes that differ much, mistakes, ranks without
 * memory, groups with other numbers. */
#include <stdio.h>
#include <string.h>

#include "tutti/collective.h"
#include "tutti/testing.h"

static tt_pg *group_of(const char *backend)
{
    char path[512];
    tt_store *store;
    tt_pg *pg;

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    pg = tt_pg_new_store(store, tt_test_rank(), tt_test_size(),
                         &(tt_pg_options){ .backend = backend, .timeout_ms = 30000 });
    tt_store_free(store);
    if (pg == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(pg);
    return pg;
}

/* After the others: a rank that leaves early is an error to them. */
static void leave(tt_pg *pg)
{
    tt_test_barrier();
    tt_pg_free(pg);
}

/* Bytes that say whose they are. */
static tt_value *bytes_of(int rank, size_t n)
{
    static _Thread_local char data[300000];

    TT_REQUIRE_LE(n, sizeof data);
    memset(data, 'a' + rank, n);
    return tt_value_bytes_new(data, n);
}

static void check_bytes(tt_value *got, int rank, size_t n)
{
    tt_value *want = bytes_of(rank, n);

    TT_CHECK(tt_value_equal(got, want));
    tt_value_free(want);
    tt_value_free(got);
}

static size_t size_of(int rank)
{
    static const size_t sizes[] = { 0, 300000, 1, 70000 };

    return sizes[rank % 4];
}

TT_TEST_THREADS(4, object, sizes_differ_from_rank_to_rank)
{
    tt_pg *pg = group_of("threads");
    int me = tt_test_rank(), n = tt_test_size();
    tt_value *mine = bytes_of(me, size_of(me)), *values[4] = { NULL }, *out = NULL;

    TT_REQUIRE_OK(tt_pg_all_gather_object(pg, mine, values, NULL));
    for (int i = 0; i < n; i++)
        check_bytes(values[i], i, size_of(i));
    for (int root = 0; root < n; root++) {
        bool is_root = me == root;

        memset(values, 0, sizeof values);
        TT_REQUIRE_OK(tt_pg_gather_object(pg, mine, is_root ? values : NULL, root, NULL));
        for (int i = 0; is_root && i < n; i++)
            TT_CHECK_EQ(tt_value_count(values[i]), size_of(i));
        TT_REQUIRE_OK(tt_pg_scatter_objects(pg, &out, 1, values, is_root ? n : 0, root, NULL));
        check_bytes(tt_value_retain(out), me, size_of(me));
        for (int i = 0; i < n; i++)
            tt_value_free(values[i]);
    }
    tt_value_free(out);
    tt_value_free(mine);
    leave(pg);
}

TT_TEST_THREADS(3, object, a_sub_group_has_its_own_numbers)
{
    static const int ranks[] = { 2, 1 };
    tt_pg *world = group_of("threads"), *pg = tt_pg_subgroup(world, ranks, 2, NULL);
    int me = tt_test_rank();
    tt_coll_options global = { .global_ranks = true };
    tt_value *mine = tt_value_int_new(me), *values[2] = { NULL };

    TT_REQUIRE_OK(tt_pg_gather_object(pg, mine, me == 1 ? values : NULL, 1, &global));
    if (me == 1) {
        TT_CHECK_EQ(tt_value_as_int(values[0]), 2);
        TT_CHECK_EQ(tt_value_as_int(values[1]), 1);
    } else {
        TT_CHECK_NULL(values[0]);
    }
    tt_value_free(values[0]);
    tt_value_free(values[1]);
    /* Who is in no group does nothing. */
    values[0] = tt_value_retain(mine);
    TT_REQUIRE_OK(tt_pg_broadcast_objects(pg, values, 1, 0, NULL));
    TT_CHECK_EQ(tt_value_as_int(values[0]), me == 0 ? 0 : 2);
    tt_value_free(values[0]);
    tt_value_free(mine);
    tt_test_barrier();
    tt_pg_free(pg);
    leave(world);
}

TT_TEST_THREADS(2, object, mistakes_are_refused_before_anything_is_sent)
{
    tt_pg *pg = group_of("threads");
    tt_value *v = tt_value_int_new(1), *values[2] = { NULL };
    int me = tt_test_rank();

    TT_CHECK_ERR(tt_pg_all_gather_object(NULL, v, values, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_pg_all_gather_object(pg, v, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_pg_gather_object(pg, v, values, 2, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_pg_gather_object(pg, v, me == 0 ? NULL : values, 0, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_pg_broadcast_objects(pg, NULL, 1, 0, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_pg_broadcast_objects(pg, values, -1, 0, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_pg_scatter_objects(pg, values, 0, &v, 1, 0, NULL), TT_ERR_INVALID);
    if (me == 0)
        TT_CHECK_ERR_SAYS(tt_pg_scatter_objects(pg, values, 1, &v, 1, 0, NULL), TT_ERR_INVALID,
                          "expected 2 values");
    TT_REQUIRE_OK(tt_pg_coalesce_begin(pg));
    TT_CHECK_ERR_SAYS(tt_pg_all_gather_object(pg, v, values, NULL), TT_ERR_INVALID, "coalescing");
    tt_pg_coalesce_cancel(pg);
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    tt_value_free(v);
    leave(pg);
}

/* One rank cannot make its bytes: it says so, and the group works on. */
TT_TEST_THREADS(3, object, a_rank_without_memory_tells_the_others)
{
    tt_pg *pg = group_of("threads");
    int me = tt_test_rank();
    tt_value *mine = tt_value_int_new(me), *values[3] = { NULL };

    if (me == 1)
        tt_debug_fail_alloc(3); /* after the lists of sizes and outputs */
    TT_CHECK_ERR_SAYS(tt_pg_all_gather_object(pg, mine, values, NULL),
                      me == 1 ? TT_ERR_NOMEM : TT_ERR_PEER, me == 1 ? "" : "rank 1 failed");
    tt_debug_fail_alloc(0);
    TT_REQUIRE_OK(tt_pg_all_gather_object(pg, mine, values, NULL));
    for (int i = 0; i < 3; i++) {
        TT_CHECK_EQ(tt_value_as_int(values[i]), i);
        tt_value_free(values[i]);
    }
    tt_value_free(mine);
    leave(pg);
}

/* Of a world of one, nothing is left behind whichever allocation fails. */
static tt_status all_of_them(tt_pg *pg)
{
    tt_value *mine = tt_value_text_new("tutti"), *out = NULL, *got = NULL;
    tt_status st = mine != NULL ? tt_pg_all_gather_object(pg, mine, &got, NULL) : TT_ERR_NOMEM;

    tt_value_free(got);
    got = NULL;
    if (st == TT_OK)
        st = tt_pg_gather_object(pg, mine, &got, 0, NULL);
    tt_value_free(got);
    if (st == TT_OK)
        st = tt_pg_broadcast_objects(pg, &mine, 1, 0, NULL);
    if (st == TT_OK)
        st = tt_pg_scatter_objects(pg, &out, 1, &mine, 1, 0, NULL);
    tt_value_free(out);
    tt_value_free(mine);
    return st;
}

/* A group is broken once a collective has failed, so each attempt has its own. */
TT_TEST(object, survives_every_failed_allocation)
{
    tt_status st = TT_ERR_NOMEM;
    uint64_t n = 0;

    while (st != TT_OK && n++ < 200) {
        tt_pg *pg = group_of("threads");

        tt_debug_fail_alloc(n);
        st = all_of_them(pg);
        tt_debug_fail_alloc(0);
        if (st != TT_OK)
            TT_CHECK_EQ(st, TT_ERR_NOMEM);
        tt_pg_free(pg);
    }
    TT_CHECK_OK(st);
    TT_CHECK_GT(n, 20);
}
