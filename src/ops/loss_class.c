/* SPDX-License-Identifier: Apache-2.0 */
/* Losses shared parts: reduction, and the checking of class targets and their weights. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/loss.h"

bool tti_loss_given(const char *name, const tt_tensor *input, const tt_tensor *target)
{
    if (tt_likely(input != NULL && target != NULL))
        return true;
    TTI_NULL("%s: operand %d is NULL", name, input == NULL ? 0 : 1);
    return false;
}

tt_tensor *tti_loss_reduce(tt_tensor *losses, tt_reduction reduction)
{
    if (reduction == TT_REDUCTION_NONE)
        return losses;
    return reduction == TT_REDUCTION_SUM ? tt_sum(losses) : tt_mean(losses);
}

tt_tensor *tti_loss_rows(tt_tensor *x)
{
    int order[TT_MAX_DIMS], n;

    if (x == NULL)
        return NULL;
    n = x->n_dims;
    if (n == 1)
        return tt_reshape(x, TT_SHAPE(1, x->dims[0]));
    if (n == 2)
        return x;
    order[0] = 0;
    for (int i = 2; i < n; i++)
        order[i - 1] = i;
    order[n - 1] = 1;
    return tt_reshape(tt_permute(x, order, n),
                      TT_SHAPE(x->dims[1] > 0 ? x->numel / x->dims[1] : 0, x->dims[1]));
}

tt_status tti_loss_check(const char *name, const tt_tensor *input, const tt_tensor *target)
{
    int at = 0;
    bool fits = input->n_dims == target->n_dims + 1 && input->n_dims > 0;

    for (int i = 0; fits && i < input->n_dims; i++)
        if (input->n_dims == 1 || i == 1)
            continue;
        else
            fits = input->dims[i] == target->dims[at++];
    if (fits)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: expected scores [N, C, ...] and targets [N, ...], got %s and %s", name,
                   TTI_SHAPE_OF(input), TTI_SHAPE_OF(target));
}

static tt_status out_of_range(const char *name, int64_t value, int64_t n_classes, int64_t at)
{
    return TT_FAIL(TT_ERR_INVALID,
                   "%s: expected target classes from 0 to %lld, got %lld at position %lld (%lld "
                   "classes)",
                   name, (long long)n_classes - 1, (long long)value, (long long)at,
                   (long long)n_classes);
}

static double weight_of(const tti_classes *c, int64_t class)
{
    if (c->weight == NULL)
        return 1.0;
    return c->weight->dtype == TT_F64 ? ((const double *)tti_data(c->weight))[class]
                                      : (double)((const float *)tti_data(c->weight))[class];
}

/* A copy with -1 for what is ignored. */
static tt_tensor *mark_ignored(const tt_tensor *target, int64_t ignore)
{
    tt_tensor *out = tti_empty(target->dims, target->n_dims, TT_I64, target->device);
    const int64_t *from = tti_data(target);

    for (int64_t i = 0; out != NULL && i < target->numel; i++)
        ((int64_t *)tti_data(out))[i] = from[i] == ignore ? -1 : from[i];
    return out;
}

static tt_status check_classes(const char *name, tti_classes *c, int64_t n_classes, int64_t ignore)
{
    const int64_t *t = tti_data(c->target);
    int64_t n = c->target->numel, counted = 0;

    for (int64_t i = 0; i < n; i++) {
        if (t[i] == ignore)
            continue;
        if (t[i] < 0 || t[i] >= n_classes)
            return out_of_range(name, t[i], n_classes, i);
        counted++;
        if (c->weight != NULL)
            c->total += weight_of(c, t[i]);
    }
    c->ignored = counted < n;
    if (c->weight == NULL)
        c->total = (double)counted;
    if (c->ignored)
        c->target = mark_ignored(c->target, ignore);
    return tti_made(c->target);
}

static bool on_host(const tt_tensor *t)
{
    return t->device.kind == TT_DEVICE_CPU;
}

/* Row weights and marked targets where only the device can see them; bad ones are reported there. */
static tt_status classes_on_device(const tti_classes *c, const tti_class_range *range,
                                   tt_tensor **marked_p, tt_tensor **weights_p, tt_dtype real)
{
    const tt_tensor *t = c->target;

    TT_TRY(tti_give(marked_p, tti_empty(t->dims, t->n_dims, TT_I64, t->device)));
    TT_TRY(tti_give(weights_p, tti_empty(&t->numel, 1, real, t->device)));
    return TTI_RUN("cross_entropy", t, nn, classes, *marked_p, *weights_p, t, c->weight, range);
}

