/* SPDX-License-Identifier: Apache-2.0 */
/* The short way of short messages: no operation is made, posted or counted.
 *
 * A send goes this way when nothing is queued before it and the ring has room for it; then it is done when its frame is
 * published. A receive goes this way when no message of this rank is under way and none is kept: then the
 * next frame of the ring is the next message of the peer, and if its tag and size are those that are asked for, it
 * belongs to this receive and to no other. Whatever is not as simple as that goes the long way, which gives up nothing
 * that was looked at here: a frame stays in the ring until it is taken.
 *
 * A receive that waits this way is not posted. That nobody can tell: had this thread been late, it would be the same. It watches
 * the first word of the next frame without the lock. The word says only that it is worth taking the lock and
 * looking again: by then another thread may have taken that frame. So it need not be the newest, and is loaded
 * relaxed; the look with the lock held acquires the frame (p2p_ring.h). */
#include <string.h>

#include "coll/p2p_impl.h"

#define LOOKS 20 /* between two pauses, which take 60 ns on some CPUs */

static bool send_now(tti_p2p_box *box, const tti_p2p_args *args)
{
    tti_p2p_peer *p = &box->peers[args->peer];
    tti_frame *f = NULL;

    if (args->bytes > box->at_once)
        return false;
    tti_p2p_lock(box);
    if (!box->aborted && !p->gone && tti_list_empty(&p->queue) && tti_p2p_here(box, args->peer))
        f = tti_ring_reserve(&p->writer, (uint32_t)args->bytes);
    if (f != NULL) {
        f->bytes = (uint32_t)args->bytes;
        f->tag = args->tag;
        f->total = args->bytes;
        if (args->bytes > 0)
            memcpy(tti_frame_data(f), args->data, args->bytes);
        tti_ring_publish(&p->writer, f, TTI_FRAME_EAGER);
        tti_p2p_notify(box, args->peer);
    }
    tti_p2p_unlock(box);
    return f != NULL;
}

typedef enum outcome { TAKEN, NOT_YET, NOT_SIMPLE } outcome;

/* With the lock held. `word_p`: what to watch until something comes. */
static outcome take(tti_p2p_box *box, const tti_p2p_args *args, const _Atomic uint32_t **word_p)
{
    tti_p2p_peer *p = &box->peers[args->peer];
    tti_frame *f;

    if (box->aborted || p->gone || p->stream.on || tti_p2p_box_busy(box) ||
        !tti_list_empty(&p->kept))
        return NOT_SIMPLE;
    f = tti_ring_peek(&p->reader);
    if (f == NULL) {
        *word_p = &tti_ring_frame_at(p->reader.bytes, p->reader.head, p->reader.cap)->mark;
        return NOT_YET;
    }
    if (!tti_ring_sound(&p->reader, f) || tti_frame_mark(f) != TTI_FRAME_EAGER ||
        f->tag != args->tag || f->bytes != args->bytes)
        return NOT_SIMPLE;
    if (args->bytes > 0)
        memcpy(args->data, tti_frame_data(f), args->bytes);
    if (tti_ring_consume(&p->reader, f))
        tti_p2p_notify(box, args->peer);
    return TAKEN;
}

static outcome take_locked(tti_p2p_box *box, const tti_p2p_args *args,
                           const _Atomic uint32_t **word_p)
{
    tti_p2p_lock(box);
    outcome got = take(box, args, word_p);
    tti_p2p_unlock(box);
    return got;
}

/* Whether it is worth looking again: something came, or is under way. */
static bool changed(const tti_p2p_box *box, const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed) != TTI_FRAME_NONE ||
           tti_p2p_box_busy(box);
}

static bool receive_now(tti_p2p_box *box, const tti_p2p_args *args, bool patient)
{
    const _Atomic uint32_t *word = NULL;
    outcome got = take_locked(box, args, &word);
    const tti_patience *p = &box->patience;
    int64_t since = 0;

    for (int i = 0; i < p->spins && got == NOT_YET && patient; i++) {
        if (i >= p->eager)
            tti_cpu_relax();
        for (int k = 0; k < LOOKS && !changed(box, word); k++)
            ;
        if (changed(box, word))
            got = take_locked(box, args, &word);
    }
    for (int i = 0; i < p->yields && got == NOT_YET && patient && tti_yield(&since); i++)
        if (changed(box, word))
            got = take_locked(box, args, &word);
    return got == TAKEN;
}

bool tti_p2p_box_now(tti_p2p_box *box, const tti_p2p_args *args, bool patient)
{
    if (args->peer < 0 || args->peer >= box->size || args->peer == box->rank)
        return false;
    return args->send ? send_now(box, args) : receive_now(box, args, patient);
}
