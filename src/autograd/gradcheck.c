/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients compared with finite differences. The function's results are reduced to one real number by
 * fixed random weights v, L = sum Re(conj(v) * out), whose derivative with respect to every element of
 * every input is measured from both sides. For complex inputs the gradient is dL/da + i dL/db. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"
#include "ops/element.h"

typedef struct check {
    tt_segment_fn fn;
    void *ctx;
    tt_tensor *const *in;
    int n_in, n_out;
    tt_tensor **weights; /* one per result, scope-owned */
    double eps, atol, rtol;
} check;

static bool is_complex(const tt_tensor *t)
{
    return tt_dtype_is_complex((tt_dtype)t->dtype);
}

static bool is_checked(const tt_tensor *t)
{
    return tti_wants_grad(t);
}

/* float32, alone or in pairs. */
static bool is_single(const tt_tensor *t)
{
    return t->dtype == TT_F32 || t->dtype == TT_C64;
}

/* The real numbers in t: one or two per element. */
static int64_t n_reals(const tt_tensor *t)
{
    return t->numel * (is_complex(t) ? 2 : 1);
}

/* Real number `at` of a contiguous tensor on the host. */
static double real_at(const tt_tensor *t, int64_t at)
{
    tti_element e = tti_element_at(t, is_complex(t) ? at / 2 : at);

    return is_complex(t) && at % 2 != 0 ? e.im : e.re;
}

static double weight_at(uint64_t stream, int64_t i)
{
    tti_philox_block b = tti_philox(0x7475747469ULL, (uint64_t)i, stream);

    return 2.0 * tti_unit_double(b.w[0], b.w[1]) - 1.0;
}

static tt_tensor *random_like(const tt_tensor *t, uint64_t stream)
{
    tt_tensor *v = tti_empty(t->dims, t->n_dims, is_complex(t) ? TT_C128 : TT_F64, TT_CPU);

    if (v == NULL)
        return NULL;
    for (int64_t i = 0; i < n_reals(v); i++)
        ((double *)tti_data(v))[i] = weight_at(stream, i);
    return tt_to_device(tti_cast(v, (tt_dtype)t->dtype), t->device);
}

static tt_status evaluate(const check *c, tt_tensor **out, double *value_p)
{
    double sum = 0.0;

    TT_TRY(c->fn(c->ctx, c->in, c->n_in, out, c->n_out));
    for (int i = 0; i < c->n_out; i++) {
        tt_tensor *flat, *weights;

        if (out[i] == NULL || !tti_wants_grad(out[i]) || c->weights[i] == NULL)
            continue;
        flat = tti_host_copy(out[i]);
        weights = flat != NULL ? tti_host_copy(c->weights[i]) : NULL;
        if (weights == NULL)
            return tt_last_status();
        for (int64_t j = 0; j < n_reals(flat); j++)
            sum += real_at(flat, j) * real_at(weights, j);
    }
    *value_p = sum;
    return TT_OK;
}

/* Real number `at` of an input, wherever that is. */
static tt_status get_real(const tt_tensor *t, int64_t at, double *value_p)
{
    size_t bytes = is_single(t) ? sizeof(float) : sizeof(double);
    const char *x = (const char *)tti_data(t) + (size_t)at * bytes;
    float f = 0;
    void *to = is_single(t) ? (void *)&f : (void *)value_p;

    if (t->device.kind != TT_DEVICE_CPU)
        TT_TRY(t->storage->driver->copy_out(t->device.index, to, x, bytes));
    else
        memcpy(to, x, bytes);
    if (is_single(t))
        *value_p = (double)f;
    return TT_OK;
}

static tt_status put_real(const tt_tensor *t, int64_t at, double value)
{
    size_t bytes = is_single(t) ? sizeof(float) : sizeof(double);
    char *x = (char *)tti_data(t) + (size_t)at * bytes;
    float f = (float)value;
    const void *from = is_single(t) ? (const void *)&f : (const void *)&value;

    if (t->device.kind != TT_DEVICE_CPU)
        return t->storage->driver->copy_in(t->device.index, x, from, bytes);
    memcpy(x, from, bytes);
    return TT_OK;
}

