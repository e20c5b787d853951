/* SPDX-License-Identifier: Apache-2.0 */
/* Events: marks in streams that can be moved by recording them again. */
#include <pthread.h>

#include "base/mem.h"
#include "device/accel.h"

struct tt_event {
    pthread_mutex_t lock; /* of all below; not held while waiting */
    bool timing, blocking, recorded;
    tt_device device;
    const tti_accel *accel;
    tti_mark *mark;
};

tt_event *tt_event_new(const tt_event_options *opt)
{
    tt_event *e = tti_calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    pthread_mutex_init(&e->lock, NULL);
    if (opt != NULL) {
        e->timing = opt->timing;
        e->blocking = opt->blocking;
    }
    return e;
}

void tt_event_free(tt_event *e)
{
    if (e == NULL)
        return;
    if (e->mark != NULL)
        e->accel->mark_free(e->mark);
    pthread_mutex_destroy(&e->lock);
    tti_mfree(e);
}

static tt_status none(const char *name)
{
    return TT_FAIL(TT_ERR_INVALID, "%s: expected an event, got NULL", name);
}

tt_status tt_event_record(tt_event *e, tt_stream *s)
{
    tti_mark *m, *before;
    const tti_accel *accel;

    if (e == NULL)
        return none("event_record");
    if (s == NULL)
        s = tt_stream_current(TT_CL);
    if (s == NULL)
        return tt_last_status();
    m = s->accel->mark(s->queue, e->timing);
    if (m == NULL)
        return tt_last_status();
    pthread_mutex_lock(&e->lock);
    before = e->mark;
    accel = e->accel;
    e->mark = m;
    e->accel = s->accel;
    e->device = s->device;
    e->recorded = true;
    pthread_mutex_unlock(&e->lock);
    if (before != NULL)
        accel->mark_free(before);
    return TT_OK;
}

/* Do `use` with the mark. It is kept by the lock; waiting happens on a copy of the handle, which the owner of the
 * event keeps alive by not recording or freeing it meanwhile. */
static tti_mark *mark_of(tt_event *e)
{
    tti_mark *m;

    pthread_mutex_lock(&e->lock);
    m = e->mark;
    pthread_mutex_unlock(&e->lock);
    return m;
}

tt_status tt_event_query(tt_event *e, bool *done_p)
{
    tti_mark *m;

    if (e == NULL)
        return none("event_query");
    m = mark_of(e);
    *done_p = true;
    return m != NULL ? e->accel->mark_query(m, done_p) : TT_OK;
}

tt_status tt_event_sync(tt_event *e)
{
    tti_mark *m;

    if (e == NULL)
        return none("event_sync");
    m = mark_of(e);
    return m != NULL ? e->accel->mark_sync(m) : TT_OK;
}

tt_status tt_stream_wait(tt_stream *s, tt_event *e)
{
    tti_mark *m;

    if (e == NULL)
        return none("stream_wait");
    if (s == NULL)
        return TT_FAIL(TT_ERR_INVALID, "stream_wait: expected a stream, got NULL");
    m = mark_of(e);
    if (m == NULL)
        return TT_OK;
    return s->accel == e->accel ? s->accel->wait(s->queue, m) : e->accel->mark_sync(m);
}

bool tt_event_device(const tt_event *e, tt_device *d_p)
{
    if (e->recorded)
        *d_p = e->device;
    return e->recorded;
}

tt_status tt_event_elapsed(tt_event *from, tt_event *to, double *ms_p)
{
    tti_mark *a, *b;
    bool done[2];
    char na[16], nb[16];

    if (from == NULL || to == NULL)
        return none("event_elapsed");
    if (!from->timing || !to->timing)
        return TT_FAIL(TT_ERR_INVALID, "event_elapsed: expected events made with timing");
    a = mark_of(from);
    b = mark_of(to);
    if (a == NULL || b == NULL)
        return TT_FAIL(TT_ERR_INVALID, "event_elapsed: expected events that were recorded");
    if (!tt_device_equal(from->device, to->device))
        return TT_FAIL(TT_ERR_INVALID, "event_elapsed: events of different devices: %s and %s",
                       tt_device_name(from->device, na, sizeof na),
                       tt_device_name(to->device, nb, sizeof nb));
    TT_TRY(from->accel->mark_query(a, &done[0]));
    TT_TRY(from->accel->mark_query(b, &done[1]));
    if (!done[0] || !done[1])
        return TT_FAIL(TT_ERR_INVALID,
                       "event_elapsed: expected events that are done: wait for them");
    return from->accel->mark_elapsed(a, b, ms_p);
}
