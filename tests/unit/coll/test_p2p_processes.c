/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a team of processes: long ones whose sender or receiver dies, buffers that peers can reach, many tags,
 * collectives of every kind at the same time, and ranks that leave as soon as they have sent. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deeds.h"

static tti_p2p *begin(tti_team *team, bool send, void *data, size_t bytes, int peer, int tag)
{
    tti_p2p_args args = {
        .send = send, .data = data, .bytes = bytes, .peer = peer, .tag = tag, .seq = 4
    };
    tti_p2p *op = NULL;

    TT_REQUIRE_OK(tti_p2p_start(team, &args, &op));
    return op;
}

static tt_status end(tti_p2p *op, int *source_p)
{
    tt_status st = tti_p2p_wait(op, soon());

    if (st == TT_OK)
        st = tti_p2p_result(op, source_p);
    tti_p2p_free(op);
    return st;
}

/* Bytes that depend on sender, receiver, tag and place. */
static void fill(unsigned char *data, size_t n, int from, int to, int tag)
{
    uint64_t state = (uint64_t)from * 1000003 + (uint64_t)to * 1009 + (uint64_t)tag;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t x = next_random(&state);

        memcpy(data + i, &x, n - i < 8 ? n - i : 8);
    }
}

static bool filled(const unsigned char *data, size_t n, int from, int to, int tag)
{
    unsigned char *want = malloc(n + 1);
    bool same;

    fill(want, n, from, to, tag);
    same = memcmp(data, want, n) == 0;
    free(want);
    return same;
}

static const world_options ways[] = {
    { 0 }, { .no_cma = true }, { .no_cma = true, .staging_bytes = 1 }, { .threads = true }
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

/* ---- sizes and places --------------------------------------------------------------------------- */

/* Everybody to everybody, itself included, from and to memory of every sort. */
static void everybody_to_everybody(world *w, int rank, void *ctx)
{
    static const size_t sizes[] = { 0, 1, 100, 4000, 70000, 1200007 };
    tti_team *team = world_team(w, rank);
    int size = world_size(w);

    (void)ctx;
    for (int i = 0; i < 6; i++) {
        size_t n = sizes[i];
        unsigned char *in[4], *out[4];
        tti_p2p *ops[8];

        for (int r = 0; r < size; r++) {
            bool heap = (rank + r + i) % 2 == 0;

            in[r] = heap ? tti_team_alloc(team, n + 1) : malloc(n + 1);
            out[r] = heap ? malloc(n + 1) : tti_team_alloc(team, n + 1);
            TT_REQUIRE(in[r] != NULL && out[r] != NULL);
            fill(out[r], n, rank, r, i);
            ops[2 * r] = begin(team, false, in[r], n, r, i);
            ops[2 * r + 1] = begin(team, true, out[r], n, r, i);
        }
        for (int r = 0; r < size; r++) {
            bool heap = (rank + r + i) % 2 == 0;
            int source = -1;

            TT_CHECK_OK(end(ops[2 * r], &source));
            TT_CHECK_OK(end(ops[2 * r + 1], NULL));
            TT_CHECK_EQ(source, r);
            TT_CHECK(filled(in[r], n, r, rank, i));
            tti_team_free_bytes(team, heap ? in[r] : out[r]);
            free(heap ? out[r] : in[r]);
        }
    }
    deed_do(team, rank, size, &(deed){ .kind = TTI_COLL_BARRIER });
    tti_team_close(team);
}

TT_TEST_LIMIT(p2p_team, everybody_sends_to_everybody, 120)
{
    for (int i = 0; i < N_WAYS; i++)
        for (int size = 1; size <= 4; size++)
            world_run(size, &ways[i], everybody_to_everybody, NULL);
}

/* ---- tags --------------------------------------------------------------------------------------- */

/* Several hundred messages with tags of their own, taken in another order than they were sent in. */
static void many_tags(world *w, int rank, void *ctx)
{
    enum { TAGS = 300, MOST = 30000 };
    tti_team *team = world_team(w, rank);
    unsigned char *data = malloc((size_t)TAGS * MOST);
    tti_p2p *ops[TAGS];

    (void)ctx;
    for (int i = 0; i < TAGS; i++) {
        int tag = rank == 0 ? i : i * 7 % TAGS; /* 7 and 300 have no common divisor */
        size_t n = (size_t)(tag % 10 == 0 ? MOST - tag : tag);

        if (rank == 0)
            fill(data + (size_t)tag * MOST, n, 0, 1, tag);
        ops[i] = begin(team, rank == 0, data + (size_t)tag * MOST, n, 1 - rank, tag);
    }
    for (int i = 0; i < TAGS; i++) {
        int tag = rank == 0 ? i : i * 7 % TAGS;
        size_t n = (size_t)(tag % 10 == 0 ? MOST - tag : tag);

        TT_CHECK_OK(end(ops[i], NULL));
        if (rank == 1)
            TT_CHECK(filled(data + (size_t)tag * MOST, n, 0, 1, tag));
    }
    free(data);
    deed_do(team, rank, 2, &(deed){ .kind = TTI_COLL_BARRIER });
    tti_team_close(team);
}

TT_TEST_LIMIT(p2p_team, many_tags_are_kept_apart, 60)
{
    for (int i = 0; i < N_WAYS; i++)
        world_run(2, &ways[i], many_tags, NULL);
}

/* ---- beside collectives ----------------------------------------------------------------------------- */

/* A long message goes around the ring during collectives of every kind. */
static void beside_every_kind(world *w, int rank, void *ctx)
{
    enum { LONG = 400000 };
    tti_team *team = world_team(w, rank);
    unsigned char *in = malloc(LONG), *out = malloc(LONG);
    int size = world_size(w), from = (rank + size - 1) % size, to = (rank + 1) % size;

    (void)ctx;
    for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++) {
        tti_p2p *a = begin(team, false, in, LONG, -1, kind), *b;
        int source = -1;

        fill(out, LONG, rank, to, kind);
        b = begin(team, true, out, LONG, to, kind);
        for (int i = 0; i < 3; i++)
            deed_do(team, rank, size,
                    &(deed){ .kind = (tti_coll_kind)kind,
                             .dtype = TT_I32,
                             .root = i % size,
                             .count = i == 0 ? 5 : 50000,
                             .heap = i == 2,
                             .seed = (uint64_t)i });
        TT_CHECK_OK(end(a, &source));
        TT_CHECK_OK(end(b, NULL));
        TT_CHECK_EQ(source, from);
        TT_CHECK(filled(in, LONG, from, rank, kind));
    }
    free(in);
    free(out);
    deed_do(team, rank, size, &(deed){ .kind = TTI_COLL_BARRIER });
    tti_team_close(team);
}

