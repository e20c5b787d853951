/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a reduction: folds each segment of each group, joins the segments in order, and turns
 * accumulators into results. The same bits come out for every number of threads, because segments
 * are cut by size alone. */
#include "ops/cpu/reduce_run.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "ops/cpu/parallel.h"
#include "ops/cpu/reduce_fold.h"
#include "ops/cpu/reduce_plan.h"
#include "ops/cpu/vmath.h"

#define GRAIN 65536 /* elements that are worth a thread */

typedef enum acc_kind {
    ACC_REAL,
    ACC_INT,
    ACC_COMPLEX,
} acc_kind;

typedef union acc_room {
    double real[TTI_FOLD_GROUP];
    int64_t integer[TTI_FOLD_GROUP];
    uint64_t word[TTI_FOLD_GROUP];
    double complex cplx[TTI_FOLD_GROUP];
} acc_room;

typedef struct job {
    tti_reduce_op op;
    tti_reduce_plan plan;
    tt_tensor *out;
    tt_tensor *mean; /* of VAR: NULL, or where the means go too */
    const tt_tensor *x;
    double p;
    int threads; /* for the segments of one group */
} job;

/* One pass over a group of results: which fold, its accumulators and parameters. */
typedef struct pass {
    tti_fold fold;
    tti_fold_fn fn;
    tti_fold_half_fn *half; /* not NULL: elements have 16 bits and fn is that of float32 */
    acc_kind kind;
    const char *x; /* the group's first element */
    int64_t n_out;
    const double *param;
} pass;

static acc_kind kind_of(tti_fold f, tt_dtype d)
{
    if (f == TTI_FOLD_ALL || f == TTI_FOLD_ANY || tt_dtype_is_integral(d) || d == TT_BOOL)
        return ACC_INT;
    if (tt_dtype_is_complex(d) && (f == TTI_FOLD_SUM || f == TTI_FOLD_PROD))
        return ACC_COMPLEX;
    return ACC_REAL;
}

/* What joining starts with. */
static double neutral(tti_fold f)
{
    switch (f) {
    case TTI_FOLD_PROD:
    case TTI_FOLD_ALL:
        return 1.0;
    case TTI_FOLD_MAX:
        return -INFINITY;
    case TTI_FOLD_MIN:
    case TTI_FOLD_MIN_ABS:
        return INFINITY;
    default:
        return 0.0;
    }
}

static void init(const pass *s, acc_room *acc)
{
    double v = neutral(s->fold);
    int64_t whole = isinf(v) ? (v > 0 ? INT64_MAX : INT64_MIN) : (int64_t)v;

    for (int64_t i = 0; i < s->n_out; i++) {
        if (s->kind == ACC_REAL)
            acc->real[i] = v;
        else if (s->kind == ACC_INT)
            acc->integer[i] = whole;
        else
            acc->cplx[i] = v;
    }
}

static double larger(double a, double b)
{
    return b > a || b != b ? b : a;
}

static double smaller(double a, double b)
{
    return b < a || b != b ? b : a;
}

static void join_real(tti_fold f, double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (f == TTI_FOLD_PROD)
            a[i] *= b[i];
        else if (f == TTI_FOLD_MAX || f == TTI_FOLD_MAX_ABS)
            a[i] = larger(a[i], b[i]);
        else if (f == TTI_FOLD_MIN || f == TTI_FOLD_MIN_ABS)
            a[i] = smaller(a[i], b[i]);
        else
            a[i] += b[i];
    }
}

static void join_int(tti_fold f, acc_room *a, const acc_room *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t x = a->integer[i], y = b->integer[i];

        if (f == TTI_FOLD_SUM)
            a->word[i] += b->word[i];
        else if (f == TTI_FOLD_PROD)
            a->word[i] *= b->word[i];
        else if (f == TTI_FOLD_MAX || f == TTI_FOLD_ANY)
            a->integer[i] = x > y ? x : y;
        else
            a->integer[i] = x < y ? x : y;
    }
}

static void join(const pass *s, acc_room *a, const acc_room *b)
{
    if (s->kind == ACC_REAL)
        join_real(s->fold, a->real, b->real, s->n_out);
    else if (s->kind == ACC_INT)
        join_int(s->fold, a, b, s->n_out);
    else
        for (int64_t i = 0; i < s->n_out; i++)
            a->cplx[i] =
                s->fold == TTI_FOLD_SUM ? a->cplx[i] + b->cplx[i] : a->cplx[i] * b->cplx[i];
}

/* ---- segments ---------------------------------------------------------------------------- */

