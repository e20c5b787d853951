/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of pairs of elements. Means and sums over tensors of one shape and type are one fused
 * operator; everything else is made of other operators. */
#include "ops/loss.h"

typedef struct pair_attrs {
    tti_pair_loss kind;
    double p[2]; /* factor, beta */
} pair_attrs;

/* The loss of each element. */
static tt_tensor *elements(tti_pair_loss kind, tt_tensor *a, tt_tensor *b, double beta)
{
    tt_tensor *d, *size;

    if (kind == TTI_LOSS_BCE)
        return tt_add(tt_mul(tt_rsub_scalar(b, 1.0), a), tt_softplus(tt_neg(a), 1.0, 1e30));
    d = tt_sub(a, b);
    if (kind == TTI_LOSS_MSE)
        return tt_square(d);
    size = tt_abs(d);
    if (kind == TTI_LOSS_L1)
        return size;
    return tt_where(tt_lt_scalar(size, beta), tt_mul_scalar(tt_square(d), 0.5 / beta),
                    tt_sub_scalar(size, 0.5 * beta));
}

/* Its derivative by a, in operators that can be differentiated again. */
static tt_tensor *slope(tti_pair_loss kind, tt_tensor *a, tt_tensor *b, double beta)
{
    if (kind == TTI_LOSS_BCE)
        return tt_sub(tt_sigmoid(a), b);
    if (kind == TTI_LOSS_MSE)
        return tt_mul_scalar(tt_sub(a, b), 2.0);
    if (kind == TTI_LOSS_L1)
        return tt_sign(tt_sub(a, b));
    return tt_clamp(tt_div_scalar(tt_sub(a, b), beta), -1.0, 1.0);
}

static tt_status grad_target(tti_node *n, tt_tensor *g, tt_tensor *a, tt_tensor *da,
                             tt_tensor **grad_in)
{
    const pair_attrs *at = tti_attrs(n);

    if (at->kind == TTI_LOSS_BCE)
        return tti_give(grad_in, tt_mul(tt_mul_scalar(g, -at->p[0]), a));
    return tti_give(grad_in, tt_neg(da));
}

static tt_status pair_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const pair_attrs *at = tti_attrs(n);
    tt_tensor *a = tti_saved_get(n, 0), *b = tti_saved_get(n, 1), *g = grad_out[0], *da;

    if (a == NULL || b == NULL)
        return tt_last_status();
    if (tti_grad_mode == TT_GRAD_ON) {
        da = tt_mul(tt_mul_scalar(g, at->p[0]), slope(at->kind, a, b, at->p[1]));
    } else {
        a = tti_contiguous(a);
        b = tti_contiguous(b);
        if (a == NULL || b == NULL)
            return tt_last_status();
        da = tti_empty(a->dims, a->n_dims, (tt_dtype)a->dtype, a->device);
        TT_TRY(tti_made(da));
        TT_TRY(TTI_RUN(n->op->name, a, nn, pair_loss_grad, at->kind, da, g, a, b, at->p));
    }
    if (tti_needs(n, 1))
        TT_TRY(grad_target(n, g, a, da, &grad_in[1]));
    return tti_give(grad_in, da);
}

static const tti_op pair_ops[TTI_N_PAIR_LOSSES] = {
    [TTI_LOSS_MSE] = { .name = "mse_loss", .backward = pair_backward },
    [TTI_LOSS_L1] = { .name = "l1_loss", .backward = pair_backward },
    [TTI_LOSS_SMOOTH_L1] = { .name = "smooth_l1_loss", .backward = pair_backward },
    [TTI_LOSS_BCE] = { .name = "bce_with_logits", .backward = pair_backward },
};

static tt_tensor *fused(tti_pair_loss kind, tt_tensor *a, tt_tensor *b, double factor, double beta)
{
    tt_tensor *const in[2] = { a, b };
    pair_attrs at = { kind, { factor, beta } };
    tti_call c = {
        .op = &pair_ops[kind], .n_in = 2, .in = in, .attrs = &at, .attrs_bytes = sizeof at
    };
    tt_tensor *out;

    if (!tti_call_begin(&c))
        return NULL;
    tti_call_save(&c, a);
    tti_call_save(&c, b);
    a = tti_contiguous(a);
    b = tti_contiguous(b);
    if (a == NULL || b == NULL || (out = tti_empty(NULL, 0, (tt_dtype)a->dtype, a->device)) == NULL)
        return NULL;
    return tti_call_end(&c, out,
                        TTI_RUN(pair_ops[kind].name, a, nn, pair_loss, kind, out, a, b, at.p));
}

