/* SPDX-License-Identifier: Apache-2.0 */
/* The operator conformance suite: one table row per public operator, the same properties for all of
 * them, on the CPU and on the first OpenCL device. A new operator needs one row in the table of its family. All
 * operators of ops.h and functional.h have one; what makes tensors (tensor.h, random.h) has none. */
#ifndef TESTS_CONFORMANCE_CONFORMANCE_H
#define TESTS_CONFORMANCE_CONFORMANCE_H

#include <tutti/tutti.h>

#define CONFORM_MAX_IN 5

typedef enum conform_flags {
    CONFORM_FIRST_ORDER = 1 << 0, /* no second derivative, or it is constant zeros */
    CONFORM_NO_GRAD = 1 << 1,     /* no derivative at all: the result never requires one */
    CONFORM_NO_HALF = 1 << 2,     /* no float16 and bfloat16 */
    CONFORM_EMPTY_FAILS = 1 << 3, /* refuses an empty input */
    CONFORM_INPLACE = 1 << 4,     /* writes its first input and returns it */
    CONFORM_STRIDED = 1 << 5,     /* sees strides, or may refuse them: no non-contiguous inputs */
    CONFORM_BY_VALUE = 1 << 6,    /* the shape of the result depends on values */
    CONFORM_NO_EMPTY = 1 << 7,    /* its input cannot be made empty */
    CONFORM_THREADS_DIFFER = 1 << 8, /* a BLAS splits its sum by threads: bits may differ */
    CONFORM_CPU_ONLY = 1 << 9,       /* not for accelerators */
} conform_flags;

/* Inputs are spelled like "fNx4 i3:N f4?": a letter for the values, dimensions, `?` for an input that
 * may be NULL. N is 3, much more in tests of threads, and 0 in tests of empty inputs.
 *   f any   p positive   u between 0 and 1   c complex   n small int64   b bool
 *   i<limit>: int64 indices below the limit   o<step>: ascending int64 from 0 */
typedef struct conform_row {
    const char *name;
    tt_tensor *(*fn)(tt_tensor *const *in);
    const char *inputs;
    unsigned flags;
    int64_t big; /* N in tests of threads; 0: 20011 */
} conform_row;

typedef struct conform_input {
    char kind;
    bool optional;
    int64_t limit;
    tt_shape shape;
} conform_input;

/* One test: a row on a device. */
typedef struct conform_case {
    const conform_row *row;
    tt_device device;
} conform_case;

/* Adds the tests of n rows as suite conformance_<family>. */
void conform_add(const char *family, const conform_row *rows, int n);

/* How many inputs the row has; `in` gets what they are when N is n. */
int conform_parse(const conform_row *row, int64_t n, conform_input *in);
bool conform_is_float(const conform_input *in);
/* The inputs with their values in `dtype` (complex ones in the complex type of that precision);
 * ends the test when they cannot be made. Returns how many there are. */
int conform_make(const conform_case *c, int64_t n, tt_dtype dtype, tt_tensor **in);
/* The result of the operator; one that works in place gets a copy of its first input. */
tt_tensor *conform_call(const conform_row *row, tt_tensor *const *in);

/* float64, or float32 on a device that does not compute in it. */
tt_dtype conform_wide(const conform_case *c);

/* The result and the gradients of the inputs, NULL where there is none. */
typedef struct conform_outcome {
    tt_tensor *result;
    tt_tensor *grads[CONFORM_MAX_IN];
} conform_outcome;

/* Runs the operator on leaves over the same memory as `in`, with the same strides. */
conform_outcome conform_run(const conform_case *c, tt_tensor *const *in);
void conform_check_same(const char *what, const conform_outcome *got, const conform_outcome *want,
                        double tol);
/* Weights for the gradient of t, of its shape; never all alike, exact in every type. */
tt_tensor *conform_weights(tt_tensor *t);

/* The same values in other strides. */
typedef struct conform_layout {
    const char *name;
    tt_tensor *(*fn)(tt_tensor *t);
} conform_layout;
enum { CONFORM_LAYOUTS = 4 };
extern const conform_layout conform_layouts[CONFORM_LAYOUTS];

void conform_gradient(void *ctx);
void conform_float32(void *ctx);
void conform_float16(void *ctx);
void conform_bfloat16(void *ctx);
void conform_strides(void *ctx);
void conform_empty(void *ctx);
void conform_null(void *ctx);
void conform_threads(void *ctx);
void conform_unmodified(void *ctx);
void conform_grad_mode(void *ctx);
/* All that holds on an accelerator, in one test: what the CPU gives, and most of the above. */
void conform_device(void *ctx);

#endif
