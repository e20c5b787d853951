/* SPDX-License-Identifier: Apache-2.0 */
/* Groups used by one thread: see alone.h. */
#include "pg/alone.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local char tti_alone_me;

void tti_alone_init(tti_alone *a)
{
    bool can = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;

    atomic_init(&a->owner, 0);
    atomic_init(&a->busy, TTI_ALONE_IDLE);
    atomic_init(&a->shared, !can);
    atomic_init(&a->fenced, !can);
}

bool tti_alone_claim(tti_alone *a)
{
    uintptr_t nobody = 0;

    return !atomic_load_explicit(&a->shared, memory_order_relaxed) &&
           atomic_compare_exchange_strong_explicit(&a->owner, &nobody, (uintptr_t)&tti_alone_me,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Waits that are short, unless the owner's core was taken away. */
static void wait_while_numbering(const tti_alone *a)
{
    while (atomic_load_explicit(&a->busy, memory_order_acquire) == TTI_ALONE_NUMBERS)
        sched_yield();
}

void tti_alone_share(tti_alone *a)
{
    if (atomic_load_explicit(&a->owner, memory_order_relaxed) == (uintptr_t)&tti_alone_me &&
        !atomic_load_explicit(&a->shared, memory_order_relaxed))
        return; /* the owner's own messages and works */
    atomic_store_explicit(&a->shared, true, memory_order_seq_cst);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    wait_while_numbering(a);
    atomic_store_explicit(&a->fenced, true, memory_order_release);
}

void tti_alone_wait(tti_alone *a)
{
    while (atomic_load_explicit(&a->busy, memory_order_acquire) == TTI_ALONE_RUNS)
        usleep(20);
}
