/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of several ranks seen from outside: what becomes of those of meta_ranks.c. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/again.h"
#include "testing/testing.h"
#include "tutti/testing.h"

/* Seconds from the first failure to the end of the run, on a busy machine under a sanitizer too. */
static double soon(void)
{
    return (tti_test_sanitized() ? 20 : 6) * tti_test_stretch(); /* 0.1 on an idle machine */
}

TT_TEST(testing_ranks, output_is_shown_rank_by_rank)
{
    const again_outcome *o = RUN("meta_ranks.all_pass", "-v");

    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_CONTAINS(o->text,
                      "  | ---- rank 0\n  | rank 0 of 4\n  | ---- rank 1\n  | rank 1 of 4\n"
                      "  | ---- rank 2\n  | rank 2 of 4\n  | ---- rank 3\n");
    TT_CHECK_CONTAINS(o->report, "\tnote of rank 0\n");
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 0 failed, 0 skipped\n");
}

TT_TEST(testing_ranks, the_first_failure_ends_the_others_at_once)
{
    const again_outcome *o =
        RUN("meta_ranks.one_fails_others_wait", "meta_ranks.one_fails_others_at_barrier");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK(o->seconds < soon());
    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): tests/unit/testing/meta_ranks.c:");
    TT_CHECK_CONTAINS(o->report, ": expected 1 == 2, got 1 and 2\n");
    TT_CHECK_CONTAINS(o->report, "\trank 2 (first): tests/unit/testing/meta_ranks.c:");
    TT_CHECK_NULL(strstr(o->text, "not reached"));
    TT_CHECK_NULL(strstr(o->text, "SIGKILL"));
}

TT_TEST(testing_ranks, failures_of_all_ranks_are_put_together)
{
    const again_outcome *o = RUN("meta_ranks.all_fail", "meta_threads.all_fail");
    const char *threads = strstr(o->report, "meta_threads\tall_fail\tfail\t");

    TT_CHECK_EQ(o->code, 1);
    TT_REQUIRE_NOT_NULL(threads);
    for (int i = 0; i < 3; i++) {
        char words[64];

        snprintf(words, sizeof words, "expected tt_test_rank() == -1, got %d and -1", i);
        TT_CHECK_CONTAINS(o->report, words);
        TT_CHECK_CONTAINS(threads, words);
    }
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 2 failed, 0 skipped\n");
}

TT_TEST(testing_ranks, a_crash_names_rank_and_signal)
{
    const again_outcome *o;

    if (tti_test_sanitized())
        TT_SKIP("the sanitizer handles crashes");
    o = RUN("meta_ranks.one_crashes", "meta_threads.one_crashes");
    TT_CHECK_CONTAINS(o->report, "\trank 2 (first): killed by SIGSEGV (Segmentation fault)\n");
    TT_CHECK_CONTAINS(o->report, "one_crashes\tfail\t");
    TT_CHECK_CONTAINS(o->text, "crashed in thread rank 2:\n");
    TT_CHECK_CONTAINS(o->text, "crashed in thread rank 1:\n");
    TT_CHECK_CONTAINS(o->text, "meta_ranks_T_one_crashes at ");
    TT_CHECK(o->seconds < soon());
}

TT_TEST(testing_ranks, a_rank_that_is_killed_fails_the_test)
{
    const again_outcome *o = RUN("meta_ranks.one_is_killed", "meta_ranks.one_calls_exit");

    TT_CHECK_CONTAINS(o->report, "\trank 0 (first): killed by SIGKILL (Killed)\n");
    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): called exit before its end\n");
    TT_CHECK(o->seconds < soon());
}

TT_TEST(testing_ranks, a_time_out_shows_the_stacks_of_all_that_hang)
{
    const again_outcome *o = RUN("meta_ranks.two_hang", "meta_threads.two_hang", "--limit", "4");

    TT_CHECK_CONTAINS(o->report, "meta_ranks\ttwo_hang\tfail\t");
    TT_CHECK_CONTAINS(o->report, "\ttimed out after 4 s: rank 1, 2 had not ended");
    TT_CHECK_CONTAINS(o->text, "---- rank 1\n  | stack of thread rank 1:\n");
    TT_CHECK_CONTAINS(o->text, "---- rank 2\n  | stack of thread rank 2:\n");
    TT_CHECK_NULL(strstr(o->text, "stack of thread rank 0:\n"));
}

