/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations among two to eight ranks, of which one dies while others are late: every survivor hears of the death
 * before the late ones come, names the dead rank, and goes on in a group of those who are left.
 *
 * PG_LATE_TRIALS=1000 in the environment asks for that many trials. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rendezvous/exchange.h"
#include <tutti/testing.h>
#include <tutti/tutti.h>

enum { MOST = 8, TRIALS = 24, TIMEOUT_MS = 60000, PATIENCE_MS = 100000 };

typedef enum deed {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    BARRIER,
    IN_SHARED_MEMORY, /* all_reduce */
    MONITORED,
    RECEIVE,  /* from the victim */
    SUBGROUP, /* of all ranks */
    GROUP, /* another one of all ranks; only a launcher can know of a death before its first exchange */
    HALVES, /* an operation of sub-groups, then one of all; nobody is late, because halves without the victim may wait */
    /* The half with the victim is in barriers of its own. The other one waits for a survivor of the first in a group in which
     * the victim is not: only that survivor can know why it does not come. */
    HALF_RECEIVES,
    HALF_SENDS,
    HALF_MONITORED,
    HALF_MAKES_A_GROUP,
    N_DEEDS
} deed;

static const char *const deed_names[N_DEEDS] = { "all_reduce",
                                                 "broadcast",
                                                 "reduce",
                                                 "all_gather",
                                                 "reduce_scatter",
                                                 "all_to_all",
                                                 "gather",
                                                 "scatter",
                                                 "barrier",
                                                 "all_reduce in shared memory",
                                                 "monitored",
                                                 "receive",
                                                 "subgroup",
                                                 "another group",
                                                 "halves",
                                                 "half receives",
                                                 "half sends",
                                                 "half in a monitored barrier",
                                                 "half makes a group" };

typedef struct trial {
    uint64_t seed;
    int size, victim, root;
    deed what;
    bool late[MOST];
    bool idle;     /* the victim does not take part */
    bool launcher; /* somebody notes how ranks end */
    int64_t n;     /* elements */
    int delay_us;  /* from the start of the operations to the death */
    char path[4096];
} trial;

typedef struct report {
    int rank;
    tt_status status;
    bool regrouped;
    int64_t begun, told; /* ns, monotonic */
    char words[400];
} report;

typedef struct groups {
    tt_pg *all;
    tt_pg *half; /* from HALVES on */
    tt_pg *rest; /* all but the victim, from HALF_RECEIVES on; NULL on the victim */
} groups;

typedef struct pipes {
    int ready[2], reports[2], go[MOST][2];
} pipes;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static tt_status collective(tt_pg *pg, const trial *t, deed what, int root)
{
    tt_status st = TT_OK;
    int size = tt_pg_size(pg);
    bool is_root = tt_pg_rank(pg) == root;

    TT_SCOPE {
        tt_tensor *one = tt_ones(TT_SHAPE(t->n), TT_F32, TT_CPU), *list[MOST];
        tt_tensor *all = tt_ones(TT_SHAPE(t->n * size), TT_F32, TT_CPU);

        for (int i = 0; i < size; i++)
            list[i] = tt_slice(all, 0, i * t->n, (i + 1) * t->n, 1);
        if (what == ALL_REDUCE)
            st = tt_pg_all_reduce(pg, one, NULL, NULL);
        else if (what == BROADCAST)
            st = tt_pg_broadcast(pg, one, root, NULL, NULL);
        else if (what == REDUCE)
            st = tt_pg_reduce(pg, one, root, NULL, NULL);
        else if (what == ALL_GATHER)
            st = tt_pg_all_gather_into(pg, one, all, NULL, NULL);
        else if (what == REDUCE_SCATTER)
            st = tt_pg_reduce_scatter_from(pg, one, all, NULL, NULL);
        else if (what == ALL_TO_ALL)
            st = tt_pg_all_to_all_single(pg, tt_ones_like(all), all, NULL, NULL, NULL, NULL);
        else if (what == GATHER)
            st = tt_pg_gather(pg, one, is_root ? list : NULL, is_root ? size : 0, root, NULL, NULL);
        else if (what == SCATTER)
            st =
                tt_pg_scatter(pg, one, is_root ? list : NULL, is_root ? size : 0, root, NULL, NULL);
        else if (what == IN_SHARED_MEMORY)
            st = tt_pg_all_reduce(pg, tt_fill_(tt_pg_alloc(pg, TT_SHAPE(t->n), TT_F32), 1), NULL,
                                  NULL);
        else
            st = tt_pg_barrier(pg, NULL, NULL);
    }
    return st;
}

static tt_status receive(tt_pg *pg, const trial *t)
{
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *one = tt_ones(TT_SHAPE(t->n), TT_F32, TT_CPU);

        if (tt_pg_rank(pg) != t->victim)
            st = tt_pg_recv(pg, one, t->victim, 1, NULL, NULL, NULL);
        else
            pause();
    }
    return st;
}

