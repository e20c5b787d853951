/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor operators, one line each. All are expressions: they return a tensor of the innermost scope
 * or NULL, accept NULL (and return NULL), broadcast, promote types, and take part in autograd where
 * a derivative exists. Names, meanings and defaults are those of PyTorch. A name with a trailing
 * underscore works in place and returns its first argument. Dimensions may be negative.
 *
 *     tt_tensor *x = tt_reshape(tt_arange(0, 6, 1, TT_F32, TT_CPU), TT_SHAPE(2, 3));
 *     tt_tensor *centred = tt_sub(x, tt_mean_dim(x, 1, true));           // [2, 3] - [2, 1]
 *     tt_tensor *y = tt_matmul(centred, tt_t(centred));                  // [2, 2]
 *     if (y == NULL)
 *         fprintf(stderr, "%s\n", tt_last_error());
 */
#ifndef TUTTI_OPS_H
#define TUTTI_OPS_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic ------------------------------------------------------------------------ */
TT_API tt_tensor *tt_add(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_sub(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_mul(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_div(tt_tensor *a, tt_tensor *b); /* integers give float32 */
/* Integers divided by 0 are an error for these three on the CPU, and 0 on an accelerator. */
TT_API tt_tensor *tt_floor_divide(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_fmod(tt_tensor *a, tt_tensor *b);      /* sign of a */
TT_API tt_tensor *tt_remainder(tt_tensor *a, tt_tensor *b); /* sign of b */
TT_API tt_tensor *tt_pow(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_maximum(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_minimum(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_atan2(tt_tensor *a, tt_tensor *b);
/* a + alpha * b */
TT_API tt_tensor *tt_add_scaled(tt_tensor *a, tt_tensor *b, double alpha);
TT_API tt_tensor *tt_lerp(tt_tensor *a, tt_tensor *b, double weight); /* a + weight * (b - a) */
/* t + value * a * b; t + value * a / b */
TT_API tt_tensor *tt_addcmul(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value);
TT_API tt_tensor *tt_addcdiv(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value);

/* With a number: it keeps the tensor's type, unless that is integral and the number is not. */
TT_API tt_tensor *tt_add_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_sub_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_rsub_scalar(tt_tensor *a, double s); /* s - a */
TT_API tt_tensor *tt_mul_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_div_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_rdiv_scalar(tt_tensor *a, double s); /* s / a */
TT_API tt_tensor *tt_pow_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_rpow_scalar(tt_tensor *a, double s); /* s ** a */

TT_API tt_tensor *tt_add_(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_sub_(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_mul_(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_div_(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_add_scaled_(tt_tensor *a, tt_tensor *b, double alpha);
TT_API tt_tensor *tt_lerp_(tt_tensor *a, tt_tensor *b, double weight);
TT_API tt_tensor *tt_addcmul_(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value);
TT_API tt_tensor *tt_addcdiv_(tt_tensor *t, tt_tensor *a, tt_tensor *b, double value);
TT_API tt_tensor *tt_add_scalar_(tt_tensor *a, double s);
TT_API tt_tensor *tt_mul_scalar_(tt_tensor *a, double s);
TT_API tt_tensor *tt_div_scalar_(tt_tensor *a, double s);
TT_API tt_tensor *tt_fill_(tt_tensor *a, double s);
TT_API tt_tensor *tt_zero_(tt_tensor *a);
TT_API tt_tensor *tt_copy_(tt_tensor *dst, tt_tensor *src); /* broadcasts and converts */

/* ---- one operand ----------------------------------------------------------------------- */
TT_API tt_tensor *tt_neg(tt_tensor *x);
TT_API tt_tensor *tt_abs(tt_tensor *x); /* complex gives real */
TT_API tt_tensor *tt_sign(tt_tensor *x);
TT_API tt_tensor *tt_sgn(tt_tensor *x); /* the sign; of complex numbers x / |x|, 0 at 0 */
TT_API tt_tensor *tt_square(tt_tensor *x);
TT_API tt_tensor *tt_reciprocal(tt_tensor *x);
TT_API tt_tensor *tt_exp(tt_tensor *x);
TT_API tt_tensor *tt_expm1(tt_tensor *x);
TT_API tt_tensor *tt_log(tt_tensor *x);
TT_API tt_tensor *tt_log1p(tt_tensor *x);
TT_API tt_tensor *tt_log2(tt_tensor *x);
TT_API tt_tensor *tt_log10(tt_tensor *x);
TT_API tt_tensor *tt_sqrt(tt_tensor *x);
TT_API tt_tensor *tt_rsqrt(tt_tensor *x);
TT_API tt_tensor *tt_sin(tt_tensor *x);
TT_API tt_tensor *tt_cos(tt_tensor *x);
TT_API tt_tensor *tt_tanh(tt_tensor *x);
TT_API tt_tensor *tt_sigmoid(tt_tensor *x);
TT_API tt_tensor *tt_erf(tt_tensor *x);
TT_API tt_tensor *tt_floor(tt_tensor *x);
TT_API tt_tensor *tt_ceil(tt_tensor *x);
TT_API tt_tensor *tt_round(tt_tensor *x); /* half to even */
TT_API tt_tensor *tt_trunc(tt_tensor *x);
TT_API tt_tensor *tt_clamp(tt_tensor *x, double lo, double hi); /* -INFINITY, INFINITY: no bound */
TT_API tt_tensor *tt_clamp_tensor(tt_tensor *x, tt_tensor *lo, tt_tensor *hi); /* either NULL */
TT_API tt_tensor *tt_clamp_(tt_tensor *x, double lo, double hi);
TT_API tt_tensor *tt_nan_to_num(tt_tensor *x, double nan, double posinf, double neginf);
TT_API tt_tensor *tt_sqrt_(tt_tensor *x);
TT_API tt_tensor *tt_exp_(tt_tensor *x);
TT_API tt_tensor *tt_neg_(tt_tensor *x);

/* ---- comparison and logic: bool results -------------------------------------------------- */
TT_API tt_tensor *tt_eq(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_ne(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_lt(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_le(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_gt(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_ge(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_eq_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_ne_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_lt_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_le_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_gt_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_ge_scalar(tt_tensor *a, double s);
TT_API tt_tensor *tt_logical_and(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_logical_or(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_logical_xor(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_logical_not(tt_tensor *x);
TT_API tt_tensor *tt_bitwise_and(tt_tensor *a, tt_tensor *b); /* integers and bool */
TT_API tt_tensor *tt_bitwise_or(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_bitwise_xor(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_bitwise_not(tt_tensor *x);
TT_API tt_tensor *tt_isnan(tt_tensor *x);
TT_API tt_tensor *tt_isinf(tt_tensor *x);
TT_API tt_tensor *tt_isfinite(tt_tensor *x);
TT_API tt_tensor *tt_where(tt_tensor *condition, tt_tensor *a, tt_tensor *b);
/* `value` where the mask is true. */
TT_API tt_tensor *tt_masked_fill(tt_tensor *x, tt_tensor *mask, double value);
/* The elements where it is, as a vector. */
TT_API tt_tensor *tt_masked_select(tt_tensor *x, tt_tensor *mask);

/* ---- reductions: dims NULL means all; keep_dims leaves them with size 1 ------------------ */
TT_API tt_tensor *tt_sum(tt_tensor *x);
TT_API tt_tensor *tt_mean(tt_tensor *x);
TT_API tt_tensor *tt_sum_dims(tt_tensor *x, const int *dims, int n_dims, bool keep_dims);
TT_API tt_tensor *tt_mean_dims(tt_tensor *x, const int *dims, int n_dims, bool keep_dims);
TT_API tt_tensor *tt_sum_dim(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_mean_dim(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_prod(tt_tensor *x);
TT_API tt_tensor *tt_prod_dim(tt_tensor *x, int dim, bool keep_dim);
/* correction 1: Bessel's, as PyTorch's default; 0: population variance */
TT_API tt_tensor *tt_var_dims(tt_tensor *x, const int *dims, int n_dims, double correction,
                              bool keep_dims);
TT_API tt_tensor *tt_std_dims(tt_tensor *x, const int *dims, int n_dims, double correction,
                              bool keep_dims);
TT_API tt_tensor *tt_max(tt_tensor *x);
TT_API tt_tensor *tt_min(tt_tensor *x);
/* Values, and in *indices_p (may be NULL) where they were found; NaN wins. */
TT_API tt_tensor *tt_max_dim(tt_tensor *x, int dim, bool keep_dim, tt_tensor **indices_p);
TT_API tt_tensor *tt_min_dim(tt_tensor *x, int dim, bool keep_dim, tt_tensor **indices_p);
TT_API tt_tensor *tt_amax(tt_tensor *x, const int *dims, int n_dims, bool keep_dims);
TT_API tt_tensor *tt_amin(tt_tensor *x, const int *dims, int n_dims, bool keep_dims);
TT_API tt_tensor *tt_argmax(tt_tensor *x); /* of the flattened tensor */
TT_API tt_tensor *tt_argmin(tt_tensor *x);
TT_API tt_tensor *tt_argmax_dim(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_argmin_dim(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_all(tt_tensor *x);
TT_API tt_tensor *tt_any(tt_tensor *x);
TT_API tt_tensor *tt_all_dim(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_any_dim(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_norm(tt_tensor *x, double p); /* INFINITY, 0, 1, 2, ... */
TT_API tt_tensor *tt_norm_dims(tt_tensor *x, double p, const int *dims, int n_dims, bool keep_dims);
TT_API tt_tensor *tt_logsumexp(tt_tensor *x, int dim, bool keep_dim);
TT_API tt_tensor *tt_cumsum(tt_tensor *x, int dim);
TT_API tt_tensor *tt_cumprod(tt_tensor *x, int dim);

/* ---- products of matrices ---------------------------------------------------------------- */
TT_API tt_tensor *tt_matmul(tt_tensor *a, tt_tensor *b); /* 1-D to N-D, batches broadcast */
TT_API tt_tensor *tt_mm(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_bmm(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_mv(tt_tensor *a, tt_tensor *x);
TT_API tt_tensor *tt_dot(tt_tensor *a, tt_tensor *b);
TT_API tt_tensor *tt_outer(tt_tensor *a, tt_tensor *b);
/* beta * c + alpha * a @ b */
TT_API tt_tensor *tt_addmm(tt_tensor *c, tt_tensor *a, tt_tensor *b, double beta, double alpha);
TT_API tt_tensor *tt_baddbmm(tt_tensor *c, tt_tensor *a, tt_tensor *b, double beta, double alpha);

/* ---- shape: views where strides allow ----------------------------------------------------- */
TT_API tt_tensor *tt_view(tt_tensor *x, tt_shape shape);    /* one dimension may be -1 */
TT_API tt_tensor *tt_reshape(tt_tensor *x, tt_shape shape); /* copies if it must */
TT_API tt_tensor *tt_flatten(tt_tensor *x, int first_dim, int last_dim);
TT_API tt_tensor *tt_unflatten(tt_tensor *x, int dim, tt_shape sizes);
TT_API tt_tensor *tt_transpose(tt_tensor *x, int a, int b);
TT_API tt_tensor *tt_t(tt_tensor *x); /* 2-D transpose */
TT_API tt_tensor *tt_permute(tt_tensor *x, const int *dims, int n_dims);
TT_API tt_tensor *tt_squeeze(tt_tensor *x);
TT_API tt_tensor *tt_squeeze_dim(tt_tensor *x, int dim);
TT_API tt_tensor *tt_unsqueeze(tt_tensor *x, int dim);
TT_API tt_tensor *tt_expand(tt_tensor *x, tt_shape shape); /* -1 keeps a dimension */
TT_API tt_tensor *tt_repeat(tt_tensor *x, const int64_t *repeats, int n_repeats);
/* Elements start, start + step, ... before end; both count from the end when negative and are cut to
 * the dimension, so INT64_MAX means "to the end". */
TT_API tt_tensor *tt_slice(tt_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
TT_API tt_tensor *tt_narrow(tt_tensor *x, int dim, int64_t start, int64_t length);
TT_API tt_tensor *tt_select(tt_tensor *x, int dim, int64_t index);
TT_API tt_tensor *tt_diagonal(tt_tensor *x, int64_t offset, int dim1, int dim2);
TT_API tt_tensor *tt_as_strided(tt_tensor *x, tt_shape shape, const int64_t *strides,
                                int64_t offset);
TT_API tt_tensor *tt_view_as_real(tt_tensor *x); /* complex to [..., 2] */
TT_API tt_tensor *tt_view_as_complex(tt_tensor *x);
TT_API tt_tensor *tt_real(tt_tensor *x);
TT_API tt_tensor *tt_imag(tt_tensor *x);
TT_API tt_tensor *tt_conj(tt_tensor *x);
/* Along a dimension that exists; along a new one. */
TT_API tt_tensor *tt_cat(tt_tensor *const *xs, int n, int dim);
TT_API tt_tensor *tt_stack(tt_tensor *const *xs, int n, int dim);
/* Views of consecutive pieces, written to out[0 .. n). `sizes` must add up to the dimension. */
TT_API tt_status tt_split_sizes(tt_tensor *x, const int64_t *sizes, int n, int dim,
                                tt_tensor **out);
/* Equal pieces of `size`, the last may be smaller; *n_p is the room in `out`, then the count. */
TT_API tt_status tt_split(tt_tensor *x, int64_t size, int dim, tt_tensor **out, int *n_p);
TT_API tt_status tt_chunk(tt_tensor *x, int chunks, int dim, tt_tensor **out, int *n_p);
TT_API tt_tensor *tt_flip(tt_tensor *x, const int *dims, int n_dims);
TT_API tt_tensor *tt_roll(tt_tensor *x, int64_t shift, int dim);
TT_API tt_tensor *tt_tril(tt_tensor *x, int64_t diagonal);
TT_API tt_tensor *tt_triu(tt_tensor *x, int64_t diagonal);

/* ---- copies and conversions ------------------------------------------------------------- */
TT_API tt_tensor *tt_clone(tt_tensor *x);
TT_API tt_tensor *tt_contiguous(tt_tensor *x); /* x itself when it already is */
TT_API tt_tensor *tt_to_format(tt_tensor *x, tt_memory_format format);
TT_API tt_tensor *tt_to_dtype(tt_tensor *x, tt_dtype dtype);    /* x itself when nothing to do */
TT_API tt_tensor *tt_to_device(tt_tensor *x, tt_device device); /* x itself when nothing to do */

/* ---- choosing by index ------------------------------------------------------------------- */
/* `index` is int64. index_select takes whole slices: result[i] = x[index[i]] along dim. gather takes
 * single elements: for dim 0, result[i][j] = x[index[i][j]][j]. scatter is the reverse: a copy of x
 * with result[index[i][j]][j] = src[i][j]. The forms with _add add instead. */
TT_API tt_tensor *tt_index_select(tt_tensor *x, int dim, tt_tensor *index);
TT_API tt_tensor *tt_gather(tt_tensor *x, int dim, tt_tensor *index);
TT_API tt_tensor *tt_scatter(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_scatter_add(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_index_add(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_index_copy(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_scatter_(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_scatter_add_(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_index_add_(tt_tensor *x, int dim, tt_tensor *index, tt_tensor *src);
TT_API tt_tensor *tt_nonzero(tt_tensor *x);                        /* int64 [count, dims] */
TT_API tt_tensor *tt_one_hot(tt_tensor *index, int64_t n_classes); /* -1: the largest + 1 */
TT_API tt_tensor *tt_topk(tt_tensor *x, int64_t k, int dim, bool largest, tt_tensor **indices_p);
TT_API tt_tensor *tt_sort(tt_tensor *x, int dim, bool descending,
                          tt_tensor **indices_p); /* stable */
TT_API tt_tensor *tt_argsort(tt_tensor *x, int dim, bool descending);

#ifdef __cplusplus
}
#endif

#endif
