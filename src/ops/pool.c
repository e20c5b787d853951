/* SPDX-License-Identifier: Apache-2.0 */
/* The pooling operators: options are checked and sizes worked out here. */
#include "base/error.h"
#include "ops/pool.h"

/* Passes on the failure that made an operand NULL, or records that it is. */
static bool given(const char *name, const tt_tensor *x)
{
    if (x == NULL)
        TTI_NULL("%s: operand 0 is NULL", name);
    return x != NULL;
}

/* One pooled dimension d of options: row or column. */
static tt_status take_options(const char *name, const tt_pool_options *opt, int from, int d,
                              tti_pool *p)
{
    p->kernel[d] = opt->kernel[from];
    p->stride[d] = opt->stride[from] != 0 ? opt->stride[from] : opt->kernel[from];
    p->pad[d] = opt->padding[from];
    p->dilation[d] = opt->dilation[from] != 0 ? opt->dilation[from] : 1;
    if (p->kernel[d] < 1 || p->stride[d] < 1 || p->dilation[d] < 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected kernel, stride and dilation of at least 1, got %lld, %lld "
                       "and %lld",
                       name, (long long)p->kernel[d], (long long)p->stride[d],
                       (long long)p->dilation[d]);
    if (p->kernel[d] > INT32_MAX || p->stride[d] > INT32_MAX || p->dilation[d] > INT32_MAX)
        return TT_FAIL(TT_ERR_INVALID, "%s: kernel, stride or dilation is larger than %d", name,
                       INT32_MAX);
    if (p->pad[d] < 0 || p->pad[d] > p->kernel[d] / 2)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected padding of at most half the kernel size, got padding %lld "
                       "for kernel %lld",
                       name, (long long)p->pad[d], (long long)p->kernel[d]);
    return TT_OK;
}

/* How many windows fit; with ceil_mode one more may hang over, if it starts inside or in the padding
 * on the left. */
static tt_status count_windows(const char *name, int64_t size, int d, bool ceil_mode, tti_pool *p)
{
    int64_t room = size + 2 * p->pad[d] - p->dilation[d] * (p->kernel[d] - 1) - 1;
    int64_t n = room < 0 ? 0 : (room + (ceil_mode ? p->stride[d] - 1 : 0)) / p->stride[d] + 1;

    if (room < 0 && ceil_mode)
        n = (room + p->stride[d] - 1) >= 0 ? 1 : 0;
    if (ceil_mode && n > 0 && (n - 1) * p->stride[d] >= size + p->pad[d])
        n--;
    if (n < 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected an input that holds a window, got size %lld for kernel %lld, "
                       "padding %lld, dilation %lld",
                       name, (long long)size, (long long)p->kernel[d], (long long)p->pad[d],
                       (long long)p->dilation[d]);
    *(d == 0 ? &p->oh : &p->ow) = n;
    return TT_OK;
}

static tt_status plan(const char *name, const tt_tensor *x, const tt_pool_options *opt, int spatial,
                      tti_pool_attrs *a)
{
    if (opt == NULL)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected options with a kernel size, got NULL", name);
    if (opt->divisor_override < 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a positive divisor, got %lld", name,
                       (long long)opt->divisor_override);
    TT_TRY(tti_check_number(name, x, false));
    TT_TRY(tti_pool_input(name, x, spatial, a));
    if (a->p.c == 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected an input with channels, got %s", name,
                       TTI_SHAPE_OF(x));
    a->p.kernel[0] = a->p.stride[0] = a->p.dilation[0] = a->p.oh = 1;
    a->p.divisor = opt->divisor_override;
    a->p.exclude_pad = opt->exclude_pad;
    if (spatial == 2) {
        TT_TRY(take_options(name, opt, 0, 0, &a->p));
        TT_TRY(count_windows(name, a->p.h, 0, opt->ceil_mode, &a->p));
    }
    TT_TRY(take_options(name, opt, spatial - 1, 1, &a->p));
    TT_TRY(count_windows(name, a->p.w, 1, opt->ceil_mode, &a->p));
    tti_pool_output(spatial, a);
    return TT_OK;
}

/* The result of pooling x, channels-last where x is. */
static tt_tensor *formatted_like(tt_tensor *y, const tt_tensor *x)
{
    bool last = !tti_is_contiguous(x) && tt_tensor_is_contiguous(x, TT_FORMAT_CHANNELS_LAST);

    return last && y != NULL ? tt_to_format(y, TT_FORMAT_CHANNELS_LAST) : y;
}

