/* SPDX-License-Identifier: Apache-2.0 */
/* Freed host memory that is kept for a while, filled with a pattern that reads as NaN and as -1, so that who
 * still uses it is found. Only in the search for dead tensors: base/debug.h. */
#ifndef TTI_DEVICE_CPU_QUARANTINE_H
#define TTI_DEVICE_CPU_QUARANTINE_H

#include <stddef.h>

typedef void (*tti_unkeep_fn)(void *p, size_t bytes);

/* Keep a freed block. The oldest ones, or this one if it is larger than all that may be kept, are given to
 * `unkeep`; a block that was written meanwhile is warned of. Any thread. */
void tti_quarantine_keep(void *p, size_t bytes, tti_unkeep_fn unkeep);
/* Give all of them to `unkeep`. */
void tti_quarantine_empty(tti_unkeep_fn unkeep);

#endif
