/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that fail: time-outs, operations given up, ranks that die, leave or abort. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p2p_world.h"
#include "tutti/testing.h"

#define TWO_WAYS(name, n_ranks)                                          \
    TT_TEST(p2p_threads, name)                                           \
    {                                                                    \
        p2p_run(&(p2p_world){ .size = n_ranks, .threads = true }, name); \
    }                                                                    \
    TT_TEST(p2p_processes, name)                                         \
    {                                                                    \
        p2p_run(&(p2p_world){ .size = n_ranks }, name);                  \
    }                                                                    \
    TT_TEST(p2p_no_cma, name)                                            \
    {                                                                    \
        p2p_run(&(p2p_world){ .size = n_ranks, .no_cma = true }, name);  \
    }

enum { LONG = 2000000 };

static unsigned char *zeros(size_t n)
{
    unsigned char *p = calloc(1, n);

    TT_REQUIRE_NOT_NULL(p);
    return p;
}

/* The fields of the last failure, of a message. Ranks: `n` of them, `rank` first. */
static void check_fields(const char *operation, tt_error_kind kind, int n, int rank)
{
    tt_error_info e;

    TT_REQUIRE(tt_last_error_info(&e));
    TT_CHECK_STR(e.group, "test");
    TT_CHECK_STR(e.operation, operation);
    TT_CHECK_EQ(e.kind, kind);
    TT_CHECK_EQ(e.n_ranks, n);
    TT_CHECK_EQ(e.ranks[0], rank);
}

/* A time-out leaves the operation under way. */
static void times_out_and_goes_on(p2p_rank *r)
{
    unsigned char *data = zeros(LONG);
    int value = 0;

    if (r->rank == 0) {
        p2p_meet(r);
        tti_p2p *op = p2p_irecv(r, &value, sizeof value, 1, 7);
        int64_t before = tti_now_ns();

        TT_CHECK_ERR_SAYS(
            tti_p2p_wait(op, tti_deadline(30)), TT_ERR_TIMEOUT,
            "recv 0 from rank 1, tag 7, 4 bytes: timed out: no matching message came");
        check_fields("recv", TT_ERROR_MISSING, 1, 1);
        TT_CHECK_GE(tti_now_ns() - before, 30000000);
        TT_CHECK(!tti_p2p_done(op));
        p2p_meet(r);
        TT_CHECK_OK(p2p_end(op, NULL));
        TT_CHECK_EQ(value, 3);
    } else {
        tti_p2p *op = p2p_isend(r, data, LONG, 0, 8);

        TT_CHECK_ERR_SAYS(tti_p2p_wait(op, tti_deadline(30)), TT_ERR_TIMEOUT,
                          "send 0 to rank 0, tag 8, 2000000 bytes: timed out");
        p2p_meet(r);
        p2p_meet(r);
        value = 3;
        TT_CHECK_OK(p2p_send(r, &value, sizeof value, 0, 7));
        p2p_meet(r);
        TT_CHECK_OK(p2p_end(op, NULL));
        free(data);
        return;
    }
    p2p_meet(r);
    TT_CHECK_OK(p2p_recv(r, data, LONG, 1, 8));
    free(data);
}
TWO_WAYS(times_out_and_goes_on, 2)

