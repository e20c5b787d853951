/* SPDX-License-Identifier: Apache-2.0 */
/* What survivors are told: deaths, time-outs, aborts, leavers, ranks that call different things. */
#include "deeds.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tutti/error.h>

static tt_status reduce_once(tti_team *team, size_t bytes, int64_t deadline_ns)
{
    char *data = calloc(1, bytes + 1);
    tti_coll c = { .kind = TTI_COLL_ALL_REDUCE,
                   .dtype = TT_F32,
                   .in = { data, bytes },
                   .out = { data, bytes },
                   .seq = 7,
                   .deadline_ns = deadline_ns };
    tt_status st = tti_team_run(team, &c);

    free(data);
    return st;
}

/* The fields of the failure that this thread had last. */
static tt_error_info fields(const char *operation, uint64_t number, tt_error_kind kind)
{
    tt_error_info e;

    TT_CHECK(tt_last_error_info(&e));
    TT_CHECK_EQ(e.kind, kind);
    TT_CHECK_STR(e.group, "g");
    TT_CHECK_STR(e.operation, operation);
    TT_CHECK_EQ(e.number, number);
    return e;
}

static void check_rank(const tt_error_info *e, int rank, const char *cause)
{
    TT_CHECK_EQ(e->n_ranks, 1);
    TT_CHECK_EQ(e->ranks[0], rank);
    TT_CHECK_STR(e->cause, cause);
}

static void check_fields(tt_error_kind kind, int rank, const char *cause)
{
    tt_error_info e = fields("all_reduce", 7, kind);

    check_rank(&e, rank, cause);
}

/* ---- deaths ------------------------------------------------------------------------------- */

static void one_dies(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    size_t bytes = *(const size_t *)ctx;
    int64_t died;

    TT_CHECK_OK(reduce_once(team, bytes, soon()));
    if (rank == 1) {
        atomic_store(&world_words(w)[0], (uint64_t)tti_now_ns());
        kill(getpid(), SIGKILL);
    }
    TT_CHECK_ERR_SAYS(reduce_once(team, bytes, soon()), TT_ERR_PEER, "all_reduce 7: rank 1 (pid");
    TT_CHECK_CONTAINS(tt_last_error(), "group g");
    TT_CHECK_CONTAINS(tt_last_error(), "on here) died");
    check_fields(TT_ERROR_DIED, 1, "rank 1 was ended by the test");
    died = (int64_t)atomic_load(&world_words(w)[0]);
    /* 50 ms on a quiet machine, and not the deadline of 20 s on a busy one. */
    TT_CHECK_LT((tti_now_ns() - died) / 1000000, 15000);
    TT_CHECK_ERR_SAYS(reduce_once(team, 8, soon()), TT_ERR_PEER, "rank 1 (pid");
    check_fields(TT_ERROR_DIED, 1,
                 "rank 1 was ended by the test"); /* later calls have them as well */
    tti_team_close(team);
}

TT_TEST(coll_trouble, names_a_dead_rank)
{
    static const size_t sizes[] = { 8, 100000, 4000000 };

    for (size_t i = 0; i < 3; i++)
        for (int size = 2; size <= 4; size++) {
            size_t bytes = sizes[i];

            world_run(size, &(world_options){ .may_die = true }, one_dies, &bytes);
        }
}

/* A rank is killed at a random moment of a random sequence: everybody else returns, with its name. */
static void killed_sometime(world *w, int rank, void *ctx)
{
    uint64_t state = *(const uint64_t *)ctx, moment = state;
    int victim = (int)(next_random(&moment) % (uint64_t)world_size(w));
    tti_team *team = world_team(w, rank);
    tt_status st = TT_OK;
    char words[16];

    atomic_fetch_add(&world_words(w)[1], 1);
    if (rank == 0 && victim != 0)
        world_await(w, 1, (uint64_t)world_size(w));
    for (int i = 0; i < 100000 && st == TT_OK; i++) {
        uint64_t at = next_random(&state);
        size_t bytes = (size_t)(at >> 8) % (at % 4 == 0 ? 3000000 : 20000);

        if (rank == victim && i == (int)(next_random(&moment) % 40))
            kill(getpid(), SIGKILL);
        if (rank == victim && i > 100)
            kill(getpid(), SIGKILL);
        st = reduce_once(team, bytes / 4 * 4, soon());
    }
    snprintf(words, sizeof words, "rank %d ", victim);
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_trouble, survives_a_kill_at_any_moment, 900)
{
    uint64_t seed = tt_test_seed();

    for (int i = 0; i < 24; i++) {
        uint64_t state = seed + (uint64_t)i;

        world_run(2 + i % 3, &(world_options){ .may_die = true, .no_cma = i % 2 == 0 },
                  killed_sometime, &state);
    }
}

