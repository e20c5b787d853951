/* SPDX-License-Identifier: Apache-2.0 */
/* One operation at one size. A repetition writes all inputs anew, waits for everybody, then makes a few
 * calls one after the other (one where data are large), each on tensors of its own. Its time is that of
 * the slowest rank, divided by the calls. Results are checked after the clock has stopped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

enum {
    BATCH_BYTES = 256 << 10, /* calls of a repetition work on this much in all */
    MAX_BATCH = 64,
    MIN_REPS = 3,
    MAX_REPS = 2000,
    LINE = 64,
};

typedef struct run {
    tti_bench_case c;
    tti_bench_data *data;
    tti_bench_slot slots[MAX_BATCH];
    int batch;
    double *times; /* microseconds per call, a repetition each */
    long long wrong;
} run;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- sizes and tensors --------------------------------------------------------------------------- */

static void set_sizes(tti_bench_case *c, size_t bytes)
{
    const tti_bench_op *op = c->op;
    int64_t element = (int64_t)tt_dtype_size(c->opt->dtype);
    int64_t parts = op->in_parts || op->out_parts ? c->size : 1;

    c->part = op->no_data ? 0 : (int64_t)bytes / element / parts;
    if (c->part == 0 && !op->no_data)
        c->part = 1;
    c->n_in = op->in_parts ? c->part * c->size : c->part;
    c->n_out = op->out_parts ? c->part * c->size : c->part;
    c->bytes = (size_t)(c->part * parts * element);
    c->in_place = op->always_in_place || (c->opt->in_place && !op->never_in_place);
}

static tt_tensor *allocate(const tti_bench_case *c, int64_t n)
{
    if (c->opt->shared)
        return tt_pg_alloc(c->pg, TT_SHAPE(n), c->opt->dtype);
    return tt_empty(TT_SHAPE(n), c->opt->dtype, TT_CPU);
}

