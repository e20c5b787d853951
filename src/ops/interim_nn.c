/* SPDX-License-Identifier: Apache-2.0 */
/* Interim weak definitions, overridden by the real operators as they land. */
#include "ops/op.h"
#include "tutti/sparse.h"

#define WEAK __attribute__((weak)) tt_tensor *
#define NONE(name) TT_FAIL_NULL(TT_ERR_UNSUPPORTED, name ": not there yet")
WEAK tt_lt_scalar(tt_tensor *a, double s)
{
    (void)a;
    (void)s;
    return NONE("lt");
}
WEAK tt_ne_scalar(tt_tensor *a, double s)
{
    (void)a;
    (void)s;
    return NONE("ne");
}
WEAK tt_clamp(tt_tensor *a, double lo, double hi)
{
    (void)a;
    (void)lo;
    (void)hi;
    return NONE("clamp");
}
WEAK tt_gather(tt_tensor *x, int dim, tt_tensor *index)
{
    (void)x;
    (void)dim;
    (void)index;
    return NONE("gather");
}
WEAK tt_index_select(tt_tensor *x, int dim, tt_tensor *index)
{
    (void)x;
    (void)dim;
    (void)index;
    return NONE("index_select");
}
WEAK tt_nonzero(tt_tensor *x)
{
    (void)x;
    return NONE("nonzero");
}
WEAK tt_sparse_coo_unchecked(tt_tensor *indices, tt_tensor *values, tt_shape shape, bool coalesced)
{
    (void)indices;
    (void)values;
    (void)shape;
    (void)coalesced;
    return NONE("sparse");
}
WEAK tt_eq_scalar(tt_tensor *a, double s)
{
    (void)a;
    (void)s;
    return NONE("eq");
}
WEAK tt_masked_fill(tt_tensor *x, tt_tensor *mask, double value)
{
    (void)x;
    (void)mask;
    (void)value;
    return NONE("masked_fill");
}
WEAK tt_softmax(tt_tensor *x, int dim)
{
    (void)x;
    (void)dim;
    return NONE("softmax");
}
WEAK tt_triu(tt_tensor *x, int64_t diagonal)
{
    (void)x;
    (void)diagonal;
    return NONE("triu");
}
WEAK tt_isnan(tt_tensor *x)
{
    (void)x;
    return NONE("isnan");
}
