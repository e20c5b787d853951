/* SPDX-License-Identifier: Apache-2.0 */
/* tt_test_main: options, selection, run, summary, reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/testing.h"
#include "testing/world.h"

static void list(const tt_test *const *tests, int n_tests)
{
    for (int i = 0; i < n_tests; i++)
        printf("%s.%s\n", tests[i]->suite, tests[i]->name);
}

/* A small generator of its own: the order must not depend on the library under test. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void shuffle(tti_test_run *runs, int n_runs, uint64_t seed)
{
    for (int i = n_runs - 1; i > 0; i--) {
        int j = (int)(next_random(&seed) % (uint64_t)(i + 1));
        tti_test_run swap = runs[i];

        runs[i] = runs[j];
        runs[j] = swap;
    }
}

static tti_test_run *plan(const tti_test_options *opt, const tt_test *const *tests, int n_tests)
{
    int n_runs = n_tests * opt->repeat;
    tti_test_run *runs = calloc((size_t)n_runs, sizeof *runs);

    if (runs == NULL)
        return NULL;
    for (int i = 0; i < n_runs; i++) {
        runs[i].test = tests[i % n_tests];
        runs[i].order = i % n_tests;
        runs[i].seed = opt->seed + (uint64_t)(i / n_tests);
    }
    if (opt->shuffle)
        shuffle(runs, n_runs, opt->seed);
    return runs;
}

static int run(const tti_test_options *opt, const tt_test *const *tests, int n_tests)
{
    int n_runs = n_tests * opt->repeat;
    tti_test_run *runs = plan(opt, tests, n_tests);
    bool written = true;
    tti_test_totals totals;
    int interrupted;

    if (runs == NULL) {
        fprintf(stderr, "testing: out of memory\n");
        return 2;
    }
    tti_test_console_begin(opt, n_runs);
    interrupted = opt->no_fork ? tti_test_run_inline(runs, n_runs, opt)
                               : tti_test_run_forked(runs, n_runs, opt);
    tti_test_console_end(runs, n_runs);
    if (opt->report != NULL)
        written = tti_test_write_tsv(opt->report, runs, n_runs, n_tests);
    if (opt->junit != NULL)
        written = tti_test_write_junit(opt->junit, runs, n_runs, n_tests) && written;
    totals = tti_test_count(runs, n_runs);
    free(runs);
    if (interrupted != 0)
        return 128 + interrupted;
    return totals.failed == 0 && totals.passed + totals.skipped > 0 && written ? 0 : 1;
}

int tt_test_main(int argc, char **argv)
{
    tti_test_options opt;
    const tt_test **tests = NULL;
    int n_tests = 0;
    int code;

    if (argc == 3 && strcmp(argv[1], TTI_RANK_OPTION) == 0)
        return tti_rank_main(argv[2]);
    code = tti_test_options_parse(&opt, argc, argv);
    if (code >= 0)
        goto out;
    code = 2;
    if (!tti_test_collect(&opt, &tests, &n_tests))
        goto out;
    if (n_tests == 0)
        fprintf(stderr, "testing: no test is selected\n");
    else if (opt.list)
        list(tests, n_tests);
    if (n_tests > 0)
        code = opt.list ? 0 : run(&opt, tests, n_tests);

out:
    free((void *)tests);
    tti_test_options_free(&opt);
    return code;
}
