/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy: one fused operator for rows of scores against classes, the rest made of others. */
#include "ops/loss.h"

typedef struct entropy_attrs {
    double factor; /* what the gradient of the result is multiplied by for each row */
    tt_reduction reduction;
} entropy_attrs;

/* Differentiable again: scale * w[t] * (softmax(x) - one_hot(t)), 0 where ignored. */
static tt_tensor *grad_by_parts(tti_node *n, tt_tensor *g)
{
    const entropy_attrs *a = tti_attrs(n);
    tt_tensor *x = tti_saved_get(n, 0), *hot, *weights, *column, *index;
    tti_classes c = { .target = tti_saved_get(n, 2) };
    int64_t rows;

    if (tti_has_saved(n, 3))
        c.weight = tti_saved_get(n, 3);
    if (x == NULL || c.target == NULL)
        return NULL;
    rows = x->dims[0];
    weights = tti_classes_row_weights(&c, (tt_dtype)x->dtype);
    column = tt_reshape(tt_mul_scalar(weights, a->factor), TT_SHAPE(rows, 1));
    index = tt_reshape(tti_classes_index(&c), TT_SHAPE(rows, 1));
    hot = tt_scatter(tt_zeros_like(x), 1, index,
                     tt_ones(TT_SHAPE(rows, 1), (tt_dtype)x->dtype, x->device));
    if (tti_has_saved(n, 4))
        g = tt_div(g, tti_cast(tti_saved_get(n, 4), (tt_dtype)g->dtype));
    if (g != NULL && g->n_dims == 1)
        g = tt_reshape(g, TT_SHAPE(rows, 1));
    return tt_mul(tt_mul(g, column), tt_sub(tt_softmax(x, 1), hot));
}

/* What rows are multiplied with, as kernels take it: divided by the sum of weights if only the device knows it. */
static tt_tensor *scale_of(tti_node *n, tt_tensor *g, tt_dtype real)
{
    tt_tensor *sum, *scale;

    g = tti_cast(g, real);
    if (g == NULL || !tti_has_saved(n, 4))
        return g;
    sum = tti_saved_get(n, 4);
    scale = tti_empty(NULL, 0, real, g->device);
    if (sum == NULL || scale == NULL || tti_binary(TTI_DIV, scale, g, sum, NULL) != TT_OK)
        return NULL;
    return scale;
}

static tt_status entropy_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const entropy_attrs *a = tti_attrs(n);
    tt_tensor *g = grad_out[0], *x, *lse, *target, *weight, *dx;

    if (tti_grad_mode == TT_GRAD_ON)
        return tti_give(grad_in, grad_by_parts(n, g));
    x = tti_saved_get(n, 0);
    lse = tti_saved_get(n, 1);
    target = tti_saved_get(n, 2);
    weight = tti_has_saved(n, 3) ? tti_saved_get(n, 3) : NULL;
    if (x == NULL || lse == NULL || target == NULL || (tti_has_saved(n, 3) && weight == NULL))
        return tt_last_status();
    g = scale_of(n, g, (tt_dtype)lse->dtype);
    x = tti_contiguous(x);
    dx = x != NULL ? tti_empty(x->dims, 2, (tt_dtype)x->dtype, x->device) : NULL;
    if (g == NULL || dx == NULL)
        return tt_last_status();
    TT_TRY(TTI_RUN("cross_entropy", x, nn, cross_entropy_grad, dx, x, lse, target, weight, g,
                   a->factor));
    return tti_give(grad_in, dx);
}

static const tti_op op_cross_entropy = { .name = "cross_entropy", .backward = entropy_backward };

/* losses [rows] and lse [rows] are statistics; out is the result. */
typedef struct entropy_out {
    tt_tensor *losses, *lse, *out;
} entropy_out;

/* The losses are added as the statistics they are, and rounded to the result's type once. */
static tt_status entropy_reduce(const entropy_out *o, const tti_classes *c, const entropy_attrs *a)
{
    tt_tensor *sum = o->out, *losses = o->losses;

    if (sum->dtype != losses->dtype)
        sum = tti_empty((const int64_t[]){ 1 }, 1, (tt_dtype)losses->dtype, losses->device);
    TT_TRY(tti_made(sum));
    TT_TRY(TTI_RUN("cross_entropy", losses, reduce, reduce, TTI_SUM, sum, losses, 1u, NULL));
    /* One reduced dimension is dropped by making the result 0-d afterwards. */
    sum->n_dims = o->out->n_dims = 0;
    if (c->sum != NULL && a->reduction == TT_REDUCTION_MEAN) /* only the device knows it */
        TT_TRY(tti_binary(TTI_DIV, sum, sum, c->sum, NULL));
    else if (a->factor != 1.0)
        TT_TRY(tti_unary(TTI_MUL_S, sum, sum, &a->factor));
    return sum != o->out ? tti_copy(o->out, sum) : TT_OK;
}

