/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace summary: what the collectives of a job cost. Time in a collective is of two kinds with different
 * remedies: waiting for the last rank to arrive, and what it takes once all are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "table.h"
#include "trace_file.h"

static const char *const columns[] = { "group", "operation", "calls",   "ranks",
                                       "bytes", "mean us",   "wait us", "transfer us" };

typedef struct row {
    const char *group, *name;
    long long calls, events, ranks; /* ranks: the most that took part in one */
    double bytes, time, wait, transfer;
} row;

/* One operation on all ranks that have it: ops[0 .. n - 1]. */
static void add_call(row *r, const tti_trace_op *ops, size_t n)
{
    double first = ops[0].start_us, last = first, end = 0;

    for (size_t i = 0; i < n; i++) {
        const tti_trace_op *o = &ops[i];

        last = o->start_us > last ? o->start_us : last;
        end = o->start_us + o->dur_us > end ? o->start_us + o->dur_us : end;
        r->time += o->dur_us;
        r->bytes += o->bytes;
    }
    r->calls++;
    r->events += (long long)n;
    r->ranks = (long long)n > r->ranks ? (long long)n : r->ranks;
    r->wait += last - first;
    r->transfer += end - last > 0 ? end - last : 0;
}

static row *find(row *rows, size_t *n, const tti_trace_op *o)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(rows[i].group, o->group) == 0 && strcmp(rows[i].name, o->name) == 0)
            return &rows[i];
    rows[*n] = (row){ .group = o->group, .name = o->name };
    return &rows[(*n)++];
}

static int by_time(const void *a, const void *b)
{
    const row *x = a, *y = b;

    return x->time > y->time ? -1 : x->time < y->time;
}

static void add_number(tti_table *t, double value)
{
    char text[40];

    snprintf(text, sizeof text, "%.3f", value);
    tti_table_add_raw(t, text);
}

static int print(const row *rows, size_t n, int format)
{
    tti_table t = { .columns = columns, .n_columns = 8 };

    for (size_t i = 0; i < n; i++) {
        const row *r = &rows[i];

        tti_table_add(&t, r->group);
        tti_table_add(&t, r->name);
        tti_table_add_int(&t, r->calls);
        tti_table_add_int(&t, r->ranks);
        tti_table_add_int(&t, (long long)(r->bytes / (double)r->events));
        add_number(&t, r->time / (double)r->events);
        add_number(&t, r->wait / (double)r->calls);
        add_number(&t, r->transfer / (double)r->calls);
    }
    return tti_table_finish(&t, (tti_format)format);
}

static int summarise(const tti_trace *traces, int n, int format)
{
    size_t n_ops = 0, n_rows = 0;
    tti_trace_op *ops = tti_traces_ops(traces, n, &n_ops);
    row *rows = malloc((n_ops + 1) * sizeof *rows);
    int status = TTI_EXIT_FAILED;

    for (size_t i = 0, end; ops != NULL && rows != NULL && i < n_ops; i = end) {
        for (end = i + 1; end < n_ops && tti_trace_same_op(&ops[i], &ops[end]); end++)
            ;
        add_call(find(rows, &n_rows, &ops[i]), &ops[i], end - i);
    }
    if (ops != NULL && rows != NULL) {
        qsort(rows, n_rows, sizeof *rows, by_time);
        status = print(rows, n_rows, format);
    }
    free(ops);
    free(rows);
    return status;
}

int tti_trace_summary(char **paths, int n, int format)
{
    tti_trace *traces = calloc((size_t)n, sizeof *traces);
    int status = TTI_EXIT_USAGE;

    if (traces == NULL)
        return TTI_EXIT_FAILED;
    if (tti_traces_load(paths, n, traces))
        status = summarise(traces, n, format);
    tti_traces_free(traces, n);
    return status;
}
