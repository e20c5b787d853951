/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on tensors, for tests; see check_tensor.h. */
#include "harness/check_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <tutti/autograd.h>
#include <tutti/ops.h>

static double *read_all(const char *file, int line, const tt_tensor *t)
{
    size_t n = (size_t)tt_tensor_numel(t);
    double *values;

    if (t == NULL) {
        tt_test_fail(file, line, "the tensor is NULL: %s", tt_last_error());
        return NULL;
    }
    values = malloc((n + 1) * sizeof *values);
    if (values != NULL && tt_copy_out_f64(t, values, n) != TT_OK) {
        tt_test_fail(file, line, "cannot read the tensor: %s", tt_last_error());
        free(values);
        return NULL;
    }
    return values;
}

static bool close_to(double got, double want, double tol)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (got == want)
        return true;
    return fabs(got - want) <= tol * fmax(1.0, fabs(want));
}

bool tti_test_close(const char *file, int line, const tt_tensor *t, const double *expected,
                    size_t n, double tol)
{
    double *got = read_all(file, line, t);
    bool ok = got != NULL;

    if (ok && (size_t)tt_tensor_numel(t) != n) {
        tt_test_fail(file, line, "expected %zu elements, got %lld", n,
                     (long long)tt_tensor_numel(t));
        ok = false;
    }
    for (size_t i = 0; ok && i < n; i++)
        if (!close_to(got[i], expected[i], tol)) {
            tt_test_fail(file, line, "element %zu: expected %.17g, got %.17g (tolerance %g)", i,
                         expected[i], got[i], tol);
            ok = false;
        }
    free(got);
    return ok;
}

bool tti_test_shape(const char *file, int line, const tt_tensor *t, tt_shape shape)
{
    if (t == NULL) {
        tt_test_fail(file, line, "the tensor is NULL: %s", tt_last_error());
        return false;
    }
    if (tt_shape_equal(tt_tensor_shape(t), shape))
        return true;
    tt_test_fail(file, line, "expected %d dimensions, got %d, or other sizes: first got %lld",
                 shape.n_dims, tt_tensor_dims(t), (long long)tt_tensor_size(t, 0));
    return false;
}

