/* SPDX-License-Identifier: Apache-2.0 */
/* Making tensors, their life time, and the questions one can ask of them. */
#include "base/error.h"
#include "tensor/tensor.h"

#include <string.h>

#include "base/refcount.h"
#include "base/small.h"
#include "tensor/debug.h"
#include "tensor/shape.h"

/* ---- making ------------------------------------------------------------------------------ */

static tt_tensor *tensor_alloc(const int64_t *dims, int n_dims, tt_dtype dtype, tt_device device)
{
    tt_tensor *t =
        tt_unlikely(tti_debug_tensors()) ? tti_debug_alloc() : tti_small_alloc(sizeof *t);

    if (t == NULL)
        return NULL;
    memset(t, 0, offsetof(tt_tensor, dims));
    atomic_init(&t->refs, 1);
    t->dtype = (uint8_t)dtype;
    t->n_dims = (uint8_t)n_dims;
    t->device = device;
    for (int i = 0; i < n_dims; i++)
        t->dims[i] = dims[i];
    return t;
}

static tt_status check_shape(const int64_t *dims, int n_dims, tt_dtype dtype, int64_t *numel_p)
{
    int64_t n, bytes;

    if (n_dims < 0 || n_dims > TT_MAX_DIMS)
        return TT_FAIL(TT_ERR_INVALID, "tensor: expected 0 to %d dimensions, got %d", TT_MAX_DIMS,
                       n_dims);
    if ((unsigned)dtype >= TT_N_DTYPES)
        return TT_FAIL(TT_ERR_INVALID, "tensor: unknown element type %d", (int)dtype);
    n = tti_numel(dims, n_dims);
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)tt_dtype_size(dtype), &bytes))
        return TT_FAIL(TT_ERR_INVALID, "tensor: shape %s has a negative size or is too large",
                       tti_shape_text(dims, n_dims, (char[TTI_SHAPE_TEXT]){ 0 }, TTI_SHAPE_TEXT));
    *numel_p = n;
    return TT_OK;
}

/* Tensors say exactly where they are: here "the current device" becomes one. */
static tt_status settle(tt_device *device)
{
    return tt_likely(device->index != TT_CURRENT) ? TT_OK : tt_device_resolve(*device, device);
}

tt_tensor *tti_bare(const int64_t *dims, int n_dims, tt_dtype dtype, tt_device device)
{
    int64_t numel;
    tt_tensor *t;

    if (check_shape(dims, n_dims, dtype, &numel) != TT_OK || settle(&device) != TT_OK)
        return NULL;
    t = tensor_alloc(dims, n_dims, dtype, device);
    if (t == NULL)
        return NULL;
    t->numel = numel;
    tti_strides_contiguous(dims, n_dims, t->strides);
    return tti_scope_add(t);
}

tt_tensor *tti_empty(const int64_t *dims, int n_dims, tt_dtype dtype, tt_device device)
{
    int64_t numel;
    tt_tensor *t;

    if (check_shape(dims, n_dims, dtype, &numel) != TT_OK || settle(&device) != TT_OK)
        return NULL;
    t = tensor_alloc(dims, n_dims, dtype, device);
    if (t == NULL)
        return NULL;
    t->numel = numel;
    t->flags = TTI_CONTIGUOUS;
    tti_strides_contiguous(dims, n_dims, t->strides);
    t->storage = tti_storage_new((size_t)numel * tt_dtype_size(dtype), device);
    if (t->storage == NULL) {
        tt_tensor_free(t);
        return NULL;
    }
    return tti_scope_add(t);
}