/* ---- time-outs ------------------------------------------------------------------------------- */

static void one_is_late(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    size_t bytes = *(const size_t *)ctx;
    int64_t begun = tti_now_ns();

    if (rank == 2) {
        world_await(w, 0, 2); /* the others gave up */
    } else {
        TT_CHECK_ERR_SAYS(reduce_once(team, bytes, tti_deadline(100)), TT_ERR_TIMEOUT,
                          "ranks 0, 1 came, rank 2 did not");
        check_fields(TT_ERROR_MISSING, 2, "");
        TT_CHECK_GE(tti_now_ns() - begun, 100000000);
        atomic_fetch_add(&world_words(w)[0], 1);
        world_await(w, 0, 2);
    }
    tti_team_close(team);
}

TT_TEST(coll_trouble, says_who_came_and_who_did_not)
{
    size_t bytes = 8;

    world_run(3, NULL, one_is_late, &bytes);
    world_run(3, &(world_options){ .threads = true }, one_is_late, &bytes);
}

/* Rank 1 gives up soon, rank 0 has time and hears of it. */
static void hears_of_one_that_is_late(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    tt_error_info e;

    (void)ctx;
    if (rank < 2) {
        TT_CHECK_ERR_SAYS(
            reduce_once(team, 4000000, rank == 0 ? tti_deadline(600000) : tti_deadline(300)),
            rank == 0 ? TT_ERR_PEER : TT_ERR_TIMEOUT, "2 did not");
        e = fields("all_reduce", 7, TT_ERROR_MISSING);
        TT_REQUIRE_GE(e.n_ranks, 1); /* two if rank 0 was late itself */
        TT_CHECK_EQ(e.ranks[e.n_ranks - 1], 2);
    }
    atomic_fetch_add(&world_words(w)[0], 1);
    world_await(w, 0, 3);
    tti_team_close(team);
}

TT_TEST(coll_trouble, failures_of_others_bring_their_fields)
{
    world_run(3, NULL, hears_of_one_that_is_late, NULL);
    world_run(3, &(world_options){ .threads = true }, hears_of_one_that_is_late, NULL);
}

/* ---- abort and leaving -------------------------------------------------------------------------- */

static void one_aborts(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    if (rank == 0) {
        tti_team_abort(team, "had enough");
        tti_team_abort(team, "twice");
        TT_CHECK_ERR_SAYS(reduce_once(team, 8, soon()), TT_ERR_ABORTED, "had enough");
        check_fields(TT_ERROR_ABORTED, 0, "had enough");
    } else {
        TT_CHECK_ERR_SAYS(reduce_once(team, 8, soon()), TT_ERR_PEER, "rank 0 (pid");
        TT_CHECK_CONTAINS(tt_last_error(), "aborted: had enough");
        check_fields(TT_ERROR_ABORTED, 0, "had enough");
    }
    atomic_fetch_add(&world_words(w)[0], 1);
    world_await(w, 0, (uint64_t)world_size(w));
    tti_team_close(team);
}

TT_TEST(coll_trouble, abort_reaches_everybody)
{
    world_run(2, NULL, one_aborts, NULL);
    world_run(3, &(world_options){ .threads = true }, one_aborts, NULL);
}

/* Rank 2 aborts while rank 1 waits for rank 0, which does not come. */
static void one_aborts_another_is_late(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    if (rank == 2) {
        world_await(w, 1, 1);
        tti_team_abort(team, "had enough");
    } else if (rank == 1) {
        atomic_store(&world_words(w)[1], 1);
        TT_CHECK_ERR_SAYS(reduce_once(team, 8, soon()), TT_ERR_PEER, "rank 2 (pid");
        TT_CHECK_CONTAINS(tt_last_error(), "aborted: had enough");
    }
    atomic_fetch_add(&world_words(w)[0], 1);
    world_await(w, 0, (uint64_t)world_size(w));
    tti_team_close(team);
}

TT_TEST(coll_trouble, abort_reaches_who_waits_for_another)
{
    world_run(3, NULL, one_aborts_another_is_late, NULL);
    world_run(3, &(world_options){ .threads = true }, one_aborts_another_is_late, NULL);
}

static void one_leaves(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    TT_CHECK_OK(reduce_once(team, 8, soon()));
    if (rank != 1) {
        TT_CHECK_ERR_SAYS(reduce_once(team, 8, soon()), TT_ERR_PEER, "left the group");
        check_fields(TT_ERROR_LEFT, 1, "");
    }
    tti_team_close(team);
}

TT_TEST(coll_trouble, a_rank_that_left_is_missed)
{
    world_run(2, NULL, one_leaves, NULL);
    world_run(2, &(world_options){ .threads = true }, one_leaves, NULL);
}

