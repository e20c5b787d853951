/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients made to fit what they belong to, added up, and stored in leaves. */
#ifndef TTI_AUTOGRAD_ACCUMULATE_H
#define TTI_AUTOGRAD_ACCUMULATE_H

#include "autograd/engine.h"

void tti_meta_of_tensor(const tt_tensor *t, tti_out_meta *m);

/* `g` with the shape and type of the result it is the gradient of: broadcast dimensions are summed.
 * Scope-owned; g itself when it fits; NULL when it cannot. */
tt_tensor *tti_grad_fit(tt_tensor *g, const tti_out_meta *m, const char *what);

/* Add g to the gradient of a leaf and run the hooks that wait for that. Takes the reference. */
tt_status tti_accumulate(tt_tensor *leaf, tt_tensor *g, bool create_graph);

#endif
