/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters: in place, without recording. */
#include <math.h>

#include "base/error.h"
#include "nn/module.h"
#include "tensor/shape.h"
#include "tutti/ops.h"
#include "tensor/debug.h"

tt_tensor *tt_init_constant(tt_tensor *t, double value)
{
    TT_NO_GRAD
    {
        return tt_fill_(t, value);
    }
    return NULL;
}

tt_tensor *tt_init_uniform(tt_tensor *t, double lo, double hi, tt_generator *gen)
{
    TT_NO_GRAD
    {
        return tt_uniform_(t, lo, hi, gen);
    }
    return NULL;
}

tt_tensor *tt_init_normal(tt_tensor *t, double mean, double std, tt_generator *gen)
{
    TT_NO_GRAD
    {
        return tt_normal_(t, mean, std, gen);
    }
    return NULL;
}

/* ---- truncated normal: uniform through the inverse of the normal distribution ------------------ */

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* The inverse of normal_cdf, by a rational start and two steps of Halley's method. */
static double normal_quantile(double p)
{
    double t = sqrt(-2 * log(p < 0.5 ? p : 1 - p));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

    if (p < 0.5)
        x = -x;
    for (int i = 0; i < 2; i++) {
        double u = (normal_cdf(x) - p) * sqrt(2 * M_PI) * exp(0.5 * x * x);

        x -= u / (1 + 0.5 * x * u);
    }
    return x;
}

static tt_tensor *trunc_values(tt_tensor *t, double mean, double std, const double *bounds)
{
    tt_tensor *host = tt_to_device(tt_to_dtype(tt_contiguous(tt_detach(t)), TT_F64), TT_CPU);
    double from = normal_cdf((bounds[0] - mean) / std), to = normal_cdf((bounds[1] - mean) / std);
    double *p = host != NULL ? tt_tensor_data(host) : NULL;

    if (p == NULL)
        return NULL;
    for (int64_t i = 0; i < host->numel; i++) {
        double u = from + (to - from) * p[i];
        double x = u <= 0 ? bounds[0] : u >= 1 ? bounds[1] : mean + std * normal_quantile(u);

        p[i] = fmin(fmax(x, bounds[0]), bounds[1]);
    }
    return tt_copy_(t, tt_to_device(host, t->device));
}

tt_tensor *tt_init_trunc_normal(tt_tensor *t, double mean, double std, double lo, double hi,
                                tt_generator *gen)
{
    tt_tensor *out = NULL;

    if (t == NULL)
        return TT_NULL_GIVEN("init trunc_normal", "a tensor");
    if (!tti_alive(t, "init trunc_normal"))
        return NULL;
    if (!(lo < hi) || !(std > 0))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "init trunc_normal: expected lo < hi and std > 0, got %g, %g and %g",
                            lo, hi, std);
    TT_SCOPE {
        TT_NO_GRAD
        {
            if (tt_uniform_(t, 0, 1, gen) != NULL)
                out = trunc_values(t, mean, std, (const double[]){ lo, hi });
        }
    }
    return out;
}

/* ---- by the number of inputs and outputs --------------------------------------------------- */

typedef struct fans {
    double in, out;
} fans;

static bool count_fans(const char *what, const tt_tensor *t, fans *f)
{
    double field = 1;

    if (t == NULL)
        (void)tti_null_given(what, "a tensor");
    if (!tti_alive(t, what))
        return false;
    if (t->n_dims < 2) {
        TT_FAIL(TT_ERR_INVALID, "%s: expected at least two dimensions, got %s", what,
                TTI_SHAPE_OF(t));
        return false;
    }
    for (int i = 2; i < t->n_dims; i++)
        field *= (double)t->dims[i];
    f->in = (double)t->dims[1] * field;
    f->out = (double)t->dims[0] * field;
    return true;
}

static tt_init_options resolve(const tt_init_options *opt, bool kaiming)
{
    tt_init_options o = opt != NULL ? *opt : (tt_init_options){ 0 };

    if (!(o.gain > 0))
        o.gain = kaiming ? sqrt(2 / (1 + o.slope * o.slope)) : 1;
    return o;
}