/* The bytes that the storage must hold: up to the last element that the strides reach. */
static tt_status bytes_of(const int64_t *dims, const int64_t *strides, int n_dims, tt_dtype dtype,
                          size_t *bytes_p)
{
    int64_t span = 1, bytes;
    bool none = false;

    for (int i = 0; i < n_dims; i++) {
        int64_t step;

        if (strides[i] < 0)
            return TT_FAIL(TT_ERR_INVALID, "tensor: stride %lld of dimension %d is negative",
                           (long long)strides[i], i);
        if (dims[i] == 0) {
            none = true;
            continue;
        }
        if (__builtin_mul_overflow(dims[i] - 1, strides[i], &step) ||
            __builtin_add_overflow(span, step, &span))
            return TT_FAIL(TT_ERR_INVALID, "tensor: strides reach too far");
    }
    if (__builtin_mul_overflow(span, (int64_t)tt_dtype_size(dtype), &bytes))
        return TT_FAIL(TT_ERR_INVALID, "tensor: strides reach too far");
    *bytes_p = none ? 0 : (size_t)bytes;
    return TT_OK;
}

tt_tensor *tti_empty_strided(const int64_t *dims, const int64_t *strides, int n_dims,
                             tt_dtype dtype, tt_device device)
{
    int64_t numel;
    size_t bytes;
    tt_tensor *t;

    if (check_shape(dims, n_dims, dtype, &numel) != TT_OK ||
        bytes_of(dims, strides, n_dims, dtype, &bytes) != TT_OK || settle(&device) != TT_OK)
        return NULL;
    t = tensor_alloc(dims, n_dims, dtype, device);
    if (t == NULL)
        return NULL;
    memcpy(t->strides, strides, (size_t)n_dims * sizeof *strides);
    tti_update_flags(t);
    t->storage = tti_storage_new(bytes, device);
    if (t->storage == NULL) {
        tt_tensor_free(t);
        return NULL;
    }
    return tti_scope_add(t);
}

bool tti_is_dense(const tt_tensor *t)
{
    int64_t step = 1;
    bool used[TT_MAX_DIMS] = { false };

    if (t->storage == NULL || tti_is_contiguous(t))
        return t->storage != NULL;
    for (int found = 0; found < t->n_dims; found++) {
        int pick = -1;

        for (int i = t->n_dims - 1; i >= 0; i--)
            if (!used[i] && (t->dims[i] == 1 || t->strides[i] == step)) {
                pick = i;
                break;
            }
        if (pick < 0)
            return false;
        used[pick] = true;
        if (t->dims[pick] != 1)
            step *= t->dims[pick];
    }
    return true;
}

tt_tensor *tti_empty_like_on(const tt_tensor *x, tt_dtype dtype, tt_device device)
{
    if (tt_likely(tti_is_contiguous(x)) || x->numel == 0 || !tti_is_dense(x))
        return tti_empty(x->dims, x->n_dims, dtype, device);
    return tti_empty_strided(x->dims, x->strides, x->n_dims, dtype, device);
}

tt_tensor *tti_empty_like(const tt_tensor *x, tt_dtype dtype)
{
    return tti_empty_like_on(x, dtype, x->device);
}

tt_tensor *tti_over_like(const tt_tensor *x, tt_storage *s)
{
    tt_tensor *t =
        s != NULL ? tensor_alloc(x->dims, x->n_dims, (tt_dtype)x->dtype, s->device) : NULL;

    if (t == NULL) {
        tti_storage_free(s);
        return NULL;
    }
    tti_strides_contiguous(x->dims, x->n_dims, t->strides);
    if (tti_is_dense(x))
        memcpy(t->strides, x->strides, sizeof t->strides);
    t->storage = s;
    tti_update_flags(t);
    return tti_scope_add(t);
}

tt_tensor *tti_view_raw(const tt_tensor *x, const int64_t *dims, const int64_t *strides, int n_dims,
                        int64_t offset)
{
    tt_tensor *t;

    if (n_dims > TT_MAX_DIMS)
        return TT_FAIL_NULL(TT_ERR_INVALID, "view: at most %d dimensions, got %d", TT_MAX_DIMS,
                            n_dims);
    t = tensor_alloc(dims, n_dims, (tt_dtype)x->dtype, x->device);
    if (t == NULL)
        return NULL;
    for (int i = 0; i < n_dims; i++)
        t->strides[i] = strides[i];
    t->offset = offset;
    t->storage = tti_storage_retain(x->storage);
    t->flags = (uint16_t)(TTI_VIEW | (x->flags & TTI_INFERENCE));
    tti_update_flags(t);
    return tti_scope_add(t);
}

