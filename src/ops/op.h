/* SPDX-License-Identifier: Apache-2.0 */
/* How an operator is written. The public function describes its call, begins it (inputs are checked,
 * observers asked), computes the result with kernels, and ends it (the result goes on the graph):
 *
 *     tt_tensor *tt_relu(tt_tensor *x)
 *     {
 *         tti_call   c = { .op = &op_relu, .n_in = 1, .in = &x };
 *         tt_tensor *y;
 *
 *         if (!tti_call_begin(&c))
 *             return NULL;
 *         y = tti_empty_like(x, x->dtype);
 *         tti_call_save(&c, y);
 *         return tti_call_end(&c, y, tti_unary(TTI_RELU, y, x, NULL));
 *     }
 *
 * All tensors are scope-owned, so nothing is undone when a step fails. */
#ifndef TTI_OPS_OP_H
#define TTI_OPS_OP_H

#include "graph/graph.h"
#include "ops/autocast.h"
#include "ops/kernels.h"
#include "tensor/shape.h"
#include "tutti/functional.h"
#include "tutti/ops.h"

#define TTI_MAX_SAVED 8

typedef struct tti_call {
    const tti_op *op;
    tt_tensor *const *in;
    int n_in;
    uint32_t optional; /* bit i: in[i] may be NULL */
    const void *attrs; /* copied into the node */
    size_t attrs_bytes;
    tt_tensor *saved[TTI_MAX_SAVED];
    int n_saved;
    bool wants_grad; /* set by begin: the call will be recorded */
    bool observed;
} tti_call;

/* Check inputs (NULL, sparse, devices), ask observers. False: failed, recorded, and
 * the operator returns NULL. */
bool tti_call_begin(tti_call *c);

/* Remember a tensor for backward: an input, a result or a helper; NULL keeps an empty place.
 * Saved tensors are numbered in the order of these calls. Costs nothing when not recording. */
static inline void tti_call_save(tti_call *c, tt_tensor *t)
{
    assert(c->n_saved < TTI_MAX_SAVED);
    c->saved[c->n_saved++] = t;
}

/* Finish: on success record `out` and return it; else return NULL. `out` NULL is a failure. */
tt_tensor *tti_call_end(tti_call *c, tt_tensor *out, tt_status st);
/* The same with several results; those that are not floating are left out of the graph. */
tt_status tti_call_end_many(tti_call *c, tt_tensor *const *outs, int n_out, tt_status st);

/* In-place operators: in[0] is written. Refuses leaves that require a gradient while recording, and
 * views whose base is in a graph. End bumps the version and rebases in[0] onto the new node. */
bool tti_call_begin_inplace(tti_call *c);
tt_tensor *tti_call_end_inplace(tti_call *c, tt_status st);

/* Run `st` through: TT_OK when the tensor is there, else the recorded failure. */
static inline tt_status tti_made(const tt_tensor *t)
{
    return tt_likely(t != NULL) ? TT_OK : tt_last_status();
}

/* ---- types ------------------------------------------------------------------------------- */

/* The type in which two operands meet; numbers and 0-d tensors do not widen tensors of the same
 * category. */
tt_dtype tti_result_type(const tt_tensor *a, const tt_tensor *b);
/* Integers and bool become float32; others stay. */
tt_dtype tti_float_type(tt_dtype d);
/* x converted without recording; x itself when nothing to do. */
tt_tensor *tti_cast(tt_tensor *x, tt_dtype dtype);
/* x, or a contiguous copy of it, without recording. */
tt_tensor *tti_contiguous(tt_tensor *x);
/* An empty tensor of the shape (and, where they agree, memory order) a and b broadcast to. */
tt_tensor *tti_empty_broadcast(const char *name, const tt_tensor *a, const tt_tensor *b,
                               tt_dtype dtype);

/* Refuse a tensor that is not floating (or complex when allowed): "name: expected ..., got ...". */
tt_status tti_check_floating(const char *name, const tt_tensor *x, bool complex_too);
/* The same, and integers pass too where there are kernels for them: on the CPU. */
tt_status tti_check_number(const char *name, const tt_tensor *x, bool complex_too);
tt_status tti_check_index(const char *name, const tt_tensor *x); /* int64 or int32 */

#endif
