/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element operators on an accelerator: every operator of every type against the CPU's kernel. */
#include "accel_data.h"
#include "ops/cpu/pointwise.h"

#define CPU tti_kernels_cpu.pointwise
#define DEV tti_kernels_accel.pointwise

typedef struct shape_case {
    int n_dims;
    int64_t dims[TT_MAX_DIMS];
} shape_case;

static const shape_case shapes[] = {
    { 0, { 0 } },      { 1, { 7 } },          { 1, { 1000 } },    { 2, { 5, 300 } },
    { 2, { 33, 70 } }, { 4, { 2, 3, 4, 5 } }, { 3, { 3, 0, 2 } },
};
#define N_SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static bool truth_unary(tti_unary_op op)
{
    return (op >= TTI_LOGICAL_NOT && op <= TTI_ISFINITE) || op >= TTI_EQ_S;
}

static bool truth_binary(tti_binary_op op)
{
    return op >= TTI_EQ && op <= TTI_LOGICAL_XOR;
}

/* Operators that are one exact operation on every device. */
static bool exact_unary(tti_unary_op op)
{
    return truth_unary(op) || op <= TTI_RECIPROCAL || op == TTI_SQRT || op == TTI_RSQRT ||
           (op >= TTI_FLOOR && op <= TTI_RELU) || op == TTI_LEAKY_RELU || op == TTI_CLAMP ||
           (op >= TTI_NAN_TO_NUM && op <= TTI_DIV_S);
}

static bool exact_binary(tti_binary_op op)
{
    return truth_binary(op) || op <= TTI_FMOD || op == TTI_MAXIMUM || op == TTI_MINIMUM ||
           (op >= TTI_BITAND && op <= TTI_BITXOR) || op == TTI_RELU_GRAD ||
           op == TTI_LEAKY_RELU_GRAD || op == TTI_CLAMP_GRAD || op == TTI_ABS_GRAD;
}

static double tolerance(tt_dtype d, bool exact)
{
    if (exact && !tt_dtype_is_complex(d))
        return 0;
    switch (d) {
    case TT_F32:
        return 2e-6;
    case TT_F64:
        return 1e-13;
    case TT_C64:
        return 1e-5;
    case TT_C128:
        return 1e-12;
    default:
        return accel_tolerance(d);
    }
}

/* Two sets, so that comparisons meet equal numbers and powers are of both signs. */
static const double *params(tt_dtype d, int set)
{
    static const double real[2][4] = { { -0.5, 1.25, -3, 2 }, { 1, 2, 0.5, 7 } };
    static const double whole[2][4] = { { 3, 20, -3, 1 }, { 0, 5, 1, 1 } };

    return tt_dtype_is_integral(d) || d == TT_BOOL ? whole[set] : real[set];
}

static tt_dtype unary_type(tti_unary_op op, tt_dtype d)
{
    if (truth_unary(op))
        return TT_BOOL;
    if (op == TTI_ABS && tt_dtype_is_complex(d))
        return d == TT_C64 ? TT_F32 : TT_F64;
    return d;
}

static bool check_unary(tti_unary_op op, const shape_case *s, const pair *x, layout l, int set)
{
    tt_dtype d = (tt_dtype)x->cpu->dtype;
    pair y = accel_out(s->dims, s->n_dims, unary_type(op, d), l);
    char what[128];

    snprintf(what, sizeof what, "%s of %s, %d dims from %lld, layout %d, set %d",
             tti_unary_names[op], tt_dtype_name(d), s->n_dims, (long long)s->dims[0], (int)l, set);
    return TT_CHECK_OK(CPU->unary(op, y.cpu, x->cpu, params(d, set))) &&
           TT_CHECK_OK(DEV->unary(op, y.dev, x->dev, params(d, set))) &&
           accel_same(&y, tolerance(d, exact_unary(op)), what);
}

static void all_unary(tt_dtype d)
{
    int turn = 0;

    for (int i = 0; i < N_SHAPES; i++)
        for (kind k = USUAL; k < N_KINDS; k++)
            TT_SCOPE {
                const shape_case *s = &shapes[i];
                layout in = (layout)(turn % N_LAYOUTS), out = (layout)(turn / 2 % REPEATED);
                pair x = accel_pair(s->dims, s->n_dims, d, in, k, (uint64_t)i);

                turn++;
                for (int op = 0; op < TTI_N_UNARY; op++) {
                    bool odd =
                        k == SPECIAL && tt_dtype_is_complex(d) && !exact_unary((tti_unary_op)op);

                    if (tti_loops_of(d)->unary[op] == NULL || odd)
                        continue;
                    if (!check_unary((tti_unary_op)op, s, &x, out, turn % 2))
                        return;
                }
            }
}