void tti_update_flags(tt_tensor *t)
{
    int64_t step = 1;
    bool plain = true;

    t->numel = tti_numel(t->dims, t->n_dims);
    for (int i = t->n_dims - 1; i >= 0; i--) {
        if (t->dims[i] != 1) {
            plain = plain && t->strides[i] == step;
            step *= t->dims[i];
        }
    }
    if (plain || t->numel == 0)
        t->flags |= TTI_CONTIGUOUS;
    else
        t->flags &= (uint16_t)~TTI_CONTIGUOUS;
}

tt_tensor *tt_empty(tt_shape shape, tt_dtype dtype, tt_device device)
{
    return tti_empty(shape.dims, shape.n_dims, dtype, device);
}

tt_tensor *tt_empty_strided(tt_shape shape, const int64_t *strides, tt_dtype dtype,
                            tt_device device)
{
    if (strides == NULL)
        return tt_empty(shape, dtype, device);
    return tti_empty_strided(shape.dims, strides, shape.n_dims, dtype, device);
}

tt_tensor *tt_empty_like(const tt_tensor *t)
{
    if (tti_check_alive(t, "empty_like") != TT_OK)
        return NULL;
    return t != NULL ? tti_empty_like(t, (tt_dtype)t->dtype)
                     : TT_NULL_GIVEN("empty_like", "a tensor");
}

tt_tensor *tt_wrap(void *data, tt_shape shape, const int64_t *strides, tt_dtype dtype,
                   tt_release_fn release, void *ctx)
{
    int64_t numel;
    size_t bytes;
    tt_tensor *t;
    tt_storage *s;
    int64_t row_major[TT_MAX_DIMS];

    if (check_shape(shape.dims, shape.n_dims, dtype, &numel) != TT_OK)
        return NULL;
    if (data == NULL && numel != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "wrap: expected memory, got NULL");
    if (strides == NULL) {
        tti_strides_contiguous(shape.dims, shape.n_dims, row_major);
        strides = row_major;
    }
    if (bytes_of(shape.dims, strides, shape.n_dims, dtype, &bytes) != TT_OK)
        return NULL;
    t = tensor_alloc(shape.dims, shape.n_dims, dtype, TT_CPU);
    if (t == NULL)
        return NULL;
    memcpy(t->strides, strides, (size_t)shape.n_dims * sizeof *strides);
    tti_update_flags(t);
    s = tti_small_alloc(sizeof *s);
    if (s == NULL) {
        tt_tensor_free(t);
        return NULL;
    }
    *s = (tt_storage){ .device = TT_CPU };
    atomic_init(&s->refs, 1);
    s->data = data;
    s->bytes = bytes;
    t->storage = s;
    if (tti_scope_add(t) == NULL)
        return NULL;
    s->release = release; /* from here on the memory is the tensor's */
    s->release_ctx = ctx;
    tti_made_by(t, "wrap");
    return t;
}

tt_tensor *tt_from_data(const void *data, tt_shape shape, tt_dtype dtype)
{
    tt_tensor *t = tt_empty(shape, dtype, TT_CPU);

    if (t == NULL)
        return NULL;
    if (data == NULL && t->numel != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "from_data: expected memory, got NULL");
    if (t->numel != 0)
        memcpy(tti_data(t), data, tt_tensor_bytes(t));
    tti_made_by(t, "from_data");
    return t;
}

/* ---- life time --------------------------------------------------------------------------- */

tt_tensor *tt_tensor_retain(tt_tensor *t)
{
    if (!tti_alive(t, "tensor_retain"))
        return NULL;
    tti_ref(&t->refs);
    return t;
}

static void sparse_free(tti_sparse *s)
{
    if (s == NULL)
        return;
    tt_tensor_free(s->indices);
    tt_tensor_free(s->values);
    tti_mfree(s);
}

