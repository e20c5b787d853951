/* SPDX-License-Identifier: Apache-2.0 */
/* One walk over the graph: from roots with their gradients to leaves, or to chosen inputs. */
#ifndef TTI_AUTOGRAD_ENGINE_H
#define TTI_AUTOGRAD_ENGINE_H

#include "graph/graph.h"

typedef struct tti_walk {
    tt_tensor *const *roots;
    tt_tensor *const *root_grads; /* same number, none NULL */
    int n_roots;
    /* NULL: every leaf. Else only the gradients of these are computed. */
    tt_tensor *const *inputs;
    int n_inputs;
    tt_tensor **captured; /* NULL: accumulate into inputs; else store there, owned, and
                                 * accumulate nowhere */
    bool retain_graph, create_graph;
} tti_walk;

tt_status tti_engine_walk(const tti_walk *w);

/* Call one of the two when the backward that is running on this thread ends: the outermost one, if it was
 * started inside of another. `end` after all its work, `failed` when that, this end call or one before it went
 * wrong: exactly one of `end` with success and `failed` is the last that is called. */
tt_status tti_on_backward_done(tt_backward_end_fn end, void (*failed)(void *ctx), void *ctx);

/* a + b as gradients: dense or sparse; may add into a when nobody else sees it. Returns an owned
 * reference and takes that of `a`; NULL on failure, with `a` freed. */
tt_tensor *tti_grad_sum(tt_tensor *a, tt_tensor *b, bool record);

#endif
