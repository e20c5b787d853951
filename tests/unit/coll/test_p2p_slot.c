/* SPDX-License-Identifier: Apache-2.0 */
/* The slot of a long message: every step in order, and two threads that take them at random. */
#include "coll/p2p_slot.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "tutti/testing.h"

TT_TEST(p2p_slot, fetched)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK(!tti_p2p_slot_offer(&s));
    TT_CHECK(!tti_p2p_slot_collect(&s));
    TT_CHECK(tti_p2p_slot_claim(&s));
    for (int piece = 0; piece < 3; piece++) {
        TT_CHECK(tti_p2p_slot_begin_piece(&s));
        TT_CHECK(tti_p2p_slot_end_piece(&s));
    }
    TT_CHECK(tti_p2p_slot_release(&s));
    TT_CHECK(!tti_p2p_slot_offer(&s)); /* the sender has not seen it yet */
    TT_CHECK(tti_p2p_slot_collect(&s));
    TT_CHECK(tti_p2p_slot_offer(&s));
}

TT_TEST(p2p_slot, taken_back_before_it_was_seen)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK_EQ(tti_p2p_slot_retract(&s, true), TTI_P2P_TAKEN_BACK);
    TT_CHECK(!tti_p2p_slot_offer(&s)); /* its frame is still in the ring */
    TT_CHECK(!tti_p2p_slot_claim(&s));
    TT_CHECK(tti_p2p_slot_offer(&s));
}

/* A claim does not keep the sender from taking its memory back: only a piece that is being copied does. */
TT_TEST(p2p_slot, taken_back_between_claim_and_copy)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK(tti_p2p_slot_claim(&s));
    TT_CHECK_EQ(tti_p2p_slot_retract(&s, true), TTI_P2P_TAKEN_BACK);
    TT_CHECK(!tti_p2p_slot_begin_piece(&s)); /* the memory is not the receiver's any more */
    TT_CHECK(tti_p2p_slot_offer(&s));        /* and the slot is not lost */
}

TT_TEST(p2p_slot, taken_back_before_the_release)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK(tti_p2p_slot_claim(&s));
    TT_CHECK_EQ(tti_p2p_slot_retract(&s, true), TTI_P2P_TAKEN_BACK);
    TT_CHECK(!tti_p2p_slot_release(&s));
    TT_CHECK(tti_p2p_slot_offer(&s));
}

TT_TEST(p2p_slot, taken_back_in_a_piece)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK(tti_p2p_slot_claim(&s));
    TT_CHECK(tti_p2p_slot_begin_piece(&s));
    TT_CHECK_EQ(tti_p2p_slot_retract(&s, true), TTI_P2P_BUSY); /* threads wait */
    TT_CHECK_EQ(tti_p2p_slot_retract(&s, false), TTI_P2P_TAKEN_BACK);
    TT_CHECK(!tti_p2p_slot_end_piece(&s)); /* the piece may be anything */
    TT_CHECK(tti_p2p_slot_offer(&s));
}

TT_TEST(p2p_slot, fetched_before_it_was_taken_back)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK(tti_p2p_slot_claim(&s));
    TT_CHECK(tti_p2p_slot_release(&s));
    TT_CHECK_EQ(tti_p2p_slot_retract(&s, true), TTI_P2P_WAS_DONE);
    TT_CHECK(tti_p2p_slot_offer(&s));
}

/* A frame that names a slot which is in use otherwise changes nothing. */
TT_TEST(p2p_slot, claimed_twice)
{
    tti_p2p_slot s = { 0 };

    TT_CHECK(!tti_p2p_slot_claim(&s));
    TT_CHECK(tti_p2p_slot_offer(&s));
    TT_CHECK(tti_p2p_slot_claim(&s));
    TT_CHECK(!tti_p2p_slot_claim(&s));
    TT_CHECK(tti_p2p_slot_release(&s));
    TT_CHECK(!tti_p2p_slot_claim(&s));
    TT_CHECK(tti_p2p_slot_collect(&s));
}

/* ---- two threads ------------------------------------------------------------------------------ */

enum { ROUNDS = 20000, WORDS = 64 };
#define ENOUGH_NS 1000000000 /* where every change of threads takes long, fewer rounds have to do */

