/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc: each rank's own shared segments, which peers map when they first meet them. */
#ifndef TTI_COLL_HEAP_H
#define TTI_COLL_HEAP_H

#include "coll/internal.h"

tt_status tti_heap_open(tti_team *team);
/* Gives up what this rank mapped of others'; its own memory stays until it is freed. */
void tti_heap_close(tti_team *team);
/* The segment (1 and up) and offset of a buffer that lies in this rank's heap; false: it does not. */
bool tti_heap_find(tti_team *team, const void *p, size_t bytes, uint32_t *seg_p,
                   uint64_t *offset_p);
/* The address here of `bytes` bytes of a peer's heap; NULL, nothing recorded, when it cannot be mapped. */
void *tti_heap_map(tti_team *team, int rank, uint32_t seg, uint64_t offset, size_t bytes);

#endif
