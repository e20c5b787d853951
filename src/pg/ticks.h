/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that costs a few nanoseconds to read: the CPU's counter where it is known to run evenly, else the
 * monotonic clock. Ticks become monotonic nanoseconds by comparing both clocks, when somebody asks. */
#ifndef TTI_PG_TICKS_H
#define TTI_PG_TICKS_H

#include <stdbool.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Decided by tti_ticks_init, before the first tick is read. */
extern bool tti_ticks_fast;

static inline uint64_t tti_ticks(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(tti_ticks_fast, 1))
        return __rdtsc();
#elif defined(__aarch64__)
    uint64_t t;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#endif
    return (uint64_t)tti_now_ns();
}

/* Any number of times, from any thread. */
void tti_ticks_init(void);

/* How ticks become nanoseconds, as measured from tti_ticks_init until now. */
typedef struct tti_ticks_scale {
    uint64_t tick;
    int64_t ns; /* at that tick */
    double ns_per_tick;
} tti_ticks_scale;

tti_ticks_scale tti_ticks_measure(void);

static inline int64_t tti_ticks_ns(const tti_ticks_scale *s, uint64_t tick)
{
    return s->ns + (int64_t)((double)(int64_t)(tick - s->tick) * s->ns_per_tick);
}

#endif
