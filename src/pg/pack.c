/* SPDX-License-Identifier: Apache-2.0 */
/* Strided tensors to and from dense memory: row-major order, one innermost row at a time. */
#include "pg/pack.h"

#include <string.h>

#include "tensor/tensor.h"

typedef struct walk {
    const tt_tensor *t;
    size_t esize;
    char *strided; /* the tensor's first element */
    char *dense;   /* moves on */
    bool to_dense;
} walk;

static void move_row(walk *w, char *at, int64_t n, int64_t stride)
{
    size_t step = (size_t)(stride * (int64_t)w->esize);

    if (stride == 1) {
        w->to_dense ? memcpy(w->dense, at, (size_t)n * w->esize)
                    : memcpy(at, w->dense, (size_t)n * w->esize);
        w->dense += (size_t)n * w->esize;
        return;
    }
    for (int64_t i = 0; i < n; i++, at += step, w->dense += w->esize)
        w->to_dense ? memcpy(w->dense, at, w->esize) : memcpy(at, w->dense, w->esize);
}

static void move_dim(walk *w, int dim, char *at)
{
    const tt_tensor *t = w->t;

    if (dim >= t->n_dims - 1) {
        bool scalar = t->n_dims == 0;
        move_row(w, at, scalar ? 1 : t->dims[dim], scalar ? 1 : t->strides[dim]);
        return;
    }
    for (int64_t i = 0; i < t->dims[dim]; i++)
        move_dim(w, dim + 1, at + i * t->strides[dim] * (int64_t)w->esize);
}

static void move_all(const tt_tensor *t, void *dense, bool to_dense)
{
    walk w = { t, tti_esize(t), tti_data(t), dense, to_dense };

    if (t->numel > 0)
        move_dim(&w, 0, w.strided);
}

void tti_pack(const tt_tensor *t, void *dense)
{
    move_all(t, dense, true);
}

void tti_unpack(tt_tensor *t, const void *dense)
{
    move_all(t, (void *)dense, false);
}
