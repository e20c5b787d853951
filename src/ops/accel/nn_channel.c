/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm and group norm on accelerators: statistics or sums in parts, the parts put together, coefficients of
 * channels (of planes, for groups), and then all elements at once. */
#include "ops/accel/nn.h"

extern const char tti_source_nn_channel[];

static const tti_program program = { "nn_channel", { tti_source_nn_math, tti_source_nn_channel } };

static tti_nn_kernel stats_planes = { &program, "stats_planes", { { { NULL } } } };
static tti_nn_kernel stats_rows = { &program, "stats_rows", { { { NULL } } } };
static tti_nn_kernel stats_merge = { &program, "stats_merge", { { { NULL } } } };
static tti_nn_kernel group_stats = { &program, "group_stats", { { { NULL } } } };
static tti_nn_kernel apply_coefs = { &program, "apply_coefs", { { { NULL } } } };
static tti_nn_kernel apply = { &program, "apply", { { { NULL } } } };
static tti_nn_kernel sums_planes = { &program, "sums_planes", { { { NULL } } } };
static tti_nn_kernel sums_rows = { &program, "sums_rows", { { { NULL } } } };
static tti_nn_kernel sums_merge = { &program, "sums_merge", { { { NULL } } } };
static tti_nn_kernel grad_coefs = { &program, "grad_coefs", { { { NULL } } } };
static tti_nn_kernel group_coefs = { &program, "group_coefs", { { { NULL } } } };
static tti_nn_kernel input_grad = { &program, "input_grad", { { { NULL } } } };

enum { CHUNK = 256 }; /* rows of a part: of nn_channel.cl */

#define RUN(kernel, j, grid, args) \
    tti_nn_run(&(kernel), (j)->d, (j)->dtype, (grid), (args), TTI_NN_COUNT(args))

/* One call: the layout of its tensors and its scratch memory. Sizes are as kernels take them. */
typedef struct job {
    tt_device d;
    tt_dtype dtype;
    uint64_t c, count;   /* channels; elements of each */
    uint64_t runs, n;    /* planes or rows, and their elements */
    uint64_t parts;      /* of each channel, */
    uint64_t part;       /* of so many elements */
    uint64_t per, stats; /* statistics of plane i: (i / per) % stats */
    uint64_t k;          /* coefficients */
    uint32_t rows;       /* 0: planes */
    size_t bytes;
    char *scratch; /* parts, totals, coefficients */
} job;

static size_t wide_bytes(const job *j)
{
    return tti_device_has_fp64(j->d) ? 8 : 4;
}

static void *parts_of(const job *j)
{
    return j->scratch;
}

static void *totals_of(const job *j)
{
    return j->scratch + (size_t)(2 * j->parts * j->c) * wide_bytes(j);
}

static void *coefs_of(const job *j)
{
    return (char *)totals_of(j) + (size_t)(2 * j->c) * wide_bytes(j);
}

static tt_status job_new(job *j, const tt_tensor *x, bool groups, uint64_t stats)
{
    uint64_t n = (uint64_t)x->dims[0], c = (uint64_t)x->dims[1];
    uint64_t inner = (uint64_t)x->numel / (n * c);

    TT_TRY(tti_accel_check_type(groups ? "group_norm" : "batch_norm", x));
    *j = (job){ .d = x->device, .dtype = (tt_dtype)x->dtype, .c = c, .count = n * inner };
    j->rows = !groups && (inner == 1 || !tti_is_contiguous(x));
    j->n = j->rows ? c : inner;
    j->runs = (uint64_t)x->numel / j->n;
    j->part = j->rows ? CHUNK : inner;
    j->parts = j->rows ? (j->runs + CHUNK - 1) / CHUNK : n;
    j->stats = stats;
    j->per = n * c / stats > 0 && groups ? n * c / stats : 1;
    j->k = groups ? n * c : c;
    j->bytes = (size_t)(2 * j->parts * c + 2 * c) * wide_bytes(j) +
               (size_t)(4 * j->k) * (x->dtype == TT_F64 ? 8 : 4);
    j->scratch = tti_accel_scratch(j->d, j->bytes);
    return j->scratch != NULL ? TT_OK : tt_last_status();
}

