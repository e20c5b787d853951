/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: order, threads, life times, and what is said about mistakes. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "cl_fixture.h"

#define SLEEP 50000000u

enum { N = 1000 };

static bool holds(tt_device d, const int32_t *p, int32_t value)
{
    int32_t host[N];

    TT_REQUIRE_OK(tti_driver_of(d)->copy_out(d.index, host, p, sizeof host));
    for (int i = 0; i < N; i++)
        if (host[i] != value)
            return false;
    return true;
}

TT_TEST(stream, work_of_one_stream_is_in_order)
{
    int32_t *x, *y;

    need_devices(1);
    x = fixture_alloc(tt_cl(0), N);
    y = fixture_alloc(tt_cl(0), N);
    for (int i = 0; i < 100; i++) {
        TT_CHECK_OK(fixture_fill(tt_cl(0), x, i, N));
        TT_CHECK_OK(fixture_scale(tt_cl(0), y, x, N));
    }
    TT_CHECK(holds(tt_cl(0), y, 99 * 3 + 1));
    fixture_free(tt_cl(0), x, N);
    fixture_free(tt_cl(0), y, N);
}

/* A write behind a sleep on one stream is seen by another, of either device, once that has waited. */
static void waits_for(int from, int to, bool by_event)
{
    tt_stream *a = tt_stream_new(tt_cl(from), NULL), *b = tt_stream_new(tt_cl(to), NULL);
    int32_t *x = fixture_alloc(tt_cl(from), N), *y = fixture_alloc(tt_cl(to), N);
    tt_event *e = tt_event_new(NULL);

    TT_REQUIRE(a != NULL && b != NULL && x != NULL && y != NULL && e != NULL);
    TT_CHECK_OK(fixture_fill(tt_cl(from), x, 1, N));
    TT_CHECK_OK(tt_device_sync(tt_cl(from)));
    TT_STREAM_SCOPE(a)
    {
        TT_CHECK_OK(tt_stream_sleep(a, SLEEP / 2));
        TT_CHECK_OK(fixture_fill(tt_cl(from), x, 7, N));
        TT_CHECK_OK(tt_event_record(e, NULL));
    }
    TT_CHECK_OK(by_event ? tt_stream_wait(b, e) : tt_stream_wait_stream(b, a));
    TT_CHECK_OK(b->accel->copy(b->queue, y, x, N * 4));
    TT_STREAM_SCOPE(b)
    TT_CHECK(holds(tt_cl(to), y, 7));
    tt_event_free(e);
    fixture_free(tt_cl(from), x, N);
    fixture_free(tt_cl(to), y, N);
    tt_stream_free(a);
    tt_stream_free(b);
}

TT_TEST(stream, waits_for_events_and_streams)
{
    need_devices(2);
    waits_for(0, 0, true);
    waits_for(0, 1, true);
    waits_for(1, 0, false);
    waits_for(1, 1, false);
}

TT_TEST(stream, sleeps_as_long_as_asked_and_not_on_the_host)
{
    tt_stream *s;
    int64_t start, queued;
    bool quick = false;

    need_devices(1);
    s = tt_stream_current(tt_cl(0));
    for (int i = 0; i < 100 && !quick; i++) {
        start = tti_now_ns();
        TT_CHECK_OK(tt_stream_sleep(s, SLEEP));
        queued = tti_now_ns();
        TT_CHECK_OK(tt_stream_sync(s));
        TT_REQUIRE(tti_now_ns() - start >= (int64_t)SLEEP);
        quick = queued - start < (int64_t)SLEEP / 2;
    }
    TT_CHECK(quick);
}

/* ---- host functions ------------------------------------------------------------------------------- */

typedef struct diary {
    _Atomic int n;
    int at[3];
} diary;

typedef struct entry {
    diary *d;
    int number;
} entry;

static void write_entry(void *arg)
{
    entry *e = arg;

    e->d->at[e->number] = atomic_fetch_add(&e->d->n, 1);
}

TT_TEST(stream, host_functions_run_in_order)
{
    diary d = { 0 };
    entry entries[3] = { { &d, 0 }, { &d, 1 }, { &d, 2 } };
    tt_stream *s;

    need_devices(1);
    s = tt_stream_new(tt_cl(0), NULL);
    for (int i = 0; i < 3; i++) {
        TT_CHECK_OK(tt_stream_sleep(s, 1000000));
        TT_CHECK_OK(tt_stream_call(s, write_entry, &entries[i]));
    }
    TT_CHECK_OK(tt_stream_sync(s));
    TT_CHECK_EQ(d.n, 3);
    for (int i = 0; i < 3; i++)
        TT_CHECK_EQ(d.at[i], i);
    tt_stream_free(s);
}

