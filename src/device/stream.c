/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: queues of accelerators, the default one of each device, and those that threads use. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/tls.h"
#include "device/accel.h"

#define ENOUGH_STREAMS 32 /* of a device and priority that were given back */

/* Streams of a device are never destroyed, because freed memory remembers them; those given back are handed out
 * again. The list grows at its head, under the lock; it is read without. */
typedef struct device_streams {
    _Atomic(tt_stream *) usual; /* the default one */
    _Atomic(tt_stream *) head;
} device_streams;

static device_streams all[TTI_N_KINDS][TTI_MAX_DEVICES];
static pthread_mutex_t mu_streams = PTHREAD_MUTEX_INITIALIZER;

/* What a thread uses instead of default streams; made when it first does. */
typedef struct thread_streams {
    tt_stream *current[TTI_N_KINDS][TTI_MAX_DEVICES];
} thread_streams;

static TTI_HOT_TLS thread_streams *mine;
static pthread_key_t key;
static int key_error;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void drop_mine(void *p)
{
    tti_mfree(p);
    mine = NULL;
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, drop_mine);
}

/* ---- making them ------------------------------------------------------------------------------- */

/* A stream of d around q, which it owns; under the lock. */
static tt_stream *add(tt_device d, const tti_accel *a, tti_queue *q, int priority)
{
    device_streams *of = &all[d.kind][d.index];
    tt_stream *s;

    if (q == NULL)
        return NULL;
    s = tti_calloc(1, sizeof *s);
    if (s == NULL) {
        a->queue_free(q);
        return NULL;
    }
    *s = (tt_stream){ .device = d, .accel = a, .queue = q, .priority = priority, .in_use = true };
    s->next = atomic_load_explicit(&of->head, memory_order_relaxed);
    atomic_store_explicit(&of->head, s, memory_order_release);
    return s;
}

static tt_stream *first_of(tt_device d)
{
    return atomic_load_explicit(&all[d.kind][d.index].head, memory_order_acquire);
}

static tt_stream *make_default(tt_device d)
{
    const tti_accel *a = tti_accel_of("stream", d);
    device_streams *of = &all[d.kind][d.index];
    tt_stream *s;

    if (a == NULL)
        return NULL;
    pthread_mutex_lock(&mu_streams);
    s = atomic_load_explicit(&of->usual, memory_order_relaxed);
    if (s == NULL) {
        s = add(d, a, a->queue_new(d.index, 0), 0);
        if (s != NULL) {
            s->is_default = true;
            atomic_store_explicit(&of->usual, s, memory_order_release);
        }
    }
    pthread_mutex_unlock(&mu_streams);
    return s;
}

static tt_stream *default_of(tt_device d)
{
    tt_stream *s = atomic_load_explicit(&all[d.kind][d.index].usual, memory_order_acquire);

    return tt_likely(s != NULL) ? s : make_default(d);
}

tt_stream *tti_stream_of(tt_device d)
{
    if (tt_unlikely(mine != NULL) && mine->current[d.kind][d.index] != NULL)
        return mine->current[d.kind][d.index];
    return default_of(d);
}

/* One that was given back, under the lock: one with nothing to do, or any when there are many. */
static tt_stream *reuse(tt_device d, int priority)
{
    tt_stream *found = NULL;
    bool done = false;
    int n = 0;

    for (tt_stream *s = first_of(d); s != NULL && !done; s = s->next)
        if (!s->in_use && !s->is_default && !s->is_external && s->priority == priority) {
            done = s->accel->queue_query(s->queue, &done) == TT_OK && done;
            found = s;
            n++;
        }
    if (!done && n < ENOUGH_STREAMS)
        return NULL;
    found->in_use = true;
    return found;
}

tt_stream *tt_stream_new(tt_device d, const tt_stream_options *opt)
{
    int priority = opt != NULL ? opt->priority : 0, least, greatest;
    const tti_accel *a;
    tt_stream *s;

    if (tt_device_resolve(d, &d) != TT_OK || (a = tti_accel_of("stream_new", d)) == NULL)
        return NULL;
    a->priorities(d.index, &least, &greatest);
    if (priority > least || priority < greatest)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "stream_new: expected a priority from %d (least) to %d, got %d", least,
                            greatest, priority);
    pthread_mutex_lock(&mu_streams);
    s = reuse(d, priority);
    if (s == NULL)
        s = add(d, a, a->queue_new(d.index, priority), priority);
    pthread_mutex_unlock(&mu_streams);
    return s;
}

