/* SPDX-License-Identifier: Apache-2.0 */
/* The runner seen from outside: runs this program again with the tests of meta.c and reads what it
 * prints, its reports and its exit code. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/again.h"
#include "testing/testing.h"
#include "tutti/testing.h"

extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

TT_TEST(testing_harness, a_pass_is_silent_and_reported)
{
    const again_outcome *o = RUN("meta.passes");

    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_STR(o->text, "1 passed, 0 failed, 0 skipped\n");
    TT_CHECK_EQ(strncmp(o->report, "meta\tpasses\tpass\t", 17), 0);
    TT_CHECK_CONTAINS(o->report, "\ta note with a tab\n");
    TT_CHECK_CONTAINS(o->junit,
                      "<testsuite name=\"tutti\" tests=\"1\" failures=\"0\" skipped=\"0\">");
    TT_CHECK_CONTAINS(o->junit, "<testcase classname=\"meta\" name=\"passes\" time=");
}

TT_TEST(testing_harness, verbose_shows_what_a_passing_test_prints)
{
    const again_outcome *o = RUN("meta.passes", "-v");

    TT_CHECK_CONTAINS(o->text, "pass meta.passes (");
    TT_CHECK_CONTAINS(o->text, "  | words of a test that passes\n");
}

TT_TEST(testing_harness, failed_checks_print_place_expression_and_values)
{
    const again_outcome *o = RUN("meta.checks_fail");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->text, "FAIL meta.checks_fail (");
    TT_CHECK_CONTAINS(o->text, "  | printed before\n  | tests/unit/testing/meta.c:");
    TT_CHECK_CONTAINS(o->text, ": expected 1 > 2\n");
    TT_CHECK_CONTAINS(o->text, ": expected 40 + 1 == 42, got 41 and 42\n");
    TT_CHECK_CONTAINS(o->text, ": expected 3 >= 4, got 3 and 4\n");
    TT_CHECK_CONTAINS(o->text, "expected 1.5 ~ 1.0 within 0.25, got 1.5 and 1 (difference 0.5)");
    TT_CHECK_CONTAINS(o->text, "nan and 1 (difference nan)");
    TT_CHECK_CONTAINS(o->text, "\"left\"\n  |     \"right\"\n");
    TT_CHECK_CONTAINS(o->text, "\"left\"\n  |     \"(null)\"\n");
    TT_CHECK_CONTAINS(o->text, "\"haystack\"\n  |   without\n  |     \"needle\"\n");
    TT_CHECK_CONTAINS(o->text, "byte 2 of 4 is 0x63 and 0x78");
    TT_CHECK_CONTAINS(o->text, ": expected \"something\" is NULL, got 0x");
    TT_CHECK_CONTAINS(o->text, " is not NULL\n");
    TT_CHECK_CONTAINS(o->text, ", got TT_ERR_IO: the disk is full\n");
    TT_CHECK_CONTAINS(o->text, "expected TT_ERR_INVALID from TT_OK, got TT_OK\n");
    TT_CHECK_CONTAINS(o->text, ", got TT_ERR_PEER: gone\n");
    TT_CHECK_CONTAINS(o->text, "expected an error that says \"words nobody said\" from ");
    TT_CHECK_CONTAINS(o->text, ", got \"other words\"\n");
    TT_CHECK_CONTAINS(o->text, ": failed on request\n");
    TT_CHECK_CONTAINS(o->text, "failures: 16\n");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 1 failed, 0 skipped\n");
    TT_CHECK_CONTAINS(o->report, "\tfail\t");
    TT_CHECK_CONTAINS(o->report, "\ttests/unit/testing/meta.c:");
    TT_CHECK_CONTAINS(o->junit, "<failure message=\"tests/unit/testing/meta.c:");
    TT_CHECK_CONTAINS(o->junit, "expected 1 &gt; 2\"/>");
}

TT_TEST(testing_harness, fail_allocs_notices_a_wrong_status)
{
    const again_outcome *o = RUN("meta.reports_a_failed_allocation_wrongly");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->text, "allocation 1 of ");
    TT_CHECK_CONTAINS(o->text, "failed: got TT_ERR_INVALID: anything else\n");
}

TT_TEST(testing_harness, require_ends_the_test_at_once)
{
    const again_outcome *o = RUN("meta.require_ends_the_test");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->text, "expected 1 == 2, got 1 and 2");
    TT_CHECK_NULL(strstr(o->text, "not reached"));
}

TT_TEST(testing_harness, only_the_first_of_many_failures_are_printed)
{
    const again_outcome *o = RUN("meta.many_failures_are_counted");

    TT_CHECK_CONTAINS(o->text, "got 19 and -1");
    TT_CHECK_NULL(strstr(o->text, "got 20 and -1"));
    TT_CHECK_CONTAINS(o->text, "only counted");
}

TT_TEST(testing_harness, skips_are_counted_with_their_reasons)
{
    const again_outcome *o =
        RUN("meta.skips", "meta.ends_with_a_skip_code", "meta.skips_after_a_failure");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "meta\tskips\tskip\t");
    TT_CHECK_CONTAINS(o->report, "\tonly on day 8\n");
    TT_CHECK_CONTAINS(o->report, "meta\tends_with_a_skip_code\tskip\t");
    TT_CHECK_CONTAINS(o->report, "\tneeds 4 devices\n");
    TT_CHECK_CONTAINS(o->report, "meta\tskips_after_a_failure\tfail\t");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 1 failed, 2 skipped\n");
    TT_CHECK_CONTAINS(o->junit, "<skipped message=\"only on day 8\"/>");
}

TT_TEST(testing_harness, a_process_that_ends_by_itself_has_failed)
{
    const again_outcome *o = RUN("meta.calls_exit", "meta.ends_with_another_code");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "\tcalled exit before its end\n");
    TT_CHECK_CONTAINS(o->report, "\tended with exit code 3\n");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 2 failed, 0 skipped\n");
}

TT_TEST(testing_harness, a_crash_names_its_signal_and_its_place)
{
    const again_outcome *o;

    if (tti_test_sanitized())
        TT_SKIP("the sanitizer handles crashes");
    o = RUN("meta.crashes", "meta.aborts", "meta.passes");
    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "\tkilled by SIGSEGV (Segmentation fault)\n");
    TT_CHECK_CONTAINS(o->report, "\tkilled by SIGABRT (Aborted); before that: tests/unit/testing/");
    TT_CHECK_CONTAINS(o->text, "  | printed before the crash\n  | crashed in thread ");
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 2 failed, 0 skipped\n");
}

TT_TEST(testing_harness, a_test_that_hangs_is_killed_and_shows_its_stack)
{
    const again_outcome *o = RUN("meta.hangs", "--limit", "0.2");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "\ttimed out after 0.2 s\n");
    TT_CHECK_CONTAINS(o->text, "  | stack of thread ");
}

TT_TEST(testing_harness, what_a_test_leaves_behind_is_removed)
{
    const again_outcome *o = RUN("meta.leaves_a_process_and_a_directory", "-v");
    const char *at = strstr(o->text, "left ");
    char dir[256] = "";
    long pid = 0;

    TT_REQUIRE_EQ(o->code, 0);
    TT_REQUIRE_NOT_NULL(at);
    TT_REQUIRE_EQ(sscanf(at, "left %ld and %255s", &pid, dir), 2);
    TT_CHECK_EQ(access(dir, F_OK), -1);
    while (again_is_running(pid)) /* the signal has been sent, but may not have arrived */
        usleep(1000);
}