static void free_parts(tt_tensor *t)
{
    if (t->grad_fn != NULL || t->meta != NULL)
        tti_drop_graph(t);
    tt_tensor_free(t->base);
    sparse_free(t->sparse);
    tti_storage_free(t->storage);
}

void tt_tensor_free(tt_tensor *t)
{
    bool debug = tti_debug_tensors();

    if (t == NULL || (tt_unlikely(debug) && !tti_debug_may_free(t)) || !tti_unref(&t->refs))
        return;
    free_parts(t);
    if (tt_unlikely(debug))
        tti_debug_bury(t);
    else
        tti_small_free(t, sizeof *t);
}

/* ---- asking ------------------------------------------------------------------------------ */

tt_shape tt_tensor_shape(const tt_tensor *t)
{
    tt_shape s = { 0 };

    if (!tti_alive(t, "tensor_shape"))
        return s;
    s.n_dims = t->n_dims;
    memcpy(s.dims, t->dims, (size_t)t->n_dims * sizeof s.dims[0]);
    return s;
}

int tt_tensor_dims(const tt_tensor *t)
{
    return tti_alive(t, "tensor_dims") ? t->n_dims : 0;
}

int64_t tt_tensor_size(const tt_tensor *t, int dim)
{
    if (!tti_alive(t, "tensor_size") || dim < -t->n_dims || dim >= t->n_dims)
        return -1;
    return t->dims[dim < 0 ? dim + t->n_dims : dim];
}

int64_t tt_tensor_numel(const tt_tensor *t)
{
    return tti_alive(t, "tensor_numel") ? t->numel : 0;
}

tt_dtype tt_tensor_dtype(const tt_tensor *t)
{
    return tti_alive(t, "tensor_dtype") ? (tt_dtype)t->dtype : TT_F32;
}

tt_device tt_tensor_device(const tt_tensor *t)
{
    return tti_alive(t, "tensor_device") ? t->device : TT_CPU;
}

const int64_t *tt_tensor_strides(const tt_tensor *t)
{
    return tti_alive(t, "tensor_strides") ? t->strides : NULL;
}

int64_t tt_tensor_offset(const tt_tensor *t)
{
    return tti_alive(t, "tensor_offset") ? t->offset : 0;
}

bool tt_tensor_is_contiguous(const tt_tensor *t, tt_memory_format format)
{
    int64_t want[TT_MAX_DIMS];

    if (!tti_alive(t, "tensor_is_contiguous") || t->storage == NULL)
        return false;
    if (format == TT_FORMAT_CONTIGUOUS || format == TT_FORMAT_PRESERVE)
        return tti_is_contiguous(t);
    if (t->n_dims != (format == TT_FORMAT_CHANNELS_LAST ? 4 : 5))
        return false;
    tti_strides_format(t->dims, t->n_dims, format, want);
    for (int i = 0; i < t->n_dims; i++)
        if (t->dims[i] != 1 && t->strides[i] != want[i])
            return false;
    return true;
}

bool tt_tensor_is_sparse(const tt_tensor *t)
{
    return tti_alive(t, "tensor_is_sparse") && t->sparse != NULL;
}

bool tt_tensor_shares_storage(const tt_tensor *a, const tt_tensor *b)
{
    return tti_alive(a, "tensor_shares_storage") && tti_alive(b, "tensor_shares_storage") &&
           a->storage != NULL && a->storage == b->storage;
}

uint64_t tt_tensor_version(const tt_tensor *t)
{
    return tti_alive(t, "tensor_version") ? tti_version(t) : 0;
}

void *tt_tensor_data(const tt_tensor *t)
{
    if (!tti_alive(t, "tensor_data"))
        return NULL;
    if (t->storage == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "data: a sparse tensor has no single block of memory");
    return tti_data(t);
}

size_t tt_tensor_bytes(const tt_tensor *t)
{
    return tti_alive(t, "tensor_bytes") ? (size_t)t->numel * tti_esize(t) : 0;
}
