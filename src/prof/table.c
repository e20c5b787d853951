/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as a table: one row per name, the most expensive first. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "prof/prof.h"

typedef struct row {
    const char *name;
    int64_t calls, total;
} row;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static int by_total(const void *a, const void *b)
{
    const row *x = a, *y = b;

    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Adds up neighbours of the same name; gives how many rows are left. */
static size_t add_up(row *rows, size_t n)
{
    size_t m = 0;

    qsort(rows, n, sizeof *rows, by_name);
    for (size_t i = 0; i < n; i++) {
        if (m > 0 && strcmp(rows[m - 1].name, rows[i].name) == 0) {
            rows[m - 1].calls++;
            rows[m - 1].total += rows[i].total;
        } else {
            rows[m++] = rows[i];
        }
    }
    qsort(rows, m, sizeof *rows, by_total);
    return m;
}

char *tt_prof_table(const tt_prof *p)
{
    size_t n = tt_prof_n_events(p);
    row *rows = tti_malloc((n + 1) * sizeof *rows);
    tti_text text = { 0 };
    int width = 4;
    double sum = 0;

    if (rows == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const tt_prof_event *e = tt_prof_event_at(p, i);
        int w = (int)strlen(e->name);

        rows[i] = (row){ e->name, 1, e->cpu_ns };
        sum += (double)e->cpu_ns;
        width = w > width ? w : width;
    }
    if (width > 60)
        width = 60;
    n = add_up(rows, n);
    tti_text_addf(&text, "%-*s  %9s  %12s  %12s  %6s\n", width, "name", "calls", "total us",
                  "mean us", "share");
    for (size_t i = 0; i < n; i++)
        tti_text_addf(&text, "%-*.60s  %9lld  %12.3f  %12.3f  %5.1f%%\n", width, rows[i].name,
                      (long long)rows[i].calls, (double)rows[i].total * 1e-3,
                      (double)rows[i].total * 1e-3 / (double)rows[i].calls,
                      sum > 0 ? 100 * (double)rows[i].total / sum : 0.0);
    tti_mfree(rows);
    if (text.status != TT_OK) {
        tti_text_fini(&text);
        return NULL;
    }
    return tti_text_take(&text);
}