/* The stream around a native queue, or (native NULL) one that was around another, under the lock. */
static tt_stream *wrapped(tt_device d, const tti_accel *a, const void *native)
{
    for (tt_stream *s = first_of(d); s != NULL; s = s->next)
        if (s->is_external && s->in_use == (native != NULL) && a->queue_native(s->queue) == native)
            return s;
    return NULL;
}

static tt_stream *wrap(tt_device d, const tti_accel *a, void *native)
{
    tt_stream *s = wrapped(d, a, native); /* two wrappers of a queue are one stream */

    if (s != NULL) {
        s->n_wraps++;
        return s;
    }
    s = wrapped(d, a, NULL);
    if (s != NULL) {
        if (a->queue_open(s->queue, native) != TT_OK)
            return NULL;
    } else {
        s = add(d, a, a->queue_wrap(d.index, native), 0);
        if (s == NULL)
            return NULL;
        s->is_external = true;
    }
    s->in_use = true;
    s->n_wraps = 1;
    return s;
}

tt_stream *tt_stream_wrap(tt_device d, void *native)
{
    const tti_accel *a;
    tt_stream *s;

    if (tt_device_resolve(d, &d) != TT_OK || (a = tti_accel_of("stream_wrap", d)) == NULL)
        return NULL;
    if (native == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "stream_wrap: expected a native queue, got NULL");
    pthread_mutex_lock(&mu_streams);
    s = wrap(d, a, native);
    pthread_mutex_unlock(&mu_streams);
    return s;
}

void tt_stream_free(tt_stream *s)
{
    bool last;

    if (s == NULL || s->is_default)
        return;
    pthread_mutex_lock(&mu_streams);
    last = s->in_use && (!s->is_external || --s->n_wraps == 0);
    if (last)
        s->in_use = false;
    pthread_mutex_unlock(&mu_streams);
    if (!last)
        return;
    if (mine != NULL && mine->current[s->device.kind][s->device.index] == s)
        mine->current[s->device.kind][s->device.index] = NULL;
    if (s->is_external)
        s->accel->queue_close(s->queue);
}

/* ---- default and current ------------------------------------------------------------------------- */

tt_stream *tt_stream_default(tt_device d)
{
    if (tt_device_resolve(d, &d) != TT_OK || tti_accel_of("stream_default", d) == NULL)
        return NULL;
    return default_of(d);
}

tt_stream *tt_stream_current(tt_device d)
{
    if (tt_device_resolve(d, &d) != TT_OK || tti_accel_of("stream_current", d) == NULL)
        return NULL;
    return tti_stream_of(d);
}

static tt_status set_current(tt_device d, tt_stream *s)
{
    if (mine == NULL) {
        pthread_once(&key_once, make_key);
        mine = tti_calloc(1, sizeof *mine);
        if (mine == NULL)
            return TT_ERR_NOMEM;
        if (key_error == 0)
            pthread_setspecific(key, mine);
    }
    mine->current[d.kind][d.index] = s;
    return TT_OK;
}

tt_status tt_stream_use(tt_stream *s)
{
    if (s == NULL)
        return tti_null_given("stream_use", "a stream");
    TT_TRY(set_current(s->device, s));
    return tt_device_use(s->device);
}

tt_stream_guard tt_stream_guard_open(tt_stream *s)
{
    tt_stream_guard g = { .stream = NULL };

    if (s == NULL)
        return g;
    g.device = tt_device_current((tt_device_kind)s->device.kind);
    g.stream = tti_stream_of(s->device);
    if (tt_stream_use(s) != TT_OK)
        g.stream = NULL;
    return g;
}

void tt_stream_guard_close(tt_stream_guard *g)
{
    if (g == NULL || g->stream == NULL)
        return;
    set_current(g->stream->device, g->stream);
    tt_device_use(g->device);
}