static bool check_binary(tti_binary_op op, const shape_case *s, const pair *a, const pair *b,
                         layout l, int set)
{
    tt_dtype d = (tt_dtype)a->cpu->dtype;
    pair y = accel_out(s->dims, s->n_dims, truth_binary(op) ? TT_BOOL : d, l);
    char what[128];

    snprintf(what, sizeof what, "%s of %s, %d dims from %lld, layout %d, set %d",
             tti_binary_names[op], tt_dtype_name(d), s->n_dims, (long long)s->dims[0], (int)l, set);
    return TT_CHECK_OK(CPU->binary(op, y.cpu, a->cpu, b->cpu, params(d, set))) &&
           TT_CHECK_OK(DEV->binary(op, y.dev, a->dev, b->dev, params(d, set))) &&
           accel_same(&y, tolerance(d, exact_binary(op)), what);
}

/* The shape of an operand that broadcasts: whole, one value, a row, a column. */
static shape_case narrowed(const shape_case *s, int how)
{
    shape_case t = *s;

    if (how == 1)
        return (shape_case){ 0, { 0 } };
    if (how == 2 && s->n_dims > 1) {
        t.n_dims = 1;
        t.dims[0] = s->dims[s->n_dims - 1];
    }
    if (how == 3 && s->n_dims > 0)
        t.dims[s->n_dims - 1] = s->dims[s->n_dims - 1] != 0;
    return t;
}

static void all_binary(tt_dtype d)
{
    int turn = 0;

    for (int i = 0; i < N_SHAPES; i++)
        for (int j = 0; j < 8; j++)
            TT_SCOPE {
                const shape_case *s = &shapes[i];
                shape_case t = narrowed(s, j / 2);
                kind k = (kind)(turn % N_KINDS);
                pair x = accel_pair(s->dims, s->n_dims, d, (layout)(turn % N_LAYOUTS), k, 1);
                pair z = accel_pair(t.dims, t.n_dims, d, (layout)(turn / 3 % N_LAYOUTS), k, 2);

                turn++;
                for (int op = 0; op < TTI_N_BINARY; op++) {
                    bool odd = k == SPECIAL && tt_dtype_is_complex(d) && op != TTI_ADD;

                    if (tti_loops_of(d)->binary[op] == NULL || odd)
                        continue;
                    if (!check_binary((tti_binary_op)op, s, j % 2 == 0 ? &x : &z,
                                      j % 2 == 0 ? &z : &x, (layout)(turn / 2 % REPEATED),
                                      turn % 2))
                        return;
                }
            }
}

static void all_ternary(tt_dtype d)
{
    for (int i = 0; i < N_SHAPES; i++)
        for (int op = 0; op < TTI_N_TERNARY; op++)
            TT_SCOPE {
                const shape_case *s = &shapes[i];
                shape_case t = narrowed(s, i % 4), u = narrowed(s, op % 4);
                pair a = accel_pair(s->dims, s->n_dims, op == TTI_WHERE ? TT_BOOL : d, SWAPPED,
                                    USUAL, 1);
                pair b = accel_pair(t.dims, t.n_dims, d, PLAIN, i % 2 == 0 ? USUAL : TIES, 2);
                pair c = accel_pair(u.dims, u.n_dims, d, STEPPED, USUAL, 3);
                pair y = accel_out(s->dims, s->n_dims, d, (layout)(i % REPEATED));
                char what[96];

                if (tti_loops_of(d)->ternary[op] == NULL)
                    continue;
                snprintf(what, sizeof what, "%s of %s, shape %d", tti_ternary_names[op],
                         tt_dtype_name(d), i);
                TT_CHECK_OK(
                    CPU->ternary((tti_ternary_op)op, y.cpu, a.cpu, b.cpu, c.cpu, params(d, 1)));
                TT_CHECK_OK(
                    DEV->ternary((tti_ternary_op)op, y.dev, a.dev, b.dev, c.dev, params(d, 1)));
                if (!accel_same(&y, tolerance(d, op == TTI_WHERE || op == TTI_CLAMP_T), what))
                    return;
            }
}

static void all_of(tt_dtype d)
{
    (void)accel_device();
    all_unary(d);
    all_binary(d);
    all_ternary(d);
}

#define ALL_OF(name, type)                    \
    TT_TEST_LIMIT(accel_pointwise, name, 240) \
    {                                         \
        all_of(type);                         \
    }