TT_TEST(testing_harness, checks_count_in_processes_the_test_forks)
{
    const again_outcome *o = RUN("meta.a_forked_process_fails", "--limit", "0.2");

    TT_CHECK_CONTAINS(o->report, "timed out after 0.2 s; before that: tests/unit/testing/meta.c:");
    TT_CHECK_CONTAINS(o->report, "expected 7 == 8, got 7 and 8");
}

TT_TEST(testing_harness, the_seed_can_be_set_and_is_shown_on_failure)
{
    const again_outcome *o = RUN("meta.shows_its_seed", "--seed", "77", "--repeat", "2");

    TT_CHECK_CONTAINS(o->text, "seed is 77\n");
    TT_CHECK_CONTAINS(o->text, "seed is 78\n");
    TT_CHECK_CONTAINS(o->text, "again with: --filter 'meta.shows_its_seed' --seed 78\n");
    setenv("TUTTI_TEST_SEED", "99", 1);
    o = RUN("meta.shows_its_seed");
    TT_CHECK_CONTAINS(o->text, "seed is 99\n");
}

TT_TEST(testing_harness, a_leak_fails_a_test_under_a_leak_sanitizer)
{
    const again_outcome *o;

    if (__lsan_do_recoverable_leak_check == NULL)
        TT_SKIP("not built with a leak sanitizer");
    o = RUN("meta.leaks");
    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "memory leaked");
}

