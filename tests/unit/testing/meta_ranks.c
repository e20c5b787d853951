/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of several ranks that misbehave on purpose; test_ranks.c looks at what becomes of them. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tutti/collective.h"
#include "tutti/testing_tools.h"

static void no_core_dump(void)
{
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
}

static void wait_forever(void)
{
    for (;;)
        pause();
}

TT_TEST_RANKS_HIDDEN(4, meta_ranks, all_pass, 0)
{
    printf("rank %d of %d\n", tt_test_rank(), tt_test_size());
    TT_NOTE("note of rank %d", tt_test_rank());
    tt_test_barrier();
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, one_fails_others_wait, 0)
{
    tt_test_barrier();
    if (tt_test_rank() == 1)
        TT_REQUIRE_EQ(1, 2);
    wait_forever();
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, all_fail, 0)
{
    tt_test_barrier();
    TT_CHECK_EQ(tt_test_rank(), -1);
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, one_fails_others_at_barrier, 0)
{
    if (tt_test_rank() == 2)
        TT_REQUIRE_EQ(3, 4);
    tt_test_barrier();
    printf("not reached\n");
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, one_crashes, 0)
{
    no_core_dump();
    tt_test_barrier();
    if (tt_test_rank() == 2)
        raise(SIGSEGV);
    wait_forever();
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, one_is_killed, 0)
{
    tt_test_barrier();
    if (tt_test_rank() == 1)
        kill((pid_t)tt_test_rank_pid(0), SIGKILL);
    wait_forever();
}

static void stand_still(void)
{
    wait_forever();
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, two_hang, 4)
{
    if (tt_test_rank() > 0)
        stand_still();
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, one_is_stopped, 4)
{
    if (tt_test_rank() == 1)
        raise(SIGSTOP);
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, one_skips, 0)
{
    if (tt_test_rank() == 1)
        tt_test_skip(TT_TEST_SKIP_SMALL_WORLD, NULL);
    wait_forever();
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, skips_with_words, 0)
{
    TT_SKIP("rank %d is tired", tt_test_rank());
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, one_calls_exit, 0)
{
    if (tt_test_rank() == 1)
        exit(0);
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, ends_as_declared, 0)
{
    tt_test_expect_exit(1, -SIGKILL);
    tt_test_expect_exit(2, 7);
    tt_test_barrier();
    if (tt_test_rank() == 1)
        raise(SIGKILL);
    if (tt_test_rank() == 2)
        _exit(7);
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, does_not_end_as_declared, 0)
{
    if (tt_test_rank() == 1)
        tt_test_expect_exit(1, -SIGKILL);
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, any_may_end_so, 0)
{
    tt_test_expect_exit(TT_TEST_ANY_RANK, 12);
    if (tt_test_rank() != 1)
        _exit(12);
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, exits_are_ignored, 0)
{
    tt_test_ignore_exit(TT_TEST_ANY_RANK);
    _exit(TT_TEST_SKIP_GENERIC + 50);
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, shows_its_seed, 0)
{
    printf("seed of rank %d is %llu\n", tt_test_rank(), (unsigned long long)tt_test_seed());
    tt_test_barrier();
    TT_CHECK_EQ(tt_test_rank(), 0);
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, leaves_children, 0)
{
    pid_t pid = fork();

    if (pid == 0)
        wait_forever();
    printf("left %ld, %ld\n", (long)pid, (long)getpid());
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, says_who_it_is, 0)
{
    printf("process %ld of leader %ld\n", (long)getpid(), (long)getppid());
    fflush(stdout);
    wait_forever();
}

/* ---- threads ---- */

TT_TEST_THREADS_HIDDEN(4, meta_threads, all_pass, 0)
{
    printf("thread rank %d of %d\n", tt_test_rank(), tt_test_size());
    tt_test_barrier();
}

TT_TEST_THREADS_HIDDEN(3, meta_threads, one_fails_others_at_barrier, 0)
{
    if (tt_test_rank() == 2)
        TT_REQUIRE_EQ(3, 4);
    tt_test_barrier();
    printf("not reached\n");
}

TT_TEST_THREADS_HIDDEN(3, meta_threads, all_fail, 0)
{
    tt_test_barrier();
    TT_CHECK_EQ(tt_test_rank(), -1);
}

TT_TEST_THREADS_HIDDEN(3, meta_threads, two_hang, 4)
{
    if (tt_test_rank() > 0)
        stand_still();
}