/* Sends and receives given up at any state; what comes after them arrives. */
static void given_up(p2p_rank *r)
{
    enum { ROUNDS = 60 };

    for (int i = 0; i < ROUNDS; i++) {
        size_t n = i % 4 == 0 ? 100 : LONG / 4;
        bool sender_gives_up = i % 3 == 0;
        unsigned char *data = zeros(n);
        uint64_t value = (uint64_t)i;

        if (r->rank == 0) {
            tti_p2p *op = p2p_isend(r, data, n, 1, 1);

            if (sender_gives_up) {
                for (uint32_t k = p2p_random(r) % 4; k > 0; k--)
                    tti_p2p_box_progress(r->box);
                tti_p2p_free(op);
                memset(data, 0xff, n); /* nobody reads it any more */
            }
            TT_CHECK_OK(p2p_send(r, &value, 8, 1, 2));
            if (!sender_gives_up)
                TT_CHECK_OK(p2p_end(op, NULL));
            atomic_store(&r->world->shared->note[0], i + 1);
        } else {
            tti_p2p *op = p2p_irecv(r, data, n, 0, 1);

            for (uint32_t k = p2p_random(r) % 4; k > 0; k--)
                tti_p2p_box_progress(r->box);
            if (!sender_gives_up && i % 2 == 0) {
                tti_p2p_free(op);
                op = NULL;
                free(data);
                data = zeros(n);
            }
            TT_CHECK_OK(p2p_recv(r, &value, 8, 0, 2));
            TT_CHECK_EQ(value, i);
            tti_p2p_free(op);
            if (!sender_gives_up) { /* given up before the message came: take it now */
                op = p2p_irecv(r, data, n, 0, 1);
                while (!tti_p2p_done(op) && atomic_load(&r->world->shared->note[0]) <= i)
                    tti_p2p_box_progress(r->box);
                tti_p2p_free(op);
            }
        }
        p2p_meet(r);
        if (r->rank == 1) { /* drop what may be left of this round */
            tti_p2p *op = p2p_irecv(r, data, n, 0, 1);

            tti_p2p_wait(op, 0);
            tti_p2p_free(op);
        }
        p2p_meet(r);
        free(data);
    }
}
TWO_WAYS(given_up, 2)

/* Rank 0 offers as many long messages as there are slots and takes them back. Rank 1, which waits for something else, has
 * their announcements, and would fetch the first one early to make room. */
static void given_up_before_they_are_fetched(p2p_rank *r)
{
    enum { SLOTS = 4, ROUNDS = 3 };
    unsigned char *data = zeros(LONG);
    int value = 0;

    for (int i = 0; i <= ROUNDS; i++) {
        if (r->rank == 0) {
            tti_p2p *ops[SLOTS];

            p2p_fill(data, LONG, 0, 1, (uint64_t)i);
            for (int k = 0; k < SLOTS && i > 0; k++)
                ops[k] = p2p_isend(r, data, LONG, 1, 1);
            for (int k = 0; k < SLOTS && i > 0; k++)
                tti_p2p_free(ops[k]);
            memset(data, 0xff, LONG); /* nobody reads it any more */
            p2p_meet(r);
            TT_CHECK_OK(p2p_send(r, &i, sizeof i, 1, 2));
            p2p_fill(data, LONG, 0, 1, (uint64_t)i);
            p2p_meet(r);
            TT_CHECK_OK(p2p_send(r, data, LONG, 1, 1));
        } else {
            p2p_meet(r); /* one that is fetched before it is taken back has been sent */
            TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 2));
            TT_CHECK_EQ(value, i);
            p2p_meet(r);
            TT_CHECK_OK(p2p_recv(r, data, LONG, 0, 1));
            TT_CHECK(p2p_filled(data, LONG, 0, 1, (uint64_t)i));
        }
        p2p_meet(r);
    }
    free(data);
}
TWO_WAYS(given_up_before_they_are_fetched, 2)

/* What had arrived before a rank left is delivered; the rest fails and says so. */
static void leaves(p2p_rank *r)
{
    int value = 41;
    p2p_shared *s = r->world->shared;

    if (r->rank == 1) {
        TT_CHECK_OK(p2p_send(r, &value, sizeof value, 0, 1));
        atomic_store(&s->state[1], TTI_RANK_LEFT);
        tti_p2p_box_alarm(r->box, 0);
        return;
    }
    tti_p2p *never = p2p_irecv(r, &value, sizeof value, 1, 2);
    tti_p2p *any = p2p_irecv(r, &value, sizeof value, -1, 3);

    TT_CHECK_ERR_SAYS(p2p_end(never, NULL), TT_ERR_PEER, "rank 1 (pid ");
    TT_CHECK_CONTAINS(tt_last_error(), "left the group");
    check_fields("recv", TT_ERROR_LEFT, 1, 1);
    TT_CHECK_ERR_SAYS(p2p_end(any, NULL), TT_ERR_PEER, "every other rank");
    check_fields("recv", TT_ERROR_LEFT, r->world->size - 1, 1);
    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 1, 1));
    TT_CHECK_EQ(value, 41);
    TT_CHECK_ERR(p2p_recv(r, &value, sizeof value, 1, 1), TT_ERR_PEER);
    TT_CHECK_ERR_SAYS(p2p_send(r, &value, sizeof value, 1, 1), TT_ERR_PEER, "send 0 to rank 1");
}
TWO_WAYS(leaves, 2)

