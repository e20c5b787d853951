/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process lives, by the kernel's word: one descriptor per process, shared by all teams. */
#ifndef TTI_COLL_LIFE_H
#define TTI_COLL_LIFE_H

#include "base/status.h"

typedef struct tti_life tti_life;

/* When this process was started, in ticks since boot; 0 when unknown. */
uint64_t tti_life_start_time(int pid);
/* Begins to watch. `start_time` tells the process from a later one with the same number; 0: unknown. Fails
 * with PEER, and nothing recorded, when it has ended already. */
tt_status tti_life_open(int pid, uint64_t start_time, tti_life **life_p);
void tti_life_close(tti_life *life); /* accepts NULL */
bool tti_life_ended(tti_life *life);

#endif
