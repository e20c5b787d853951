/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: making them in every way, asking them, splitting them, grids of them, and operations on several tensors. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

enum { MS = 30000 };

/* Ranks that are threads, through a file of the test. */
static tt_pg *threads(const char *file, const tt_pg_options *opt)
{
    tt_pg_options o = opt != NULL ? *opt : (tt_pg_options){ 0 };
    char path[512];
    tt_store *store;
    tt_pg *pg;

    o.backend = "threads";
    o.timeout_ms = o.timeout_ms != 0 ? o.timeout_ms : MS;
    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), file);
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    pg = tt_pg_new_store(store, tt_test_rank(), tt_test_size(), &o);
    tt_store_free(store);
    TT_REQUIRE_NOT_NULL(pg);
    return pg;
}

/* The sum over a group of what each of its ranks gives. */
static double sum_over(tt_pg *pg, double mine)
{
    double got = -1;

    TT_SCOPE {
        tt_tensor *t = tt_full(TT_SHAPE(3), mine, TT_F64, TT_CPU);

        TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
        got = tt_item(tt_select(t, 0, 2));
    }
    return got;
}

/* ---- asking --------------------------------------------------------------------------------------- */

TT_TEST_THREADS(2, pg_group, knows_its_name_and_its_numbers)
{
    tt_pg *pg = threads("store", &(tt_pg_options){ .name = "pair", .desc = "both of us" });
    int ranks[2] = { 7, 7 };

    TT_CHECK_STR(tt_pg_name(pg), "pair");
    TT_CHECK_STR(tt_pg_desc(pg), "both of us");
    TT_CHECK_STR(tt_pg_backend(pg), "threads");
    TT_CHECK_EQ(tt_pg_rank(pg), tt_test_rank());
    TT_CHECK_EQ(tt_pg_size(pg), 2);
    TT_CHECK(tt_pg_is_member(pg));
    TT_CHECK_EQ(tt_pg_global_rank(pg, 1), 1);
    TT_CHECK_EQ(tt_pg_group_rank(pg, 0), 0);
    TT_CHECK_EQ(tt_pg_group_rank(pg, 2), -1);
    TT_CHECK_EQ(tt_pg_global_rank(pg, 2), -1);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_pg_seq(pg), 0);
    TT_CHECK(sum_over(pg, 2) == 4);
    TT_CHECK_EQ(tt_pg_seq(pg), 1);
    TT_CHECK_EQ(tt_pg_dead_ranks(pg, ranks), 0);
    TT_CHECK_NOT_NULL(tt_pg_store(pg));
    tt_pg_free(pg);
}

TT_TEST_THREADS(2, pg_group, a_new_time_out_counts_from_the_next_call)
{
    tt_pg *pg = threads("store", NULL);

    TT_CHECK_EQ(tt_pg_timeout(pg), MS);
    TT_CHECK_ERR(tt_pg_set_timeout(pg, -1), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_pg_timeout(pg), MS);
    TT_CHECK(sum_over(pg, 1) == 2);
    TT_CHECK_OK(tt_pg_set_timeout(pg, 120));
    TT_CHECK_EQ(tt_pg_timeout(pg), 120);
    if (tt_test_rank() == 0) {
        TT_CHECK_ERR_SAYS(tt_pg_barrier(pg, NULL, NULL), TT_ERR_TIMEOUT, "rank 1 did not");
        TT_CHECK_CONTAINS(tt_last_error(), "120 ms");
    }
    tt_test_barrier();
    tt_pg_free(pg);
}

