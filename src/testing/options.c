/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a test program. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/env.h"
#include "testing/testing.h"

static const char help_text[] =
    "  --filter WHAT     run only these: a suite, suite.name or a pattern such as 'op*.add_*';\n"
    "                    may be repeated, and given without --filter\n"
    "  --exclude WHAT    leave these out; may be repeated\n"
    "  --list            print the names of the selected tests and run none\n"
    "  --jobs N          how many tests run at a time (default: one per core)\n"
    "  --repeat N        run every test N times\n"
    "  --shuffle         in random order\n"
    "  --seed N          seed of random tests and of --shuffle (also TUTTI_TEST_SEED)\n"
    "  --limit SECONDS   time limit of every test, instead of its own\n"
    "  --fail-fast       stop at the first failure\n"
    "  --no-fork         run in this process, one by one: for debuggers; no time limit\n"
    "  --hidden          run only tests that are hidden: they fail on purpose\n"
    "  --verbose, -v     show every test and all it prints\n"
    "  --durations N     list the N slowest tests\n"
    "  --tap             print in the Test Anything Protocol\n"
    "  --report FILE     write lines of: suite, name, pass|fail|skip, seconds, note\n"
    "  --junit FILE      write JUnit XML\n"
    "  --help            print this\n";

enum {
    OPT_FILTER = 1000,
    OPT_EXCLUDE,
    OPT_LIST,
    OPT_JOBS,
    OPT_REPEAT,
    OPT_SHUFFLE,
    OPT_SEED,
    OPT_LIMIT,
    OPT_FAIL_FAST,
    OPT_NO_FORK,
    OPT_HIDDEN,
    OPT_DURATIONS,
    OPT_TAP,
    OPT_REPORT,
    OPT_JUNIT,
};

static const struct option long_options[] = {
    { "filter", required_argument, NULL, OPT_FILTER },
    { "exclude", required_argument, NULL, OPT_EXCLUDE },
    { "list", no_argument, NULL, OPT_LIST },
    { "jobs", required_argument, NULL, OPT_JOBS },
    { "repeat", required_argument, NULL, OPT_REPEAT },
    { "shuffle", no_argument, NULL, OPT_SHUFFLE },
    { "seed", required_argument, NULL, OPT_SEED },
    { "limit", required_argument, NULL, OPT_LIMIT },
    { "fail-fast", no_argument, NULL, OPT_FAIL_FAST },
    { "no-fork", no_argument, NULL, OPT_NO_FORK },
    { "hidden", no_argument, NULL, OPT_HIDDEN },
    { "verbose", no_argument, NULL, 'v' },
    { "durations", required_argument, NULL, OPT_DURATIONS },
    { "tap", no_argument, NULL, OPT_TAP },
    { "report", required_argument, NULL, OPT_REPORT },
    { "junit", required_argument, NULL, OPT_JUNIT },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static bool parse_count(const char *what, const char *text, int *value_p)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (end == text || *end != '\0' || v < 1 || v > 1000000) {
        fprintf(stderr, "testing: %s: expected a number from 1 to 1000000, got '%s'\n", what, text);
        return false;
    }
    *value_p = (int)v;
    return true;
}

static bool parse_seed(const char *what, const char *text, uint64_t *value_p)
{
    char *end;

    *value_p = strtoull(text, &end, 0);
    if (end == text || *end != '\0') {
        fprintf(stderr, "testing: %s: expected a number, got '%s'\n", what, text);
        return false;
    }
    return true;
}

static bool parse_seconds(const char *what, const char *text, double *value_p)
{
    char *end;

    *value_p = strtod(text, &end);
    if (end == text || *end != '\0' || !(*value_p > 0)) {
        fprintf(stderr, "testing: %s: expected seconds above 0, got '%s'\n", what, text);
        return false;
    }
    return true;
}

static bool take(tti_test_options *opt, int c, const char *arg)
{
    switch (c) {
    case OPT_FILTER:
        opt->filters[opt->n_filters++] = arg;
        return true;
    case OPT_EXCLUDE:
        opt->excludes[opt->n_excludes++] = arg;
        return true;
    case OPT_LIST:
        opt->list = true;
        return true;
    case OPT_JOBS:
        return parse_count("--jobs", arg, &opt->jobs);
    case OPT_REPEAT:
        return parse_count("--repeat", arg, &opt->repeat);
    case OPT_SHUFFLE:
        opt->shuffle = true;
        return true;
    case OPT_SEED:
        return parse_seed("--seed", arg, &opt->seed);
    case OPT_LIMIT:
        return parse_seconds("--limit", arg, &opt->limit);
    case OPT_FAIL_FAST:
        opt->fail_fast = true;
        return true;
    case OPT_NO_FORK:
        opt->no_fork = true;
        return true;
    case OPT_HIDDEN:
        opt->hidden = true;
        return true;
    case OPT_DURATIONS:
        return parse_count("--durations", arg, &opt->durations);
    case OPT_TAP:
        opt->tap = true;
        return true;
    case OPT_REPORT:
        opt->report = arg;
        return true;
    case OPT_JUNIT:
        opt->junit = arg;
        return true;
    case 'v':
        opt->verbose = true;
        return true;
    case 'h':
        opt->help = true;
        return true;
    default:
        return false;
    }
}

static bool set_defaults(tti_test_options *opt, int argc)
{
    const char *seed = tti_env_get(TTI_ENV_TEST_SEED);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool terminal = isatty(STDOUT_FILENO) == 1;

    opt->filters = calloc((size_t)argc + 1, sizeof *opt->filters);
    opt->excludes = calloc((size_t)argc + 1, sizeof *opt->excludes);
    if (opt->filters == NULL || opt->excludes == NULL) {
        fprintf(stderr, "testing: out of memory\n");
        return false;
    }
    opt->jobs = cores > 0 ? (int)cores : 1;
    opt->repeat = 1;
    opt->colour = terminal && getenv("NO_COLOR") == NULL;
    opt->progress = terminal;
    if (seed != NULL)
        return parse_seed("TUTTI_TEST_SEED", seed, &opt->seed);
    if (getrandom(&opt->seed, sizeof opt->seed, 0) != (ssize_t)sizeof opt->seed)
        opt->seed = (uint64_t)getpid();
    opt->seed %= 1000000000; /* short enough to type */
    return true;
}

int tti_test_options_parse(tti_test_options *opt, int argc, char **argv)
{
    int c;

    memset(opt, 0, sizeof *opt);
    if (!set_defaults(opt, argc))
        return 2;
    optind = 0;
    while ((c = getopt_long(argc, argv, "vh", long_options, NULL)) != -1) {
        if (!take(opt, c, optarg))
            return 2;
    }
    while (optind < argc)
        opt->filters[opt->n_filters++] = argv[optind++];
    if (opt->help) {
        printf("usage: %s [options] [WHAT...]\n%s", argv[0], help_text);
        return 0;
    }
    opt->progress = opt->progress && !opt->tap && !opt->no_fork;
    return -1;
}

void tti_test_options_free(tti_test_options *opt)
{
    free((void *)opt->filters);
    free((void *)opt->excludes);
}
