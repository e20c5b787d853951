/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices, and the books that the host cache keeps, whatever is allocated and freed where. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "device/driver.h"
#include "tutti/tensor.h"
#include "tutti/testing.h"

#if defined(__SANITIZE_ADDRESS__)
#define CACHES false /* the address sanitizer sees every free */
#else
#define CACHES true
#endif

TT_TEST(device, names_are_parsed_and_written)
{
    tt_device d = { 7, 7 };
    char text[16];

    TT_CHECK_OK(tt_device_parse("cpu", &d));
    TT_CHECK(tt_device_equal(d, TT_CPU));
    d = (tt_device){ 7, 7 };
    TT_CHECK_OK(tt_device_parse("cpu:0", &d));
    TT_CHECK(tt_device_equal(d, TT_CPU));
    TT_CHECK_STR(tt_device_name(TT_CPU, text, sizeof text), "cpu");
    TT_CHECK_STR(tt_device_name((tt_device){ TT_DEVICE_CL, 0 }, text, sizeof text), "cl:0");
    TT_CHECK_STR(tt_device_name((tt_device){ TT_DEVICE_CUDA, 12 }, text, sizeof text), "cuda:12");
    TT_CHECK_STR(tt_device_name((tt_device){ 99, 1 }, text, sizeof text), "unknown:1");
    TT_CHECK_STR(tt_device_name((tt_device){ TT_DEVICE_CUDA, 12 }, text, 4), "cud");
    TT_CHECK(!tt_device_equal(TT_CPU, (tt_device){ TT_DEVICE_CPU, 1 }));
    TT_CHECK(!tt_device_equal(TT_CPU, (tt_device){ TT_DEVICE_CL, 0 }));
}

TT_TEST(device, what_is_no_device_is_said)
{
    static const char *const bad[] = { "",
                                       "gpu",
                                       "cpu:",
                                       "cpu:x",
                                       "cpu:-1",
                                       "cpu:0x",
                                       "CPU",
                                       "cpu ",
                                       ":0",
                                       "c",
                                       "cpu: 0",
                                       "cpux",
                                       "cpu::",
                                       "cl:+0",
                                       "cpu:0:1",
                                       "cpu:32768",
                                       "cpu:99999999999999999999" };
    tt_device d = { 5, 5 };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        TT_CHECK_ERR_SAYS(tt_device_parse(bad[i], &d), TT_ERR_INVALID, "device: expected");
        TT_CHECK_CONTAINS(tt_last_error(), bad[i]);
    }
    TT_CHECK_ERR_SAYS(tt_device_parse(NULL, &d), TT_ERR_INVALID, "got NULL");
    TT_CHECK_ERR_SAYS(tt_device_parse("cpu:1", &d), TT_ERR_NOT_FOUND, "cpu:1 does not exist");
    TT_CHECK_EQ(d.kind, 5);
    TT_CHECK_EQ(d.index, 5);
}

TT_TEST(device, counts_and_what_is_not_there)
{
    tt_device none = { TT_DEVICE_CPU, 3 };

    TT_CHECK_EQ(tt_device_count(TT_DEVICE_CPU), 1);
    TT_CHECK_EQ(tt_device_count((tt_device_kind)77), 0);
    TT_CHECK_ERR_SAYS(tt_device_sync(TT_CPU), TT_ERR_INVALID, "expected an accelerator");
    TT_CHECK_ERR_SAYS(tt_device_sync(none), TT_ERR_NOT_FOUND, "cpu:3 does not exist here");
    TT_CHECK_EQ(tt_memory_stats_get(none).current, 0);
    TT_SCOPE
        TT_CHECK_NULL(tt_empty(TT_SHAPE(2), TT_F32, (tt_device){ -1, 0 }));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
}

/* ---- the books of the host cache ------------------------------------------------------------------ */

static const tti_driver *cpu(void)
{
    return tti_driver_of(TT_CPU);
}

TT_TEST(host_cache, blocks_are_aligned_and_large_enough)
{
    for (size_t bytes = 1; bytes < 3000; bytes += 13) {
        unsigned char *p = cpu()->alloc(0, bytes);

        TT_REQUIRE_NOT_NULL(p);
        TT_CHECK_EQ((uintptr_t)p % 64, 0);
        memset(p, 0xAB, bytes);
        cpu()->free(0, p, bytes);
    }
    for (int shift = 4; shift < 25; shift++)
        for (int off = -1; off <= 1; off++) {
            size_t bytes = ((size_t)1 << shift) + (size_t)(off + 1) - 1;
            unsigned char *p = cpu()->alloc(0, bytes);

            TT_REQUIRE_NOT_NULL(p);
            TT_CHECK_EQ((uintptr_t)p % 64, 0);
            p[0] = p[bytes - 1] = 1;
            cpu()->free(0, p, bytes);
        }
}

TT_TEST(host_cache, peak_is_the_most_since_the_last_reset)
{
    tt_memory_stats start;
    void *a, *b;

    tt_memory_reset_peak(TT_CPU);
    start = tt_memory_stats_get(TT_CPU);
    TT_CHECK_EQ(start.peak, start.current);
    a = cpu()->alloc(0, 1000);
    b = cpu()->alloc(0, 3001);
    cpu()->free(0, a, 1000);
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).current, start.current + 3001);
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).peak, start.current + 4001);
    tt_memory_reset_peak(TT_CPU);
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).peak, start.current + 3001);
    cpu()->free(0, b, 3001);
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).current, start.current);
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).peak, start.current + 3001);
}

