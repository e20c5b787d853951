/* SPDX-License-Identifier: Apache-2.0 */
/* Process-wide settings: how many threads operators use, and the deterministic mode. */
#include "base/settings.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/single_threaded.h>

#include "base/env.h"
#include "base/status.h"

static atomic_int n_threads; /* 0: not decided yet */
static atomic_bool deterministic;
static _Thread_local int n_here; /* 0: as the process */

/* ---- fork ----------------------------------------------------------------------------------- */

/* A child process has the thread that called fork and no other, but OpenMP there would wait for the threads of its
 * parent. If the parent had any, the child computes on one thread. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static atomic_bool had_threads; /* when it was forked last */
static atomic_bool has_one;     /* this process is such a child */

static void before_fork(void)
{
    atomic_store_explicit(&had_threads, !__libc_single_threaded, memory_order_relaxed);
}

static void in_child(void)
{
    if (!atomic_load_explicit(&had_threads, memory_order_relaxed))
        return;
    atomic_store_explicit(&has_one, true, memory_order_relaxed);
    atomic_store_explicit(&n_threads, 1, memory_order_relaxed);
    n_here = n_here != 0 ? 1 : 0;
    omp_set_num_threads(1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, NULL, in_child);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* No more than OpenMP may start: libraries that plan for threads they do not get split sums otherwise. */
static void tell_openmp(int n)
{
    int most = omp_get_thread_limit();

    pthread_once(&fork_once, watch_forks);
    omp_set_num_threads(n < most ? n : most);
}

int tt_get_num_threads(void)
{
    int n = atomic_load_explicit(&n_threads, memory_order_relaxed);

    if (tt_likely(n != 0))
        return n;
    n = (int)tti_env_int(TTI_ENV_NUM_THREADS, 1, 1024, omp_get_max_threads());
    atomic_store_explicit(&n_threads, n, memory_order_relaxed);
    tell_openmp(n);
    return n;
}

tt_status tt_set_num_threads(int n)
{
    if (n < 1 || n > 1024)
        return TT_FAIL(TT_ERR_INVALID, "threads: expected 1 to 1024, got %d", n);
    if (n > 1 && atomic_load_explicit(&has_one, memory_order_relaxed))
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "threads: expected 1, got %d: this process was forked from one that had "
                       "threads, which OpenMP would wait for",
                       n);
    atomic_store_explicit(&n_threads, n, memory_order_relaxed);
    tell_openmp(n);
    return TT_OK;
}

int tti_threads_for(int64_t work, int64_t grain)
{
    int64_t chunks = work / grain;
    int most = n_here != 0 ? n_here : tt_get_num_threads();

    if (chunks <= 1 || most == 1 || omp_in_parallel())
        return 1;
    return chunks < most ? (int)chunks : most;
}

void tti_threads_here(int n)
{
    if (atomic_load_explicit(&has_one, memory_order_relaxed))
        n = 1;
    if (n_here == n)
        return;
    n_here = n;
    tell_openmp(n);
}

/* ---- the deterministic mode ----------------------------------------------------------------- */

void tt_set_deterministic(bool on)
{
    atomic_store(&deterministic, on);
}

bool tt_is_deterministic(void)
{
    return atomic_load(&deterministic);
}
