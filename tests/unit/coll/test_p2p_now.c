/* SPDX-License-Identifier: Apache-2.0 */
/* Short messages that are done at once, beside those that are started. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "p2p_world.h"
#include "tutti/testing.h"

/* Over threads, and over processes. */
#define TWO_WAYS(name, n_ranks)                                          \
    TT_TEST(p2p_threads, name)                                           \
    {                                                                    \
        p2p_run(&(p2p_world){ .size = n_ranks, .threads = true }, name); \
    }                                                                    \
    TT_TEST(p2p_processes, name)                                         \
    {                                                                    \
        p2p_run(&(p2p_world){ .size = n_ranks }, name);                  \
    }

static bool send_now(p2p_rank *r, const void *data, size_t n, int to, int tag)
{
    tti_p2p_args args = {
        .send = true, .data = (void *)(uintptr_t)data, .bytes = n, .peer = to, .tag = tag
    };

    return tti_p2p_box_now(r->box, &args, false);
}

static bool recv_now(p2p_rank *r, void *data, size_t n, int from, int tag, bool patient)
{
    tti_p2p_args args = { .data = data, .bytes = n, .peer = from, .tag = tag };

    return tti_p2p_box_now(r->box, &args, patient);
}

/* Both ways in turns, at random, more than the ring has room for: they come in the order in which they were sent. */
static void in_order(p2p_rank *r)
{
    enum { N = 3000, BYTES = 1000 };
    unsigned char(*data)[BYTES] = calloc(N, BYTES);
    tti_p2p *ops[N] = { NULL };
    int refused = 0;

    TT_REQUIRE_NOT_NULL(data);
    for (int i = 0; i < N && r->rank == 0; i++) {
        p2p_fill(data[i], BYTES, 0, 1, (uint64_t)i);
        if (p2p_random(r) % 2 == 0 || !send_now(r, data[i], BYTES, 1, 7)) {
            refused++;
            ops[i] = p2p_isend(r, data[i], BYTES, 1, 7);
        }
    }
    for (int i = 0; i < N && r->rank == 0; i++)
        if (ops[i] != NULL)
            TT_CHECK_OK(p2p_end(ops[i], NULL));
    for (int i = 0; i < N && r->rank == 1; i++) {
        bool now = p2p_random(r) % 2 == 0 && recv_now(r, data[0], BYTES, 0, 7, true);

        if (!now)
            TT_REQUIRE_OK(p2p_recv(r, data[0], BYTES, 0, 7));
        TT_REQUIRE(p2p_filled(data[0], BYTES, 0, 1, (uint64_t)i));
    }
    TT_CHECK(r->rank == 1 || refused > 0);
    free(data);
}
TWO_WAYS(in_order, 2)

/* There is room again, but one that was started before waits for it. */
static void behind_the_queue(p2p_rank *r)
{
    enum { MOST = 200, BYTES = 4000 };
    unsigned char data[BYTES] = { 0 };
    tti_p2p *ops[MOST];
    _Atomic int *n = &r->world->shared->note[0];

    while (r->rank == 0 && *n < MOST && (*n == 0 || tti_p2p_done(ops[*n - 1]))) {
        ops[*n] = p2p_isend(r, data, BYTES, 1, 3);
        ++*n;
    }
    p2p_meet(r);
    TT_REQUIRE_LT(*n, MOST);
    int before = r->rank == 1 ? *n - 1 : 0;
    for (int i = 0; i < before; i++)
        TT_CHECK_OK(p2p_recv(r, data, BYTES, 0, 3));
    p2p_meet(r);
    if (r->rank == 0)
        TT_CHECK(!send_now(r, data, 1, 1, 3));
    for (int i = 0; i < *n && r->rank == 0; i++)
        TT_CHECK_OK(p2p_end(ops[i], NULL));
    if (r->rank == 1)
        TT_CHECK_OK(p2p_recv(r, data, BYTES, 0, 3));
}
TWO_WAYS(behind_the_queue, 2)

