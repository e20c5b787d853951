/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors shared with other libraries through DLPack, in both forms. */
#include <string.h>

#include "base/error.h"
#include "io/host.h"
#include "tutti/io.h"
#include "tensor/debug.h"

/* ---- types ------------------------------------------------------------------------------- */

static const tt_dl_type types[TT_N_DTYPES] = {
    [TT_F32] = { TT_DL_FLOAT, 32, 1 },   [TT_F64] = { TT_DL_FLOAT, 64, 1 },
    [TT_F16] = { TT_DL_FLOAT, 16, 1 },   [TT_BF16] = { TT_DL_BFLOAT, 16, 1 },
    [TT_I8] = { TT_DL_INT, 8, 1 },       [TT_U8] = { TT_DL_UINT, 8, 1 },
    [TT_I16] = { TT_DL_INT, 16, 1 },     [TT_I32] = { TT_DL_INT, 32, 1 },
    [TT_I64] = { TT_DL_INT, 64, 1 },     [TT_BOOL] = { TT_DL_BOOL, 8, 1 },
    [TT_C64] = { TT_DL_COMPLEX, 64, 1 }, [TT_C128] = { TT_DL_COMPLEX, 128, 1 },
};

static tt_status type_of(tt_dl_type t, tt_dtype *dtype_p)
{
    for (int i = 0; i < TT_N_DTYPES; i++)
        if (types[i].code == t.code && types[i].bits == t.bits && t.lanes == 1) {
            *dtype_p = (tt_dtype)i;
            return TT_OK;
        }
    return TT_FAIL(TT_ERR_UNSUPPORTED,
                   "dlpack: element type with code %d, %d bits and %d lanes is not supported",
                   t.code, t.bits, t.lanes);
}

/* ---- taking ------------------------------------------------------------------------------ */

static tt_status check_layout(const tt_dl_tensor *d, tt_shape *shape)
{
    if (d->device.type != TT_DL_CPU && d->device.type != TT_DL_CUDA_HOST)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "dlpack: expected memory of the CPU, got device type %d",
                       (int)d->device.type);
    if (d->n_dims < 0 || d->n_dims > TT_MAX_DIMS)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "dlpack: expected 0 to %d dimensions, got %d",
                       TT_MAX_DIMS, (int)d->n_dims);
    if (d->shape == NULL && d->n_dims > 0)
        return TT_FAIL(TT_ERR_INVALID, "dlpack: expected a shape, got NULL");
    shape->n_dims = d->n_dims;
    for (int i = 0; i < d->n_dims; i++)
        shape->dims[i] = d->shape[i];
    return TT_OK;
}

static tt_tensor *take(const tt_dl_tensor *d, bool copy, tt_release_fn release, void *ctx)
{
    tt_shape shape = { 0 };
    tt_dtype dtype = TT_F32;
    tt_tensor *t, *own;
    char *data = (char *)d->data + d->byte_offset;
    size_t align;

    if (check_layout(d, &shape) != TT_OK || type_of(d->type, &dtype) != TT_OK)
        return NULL;
    align = tt_dtype_size(dtype) / (tt_dtype_is_complex(dtype) ? 2 : 1);
    if ((uintptr_t)data % align != 0)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "dlpack: memory is not aligned for %s",
                            tt_dtype_name(dtype));
    t = tt_wrap(data, shape, d->strides, dtype, copy ? NULL : release, ctx);
    if (t == NULL || !copy)
        return t;
    own = tti_empty(t->dims, t->n_dims, dtype, TT_CPU);
    if (tti_copy(own, t) != TT_OK)
        return NULL;
    release(ctx, NULL);
    return own;
}

static void release_versioned(void *ctx, void *data)
{
    tt_dl_managed_versioned *m = ctx;

    (void)data;
    if (m->deleter != NULL)
        m->deleter(m);
}

static void release_unversioned(void *ctx, void *data)
{
    tt_dl_managed *m = ctx;

    (void)data;
    if (m->deleter != NULL)
        m->deleter(m);
}

tt_tensor *tt_from_dlpack(tt_dl_managed_versioned *m)
{
    tt_tensor *t = NULL;

    if (m == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "dlpack: expected a managed tensor, got NULL");
    if (m->major != TT_DL_MAJOR)
        TT_FAIL(TT_ERR_UNSUPPORTED, "dlpack: expected version %d, got %u.%u", TT_DL_MAJOR, m->major,
                m->minor);
    else
        t = take(&m->tensor, (m->flags & TT_DL_READ_ONLY) != 0, release_versioned, m);
    if (t == NULL)
        release_versioned(m, NULL);
    return t;
}

tt_tensor *tt_from_dlpack_unversioned(tt_dl_managed *m)
{
    tt_tensor *t;

    if (m == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "dlpack: expected a managed tensor, got NULL");
    t = take(&m->tensor, false, release_unversioned, m);
    if (t == NULL)
        release_unversioned(m, NULL);
    return t;
}

/* ---- giving ------------------------------------------------------------------------------ */

/* What is handed out, with the tensor it keeps alive. */
typedef struct lent {
    union {
        tt_dl_managed old;
        tt_dl_managed_versioned versioned;
    } managed;
    tt_tensor *tensor;
    int64_t shape[TT_MAX_DIMS], strides[TT_MAX_DIMS];
} lent;

static lent *lend(tt_tensor *t)
{
    char name[32];
    lent *l;

    if (t == NULL)
        return TT_NULL_GIVEN("dlpack", "a tensor");
    if (!tti_alive(t, "dlpack"))
        return NULL;
    if (t->storage == NULL)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "dlpack: sparse tensors cannot be shared");
    if (t->device.kind != TT_DEVICE_CPU)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "dlpack: expected a tensor on cpu, got one on %s",
                            tt_device_name(t->device, name, sizeof name));
    if (tti_wants_grad(t))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "dlpack: the tensor requires a gradient: use tt_detach first");
    l = tti_calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->tensor = tt_tensor_retain(t);
    memcpy(l->shape, t->dims, t->n_dims * sizeof l->shape[0]);
    memcpy(l->strides, t->strides, t->n_dims * sizeof l->strides[0]);
    return l;
}

static tt_dl_tensor described(lent *l)
{
    const tt_tensor *t = l->tensor;

    return (tt_dl_tensor){ .data = tti_data(t),
                           .device = { TT_DL_CPU, 0 },
                           .n_dims = t->n_dims,
                           .type = types[t->dtype],
                           .shape = l->shape,
                           .strides = l->strides };
}

static void give_back(lent *l)
{
    tt_tensor_free(l->tensor);
    tti_mfree(l);
}

static void delete_versioned(tt_dl_managed_versioned *self)
{
    give_back(self->ctx);
}

static void delete_unversioned(tt_dl_managed *self)
{
    give_back(self->ctx);
}

tt_dl_managed_versioned *tt_to_dlpack(tt_tensor *t)
{
    lent *l = lend(t);

    if (l == NULL)
        return NULL;
    l->managed.versioned = (tt_dl_managed_versioned){ .major = TT_DL_MAJOR,
                                                      .minor = TT_DL_MINOR,
                                                      .ctx = l,
                                                      .deleter = delete_versioned,
                                                      .tensor = described(l) };
    return &l->managed.versioned;
}

tt_dl_managed *tt_to_dlpack_unversioned(tt_tensor *t)
{
    lent *l = lend(t);

    if (l == NULL)
        return NULL;
    l->managed.old =
        (tt_dl_managed){ .tensor = described(l), .ctx = l, .deleter = delete_unversioned };
    return &l->managed.old;
}
