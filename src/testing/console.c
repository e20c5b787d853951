/* SPDX-License-Identifier: Apache-2.0 */
/* What a person sees while tests run and at the end; or, with --tap, what a TAP reader sees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/testing.h"

static struct {
    const tti_test_options *opt;
    int n_runs;
    int n_done;
    tti_test_totals totals;
} console;

static const char *const verdict_words[] = { "skip", "pass", "FAIL" };
static const char *const verdict_colours[] = { "\033[33m", "\033[32m", "\033[1;31m" };

static const char *colour(const char *code)
{
    return console.opt->colour ? code : "";
}

static void erase_progress(void)
{
    if (console.opt->progress)
        fputs("\r\033[K", stdout);
}

static void count(tti_test_totals *totals, tti_test_verdict v)
{
    totals->passed += v == TTI_TEST_PASS;
    totals->failed += v == TTI_TEST_FAIL;
    totals->skipped += v == TTI_TEST_SKIP;
}

tti_test_totals tti_test_count(const tti_test_run *runs, int n_runs)
{
    tti_test_totals totals = { 0, 0, 0 };

    for (int i = 0; i < n_runs; i++) {
        if (runs[i].done)
            count(&totals, runs[i].verdict);
    }
    return totals;
}

void tti_test_console_begin(const tti_test_options *opt, int n_runs)
{
    console.opt = opt;
    console.n_runs = n_runs;
    console.n_done = 0;
    console.totals = (tti_test_totals){ 0, 0, 0 };
    if (opt->tap)
        printf("TAP version 13\n1..%d\n", n_runs);
    else if (opt->shuffle)
        printf("shuffled with --seed %llu\n", (unsigned long long)opt->seed);
}

void tti_test_console_running(const tti_test_run *run)
{
    if (console.opt->no_fork && !console.opt->tap)
        printf("run  %s.%s\n", run->test->suite, run->test->name);
    if (console.opt->progress) {
        printf("\r[%d/%d]%s %s.%.60s\033[K", console.n_done, console.n_runs,
               console.totals.failed > 0 ? " FAILED:" : "", run->test->suite, run->test->name);
    }
    fflush(stdout);
}

static void print_indented(const char *text, const char *prefix)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");

        printf("%s%.*s\n", prefix, (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* A failed check has printed itself; a crash has not. */
static bool said_already(const tti_test_run *run)
{
    return run->output != NULL && strstr(run->output, run->note) != NULL;
}

static void print_tap(const tti_test_run *run)
{
    bool skipped = run->verdict == TTI_TEST_SKIP;
    int n_reason = skipped ? (int)strcspn(run->note, "\n") : 0;

    printf("%sok %d - %s.%s%s%.*s\n", run->verdict == TTI_TEST_FAIL ? "not " : "", console.n_done,
           run->test->suite, run->test->name, skipped ? " # SKIP " : "", n_reason, run->note);
    if (run->verdict != TTI_TEST_FAIL)
        return;
    if (!said_already(run))
        print_indented(run->note, "# ");
    if (run->output != NULL)
        print_indented(run->output, "# ");
}

static void print_result(const tti_test_run *run)
{
    erase_progress();
    printf("%s%s%s %s.%s (%.3f s)", colour(verdict_colours[run->verdict]),
           verdict_words[run->verdict], colour("\033[0m"), run->test->suite, run->test->name,
           run->seconds);
    if (run->note[0] != '\0' && !said_already(run))
        printf(": %.*s", (int)strcspn(run->note, "\n"), run->note);
    putchar('\n');
    if (run->output != NULL)
        print_indented(run->output, "  | ");
    if (run->verdict == TTI_TEST_FAIL && run->seed_used)
        printf("  again with: --filter '%s.%s' --seed %llu\n", run->test->suite, run->test->name,
               (unsigned long long)run->seed);
}

void tti_test_console_result(const tti_test_run *run)
{
    console.n_done++;
    count(&console.totals, run->verdict);
    if (console.opt->tap)
        print_tap(run);
    else if (run->verdict == TTI_TEST_FAIL || console.opt->verbose)
        print_result(run);
    fflush(stdout);
}

static int slower_first(const void *a, const void *b)
{
    const tti_test_run *const *x = a, *const *y = b;

    return ((*x)->seconds < (*y)->seconds) - ((*x)->seconds > (*y)->seconds);
}

static void print_slowest(const tti_test_run *runs, int n_runs, int n_wanted)
{
    const tti_test_run **order = calloc((size_t)n_runs + 1, sizeof *order);
    int n = 0;

    if (order == NULL)
        return;
    for (int i = 0; i < n_runs; i++) {
        if (runs[i].done)
            order[n++] = &runs[i];
    }
    qsort((void *)order, (size_t)n, sizeof *order, slower_first);
    printf("slowest:\n");
    for (int i = 0; i < n && i < n_wanted; i++)
        printf("  %8.3f s  %s.%s\n", order[i]->seconds, order[i]->test->suite,
               order[i]->test->name);
    free((void *)order);
}

static void print_failed(const tti_test_run *runs, int n_runs)
{
    for (int i = 0; i < n_runs; i++) {
        if (runs[i].done && runs[i].verdict == TTI_TEST_FAIL)
            printf("%sfailed%s %s.%s\n", colour(verdict_colours[TTI_TEST_FAIL]), colour("\033[0m"),
                   runs[i].test->suite, runs[i].test->name);
    }
}

void tti_test_console_end(const tti_test_run *runs, int n_runs)
{
    const tti_test_options *opt = console.opt;
    tti_test_totals t = tti_test_count(runs, n_runs);

    erase_progress();
    if (opt->durations > 0 && !opt->tap)
        print_slowest(runs, n_runs, opt->durations);
    if (!opt->tap)
        print_failed(runs, n_runs);
    printf("%s%d passed, %d failed, %d skipped\n", opt->tap ? "# " : "", t.passed, t.failed,
           t.skipped);
    fflush(stdout);
}