/* What is not simple is left alone, and is there for a receive that is started. */
static void not_simple(p2p_rank *r)
{
    int first = 0, other = 0, value;
    tti_p2p *posted;

    if (r->rank == 0) {
        for (value = 1; value <= 5; value++)
            TT_CHECK(send_now(r, &value, sizeof value, 1, value <= 3 ? 5 : 6));
        p2p_meet(r);
        p2p_meet(r);
        value = 6;
        TT_CHECK(send_now(r, &value, sizeof value, 1, 5));
        return;
    }
    p2p_meet(r);
    TT_CHECK(!recv_now(r, &value, sizeof value, 0, 6, false));  /* another tag comes first */
    TT_CHECK(!recv_now(r, &value, 1, 0, 5, false));             /* another size */
    TT_CHECK(!recv_now(r, &value, sizeof value, -1, 5, false)); /* from anyone */
    TT_CHECK(!recv_now(r, &value, sizeof value, 1, 5, false));  /* from itself */
    TT_CHECK(recv_now(r, &value, sizeof value, 0, 5, false));
    TT_CHECK_EQ(value, 1);
    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 6)); /* keeps 2 and 3 */
    TT_CHECK_EQ(value, 4);
    TT_CHECK(!recv_now(r, &value, sizeof value, 0, 6, false)); /* while others are kept */
    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 5));
    TT_CHECK_EQ(value, 2);
    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 5));
    TT_CHECK_EQ(value, 3);
    TT_CHECK(recv_now(r, &value, sizeof value, 0, 6, false));
    TT_CHECK_EQ(value, 5);
    TT_CHECK(!recv_now(r, &other, sizeof other, 0, 5, false)); /* nothing is there */
    posted = p2p_irecv(r, &first, sizeof first, 0, 5);
    p2p_meet(r);
    TT_CHECK(
        !recv_now(r, &other, sizeof other, 0, 5, true)); /* it would overtake the one before it */
    TT_CHECK_OK(p2p_end(posted, NULL));
    TT_CHECK_EQ(first, 6);
}
TWO_WAYS(not_simple, 2)

/* ---- several threads of one rank ---------------------------------------------------------------- */

enum { EACH = 2000, THREADS = 3 };

typedef struct taker {
    p2p_rank *r;
    long long sum;
    pthread_t thread;
} taker;

static void *take_some(void *ctx)
{
    taker *t = ctx;

    for (int i = 0; i < EACH; i++) {
        int value = 0;

        if (!recv_now(t->r, &value, sizeof value, 0, 1, i % 3 != 0))
            TT_REQUIRE_OK(p2p_recv(t->r, &value, sizeof value, 0, 1));
        t->sum += value;
    }
    return NULL;
}

static void from_threads(p2p_rank *r)
{
    taker takers[THREADS];
    long long sum = 0, n = (long long)EACH * THREADS;

    for (int i = 1; i <= n && r->rank == 0; i++)
        if (!send_now(r, &i, sizeof i, 1, 1))
            TT_REQUIRE_OK(p2p_send(r, &i, sizeof i, 1, 1));
    if (r->rank == 0)
        return;
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (taker){ .r = r };
        TT_REQUIRE_EQ(pthread_create(&takers[i].thread, NULL, take_some, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(takers[i].thread, NULL);
        sum += takers[i].sum;
    }
    TT_CHECK_EQ(sum, n * (n + 1) / 2);
}
TWO_WAYS(from_threads, 2)

/* ---- how often the kernel is asked who lives ------------------------------------------------------ */

enum { SIZE = 5 };

static tti_rank_state count_asks(void *ctx, int rank, bool ask)
{
    (void)rank;
    *(int *)ctx += ask;
    return TTI_RANK_HERE;
}

TT_TEST(p2p_team, asks_once_per_10_ms)
{
    tti_member members[SIZE] = { 0 };
    int asks = 0, value;
    tti_p2p_env env = {
        .size = SIZE, .group = "test", .members = members, .state = count_asks, .ctx = &asks
    };
    size_t bytes = (tti_p2p_region_bytes(SIZE) + 127) / 128 * 128;
    tti_p2p_args args = { .data = &value, .bytes = sizeof value, .peer = 1 };
    int64_t start = tti_now_ns();
    tti_p2p_box *box;
    tti_p2p *op;

    env.region = aligned_alloc(128, bytes);
    TT_REQUIRE_NOT_NULL(env.region);
    memset(env.region, 0, bytes);
    TT_REQUIRE_OK(tti_p2p_box_open(&env, &box));
    TT_REQUIRE_OK(tti_p2p_box_start(box, &args, &op));
    TT_CHECK_EQ(tti_p2p_wait(op, tti_deadline(60)), TT_ERR_TIMEOUT);
    TT_CHECK_GE(asks, 1);
    TT_CHECK_LE(asks, 1 + (int)((tti_now_ns() - start) / 10000000));
    tti_p2p_free(op);
    tti_p2p_box_close(box);
    free(env.region);
}
