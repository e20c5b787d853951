/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers of a world: nobody leaves early, those who wait in vain are told for whom, in time. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "world/distributed.h"

static double seconds(void)
{
    return (double)tti_now_ns() * 1e-9;
}

static void sleep_ms(int ms)
{
    struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
}

/* ---- barrier ------------------------------------------------------------------------------------ */

static void barrier(const dist_group *g, const void *arg)
{
    (void)arg;
    for (int k = 0; k < g->n; k++)
        TT_SCOPE {
            int late = g->ranks[k];
            tt_tensor *t = tt_full(TT_SHAPE(1), seconds() + 0.3, TT_F64, dist_device());

            TT_REQUIRE_OK(tt_pg_broadcast(g->pg, t, late, &dist_global, NULL));
            if (g->me == late)
                sleep_ms(400);
            TT_REQUIRE_OK(tt_pg_barrier(g->pg, NULL, NULL));
            TT_CHECK(seconds() >= tt_item(t));
        }
}

/* Rank 0 of the group comes alone: it fails, and not before the time-out. */
static void wait_in_vain(tt_pg *pg, double timeout)
{
    double start = seconds();
    tt_status st;

    if (tt_pg_rank(pg) != 0)
        return;
    st = tt_pg_barrier(pg, NULL, NULL);
    TT_CHECK(st == TT_ERR_TIMEOUT || st == TT_ERR_PEER);
    if (tt_pg_debug_level(pg) == TT_DEBUG_DETAIL)
        TT_CHECK_CONTAINS(tt_last_error(), "monitored barrier");
    else
        TT_CHECK_CONTAINS(tt_last_error(), "timed out");
    TT_CHECK_CONTAINS(tt_last_error(), "barrier");
    TT_CHECK(seconds() - start >= timeout - 0.1);
    TT_CHECK(seconds() - start < timeout + 60);
}

TT_TEST_RANKS(3, distributed, test_barrier_timeout_global)
{
    tt_rendezvous r;
    char url[512];

    (void)dist_world();
    dist_world_end();
    snprintf(url, sizeof url, "file://%s/again?rank=%d&size=%d", tt_test_tmpdir(), tt_test_rank(),
             tt_test_size());
    TT_REQUIRE_OK(tt_rendezvous_open(url, NULL, &r));
    TT_REQUIRE_OK(tt_pg_init_store(r.store, r.rank, r.size,
                                   &(tt_pg_options){ .backend = "shm", .timeout_ms = 1000 }));
    tt_rendezvous_close(&r);
    wait_in_vain(tt_pg_default(), 1);
    dist_world_end();
}

TT_TEST_RANKS(8, distributed, test_barrier_timeout_group)
{
    dist_group g = dist_group_open(DIST_SUB, &(tt_pg_options){ .timeout_ms = 5000 });

    wait_in_vain(g.pg, 5);
    dist_group_close(&g);
}

TT_TEST_RANKS(3, distributed, test_barrier_timeout_full_group)
{
    dist_group g = dist_group_open(DIST_FULL, &(tt_pg_options){ .timeout_ms = 1000 });
    tt_pg *strict = tt_pg_subgroup(
        dist_world(), NULL, 0, &(tt_pg_options){ .timeout_ms = 1000, .debug = TT_DEBUG_DETAIL });

    wait_in_vain(g.pg, 1);
    TT_CHECK_EQ(tt_pg_debug_level(strict), TT_DEBUG_DETAIL);
    wait_in_vain(strict, 1);
    dist_meet();
    tt_pg_free(strict);
    dist_group_close(&g);
}

/* The call's own time-out wins over the group's, and is named. */
TT_TEST_RANKS(3, distributed, test_barrier_timeout_arg)
{
    dist_group g = dist_group_open(DIST_FULL, &(tt_pg_options){ .timeout_ms = 300000 });
    double start = seconds();

    TT_CHECK_EQ(tt_pg_timeout(g.pg), 300000);
    if (g.me == 0) {
        TT_CHECK_ERR_SAYS(tt_pg_barrier(g.pg, &(tt_coll_options){ .timeout_ms = 1 }, NULL),
                          TT_ERR_TIMEOUT, "1 ms");
        TT_CHECK(seconds() - start < 100);
    }
    dist_group_close(&g);
}

/* ---- monitored barrier ---------------------------------------------------------------------------- */

static tt_status monitored(tt_pg *pg, int timeout_ms, bool all)
{
    return tt_pg_monitored_barrier(
        pg, &(tt_coll_options){ .timeout_ms = timeout_ms, .report_all_ranks = all });
}

/* What a rank hears that came while another was missing. */
static void check_came_in_vain(tt_status st)
{
    TT_CHECK(st == TT_ERR_TIMEOUT || st == TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(),
                      "reached the monitored barrier but failed waiting for rank 0");
}

