/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that run, and how events begin and end in them, on any thread.
 *
 * Locks: mu_running guards the list of running profiles, `mu` of each profile its events. A begin takes the
 * first and under it each profile's; an end takes the profile's only. */
#include "base/error.h"
#include "prof/prof.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "prof/emit.h"

#define DEFAULT_MAX 1000000

atomic_int tti_prof_running;

static pthread_mutex_t mu_running = PTHREAD_MUTEX_INITIALIZER;
static tt_prof *running;       /* mu_running */
static uint64_t n_started;     /* mu_running */
static int world_rank;         /* mu_running */
static int world_size = 1;     /* mu_running */
static char world_backend[16]; /* mu_running */

static _Thread_local uint64_t my_id;   /* 0: not asked yet */
static _Thread_local uint64_t seen_by; /* the last profile that learnt this thread's name */

static uint64_t thread_id(void)
{
    if (my_id == 0)
        my_id = (uint64_t)syscall(SYS_gettid);
    return my_id;
}

void tti_prof_set_world(int rank, int size, const char *backend)
{
    pthread_mutex_lock(&mu_running);
    world_rank = rank;
    world_size = size;
    strncpy(world_backend, backend != NULL ? backend : "", sizeof world_backend - 1);
    pthread_mutex_unlock(&mu_running);
}

void tti_prof_world(int *rank_p, int *size_p, char backend[16])
{
    pthread_mutex_lock(&mu_running);
    *rank_p = world_rank;
    *size_p = world_size;
    memcpy(backend, world_backend, sizeof world_backend);
    pthread_mutex_unlock(&mu_running);
}

tt_shape tti_prof_shape(const tt_tensor *t)
{
    tt_shape s = tt_tensor_shape(t);

    if (tt_dtype_is_complex(tt_tensor_dtype(t)) && s.n_dims < TT_MAX_DIMS)
        s.dims[s.n_dims++] = 2;
    return s;
}

/* ---- life time ------------------------------------------------------------------------- */

static void unref(tt_prof *p)
{
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    tti_prof_memory_fini(&p->memory);
    tti_mfree(p->events);
    tti_mfree(p->threads);
    pthread_mutex_destroy(&p->mu);
    tti_mfree(p);
}

static int64_t wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

tt_prof *tt_prof_start(const tt_prof_options *opt)
{
    tt_prof *p = tti_calloc(1, sizeof *p);

    if (p == NULL)
        return NULL;
    atomic_init(&p->refs, 1);
    pthread_mutex_init(&p->mu, NULL);
    if (opt != NULL)
        p->opt = *opt;
    if (p->opt.max_events == 0)
        p->opt.max_events = DEFAULT_MAX;
    p->thread = thread_id();
    if (!p->opt.no_ops && tti_prof_ops_watch() != TT_OK) {
        unref(p);
        return NULL;
    }
    p->start_ns = tti_now_ns();
    p->wall_ns = wall_ns();
    pthread_mutex_lock(&mu_running);
    p->id = ++n_started;
    p->next = running;
    running = p;
    pthread_mutex_unlock(&mu_running);
    atomic_fetch_add_explicit(&tti_prof_running, 1, memory_order_relaxed);
    return p;
}

/* Out of the list of running ones; false when it was not there. */
static bool take_out(tt_prof *p)
{
    bool found = false;

    pthread_mutex_lock(&mu_running);
    for (tt_prof **at = &running; *at != NULL && !found; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            found = true;
            break;
        }
    pthread_mutex_unlock(&mu_running);
    return found;
}

tt_status tt_prof_stop(tt_prof *p)
{
    size_t n = 0;

    if (p == NULL)
        return tti_null_given("prof", "a profile");
    if (!take_out(p))
        return TT_OK;
    atomic_fetch_sub_explicit(&tti_prof_running, 1, memory_order_relaxed);
    if (!p->opt.no_ops)
        tti_prof_ops_unwatch();
    pthread_mutex_lock(&p->mu);
    p->stopped = true;
    for (size_t i = 0; i < p->n_begun; i++)
        if (p->events[i]->done)
            p->events[n++] = p->events[i];
    p->n_events = n;
    pthread_mutex_unlock(&p->mu);
    return TT_OK;
}

void tt_prof_free(tt_prof *p)
{
    if (p == NULL)
        return;
    (void)tt_prof_stop(p);
    unref(p);
}

size_t tt_prof_n_events(const tt_prof *p)
{
    return p != NULL ? p->n_events : 0;
}

const tt_prof_event *tt_prof_event_at(const tt_prof *p, size_t i)
{
    return i < tt_prof_n_events(p) ? &p->events[i]->e : NULL;
}

size_t tt_prof_n_dropped(const tt_prof *p)
{
    size_t n;

    if (p == NULL)
        return 0;
    pthread_mutex_lock((pthread_mutex_t *)&p->mu);
    n = p->n_dropped;
    pthread_mutex_unlock((pthread_mutex_t *)&p->mu);
    return n;
}

/* ---- begin ----------------------------------------------------------------------------- */

