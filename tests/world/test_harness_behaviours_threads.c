/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviours of the harness by name: ranks that are threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <tutti/testing_tools.h>
#include <unistd.h>

#include "harness/again.h"
#include "testing/testing.h"

static double soon(void)
{
    return (tti_test_sanitized() ? 20 : 6) * tti_test_stretch(); /* 0.1 on an idle machine */
}

TT_TEST_THREADS_NAMED(4, spawn_threads_and_init_comms, "harness", "spawn_threads_and_init_comms")
{
    tt_pg *pg = tt_test_pg();

    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_rank(pg), tt_test_rank());
    TT_CHECK_EQ(tt_pg_size(pg), 4);
    TT_CHECK_STR(tt_pg_backend(pg), "threads");
    TT_CHECK_STR(tt_store_kind(tt_test_store()), "memory");
}

TT_TEST_THREADS_NAMED(0, multi_threaded_test_case, "harness", "MultiThreadedTestCase")
{
    static atomic_int n_arrived;

    TT_CHECK_EQ(tt_test_size(), tt_test_world_size());
    TT_CHECK_GE(tt_test_rank(), 0);
    TT_CHECK_NE(gettid(), getpid()); /* the main thread runs no test code */
    atomic_fetch_add(&n_arrived, 1);
    tt_test_barrier();
    TT_CHECK_EQ(atomic_load(&n_arrived), tt_test_size());
}

TT_TEST_NAMED(mt_join_or_run, "harness", "MultiThreadedTestCase.join_or_run")
{
    const again_outcome *o = RUN("meta_threads.all_pass", "-v");

    for (int i = 0; i < 4; i++) {
        char words[40], *at;

        snprintf(words, sizeof words, "thread rank %d of 4\n", i);
        at = strstr(o->text, words);
        TT_REQUIRE_NOT_NULL(at);
        TT_CHECK_NULL(strstr(at + 1, words));
    }
    TT_CHECK_EQ(o->code, 0);
}

/* ---- hooks of a suite ---- */

static _Thread_local int n_set_up;
static pthread_t main_thread;

__attribute__((constructor)) static void note_main_thread(void)
{
    main_thread = pthread_self();
}

static void thread_set_up(void *ctx)
{
    (void)ctx;
    n_set_up++;
    printf("set-up of rank %d\n", tt_test_rank());
}

static void thread_tear_down(void *ctx)
{
    (void)ctx;
    if (tt_pg_is_initialized())
        TT_FAIL_TEST("the group is still there");
    if (pthread_equal(pthread_self(), main_thread))
        TT_FAIL_TEST("on the main thread");
    printf("tear-down of rank %d\n", tt_test_rank());
}

TT_TEST_TABLE(meta_thread_hooks)
{
    static tt_test_suite suite = { .suite = "meta_thread_hooks",
                                   .thread_set_up = thread_set_up,
                                   .thread_tear_down = thread_tear_down };

    tt_test_suite_register(&suite);
}

TT_TEST_THREADS_HIDDEN(3, meta_thread_hooks, run_in_every_thread, 0)
{
    TT_CHECK_EQ(n_set_up, 1);
}

TT_TEST_NAMED(mt_hooks, "harness", "MultiThreadedTestCase.perThreadSetUp / perThreadTearDown")
{
    const again_outcome *o = RUN("meta_thread_hooks", "-v");

    TT_CHECK_EQ(o->code, 0);
    for (int i = 0; i < 3; i++) {
        char words[40];

        snprintf(words, sizeof words, "set-up of rank %d\n", i);
        TT_CHECK_CONTAINS(o->text, words);
        snprintf(words, sizeof words, "tear-down of rank %d\n", i);
        TT_CHECK_CONTAINS(o->text, words);
    }
}

TT_TEST_THREADS_NAMED(3, mt_spawn, "harness", "MultiThreadedTestCase._spawn_threads")
{
    static atomic_int ranks_seen;
    static tt_store *stores[3];

    atomic_fetch_or(&ranks_seen, 1 << tt_test_rank());
    stores[tt_test_rank()] = tt_test_store();
    tt_test_barrier();
    TT_CHECK_EQ(atomic_load(&ranks_seen), 7);
    TT_CHECK_PTR(stores[0], stores[1]); /* one store, shared by all */
    TT_CHECK_PTR(stores[0], stores[2]);
    tt_test_barrier();
}

TT_TEST_NAMED(mt_run_test, "harness", "MultiThreadedTestCase.run_test_with_threaded_pg")
{
    const again_outcome *o =
        RUN("meta_threads.hooks_wake", "meta_threads.one_fails_others_at_barrier");

    TT_CHECK_CONTAINS(o->text, "hook of rank 0\n");
    TT_CHECK_CONTAINS(o->text, "hook of rank 2\n");
    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): ");
    TT_CHECK_CONTAINS(o->report, "\trank 2 (first): ");
    TT_CHECK(o->seconds < soon());
}

TT_TEST_NAMED(mt_join, "harness", "MultiThreadedTestCase._join_threads")
{
    const again_outcome *o = RUN("meta_threads.two_hang", "meta_threads.all_pass", "--limit", "4");

    TT_CHECK_CONTAINS(o->report, "\ttimed out after 4 s: rank 1, 2 had not ended");
    TT_CHECK_CONTAINS(o->text, "stack of thread rank 2:\n");
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 1 failed, 0 skipped\n");
    TT_CHECK(o->seconds < 1 + soon());
}

TT_TEST_NAMED(mt_return_codes, "harness", "MultiThreadedTestCase._check_return_codes")
{
    const again_outcome *o = RUN("meta_threads.all_fail", "meta_threads.one_skips");
    int n = 0;

    for (const char *at = o->report; (at = strstr(at, "expected tt_test_rank() == -1")); at++)
        n++;
    TT_CHECK_EQ(n, 3); /* of all threads, in one line */
    TT_CHECK_CONTAINS(o->report, "\tneeds a world of even size\n");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 1 failed, 1 skipped\n");
}

TT_TEST_THREADS_NAMED(3, mt_on_rank, "harness",
                      "MultiThreadedTestCase.assertEqualOnRank / assertNotEqualOnRank")
{
    TT_CHECK(TT_CHECK_EQ_ON_RANK(0, tt_test_rank(), 0));
    TT_CHECK(TT_CHECK_EQ_ON_RANK(2, tt_test_rank(), 2));
    TT_CHECK(TT_CHECK_NE_ON_RANK(1, tt_test_rank(), 0));
    if (tt_test_rank() == 0)
        TT_CHECK_STR(again_last_line(RUN("meta_on_rank")->text), "0 passed, 2 failed, 0 skipped\n");
}

TT_TEST_THREADS_HIDDEN(2, meta_on_rank, equal_does_not_hold, 0)
{
    TT_CHECK_EQ_ON_RANK(1, tt_test_rank(), 0);
}

TT_TEST_THREADS_HIDDEN(2, meta_on_rank, not_equal_does_not_hold, 0)
{
    TT_CHECK_NE_ON_RANK(0, tt_test_rank(), 0);
}
