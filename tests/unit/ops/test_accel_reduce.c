/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, extremes, cumulative sums and sorting on an accelerator, against the CPU's kernels. */
#include "accel_data.h"

#define CPU tti_kernels_cpu.reduce
#define DEV tti_kernels_accel.reduce

typedef struct shape_case {
    int n_dims;
    int64_t dims[TT_MAX_DIMS];
} shape_case;

static const shape_case shapes[] = {
    { 0, { 0 } },       { 1, { 1 } },          { 1, { 7 } },          { 2, { 5, 1000 } },
    { 2, { 300, 70 } }, { 3, { 4, 6, 33 } },   { 4, { 2, 3, 4, 5 } }, { 3, { 3, 0, 2 } },
    { 2, { 4, 2500 } }, { 3, { 2, 130, 20 } },
};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static const char *const op_names[] = {
    [TTI_SUM] = "sum",
    [TTI_MEAN] = "mean",
    [TTI_PROD] = "prod",
    [TTI_AMAX] = "amax",
    [TTI_AMIN] = "amin",
    [TTI_ALL] = "all",
    [TTI_ANY] = "any",
    [TTI_NORM1] = "norm1",
    [TTI_NORM2] = "norm2",
    [TTI_NORM_INF] = "norm_inf",
    [TTI_NORM_NEG_INF] = "norm_neg_inf",
    [TTI_NORM0] = "norm0",
    [TTI_NORMP] = "normp",
    [TTI_SUMSQ] = "sumsq",
    [TTI_VAR] = "var",
    [TTI_LOGSUMEXP] = "logsumexp",
};
#define N_OPS ((int)(sizeof op_names / sizeof op_names[0]))

/* As the operators use the kernels. */
static bool used(tti_reduce_op op, tt_dtype d)
{
    bool whole = tt_dtype_is_integral(d) || d == TT_BOOL;

    if (op == TTI_ALL || op == TTI_ANY)
        return true;
    if (op == TTI_AMAX || op == TTI_AMIN)
        return !tt_dtype_is_complex(d);
    if (op == TTI_SUM || op == TTI_PROD)
        return !whole || d == TT_I64;
    if (op == TTI_VAR || op == TTI_LOGSUMEXP)
        return tt_dtype_is_floating(d);
    return !whole;
}

static tt_dtype result_type(tti_reduce_op op, tt_dtype d)
{
    bool real = op >= TTI_NORM1 && op <= TTI_SUMSQ;

    if (op == TTI_ALL || op == TTI_ANY)
        return d == TT_U8 ? TT_U8 : TT_BOOL;
    if (real && tt_dtype_is_complex(d))
        return d == TT_C64 ? TT_F32 : TT_F64;
    return d;
}

/* The size of out for a mask, and how many elements go into one. */
static int64_t kept(const shape_case *s, uint32_t mask, int64_t *dims)
{
    int64_t count = 1;

    for (int i = 0; i < s->n_dims; i++) {
        dims[i] = (mask >> i & 1) != 0 ? 1 : s->dims[i];
        count *= (mask >> i & 1) != 0 ? s->dims[i] : 1;
    }
    return count;
}

/* How much the rounding of a sum grows with the numbers that go into it: with the root of their count, unless they are
 * the same ones again and again, whose errors are the same, too. */
static double growth(const tt_tensor *x, uint32_t mask, int64_t count)
{
    bool repeated = (mask & 1) != 0 && x->n_dims > 0 && x->strides[0] == 0 && x->dims[0] > 1;
    double times = repeated ? (double)x->dims[0] : 1.0;

    return 1.0 + times * sqrt((double)count / times) / 20.0;
}

static bool check_reduce(tti_reduce_op op, tt_dtype d, const shape_case *s, uint32_t mask,
                         const pair *x, layout out_layout)
{
    int64_t dims[TT_MAX_DIMS], count = kept(s, mask, dims);
    double p = op == TTI_NORMP ? 2.5 : 1.0;
    double tol = accel_tolerance(d) * growth(x->cpu, mask, count);
    char what[96];
    pair out;

    if (count == 0 && op >= TTI_AMAX && op <= TTI_AMIN)
        return true; /* operators refuse it */
    out = accel_out(dims, s->n_dims, result_type(op, d), out_layout);
    snprintf(what, sizeof what, "%s of %s, %d dims [%lld, %lld], mask %x", op_names[op],
             tt_dtype_name(d), s->n_dims, (long long)s->dims[0], (long long)s->dims[1], mask);
    TT_REQUIRE_OK(CPU->reduce(op, out.cpu, x->cpu, mask, &p));
    if (!TT_CHECK_OK(DEV->reduce(op, out.dev, x->dev, mask, &p)))
        return false;
    return accel_same(&out, op == TTI_ALL || op == TTI_ANY ? 0.0 : tol, what);
}

