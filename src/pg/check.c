/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the public operations share. */
#include "base/error.h"
#include "pg/call.h"
#include "tensor/tensor.h"
#include "tensor/debug.h"

tt_status tti_nonmember(const char *op, tt_work **work_p)
{
    if (work_p == NULL)
        return TT_OK;
    tt_work *w = tti_work_done_new(op);
    if (w == NULL)
        return TT_ERR_NOMEM;
    *work_p = w;
    return TT_OK;
}

tt_status tti_check_tensor(const tt_tensor *t, const char *op, const char *what)
{
    TT_TRY(tti_check_alive(t, op));
    if (t == NULL)
        return TTI_NULL("%s: %s is NULL", op, what);
    if (t->sparse != NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "%s: %s is sparse; only all_reduce takes sparse tensors",
                       op, what);
    return TT_OK;
}

static bool reduces_complex(tt_reduce_op op)
{
    return op == TT_REDUCE_SUM || op == TT_REDUCE_AVG || op == TT_REDUCE_PREMUL_SUM;
}

tt_status tti_check_reduce(tt_dtype dtype, const tt_coll_options *opt, const char *op)
{
    tt_reduce_op r = opt != NULL ? opt->op : TT_REDUCE_SUM;

    if ((unsigned)r > TT_REDUCE_PREMUL_SUM)
        return TT_FAIL(TT_ERR_INVALID, "%s: %d is no reduction", op, (int)r);
    if (tt_dtype_is_complex(dtype) && !reduces_complex(r))
        return TT_FAIL(TT_ERR_INVALID, "%s: complex tensors cannot be reduced with %s", op,
                       tt_reduce_op_name(r));
    bool floating = tt_dtype_is_floating(dtype) || tt_dtype_is_complex(dtype);
    bool bits = r == TT_REDUCE_BAND || r == TT_REDUCE_BOR || r == TT_REDUCE_BXOR;
    if (bits && floating)
        return TT_FAIL(TT_ERR_INVALID, "%s: %s is for integers and bool, the tensor is %s", op,
                       tt_reduce_op_name(r), tt_dtype_name(dtype));
    if (r == TT_REDUCE_PREMUL_SUM && !floating)
        return TT_FAIL(TT_ERR_INVALID, "%s: %s is for floating types, the tensor is %s", op,
                       tt_reduce_op_name(r), tt_dtype_name(dtype));
    return TT_OK;
}

tt_status tti_check_list(tt_tensor *const *ts, int n, int want_n, bool mixed, const char *op,
                         const char *what)
{
    if (n != want_n || (n > 0 && ts == NULL))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected %d %s, one per rank, got %d", op, want_n, what,
                       ts == NULL ? 0 : n);
    for (int i = 0; i < n; i++) {
        TT_TRY(tti_check_tensor(ts[i], op, what));
        if (!mixed)
            TT_TRY(tti_check_dtypes(ts[0], ts[i], op));
    }
    return TT_OK;
}

tt_status tti_check_dtypes(const tt_tensor *a, const tt_tensor *b, const char *op)
{
    if (a->dtype != b->dtype)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected tensors of one type, got %s and %s", op,
                       tt_dtype_name(a->dtype), tt_dtype_name(b->dtype));
    return TT_OK;
}

static const char *const reduce_names[] = {
    [TT_REDUCE_SUM] = "sum", [TT_REDUCE_AVG] = "avg",   [TT_REDUCE_PRODUCT] = "product",
    [TT_REDUCE_MIN] = "min", [TT_REDUCE_MAX] = "max",   [TT_REDUCE_BAND] = "band",
    [TT_REDUCE_BOR] = "bor", [TT_REDUCE_BXOR] = "bxor", [TT_REDUCE_PREMUL_SUM] = "premul_sum",
};

const char *tt_reduce_op_name(tt_reduce_op op)
{
    return (unsigned)op < sizeof reduce_names / sizeof reduce_names[0] ? reduce_names[op]
                                                                       : "unknown";
}
