/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of tensors and storages. A tensor is a view (sizes, strides, offset) of a storage; a
 * storage is one block of memory on one device with a counter of in-place writes.
 *
 *     tt_tensor a --.
 *     tt_tensor b ---> tt_storage --> bytes
 *     (dims, strides, offset)  (version, device, release)
 */
#ifndef TTI_TENSOR_TENSOR_H
#define TTI_TENSOR_TENSOR_H

#include <assert.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/status.h"
#include "device/driver.h"
#include "tutti/tensor.h"

typedef struct tt_storage tt_storage;
typedef struct tti_sparse tti_sparse;
typedef struct tti_node tti_node;           /* graph/graph.h */
typedef struct tti_grad_meta tti_grad_meta; /* graph/graph.h */

struct tt_storage {
    atomic_int refs;
    tt_device device;
    const tti_driver *driver; /* NULL: not ours to free; see release */
    void *data;
    size_t bytes;
    atomic_uint_fast64_t version; /* in-place writes so far */
    tt_release_fn release;
    void *release_ctx;
};

enum {
    TTI_REQUIRES_GRAD = 1,
    TTI_CONTIGUOUS = 2, /* row-major without gaps; kept up to date */
    TTI_NUMBER = 4,     /* a bare number for type promotion */
    TTI_INFERENCE = 8,  /* made in inference mode */
    TTI_VIEW = 16,      /* made by a view operator from another tensor */
    TTI_COALESCED = 32, /* sparse: sorted, each index once */
    TTI_HOME = 64,      /* a gradient on its way to the leaf whose home it is in: see graph.h */
};

struct tt_tensor {
    atomic_int refs;
    uint8_t dtype; /* tt_dtype */
    uint8_t n_dims;
    uint16_t flags;
    tt_device device;
    uint32_t out_nr; /* which result of grad_fn */
    int64_t numel;
    int64_t offset;      /* in elements */
    tt_storage *storage; /* NULL: sparse */
    tti_node *grad_fn;   /* NULL: leaf */
    tti_grad_meta *meta; /* gradient, hooks; NULL until needed */
    tti_sparse *sparse;
    tt_tensor *base; /* of a view: the tensor it views, when autograd must know */
    int64_t dims[TT_MAX_DIMS];
    int64_t strides[TT_MAX_DIMS];
};

/* Sparse COO: shape and dtype are in the tensor. */
struct tti_sparse {
    tt_tensor *indices; /* int64 [sparse_dims, nnz], retained */
    tt_tensor *values;  /* [nnz, dense...], retained */
    int sparse_dims;
    atomic_uint_fast64_t version; /* in-place writes so far */
};

extern const uint8_t tti_dtype_sizes[TT_N_DTYPES];

/* Called when a tensor dies while it has grad_fn or meta: a row of src/registry.c. */
extern void (*const tti_drop_graph)(tt_tensor *t);

/* ---- storages --------------------------------------------------------------------------- */

tt_storage *tti_storage_new(size_t bytes, tt_device device);
tt_storage *tti_storage_retain(tt_storage *s);
void tti_storage_free(tt_storage *s);
/* A storage over some bytes of another one, which lives on as long; writes to it are counted apart. */
tt_storage *tti_storage_part(tt_storage *whole, size_t at, size_t bytes);
/* What s is a part of, or s. */
tt_storage *tti_storage_whole(tt_storage *s);

/* ---- tensors ------------------------------------------------------------------------------ */

/* A new tensor in the current scope with uninitialised contiguous memory. */
tt_tensor *tti_empty(const int64_t *dims, int n_dims, tt_dtype dtype, tt_device device);
/* The same with strides given; the storage is as large as they need. */
tt_tensor *tti_empty_strided(const int64_t *dims, const int64_t *strides, int n_dims,
                             tt_dtype dtype, tt_device device);
/* Shape of x, its order of dimensions in memory (dense strides kept), the given type. */
tt_tensor *tti_empty_like(const tt_tensor *x, tt_dtype dtype);
/* The same on another device. */
tt_tensor *tti_empty_like_on(const tt_tensor *x, tt_dtype dtype, tt_device device);
/* Whether the strides visit one block of memory, each element once, in some order of dimensions. */
bool tti_is_dense(const tt_tensor *t);
/* A tensor of the shape and strides of x, which are dense, over a storage that is as large; takes over the
 * reference to it, also on failure, when s may be NULL. */
tt_tensor *tti_over_like(const tt_tensor *x, tt_storage *s);
/* A view of x's storage; no autograd. Strides and dims are checked by the caller. */
tt_tensor *tti_view_raw(const tt_tensor *x, const int64_t *dims, const int64_t *strides, int n_dims,
                        int64_t offset);
/* A tensor without storage (for sparse), in the current scope. */
tt_tensor *tti_bare(const int64_t *dims, int n_dims, tt_dtype dtype, tt_device device);

/* Recompute TTI_CONTIGUOUS and numel after dims or strides changed. */
void tti_update_flags(tt_tensor *t);

/* Hand a new reference to the innermost scope of this thread. On failure the reference is freed and
 * NULL returned. */
tt_tensor *tti_scope_add(tt_tensor *t);

static inline bool tti_is_contiguous(const tt_tensor *t)
{
    return (t->flags & TTI_CONTIGUOUS) != 0;
}

static inline size_t tti_esize(const tt_tensor *t)
{
    return tti_dtype_sizes[t->dtype];
}

/* The first element. */
static inline void *tti_data(const tt_tensor *t)
{
    return (char *)t->storage->data + (size_t)t->offset * tti_esize(t);
}

static inline uint64_t tti_version(const tt_tensor *t)
{
    if (tt_likely(t->storage != NULL))
        return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    return t->sparse != NULL ? atomic_load_explicit(&t->sparse->version, memory_order_relaxed) : 0;
}

static inline void tti_bump_version(tt_tensor *t)
{
    if (tt_likely(t->storage != NULL))
        atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
    else if (t->sparse != NULL)
        atomic_fetch_add_explicit(&t->sparse->version, 1, memory_order_relaxed);
}

static inline bool tti_same_shape(const tt_tensor *a, const tt_tensor *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

#endif