/* Every mask of the shape, in some layouts. */
static bool reduce_shape(tti_reduce_op op, tt_dtype d, const shape_case *s, kind k)
{
    for (int l = PLAIN; l < N_LAYOUTS; l++) {
        if (l != PLAIN && (s->n_dims < 2 || (k != USUAL && l != SWAPPED)))
            continue;
        TT_SCOPE {
            pair x = accel_pair(s->dims, s->n_dims, d, (layout)l, k, 11);

            for (uint32_t mask = 0; mask < 1u << s->n_dims; mask++)
                if (!check_reduce(op, d, s, mask, &x, l == SWAPPED ? SWAPPED : PLAIN))
                    return false;
        }
    }
    return true;
}

static void reduce_type(void *ctx)
{
    tt_dtype d = *(const tt_dtype *)ctx;

    accel_device();
    for (int op = 0; op < N_OPS; op++) {
        if (!used((tti_reduce_op)op, d))
            continue;
        for (int i = 0; i < N_SHAPES; i++)
            if (!reduce_shape((tti_reduce_op)op, d, &shapes[i], USUAL) ||
                (tt_dtype_is_floating(d) && op != TTI_VAR &&
                 !reduce_shape((tti_reduce_op)op, d, &shapes[i], SPECIAL)))
                break;
    }
}

/* ---- lines --------------------------------------------------------------------------------------- */

static void arg_case(tt_dtype d, const shape_case *s, layout l, kind k, int dim)
{
    int64_t dims[TT_MAX_DIMS];
    uint32_t mask = dim >= 0 ? 1u << dim : (1u << s->n_dims) - 1;
    char what[96];

    if (kept(s, mask, dims) == 0 || (dim < 0 && l != PLAIN))
        return;
    TT_SCOPE {
        pair x = accel_pair(s->dims, s->n_dims, d, l, k, 12);

        for (int largest = 0; largest < 2; largest++) {
            pair v = accel_out(dims, s->n_dims, d, PLAIN);
            pair i = accel_out(dims, s->n_dims, TT_I64, PLAIN);

            snprintf(what, sizeof what, "arg of %s [%lld, %lld] layout %d dim %d, largest %d",
                     tt_dtype_name(d), (long long)s->dims[0], (long long)s->dims[1], l, dim,
                     largest);
            TT_REQUIRE_OK(CPU->arg_reduce(largest, v.cpu, i.cpu, x.cpu, dim));
            TT_CHECK_OK(DEV->arg_reduce(largest, v.dev, i.dev, x.dev, dim));
            accel_same(&v, 0.0, what);
            accel_same(&i, 0.0, what);
            TT_CHECK_OK(DEV->arg_reduce(!largest, NULL, i.dev, x.dev, dim));
            TT_REQUIRE_OK(CPU->arg_reduce(!largest, NULL, i.cpu, x.cpu, dim));
            accel_same(&i, 0.0, what);
        }
    }
}

static void cumulate_case(tt_dtype d, const shape_case *s, layout l, kind k, int dim)
{
    char what[96];

    TT_SCOPE {
        pair x = accel_pair(s->dims, s->n_dims, d, l, k, 13);

        for (int product = 0; product < 2; product++) {
            pair out = accel_out(s->dims, s->n_dims, d, l == SWAPPED ? SWAPPED : PLAIN);

            snprintf(what, sizeof what, "cumulative %d of %s [%lld, %lld] dim %d", product,
                     tt_dtype_name(d), (long long)s->dims[0], (long long)s->dims[1], dim);
            TT_REQUIRE_OK(CPU->cumulative(product, out.cpu, x.cpu, dim));
            TT_CHECK_OK(DEV->cumulative(product, out.dev, x.dev, dim));
            accel_same(&out, accel_tolerance(d), what);
        }
    }
}

static void sort_case(tt_dtype d, const shape_case *s, layout l, kind k, int dim)
{
    char what[96];

    TT_SCOPE {
        pair x = accel_pair(s->dims, s->n_dims, d, l, k, 14);
        layout out_l = l == SWAPPED ? SWAPPED : PLAIN;

        for (int descending = 0; descending < 2; descending++) {
            pair v = accel_out(s->dims, s->n_dims, d, out_l);
            pair i = accel_out(s->dims, s->n_dims, TT_I64, out_l);

            snprintf(what, sizeof what, "sort of %s [%lld, %lld] dim %d, descending %d",
                     tt_dtype_name(d), (long long)s->dims[0], (long long)s->dims[1], dim,
                     descending);
            TT_REQUIRE_OK(CPU->sort(v.cpu, i.cpu, x.cpu, dim, descending));
            TT_CHECK_OK(DEV->sort(v.dev, i.dev, x.dev, dim, descending));
            accel_same(&v, 0.0, what);
            accel_same(&i, 0.0, what);
        }
    }
}

