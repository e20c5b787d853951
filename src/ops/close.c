/* SPDX-License-Identifier: Apache-2.0 */
/* Are two tensors the same, bit for bit or nearly, and if not, where and by how much. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "ops/element.h"
#include "tutti/sparse.h"
#include "tensor/debug.h"

/* ---- tolerances -------------------------------------------------------------------------- */

static double default_rtol(tt_dtype d)
{
    switch (d) {
    case TT_F32:
    case TT_C64:
        return 1.3e-6;
    case TT_F64:
    case TT_C128:
        return 1e-7;
    case TT_F16:
        return 1e-3;
    case TT_BF16:
        return 1.6e-2;
    default:
        return 0;
    }
}

static double default_atol(tt_dtype d)
{
    if (d == TT_F64 || d == TT_C128)
        return 1e-7;
    return default_rtol(d) > 0 ? 1e-5 : 0;
}

/* Of two types the one with the larger tolerance counts. */
static void tolerances(const tt_tensor *a, const tt_tensor *b, tt_close_options *o)
{
    if (o->exact) {
        o->rtol = o->atol = 0;
        return;
    }
    if (o->rtol != 0 || o->atol != 0)
        return;
    o->rtol = fmax(default_rtol((tt_dtype)a->dtype), default_rtol((tt_dtype)b->dtype));
    o->atol = fmax(default_atol((tt_dtype)a->dtype), default_atol((tt_dtype)b->dtype));
}

/* ---- elements ---------------------------------------------------------------------------- */

static bool is_nan(tti_element e)
{
    return isnan(e.re) || isnan(e.im);
}

static double difference(tti_element a, tti_element b, bool whole)
{
    if (whole)
        return (double)(a.whole > b.whole ? (uint64_t)a.whole - (uint64_t)b.whole
                                          : (uint64_t)b.whole - (uint64_t)a.whole);
    if (a.re == b.re && a.im == b.im)
        return 0;
    return a.im == 0 && b.im == 0 ? fabs(a.re - b.re) : hypot(a.re - b.re, a.im - b.im);
}

static double size_of(tti_element e)
{
    return e.im == 0 ? fabs(e.re) : hypot(e.re, e.im);
}

typedef struct comparison {
    const tt_tensor *a, *b;
    tt_close_options o;
    bool whole;
    tt_close_report *r;
} comparison;

static void index_of(const tt_tensor *t, int64_t at, int64_t *index)
{
    for (int d = t->n_dims - 1; d >= 0; d--) {
        index[d] = at % t->dims[d];
        at /= t->dims[d];
    }
}

static void note(comparison *c, int64_t at, tti_element a, tti_element b)
{
    double abs = is_nan(a) || is_nan(b) ? INFINITY : difference(a, b, c->whole);
    tt_close_report *r = c->r;

    if (r->n_mismatched++ == 0)
        index_of(c->a, at, r->first);
    if (r->n_mismatched > 1 && abs <= r->worst_abs)
        return;
    index_of(c->a, at, r->worst);
    r->worst_abs = abs;
    r->worst_rel = size_of(b) > 0 ? abs / size_of(b) : INFINITY;
    r->worst_a = a.re;
    r->worst_b = b.re;
}

static void compare_elements(comparison *c)
{
    for (int64_t i = 0; i < c->a->numel; i++) {
        tti_element a = tti_element_at(c->a, i), b = tti_element_at(c->b, i);
        double d = difference(a, b, c->whole);
        bool close;

        if (is_nan(a) || is_nan(b))
            close = is_nan(a) && is_nan(b) && !c->o.nan_differs;
        else
            close = d == 0 || (isfinite(d) && d <= c->o.atol + c->o.rtol * size_of(b));
        if (!close)
            note(c, i, a, b);
    }
    c->r->n_compared = c->a->numel;
}

/* ---- reports ----------------------------------------------------------------------------- */

