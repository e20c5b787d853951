/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator, its lock and the pool of pinned memory with several threads at once. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "books.h"
#include "device/cache.h"
#include "device/cache_lock.h"
#include "device/pinned.h"
#include "fake_accel.h"
#include "tutti/testing.h"

#define N_THREADS 4
#define D fake_device(0)

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[N_THREADS];

    for (intptr_t i = 0; i < N_THREADS; i++)
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- the lock ----------------------------------------------------------------------------------- */

static tti_bias_lock lock;
static uint64_t guarded[2]; /* always equal outside of the lock */
static atomic_int turn, guarded_by_owner;
static bool hasty; /* who takes it twice in a row is the owner */

static void add_one(void)
{
    bool biased = tti_bias_lock_take(&lock);

    TT_CHECK_EQ(guarded[0], guarded[1]);
    guarded[0]++;
    guarded[1]++;
    if (!biased && hasty)
        lock.need = 2;
    tti_bias_unlock(&lock, biased);
}

static void *add_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++)
        add_one();
    return NULL;
}

/* One thread after the other has it for so long that it becomes the owner; the next one has to depose it. */
static void *add_in_turns(void *arg)
{
    for (int round = 0; round < 8; round++) {
        while (atomic_load(&turn) % N_THREADS != (int)(intptr_t)arg)
            sched_yield();
        for (int i = 0; i < 10000; i++)
            add_one();
        if (tti_bias_me == atomic_load(&lock.owner))
            atomic_fetch_add(&guarded_by_owner, 1);
        atomic_fetch_add(&turn, 1);
    }
    return NULL;
}

TT_TEST(cache_lock, excludes_everybody_in_a_crowd)
{
    tti_bias_init(&lock);
    run_threads(add_many);
    TT_CHECK_EQ(guarded[0], N_THREADS * 20000);
    tti_bias_fini(&lock);
}

/* Owners are deposed while they look whether they still are, and others follow them at once. */
TT_TEST(cache_lock, owners_that_come_late_disturb_nobody)
{
    hasty = true;
    tti_bias_init(&lock);
    for (int i = 1; i <= 20; i++) {
        run_threads(add_many);
        TT_REQUIRE_EQ(guarded[0], (uint64_t)i * N_THREADS * 20000);
    }
    tti_bias_fini(&lock);
}

TT_TEST(cache_lock, owners_are_deposed)
{
    tti_bias_init(&lock);
    run_threads(add_in_turns);
    TT_CHECK_EQ(guarded[0], N_THREADS * 8 * 10000);
    TT_CHECK(atomic_load(&guarded_by_owner) > 0 || atomic_load(&lock.owner) == &tti_bias_nobody);
    TT_NOTE("%d of %d turns ended with an owner", atomic_load(&guarded_by_owner), N_THREADS * 8);
    tti_bias_fini(&lock);
}

/* The owner is interrupted by another thread again and again while it never leaves its loop. */
static atomic_bool stop;

static void *interrupt(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        add_one();
        sched_yield();
    }
    atomic_store(&stop, true);
    return arg;
}

TT_TEST(cache_lock, an_owner_at_work_is_deposed)
{
    pthread_t other;
    uint64_t n = 0;

    tti_bias_init(&lock);
    TT_REQUIRE_EQ(pthread_create(&other, NULL, interrupt, NULL), 0);
    for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) {
        bool biased = tti_bias_lock_take(&lock);

        if (!biased)
            lock.need = 32; /* becomes owner again soon */
        guarded[0]++;
        guarded[1]++;
        tti_bias_unlock(&lock, biased);
    }
    pthread_join(other, NULL);
    TT_CHECK_EQ(guarded[0], n + 2000);
    TT_CHECK_EQ(guarded[1], n + 2000);
    tti_bias_fini(&lock);
}

/* ---- the allocator -------------------------------------------------------------------------------- */

typedef struct given {
    void *p;
    size_t bytes;
} given;

static _Atomic(given *) slots[64];

static void put_away(given *g)
{
    tti_cache_free(D, g->p, g->bytes);
    free(g);
}