ALL_OF(float32, TT_F32)
ALL_OF(float64, TT_F64)
ALL_OF(float16, TT_F16)
ALL_OF(bfloat16, TT_BF16)
ALL_OF(int8, TT_I8)
ALL_OF(uint8, TT_U8)
ALL_OF(int16, TT_I16)
ALL_OF(int32, TT_I32)
ALL_OF(int64, TT_I64)
ALL_OF(boolean, TT_BOOL)
ALL_OF(complex64, TT_C64)
ALL_OF(complex128, TT_C128)

/* ---- numbers at the ends ------------------------------------------------------------------------------ */

enum { ENDS = 12 };

static pair column_of(const double *values, tt_dtype d, bool row)
{
    pair p = { accel_laid(row ? (int64_t[]){ 1, ENDS } : (int64_t[]){ ENDS, 1 }, 2, d, PLAIN),
               NULL };

    for (int i = 0; i < ENDS; i++)
        tti_element_bytes(d, values[i], 0,
                          (char *)p.cpu->storage->data + (size_t)i * tti_esize(p.cpu));
    p.dev = accel_copy(p.cpu, accel_device());
    return p;
}

/* Every pair of odd numbers with every operator of two operands, every number with those of one. */
static void ends_of(tt_dtype d, const double *values)
{
    shape_case s = { 2, { ENDS, ENDS } }, one = { 2, { ENDS, 1 } };
    pair a = column_of(values, d, false), b = column_of(values, d, true);

    for (int op = 0; op < TTI_N_BINARY; op++)
        if (tti_loops_of(d)->binary[op] != NULL)
            check_binary((tti_binary_op)op, &s, &a, &b, PLAIN, 0);
    for (int op = 0; op < TTI_N_UNARY; op++)
        if (tti_loops_of(d)->unary[op] != NULL)
            check_unary((tti_unary_op)op, &one, &a, PLAIN, 1);
}

TT_TEST_LIMIT(accel_pointwise, special_floats, 240)
{
    const double odd[ENDS] = { NAN, INFINITY, -INFINITY, 0.0,  -0.0, 1,
                               -1,  0.5,      1e-40,     1e38, -2.5, 1e-5 };
    const double halves[ENDS] = { NAN, INFINITY, -INFINITY, 0.0,   -0.0, 1,
                                  -1,  0.5,      6e-8,      65504, -2.5, 1e-3 };

    (void)accel_device();
    TT_SCOPE {
        ends_of(TT_F32, odd);
        ends_of(TT_F64, odd);
        ends_of(TT_F16, halves);
        ends_of(TT_BF16, halves);
    }
}

TT_TEST_LIMIT(accel_pointwise, ends_of_integers_and_division_by_zero, 240)
{
    const double i8[ENDS] = { -128, 127, -127, -1, 0, 1, 2, -2, 3, -3, 100, 7 };
    const double u8[ENDS] = { 0, 255, 254, 128, 127, 1, 2, 3, 4, 5, 100, 7 };
    const double i16[ENDS] = { -32768, 32767, -1, 0, 1, 2, -2, 3, -3, 181, 256, 7 };
    const double i32[ENDS] = { -0x1p31, 0x1p31 - 1, -1, 0, 1, 2, -2, 3, -3, 46341, 65536, 7 };
    const double i64[ENDS] = { -0x1p63, 0x1p62, -1, 0, 1, 2, -2, 3, -3, 0x1p32, 3037000500, 7 };

    (void)accel_device();
    TT_SCOPE {
        ends_of(TT_I8, i8);
        ends_of(TT_U8, u8);
        ends_of(TT_I16, i16);
        ends_of(TT_I32, i32);
        ends_of(TT_I64, i64);
    }
}

/* ---- the rest --------------------------------------------------------------------------------------------- */

TT_TEST_LIMIT(accel_pointwise, bool_against_fractions, 240)
{
    static const double bounds[] = { -2, -0.5, 0, 0.5, 1, 1.5, 2, NAN, INFINITY, -INFINITY };

    (void)accel_device();
    TT_SCOPE {
        pair x = accel_pair((int64_t[]){ 8 }, 1, TT_BOOL, PLAIN, USUAL, 1);

        for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
            for (int op = TTI_EQ_S; op <= TTI_GE_S; op++) {
                pair y = accel_out((int64_t[]){ 8 }, 1, TT_BOOL, PLAIN);
                char what[64];

                snprintf(what, sizeof what, "%s %g", tti_unary_names[op], bounds[i]);
                TT_CHECK_OK(CPU->unary((tti_unary_op)op, y.cpu, x.cpu, &bounds[i]));
                TT_CHECK_OK(DEV->unary((tti_unary_op)op, y.dev, x.dev, &bounds[i]));
                accel_same(&y, 0, what);
            }
    }
}

