/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks that are threads, and between ranks that are processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "p2p_world.h"
#include "tutti/testing.h"

/* Each body runs over threads, over processes, and over processes that may not read each other. */
#define THREE_WAYS(name, n_ranks)                                        \
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

static const size_t sizes[] = { 0,     1,     8,     32,    33,     4000,    16352,
                                16353, 32736, 32737, 65536, 300000, 1 << 20, 3000000 };
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void *make(size_t n)
{
    void *p = calloc(1, n + 1);

    TT_REQUIRE_NOT_NULL(p);
    return p;
}

static void all_pairs(p2p_rank *r)
{
    int n = r->world->size;

    for (int s = 0; s < N_SIZES; s++)
        for (int from = 0; from < n; from++)
            for (int to = 0; to < n; to++) {
                unsigned char *data;

                if (from == to || (r->rank != from && r->rank != to))
                    continue;
                data = make(sizes[s]);
                if (r->rank == from) {
                    p2p_fill(data, sizes[s], from, to, (uint64_t)s);
                    TT_CHECK_OK(p2p_send(r, data, sizes[s], to, s));
                } else {
                    TT_CHECK_OK(p2p_recv(r, data, sizes[s], from, s));
                    TT_CHECK(p2p_filled(data, sizes[s], from, to, (uint64_t)s));
                }
                free(data);
            }
}
THREE_WAYS(all_pairs, 3)

/* Everything is sent in one order and received in the opposite one. */
static void tags_backwards(p2p_rank *r)
{
    enum { N = 40, BYTES = 50000 };
    tti_p2p *ops[N];
    unsigned char *data[N];

    for (int i = 0; i < N; i++) {
        size_t n = i % 3 == 0 ? 100 : BYTES;

        data[i] = make(n);
        if (r->rank == 0) {
            p2p_fill(data[i], n, 0, 1, (uint64_t)i);
            ops[i] = p2p_isend(r, data[i], n, 1, i);
        }
    }
    for (int i = N - 1; i >= 0; i--) {
        size_t n = i % 3 == 0 ? 100 : BYTES;

        if (r->rank == 1) {
            TT_CHECK_OK(p2p_recv(r, data[i], n, 0, i));
            TT_CHECK(p2p_filled(data[i], n, 0, 1, (uint64_t)i));
        }
    }
    for (int i = 0; i < N; i++) {
        if (r->rank == 0)
            TT_CHECK_OK(p2p_end(ops[i], NULL));
        free(data[i]);
    }
}
THREE_WAYS(tags_backwards, 2)

static void equal_tags_keep_their_order(p2p_rank *r)
{
    enum { N = 300 };

    for (int i = 0; i < N; i++) {
        uint64_t number = (uint64_t)i;
        size_t n = i % 7 == 0 ? 70000 : 8;
        unsigned char *data = calloc(1, n);

        TT_REQUIRE_NOT_NULL(data);
        if (r->rank == 0) {
            memcpy(data, &number, 8);
            TT_CHECK_OK(p2p_send(r, data, n, 1, 5));
        } else {
            TT_CHECK_OK(p2p_recv(r, data, n, 0, 5));
            memcpy(&number, data, 8);
            TT_CHECK_EQ(number, i);
        }
        free(data);
    }
}
THREE_WAYS(equal_tags_keep_their_order, 2)

static void thousands_outstanding(p2p_rank *r)
{
    enum { N = 3000 };
    tti_p2p **ops = make(N * sizeof *ops);
    uint64_t *values = make(N * sizeof *values);
    int other = 1 - r->rank;

    for (int i = 0; i < N; i++) {
        values[i] = i % 2 == r->rank ? (uint64_t)i : 0;
        if (i % 2 == r->rank)
            ops[i] = p2p_isend(r, &values[i], 8, other, i);
        else
            ops[i] = p2p_irecv(r, &values[i], 8, other, i);
    }
    for (int i = N - 1; i >= 0; i--) {
        TT_CHECK_OK(p2p_end(ops[i], NULL));
        TT_CHECK_EQ(values[i], i);
    }
    free(ops);
    free(values);
}
THREE_WAYS(thousands_outstanding, 2)

static void any_source_is_fair(p2p_rank *r)
{
    enum { N = 50 };
    int n = r->world->size, counts[P2P_MOST] = { 0 };

    for (int i = 0; r->rank != 0 && i < N; i++)
        TT_CHECK_OK(p2p_send(r, &r->rank, sizeof r->rank, 0, 1));
    p2p_meet(r); /* everything is there before the first receive */
    for (int i = 0; r->rank == 0 && i < N * (n - 1); i++) {
        int value = -1, source = -1;

        TT_CHECK_OK(p2p_end(p2p_irecv(r, &value, sizeof value, -1, 1), &source));
        TT_CHECK_EQ(value, source);
        TT_REQUIRE(source > 0 && source < n);
        counts[source]++;
        for (int k = 1; k < n; k++) /* nobody is more than two ahead */
            TT_CHECK_LE(counts[source] - counts[k], 2);
    }
}
THREE_WAYS(any_source_is_fair, 4)