static tt_status numeric(const check *c, tt_tensor *in, int64_t at, tt_tensor **out,
                         double *slope_p)
{
    double keep = 0.0, up = 0.0, down = 0.0;
    tt_status st;

    TT_TRY(get_real(in, at, &keep));
    TT_TRY(put_real(in, at, keep + c->eps));
    st = evaluate(c, out, &up);
    if (st == TT_OK)
        st = put_real(in, at, keep - c->eps);
    if (st == TT_OK)
        st = evaluate(c, out, &down);
    TT_TRY(put_real(in, at, keep));
    *slope_p = (up - down) / (2.0 * c->eps);
    return st;
}

static tt_status compare_input(const check *c, int i, tt_tensor *grad, tt_tensor **out)
{
    tt_tensor *g = grad != NULL ? tti_host_copy(grad) : NULL;

    if (grad != NULL && g == NULL)
        return tt_last_status();
    for (int64_t at = 0; at < n_reals(c->in[i]); at++) {
        double analytic = g != NULL ? real_at(g, at) : 0.0;
        double slope = 0.0;
        tt_status st = TT_OK;

        TT_SCOPE
            st = numeric(c, c->in[i], at, out, &slope);
        TT_TRY(st);
        if (!(fabs(analytic - slope) <= c->atol + c->rtol * fabs(slope)))
            return TT_FAIL(TT_ERR_INVALID,
                           "gradcheck: input %d, element %lld%s: backward gives %.10g, finite "
                           "differences %.10g%s",
                           i, (long long)(is_complex(c->in[i]) ? at / 2 : at),
                           !is_complex(c->in[i]) ? ""
                           : at % 2 == 0         ? " (real part)"
                                                 : " (imaginary part)",
                           analytic, slope,
                           is_single(c->in[i])
                               ? ": float32 rounds, and in float64 the difference would be clear"
                               : "");
    }
    return TT_OK;
}

/* Backward's answer for the same weighted sum. */
static tt_status analytic(check *c, tt_tensor **out, tt_tensor **grads)
{
    tt_tensor *roots[8], *weights[8], *ins[16];
    int where[16];
    tt_tensor *found[16];
    int n_roots = 0, n_ins = 0, null = -1;

    TT_TRY(c->fn(c->ctx, c->in, c->n_in, out, c->n_out));
    for (int i = 0; i < c->n_out; i++) {
        c->weights[i] = NULL;
        if (out[i] == NULL || !tti_wants_grad(out[i]))
            continue;
        TT_TRY(tti_give(&c->weights[i], random_like(out[i], (uint64_t)i)));
        roots[n_roots] = out[i];
        weights[n_roots++] = c->weights[i];
    }
    for (int i = 0; i < c->n_in; i++) {
        grads[i] = NULL;
        null = c->in[i] == NULL ? i : null;
        if (is_checked(c->in[i])) {
            where[n_ins] = i;
            ins[n_ins++] = c->in[i];
        }
    }
    if (n_ins == 0 && null >= 0)
        return TTI_NULL("gradcheck: nothing requires a gradient, and input %d is NULL", null);
    if (n_roots == 0 || n_ins == 0)
        return TT_FAIL(TT_ERR_INVALID, "gradcheck: nothing requires a gradient");
    TT_TRY(tt_grad(roots, n_roots, ins, n_ins,
                   &(tt_grad_options){ .grad_outputs = weights, .allow_unused = true }, found));
    for (int i = 0; i < n_ins; i++)
        grads[where[i]] = found[i];
    return TT_OK;
}

static tt_status check_inputs(tt_tensor *const *in, int n_in, int n_out)
{
    if (in == NULL || n_in < 1 || n_in > 16 || n_out < 1 || n_out > 8)
        return TT_FAIL(TT_ERR_INVALID, "gradcheck: expected 1 to 16 inputs and 1 to 8 results");
    for (int i = 0; i < n_in; i++) {
        if (in[i] == NULL || !is_checked(in[i]))
            continue;
        if (in[i]->dtype != TT_F64 && in[i]->dtype != TT_C128 && !is_single(in[i]))
            return TT_FAIL(TT_ERR_INVALID,
                           "gradcheck: expected inputs of float64, complex128, float32 or "
                           "complex64, input %d is %s: float64 is best",
                           i, tt_dtype_name((tt_dtype)in[i]->dtype));
        if (!tti_is_contiguous(in[i]))
            return TT_FAIL(TT_ERR_INVALID, "gradcheck: input %d must be contiguous", i);
    }
    return TT_OK;
}

