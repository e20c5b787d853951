/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all recorders of the process, and one thread, tt-monitor, that dumps them at SIGUSR2 and warns
 * of operations that have used up half their time.
 *
 * The signal handler only wakes the thread, through a futex: no descriptor is kept open. A forked child has no monitor and no recorders of its parent;
 * its first tti_monitor_start begins anew. The lock is held for a few instructions: what the thread looks at
 * it holds references to. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/recorder_ring.h"

#define FEW 64
#define STACK ((size_t)512 << 10)

static pthread_mutex_t mu_list = PTHREAD_MUTEX_INITIALIZER;
static tti_recorder *list; /* mu_list */
static bool has_thread;    /* mu_list */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static atomic_uint wakes; /* counts; the futex */
static atomic_bool signalled;

/* ---- the list -------------------------------------------------------------------------- */

/* Also from the signal handler. */
static void wake(void)
{
    atomic_fetch_add_explicit(&wakes, 1, memory_order_release);
    (void)syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void tti_monitor_add(tti_recorder *r)
{
    pthread_mutex_lock(&mu_list);
    r->next_recorder = list;
    list = r;
    pthread_mutex_unlock(&mu_list);
    wake(); /* its time-out may be shorter than the monitor's nap */
}

void tti_monitor_remove(tti_recorder *r)
{
    pthread_mutex_lock(&mu_list);
    for (tti_recorder **at = &list; *at != NULL; at = &(*at)->next_recorder)
        if (*at == r) {
            *at = r->next_recorder;
            break;
        }
    pthread_mutex_unlock(&mu_list);
}

/* References to all recorders; `few` has room for FEW. When memory is short, to the first FEW. */
static tti_recorder **snapshot(tti_recorder **few, int *n_p)
{
    tti_recorder **all = few;
    int n = 0;

    pthread_mutex_lock(&mu_list);
    for (tti_recorder *r = list; r != NULL; r = r->next_recorder)
        n++;
    if (n > FEW && (all = tti_malloc((size_t)n * sizeof(tti_recorder *))) == NULL) {
        all = few;
        n = FEW;
    }
    *n_p = n;
    n = 0;
    for (tti_recorder *r = list; r != NULL && n < *n_p; r = r->next_recorder) {
        atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
        all[n++] = r;
    }
    pthread_mutex_unlock(&mu_list);
    return all;
}

/* ---- operations that take long ---------------------------------------------------------- */

static void warn(const tti_recorder *r, const tti_recorded_copy *c, int64_t ns, int timeout_ms)
{
    tti_log(TT_LOG_WARN,
            "pg: group %s rank %d: %s %llu has been running for %.1f s; its time-out is %.1f s",
            r->group, r->rank, c->rec.op, (unsigned long long)c->rec.seq, (double)ns * 1e-9,
            (double)timeout_ms * 1e-3);
}

static void look_at(tti_recorder *r, const tti_ticks_scale *scale)
{
    int timeout_ms = atomic_load_explicit(&r->timeout_ms, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&r->next, memory_order_acquire);
    uint64_t first = end > TTI_RECORDER_SIZE ? end - TTI_RECORDER_SIZE : 0;
    bool all_ended = true;
    tti_recorded_copy c = { .ticket = UINT64_MAX };

    if (first < r->looked_at)
        first = r->looked_at;
    for (uint64_t t = first; t < end; t++) {
        int64_t ns;

        if (!tti_recorder_read(r, t, &c)) /* being filled, or gone */
            all_ended &= end - t > TTI_RECORDER_SIZE / 2;
        else if (c.ended == 0)
            all_ended = false;
        if (all_ended)
            r->looked_at = t + 1;
        else if (t >= r->warned && c.ticket == t && c.ended == 0 && c.started != 0) {
            ns = scale->ns - tti_ticks_ns(scale, c.started);
            if (timeout_ms > 0 && ns > (int64_t)timeout_ms * 500000) {
                warn(r, &c, ns, timeout_ms);
                r->warned = t + 1;
            }
        }
    }
}

/* How long until the next look: an eighth of the shortest time-out, 50 ms to 5 s. */
static int nap_ms(tti_recorder *const *all, int n)
{
    int nap = 5000;

    for (int i = 0; i < n; i++) {
        int ms = atomic_load_explicit(&all[i]->timeout_ms, memory_order_relaxed) / 8;

        if (ms > 0 && ms < nap)
            nap = ms;
    }
    return nap < 50 ? 50 : nap;
}

/* ---- the thread ------------------------------------------------------------------------ */

static int round_once(void)
{
    tti_recorder *few[FEW];
    int n, nap;
    tti_recorder **all = snapshot(few, &n);
    tti_ticks_scale scale = tti_ticks_measure();
    bool dump = atomic_exchange_explicit(&signalled, false, memory_order_relaxed);

    if (dump && n > 0 && tti_env_get(TTI_ENV_FLIGHT_DIR) == NULL)
        tti_log(TT_LOG_WARN, "flight recorder: TUTTI_FLIGHT_DIR is not set, so nothing is written");
    for (int i = 0; i < n; i++) {
        if (dump)
            tti_recorder_write(all[i], "signal", "SIGUSR2", true);
        look_at(all[i], &scale);
    }
    nap = nap_ms(all, n);
    for (int i = 0; i < n; i++)
        tti_recorder_unref(all[i]);
    if (all != few)
        tti_mfree(all);
    return nap;
}

static void *monitor(void *unused)
{
    (void)unused;
    for (;;) {
        unsigned seen = atomic_load_explicit(&wakes, memory_order_acquire);
        int nap = round_once();
        struct timespec t = { nap / 1000, (long)(nap % 1000) * 1000000 };

        (void)syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    }
    return NULL;
}

static void on_signal(int sig)
{
    int saved = errno;

    (void)sig;
    atomic_store_explicit(&signalled, true, memory_order_relaxed);
    wake();
    errno = saved;
}

/* ---- fork ------------------------------------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&mu_list);
}

static void parent_after_fork(void)
{
    pthread_mutex_unlock(&mu_list);
}

static void child_after_fork(void)
{
    list = NULL;
    has_thread = false;
    atomic_store_explicit(&signalled, false, memory_order_relaxed);
    pthread_mutex_unlock(&mu_list);
}

static void at_fork(void)
{
    (void)pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}

/* ---- start ----------------------------------------------------------------------------- */

static void catch_signal(void)
{
    struct sigaction now, ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    if (sigaction(SIGUSR2, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
        now.sa_handler != SIG_DFL)
        return; /* the program's own, or ours already */
    sigemptyset(&ours.sa_mask);
    (void)sigaction(SIGUSR2, &ours, NULL);
}

/* With all signals blocked, so that they go to the program's threads. */
static int start_thread(void)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int error;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attr, monitor, NULL);
    if (error == 0)
        (void)pthread_setname_np(thread, "tt-monitor");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

tt_status tti_monitor_start(void)
{
    int error = 0;

    pthread_once(&once, at_fork);
    tti_ticks_init();
    pthread_mutex_lock(&mu_list);
    if (!has_thread) {
        error = start_thread();
        has_thread = error == 0;
        if (has_thread)
            catch_signal();
    }
    pthread_mutex_unlock(&mu_list);
    if (error != 0)
        return TT_FAIL(TT_ERR_IO, "monitor: cannot start its thread: %s", strerror(error));
    return TT_OK;
}
