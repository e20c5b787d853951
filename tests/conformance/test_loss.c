/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance rows: losses. */
#include "conformance/conformance.h"

#include <tutti/testing.h>

static tt_tensor *cross_entropy_row(tt_tensor *const *in)
{
    return tt_cross_entropy(in[0], in[1]);
}

static tt_tensor *cross_entropy_probabilities_row(tt_tensor *const *in)
{
    return tt_cross_entropy(in[0], in[1]);
}

static tt_tensor *cross_entropy_with_row(tt_tensor *const *in)
{
    return tt_cross_entropy_with(
        in[0], in[1], &(tt_loss_options){ .label_smoothing = 0.1, .reduction = TT_REDUCTION_SUM });
}

static tt_tensor *nll_loss_row(tt_tensor *const *in)
{
    return tt_nll_loss(in[0], in[1], NULL);
}

static tt_tensor *mse_loss_row(tt_tensor *const *in)
{
    return tt_mse_loss(in[0], in[1]);
}

static tt_tensor *mse_loss_with_row(tt_tensor *const *in)
{
    return tt_mse_loss_with(in[0], in[1], &(tt_loss_options){ .reduction = TT_REDUCTION_SUM });
}

static tt_tensor *l1_loss_row(tt_tensor *const *in)
{
    return tt_l1_loss(in[0], in[1], NULL);
}

static tt_tensor *smooth_l1_loss_row(tt_tensor *const *in)
{
    return tt_smooth_l1_loss(in[0], in[1], 0.5, NULL);
}

static tt_tensor *bce_with_logits_row(tt_tensor *const *in)
{
    return tt_bce_with_logits(in[0], in[1], NULL);
}

static tt_tensor *bce_with_logits_none_row(tt_tensor *const *in)
{
    return tt_bce_with_logits(in[0], in[1], &(tt_loss_options){ .reduction = TT_REDUCTION_NONE });
}

static tt_tensor *kl_div_row(tt_tensor *const *in)
{
    return tt_kl_div(in[0], in[1], NULL);
}

static tt_tensor *kl_div_log_target_row(tt_tensor *const *in)
{
    return tt_kl_div(in[0], in[1], &(tt_loss_options){ .log_target = true });
}

static tt_tensor *cross_entropy_planes_row(tt_tensor *const *in)
{
    return tt_cross_entropy(in[0], in[1]);
}

static tt_tensor *cross_entropy_ignore_row(tt_tensor *const *in)
{
    return tt_cross_entropy_with(in[0], in[1],
                                 &(tt_loss_options){ .has_ignore_index = true,
                                                     .ignore_index = 1,
                                                     .reduction = TT_REDUCTION_NONE });
}

static tt_tensor *nll_loss_sum_row(tt_tensor *const *in)
{
    return tt_nll_loss(in[0], in[1], &(tt_loss_options){ .reduction = TT_REDUCTION_SUM });
}

static tt_tensor *l1_loss_none_row(tt_tensor *const *in)
{
    return tt_l1_loss(in[0], in[1], &(tt_loss_options){ .reduction = TT_REDUCTION_NONE });
}

static const conform_row rows[] = {
    { "cross_entropy", cross_entropy_row, "fNx4 i4:N", 0, 0 },
    { "cross_entropy.probabilities", cross_entropy_probabilities_row, "fNx4 uNx4", 0, 0 },
    { "cross_entropy_with", cross_entropy_with_row, "fNx4 i4:N", 0, 0 },
    { "nll_loss", nll_loss_row, "fNx4 i4:N", 0, 0 },
    { "mse_loss", mse_loss_row, "fNx4 fNx4", 0, 0 },
    { "mse_loss_with", mse_loss_with_row, "fNx4 fNx4", 0, 0 },
    { "l1_loss", l1_loss_row, "fNx4 fNx4", 0, 0 },
    { "smooth_l1_loss", smooth_l1_loss_row, "fNx4 fNx4", 0, 0 },
    { "bce_with_logits", bce_with_logits_row, "fNx4 uNx4", 0, 0 },
    { "bce_with_logits.none", bce_with_logits_none_row, "fNx4 uNx4", 0, 0 },
    { "kl_div", kl_div_row, "fNx4 uNx4", 0, 0 },
    { "kl_div.log_target", kl_div_log_target_row, "fNx4 fNx4", 0, 0 },
    { "cross_entropy.planes", cross_entropy_planes_row, "fNx4x2 i4:Nx2", 0, 0 },
    { "cross_entropy.ignore", cross_entropy_ignore_row, "fNx4 i4:N", 0, 0 },
    { "nll_loss.sum", nll_loss_sum_row, "fNx4 i4:N", 0, 0 },
    { "l1_loss.none", l1_loss_none_row, "fNx4 fNx4", 0, 0 },
};

TT_TEST_TABLE(conformance_loss)
{
    conform_add("loss", rows, (int)(sizeof(rows) / sizeof(rows[0])));
}
