/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator when there is no memory: limits, drivers that fail, devices that are lost. */
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "device/cache.h"
#include "fake_accel.h"
#include "tutti/testing.h"

#define MB ((size_t)1 << 20)
#define D fake_device(0)
#define S(nr) fake_stream(0, nr)

static void no_memory(size_t bytes, const char *words)
{
    tt_clear_error();
    TT_CHECK_NULL(tti_cache_alloc(D, S(0), bytes));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_CONTAINS(tt_last_error(), words);
}

TT_TEST(cache_faults, cached_blocks_go_back_before_it_fails)
{
    tt_memory_report r;
    void *a, *b;

    fake_reset();
    atomic_store(&fake_count[0].capacity, 32 * MB);
    a = tti_cache_alloc(D, S(0), 30 * MB);
    TT_REQUIRE_NOT_NULL(a);
    fake_work(S(0));
    tti_cache_free(D, a, 30 * MB);
    b = tti_cache_alloc(D, S(1), 24 * MB); /* another stream: needs the memory of the first */
    TT_REQUIRE_NOT_NULL(b);
    TT_CHECK_EQ(fake_count[0].syncs, 1);
    r = books_of(D);
    TT_CHECK_EQ(r.num_alloc_retries, 1);
    TT_CHECK_EQ(r.num_ooms, 0);
    TT_CHECK_EQ(r.num_device_free, 1);
    TT_CHECK_EQ(r.reserved_bytes.all.current, 24 * MB);
    tti_cache_free(D, b, 24 * MB);
}

TT_TEST(cache_faults, pending_blocks_are_waited_for_first)
{
    tt_memory_report r;
    void *a, *b;

    fake_reset();
    atomic_store(&fake_count[0].capacity, 32 * MB);
    a = tti_cache_alloc(D, S(0), 30 * MB);
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    fake_work(S(1));
    tti_cache_free(D, a, 30 * MB);
    b = tti_cache_alloc(D, S(0), 30 * MB);
    TT_CHECK_PTR(b, a); /* no need to give anything back */
    r = books_of(D);
    TT_CHECK_EQ(fake_count[0].syncs, 1);
    TT_CHECK_EQ(r.num_alloc_retries, 1);
    TT_CHECK_EQ(r.num_device_free, 0);
    TT_CHECK_EQ(r.num_sync_all_streams, 0);
    tti_cache_free(D, b, 30 * MB);
}

TT_TEST(cache_faults, the_error_says_who_holds_what)
{
    void *a, *b;
    tt_memory_report r;

    fake_reset();
    TT_REQUIRE_OK(tti_cache_limit(D, &fake_accel, 40 * MB));
    a = tti_cache_alloc(D, S(0), 25 * MB);
    b = tti_cache_alloc(D, S(0), 3 * 512);
    TT_REQUIRE(a != NULL && b != NULL);
    no_memory(20 * MB, "cuda:0: out of memory: 20.00 MiB (20971520 bytes) wanted");
    TT_CHECK_CONTAINS(tt_last_error(), "limit of the cache");
    TT_CHECK_CONTAINS(tt_last_error(), "(41943040 bytes)");
    TT_CHECK_CONTAINS(tt_last_error(), "in tensors");
    TT_CHECK_CONTAINS(tt_last_error(), "(27264512 bytes)"); /* 26 MB and 1536 */
    TT_CHECK_CONTAINS(tt_last_error(), "largest of 2 tensors' blocks: 26.00 MiB, 1.50 KiB");
    TT_CHECK_CONTAINS(tt_last_error(), "free on the device");
    TT_CHECK_CONTAINS(tt_last_error(), "TUTTI_CL_MEMORY_LIMIT");
    TT_CHECK_CONTAINS(tt_last_error(), "tt_memory_snapshot_save shows who holds what");
    r = books_of(D);
    TT_CHECK_EQ(r.num_ooms, 1);
    TT_CHECK_EQ(r.num_alloc_retries, 1);
    TT_CHECK_EQ(r.limit, 40 * MB);
    TT_CHECK_EQ(r.requested_bytes.all.current, 25 * MB + 3 * 512);
    tti_cache_free(D, a, 25 * MB);
    a = tti_cache_alloc(D, S(0), 20 * MB); /* and it goes on */
    TT_CHECK_NOT_NULL(a);
    tti_cache_free(D, a, 20 * MB);
    tti_cache_free(D, b, 3 * 512);
}