/* The way of devices that cannot call the host themselves. */
TT_TEST(stream, host_functions_run_by_the_timer_too)
{
    diary d = { 0 };
    entry entries[3] = { { &d, 0 }, { &d, 1 }, { &d, 2 } };
    tt_stream *s;

    need_devices(1);
    s = tt_stream_new(tt_cl(0), NULL);
    tti_cl_all.is_cpu = false;
    for (int i = 0; i < 3; i++)
        TT_CHECK_OK(tt_stream_call(s, write_entry, &entries[i]));
    TT_CHECK_OK(tt_stream_sync(s));
    tti_cl_all.is_cpu = true;
    TT_CHECK_EQ(d.n, 3);
    for (int i = 0; i < 3; i++)
        TT_CHECK_EQ(d.at[i], i);
    tt_stream_free(s);
}

/* ---- current streams ----------------------------------------------------------------------------- */

static void *look_at_current(void *arg)
{
    tt_stream **seen = arg;

    seen[0] = tt_stream_current(tt_cl(0));
    TT_CHECK_OK(tt_stream_use(seen[1]));
    TT_CHECK_PTR(tt_stream_current(tt_cl(0)), seen[1]);
    return NULL;
}

TT_TEST(stream, current_streams_are_of_threads)
{
    tt_stream *a, *seen[2];
    pthread_t thread;

    need_devices(1);
    a = tt_stream_new(tt_cl(0), NULL);
    seen[0] = NULL;
    seen[1] = tt_stream_new(tt_cl(0), NULL);
    TT_CHECK_OK(tt_stream_use(a));
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, look_at_current, seen), 0);
    pthread_join(thread, NULL);
    TT_CHECK_PTR(seen[0], tt_stream_default(tt_cl(0)));
    TT_CHECK_PTR(tt_stream_current(tt_cl(0)), a);
    tt_stream_free(a);
    TT_CHECK_PTR(tt_stream_current(tt_cl(0)), tt_stream_default(tt_cl(0)));
    tt_stream_free(seen[1]);
}

TT_TEST(stream, those_given_back_are_handed_out_again_when_idle)
{
    tt_stream *a, *b;

    need_devices(1);
    a = tt_stream_new(tt_cl(0), NULL);
    TT_CHECK_OK(tt_stream_sleep(a, SLEEP));
    tt_stream_free(a);
    b = tt_stream_new(tt_cl(0), NULL);
    TT_CHECK(a != b || tt_stream_sync(a) == TT_OK);
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    tt_stream_free(b);
    b = tt_stream_new(tt_cl(0), NULL);
    TT_CHECK_NOT_NULL(b);
    tt_stream_free(b);
    tt_stream_free(tt_stream_default(tt_cl(0))); /* stays */
    TT_CHECK_OK(tt_stream_sync(tt_stream_default(tt_cl(0))));
}

/* ---- queues of others ----------------------------------------------------------------------------- */

/* Whether so many own q; commands that have just ended may own it for another moment. */
static bool has_owners(cl_command_queue q, cl_uint wanted)
{
    int64_t until = tti_deadline(10000);
    cl_uint n = 0;

    do {
        tti_cl.GetCommandQueueInfo(q, CL_QUEUE_REFERENCE_COUNT, sizeof n, &n, NULL);
        sched_yield();
    } while (n != wanted && tti_now_ns() < until);
    return n == wanted;
}

static cl_command_queue raw_queue(int index, cl_command_queue_properties properties)
{
    tt_device_native n;
    cl_int code = -1;
    cl_command_queue q;

    TT_REQUIRE_OK(tt_device_native_get(tt_cl(index), &n));
    q = tti_cl.CreateCommandQueue(n.context, n.device, properties, &code);
    TT_REQUIRE_EQ(code, 0);
    return q;
}

TT_TEST(stream, wrappers_let_go_of_queues)
{
    cl_command_queue raw, other;
    tt_stream *a, *b;
    int32_t *x;

    need_devices(1);
    raw = raw_queue(0, 0);
    other = raw_queue(0, 0);
    TT_CHECK(has_owners(raw, 1));
    a = tt_stream_wrap(tt_cl(0), raw);
    b = tt_stream_wrap(tt_cl(0), raw);
    TT_CHECK(has_owners(raw, 2));
    TT_STREAM_SCOPE(a)
    {
        x = fixture_alloc(tt_cl(0), N);
        TT_CHECK_OK(fixture_fill(tt_cl(0), x, 5, N));
        TT_CHECK(holds(tt_cl(0), x, 5));
        fixture_free(tt_cl(0), x, N);
    }
    tt_stream_free(a);
    TT_CHECK_OK(tt_stream_sleep(b, 1000));
    tt_stream_free(b);
    tt_memory_empty_cache(
        tt_cl(0)); /* PoCL's buffers keep their last commands, and these their queues */
    TT_CHECK(has_owners(raw, 1));
    TT_CHECK_ERR_SAYS(tt_stream_sleep(b, 10), TT_ERR_INVALID, "freed");
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    a = tt_stream_wrap(tt_cl(0), other);
    TT_CHECK_PTR(tt_stream_native(a), other);
    TT_CHECK_OK(tt_stream_sync(a));
    tt_stream_free(a);
    TT_CHECK(has_owners(other, 1));
    TT_CHECK_EQ(tti_cl.ReleaseCommandQueue(raw), 0);
    TT_CHECK_EQ(tti_cl.ReleaseCommandQueue(other), 0);
}