/* A receive from anyone ends when somebody dies, because that rank may have been the one to send; what came before counts.
 * Who leaves in peace ends nothing as long as others are there. */
static void dies_while_anyone_may_send(p2p_rank *r)
{
    p2p_shared *s = r->world->shared;
    int value = r->rank, got = -1;

    if (r->rank != 0) {
        TT_CHECK_OK(p2p_send(r, &value, sizeof value, 0, 1));
        p2p_meet(r);
        if (r->rank == 3) {
            atomic_store(&s->state[3], TTI_RANK_LEFT);
            tti_p2p_box_alarm(r->box, 0);
        }
        p2p_meet(r);
        if (r->rank == 2) {
            atomic_store(&s->state[2], TTI_RANK_DEAD);
            tti_p2p_box_alarm(r->box, 0);
        }
        if (r->rank == 1) {
            p2p_meet(r);
            TT_CHECK_OK(p2p_send(r, &value, sizeof value, 0, 3));
        } else {
            p2p_meet(r);
        }
        return;
    }
    p2p_meet(r);
    tti_p2p *any = p2p_irecv(r, &got, sizeof got, -1, 2);

    TT_CHECK_ERR(tti_p2p_wait(any, tti_deadline(50)), TT_ERR_TIMEOUT); /* rank 3 left, no more */
    TT_CHECK(!tti_p2p_done(any));
    p2p_meet(r);
    TT_CHECK_ERR_SAYS(p2p_end(any, NULL), TT_ERR_PEER, "from anyone, tag 2, 4 bytes: rank 2 (pid ");
    TT_CHECK_CONTAINS(tt_last_error(), "died");
    check_fields("recv", TT_ERROR_DIED, 1, 2);
    for (int i = 0; i < 3; i++) /* what all of them had sent before */
        TT_CHECK_OK(p2p_end(p2p_irecv(r, &got, sizeof got, -1, 1), NULL));
    TT_CHECK_ERR_SAYS(p2p_end(p2p_irecv(r, &got, sizeof got, -1, 1), NULL), TT_ERR_PEER, "rank 2");
    p2p_meet(r);
    TT_CHECK_OK(p2p_recv(r, &got, sizeof got, 1, 3)); /* by name it goes on */
    TT_CHECK_EQ(got, 1);
}
TWO_WAYS(dies_while_anyone_may_send, 4)

static void aborts(p2p_rank *r)
{
    unsigned char *data = zeros(LONG);
    tti_p2p *receive = p2p_irecv(r, data, 8, 1 - r->rank, 1);
    tti_p2p *send = p2p_isend(r, data, LONG, 1 - r->rank, 2);

    if (r->rank == 1) {
        atomic_store(&r->world->shared->state[1], TTI_RANK_ABORTED);
        tti_p2p_box_alarm(r->box, 0);
    }
    tt_status want = r->rank == 1 ? TT_ERR_ABORTED : TT_ERR_PEER;

    TT_CHECK_ERR_SAYS(p2p_end(receive, NULL), want, "aborted");
    tt_status sent = p2p_end(send, NULL);

    TT_CHECK(sent == want || sent == TT_OK); /* its pieces may all have been taken before */
    send = p2p_isend(r, data, LONG, 1 - r->rank, 2);
    TT_CHECK(tti_p2p_done(send)); /* there is no hope any more */
    TT_CHECK_ERR_SAYS(p2p_end(send, NULL), want, "aborted");
    free(data);
}
TWO_WAYS(aborts, 2)

