/* SPDX-License-Identifier: Apache-2.0 */
/* One writer, one reader: see the header for the protocol. */
#include "coll/p2p_ring.h"

#include <assert.h>

static tti_frame *frame_at(unsigned char *bytes, uint64_t pos, uint32_t cap)
{
    return (tti_frame *)(void *)(bytes + (pos & (cap - 1)));
}

void tti_ring_write_init(tti_ring_writer *w, tti_ring_words *words, void *bytes, uint32_t cap)
{
    assert(cap >= 1024 && (cap & (cap - 1)) == 0);
    *w = (tti_ring_writer){ .bytes = bytes, .words = words, .cap = cap };
}

void tti_ring_read_init(tti_ring_reader *r, tti_ring_words *words, void *bytes, uint32_t cap)
{
    *r = (tti_ring_reader){ .bytes = bytes, .words = words, .cap = cap };
}

/* Whether `span` bytes from the tail on and the first word of what follows them are free. */
static bool has_room(tti_ring_writer *w, uint64_t span)
{
    uint64_t end = w->tail + span + TTI_RING_UNIT;

    if (end - w->head <= w->cap)
        return true;
    w->head = atomic_load_explicit(&w->words->head, memory_order_acquire);
    return end - w->head <= w->cap;
}

tti_frame *tti_ring_reserve(tti_ring_writer *w, uint32_t bytes)
{
    uint32_t span = tti_ring_span(bytes);
    uint32_t to_end = w->cap - (uint32_t)(w->tail & (w->cap - 1));

    assert(bytes <= tti_ring_most(w->cap));
    if (!has_room(w, span <= to_end ? span : (uint64_t)to_end + span))
        return NULL;
    if (span > to_end) {
        tti_frame *skip = frame_at(w->bytes, w->tail, w->cap);
        tti_frame *first = frame_at(w->bytes, 0, w->cap);

        atomic_store_explicit(&first->mark, TTI_FRAME_NONE, memory_order_relaxed);
        atomic_store_explicit(&skip->mark, TTI_FRAME_SKIP, memory_order_release);
        w->tail += to_end;
    }
    return frame_at(w->bytes, w->tail, w->cap);
}

void tti_ring_publish(tti_ring_writer *w, tti_frame *f, tti_frame_kind kind)
{
    uint64_t next = w->tail + tti_ring_span(f->bytes);

    atomic_store_explicit(&frame_at(w->bytes, next, w->cap)->mark, TTI_FRAME_NONE,
                          memory_order_relaxed);
    atomic_store_explicit(&f->mark, kind, memory_order_release);
    w->tail = next;
    /* Most frames are one unit: fetch now the line that will have to be cleared before the next one can be
     * published, while nobody waits for it. */
    if (next + 2 * TTI_RING_UNIT - w->head <= w->cap)
        atomic_store_explicit(&frame_at(w->bytes, next + TTI_RING_UNIT, w->cap)->mark,
                              TTI_FRAME_NONE, memory_order_relaxed);
}

tti_frame *tti_ring_peek(tti_ring_reader *r)
{
    for (;;) {
        tti_frame *f = frame_at(r->bytes, r->head, r->cap);
        uint32_t mark = atomic_load_explicit(&f->mark, memory_order_acquire);

        if (mark == TTI_FRAME_NONE)
            return NULL;
        if (mark != TTI_FRAME_SKIP)
            return f;
        r->head += r->cap - (r->head & (r->cap - 1));
    }
}

bool tti_ring_sound(const tti_ring_reader *r, const tti_frame *f)
{
    size_t at = (size_t)((const unsigned char *)f - r->bytes);
    tti_frame_kind kind = tti_frame_mark(f);

    return kind <= TTI_FRAME_OFFER && f->bytes <= tti_ring_most(r->cap) && f->bytes <= f->total &&
           at + tti_ring_span(f->bytes) <= r->cap;
}

bool tti_ring_consume(tti_ring_reader *r, const tti_frame *f)
{
    r->head += tti_ring_span(f->bytes);
    if (r->head - r->told < r->cap / 4)
        return false;
    r->told = r->head;
    atomic_store_explicit(&r->words->head, r->head, memory_order_release);
    return true;
}