TT_TEST(testing_ranks, a_stopped_rank_has_no_stack_and_does_not_hold_the_run)
{
    const again_outcome *o = RUN("meta_ranks.one_is_stopped", "--limit", "4");

    TT_CHECK_CONTAINS(o->report, "\ttimed out after 4 s: rank 1 had not ended");
    TT_CHECK_CONTAINS(o->text, "the stack could not be had\n");
    TT_CHECK(o->seconds < 1 + soon());
}

TT_TEST(testing_ranks, one_skip_skips_the_test)
{
    const again_outcome *o =
        RUN("meta_ranks.one_skips", "meta_ranks.skips_with_words", "meta_threads.one_skips");

    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_CONTAINS(o->report, "\tneeds a larger world\n");
    TT_CHECK_CONTAINS(o->report, " is tired\n");
    TT_CHECK_CONTAINS(o->report, "\tneeds a world of even size\n");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 0 failed, 3 skipped\n");
}

TT_TEST(testing_ranks, ranks_may_end_as_declared_and_only_so)
{
    const again_outcome *o =
        RUN("meta_ranks.ends_as_declared", "meta_ranks.any_may_end_so",
            "meta_ranks.exits_are_ignored", "meta_ranks.does_not_end_as_declared");

    TT_CHECK_STR(again_last_line(o->text), "3 passed, 1 failed, 0 skipped\n");
    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): expected to end by signal 9, ended with exit "
                                 "code 0\n");
}

TT_TEST(testing_ranks, the_seed_is_the_same_everywhere)
{
    const again_outcome *o = RUN("meta_ranks.shows_its_seed", "--seed", "55");

    TT_CHECK_CONTAINS(o->text, "seed of rank 0 is 55\n");
    TT_CHECK_CONTAINS(o->text, "seed of rank 1 is 55\n");
    TT_CHECK_CONTAINS(o->text, "again with: --filter 'meta_ranks.shows_its_seed' --seed 55\n");
}

static void wait_for_end(long pid)
{
    while (again_is_running(pid)) /* the signal has been sent, but may not have arrived */
        usleep(1000);
}

TT_TEST(testing_ranks, children_of_ranks_are_killed_too)
{
    const again_outcome *o = RUN("meta_ranks.leaves_children", "-v");
    const char *at = o->text;
    long child, rank;

    TT_CHECK_EQ(o->code, 0);
    for (int i = 0; i < 2; i++) {
        at = strstr(at, "left ");
        TT_REQUIRE_NOT_NULL(at);
        TT_REQUIRE_EQ(sscanf(at++, "left %ld, %ld", &child, &rank), 2);
        wait_for_end(child);
        wait_for_end(rank);
    }
}

TT_TEST(testing_ranks, ranks_die_with_the_runner)
{
    const char *const args[] = { "meta_ranks.says_who_it_is", "--no-fork", NULL };
    pid_t pid = again_start(args);
    char path[64], text[256] = "";
    long ranks[2] = { 0, 0 };
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    while (sscanf(text, "%ld %ld", &ranks[0], &ranks[1]) != 2) {
        usleep(1000);
        f = fopen(path, "r");
        TT_REQUIRE_NOT_NULL(f);
        if (fgets(text, sizeof text, f) == NULL)
            text[0] = '\0';
        fclose(f);
    }
    kill(pid, SIGKILL);
    TT_CHECK_EQ(again_finish(pid)->code, -SIGKILL);
    wait_for_end(ranks[0]);
    wait_for_end(ranks[1]);
}

/* ---- threads ---- */

TT_TEST(testing_ranks, a_failing_thread_wakes_the_others)
{
    const again_outcome *o =
        RUN("meta_threads.one_fails_others_at_barrier", "meta_threads.hooks_wake");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->text, "rank 2: tests/unit/testing/meta_ranks.c:");
    TT_CHECK_NULL(strstr(o->text, "not reached"));
    TT_CHECK_CONTAINS(o->text, "hook of rank 0\n");
    TT_CHECK_CONTAINS(o->text, "hook of rank 2\n");
    TT_CHECK_NULL(strstr(o->text, "hook of rank 1\n"));
    TT_CHECK(o->seconds < soon());
}