TT_TEST_THREADS(3, pg_group, every_thread_has_a_default_of_its_own)
{
    char path[512];
    tt_store *store;
    tt_pg_options opt = { .backend = "threads", .timeout_ms = MS };

    TT_CHECK(!tt_pg_is_initialized());
    TT_CHECK_NULL(tt_pg_default());
    TT_CHECK_ERR(tt_pg_shutdown(), TT_ERR_INVALID);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
        store = tt_store_file_open(path);
        TT_REQUIRE_NOT_NULL(store);
        TT_REQUIRE_OK(tt_pg_init_store(store, tt_test_rank(), 3, &opt));
        TT_CHECK(tt_pg_is_initialized());
        TT_CHECK_EQ(tt_pg_rank(tt_pg_default()), tt_test_rank());
        TT_CHECK_ERR(tt_pg_init_store(store, tt_test_rank(), 3, &opt), TT_ERR_INVALID);
        TT_CHECK(sum_over(tt_pg_default(), tt_test_rank()) == 3);
        TT_CHECK_OK(tt_pg_shutdown());
        TT_CHECK(!tt_pg_is_initialized());
        TT_CHECK_ERR(tt_pg_shutdown(), TT_ERR_INVALID);
        tt_store_free(store);
    }
}

/* ---- making ---------------------------------------------------------------------------------------- */

TT_TEST_RANKS(2, pg_group, meets_at_a_file_again_and_again)
{
    char url[600];

    snprintf(url, sizeof url, "file://%s/meet?rank=%d&size=2", tt_test_tmpdir(), tt_test_rank());
    for (int i = 0; i < 3; i++) {
        tt_pg *pg = tt_pg_new(url, &(tt_pg_options){ .backend = "shm", .timeout_ms = MS });

        TT_REQUIRE_NOT_NULL(pg);
        TT_CHECK_EQ(tt_pg_rank(pg), tt_test_rank());
        TT_CHECK(sum_over(pg, tt_test_rank() + i) == 1 + 2 * i);
        tt_pg_free(pg);
    }
}

/* Rank 0 serves at a port that was free a moment ago. */
TT_TEST_RANKS(2, pg_group, meets_at_an_address)
{
    char url[128], path[512];
    FILE *f;
    int port = 0;

    snprintf(path, sizeof path, "%s/port", tt_test_tmpdir());
    if (tt_test_rank() == 0) {
        tt_store *probe =
            tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });

        TT_REQUIRE_NOT_NULL(probe);
        port = tt_store_tcp_port(probe);
        tt_store_free(probe);
        f = fopen(path, "w");
        TT_REQUIRE_NOT_NULL(f);
        fprintf(f, "%d\n", port);
        fclose(f);
    }
    tt_test_barrier();
    f = fopen(path, "r");
    TT_REQUIRE_NOT_NULL(f);
    TT_REQUIRE_EQ(fscanf(f, "%d", &port), 1);
    fclose(f);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?rank=%d&size=2", port, tt_test_rank());
    tt_pg *pg = tt_pg_new(url, &(tt_pg_options){ .backend = "SHM", .timeout_ms = MS });
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_STR(tt_pg_backend(pg), "shm");
    TT_CHECK(sum_over(pg, 1.5) == 3);
    tt_test_barrier(); /* rank 0 takes the store with it */
    tt_pg_free(pg);
}

