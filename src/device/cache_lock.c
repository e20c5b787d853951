/* SPDX-License-Identifier: Apache-2.0 */
/* The slow side of the lock that prefers one thread. */
#include "device/cache_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEED_FIRST 32u
#define NEED_MOST (1u << 20)

TTI_HOT_TLS uint64_t tti_thread_number;

static _Atomic uint64_t n_threads;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool can_bias; /* after `once` */

static void ask_kernel(void)
{
    can_bias = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void tti_bias_init(tti_bias_lock *l)
{
    pthread_once(&once, ask_kernel);
    atomic_init(&l->owner, TTI_NOBODY);
    atomic_init(&l->inside, false);
    pthread_mutex_init(&l->mu, NULL);
    l->last = TTI_NOBODY;
    l->row = 0;
    l->need = NEED_FIRST;
}

void tti_bias_fini(tti_bias_lock *l)
{
    pthread_mutex_destroy(&l->mu);
}

/* With mu held. seq_cst: the store comes before membarrier, and that before the loads, for the compiler too. */
static void depose(tti_bias_lock *l)
{
    atomic_store_explicit(&l->owner, TTI_NOBODY, memory_order_seq_cst);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    while (atomic_load_explicit(&l->inside, memory_order_acquire))
        sched_yield(); /* the owner is inside for some nanoseconds, unless it lost its core */
    if (l->need < NEED_MOST)
        l->need *= 2;
}

void tti_bias_lock_mutex(tti_bias_lock *l)
{
    uint64_t owner;

    if (tti_thread_number == 0)
        tti_thread_number = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) + 1;
    pthread_mutex_lock(&l->mu);
    owner = atomic_load_explicit(&l->owner, memory_order_relaxed);
    if (owner == tti_thread_number)
        return; /* deposed and back again, before it came here */
    if (owner != TTI_NOBODY)
        depose(l);
    if (l->last != tti_thread_number) {
        l->last = tti_thread_number;
        l->row = 0;
    }
    if (++l->row >= l->need && can_bias) {
        l->row = 0;
        /* Release: the next biased entry of this thread needs no more than program order. */
        atomic_store_explicit(&l->owner, tti_thread_number, memory_order_release);
    }
}