bool tti_test_same(const char *file, int line, const tt_tensor *a, const tt_tensor *b, double tol)
{
    double *want = read_all(file, line, b);
    bool ok = want != NULL && tti_test_shape(file, line, a, tt_tensor_shape(b));

    if (ok && tt_tensor_dtype(a) != tt_tensor_dtype(b)) {
        tt_test_fail(file, line, "expected type %s, got %s", tt_dtype_name(tt_tensor_dtype(b)),
                     tt_dtype_name(tt_tensor_dtype(a)));
        ok = false;
    }
    ok = ok && tti_test_close(file, line, a, want, (size_t)tt_tensor_numel(b), tol);
    free(want);
    return ok;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Weights that are different for every element, so that no error cancels. */
static double weight(int64_t i)
{
    return 0.6 + 0.35 * sin(1.7 * (double)i + 0.3);
}

static double weighted(tt_tensor *y)
{
    size_t n = (size_t)tt_tensor_numel(y);
    double *v = malloc((n + 1) * sizeof *v);
    double sum = 0;

    if (y == NULL || v == NULL || tt_copy_out_f64(y, v, n) != TT_OK)
        sum = NAN;
    for (size_t i = 0; i < n && !isnan(sum); i++)
        sum += weight((int64_t)i) * v[i];
    free(v);
    return sum;
}

static tt_tensor *weights_like(tt_tensor *y)
{
    tt_tensor *w = y != NULL ? tt_empty(tt_tensor_shape(y), tt_tensor_dtype(y), TT_CPU) : NULL;
    double *v = w != NULL ? tt_tensor_data(w) : NULL;

    for (int64_t i = 0; v != NULL && i < tt_tensor_numel(w); i++)
        v[i] = weight(i);
    return w;
}

static bool first_order(tti_test_fn fn, tt_tensor *const *in, int n, bool record, tt_tensor **grads)
{
    tt_tensor *y = fn(in), *w = weights_like(y);
    tt_grad_options opt = { .grad_outputs = &w, .create_graph = record, .allow_unused = true };

    return y != NULL && w != NULL && tt_grad(&y, 1, in, n, &opt, grads) == TT_OK;
}

/* The weighted sum of all gradients, as a number. */
static double grad_sum(tti_test_fn fn, tt_tensor *const *in, int n)
{
    tt_tensor *grads[8] = { NULL };
    double sum = 0;

    if (!first_order(fn, in, n, false, grads))
        return NAN;
    for (int i = 0; i < n; i++)
        sum += grads[i] != NULL ? weighted(grads[i]) : 0;
    return sum;
}

static double value_sum(tti_test_fn fn, tt_tensor *const *in, int n)
{
    (void)n;
    return weighted(fn(in));
}

typedef double (*sum_fn)(tti_test_fn fn, tt_tensor *const *in, int n);

/* What is differentiated, and where to say so. */
typedef struct subject {
    const char *file;
    int line;
    tti_test_fn fn;
    tt_tensor *const *in;
    int n;
} subject;

/* One element of input `which`, up and down. */
static double slope(const subject *s, sum_fn sum, int which, int64_t i)
{
    double *x = tt_tensor_data(s->in[which]);
    double keep = x[i], eps = 1e-6, up = 0, down = 0;

    TT_SCOPE {
        x[i] = keep + eps;
        up = sum(s->fn, s->in, s->n);
        x[i] = keep - eps;
        down = sum(s->fn, s->in, s->n);
        x[i] = keep;
    }
    return (up - down) / (2 * eps);
}

static bool against_differences(const subject *s, int which, tt_tensor *grad, sum_fn sum,
                                const char *order)
{
    double *got = grad != NULL ? read_all(s->file, s->line, grad) : NULL;
    bool ok = true;

    for (int64_t i = 0; i < tt_tensor_numel(s->in[which]) && ok; i++) {
        double want = slope(s, sum, which, i), have = got != NULL ? got[i] : 0;

        ok = close_to(have, want, 2e-5);
        if (!ok)
            tt_test_fail(s->file, s->line,
                         "%s gradient of input %d, element %lld: expected %.9g, got %.9g", order,
                         which, (long long)i, want, have);
    }
    free(got);
    return ok;
}

static bool second_order(const subject *s)
{
    tt_tensor *const *in = s->in;
    int n = s->n;
    tt_tensor *grads[8] = { NULL }, *ws[8], *outs[8], *seconds[8] = { NULL };
    tt_grad_options opt = { .grad_outputs = ws, .allow_unused = true };
    bool ok = first_order(s->fn, in, n, true, grads);
    int n_out = 0;

    for (int i = 0; ok && i < n; i++)
        if (grads[i] != NULL && tt_requires_grad(grads[i])) {
            outs[n_out] = grads[i];
            ws[n_out++] = weights_like(grads[i]);
        }
    if (ok && n_out > 0)
        ok = tt_grad(outs, n_out, in, n, &opt, seconds) == TT_OK;
    if (!ok)
        tt_test_fail(s->file, s->line, "second gradients failed: %s", tt_last_error());
    for (int i = 0; ok && i < n; i++)
        ok = against_differences(s, i, seconds[i], grad_sum, "second");
    return ok;
}

bool tti_test_gradients(const char *file, int line, tti_test_fn fn, tt_tensor *const *in, int n,
                        bool twice)
{
    subject s = { file, line, fn, in, n };
    tt_tensor *grads[8] = { NULL };
    bool ok = false;

    TT_SCOPE {
        ok = first_order(fn, in, n, false, grads);
        if (!ok)
            tt_test_fail(file, line, "gradients failed: %s", tt_last_error());
        for (int i = 0; ok && i < n; i++)
            ok = against_differences(&s, i, grads[i], value_sum, "first");
        if (ok && twice)
            ok = second_order(&s);
    }
    return ok;
}
