/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_coll OP in|out BUDGET_MS LIMIT_S SIZE...: what `tutti bench` measures, of an MPI library, by the same method:
 * inputs written anew and a barrier before each repetition, a batch of calls on buffers of their own where
 * data are small, the slowest rank's time, results checked. float32 sums. Compiled by the mpicc of each
 * MPI; rank 0 prints lines of size, median, 99th percentile and least time in us, wrong, repetitions. Sizes
 * that are left after LIMIT_S seconds are not measured. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 1021, BATCH_BYTES = 256 << 10, MAX_BATCH = 64, MIN_REPS = 3, MAX_REPS = 2000 };
enum { WARM_UP = 5, MAX_RANKS = 64 };

typedef struct job {
    const char *op;
    int rank, size, in_place;
    long part, n_in, n_out; /* elements */
    int batch;
    float *in[MAX_BATCH], *out[MAX_BATCH];
    float *in_memory, *out_memory;
    long long wrong;
} job;

static float blocks[MAX_RANKS + 1][2 * PERIOD]; /* the last is the sum */

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "mpi_coll: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

static int is(const job *j, const char *op)
{
    return strcmp(j->op, op) == 0;
}

static void make_blocks(int size)
{
    for (int i = 0; i < 2 * PERIOD; i++) {
        blocks[size][i] = 0;
        for (int r = 0; r < size; r++) {
            unsigned h = (unsigned)(i % PERIOD) * 2654435761u + (unsigned)r * 40503u;

            h = (h ^ h >> 15) * 2246822519u;
            blocks[r][i] = (float)(1 + (h ^ h >> 13) % 3);
            blocks[size][i] += blocks[r][i];
        }
    }
}

static void fill(float *to, long n, int rank, long start)
{
    for (long i = 0; i < n; i += PERIOD)
        memcpy(to + i, blocks[rank] + start % PERIOD,
               sizeof(float) * (size_t)(n - i < PERIOD ? n - i : PERIOD));
}

static long long wrong(const float *got, long n, int rank, long start)
{
    const float *want = blocks[rank] + start % PERIOD;
    long long bad = 0;

    for (long i = 0; i < n; i += PERIOD) {
        long m = n - i < PERIOD ? n - i : PERIOD;

        if (memcmp(got + i, want, sizeof(float) * (size_t)m) != 0)
            for (long k = 0; k < m; k++)
                bad += got[i + k] != want[k];
    }
    return bad;
}

static int partner(const job *j)
{
    return (j->rank ^ 1) < j->size ? j->rank ^ 1 : j->rank;
}

static int previous(const job *j)
{
    return (j->rank + j->size - 1) % j->size;
}

static long long wrong_result(const job *j, const float *out, long start)
{
    long long bad = 0;

    if (is(j, "all_reduce") || (is(j, "reduce") && j->rank == 0))
        return wrong(out, j->n_out, j->size, start);
    if (is(j, "reduce_scatter"))
        return wrong(out, j->n_out, j->size, start + j->rank * j->part);
    if (is(j, "broadcast"))
        return wrong(out, j->n_out, 0, start);
    if (is(j, "sendrecv") && partner(j) != j->rank)
        return wrong(out, j->n_out, partner(j), start);
    if (is(j, "exchange"))
        return wrong(out, j->n_out, previous(j), start);
    if (is(j, "all_gather") || is(j, "all_to_all")) {
        if (is(j, "all_to_all"))
            start += j->rank * j->part;
        for (int r = 0; r < j->size; r++)
            bad += wrong(out + r * j->part, j->part, r, start);
    }
    return bad;
}

/* ---- the operations ------------------------------------------------------------------------------ */

