/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in blocks: element `first` (a multiple of 4) and those after it. */
#ifndef TTI_OPS_CPU_RANDOM_H
#define TTI_OPS_CPU_RANDOM_H

#include "ops/cpu/cpu.h"

#define TTI_RANDOM_CHUNK 1024 /* the most elements per call */

typedef struct tti_random_loops {
    void (*f32)(const tti_random_draw *d, int64_t first, int64_t n, float *out);
    void (*f64)(const tti_random_draw *d, int64_t first, int64_t n, double *out);
    void (*i64)(const tti_random_draw *d, int64_t first, int64_t n, int64_t *out);
} tti_random_loops;

/* The type numbers are drawn in, before they are converted to that of the tensor. */
tt_dtype tti_drawn_type(tti_random_kind kind, tt_dtype dtype);
/* The greatest number of a 16-bit type below `hi`. */
float tti_half_below(tt_dtype d, float hi);

#endif
