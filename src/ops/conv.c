/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions. Three operators, each linear in both operands, are enough for everything:
 *
 *     conv(x, w) = y          the convolution
 *     conv_input(y, w) = x    its transpose: the gradient of x, and the transposed convolution
 *     conv_weight(y, x) = w   the gradient of w
 *
 * The gradients of each are the other two, so they can be differentiated any number of times. 1-D
 * convolutions are 2-D ones of height 1. */
#include "base/error.h"
#include "ops/op.h"

static tt_tensor *conv(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tti_conv *g);
static tt_tensor *conv_input(tt_tensor *y, tt_tensor *w, const tti_conv *g);
static tt_tensor *conv_weight(const tti_node *n, tt_tensor *y, tt_tensor *x, const tti_conv *g);

/* ---- the three operators ------------------------------------------------------------------ */

static tt_tensor *bias_grad(tt_tensor *gy)
{
    return tt_sum_dims(gy, (const int[]){ 0, 2, 3 }, 3, false);
}

/* A saved operand as it enters gradients: conjugated, which costs nothing for real types. */
static tt_tensor *saved(tti_node *n, int i)
{
    return tt_conj(tti_saved_get(n, i));
}

static tt_status conv_backward(tti_node *n, tt_tensor *const *go, tt_tensor **gi)
{
    const tti_conv *g = tti_attrs(n);
    tt_tensor *x, *w;

    if (tti_needs(n, 2))
        TT_TRY(tti_give(&gi[2], bias_grad(go[0])));
    if (tti_needs(n, 1)) {
        x = saved(n, 0);
        TT_TRY(tti_give(&gi[1], conv_weight(n, go[0], x, g)));
    }
    if (tti_needs(n, 0)) {
        w = saved(n, 1);
        TT_TRY(tti_give(&gi[0], conv_input(go[0], w, g)));
    }
    return TT_OK;
}

static tt_status conv_input_backward(tti_node *n, tt_tensor *const *go, tt_tensor **gi)
{
    const tti_conv *g = tti_attrs(n);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&gi[0], conv(go[0], saved(n, 1), NULL, g)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&gi[1], conv_weight(n, saved(n, 0), go[0], g)));
    return TT_OK;
}

static tt_status conv_weight_backward(tti_node *n, tt_tensor *const *go, tt_tensor **gi)
{
    const tti_conv *g = tti_attrs(n);

    if (tti_needs(n, 0))
        TT_TRY(tti_give(&gi[0], conv(saved(n, 1), go[0], NULL, g)));
    if (tti_needs(n, 1))
        TT_TRY(tti_give(&gi[1], conv_input(saved(n, 0), go[0], g)));
    return TT_OK;
}

static const tti_op op_conv = { "conv", conv_backward, 0 };
static const tti_op op_conv_input = { "conv_input", conv_input_backward, 0 };
static const tti_op op_conv_weight = { "conv_weight", conv_weight_backward, 0 };

static tt_tensor *conv(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tti_conv *g)
{
    tt_tensor *in[] = { x, w, b };
    tti_call c = { .op = &op_conv,
                   .n_in = 3,
                   .in = in,
                   .optional = 1u << 2,
                   .attrs = g,
                   .attrs_bytes = sizeof *g };
    int64_t dims[] = { g->n, g->oc, g->oh, g->ow };
    tt_tensor *y;

    if (!tti_call_begin(&c))
        return NULL;
    tti_call_save(&c, x);
    tti_call_save(&c, w);
    y = tti_empty(dims, 4, (tt_dtype)w->dtype, w->device);
    x = tti_contiguous(x);
    w = tti_contiguous(w);
    if (y == NULL || x == NULL || w == NULL || (b != NULL && (b = tti_contiguous(b)) == NULL))
        return tti_call_end(&c, NULL, tt_last_status());
    return tti_call_end(&c, y, TTI_RUN("conv", w, nn, conv, y, x, w, b, g));
}

