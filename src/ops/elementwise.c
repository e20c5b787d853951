/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of operators that are one pointwise kernel; see elementwise.h. */
#include "ops/elementwise.h"

#include <math.h>

/* ---- operands -------------------------------------------------------------------------------- */

tt_tensor *tti_operand(tt_tensor *t, tt_dtype dtype, tt_device device)
{
    tt_tensor *moved;

    t = tti_cast(t, dtype);
    if (t == NULL || tt_likely(tt_device_equal(t->device, device)))
        return t;
    moved = tti_empty(t->dims, t->n_dims, dtype, device);
    return tti_copy(moved, t) == TT_OK ? moved : NULL;
}

static tt_dtype compute_type(const tti_elementwise *o, tt_dtype d)
{
    return o->types == TTI_TO_FLOAT ? tti_float_type(d) : d;
}

static tt_dtype out_type(const tti_elementwise *o, tt_dtype d)
{
    if (o->types == TTI_TO_BOOL)
        return TT_BOOL;
    if (o->kernel == TTI_ABS && tt_dtype_is_complex(d))
        return d == TT_C64 ? TT_F32 : TT_F64;
    return d;
}

static tt_status check_bool(const tti_elementwise *o, tt_dtype d)
{
    if (tt_likely(o->types != TTI_NO_BOOL || d != TT_BOOL))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected numbers, got bool: use the logical operators",
                   o->op.name);
}

static void save2(tti_call *c, unsigned save, tt_tensor *a, tt_tensor *b, tt_tensor *out)
{
    bool for_a = tti_wants_grad(c->in[0]), for_b = tti_wants_grad(c->in[1]);

    if (save == 0 || !c->wants_grad)
        return;
    tti_call_save(c,
                  (save & TTI_SAVE_A) != 0 || ((save & TTI_SAVE_A_FOR_B) != 0 && for_b) ? a : NULL);
    tti_call_save(c,
                  (save & TTI_SAVE_B) != 0 || ((save & TTI_SAVE_B_FOR_A) != 0 && for_a) ? b : NULL);
    if ((save & (TTI_SAVE_OUT | TTI_SAVE_OUT_FOR_B)) != 0)
        tti_call_save(c, (save & TTI_SAVE_OUT) != 0 || for_b ? out : NULL);
}

static void save1(tti_call *c, unsigned save, tt_tensor *x, tt_tensor *out)
{
    if (save == 0 || !c->wants_grad)
        return;
    tti_call_save(c, (save & TTI_SAVE_A) != 0 ? x : NULL);
    if ((save & TTI_SAVE_OUT) != 0) {
        tti_call_save(c, NULL);
        tti_call_save(c, out);
    }
}

/* ---- new results ----------------------------------------------------------------------------- */

tt_tensor *tti_apply1(const tti_elementwise *o, tt_tensor *x, const double *p, int n_p)
{
    tti_call c = {
        .op = &o->op, .n_in = 1, .in = &x, .attrs = p, .attrs_bytes = (size_t)n_p * sizeof *p
    };
    tt_tensor *out;
    tt_dtype d;

    if (tt_unlikely(tti_autocasting) && (o->op.flags & TTI_OP_WIDE) != 0)
        TTI_AUTOCAST(TTI_WIDE, &x);
    if (!tti_call_begin(&c) || check_bool(o, (tt_dtype)x->dtype) != TT_OK)
        return NULL;
    d = compute_type(o, (tt_dtype)x->dtype);
    out = tti_empty_like(x, out_type(o, d));
    save1(&c, o->save, x, out);
    return tti_call_end(&c, out, tti_unary((tti_unary_op)o->kernel, out, tti_cast(x, d), p));
}

/* The type in which a result of type d is computed. A single value keeps its precision beside a tensor of a half type:
 * sums, products and quotients are then made in float32 and rounded once. */
