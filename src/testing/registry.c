/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of the program: registered before main, added by tables, selected by filters. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/testing.h"

static tt_test *first_test;
static tt_test **last_link = &first_test;
static tt_test_table *first_table;
static tt_test_suite *first_suite;
static int n_tests;
static bool out_of_memory;

void tt_test_register(tt_test *test)
{
    *last_link = test;
    last_link = &test->next;
    n_tests++;
}

void tt_test_suite_register(tt_test_suite *suite)
{
    suite->next = first_suite;
    first_suite = suite;
}

const tt_test_suite *tti_test_suite_find(const char *suite)
{
    const tt_test_suite *s = first_suite;

    while (s != NULL && strcmp(s->suite, suite) != 0)
        s = s->next;
    return s;
}

void tt_test_table_register(tt_test_table *table)
{
    table->next = first_table;
    first_table = table;
}

tt_test *tt_test_add(const char *suite, const char *name, tt_test_fn fn, void *ctx)
{
    tt_test *t = calloc(1, sizeof *t);
    char *s = strdup(suite);
    char *n = strdup(name);

    if (t == NULL || s == NULL || n == NULL) {
        free(t);
        free(s);
        free(n);
        out_of_memory = true;
        return NULL;
    }
    t->suite = s;
    t->name = n;
    t->fn = fn;
    t->ctx = ctx;
    tt_test_register(t);
    return t;
}

/* A filter is a suite, suite.name, or a pattern for suite.name. The words are compared first, since
 * names may contain characters that mean something in a pattern. */
static bool matches(const tt_test *t, const char *filter)
{
    size_t n_suite = strlen(t->suite);
    char full[1024];

    if (strcmp(filter, t->suite) == 0)
        return true;
    if (strncmp(filter, t->suite, n_suite) == 0 && filter[n_suite] == '.' &&
        strcmp(filter + n_suite + 1, t->name) == 0)
        return true;
    snprintf(full, sizeof full, "%s.%s", t->suite, t->name);
    return fnmatch(filter, full, 0) == 0;
}

bool tti_test_selected(const tt_test *t, const tti_test_options *opt)
{
    bool wanted = opt->n_filters == 0;

    if (t->hidden != opt->hidden)
        return false;
    for (int i = 0; i < opt->n_filters; i++)
        wanted = wanted || matches(t, opt->filters[i]);
    for (int i = 0; i < opt->n_excludes; i++)
        wanted = wanted && !matches(t, opt->excludes[i]);
    return wanted;
}

typedef struct ranked {
    const tt_test *test;
    int order;
} ranked;

static int by_suite_then_order(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int c = strcmp(x->test->suite, y->test->suite);

    return c != 0 ? c : x->order - y->order;
}

static int by_full_name(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int c = strcmp(x->test->suite, y->test->suite);

    return c != 0 ? c : strcmp(x->test->name, y->test->name);
}

static bool names_are_unique(ranked *all)
{
    bool unique = true;

    qsort(all, (size_t)n_tests, sizeof *all, by_full_name);
    for (int i = 1; i < n_tests; i++) {
        const tt_test *a = all[i - 1].test, *b = all[i].test;

        if (by_full_name(&all[i - 1], &all[i]) != 0)
            continue;
        fprintf(stderr, "testing: %s.%s is defined twice: %s:%d and %s:%d\n", a->suite, a->name,
                a->file ? a->file : "table", a->line, b->file ? b->file : "table", b->line);
        unique = false;
    }
    return unique;
}

static void run_tables(void)
{
    for (; first_table != NULL; first_table = first_table->next)
        first_table->fn();
}

const tt_test *tti_test_find(const char *suite, const char *name)
{
    run_tables();
    for (const tt_test *t = first_test; t != NULL; t = t->next) {
        if (strcmp(t->suite, suite) == 0 && strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

/* Tests in order of suites, inside a suite in order of definition; *tests_p is the caller's to
 * free. False after printing what is wrong. */
bool tti_test_collect(const tti_test_options *opt, const tt_test ***tests_p, int *n_p)
{
    const tt_test **tests;
    ranked *all;
    int n = 0;

    run_tables();
    all = calloc((size_t)n_tests + 1, sizeof *all);
    tests = calloc((size_t)n_tests + 1, sizeof(*tests));
    if (all == NULL || tests == NULL || out_of_memory) {
        fprintf(stderr, "testing: out of memory\n");
        goto fail;
    }
    for (const tt_test *t = first_test; t != NULL; t = t->next, n++)
        all[n] = (ranked){ t, n };
    if (!names_are_unique(all))
        goto fail;
    qsort(all, (size_t)n_tests, sizeof *all, by_suite_then_order);

    n = 0;
    for (int i = 0; i < n_tests; i++) {
        if (tti_test_selected(all[i].test, opt))
            tests[n++] = all[i].test;
    }
    free(all);
    *tests_p = tests;
    *n_p = n;
    return true;

fail:
    free(all);
    free((void *)tests);
    return false;
}
