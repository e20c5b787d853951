/* SPDX-License-Identifier: Apache-2.0 */
/* A dead tensor in every place of every call that takes one: the call says so and does nothing else. */
#include <stdlib.h>
#include <string.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *d, *x; /* dead, alive */
static tt_tensor *out[8];
static double numbers[8];

static void said(const char *file, int line, const char *call, bool refused)
{
    if (!refused || tt_last_status() != TT_ERR_INVALID ||
        strstr(tt_last_error(), ": this tensor is dead (float32 [2, 3], made by ones") == NULL)
        tt_test_fail(file, line, "%s: expected to hear of a dead tensor, got: %s", call,
                     tt_last_error());
    tt_clear_error();
}

#define GIVES_NULL(call) said(TT_TEST_HERE, #call, (call) == NULL)
#define REFUSES(call) said(TT_TEST_HERE, #call, (call) != TT_OK)
#define SAYS(call) ((void)(call), said(TT_TEST_HERE, #call, true))

static void begin(void)
{
    TT_REQUIRE_EQ(setenv("TUTTI_DEBUG_TENSORS", "1", 1), 0);
    TT_SCOPE {
        d = tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU);
    }
    x = tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU);
    tt_clear_error();
}

TT_TEST(debug_tensors, calls_with_dead_tensors_ops_1)
{
    begin();
    GIVES_NULL(tt_add(d, x));
    GIVES_NULL(tt_add(x, d));
    GIVES_NULL(tt_sub(d, x));
    GIVES_NULL(tt_sub(x, d));
    GIVES_NULL(tt_mul(d, x));
    GIVES_NULL(tt_mul(x, d));
    GIVES_NULL(tt_div(d, x));
    GIVES_NULL(tt_div(x, d));
    GIVES_NULL(tt_floor_divide(d, x));
    GIVES_NULL(tt_floor_divide(x, d));
    GIVES_NULL(tt_fmod(d, x));
    GIVES_NULL(tt_fmod(x, d));
    GIVES_NULL(tt_remainder(d, x));
    GIVES_NULL(tt_remainder(x, d));
    GIVES_NULL(tt_pow(d, x));
    GIVES_NULL(tt_pow(x, d));
    GIVES_NULL(tt_maximum(d, x));
    GIVES_NULL(tt_maximum(x, d));
    GIVES_NULL(tt_minimum(d, x));
    GIVES_NULL(tt_minimum(x, d));
    GIVES_NULL(tt_atan2(d, x));
    GIVES_NULL(tt_atan2(x, d));
    GIVES_NULL(tt_add_scaled(d, x, 1));
    GIVES_NULL(tt_add_scaled(x, d, 1));
    GIVES_NULL(tt_lerp(d, x, 1));
    GIVES_NULL(tt_lerp(x, d, 1));
    GIVES_NULL(tt_addcmul(d, x, x, 1));
    GIVES_NULL(tt_addcmul(x, d, x, 1));
    GIVES_NULL(tt_addcmul(x, x, d, 1));
    GIVES_NULL(tt_addcdiv(d, x, x, 1));
    GIVES_NULL(tt_addcdiv(x, d, x, 1));
    GIVES_NULL(tt_addcdiv(x, x, d, 1));
    GIVES_NULL(tt_add_scalar(d, 1));
    GIVES_NULL(tt_sub_scalar(d, 1));
    GIVES_NULL(tt_rsub_scalar(d, 1));
    GIVES_NULL(tt_mul_scalar(d, 1));
    GIVES_NULL(tt_div_scalar(d, 1));
    GIVES_NULL(tt_rdiv_scalar(d, 1));
    GIVES_NULL(tt_pow_scalar(d, 1));
    GIVES_NULL(tt_rpow_scalar(d, 1));
    GIVES_NULL(tt_add_(d, x));
    GIVES_NULL(tt_add_(x, d));
    GIVES_NULL(tt_sub_(d, x));
    GIVES_NULL(tt_sub_(x, d));
    GIVES_NULL(tt_mul_(d, x));
    GIVES_NULL(tt_mul_(x, d));
    GIVES_NULL(tt_div_(d, x));
    GIVES_NULL(tt_div_(x, d));
    GIVES_NULL(tt_add_scaled_(d, x, 1));
    GIVES_NULL(tt_add_scaled_(x, d, 1));
    GIVES_NULL(tt_lerp_(d, x, 1));
    GIVES_NULL(tt_lerp_(x, d, 1));
    GIVES_NULL(tt_addcmul_(d, x, x, 1));
    GIVES_NULL(tt_addcmul_(x, d, x, 1));
    GIVES_NULL(tt_addcmul_(x, x, d, 1));
    GIVES_NULL(tt_addcdiv_(d, x, x, 1));
    GIVES_NULL(tt_addcdiv_(x, d, x, 1));
    GIVES_NULL(tt_addcdiv_(x, x, d, 1));
    GIVES_NULL(tt_add_scalar_(d, 1));
    GIVES_NULL(tt_mul_scalar_(d, 1));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_ops_2)
{
    begin();
    GIVES_NULL(tt_div_scalar_(d, 1));
    GIVES_NULL(tt_fill_(d, 1));
    GIVES_NULL(tt_zero_(d));
    GIVES_NULL(tt_copy_(d, x));
    GIVES_NULL(tt_copy_(x, d));
    GIVES_NULL(tt_neg(d));
    GIVES_NULL(tt_abs(d));
    GIVES_NULL(tt_sign(d));
    GIVES_NULL(tt_square(d));
    GIVES_NULL(tt_reciprocal(d));
    GIVES_NULL(tt_exp(d));
    GIVES_NULL(tt_expm1(d));
    GIVES_NULL(tt_log(d));
    GIVES_NULL(tt_log1p(d));
    GIVES_NULL(tt_log2(d));
    GIVES_NULL(tt_log10(d));
    GIVES_NULL(tt_sqrt(d));
    GIVES_NULL(tt_rsqrt(d));
    GIVES_NULL(tt_sin(d));
    GIVES_NULL(tt_cos(d));
    GIVES_NULL(tt_tanh(d));
    GIVES_NULL(tt_sigmoid(d));
    GIVES_NULL(tt_erf(d));
    GIVES_NULL(tt_floor(d));
    GIVES_NULL(tt_ceil(d));
    GIVES_NULL(tt_round(d));
    GIVES_NULL(tt_trunc(d));
    GIVES_NULL(tt_clamp(d, 1, 1));
    GIVES_NULL(tt_clamp_tensor(d, x, x));
    GIVES_NULL(tt_clamp_tensor(x, d, x));
    GIVES_NULL(tt_clamp_tensor(x, x, d));
    GIVES_NULL(tt_clamp_(d, 1, 1));
    GIVES_NULL(tt_nan_to_num(d, 1, 1, 1));
    GIVES_NULL(tt_sqrt_(d));
    GIVES_NULL(tt_exp_(d));
    GIVES_NULL(tt_neg_(d));
    GIVES_NULL(tt_eq(d, x));
    GIVES_NULL(tt_eq(x, d));
    GIVES_NULL(tt_ne(d, x));
    GIVES_NULL(tt_ne(x, d));
    GIVES_NULL(tt_lt(d, x));
    GIVES_NULL(tt_lt(x, d));
    GIVES_NULL(tt_le(d, x));
    GIVES_NULL(tt_le(x, d));
    GIVES_NULL(tt_gt(d, x));
    GIVES_NULL(tt_gt(x, d));
    GIVES_NULL(tt_ge(d, x));
    GIVES_NULL(tt_ge(x, d));
    GIVES_NULL(tt_eq_scalar(d, 1));
    GIVES_NULL(tt_ne_scalar(d, 1));
    GIVES_NULL(tt_lt_scalar(d, 1));
    GIVES_NULL(tt_le_scalar(d, 1));
    GIVES_NULL(tt_gt_scalar(d, 1));
    GIVES_NULL(tt_ge_scalar(d, 1));
    GIVES_NULL(tt_logical_and(d, x));
    GIVES_NULL(tt_logical_and(x, d));
    GIVES_NULL(tt_logical_or(d, x));
    GIVES_NULL(tt_logical_or(x, d));
    GIVES_NULL(tt_logical_xor(d, x));
    GIVES_NULL(tt_logical_xor(x, d));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_ops_3)
{
    begin();
    GIVES_NULL(tt_logical_not(d));
    GIVES_NULL(tt_bitwise_and(d, x));
    GIVES_NULL(tt_bitwise_and(x, d));
    GIVES_NULL(tt_bitwise_or(d, x));
    GIVES_NULL(tt_bitwise_or(x, d));
    GIVES_NULL(tt_bitwise_xor(d, x));
    GIVES_NULL(tt_bitwise_xor(x, d));
    GIVES_NULL(tt_bitwise_not(d));
    GIVES_NULL(tt_isnan(d));
    GIVES_NULL(tt_isinf(d));
    GIVES_NULL(tt_isfinite(d));
    GIVES_NULL(tt_where(d, x, x));
    GIVES_NULL(tt_where(x, d, x));
    GIVES_NULL(tt_where(x, x, d));
    GIVES_NULL(tt_masked_fill(d, x, 1));
    GIVES_NULL(tt_masked_fill(x, d, 1));
    GIVES_NULL(tt_masked_select(d, x));
    GIVES_NULL(tt_masked_select(x, d));
    GIVES_NULL(tt_sum(d));
    GIVES_NULL(tt_mean(d));
    GIVES_NULL(tt_sum_dims(d, (int[]){ 0 }, 1, false));
    GIVES_NULL(tt_mean_dims(d, (int[]){ 0 }, 1, false));
    GIVES_NULL(tt_sum_dim(d, 0, false));
    GIVES_NULL(tt_mean_dim(d, 0, false));
    GIVES_NULL(tt_prod(d));
    GIVES_NULL(tt_prod_dim(d, 0, false));
    GIVES_NULL(tt_var_dims(d, (int[]){ 0 }, 1, 1, false));
    GIVES_NULL(tt_std_dims(d, (int[]){ 0 }, 1, 1, false));
    GIVES_NULL(tt_max(d));
    GIVES_NULL(tt_min(d));
    GIVES_NULL(tt_max_dim(d, 0, false, out));
    GIVES_NULL(tt_min_dim(d, 0, false, out));
    GIVES_NULL(tt_amax(d, (int[]){ 0 }, 1, false));
    GIVES_NULL(tt_amin(d, (int[]){ 0 }, 1, false));
    GIVES_NULL(tt_argmax(d));
    GIVES_NULL(tt_argmin(d));
    GIVES_NULL(tt_argmax_dim(d, 0, false));
    GIVES_NULL(tt_argmin_dim(d, 0, false));
    GIVES_NULL(tt_all(d));
    GIVES_NULL(tt_any(d));
    GIVES_NULL(tt_all_dim(d, 0, false));
    GIVES_NULL(tt_any_dim(d, 0, false));
    GIVES_NULL(tt_norm(d, 1));
    GIVES_NULL(tt_norm_dims(d, 1, (int[]){ 0 }, 1, false));
    GIVES_NULL(tt_logsumexp(d, 0, false));
    GIVES_NULL(tt_cumsum(d, 0));
    GIVES_NULL(tt_cumprod(d, 0));
    GIVES_NULL(tt_matmul(d, x));
    GIVES_NULL(tt_matmul(x, d));
    GIVES_NULL(tt_mm(d, x));
    GIVES_NULL(tt_mm(x, d));
    GIVES_NULL(tt_bmm(d, x));
    GIVES_NULL(tt_bmm(x, d));
    GIVES_NULL(tt_addmm(d, x, x, 1, 1));
    GIVES_NULL(tt_addmm(x, d, x, 1, 1));
    GIVES_NULL(tt_addmm(x, x, d, 1, 1));
    GIVES_NULL(tt_baddbmm(d, x, x, 1, 1));
    GIVES_NULL(tt_baddbmm(x, d, x, 1, 1));
    GIVES_NULL(tt_baddbmm(x, x, d, 1, 1));
    GIVES_NULL(tt_view(d, TT_SHAPE(3, 2)));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_ops_4)
{
    begin();
    GIVES_NULL(tt_reshape(d, TT_SHAPE(3, 2)));
    GIVES_NULL(tt_flatten(d, 0, 0));
    GIVES_NULL(tt_transpose(d, 0, 0));
    GIVES_NULL(tt_t(d));
    GIVES_NULL(tt_permute(d, (int[]){ 0 }, 1));
    GIVES_NULL(tt_squeeze(d));
    GIVES_NULL(tt_squeeze_dim(d, 0));
    GIVES_NULL(tt_unsqueeze(d, 0));
    GIVES_NULL(tt_expand(d, TT_SHAPE(3, 2)));
    GIVES_NULL(tt_repeat(d, (int64_t[]){ 1, 1 }, 2));
    GIVES_NULL(tt_slice(d, 0, 0, 0, 1));
    GIVES_NULL(tt_narrow(d, 0, 0, 0));
    GIVES_NULL(tt_select(d, 0, 0));
    GIVES_NULL(tt_diagonal(d, 0, 0, 0));
    GIVES_NULL(tt_as_strided(d, TT_SHAPE(3, 2), (int64_t[]){ 1, 1 }, 0));
    GIVES_NULL(tt_view_as_real(d));
    GIVES_NULL(tt_view_as_complex(d));
    GIVES_NULL(tt_real(d));
    GIVES_NULL(tt_imag(d));
    GIVES_NULL(tt_conj(d));
    GIVES_NULL(tt_cat(&d, 1, 0));
    GIVES_NULL(tt_stack(&d, 1, 0));
    REFUSES(tt_split_sizes(d, (int64_t[]){ 1, 1 }, 1, 0, out));
    GIVES_NULL(tt_flip(d, (int[]){ 0 }, 1));
    GIVES_NULL(tt_roll(d, 0, 0));
    GIVES_NULL(tt_tril(d, 0));
    GIVES_NULL(tt_triu(d, 0));
    GIVES_NULL(tt_clone(d));
    GIVES_NULL(tt_contiguous(d));
    GIVES_NULL(tt_to_format(d, TT_FORMAT_CONTIGUOUS));
    GIVES_NULL(tt_to_dtype(d, TT_F64));
    GIVES_NULL(tt_to_device(d, TT_CPU));
    GIVES_NULL(tt_index_select(d, 0, x));
    GIVES_NULL(tt_index_select(x, 0, d));
    GIVES_NULL(tt_gather(d, 0, x));
    GIVES_NULL(tt_gather(x, 0, d));
    GIVES_NULL(tt_scatter(d, 0, x, x));
    GIVES_NULL(tt_scatter(x, 0, d, x));
    GIVES_NULL(tt_scatter(x, 0, x, d));
    GIVES_NULL(tt_scatter_add(d, 0, x, x));
    GIVES_NULL(tt_scatter_add(x, 0, d, x));
    GIVES_NULL(tt_scatter_add(x, 0, x, d));
    GIVES_NULL(tt_index_add(d, 0, x, x));
    GIVES_NULL(tt_index_add(x, 0, d, x));
    GIVES_NULL(tt_index_add(x, 0, x, d));
    GIVES_NULL(tt_index_copy(d, 0, x, x));
    GIVES_NULL(tt_index_copy(x, 0, d, x));
    GIVES_NULL(tt_index_copy(x, 0, x, d));
    GIVES_NULL(tt_scatter_(d, 0, x, x));
    GIVES_NULL(tt_scatter_(x, 0, d, x));
    GIVES_NULL(tt_scatter_(x, 0, x, d));
    GIVES_NULL(tt_scatter_add_(d, 0, x, x));
    GIVES_NULL(tt_scatter_add_(x, 0, d, x));
    GIVES_NULL(tt_scatter_add_(x, 0, x, d));
    GIVES_NULL(tt_index_add_(d, 0, x, x));
    GIVES_NULL(tt_index_add_(x, 0, d, x));
    GIVES_NULL(tt_index_add_(x, 0, x, d));
    GIVES_NULL(tt_nonzero(d));
    GIVES_NULL(tt_one_hot(d, 1));
    GIVES_NULL(tt_topk(d, 1, 0, false, out));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_ops_5)
{
    begin();
    GIVES_NULL(tt_sort(d, 0, false, out));
    GIVES_NULL(tt_argsort(d, 0, false));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_functional_1)
{
    begin();
    GIVES_NULL(tt_relu(d));
    GIVES_NULL(tt_relu_(d));
    GIVES_NULL(tt_gelu(d));
    GIVES_NULL(tt_gelu_tanh(d));
    GIVES_NULL(tt_silu(d));
    GIVES_NULL(tt_elu(d, 1));
    GIVES_NULL(tt_celu(d, 1));
    GIVES_NULL(tt_leaky_relu(d, 1));
    GIVES_NULL(tt_softplus(d, 1, 1));
    GIVES_NULL(tt_hardtanh(d, 1, 1));
    GIVES_NULL(tt_softmax(d, 0));
    GIVES_NULL(tt_log_softmax(d, 0));
    GIVES_NULL(tt_dropout(d, 1, false, NULL));
    GIVES_NULL(tt_linear(d, x, x));
    GIVES_NULL(tt_linear(x, d, x));
    GIVES_NULL(tt_linear(x, x, d));
    GIVES_NULL(tt_cross_entropy(d, x));
    GIVES_NULL(tt_cross_entropy(x, d));
    GIVES_NULL(tt_cross_entropy_with(d, x, NULL));
    GIVES_NULL(tt_cross_entropy_with(x, d, NULL));
    GIVES_NULL(tt_mse_loss(d, x));
    GIVES_NULL(tt_mse_loss(x, d));
    GIVES_NULL(tt_mse_loss_with(d, x, NULL));
    GIVES_NULL(tt_mse_loss_with(x, d, NULL));
    GIVES_NULL(tt_l1_loss(d, x, NULL));
    GIVES_NULL(tt_l1_loss(x, d, NULL));
    GIVES_NULL(tt_smooth_l1_loss(d, x, 1, NULL));
    GIVES_NULL(tt_smooth_l1_loss(x, d, 1, NULL));
    GIVES_NULL(tt_bce_with_logits(d, x, NULL));
    GIVES_NULL(tt_bce_with_logits(x, d, NULL));
    GIVES_NULL(tt_kl_div(d, x, NULL));
    GIVES_NULL(tt_kl_div(x, d, NULL));
    GIVES_NULL(tt_layer_norm(d, 1, x, x, 1));
    GIVES_NULL(tt_layer_norm(x, 1, d, x, 1));
    GIVES_NULL(tt_layer_norm(x, 1, x, d, 1));
    GIVES_NULL(tt_rms_norm(d, 1, x, 1));
    GIVES_NULL(tt_rms_norm(x, 1, d, 1));
    GIVES_NULL(tt_group_norm(d, 1, x, x, 1));
    GIVES_NULL(tt_group_norm(x, 1, d, x, 1));
    GIVES_NULL(tt_group_norm(x, 1, x, d, 1));
    GIVES_NULL(tt_batch_norm(d, x, x, NULL));
    GIVES_NULL(tt_batch_norm(x, d, x, NULL));
    GIVES_NULL(tt_batch_norm(x, x, d, NULL));
    GIVES_NULL(tt_embedding(d, x, NULL));
    GIVES_NULL(tt_embedding(x, d, NULL));
    GIVES_NULL(tt_attention(d, x, x, NULL));
    GIVES_NULL(tt_attention(x, d, x, NULL));
    GIVES_NULL(tt_attention(x, x, d, NULL));
    GIVES_NULL(tt_uniform_(d, 1, 1, NULL));
    GIVES_NULL(tt_normal_(d, 1, 1, NULL));
    GIVES_NULL(tt_bernoulli_(d, 1, NULL));
    GIVES_NULL(tt_multinomial(d, 0, false, NULL));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_other_1)
{
    begin();
    GIVES_NULL(tt_sparse_coo(d, x, TT_SHAPE(3, 2)));
    GIVES_NULL(tt_sparse_coo(x, d, TT_SHAPE(3, 2)));
    GIVES_NULL(tt_sparse_coo_unchecked(d, x, TT_SHAPE(3, 2), false));
    GIVES_NULL(tt_sparse_coo_unchecked(x, d, TT_SHAPE(3, 2), false));
    GIVES_NULL(tt_sparse_indices(d));
    GIVES_NULL(tt_sparse_values(d));
    SAYS(tt_sparse_nnz(d));
    SAYS(tt_sparse_dims(d));
    SAYS(tt_sparse_is_coalesced(d));
    GIVES_NULL(tt_sparse_coalesce(d));
    GIVES_NULL(tt_to_dense(d));
    GIVES_NULL(tt_to_sparse(d, 0));
    GIVES_NULL(tt_require_grad(d));
    REFUSES(tt_set_requires_grad(d, false));
    SAYS(tt_requires_grad(d));
    SAYS(tt_is_leaf(d));
    GIVES_NULL(tt_grad_fn_name(d));
    GIVES_NULL(tt_grad_of(d));
    REFUSES(tt_set_grad(d, x));
    REFUSES(tt_set_grad(x, d));
    REFUSES(tt_retain_grad(d));
    GIVES_NULL(tt_detach(d));
    REFUSES(tt_backward(d));
    REFUSES(tt_backward_with(d, NULL));
    GIVES_NULL(tt_pin(d));
    SAYS(tt_tensor_is_pinned(d));
    GIVES_NULL(tt_to_device_async(d, TT_CPU));
    REFUSES(tt_copy_async_(d, x));
    REFUSES(tt_copy_async_(x, d));
    GIVES_NULL(tt_sgd_new(&d, 1, NULL));
    GIVES_NULL(tt_adam_new(&d, 1, NULL));
    GIVES_NULL(tt_adamw_new(&d, 1, NULL));
    GIVES_NULL(tt_sparse_adam_new(&d, 1, NULL));
    GIVES_NULL(tt_adagrad_new(&d, 1, NULL));
    GIVES_NULL(tt_rmsprop_new(&d, 1, NULL));
    REFUSES(tt_clip_grad_norm(&d, 1, 1, NULL, numbers));
    REFUSES(tt_clip_grad_value(&d, 1, 1));
    GIVES_NULL(tt_to_dlpack(d));
    GIVES_NULL(tt_to_dlpack_unversioned(d));
    REFUSES(tt_npy_save(NULL, d));
    GIVES_NULL(tt_value_tensor_new(d));
    GIVES_NULL(tt_tensor_dataset_new(&d, 1));
    GIVES_NULL(tt_module_forward(NULL, d));
    REFUSES(tt_state_dict_set(NULL, NULL, d));
    GIVES_NULL(tt_init_constant(d, 1));
    GIVES_NULL(tt_init_uniform(d, 1, 1, NULL));
    GIVES_NULL(tt_init_normal(d, 1, 1, NULL));
    GIVES_NULL(tt_init_trunc_normal(d, 1, 1, 1, 1, NULL));
    GIVES_NULL(tt_init_kaiming_uniform(d, NULL));
    GIVES_NULL(tt_init_kaiming_normal(d, NULL));
    GIVES_NULL(tt_init_xavier_uniform(d, NULL));
    GIVES_NULL(tt_init_xavier_normal(d, NULL));
    GIVES_NULL(tt_init_orthogonal(d, NULL));
}