static tt_tensor *conv_input(tt_tensor *y, tt_tensor *w, const tti_conv *g)
{
    tt_tensor *in[] = { y, w };
    tti_call c = {
        .op = &op_conv_input, .n_in = 2, .in = in, .attrs = g, .attrs_bytes = sizeof *g
    };
    int64_t dims[] = { g->n, g->c, g->h, g->w };
    tt_tensor *x;

    if (!tti_call_begin(&c))
        return NULL;
    tti_call_save(&c, y);
    tti_call_save(&c, w);
    x = tti_empty(dims, 4, (tt_dtype)w->dtype, w->device);
    y = tti_contiguous(y);
    w = tti_contiguous(w);
    if (x == NULL || y == NULL || w == NULL)
        return tti_call_end(&c, NULL, tt_last_status());
    return tti_call_end(&c, x, TTI_RUN("conv_input", w, nn, conv_grad_input, x, y, w, g));
}

/* As the gradient of input 1 of n. */
static tt_tensor *conv_weight(const tti_node *n, tt_tensor *y, tt_tensor *x, const tti_conv *g)
{
    tt_tensor *in[] = { y, x };
    tti_call c = {
        .op = &op_conv_weight, .n_in = 2, .in = in, .attrs = g, .attrs_bytes = sizeof *g
    };
    int64_t dims[] = { g->oc, g->c / g->groups, g->kh, g->kw };
    tt_tensor *w;

    if (!tti_call_begin(&c))
        return NULL;
    tti_call_save(&c, y);
    tti_call_save(&c, x);
    w = tti_grad_new(n, 1, dims, 4, (tt_dtype)y->dtype, y->device);
    y = tti_contiguous(y);
    x = tti_contiguous(x);
    if (w == NULL || x == NULL || y == NULL)
        return tti_call_end(&c, NULL, tt_last_status());
    return tti_call_end(&c, w, TTI_RUN("conv_weight", w, nn, conv_grad_weight, w, y, x, g));
}

/* ---- options and sizes ------------------------------------------------------------------------ */

static int64_t or_one(int64_t v)
{
    return v != 0 ? v : 1;
}

static tt_status read_options(const char *name, const tt_conv_options *opt, int first, tti_conv *g)
{
    tt_conv_options o = opt != NULL ? *opt : (tt_conv_options){ 0 };

    g->groups = or_one(o.groups);
    g->stride[0] = 1;
    g->dilation[0] = 1;
    g->pad[0] = 0;
    for (int i = first; i < 2; i++) {
        g->stride[i] = or_one(o.stride[i - first]);
        g->dilation[i] = or_one(o.dilation[i - first]);
        g->pad[i] = o.padding[i - first];
        if (g->stride[i] < 1 || g->dilation[i] < 1 || g->pad[i] < 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "%s: stride and dilation must be positive and padding not negative",
                           name);
    }
    if (g->groups < 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected at least one group, got %lld", name,
                       (long long)g->groups);
    return TT_OK;
}

static tt_status check_tensors(const char *name, const tt_tensor *x, const tt_tensor *w,
                               const tt_tensor *b)
{
    if (x->n_dims != 4 || w->n_dims != 4)
        return TT_FAIL(
            TT_ERR_INVALID, "%s: expected an input and a weight of %s, got shapes %s and %s", name,
            name[4] == '1' ? "3 dimensions" : "4 dimensions", TTI_SHAPE_OF(x), TTI_SHAPE_OF(w));
    if (x->dtype != w->dtype || (b != NULL && b->dtype != w->dtype))
        return TT_FAIL(
            TT_ERR_INVALID, "%s: expected input, weight and bias of one type, got %s, %s%s%s", name,
            tt_dtype_name((tt_dtype)x->dtype), tt_dtype_name((tt_dtype)w->dtype),
            b != NULL ? " and " : "", b != NULL ? tt_dtype_name((tt_dtype)b->dtype) : "");
    return tti_check_number(name, x, true);
}

