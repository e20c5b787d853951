/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element operators: the right program for the type and the number of operands, and one launch. What an
 * accelerator can do is what the CPU can do, on the text of the CPU's functions. */
#include <math.h>

#include "ops/accel/copy.h"
#include "ops/accel/walk.h"
#include "ops/cpu/pointwise.h"

extern const char tti_source_pointwise[];
static const tti_program program = { "pointwise", { tti_source_pointwise } };

static tti_kernel *kernel(tt_device d, tti_compute c, int arity)
{
    static tti_kernel_slot slots[TTI_N_COMPUTE][3];
    static const char *const options[TTI_N_COMPUTE][3] = {
        { "-DIS_F32 -DARITY=1", "-DIS_F32 -DARITY=2", "-DIS_F32 -DARITY=3" },
        { "-DIS_F64 -DARITY=1", "-DIS_F64 -DARITY=2", "-DIS_F64 -DARITY=3" },
        { "-DIS_I64 -DARITY=1", "-DIS_I64 -DARITY=2", "-DIS_I64 -DARITY=3" },
        { "-DIS_C64 -DARITY=1", "-DIS_C64 -DARITY=2", "-DIS_C64 -DARITY=3" },
        { "-DIS_C128 -DARITY=1", "-DIS_C128 -DARITY=2", "-DIS_C128 -DARITY=3" },
    };

    return tti_kernel_get(&slots[c][arity - 1], d, &program, options[c][arity - 1], "pointwise");
}

static tt_status launch(tti_accel_walk *w, const char *name, const tt_tensor *const *ts, int arity,
                        int64_t grain)
{
    const tt_tensor *out = ts[0], *x = ts[arity];
    tti_arg args[TTI_WALK_OPERANDS + 1];
    tti_kernel *k;

    TT_TRY(tti_accel_check_type(name, x));
    k = kernel(out->device, tti_compute_of((tt_dtype)x->dtype), arity);
    if (tt_unlikely(k == NULL))
        return tt_last_status();
    tti_accel_walk_set(w, ts, arity + 1);
    for (int i = 0; i <= arity; i++)
        args[i] = TTI_MEM(tti_data(ts[i]));
    args[arity + 1] = TTI_VAL(*w);
    return tti_launch(out->device, k, tti_accel_walk_grid(out->device, w->n, (uint64_t)grain), args,
                      arity + 2);
}

static void set_params(tti_accel_walk *w, const tt_tensor *x, const double *p, int n)
{
    tti_compute c = tti_compute_of((tt_dtype)x->dtype);

    for (int i = 0; i < 4; i++)
        w->q[i] = i < n && p != NULL ? tti_compute_bits(c, p[i]) : 0;
}

/* ---- bool is computed as an integer ---------------------------------------------------------------- */

/* A whole number that 0 and 1 are to as they are to v. */
static int64_t bool_bound(tti_unary_op op, double v)
{
    bool up = op == TTI_LT_S || op == TTI_GE_S;
    bool never = op == TTI_EQ_S || op == TTI_NE_S;

    if (isnan(v)) /* nothing is below, above or equal to it */
        return op == TTI_LT_S || op == TTI_LE_S ? -1 : 2;
    if (v <= -1)
        return -1;
    if (v >= 2)
        return 2;
    if (never && v != floor(v))
        return 2;
    return (int64_t)(up ? ceil(v) : floor(v));
}

static tti_unary_op unary_of_bool(tti_accel_walk *w, tti_unary_op op, const double *p)
{
    if (op >= TTI_EQ_S)
        w->q[0] = (uint64_t)bool_bound(op, p[0]);
    return op == TTI_BITNOT ? TTI_LOGICAL_NOT : op;
}

/* An integer's parameter has its type before it is computed with. */
static int64_t narrow(tt_dtype d, int64_t v)
{
    switch (d) {
    case TT_I8:
        return (int8_t)v;
    case TT_U8:
        return (uint8_t)v;
    case TT_I16:
        return (int16_t)v;
    case TT_I32:
        return (int32_t)v;
    default:
        return v;
    }
}

/* ---- entries ------------------------------------------------------------------------------------------ */

static tt_status unary(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p)
{
    const tt_tensor *ts[] = { out, x };
    tt_dtype d = (tt_dtype)x->dtype;
    tti_accel_walk w;

    if (tt_unlikely(tti_loops_of(d)->unary[op] == NULL))
        return tti_no_kernel(tti_unary_names[op], x);
    if (out->numel == 0)
        return TT_OK;
    set_params(&w, x, p, tti_unary_params(op, tt_dtype_is_complex(d)));
    if (d == TT_BOOL)
        op = unary_of_bool(&w, op, p);
    else if (op == TTI_RPOW_S && tti_compute_of(d) == TTI_IN_I64)
        w.q[0] = (uint64_t)narrow(d, (int64_t)w.q[0]);
    w.op = op;
    return launch(&w, tti_unary_names[op], ts, 1, tti_unary_grain(op));
}

static tt_status binary(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                        const double *p)
{
    const tt_tensor *ts[] = { out, a, b };
    tt_dtype d = (tt_dtype)a->dtype;
    tti_accel_walk w;

    if (tt_unlikely(tti_loops_of(d)->binary[op] == NULL))
        return tti_no_kernel(tti_binary_names[op], a);
    if (out->numel == 0)
        return TT_OK;
    set_params(&w, a, p, tti_binary_params(op, tt_dtype_is_complex(d)));
    if (d == TT_BOOL && op == TTI_ADD_SCALED)
        w.q[0] = p[0] != 0;
    w.op = op;
    return launch(&w, tti_binary_names[op], ts, 2, tti_binary_grain(op));
}

static tt_status ternary(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                         const tt_tensor *c, const double *p)
{
    const tt_tensor *ts[] = { out, a, b, c };
    tti_accel_walk w;

    if (tt_unlikely(tti_loops_of((tt_dtype)b->dtype)->ternary[op] == NULL))
        return tti_no_kernel(tti_ternary_names[op], b);
    if (out->numel == 0)
        return TT_OK;
    set_params(&w, b, p, 1);
    w.op = op;
    return launch(&w, tti_ternary_names[op], ts, 3, TTI_GRAIN);
}

const tti_pointwise_kernels tti_accel_pointwise = {
    .unary = unary,
    .binary = binary,
    .ternary = ternary,
    .copy = tti_accel_copy,
    .fill = tti_accel_fill,
    .arange = tti_accel_arange,
};
