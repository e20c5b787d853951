/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc: each rank's own shared segments, which peers map when they first meet them. */
#ifndef TTI_COLL_HEAP_H
#define TTI_COLL_HEAP_H

#include "coll/internal.h"

tt_status tti_heap_open(tti_team *team);
/* Gives up what this rank mapped of others'; its own memory stays until it is freed. */
void tti_heap_close(tti_team *team);
/* Where a buffer lies in this process's heaps; false: it does not, or peers cannot reach all of it any more. */
bool tti_heap_find(const void *p, size_t bytes, tti_place *place_p);
/* Takes these bytes of a heap, with the pages they lie in, from the peers for ever: when it returns, nothing that peers
 * write arrives here, and what this process wrote, at any time and by any thread, is kept. False, nothing recorded: there
 * was no memory for copies, and the content of the pages is lost (they are zero). */
bool tti_heap_leave(const void *p, size_t bytes);
/* How often that was done in this process. */
uint64_t tti_heap_leaves(void);
/* The address here of a peer's place; NULL, nothing recorded, when it cannot be mapped or the peer has left. */
char *tti_heap_map(tti_team *team, int rank, const tti_place *place);

#endif