TT_TEST(pg_group, bad_options_are_refused_with_words)
{
    tt_store *s = tt_store_memory_new();

    TT_CHECK_NULL(tt_pg_new_store(s, 0, 1, &(tt_pg_options){ .backend = "nccl" }));
    TT_CHECK_CONTAINS(tt_last_error(), "expected one of ");
    TT_CHECK_CONTAINS(tt_last_error(), "nccl");
    TT_CHECK_NULL(tt_pg_new_store(s, 0, 1, &(tt_pg_options){ .timeout_ms = -5 }));
    TT_CHECK_CONTAINS(tt_last_error(), "got -5");
    TT_CHECK_NULL(tt_pg_new_store(s, 0, 1, &(tt_pg_options){ .debug = (tt_debug_level)9 }));
    TT_CHECK_CONTAINS(tt_last_error(), "no debug level");
    TT_CHECK_NULL(tt_pg_new_store(s, 1, 1, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "got rank 1 of 1");
    TT_CHECK_NULL(tt_pg_new_store(s, -1, 2, NULL));
    TT_CHECK_NULL(tt_pg_new_store(s, 0, 0, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "got rank 0 of 0");
    TT_CHECK_NULL(tt_pg_new_store(NULL, 0, 1, &(tt_pg_options){ .backend = "shm" }));
    TT_CHECK_CONTAINS(tt_last_error(), "needs a store");
    TT_CHECK_NULL(tt_pg_new("gopher://here?rank=0&size=1", NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_pg_new("file:///nowhere/at/all?rank=2&size=2", NULL));
    TT_CHECK_EQ(tt_pg_count(), 0);
    tt_store_free(s);
}

/* A rank that thinks of another number of ranks is told so, whoever comes first. */
static void disagree(bool more_comes_first)
{
    bool more = tt_test_rank() == 1;
    char path[512];
    tt_store *store;

    snprintf(path, sizeof path, "%s/store%d", tt_test_tmpdir(), more_comes_first);
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    for (int turn = 0; turn < 2; turn++) {
        if ((more == more_comes_first) == (turn == 0)) {
            tt_pg *pg =
                tt_pg_new_store(store, tt_test_rank(), more ? 3 : 2,
                                &(tt_pg_options){ .backend = "threads", .timeout_ms = 400 });

            TT_CHECK_NULL(pg);
            TT_CHECK(tt_last_status() == TT_ERR_PEER || tt_last_status() == TT_ERR_TIMEOUT);
            TT_CHECK_CONTAINS(tt_last_error(), turn == 1 ? "world size of" : "group world");
        }
        tt_test_barrier();
    }
    tt_store_free(store);
}

TT_TEST_THREADS_LIMIT(2, pg_group, ranks_that_disagree_on_their_number_are_told, 60)
{
    disagree(false);
    disagree(true);
}

typedef struct busy {
    tt_pg *pg;
    double sum;
} busy;

static void *busy_main(void *arg)
{
    busy *b = arg;

    for (int i = 0; i < 200; i++)
        b->sum += sum_over(b->pg, i);
    return NULL;
}

/* Two groups over one store, each used by a thread of its own. */
TT_TEST_RANKS(2, pg_group, two_at_once_on_one_store_do_not_mix)
{
    char path[512];
    busy busies[2] = { { 0 } };
    pthread_t ts[2];
    tt_store *store;

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    for (int i = 0; i < 2; i++) {
        busies[i].pg = tt_pg_new_store(store, i == 0 ? tt_test_rank() : 1 - tt_test_rank(), 2,
                                       &(tt_pg_options){ .backend = "shm", .timeout_ms = MS });
        TT_REQUIRE_NOT_NULL(busies[i].pg);
    }
    TT_CHECK_EQ(tt_pg_count(), 2);
    for (int i = 0; i < 2; i++)
        TT_REQUIRE_EQ(pthread_create(&ts[i], NULL, busy_main, &busies[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(ts[i], NULL);
    for (int i = 0; i < 2; i++) {
        TT_CHECK(busies[i].sum == 2.0 * 199 * 200 / 2);
        tt_pg_free(busies[i].pg);
    }
    TT_CHECK_EQ(tt_pg_count(), 0);
    tt_store_free(store);
}

/* ---- splitting --------------------------------------------------------------------------------------- */

TT_TEST_THREADS(4, pg_group, split_orders_by_key_then_rank)
{
    tt_pg *world = threads("store", NULL);
    int me = tt_test_rank();
    tt_pg *pg = tt_pg_split(world, me % 2, -me, NULL); /* backwards */

    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_size(pg), 2);
    TT_CHECK_EQ(tt_pg_rank(pg), me >= 2 ? 0 : 1);
    TT_CHECK_EQ(tt_pg_global_rank(pg, 0), 2 + me % 2);
    TT_CHECK(sum_over(pg, me) == 2 + 2 * (me % 2));
    tt_pg_free(pg);
    pg = tt_pg_split(world, 5, 1, NULL); /* all the same: as the parent */
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_rank(pg), me);
    TT_CHECK_EQ(tt_pg_size(pg), 4);
    tt_pg_free(pg);
    pg = tt_pg_split(world, me, 0, NULL); /* everybody alone */
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_size(pg), 1);
    TT_CHECK_EQ(tt_pg_global_rank(pg, 0), me);
    TT_CHECK(sum_over(pg, me) == me);
    tt_pg_free(pg);
    tt_pg_free(world);
}

TT_TEST_THREADS(3, pg_group, split_leaves_out_who_wants_to)
{
    tt_pg *world = threads("store", NULL);
    tt_pg *pg = tt_pg_split(world, tt_test_rank() == 1 ? -1 : 0, 0, NULL);

    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_is_member(pg), tt_test_rank() != 1);
    if (tt_test_rank() == 1) {
        TT_CHECK_EQ(tt_pg_rank(pg), -1);
        TT_CHECK_EQ(tt_pg_size(pg), -1);
        TT_CHECK(sum_over(pg, 9) == 9); /* nothing happens */
        TT_CHECK_NULL(tt_pg_split(pg, 0, 0, NULL));
    } else {
        TT_CHECK(sum_over(pg, 9) == 18);
    }
    tt_pg_free(pg);
    tt_pg_free(world);
}

TT_TEST(pg_group, nobody_may_be_left_by_a_split)
{
    tt_store *s = tt_store_memory_new();
    tt_pg *world = tt_pg_new_store(s, 0, 1, &(tt_pg_options){ .backend = "threads" });
    tt_pg *pg;

    TT_REQUIRE_NOT_NULL(world);
    pg = tt_pg_split(world, -1, 0, NULL);
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK(!tt_pg_is_member(pg));
    TT_CHECK_EQ(tt_pg_rank(pg), -1);
    tt_pg_free(pg);
    tt_pg_free(world);
    tt_store_free(s);
}

/* Members in another order than the parent's: ranks, roots and parts follow the list. */
TT_TEST_THREADS(4, pg_group, members_are_numbered_as_listed)
{
    static const int order[] = { 3, 0, 2 };
    tt_pg *world = threads("store", NULL);
    tt_pg *pg = tt_pg_subgroup(world, order, 3, NULL);
    int me = tt_test_rank();

    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_rank(pg), me == 3 ? 0 : me == 0 ? 1 : me == 2 ? 2 : -1);
    TT_SCOPE
        if (me != 1) {
            tt_tensor *t = tt_full(TT_SHAPE(2), me, TT_F32, TT_CPU);
            tt_tensor *all = tt_zeros(TT_SHAPE(6), TT_F32, TT_CPU);

            TT_CHECK_OK(tt_pg_all_gather_into(pg, t, all, NULL, NULL));
            for (int i = 0; i < 3; i++)
                TT_CHECK(tt_item(tt_select(all, 0, 2 * i)) == order[i]);
            TT_CHECK_OK(tt_pg_broadcast(pg, t, 0, NULL, NULL)); /* of global rank 3 */
            TT_CHECK(tt_item(tt_select(t, 0, 0)) == 3);
            t = tt_full(TT_SHAPE(2), me, TT_F32, TT_CPU);
            TT_CHECK_OK(
                tt_pg_broadcast(pg, t, 2, &(tt_coll_options){ .global_ranks = true }, NULL));
            TT_CHECK(tt_item(tt_select(t, 0, 0)) == 2);
            TT_CHECK_ERR(
                tt_pg_broadcast(pg, t, 1, &(tt_coll_options){ .global_ranks = true }, NULL),
                TT_ERR_INVALID);
        }
    tt_pg_free(pg);
    tt_pg_free(world);
}

TT_TEST_THREADS(2, pg_group, bad_lists_of_members_are_refused)
{
    static const int twice[] = { 0, 0 }, beyond[] = { 0, 2 }, negative[] = { -1 };
    tt_pg *world = threads("store", NULL);

    TT_CHECK_NULL(tt_pg_subgroup(world, twice, 2, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_pg_subgroup(world, beyond, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "2");
    TT_CHECK_NULL(tt_pg_subgroup(world, negative, 1, NULL));
    TT_CHECK_NULL(tt_pg_subgroup(world, twice, 0, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "at least one rank");
    TT_CHECK_NULL(tt_pg_subgroup(NULL, twice, 1, NULL));
    TT_CHECK_NULL(tt_pg_subgroup(world, NULL, 0, &(tt_pg_options){ .timeout_ms = -1 }));
    TT_CHECK_NULL(tt_pg_split(NULL, 0, 0, NULL));
    TT_CHECK(sum_over(world, 1) == 2); /* and it still works */
    tt_pg_free(world);
}

/* ---- grids -------------------------------------------------------------------------------------------- */

/* A sum along each dimension of a grid of rows times columns. */
static void check_grid(int rows, int columns)
{
    static const char *const names[] = { "replica", "shard" };
    const int dims[] = { rows, columns };
    tt_pg *world = threads("store", NULL);
    tt_mesh *m = tt_mesh_new(world, dims, 2, names);
    int me = tt_test_rank(), row = me / columns, column = me % columns;
    double along_row = 0, along_column = 0;

    TT_REQUIRE_NOT_NULL(m);
    for (int c = 0; c < columns; c++)
        along_row += row * columns + c;
    for (int r = 0; r < rows; r++)
        along_column += r * columns + column;
    TT_CHECK_EQ(tt_mesh_dims(m), 2);
    TT_CHECK_EQ(tt_mesh_size(m, 0), rows);
    TT_CHECK_EQ(tt_mesh_size(m, 1), columns);
    TT_CHECK_EQ(tt_mesh_coord(m, 0), row);
    TT_CHECK_EQ(tt_mesh_coord(m, 1), column);
    TT_CHECK_EQ(tt_mesh_dim(m, "shard"), 1);
    TT_CHECK_EQ(tt_mesh_dim(m, "depth"), -1);
    TT_CHECK_EQ(tt_pg_size(tt_mesh_group(m, 0)), rows);
    TT_CHECK_EQ(tt_pg_rank(tt_mesh_group(m, 0)), row);
    TT_CHECK_EQ(tt_pg_size(tt_mesh_group(m, 1)), columns);
    TT_CHECK_EQ(tt_pg_rank(tt_mesh_group(m, 1)), column);
    for (int i = 0; i < 3; i++) {
        TT_CHECK(sum_over(tt_mesh_group(m, 1), me) == along_row);
        TT_CHECK(sum_over(tt_mesh_group(m, 0), me) == along_column);
    }
    tt_mesh_free(m);
    TT_CHECK_NULL(tt_mesh_new(world, (int[]){ rows + 1, columns }, 2, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    tt_pg_free(world);
}

TT_TEST_THREADS(4, pg_group, a_grid_of_four)
{
    check_grid(2, 2);
}

TT_TEST_THREADS(6, pg_group, a_grid_of_six)
{
    check_grid(2, 3);
}

TT_TEST_THREADS(6, pg_group, a_grid_of_one_column)
{
    check_grid(6, 1);
}

/* ---- several tensors ------------------------------------------------------------------------------------ */

TT_TEST_THREADS(3, pg_group, gathers_pairs_of_tensors_of_several_types)
{
    static const tt_dtype types[] = { TT_F32, TT_I64, TT_BOOL, TT_F16 };
    tt_pg *pg = threads("store", NULL);
    int me = tt_test_rank();

    TT_SCOPE {
        tt_tensor *ins[4], *outs[4];
        tt_work *work = NULL;

        for (int k = 0; k < 4; k++) {
            ins[k] = tt_full(TT_SHAPE(k + 1), (me + k) % 2, types[k], TT_CPU);
            outs[k] = tt_zeros(TT_SHAPE(3 * (k + 1)), types[k], TT_CPU);
        }
        TT_REQUIRE_OK(tt_pg_all_gather_into_coalesced(pg, ins, outs, 4, NULL, &work));
        TT_CHECK_OK(tt_work_wait(work, 0));
        tt_work_free(work);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 3 * (k + 1); i++)
                TT_CHECK(tt_item(tt_select(outs[k], 0, i)) == (i / (k + 1) + k) % 2);
        TT_CHECK_OK(tt_pg_all_gather_into_coalesced(pg, ins, outs, 0, NULL, NULL));
        outs[1] = tt_zeros(TT_SHAPE(5), TT_I64, TT_CPU);
        TT_CHECK_ERR(tt_pg_all_gather_into_coalesced(pg, ins, outs, 4, NULL, NULL), TT_ERR_INVALID);
    }
    TT_CHECK(sum_over(pg, 1) == 3);
    tt_pg_free(pg);
}

TT_TEST_THREADS(3, pg_group, scatters_the_sums_of_pairs_of_tensors)
{
    tt_pg *pg = threads("store", NULL);
    int me = tt_test_rank();

    TT_SCOPE {
        tt_tensor *ins[3], *outs[3];
        tt_coll_options most = { .op = TT_REDUCE_MAX };

        for (int k = 0; k < 3; k++) {
            ins[k] = tt_add_scalar(tt_arange(0, 3 * (k + 2), 1, TT_F64, TT_CPU), 100 * me);
            outs[k] = tt_zeros(TT_SHAPE(k + 2), TT_F64, TT_CPU);
        }
        TT_REQUIRE_OK(tt_pg_reduce_scatter_coalesced(pg, outs, ins, 3, NULL, NULL));
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < k + 2; i++)
                TT_CHECK(tt_item(tt_select(outs[k], 0, i)) == 300 + 3 * (me * (k + 2) + i));
        TT_REQUIRE_OK(tt_pg_reduce_scatter_coalesced(pg, outs, ins, 3, &most, NULL));
        for (int k = 0; k < 3; k++)
            TT_CHECK(tt_item(tt_select(outs[k], 0, 1)) == 200 + me * (k + 2) + 1);
    }
    tt_pg_free(pg);
}

TT_TEST(pg_group, a_missing_default_group_is_said)
{
    tt_clear_error();
    TT_CHECK_ERR_SAYS(tt_pg_barrier(NULL, NULL, NULL), TT_ERR_INVALID,
                      "barrier: expected a group, got NULL");
    tt_clear_error();
    TT_CHECK_ERR_SAYS(tt_pg_barrier(tt_pg_default(), NULL, NULL), TT_ERR_INVALID, "tt_pg_init");
}

TT_TEST(, members_of_a_larger_job_keep_their_global_ranks)
{
    const int names[] = { 7, 3 };
    tt_pg *pg;

    pg = tt_pg_new_store(NULL, 1, 2, &(tt_pg_options){ .backend = "fake", .global_ranks = names });
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_rank(pg), 1);
    TT_CHECK_EQ(tt_pg_global_rank(pg, 0), 7);
    TT_CHECK_EQ(tt_pg_global_rank(pg, 1), 3);
    TT_CHECK_EQ(tt_pg_group_rank(pg, 7), 0);
    TT_CHECK_EQ(tt_pg_group_rank(pg, 0), -1);
    tt_pg_free(pg);
}

TT_TEST(, global_ranks_are_checked)
{
    const int twice[] = { 4, 4 }, negative[] = { 0, -1 };

    TT_CHECK_NULL(
        tt_pg_new_store(NULL, 0, 2, &(tt_pg_options){ .backend = "fake", .global_ranks = twice }));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK(strstr(tt_last_error(), "ranks 0 and 1 have global rank 4") != NULL);
    TT_CHECK_NULL(tt_pg_new_store(NULL, 0, 2,
                                  &(tt_pg_options){ .backend = "fake", .global_ranks = negative }));
    TT_CHECK(strstr(tt_last_error(), "global rank -1 of rank 1") != NULL);
}