/* Slots begin on cache lines of their own. */
static tt_status make_slots(run *r)
{
    tti_bench_case *c = &r->c;
    int64_t line = LINE / (int64_t)tt_dtype_size(c->opt->dtype);
    int64_t in_step = (c->n_in + line - 1) / line * line;
    int64_t out_step = (c->n_out + line - 1) / line * line;
    int64_t step = in_step > out_step ? in_step : out_step;
    tt_tensor *in = allocate(c, c->in_place ? step * r->batch : in_step * r->batch);
    tt_tensor *out = c->in_place ? in : allocate(c, out_step * r->batch);

    if (c->in_place)
        in_step = out_step = step;
    for (int i = 0; i < r->batch; i++) {
        int64_t in_at = i * in_step, out_at = i * out_step;

        /* In place a rank's part is where it belongs in the whole. */
        if (c->in_place && c->n_in < c->n_out)
            in_at += c->rank * c->part;
        if (c->in_place && c->n_out < c->n_in)
            out_at += c->rank * c->part;
        r->slots[i].in = tt_narrow(in, 0, in_at, c->n_in);
        r->slots[i].out = tt_narrow(out, 0, out_at, c->n_out);
        if (r->slots[i].in == NULL || r->slots[i].out == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

/* ---- agreeing ------------------------------------------------------------------------------------ */

/* Numbers of which everybody gets the greatest, or the sum. */
static tt_status agree(tt_pg *pg, double *numbers, int n, tt_reduce_op op)
{
    tt_status st = TT_OK;

    if (n == 0)
        return TT_OK;
    TT_SCOPE {
        tt_tensor *t = tt_wrap(numbers, TT_SHAPE(n), NULL, TT_F64, NULL, NULL);

        st = t != NULL ? tt_pg_all_reduce(pg, t, &(tt_coll_options){ .op = op }, NULL)
                       : tt_last_status();
    }
    return st;
}

/* ---- measuring ----------------------------------------------------------------------------------- */

static int phase(int rep, int slot)
{
    return rep * 131 + slot * 17;
}

static tt_status repeat(run *r, int rep, int calls, double *us_p)
{
    const tti_bench_case *c = &r->c;
    double start, times = c->op->calls_per_time > 0 ? c->op->calls_per_time : 1;

    for (int i = 0; i < calls && !c->op->no_data; i++)
        tti_bench_fill(r->data, &r->slots[i], phase(rep, i));
    TT_TRY(tt_pg_barrier(c->pg, NULL, NULL));
    start = now_us();
    for (int i = 0; i < calls; i++)
        TT_TRY(c->op->call(c, &r->slots[i]));
    *us_p = (now_us() - start) / calls / times;
    for (int i = 0; i < calls && !c->opt->no_check && !c->op->no_data; i++)
        r->wrong += tti_bench_wrong(r->data, &r->slots[i], phase(rep, i));
    return TT_OK;
}

/* The best time of a call in at most `n` repetitions, none more once the time is over; the same on all
 * ranks. */
static tt_status best_of(run *r, int n, int calls, double left_us, double *us_p)
{
    *us_p = INFINITY;
    for (int rep = 0; rep == 0 || (rep < n && left_us > 0); rep++) {
        double us;

        TT_TRY(repeat(r, rep, calls, &us));
        TT_TRY(agree(r->c.pg, &us, 1, TT_REDUCE_MAX));
        left_us -= us * calls;
        *us_p = fmin(*us_p, us);
    }
    return TT_OK;
}

/* Repetitions that do not count. Where calls are slow, the batch gets smaller. */
static tt_status warm_up(run *r, double *us_p)
{
    const tti_bench_options *opt = r->c.opt;
    double budget_us = 1e3 * opt->budget_ms;

    if (opt->batch == 0) {
        double fit;

        TT_TRY(best_of(r, 3, 1, budget_us, us_p));
        fit = budget_us / 4 / *us_p;
        if (fit < r->batch)
            r->batch = fit < 1 ? 1 : (int)fit;
        if (fit < 0.25) /* one call took all the time there is */
            return TT_OK;
    }
    return best_of(r, opt->warmup, r->batch, budget_us / 2, us_p);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void summarise(run *r, int reps, tti_bench_row *row)
{
    const tti_bench_case *c = &r->c;
    int last = (99 * reps + 99) / 100 - 1; /* the smallest that 99 of 100 do not exceed */

    qsort(r->times, (size_t)reps, sizeof *r->times, by_value);
    *row = (tti_bench_row){ .op = c->op,
                            .bytes = c->bytes,
                            .count = c->n_in > c->n_out ? c->n_in : c->n_out,
                            .ranks = c->size,
                            .reps = reps,
                            .batch = r->batch,
                            .min_us = r->times[0],
                            .p99_us = r->times[last],
                            .wrong = c->opt->no_check || c->op->no_data ? -1 : r->wrong };
    row->median_us = (r->times[(reps - 1) / 2] + r->times[reps / 2]) / 2;
    row->algbw = row->median_us > 0 ? (double)c->bytes / row->median_us / 1e3 : 0;
    row->busbw = row->algbw * (c->op->bus != NULL ? c->op->bus(c->size) : 1);
}

static tt_status measure(run *r, tti_bench_row *row_p)
{
    const tti_bench_options *opt = r->c.opt;
    double us, wrong;
    int reps = opt->iters;

    TT_TRY(make_slots(r));
    r->data = tti_bench_data_new(&r->c);
    if (r->data == NULL)
        return tt_last_status();
    TT_TRY(warm_up(r, &us));
    if (reps == 0) {
        double fit = us > 0 ? 1e3 * opt->budget_ms / (us * r->batch) : MAX_REPS;

        reps = fit < MIN_REPS ? MIN_REPS : fit > MAX_REPS ? MAX_REPS : (int)fit;
    }
    r->times = calloc((size_t)reps, sizeof *r->times);
    if (r->times == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d repetitions", reps);
    r->wrong = 0;
    for (int i = 0; i < reps; i++)
        TT_TRY(repeat(r, i + 1, r->batch, &r->times[i]));
    TT_TRY(agree(r->c.pg, r->times, reps, TT_REDUCE_MAX));
    wrong = (double)r->wrong;
    TT_TRY(agree(r->c.pg, &wrong, 1, TT_REDUCE_SUM));
    r->wrong = (long long)wrong;
    summarise(r, reps, row_p);
    return TT_OK;
}

tt_status tti_bench_measure(const tti_bench_options *opt, const tti_bench_op *op, tt_pg *pg,
                            size_t size, tti_bench_row *row_p)
{
    run r = {
        .c = { .opt = opt, .op = op, .pg = pg, .rank = tt_pg_rank(pg), .size = tt_pg_size(pg) }
    };
    tt_status st = TT_OK;

    if (op->needs_two && r.c.size < 2)
        return tt_fail(TT_ERR_INVALID, "%s needs 2 ranks, got %d", op->name, r.c.size);
    set_sizes(&r.c, size);
    r.batch = opt->batch;
    if (r.batch == 0) {
        size_t fit = r.c.bytes != 0 ? BATCH_BYTES / r.c.bytes : MAX_BATCH;

        r.batch = fit < 1 ? 1 : fit > MAX_BATCH ? MAX_BATCH : (int)fit;
    }
    TT_SCOPE {
        st = measure(&r, row_p);
    }
    tti_bench_data_free(r.data);
    free(r.times);
    return st;
}
