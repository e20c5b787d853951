/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of element by element kernels to the device of the result. */
#include "ops/op.h"

#define POINTWISE(t) (tti_kernels_of(t)->pointwise)

tt_status tti_unary(tti_unary_op op, tt_tensor *out, const tt_tensor *x, const double *p)
{
    if (tt_unlikely(out == NULL))
        return tt_last_status();
    return POINTWISE(out)->unary(op, out, x, p);
}

tt_status tti_binary(tti_binary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                     const double *p)
{
    if (tt_unlikely(out == NULL || a == NULL || b == NULL))
        return tt_last_status();
    return POINTWISE(out)->binary(op, out, a, b, p);
}

tt_status tti_ternary(tti_ternary_op op, tt_tensor *out, const tt_tensor *a, const tt_tensor *b,
                      const tt_tensor *c, const double *p)
{
    if (tt_unlikely(out == NULL || a == NULL || b == NULL || c == NULL))
        return tt_last_status();
    return POINTWISE(out)->ternary(op, out, a, b, c, p);
}

tt_status tti_fill(tt_tensor *x, double value)
{
    if (tt_unlikely(x == NULL))
        return tt_last_status();
    return POINTWISE(x)->fill(x, value, 0.0);
}

tt_status tti_copy(tt_tensor *dst, const tt_tensor *src)
{
    if (tt_unlikely(dst == NULL || src == NULL))
        return tt_last_status();
    return POINTWISE(dst)->copy(dst, src);
}