static tt_status check_on_device(tti_classes *c, const tti_class_range *range, tt_dtype real)
{
    tt_tensor *marked, *weights;

    TT_TRY(classes_on_device(c, range, &marked, &weights, real));
    TT_TRY(tti_give(&c->sum, tti_empty((const int64_t[]){ 1 }, 1, real, marked->device)));
    TT_TRY(TTI_RUN("sum", weights, reduce, reduce, TTI_SUM, c->sum, weights, 1u, NULL));
    c->sum->n_dims = 0; /* one reduced dimension is dropped afterwards */
    c->target = marked;
    c->ignored = true;
    return TT_OK;
}

tt_status tti_classes_make(const char *name, tt_tensor *target, int64_t n_classes, tt_dtype dtype,
                           const tt_loss_options *opt, tti_classes *c)
{
    int64_t ignore = opt != NULL && opt->has_ignore_index ? opt->ignore_index : -100;
    tt_tensor *w = opt != NULL ? opt->weight : NULL;

    if (!tt_dtype_is_integral((tt_dtype)target->dtype))
        return TT_FAIL(
            TT_ERR_INVALID,
            "%s: expected integer target classes, got %s; tt_to_dtype(target, TT_I64) makes them",
            name, tt_dtype_name((tt_dtype)target->dtype));
    if (opt != NULL && !opt->has_ignore_index && opt->ignore_index != 0)
        ignore = opt->ignore_index;
    if (w != NULL && (w->n_dims != 1 || w->dims[0] != n_classes))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a weight for each of %lld classes, got %s",
                       name, (long long)n_classes, TTI_SHAPE_OF(w));
    *c = (tti_classes){ .target = tti_contiguous(tti_cast(target, TT_I64)),
                        .weight = tti_contiguous(tti_cast(w, dtype == TT_F64 ? TT_F64 : TT_F32)) };
    if (c->target == NULL || (w != NULL && c->weight == NULL))
        return tt_last_status();
    if (!on_host(c->target))
        return check_on_device(
            c, &(tti_class_range){ n_classes, ignore, strcmp(name, "nll_loss") == 0 },
            dtype == TT_F64 ? TT_F64 : TT_F32);
    return check_classes(name, c, n_classes, ignore);
}

tt_tensor *tti_classes_mean(const tti_classes *c, tt_tensor *sum)
{
    if (sum == NULL || c->sum == NULL)
        return tt_div_scalar(sum, c->total);
    return tt_div(sum, tti_cast(c->sum, (tt_dtype)sum->dtype));
}

tt_tensor *tti_classes_row_weights(const tti_classes *c, tt_dtype dtype)
{
    const tti_class_range any = { .n_classes = INT64_MAX, .ignore = -1 };
    tt_tensor *out, *marked;
    const int64_t *t;

    if (!on_host(c->target))
        return classes_on_device(c, &any, &marked, &out,
                                 c->weight != NULL ? (tt_dtype)c->weight->dtype
                                                   : (dtype == TT_F64 ? TT_F64 : TT_F32)) == TT_OK
                   ? tti_cast(out, dtype)
                   : NULL;
    out = tti_empty(TT_SHAPE(c->target->numel).dims, 1, TT_F64, c->target->device);
    t = tti_data(c->target);
    for (int64_t i = 0; out != NULL && i < c->target->numel; i++)
        ((double *)tti_data(out))[i] = t[i] < 0 ? 0.0 : weight_of(c, t[i]);
    return tti_cast(out, dtype);
}

tt_tensor *tti_classes_index(const tti_classes *c)
{
    int64_t n = c->target->numel;
    tt_tensor *out;
    const int64_t *t;

    if (!on_host(c->target))
        return tt_reshape(tt_clamp(c->target, 0.0, INFINITY), TT_SHAPE(n));
    out = tti_empty(&n, 1, TT_I64, c->target->device);
    t = tti_data(c->target);
    for (int64_t i = 0; out != NULL && i < n; i++)
        ((int64_t *)tti_data(out))[i] = t[i] < 0 ? 0 : t[i];
    return out;
}
