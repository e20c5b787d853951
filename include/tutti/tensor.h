/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: typed, strided views of a storage, and the scopes that own them.
 *
 *     TT_SCOPE {
 *         tt_tensor *a = tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU);
 *         tt_tensor *b = tt_mul_scalar(tt_transpose(a, 0, 1), 2.0);
 *         tt_print(b);
 *     }
 *
 * Every tensor made by an expression belongs to the innermost open scope of its thread and dies
 * when that closes, unless tt_tensor_retain kept it. A function that fails returns NULL; a function
 * given NULL returns NULL, so a chain of calls is checked once, at its end. */
#ifndef TUTTI_TENSOR_H
#define TUTTI_TENSOR_H

#include <stdio.h>

#include "tutti/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TT_MAX_DIMS 8

typedef struct tt_tensor tt_tensor;

typedef enum tt_dtype {
    TT_F32,
    TT_F64,
    TT_F16,
    TT_BF16,
    TT_I8,
    TT_U8,
    TT_I16,
    TT_I32,
    TT_I64,
    TT_BOOL,
    TT_C64,
    TT_C128,
} tt_dtype;
#define TT_N_DTYPES 12

TT_API const char *tt_dtype_name(tt_dtype d); /* "float32", "bool", ... */
TT_API size_t tt_dtype_size(tt_dtype d);
TT_API bool tt_dtype_is_floating(tt_dtype d); /* the four real floating types */
TT_API bool tt_dtype_is_complex(tt_dtype d);
TT_API bool tt_dtype_is_integral(tt_dtype d); /* bool is not */
TT_API tt_dtype tt_promote_types(tt_dtype a, tt_dtype b);

typedef struct tt_shape {
    int n_dims;
    int64_t dims[TT_MAX_DIMS];
} tt_shape;

/* TT_SHAPE(2, 3): a shape from its dimensions. TT_SHAPE_SCALAR: no dimensions, one element. */
#define TT_SHAPE(...)                                                                   \
    ((tt_shape){ .n_dims = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                 .dims = { __VA_ARGS__ } })
#define TT_SHAPE_SCALAR ((tt_shape){ .n_dims = 0 })

TT_API int64_t tt_shape_numel(tt_shape s);
TT_API bool tt_shape_equal(tt_shape a, tt_shape b);

typedef enum tt_memory_format {
    TT_FORMAT_CONTIGUOUS,
    TT_FORMAT_CHANNELS_LAST,    /* 4-D, NHWC in memory */
    TT_FORMAT_CHANNELS_LAST_3D, /* 5-D, NDHWC in memory */
    TT_FORMAT_PRESERVE,         /* as the input has it */
} tt_memory_format;

/* ---- scopes ---------------------------------------------------------------------------- */

typedef struct tt_scope {
    size_t mark;
    bool open;
} tt_scope;

TT_API tt_scope tt_scope_open(void);
TT_API void tt_scope_close(tt_scope *s);
/* Close the scope but hand `t` to the one around it; returns `t`. */
TT_API tt_tensor *tt_scope_close_keep(tt_scope *s, tt_tensor *t);
/* How many tensors all scopes of this thread own together. */
TT_API size_t tt_scope_count(void);

/* A block whose tensors end with it. `return`, `goto` and `break` out of it close the scope too;
 * `break` and `continue` leave this block, not a loop around it. */
