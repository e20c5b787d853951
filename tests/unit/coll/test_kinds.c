/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of collective when a rank dies or stops at any moment, and with buffers of every sort. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "deeds.h"

/* ---- deaths at any moment -------------------------------------------------------------------- */

typedef struct plan {
    tti_coll_kind kind;
    size_t count;
    int victim;
    int64_t delay_ns; /* from the moment that all teams are open to the death */
    bool heap;
    uint64_t seed;
} plan;

typedef struct doom {
    world *w;
    int64_t delay_ns;
} doom;

static void *doom_main(void *arg)
{
    const doom *d = arg;
    int64_t at;

    world_await(d->w, 1, (uint64_t)world_size(d->w));
    at = tti_now_ns() + d->delay_ns;
    while (tti_now_ns() < at)
        ;
    kill(getpid(), SIGKILL);
    return NULL;
}

/* The victim is killed while it works; everybody else is told its name, whatever it was that ran. */
static void works_until_a_death(world *w, int rank, void *ctx)
{
    const plan *p = ctx;
    doom end = { w, p->delay_ns };
    tti_team *team = world_team(w, rank);
    int64_t limit = soon();
    tt_status st = TT_OK;
    pthread_t thread;
    char words[16];

    if (rank == p->victim)
        TT_REQUIRE_EQ(pthread_create(&thread, NULL, doom_main, &end), 0);
    atomic_fetch_add(&world_words(w)[1], 1);
    for (uint64_t i = 0; st == TT_OK && tti_now_ns() < limit; i++) {
        deed d = { .kind = p->kind,
                   .dtype = TT_F32,
                   .root = (int)((p->seed + i) % (uint64_t)world_size(w)),
                   .count = p->count,
                   .heap = p->heap,
                   .seed = p->seed + i };

        st = deed_try(team, rank, world_size(w), &d);
    }
    snprintf(words, sizeof words, "rank %d ", p->victim);
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    TT_CHECK_CONTAINS(tt_last_error(), "died");
    tti_team_close(team);
}

static void kill_in_every_kind(const world_options *opt, int n_rounds)
{
    static const size_t counts[] = { 3, 3000, 300000 };
    uint64_t state = tt_test_seed();

    for (int round = 0; round < n_rounds; round++)
        for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++) {
            plan p = { .kind = (tti_coll_kind)kind };
            int size = 2 + (int)(next_random(&state) % 3);

            p.count = counts[next_random(&state) % 3];
            p.victim = (int)(next_random(&state) % (uint64_t)size);
            p.delay_ns = (int64_t)(next_random(&state) % 4000000);
            p.heap = next_random(&state) % 3 == 0;
            p.seed = next_random(&state) % 1000;
            world_run(size, opt, works_until_a_death, &p);
        }
}

TT_TEST_LIMIT(coll_kinds, survive_a_kill_in_the_middle, 120)
{
    kill_in_every_kind(&(world_options){ .may_die = true }, 2);
}

TT_TEST_LIMIT(coll_kinds, survive_a_kill_without_cma, 120)
{
    kill_in_every_kind(&(world_options){ .may_die = true, .no_cma = true }, 2);
}

TT_TEST_LIMIT(coll_kinds, survive_a_kill_with_tiny_windows, 120)
{
    kill_in_every_kind(&(world_options){ .may_die = true, .no_cma = true, .staging_bytes = 1 }, 1);
}

/* ---- a rank that is stopped ------------------------------------------------------------------- */

/* Whether the last error is about rank 1: alone, or among others that were late on a busy machine. */
static bool names_rank_1(void)
{
    const char *words = tt_last_error();

    return strstr(words, "rank 1") != NULL || strstr(words, ", 1 did not") != NULL ||
           strstr(words, "ranks 1, ") != NULL;
}

