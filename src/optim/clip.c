/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient clipping, by the norm of all gradients together and by value. Sums are made in double, in
 * the order of the parameters, and do not depend on the number of threads. */
#include <math.h>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/kernels.h"
#include "optim/optim.h"
#include "tutti/sparse.h"
#include "tensor/debug.h"

/* The tensor that holds the gradient's elements: NULL in *elements_p when there is no gradient. A
 * sparse gradient with repeated indices is replaced by its coalesced self. */
static tt_status elements_of(tt_tensor *p, int i, tt_tensor **elements_p)
{
    tt_tensor *grad;

    *elements_p = NULL;
    TT_TRY(tti_check_alive(p, "clip_grad"));
    if (p == NULL)
        return TTI_NULL("clip_grad: parameter %d is NULL", i);
    grad = p->meta != NULL ? p->meta->grad : NULL;
    if (grad == NULL)
        return TT_OK;
    if (grad->sparse == NULL) {
        *elements_p = grad;
        return TT_OK;
    }
    if ((grad->flags & TTI_COALESCED) == 0) {
        TT_SCOPE {
            tt_tensor *once = tt_sparse_coalesce(grad);

            if (once == NULL)
                return tt_last_status();
            TT_TRY(tt_set_grad(p, once));
        }
        grad = p->meta->grad;
    }
    *elements_p = grad->sparse->values;
    return TT_OK;
}

/* Kernels walk memory: the elements have to fill it. Gradients do, but for ones set by hand. */
static tt_status check_dense(const tt_tensor *x)
{
    int64_t last = 0;

    if (tt_likely(tti_is_contiguous(x)))
        return TT_OK;
    for (int i = 0; i < x->n_dims; i++)
        last += (x->dims[i] - 1) * x->strides[i];
    if (last == x->numel - 1)
        return TT_OK;
    return TT_FAIL(TT_ERR_UNSUPPORTED, "clip_grad: expected gradients without gaps in memory");
}

static tt_status add_norm(tt_tensor *x, double type, double *sum)
{
    double part = 0;

    TT_TRY(check_dense(x));
    if (type != 2.0 && tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "clip_grad_norm: complex gradients have norm type 2 "
                       "only, got %g",
                       type);
    TT_TRY(TTI_RUN("clip_grad_norm", x, optim, sum_powers, x, type, &part));
    if (!isinf(type))
        *sum += part;
    else if (part > *sum || isnan(part))
        *sum = part;
    return TT_OK;
}

static double type_of(const tt_clip_options *opt)
{
    return opt != NULL && opt->norm_type != 0 ? opt->norm_type : 2.0;
}

tt_status tti_clip_sum(tt_tensor *const *params, int n, const tt_clip_options *opt, double *sum_p)
{
    double type = type_of(opt), sum = 0;
    tt_tensor *x;

    if (n > 0 && params == NULL)
        return tti_null_given("clip_grad_norm", "an array of parameters");
    if (!(type > 0))
        return TT_FAIL(TT_ERR_INVALID, "clip_grad_norm: expected a norm type > 0, got %g", type);
    for (int i = 0; i < n; i++) {
        TT_TRY(elements_of(params[i], i, &x));
        if (x != NULL && !(isnan(sum) && isinf(type)))
            TT_TRY(add_norm(x, type, &sum));
    }
    *sum_p = sum;
    return TT_OK;
}

tt_status tti_clip_apply(tt_tensor *const *params, int n, double max_norm,
                         const tt_clip_options *opt, double sum, double *total_p)
{
    double type = type_of(opt), total, factor;
    tt_tensor *x;

    total = isinf(type) ? sum : type == 2.0 ? sqrt(sum) : pow(sum, 1.0 / type);
    if (opt != NULL && opt->error_if_nonfinite && !isfinite(total))
        return TT_FAIL(TT_ERR_INVALID,
                       "clip_grad_norm: expected finite gradients, their total norm of order %g is "
                       "%g",
                       type, total);
    factor = max_norm / (total + 1e-6);
    for (int i = 0; i < n && !(factor >= 1.0); i++) {
        TT_TRY(elements_of(params[i], i, &x));
        if (x == NULL)
            continue;
        TT_TRY(TTI_RUN("clip_grad_norm", x, optim, scale, x, factor));
        tti_bump_version(x);
    }
    if (total_p != NULL)
        *total_p = total;
    return TT_OK;
}

tt_status tt_clip_grad_norm(tt_tensor *const *params, int n, double max_norm,
                            const tt_clip_options *opt, double *total_p)
{
    double sum;

    TT_TRY(tti_clip_sum(params, n, opt, &sum));
    return tti_clip_apply(params, n, max_norm, opt, sum, total_p);
}

tt_status tt_optim_clip_grad_norm(tt_optim *o, double max_norm, const tt_clip_options *opt,
                                  double *total_p)
{
    if (o == NULL)
        return tti_null_given("clip_grad_norm", "an optimizer");
    return tt_clip_grad_norm(o->params, (int)o->n_params, max_norm, opt, total_p);
}

tt_status tt_clip_grad_value(tt_tensor *const *params, int n, double limit)
{
    tt_tensor *x;

    if (n > 0 && params == NULL)
        return tti_null_given("clip_grad_value", "an array of parameters");
    if (!(limit >= 0))
        return TT_FAIL(TT_ERR_INVALID, "clip_grad_value: expected a limit >= 0, got %g", limit);
    for (int i = 0; i < n; i++) {
        TT_TRY(elements_of(params[i], i, &x));
        if (x == NULL)
            continue;
        TT_TRY(check_dense(x));
        TT_TRY(TTI_RUN("clip_grad_value", x, optim, clamp, x, -limit, limit));
        tti_bump_version(x);
    }
    return TT_OK;
}