static void fold_segment(const job *j, const pass *s, int64_t segment, acc_room *acc)
{
    const tti_reduce_plan *p = &j->plan;
    int64_t esize = (int64_t)tti_esize(j->x);
    int64_t row = p->pieces > 1 ? segment / p->pieces : segment * p->rows;
    int64_t end = row + p->rows < p->red.total ? row + p->rows : p->red.total;
    int64_t first = p->pieces > 1 ? segment % p->pieces * p->piece : 0;
    int64_t n = p->n - first < p->piece ? p->n - first : p->piece;
    tti_fold_args a = { .acc = acc,
                        .n_out = s->n_out,
                        .out_stride = p->out_stride,
                        .n = n,
                        .stride = p->stride,
                        .param = s->param,
                        .exponent = j->p };

    for (; row < end; row++) {
        a.x = s->x + (tti_loop_at(&p->red, row, NULL) + first * p->stride) * esize;
        if (s->half != NULL)
            s->half(&a, s->fn, j->x->dtype == TT_BF16);
        else
            s->fn(&a);
    }
}

static tt_status fold_parallel(const job *j, const pass *s, acc_room *acc)
{
    int64_t n = j->plan.n_segments;
    size_t size = s->kind == ACC_COMPLEX ? sizeof(double complex) : sizeof(double);
    size_t room = (size_t)s->n_out * size;
    char *parts = tti_malloc((size_t)n * room);

    if (parts == NULL)
        return TT_ERR_NOMEM;
    TTI_PARALLEL_FOR(j->threads, i, n, 1, {
        acc_room part;

        init(s, &part);
        fold_segment(j, s, i, &part);
        memcpy(parts + (size_t)i * room, &part, room);
    });
    for (int64_t i = 0; i < n; i++) {
        acc_room part;

        memcpy(&part, parts + (size_t)i * room, room);
        join(s, acc, &part);
    }
    tti_mfree(parts);
    return TT_OK;
}

/* All elements of a group into `acc`. */
static tt_status fold_group(const job *j, const pass *s, acc_room *acc)
{
    init(s, acc);
    if (j->x->numel == 0)
        return TT_OK;
    if (j->plan.n_segments == 1) {
        fold_segment(j, s, 0, acc);
        return TT_OK;
    }
    if (j->threads > 1)
        return fold_parallel(j, s, acc);
    for (int64_t i = 0; i < j->plan.n_segments; i++) {
        acc_room part;

        init(s, &part);
        fold_segment(j, s, i, &part);
        join(s, acc, &part);
    }
    return TT_OK;
}

/* ---- results ----------------------------------------------------------------------------- */

static void store_real(tt_tensor *out, int64_t at, double v)
{
    void *o = tti_data(out);

    switch ((tt_dtype)out->dtype) {
    case TT_F32:
        ((float *)o)[at] = (float)v;
        break;
    case TT_F64:
        ((double *)o)[at] = v;
        break;
    case TT_F16:
        ((uint16_t *)o)[at] = tti_f32_to_f16((float)v);
        break;
    default:
        ((uint16_t *)o)[at] = tti_f32_to_bf16((float)v);
    }
}

static void store_int(tt_tensor *out, int64_t at, int64_t v)
{
    void *o = tti_data(out);

    switch (tti_esize(out)) {
    case 1:
        ((uint8_t *)o)[at] = (uint8_t)v;
        break;
    case 2:
        ((int16_t *)o)[at] = (int16_t)v;
        break;
    case 4:
        ((int32_t *)o)[at] = (int32_t)v;
        break;
    default:
        ((int64_t *)o)[at] = v;
    }
}

static void store_complex(tt_tensor *out, int64_t at, double complex v)
{
    if (out->dtype == TT_C64)
        ((float complex *)tti_data(out))[at] = (float complex)v;
    else
        ((double complex *)tti_data(out))[at] = v;
}

static double finish(const job *j, double v, double param)
{
    double n = (double)(j->x->numel == 0 ? 0 : j->plan.count);
    double left = n - j->p;

    switch (j->op) {
    case TTI_MEAN:
        return v / n;
    case TTI_NORM2:
        return sqrt(v);
    case TTI_NORMP:
        return pow(v, 1.0 / j->p);
    case TTI_VAR:
        return n == 0 ? NAN : v / (left > 0 ? left : 0.0);
    case TTI_LOGSUMEXP:
        return log(v) + param;
    default:
        return v;
    }
}

/* A kept mean has the shape of the result; both are contiguous. */
static void store_means(const job *j, const pass *s, int64_t at)
{
    for (int64_t i = 0; i < s->n_out; i++, at += j->plan.out_step)
        store_real(j->mean, at, s->param[i]);
}

static void store(const job *j, const pass *s, const acc_room *acc, int64_t at)
{
    int64_t step = j->plan.out_step;

    for (int64_t i = 0; i < s->n_out; i++, at += step) {
        if (s->kind == ACC_INT)
            store_int(j->out, at, acc->integer[i]);
        else if (s->kind == ACC_COMPLEX)
            store_complex(j->out, at,
                          j->op == TTI_MEAN ? acc->cplx[i] / (double)j->plan.count : acc->cplx[i]);
        else
            store_real(j->out, at, finish(j, acc->real[i], s->param != NULL ? s->param[i] : 0.0));
    }
}

/* ---- passes ------------------------------------------------------------------------------ */

