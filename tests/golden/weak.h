/* SPDX-License-Identifier: Apache-2.0 */
/* Interim: operators that are not written yet are NULL here, and their cases skipped. */
#ifndef GOLDEN_WEAK_H
#define GOLDEN_WEAK_H

#pragma weak tt_all
#pragma weak tt_all_dim
#pragma weak tt_amax
#pragma weak tt_amin
#pragma weak tt_any
#pragma weak tt_any_dim
#pragma weak tt_argmax
#pragma weak tt_argmax_dim
#pragma weak tt_argmin
#pragma weak tt_argmin_dim
#pragma weak tt_argsort
#pragma weak tt_attention
#pragma weak tt_batch_norm
#pragma weak tt_bce_with_logits
#pragma weak tt_cross_entropy_with
#pragma weak tt_cumprod
#pragma weak tt_cumsum
#pragma weak tt_group_norm
#pragma weak tt_kl_div
#pragma weak tt_l1_loss
#pragma weak tt_layer_norm
#pragma weak tt_log_softmax
#pragma weak tt_logsumexp
#pragma weak tt_max
#pragma weak tt_max_dim
#pragma weak tt_min
#pragma weak tt_min_dim
#pragma weak tt_mse_loss_with
#pragma weak tt_nll_loss
#pragma weak tt_norm
#pragma weak tt_norm_dims
#pragma weak tt_prod
#pragma weak tt_prod_dim
#pragma weak tt_rms_norm
#pragma weak tt_smooth_l1_loss
#pragma weak tt_softmax
#pragma weak tt_sort
#pragma weak tt_std_dims
#pragma weak tt_topk
#pragma weak tt_var_dims

void skip_unwritten(void);

#endif
