/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the dimensions of a reduction into loops. See reduce_plan.h. */
#include "ops/cpu/reduce_plan.h"

#include "ops/cpu/reduce_fold.h"

#define SEGMENT 65536 /* elements; large enough to be worth a turn of a parallel loop */

typedef struct axis {
    int64_t size, x, out;
    bool red;
} axis;

/* Repeated elements (stride 0) go outside: inside they would hide the contiguous dimension. */
static bool outside(const axis *a, const axis *b)
{
    if (a->x == 0 || b->x == 0)
        return a->x == 0 && b->x != 0;
    return a->x > b->x;
}

/* The axes longer than 1, the largest stride first, neighbours merged. */
static int list_axes(axis *list, const tt_tensor *out, const tt_tensor *x, uint32_t mask)
{
    int n = 0, kept = 0;

    for (int d = 0; d < x->n_dims; d++) {
        axis a = { x->dims[d], x->strides[d], out->strides[d], (mask >> d & 1) != 0 };
        int at = n;

        if (a.size == 1)
            continue;
        if (a.red)
            a.out = 0;
        for (; at > 0 && outside(&a, &list[at - 1]); at--)
            list[at] = list[at - 1];
        list[at] = a;
        n++;
    }
    for (int i = 1; i < n; i++) {
        axis *a = &list[kept], *b = &list[i];

        if (a->red == b->red && a->x == b->x * b->size && a->out == b->out * b->size) {
            b->size *= a->size;
            *a = *b;
        } else {
            list[++kept] = *b;
        }
    }
    return n == 0 ? 0 : kept + 1;
}

static int last_of_kind(const axis *list, int n, bool red)
{
    for (int i = n - 1; i >= 0; i--)
        if (list[i].red == red)
            return i;
    return -1;
}

static void add_loop(tti_loop *l, const axis *a)
{
    l->dims[l->n] = a->size;
    l->x[l->n] = a->x;
    l->out[l->n] = a->out;
    l->total *= a->size;
    l->n++;
}

/* Groups are independent of each other; segments must not depend on the number of threads. */
static void cut(tti_reduce_plan *p)
{
    int64_t row = p->n > 0 ? p->n : 1;
    bool columns = p->stride != 1 && p->out_stride == 1 && p->n_out > 1;

    p->group = columns ? TTI_FOLD_GROUP : 4 * SEGMENT / (row * p->red.total + 1);
    if (p->group < 16)
        p->group = 16;
    if (p->group > TTI_FOLD_GROUP)
        p->group = TTI_FOLD_GROUP;
    if (p->group > p->n_out)
        p->group = p->n_out > 0 ? p->n_out : 1;
    p->groups_per_row = (p->n_out + p->group - 1) / p->group;
    p->n_groups = p->groups_per_row * p->keep.total;

    p->piece = columns ? SEGMENT / p->group : SEGMENT;
    p->pieces = (row + p->piece - 1) / p->piece;
    p->rows = p->pieces > 1 ? 1 : p->piece / row;
    p->n_segments =
        p->pieces > 1 ? p->pieces * p->red.total : (p->red.total + p->rows - 1) / p->rows;
}

void tti_reduce_plan_make(tti_reduce_plan *p, const tt_tensor *out, const tt_tensor *x,
                          uint32_t mask)
{
    axis list[TT_MAX_DIMS];
    int n, in_red, in_keep;

    p->keep.n = p->red.n = 0;
    p->keep.total = p->red.total = 1;
    p->n_out = p->n = 1;
    p->out_stride = p->out_step = p->stride = 1;
    n = list_axes(list, out, x, mask);
    in_red = last_of_kind(list, n, true);
    in_keep = last_of_kind(list, n, false);
    if (in_red >= 0) {
        p->n = list[in_red].size;
        p->stride = list[in_red].x;
    }
    if (in_keep >= 0) {
        p->n_out = list[in_keep].size;
        p->out_stride = list[in_keep].x;
        p->out_step = list[in_keep].out;
    }
    for (int i = 0; i < n; i++)
        if (i != in_red && i != in_keep)
            add_loop(list[i].red ? &p->red : &p->keep, &list[i]);
    p->count = p->n * p->red.total;
    cut(p);
}