static void job_free(const job *j)
{
    tti_accel_scratch_free(j->d, j->scratch, j->bytes);
}

static uint32_t is_wide(const tt_tensor *t)
{
    return t != NULL && t->dtype == TT_F64;
}

/* Units of kernels over rows: a chunk and a tile of columns. */
static tti_grid chunk_grid(const job *j)
{
    uint64_t tile = (uint64_t)tti_nn_tile(j->d);

    return tti_grid_rows(j->d, (j->c + tile - 1) / tile * j->parts, tile * CHUNK);
}

static tti_grid run_grid(const job *j)
{
    return tti_grid_rows(j->d, j->runs, j->n);
}

/* ---- batch norm: statistics -------------------------------------------------------------------- */

static tt_status batch_stats(const job *j, tt_tensor *mean, tt_tensor *var, const tt_tensor *x)
{
    uint32_t wide = is_wide(mean);
    const tti_arg parts[] = { TTI_MEM(parts_of(j)), tti_nn_mem(x), TTI_VAL(j->runs),
                              TTI_VAL(j->n) };
    const tti_arg merge[] = { tti_nn_mem(mean),  tti_nn_mem(var), TTI_MEM(parts_of(j)),
                              TTI_VAL(j->parts), TTI_VAL(j->c),   TTI_VAL(j->part),
                              TTI_VAL(j->count), TTI_VAL(wide) };

    if (j->rows != 0)
        TT_TRY(RUN(stats_rows, j, chunk_grid(j), parts));
    else
        TT_TRY(RUN(stats_planes, j, run_grid(j), parts));
    return RUN(stats_merge, j, tti_nn_grid(j->d, (int64_t)j->c, 4 * (int64_t)j->parts), merge);
}

tt_status tti_accel_batch_norm_stats(tt_tensor *mean, tt_tensor *var, const tt_tensor *x)
{
    job j;
    tt_status st;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(job_new(&j, x, false, (uint64_t)x->dims[1]));
    st = batch_stats(&j, mean, var, x);
    job_free(&j);
    return st;
}

/* ---- y = (x - mean) * rstd * w + b --------------------------------------------------------------- */

static tt_status apply_all(const job *j, tt_tensor *y, const tt_tensor *x,
                           const tt_tensor *mean_rstd[2], const tt_tensor *w_b[2])
{
    uint32_t wide = is_wide(mean_rstd[1]);
    const tti_arg coefs[] = {
        TTI_MEM(coefs_of(j)), tti_nn_mem(mean_rstd[0]), tti_nn_mem(mean_rstd[1]),
        tti_nn_mem(w_b[0]),   tti_nn_mem(w_b[1]),       TTI_VAL(j->k),
        TTI_VAL(j->c),        TTI_VAL(j->per),          TTI_VAL(j->stats),
        TTI_VAL(wide)
    };
    const tti_arg args[] = { tti_nn_mem(y), tti_nn_mem(x), TTI_MEM(coefs_of(j)), TTI_VAL(j->runs),
                             TTI_VAL(j->n), TTI_VAL(j->k), TTI_VAL(j->rows) };

    TT_TRY(RUN(apply_coefs, j, tti_grid_elements(j->d, j->k), coefs));
    return RUN(apply, j, run_grid(j), args);
}

tt_status tti_accel_batch_norm_apply(tt_tensor *y, const tt_tensor *x, const tt_tensor *mean,
                                     const tt_tensor *rstd, const tt_tensor *w, const tt_tensor *b)
{
    job j;
    tt_status st;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(job_new(&j, x, false, (uint64_t)x->dims[1]));
    st = apply_all(&j, y, x, (const tt_tensor *[2]){ mean, rstd }, (const tt_tensor *[2]){ w, b });
    job_free(&j);
    return st;
}