TT_TEST(stream, only_fitting_queues_are_wrapped)
{
    cl_command_queue raw, wild;

    need_devices(2);
    raw = raw_queue(1, 0);
    wild = raw_queue(0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    if (tti_cl_all.devices[0].id != tti_cl_all.devices[1].id) {
        TT_CHECK_NULL(tt_stream_wrap(tt_cl(0), raw));
        TT_CHECK_CONTAINS(tt_last_error(), "cl:0");
    }
    TT_CHECK_NULL(tt_stream_wrap(tt_cl(0), wild));
    TT_CHECK_CONTAINS(tt_last_error(), "in-order");
    TT_CHECK_NULL(tt_stream_wrap(tt_cl(0), NULL));
    TT_CHECK_NULL(tt_stream_wrap(TT_CPU, raw));
    TT_CHECK(has_owners(raw, 1));
    TT_CHECK(has_owners(wild, 1));
    tti_cl.ReleaseCommandQueue(raw);
    tti_cl.ReleaseCommandQueue(wild);
}

/* ---- events ---------------------------------------------------------------------------------------- */

TT_TEST(stream, events_that_were_never_recorded_are_done)
{
    tt_event *e = tt_event_new(&(tt_event_options){ .timing = true }), *plain = tt_event_new(NULL);
    tt_device d;
    bool done = false;
    double ms;

    need_devices(1);
    TT_CHECK_OK(tt_event_query(e, &done));
    TT_CHECK(done);
    TT_CHECK_OK(tt_event_sync(e));
    TT_CHECK_OK(tt_stream_wait(tt_stream_current(tt_cl(0)), e));
    TT_CHECK(!tt_event_device(e, &d));
    TT_CHECK_ERR_SAYS(tt_event_elapsed(e, e, &ms), TT_ERR_INVALID, "recorded");
    TT_CHECK_ERR_SAYS(tt_event_elapsed(plain, e, &ms), TT_ERR_INVALID, "timing");
    TT_CHECK_OK(tt_event_record(e, NULL));
    TT_CHECK_OK(tt_stream_sleep(tt_stream_current(TT_CL), SLEEP));
    TT_CHECK_OK(tt_event_sync(e));
    TT_CHECK_OK(tt_event_elapsed(e, e, &ms));
    TT_CHECK_NEAR(ms, 0, 0);
    tt_event_free(e);
    tt_event_free(plain);
    TT_CHECK_ERR(tt_event_record(NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_event_sync(NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_event_query(NULL, &done), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_event_elapsed(NULL, NULL, &ms), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_stream_wait(NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_stream_query(NULL, &done), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_stream_sync(NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_stream_use(NULL), TT_ERR_INVALID);
}

TT_TEST(stream, events_may_be_freed_before_they_are_reached)
{
    tt_event *e;
    tt_stream *a, *b;
    bool done = false;

    need_devices(2);
    e = tt_event_new(NULL);
    a = tt_stream_current(tt_cl(0));
    b = tt_stream_current(tt_cl(1));
    TT_CHECK_OK(tt_stream_sleep(a, SLEEP));
    TT_CHECK_OK(tt_event_record(e, a));
    TT_CHECK_OK(tt_stream_wait(b, e));
    tt_event_free(e);
    TT_CHECK_OK(tt_stream_sync(b));
    TT_CHECK_OK(tt_stream_query(a, &done));
    TT_CHECK(done);
}

typedef struct recorder {
    tt_event *e;
    tt_stream *s;
    _Atomic bool stop;
} recorder;

static void *record_again(void *arg)
{
    recorder *r = arg;

    for (int i = 0; !atomic_load(&r->stop); i++) {
        if (i % 8 == 0) /* or the queue gets longer and longer */
            TT_CHECK_OK(tt_stream_sync(r->s));
        TT_CHECK_OK(tt_stream_sleep(r->s, 1000));
        TT_CHECK_OK(tt_event_record(r->e, r->s));
    }
    return NULL;
}

TT_TEST(stream, events_are_recorded_while_others_wait_for_them)
{
    recorder r = { .stop = false };
    pthread_t thread;
    tt_device d;
    bool done;

    need_devices(2);
    r.e = tt_event_new(NULL);
    r.s = tt_stream_current(tt_cl(0));
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, record_again, &r), 0);
    for (int i = 0; i < 200; i++) {
        TT_CHECK_OK(tt_event_sync(r.e));
        TT_CHECK_OK(tt_event_query(r.e, &done));
        TT_CHECK_OK(tt_stream_wait(tt_stream_current(tt_cl(1)), r.e));
        (void)tt_event_device(r.e, &d);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    TT_CHECK_OK(tt_device_sync(tt_cl(1)));
    tt_event_free(r.e);
}