TT_TEST(testing_harness, tests_that_share_a_process_have_their_own_verdicts)
{
    const again_outcome *o = RUN("meta together", "--jobs", "1");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "meta together\ta\tpass\t");
    TT_CHECK_CONTAINS(o->report, "meta together\tb\tfail\t");
    TT_CHECK_CONTAINS(o->report, "meta together\tc\tpass\t");
    TT_CHECK_CONTAINS(o->text, "  | in row b\n");
    TT_CHECK(strstr(o->text, "in row c") == NULL);
    TT_CHECK_STR(again_last_line(o->text), "2 passed, 1 failed, 0 skipped\n");
}

TT_TEST(testing_harness, a_leak_of_tests_that_share_a_process_is_found)
{
    const again_outcome *o;

    if (__lsan_do_recoverable_leak_check == NULL)
        TT_SKIP("not built with a leak sanitizer");
    o = RUN("meta leaks");
    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "memory leaked");
    TT_CHECK_CONTAINS(o->text,
                      "one of 2 tests that share this process, leak to no leak, is to blame");
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 1 failed, 0 skipped\n");
}

TT_TEST(testing_harness, leak_hooks_run_before_the_search)
{
    const again_outcome *o = RUN("meta.leak_hooks_run", "-v");

    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_CONTAINS(o->text, "leak hook ran\n");
}

TT_TEST(testing_harness, tables_add_tests_by_name)
{
    const again_outcome *o = RUN("meta table");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "meta table\trow 0\tfail\t");
    TT_CHECK_CONTAINS(o->report, "meta table\trow 2\tpass\t");
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 2 failed, 0 skipped\n");
}

TT_TEST(testing_harness, filters_select_by_suite_name_and_pattern)
{
    TT_CHECK_STR(RUN("--list", "--filter", "meta table")->text,
                 "meta table.row 0\nmeta table.row 1\nmeta table.row 2\n");
    TT_CHECK_STR(RUN("--list", "meta.skips*", "--filter", "meta.passes")->text,
                 "meta.passes\nmeta.skips\nmeta.skips_after_a_failure\n");
    TT_CHECK_STR(RUN("--list", "meta*.row ?", "--exclude", "*1")->text,
                 "meta table.row 0\nmeta table.row 2\n");
    TT_CHECK_STR(RUN("--list", "meta name.a[b] / *")->text, "meta name.a[b] / *\n");
}

TT_TEST(testing_harness, selecting_nothing_is_an_error)
{
    const again_outcome *o = RUN("no_such_suite");

    TT_CHECK_EQ(o->code, 2);
    TT_CHECK_CONTAINS(o->text, "no test is selected");
}

TT_TEST(testing_harness, wrong_arguments_are_refused)
{
    TT_CHECK_EQ(RUN("--no-such-option")->code, 2);
    TT_CHECK_EQ(RUN("--jobs", "none")->code, 2);
    TT_CHECK_EQ(RUN("--limit", "0")->code, 2);
    TT_CHECK_EQ(RUN("--seed", "x")->code, 2);
    TT_CHECK_EQ(RUN("--help")->code, 0);
}

