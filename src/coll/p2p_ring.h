/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of frames between one writer and one reader, in memory that both can reach.
 *
 * A frame is published by its first word, so that a short message is one cache line that the reader
 * watches. The writer clears the first word of the frame after it before it publishes one; there is
 * always room for that. The reader says how far it came only now and then: it may be silent about less
 * than a quarter of the ring, which is why no frame is larger than a quarter.
 *
 * The two sides may be different processes; what they share is `tti_ring_words` and the bytes.
 *
 * Who owns what. Positions only grow; a position modulo the size of the ring is a place. Bytes from the head that the reader
 * has told to the tail of the writer are the reader's, all others the writer's. Each side keeps its own position in
 * memory of its own (`tail`, `head`), so that a frame costs the other side one cache line: the one it reads anyway.
 *
 * Which orders. The writer fills the frame, clears the mark of the place after it, and stores the mark of the frame with release;
 * the reader loads the mark with acquire before it reads anything else of the frame. So who sees the mark sees the frame and
 * an empty mark behind it, and what an earlier round left in that place is never taken for a frame. The reader copies the frame, then stores its
 * head with release; the writer loads it with acquire before it writes to those places again. So nothing is
 * overwritten before it was read.
 *
 * Why nothing is lost. Only the writer publishes and only the reader consumes, each under a lock of its own rank, so no
 * frame is taken twice. A side that sleeps until the other has done something says so before it looks a last time; the
 * other one looks for sleepers after its store, and a fence, or membarrier on the side of the sleeper, stands between (wait.h). The reader tells
 * its head when it has taken a quarter of the ring since the last time. A writer that has no room lacks at most a frame and what
 * is skipped at the end, half of the ring together, so that nearly half of it is not told yet: more than a quarter. The reader will
 * tell before it has taken all of it. models/ring.pml checks this
 * for frames of one size. */
#ifndef TTI_COLL_P2P_RING_H
#define TTI_COLL_P2P_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TTI_RING_UNIT 64u /* frames begin at multiples of it */

typedef enum tti_frame_kind {
    TTI_FRAME_NONE,  /* not yet */
    TTI_FRAME_SKIP,  /* the next one is at the start of the ring */
    TTI_FRAME_EAGER, /* a whole message */
    TTI_FRAME_FIRST, /* the first piece of a long one; `addr` is where it lies in its process */
    TTI_FRAME_MORE,  /* a further piece */
    TTI_FRAME_OFFER, /* a message to be fetched from `addr` of its process; see slots */
} tti_frame_kind;

typedef struct tti_frame {
    _Atomic uint32_t mark; /* tti_frame_kind */
    uint32_t bytes;        /* that follow */
    int32_t tag;
    uint32_t slot;
    uint64_t total; /* bytes of the message */
    uint64_t addr;
} tti_frame;

_Static_assert(sizeof(tti_frame) == 32, "a frame begins with 32 bytes in every build");

/* What the reader says to the writer. */
typedef struct tti_ring_words {
    _Alignas(64) _Atomic uint64_t head;
} tti_ring_words;

typedef struct tti_ring_writer {
    unsigned char *bytes;
    tti_ring_words *words;
    uint32_t cap;
    uint64_t tail;
    uint64_t head; /* as last seen */
} tti_ring_writer;

typedef struct tti_ring_reader {
    unsigned char *bytes;
    tti_ring_words *words;
    uint32_t cap;
    uint64_t head;
    uint64_t told; /* head as last said */
} tti_ring_reader;

/* ---- sizes ------------------------------------------------------------------------------------ */

/* Most bytes that one frame can carry. */
static inline uint32_t tti_ring_most(uint32_t cap)
{
    return cap / 4 - (uint32_t)sizeof(tti_frame);
}

static inline uint32_t tti_ring_span(uint32_t bytes)
{
    return ((uint32_t)sizeof(tti_frame) + bytes + TTI_RING_UNIT - 1) & ~(TTI_RING_UNIT - 1);
}

static inline tti_frame *tti_ring_frame_at(unsigned char *bytes, uint64_t pos, uint32_t cap)
{
    return (tti_frame *)(void *)(bytes + (pos & (cap - 1)));
}

static inline void *tti_frame_data(tti_frame *f)
{
    return f + 1;
}

static inline tti_frame_kind tti_frame_mark(const tti_frame *f)
{
    return (tti_frame_kind)atomic_load_explicit(&f->mark, memory_order_relaxed);
}

/* ---- the writer ------------------------------------------------------------------------------- */

/* The memory has to be zero at first, and aligned to 64 bytes; `cap` is a power of two from 1024. */
static inline void tti_ring_write_init(tti_ring_writer *w, tti_ring_words *words, void *bytes,
                                       uint32_t cap)
{
    assert(cap >= 1024 && (cap & (cap - 1)) == 0);
    *w = (tti_ring_writer){ .bytes = bytes, .words = words, .cap = cap };
}