/* Rank 1 has left. Who asked for less than a second is told of the time-out it asked for, and that rank 1 left. */
static void one_leaves_in_a_short_time(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    TT_CHECK_OK(reduce_once(team, 8, soon()));
    if (rank == 1) {
        tti_team_close(team);
        atomic_store(&world_words(w)[0], 1);
        return;
    }
    world_await(w, 0, 1);
    TT_CHECK_ERR_SAYS(reduce_once(team, 8, tti_deadline(rank == 0 ? 1 : 100)), TT_ERR_TIMEOUT,
                      "left the group");
    TT_CHECK_CONTAINS(tt_last_error(), "timed out waiting for rank 1; ");
    TT_CHECK_CONTAINS(tt_last_error(), "; rank 1 (pid ");
    atomic_fetch_add(&world_words(w)[1], 1);
    world_await(w, 1, 2);
    tti_team_close(team);
}

TT_TEST(coll_trouble, a_short_time_out_is_one_though_a_rank_left)
{
    world_run(3, NULL, one_leaves_in_a_short_time, NULL);
    world_run(3, &(world_options){ .threads = true }, one_leaves_in_a_short_time, NULL);
}

/* ---- different calls ------------------------------------------------------------------------------ */

static void calls_differ(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    float data[4] = { 0 };
    tti_span outs[WORLD_MAX];
    tti_coll c = { .kind = TTI_COLL_ALL_REDUCE,
                   .dtype = TT_F32,
                   .in = { data, 16 },
                   .out = { data, 16 },
                   .outs = outs,
                   .deadline_ns = soon(),
                   .seq = 3 };
    int how = *(const int *)ctx;
    tt_error_info e;

    for (int r = 0; r < world_size(w); r++)
        outs[r] = (tti_span){ data, 16 };
    if (rank == 1 && how == 0)
        c.in.bytes = c.out.bytes = 8;
    if (rank == 1 && how == 1)
        c.dtype = TT_I32;
    if (rank == 1 && how == 2)
        c.op = TT_REDUCE_MAX;
    if (rank == 1 && how == 3)
        c.kind = TTI_COLL_BARRIER;
    TT_CHECK_ERR_SAYS(tti_team_run(team, &c), TT_ERR_INVALID, "ranks called different things");
    TT_CHECK_CONTAINS(tt_last_error(), "rank 1 ");
    TT_CHECK_CONTAINS(tt_last_error(), how == 0   ? "8 bytes"
                                       : how == 1 ? "int32"
                                       : how == 2 ? "max"
                                                  : "barrier");
    TT_REQUIRE(tt_last_error_info(&e));
    TT_CHECK_STR(e.group, "g");
    TT_CHECK_EQ(e.number, 3);
    TT_CHECK_EQ(e.n_ranks, 1); /* rank 1, or the one that called something else than it did */
    tti_team_close(team);
}

TT_TEST(coll_trouble, says_who_called_what)
{
    for (int how = 0; how < 4; how++) {
        world_run(2, NULL, calls_differ, &how);
        world_run(3, &(world_options){ .threads = true }, calls_differ, &how);
    }
}

/* The root is as far ahead as it can; everybody gets every message. */
static void root_is_ahead(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    uint64_t data[4];
    tti_coll c = { .kind = TTI_COLL_BROADCAST,
                   .out = { data, sizeof data },
                   .deadline_ns = soon() };

    (void)ctx;
    for (uint64_t i = 1; i <= 1000; i++) {
        c.root = i / 100 % 2 == 0 ? 0 : 1;
        for (int k = 0; k < 4; k++)
            data[k] = rank == c.root ? 4 * i + (uint64_t)k : 0;
        c.seq = i;
        if (rank != 0 && c.root == 0 && i % 50 == 1) /* it may be so far, at least */
            world_await(w, 0, i + 3);
        TT_REQUIRE_OK(tti_team_run(team, &c));
        for (int k = 0; k < 4; k++)
            TT_CHECK_EQ(data[k], 4 * i + (uint64_t)k);
        if (rank == 0)
            atomic_store(&world_words(w)[0], i);
    }
    tti_team_close(team);
}

TT_TEST(coll_trouble, roots_run_ahead)
{
    world_run(2, NULL, root_is_ahead, NULL);
    world_run(4, &(world_options){ .threads = true }, root_is_ahead, NULL);
}

/* Rank 2 alone takes rank 1 for the root, and waits for it. */
static void roots_differ(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    float data[4] = { 0 };
    tti_coll c = { .kind = TTI_COLL_BROADCAST,
                   .dtype = TT_F32,
                   .root = rank == 2,
                   .out = { data, 16 },
                   .deadline_ns = soon(),
                   .seq = 3 };

    (void)ctx;
    tt_status st = tti_team_run(team, &c);
    if (rank == 2) {
        TT_CHECK_EQ(st, TT_ERR_INVALID);
        TT_CHECK_CONTAINS(tt_last_error(), "rank 2 broadcast (float32, 16 bytes, root 1");
        TT_CHECK_CONTAINS(tt_last_error(), "root 0");
    }
    tti_team_close(team);
}