static tt_status group_norm(const job *j, tt_tensor *y, const tt_tensor *x,
                            tt_tensor *const mean_rstd[2], const tt_tensor *w_b[2], double eps)
{
    uint64_t rows = j->stats, n = (uint64_t)x->numel / rows;
    tti_nn_real e = tti_nn_real_of(x, eps);
    const tti_arg parts[] = { TTI_MEM(parts_of(j)), tti_nn_mem(x), TTI_VAL(rows), TTI_VAL(n) };
    const tti_arg stats[] = { tti_nn_mem(mean_rstd[0]),
                              tti_nn_mem(mean_rstd[1]),
                              TTI_MEM(parts_of(j)),
                              TTI_NN_REAL(e, x),
                              TTI_VAL(n),
                              TTI_VAL(rows) };

    TT_TRY(RUN(stats_planes, j, tti_grid_rows(j->d, rows, n), parts));
    TT_TRY(RUN(group_stats, j, tti_grid_elements(j->d, rows), stats));
    return apply_all(j, y, x, (const tt_tensor *[2]){ mean_rstd[0], mean_rstd[1] }, w_b);
}

tt_status tti_accel_group_norm(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                               const tt_tensor *w, const tt_tensor *b, double eps)
{
    job j;
    tt_status st;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(job_new(&j, x, true, (uint64_t)rstd->numel));
    st = group_norm(&j, y, x, (tt_tensor *[2]){ mean, rstd }, (const tt_tensor *[2]){ w, b }, eps);
    job_free(&j);
    return st;
}

/* ---- gradients ----------------------------------------------------------------------------------- */

/* Sums of dy and of dy * (x - mean) in parts, and then those of channels: totals, dw, db. */
static tt_status sums(const job *j, tt_tensor *dw, tt_tensor *db, const tt_tensor *dy_x[2],
                      const tt_tensor *mean_rstd[2])
{
    uint32_t wide_mean = is_wide(mean_rstd[0]), wide_rstd = is_wide(mean_rstd[1]);
    uint32_t wide = is_wide(dw != NULL ? dw : db);
    const tti_arg rows[] = { TTI_MEM(parts_of(j)),     tti_nn_mem(dy_x[0]), tti_nn_mem(dy_x[1]),
                             tti_nn_mem(mean_rstd[0]), TTI_VAL(j->runs),    TTI_VAL(j->n),
                             TTI_VAL(wide_mean) };
    const tti_arg planes[] = { TTI_MEM(parts_of(j)),     tti_nn_mem(dy_x[0]), tti_nn_mem(dy_x[1]),
                               tti_nn_mem(mean_rstd[0]), TTI_VAL(j->runs),    TTI_VAL(j->n),
                               TTI_VAL(j->per),          TTI_VAL(j->stats),   TTI_VAL(wide_mean) };
    const tti_arg merge[] = {
        TTI_MEM(totals_of(j)),    tti_nn_mem(dw),     tti_nn_mem(db), TTI_MEM(parts_of(j)),
        tti_nn_mem(mean_rstd[1]), TTI_VAL(j->parts),  TTI_VAL(j->c),  TTI_VAL(j->per),
        TTI_VAL(j->stats),        TTI_VAL(wide_rstd), TTI_VAL(wide)
    };

    if (j->rows != 0)
        TT_TRY(RUN(sums_rows, j, chunk_grid(j), rows));
    else
        TT_TRY(RUN(sums_planes, j, run_grid(j), planes));
    return RUN(sums_merge, j, tti_nn_grid(j->d, (int64_t)j->c, 2 * (int64_t)j->parts), merge);
}

static tt_status from_coefs(const job *j, tt_tensor *dx, const tt_tensor *dy_x[2])
{
    const tti_arg args[] = { tti_nn_mem(dx),       tti_nn_mem(dy_x[0]), tti_nn_mem(dy_x[1]),
                             TTI_MEM(coefs_of(j)), TTI_VAL(j->runs),    TTI_VAL(j->n),
                             TTI_VAL(j->k),        TTI_VAL(j->rows) };

    return RUN(input_grad, j, run_grid(j), args);
}

