/* SPDX-License-Identifier: Apache-2.0 */
/* Functions along one line of a tensor, by type: see reduce_line.inc. */
#ifndef TTI_OPS_CPU_REDUCE_LINE_H
#define TTI_OPS_CPU_REDUCE_LINE_H

#include "ops/cpu/reduce_plan.h"

typedef struct tti_cumulate_args {
    void *out;
    const void *x;
    int64_t n, out_stride, x_stride;
    bool product;
} tti_cumulate_args;

typedef struct tti_line_fns {
    int64_t (*arg)(const void *x, int64_t n, int64_t stride, bool largest); /* NULL: complex */
    void (*cumulate)(const tti_cumulate_args *a);
    void (*keys)(uint64_t *keys, const void *x, int64_t n, int64_t stride); /* every second word */
} tti_line_fns;

extern const tti_line_fns tti_lines[TT_N_DTYPES];

/* The lines of x along `dim`: a loop over all other dimensions, with out's strides beside x's. */
static inline void tti_lines_of(tti_loop *l, const tt_tensor *x, const tt_tensor *out, int dim)
{
    l->n = 0;
    l->total = 1;
    for (int d = 0; d < x->n_dims; d++) {
        if (d == dim)
            continue;
        l->dims[l->n] = x->dims[d];
        l->x[l->n] = x->strides[d];
        l->out[l->n] = out->strides[d];
        l->total *= x->dims[d];
        l->n++;
    }
}

#endif