static void topk_case(tt_dtype d, const shape_case *s, layout l, kind k, int dim)
{
    static const int64_t counts[] = { 0, 1, 5, 64, 65, 1 << 30 };
    int64_t n = s->n_dims > 0 ? s->dims[dim] : 1, dims[TT_MAX_DIMS] = { 0 };
    char what[96];

    TT_SCOPE {
        pair x = accel_pair(s->dims, s->n_dims, d, l, k, 15);

        for (int c = 0; c < 6; c++) {
            int64_t take = counts[c] < n ? counts[c] : n;
            bool largest = c % 2 == 0;
            pair v, i;

            memcpy(dims, s->dims, sizeof s->dims);
            if (s->n_dims > 0)
                dims[dim] = take;
            v = accel_out(dims, s->n_dims, d, PLAIN);
            i = accel_out(dims, s->n_dims, TT_I64, PLAIN);
            snprintf(what, sizeof what, "topk %lld of %s [%lld, %lld] dim %d", (long long)take,
                     tt_dtype_name(d), (long long)s->dims[0], (long long)s->dims[1], dim);
            TT_REQUIRE_OK(CPU->topk(v.cpu, i.cpu, x.cpu, dim, take, largest));
            TT_CHECK_OK(DEV->topk(v.dev, i.dev, x.dev, dim, take, largest));
            accel_same(&v, 0.0, what);
            accel_same(&i, 0.0, what);
        }
    }
}

typedef void (*line_case)(tt_dtype d, const shape_case *s, layout l, kind k, int dim);

/* Every dimension of every shape; not -1 unless `all`. */
static void each_line(tt_dtype d, line_case fn, bool all, layout most)
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int l = PLAIN; l < (int)most; l++)
            for (int k = USUAL; k < (tt_dtype_is_complex(d) ? 1 : N_KINDS); k++)
                for (int dim = all ? -1 : 0; dim < shapes[i].n_dims || dim == 0; dim++) {
                    if ((l != PLAIN && shapes[i].n_dims < 2) || (dim == 0 && shapes[i].n_dims == 0))
                        continue;
                    fn(d, &shapes[i], (layout)l, (kind)k, dim);
                    if (tt_test_failures() > 0)
                        return;
                }
}

static void lines_type(void *ctx)
{
    tt_dtype d = *(const tt_dtype *)ctx;
    bool real = !tt_dtype_is_complex(d);

    accel_device();
    each_line(d, cumulate_case, false, N_LAYOUTS);
    if (real) {
        each_line(d, arg_case, true, N_LAYOUTS);
        each_line(d, sort_case, false, STEPPED);
        each_line(d, topk_case, false, STEPPED);
    }
}

/* A test for each type: the first one builds its kernels. */
TT_TEST_TABLE(accel_reduce)
{
    static tt_dtype types[TT_N_DTYPES];

    for (int d = 0; d < TT_N_DTYPES; d++) {
        char name[64];

        types[d] = (tt_dtype)d;
        snprintf(name, sizeof name, "reduces_%s_as_the_cpu", tt_dtype_name(types[d]));
        tt_test_add("accel_reduce", name, reduce_type, &types[d])->limit = 600;
        snprintf(name, sizeof name, "lines_of_%s_as_the_cpu", tt_dtype_name(types[d]));
        tt_test_add("accel_reduce", name, lines_type, &types[d])->limit = 600;
    }
}

/* Every kernel once, on few elements: what tools that watch each access can run. */
TT_TEST_LIMIT(accel_reduce, small_ones_as_the_cpu, 300)
{
    static const shape_case small = { 2, { 3, 40 } };
    static const tti_reduce_op ops[] = { TTI_SUM, TTI_MEAN, TTI_AMAX, TTI_VAR, TTI_LOGSUMEXP };

    accel_device();
    for (int o = 0; o < 5; o++)
        TT_CHECK(reduce_shape(ops[o], TT_F32, &small, USUAL));
    for (int dim = 0; dim < 2; dim++) {
        arg_case(TT_F32, &small, PLAIN, TIES, dim);
        cumulate_case(TT_F32, &small, PLAIN, USUAL, dim);
        sort_case(TT_F32, &small, PLAIN, TIES, dim);
        topk_case(TT_F32, &small, PLAIN, TIES, dim);
    }
}