TT_TEST(cache_faults, near_the_limit_a_segment_is_as_small_as_it_can_be)
{
    void *a;

    fake_reset();
    TT_REQUIRE_OK(tti_cache_limit(D, &fake_accel, 5 * MB));
    a = tti_cache_alloc(D, S(0), 3 * MB); /* 20 MB would be too much */
    TT_REQUIRE_NOT_NULL(a);
    TT_CHECK_EQ(books_of(D).reserved_bytes.all.current, 4 * MB);
    no_memory(100, "out of memory: 100 B (100 bytes) wanted");
    tti_cache_free(D, a, 3 * MB);
    a = tti_cache_alloc(D, S(0), 100); /* in place of the large one */
    TT_CHECK_NOT_NULL(a);
    tti_cache_free(D, a, 100);
    no_memory(SIZE_MAX - 100, "out of memory");
    no_memory((size_t)1 << 50, "out of memory");
}

TT_TEST(cache_faults, limits_come_from_the_environment)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = { { "1000000", 1000000 },        { "500M", 500 * MB },
                 { "2G", (uint64_t)2 << 30 },   { "1.5K", 1536 },
                 { "50%", (uint64_t)32 << 30 }, { "much", (uint64_t)64 << 30 },
                 { "-1", (uint64_t)64 << 30 },  { "101%", (uint64_t)64 << 30 } };

    fake_reset();
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        tt_memory_report r;
        void *p;

        setenv("TUTTI_CL_MEMORY_LIMIT", rows[i].text, 1);
        p = tti_cache_alloc(fake_device(i), fake_stream(i, 0), 8);
        tti_cache_report(fake_device(i), &r);
        TT_CHECK_EQ(r.limit, rows[i].bytes);
        TT_CHECK_EQ(p != NULL, rows[i].bytes >= 2 * MB);
        if (p != NULL)
            tti_cache_free(fake_device(i), p, 8);
    }
}

TT_TEST(cache_faults, a_lost_device_is_no_lack_of_memory)
{
    void *a;

    fake_reset();
    a = tti_cache_alloc(D, S(0), 100);
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    fake_work(S(1));
    atomic_store(&fake_count[0].lost, true);
    TT_CHECK_NULL(tti_cache_alloc(D, S(0), 30 * MB));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_DEVICE);
    TT_CHECK_CONTAINS(tt_last_error(), "is lost");
    TT_CHECK_EQ(books_of(D).num_ooms, 0);
    tti_cache_free(D, a, 100); /* nothing hangs, nothing is kept */
    TT_CHECK_EQ(books_of(D).active.all.current, 0);
    tti_cache_empty(D);
    TT_CHECK_EQ(fake_count[0].held, 0);
    TT_CHECK_EQ(fake_count[0].marks, 0);
}

TT_TEST(cache_faults, a_free_that_cannot_mark_waits_instead)
{
    void *a, *b;

    fake_reset();
    a = tti_cache_alloc(D, S(0), 100);
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    fake_work(S(1));
    atomic_store(&fake_count[0].fail_marks, 1);
    tti_cache_free(D, a, 100);
    TT_CHECK_EQ(fake_count[0].syncs, 1);
    b = tti_cache_alloc(D, S(0), 100);
    TT_CHECK_PTR(b, a);
    tti_cache_free(D, b, 100);
}

/* Every place that asks for memory, one after the other. */
TT_TEST(cache_faults, host_memory_may_fail_anywhere)
{
    int failed = 0;

    fake_reset();
    for (uint64_t n = 1;; n++) {
        tt_device d = fake_device((int)n % TTI_MAX_DEVICES);
        tt_stream *s = fake_stream((int)n % TTI_MAX_DEVICES, 0);
        void *p, *q = NULL;

        tt_debug_fail_alloc(n);
        p = tti_cache_alloc(d, s, 700);
        if (p != NULL)
            q = tti_cache_alloc(d, s, 5 * MB);
        tt_debug_fail_alloc(0);
        failed += q == NULL;
        books_of(d);
        if (q != NULL)
            tti_cache_free(d, q, 5 * MB);
        if (p != NULL)
            tti_cache_free(d, p, 700);
        TT_CHECK_EQ(books_of(d).allocations.all.current, 0);
        if (q != NULL)
            break;
        TT_REQUIRE_LT(n, 100);
    }
    TT_CHECK_GE(failed, 6);
}

TT_TEST(cache_faults, segment_new_fails_now_and_then)
{
    void *a, *b;

    fake_reset();
    a = tti_cache_alloc(D, S(0), 30 * MB);
    tti_cache_free(D, a, 30 * MB);
    atomic_store(&fake_count[0].fail_new, 1);
    b = tti_cache_alloc(D, S(0), 40 * MB); /* works at the second try */
    TT_CHECK_NOT_NULL(b);
    TT_CHECK_EQ(books_of(D).num_alloc_retries, 1);
    atomic_store(&fake_count[0].fail_new, 2);
    no_memory(50 * MB, "50.00 MiB");
    TT_CHECK_EQ(books_of(D).num_ooms, 1);
    tti_cache_free(D, b, 40 * MB);
}
