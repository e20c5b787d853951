/* SPDX-License-Identifier: Apache-2.0 */
/* How a reduction walks its tensor. Dimensions are ordered by stride and merged where they can
 * be, so that most reductions become one of rows (elements of a result beside each other) or
 * columns (results beside each other), inside loops over what is left:
 *
 *     for each outer kept index            -> `groups`, each of at most TTI_FOLD_GROUP results
 *         for each outer reduced index     -> `segments` of a fixed amount of work
 *             fold n elements of n_out results
 */
#ifndef TTI_OPS_CPU_REDUCE_PLAN_H
#define TTI_OPS_CPU_REDUCE_PLAN_H

#include "tensor/tensor.h"

typedef struct tti_loop {
    int n;
    int64_t dims[TT_MAX_DIMS];
    int64_t x[TT_MAX_DIMS];   /* strides in the operand */
    int64_t out[TT_MAX_DIMS]; /* strides in the result; 0 in reduced loops */
    int64_t total;            /* product of dims */
} tti_loop;

typedef struct tti_reduce_plan {
    tti_loop keep, red;                      /* the outer loops */
    int64_t n_out, out_stride, out_step;     /* innermost kept: size, stride in x and in out */
    int64_t n, stride;                       /* innermost reduced */
    int64_t count;                           /* elements per result */
    int64_t group, groups_per_row, n_groups; /* results per group */
    int64_t piece, pieces, rows, n_segments; /* a segment: a piece of n, or so many rows of n */
} tti_reduce_plan;

void tti_reduce_plan_make(tti_reduce_plan *p, const tt_tensor *out, const tt_tensor *x,
                          uint32_t mask);

/* Where the loop's i-th turn begins in the operand (and, when `out_p` is not NULL, in the
 * result). */
static inline int64_t tti_loop_at(const tti_loop *l, int64_t i, int64_t *out_p)
{
    int64_t x = 0, out = 0;

    for (int d = l->n - 1; d >= 0; d--) {
        int64_t q = i / l->dims[d], r = i - q * l->dims[d];

        x += r * l->x[d];
        out += r * l->out[d];
        i = q;
    }
    if (out_p != NULL)
        *out_p = out;
    return x;
}

#endif
