/* SPDX-License-Identifier: Apache-2.0 */
/* The memory layout that libraries agreed on (DLPack) to hand tensors to one another without a copy.
 * The structs below have the same layout as those of other DLPack headers, under our own names, so
 * that both can be included: cast the pointers. io.h has the functions.
 *
 *     tt_dl_managed_versioned *m = tt_to_dlpack(t);
 *     other_library_take((DLManagedTensorVersioned *)m);                 // it calls the deleter
 */
#ifndef TUTTI_DLPACK_H
#define TUTTI_DLPACK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_DL_MAJOR 1
#define TT_DL_MINOR 0

enum { /* tt_dl_device.type; others exist, we know these */
       TT_DL_CPU = 1,
       TT_DL_CUDA = 2,
       TT_DL_CUDA_HOST = 3,
       TT_DL_OPENCL = 4,
};

enum { /* tt_dl_type.code */
       TT_DL_INT = 0,
       TT_DL_UINT = 1,
       TT_DL_FLOAT = 2,
       TT_DL_OPAQUE = 3,
       TT_DL_BFLOAT = 4,
       TT_DL_COMPLEX = 5,
       TT_DL_BOOL = 6,
};

#define TT_DL_READ_ONLY UINT64_C(1) /* the consumer must not write */
#define TT_DL_IS_COPIED UINT64_C(2) /* made for the consumer; nobody else sees it */

typedef struct tt_dl_device {
    int32_t type;
    int32_t id;
} tt_dl_device;

typedef struct tt_dl_type {
    uint8_t code;
    uint8_t bits;   /* of one lane */
    uint16_t lanes; /* 1, except for vectors */
} tt_dl_type;

typedef struct tt_dl_tensor {
    void *data;
    tt_dl_device device;
    int32_t n_dims;
    tt_dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
} tt_dl_tensor;

/* The old form, without a version. */
typedef struct tt_dl_managed {
    tt_dl_tensor tensor;
    void *ctx;
    void (*deleter)(struct tt_dl_managed *self); /* may be NULL */
} tt_dl_managed;

/* The form of version 1. With another major version only `deleter` may be touched. */
typedef struct tt_dl_managed_versioned {
    uint32_t major, minor;
    void *ctx;
    void (*deleter)(struct tt_dl_managed_versioned *self); /* may be NULL */
    uint64_t flags;
    tt_dl_tensor tensor;
} tt_dl_managed_versioned;

#ifdef __cplusplus
}
#endif

#endif