static tt_dtype inner_type(const tti_elementwise *o, tt_dtype d, const tt_tensor *a,
                           const tt_tensor *b)
{
    const tt_tensor *single = a->dtype == d ? b : a;
    bool exact = o->kernel == TTI_ADD || o->kernel == TTI_SUB || o->kernel == TTI_MUL ||
                 o->kernel == TTI_DIV || o->kernel == TTI_FLOOR_DIV || o->kernel == TTI_ADD_SCALED;

    if (tt_likely(d != TT_F16 && d != TT_BF16) || !exact || single->n_dims != 0)
        return d;
    return single->dtype == TT_F32 || single->dtype == TT_F64 ? TT_F32 : d;
}

static tt_status apply2_into(const tti_elementwise *o, tt_dtype d, tt_tensor *out, tt_tensor *a,
                             tt_tensor *b, const double *p)
{
    tt_dtype inner = inner_type(o, d, a, b);
    tt_tensor *to = inner == d ? out : tti_empty_like(out, inner);

    TT_TRY(tti_made(to));
    TT_TRY(tti_binary((tti_binary_op)o->kernel, to, tti_operand(a, inner, out->device),
                      tti_operand(b, inner, out->device), p));
    return to != out ? tti_copy(out, to) : TT_OK;
}

tt_tensor *tti_apply2(const tti_elementwise *o, tt_tensor *a, tt_tensor *b, const double *p,
                      int n_p)
{
    tt_tensor *in[2] = { a, b };
    tti_call c = {
        .op = &o->op, .n_in = 2, .in = in, .attrs = p, .attrs_bytes = (size_t)n_p * sizeof *p
    };
    tt_tensor *out;
    tt_dtype d;

    if (!tti_call_begin(&c))
        return NULL;
    d = compute_type(o, tti_result_type(a, b));
    if (check_bool(o, d) != TT_OK)
        return NULL;
    out = tti_empty_broadcast(o->op.name, a, b, o->types == TTI_TO_BOOL ? TT_BOOL : d);
    if (out == NULL)
        return NULL;
    save2(&c, o->save, a, b, out);
    return tti_call_end(&c, out, apply2_into(o, d, out, a, b, p));
}

/* ---- in place -------------------------------------------------------------------------------- */

tt_status tti_check_writable(const char *name, const tt_tensor *self)
{
    for (int i = 0; i < self->n_dims; i++)
        if (self->strides[i] == 0 && self->dims[i] > 1)
            return TT_FAIL(TT_ERR_INVALID,
                           "%s: several elements of an expanded tensor are one in memory: clone it "
                           "before changing it",
                           name);
    return TT_OK;
}

static bool same_view(const tt_tensor *a, const tt_tensor *b)
{
    if (a->offset != b->offset || a->dtype != b->dtype || !tti_same_shape(a, b))
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->strides[i] != b->strides[i] && a->dims[i] != 1)
            return false;
    return true;
}

/* The values of x as they are now, at its place in the graph: derivatives of derivatives pass. */
static tt_tensor *copied(const tt_tensor *x)
{
    tt_tensor *y = tti_empty_like(x, (tt_dtype)x->dtype);

    if (tti_copy(y, x) != TT_OK)
        return NULL;
    if (x->grad_fn != NULL && tti_wants_grad(x)) {
        y->grad_fn = tti_node_retain(x->grad_fn);
        y->out_nr = x->out_nr;
        y->flags |= TTI_REQUIRES_GRAD;
    }
    return y;
}

tt_tensor *tti_apart(const tt_tensor *self, tt_tensor *operand)
{
    if (operand == NULL || tt_likely(operand->storage != self->storage) || same_view(self, operand))
        return operand;
    return copied(operand);
}

static int category(tt_dtype d)
{
    if (d == TT_BOOL)
        return 0;
    return tt_dtype_is_integral(d) ? 1 : tt_dtype_is_floating(d) ? 2 : 3;
}

tt_status tti_check_storable(const char *name, tt_dtype from, tt_dtype to)
{
    if (category(from) <= category(to))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: a result of type %s cannot be stored in a %s tensor", name,
                   tt_dtype_name(from), tt_dtype_name(to));
}

