/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions on accelerators: reduce.cl says how. Here the dimensions become loops, loops are cut into segments,
 * and one kernel folds the segments; another joins them when a result has several. */
#include "ops/accel/reduce.h"

#include <stdio.h>
#include <string.h>

#include "ops/accel/loops.h"
#include "ops/cpu/reduce_fold.h"

#define SEGMENT 65536 /* elements; fixed, so that sums do not depend on the device */
#define FEW 64        /* elements per result that one work-item may add */
#define WIDE_BYTES 16 /* the largest accumulator */

enum { ROWS, COLUMNS, JOIN, N_KERNELS };

enum { FINISH_NONE, FINISH_MEAN, FINISH_ROOT, FINISH_ROOT_P, FINISH_VAR, FINISH_LOG };
enum { PARAM_NONE, PARAM_SUM, PARAM_MAX };

/* plan_t of reduce.cl */
typedef struct plan {
    tti_accel_loop keep, red;
    int64_t n_out, out_stride, out_step;
    int64_t n, stride;
    int64_t n_results;
    int64_t piece, pieces, rows, n_segments;
    int64_t tiles;
    int64_t count;
    uint64_t p_bits;
    float p;
    uint32_t finish, raw, param;
} plan;

typedef struct job {
    tt_device device;
    tt_tensor *out;
    const tt_tensor *x;
    bool columns;
    plan q;
} job;

extern const char tti_source_reduce[];
extern const char tti_source_vmath[];
static const tti_program plain = { "reduce", { tti_source_loops, tti_source_reduce } };
static const tti_program powers = { "reduce_powers",
                                    { tti_source_loops, tti_source_vmath, tti_source_reduce } };

static const char *const fold_names[TTI_N_FOLDS] = {
    [TTI_FOLD_SUM] = "SUM",     [TTI_FOLD_SUM_ABS] = "SUM_ABS", [TTI_FOLD_SUM_SQ] = "SUM_SQ",
    [TTI_FOLD_COUNT] = "COUNT", [TTI_FOLD_POW] = "POW",         [TTI_FOLD_SQ_DEV] = "SQ_DEV",
    [TTI_FOLD_EXP] = "EXP",     [TTI_FOLD_PROD] = "PROD",       [TTI_FOLD_MAX] = "MAX",
    [TTI_FOLD_MIN] = "MIN",     [TTI_FOLD_MAX_ABS] = "MAX_ABS", [TTI_FOLD_MIN_ABS] = "MIN_ABS",
    [TTI_FOLD_ALL] = "ALL",     [TTI_FOLD_ANY] = "ANY",
};

static const struct {
    tti_fold fold;
    uint32_t finish;
} ops[] = {
    [TTI_SUM] = { TTI_FOLD_SUM, FINISH_NONE },
    [TTI_MEAN] = { TTI_FOLD_SUM, FINISH_MEAN },
    [TTI_PROD] = { TTI_FOLD_PROD, FINISH_NONE },
    [TTI_AMAX] = { TTI_FOLD_MAX, FINISH_NONE },
    [TTI_AMIN] = { TTI_FOLD_MIN, FINISH_NONE },
    [TTI_ALL] = { TTI_FOLD_ALL, FINISH_NONE },
    [TTI_ANY] = { TTI_FOLD_ANY, FINISH_NONE },
    [TTI_NORM1] = { TTI_FOLD_SUM_ABS, FINISH_NONE },
    [TTI_NORM2] = { TTI_FOLD_SUM_SQ, FINISH_ROOT },
    [TTI_NORM_INF] = { TTI_FOLD_MAX_ABS, FINISH_NONE },
    [TTI_NORM_NEG_INF] = { TTI_FOLD_MIN_ABS, FINISH_NONE },
    [TTI_NORM0] = { TTI_FOLD_COUNT, FINISH_NONE },
    [TTI_NORMP] = { TTI_FOLD_POW, FINISH_ROOT_P },
    [TTI_SUMSQ] = { TTI_FOLD_SUM_SQ, FINISH_NONE },
    [TTI_VAR] = { TTI_FOLD_SQ_DEV, FINISH_VAR },
    [TTI_LOGSUMEXP] = { TTI_FOLD_EXP, FINISH_LOG },
};

/* The same combinations as on the CPU. */
static bool has_fold(tti_fold f, tt_dtype d)
{
    bool any_type = f == TTI_FOLD_ALL || f == TTI_FOLD_ANY;
    bool order = f == TTI_FOLD_MAX || f == TTI_FOLD_MIN;

    if (any_type)
        return true;
    if (tt_dtype_is_complex(d))
        return !order && f != TTI_FOLD_SQ_DEV && f != TTI_FOLD_EXP;
    if (tt_dtype_is_integral(d) || d == TT_BOOL)
        return order || (d == TT_I64 && (f == TTI_FOLD_SUM || f == TTI_FOLD_PROD));
    return true;
}

