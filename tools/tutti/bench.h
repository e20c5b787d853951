/* SPDX-License-Identifier: Apache-2.0 */
/* tutti bench: how long the operations of a group take. bench.c starts the ranks, bench_options.c reads
 * the words, bench_ops.c has the operations, bench_data.c writes inputs and checks results, bench_run.c
 * measures, bench_report.c and bench_plot.c show. */
#ifndef TTI_TOOLS_BENCH_H
#define TTI_TOOLS_BENCH_H

#include "command.h"
#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/tensor.h"

enum { TTI_BENCH_MAX_SIZES = 128, TTI_BENCH_MAX_OPS = 32 };

typedef struct tti_bench_op tti_bench_op;

typedef struct tti_bench_options {
    bool help;
    const tti_bench_op *ops[TTI_BENCH_MAX_OPS];
    int n_ops;
    int n_ranks; /* 0: not said */
    size_t sizes[TTI_BENCH_MAX_SIZES];
    int n_sizes;
    tt_dtype dtype;
    tt_reduce_op redop;
    const char *backend; /* NULL: the library's choice */
    bool in_place, shared;
    bool check, no_check; /* said; checking is the default, except where there are no others */
    int iters;            /* repetitions; 0: what fits into budget_ms */
    int warmup;           /* repetitions before the first that counts */
    int batch;            /* calls per repetition; 0: by size */
    int budget_ms;        /* per operation and size, time in the operation itself */
    const char *csv;      /* files; NULL: none */
    const char *plot;
    tti_format format;
} tti_bench_options;

/* What is the same for all calls of one operation at one size. An operation takes `n_in` elements and
 * gives `n_out`, both whole numbers of `part`: what one rank gives to or gets from one other. */
typedef struct tti_bench_case {
    const tti_bench_options *opt;
    const tti_bench_op *op;
    tt_pg *pg;
    int rank, size;
    size_t bytes; /* as shown: of the greater of input and output */
    int64_t part, n_in, n_out;
    bool in_place;
} tti_bench_case;

/* The tensors of one call. In place they share memory. */
typedef struct tti_bench_slot {
    tt_tensor *in, *out;
} tti_bench_slot;

/* What the output must hold. */
typedef enum tti_bench_result {
    TTI_RESULT_NOTHING,
    TTI_RESULT_REDUCED,  /* the reduction of all inputs */
    TTI_RESULT_ROOT,     /* the same, on rank 0 only */
    TTI_RESULT_PIECE,    /* this rank's part of the reduction */
    TTI_RESULT_GATHERED, /* the inputs of all ranks, one after the other */
    TTI_RESULT_TURNED,   /* this rank's part of everybody's input */
    TTI_RESULT_FROM,     /* the input of rank from() */
} tti_bench_result;

struct tti_bench_op {
    const char *name;
    const char *summary;
    tti_bench_result result;
    bool in_parts, out_parts; /* a part per rank, the size being that of all; else one part */
    bool reduces;
    bool no_data;
    bool always_in_place, never_in_place;
    bool needs_two;
    double calls_per_time;   /* times of a call in what is measured: 2 for there and back */
    double (*bus)(double n); /* bus bandwidth over algorithm bandwidth; NULL: 1 */
    int (*from)(const tti_bench_case *c);
    tt_status (*call)(const tti_bench_case *c, const tti_bench_slot *s);
};

const tti_bench_op *tti_bench_op_at(int index); /* NULL past the end */

typedef struct tti_bench_row {
    const tti_bench_op *op;
    size_t bytes;
    int64_t count;
    int ranks, reps, batch;
    double median_us, p99_us, min_us, algbw, busbw;
    long long wrong; /* -1: not checked */
} tti_bench_row;

/* ---- data ---------------------------------------------------------------------------------------- */

/* Elements repeat after a prime number, so that parts which end up in each other's place are noticed;
 * the phase changes with every call. */
typedef struct tti_bench_data tti_bench_data;

tti_bench_data *tti_bench_data_new(const tti_bench_case *c);
void tti_bench_data_free(tti_bench_data *d);
/* Write the input of a call; afterwards, count wrong elements of its output. */
void tti_bench_fill(const tti_bench_data *d, const tti_bench_slot *s, int phase);
long long tti_bench_wrong(const tti_bench_data *d, const tti_bench_slot *s, int phase);

/* ---- the rest ------------------------------------------------------------------------------------ */

tt_status tti_bench_parse(int argc, char **argv, tti_bench_options *opt_p);
tt_status tti_bench_measure(const tti_bench_options *opt, const tti_bench_op *op, tt_pg *pg,
                            size_t size, tti_bench_row *row_p);

/* Rank 0: the head of an operation and its rows as they come, then everything else. */
void tti_bench_print_start(const tti_bench_options *opt, const tt_pg *pg);
void tti_bench_print_row(const tti_bench_options *opt, const tti_bench_row *row);
int tti_bench_finish(const tti_bench_options *opt, const tti_bench_row *rows, int n);
tt_status tti_bench_plot(const char *path, const tti_bench_row *rows, int n);

#endif