TT_TEST_RANKS(4, distributed, test_monitored_barrier_gloo)
{
    tt_pg *pg = dist_world();
    int me = tt_test_rank();

    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);

        for (int i = 0; i < 10; i++)
            TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
    }
    TT_REQUIRE_OK(monitored(pg, 2000, false));
    TT_REQUIRE_OK(monitored(pg, 2000, true));
    if (me == 0)
        TT_CHECK_ERR_SAYS(monitored(pg, 2000, false), TT_ERR_TIMEOUT, "rank 1 did not come");
    else if (me != 1)
        check_came_in_vain(monitored(pg, 2000, false));
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_monitored_barrier_gloo_subgroup)
{
    static const int ranks[] = { 0, 1 };
    tt_pg *pg = tt_pg_subgroup(dist_world(), ranks, 2, NULL);
    int me = tt_test_rank();

    TT_REQUIRE_NOT_NULL(pg);
    if (me == 0)
        TT_CHECK_ERR_SAYS(monitored(pg, 100, false), TT_ERR_TIMEOUT, "rank 1 did not come");
    else if (me != 1)
        TT_CHECK_OK(monitored(pg, 100, false));
    dist_meet();
    tt_pg_free(pg);
    dist_world_end();
}

/* Everybody but rank 0 hangs in an all_reduce of another group. */
static void hang_in_all_reduce(bool all, const char *words, const char *not_words)
{
    dist_group g = dist_group_open(DIST_FULL, &(tt_pg_options){ .timeout_ms = 15000 });
    tt_work *w = NULL;

    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(1), TT_F32, TT_CPU);

        TT_REQUIRE_OK(tt_pg_all_reduce(g.pg, t, NULL, NULL));
        if (g.me != 0) {
            TT_REQUIRE_OK(tt_pg_all_reduce(g.pg, t, NULL, &w));
            TT_CHECK_ERR_SAYS(tt_work_wait(w, 100), TT_ERR_TIMEOUT, "all_reduce");
        } else {
            TT_CHECK_ERR_SAYS(monitored(dist_world(), 100, all), TT_ERR_TIMEOUT, words);
            TT_CHECK(not_words == NULL || strstr(tt_last_error(), not_words) == NULL);
        }
    }
    dist_meet();
    tt_pg_abort(g.pg, "the test is over");
    if (w != NULL)
        TT_CHECK_NE(tt_work_wait(w, 10000), TT_OK);
    tt_work_free(w);
    dist_group_close(&g);
}

TT_TEST_RANKS(4, distributed, test_monitored_barrier_allreduce_hang)
{
    hang_in_all_reduce(false, "rank 1 did not come", "2");
}

TT_TEST_RANKS(4, distributed, test_monitored_barrier_allreduce_hang_wait_all_ranks)
{
    hang_in_all_reduce(true, "ranks 1, 2, 3 did not come", NULL);
}

TT_TEST_RANKS(2, distributed, test_monitored_barrier_gloo_rank_0_timeout)
{
    dist_group g = dist_group_open(DIST_FULL, NULL);

    if (g.me == 0)
        TT_CHECK_ERR_SAYS(monitored(g.pg, TT_NO_WAIT, false), TT_ERR_TIMEOUT, "rank 0 timed out");
    dist_group_close(&g);
}

TT_TEST_RANKS(8, distributed, test_monitored_barrier_failure_order)
{
    tt_pg *pg = dist_world();
    int me = tt_test_rank();

    if (me == 0)
        TT_CHECK_ERR_SAYS(monitored(pg, 2000, false), TT_ERR_TIMEOUT, "rank 2 did not come");
    else if (me == 1)
        check_came_in_vain(monitored(pg, 2000, false));
    dist_world_end();
}

TT_TEST_RANKS(8, distributed, test_monitored_barrier_wait_all_ranks)
{
    tt_pg *pg = dist_world();

    if (tt_test_rank() == 0)
        TT_CHECK_ERR_SAYS(monitored(pg, 100, true), TT_ERR_TIMEOUT,
                          "ranks 1, 2, 3, 4, 5, 6, 7 did not come");
    dist_world_end();
}

static const dist_row rows[] = {
    { "test_barrier", barrier, DIST_WORLD, NULL, 3 },
    { "test_barrier_group", barrier, DIST_SUB, NULL, 0 },
    { "test_barrier_full_group", barrier, DIST_FULL, NULL, 3 },
};

static const dist_row on_devices[] = {
    { "test_barrier_cuda", barrier, DIST_WORLD, NULL, 3 },
    { "test_barrier_group_cuda", barrier, DIST_SUB, NULL, 0 },
    { "test_barrier_full_group_cuda", barrier, DIST_FULL, NULL, 3 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS(rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}
