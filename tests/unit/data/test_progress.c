/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar: silent where nobody asked, what it draws where somebody did, what it costs. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tutti/progress.h"
#include "tutti/testing.h"

/* All a bar of `total` wrote to a file that is no terminal. */
static void written(int64_t total, tt_progress_options o, char *text, size_t size)
{
    FILE *f = tmpfile();
    tt_progress *p;
    size_t n;

    TT_REQUIRE_NOT_NULL(f);
    o.file = f;
    p = tt_progress_new(total, &o);
    TT_REQUIRE_NOT_NULL(p);
    for (int i = 0; i < 50; i++) {
        tt_progress_set(p, "loss", 2.5);
        tt_progress_set(p, "acc", 0.125 * i);
        tt_progress_update(p, 1);
    }
    tt_progress_free(p);
    rewind(f);
    n = fread(text, 1, size - 1, f);
    text[n] = '\0';
    fclose(f);
}

TT_TEST(data, progress_is_silent_where_there_is_no_terminal)
{
    char text[2000];

    written(100, (tt_progress_options){ .label = "train" }, text, sizeof text);
    TT_CHECK_STR(text, "");
}

TT_TEST(data, progress_draws_bar_counts_and_values)
{
    char text[4000], *last;

    written(100, (tt_progress_options){ .label = "train", .always = true, .width = 100 }, text,
            sizeof text);
    last = strrchr(text, '\r');
    TT_REQUIRE_NOT_NULL(last);
    TT_CHECK_CONTAINS(last, "train  50% |#");
    TT_CHECK_CONTAINS(last, "50/100 [00:00<");
    TT_CHECK_CONTAINS(last, "loss=2.5, acc=6.125]\n");
    TT_CHECK_LE(strcspn(last + 1, "\n"), 100);
    written(0, (tt_progress_options){ .always = true, .unit = "samples", .width = 30 }, text,
            sizeof text);
    last = strrchr(text, '\r');
    TT_CHECK_CONTAINS(last, "50 [00:00, ");
    TT_CHECK_LE(strcspn(last + 1, "\n"), 30);
    written(10, (tt_progress_options){ .always = true, .clear = true }, text, sizeof text);
    TT_CHECK_EQ(text[strlen(text) - 1], '\r');
}

TT_TEST(data, progress_writes_lines_when_asked)
{
    char text[4000];

    written(100, (tt_progress_options){ .line_seconds = 1000 }, text, sizeof text);
    TT_CHECK_CONTAINS(text, "50% |");
    TT_CHECK_PTR(strchr(text, '\n'), text + strlen(text) - 1);
    TT_CHECK_NULL(strchr(text, '\r'));
}

TT_TEST(data, progress_takes_null)
{
    tt_progress_update(NULL, 1);
    tt_progress_set(NULL, "loss", 1);
    tt_progress_free(NULL);
}

TT_TEST(data, progress_costs_little)
{
    FILE *f = tmpfile();
    tt_progress *p = tt_progress_new(1000000, &(tt_progress_options){ .file = f, .always = true });
    struct timespec a, b;
    double ns;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 1000000; i++)
        tt_progress_update(p, 1);
    clock_gettime(CLOCK_MONOTONIC, &b);
    ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 1e6;
    TT_NOTE("%.1f ns per update", ns);
    TT_CHECK(ns < 5000); /* far above what is expected: other tests run beside it */
    tt_progress_free(p);
    fclose(f);
}