static tt_tensor *max_pool(const tti_op *op, tt_tensor *x, const tti_pool_attrs *a,
                           tt_tensor **indices_p)
{
    tt_tensor *y = tti_pool_max(op, x, a, indices_p);

    if (y != NULL && indices_p != NULL && (*indices_p = formatted_like(*indices_p, x)) == NULL)
        return NULL;
    return formatted_like(y, x);
}

static const tti_op op_max_pool1d = { "max_pool1d", tti_pool_max_backward, 0 };
static const tti_op op_max_pool2d = { "max_pool2d", tti_pool_max_backward, 0 };
static const tti_op op_avg_pool1d = { "avg_pool1d", tti_pool_avg_backward, 0 };
static const tti_op op_avg_pool2d = { "avg_pool2d", tti_pool_avg_backward, 0 };
static const tti_op op_adaptive_avg = { "adaptive_avg_pool2d", tti_pool_avg_backward, 0 };
static const tti_op op_adaptive_max = { "adaptive_max_pool2d", tti_pool_max_backward, 0 };

tt_tensor *tt_max_pool1d(tt_tensor *x, const tt_pool_options *opt)
{
    tti_pool_attrs a = { 0 };

    if (!given("max_pool1d", x) || plan("max_pool1d", x, opt, 1, &a) != TT_OK)
        return NULL;
    return tti_pool_max(&op_max_pool1d, x, &a, NULL);
}

tt_tensor *tt_max_pool2d(tt_tensor *x, const tt_pool_options *opt, tt_tensor **indices_p)
{
    tti_pool_attrs a = { 0 };

    if (!given("max_pool2d", x) || plan("max_pool2d", x, opt, 2, &a) != TT_OK)
        return NULL;
    return max_pool(&op_max_pool2d, x, &a, indices_p);
}

static tt_status plan_avg(const char *name, const tt_tensor *x, const tt_pool_options *opt,
                          int spatial, tti_pool_attrs *a)
{
    TT_TRY(plan(name, x, opt, spatial, a));
    if (x->dtype != TT_I64 && tt_dtype_is_integral((tt_dtype)x->dtype))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a floating or int64 tensor, got %s", name,
                       tt_dtype_name((tt_dtype)x->dtype));
    if (a->p.dilation[0] != 1 || a->p.dilation[1] != 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected no dilation: only maxima have it", name);
    return TT_OK;
}

tt_tensor *tt_avg_pool1d(tt_tensor *x, const tt_pool_options *opt)
{
    tti_pool_attrs a = { 0 };

    if (!given("avg_pool1d", x) || plan_avg("avg_pool1d", x, opt, 1, &a) != TT_OK)
        return NULL;
    return tti_pool_avg(&op_avg_pool1d, x, &a);
}

tt_tensor *tt_avg_pool2d(tt_tensor *x, const tt_pool_options *opt)
{
    tti_pool_attrs a = { 0 };

    if (!given("avg_pool2d", x) || plan_avg("avg_pool2d", x, opt, 2, &a) != TT_OK)
        return NULL;
    return formatted_like(tti_pool_avg(&op_avg_pool2d, x, &a), x);
}

static tt_status plan_adaptive(const char *name, const tt_tensor *x, int64_t out_h, int64_t out_w,
                               tti_pool_attrs *a)
{
    TT_TRY(tti_check_floating(name, x, false));
    TT_TRY(tti_pool_input(name, x, 2, a));
    if (out_h < 1 || out_w < 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected result sizes of at least 1, got %lld x %lld",
                       name, (long long)out_h, (long long)out_w);
    a->adaptive = true;
    a->p.oh = out_h;
    a->p.ow = out_w;
    tti_pool_output(2, a);
    return TT_OK;
}

tt_tensor *tt_adaptive_avg_pool2d(tt_tensor *x, int64_t out_h, int64_t out_w)
{
    tti_pool_attrs a = { 0 };

    if (!given("adaptive_avg_pool2d", x) ||
        plan_adaptive("adaptive_avg_pool2d", x, out_h, out_w, &a) != TT_OK)
        return NULL;
    return formatted_like(tti_pool_avg(&op_adaptive_avg, x, &a), x);
}

tt_tensor *tt_adaptive_max_pool2d(tt_tensor *x, int64_t out_h, int64_t out_w, tt_tensor **indices_p)
{
    tti_pool_attrs a = { 0 };

    if (!given("adaptive_max_pool2d", x) ||
        plan_adaptive("adaptive_max_pool2d", x, out_h, out_w, &a) != TT_OK)
        return NULL;
    return max_pool(&op_adaptive_max, x, &a, indices_p);
}