TT_TEST_LIMIT(p2p_team, messages_cross_every_kind_of_collective, 60)
{
    for (int i = 0; i < N_WAYS; i++)
        world_run(3, &ways[i], beside_every_kind, NULL);
}

/* ---- leaving and dying ------------------------------------------------------------------------------- */

/* A send that is done is done: its sender may leave at once, and the message is still there. */
static void leaves_after_sending(world *w, int rank, void *ctx)
{
    size_t n = *(const size_t *)ctx;
    tti_team *team = world_team(w, rank);
    unsigned char *data = malloc(n + 1);

    if (rank == 0) {
        fill(data, n, 0, 1, 1);
        TT_CHECK_OK(end(begin(team, true, data, n, 1, 1), NULL));
        memset(data, 0xff, n); /* ours again */
        tti_team_close(team);
        atomic_store(&world_words(w)[0], 1);
    } else {
        tti_p2p *op = n > 4000 ? begin(team, false, data, n, 0, 1) : NULL;

        if (op == NULL) { /* short ones wait for nobody */
            world_await(w, 0, 1);
            op = begin(team, false, data, n, 0, 1);
        }
        TT_CHECK_OK(end(op, NULL));
        TT_CHECK(filled(data, n, 0, 1, 1));
        world_await(w, 0, 1);
        TT_CHECK_ERR_SAYS(end(begin(team, false, data, n, 0, 1), NULL), TT_ERR_PEER,
                          "left the group");
        tti_team_close(team);
    }
    free(data);
}

