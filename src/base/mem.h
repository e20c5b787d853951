/* SPDX-License-Identifier: Apache-2.0 */
/* All memory of the library that is not tensor data. Every call may be made to fail by
 * tt_debug_fail_alloc. On failure the functions return NULL and record the cause. */
#ifndef TTI_BASE_MEM_H
#define TTI_BASE_MEM_H

#include "base/status.h"

void *tti_malloc(size_t bytes);
void *tti_calloc(size_t n, size_t size);
void *tti_realloc(void *p, size_t bytes); /* on failure `p` is untouched */
char *tti_strdup(const char *s);
void tti_mfree(void *p);

/* True when this allocation is the one that a test wants to fail. Allocators other than the ones
 * above (tensor data) ask it too. */
bool tti_alloc_should_fail(void);

/* Grow the vector `*items_p` of `size`-byte items so that it holds at least `n`. */
tt_status tti_vec_reserve(void **items_p, size_t *cap, size_t n, size_t size);

#endif
