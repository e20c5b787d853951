/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are killed, crash, leave or stop at random moments: every survivor is told who, and can go on without it.
 * Groups have so long a time-out that it cannot be what ends a wait, unless the rank was stopped; that survivors are told in
 * time is asked of most trials, since a busy machine delays some of them. PG_FAULT_TRIALS=600 in the environment asks
 * for that many trials of each kind, and a tenth of them with stopped ranks. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/exchange.h"
#include <tutti/testing.h>
#include <tutti/tutti.h>

enum { W = 3, TIMEOUT_MS = 300000, PATIENCE_MS = 250000, STOPPED_MS = 2000 };

typedef enum fault { KILL, SEGV, EXIT, STOP } fault;

static const char *const fault_names[] = { "SIGKILL", "SIGSEGV", "exit", "SIGSTOP" };

/* What a survivor reports. */
typedef struct report {
    int rank;
    bool open;      /* it had the group when the failure came */
    bool regrouped; /* and went on without the victim */
    tt_status status;
    double at; /* when its call returned, monotonic seconds */
    char words[400];
} report;

typedef struct trial {
    uint64_t seed;
    fault how;
    int victim;
    int delay_us; /* from the start of the ranks, or of their work */
    bool at_start;
    int kind; /* of collective; -1: random ones */
    char path[4096];
    int timeout_ms;
} trial;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

enum { N_KINDS = 9 };

/* One collective or message of the kind, of about `n` elements. */
static tt_status one_call(tt_pg *pg, int kind, int64_t n)
{
    tt_status st = TT_OK;
    int me = tt_pg_rank(pg), size = tt_pg_size(pg);

    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(n), TT_F32, TT_CPU);
        tt_tensor *all = tt_ones(TT_SHAPE(n * size), TT_F32, TT_CPU);
        tt_tensor *list[W];
        for (int i = 0; i < size; i++)
            list[i] = tt_slice(all, 0, i * n, (i + 1) * n, 1);
        switch (kind) {
        case 0:
            st = tt_pg_all_reduce(pg, t, NULL, NULL);
            break;
        case 1:
            st = tt_pg_broadcast(pg, t, 1, NULL, NULL);
            break;
        case 2:
            st = tt_pg_reduce(pg, t, 0, NULL, NULL);
            break;
        case 3:
            st = tt_pg_all_gather_into(pg, t, all, NULL, NULL);
            break;
        case 4:
            st = tt_pg_reduce_scatter_from(pg, t, all, NULL, NULL);
            break;
        case 5:
            st = tt_pg_all_to_all_single(pg, tt_ones_like(all), all, NULL, NULL, NULL, NULL);
            break;
        case 6:
            st = tt_pg_gather(pg, t, me == 0 ? list : NULL, me == 0 ? size : 0, 0, NULL, NULL);
            break;
        case 7:
            st = tt_pg_scatter(pg, t, me == 0 ? list : NULL, me == 0 ? size : 0, 0, NULL, NULL);
            break;
        default:
            st = tt_pg_barrier(pg, NULL, NULL);
            break;
        }
        /* Rooted operations let others run ahead: meet from time to time. */
        if (st == TT_OK && kind != 0)
            st = tt_pg_barrier(pg, NULL, NULL);
    }
    return st;
}

/* The survivors without the victim: a new group that works. */
static bool regroup(tt_pg *pg, int victim)
{
    int ranks[W], n = 0;
    bool ok = false;

    for (int i = 0; i < W; i++)
        if (i != victim)
            ranks[n++] = i;
    tt_pg *rest = tt_pg_subgroup(pg, ranks, n, &(tt_pg_options){ .timeout_ms = TIMEOUT_MS });
    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(1000), TT_F32, TT_CPU);
        ok = rest != NULL && tt_pg_all_reduce(rest, t, NULL, NULL) == TT_OK &&
             tt_at(t, (int64_t[]){ 999 }) == n;
    }
    tt_pg_free(rest);
    return ok;
}

static void leave(int signal_number)
{
    (void)signal_number;
    _exit(7);
}

