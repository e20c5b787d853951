/* SPDX-License-Identifier: Apache-2.0 */
/* Golden losses. */
#include <string.h>

#include "golden/golden.h"

static tt_loss_options options(const golden_call *c)
{
    const char *reduction = golden_word(c, "reduction", "mean");
    tt_loss_options opt = { .label_smoothing = golden_real(c, "label_smoothing", 0),
                            .ignore_index = golden_int(c, "ignore_index", 0),
                            .has_ignore_index = golden_has(c, "ignore_index"),
                            .log_target = golden_flag(c, "log_target", false) };

    if (strcmp(reduction, "sum") == 0)
        opt.reduction = TT_REDUCTION_SUM;
    else if (strcmp(reduction, "none") == 0)
        opt.reduction = TT_REDUCTION_NONE;
    return opt;
}

static void cross_entropy(golden_call *c)
{
    tt_loss_options opt = options(c);

    opt.weight = c->in[2];
    c->out[0] = tt_cross_entropy_with(c->in[0], c->in[1], &opt);
}

static void nll_loss(golden_call *c)
{
    tt_loss_options opt = options(c);

    opt.weight = c->in[2];
    c->out[0] = tt_nll_loss(c->in[0], c->in[1], &opt);
}

static void mse_loss(golden_call *c)
{
    tt_loss_options opt = options(c);

    c->out[0] = tt_mse_loss_with(c->in[0], c->in[1], &opt);
}

static void l1_loss(golden_call *c)
{
    tt_loss_options opt = options(c);

    c->out[0] = tt_l1_loss(c->in[0], c->in[1], &opt);
}

static void smooth_l1_loss(golden_call *c)
{
    tt_loss_options opt = options(c);

    c->out[0] = tt_smooth_l1_loss(c->in[0], c->in[1], golden_real(c, "beta", 1), &opt);
}

/* Huber's loss is delta times the smooth one with beta = delta. */
static void huber_loss(golden_call *c)
{
    tt_loss_options opt = options(c);
    double delta = golden_real(c, "delta", 1);

    c->out[0] = tt_mul_scalar(tt_smooth_l1_loss(c->in[0], c->in[1], delta, &opt), delta);
}

static void bce_with_logits(golden_call *c)
{
    tt_loss_options opt = options(c);

    opt.weight = c->in[2];
    opt.pos_weight = c->in[3];
    c->out[0] = tt_bce_with_logits(c->in[0], c->in[1], &opt);
}

static void kl_div(golden_call *c)
{
    tt_loss_options opt = options(c);
    bool batch = strcmp(golden_word(c, "reduction", "mean"), "batchmean") == 0;

    if (batch)
        opt.reduction = TT_REDUCTION_SUM;
    c->out[0] = tt_kl_div(c->in[0], c->in[1], &opt);
    if (batch)
        c->out[0] = tt_div_scalar(c->out[0], (double)tt_tensor_size(c->in[0], 0));
}

const golden_op golden_ops_loss[] = {
    { "cross_entropy", .run = cross_entropy },
    { "nll_loss", .run = nll_loss },
    { "mse_loss", .run = mse_loss },
    { "l1_loss", .run = l1_loss },
    { "smooth_l1_loss", .run = smooth_l1_loss },
    { "huber_loss", .run = huber_loss },
    { "bce_with_logits", .run = bce_with_logits },
    { "kl_div", .run = kl_div },
    { NULL },
};
