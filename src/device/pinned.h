/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory for copies that devices make while the host goes on: a pool over host_new and host_free of the
 * accelerators. A block remembers the streams whose copies use it and, freed, is not handed out before they
 * have passed. */
#ifndef TTI_DEVICE_PINNED_H
#define TTI_DEVICE_PINNED_H

#include "device/accel.h"
#include "tutti/memory.h"

/* Page-aligned. bytes is not 0. NULL: recorded. Any thread, as are all of these. */
void *tti_pinned_alloc(const tti_accel *accel, size_t bytes);
void tti_pinned_free(void *p);
/* A copy that uses the block of p (anywhere in it) has been queued on s. */
tt_status tti_pinned_record(const void *p, tt_stream *s);

/* The first kind of accelerator that has devices; NULL: NOT_FOUND, saying what is missing. */
const tti_accel *tti_pinned_accel(void);

#endif