static void rank_main(const trial *t, int rank, int ready_fd, int report_fd)
{
    uint64_t state = t->seed | 1;
    report r = { .rank = rank };
    struct rlimit none = { 0, 0 };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGTERM, leave);
    tt_store *store = tt_store_file_open(t->path);
    tt_pg *pg = store != NULL
                    ? tt_pg_new_store(store, rank, W, &(tt_pg_options){ .timeout_ms = TIMEOUT_MS })
                    : NULL;
    if (pg != NULL && tt_pg_set_timeout(pg, t->timeout_ms) == TT_OK) {
        r.open = true;
        if (write(ready_fd, "r", 1) != 1)
            _exit(3);
        do {
            int kind = t->kind >= 0 ? t->kind : (int)(next_random(&state) % N_KINDS);
            int64_t n =
                1 + (int64_t)(next_random(&state) % (uint64_t)(1 << next_random(&state) % 17));
            r.status = one_call(pg, kind, n);
        } while (r.status == TT_OK);
    } else {
        r.status = tt_last_status();
    }
    r.at = now_s();
    snprintf(r.words, sizeof r.words, "%s", tt_last_error());
    if (r.open && rank != t->victim)
        r.regrouped = regroup(pg, t->victim);
    ssize_t n = write(report_fd, &r, sizeof r);
    tt_pg_free(pg);
    tt_store_free(store);
    _exit(n == sizeof r ? 0 : 4);
}

static void strike(const trial *t, pid_t victim)
{
    static const int signals[] = { SIGKILL, SIGSEGV, SIGTERM, SIGSTOP };
    kill(victim, signals[t->how]);
}

/* As a launcher does: says how the rank ended. */
static void note_exit(const trial *t, const char *words)
{
    char key[48];
    tt_store *s = tt_store_file_open(t->path);

    snprintf(key, sizeof key, TTI_EXIT_KEY, t->victim);
    if (s != NULL)
        tt_store_set(s, key, words, strlen(words));
    tt_store_free(s);
}

/* Waits for readable data, at most `ms`. */
static bool readable(int fd, int ms)
{
    struct pollfd p = { fd, POLLIN, 0 };
    return poll(&p, 1, ms) == 1;
}

/* "rank 1 ...", or as one of several: "ranks 0, 1 did not". */
static bool names(const char *words, int rank)
{
    static const char *const forms[] = { "rank %d", "ranks %d", ", %d" };
    char form[32];

    for (int i = 0; i < 3; i++) {
        snprintf(form, sizeof form, forms[i], rank);
        if (strstr(words, form) != NULL)
            return true;
    }
    return false;
}

static void check_report(const trial *t, const report *r, double struck)
{
    bool ok = TT_CHECK(names(r->words, t->victim));
    ok &= TT_CHECK_EQ(r->status, t->how == STOP ? TT_ERR_TIMEOUT : TT_ERR_PEER);
    if (r->open)
        ok &= TT_CHECK(r->regrouped);
    if (!ok)
        TT_FAIL_TEST("survivor %d after %.3f s: %s", r->rank, r->at - struck, r->words);
}