/* ---- long ones --------------------------------------------------------------------------------------- */

/* Results with several segments, of rows, of columns and of rows between columns. */
TT_TEST_LIMIT(accel_reduce, long_reductions_as_the_cpu, 300)
{
    static const shape_case longs[] = {
        { 1, { 200003 } },      { 2, { 70001, 3 } },  { 2, { 3, 70001 } },
        { 3, { 300, 2, 400 } }, { 2, { 700, 1100 } },
    };
    static const tti_reduce_op ops[] = { TTI_SUM,   TTI_MEAN,      TTI_AMAX, TTI_VAR,
                                         TTI_NORM2, TTI_LOGSUMEXP, TTI_ALL };

    accel_device();
    for (int i = 0; i < 5; i++)
        for (int o = 0; o < 7; o++)
            TT_CHECK(reduce_shape(ops[o], TT_F32, &longs[i], USUAL));
    for (int i = 0; i < 5; i++) {
        for (int dim = 0; dim < longs[i].n_dims; dim++) {
            arg_case(TT_F32, &longs[i], PLAIN, TIES, dim);
            arg_case(TT_F32, &longs[i], PLAIN, SPECIAL, dim);
            cumulate_case(TT_I64, &longs[i], PLAIN, USUAL, dim);
            cumulate_case(TT_F64, &longs[i], SWAPPED, USUAL, dim);
            sort_case(TT_F32, &longs[i], PLAIN, SPECIAL, dim);
            topk_case(TT_F32, &longs[i], PLAIN, TIES, dim);
        }
        arg_case(TT_F32, &longs[i], PLAIN, USUAL, -1);
        reduce_shape(TTI_SUM, TT_I64, &longs[i], USUAL);
    }
}

/* Ten million of 0.1 and a little: the sum is right to six digits, and the same bits every time. */
TT_TEST_LIMIT(accel_reduce, sums_of_ten_million_stay_accurate, 120)
{
    int64_t n = 10000000, one = 1;
    tt_device d = accel_device();
    double right = 0.0;
    uint32_t first = 0;

    TT_SCOPE {
        pair x = { accel_laid(&n, 1, TT_F32, PLAIN), NULL };
        pair out = accel_out(&one, 1, TT_F32, PLAIN);
        float *v = tti_data(x.cpu), got = 0;

        for (int64_t i = 0; i < n; i++) {
            v[i] = 0.1f + 0.001f * (float)(i % 17);
            right += v[i];
        }
        x.dev = accel_copy(x.cpu, d);
        for (int turn = 0; turn < 5; turn++) {
            TT_REQUIRE_OK(DEV->reduce(TTI_SUM, out.dev, x.dev, 1, NULL));
            TT_REQUIRE_OK(tti_driver_of(d)->copy_out(d.index, &got, tti_data(out.dev), sizeof got));
            if (turn == 0)
                memcpy(&first, &got, sizeof got);
            TT_CHECK_MEM(&got, &first, sizeof got);
            TT_CHECK_NEAR(got / right, 1.0, 2.5e-7);
        }
    }
}

TT_TEST(accel_reduce, what_the_cpu_cannot_is_refused)
{
    int64_t dims[] = { 3 }, one = 1;

    accel_device();
    TT_SCOPE {
        pair x = accel_pair(dims, 1, TT_C64, PLAIN, USUAL, 1);
        pair out = accel_out(&one, 1, TT_C64, PLAIN), i = accel_out(&one, 1, TT_I64, PLAIN);
        pair v = accel_out(dims, 1, TT_C64, PLAIN), j = accel_out(dims, 1, TT_I64, PLAIN);

        TT_CHECK_ERR(DEV->reduce(TTI_AMAX, out.dev, x.dev, 1, NULL), TT_ERR_UNSUPPORTED);
        TT_CHECK_ERR(DEV->reduce(TTI_VAR, out.dev, x.dev, 1, (double[]){ 1 }), TT_ERR_UNSUPPORTED);
        TT_CHECK_ERR(DEV->arg_reduce(true, NULL, i.dev, x.dev, 0), TT_ERR_UNSUPPORTED);
        TT_CHECK_ERR(DEV->sort(v.dev, j.dev, x.dev, 0, false), TT_ERR_UNSUPPORTED);
        TT_CHECK_ERR(DEV->topk(v.dev, j.dev, x.dev, 0, 2, false), TT_ERR_UNSUPPORTED);
    }
}
