/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors to and from other libraries and files: DLPack, .npy, safetensors.
 *
 *     tt_safetensors *st = tt_safetensors_open("model.safetensors");
 *     tt_tensor *w = tt_safetensors_get(st, "layer.0.weight");   // read when it is used
 *
 * Files are mapped into memory, not read: opening a large one is quick, and elements are loaded when
 * they are touched. The mapping is private, so writing to such a tensor never changes the file. A
 * file must not be shortened while tensors from it are alive; replace it by renaming, as the
 * functions here do. What comes from a file is checked and never trusted. */
#ifndef TUTTI_IO_H
#define TUTTI_IO_H

#include "tutti/dlpack.h"
#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack: no copy ------------------------------------------------------------------------ */

/* A tensor over the memory of `m`, which is taken over whether this succeeds or not: its deleter is
 * called when the last tensor over the memory is gone, or at once on failure. Memory marked
 * read-only is copied. UNSUPPORTED for other devices, element types or major versions. */
TT_API tt_tensor *tt_from_dlpack(tt_dl_managed_versioned *m);
TT_API tt_tensor *tt_from_dlpack_unversioned(tt_dl_managed *m);
/* The memory of `t` for another library, alive until that calls the deleter. Fails for tensors that
 * require a gradient (tt_detach them), are sparse, or are not on the CPU. */
TT_API tt_dl_managed_versioned *tt_to_dlpack(tt_tensor *t);
TT_API tt_dl_managed *tt_to_dlpack_unversioned(tt_tensor *t);

/* ---- .npy: one array per file ---------------------------------------------------------------- */

/* Versions 1 to 3, either order of dimensions; big-endian files are refused. */
TT_API tt_tensor *tt_npy_load(const char *path);
/* The same from bytes in memory, which are copied. */
TT_API tt_tensor *tt_npy_parse(const void *data, size_t size);
/* Written beside `path` and renamed, so that readers see the old file or the new one. */
TT_API tt_status tt_npy_save(const char *path, tt_tensor *t);

/* ---- safetensors: named tensors and some words ------------------------------------------------- */

typedef struct tt_safetensors tt_safetensors;

/* Open a file and check its header: every offset, size and name. Tensors of types we do not know are
 * listed; only fetching one is an error. */
TT_API tt_safetensors *tt_safetensors_open(const char *path);
/* The same from bytes in memory, which are copied. */
TT_API tt_safetensors *tt_safetensors_parse(const void *data, size_t size);
/* Tensors that were fetched stay valid. Accepts NULL. */
TT_API void tt_safetensors_free(tt_safetensors *st);

typedef struct tt_safetensors_info {
    const char *name;       /* as long as the file is open */
    const char *dtype_name; /* as the file spells it: "F32", "BF16", "F8_E4M3" */
    bool loadable;          /* whether tt_safetensors_get can give it */
    tt_dtype dtype;         /* when loadable */
    tt_shape shape;         /* n_dims is -1 when there are more than TT_MAX_DIMS */
    uint64_t bytes;
} tt_safetensors_info;

TT_API int tt_safetensors_count(const tt_safetensors *st);
/* Tensor number i, in order of their place in the file. INVALID when out of range. */
TT_API tt_status tt_safetensors_at(const tt_safetensors *st, int i, tt_safetensors_info *info_p);
/* NOT_FOUND when there is no such name. */
TT_API tt_status tt_safetensors_find(const tt_safetensors *st, const char *name,
                                     tt_safetensors_info *info_p);
/* The tensor, over the mapped file without a copy (unless it is not aligned there). */
TT_API tt_tensor *tt_safetensors_get(tt_safetensors *st, const char *name);
/* The word for `key`, NULL without an error when there is none. */
TT_API const char *tt_safetensors_metadata(const tt_safetensors *st, const char *key);
/* Pair number i; false past the end. */
TT_API bool tt_safetensors_metadata_at(const tt_safetensors *st, int i, const char **key_p,
                                       const char **value_p);

typedef struct tt_named_tensor {
    const char *name;
    tt_tensor *tensor;
} tt_named_tensor;

typedef struct tt_text_pair {
    const char *key;
    const char *value;
} tt_text_pair;

/* Write a file with these tensors (any device, any strides) and pairs of words (may be NULL). It is
 * complete on the disk before it takes the place of an older one. */
TT_API tt_status tt_safetensors_save(const char *path, const tt_named_tensor *tensors,
                                     int n_tensors, const tt_text_pair *metadata, int n_metadata);

#ifdef __cplusplus
}
#endif

#endif