#define TT_SCOPE TT_SCOPE_NAMED(__COUNTER__)
#define TT_SCOPE_NAMED(n) TT_SCOPE_WITH(n) /* expands __COUNTER__: scopes may nest */
#define TT_SCOPE_WITH(n)                                                                   \
    for (tt_scope tt_scope_##n __attribute__((cleanup(tt_scope_close))) = tt_scope_open(), \
                               *tt_once_##n = &tt_scope_##n;                               \
         tt_once_##n != NULL; tt_once_##n = NULL)

/* ---- life time ------------------------------------------------------------------------- */

/* Keep a tensor beyond its scope; give it up again. Both accept NULL. */
TT_API tt_tensor *tt_tensor_retain(tt_tensor *t);
TT_API void tt_tensor_free(tt_tensor *t);

/* ---- making tensors -------------------------------------------------------------------- */

TT_API tt_tensor *tt_empty(tt_shape shape, tt_dtype dtype, tt_device device);
TT_API tt_tensor *tt_empty_strided(tt_shape shape, const int64_t *strides, tt_dtype dtype,
                                   tt_device device);
TT_API tt_tensor *tt_zeros(tt_shape shape, tt_dtype dtype, tt_device device);
TT_API tt_tensor *tt_ones(tt_shape shape, tt_dtype dtype, tt_device device);
TT_API tt_tensor *tt_full(tt_shape shape, double value, tt_dtype dtype, tt_device device);
TT_API tt_tensor *tt_empty_like(const tt_tensor *t);
TT_API tt_tensor *tt_zeros_like(const tt_tensor *t);
TT_API tt_tensor *tt_ones_like(const tt_tensor *t);
/* start, start + step, ... below end. */
TT_API tt_tensor *tt_arange(double start, double end, double step, tt_dtype dtype,
                            tt_device device);
TT_API tt_tensor *tt_linspace(double start, double end, int64_t n, tt_dtype dtype,
                              tt_device device);
TT_API tt_tensor *tt_eye(int64_t n, tt_dtype dtype, tt_device device);

/* A new tensor like another one: of its type, and on `device` or, if that is NULL, where `like` is, whatever
 * device is current. The values are converted. */
TT_API tt_tensor *tt_new_from(const tt_tensor *like, const double *values, tt_shape shape,
                              const tt_device *device);
TT_API tt_tensor *tt_full_like(const tt_tensor *t, double value);

/* A contiguous tensor with a copy of the elements at `data`. */
TT_API tt_tensor *tt_from_data(const void *data, tt_shape shape, tt_dtype dtype);
/* TT_FLOATS(1, 2, 3): a float32 vector from its elements; TT_INTS likewise int64. */
#define TT_FLOATS(...)                           \
    tt_from_data((const float[]){ __VA_ARGS__ }, \
                 TT_SHAPE((int64_t)(sizeof((float[]){ __VA_ARGS__ }) / sizeof(float))), TT_F32)
#define TT_INTS(...)                                                                        \
    tt_from_data((const int64_t[]){ __VA_ARGS__ },                                          \
                 TT_SHAPE((int64_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))), \
                 TT_I64)

typedef void (*tt_release_fn)(void *ctx, void *data);

/* A tensor over the caller's own memory, without a copy. `strides` in elements, NULL: contiguous.
 * `release` (may be NULL) is called once, when the last tensor over the memory is gone; if
 * tt_wrap fails it is not called. */
TT_API tt_tensor *tt_wrap(void *data, tt_shape shape, const int64_t *strides, tt_dtype dtype,
                          tt_release_fn release, void *ctx);

/* A number that takes part in type promotion the way a bare number does: it never widens a tensor of
 * the same or a higher category (integer < floating < complex). */
TT_API tt_tensor *tt_number(double value);
TT_API tt_tensor *tt_number_int(int64_t value);
TT_API tt_tensor *tt_number_bool(bool value);

/* ---- asking ---------------------------------------------------------------------------- */

TT_API tt_shape tt_tensor_shape(const tt_tensor *t);
TT_API int tt_tensor_dims(const tt_tensor *t);
TT_API int64_t tt_tensor_size(const tt_tensor *t,
                              int dim); /* negative from the end; -1 if out of range */