typedef struct game {
    tti_p2p_slot slot;
    bool direct;
    _Atomic uint32_t announced;
    _Atomic bool ended;             /* nothing more will be announced */
    uint32_t plain[WORDS];          /* direct: the sanitizer finds who reads it at the wrong time */
    _Atomic uint32_t kernel[WORDS]; /* else: as the kernel reads, at any time */
    uint32_t got[WORDS];
    int delivered, taken_back, dropped;
} game;

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

static void game_write(game *g, uint32_t value)
{
    for (int i = 0; i < WORDS; i++) {
        if (g->direct)
            g->plain[i] = value;
        else
            atomic_store_explicit(&g->kernel[i], value, memory_order_relaxed);
    }
}

static void game_read(game *g, int from, int n)
{
    for (int i = from; i < from + n; i++)
        g->got[i] =
            g->direct ? g->plain[i] : atomic_load_explicit(&g->kernel[i], memory_order_relaxed);
}

static void *game_sender(void *ctx)
{
    game *g = ctx;
    uint32_t random = (uint32_t)tt_test_seed() + 1;
    int64_t until = tti_now_ns() + ENOUGH_NS;

    for (uint32_t n = 1; n <= ROUNDS && tti_now_ns() < until; n++) {
        tti_p2p_taken_back end = TTI_P2P_BUSY;

        while (!tti_p2p_slot_offer(&g->slot))
            sched_yield();
        game_write(g, n);
        atomic_store_explicit(&g->announced, n, memory_order_release);
        for (uint32_t k = next_random(&random) % 64; k > 0; k--)
            atomic_signal_fence(memory_order_seq_cst);
        if (next_random(&random) % 2 == 0) {
            while ((end = tti_p2p_slot_retract(&g->slot, g->direct)) == TTI_P2P_BUSY)
                sched_yield();
        } else {
            while (!tti_p2p_slot_collect(&g->slot))
                sched_yield();
        }
        g->taken_back += end == TTI_P2P_TAKEN_BACK;
        game_write(g, 0); /* the memory is the sender's again */
    }
    atomic_store_explicit(&g->ended, true, memory_order_release);
    return NULL;
}

static bool game_piece(game *g, int half)
{
    if (!tti_p2p_slot_begin_piece(&g->slot))
        return false;
    game_read(g, half * WORDS / 2, WORDS / 2);
    return tti_p2p_slot_end_piece(&g->slot);
}

static void game_receive(game *g, uint32_t n, uint32_t *random)
{
    bool whole = next_random(random) % 8 != 0;

    if (!tti_p2p_slot_claim(&g->slot) || !game_piece(g, 0) || (whole && !game_piece(g, 1))) {
        g->dropped++;
        return;
    }
    for (int i = 0; whole && i < WORDS; i++)
        TT_REQUIRE_EQ(g->got[i], n); /* what is delivered is good */
    g->delivered++;
    if (!tti_p2p_slot_release(&g->slot)) {
        g->dropped++;
        g->delivered--;
    }
}

/* False: there is no message n. */
static bool game_await(game *g, uint32_t n)
{
    while (atomic_load_explicit(&g->announced, memory_order_acquire) < n) {
        if (atomic_load_explicit(&g->ended, memory_order_acquire))
            return atomic_load_explicit(&g->announced, memory_order_acquire) >= n;
        sched_yield();
    }
    return true;
}

static void play(bool direct)
{
    static game g;
    pthread_t sender;
    uint32_t random = (uint32_t)tt_test_seed() + 2;

    memset(&g, 0, sizeof g);
    g.direct = direct;
    TT_REQUIRE_EQ(pthread_create(&sender, NULL, game_sender, &g), 0);
    int rounds = 0;

    while (game_await(&g, (uint32_t)rounds + 1))
        game_receive(&g, (uint32_t)++rounds, &random);
    pthread_join(sender, NULL);
    TT_CHECK_GE(rounds, 1);
    TT_CHECK_EQ(g.dropped, g.taken_back); /* both sides agree about every message */
    TT_CHECK_EQ(g.delivered, rounds - g.taken_back);
    TT_CHECK(tti_p2p_slot_offer(&g.slot)); /* free at the end */
}

TT_TEST(p2p_slot, threads_at_random)
{
    play(true);
}

TT_TEST(p2p_slot, processes_at_random)
{
    play(false);
}