TT_TEST(testing_ranks, threads_that_do_not_wake_end_with_the_process)
{
    const again_outcome *o = RUN("meta_threads.one_fails_others_are_deaf");

    TT_CHECK_CONTAINS(o->report,
                      "\trank 1, 2 had not ended 1 s after rank 0 did; rank 0 (first): ");
    TT_CHECK_CONTAINS(o->text, "stack of thread rank 2:\n");
    TT_CHECK(o->seconds < soon());
}

/* ---- kept ---- */

TT_TEST(testing_ranks, kept_ranks_run_all_tests_of_a_suite)
{
    const again_outcome *o = RUN("meta_kept", "-v", "--seed", "5");
    long first = 0, second = -1;
    const char *at;

    TT_CHECK_CONTAINS(o->report, "meta_kept\ta_first\tpass\t");
    TT_CHECK_CONTAINS(o->report, "meta_kept\tb_same_processes\tpass\t");
    TT_CHECK_CONTAINS(o->report, "meta_kept\tc_skips\tskip\t");
    TT_CHECK_CONTAINS(o->report, "\tno peer access between devices\n");
    TT_CHECK_CONTAINS(o->report, "meta_kept\td_one_fails\tfail\t");
    TT_CHECK_CONTAINS(o->report, "\td_one_fails failed, its ranks are not used again\n");
    TT_CHECK_STR(again_last_line(o->text), "2 passed, 1 failed, 2 skipped\n");
    at = strstr(o->text, "  | process ");
    TT_REQUIRE_NOT_NULL(at);
    TT_CHECK_EQ(sscanf(at, "  | process %ld, seed 5", &first), 1);
    at = strstr(o->text, "pass meta_kept.b_same_processes");
    TT_REQUIRE_NOT_NULL(at);
    at = strstr(at, "  | process ");
    TT_REQUIRE_NOT_NULL(at);
    TT_CHECK_EQ(sscanf(at, "  | process %ld", &second), 1);
    TT_CHECK_EQ(first, second);
    TT_CHECK_NULL(strstr(o->text, "not reached"));
}

TT_TEST(testing_ranks, kept_ranks_that_die_hang_or_are_deaf_are_noticed)
{
    const again_outcome *o = RUN("meta_kept_dies", "meta_kept_deaf");

    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): killed by SIGKILL (Killed)\n");
    TT_CHECK_CONTAINS(o->report, "\tgave up after 1 s: no answer from rank 1; rank 0 (first): ");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 2 failed, 1 skipped\n");
    TT_CHECK(o->seconds < 1 + soon());
    o = RUN("meta_kept_hangs", "--limit", "4");
    TT_CHECK_CONTAINS(o->report, "\ttimed out after 4 s: no answer from rank 1\n");
    TT_CHECK_CONTAINS(o->text, "stack of thread rank 1:\n");
}

TT_TEST(testing_ranks, a_skip_in_the_set_up_of_kept_ranks_skips_all)
{
    const again_outcome *o = RUN("meta_kept_skips");

    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_CONTAINS(o->report, "\tneeds 2 devices\n");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 0 failed, 2 skipped\n");
}

/* ---- groups, descriptors ---- */

TT_TEST(testing_ranks, a_failure_wakes_ranks_in_a_collective)
{
    const again_outcome *o = RUN("meta_threads.one_fails_others_in_a_collective",
                                 "meta_ranks.one_fails_others_in_a_collective");

    TT_CHECK_STR(again_last_line(o->text), "0 passed, 2 failed, 0 skipped\n");
    TT_CHECK_CONTAINS(o->report, "rank 1 (first): tests/unit/testing/meta_ranks.c:");
    TT_CHECK_NULL(strstr(o->text, "not reached"));
    TT_CHECK_NULL(strstr(o->report, "had not ended"));
    TT_CHECK(o->seconds < soon());
}

TT_TEST(testing_ranks, descriptors_left_open_are_named)
{
    const again_outcome *o = RUN("meta_ranks.leaks_descriptors");

    TT_CHECK_CONTAINS(o->report, "rank 1 (first): tests/unit/testing/meta_ranks.c:");
    TT_CHECK_CONTAINS(o->report, ": 1 descriptors leaked; open: 3 -> /memfd:rank output");
}
