/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are one pointwise kernel, described by a record: which kernel, how types meet, what
 * backward needs. The public function then is one call:
 *
 *     static const tti_elementwise op_mul = { { "mul", mul_backward, 0 }, TTI_MUL, TTI_PROMOTE,
 *                                             TTI_SAVE_A_FOR_B | TTI_SAVE_B_FOR_A };
 *     tt_tensor *tt_mul(tt_tensor *a, tt_tensor *b) { return tti_apply2(&op_mul, a, b, NULL, 0); }
 */
#ifndef TTI_OPS_ELEMENTWISE_H
#define TTI_OPS_ELEMENTWISE_H

#include "ops/op.h"

typedef enum tti_type_rule {
    TTI_PROMOTE,  /* the type in which the operands meet */
    TTI_NO_BOOL,  /* the same, but bool is refused */
    TTI_TO_FLOAT, /* the same, integers becoming float32 */
    TTI_TO_BOOL,  /* the result is bool */
} tti_type_rule;

enum { /* saved tensors are number 0 (a), 1 (b) and 2 (the result) in backward */
       TTI_SAVE_A = 1,
       TTI_SAVE_B = 2,
       TTI_SAVE_OUT = 4,
       TTI_SAVE_A_FOR_B = 8, /* only if b wants a gradient */
       TTI_SAVE_B_FOR_A = 16,
       TTI_SAVE_OUT_FOR_B = 32,
};

typedef struct tti_elementwise {
    tti_op op;
    int kernel; /* tti_unary_op or tti_binary_op */
    tti_type_rule types;
    unsigned save;
} tti_elementwise;

/* p[0 .. n_p) go to the kernel and are the node's attributes. */
tt_tensor *tti_apply1(const tti_elementwise *o, tt_tensor *x, const double *p, int n_p);
tt_tensor *tti_apply2(const tti_elementwise *o, tt_tensor *a, tt_tensor *b, const double *p,
                      int n_p);
/* In place: the result goes to the first operand, which keeps shape and type. */
tt_tensor *tti_apply1_(const tti_elementwise *o, tt_tensor *x, const double *p, int n_p);
tt_tensor *tti_apply2_(const tti_elementwise *o, tt_tensor *a, tt_tensor *b, const double *p,
                       int n_p);

/* t as the kernels want it: of this type, on this device; not recorded. */
tt_tensor *tti_operand(tt_tensor *t, tt_dtype dtype, tt_device device);

/* An empty tensor of the shape that three operands broadcast to, and the device they compute on: a
 * single value on the host goes with any other. */
tt_tensor *tti_empty_broadcast3(const char *name, tt_tensor *const *in, tt_dtype dtype);
tt_device tti_device_of(tt_tensor *const *in, int n);

/* Before writing to `self` in place: it must not overlap itself; an operand that overlaps it without
 * being the same view is replaced by a copy. NULL on failure. */
tt_status tti_check_writable(const char *name, const tt_tensor *self);
tt_tensor *tti_apart(const tt_tensor *self, tt_tensor *operand);
/* A value of type `from` may be stored in a tensor of type `to`: no category is lost. */
tt_status tti_check_storable(const char *name, tt_dtype from, tt_dtype to);

/* The type of a tensor beside a number: its own, unless the number's category is higher. */
tt_dtype tti_scalar_type(const tt_tensor *x, double s);

static inline double tti_attr(const tti_node *n, int i)
{
    return ((const double *)tti_attrs(n))[i];
}

#endif
