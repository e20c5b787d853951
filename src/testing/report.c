/* SPDX-License-Identifier: Apache-2.0 */
/* Reports for machines: tab-separated lines and JUnit XML. Written beside and renamed into place, so
 * that no one ever reads half of one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "testing/testing.h"

static const char *const verdict_words[] = { "skip", "pass", "fail" };

/* With --repeat a test has several runs; the report has one line for it. A run says more about the
 * test than another when it failed, or when the other was skipped. */
static const tti_test_run *worst(const tti_test_run *runs, int n_runs, int i)
{
    const tti_test_run *w = &runs[i];

    for (int j = 0; j < n_runs; j++) {
        const tti_test_run *o = &runs[j];

        if (!o->done || o->test != w->test)
            continue;
        if (j < i)
            return NULL; /* reported already */
        if (o->verdict > w->verdict)
            w = o;
    }
    return w;
}

/* The runs of a program without --repeat are all of different tests. */
static const tti_test_run *reported(const tti_test_run *runs, int n_runs, int i, bool repeated)
{
    if (!runs[i].done)
        return NULL;
    return repeated ? worst(runs, n_runs, i) : &runs[i];
}

static bool is_repeated(const tti_test_run *runs, int n_runs)
{
    for (int i = 1; i < n_runs; i++) {
        if (runs[i].test == runs[0].test)
            return true;
    }
    return false;
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

static void put_all(FILE *f, const tti_test_run *runs, int n_runs,
                    void (*put)(FILE *f, const tti_test_run *run))
{
    bool repeated = is_repeated(runs, n_runs);

    for (int i = 0; i < n_runs; i++) {
        const tti_test_run *run = reported(runs, n_runs, i, repeated);

        if (run != NULL)
            put(f, run);
    }
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

bool tti_test_write_tsv(const char *path, const tti_test_run *runs, int n_runs)
{
    char beside[4096];
    FILE *f = open_beside(path, beside, sizeof beside);

    if (f == NULL)
        return false;
    put_all(f, runs, n_runs, put_tsv);
    return close_over(f, beside, path);
}

bool tti_test_write_junit(const char *path, const tti_test_run *runs, int n_runs)
{
    tti_test_totals t = tti_test_count(runs, n_runs);
    char beside[4096];
    FILE *f = open_beside(path, beside, sizeof beside);

    if (f == NULL)
        return false;
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fprintf(f, "<testsuite name=\"tutti\" tests=\"%d\" failures=\"%d\" skipped=\"%d\">\n",
            t.passed + t.failed + t.skipped, t.failed, t.skipped);
    put_all(f, runs, n_runs, put_case);
    fputs("</testsuite>\n", f);
    return close_over(f, beside, path);
}