static void describe(comparison *c)
{
    tt_close_report *r = c->r;
    char first[TTI_SHAPE_TEXT], worst[TTI_SHAPE_TEXT];

    if (r->n_mismatched == 0)
        return;
    snprintf(r->text, sizeof r->text,
             "%lld of %lld elements differ, first at %s; worst at %s: %.9g and %.9g, absolute "
             "difference %.4g (allowed %.4g), relative %.4g (allowed %.4g)",
             (long long)r->n_mismatched, (long long)r->n_compared,
             tti_shape_text(r->first, c->a->n_dims, first, sizeof first),
             tti_shape_text(r->worst, c->a->n_dims, worst, sizeof worst), r->worst_a, r->worst_b,
             r->worst_abs, c->o.atol, r->worst_rel, c->o.rtol);
}

/* What can be said without looking at elements; false when there is a difference. */
static bool same_kind(const tt_tensor *a, const tt_tensor *b, const tt_close_options *o,
                      tt_close_report *r)
{
    char da[32], db[32];

    if (tti_check_alive(a, "compare") != TT_OK || tti_check_alive(b, "compare") != TT_OK)
        snprintf(r->text, sizeof r->text, "%s", tti_last_error());
    else if (a == NULL || b == NULL)
        snprintf(r->text, sizeof r->text, "%s is NULL",
                 a == NULL ? "the first tensor" : "the second tensor");
    else if (!tti_same_shape(a, b))
        snprintf(r->text, sizeof r->text, "shapes differ: %s and %s", TTI_SHAPE_OF(a),
                 TTI_SHAPE_OF(b));
    else if (a->dtype != b->dtype && !o->skip_dtype)
        snprintf(r->text, sizeof r->text, "element types differ: %s and %s",
                 tt_dtype_name((tt_dtype)a->dtype), tt_dtype_name((tt_dtype)b->dtype));
    else if (!tt_device_equal(a->device, b->device))
        snprintf(r->text, sizeof r->text, "devices differ: %s and %s",
                 tt_device_name(a->device, da, sizeof da),
                 tt_device_name(b->device, db, sizeof db));
    return r->text[0] == '\0';
}

static bool is_whole(const tt_tensor *t)
{
    return t->dtype == TT_BOOL || tt_dtype_is_integral((tt_dtype)t->dtype);
}

bool tt_compare(const tt_tensor *a, const tt_tensor *b, const tt_close_options *opt,
                tt_close_report *report_p)
{
    tt_close_report here = { 0 };
    comparison c = { .r = report_p != NULL ? report_p : &here };

    c.o = opt != NULL ? *opt : (tt_close_options){ 0 };
    *c.r = here;
    if (!same_kind(a, b, &c.o, c.r))
        return false;
    TT_SCOPE {
        tolerances(a, b, &c.o);
        c.a = tti_host_copy(a);
        c.b = c.a != NULL ? tti_host_copy(b) : NULL;
        if (c.b == NULL) {
            snprintf(c.r->text, sizeof c.r->text, "cannot be compared: %s", tti_last_error());
            return false;
        }
        c.whole = is_whole(a) && is_whole(b);
        compare_elements(&c);
        describe(&c);
    }
    c.r->close = c.r->n_mismatched == 0;
    return c.r->close;
}

bool tt_allclose(const tt_tensor *a, const tt_tensor *b, const tt_close_options *opt)
{
    return tt_compare(a, b, opt, NULL);
}

bool tt_equal(const tt_tensor *a, const tt_tensor *b)
{
    bool same = false;

    if (tti_check_alive(a, "equal") != TT_OK || tti_check_alive(b, "equal") != TT_OK)
        return false;
    if (a == NULL || b == NULL || !tti_same_shape(a, b) || a->dtype != b->dtype ||
        !tt_device_equal(a->device, b->device))
        return false;
    TT_SCOPE {
        const tt_tensor *x = tti_host_copy(a);
        const tt_tensor *y = x != NULL ? tti_host_copy(b) : NULL;

        same = y != NULL &&
               (x->numel == 0 || memcmp(tti_data(x), tti_data(y), tt_tensor_bytes(x)) == 0);
    }
    return same;
}
