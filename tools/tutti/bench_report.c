/* SPDX-License-Identifier: Apache-2.0 */
/* What `tutti bench` prints: lines as they come for people, the rest when everything is measured. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "table.h"

static const char *const columns[] = {
    "op",     "ranks",  "bytes", "count", "dtype", "redop", "time_us",
    "p99_us", "min_us", "algbw", "busbw", "wrong", "reps",  "batch",
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static const char *redop_of(const tti_bench_options *opt, const tti_bench_row *row)
{
    return row->op->reduces ? tt_reduce_op_name(opt->redop) : "none";
}

void tti_bench_print_start(const tti_bench_options *opt, const tt_pg *pg)
{
    if (opt->format != TTI_FORMAT_TEXT)
        return;
    printf("# tutti %s, %d ranks, backend %s, %s%s\n", tt_version(), tt_pg_size(pg),
           tt_pg_backend(pg), opt->in_place ? "in place" : "out of place",
           opt->shared ? ", memory of the group" : "");
    printf("# %-14s %12s %11s %10s %7s %11s %11s %8s %8s %7s\n", "operation", "size", "count",
           "type", "redop", "time", "p99", "algbw", "busbw", "#wrong");
    printf("# %-14s %12s %11s %10s %7s %11s %11s %8s %8s %7s\n", "", "(B)", "(elements)", "", "",
           "(us)", "(us)", "(GB/s)", "(GB/s)", "");
    fflush(stdout);
}

void tti_bench_print_row(const tti_bench_options *opt, const tti_bench_row *row)
{
    char wrong[32] = "-";

    if (opt->format != TTI_FORMAT_TEXT)
        return;
    if (row->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%lld", row->wrong);
    printf("  %-14s %12zu %11" PRId64 " %10s %7s %11.2f %11.2f %8.3f %8.3f %7s\n", row->op->name,
           row->bytes, row->count, tt_dtype_name(opt->dtype), redop_of(opt, row), row->median_us,
           row->p99_us, row->algbw, row->busbw, wrong);
    fflush(stdout);
}

/* ---- all figures --------------------------------------------------------------------------------- */

enum { CELL = 32 };

static void cells_of(const tti_bench_options *opt, const tti_bench_row *row,
                     char cells[N_COLUMNS][CELL])
{
    int i = 0;

    snprintf(cells[i++], CELL, "%s", row->op->name);
    snprintf(cells[i++], CELL, "%d", row->ranks);
    snprintf(cells[i++], CELL, "%zu", row->bytes);
    snprintf(cells[i++], CELL, "%" PRId64, row->count);
    snprintf(cells[i++], CELL, "%s", tt_dtype_name(opt->dtype));
    snprintf(cells[i++], CELL, "%s", redop_of(opt, row));
    snprintf(cells[i++], CELL, "%.4f", row->median_us);
    snprintf(cells[i++], CELL, "%.4f", row->p99_us);
    snprintf(cells[i++], CELL, "%.4f", row->min_us);
    snprintf(cells[i++], CELL, "%.4f", row->algbw);
    snprintf(cells[i++], CELL, "%.4f", row->busbw);
    snprintf(cells[i++], CELL, "%lld", row->wrong);
    snprintf(cells[i++], CELL, "%d", row->reps);
    snprintf(cells[i++], CELL, "%d", row->batch);
}

static bool is_text(int column)
{
    return strcmp(columns[column], "op") == 0 || strcmp(columns[column], "dtype") == 0 ||
           strcmp(columns[column], "redop") == 0;
}

static int print_table(const tti_bench_options *opt, const tti_bench_row *rows, int n)
{
    tti_table t = { .columns = columns, .n_columns = N_COLUMNS };
    char cells[N_COLUMNS][CELL];

    for (int i = 0; i < n; i++) {
        cells_of(opt, &rows[i], cells);
        for (int k = 0; k < N_COLUMNS; k++)
            if (is_text(k))
                tti_table_add(&t, cells[k]);
            else
                tti_table_add_raw(&t, cells[k]);
    }
    return tti_table_finish(&t, opt->format);
}

static int write_csv(const tti_bench_options *opt, const tti_bench_row *rows, int n)
{
    FILE *f = fopen(opt->csv, "w");
    char cells[N_COLUMNS][CELL];
    bool ok = f != NULL;

    for (int k = 0; ok && k < N_COLUMNS; k++)
        fprintf(f, "%s%c", columns[k], k + 1 < N_COLUMNS ? ',' : '\n');
    for (int i = 0; ok && i < n; i++) {
        cells_of(opt, &rows[i], cells);
        for (int k = 0; k < N_COLUMNS; k++)
            fprintf(f, "%s%c", cells[k], k + 1 < N_COLUMNS ? ',' : '\n');
    }
    ok = ok && ferror(f) == 0;
    if (f != NULL && fclose(f) != 0)
        ok = false;
    if (!ok)
        fprintf(stderr, "tutti bench: cannot write %s\n", opt->csv);
    return ok ? TTI_EXIT_OK : TTI_EXIT_FAILED;
}

int tti_bench_finish(const tti_bench_options *opt, const tti_bench_row *rows, int n)
{
    int code = TTI_EXIT_OK;
    long long wrong = 0;

    for (int i = 0; i < n; i++)
        wrong += rows[i].wrong > 0 ? rows[i].wrong : 0;
    if (opt->format != TTI_FORMAT_TEXT)
        code = print_table(opt, rows, n);
    if (opt->csv != NULL && write_csv(opt, rows, n) != TTI_EXIT_OK)
        code = TTI_EXIT_FAILED;
    if (opt->plot != NULL && tti_bench_plot(opt->plot, rows, n) != TT_OK) {
        fprintf(stderr, "tutti bench: %s\n", tt_last_error());
        code = TTI_EXIT_FAILED;
    }
    if (wrong > 0) {
        fprintf(stderr, "tutti bench: %lld elements are wrong\n", wrong);
        code = TTI_EXIT_FAILED;
    }
    return code;
}
