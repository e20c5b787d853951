/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot product attention: operands become [batch, heads, rows, columns] with whatever strides
 * they have, so that views of a fused projection are used in place. */
#include "ops/attention.h"

#include <math.h>

/* Sizes that all operands agree on. */
typedef struct frame {
    int64_t lead[TT_MAX_DIMS]; /* in front of rows and columns */
    int n_lead;
    int64_t len_q, len_k, dim_qk, dim_v;
    tt_dtype real; /* what kernels compute in */
} frame;

static tt_status check_types(const tt_tensor *q, const tt_tensor *k, const tt_tensor *v)
{
    TT_TRY(tti_check_floating("attention", q, false));
    if (k->dtype != q->dtype || v->dtype != q->dtype)
        return TT_FAIL(TT_ERR_INVALID, "attention: expected one type, got %s, %s and %s",
                       tt_dtype_name((tt_dtype)q->dtype), tt_dtype_name((tt_dtype)k->dtype),
                       tt_dtype_name((tt_dtype)v->dtype));
    return TT_OK;
}

static tt_status make_frame(const tt_tensor *q, const tt_tensor *k, const tt_tensor *v, frame *f)
{
    int nq = q->n_dims, nk = k->n_dims, nv = v->n_dims, n;
    int64_t both[TT_MAX_DIMS];

    TT_TRY(check_types(q, k, v));
    if (nq < 2 || nk < 2 || nv < 2 || q->dims[nq - 1] != k->dims[nk - 1] ||
        k->dims[nk - 2] != v->dims[nv - 2])
        return TT_FAIL(TT_ERR_INVALID,
                       "attention: expected q [..., L, E], k [..., S, E] and v [..., S, V], got "
                       "%s, %s and %s",
                       TTI_SHAPE_OF(q), TTI_SHAPE_OF(k), TTI_SHAPE_OF(v));
    TT_TRY(tti_broadcast("attention", q->dims, nq - 2, k->dims, nk - 2, both, &n));
    TT_TRY(tti_broadcast("attention", both, n, v->dims, nv - 2, f->lead, &f->n_lead));
    f->len_q = q->dims[nq - 2];
    f->dim_qk = q->dims[nq - 1];
    f->len_k = v->dims[nv - 2];
    f->dim_v = v->dims[nv - 1];
    f->real = q->dtype == TT_F64 ? TT_F64 : TT_F32;
    return TT_OK;
}

/* ---- four dimensions --------------------------------------------------------------------------- */

/* Fold the leading dimensions into batch and heads. False: these strides do not allow it. */
static bool fold(const frame *f, const int64_t *strides, int64_t dims[4], int64_t out[4])
{
    int n = f->n_lead;

    dims[0] = dims[1] = 1;
    out[0] = out[1] = 0;
    if (n == 1) {
        dims[0] = f->lead[0];
        out[0] = strides[0];
    } else if (n >= 2) {
        dims[1] = f->lead[n - 1];
        out[1] = strides[n - 1];
        dims[0] = tti_numel(f->lead, n - 1);
        if (n > 2 && !tti_view_strides(f->lead, strides, n - 1, dims, 1, out))
            return false;
        if (n == 2)
            out[0] = strides[0];
    }
    out[2] = strides[n];
    out[3] = strides[n + 1];
    return true;
}