TT_TEST(coll_trouble, another_root_is_blamed_on_who_gave_it)
{
    world_run(3, NULL, roots_differ, NULL);
    world_run(3, &(world_options){ .threads = true }, roots_differ, NULL);
}

/* ---- monitored barrier ---------------------------------------------------------------------------- */

static void check_missing(bool both)
{
    tt_error_info e = fields("monitored barrier", 2, TT_ERROR_MISSING);

    TT_CHECK_EQ(e.n_ranks, both ? 2 : 1);
    TT_CHECK_EQ(e.ranks[0], 1);
    TT_CHECK_EQ(e.ranks[1], both ? 2 : 0);
}

static void barrier_misses_some(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    bool all = *(const bool *)ctx;

    TT_CHECK_OK(tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 1, soon(), all));
    if (rank == 0) {
        TT_CHECK_ERR_SAYS(
            tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 2, tti_deadline(100), all),
            TT_ERR_TIMEOUT, all ? "ranks 1, 2 did not come" : "rank 1 did not come");
        check_missing(all);
    }
    if (rank == 3) {
        TT_CHECK_ERR_SAYS(
            tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 2, soon(), all), TT_ERR_TIMEOUT,
            "reached the monitored barrier but failed waiting for rank 0, which missed "
            "ranks 1, 2");
        check_missing(true);
    }
    atomic_fetch_add(&world_words(w)[0], 1);
    world_await(w, 0, 4);
    if (rank == 0)
        TT_CHECK_ERR_SAYS(
            tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 3, tti_now_ns(), all),
            TT_ERR_TIMEOUT, "rank 0 timed out");
    atomic_fetch_add(&world_words(w)[1], rank == 0);
    world_await(w, 1, 1);
    tti_team_close(team);
}

TT_TEST(coll_trouble, monitored_barrier_names_the_missing)
{
    bool all = false;

    world_run(4, NULL, barrier_misses_some, &all);
    all = true;
    world_run(4, &(world_options){ .threads = true }, barrier_misses_some, &all);
}

/* Rank 2 dies; rank 1 comes, sooner or later, and nobody says that it is missing. */
static void barrier_misses_the_dead(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    tt_error_info e;

    TT_CHECK_OK(tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 1, soon(), true));
    if (rank == 2)
        kill(getpid(), SIGKILL);
    if (rank == 0) {
        TT_CHECK_ERR_SAYS(tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 2, soon(), true),
                          TT_ERR_PEER, "monitored barrier 2: rank 2 did not come: rank 2 (pid");
        TT_CHECK_CONTAINS(tt_last_error(), "on here) died: rank 2 was ended by the test");
        atomic_store(&world_words(w)[0], 1);
    } else {
        if (*(const bool *)ctx)
            world_await(w, 0, 1);
        TT_CHECK_ERR_SAYS(tti_team_monitored_barrier(team, TTI_MONITORED_PROGRAM, 2, soon(), true),
                          TT_ERR_PEER, "rank 1 reached the monitored barrier but ");
        TT_CHECK_CONTAINS(tt_last_error(), ": rank 2 (pid");
        TT_CHECK_CONTAINS(tt_last_error(), "on here) died: rank 2 was ended by the test");
        atomic_store(&world_words(w)[1], 1);
    }
    e = fields("monitored barrier", 2, TT_ERROR_DIED);
    check_rank(&e, 2, "rank 2 was ended by the test");
    TT_CHECK_STR(e.host, "here");
    world_await(w, 1, 1);
    tti_team_close(team);
}

TT_TEST(coll_trouble, monitored_barrier_blames_the_dead_alone)
{
    /* Rank 0 waits for rank 1 before rank 2: it must not wait in vain. */
    for (int i = 0; i < 2; i++) {
        bool late = i == 1;

        world_run(3, &(world_options){ .may_die = true }, barrier_misses_the_dead, &late);
    }
}

/* ---- leaks ----------------------------------------------------------------------------------------- */

static int descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void opens_often(world *w, int rank, void *ctx)
{
    int before = descriptors();

    (void)ctx;
    for (int i = 0; i < 200; i++) {
        tti_team *team = world_team(w, rank);
        void *p = tti_team_alloc(team, 5000);

        TT_CHECK_OK(reduce_once(team, 64, soon()));
        tti_team_close(team);
        memset(p, 1, 5000); /* stays until it is freed */
        tti_team_free_bytes(team, p);
    }
    TT_CHECK_EQ(descriptors(), before);
}

TT_TEST(coll_trouble, opening_and_closing_leaves_nothing)
{
    world_run(2, NULL, opens_often, NULL);
}