/* dx from totals, or (NULL) from dw and db. */
static tt_status channel_coefs(const job *j, const void *totals, const tt_tensor *dw_db[2],
                               const tt_tensor *mean_rstd[2], const tt_tensor *w, double count)
{
    uint32_t wide_stats = is_wide(mean_rstd[1]), wide = is_wide(dw_db[0]);
    float narrow = (float)count;
    const tti_arg args[] = { TTI_MEM(coefs_of(j)),
                             TTI_MEM(totals),
                             tti_nn_mem(dw_db[0]),
                             tti_nn_mem(dw_db[1]),
                             tti_nn_mem(mean_rstd[0]),
                             tti_nn_mem(mean_rstd[1]),
                             tti_nn_mem(w),
                             wide_bytes(j) == 8 ? TTI_VAL(count) : TTI_VAL(narrow),
                             TTI_VAL(j->c),
                             TTI_VAL(wide_stats),
                             TTI_VAL(wide) };

    return RUN(grad_coefs, j, tti_grid_elements(j->d, j->c), args);
}

static tt_status batch_grad(const job *j, tt_tensor *const out[3], const tt_tensor *dy_x[2],
                            const tt_tensor *w, const tt_tensor *mean_rstd[2])
{
    const tt_tensor *none[2] = { NULL, NULL };

    TT_TRY(sums(j, out[1], out[2], dy_x, mean_rstd));
    if (out[0] == NULL)
        return TT_OK;
    TT_TRY(channel_coefs(j, totals_of(j), none, mean_rstd, w, (double)j->count));
    return from_coefs(j, out[0], dy_x);
}

/* Sums over nothing. */
static tt_status zero_grads(tt_tensor *dw, tt_tensor *db)
{
    if (dw != NULL)
        TT_TRY(tti_fill(dw, 0.0));
    return db != NULL ? tti_fill(db, 0.0) : TT_OK;
}

tt_status tti_accel_batch_norm_grad(tt_tensor *dx, tt_tensor *dw, tt_tensor *db,
                                    const tt_tensor *dy, const tt_tensor *x, const tt_tensor *w,
                                    const tt_tensor *mean_rstd[2])
{
    job j;
    tt_status st;

    if (x->numel == 0)
        return zero_grads(dw, db);
    TT_TRY(job_new(&j, x, false, (uint64_t)x->dims[1]));
    st = batch_grad(&j, (tt_tensor *[3]){ dx, dw, db }, (const tt_tensor *[2]){ dy, x }, w,
                    mean_rstd);
    job_free(&j);
    return st;
}

tt_status tti_accel_batch_norm_input_grad(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *x,
                                          const tt_tensor *w, const tt_tensor *mean_rstd[2],
                                          const tt_tensor *dw_db[2], double count)
{
    job j;
    tt_status st;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(job_new(&j, x, false, (uint64_t)x->dims[1]));
    st = channel_coefs(&j, NULL, dw_db, mean_rstd, w, count);
    if (st == TT_OK)
        st = from_coefs(&j, dx, (const tt_tensor *[2]){ dy, x });
    job_free(&j);
    return st;
}

static tt_status group_grad(const job *j, tt_tensor *const out[3], const tt_tensor *dy_x[2],
                            const tt_tensor *w, const tt_tensor *mean_rstd[2])
{
    const tti_arg args[] = {
        TTI_MEM(coefs_of(j)),     TTI_MEM(parts_of(j)), tti_nn_mem(mean_rstd[0]),
        tti_nn_mem(mean_rstd[1]), tti_nn_mem(w),        TTI_VAL(j->stats),
        TTI_VAL(j->per),          TTI_VAL(j->c),        TTI_VAL(j->n)
    };

    TT_TRY(sums(j, out[1], out[2], dy_x, mean_rstd));
    if (out[0] == NULL)
        return TT_OK;
    TT_TRY(RUN(group_coefs, j, tti_nn_grid(j->d, (int64_t)j->stats, 6 * (int64_t)j->per), args));
    return from_coefs(j, out[0], dy_x);
}

tt_status tti_accel_group_norm_grad(tt_tensor *dx, tt_tensor *dw, tt_tensor *db,
                                    const tt_tensor *dy, const tt_tensor *x, const tt_tensor *w,
                                    const tt_tensor *mean_rstd[2])
{
    job j;
    tt_status st;

    if (x->numel == 0)
        return zero_grads(dw, db);
    TT_TRY(job_new(&j, x, true, (uint64_t)mean_rstd[1]->numel));
    st = group_grad(&j, (tt_tensor *[3]){ dx, dw, db }, (const tt_tensor *[2]){ dy, x }, w,
                    mean_rstd);
    job_free(&j);
    return st;
}