static tti_fold fold_of(tti_reduce_op op)
{
    static const tti_fold folds[] = {
        [TTI_SUM] = TTI_FOLD_SUM,
        [TTI_MEAN] = TTI_FOLD_SUM,
        [TTI_PROD] = TTI_FOLD_PROD,
        [TTI_AMAX] = TTI_FOLD_MAX,
        [TTI_AMIN] = TTI_FOLD_MIN,
        [TTI_ALL] = TTI_FOLD_ALL,
        [TTI_ANY] = TTI_FOLD_ANY,
        [TTI_NORM1] = TTI_FOLD_SUM_ABS,
        [TTI_NORM2] = TTI_FOLD_SUM_SQ,
        [TTI_NORM_INF] = TTI_FOLD_MAX_ABS,
        [TTI_NORM_NEG_INF] = TTI_FOLD_MIN_ABS,
        [TTI_NORM0] = TTI_FOLD_COUNT,
        [TTI_NORMP] = TTI_FOLD_POW,
        [TTI_SUMSQ] = TTI_FOLD_SUM_SQ,
        [TTI_VAR] = TTI_FOLD_SQ_DEV,
        [TTI_LOGSUMEXP] = TTI_FOLD_EXP,
    };

    return folds[op];
}

static tt_status prepare(const job *j, pass *s, tti_fold fold)
{
    bool half = j->x->dtype == TT_F16 || j->x->dtype == TT_BF16;

    s->fold = fold;
    s->fn = (*TTI_ISA_PICK(tti_folds))[fold][half ? TT_F32 : j->x->dtype];
    s->half = half ? TTI_ISA_PICK(tti_fold_half) : NULL;
    s->kind = kind_of(fold, (tt_dtype)j->x->dtype);
    return s->fn != NULL ? TT_OK : tti_no_kernel("reduce", j->x);
}

/* The parameters of the second pass: means, or largest values that keep e^x finite. */
static tt_status first_pass(const job *j, pass *s, acc_room *acc, double *param)
{
    bool var = j->op == TTI_VAR;

    TT_TRY(prepare(j, s, var ? TTI_FOLD_SUM : TTI_FOLD_MAX));
    TT_TRY(fold_group(j, s, acc));
    for (int64_t i = 0; i < s->n_out; i++) {
        double v = acc->real[i];

        param[i] = var ? v / (double)j->plan.count : isinf(v) ? 0.0 : v;
    }
    return TT_OK;
}

static tt_status run_group(const job *j, int64_t group)
{
    const tti_reduce_plan *p = &j->plan;
    int64_t first = group % p->groups_per_row * p->group;
    int64_t at;
    int64_t x = tti_loop_at(&p->keep, group / p->groups_per_row, &at);
    double param[TTI_FOLD_GROUP];
    acc_room acc;
    pass s = { .n_out = p->n_out - first < p->group ? p->n_out - first : p->group };

    s.x = (const char *)tti_data(j->x) + (x + first * p->out_stride) * (int64_t)tti_esize(j->x);
    if (j->op == TTI_VAR || j->op == TTI_LOGSUMEXP) {
        TT_TRY(first_pass(j, &s, &acc, param));
        s.param = param;
    }
    TT_TRY(prepare(j, &s, fold_of(j->op)));
    TT_TRY(fold_group(j, &s, &acc));
    store(j, &s, &acc, at + first * p->out_step);
    if (j->mean != NULL)
        store_means(j, &s, at + first * p->out_step);
    return TT_OK;
}

static tt_status run_all(job *j, uint32_t mask, const tt_tensor *kept)
{
    int threads = tti_threads_for(j->x->numel, GRAIN);
    int64_t n;

    if (kept->numel == 0)
        return TT_OK;
    tti_reduce_plan_make(&j->plan, kept, j->x, mask);
    n = j->plan.n_groups;
    j->threads = n < threads ? threads : 1;
    if (n == 1 || threads == 1 || j->threads > 1) {
        for (int64_t i = 0; i < n; i++)
            TT_TRY(run_group(j, i));
        return TT_OK;
    }
    TT_TRY(run_group(j, 0));
    /* The others fail only for a missing kernel, and then the first did. */
    TTI_PARALLEL_FOR(threads, i, n - 1, 1, (void)run_group(j, i + 1));
    return TT_OK;
}

tt_status tti_reduce_run(tti_reduce_op op, tt_tensor *out, const tt_tensor *x, uint32_t mask,
                         const double *p)
{
    job j = { .op = op, .out = out, .x = x, .p = p != NULL ? p[0] : 0.0 };

    return run_all(&j, mask, out);
}

tt_status tti_mean_var_run(tt_tensor *mean, tt_tensor *var, const tt_tensor *x, uint32_t mask)
{
    job j = { .op = TTI_VAR, .out = var, .mean = mean, .x = x };
    tt_tensor kept = { .n_dims = x->n_dims, .numel = var->numel };

    for (int d = 0; d < x->n_dims; d++) /* var has one dimension, the only one that is kept */
        kept.strides[d] = (mask >> d & 1) != 0 ? 0 : 1;
    return run_all(&j, mask, &kept);
}
