/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of nodes made current, gradients handed over between streams. See the header for who waits for whom. */
#include "autograd/streams.h"

#include "device/accel.h"

static tt_status note_used(tti_streams *s, tt_stream *stream)
{
    for (size_t i = 0; i < s->n_used; i++)
        if (s->used[i] == stream)
            return TT_OK;
    TT_TRY(tti_vec_reserve((void **)&s->used, &s->cap_used, s->n_used + 1, sizeof *s->used));
    s->used[s->n_used++] = stream;
    return TT_OK;
}

tt_status tti_streams_enter_slow(tti_streams *s, const tti_node *n)
{
    tt_device d = n->stream->device;
    tt_stream *now = tti_stream_of(d);

    if (n->stream == now && tt_device_equal(tt_device_current((tt_device_kind)d.kind), d))
        return TT_OK;
    if (n->stream != now)
        TT_TRY(note_used(s, n->stream));
    s->guard = tt_stream_guard_open(n->stream);
    if (s->guard.stream == NULL)
        return tt_last_status();
    s->entered = n->stream;
    return TT_OK;
}

void tti_streams_leave_slow(tti_streams *s)
{
    tt_stream_guard_close(&s->guard);
    s->entered = NULL;
}

/* The current stream of d where backward was called. */
static tt_stream *callers(const tti_streams *s, tt_device d)
{
    if (s->entered != NULL && tt_device_equal(s->entered->device, d))
        return s->guard.stream;
    return tti_stream_of(d);
}

tt_status tti_streams_hand_over(tti_streams *s, const tti_node *to, tt_tensor *g,
                                tt_stream **stream_p)
{
    tt_stream *from, *target;

    *stream_p = NULL;
    from = tti_stream_of(g->device);
    if (to != NULL && to->stream != NULL && tt_device_equal(to->stream->device, g->device))
        target = to->stream;
    else
        target = callers(s, g->device);
    if (target == from)
        return TT_OK;
    TT_TRY(tti_stream_after(target, from));
    *stream_p = target;
    return tt_tensor_record_stream(g, target);
}

tt_status tti_streams_keep(const tti_streams *s, tt_tensor *g)
{
    if (tt_likely(s->entered == NULL) || !tt_device_equal(s->entered->device, g->device) ||
        s->guard.stream == s->entered)
        return TT_OK;
    return tt_tensor_record_stream(g, s->guard.stream);
}

tt_status tti_streams_rejoin(tti_streams *s)
{
    tt_status st = TT_OK;

    while (s->n_used > 0) {
        tt_stream *used = s->used[--s->n_used];
        tt_status one = tti_stream_after(tti_stream_of(used->device), used);

        st = st != TT_OK ? st : one;
    }
    return st;
}
