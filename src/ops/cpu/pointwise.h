/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of pointwise kernels, and the walk over strided operands that calls them.
 *
 *     entry (pointwise.c) -> walk (pointwise_walk.c) -> loop (pointwise_<type>.isa.c)
 *
 * A loop sees one dimension: `n` elements, pointers and strides in bytes of the result (0) and the
 * operands (1 ..), and four parameters. Results and operands are either the same memory or apart. */
#ifndef TTI_OPS_CPU_POINTWISE_H
#define TTI_OPS_CPU_POINTWISE_H

#include "ops/cpu/cpu.h"

#define TTI_MAX_OPERANDS 4 /* the result and three operands */

typedef void (*tti_loop)(int64_t n, char *const *ptrs, const int64_t *strides, const double *p);

/* What there is for one compute type; NULL where the operator has no meaning. */
typedef struct tti_loops {
    tti_loop unary[TTI_N_UNARY];
    tti_loop binary[TTI_N_BINARY];
    tti_loop ternary[TTI_N_TERNARY];
    tti_loop arange; /* p: start, step, index of the first element */
} tti_loops;

/* A loop as the walk calls it. Operands of a 16-bit type are converted to float32 on the way. */
typedef struct tti_work {
    tti_loop loop;
    const double *p;
    int n_operands; /* with the result */
    bool halves;
    uint8_t dtypes[TTI_MAX_OPERANDS];
} tti_work;

typedef void (*tti_half_fn)(const tti_work *w, int64_t n, char *const *ptrs,
                            const int64_t *strides);

/* Loops that convert: copies[from][to]; NULL where the walk goes through float32. */
typedef struct tti_copy_loops {
    tti_loop copies[TT_N_DTYPES][TT_N_DTYPES];
    tti_half_fn half;
    tti_loop fill[17]; /* by element size; p is the element as it is stored */
    /* by element size up to 8: dst[i][j] = src[j][i]; strides in bytes */
    void (*transpose[9])(int64_t rows, int64_t columns, char *dst, int64_t dst_stride,
                         const char *src, int64_t src_stride);
} tti_copy_loops;

const tti_loops *tti_loops_of(tt_dtype compute); /* float32's for 16-bit types */
const tti_copy_loops *tti_copy_loops_now(void);

/* Run the work over out and operands (ts[0] is the result; the others broadcast to it). `grain` is
 * how many elements are worth a thread. */
void tti_walk(const tti_work *w, const tt_tensor *const *ts, int64_t grain);
/* dst = src of the same type and shape as dst, moving tiles when their orders differ. */
void tti_walk_copy(const tti_work *w, const tt_tensor *dst, const tt_tensor *src);

/* ---- what accelerators use too ------------------------------------------------------------------- */

/* How many numbers `p` of an operator has. */
int tti_unary_params(tti_unary_op op, bool cplx);
int tti_binary_params(tti_binary_op op, bool cplx);
int64_t tti_unary_grain(tti_unary_op op);
int64_t tti_binary_grain(tti_binary_op op);
/* The bytes of one element with this value. */
void tti_element_bytes(tt_dtype d, double re, double im, void *bytes);

#define TTI_GRAIN 32768      /* elements per thread of memory-bound loops */
#define TTI_GRAIN_HEAVY 4096 /* of loops with exponentials and the like */

#endif
