/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc: each rank's own shared segments, which peers map when they first meet them. */
#ifndef TTI_COLL_HEAP_H
#define TTI_COLL_HEAP_H

#include "coll/internal.h"

tt_status tti_heap_open(tti_team *team);
/* Gives up what this rank mapped of others'; its own memory stays until it is freed. */
void tti_heap_close(tti_team *team);
/* Where a buffer lies in this process's heaps; false: it does not. */
bool tti_heap_find(const void *p, size_t bytes, tti_place *place_p);
/* The address here of a peer's place; NULL, nothing recorded, when it cannot be mapped. */
char *tti_heap_map(tti_team *team, int rank, const tti_place *place);

#endif