/* Whether `span` bytes from the tail on and the first word of what follows them are free. */
static inline bool tti_ring_has_room(tti_ring_writer *w, uint64_t span)
{
    uint64_t end = w->tail + span + TTI_RING_UNIT;

    if (end - w->head <= w->cap)
        return true;
    w->head = atomic_load_explicit(&w->words->head, memory_order_acquire);
    return end - w->head <= w->cap;
}

/* A frame to fill for `bytes` <= tti_ring_most, or NULL: no room for now. Only one at a time. */
static inline tti_frame *tti_ring_reserve(tti_ring_writer *w, uint32_t bytes)
{
    uint32_t span = tti_ring_span(bytes);
    uint32_t to_end = w->cap - (uint32_t)(w->tail & (w->cap - 1));

    assert(bytes <= tti_ring_most(w->cap));
    if (!tti_ring_has_room(w, span <= to_end ? span : (uint64_t)to_end + span))
        return NULL;
    if (span > to_end) {
        tti_frame *skip = tti_ring_frame_at(w->bytes, w->tail, w->cap);
        tti_frame *first = tti_ring_frame_at(w->bytes, 0, w->cap);

        atomic_store_explicit(&first->mark, TTI_FRAME_NONE, memory_order_relaxed);
        atomic_store_explicit(&skip->mark, TTI_FRAME_SKIP, memory_order_release);
        w->tail += to_end;
    }
    return tti_ring_frame_at(w->bytes, w->tail, w->cap);
}

/* Shows the reserved frame to the reader. `f->bytes` must be what was reserved. */
static inline void tti_ring_publish(tti_ring_writer *w, tti_frame *f, tti_frame_kind kind)
{
    uint64_t next = w->tail + tti_ring_span(f->bytes);

    atomic_store_explicit(&tti_ring_frame_at(w->bytes, next, w->cap)->mark, TTI_FRAME_NONE,
                          memory_order_relaxed);
    atomic_store_explicit(&f->mark, kind, memory_order_release);
    w->tail = next;
    /* Most frames are one unit: fetch now the line that will have to be cleared before the next one can be
     * published, while nobody waits for it. */
    if (next + 2 * TTI_RING_UNIT - w->head <= w->cap)
        atomic_store_explicit(&tti_ring_frame_at(w->bytes, next + TTI_RING_UNIT, w->cap)->mark,
                              TTI_FRAME_NONE, memory_order_relaxed);
}

/* ---- the reader ------------------------------------------------------------------------------- */

static inline void tti_ring_read_init(tti_ring_reader *r, tti_ring_words *words, void *bytes,
                                      uint32_t cap)
{
    *r = (tti_ring_reader){ .bytes = bytes, .words = words, .cap = cap };
}

/* Whether there may be a frame; cheap enough to be asked again and again. */
static inline bool tti_ring_maybe(const tti_ring_reader *r)
{
    const tti_frame *f = (const tti_frame *)(const void *)(r->bytes + (r->head & (r->cap - 1)));

    return atomic_load_explicit(&f->mark, memory_order_relaxed) != TTI_FRAME_NONE;
}

/* The next frame, or NULL: none for now. */
static inline tti_frame *tti_ring_peek(tti_ring_reader *r)
{
    for (;;) {
        tti_frame *f = tti_ring_frame_at(r->bytes, r->head, r->cap);
        uint32_t mark = atomic_load_explicit(&f->mark, memory_order_acquire);

        if (mark == TTI_FRAME_NONE)
            return NULL;
        if (mark != TTI_FRAME_SKIP)
            return f;
        r->head += r->cap - (r->head & (r->cap - 1));
    }
}

/* Whether the frame could have been written by tti_ring_publish. */
static inline bool tti_ring_sound(const tti_ring_reader *r, const tti_frame *f)
{
    size_t at = (size_t)((const unsigned char *)f - r->bytes);
    tti_frame_kind kind = tti_frame_mark(f);

    return kind <= TTI_FRAME_OFFER && f->bytes <= tti_ring_most(r->cap) && f->bytes <= f->total &&
           at + tti_ring_span(f->bytes) <= r->cap;
}

/* Gives the frame up. True: the writer was told that there is room, and should be woken. */
static inline bool tti_ring_consume(tti_ring_reader *r, const tti_frame *f)
{
    r->head += tti_ring_span(f->bytes);
    if (r->head - r->told < r->cap / 4)
        return false;
    r->told = r->head;
    atomic_store_explicit(&r->words->head, r->head, memory_order_release);
    return true;
}

#endif
