/* SPDX-License-Identifier: Apache-2.0 */
/* On which streams a backward runs. A node runs on the stream its operator ran on, whatever is current where backward
 * was called; leaves, and devices other than the node's, use the caller's current streams. A gradient that goes to
 * another stream makes that one wait, and in the end the caller's streams wait for all that were used. On the CPU
 * there are no streams and nothing to do. */
#ifndef TTI_AUTOGRAD_STREAMS_H
#define TTI_AUTOGRAD_STREAMS_H

#include "autograd/run.h"

/* Out of line: the node, or the gradient, is on an accelerator. */
tt_status tti_streams_enter_slow(tti_streams *s, const tti_node *n);
void tti_streams_leave_slow(tti_streams *s);

/* Before and after a node runs. */
static inline tt_status tti_streams_enter(tti_streams *s, const tti_node *n)
{
    return tt_likely(n->stream == NULL) ? TT_OK : tti_streams_enter_slow(s, n);
}

static inline void tti_streams_leave(tti_streams *s)
{
    if (tt_unlikely(s->entered != NULL))
        tti_streams_leave_slow(s);
}

/* g, on an accelerator and made on the current stream of its device, is now for `to` (NULL: a leaf). Returns the stream that has to be
 * current while g is added to what `to` got before; NULL: it is already. */
tt_status tti_streams_hand_over(tti_streams *s, const tti_node *to, tt_tensor *g,
                                tt_stream **stream_p);

/* g stays with the caller: its memory is in use on the caller's stream too. */
tt_status tti_streams_keep(const tti_streams *s, tt_tensor *g);

/* The caller's streams wait for those that were used; they are forgotten. */
tt_status tti_streams_rejoin(tti_streams *s);

#endif