static void bad_ranks(p2p_rank *r)
{
    tti_p2p_args args = { .send = true, .peer = -1 };
    tti_p2p *op;

    TT_CHECK_ERR_SAYS(tti_p2p_box_start(r->box, &args, &op), TT_ERR_INVALID, "got -1");
    args = (tti_p2p_args){ .peer = 2 };
    TT_CHECK_ERR_SAYS(tti_p2p_box_start(r->box, &args, &op), TT_ERR_INVALID, "below 2, got 2");
    TT_CHECK_NULL(op);
}
TWO_WAYS(bad_ranks, 2)

/* Operations that outlive their box end with it. */
static void outlive_the_box(p2p_rank *r)
{
    int value = 0;
    tti_p2p *op = p2p_irecv(r, &value, sizeof value, 0, 1);

    tti_p2p_box_close(r->box);
    TT_CHECK_ERR(tti_p2p_result(op, NULL), TT_ERR_ABORTED);
    tti_p2p_free(op);
    r->box = NULL;
}
TWO_WAYS(outlive_the_box, 2)

/* Rank 0 dies while everybody sends to everybody; the others notice within 50 ms. */
static void dies_at_a_random_moment(p2p_rank *r)
{
    enum { BYTES = 100000 };
    p2p_world *w = r->world;
    int n = w->size, moment = (int)(w->seed % 200), sum = 0;
    unsigned char *in = zeros(BYTES), *out = zeros(BYTES);

    for (int i = 0; i < 100000; i++) {
        size_t bytes = i % 3 == 0 ? BYTES : 64;
        int to = (r->rank + 1) % n, from = (r->rank + n - 1) % n;
        tti_p2p *a = p2p_irecv(r, in, bytes, from, i), *b = p2p_isend(r, out, bytes, to, i);

        if (r->rank == 0 && i == moment)
            kill(getpid(), SIGKILL);
        tt_status st = tti_p2p_wait(a, tti_deadline(20000));
        tt_status sent = tti_p2p_wait(b, tti_deadline(st == TT_OK ? 20000 : 0));

        tti_p2p_free(a);
        tti_p2p_free(b);
        sum += st == TT_OK && sent == TT_OK;
        if (st == TT_OK && sent == TT_OK)
            continue;
        if (from == 0 && st != TT_OK) {
            TT_CHECK_EQ(st, TT_ERR_PEER);
            TT_CHECK_LT(tti_now_ns() - atomic_load(&w->shared->died_ns[0]), 15000000000LL);
        }
        TT_CHECK(st == TT_ERR_PEER || sent == TT_ERR_PEER);
        break;
    }
    TT_CHECK_LT(sum, 100000);
    atomic_store(&w->shared->state[r->rank], TTI_RANK_LEFT); /* so that the others end, too */
    free(in);
    free(out);
}

TT_TEST(p2p_processes, dies_at_a_random_moment)
{
    for (int i = 0; i < 6; i++)
        p2p_run(&(p2p_world){ .size = 3, .deaths = true, .no_cma = i % 2 == 1 },
                dies_at_a_random_moment);
}

/* ---- several threads of one rank ---------------------------------------------------------- */

enum { WAITERS = 4, EACH = 200 };

typedef struct waiter {
    p2p_rank *r;
    int tag;
} waiter;

static void *ping(void *ctx)
{
    waiter *w = ctx;
    int other = 1 - w->r->rank;

    for (int i = 0; i < EACH; i++) {
        int in = -1, out = i * 10 + w->tag;
        tti_p2p *a = p2p_irecv(w->r, &in, sizeof in, other, w->tag);
        tti_p2p *b = p2p_isend(w->r, &out, sizeof out, other, w->tag);

        TT_CHECK_OK(p2p_end(a, NULL));
        TT_CHECK_OK(p2p_end(b, NULL));
        TT_CHECK_EQ(in, out);
    }
    return NULL;
}

static void several_threads_wait(p2p_rank *r)
{
    pthread_t threads[WAITERS];
    waiter args[WAITERS];

    for (int i = 0; i < WAITERS; i++) {
        args[i] = (waiter){ r, i };
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, ping, &args[i]), 0);
    }
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
}
TWO_WAYS(several_threads_wait, 2)