static tt_status entropy_kernel(const entropy_out *o, const tt_tensor *x, const tti_classes *c,
                                const entropy_attrs *a)
{
    TT_TRY(
        TTI_RUN("cross_entropy", x, nn, cross_entropy, o->losses, o->lse, x, c->target, c->weight));
    if (a->reduction == TT_REDUCTION_NONE)
        return o->out != o->losses ? tti_copy(o->out, o->losses) : TT_OK;
    return entropy_reduce(o, c, a);
}

/* Rows of scores against classes. */
static tt_tensor *fused(tt_tensor *x, const tti_classes *c, tt_reduction reduction)
{
    bool divides = reduction == TT_REDUCTION_MEAN && c->sum == NULL;
    entropy_attrs a = { .factor = divides ? 1.0 / c->total : 1.0, .reduction = reduction };
    tti_call call = {
        .op = &op_cross_entropy, .n_in = 1, .in = &x, .attrs = &a, .attrs_bytes = sizeof a
    };
    tt_tensor *flat;
    entropy_out o;
    tt_dtype stat;
    int64_t rows;

    if (!tti_call_begin(&call) || (flat = tti_contiguous(x)) == NULL)
        return NULL;
    rows = x->dims[0];
    stat = x->dtype == TT_F64 ? TT_F64 : TT_F32;
    o.lse = tti_empty(&rows, 1, stat, x->device);
    o.losses = tti_empty(&rows, 1, stat, x->device);
    if (reduction == TT_REDUCTION_NONE)
        o.out = x->dtype == stat ? o.losses : tti_empty(&rows, 1, (tt_dtype)x->dtype, x->device);
    else
        o.out = tti_empty((const int64_t[]){ 1 }, 1, (tt_dtype)x->dtype, x->device);
    if (o.lse == NULL || o.losses == NULL || o.out == NULL)
        return NULL;
    tti_call_save(&call, x);
    tti_call_save(&call, o.lse);
    tti_call_save(&call, c->target);
    tti_call_save(&call, c->weight);
    tti_call_save(&call, reduction == TT_REDUCTION_MEAN ? c->sum : NULL);
    return tti_call_end(&call, o.out, entropy_kernel(&o, flat, c, &a));
}

/* (1 - s) times the loss, and s / C times that of every class. */
static tt_tensor *smoothed(tt_tensor *x, const tti_classes *c, const tt_loss_options *opt)
{
    tt_tensor *logs = tt_log_softmax(x, 1), *rows, *every, *picked, *losses;
    int64_t n = x->dims[0], classes = x->dims[1];
    tti_classes plain = { .target = c->target };

    rows = tti_classes_row_weights(c, (tt_dtype)x->dtype);
    picked = tt_gather(logs, 1, tt_reshape(tti_classes_index(c), TT_SHAPE(n, 1)));
    picked = tt_mul(tt_reshape(picked, TT_SHAPE(n)), rows);
    every = c->weight != NULL ? tt_mul(logs, tti_cast(c->weight, (tt_dtype)x->dtype)) : logs;
    every = tt_sum_dim(every, 1, false);
    if (c->ignored)
        every = tt_mul(every, tti_classes_row_weights(&plain, (tt_dtype)x->dtype));
    losses = tt_add(tt_mul_scalar(picked, opt->label_smoothing - 1.0),
                    tt_mul_scalar(every, -opt->label_smoothing / (double)classes));
    if (opt->reduction == TT_REDUCTION_MEAN)
        return tti_classes_mean(c, tt_sum(losses));
    return tti_loss_reduce(losses, opt->reduction);
}

