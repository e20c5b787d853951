/* SPDX-License-Identifier: Apache-2.0 */
/* The table of nn kernels of accelerators, and what their host code shares. */
#include "ops/accel/nn.h"

tt_status tti_nn_run(tti_nn_kernel *k, tt_device d, tt_dtype dtype, tti_grid grid,
                     const tti_arg *args, int n_args)
{
    tti_kernel *built =
        tti_kernel_get(&k->slots[dtype], d, k->program, tti_accel_type(dtype), k->name);

    if (built == NULL)
        return tt_last_status();
    return tti_launch(d, built, grid, args, n_args);
}

tti_grid tti_nn_grid(tt_device d, int64_t units, int64_t work)
{
    return tti_group_size(d) == 1 ? tti_grid_rows(d, (uint64_t)units, (uint64_t)work)
                                  : tti_grid_elements(d, (uint64_t)units);
}

int64_t tti_nn_tile(tt_device d)
{
    int group = tti_group_size(d);

    return group == 1 ? 64 : group;
}

const tti_nn_kernels tti_accel_nn = {
    .softmax = tti_accel_softmax,
    .softmax_grad = tti_accel_softmax_grad,
    .cross_entropy = tti_accel_cross_entropy,
    .cross_entropy_grad = tti_accel_cross_entropy_grad,
    .classes = tti_accel_classes,
    .conv = tti_accel_conv,
    .conv_grad_input = tti_accel_conv_grad_input,
    .conv_grad_weight = tti_accel_conv_grad_weight,
    .max_pool = tti_accel_max_pool,
    .avg_pool = tti_accel_avg_pool,
    .avg_pool_grad = tti_accel_avg_pool_grad,
    .adaptive_pool = tti_accel_adaptive_pool,
    .adaptive_avg_pool_grad = tti_accel_adaptive_avg_pool_grad,
    .max_pool_grad = tti_accel_max_pool_grad,
    .pair_loss = tti_accel_pair_loss,
    .pair_loss_grad = tti_accel_pair_loss_grad,
    .embedding = tti_accel_embedding,
    .embedding_grad = tti_accel_embedding_grad,
    .embedding_bag = tti_accel_embedding_bag,
    .embedding_bag_grad = tti_accel_embedding_bag_grad,
    .embedding_bag_rows = tti_accel_embedding_bag_rows,
    .embedding_bag_sums = tti_accel_embedding_bag_sums,
    .embedding_bag_weights_grad = tti_accel_embedding_bag_weights_grad,
    .attention = tti_accel_attention,
    .attention_grad = tti_accel_attention_grad,
    .dropout = tti_accel_dropout,
    .layer_norm = tti_accel_layer_norm,
    .layer_norm_grad = tti_accel_layer_norm_grad,
    .group_norm = tti_accel_group_norm,
    .group_norm_grad = tti_accel_group_norm_grad,
    .batch_norm_stats = tti_accel_batch_norm_stats,
    .batch_norm_apply = tti_accel_batch_norm_apply,
    .batch_norm_grad = tti_accel_batch_norm_grad,
    .batch_norm_input_grad = tti_accel_batch_norm_input_grad,
};
