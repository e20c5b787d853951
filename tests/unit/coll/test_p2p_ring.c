/* SPDX-License-Identifier: Apache-2.0 */
/* The ring alone, on plain memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "coll/p2p_ring.h"
#include "tutti/testing.h"

enum { CAP = 4096 };

typedef struct ring {
    tti_ring_words words;
    _Alignas(64) unsigned char bytes[CAP];
    tti_ring_writer w;
    tti_ring_reader r;
} ring;

static ring *new_ring(void)
{
    ring *x = aligned_alloc(64, sizeof *x);

    TT_REQUIRE_NOT_NULL(x);
    memset(x, 0, sizeof *x);
    tti_ring_write_init(&x->w, &x->words, x->bytes, CAP);
    tti_ring_read_init(&x->r, &x->words, x->bytes, CAP);
    return x;
}

/* A frame whose bytes follow from its number. */
static bool put(ring *x, uint32_t n, uint64_t number)
{
    tti_frame *f = tti_ring_reserve(&x->w, n);

    if (f == NULL)
        return false;
    f->bytes = n;
    f->tag = (int32_t)number;
    f->total = n;
    memset(tti_frame_data(f), (int)(number % 251), n);
    tti_ring_publish(&x->w, f, TTI_FRAME_EAGER);
    return true;
}

/* Takes the next frame, which must be this one. False: nothing there. */
static bool take(ring *x, uint32_t n, uint64_t number)
{
    tti_frame *f = tti_ring_peek(&x->r);
    unsigned char *data;

    if (f == NULL)
        return false;
    TT_REQUIRE(tti_ring_sound(&x->r, f));
    TT_REQUIRE_EQ(f->bytes, n);
    TT_REQUIRE_EQ(f->tag, (int32_t)number);
    data = tti_frame_data(f);
    for (uint32_t i = 0; i < n; i++)
        TT_REQUIRE_EQ(data[i], number % 251);
    tti_ring_consume(&x->r, f);
    return true;
}

static uint32_t size_of(uint64_t number)
{
    uint64_t x = (number + 1) * 0x9e3779b97f4a7c15u;

    x ^= x >> 31;
    return (uint32_t)(x % 3 == 0 ? x % 33 : x % (tti_ring_most(CAP) + 1));
}

TT_TEST(p2p_ring, is_empty_at_first)
{
    ring *x = new_ring();

    TT_CHECK_NULL(tti_ring_peek(&x->r));
    TT_CHECK(!tti_ring_maybe(&x->r));
    free(x);
}

TT_TEST(p2p_ring, holds_until_full_then_goes_on)
{
    ring *x = new_ring();
    uint64_t in = 0, out = 0;

    while (put(x, 8, in))
        in++;
    TT_CHECK_EQ(in, CAP / 64 - 1); /* one unit stays free */
    while (take(x, 8, out))
        out++;
    TT_CHECK_EQ(out, in);
    TT_CHECK(put(x, 8, in));
    TT_CHECK(take(x, 8, in));
    free(x);
}

TT_TEST(p2p_ring, an_emptied_ring_takes_the_largest_frame_anywhere)
{
    for (int start = 0; start < CAP / 64 * 3; start++) {
        ring *x = new_ring();

        for (int i = 0; i < start; i++)
            TT_REQUIRE(put(x, 8, (uint64_t)i) && take(x, 8, (uint64_t)i));
        TT_CHECK(put(x, tti_ring_most(CAP), 7));
        TT_CHECK(take(x, tti_ring_most(CAP), 7));
        free(x);
    }
}

TT_TEST(p2p_ring, stale_bytes_are_never_frames)
{
    ring *x = new_ring();

    memset(x->bytes, 0, CAP);
    for (uint64_t i = 0; i < 5000; i++) { /* frames full of bytes that look like marks */
        uint32_t n = size_of(i);
        tti_frame *f = tti_ring_reserve(&x->w, n);

        TT_REQUIRE_NOT_NULL(f);
        f->bytes = n;
        f->total = n;
        for (uint32_t k = 0; k + 4 <= n; k += 4)
            memcpy((char *)tti_frame_data(f) + k, &(uint32_t){ TTI_FRAME_EAGER }, 4);
        tti_ring_publish(&x->w, f, TTI_FRAME_EAGER);
        f = tti_ring_peek(&x->r);
        TT_REQUIRE_NOT_NULL(f);
        TT_REQUIRE_EQ(f->bytes, n);
        tti_ring_consume(&x->r, f);
        TT_REQUIRE_NULL(tti_ring_peek(&x->r));
    }
    free(x);
}

TT_TEST(p2p_ring, unsound_frames_are_noticed)
{
    ring *x = new_ring();
    tti_frame *f;

    TT_REQUIRE(put(x, 8, 1));
    f = tti_ring_peek(&x->r);
    f->bytes = CAP;
    TT_CHECK(!tti_ring_sound(&x->r, f));
    f->bytes = 8;
    TT_CHECK(tti_ring_sound(&x->r, f));
    f->total = 7;
    TT_CHECK(!tti_ring_sound(&x->r, f));
    f->total = 8;
    atomic_store(&f->mark, 99);
    TT_CHECK(!tti_ring_sound(&x->r, f));
    free(x);
}

TT_TEST(p2p_ring, random_order_of_both_sides)
{
    ring *x = new_ring();
    uint64_t seed = tt_test_seed(), in = 0, out = 0;

    for (int i = 0; i < 50000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if ((seed >> 40) % 2 == 0)
            in += put(x, size_of(in), in);
        else
            out += take(x, size_of(out), out);
    }
    TT_CHECK_GT(out, 5000);
    free(x);
}

enum { N_FRAMES = 30000 };

static void *write_all(void *ctx)
{
    for (uint64_t i = 0; i < N_FRAMES;)
        i += put(ctx, size_of(i), i);
    return NULL;
}

TT_TEST(p2p_ring, two_threads)
{
    ring *x = new_ring();
    pthread_t thread;

    TT_REQUIRE_EQ(pthread_create(&thread, NULL, write_all, x), 0);
    for (uint64_t i = 0; i < N_FRAMES;)
        i += take(x, size_of(i), i);
    pthread_join(thread, NULL);
    TT_CHECK_NULL(tti_ring_peek(&x->r));
    free(x);
}
