/* SPDX-License-Identifier: Apache-2.0 */
/* Events: marks in streams that can be moved by recording them again. */
#include <pthread.h>

#include "base/error.h"
#include "base/mem.h"
#include "device/accel.h"

struct tt_event {
    bool timing;          /* `blocking` says nothing here: all waits sleep */
    pthread_mutex_t lock; /* of all below; not held while waiting */
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
    e->timing = opt != NULL && opt->timing;
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
    return tti_null_given(name, "an event");
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
    pthread_mutex_unlock(&e->lock);
    if (before != NULL)
        accel->mark_free(before);
    return TT_OK;
}

/* What an event is at this moment, with a reference to its mark: it may be recorded again while somebody waits. */
typedef struct moment {
    const tti_accel *accel;
    tti_mark *mark; /* NULL: never recorded */
    tt_device device;
} moment;

static moment moment_of(tt_event *e)
{
    moment m = { .mark = NULL };

    pthread_mutex_lock(&e->lock);
    if (e->mark != NULL)
        m = (moment){ e->accel, e->accel->mark_copy(e->mark), e->device };
    pthread_mutex_unlock(&e->lock);
    return m;
}

static tt_status end_moment(moment m, tt_status st)
{
    if (m.mark != NULL)
        m.accel->mark_free(m.mark);
    return st;
}

tt_status tt_event_query(tt_event *e, bool *done_p)
{
    moment m;

    if (e == NULL)
        return none("event_query");
    m = moment_of(e);
    *done_p = true;
    return m.mark != NULL ? end_moment(m, m.accel->mark_query(m.mark, done_p)) : TT_OK;
}

tt_status tt_event_sync(tt_event *e)
{
    moment m;

    if (e == NULL)
        return none("event_sync");
    m = moment_of(e);
    return m.mark != NULL ? end_moment(m, m.accel->mark_sync(m.mark)) : TT_OK;
}

tt_status tt_stream_wait(tt_stream *s, tt_event *e)
{
    moment m;

    if (e == NULL)
        return none("stream_wait");
    if (s == NULL)
        return tti_null_given("stream_wait", "a stream");
    m = moment_of(e);
    if (m.mark == NULL)
        return TT_OK;
    return end_moment(m, s->accel == m.accel ? s->accel->wait(s->queue, m.mark)
                                             : m.accel->mark_sync(m.mark));
}

bool tt_event_device(const tt_event *e, tt_device *d_p)
{
    moment m;

    if (e == NULL)
        return false;
    m = moment_of((tt_event *)e);
    if (m.mark == NULL)
        return false;
    *d_p = m.device;
    end_moment(m, TT_OK);
    return true;
}

static tt_status elapsed(moment from, moment to, double *ms_p)
{
    bool done[2];
    char a[16], b[16];

    if (from.mark == NULL || to.mark == NULL)
        return TT_FAIL(TT_ERR_INVALID, "event_elapsed: expected events that were recorded");
    if (!tt_device_equal(from.device, to.device))
        return TT_FAIL(TT_ERR_INVALID, "event_elapsed: events of different devices: %s and %s",
                       tt_device_name(from.device, a, sizeof a),
                       tt_device_name(to.device, b, sizeof b));
    TT_TRY(from.accel->mark_query(from.mark, &done[0]));
    TT_TRY(to.accel->mark_query(to.mark, &done[1]));
    if (!done[0] || !done[1])
        return TT_FAIL(TT_ERR_INVALID,
                       "event_elapsed: expected events that are done: wait for them");
    return from.accel->mark_elapsed(from.mark, to.mark, ms_p);
}

tt_status tt_event_elapsed(tt_event *from, tt_event *to, double *ms_p)
{
    moment a, b;

    if (from == NULL || to == NULL)
        return none("event_elapsed");
    if (!from->timing || !to->timing)
        return TT_FAIL(TT_ERR_INVALID, "event_elapsed: expected events made with timing");
    a = moment_of(from);
    b = moment_of(to);
    return end_moment(a, end_moment(b, elapsed(a, b, ms_p)));
}
