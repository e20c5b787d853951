/* SPDX-License-Identifier: Apache-2.0 */
/* Reports for machines: tab-separated lines and JUnit XML. Written beside and renamed into place, so
 * that no one ever reads half of one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/writer.h"
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

/* A report is put together in memory and then written. */
typedef struct report {
    const char *path;
    FILE *f;
    char *text;
    size_t size;
} report;

static bool report_open(report *r, const char *path)
{
    *r = (report){ .path = path };
    r->f = open_memstream(&r->text, &r->size);
    if (r->f == NULL)
        fprintf(stderr, "testing: cannot write %s: %s\n", path, strerror(errno));
    return r->f != NULL;
}

static bool report_close(report *r)
{
    bool bad = ferror(r->f) != 0;
    tti_writer w;

    bad = fclose(r->f) != 0 || bad;
    tti_writer_open(&w, "testing", r->path, 0);
    tti_writer_put(&w, r->text, r->size);
    tti_writer_check(&w, bad ? TT_FAIL(TT_ERR_NOMEM, "testing: no memory for a report") : TT_OK);
    free(r->text);
    if (tti_writer_finish(&w) == TT_OK)
        return true;
    fprintf(stderr, "%s\n", tt_last_error());
    return false;
}

bool tti_test_write_tsv(const char *path, const tti_test_run *runs, int n_runs, int n_tests)
{
    const tti_test_run **worst = worst_runs(runs, n_runs, n_tests);
    bool open;
    report r;

    open = worst != NULL && report_open(&r, path);
    for (int i = 0; open && i < n_tests; i++) {
        if (worst[i] != NULL)
            put_tsv(r.f, worst[i]);
    }
    free((void *)worst);
    return open && report_close(&r);
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
    bool open;
    report r;

    open = worst != NULL && report_open(&r, path);
    if (open)
        put_head(r.f, worst, n_tests);
    for (int i = 0; open && i < n_tests; i++) {
        if (worst[i] != NULL)
            put_case(r.f, worst[i]);
    }
    free((void *)worst);
    if (open)
        fputs("</testsuite>\n", r.f);
    return open && report_close(&r);
}