static tt_status made(tt_pg *pg)
{
    tt_status st = pg != NULL ? TT_OK : tt_last_status();

    tt_pg_free(pg);
    return st;
}

static tt_status in_halves(const groups *g, const trial *t, int step)
{
    if (step == 0)
        return collective(g->half, t, BARRIER, 0);
    return collective(g->all, t, (deed)(t->seed % (BARRIER + 1)), t->root);
}

static bool is_low(const trial *t, int rank)
{
    return rank < t->size / 2;
}

/* A message that does not fit what the library keeps for a receiver that does not ask for it. */
enum { LONG = 1 << 20 };

static tt_status with_a_survivor(const groups *g, const trial *t)
{
    int other = is_low(t, t->victim) ? 0 : t->size / 2; /* in the half of the victim, in `all` */
    tt_status st = TT_OK;

    other += other == t->victim;
    other -= other > t->victim; /* in `rest` */
    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(LONG), TT_F32, TT_CPU);

        st = t->what == HALF_RECEIVES ? tt_pg_recv(g->rest, x, other, 1, NULL, NULL, NULL)
                                      : tt_pg_send(g->rest, x, other, 1, NULL, NULL);
    }
    return st;
}

static tt_status in_one_half(const groups *g, const trial *t)
{
    if (is_low(t, tt_pg_rank(g->all)) == is_low(t, t->victim))
        return collective(g->half, t, BARRIER, 0);
    if (t->what == HALF_MONITORED)
        return tt_pg_monitored_barrier(g->rest, NULL);
    if (t->what == HALF_MAKES_A_GROUP)
        return made(tt_pg_subgroup(g->rest, NULL, 0, NULL));
    return with_a_survivor(g, t);
}

/* Operation `step` of the trial; every rank calls the same ones. */
static tt_status perform(const groups *g, tt_store *store, const trial *t, int step)
{
    tt_pg_options opt = { .timeout_ms = TIMEOUT_MS };
    tt_pg *pg = g->all;

    switch (t->what) {
    case MONITORED:
        return tt_pg_monitored_barrier(pg, NULL);
    case RECEIVE:
        return receive(pg, t);
    case SUBGROUP:
        return made(tt_pg_subgroup(pg, NULL, 0, NULL));
    case GROUP:
        return made(tt_pg_new_store(store, tt_pg_rank(pg), t->size, &opt));
    case HALVES:
        return in_halves(g, t, step % 2);
    case HALF_RECEIVES:
    case HALF_SENDS:
    case HALF_MONITORED:
    case HALF_MAKES_A_GROUP:
        return in_one_half(g, t);
    default:
        /* Operations with a root let others run ahead: the barrier needs everybody. */
        return collective(pg, t, step % 2 == 0 ? t->what : BARRIER, t->root);
    }
}

/* All ranks but the victim. */
static tt_pg *without_victim(tt_pg *pg, const trial *t)
{
    int ranks[MOST], n = 0;

    for (int i = 0; i < t->size; i++)
        if (i != t->victim)
            ranks[n++] = i;
    return tt_pg_subgroup(pg, ranks, n, NULL);
}

/* The survivors without the victim: a new group that works. */
static bool regroup(tt_pg *pg, const trial *t)
{
    bool ok = false;

    tt_pg *rest = without_victim(pg, t);
    TT_SCOPE {
        tt_tensor *one = tt_ones(TT_SHAPE(1000), TT_F32, TT_CPU);

        ok = rest != NULL && tt_pg_all_reduce(rest, one, NULL, NULL) == TT_OK &&
             tt_at(one, (int64_t[]){ 999 }) == t->size - 1;
    }
    tt_pg_free(rest);
    return ok;
}

static tt_pg *half_of(tt_pg *pg, const trial *t)
{
    int ranks[MOST], middle = t->size / 2, n = 0;
    bool low = is_low(t, tt_pg_rank(pg));

    for (int i = low ? 0 : middle; i < (low ? middle : t->size); i++)
        ranks[n++] = i;
    return tt_pg_subgroup(pg, ranks, n, NULL);
}

static bool make_groups(tt_pg *pg, const trial *t, groups *g)
{
    *g = (groups){ .all = pg };
    if (t->what >= HALVES && (g->half = half_of(pg, t)) == NULL)
        return false;
    if (t->what > HALVES && tt_pg_rank(pg) != t->victim)
        return (g->rest = without_victim(pg, t)) != NULL;
    return true;
}