/* The oldest receive that matches gets the message, from anyone or from somebody. */
static void any_and_named_receives_in_order(p2p_rank *r)
{
    int a = 0, b = 0, c = 0, source = -1;

    if (r->rank == 0) {
        tti_p2p *first = p2p_irecv(r, &a, sizeof a, -1, 3);
        tti_p2p *second = p2p_irecv(r, &b, sizeof b, 1, 3);
        tti_p2p *third = p2p_irecv(r, &c, sizeof c, -1, 3);

        p2p_meet(r);
        TT_CHECK_OK(p2p_end(first, &source));
        TT_CHECK_EQ(source, 1);
        TT_CHECK_OK(p2p_end(second, NULL));
        TT_CHECK_OK(p2p_end(third, NULL));
        TT_CHECK_EQ(a, 10);
        TT_CHECK_EQ(b, 20);
        TT_CHECK_EQ(c, 30);
        return;
    }
    p2p_meet(r);
    for (int i = 10; i <= 30; i += 10)
        TT_CHECK_OK(p2p_send(r, &i, sizeof i, 0, 3));
}
THREE_WAYS(any_and_named_receives_in_order, 2)

static void to_oneself(p2p_rank *r)
{
    for (int s = 0; s < N_SIZES; s++)
        for (int receive_first = 0; receive_first < 2; receive_first++) {
            unsigned char *in = make(sizes[s]), *out = make(sizes[s]);
            tti_p2p *send = NULL, *receive = NULL;
            int source = -1;

            p2p_fill(out, sizes[s], r->rank, r->rank, (uint64_t)s);
            if (receive_first)
                receive = p2p_irecv(r, in, sizes[s], s % 2 ? -1 : r->rank, 4);
            send = p2p_isend(r, out, sizes[s], r->rank, 4);
            if (!receive_first)
                receive = p2p_irecv(r, in, sizes[s], s % 2 ? -1 : r->rank, 4);
            TT_CHECK_OK(p2p_end(receive, &source));
            TT_CHECK_OK(p2p_end(send, NULL));
            TT_CHECK_EQ(source, r->rank);
            TT_CHECK(p2p_filled(in, sizes[s], r->rank, r->rank, (uint64_t)s));
            free(in);
            free(out);
        }
}
THREE_WAYS(to_oneself, 2)

static void alone(p2p_rank *r)
{
    to_oneself(r);
}
THREE_WAYS(alone, 1)

/* Another size is an error of the receiver; the next message is not hurt. */
static void other_sizes(p2p_rank *r)
{
    static const size_t sent[] = { 8, 20000, 200000, 200000, 100 };
    static const size_t wanted[] = { 16, 8, 199999, 200001, 0 };

    for (int i = 0; i < 5; i++)
        for (int late = 0; late < 2; late++) {
            unsigned char *data = calloc(1, 300000);
            int value = i;
            char words[100];

            TT_REQUIRE_NOT_NULL(data);
            if (r->rank == 0) {
                tti_p2p *op = p2p_isend(r, data, sent[i], 1, 9);

                TT_CHECK_OK(p2p_send(r, &value, sizeof value, 1, 10));
                TT_CHECK_OK(p2p_end(op, NULL));
            } else {
                if (late)
                    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 10));
                snprintf(words, sizeof words, "expected %zu bytes, got %zu from rank 0 with tag 9",
                         wanted[i], sent[i]);
                TT_CHECK_ERR_SAYS(p2p_recv(r, data, wanted[i], 0, 9), TT_ERR_INVALID, words);
                if (!late)
                    TT_CHECK_OK(p2p_recv(r, &value, sizeof value, 0, 10));
                TT_CHECK_EQ(value, i);
            }
            free(data);
        }
}
THREE_WAYS(other_sizes, 2)

/* Every rank exchanges messages of random sizes with everybody; both sides draw them from one seed. */
static void random_traffic(p2p_rank *r)
{
    enum { ROUNDS = 6, EACH = 12 };
    int n = r->world->size;
    tti_p2p *ops[P2P_MOST * EACH * 2];
    unsigned char *data[P2P_MOST * EACH * 2];

    for (int round = 0; round < ROUNDS; round++) {
        int k = 0;
        size_t bytes[P2P_MOST * EACH * 2];

        for (int i = 0; i < EACH; i++)
            for (int peer = 0; peer < n; peer++)
                for (int send = 0; send < 2; send++, k++) {
                    int from = send ? r->rank : peer, to = send ? peer : r->rank;
                    p2p_rank dice = { .random =
                                          r->world->seed +
                                          (uint64_t)(((round * EACH + i) * 8 + from) * 8 + to) };

                    p2p_random(&dice);
                    bytes[k] = p2p_random(&dice) % 5 == 0 ? p2p_random(&dice) % 400000
                                                          : p2p_random(&dice) % 3000;
                    data[k] = make(bytes[k]);
                    if (send) {
                        p2p_fill(data[k], bytes[k], from, to, (uint64_t)i);
                        ops[k] = p2p_isend(r, data[k], bytes[k], to, i);
                    } else {
                        ops[k] = p2p_irecv(r, data[k], bytes[k], from, i);
                    }
                }
        for (int i = 0; i < k; i++) {
            int peer = i / 2 % n;

            TT_CHECK_OK(p2p_end(ops[i], NULL));
            if (i % 2 == 0)
                TT_CHECK(p2p_filled(data[i], bytes[i], peer, r->rank, (uint64_t)(i / 2 / n)));
            free(data[i]);
        }
    }
}
THREE_WAYS(random_traffic, 4)