/* Blocks are handed around and freed by whoever comes next. */
static void *hand_around(void *arg)
{
    int me = (int)(intptr_t)arg;
    uint64_t state = tt_test_seed() + (uint64_t)me;
    tt_stream *s = fake_stream(0, me);

    for (int i = 0; i < 20000; i++) {
        given *g = malloc(sizeof *g), *old;

        state = state * 6364136223846793005u + 1442695040888963407u;
        g->bytes = 1 + (state >> 33) % ((state >> 60) == 0 ? 4u << 20 : 5000);
        g->p = tti_cache_alloc(D, s, g->bytes);
        TT_REQUIRE_NOT_NULL(g->p);
        if ((state >> 50) % 8 == 0)
            TT_CHECK_OK(tti_cache_record_stream(D, g->p, fake_stream(0, (me + 1) % N_THREADS)));
        fake_work(s);
        old = atomic_exchange(&slots[(state >> 40) % 64], g);
        if (old != NULL)
            put_away(old);
        if (i % 64 == 0)
            fake_pass(s);
        if (i % 1000 == 0)
            tti_cache_empty(D);
        if (i % 500 == 0) {
            tt_memory_snapshot *snap = tti_cache_snapshot(D);

            TT_REQUIRE_NOT_NULL(snap);
            books_check(snap);
            tt_memory_snapshot_free(snap);
        }
    }
    return NULL;
}

TT_TEST_LIMIT(cache_threads, books_stay_exact_when_everybody_frees, 120)
{
    tt_memory_report r;

    fake_reset();
    for (int i = 0; i < N_THREADS; i++)
        fake_stream(0, i);
    run_threads(hand_around);
    for (int i = 0; i < 64; i++)
        if (atomic_load(&slots[i]) != NULL)
            put_away(atomic_load(&slots[i]));
    for (int i = 0; i < N_THREADS; i++)
        fake_pass(fake_stream(0, i));
    r = books_of(D);
    TT_CHECK_EQ(r.allocations.all.current, 0);
    TT_CHECK_EQ(r.active.all.current, 0);
    TT_CHECK_EQ(r.allocations.all.allocated, N_THREADS * 20000);
    TT_CHECK_EQ(r.allocations.all.freed, N_THREADS * 20000);
    TT_CHECK_EQ(r.num_sync_all_streams, N_THREADS * 20);
    tti_cache_empty(D);
    TT_CHECK_EQ(books_of(D).reserved_bytes.all.current, 0);
    TT_CHECK_EQ(fake_count[0].held, 0);
    TT_CHECK_EQ(fake_count[0].marks, 0);
}

/* A limit that only two of them fit under: the others run out of memory now and then, and nothing breaks. */
static void *compete(void *arg)
{
    tt_stream *s = fake_stream(0, (int)(intptr_t)arg);

    for (int i = 0; i < 300; i++) {
        void *p = tti_cache_alloc(D, s, 12 << 20);

        if (p == NULL)
            TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
        else
            tti_cache_free(D, p, 12 << 20);
    }
    return NULL;
}

TT_TEST_LIMIT(cache_threads, competing_for_the_last_memory, 120)
{
    tt_memory_report r;

    fake_reset();
    for (int i = 0; i < N_THREADS; i++)
        fake_stream(0, i);
    TT_REQUIRE_OK(tti_cache_limit(D, &fake_accel, 24 << 20));
    run_threads(compete);
    r = books_of(D);
    TT_CHECK_EQ(r.allocations.all.current, 0);
    TT_CHECK_LE(r.reserved_bytes.all.peak, 24 << 20);
    TT_CHECK_GE(r.num_alloc_retries, r.num_ooms);
}

/* ---- pinned memory -------------------------------------------------------------------------------- */

static void *pin_some(void *arg)
{
    int me = (int)(intptr_t)arg;
    tt_stream *s = fake_stream(0, me);

    for (int i = 0; i < 2000; i++) {
        size_t bytes = (size_t)1 << (i % 16);
        unsigned char *p = tti_pinned_alloc(&fake_accel, bytes);

        TT_REQUIRE_NOT_NULL(p);
        p[bytes - 1] = (unsigned char)me; /* nobody else has it: the thread sanitizer would tell */
        fake_work(s);
        TT_CHECK_OK(tti_pinned_record(p, s));
        TT_CHECK_EQ(p[bytes - 1], me);
        tti_pinned_free(p);
        if (i % 16 == 0)
            fake_pass(s);
        if (i % 500 == 0)
            tt_pinned_empty_cache();
    }
    return NULL;
}

TT_TEST_LIMIT(cache_threads, pinned_memory_is_shared_by_threads, 120)
{
    tt_pinned_stats st;

    fake_reset();
    for (int i = 0; i < N_THREADS; i++)
        fake_stream(0, i);
    run_threads(pin_some);
    st = tt_pinned_stats_get();
    TT_CHECK_EQ(st.current, 0);
    tt_pinned_empty_cache();
    st = tt_pinned_stats_get();
    TT_CHECK_EQ(st.reserved, 0);
    TT_CHECK_EQ(st.n_blocks, 0);
    TT_CHECK_EQ(st.locked, 0);
    TT_CHECK_EQ(fake_count[0].marks, 0);
}
