/* SPDX-License-Identifier: Apache-2.0 */
/* Which clock the ticks come from, and their length. */
#include "pg/ticks.h"

#include <pthread.h>
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool tti_ticks_fast;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t first_tick;
static int64_t first_ns;

/* Whether the counter ticks at the same rate on all cores and in all their states. */
static bool counter_is_even(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
    return false;
#endif
}

/* Both clocks at the same moment: of several pairs, the one that took least. */
static void read_both(uint64_t *tick_p, int64_t *ns_p)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        uint64_t before = tti_ticks();
        int64_t ns = tti_now_ns();
        uint64_t after = tti_ticks();

        if (after - before >= least)
            continue;
        least = after - before;
        *tick_p = before + least / 2;
        *ns_p = ns;
    }
}

static void init(void)
{
    tti_ticks_fast = counter_is_even();
    read_both(&first_tick, &first_ns);
}

void tti_ticks_init(void)
{
    pthread_once(&once, init);
}

tti_ticks_scale tti_ticks_measure(void)
{
    tti_ticks_scale s = { .ns_per_tick = 1.0 };

    tti_ticks_init();
    /* Two pairs too close to each other would say nothing about the rate. */
    while (tti_now_ns() - first_ns < 1000000)
        ;
    read_both(&s.tick, &s.ns);
    if (s.tick != first_tick)
        s.ns_per_tick = (double)(s.ns - first_ns) / (double)(s.tick - first_tick);
    return s;
}