static void run_rank(const trial *t, tt_store *store, tt_pg *pg, int rank, const pipes *p)
{
    report r = { .rank = rank };
    groups g;
    char c = 'r';

    if (!make_groups(pg, t, &g) || write(p->ready[1], &c, 1) != 1 ||
        read(p->go[rank][0], &c, 1) != 1)
        _exit(3);
    while (rank == t->victim && t->idle)
        pause();
    r.begun = tti_now_ns();
    for (int step = 0; r.status == TT_OK; step++)
        r.status = perform(&g, store, t, step);
    r.told = tti_now_ns();
    snprintf(r.words, sizeof r.words, "%s", tt_last_error());
    if (write(p->reports[1], &r, sizeof r) != sizeof r)
        _exit(4);
    r.regrouped = regroup(pg, t);
    if (!r.regrouped)
        snprintf(r.words, sizeof r.words, "%s", tt_last_error());
    if (write(p->reports[1], &r, sizeof r) != sizeof r)
        _exit(4);
    tt_pg_free(g.rest);
    tt_pg_free(g.half);
    tt_pg_free(pg);
}

static void rank_main(const trial *t, int rank, const pipes *p)
{
    tt_pg_options opt = { .timeout_ms = TIMEOUT_MS };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tt_store *store = tt_store_file_open(t->path);
    tt_pg *pg = store != NULL ? tt_pg_new_store(store, rank, t->size, &opt) : NULL;
    if (pg == NULL)
        _exit(2);
    run_rank(t, store, pg, rank, p);
    tt_store_free(store);
    _exit(0);
}

/* ---- the trial -------------------------------------------------------------------------------- */

static bool readable(int fd)
{
    struct pollfd f = { fd, POLLIN, 0 };
    int n;

    do {
        n = poll(&f, 1, PATIENCE_MS);
    } while (n < 0 && errno == EINTR);
    return n == 1;
}

static bool start_late_ones(const trial *t, const pipes *p, bool late)
{
    for (int i = 0; i < t->size; i++)
        if (t->late[i] == late && write(p->go[i][1], "g", 1) != 1)
            return false;
    return true;
}

static void note_exit(const trial *t, const char *words)
{
    tt_store *s = tt_store_file_open(t->path);

    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_OK(words != NULL ? tti_exit_record(s, t->victim, words) : tti_exit_announce(s));
    tt_store_free(s);
}

static int n_late(const trial *t)
{
    int n = 0;

    for (int i = 0; i < t->size; i++)
        n += t->late[i];
    return n;
}

/* Reads n reports of survivors; adds the times that they took. */
static bool take_reports(const trial *t, const pipes *p, int n, int64_t struck, int64_t *times,
                         int *n_times)
{
    for (int i = 0; i < n; i++) {
        report r;
        char name[16];
        bool ok = TT_CHECK(readable(p->reports[0])) &&
                  TT_CHECK_EQ(read(p->reports[0], &r, sizeof r), (ssize_t)sizeof r);

        if (!ok)
            return false;
        snprintf(name, sizeof name, "rank %d", t->victim);
        if (times != NULL) {
            int64_t from = r.begun > struck ? r.begun : struck;

            ok = TT_CHECK_EQ(r.status, TT_ERR_PEER) & TT_CHECK(strstr(r.words, name) != NULL);
            times[(*n_times)++] = r.told > from ? r.told - from : 0;
            ok &= TT_CHECK_LT(times[*n_times - 1], TIMEOUT_MS / 2 * 1000000LL);
        } else {
            ok = TT_CHECK(r.regrouped);
        }
        if (!ok)
            TT_FAIL_TEST("survivor %d, %.1f ms after the death: %s", r.rank,
                         (double)(r.told - struck) * 1e-6, r.words);
    }
    return true;
}

/* Both reports of a prompt rank may come before the first one of a late one only when there is no late one. */
static void watch_trial(const trial *t, const pipes *p, const pid_t *pids, int64_t *times,
                        int *n_times)
{
    int late = n_late(t), prompt = t->size - 1 - late;
    char c;

    for (int i = 0; i < t->size; i++)
        if (!TT_CHECK(readable(p->ready[0])) || read(p->ready[0], &c, 1) != 1)
            return;
    if (t->launcher)
        note_exit(t, NULL);
    if (!TT_CHECK(start_late_ones(t, p, false)))
        return;
    usleep((useconds_t)t->delay_us);
    kill(pids[t->victim], SIGKILL);
    waitpid(pids[t->victim], NULL, 0);
    int64_t struck = tti_now_ns();
    if (t->launcher)
        note_exit(t, "ended by the test");
    if (!take_reports(t, p, prompt, struck, times, n_times) ||
        !TT_CHECK(start_late_ones(t, p, true)))
        return;
    if (!take_reports(t, p, late, struck, times, n_times))
        return;
    take_reports(t, p, t->size - 1, struck, NULL, NULL);
}

static void open_pipes(const trial *t, pipes *p)
{
    TT_REQUIRE(pipe(p->ready) == 0 && pipe(p->reports) == 0);
    for (int i = 0; i < t->size; i++)
        TT_REQUIRE_EQ(pipe(p->go[i]), 0);
}

