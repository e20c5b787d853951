/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc. */
#include "coll/heap.h"

#include <stdlib.h>

tt_status tti_heap_open(tti_team *team)
{
    (void)team;
    return TT_OK;
}

void tti_heap_close(tti_team *team)
{
    (void)team;
}

void *tti_team_alloc(tti_team *team, size_t bytes)
{
    (void)team;
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
}

void tti_team_free_bytes(tti_team *team, void *p)
{
    (void)team;
    free(p);
}