TT_TEST_LIMIT(accel_pointwise, in_place_and_large, 240)
{
    const int64_t n = 300001;
    const double p = 0.5;

    (void)accel_device();
    TT_SCOPE {
        pair a = accel_pair(&n, 1, TT_F32, PLAIN, USUAL, 1),
             b = accel_pair(&n, 1, TT_F32, PLAIN, USUAL, 2);

        TT_CHECK_OK(CPU->binary(TTI_MUL, a.cpu, a.cpu, b.cpu, NULL));
        TT_CHECK_OK(DEV->binary(TTI_MUL, a.dev, a.dev, b.dev, NULL));
        TT_CHECK_OK(CPU->binary(TTI_SUB, a.cpu, b.cpu, a.cpu, NULL));
        TT_CHECK_OK(DEV->binary(TTI_SUB, a.dev, b.dev, a.dev, NULL));
        TT_CHECK_OK(CPU->unary(TTI_ADD_S, a.cpu, a.cpu, &p));
        TT_CHECK_OK(DEV->unary(TTI_ADD_S, a.dev, a.dev, &p));
        accel_same(&a, 0, "in place");
    }
}

/* As many dimensions as there are, none of which can be joined. */
TT_TEST_LIMIT(accel_pointwise, eight_dimensions, 240)
{
    const int64_t dims[TT_MAX_DIMS] = { 2, 3, 2, 2, 3, 2, 2, 3 };
    const int64_t narrow[TT_MAX_DIMS] = { 2, 1, 2, 1, 3, 1, 2, 1 };
    const int64_t other[TT_MAX_DIMS] = { 1, 3, 1, 2, 1, 2, 1, 3 };

    (void)accel_device();
    for (tt_dtype d = TT_F32; d <= TT_C128; d++)
        TT_SCOPE {
            pair a = accel_pair(narrow, 8, d, PLAIN, USUAL, 1),
                 b = accel_pair(other, 8, d, PLAIN, USUAL, 2);
            pair y = accel_out(dims, 8, d, SWAPPED), z = accel_out(dims, 8, d, PLAIN);

            TT_CHECK_OK(CPU->binary(TTI_MUL, y.cpu, a.cpu, b.cpu, NULL));
            TT_CHECK_OK(DEV->binary(TTI_MUL, y.dev, a.dev, b.dev, NULL));
            accel_same(&y, tolerance(d, true), tt_dtype_name(d));
            TT_CHECK_OK(CPU->copy(z.cpu, a.cpu));
            TT_CHECK_OK(DEV->copy(z.dev, a.dev));
            accel_same(&z, 0, tt_dtype_name(d));
        }
}

TT_TEST_LIMIT(accel_pointwise, what_has_no_meaning_is_an_error, 240)
{
    (void)accel_device();
    TT_SCOPE {
        pair x = accel_pair((int64_t[]){ 4 }, 1, TT_I32, PLAIN, USUAL, 1);

        TT_CHECK_EQ(DEV->unary(TTI_EXP, x.dev, x.dev, NULL), TT_ERR_UNSUPPORTED);
        TT_CHECK_CONTAINS(tt_last_error(), "EXP");
    }
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_pointwise, small_ones, 300)
{
    const shape_case s = { 2, { 3, 4 } };

    (void)accel_device();
    for (tt_dtype d = TT_F32; d <= TT_C128; d++)
        TT_SCOPE {
            pair a = accel_pair(s.dims, 2, d, SWAPPED, USUAL, 1),
                 b = accel_pair(&s.dims[1], 1, d, STEPPED, USUAL, 2);
            pair c = accel_pair(s.dims, 2, TT_BOOL, PLAIN, USUAL, 3),
                 y = accel_out(s.dims, 2, d, STEPPED);

            for (int op = 0; op < TTI_N_UNARY; op++)
                if (tti_loops_of(d)->unary[op] != NULL)
                    check_unary((tti_unary_op)op, &s, &a, PLAIN, 0);
            for (int op = 0; op < TTI_N_BINARY; op++)
                if (tti_loops_of(d)->binary[op] != NULL)
                    check_binary((tti_binary_op)op, &s, &a, &b, PLAIN, 0);
            TT_CHECK_OK(CPU->ternary(TTI_WHERE, y.cpu, c.cpu, a.cpu, b.cpu, NULL));
            TT_CHECK_OK(DEV->ternary(TTI_WHERE, y.dev, c.dev, a.dev, b.dev, NULL));
            accel_same(&y, 0, tt_dtype_name(d));
        }
}
