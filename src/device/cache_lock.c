/* SPDX-License-Identifier: Apache-2.0 */
/* The slow side of the lock that prefers one thread, and the places of threads. */
#include "device/cache_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEED_FIRST 32u
#define NEED_MOST (1u << 20)
#define MAX_THREADS 256 /* at a time; further ones are never owners */

tti_bias_thread tti_bias_nobody;
TTI_HOT_TLS tti_bias_thread *tti_bias_me;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool can_bias; /* after `once` */
static pthread_key_t key;

static tti_bias_thread places[MAX_THREADS];
static pthread_mutex_t mu_places = PTHREAD_MUTEX_INITIALIZER;
static tti_bias_thread *free_places; /* mu_places */
static int n_places;                 /* mu_places: that were given once */

/* ---- threads ------------------------------------------------------------------------------- */

/* At the end of a thread. What it wrote inside of locks is seen by who gets its place, through mu_places. */
static void give_back(void *place)
{
    tti_bias_thread *t = place;

    tti_bias_me = NULL;
    pthread_mutex_lock(&mu_places);
    t->next = free_places;
    free_places = t;
    pthread_mutex_unlock(&mu_places);
}

static tti_bias_thread *take_place(void)
{
    tti_bias_thread *t;

    pthread_mutex_lock(&mu_places);
    t = free_places;
    if (t != NULL)
        free_places = t->next;
    else if (n_places < MAX_THREADS)
        t = &places[n_places++];
    pthread_mutex_unlock(&mu_places);
    return t;
}

static void introduce(void)
{
    tti_bias_thread *t = can_bias ? take_place() : NULL;

    if (t != NULL && pthread_setspecific(key, t) != 0) {
        give_back(t);
        return;
    }
    tti_bias_me = t;
}

/* ---- the lock ---------------------------------------------------------------------------------- */

static void ask_kernel(void)
{
    can_bias = pthread_key_create(&key, give_back) == 0 &&
               syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void tti_bias_init(tti_bias_lock *l)
{
    pthread_once(&once, ask_kernel);
    atomic_init(&l->owner, &tti_bias_nobody);
    pthread_mutex_init(&l->mu, NULL);
    l->last = NULL;
    l->row = 0;
    l->need = NEED_FIRST;
}

void tti_bias_fini(tti_bias_lock *l)
{
    pthread_mutex_destroy(&l->mu);
}

/* With mu held. seq_cst: the store comes before membarrier, and that before the loads, for the compiler too. */
static void depose(tti_bias_lock *l, tti_bias_thread *owner)
{
    atomic_store_explicit(&l->owner, &tti_bias_nobody, memory_order_seq_cst);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    while (atomic_load_explicit(&owner->in, memory_order_acquire) == l)
        sched_yield(); /* the owner is inside for some nanoseconds, unless it lost its core */
    if (l->need < NEED_MOST)
        l->need *= 2;
}

void tti_bias_lock_mutex(tti_bias_lock *l)
{
    tti_bias_thread *owner, *me;

    if (tti_bias_me == NULL)
        introduce();
    me = tti_bias_me;
    pthread_mutex_lock(&l->mu);
    owner = atomic_load_explicit(&l->owner, memory_order_relaxed);
    if (owner == me)
        return; /* it is in another lock, or has got its place just now */
    if (owner != &tti_bias_nobody)
        depose(l, owner);
    if (l->last != me) {
        l->last = me;
        l->row = 0;
    }
    if (++l->row >= l->need && me != NULL) {
        l->row = 0;
        /* Release: the next biased entry of this thread needs no more than program order. */
        atomic_store_explicit(&l->owner, me, memory_order_release);
    }
}