/* Runs one trial; false when something was wrong. The time that the slower survivor took is kept in *slow_p. */
static bool run_trial(const trial *t, double *slow_p)
{
    int ready[2], reports[2], before = tt_test_failures();
    pid_t pids[W];
    double struck;
    char c;

    if (pipe(ready) != 0 || pipe(reports) != 0)
        TT_FAIL_TEST("pipe: %s", strerror(errno));
    for (int i = 0; i < W; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            rank_main(t, i, ready[1], reports[1]);
    }
    for (int i = 0; !t->at_start && i < W; i++)
        if (!TT_CHECK(readable(ready[0], PATIENCE_MS)) || read(ready[0], &c, 1) != 1)
            break;
    usleep((useconds_t)t->delay_us);
    struck = now_s();
    strike(t, pids[t->victim]);
    if (t->how != STOP) {
        waitpid(pids[t->victim], NULL, 0);
        struck = now_s(); /* a sanitizer takes its time to end */
        note_exit(t, "ended by the test");
    }
    for (int i = 0; i < W - 1; i++) {
        report r;
        if (!TT_CHECK(readable(reports[0], PATIENCE_MS)) ||
            !TT_CHECK_EQ(read(reports[0], &r, sizeof r), (ssize_t)sizeof r))
            break;
        if (r.rank == t->victim) { /* it had failed for its own reasons: the trial is void */
            TT_FAIL_TEST("the victim reported %s", r.words);
            continue;
        }
        check_report(t, &r, struck);
        if (r.at - struck > *slow_p)
            *slow_p = r.at - struck;
    }
    for (int i = 0; i < W; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close(ready[0]), close(ready[1]), close(reports[0]), close(reports[1]);
    unlink(t->path);
    if (tt_test_failures() == before)
        return true;
    TT_FAIL_TEST("trial: seed %llu, %s of rank %d %s after %d us, kind %d",
                 (unsigned long long)t->seed, fault_names[t->how], t->victim,
                 t->at_start ? "from the start" : "of work", t->delay_us, t->kind);
    return false;
}

/* How many trials were asked for, or `usual`. */
static int wanted(int usual, int share)
{
    const char *asked = getenv("PG_FAULT_TRIALS");

    return asked != NULL && atoi(asked) / share > 1 ? atoi(asked) / share : usual;
}

static int trials(int n, bool at_start, fault only, bool any_fault, int kind, int max_us)
{
    uint64_t state = tt_test_seed() | 1;
    double worst = 0, limit = 2 + (!any_fault && only == STOP ? STOPPED_MS * 1e-3 : 0);
    int bad = 0, quick = 0;

    for (int i = 0; i < n && bad < 3; i++) {
        trial t = { .seed = next_random(&state), .at_start = at_start, .kind = kind };
        double slow = 0;

        t.how = any_fault ? (fault)(next_random(&state) % 3) : only;
        t.victim = (int)(next_random(&state) % W);
        t.delay_us = (int)(next_random(&state) % (uint64_t)max_us);
        t.timeout_ms = t.how == STOP ? STOPPED_MS : TIMEOUT_MS;
        snprintf(t.path, sizeof t.path, "%s/store.%d", tt_test_tmpdir(), i);
        bad += !run_trial(&t, &slow);
        worst = slow > worst ? slow : worst;
        quick += slow < limit;
    }
    TT_CHECK_GT(quick, n / 2);
    TT_NOTE("%d trials, slowest survivor %.0f ms, %d trials within %.0f s", n, worst * 1e3, quick,
            limit);
    return bad;
}

TT_TEST_LIMIT(pg_faults, killed_in_each_collective, 3600)
{
    for (int kind = 0; kind < N_KINDS; kind++)
        TT_REQUIRE_EQ(trials(wanted(6, N_KINDS), false, KILL, false, kind, 3000), 0);
}

TT_TEST_LIMIT(pg_faults, killed_crashed_or_ended_while_working, 3600)
{
    TT_CHECK_EQ(trials(wanted(60, 1), false, KILL, true, -1, 20000), 0);
}

TT_TEST_LIMIT(pg_faults, killed_while_starting, 3600)
{
    TT_CHECK_EQ(trials(wanted(90, 1), true, KILL, true, -1, 12000), 0);
}

TT_TEST_LIMIT(pg_faults, stopped_while_working, 3600)
{
    TT_CHECK_EQ(trials(wanted(8, 10), false, STOP, false, -1, 5000), 0);
}

/* ---- other trouble ----------------------------------------------------------------------------- */

TT_TEST_RANKS(2, pg_faults, no_descriptor_is_left)
{
    char path[4096];
    struct rlimit old, few;

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    tt_store *store = tt_store_file_open(path);
    TT_REQUIRE(store != NULL);
    getrlimit(RLIMIT_NOFILE, &old);
    int fd = dup(0);
    few = (struct rlimit){ (rlim_t)fd, old.rlim_max };
    close(fd);
    if (tt_test_rank() == 0)
        setrlimit(RLIMIT_NOFILE, &few);
    tt_pg *pg =
        tt_pg_new_store(store, tt_test_rank(), 2, &(tt_pg_options){ .timeout_ms = TIMEOUT_MS });
    TT_CHECK_NULL(pg);
    if (tt_test_rank() == 0) {
        TT_CHECK_CONTAINS(tt_last_error(), strerror(EMFILE));
    } else { /* hears that the other one does not come */
        TT_CHECK(tt_last_status() == TT_ERR_TIMEOUT || tt_last_status() == TT_ERR_PEER);
        TT_CHECK(names(tt_last_error(), 0) || strstr(tt_last_error(), "ranks: 0") != NULL);
    }
    TT_NOTE("%s", tt_last_error());
    setrlimit(RLIMIT_NOFILE, &old);
    tt_store_free(store);
}

static void await_keys(tt_store *store, int64_t wanted)
{
    double limit = now_s() + 30;
    int64_t n = 0;

    while (n < wanted && TT_CHECK(now_s() < limit))
        TT_REQUIRE_OK(tt_store_count(store, &n));
}

/* Rank 1 lets rank 2 go on, which may stop itself only after the first signal on a busy machine. Rank 2 does nothing else
 * until no more signals come: one that comes while a sanitizer looks for leaks would hold that up for ever. */
static void continue_rank_2(tt_store *store)
{
    static const char *const awake[] = { "awake" }, *const quiet[] = { "quiet" };
    double limit = now_s() + 60;
    bool goes_on = false;

    if (tt_test_rank() == 2) {
        TT_REQUIRE_OK(tt_store_set(store, awake[0], "1", 1));
        TT_CHECK_OK(tt_store_wait(store, quiet, 1, 60000));
    }
    if (tt_test_rank() != 1)
        return;
    while (!goes_on && TT_CHECK(now_s() < limit)) {
        kill((pid_t)tt_test_rank_pid(2), SIGCONT);
        TT_REQUIRE_OK(tt_store_check(store, awake, 1, &goes_on));
    }
    TT_REQUIRE_OK(tt_store_set(store, quiet[0], "1", 1));
}

/* Rank 2 is stopped while the others make a group with it. Rank 0 gives up first and ends: the others still name rank 2, and
 * nobody else. */
static void make_with_a_stopped_rank(bool first_group)
{
    static const int patience_ms[] = { 300, 60000, 60000, 60000 };
    tt_pg_options opt = { .timeout_ms = 20000 };
    int me = tt_test_rank();
    int64_t n_before = 0;
    char path[4096];

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    tt_store *store = tt_store_file_open(path), *view = tt_store_prefix_new("next", store);
    tt_pg *pg = tt_pg_new_store(store, me, 4, &opt), *next;
    TT_REQUIRE(pg != NULL && view != NULL);
    tt_test_barrier();
    if (me == 0)
        TT_REQUIRE_OK(tt_store_count(store, &n_before));
    tt_test_barrier();
    if (me == 0) {
        tt_test_expect_exit(0, 0);
        await_keys(store, n_before + 3); /* two values and their count: ranks 1 and 3 are there */
    }
    if (me == 2) {
        kill(getpid(), SIGSTOP);
    } else {
        opt.timeout_ms = patience_ms[me];
        next = first_group ? tt_pg_new_store(view, me, 4, &opt) : tt_pg_subgroup(pg, NULL, 0, &opt);
        TT_CHECK_NULL(next);
        TT_CHECK_EQ(tt_last_status(), TT_ERR_TIMEOUT);
        TT_CHECK_CONTAINS(tt_last_error(), "waited 300 ms for 1 of 4 ranks: 2");
        for (int r = 0; r < 4; r++)
            TT_CHECK(r == 2 || !names(tt_last_error(), r));
    }
    if (me == 0)
        _exit(0);
    if (me != 2) /* ranks 1 and 3 have been told */
        TT_CHECK_OK(tt_test_file_barrier(2, 60000));
    continue_rank_2(store);
    tt_pg_free(pg);
    tt_store_free(view);
    tt_store_free(store);
}

TT_TEST_RANKS_LIMIT(4, pg_faults, a_stopped_rank_is_named_when_a_first_group_is_made, 120)
{
    make_with_a_stopped_rank(true);
}

TT_TEST_RANKS_LIMIT(4, pg_faults, a_stopped_rank_is_named_when_a_subgroup_is_made, 120)
{
    make_with_a_stopped_rank(false);
}

/* A TCP store that rank 0 serves, as tcp:// without a launcher has it; the port goes through a file. */
static tt_store *store_of_rank_0(void)
{
    tt_store_tcp_options o = { .serve = tt_test_rank() == 0 };
    char path[4096], text[16] = "";
    tt_store *s = NULL;
    tt_blob b;

    snprintf(path, sizeof path, "%s/port", tt_test_tmpdir());
    tt_store *file = tt_store_file_open(path);
    if (o.serve && (s = tt_store_tcp_open("127.0.0.1", 0, &o)) != NULL) {
        snprintf(text, sizeof text, "%d", tt_store_tcp_port(s));
        TT_REQUIRE_OK(tt_store_set(file, "port", text, strlen(text) + 1));
    } else if (!o.serve && TT_CHECK_OK(tt_store_get(file, "port", &b))) {
        s = tt_store_tcp_open("127.0.0.1", atoi(b.data), &o);
        tt_blob_free(&b);
    }
    TT_REQUIRE_NOT_NULL(s);
    tt_store_free(file);
    return s;
}

TT_TEST_RANKS(3, pg_faults, survivors_are_told_that_the_store_died_with_rank_0)
{
    tt_store *store = store_of_rank_0();
    tt_pg *pg = tt_pg_new_store(store, tt_test_rank(), 3, NULL);

    TT_REQUIRE_NOT_NULL(pg);
    tt_test_expect_exit(0, -SIGKILL);
    if (tt_test_rank() == 0)
        kill(getpid(), SIGKILL);
    TT_CHECK_ERR_SAYS(tt_pg_barrier(pg, NULL, NULL), TT_ERR_PEER, "rank 0 (pid");
    TT_CHECK_NULL(tt_pg_subgroup(pg, (int[]){ 1, 2 }, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "which global rank 0 serves unless a launcher does");
    TT_CHECK_CONTAINS(tt_last_error(), "no group can be made any more");
    tt_pg_free(pg);
    tt_store_free(store);
}

TT_TEST_RANKS(3, pg_faults, abort_ends_everybody)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    tt_store *store = tt_store_file_open(path);
    tt_pg *pg = tt_pg_new_store(store, tt_test_rank(), 3, NULL);
    TT_REQUIRE(pg != NULL);
    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(10), TT_F32, TT_CPU);
        TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
        if (tt_test_rank() == 1) {
            tt_pg_abort(pg, "the loss is NaN");
            TT_CHECK_ERR(tt_pg_all_reduce(pg, t, NULL, NULL), TT_ERR_ABORTED);
        } else {
            TT_CHECK_ERR_SAYS(tt_pg_all_reduce(pg, t, NULL, NULL), TT_ERR_PEER, "the loss is NaN");
            TT_CHECK_CONTAINS(tt_last_error(), "rank 1");
            /* And again, with the same words. */
            TT_CHECK_ERR_SAYS(tt_pg_barrier(pg, NULL, NULL), TT_ERR_PEER, "the loss is NaN");
        }
    }
    tt_test_barrier();
    tt_pg_free(pg);
    tt_store_free(store);
}

TT_TEST_RANKS(3, pg_faults, different_calls_are_an_error_everywhere)
{
    for (int detail = 0; detail < 2; detail++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/store.%d", tt_test_tmpdir(), detail);
        tt_store *store = tt_store_file_open(path);
        tt_pg *pg =
            tt_pg_new_store(store, tt_test_rank(), 3,
                            &(tt_pg_options){ .debug = detail ? TT_DEBUG_DETAIL : TT_DEBUG_OFF });
        TT_REQUIRE(pg != NULL);
        TT_SCOPE {
            tt_tensor *t = tt_ones(TT_SHAPE(tt_test_rank() == 2 ? 20 : 10), TT_F32, TT_CPU);
            tt_status st = tt_pg_all_reduce(pg, t, NULL, NULL);
            TT_CHECK(st == TT_ERR_INVALID || st == TT_ERR_PEER);
            TT_CHECK_CONTAINS(tt_last_error(), "rank 2");
            TT_CHECK_CONTAINS(tt_last_error(), "80 bytes");
            TT_CHECK_CONTAINS(tt_last_error(), "40 bytes");
        }
        tt_test_barrier();
        tt_pg_free(pg);
        tt_store_free(store);
    }
}