static tt_status check_bias(const char *name, const tt_tensor *b, int64_t channels)
{
    if (b != NULL && (b->n_dims != 1 || b->dims[0] != channels))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a bias of shape [%lld], got %s", name,
                       (long long)channels, TTI_SHAPE_OF(b));
    return TT_OK;
}

/* 0 when the kernel does not fit, also when its extent or the padded input is beyond any number. */
static int64_t out_size(int64_t in, int64_t kernel, const tti_conv *g, int i)
{
    int64_t span, padded;

    if (__builtin_mul_overflow(g->dilation[i], kernel - 1, &span) ||
        __builtin_mul_overflow(g->pad[i], 2, &padded) ||
        __builtin_add_overflow(padded, in, &padded))
        return 0;
    return padded <= span ? 0 : (padded - span - 1) / g->stride[i] + 1;
}

static tt_status conv_sizes(const char *name, const tt_tensor *x, const tt_tensor *w, tti_conv *g)
{
    g->n = x->dims[0];
    g->c = x->dims[1];
    g->h = x->dims[2];
    g->w = x->dims[3];
    g->oc = w->dims[0];
    g->kh = w->dims[2];
    g->kw = w->dims[3];
    if (g->c != w->dims[1] * g->groups || g->oc % g->groups != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: weight %s with %lld groups takes %lld channels, the input %s has %lld",
                       name, TTI_SHAPE_OF(w), (long long)g->groups,
                       (long long)(w->dims[1] * g->groups), TTI_SHAPE_OF(x), (long long)g->c);
    g->oh = out_size(g->h, g->kh, g, 0);
    g->ow = out_size(g->w, g->kw, g, 1);
    if (g->oh < 1 || g->ow < 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: the kernel %s is larger than the padded input %s", name,
                       TTI_SHAPE_OF(w), TTI_SHAPE_OF(x));
    return TT_OK;
}

/* ---- public -------------------------------------------------------------------------------- */

static tt_tensor *conv2d(const char *name, tt_tensor *x, tt_tensor *w, tt_tensor *b,
                         const tt_conv_options *opt, int first)
{
    tti_conv g = { 0 };
    bool last;

    TTI_AUTOCAST(TTI_LOW, &x, &w, &b);
    if (x == NULL || w == NULL)
        return TT_NULL_GIVEN(name, "an input and a weight");
    if (check_tensors(name, x, w, b) != TT_OK || read_options(name, opt, first, &g) != TT_OK ||
        conv_sizes(name, x, w, &g) != TT_OK || check_bias(name, b, g.oc) != TT_OK)
        return NULL;
    last = !tti_is_contiguous(x) && tt_tensor_is_contiguous(x, TT_FORMAT_CHANNELS_LAST);
    x = conv(x, w, b, &g);
    return last ? tt_to_format(x, TT_FORMAT_CHANNELS_LAST) : x;
}

/* An input without a batch dimension gets one for the call. */
static bool lacks_batch(const tt_tensor *x, const tt_tensor *w)
{
    return x != NULL && w != NULL && x->n_dims == w->n_dims - 1;
}

tt_tensor *tt_conv2d(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tt_conv_options *opt)
{
    if (lacks_batch(x, w))
        return tt_squeeze_dim(conv2d("conv2d", tt_unsqueeze(x, 0), w, b, opt, 0), 0);
    return conv2d("conv2d", x, w, b, opt, 0);
}

