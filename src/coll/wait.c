/* SPDX-License-Identifier: Apache-2.0 */
/* Bells: see wait.h. */
#include "coll/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define YIELD_NS 1000000        /* at most: each may cost a time slice where others want the core */
#define CHECK_EVERY_NS 10000000 /* of peers, aborts and so on, while asleep */

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, value, &t, NULL, 0);
}

void tti_bell_wake(tti_bell *bell)
{
    /* Release: who sees the new number sees what was stored before it was rung. */
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_release);
    syscall(SYS_futex, (uint32_t *)&bell->rings, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool tti_heavy_fence_init(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

static void heavy_fence(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void tti_patience_init(tti_patience *p, int size, int n_cores)
{
    /* With a core for everybody the peer is running: what it does next comes within microseconds. Without,
     * it may be waiting for this very core. */
    p->eager = size <= n_cores ? 100 : 2;
    p->spins = size <= n_cores ? 1000 : 2; /* 50 us */
    p->yields = size <= n_cores ? 200 : 50;
}

/* One sleep at most: until rung, or `ns` have passed. */
static bool sleep_once(tti_bell *bell, const tti_wait *w, bool heavy, int64_t ns)
{
    uint32_t rings;
    bool ready;

    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with that of tti_bell_ring */
    if (heavy)
        heavy_fence();
    rings = atomic_load_explicit(&bell->rings, memory_order_acquire);
    ready = w->ready(w->ctx);
    if (!ready)
        futex_wait(&bell->rings, rings, ns);
    atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
    return ready || w->ready(w->ctx);
}

bool tti_yield(int64_t *since_p)
{
    int64_t now;

    sched_yield();
    now = tti_now_ns();
    if (*since_p == 0)
        *since_p = now;
    return now - *since_p < YIELD_NS;
}

/* Asks `check`, and whether the wait is over: a peer may do its part and leave before this rank looks, and then its leaving is
 * no failure of this operation. What was recorded about it is forgotten. */
static bool is_over(const tti_wait *w, tt_status *st_p)
{
    tti_error_copy before;

    tti_error_save(&before);
    *st_p = w->check != NULL ? w->check(w->ctx) : TT_OK;
    if (!w->ready(w->ctx))
        return false;
    if (*st_p != TT_OK)
        tti_error_restore(&before);
    return true;
}

tt_status tti_bell_wait(tti_bell *bell, const tti_patience *patience, const tti_wait *w)
{
    int64_t now, ns, since;

    for (int i = 0; i < patience->spins; i++) {
        if (w->ready(w->ctx))
            return TT_OK;
        if (i >= patience->eager)
            tti_cpu_relax();
    }
    since = 0;
    for (int i = 0; i < patience->yields && tti_yield(&since); i++)
        if (w->ready(w->ctx))
            return TT_OK;
    for (;;) {
        tt_status st;

        if (is_over(w, &st))
            return TT_OK;
        if (st != TT_OK)
            return st;
        now = tti_now_ns();
        if (now >= w->deadline_ns)
            return TT_ERR_TIMEOUT;
        ns = w->deadline_ns - now < CHECK_EVERY_NS ? w->deadline_ns - now : CHECK_EVERY_NS;
        if (sleep_once(bell, w, patience->heavy, ns))
            return TT_OK;
    }
}