static tt_tensor *against_classes(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt)
{
    tt_tensor *rows = tti_loss_rows(input), *out;
    tti_classes c;

    if (rows == NULL || tti_classes_make("cross_entropy", target, rows->dims[1],
                                         (tt_dtype)input->dtype, opt, &c) != TT_OK)
        return NULL;
    if (opt->label_smoothing != 0.0)
        out = smoothed(rows, &c, opt);
    else
        out = fused(rows, &c, opt->reduction);
    if (opt->reduction == TT_REDUCTION_NONE && target->n_dims != 1)
        out = tt_reshape(out, tt_tensor_shape(target));
    return out;
}

static tt_tensor *against_probabilities(tt_tensor *input, tt_tensor *target,
                                        const tt_loss_options *opt)
{
    int dim = input->n_dims > 1 ? 1 : 0;
    double classes = (double)input->dims[dim], s = opt->label_smoothing;
    double rows = classes > 0 ? (double)input->numel / classes : 0;
    tt_tensor *logs = tt_log_softmax(input, dim), *losses;
    tt_shape shape = { .n_dims = input->n_dims - dim };

    if (s != 0.0)
        target = tt_add_scalar(tt_mul_scalar(target, 1.0 - s), s / classes);
    losses = tt_mul(logs, target);
    if (opt->weight != NULL) {
        for (int i = 0; i < shape.n_dims; i++)
            shape.dims[i] = i == 0 ? opt->weight->numel : 1;
        losses = tt_mul(losses, tt_reshape(opt->weight, shape));
    }
    losses = tt_neg(tt_sum_dim(losses, dim, false));
    if (opt->reduction == TT_REDUCTION_MEAN)
        return tt_div_scalar(tt_sum(losses), rows);
    return tti_loss_reduce(losses, opt->reduction);
}

tt_tensor *tt_cross_entropy_with(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt)
{
    static const tt_loss_options defaults;

    TTI_AUTOCAST(TTI_WIDE, &input, &target);
    if (!tti_loss_given("cross_entropy", input, target))
        return NULL;
    if (opt == NULL)
        opt = &defaults;
    if (tti_check_floating("cross_entropy", input, false) != TT_OK)
        return NULL;
    if (opt->label_smoothing < 0.0 || opt->label_smoothing > 1.0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "cross_entropy: expected label_smoothing from 0 to 1, got %g",
                            opt->label_smoothing);
    if (tt_dtype_is_floating((tt_dtype)target->dtype)) {
        if (!tti_same_shape(input, target) || input->n_dims == 0)
            return TT_FAIL_NULL(TT_ERR_INVALID,
                                "cross_entropy: expected probabilities shaped like the scores %s, "
                                "got %s; classes have an integer type such as int64, and "
                                "tt_to_dtype(target, TT_I64) makes them of numbers",
                                TTI_SHAPE_OF(input), TTI_SHAPE_OF(target));
        return against_probabilities(input, target, opt);
    }
    if (tti_loss_check("cross_entropy", input, target) != TT_OK)
        return NULL;
    return against_classes(input, target, opt);
}

tt_tensor *tt_cross_entropy(tt_tensor *input, tt_tensor *target)
{
    return tt_cross_entropy_with(input, target, NULL);
}

tt_tensor *tt_nll_loss(tt_tensor *log_probs, tt_tensor *target, const tt_loss_options *opt)
{
    tt_reduction reduction = opt != NULL ? opt->reduction : TT_REDUCTION_MEAN;
    tt_tensor *rows, *losses;
    tti_classes c;
    int64_t n;

    TTI_AUTOCAST(TTI_WIDE, &log_probs);
    if (!tti_loss_given("nll_loss", log_probs, target) ||
        tti_check_floating("nll_loss", log_probs, false) != TT_OK ||
        tti_loss_check("nll_loss", log_probs, target) != TT_OK)
        return NULL;
    rows = tti_loss_rows(log_probs);
    if (rows == NULL || tti_classes_make("nll_loss", target, rows->dims[1],
                                         (tt_dtype)log_probs->dtype, opt, &c) != TT_OK)
        return NULL;
    n = rows->dims[0];
    losses = tt_gather(rows, 1, tt_reshape(tti_classes_index(&c), TT_SHAPE(n, 1)));
    losses = tt_neg(tt_mul(tt_reshape(losses, TT_SHAPE(n)),
                           tti_classes_row_weights(&c, (tt_dtype)log_probs->dtype)));
    if (reduction == TT_REDUCTION_MEAN)
        return tti_classes_mean(&c, tt_sum(losses));
    if (reduction == TT_REDUCTION_NONE)
        return tt_reshape(losses, tt_tensor_shape(target));
    return tt_sum(losses);
}