static tt_tensor *pair_loss(tti_pair_loss kind, tt_tensor *a, tt_tensor *b, double beta,
                            const tt_loss_options *opt)
{
    tt_reduction reduction = opt != NULL ? opt->reduction : TT_REDUCTION_MEAN;

    if (!tti_loss_given(pair_ops[kind].name, a, b))
        return NULL;
    TTI_AUTOCAST(TTI_WIDE, &a, &b);
    if (a == NULL || b == NULL)
        return NULL;
    if (!tti_same_shape(a, b))
        tt_warn("broadcast", "%s: the input has shape %s and the target %s: is that meant?",
                pair_ops[kind].name, TTI_SHAPE_OF(a), TTI_SHAPE_OF(b));
    if (reduction != TT_REDUCTION_NONE && a->dtype == b->dtype && tti_same_shape(a, b) &&
        tt_dtype_is_floating((tt_dtype)a->dtype) && a->storage != NULL && b->storage != NULL &&
        TTI_HAS_KERNEL(a, nn, pair_loss))
        return fused(kind, a, b, reduction == TT_REDUCTION_MEAN ? 1.0 / (double)a->numel : 1.0,
                     beta);
    return tti_loss_reduce(elements(kind, a, b, beta), reduction);
}

tt_tensor *tt_mse_loss(tt_tensor *input, tt_tensor *target)
{
    return pair_loss(TTI_LOSS_MSE, input, target, 0.0, NULL);
}

tt_tensor *tt_mse_loss_with(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt)
{
    return pair_loss(TTI_LOSS_MSE, input, target, 0.0, opt);
}

tt_tensor *tt_l1_loss(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt)
{
    return pair_loss(TTI_LOSS_L1, input, target, 0.0, opt);
}

tt_tensor *tt_smooth_l1_loss(tt_tensor *input, tt_tensor *target, double beta,
                             const tt_loss_options *opt)
{
    if (beta < 0.0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "smooth_l1_loss: expected beta >= 0, got %g", beta);
    return pair_loss(beta == 0.0 ? TTI_LOSS_L1 : TTI_LOSS_SMOOTH_L1, input, target, beta, opt);
}

tt_tensor *tt_bce_with_logits(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt)
{
    tt_tensor *losses, *weight;

    if (!tti_loss_given("bce_with_logits", input, target))
        return NULL;
    if (!tti_same_shape(input, target))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "bce_with_logits: expected targets shaped like the logits %s, got %s",
                            TTI_SHAPE_OF(input), TTI_SHAPE_OF(target));
    if (opt == NULL || (opt->weight == NULL && opt->pos_weight == NULL))
        return pair_loss(TTI_LOSS_BCE, input, target, 0.0, opt);
    TTI_AUTOCAST(TTI_WIDE, &input, &target);
    losses = tt_softplus(tt_neg(input), 1.0, 1e30);
    if (opt->pos_weight != NULL) {
        weight = tt_mul(tt_sub_scalar(opt->pos_weight, 1.0), target);
        losses = tt_mul(losses, tt_add_scalar(weight, 1.0));
    }
    losses = tt_add(tt_mul(tt_rsub_scalar(target, 1.0), input), losses);
    if (opt->weight != NULL)
        losses = tt_mul(losses, opt->weight);
    return tti_loss_reduce(losses, opt->reduction);
}

/* target * (log target - input), 0 where the target is 0. */
tt_tensor *tt_kl_div(tt_tensor *input, tt_tensor *target, const tt_loss_options *opt)
{
    tt_tensor *losses, *logs;

    if (!tti_loss_given("kl_div", input, target))
        return NULL;
    TTI_AUTOCAST(TTI_WIDE, &input, &target);
    if (opt != NULL && opt->log_target) {
        losses = tt_mul(tt_exp(target), tt_sub(target, input));
    } else {
        logs = tt_mul(target, tt_log(target));
        logs = tt_masked_fill(logs, tt_eq_scalar(target, 0.0), 0.0);
        losses = tt_sub(logs, tt_mul(target, input));
    }
    return tti_loss_reduce(losses, opt != NULL ? opt->reduction : TT_REDUCTION_MEAN);
}
