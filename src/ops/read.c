/* SPDX-License-Identifier: Apache-2.0 */
/* Reading elements: single values and whole tensors as C numbers. */
#include "base/error.h"
#include "ops/op.h"
#include "tensor/debug.h"

/* A tensor over the caller's memory, in row-major order, converted from t. */
static tt_status copy_out(const char *name, const tt_tensor *t, void *out, size_t n, tt_dtype dtype)
{
    tt_tensor *wrapped;
    tt_status st = TT_OK;
    tt_shape shape;

    TT_TRY(tti_check_alive(t, name));
    if (t == NULL)
        return tti_null_given(name, "a tensor");
    if (t->storage == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "%s: expected a dense tensor, got a sparse one", name);
    if (n < (size_t)t->numel || (out == NULL && t->numel != 0))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected room for %lld elements, got %zu", name,
                       (long long)t->numel, out != NULL ? n : 0);
    if (t->numel == 0)
        return TT_OK;
    TT_SCOPE {
        shape = tt_tensor_shape(t);
        wrapped = tt_wrap(out, shape, NULL, dtype, NULL, NULL);
        st = tti_copy(wrapped, t);
    }
    return st;
}

tt_status tt_copy_out_f64(const tt_tensor *t, double *out, size_t n)
{
    return copy_out("copy_out_f64", t, out, n, TT_F64);
}

tt_status tt_copy_out_f32(const tt_tensor *t, float *out, size_t n)
{
    return copy_out("copy_out_f32", t, out, n, TT_F32);
}

tt_status tt_copy_out_i64(const tt_tensor *t, int64_t *out, size_t n)
{
    return copy_out("copy_out_i64", t, out, n, TT_I64);
}

static tt_status item(const char *name, const tt_tensor *t, tt_dtype as, void *out)
{
    TT_TRY(tti_check_alive(t, name));
    if (t != NULL && t->numel != 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a tensor with one element, got shape %s", name,
                       TTI_SHAPE_OF(t));
    return copy_out(name, t, out, 1, as);
}

double tt_item(const tt_tensor *t)
{
    double value = 0;

    return item("item", t, TT_F64, &value) == TT_OK ? value : 0;
}

int64_t tt_item_int(const tt_tensor *t)
{
    int64_t value = 0;

    return item("item_int", t, TT_I64, &value) == TT_OK ? value : 0;
}

void tt_item_complex(const tt_tensor *t, double *re_p, double *im_p)
{
    double value[2] = { 0, 0 };

    if (item("item_complex", t, TT_C128, value) != TT_OK)
        value[0] = value[1] = 0;
    if (re_p != NULL)
        *re_p = value[0];
    if (im_p != NULL)
        *im_p = value[1];
}

double tt_at(const tt_tensor *t, const int64_t *index)
{
    int64_t offset;
    double value = 0;

    if (tti_check_alive(t, "at") != TT_OK)
        return 0;
    if (t == NULL)
        return tti_null_given("at", "a tensor"), 0;
    if (index == NULL || t->storage == NULL)
        return TT_FAIL(TT_ERR_INVALID, "at: expected a dense tensor and an index"), 0;
    offset = t->offset;
    for (int i = 0; i < t->n_dims; i++) {
        if (index[i] < 0 || index[i] >= t->dims[i])
            return TT_FAIL(TT_ERR_INVALID, "at: index %lld of dimension %d is not in [0, %lld)",
                           (long long)index[i], i, (long long)t->dims[i]),
                   0;
        offset += index[i] * t->strides[i];
    }
    TT_SCOPE {
        value = tt_item(tti_view_raw(t, NULL, NULL, 0, offset));
    }
    return value;
}
