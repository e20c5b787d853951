/* SPDX-License-Identifier: Apache-2.0 */
/* Several steps in one pass over memory: lerp, addcmul, addcdiv. */
#include "ops/elementwise.h"

static tt_status lerp_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    if (tti_needs(n, 0))
        TT_TRY(tti_give(&out[0], tt_mul_scalar(g[0], 1.0 - tti_attr(n, 0))));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_mul_scalar(g[0], tti_attr(n, 0))));
    return TT_OK;
}

static tt_status addcmul_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *scaled;

    out[0] = g[0];
    if (!tti_needs(n, 1) && !tti_needs(n, 2))
        return TT_OK;
    scaled = tt_mul_scalar(g[0], tti_attr(n, 0));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_mul(scaled, tt_conj(tti_saved_get(n, 1)))));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&out[2], tt_mul(scaled, tt_conj(tti_saved_get(n, 0)))));
    return TT_OK;
}

static tt_status addcdiv_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *scaled, *b;

    out[0] = g[0];
    if (!tti_needs(n, 1) && !tti_needs(n, 2))
        return TT_OK;
    scaled = tt_mul_scalar(g[0], tti_attr(n, 0));
    b = tti_saved_get(n, 1);
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_div(scaled, tt_conj(b))));
    if (tti_needs(n, 2)) {
        tt_tensor *slope = tt_div(tti_saved_get(n, 0), tt_mul(b, b));

        TT_TRY(tti_give(&out[2], tt_neg(tt_mul(scaled, tt_conj(slope)))));
    }
    return TT_OK;
}

static const tti_elementwise op_lerp = { { "lerp", lerp_backward, 0 }, TTI_LERP_S, TTI_PROMOTE, 0 };
static const tti_op op_addcmul = { "addcmul", addcmul_backward, 0 };
static const tti_op op_addcdiv = { "addcdiv", addcdiv_backward, 0 };

static tt_status check_lerp(const tt_tensor *a, const tt_tensor *b)
{
    if (a == NULL || b == NULL)
        return TT_OK; /* the call says so */
    if (a->dtype != b->dtype)
        return TT_FAIL(TT_ERR_INVALID, "lerp: expected two tensors of one type, got %s and %s",
                       tt_dtype_name((tt_dtype)a->dtype), tt_dtype_name((tt_dtype)b->dtype));
    return tti_check_floating("lerp", a, true);
}

tt_tensor *tt_lerp(tt_tensor *a, tt_tensor *b, double weight)
{
    double p[2] = { weight, 0 };

    return check_lerp(a, b) == TT_OK ? tti_apply2(&op_lerp, a, b, p, 2) : NULL;
}

tt_tensor *tt_lerp_(tt_tensor *a, tt_tensor *b, double weight)
{
    double p[2] = { weight, 0 };

    return check_lerp(a, b) == TT_OK ? tti_apply2_(&op_lerp, a, b, p, 2) : NULL;
}

/* ---- three operands ---------------------------------------------------------------------------- */

static tt_dtype meet(tt_tensor *const *in)
{
    return tt_promote_types(tti_result_type(in[0], in[1]), tti_result_type(in[0], in[2]));
}

static tt_status check_types(const tti_call *c, tt_dtype d)
{
    if (d == TT_BOOL || (c->op == &op_addcdiv && tt_dtype_is_integral(d)))
        return TT_FAIL(TT_ERR_INVALID, "%s: not for %s tensors", c->op->name, tt_dtype_name(d));
    return TT_OK;
}

static tt_tensor *apply3(const tti_op *op, tti_ternary_op kernel, tt_tensor *const *in,
                         double value)
{
    double p[2] = { value, 0 };
    tti_call c = { .op = op, .n_in = 3, .in = in, .attrs = p, .attrs_bytes = sizeof p };
    tt_tensor *out;
    tt_dtype d;

    if (!tti_call_begin(&c))
        return NULL;
    d = meet(in);
    if (check_types(&c, d) != TT_OK || (out = tti_empty_broadcast3(op->name, in, d)) == NULL)
        return NULL;
    if (c.wants_grad) {
        tti_call_save(&c, tti_wants_grad(in[2]) ? in[1] : NULL);
        tti_call_save(&c, in[2]);
    }
    return tti_call_end(&c, out,
                        tti_ternary(kernel, out, tti_operand(in[0], d, out->device),
                                    tti_operand(in[1], d, out->device),
                                    tti_operand(in[2], d, out->device), p));
}

static tt_status compute_into(tti_ternary_op kernel, tt_tensor *self, tt_tensor *const *in,
                              tt_dtype d, const double *p)
{
    tt_tensor *to = self->dtype == d ? self : tti_empty(self->dims, self->n_dims, d, self->device);

    TT_TRY(tti_made(to));
    TT_TRY(tti_ternary(kernel, to, tti_operand(in[0], d, to->device),
                       tti_operand(in[1], d, to->device), tti_operand(in[2], d, to->device), p));
    return to != self ? tti_copy(self, to) : TT_OK;
}

static tt_tensor *apply3_(const tti_op *op, tti_ternary_op kernel, tt_tensor *const *in,
                          double value)
{
    double p[2] = { value, 0 };
    tti_call c = { .op = op, .n_in = 3, .in = in, .attrs = p, .attrs_bytes = sizeof p };
    tt_tensor *apart[3] = { in[0] };
    int64_t dims[TT_MAX_DIMS];
    int n;
    tt_dtype d;

    if (!tti_call_begin_inplace(&c) || tti_check_writable(op->name, in[0]) != TT_OK)
        return NULL;
    d = meet(in);
    if (check_types(&c, d) != TT_OK ||
        tti_check_storable(op->name, d, (tt_dtype)in[0]->dtype) != TT_OK)
        return NULL;
    for (int i = 1; i < 3; i++) {
        if (tti_broadcast(op->name, in[0]->dims, in[0]->n_dims, in[i]->dims, in[i]->n_dims, dims,
                          &n) != TT_OK)
            return NULL;
        if (n != in[0]->n_dims || tti_numel(dims, n) != in[0]->numel)
            return TT_FAIL_NULL(TT_ERR_INVALID, "%s: shape %s does not broadcast to shape %s",
                                op->name, TTI_SHAPE_OF(in[i]), TTI_SHAPE_OF(in[0]));
        apart[i] = c.wants_grad && in[i]->storage == in[0]->storage ? tt_clone(in[i])
                                                                    : tti_apart(in[0], in[i]);
        if (apart[i] == NULL)
            return NULL;
    }
    if (c.wants_grad) {
        tti_call_save(&c, tti_wants_grad(in[2]) ? apart[1] : NULL);
        tti_call_save(&c, apart[2]);
    }
    return tti_call_end_inplace(&c, compute_into(kernel, in[0], apart, d, p));
}

tt_tensor *tt_addcmul(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value)
{
    return apply3(&op_addcmul, TTI_ADDCMUL, (tt_tensor *[]){ t, a, b }, value);
}

tt_tensor *tt_addcdiv(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value)
{
    return apply3(&op_addcdiv, TTI_ADDCDIV, (tt_tensor *[]){ t, a, b }, value);
}

tt_tensor *tt_addcmul_(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value)
{
    return apply3_(&op_addcmul, TTI_ADDCMUL, (tt_tensor *[]){ t, a, b }, value);
}

tt_tensor *tt_addcdiv_(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value)
{
    return apply3_(&op_addcdiv, TTI_ADDCDIV, (tt_tensor *[]){ t, a, b }, value);
}