/* self = f(...) computed in type d: straight into self when it has that type. */
static tt_status into(tt_tensor *self, tt_dtype d, tt_tensor **to_p)
{
    *to_p = self->dtype == d ? self : tti_empty(self->dims, self->n_dims, d, self->device);
    return tti_made(*to_p);
}

tt_tensor *tti_apply1_(const tti_elementwise *o, tt_tensor *x, const double *p, int n_p)
{
    tti_call c = {
        .op = &o->op, .n_in = 1, .in = &x, .attrs = p, .attrs_bytes = (size_t)n_p * sizeof *p
    };
    tt_tensor *to, *before = x;
    tt_dtype d;
    tt_status st;

    if (!tti_call_begin_inplace(&c) || tti_check_writable(o->op.name, x) != TT_OK)
        return NULL;
    d = compute_type(o, (tt_dtype)x->dtype);
    if (check_bool(o, d) != TT_OK ||
        tti_check_storable(o->op.name, out_type(o, d), (tt_dtype)x->dtype) != TT_OK)
        return NULL;
    if (c.wants_grad && (o->save & TTI_SAVE_A) != 0 && (before = copied(x)) == NULL)
        return NULL;
    st = into(x, out_type(o, d), &to);
    if (st == TT_OK)
        st = tti_unary((tti_unary_op)o->kernel, to, tti_cast(x, d), p);
    if (st == TT_OK && to != x)
        st = tti_copy(x, to);
    save1(&c, o->save, before, x);
    return tti_call_end_inplace(&c, st);
}

static tt_status check_shapes_(const char *name, const tt_tensor *self, const tt_tensor *b)
{
    int64_t dims[TT_MAX_DIMS];
    int n;

    if (tt_likely(tti_same_shape(self, b)))
        return TT_OK;
    TT_TRY(tti_broadcast(name, self->dims, self->n_dims, b->dims, b->n_dims, dims, &n));
    for (int i = 0; n == self->n_dims && i < n; i++)
        if (dims[i] != self->dims[i])
            n = -1;
    if (n == self->n_dims)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: a tensor of shape %s cannot be changed in place to the shape with %s", name,
                   TTI_SHAPE_OF(self), TTI_SHAPE_OF(b));
}

tt_tensor *tti_apply2_(const tti_elementwise *o, tt_tensor *a, tt_tensor *b, const double *p,
                       int n_p)
{
    tt_tensor *in[2] = { a, b };
    tti_call c = {
        .op = &o->op, .n_in = 2, .in = in, .attrs = p, .attrs_bytes = (size_t)n_p * sizeof *p
    };
    tt_tensor *to, *before = a, *other;
    tt_dtype d;
    tt_status st;

    if (!tti_call_begin_inplace(&c) || tti_check_writable(o->op.name, a) != TT_OK ||
        check_shapes_(o->op.name, a, b) != TT_OK)
        return NULL;
    d = compute_type(o, tti_result_type(a, b));
    if (check_bool(o, d) != TT_OK || tti_check_storable(o->op.name, d, (tt_dtype)a->dtype) != TT_OK)
        return NULL;
    other = tti_apart(a, b);
    if (c.wants_grad && o->save != 0) { /* what backward reads must be the values from before */
        if (tti_wants_grad(b) || (o->save & TTI_SAVE_A) != 0)
            before = copied(a);
        if (other != NULL && other->storage == a->storage)
            other = copied(b);
    }
    if (before == NULL || other == NULL)
        return NULL;
    st = into(a, d, &to);
    if (st == TT_OK)
        st = apply2_into(o, d, to, a, other, p);
    if (st == TT_OK && to != a)
        st = tti_copy(a, to);
    save2(&c, o->save, before, other, a);
    return tti_call_end_inplace(&c, st);
}

/* ---- numbers --------------------------------------------------------------------------------- */

tt_dtype tti_scalar_type(const tt_tensor *x, double s)
{
    tt_dtype d = (tt_dtype)x->dtype;

    if (tt_likely(category(d) >= 2))
        return d;
    if (s != floor(s) || isinf(s))
        return TT_F32;
    return d == TT_BOOL ? TT_I64 : d;
}