TT_TEST_THREADS_HIDDEN(3, meta_threads, one_fails_others_are_deaf, 0)
{
    if (tt_test_rank() == 0)
        TT_REQUIRE_EQ(5, 6);
    wait_forever();
}

TT_TEST_THREADS_HIDDEN(3, meta_threads, one_skips, 0)
{
    if (tt_test_rank() == 1)
        tt_test_skip(TT_TEST_SKIP_ODD_WORLD, NULL);
    tt_test_barrier();
}

TT_TEST_THREADS_HIDDEN(2, meta_threads, one_crashes, 0)
{
    no_core_dump();
    if (tt_test_rank() == 1)
        raise(SIGSEGV);
    wait_forever();
}

static void say(void *ctx)
{
    printf("hook of rank %d\n", atomic_exchange((atomic_int *)ctx, -1));
}

TT_TEST_THREADS_HIDDEN(3, meta_threads, hooks_wake, 0)
{
    atomic_int rank = tt_test_rank();

    tt_test_at_failure(say, &rank);
    tt_test_barrier();
    if (tt_test_rank() == 1)
        TT_REQUIRE_EQ(7, 8);
    while (atomic_load(&rank) >= 0)
        usleep(1000);
}

/* ---- kept ---- */

static int n_seen;

TT_TEST_KEPT_HIDDEN(3, meta_kept, a_first, 0)
{
    printf("process %ld, seed %llu\n", (long)getpid(), (unsigned long long)tt_test_seed());
    TT_CHECK_EQ(++n_seen, 1);
    tt_test_barrier();
}

TT_TEST_KEPT_HIDDEN(3, meta_kept, b_same_processes, 0)
{
    printf("process %ld\n", (long)getpid());
    TT_CHECK_EQ(++n_seen, 2);
    tt_test_barrier();
}

TT_TEST_KEPT_HIDDEN(3, meta_kept, c_skips, 0)
{
    tt_test_skip(TT_TEST_SKIP_NO_PEER_ACCESS, NULL);
}

TT_TEST_KEPT_HIDDEN(3, meta_kept, d_one_fails, 0)
{
    if (tt_test_rank() == 1)
        TT_REQUIRE_EQ(1, 2);
    tt_test_barrier();
}

TT_TEST_KEPT_HIDDEN(3, meta_kept, e_is_poisoned, 0)
{
    printf("not reached\n");
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_dies, a_one_dies, 0)
{
    if (tt_test_rank() == 1)
        raise(SIGKILL);
    tt_test_barrier();
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_dies, b_after, 0)
{
    printf("not reached\n");
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_hangs, a_one_hangs, 4)
{
    if (tt_test_rank() == 1)
        stand_still();
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_deaf, a_one_fails_one_is_deaf, 0)
{
    if (tt_test_rank() == 0)
        TT_REQUIRE_EQ(1, 2);
    wait_forever();
}

static void tired(void *ctx)
{
    (void)ctx;
    tt_test_skip(TT_TEST_SKIP_2_DEVICES, NULL);
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_skips, a, 0)
{
    printf("not reached\n");
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_skips, b, 0)
{
    printf("not reached\n");
}

TT_TEST_TABLE(meta_kept_skips)
{
    static tt_test_suite suite = { .suite = "meta_kept_skips", .set_up = tired };

    tt_test_suite_register(&suite);
}

/* ---- groups ---- */

TT_TEST_THREADS_HIDDEN(3, meta_threads, one_fails_others_in_a_collective, 0)
{
    tt_pg *pg = tt_test_pg();

    TT_REQUIRE_OK(tt_pg_barrier(pg, NULL, NULL));
    if (tt_test_rank() == 1)
        TT_REQUIRE_EQ(1, 2);
    TT_REQUIRE_OK(tt_pg_barrier(pg, NULL, NULL));
    printf("not reached\n");
}

TT_TEST_RANKS_HIDDEN(3, meta_ranks, one_fails_others_in_a_collective, 0)
{
    tt_pg *pg = tt_test_pg();

    TT_REQUIRE_OK(tt_pg_barrier(pg, NULL, NULL));
    if (tt_test_rank() == 1)
        TT_REQUIRE_EQ(1, 2);
    TT_REQUIRE_OK(tt_pg_barrier(pg, NULL, NULL));
    printf("not reached\n");
}

TT_TEST_RANKS_HIDDEN(2, meta_ranks, leaks_descriptors, 0)
{
    if (tt_test_rank() == 1)
        TT_CHECK_GE(dup(1), 0);
}