TT_TEST_LIMIT(p2p_team, a_sender_may_leave_once_it_has_sent, 60)
{
    static const size_t sizes[] = { 0, 1, 300, 5000, 200000, 3000000 };

    for (int i = 0; i < N_WAYS; i++)
        for (int k = 0; k < 6; k++) {
            size_t n = sizes[k];

            world_run(2, &ways[i], leaves_after_sending, &n);
        }
}

typedef struct doom {
    int victim;
    int64_t delay_ns;
    world *w;
} doom;

static void *doom_main(void *arg)
{
    const doom *d = arg;
    int64_t at;

    world_await(d->w, 1, 2);
    at = tti_now_ns() + d->delay_ns;
    while (tti_now_ns() < at)
        ;
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Long messages go both ways until one rank is killed in the middle of them. */
static void killed_in_a_long_message(world *w, int rank, void *ctx)
{
    enum { LONG = 3000000 };
    doom d = *(const doom *)ctx;
    tti_team *team = world_team(w, rank);
    unsigned char *in = malloc(LONG), *out = malloc(LONG);
    int64_t limit = soon();
    tt_status st = TT_OK;
    pthread_t thread;
    char words[32];

    d.w = w;
    fill(out, LONG, rank, 1 - rank, 5);
    if (rank == d.victim)
        TT_REQUIRE_EQ(pthread_create(&thread, NULL, doom_main, &d), 0);
    atomic_fetch_add(&world_words(w)[1], 1);
    while (st == TT_OK && tti_now_ns() < limit) {
        tti_p2p *a = begin(team, false, in, LONG, 1 - rank, 5);
        tti_p2p *b = begin(team, true, out, LONG, 1 - rank, 5);

        st = end(a, NULL);
        if (st == TT_OK)
            TT_CHECK(filled(in, LONG, 1 - rank, rank, 5));
        if (st == TT_OK)
            st = end(b, NULL);
        else
            tti_p2p_free(b);
    }
    snprintf(words, sizeof words, "rank %d ", d.victim);
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    snprintf(words, sizeof words, "died: rank %d was ended", d.victim);
    TT_CHECK_CONTAINS(tt_last_error(), words);
    TT_CHECK_ERR(end(begin(team, true, out, LONG, 1 - rank, 5), NULL), TT_ERR_PEER);
    free(in);
    free(out);
    tti_team_close(team);
}

TT_TEST_LIMIT(p2p_team, a_kill_in_a_long_message_is_told, 60)
{
    uint64_t state = tt_test_seed();

    for (int i = 0; i < 16; i++) {
        doom d = { .victim = i % 2, .delay_ns = (int64_t)(next_random(&state) % 6000000) };

        world_run(2, &(world_options){ .may_die = true, .no_cma = i % 4 >= 2 },
                  killed_in_a_long_message, &d);
    }
}

/* Two of three go on talking when the third has died; only messages with it fail. */
static void others_go_on(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    unsigned char in[500], out[500];
    tti_p2p *lost = rank != 2 ? begin(team, false, in, sizeof in, 2, 9) : NULL;

    (void)ctx;
    atomic_fetch_add(&world_words(w)[1], 1);
    world_await(w, 1, 3);
    if (rank == 2)
        kill(getpid(), SIGKILL);
    TT_CHECK_ERR_SAYS(end(lost, NULL), TT_ERR_PEER, "recv 4 from rank 2");
    for (int i = 0; i < 100; i++) {
        tti_p2p *a = begin(team, false, in, sizeof in, 1 - rank, i), *b;

        fill(out, sizeof out, rank, 1 - rank, i);
        b = begin(team, true, out, sizeof out, 1 - rank, i);
        TT_CHECK_OK(end(a, NULL));
        TT_CHECK_OK(end(b, NULL));
        TT_CHECK(filled(in, sizeof in, 1 - rank, rank, i));
    }
    atomic_fetch_add(&world_words(w)[2], 1);
    world_await(w, 2, 2);
    tti_team_close(team);
}

TT_TEST(p2p_team, the_others_go_on_talking)
{
    world_run(3, &(world_options){ .may_die = true }, others_go_on, NULL);
    world_run(3, &(world_options){ .may_die = true, .no_cma = true }, others_go_on, NULL);
}
