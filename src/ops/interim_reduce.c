/* SPDX-License-Identifier: Apache-2.0 */
/* Interim weak definitions, overridden by the real operators as they land. */
#include "ops/op.h"

#define WEAK __attribute__((weak)) tt_tensor *
WEAK tt_abs(tt_tensor *a)
{
    (void)a;
    return NULL;
}
WEAK tt_sign(tt_tensor *a)
{
    (void)a;
    return NULL;
}
WEAK tt_exp(tt_tensor *a)
{
    (void)a;
    return NULL;
}
WEAK tt_eq(tt_tensor *a, tt_tensor *b)
{
    (void)a, (void)b;
    return NULL;
}
WEAK tt_eq_scalar(tt_tensor *a, double s)
{
    (void)a, (void)s;
    return NULL;
}
WEAK tt_pow_scalar(tt_tensor *a, double s)
{
    (void)a, (void)s;
    return NULL;
}
WEAK tt_masked_fill(tt_tensor *a, tt_tensor *m, double s)
{
    (void)a, (void)m, (void)s;
    return NULL;
}
WEAK tt_scatter(tt_tensor *a, int d, tt_tensor *i, tt_tensor *s)
{
    (void)a, (void)d, (void)i, (void)s;
    return NULL;
}
