/* SPDX-License-Identifier: Apache-2.0 */
/* Saved tensors inside frames; for node.c and saved.c. */
#ifndef TTI_GRAPH_SAVED_H
#define TTI_GRAPH_SAVED_H

#include "graph/graph.h"

/* Give up a saved tensor that lives in a frame. */
void tti_saved_leave_frame(tti_saved *s);

#endif
