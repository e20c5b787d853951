/* SPDX-License-Identifier: Apache-2.0 */
/* What messages say about how they went. */
#ifndef TTI_COLL_P2P_WORDS_H
#define TTI_COLL_P2P_WORDS_H

#include "coll/p2p_impl.h"

/* Records that the wait for `op` took too long, and for what it waited. */
tt_status tti_p2p_say_timeout(tti_p2p *op);
/* Records how it ended. */
tt_status tti_p2p_say_end(tti_p2p *op);

#endif