static tti_kernel *kernel_of(const job *j, tti_fold fold, int which)
{
    static tti_kernel_slot slots[TTI_N_FOLDS][TT_N_DTYPES][N_KERNELS];
    static const char *const names[] = { "reduce_rows", "reduce_columns", "reduce_join" };
    tt_dtype d = (tt_dtype)j->x->dtype;
    tti_kernel_slot *slot = &slots[fold][d][which];
    char options[64];

    snprintf(options, sizeof options, "%s -DFOLD_%s", tti_accel_type(d), fold_names[fold]);
    return tti_kernel_get(slot, j->device,
                          fold == TTI_FOLD_EXP || fold == TTI_FOLD_POW ? &powers : &plain, options,
                          names[which]);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int64_t at_least_1(int64_t n)
{
    return n > 0 ? n : 1;
}

/* Segments depend on sizes alone. */
static void cut(job *j)
{
    plan *q = &j->q;
    int64_t row = at_least_1(q->n), segment = SEGMENT;
    int group = tti_group_size(j->device);
    bool beside = q->out_stride == 1 && q->stride != 1;

    j->columns = q->n_out > 1 && (beside || (group > 1 && q->count <= FEW));
    if (j->columns)
        segment /= q->n_out < 512 ? q->n_out : 512;
    q->tiles = j->columns ? (q->n_out + 512 - 1) / 512 : 0;
    if (j->columns && group > 1)
        q->tiles = (q->n_out + group - 1) / group;
    q->piece = segment;
    q->pieces = (row + segment - 1) / segment;
    q->rows = q->pieces > 1 ? 1 : segment / row;
    q->n_segments =
        q->pieces > 1 ? q->pieces * q->red.total : (q->red.total + q->rows - 1) / q->rows;
    q->n_segments = at_least_1(q->n_segments);
}

static void make_plan(job *j, uint32_t mask, double param)
{
    plan *q = &j->q;
    tti_reduce_plan p;

    tti_reduce_plan_make(&p, j->out, j->x, mask);
    q->keep = tti_accel_loop_of(&p.keep);
    q->red = tti_accel_loop_of(&p.red);
    q->n_out = p.n_out;
    q->out_stride = p.out_stride;
    q->out_step = p.out_step;
    q->n = p.n;
    q->stride = p.stride;
    q->n_results = j->out->numel;
    q->count = j->x->numel == 0 ? 0 : p.count;
    q->p = (float)param;
    memcpy(&q->p_bits, &param, sizeof param);
    cut(j);
}

/* ---- folding ----------------------------------------------------------------------------------- */

static tt_status join(job *j, tti_fold fold, void *parts, void *param, void *whole)
{
    tti_kernel *k = kernel_of(j, fold, JOIN);
    tti_arg args[] = { TTI_MEM(tti_data(j->out)), TTI_MEM(parts), TTI_MEM(param), TTI_MEM(whole),
                       TTI_VAL(j->q) };

    if (k == NULL)
        return tt_last_status();
    return tti_launch(j->device, k, tti_grid_elements(j->device, (uint64_t)j->q.n_results), args,
                      5);
}

/* Accumulators go to `parts`, [segments, results]; or finished ones to out. */
static tt_status fold_segments(job *j, tti_fold fold, void *parts, void *param)
{
    tti_kernel *k = kernel_of(j, fold, j->columns ? COLUMNS : ROWS);
    tti_arg args[] = { TTI_MEM(tti_data(j->out)), TTI_MEM(parts), TTI_MEM(param),
                       TTI_MEM(tti_data(j->x)), TTI_VAL(j->q) };
    int64_t tasks = (j->columns ? j->q.keep.total * j->q.tiles : j->q.n_results) * j->q.n_segments;
    int64_t each = at_least_1(j->x->numel / tasks);

    if (k == NULL)
        return tt_last_status();
    return tti_launch(j->device, k, tti_grid_rows(j->device, (uint64_t)tasks, (uint64_t)each), args,
                      5);
}

/* All elements, into out, or into `whole` when it is not NULL. */
static tt_status fold_all(job *j, tti_fold fold, void *param, void *whole)
{
    size_t bytes = (size_t)(j->q.n_results * j->q.n_segments) * WIDE_BYTES;
    void *parts;
    tt_status st;

    j->q.raw = whole != NULL;
    if (j->q.n_segments == 1)
        return fold_segments(j, fold, whole, param);
    parts = tti_accel_scratch(j->device, bytes);
    if (parts == NULL)
        return tt_last_status();
    st = fold_segments(j, fold, parts, param);
    if (st == TT_OK)
        st = join(j, fold, parts, param, whole);
    tti_accel_scratch_free(j->device, parts, bytes);
    return st;
}

/* Two passes: the first finds sums, or largest values that keep e^x finite. Short rows do both at once. */
static tt_status fold_twice(job *j, tti_fold fold)
{
    size_t bytes = (size_t)j->q.n_results * WIDE_BYTES;
    bool exp = fold == TTI_FOLD_EXP;
    void *param;
    tt_status st;

    if (!j->columns && j->q.n_segments == 1)
        return fold_all(j, fold, NULL, NULL);
    param = tti_accel_scratch(j->device, bytes);
    if (param == NULL)
        return tt_last_status();
    st = fold_all(j, exp ? TTI_FOLD_MAX : TTI_FOLD_SUM, NULL, param);
    j->q.param = exp ? PARAM_MAX : PARAM_SUM;
    if (st == TT_OK)
        st = fold_all(j, fold, param, NULL);
    tti_accel_scratch_free(j->device, param, bytes);
    return st;
}

static tt_status reduce(tti_reduce_op op, tt_tensor *out, const tt_tensor *x, uint32_t mask,
                        const double *p)
{
    tti_fold fold = ops[op].fold;
    job j = { .device = x->device, .out = out, .x = x };

    if (!has_fold(fold, (tt_dtype)x->dtype))
        return tti_no_kernel("reduce", x);
    TT_TRY(tti_accel_check_type("reduce", x));
    if (out->numel == 0)
        return TT_OK;
    make_plan(&j, mask, p != NULL ? p[0] : 0.0);
    j.q.finish = ops[op].finish;
    if (fold == TTI_FOLD_SQ_DEV || fold == TTI_FOLD_EXP)
        return fold_twice(&j, fold);
    return fold_all(&j, fold, NULL, NULL);
}

const tti_reduce_kernels tti_accel_reduce = {
    .reduce = reduce,
    .arg_reduce = tti_accel_arg_reduce,
    .cumulative = tti_accel_cumulative,
    .sort = tti_accel_sort,
    .topk = tti_accel_topk,
};