TT_TEST(host_cache, failures_leave_the_books_alone)
{
    tt_memory_stats before = tt_memory_stats_get(TT_CPU), after;

    TT_CHECK_NULL(cpu()->alloc(0, (size_t)1 << 62));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_CONTAINS(tt_last_error(), "bytes for a tensor on cpu");
    tt_debug_fail_alloc(1);
    TT_CHECK_NULL(cpu()->alloc(0, 64));
    tt_debug_fail_alloc(0);
    after = tt_memory_stats_get(TT_CPU);
    TT_CHECK_EQ(after.current, before.current);
    TT_CHECK_EQ(after.n_allocations, before.n_allocations);
    TT_CHECK_EQ(after.n_frees, before.n_frees);
    TT_CHECK_EQ(after.reserved, before.reserved);
}

#define N_HELD 64
#define N_THREADS 4
#define N_STEPS 3000

typedef struct worker {
    uint64_t seed, number;
    uint64_t allocs, frees; /* done so far */
    size_t sizes[N_HELD];
    unsigned char *held[N_HELD];
} worker;

/* What is at each end of a block says whose it is. */
static bool whole(const worker *w, int i)
{
    unsigned char mark = (unsigned char)(w->number * N_HELD + (uint64_t)i);

    return w->held[i][0] == mark && w->held[i][w->sizes[i] - 1] == mark;
}

static void *churn(void *ctx)
{
    worker *w = ctx;

    for (uint64_t step = 0; step < N_STEPS; step++) {
        tti_philox_block r = tti_philox(w->seed, step, w->number);
        int i = (int)(r.w[0] % N_HELD);
        unsigned char mark = (unsigned char)(w->number * N_HELD + (uint64_t)i);

        if (w->held[i] != NULL) {
            if (!whole(w, i))
                TT_FAIL_TEST("step %llu: a block was overwritten", (unsigned long long)step);
            cpu()->free(0, w->held[i], w->sizes[i]);
            w->held[i] = NULL;
            w->frees++;
            continue;
        }
        w->sizes[i] = 1 + r.w[1] % ((size_t)1 << (r.w[2] % 20)); /* up to 512 KiB */
        w->held[i] = cpu()->alloc(0, w->sizes[i]);
        if (w->held[i] == NULL || (uintptr_t)w->held[i] % 64 != 0) {
            TT_FAIL_TEST("step %llu: no good block", (unsigned long long)step);
            return NULL;
        }
        w->held[i][0] = w->held[i][w->sizes[i] - 1] = mark;
        w->allocs++;
    }
    return NULL;
}

TT_TEST(host_cache, books_are_exact_after_random_work_on_four_threads)
{
    static worker workers[N_THREADS];
    pthread_t threads[N_THREADS];
    tt_memory_stats before = tt_memory_stats_get(TT_CPU), after;
    uint64_t held = 0, allocs = 0, frees = 0;

    for (uint64_t k = 0; k < N_THREADS; k++) {
        workers[k].seed = tt_test_seed();
        workers[k].number = k;
        TT_REQUIRE_EQ(pthread_create(&threads[k], NULL, churn, &workers[k]), 0);
    }
    for (int k = 0; k < N_THREADS; k++) {
        pthread_join(threads[k], NULL);
        allocs += workers[k].allocs;
        frees += workers[k].frees;
        for (int i = 0; i < N_HELD; i++)
            held += workers[k].held[i] != NULL ? workers[k].sizes[i] : 0;
    }
    after = tt_memory_stats_get(TT_CPU);
    TT_CHECK_EQ(after.current, before.current + held);
    TT_CHECK_EQ(after.n_allocations, before.n_allocations + allocs);
    TT_CHECK_EQ(after.n_frees, before.n_frees + frees);
    TT_CHECK_GE(after.peak, after.current);
    TT_CHECK_GE(after.reserved, after.current);

    for (int k = 0; k < N_THREADS; k++) /* freed by another thread than the one that asked */
        for (int i = 0; i < N_HELD; i++)
            if (workers[k].held[i] != NULL) {
                TT_CHECK(whole(&workers[k], i));
                cpu()->free(0, workers[k].held[i], workers[k].sizes[i]);
            }
    after = tt_memory_stats_get(TT_CPU);
    TT_CHECK_EQ(after.current, before.current);
    TT_CHECK_EQ(after.n_allocations - after.n_frees, before.n_allocations - before.n_frees);
    if (CACHES)
        TT_CHECK_GT(after.reserved, 0);
    tt_memory_empty_cache(TT_CPU);
    if (before.current == 0)
        TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).reserved, 0);
}

TT_TEST(host_cache, single_thread_peak_follows_a_model)
{
    uint64_t seed = tt_test_seed(), held = 0, top = 0;
    size_t sizes[16] = { 0 };
    void *blocks[16] = { NULL };
    uint64_t start;

    tt_memory_reset_peak(TT_CPU);
    start = tt_memory_stats_get(TT_CPU).current;
    for (uint64_t step = 0; step < 2000; step++) {
        tti_philox_block r = tti_philox(seed, step, 99);
        int i = (int)(r.w[0] % 16);

        if (blocks[i] != NULL) {
            cpu()->free(0, blocks[i], sizes[i]);
            held -= sizes[i];
            blocks[i] = NULL;
        } else {
            sizes[i] = 1 + r.w[1] % 5000;
            blocks[i] = cpu()->alloc(0, sizes[i]);
            held += sizes[i];
            top = held > top ? held : top;
        }
        if (tt_memory_stats_get(TT_CPU).current != start + held ||
            tt_memory_stats_get(TT_CPU).peak != start + top) {
            TT_FAIL_TEST("step %llu: the books differ from the model", (unsigned long long)step);
            break;
        }
    }
    for (int i = 0; i < 16; i++)
        if (blocks[i] != NULL)
            cpu()->free(0, blocks[i], sizes[i]);
}
