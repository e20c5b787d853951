/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocks that come and go with every operator: tensors, storages, nodes. Each thread keeps lists of
 * freed ones by size. */
#ifndef TTI_BASE_SMALL_H
#define TTI_BASE_SMALL_H

#include "base/mem.h"

/* Uninitialised memory, or NULL with the cause recorded. Free it with the same size, on any thread. */
void *tti_small_alloc(size_t bytes);
void tti_small_free(void *p, size_t bytes);

#endif