/* Rank 1 is stopped by the kernel: the others wait as long as they were told to, and name it. */
static void one_is_stopped(world *w, int rank, void *ctx)
{
    tti_coll_kind kind = *(const tti_coll_kind *)ctx;
    tti_team *team = world_team(w, rank);
    int64_t limit = soon();
    tt_status st = TT_OK;

    deed_do(team, rank, 3, &(deed){ .kind = kind, .dtype = TT_I32, .count = 500 });
    if (rank == 1) {
        raise(SIGSTOP);
        atomic_store(&world_words(w)[1], 1);
    } else {
        /* A broadcast's root waits for nobody at first. */
        for (int i = 0; st == TT_OK && tti_now_ns() < limit; i++)
            st = deed_try(team, rank, 3,
                          &(deed){ .kind = kind, .dtype = TT_I32, .count = 500, .limit_ms = 60 });
        TT_CHECK(st == TT_ERR_TIMEOUT || st == TT_ERR_PEER); /* PEER: the other one gave up first */
        if (!names_rank_1())
            TT_FAIL_TEST("rank 1 is not named: %s", tt_last_error());
        TT_CHECK_CONTAINS(tt_last_error(), tti_coll_name(kind));
        atomic_fetch_add(&world_words(w)[0], 1);
    }
    if (rank == 0) {
        world_await(w, 0, 2);
        /* Until it goes on: on a busy machine it may stop itself only after the first signal. */
        while (atomic_load(&world_words(w)[1]) == 0) {
            kill(world_pid(w, 1), SIGCONT);
            sched_yield();
        }
    }
    world_await(w, 0, 2);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_kinds, name_a_rank_that_is_stopped, 120)
{
    for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++) {
        tti_coll_kind k = (tti_coll_kind)kind;

        world_run(3, NULL, one_is_stopped, &k);
    }
}

/* ---- many ranks -------------------------------------------------------------------------------- */

static void every_kind(world *w, int rank, void *ctx)
{
    static const size_t counts[] = { 0, 1, 300, 5000 };
    tti_team *team = world_team(w, rank);
    int size = world_size(w);

    (void)ctx;
    for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++)
        for (int i = 0; i < 4; i++) {
            deed d = { .kind = (tti_coll_kind)kind,
                       .dtype = i % 2 == 0 ? TT_F32 : TT_I16,
                       .op = i == 3 ? TT_REDUCE_MAX : TT_REDUCE_SUM,
                       .root = (3 * i + kind) % size,
                       .count = counts[i],
                       .seed = (uint64_t)kind };

            deed_do(team, rank, size, &d);
        }
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_kinds, work_among_up_to_sixteen_threads, 120)
{
    for (int size = 9; size <= WORLD_MAX; size++)
        world_run(size, &(world_options){ .threads = true }, every_kind, NULL);
}

TT_TEST_LIMIT(coll_kinds, work_among_sixteen_processes, 120)
{
    world_run(WORLD_MAX, NULL, every_kind, NULL);
    world_run(WORLD_MAX, &(world_options){ .no_cma = true, .staging_bytes = 1 }, every_kind, NULL);
}

/* ---- buffers ------------------------------------------------------------------------------------ */

/* Ranks differ in where their buffers are: in the heap or not, on a border of cache lines or not. */
static void buffers_differ(world *w, int rank, void *ctx)
{
    static const size_t counts[] = { 1, 77, 4095, 70001, FEWER(300000, 80000) };
    tti_team *team = world_team(w, rank);
    int size = world_size(w), how = 0;

    (void)ctx;
    for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++)
        for (int i = 0; i < 5; i++, how++) {
            deed d = { .kind = (tti_coll_kind)kind,
                       .dtype = how % 2 == 0 ? TT_F32 : TT_U8,
                       .root = how % size,
                       .count = counts[i],
                       .heap = (rank + how) % 2 == 0,
                       .skew = (size_t)((rank + how) % 3),
                       .in_place = how % 3 == 0,
                       .seed = (uint64_t)how };

            deed_do(team, rank, size, &d);
        }
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_kinds, take_buffers_of_every_sort, 120)
{
    for (int size = 2; size <= 4; size++) {
        world_run(size, NULL, buffers_differ, NULL);
        world_run(size, &(world_options){ .no_cma = true }, buffers_differ, NULL);
    }
    world_run(3, &(world_options){ .threads = true }, buffers_differ, NULL);
    world_run(2, &(world_options){ .staging_bytes = 4096 }, buffers_differ, NULL);
}

/* Everything empty, among other operations: nothing is written, nobody waits for ever. */
static void nothing_to_do(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    int size = world_size(w);

    (void)ctx;
    for (int i = 0; i < FEWER(60, 20); i++) {
        deed d = { .kind = (tti_coll_kind)(i % TTI_COLL_FINGERPRINT),
                   .dtype = TT_F64,
                   .root = i % size,
                   .count = i % 2 == 0 ? 0 : 10,
                   .heap = i % 3 == 0,
                   .seed = (uint64_t)i };

        deed_do(team, rank, size, &d);
    }
    tti_team_close(team);
}

TT_TEST(coll_kinds, take_empty_buffers)
{
    world_run(3, NULL, nothing_to_do, NULL);
    world_run(3, &(world_options){ .threads = true }, nothing_to_do, NULL);
}