static double kaiming_std(const fans *f, const tt_init_options *o)
{
    double n = o->fan_out ? f->out : f->in;

    return n > 0 ? o->gain / sqrt(n) : 0;
}

static double xavier_std(const fans *f, const tt_init_options *o)
{
    double n = f->in + f->out;

    return n > 0 ? o->gain * sqrt(2 / n) : 0;
}

tt_tensor *tt_init_kaiming_uniform(tt_tensor *t, const tt_init_options *opt)
{
    tt_init_options o = resolve(opt, true);
    fans f;
    double bound;

    if (!count_fans("init kaiming_uniform", t, &f))
        return NULL;
    bound = sqrt(3.0) * kaiming_std(&f, &o);
    return tt_init_uniform(t, -bound, bound, o.generator);
}

tt_tensor *tt_init_kaiming_normal(tt_tensor *t, const tt_init_options *opt)
{
    tt_init_options o = resolve(opt, true);
    fans f;

    if (!count_fans("init kaiming_normal", t, &f))
        return NULL;
    return tt_init_normal(t, 0, kaiming_std(&f, &o), o.generator);
}

tt_tensor *tt_init_xavier_uniform(tt_tensor *t, const tt_init_options *opt)
{
    tt_init_options o = resolve(opt, false);
    fans f;
    double bound;

    if (!count_fans("init xavier_uniform", t, &f))
        return NULL;
    bound = sqrt(3.0) * xavier_std(&f, &o);
    return tt_init_uniform(t, -bound, bound, o.generator);
}

tt_tensor *tt_init_xavier_normal(tt_tensor *t, const tt_init_options *opt)
{
    tt_init_options o = resolve(opt, false);
    fans f;

    if (!count_fans("init xavier_normal", t, &f))
        return NULL;
    return tt_init_normal(t, 0, xavier_std(&f, &o), o.generator);
}

/* ---- orthogonal ---------------------------------------------------------------------------- */

/* Make the `rows` vectors of `n` numbers orthonormal, in order, twice for the sake of rounding. */
static void gram_schmidt(double *a, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < 2 * rows; i++) {
        double *v = a + i % rows * n, norm = 0;

        for (int64_t j = 0; j < i % rows; j++) {
            const double *w = a + j * n;
            double dot = 0;

            for (int64_t k = 0; k < n; k++)
                dot += v[k] * w[k];
            for (int64_t k = 0; k < n; k++)
                v[k] -= dot * w[k];
        }
        for (int64_t k = 0; k < n; k++)
            norm += v[k] * v[k];
        norm = norm > 0 ? 1 / sqrt(norm) : 0;
        for (int64_t k = 0; k < n; k++)
            v[k] *= norm;
    }
}

static tt_tensor *orthogonal_values(tt_tensor *t, const tt_init_options *o)
{
    int64_t rows = t->dims[0], n = rows > 0 ? t->numel / rows : 0;
    bool tall = rows > n;
    tt_tensor *a = tt_empty(tall ? TT_SHAPE(n, rows) : TT_SHAPE(rows, n), TT_F64, TT_CPU);

    if (tt_normal_(a, 0, 1, o->generator) == NULL)
        return NULL;
    gram_schmidt(tt_tensor_data(a), a->dims[0], a->dims[1]);
    a = tt_mul_scalar(tall ? tt_t(a) : a, o->gain);
    return tt_copy_(t, tt_to_device(tt_reshape(a, tt_tensor_shape(t)), t->device));
}

tt_tensor *tt_init_orthogonal(tt_tensor *t, const tt_init_options *opt)
{
    tt_init_options o = resolve(opt, false);
    tt_tensor *out = NULL;
    fans f;

    if (!count_fans("init orthogonal", t, &f))
        return NULL;
    TT_SCOPE {
        TT_NO_GRAD
        {
            out = orthogonal_values(t, &o);
        }
    }
    return out;
}