static tt_status first_order(check *c)
{
    tt_tensor *out[8] = { NULL }, *grads[16], *weights[8];
    tt_status st = TT_OK;

    c->weights = weights;
    TT_SCOPE {
        st = analytic(c, out, grads);
        for (int i = 0; i < c->n_in && st == TT_OK; i++)
            if (is_checked(c->in[i]))
                st = compare_input(c, i, grads[i], out);
    }
    return st;
}

/* ---- second order: the gradient is itself a function of inputs and output weights --------------- */

static tt_status gradient_of(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **grads,
                             int n_grads)
{
    const check *c = ctx;
    tt_tensor *out[8] = { NULL }, *roots[8], *weights[8], *ins[16];
    int n_roots = 0, n_ins = 0;

    (void)n_in;
    TT_TRY(c->fn(c->ctx, in, c->n_in, out, c->n_out));
    for (int i = 0; i < c->n_out; i++)
        if (out[i] != NULL && tti_wants_grad(out[i])) {
            roots[n_roots] = out[i];
            weights[n_roots] = in[c->n_in + n_roots];
            n_roots++;
        }
    for (int i = 0; i < c->n_in; i++)
        if (is_checked(in[i]))
            ins[n_ins++] = in[i];
    assert(n_ins == n_grads);
    (void)n_grads;
    return tt_grad(
        roots, n_roots, ins, n_ins,
        &(tt_grad_options){ .grad_outputs = weights, .create_graph = true, .allow_unused = true },
        grads);
}

static tt_status second_order(check *c)
{
    tt_tensor *out[8] = { NULL }, *in[16];
    int n = c->n_in, n_grads = 0;
    check c2 = *c;
    tt_scope scope = tt_scope_open();
    tt_status st = c->fn(c->ctx, c->in, c->n_in, out, c->n_out);

    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        n_grads += is_checked(in[i]);
    }
    for (int i = 0; i < c->n_out && st == TT_OK; i++)
        if (out[i] != NULL && tti_wants_grad(out[i])) {
            if (n == 16 || n_grads > 8)
                st = TT_FAIL(TT_ERR_INVALID, "gradcheck: too many inputs for second order");
            else
                st = tti_give(&in[n++], tt_require_grad(random_like(out[i], 100 + (uint64_t)i)));
        }
    c2.fn = gradient_of;
    c2.ctx = c;
    c2.in = in;
    c2.n_in = n;
    c2.n_out = n_grads;
    if (st == TT_OK)
        st = first_order(&c2);
    tt_scope_close(&scope);
    return st;
}

/* Whether an input that is checked is in float32: steps are longer and limits wider then. */
static bool any_single(tt_tensor *const *in, int n_in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] != NULL && is_checked(in[i]) && is_single(in[i]))
            return true;
    return false;
}

tt_status tt_gradcheck(tt_segment_fn fn, void *ctx, tt_tensor *const *in, int n_in, int n_out,
                       const tt_gradcheck_options *opt)
{
    tt_gradcheck_options o = opt != NULL ? *opt : (tt_gradcheck_options){ 0 };
    bool single = any_single(in, n_in);
    check c = { .fn = fn,
                .ctx = ctx,
                .in = in,
                .n_in = n_in,
                .n_out = n_out,
                .eps = o.eps != 0.0 ? o.eps
                       : single     ? 5e-3
                                    : 1e-6,
                .atol = o.atol != 0.0 ? o.atol
                        : single      ? 1e-3
                                      : 1e-5,
                .rtol = o.rtol != 0.0 ? o.rtol
                        : single      ? 1e-2
                                      : 1e-3 };

    TT_TRY(check_inputs(in, n_in, n_out));
    TT_TRY(first_order(&c));
    return o.second_order ? second_order(&c) : TT_OK;
}
