/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time and deadlines, in nanoseconds. Linux gives all processes of a host the same one. */
#ifndef TTI_BASE_CLOCK_H
#define TTI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TTI_NEVER INT64_MAX

static inline int64_t tti_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The moment `timeout_ms` from now. */
static inline int64_t tti_deadline(int64_t timeout_ms)
{
    return tti_now_ns() + timeout_ms * 1000000;
}

/* Milliseconds left, at least 0, rounded up; INT32_MAX for TTI_NEVER. */
static inline int tti_ms_left(int64_t deadline_ns)
{
    if (deadline_ns == TTI_NEVER)
        return INT32_MAX;
    int64_t left = deadline_ns - tti_now_ns();
    if (left <= 0)
        return 0;
    left = (left + 999999) / 1000000;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

#endif