/* t as [batch, heads, rows, cols], repeated where it must be. `unit`: columns lie side by side. */
static tt_tensor *as_heads(tt_tensor *t, const frame *f, int64_t rows, int64_t cols, bool unit)
{
    int64_t full[TT_MAX_DIMS], strides[TT_MAX_DIMS], dims[4], folded[4];
    int n = f->n_lead + 2;
    tt_tensor *copy;

    t = tti_cast(t, f->real);
    if (t != NULL && unit && t->strides[t->n_dims - 1] != 1)
        t = tti_contiguous(t);
    if (t == NULL)
        return NULL;
    for (int i = 0; i < f->n_lead; i++)
        full[i] = f->lead[i];
    full[n - 2] = rows;
    full[n - 1] = cols;
    tti_broadcast_strides(t->dims, t->strides, t->n_dims, n, full, strides);
    if (unit)
        strides[n - 1] = 1;
    if (!fold(f, strides, dims, folded)) {
        copy = tti_empty(full, n, f->real, t->device);
        if (copy == NULL || tti_copy(copy, t) != TT_OK)
            return NULL;
        t = copy;
        fold(f, t->strides, dims, folded);
    }
    dims[2] = rows;
    dims[3] = cols;
    return tti_view_raw(t, dims, folded, 4, t->offset);
}

/* The result lies in memory as [..., L, heads, V]: joining the heads again needs no copy. */
static tt_tensor *empty_out(const frame *f, tt_device device)
{
    int64_t dims[TT_MAX_DIMS], strides[TT_MAX_DIMS];
    int n = f->n_lead + 2;

    for (int i = 0; i < f->n_lead; i++)
        dims[i] = f->lead[i];
    dims[n - 2] = f->len_q;
    dims[n - 1] = f->dim_v;
    if (f->n_lead < 2)
        return tti_empty(dims, n, f->real, device);
    tti_strides_contiguous(dims, n, strides);
    strides[n - 3] = f->dim_v;
    strides[n - 2] = f->dim_v * f->lead[f->n_lead - 1];
    return tti_empty_strided(dims, strides, n, f->real, device);
}

static tti_attention kernel_args(const frame *f, const tti_attention_attrs *a, const tt_tensor *q4,
                                 const tt_tensor *mask4)
{
    return (tti_attention){ .batch = q4->dims[0],
                            .heads = q4->dims[1],
                            .len_q = f->len_q,
                            .len_k = f->len_k,
                            .dim_qk = f->dim_qk,
                            .dim_v = f->dim_v,
                            .scale = a->scale,
                            .causal = a->causal,
                            .mask = mask4,
                            .dropout_p = a->drop.p,
                            .seed = a->drop.seed,
                            .offset = a->drop.offset };
}

/* q, k, v and the mask as kernels want them. */
static tt_status prepare(tt_tensor *const in[4], const frame *f, tt_tensor *four[4])
{
    TT_TRY(tti_give(&four[0], as_heads(in[0], f, f->len_q, f->dim_qk, true)));
    TT_TRY(tti_give(&four[1], as_heads(in[1], f, f->len_k, f->dim_qk, true)));
    TT_TRY(tti_give(&four[2], as_heads(in[2], f, f->len_k, f->dim_v, true)));
    four[3] = NULL;
    if (in[3] != NULL)
        return tti_give(&four[3], as_heads(in[3], f, f->len_q, f->len_k, false));
    return TT_OK;
}

/* ---- gradients --------------------------------------------------------------------------------- */

/* Room for the gradient of t, in t's own layout where that is simple. */
static tt_tensor *empty_grad(const tt_tensor *t, const frame *f, int64_t rows, int64_t cols)
{
    int64_t dims[TT_MAX_DIMS];
    int n = f->n_lead + 2;
    bool same = t->n_dims == n && n <= 4;
    tt_tensor *g = NULL;

    for (int i = 0; i < f->n_lead; i++) {
        dims[i] = f->lead[i];
        same = same && t->dims[i] == dims[i];
    }
    dims[n - 2] = rows;
    dims[n - 1] = cols;
    if (same && t->strides[n - 1] == 1) {
        g = tti_empty_like(t, f->real);
        if (g == NULL || g->strides[n - 1] == 1)
            return g;
    }
    return tti_empty(dims, n, f->real, t->device);
}