static void *wake_it(void *ctx)
{
    tti_p2p_box_wake(((p2p_rank *)ctx)->box);
    return NULL;
}

static void idle_ends(p2p_rank *r)
{
    pthread_t thread;
    int value = 1;
    int64_t before = tti_now_ns();

    tti_p2p_box_idle(r->box, tti_deadline(20));
    TT_CHECK_GE(tti_now_ns() - before, 20000000);
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, wake_it, r), 0);
    tti_p2p_box_idle(r->box, TTI_NEVER);
    pthread_join(thread, NULL);
    wake_it(r); /* before idling counts, too */
    tti_p2p_box_idle(r->box, TTI_NEVER);
    if (r->rank == 0) {
        tti_p2p *op = p2p_irecv(r, &value, sizeof value, 1, 1);

        while (!tti_p2p_done(op))
            tti_p2p_box_idle(r->box, TTI_NEVER);
        tti_p2p_free(op);
        TT_CHECK_EQ(value, 2);
        TT_CHECK(!tti_p2p_box_busy(r->box));
    } else {
        value = 2;
        TT_CHECK_OK(p2p_send(r, &value, sizeof value, 0, 1));
    }
}
TWO_WAYS(idle_ends, 2)

/* ---- no memory ------------------------------------------------------------------------------ */

static tti_rank_state always_here(void *ctx, int rank, bool ask)
{
    (void)ctx;
    (void)rank;
    (void)ask;
    return TTI_RANK_HERE;
}

/* Opens, sends to itself what is kept, receives it, closes. */
static tt_status whole_life(void *region)
{
    tti_member me = { .host = "here" };
    tti_p2p_env env = {
        .size = 1, .group = "test", .members = &me, .region = region, .state = always_here
    };
    tti_p2p_args args = { .send = true, .data = &(int){ 5 }, .bytes = sizeof(int), .tag = 1 };
    tti_p2p *send = NULL, *receive = NULL;
    tti_p2p_box *box;
    int value = 0;

    TT_TRY(tti_p2p_box_open(&env, &box));
    tt_status st = tti_p2p_box_start(box, &args, &send);

    if (st == TT_OK)
        st = tti_p2p_wait(send, TTI_NEVER);
    args = (tti_p2p_args){ .data = &value, .bytes = sizeof value, .tag = 1 };
    if (st == TT_OK)
        st = tti_p2p_box_start(box, &args, &receive);
    if (st == TT_OK)
        st = tti_p2p_wait(receive, TTI_NEVER);
    TT_CHECK(st != TT_OK || value == 5);
    tti_p2p_free(send);
    tti_p2p_free(receive);
    tti_p2p_box_close(box);
    return st;
}

TT_TEST(p2p_threads, survives_failed_allocations)
{
    void *region = aligned_alloc(128, (tti_p2p_region_bytes(1) + 127) / 128 * 128);

    TT_REQUIRE_NOT_NULL(region);
    memset(region, 0, tti_p2p_region_bytes(1));
    TT_CHECK_GE(tt_test_fail_allocs(whole_life, region), 4);
    free(region);
}

/* Without memory to keep it, a message stays in the ring until there is some. */
static void stays_in_the_ring(p2p_rank *r)
{
    int value = 1, other = 2;

    if (r->rank == 0) {
        TT_CHECK_OK(p2p_send(r, &value, sizeof value, 1, 1));
        TT_CHECK_OK(p2p_send(r, &other, sizeof other, 1, 2));
        p2p_meet(r);
        return;
    }
    p2p_meet(r);
    value = other = 0;
    tt_debug_fail_alloc(2); /* the first is the operation */
    tti_p2p *op = p2p_irecv(r, &other, sizeof other, 0, 2);

    TT_CHECK_EQ(tt_debug_fail_alloc(0), 3); /* the third is the record of the failure */
    TT_CHECK(!tti_p2p_done(op));            /* what lies before its message could not be kept */
    TT_CHECK_OK(p2p_end(op, NULL));
    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 1));
    TT_CHECK_EQ(value, 1);
    TT_CHECK_EQ(other, 2);
}
TWO_WAYS(stays_in_the_ring, 2)
