/* SPDX-License-Identifier: Apache-2.0 */
/* tti_alloc_should_fail of base/mem.h, inline, for allocators that take a few nanoseconds. */
#ifndef TTI_BASE_ALLOC_FAULT_H
#define TTI_BASE_ALLOC_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tls.h"

extern TTI_HOT_TLS uint64_t tti_alloc_countdown; /* 0: off */
extern TTI_HOT_TLS uint64_t tti_alloc_counted;

static inline bool tti_alloc_fault(void)
{
    tti_alloc_counted++;
    return __builtin_expect(tti_alloc_countdown != 0, 0) && --tti_alloc_countdown == 0;
}

#endif
