/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over dimensions as kernels get them: loop_t of loops.cl. */
#ifndef TTI_OPS_ACCEL_LOOPS_H
#define TTI_OPS_ACCEL_LOOPS_H

#include "ops/accel/accel.h"
#include "ops/cpu/reduce_plan.h"

extern const char tti_source_loops[];

typedef struct tti_accel_loop {
    int64_t n, total;
    int64_t dims[TT_MAX_DIMS], x[TT_MAX_DIMS], out[TT_MAX_DIMS];
} tti_accel_loop;

static inline void tti_accel_loop_add(tti_accel_loop *l, int64_t size, int64_t x, int64_t out)
{
    if (size == 1)
        return;
    l->dims[l->n] = size;
    l->x[l->n] = x;
    l->out[l->n] = out;
    l->total *= size;
    l->n++;
}

static inline tti_accel_loop tti_accel_loop_of(const tti_loop *from)
{
    tti_accel_loop l = { .total = 1 };

    for (int i = 0; i < from->n; i++)
        tti_accel_loop_add(&l, from->dims[i], from->x[i], from->out[i]);
    return l;
}

/* For kernels in which one work-item does a whole task of about `each` elements. */
static inline tti_grid tti_accel_grid_tasks(tt_device d, int64_t tasks, int64_t each)
{
    if (tti_group_size(d) == 1)
        return tti_grid_rows(d, (uint64_t)tasks, (uint64_t)each);
    return tti_grid_elements(d, (uint64_t)tasks);
}

/* The lines of x along `dim`: all other dimensions, with out's strides beside x's. dim -1: all. */
static inline tti_accel_loop tti_accel_lines(const tt_tensor *x, const tt_tensor *out, int dim)
{
    tti_accel_loop l = { .total = 1 };

    for (int d = 0; d < x->n_dims; d++)
        if (d != dim)
            tti_accel_loop_add(&l, x->dims[d], x->strides[d], out->strides[d]);
    return l;
}

#endif
