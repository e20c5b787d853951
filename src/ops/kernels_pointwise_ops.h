/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of element by element kernels. Also part of the text of kernels for accelerators. */
#ifndef TTI_OPS_KERNELS_POINTWISE_OPS_H
#define TTI_OPS_KERNELS_POINTWISE_OPS_H

/* name, parameters, on which types: i(nteger) b(ool) f(loat) c(omplex); results are bool for those
 * marked ->b. */
#define TTI_UNARY_MAP(X)                                                                      \
    X(NEG)                                                                                    \
    X(ABS)                                                                                    \
    /* c: real out */ X(SIGN) X(SQUARE) X(RECIPROCAL) X(EXP) X(EXPM1) X(LOG) X(LOG1P) X(LOG2) \
        X(LOG10) X(SQRT) X(RSQRT) X(SIN) X(COS) X(TANH) X(SIGMOID) X(ERF) X(FLOOR) X(CEIL)    \
            X(ROUND) X(TRUNC) X(CONJ) X(BITNOT) X(LOGICAL_NOT) X(ISNAN) X(ISINF)              \
                X(ISFINITE) /* ->b */                                                         \
        X(RELU) X(GELU) X(GELU_TANH) X(SILU) X(LOGSIGMOID)                                    \
            X(ELU)    /* p: alpha, input scale: x > 0 ? x : alpha * expm1(x * input_scale) */ \
        X(LEAKY_RELU) /* p: slope */                                                          \
        X(SOFTPLUS)   /* p: beta, threshold */                                                \
        X(CLAMP)      /* p: lo, hi; NaN stays */                                              \
        X(NAN_TO_NUM) /* p: nan, posinf, neginf */                                            \
        X(ADD_S) X(MUL_S) X(RSUB_S) X(RDIV_S) X(DIV_S) X(POW_S)                               \
            X(RPOW_S)                                   /* p: s (re, im for c) */             \
        X(EQ_S) X(NE_S) X(LT_S) X(LE_S) X(GT_S) X(GE_S) /* p: s; ->b */
/* clang-format off */
#define TTI_BINARY_MAP(X)                                                                                 \
    X(ADD)                                                                                                \
    X(SUB)                                                                                                \
    X(MUL) X(DIV) X(FLOOR_DIV) X(FMOD) X(REMAINDER) X(POW) X(MAXIMUM) X(MINIMUM) X(ATAN2)                 \
        X(ADD_SCALED) /* p: alpha: a + alpha * b */ X(LERP_S) /* p: weight */                             \
        X(BITAND) X(BITOR) X(BITXOR) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(LOGICAL_AND) X(                \
            LOGICAL_OR)                                                                                   \
            X(LOGICAL_XOR) /* ->b */ /* derivatives: a is the gradient of the result, b what was saved */ \
        X(RELU_GRAD)                 /* b = y: b <= 0 ? 0 : a */                                          \
        X(TANH_GRAD)                 /* b = y */                                                          \
        X(SIGMOID_GRAD)              /* b = y */                                                          \
        X(GELU_GRAD)                 /* b = x */                                                          \
        X(GELU_TANH_GRAD)            /* b = x */                                                          \
        X(SILU_GRAD)                 /* b = x */                                                          \
        X(ELU_GRAD)                  /* b = x; p as ELU */                                                \
        X(LEAKY_RELU_GRAD)           /* b = x; p: slope */                                                \
        X(SOFTPLUS_GRAD)             /* b = x; p as SOFTPLUS */                                           \
        X(CLAMP_GRAD)                /* b = x; p: lo, hi */                                               \
        X(ABS_GRAD)                  /* b = x: a * sign(b) */                                             \
        X(SMOOTH_L1)                 /* p: beta: loss of a against b */
/* clang-format on */
#define TTI_TERNARY_MAP(X)                                                     \
    X(WHERE)          /* a is bool, whatever the type of b and c: a ? b : c */ \
    X(ADDCMUL)        /* p: value: a + value * b * c */                        \
    X(ADDCDIV)        /* p: value: a + value * b / c */                        \
    X(CLAMP_T)        /* a between b and c */                                  \
    X(SMOOTH_L1_GRAD) /* p: beta: a is the gradient, b and c the operands */

typedef enum tti_unary_op {
#define X(name) TTI_##name,
    TTI_UNARY_MAP(X)
#undef X
        TTI_N_UNARY
} tti_unary_op;

typedef enum tti_binary_op {
#define X(name) TTI_##name,
    TTI_BINARY_MAP(X)
#undef X
        TTI_N_BINARY
} tti_binary_op;

typedef enum tti_ternary_op {
#define X(name) TTI_##name,
    TTI_TERNARY_MAP(X)
#undef X
        TTI_N_TERNARY
} tti_ternary_op;

#endif