static const char *keep_text(tt_prof *p, const char *s)
{
    const char *kept = s != NULL && s[0] != '\0' ? tti_prof_keep(&p->memory, s, strlen(s) + 1) : "";

    return kept != NULL ? kept : "";
}

/* Lists that cannot be kept are left out. */
static const void *keep_list(tt_prof *p, const void *items, size_t size, int *n)
{
    const void *kept =
        items != NULL && *n > 0 ? tti_prof_keep(&p->memory, items, size * (size_t)*n) : NULL;

    if (kept == NULL)
        *n = 0;
    return kept;
}

static void keep_all(tt_prof *p, tt_prof_event *e)
{
    e->name = keep_text(p, e->name);
    e->group = keep_text(p, e->group);
    e->group_desc = keep_text(p, e->group_desc);
    if (!p->opt.shapes)
        e->n_shapes = 0;
    e->shapes = keep_list(p, e->shapes, sizeof *e->shapes, &e->n_shapes);
    e->ranks = keep_list(p, e->ranks, sizeof *e->ranks, &e->n_ranks);
    e->in_splits = keep_list(p, e->in_splits, sizeof *e->in_splits, &e->n_in_splits);
    e->out_splits = keep_list(p, e->out_splits, sizeof *e->out_splits, &e->n_out_splits);
}

static void learn_thread(tt_prof *p)
{
    tti_prof_thread *t;
    size_t i;

    if (seen_by == p->id)
        return;
    seen_by = p->id;
    for (i = 0; i < p->n_threads; i++)
        if (p->threads[i].id == my_id)
            return;
    if (tti_vec_reserve((void **)&p->threads, &p->cap_threads, p->n_threads + 1,
                        sizeof *p->threads) != TT_OK)
        return;
    t = &p->threads[p->n_threads++];
    t->id = my_id;
    if (pthread_getname_np(pthread_self(), t->name, sizeof t->name) != 0)
        t->name[0] = '\0';
}

/* Room for one more event; false when it has to be dropped. */
static bool has_room(tt_prof *p)
{
    tti_error_copy copy;
    bool ok;

    if (p->n_begun >= p->opt.max_events)
        return false;
    if (p->n_begun < p->cap_events)
        return true;
    tti_error_save(&copy);
    ok = tti_vec_reserve((void **)&p->events, &p->cap_events, p->n_begun + 1,
                         sizeof(tti_prof_record *)) == TT_OK;
    if (!ok)
        tti_error_restore(&copy);
    return ok;
}

static tti_prof_record *begin_in(tt_prof *p, const tt_prof_event *e)
{
    tti_prof_record *r;

    pthread_mutex_lock(&p->mu);
    r = has_room(p) ? tti_prof_alloc(&p->memory, sizeof *r) : NULL;
    if (r == NULL) {
        p->n_dropped++;
    } else {
        r->e = *e;
        r->e.count = 1;
        r->e.thread = my_id;
        keep_all(p, &r->e);
        learn_thread(p);
        r->prof = p;
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
        p->events[p->n_begun++] = r;
        r->e.start_ns = tti_now_ns() - p->start_ns; /* under the lock: in order */
    }
    pthread_mutex_unlock(&p->mu);
    return r;
}

struct tti_prof_mark *tti_prof_begin_event(const tt_prof_event *e, bool op)
{
    tti_prof_record *first = NULL;
    uint64_t me = thread_id();

    pthread_mutex_lock(&mu_running);
    for (tt_prof *p = running; p != NULL; p = p->next) {
        tti_prof_record *r;

        if ((op && p->opt.no_ops) || (p->opt.this_thread_only && p->thread != me))
            continue;
        r = begin_in(p, e);
        if (r == NULL)
            continue;
        r->sibling = first;
        first = r;
    }
    pthread_mutex_unlock(&mu_running);
    return first;
}

tti_prof_mark *tti_prof_op_begin(const tt_prof_event *e)
{
    return tti_prof_on() ? tti_prof_begin_event(e, false) : NULL;
}

/* ---- end ------------------------------------------------------------------------------- */

void tti_prof_op_end(tti_prof_mark *mark, bool failed)
{
    int64_t now = mark != NULL ? tti_now_ns() : 0;
    uint64_t me = mark != NULL ? thread_id() : 0;

    for (tti_prof_record *r = mark, *next; r != NULL; r = next) {
        tt_prof *p = r->prof;

        next = r->sibling;
        pthread_mutex_lock(&p->mu);
        if (!p->stopped) {
            r->e.cpu_ns = now - p->start_ns - r->e.start_ns;
            if (r->e.cpu_ns < 0)
                r->e.cpu_ns = 0;
            r->e.async |= r->e.thread != me;
            r->e.failed = failed;
            r->done = true;
        }
        pthread_mutex_unlock(&p->mu);
        unref(p);
    }
}

void tti_prof_drop(tti_prof_mark *mark)
{
    for (tti_prof_record *r = mark, *next; r != NULL; r = next) {
        next = r->sibling;
        unref(r->prof);
    }
}