static void close_pipes(const trial *t, const pipes *p)
{
    for (int i = 0; i < 2; i++) {
        close(p->ready[i]);
        close(p->reports[i]);
        for (int k = 0; k < t->size; k++)
            close(p->go[k][i]);
    }
}

static bool run_trial(const trial *t, int64_t *times, int *n_times)
{
    int before = tt_test_failures();
    pid_t pids[MOST];
    pipes p;

    open_pipes(t, &p);
    for (int i = 0; i < t->size; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            rank_main(t, i, &p);
        TT_REQUIRE_GT(pids[i], 0);
    }
    watch_trial(t, &p, pids, times, n_times);
    for (int i = 0; i < t->size; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close_pipes(t, &p);
    unlink(t->path);
    if (tt_test_failures() == before)
        return true;
    TT_FAIL_TEST("trial: seed %llu: %s of %lld elements, %d ranks, %d late, root %d, rank %d %s "
                 "and killed after "
                 "%d us, %s launcher",
                 (unsigned long long)t->seed, deed_names[t->what], (long long)t->n, t->size,
                 n_late(t), t->root, t->victim, t->idle ? "idle" : "took part", t->delay_us,
                 t->launcher ? "a" : "no");
    return false;
}

static trial random_trial(uint64_t *state, int number)
{
    trial t = { .seed = next_random(state), .size = 2 + (int)(next_random(state) % (MOST - 1)) };

    t.what = (deed)(next_random(state) % N_DEEDS);
    if (t.what >= HALVES && t.size < 4)
        t.size = 4;
    t.victim = (int)(next_random(state) % (uint64_t)t.size);
    t.root = (int)(next_random(state) % (uint64_t)t.size);
    t.n = 1 + (int64_t)(next_random(state) % (1ull << next_random(state) % 19));
    t.idle = next_random(state) % 2 == 0;
    t.launcher = t.what == GROUP || next_random(state) % 2 == 0;
    t.delay_us = (int)(next_random(state) % 20000);
    for (int i = 0; i < t.size; i++)
        t.late[i] = next_random(state) % 3 == 0 && i != t.victim && t.what < HALVES;
    if (n_late(&t) >
        0) /* a victim that took part may have done all of it: then the others may wait for late ones */
        t.idle = true;
    snprintf(t.path, sizeof t.path, "%s/store.%d", tt_test_tmpdir(), number);
    return t;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

TT_TEST_LIMIT(pg_late, survivors_are_told_whoever_else_is_late, 1800)
{
    const char *asked = getenv("PG_LATE_TRIALS");
    int n = asked != NULL ? atoi(asked) : TRIALS, n_times = 0, bad = 0;
    int64_t *times = malloc((size_t)n * MOST * sizeof *times);
    uint64_t state = tt_test_seed() | 1;

    TT_REQUIRE_NOT_NULL(times);
    for (int i = 0; i < n && bad < 3; i++) {
        trial t = random_trial(&state, i);

        bad += !run_trial(&t, times, &n_times);
    }
    qsort(times, (size_t)n_times, sizeof *times, by_time);
    if (n_times > 0)
        TT_NOTE("seed %llu, %d trials, %d survivors: p50 %.1f ms, p99 %.1f ms, slowest %.1f ms",
                (unsigned long long)tt_test_seed(), n, n_times, (double)times[n_times / 2] * 1e-6,
                (double)times[n_times * 99 / 100] * 1e-6, (double)times[n_times - 1] * 1e-6);
    free(times);
    TT_CHECK_EQ(bad, 0);
}

/* Every deed of halves, with the victim in the lower half and in the upper one. */
static void try_half(deed what)
{
    int64_t times[2 * MOST];
    int n_times = 0;

    for (int victim = 0; victim < 5; victim += 4) {
        trial t = { .size = 5, .victim = victim, .what = what, .n = 100, .delay_us = 1000 };

        snprintf(t.path, sizeof t.path, "%s/half.%d.%d", tt_test_tmpdir(), (int)what, victim);
        run_trial(&t, times, &n_times);
    }
}

TT_TEST_LIMIT(pg_late, survivors_in_a_receive_of_another_group_are_told, 300)
{
    try_half(HALF_RECEIVES);
}

TT_TEST_LIMIT(pg_late, survivors_in_a_send_of_another_group_are_told, 300)
{
    try_half(HALF_SENDS);
}

TT_TEST_LIMIT(pg_late, survivors_in_a_monitored_barrier_of_another_group_are_told, 300)
{
    try_half(HALF_MONITORED);
}

TT_TEST_LIMIT(pg_late, survivors_who_make_another_group_are_told, 300)
{
    try_half(HALF_MAKES_A_GROUP);
}