static tt_status kernel_grads(tti_node *n, const frame *f, tt_tensor *const in[4],
                              tt_tensor *const dout_out_lse[3], tt_tensor **grad_in)
{
    tt_tensor *four[4], *dout, *out, *g4[3] = { NULL };
    const int64_t rows[3] = { f->len_q, f->len_k, f->len_k };
    const int64_t cols[3] = { f->dim_qk, f->dim_qk, f->dim_v };
    tti_attention args;

    TT_TRY(prepare(in, f, four));
    TT_TRY(tti_give(&dout, as_heads(dout_out_lse[0], f, f->len_q, f->dim_v, true)));
    TT_TRY(tti_give(&out, as_heads(dout_out_lse[1], f, f->len_q, f->dim_v, true)));
    for (int i = 0; i < 3; i++) {
        if (!tti_needs(n, i))
            continue;
        TT_TRY(tti_give(&grad_in[i], empty_grad(in[i], f, rows[i], cols[i])));
        TT_TRY(tti_give(&g4[i], as_heads(grad_in[i], f, rows[i], cols[i], true)));
    }
    args = kernel_args(f, tti_attrs(n), four[0], four[3]);
    TT_TRY(TTI_RUN("attention_grad", dout, nn, attention_grad, g4, dout,
                   (const tt_tensor *[3]){ four[0], four[1], four[2] },
                   (const tt_tensor *[2]){ out, dout_out_lse[2] }, &args));
    for (int i = 0; i < 3; i++)
        if (grad_in[i] != NULL)
            TT_TRY(tti_give(&grad_in[i], tti_cast(grad_in[i], (tt_dtype)in[i]->dtype)));
    return TT_OK;
}

static tt_status attention_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tt_tensor *in[4] = { NULL }, *rest[3] = { grad_out[0] };
    frame f;

    for (int i = 0; i < 4; i++)
        if (i < 3 || tti_has_saved(n, i))
            TT_TRY(tti_give(&in[i], tti_saved_get(n, i)));
    if (tti_grad_mode == TT_GRAD_ON || tti_needs(n, 3))
        return tti_attention_composite(n, grad_out[0], in, grad_in);
    TT_TRY(tti_give(&rest[1], tti_saved_get(n, 4)));
    TT_TRY(tti_give(&rest[2], tti_saved_get(n, 5)));
    TT_TRY(make_frame(in[0], in[1], in[2], &f));
    return kernel_grads(n, &f, in, rest, grad_in);
}

static const tti_op op_attention = { "attention", attention_backward, 0 };

/* ---- the operator ------------------------------------------------------------------------------- */

static tt_tensor *number_like(const tt_tensor *t, tt_dtype dtype, double value)
{
    tt_tensor *x = tti_empty(NULL, 0, dtype, t->device);

    return x != NULL && tti_fill(x, value) == TT_OK ? x : NULL;
}

/* A bool mask as what it adds: 0 where true, minus infinity elsewhere. */
static tt_tensor *added(tt_tensor *mask, const frame *f)
{
    tt_tensor *zero, *never, *m;

    if (mask->dtype != TT_BOOL)
        return mask;
    zero = number_like(mask, f->real, 0.0);
    never = number_like(mask, f->real, -INFINITY);
    m = tti_empty(mask->dims, mask->n_dims, f->real, mask->device);
    return tti_ternary(TTI_WHERE, m, mask, zero, never, NULL) == TT_OK ? m : NULL;
}

static tt_status check_mask(const tt_tensor *mask, const frame *f)
{
    int64_t want[TT_MAX_DIMS];
    int n = f->n_lead + 2;
    bool fits = mask->n_dims <= n;

    for (int i = 0; i < f->n_lead; i++)
        want[i] = f->lead[i];
    want[n - 2] = f->len_q;
    want[n - 1] = f->len_k;
    for (int i = 1; fits && i <= mask->n_dims; i++)
        fits = mask->dims[mask->n_dims - i] == 1 || mask->dims[mask->n_dims - i] == want[n - i];
    if (!fits)
        return TT_FAIL(TT_ERR_INVALID, "attention: expected a mask that broadcasts to %s, got %s",
                       tti_shape_text(want, n, (char[TTI_SHAPE_TEXT]){ 0 }, TTI_SHAPE_TEXT),
                       TTI_SHAPE_OF(mask));
    if (mask->dtype != TT_BOOL && !tt_dtype_is_floating((tt_dtype)mask->dtype))
        return TT_FAIL(TT_ERR_INVALID, "attention: expected a bool or floating mask, got %s",
                       tt_dtype_name((tt_dtype)mask->dtype));
    return TT_OK;
}