/* ---- what they are --------------------------------------------------------------------------------- */

tt_device tt_stream_device(const tt_stream *s)
{
    return s != NULL ? s->device : TT_CPU;
}

void *tt_stream_native(const tt_stream *s)
{
    if (s == NULL)
        return TT_NULL_GIVEN("stream_native", "a stream");
    return s->accel->queue_native(s->queue);
}

int tt_stream_priority(const tt_stream *s)
{
    return s != NULL ? s->priority : 0;
}

bool tt_stream_equal(const tt_stream *a, const tt_stream *b)
{
    return a == b || (a != NULL && b != NULL && tt_device_equal(a->device, b->device) &&
                      tt_stream_native(a) == tt_stream_native(b));
}

uint64_t tt_stream_hash(const tt_stream *s)
{
    return s == NULL ? 0 : tt_device_hash(s->device) ^ (uint64_t)(uintptr_t)tt_stream_native(s);
}

tt_status tt_stream_priorities(tt_device d, int *least_p, int *greatest_p)
{
    const tti_accel *a;

    TT_TRY(tt_device_resolve(d, &d));
    a = tti_accel_of("stream_priorities", d);
    if (a == NULL)
        return tt_last_status();
    a->priorities(d.index, least_p, greatest_p);
    return TT_OK;
}

/* ---- what they do ---------------------------------------------------------------------------------- */

static tt_status none(const char *name)
{
    return tti_null_given(name, "a stream");
}

tt_status tt_stream_query(tt_stream *s, bool *done_p)
{
    return s != NULL ? s->accel->queue_query(s->queue, done_p) : none("stream_query");
}

tt_status tt_stream_sync(tt_stream *s)
{
    if (s == NULL)
        return none("stream_sync");
    TT_TRY(s->accel->queue_sync(s->queue));
    return tti_trouble_check(s->device);
}

tt_status tti_streams_sync(tt_device d)
{
    for (tt_stream *s = first_of(d); s != NULL; s = s->next)
        TT_TRY(s->accel->queue_sync(s->queue));
    return tti_trouble_check(d);
}

bool tti_streams_idle(tt_device d)
{
    for (tt_stream *s = first_of(d); s != NULL; s = s->next) {
        bool done = true;

        if (!s->is_external && s->accel->queue_query(s->queue, &done) == TT_OK && !done)
            return false;
    }
    return true;
}

tt_status tt_stream_sleep(tt_stream *s, uint64_t cycles)
{
    return s != NULL ? s->accel->sleep(s->queue, cycles) : none("stream_sleep");
}

typedef struct host_call {
    void (*fn)(void *arg);
    void *arg;
} host_call;

static void do_host_call(void *arg)
{
    host_call *c = arg;

    c->fn(c->arg);
}

tt_status tt_stream_call(tt_stream *s, void (*fn)(void *arg), void *arg)
{
    host_call c = { fn, arg };

    return s != NULL ? s->accel->call(s->queue, do_host_call, &c, sizeof c) : none("stream_call");
}

tt_status tti_stream_after(tt_stream *later, tt_stream *earlier)
{
    tti_mark *m;
    tt_status st;

    if (later == earlier)
        return TT_OK;
    m = earlier->accel->mark(earlier->queue, false);
    if (m == NULL)
        return tt_last_status();
    if (later->accel == earlier->accel)
        st = later->accel->wait(later->queue, m);
    else
        st = earlier->accel->mark_sync(m);
    earlier->accel->mark_free(m);
    return st;
}

tt_status tt_stream_wait_stream(tt_stream *s, tt_stream *other)
{
    return s != NULL && other != NULL ? tti_stream_after(s, other) : none("stream_wait_stream");
}

tt_status tti_copy_across(tt_device to, void *dst, tt_device from, const void *src, size_t bytes)
{
    tt_stream *there = tti_stream_of(to), *here = tti_stream_of(from);

    if (there == NULL || here == NULL)
        return tt_last_status();
    TT_TRY(tti_stream_after(here, there));
    TT_TRY(here->accel->copy(here->queue, dst, src, bytes));
    return tti_stream_after(there, here);
}
