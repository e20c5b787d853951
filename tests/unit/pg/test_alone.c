/* SPDX-License-Identifier: Apache-2.0 */
/* A group that one thread has to itself, until another comes. */
#include <pthread.h>

#include <tutti/testing.h>

#include "pg/alone.h"

#define ROUNDS 200000

typedef struct shared {
    tti_alone alone;
    pthread_mutex_t mu;
    long numbers; /* plain: the sanitizer and the sum would tell */
    atomic_long started;
} shared;

static void one(shared *s)
{
    bool alone = tti_alone_enter(&s->alone, TTI_ALONE_RUNS);

    if (!alone) {
        tti_alone_end(&s->alone);
        pthread_mutex_lock(&s->mu);
        tti_alone_wait(&s->alone);
    }
    s->numbers++;
    if (alone)
        tti_alone_leave(&s->alone);
    else
        pthread_mutex_unlock(&s->mu);
}

static void *adds(void *ctx)
{
    shared *s = ctx;

    atomic_fetch_add(&s->started, 1);
    for (int i = 0; i < ROUNDS; i++)
        one(s);
    return NULL;
}

TT_TEST(pg_alone, the_first_thread_owns_it)
{
    tti_alone a;

    tti_alone_init(&a);
    if (atomic_load(&a.shared))
        TT_SKIP("the kernel has no membarrier");
    TT_CHECK(tti_alone_enter(&a, TTI_ALONE_NUMBERS));
    TT_CHECK_EQ(atomic_load(&a.busy), TTI_ALONE_NUMBERS);
    tti_alone_leave(&a);
    tti_alone_end(&a); /* its own other calls change nothing */
    TT_CHECK(tti_alone_enter(&a, TTI_ALONE_RUNS));
    tti_alone_leave(&a);
}

static void *comes(void *ctx)
{
    TT_CHECK(!tti_alone_enter(ctx, TTI_ALONE_RUNS));
    tti_alone_end(ctx);
    return NULL;
}

TT_TEST(pg_alone, another_thread_ends_it_for_ever)
{
    tti_alone a;
    pthread_t other;

    tti_alone_init(&a);
    TT_CHECK(tti_alone_enter(&a, TTI_ALONE_RUNS) == !atomic_load(&a.shared));
    TT_REQUIRE(pthread_create(&other, NULL, comes, &a) == 0);
    pthread_join(other, NULL); /* it does not wait for what only runs */
    tti_alone_leave(&a);
    TT_CHECK(!tti_alone_enter(&a, TTI_ALONE_RUNS));
    TT_CHECK_EQ(atomic_load(&a.busy), TTI_ALONE_IDLE);
}

TT_TEST(pg_alone, nobody_runs_beside_the_owner)
{
    for (int round = 0; round < 10; round++) {
        shared s = { .numbers = 0 };
        pthread_t other;

        tti_alone_init(&s.alone);
        pthread_mutex_init(&s.mu, NULL);
        one(&s); /* this thread owns it */
        TT_REQUIRE(pthread_create(&other, NULL, adds, &s) == 0);
        adds(&s);
        pthread_join(other, NULL);
        TT_CHECK_EQ(s.numbers, 2 * ROUNDS + 1);
        pthread_mutex_destroy(&s.mu);
    }
}
