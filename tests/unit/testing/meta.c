/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that misbehave on purpose. They are hidden; test_harness.c runs this program again to look
 * at what becomes of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "tutti/testing.h"

static void no_core_dump(void)
{
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
}

TT_TEST_HIDDEN(meta, passes, 0)
{
    printf("words of a test that passes\n");
    TT_NOTE("a note with\ta tab");
    TT_CHECK(true);
}

TT_TEST_HIDDEN(meta, checks_fail, 0)
{
    printf("printed before\n");
    TT_CHECK(1 > 2);
    TT_CHECK_EQ(40 + 1, 42);
    TT_CHECK_GE(3, 4);
    TT_CHECK_NEAR(1.5, 1.0, 0.25);
    TT_CHECK_NEAR(0.0 / 0.0 * 1.0, 1.0, 1e30);
    TT_CHECK_STR("left", "right");
    TT_CHECK_STR("left", NULL);
    TT_CHECK_CONTAINS("haystack", "needle");
    TT_CHECK_MEM("abcd", "abxd", 4);
    TT_CHECK_NULL("something");
    TT_CHECK_NOT_NULL(NULL);
    TT_CHECK_OK(tt_fail(TT_ERR_IO, "the disk is full"));
    TT_CHECK_ERR(TT_OK, TT_ERR_INVALID);
    TT_CHECK_ERR(tt_fail(TT_ERR_PEER, "gone"), TT_ERR_INVALID);
    TT_CHECK_ERR_SAYS(tt_fail(TT_ERR_IO, "other words"), TT_ERR_IO, "words nobody said");
    TT_FAIL_TEST("failed on %s", "request");
    printf("failures: %d\n", tt_test_failures());
}

static tt_status hides_the_failure(void *ctx)
{
    void *p = tti_malloc(8);

    (void)ctx;
    if (p == NULL)
        return tt_fail(TT_ERR_INVALID, "anything else");
    tti_mfree(p);
    return TT_OK;
}

TT_TEST_HIDDEN(meta, reports_a_failed_allocation_wrongly, 0)
{
    TT_CHECK_EQ(tt_test_fail_allocs(hides_the_failure, NULL), 1);
}

TT_TEST_HIDDEN(meta, require_ends_the_test, 0)
{
    TT_REQUIRE_EQ(1, 2);
    printf("not reached\n");
}

TT_TEST_HIDDEN(meta, many_failures_are_counted, 0)
{
    for (int i = 0; i < 1000; i++)
        TT_CHECK_EQ(i, -1);
}

TT_TEST_HIDDEN(meta, skips, 0)
{
    TT_SKIP("only on day %d", 8);
}

TT_TEST_HIDDEN(meta, skips_after_a_failure, 0)
{
    TT_CHECK(false);
    TT_SKIP("too late");
}

TT_TEST_HIDDEN(meta, ends_with_a_skip_code, 0)
{
    _exit(TT_TEST_SKIP_4_DEVICES);
}

TT_TEST_HIDDEN(meta, ends_with_another_code, 0)
{
    _exit(3);
}

TT_TEST_HIDDEN(meta, calls_exit, 0)
{
    exit(0);
}

TT_TEST_HIDDEN(meta, crashes, 0)
{
    no_core_dump();
    printf("printed before the crash\n");
    raise(SIGSEGV);
}

TT_TEST_HIDDEN(meta, aborts, 0)
{
    no_core_dump();
    TT_CHECK_EQ(5, 6);
    abort();
}

TT_TEST_HIDDEN(meta, hangs, 0.2)
{
    for (;;)
        pause();
}

TT_TEST_HIDDEN(meta, leaves_a_process_and_a_directory, 0)
{
    const char *dir = tt_test_tmpdir();
    char path[512];
    FILE *f;
    pid_t pid;

    snprintf(path, sizeof path, "%s/file", dir);
    f = fopen(path, "w");
    TT_REQUIRE_NOT_NULL(f);
    fclose(f);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    printf("left %ld and %s\n", (long)pid, dir);
}

TT_TEST_HIDDEN(meta, a_forked_process_fails, 0)
{
    pid_t pid = fork();

    if (pid == 0)
        TT_REQUIRE_EQ(7, 8);
    raise(SIGSTOP); /* until the runner gives up; see hangs */
}

TT_TEST_HIDDEN(meta, shows_its_seed, 0)
{
    printf("seed is %llu\n", (unsigned long long)tt_test_seed());
    TT_CHECK(false);
}

TT_TEST_HIDDEN(meta, fails_with_odd_seeds, 0)
{
    TT_CHECK_EQ(tt_test_seed() % 2, 0);
}

static void lose_memory(void)
{
    static void *volatile kept;

    kept = malloc(100);
    memset(kept, 1, 100);
    kept = NULL;
}

TT_TEST_HIDDEN(meta, leaks, 0)
{
    lose_memory();
}

static void dropped_too_late(void *ctx)
{
    (void)ctx;
    printf("leak hook ran\n");
}

TT_TEST_HIDDEN(meta, leak_hooks_run, 0)
{
    tt_test_at_leak_check(dropped_too_late, NULL);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static void row(void *ctx)
{
    TT_CHECK_STR(ctx, "row 2");
}

/* Rows that may share a process: "b" fails, and "leak" leaves memory behind before the last one runs. */
static void shared_row(void *ctx)
{
    const char *name = ctx;

    printf("in row %s\n", name);
    if (strcmp(name, "leak") == 0)
        lose_memory();
    TT_CHECK(strcmp(name, "b") != 0);
}

TT_TEST_TABLE(meta_together)
{
    static const char *const rows[][2] = { { "meta together", "a" },
                                           { "meta together", "b" },
                                           { "meta together", "c" },
                                           { "meta leaks", "leak" },
                                           { "meta leaks", "no leak" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_test *t = tt_test_add(rows[i][0], rows[i][1], shared_row, (void *)rows[i][1]);

        if (t != NULL)
            t->hidden = t->together = true;
    }
}

TT_TEST_TABLE(meta)
{
    static char names[3][8];
    tt_test *odd = tt_test_add("meta name", "a[b] / *", nothing, NULL);

    if (odd != NULL)
        odd->hidden = true;
    for (int i = 0; i < 3; i++) {
        tt_test *t;

        snprintf(names[i], sizeof names[i], "row %d", i);
        t = tt_test_add("meta table", names[i], row, names[i]);
        if (t != NULL)
            t->hidden = true;
    }
}