TT_TEST(testing_harness, repeats_count_as_runs_and_report_once)
{
    const again_outcome *o = RUN("meta.passes", "meta.skips", "--repeat", "3", "--shuffle");
    const char *first = strstr(o->report, "meta\tpasses\tpass\t");

    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_STR(again_last_line(o->text), "3 passed, 0 failed, 3 skipped\n");
    TT_REQUIRE_NOT_NULL(first);
    TT_CHECK_NULL(strstr(first + 1, "meta\tpasses\t"));
}

TT_TEST(testing_harness, one_failed_repetition_fails_the_test_in_the_report)
{
    const again_outcome *o = RUN("meta.fails_with_odd_seeds", "--seed", "10", "--repeat", "3");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_STR(again_last_line(o->text), "2 passed, 1 failed, 0 skipped\n");
    TT_CHECK_CONTAINS(o->report, "meta\tfails_with_odd_seeds\tfail\t");
}

TT_TEST(testing_harness, fail_fast_stops_at_the_first_failure)
{
    const again_outcome *o = RUN("meta table", "--fail-fast", "--jobs", "1");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 1 failed, 0 skipped\n");
}

TT_TEST(testing_harness, tap_has_a_plan_and_a_line_per_test)
{
    const again_outcome *o = RUN("meta table", "meta.skips", "--tap", "--jobs", "1");

    TT_CHECK_EQ(strncmp(o->text, "TAP version 13\n1..4\n", 20), 0);
    TT_CHECK_CONTAINS(o->text, "\nnot ok 2 - meta table.row 0\n# tests/unit/");
    TT_CHECK_CONTAINS(o->text, "\nok 4 - meta table.row 2\n");
    TT_CHECK_CONTAINS(o->text, "\nok 1 - meta.skips # SKIP only on day 8\n");
    TT_CHECK_STR(again_last_line(o->text), "# 1 passed, 2 failed, 1 skipped\n");
}

TT_TEST(testing_harness, no_fork_gives_the_same_verdicts)
{
    const again_outcome *o =
        RUN("meta.passes", "meta.require_ends_the_test", "meta.skips", "--no-fork");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->report, "meta\tpasses\tpass\t");
    TT_CHECK_CONTAINS(o->report, "meta\trequire_ends_the_test\tfail\t");
    TT_CHECK_CONTAINS(o->report, "\tonly on day 8\n");
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 1 failed, 1 skipped\n");
}

TT_TEST(testing_harness, durations_lists_the_slowest)
{
    const again_outcome *o = RUN("meta.hangs", "meta.passes", "--limit", "3", "--durations", "1");
    const char *slowest = strstr(o->text, "slowest:\n");

    TT_REQUIRE_NOT_NULL(slowest);
    TT_CHECK_CONTAINS(slowest, " s  meta.hangs\n");
    TT_CHECK_NULL(strstr(slowest, "meta.passes"));
}

TT_TEST(testing_harness, an_interrupt_ends_the_children_and_prints_what_is_known)
{
    const char *const args[] = { "meta.passes", "meta.hangs", "--limit", "50",
                                 "--jobs",      "1",          "-v",      NULL };
    pid_t pid = again_start(args);
    char text[AGAIN_TEXT] = "";
    const again_outcome *o;

    while (strstr(text, "pass meta.passes") == NULL) {
        usleep(1000);
        again_read("text", text);
    }
    kill(pid, SIGINT);
    o = again_finish(pid);
    TT_CHECK_EQ(o->code, 128 + SIGINT);
    TT_CHECK_STR(again_last_line(o->text), "1 passed, 0 failed, 0 skipped\n");
    TT_CHECK_CONTAINS(o->report, "meta\tpasses\tpass\t");
    TT_CHECK_NULL(strstr(o->report, "meta\thangs\t"));
}

TT_TEST(testing_harness, an_unwritable_report_fails_the_run)
{
    const again_outcome *o = RUN("meta.passes", "--report", "no/such/directory/report");

    TT_CHECK_EQ(o->code, 1);
    TT_CHECK_CONTAINS(o->text, "cannot create \"no/such/directory/report\"");
}
