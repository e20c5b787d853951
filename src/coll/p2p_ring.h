/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of frames between one writer and one reader, in memory that both can reach.
 *
 * A frame is published by its first word, so that a short message is one cache line that the reader
 * watches. The writer clears the first word of the frame after it before it publishes one; there is
 * always room for that. The reader says how far it came only now and then: it may be silent about less
 * than a quarter of the ring, which is why no frame is larger than a quarter.
 *
 * The two sides may be different processes; what they share is `tti_ring_words` and the bytes. */
#ifndef TTI_COLL_P2P_RING_H
#define TTI_COLL_P2P_RING_H

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

/* The memory has to be zero at first, and aligned to 64 bytes; `cap` is a power of two from 1024. */
void tti_ring_write_init(tti_ring_writer *w, tti_ring_words *words, void *bytes, uint32_t cap);
void tti_ring_read_init(tti_ring_reader *r, tti_ring_words *words, void *bytes, uint32_t cap);

/* Most bytes that one frame can carry. */
static inline uint32_t tti_ring_most(uint32_t cap)
{
    return cap / 4 - (uint32_t)sizeof(tti_frame);
}

static inline uint32_t tti_ring_span(uint32_t bytes)
{
    return ((uint32_t)sizeof(tti_frame) + bytes + TTI_RING_UNIT - 1) & ~(TTI_RING_UNIT - 1);
}

/* A frame to fill for `bytes` <= tti_ring_most, or NULL: no room for now. Only one at a time. */
tti_frame *tti_ring_reserve(tti_ring_writer *w, uint32_t bytes);
/* Shows the reserved frame to the reader. `f->bytes` must be what was reserved. */
void tti_ring_publish(tti_ring_writer *w, tti_frame *f, tti_frame_kind kind);

/* The next frame, or NULL: none for now. */
static inline bool tti_ring_maybe(const tti_ring_reader *r)
{
    const tti_frame *f = (const tti_frame *)(const void *)(r->bytes + (r->head & (r->cap - 1)));

    return atomic_load_explicit(&f->mark, memory_order_relaxed) != TTI_FRAME_NONE;
}
tti_frame *tti_ring_peek(tti_ring_reader *r);
/* Whether the frame could have been written by tti_ring_publish. */
bool tti_ring_sound(const tti_ring_reader *r, const tti_frame *f);
/* Gives the frame up. True: the writer was told that there is room, and should be woken. */
bool tti_ring_consume(tti_ring_reader *r, const tti_frame *f);

static inline void *tti_frame_data(tti_frame *f)
{
    return f + 1;
}

static inline tti_frame_kind tti_frame_mark(const tti_frame *f)
{
    return (tti_frame_kind)atomic_load_explicit(&f->mark, memory_order_relaxed);
}

#endif
