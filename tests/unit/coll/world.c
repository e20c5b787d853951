/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for tests of teams. */
#include "world.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM 512   /* bytes that one rank gives to one exchange */
#define MEETINGS 8 /* exchanges in flight */

struct world {
    int size;
    world_options opt;
    rank_fn fn;
    void *ctx;
    int pids[WORLD_MAX];
    _Atomic uint64_t words[64];
    /* Exchanges: the count of a rank's calls; the data of call n in part n % MEETINGS. */
    _Atomic uint64_t came[WORLD_MAX];
    unsigned char data[MEETINGS][WORLD_MAX][ROOM];
};

typedef struct seat {
    world *w;
    int rank;
} seat;

int world_size(const world *w)
{
    return w->size;
}

int world_pid(const world *w, int rank)
{
    return w->pids[rank];
}

_Atomic uint64_t *world_words(world *w)
{
    return w->words;
}

void world_await(world *w, int word, uint64_t value)
{
    int64_t limit = soon();

    while (atomic_load(&w->words[word]) < value && tti_now_ns() < limit)
        sched_yield();
    TT_CHECK(atomic_load(&w->words[word]) >= value);
}

static tt_status exchange(void *ctx, const char *step, const void *mine, size_t n, void *all)
{
    seat *s = ctx;
    world *w = s->w;
    uint64_t call = atomic_load(&w->came[s->rank]) + 1;
    int64_t limit = tti_deadline(10000);

    (void)step;
    TT_REQUIRE_LE(n, ROOM);
    memcpy(w->data[call % MEETINGS][s->rank], mine, n);
    atomic_store(&w->came[s->rank], call);
    for (int r = 0; r < w->size; r++) {
        while (atomic_load(&w->came[r]) < call) {
            if (tti_now_ns() > limit || atomic_load(&w->words[63]) != 0)
                return TT_FAIL(TT_ERR_TIMEOUT, "rank %d did not come to the exchange", r);
            sched_yield();
        }
        memcpy((unsigned char *)all + (size_t)r * n, w->data[call % MEETINGS][r], n);
    }
    return TT_OK;
}

/* The words that a launcher would have for the end of any rank. */
static void ended_how(void *ctx, int rank, char *text, size_t size)
{
    (void)ctx;
    snprintf(text, size, "rank %d was ended by the test", rank);
}

tt_status world_open(world *w, int rank, tti_team **team_p)
{
    tti_member members[WORLD_MAX];
    seat s = { w, rank };
    tti_team_args args = { .rank = rank,
                           .size = w->size,
                           .group = "g",
                           .members = members,
                           .same_process = w->opt.threads,
                           .no_cma = w->opt.no_cma,
                           .staging_bytes = w->opt.staging_bytes,
                           .timeout_ms = 10000,
                           .exchange = exchange,
                           .ctx = &s,
                           .cause = ended_how };

    for (int r = 0; r < w->size; r++) {
        members[r] = (tti_member){ .global_rank = r, .pid = w->pids[r] };
        snprintf(members[r].host, sizeof members[r].host, "here");
    }
    return tti_team_open(&args, team_p);
}

tti_team *world_team(world *w, int rank)
{
    tti_team *team = NULL;

    TT_REQUIRE_OK(world_open(w, rank, &team));
    return team;
}

static void *thread_main(void *arg)
{
    seat *s = arg;

    s->w->fn(s->w, s->rank, s->w->ctx);
    return NULL;
}

static void run_threads(world *w)
{
    pthread_t threads[WORLD_MAX];
    seat seats[WORLD_MAX];

    for (int r = 0; r < w->size; r++) {
        seats[r] = (seat){ w, r };
        w->pids[r] = getpid();
    }
    for (int r = 0; r < w->size; r++)
        TT_REQUIRE_EQ(pthread_create(&threads[r], NULL, thread_main, &seats[r]), 0);
    for (int r = 0; r < w->size; r++)
        pthread_join(threads[r], NULL);
}

/* A rank starts when all process numbers are known. */
static void child_main(world *w, int rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    world_await(w, 62, 1);
    w->fn(w, rank, w->ctx);
    fflush(NULL);
    _exit(tt_test_failures() == 0 ? 0 : 1);
}

static void run_processes(world *w)
{
    for (int r = 0; r < w->size; r++) {
        pid_t pid = fork();

        if (pid == 0)
            child_main(w, r);
        TT_REQUIRE_GT(pid, 0);
        w->pids[r] = pid; /* shared memory: the child must not write its 0 there */
    }
    atomic_store(&w->words[62], 1);
    for (int r = 0; r < w->size; r++) {
        int status = 0;

        waitpid(w->pids[r], &status, 0);
        if (!(w->opt.may_die && WIFSIGNALED(status)))
            TT_CHECK_EQ(status, 0);
    }
}

void world_run(int size, const world_options *opt, rank_fn fn, void *ctx)
{
    world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TT_REQUIRE(w != MAP_FAILED);
    w->size = size;
    w->opt = opt != NULL ? *opt : (world_options){ 0 };
    w->fn = fn;
    w->ctx = ctx;
    if (w->opt.threads)
        run_threads(w);
    else
        run_processes(w);
    munmap(w, sizeof *w);
}
