/* SPDX-License-Identifier: Apache-2.0 */
/* Reports for machines: tab-separated lines and JUnit XML. Written beside and renamed into place, so
 * that no one ever reads half of one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing/testing.h"

static const char *const verdict_words[] = { "skip", "pass", "fail" };

/* One run per test, in the order of the tests; NULL for those that did not run. With --repeat a test
 * has several: a failure says more than a pass, a pass more than a skip. The caller frees it. */
static const tti_test_run **worst_runs(const tti_test_run *runs, int n_runs, int n_tests)
{
    const tti_test_run **worst = calloc((size_t)n_tests + 1, sizeof *worst);

    if (worst == NULL)
        return NULL;
    for (int i = 0; i < n_runs; i++) {
        const tti_test_run **w = &worst[runs[i].order];

        if (runs[i].done && (*w == NULL || runs[i].verdict > (*w)->verdict))
            *w = &runs[i];
    }
    return worst;
}

static void put_field(FILE *f, const char *text)
{
    for (; *text != '\0'; text++)
        fputc((unsigned char)*text < ' ' ? ' ' : *text, f);
}

static void put_xml(FILE *f, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        switch (c) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc(c < ' ' ? ' ' : c, f);
            break;
        }
    }
}

static void put_tsv(FILE *f, const tti_test_run *run)
{
    put_field(f, run->test->suite);
    fputc('\t', f);
    put_field(f, run->test->name);
    fprintf(f, "\t%s\t%.3f\t", verdict_words[run->verdict], run->seconds);
    put_field(f, run->note);
    fputc('\n', f);
}

static void put_case(FILE *f, const tti_test_run *run)
{
    fputs("  <testcase classname=\"", f);
    put_xml(f, run->test->suite);
    fputs("\" name=\"", f);
    put_xml(f, run->test->name);
    fprintf(f, "\" time=\"%.3f\"", run->seconds);
    if (run->verdict == TTI_TEST_PASS) {
        fputs("/>\n", f);
        return;
    }
    fprintf(f, "><%s message=\"", run->verdict == TTI_TEST_FAIL ? "failure" : "skipped");
    put_xml(f, run->note);
    fputs("\"/></testcase>\n", f);
}

static FILE *open_beside(const char *path, char *beside, size_t size)
{
    FILE *f = NULL;

    if (snprintf(beside, size, "%s.%ld.tmp", path, (long)getpid()) < (int)size)
        f = fopen(beside, "w");
    if (f == NULL)
        fprintf(stderr, "testing: cannot write %s: %s\n", path, strerror(errno));
    return f;
}

static bool close_over(FILE *f, const char *beside, const char *path)
{
    bool bad = ferror(f) != 0;

    bad = fclose(f) != 0 || bad;
    if (bad || rename(beside, path) != 0) {
        fprintf(stderr, "testing: cannot write %s: %s\n", path, strerror(errno));
        remove(beside);
        return false;
    }
    return true;
}

bool tti_test_write_tsv(const char *path, const tti_test_run *runs, int n_runs, int n_tests)
{
    const tti_test_run **worst = worst_runs(runs, n_runs, n_tests);
    char beside[4096];
    FILE *f = worst != NULL ? open_beside(path, beside, sizeof beside) : NULL;

    for (int i = 0; f != NULL && i < n_tests; i++) {
        if (worst[i] != NULL)
            put_tsv(f, worst[i]);
    }
    free((void *)worst);
    return f != NULL && close_over(f, beside, path);
}

static void put_head(FILE *f, const tti_test_run *const *worst, int n_tests)
{
    int n[3] = { 0, 0, 0 };

    for (int i = 0; i < n_tests; i++) {
        if (worst[i] != NULL)
            n[worst[i]->verdict]++;
    }
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fprintf(f, "<testsuite name=\"tutti\" tests=\"%d\" failures=\"%d\" skipped=\"%d\">\n",
            n[0] + n[1] + n[2], n[TTI_TEST_FAIL], n[TTI_TEST_SKIP]);
}

bool tti_test_write_junit(const char *path, const tti_test_run *runs, int n_runs, int n_tests)
{
    const tti_test_run **worst = worst_runs(runs, n_runs, n_tests);
    char beside[4096];
    FILE *f = worst != NULL ? open_beside(path, beside, sizeof beside) : NULL;

    if (f != NULL)
        put_head(f, worst, n_tests);
    for (int i = 0; f != NULL && i < n_tests; i++) {
        if (worst[i] != NULL)
            put_case(f, worst[i]);
    }
    free((void *)worst);
    if (f != NULL)
        fputs("</testsuite>\n", f);
    return f != NULL && close_over(f, beside, path);
}