TT_API int64_t tt_tensor_numel(const tt_tensor *t);
TT_API tt_dtype tt_tensor_dtype(const tt_tensor *t);
TT_API tt_device tt_tensor_device(const tt_tensor *t);
TT_API const int64_t *tt_tensor_strides(const tt_tensor *t); /* in elements; as long as t lives */
TT_API int64_t tt_tensor_offset(const tt_tensor *t);
TT_API bool tt_tensor_is_contiguous(const tt_tensor *t, tt_memory_format format);
TT_API bool tt_tensor_is_sparse(const tt_tensor *t);
TT_API bool tt_tensor_shares_storage(const tt_tensor *a, const tt_tensor *b);
/* How often the storage was written in place. */
TT_API uint64_t tt_tensor_version(const tt_tensor *t);

/* The address of the first element, in the memory of the tensor's device: only of a tensor on the CPU
 * may the host read and write it (tt_to_device first, or tt_copy_out_f32). NULL, with an error, for a
 * sparse tensor. Writing through it is not noticed by autograd. */
TT_API void *tt_tensor_data(const tt_tensor *t);
/* The bytes of the tensor's elements: numel times element size. */
TT_API size_t tt_tensor_bytes(const tt_tensor *t);

/* The value of a tensor with one element. 0 with an error otherwise. */
TT_API double tt_item(const tt_tensor *t);
TT_API int64_t tt_item_int(const tt_tensor *t);
TT_API void tt_item_complex(const tt_tensor *t, double *re_p, double *im_p);
/* Element at an index vector of tt_tensor_dims() entries. */
TT_API double tt_at(const tt_tensor *t, const int64_t *index);
/* Copy all elements, in row-major order, converted to double / float / int64, to `out`. */
TT_API tt_status tt_copy_out_f64(const tt_tensor *t, double *out, size_t n);
TT_API tt_status tt_copy_out_f32(const tt_tensor *t, float *out, size_t n);
TT_API tt_status tt_copy_out_i64(const tt_tensor *t, int64_t *out, size_t n);

/* ---- comparing and printing ------------------------------------------------------------- */

typedef struct tt_close_options {
    double rtol;      /* 0 with atol 0: by dtype: f32 1.3e-6, f64 1e-7, f16 1e-3, bf16 1.6e-2 */
    double atol;      /* 0 with rtol 0: by dtype: 1e-5, f64 1e-7; integers and bool exact */
    bool exact;       /* zero tolerance */
    bool nan_differs; /* NaN is not close to NaN */
    bool skip_dtype;  /* do not compare element types */
} tt_close_options;

typedef struct tt_close_report {
    bool close;
    int64_t n_compared;
    int64_t n_mismatched;
    int64_t first[TT_MAX_DIMS]; /* index of the first mismatch */
    int64_t worst[TT_MAX_DIMS]; /* index of the greatest absolute difference */
    double worst_abs;
    double worst_rel;
    double worst_a, worst_b; /* the two values there */
    char text[512];          /* all of this in words; "" when close */
} tt_close_report;

/* Same shape, type and device, and elements within |a - b| <= atol + rtol * |b|. False on any
 * difference, also when an argument is NULL. */
TT_API bool tt_allclose(const tt_tensor *a, const tt_tensor *b, const tt_close_options *opt);
TT_API bool tt_compare(const tt_tensor *a, const tt_tensor *b, const tt_close_options *opt,
                       tt_close_report *report_p);
/* Bit for bit, shape and type included. */
TT_API bool tt_equal(const tt_tensor *a, const tt_tensor *b);

typedef struct tt_print_options {
    int precision;  /* 0: 4 digits */
    int threshold;  /* 0: 1000 elements, more are summarised */
    int edge_items; /* 0: 3 at each end of a summarised dimension */
    int line_width; /* 0: 80 */
} tt_print_options;

/* The tensor as text, as people know it: tensor([[1., 2.], [3., 4.]]). Free with tt_text_free. */
TT_API char *tt_tensor_text(const tt_tensor *t, const tt_print_options *opt);
TT_API void tt_text_free(char *text);
TT_API tt_status tt_fprint(FILE *f, const tt_tensor *t);
TT_API tt_status tt_print(const tt_tensor *t);

#ifdef __cplusplus
}
#endif

#endif