static void there_and_back(const job *j, float *in, float *out)
{
    int n = (int)j->part, other = partner(j);

    if (j->rank < other)
        MPI_Send(in, n, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
    if (j->rank != other)
        MPI_Recv(out, n, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (j->rank > other)
        MPI_Send(in, n, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
}

static void call(const job *j, float *in, float *out)
{
    int n = (int)j->part;
    const void *from = j->in_place ? MPI_IN_PLACE : in;

    if (is(j, "all_reduce"))
        MPI_Allreduce(from, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (is(j, "all_gather"))
        MPI_Allgather(from, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
    else if (is(j, "reduce_scatter"))
        MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (is(j, "all_to_all"))
        MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
    else if (is(j, "broadcast"))
        MPI_Bcast(in, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (is(j, "reduce"))
        MPI_Reduce(j->rank == 0 ? MPI_IN_PLACE : in, j->rank == 0 ? in : NULL, n, MPI_FLOAT,
                   MPI_SUM, 0, MPI_COMM_WORLD);
    else if (is(j, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (is(j, "sendrecv"))
        there_and_back(j, in, out);
    else
        MPI_Sendrecv(in, n, MPI_FLOAT, (j->rank + 1) % j->size, 0, out, n, MPI_FLOAT, previous(j),
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- measuring ----------------------------------------------------------------------------------- */

static long whole_lines(long n)
{
    return (n + 15) / 16 * 16;
}

/* Does what tti_bench_measure does: same parts, same places, same batches. */
static void set_up(job *j, long bytes, int want_in_place)
{
    int parts_in = is(j, "reduce_scatter") || is(j, "all_to_all");
    int parts_out = is(j, "all_gather") || is(j, "all_to_all");
    int always = is(j, "broadcast") || is(j, "reduce");
    int can = is(j, "all_reduce") || is(j, "all_gather");
    long parts = parts_in || parts_out ? j->size : 1, actual;

    j->part = bytes / 4 / parts > 0 ? bytes / 4 / parts : 1;
    if (is(j, "barrier"))
        j->part = 0;
    j->n_in = parts_in ? j->part * j->size : j->part;
    j->n_out = parts_out ? j->part * j->size : j->part;
    j->in_place = always || (can && want_in_place);
    actual = j->part * parts * 4;
    j->batch =
        actual == 0 || BATCH_BYTES / actual > MAX_BATCH ? MAX_BATCH : (int)(BATCH_BYTES / actual);
    if (j->batch == 0)
        j->batch = 1;
    /* One line more: the start is moved to a line's. */
    j->out_memory = must(malloc(sizeof(float) * (size_t)(whole_lines(j->n_out) * j->batch + 16)));
    j->in_memory = must(malloc(sizeof(float) * (size_t)(whole_lines(j->n_in) * j->batch + 16)));
    for (int i = 0; i < j->batch; i++) {
        float *out = (float *)(((size_t)j->out_memory + 63) / 64 * 64);
        float *in = (float *)(((size_t)j->in_memory + 63) / 64 * 64);

        j->out[i] = out + i * whole_lines(j->n_out);
        j->in[i] = in + i * whole_lines(j->n_in);
        if (j->in_place)
            j->in[i] = j->out[i] + (j->n_in < j->n_out ? j->rank * j->part : 0);
    }
    j->wrong = 0;
}

static double repeat(job *j, int rep, int calls)
{
    double start, us;

    for (int i = 0; i < calls; i++)
        fill(j->in[i], j->n_in, j->rank, rep * 131 + i * 17);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        call(j, j->in[i], j->out[i]);
    us = (MPI_Wtime() - start) * 1e6 / calls;
    for (int i = 0; i < calls; i++)
        j->wrong += wrong_result(j, j->out[i], rep * 131 + i * 17);
    return is(j, "sendrecv") ? us / 2 : us;
}

/* The best of some repetitions of `calls` calls, none more once the time is over; the same on all ranks. */
static double best_of(job *j, int n, int calls, double left_us)
{
    double best = 1e30;

    for (int rep = 0; rep == 0 || (rep < n && left_us > 0); rep++) {
        double us = repeat(j, rep, calls);

        MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        left_us -= us * calls;
        best = us < best ? us : best;
    }
    return best;
}

/* Also makes the batch smaller where calls are slow. */
static double warm_up(job *j, double budget_us)
{
    double us = best_of(j, 3, 1, budget_us), fit = budget_us / 4 / us;

    if (fit < j->batch)
        j->batch = fit < 1 ? 1 : (int)fit;
    if (fit < 0.25) /* one call took all the time there is */
        return us;
    return best_of(j, WARM_UP, j->batch, budget_us / 2);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(job *j, long bytes, double budget_us, int want_in_place)
{
    double fit, *times;
    int reps;

    set_up(j, bytes, want_in_place);
    fit = warm_up(j, budget_us);
    fit = budget_us / (fit * j->batch);
    reps = fit < MIN_REPS ? MIN_REPS : fit > MAX_REPS ? MAX_REPS : (int)fit;
    times = must(calloc((size_t)reps, sizeof *times));
    j->wrong = 0;
    for (int i = 0; i < reps; i++)
        times[i] = repeat(j, i + 1, j->batch);
    MPI_Allreduce(MPI_IN_PLACE, times, reps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &j->wrong, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    qsort(times, (size_t)reps, sizeof *times, by_value);
    if (j->rank == 0) {
        printf("%ld\t%.4f\t%.4f\t%.4f\t%lld\t%d\n", bytes,
               (times[(reps - 1) / 2] + times[reps / 2]) / 2, times[(99 * reps + 99) / 100 - 1],
               times[0], j->wrong, reps);
        fflush(stdout);
    }
    free(times);
    free(j->in_memory);
    free(j->out_memory);
}

int main(int argc, char **argv)
{
    job j = { 0 };
    double start;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.size);
    if (argc < 6 || j.size > MAX_RANKS) {
        fprintf(stderr, "usage: mpi_coll OP in|out BUDGET_MS LIMIT_S SIZE...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    j.op = argv[1];
    make_blocks(j.size);
    start = MPI_Wtime();
    for (int i = 5; i < argc; i++) {
        int late = MPI_Wtime() - start > atof(argv[4]);

        MPI_Bcast(&late, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (late)
            break;
        measure(&j, atol(argv[i]), atof(argv[3]) * 1e3, strcmp(argv[2], "in") == 0);
    }
    MPI_Finalize();
    return 0;
}