static tt_status compute(tti_call *c, const frame *f, const tti_attention_attrs *a,
                         tt_tensor *const in[4], tt_tensor *outs[2])
{
    tt_tensor *four[4], *out4;
    tti_attention args;

    TT_TRY(prepare(in, f, four));
    TT_TRY(tti_give(&outs[0], empty_out(f, in[0]->device)));
    TT_TRY(tti_give(&out4, as_heads(outs[0], f, f->len_q, f->dim_v, true)));
    TT_TRY(tti_give(&outs[1], tti_empty(out4->dims, 3, f->real, in[0]->device)));
    args = kernel_args(f, a, four[0], four[3]);
    TT_TRY(TTI_RUN("attention", out4, nn, attention, out4, outs[1],
                   (const tt_tensor *[3]){ four[0], four[1], four[2] }, &args));
    TT_TRY(tti_give(&outs[0], tti_cast(outs[0], (tt_dtype)in[0]->dtype)));
    for (int i = 0; i < 4; i++)
        tti_call_save(c, in[i]);
    tti_call_save(c, outs[0]);
    tti_call_save(c, outs[1]);
    return TT_OK;
}

static tt_status plan(tt_tensor *const in[4], const tt_attention_options *o, frame *f,
                      tti_attention_attrs *a)
{
    uint64_t lines;

    TT_TRY(make_frame(in[0], in[1], in[2], f));
    if (in[3] != NULL)
        TT_TRY(check_mask(in[3], f));
    if (!(o->dropout_p >= 0.0 && o->dropout_p < 1.0))
        return TT_FAIL(TT_ERR_INVALID,
                       "attention: expected a dropout probability from 0 to below 1, got %g",
                       o->dropout_p);
    a->causal = o->causal;
    a->scale = o->scale != 0.0 ? o->scale : 1.0 / sqrt((double)(f->dim_qk > 0 ? f->dim_qk : 1));
    a->drop.p = o->dropout_p;
    if (o->dropout_p == 0.0)
        return TT_OK;
    lines = (uint64_t)(tti_numel(f->lead, f->n_lead) * f->len_q);
    return tti_take_blocks(o->generator, in[0]->device, lines * ((uint64_t)(f->len_k + 3) / 4),
                           &a->drop);
}

tt_tensor *tt_attention(tt_tensor *q, tt_tensor *k, tt_tensor *v, const tt_attention_options *opt)
{
    static const tt_attention_options defaults = { 0 };
    const tt_attention_options *o = opt != NULL ? opt : &defaults;
    tt_tensor *in[4] = { q, k, v, o->mask }, *outs[2] = { NULL };
    tti_attention_attrs a = { 0 };
    tti_call c = { .op = &op_attention,
                   .n_in = 4,
                   .in = in,
                   .optional = 8,
                   .attrs = &a,
                   .attrs_bytes = sizeof a };
    tt_tensor *used[4];
    frame f;
    tt_status st;

    TTI_AUTOCAST(TTI_LOW, &in[0], &in[1], &in[2]);
    if (!tti_call_begin(&c))
        return NULL;
    for (int i = 0; i < 4; i++)
        used[i] = in[i];
    st = plan(in, o, &f, &a);
    if (st == TT_OK && o->mask != NULL)
        st = tti_give(&used[3], added(o->mask, &f));
    if (st == TT_OK)
        st = compute(&c, &f, &a, used, outs);
    return tti_call_end(&c, outs[0], st);
}