tt_tensor *tt_conv1d(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tt_conv_options *opt)
{
    TTI_AUTOCAST(TTI_LOW, &x, &w, &b);
    if (lacks_batch(x, w))
        return tt_squeeze_dim(tt_conv1d(tt_unsqueeze(x, 0), w, b, opt), 0);
    if (x == NULL || w == NULL)
        return TT_NULL_GIVEN("conv1d", "an input and a weight");
    if (x->n_dims != 3 || w->n_dims != 3)
        return TT_FAIL_NULL(
            TT_ERR_INVALID,
            "conv1d: expected an input and a weight of 3 dimensions, got shapes %s and %s",
            TTI_SHAPE_OF(x), TTI_SHAPE_OF(w));
    return tt_squeeze_dim(conv2d("conv1d", tt_unsqueeze(x, 2), tt_unsqueeze(w, 2), b, opt, 1), 2);
}

/* Without output padding. 0 when it would be beyond any number. */
static int64_t transposed_size(int64_t in, int64_t kernel, const tti_conv *g, int i)
{
    int64_t steps, span, pad, size;

    if (__builtin_mul_overflow(in - 1, g->stride[i], &steps) ||
        __builtin_mul_overflow(g->dilation[i], kernel - 1, &span) ||
        __builtin_mul_overflow(g->pad[i], 2, &pad) || __builtin_add_overflow(steps, span, &size) ||
        __builtin_sub_overflow(size, pad, &size) || __builtin_add_overflow(size, 1, &size))
        return 0;
    return size;
}

/* The sizes of the convolution whose transpose this is: its output is our input. */
static tt_status transpose_sizes(const tt_tensor *x, const tt_tensor *w, const tt_conv_options *opt,
                                 tti_conv *g)
{
    const int64_t *extra = opt != NULL ? opt->output_padding : (const int64_t[3]){ 0 };
    int64_t *size[] = { &g->h, &g->w };

    g->n = x->dims[0];
    g->oc = x->dims[1];
    g->oh = x->dims[2];
    g->ow = x->dims[3];
    g->c = w->dims[1] * g->groups;
    g->kh = w->dims[2];
    g->kw = w->dims[3];
    if (w->dims[0] != g->oc || g->oc % g->groups != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "conv_transpose2d: weight %s takes %lld channels, the input %s has %lld",
                       TTI_SHAPE_OF(w), (long long)w->dims[0], TTI_SHAPE_OF(x), (long long)g->oc);
    for (int i = 0; i < 2; i++) {
        if (extra[i] < 0 || (extra[i] >= g->stride[i] && extra[i] >= g->dilation[i]))
            return TT_FAIL(
                TT_ERR_INVALID,
                "conv_transpose2d: output padding %lld must be smaller than the stride or "
                "the dilation",
                (long long)extra[i]);
        *size[i] = transposed_size(x->dims[2 + i], w->dims[2 + i], g, i);
        if (*size[i] < 1 || __builtin_add_overflow(*size[i], extra[i], size[i]))
            return TT_FAIL(TT_ERR_INVALID,
                           "conv_transpose2d: the result of %s would be empty or too large",
                           TTI_SHAPE_OF(x));
    }
    return TT_OK;
}

tt_tensor *tt_conv_transpose2d(tt_tensor *x, tt_tensor *w, tt_tensor *b, const tt_conv_options *opt)
{
    static const char name[] = "conv_transpose2d";
    tti_conv g = { 0 };
    tt_tensor *y;

    TTI_AUTOCAST(TTI_LOW, &x, &w, &b);
    if (lacks_batch(x, w))
        return tt_squeeze_dim(tt_conv_transpose2d(tt_unsqueeze(x, 0), w, b, opt), 0);
    if (x == NULL || w == NULL)
        return TT_NULL_GIVEN(name, "an input and a weight");
    if (check_tensors(name, x, w, b) != TT_OK || read_options(name, opt, 0, &g) != TT_OK ||
        transpose_sizes(x, w, opt, &g) != TT_OK || check_bias(name, b, g.c) != TT_OK)
        return NULL;
    y = conv_input(x, w, &g);
    return b != NULL ? tt_add(y, tt_reshape(b, TT_SHAPE(1, -1, 1, 1))) : y;
}