TT_TEST(debug_tensors, calls_with_dead_tensors_tensor_1)
{
    begin();
    GIVES_NULL(tt_tensor_retain(d));
    GIVES_NULL(tt_empty_like(d));
    GIVES_NULL(tt_zeros_like(d));
    GIVES_NULL(tt_ones_like(d));
    GIVES_NULL(tt_new_from(d, NULL, TT_SHAPE(3, 2), NULL));
    GIVES_NULL(tt_full_like(d, 1));
    SAYS(tt_tensor_shape(d));
    SAYS(tt_tensor_dims(d));
    SAYS(tt_tensor_size(d, 0));
    SAYS(tt_tensor_numel(d));
    SAYS(tt_tensor_dtype(d));
    SAYS(tt_tensor_device(d));
    GIVES_NULL(tt_tensor_strides(d));
    SAYS(tt_tensor_offset(d));
    SAYS(tt_tensor_is_contiguous(d, TT_FORMAT_CONTIGUOUS));
    SAYS(tt_tensor_is_sparse(d));
    SAYS(tt_tensor_shares_storage(d, x));
    SAYS(tt_tensor_shares_storage(x, d));
    SAYS(tt_tensor_version(d));
    GIVES_NULL(tt_tensor_data(d));
    SAYS(tt_tensor_bytes(d));
    SAYS(tt_item(d));
    SAYS(tt_item_int(d));
    SAYS(tt_item_complex(d, numbers, numbers));
    SAYS(tt_at(d, (int64_t[]){ 1, 1 }));
    SAYS(tt_allclose(d, x, NULL));
    SAYS(tt_allclose(x, d, NULL));
    SAYS(tt_compare(d, x, NULL, NULL));
    SAYS(tt_compare(x, d, NULL, NULL));
    SAYS(tt_equal(d, x));
    SAYS(tt_equal(x, d));
    GIVES_NULL(tt_tensor_text(d, NULL));
    REFUSES(tt_fprint(NULL, d));
    REFUSES(tt_print(d));
}
