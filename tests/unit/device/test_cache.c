/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator over an accelerator whose queues are advanced by hand: sizes, splitting and merging,
 * streams, pending blocks, limits, running out of memory. */
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "device/cache.h"
#include "fake_accel.h"
#include "tutti/testing.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define D fake_device(0)

static tt_stream *S(int nr)
{
    return fake_stream(0, nr);
}

static char *get(int stream, size_t bytes)
{
    char *p = tti_cache_alloc(D, S(stream), bytes);

    TT_REQUIRE_NOT_NULL(p);
    return p;
}

static void drop(void *p, size_t bytes)
{
    tti_cache_free(D, p, bytes);
}

TT_TEST(cache, sizes_are_rounded_and_small_ones_share_segments)
{
    tt_memory_report r;
    char *a, *b, *c;

    fake_reset();
    a = get(0, 1);
    b = get(0, 513);
    c = get(0, MB);
    TT_CHECK_EQ(b - a, 512);
    TT_CHECK_EQ(c - b, 1024);
    r = books_of(D);
    TT_CHECK_EQ(r.segments.small.current, 1);
    TT_CHECK_EQ(r.segments.large.current, 0);
    TT_CHECK_EQ(r.reserved_bytes.all.current, 2 * MB);
    TT_CHECK_EQ(r.allocated_bytes.small.current, 512 + 1024 + MB);
    TT_CHECK_EQ(r.requested_bytes.all.current, 1 + 513 + MB);
    TT_CHECK_EQ(r.inactive_split.all.current, 1);
    TT_CHECK_EQ(r.inactive_split_bytes.all.current, 2 * MB - MB - 1536);
    TT_CHECK_EQ(r.inactive_split.all.peak, 1);
    TT_CHECK_EQ(r.inactive_split_bytes.all.peak, 2 * MB - 512);
    drop(a, 1);
    drop(b, 513);
    drop(c, MB);
    r = books_of(D);
    TT_CHECK_EQ(r.allocated_bytes.all.current, 0);
    TT_CHECK_EQ(r.allocated_bytes.all.peak, 512 + 1024 + MB);
    TT_CHECK_EQ(r.reserved_bytes.all.current, 2 * MB);
    TT_CHECK_EQ(r.allocations.all.allocated, 3);
    TT_CHECK_EQ(r.allocations.all.freed, 3);
}

TT_TEST(cache, large_segments_have_20_mb_or_a_size_of_their_own)
{
    tt_memory_report r;
    char *a, *b, *c;

    fake_reset();
    a = get(0, MB + 1);
    r = books_of(D);
    TT_CHECK_EQ(r.reserved_bytes.large.current, 20 * MB);
    TT_CHECK_EQ(r.allocated_bytes.large.current, MB + 512);
    b = get(0, 18 * MB);
    TT_CHECK_PTR(b, a + MB + 512);
    r = books_of(D); /* 1 MB - 512 are too little for a block of their own */
    TT_CHECK_EQ(r.allocated_bytes.large.current, 20 * MB);
    TT_CHECK_EQ(r.inactive_split.large.current, 0);
    c = get(0, 18 * MB + 1); /* rounded up to 20 MB; what is left is more than 1 MB */
    r = books_of(D);
    TT_CHECK_EQ(r.reserved_bytes.large.current, 40 * MB);
    TT_CHECK_EQ(r.inactive_split_bytes.large.current, 2 * MB - 512);
    TT_CHECK_EQ(r.segments.large.current, 2);
    TT_CHECK_EQ(r.segments.small.current, 0);
    drop(a, MB + 1);
    drop(b, 18 * MB);
    drop(c, 18 * MB + 1);
    r = books_of(D);
    TT_CHECK_EQ(r.allocated_bytes.all.current, 0);
}

TT_TEST(cache, a_rest_of_up_to_1_mb_stays_with_a_large_block)
{
    tt_memory_report r;
    char *a, *b;

    fake_reset();
    a = get(0, 11 * MB); /* a segment of 12 MB, 1 MB left over */
    r = books_of(D);
    TT_CHECK_EQ(r.reserved_bytes.large.current, 12 * MB);
    TT_CHECK_EQ(r.allocated_bytes.large.current, 12 * MB);
    TT_CHECK_EQ(r.requested_bytes.large.current, 11 * MB);
    drop(a, 11 * MB);
    TT_CHECK_PTR(b = get(0, 11 * MB), a);
    drop(b, 11 * MB);
    b = get(0, 11 * MB - 512); /* now the rest is larger than 1 MB */
    TT_CHECK_PTR(b, a);
    r = books_of(D);
    TT_CHECK_EQ(r.allocated_bytes.large.current, 11 * MB - 512);
    TT_CHECK_EQ(r.inactive_split_bytes.large.current, MB + 512);
    drop(b, 11 * MB - 512);
}

TT_TEST(cache, neighbours_merge_and_the_best_fit_is_taken)
{
    tt_memory_report r;
    char *p[6], *q;

    fake_reset();
    for (int i = 0; i < 6; i++)
        p[i] = get(0, 100 * KB);
    drop(p[1], 100 * KB);
    drop(p[4], 100 * KB);
    drop(p[3], 100 * KB); /* 3 and 4: a hole of 200 KB */
    q = get(0, 150 * KB);
    TT_CHECK_PTR(q, p[3]);
    drop(q, 150 * KB);
    q = get(0, 90 * KB);
    TT_CHECK_PTR(q, p[1]); /* the smallest that is large enough */
    drop(q, 90 * KB);
    drop(p[0], 100 * KB);
    drop(p[2], 100 * KB);
    drop(p[5], 100 * KB);
    q = get(0, 2 * MB); /* everything is merged, but that is a large one */
    TT_CHECK_EQ(books_of(D).segments.all.current, 2);
    drop(q, 2 * MB);
    q = get(0, MB);
    TT_CHECK_PTR(q, p[0]);
    drop(q, MB);
    tti_cache_empty(D);
    r = books_of(D);
    TT_CHECK_EQ(r.reserved_bytes.all.current, 0);
    TT_CHECK_EQ(r.inactive_split.all.current, 0);
    TT_CHECK_EQ(r.num_device_free, 2);
}

TT_TEST(cache, what_came_and_went_is_summed_up)
{
    tt_memory_report before, after;

    fake_reset();
    for (int i = 0; i < 100; i++)
        drop(get(0, 5000), 5000);
    before = books_of(D);
    for (int i = 0; i < 1000; i++)
        drop(get(0, 5000), 5000);
    after = books_of(D);
    TT_CHECK_EQ(after.allocations.all.allocated - before.allocations.all.allocated, 1000);
    TT_CHECK_EQ(after.allocated_bytes.all.allocated - before.allocated_bytes.all.allocated,
                1000 * 5120);
    TT_CHECK_EQ(after.requested_bytes.small.freed - before.requested_bytes.small.freed, 5000000);
    TT_CHECK_EQ(after.inactive_split.all.allocated - before.inactive_split.all.allocated, 1000);
    TT_CHECK_EQ(after.inactive_split_bytes.all.freed - before.inactive_split_bytes.all.freed,
                1000 * 5120);
    TT_CHECK_EQ(after.active.all.freed - before.active.all.freed, 1000);
    get(0, 5000);
    TT_CHECK_EQ(books_of(D).inactive_split.all.allocated, after.inactive_split.all.allocated);
}

/* Each peak is reached for a moment between two readings, by quick operations, while the others are far. */
static void moment_of_many(void *pending, const void *kept)
{
    char *p[8], *large = get(0, 80000);
    int others = (pending != NULL) + (kept != NULL);
    int64_t bytes = (pending != NULL ? 1024 : 0) + (kept != NULL ? 80384 : 0);
    tt_memory_report r;

    for (int i = 0; i < 8; i++)
        p[i] = get(0, 512);
    for (int i = 0; i < 8; i++)
        drop(p[i], 512);
    drop(large, 80000); /* all of them can be had quickly now */
    if (pending != NULL)
        drop(pending, 700);
    tti_cache_reset_peak(D);
    drop(get(0, 80000), 80000); /* many bytes in one block */
    for (int n = 2; n < 6; n++) {
        for (int i = 0; i < n; i++)
            p[i] = get(0, 512);
        for (int i = 0; i < n; i++)
            drop(p[i], 512);
        r = books_of(D);
        TT_CHECK_EQ(r.allocations.all.peak, n + (kept != NULL));
        TT_CHECK_EQ(r.allocations.small.peak, n + (kept != NULL));
        TT_CHECK_EQ(r.active.all.peak, n + others);
        TT_CHECK_EQ(r.active.small.peak, n + others);
        TT_CHECK_EQ(r.allocated_bytes.all.peak, 80384 * (1 + (kept != NULL)));
        TT_CHECK_EQ(r.active_bytes.all.peak, 80384 + bytes);
    }
}

TT_TEST(cache, a_peak_of_a_moment_is_not_missed)
{
    fake_reset();
    for (int i = 0; i < 100; i++)
        drop(get(0, 512), 512);
    moment_of_many(NULL, NULL);
}

TT_TEST(cache, a_peak_of_active_blocks_is_not_missed)
{
    char *a, *b, *p[6];
    tt_memory_report r;

    fake_reset();
    for (int i = 0; i < 100; i++)
        drop(get(0, 512), 512);
    a = get(0, 700);
    b = get(0, 80000);
    fake_work(S(1));
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    TT_CHECK_OK(tti_cache_record_stream(D, b, S(1)));
    moment_of_many(a, b);
    drop(b, 80000); /* one more is pending: as many used blocks as before are more active ones */
    for (int i = 0; i < 6; i++)
        p[i] = get(0, 512);
    for (int i = 0; i < 6; i++)
        drop(p[i], 512);
    r = books_of(D);
    TT_CHECK_EQ(r.allocations.all.peak, 6);
    TT_CHECK_EQ(r.active.all.peak, 8);
    TT_CHECK_EQ(r.active_bytes.all.peak, 1024 + 2 * 80384);
    p[0] = get(0, 79900); /* the same blocks, less of them asked for */
    p[1] = get(0, 1);
    drop(p[0], 79900);
    drop(p[1], 1);
    r = books_of(D);
    TT_CHECK_EQ(r.allocated_bytes.all.peak, 2 * 80384);
    TT_CHECK_EQ(r.active_bytes.all.peak, 1024 + 2 * 80384 + 512);
    TT_CHECK_EQ(r.active.all.peak, 8);
}

/* What was freed last is remembered, but not when it was merged with another. */
TT_TEST(cache, the_last_block_is_forgotten_when_it_is_merged)
{
    char *a, *b, *c, *z;

    fake_reset();
    for (int i = 0; i < 100; i++) /* this thread becomes the owner of the lock */
        drop(get(0, 5000), 5000);
    a = get(0, 512);
    b = get(0, 512);
    c = get(0, 512);
    z = get(0, 512);
    drop(c, 512);
    drop(b, 512);
    TT_CHECK_PTR(get(0, 512), b); /* quickly: now the last one */
    drop(b, 512);
    drop(a, 512);
    TT_CHECK_PTR(get(0, 1536), a); /* a, b and c together */
    drop(a, 1536);
    TT_CHECK_PTR(get(0, 512), a);
    TT_CHECK_PTR(get(0, 1024), b); /* the same address, another block */
    drop(b, 1024);
    TT_CHECK_EQ(books_of(D).requested_bytes.all.current, 1024);
    drop(a, 512);
    drop(z, 512);
}

TT_TEST(cache, a_freed_block_is_used_again_by_its_stream_only)
{
    char *a, *b, *c;

    fake_reset();
    a = get(0, 4000);
    fake_work(S(0)); /* still queued when a is freed */
    drop(a, 4000);
    b = get(1, 4000);
    TT_CHECK(b != a);
    c = get(0, 4000);
    TT_CHECK_PTR(c, a);
    TT_CHECK_EQ(fake_count[0].syncs, 0);
    TT_CHECK_EQ(books_of(D).segments.small.current, 2);
    drop(b, 4000);
    drop(c, 4000);
}

TT_TEST(cache, a_recorded_stream_has_to_pass_first)
{
    tt_memory_report r;
    char *a, *b;

    fake_reset();
    a = get(0, 2000);
    fake_work(S(1));
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(0))); /* its own: nothing to remember */
    fake_work(S(1));                                  /* before the free: counts too */
    drop(a, 2000);
    TT_CHECK_EQ(fake_count[0].marks, 1);
    b = get(0, 2000);
    TT_CHECK(b != a);
    r = books_of(D);
    TT_CHECK_EQ(r.allocations.all.current, 1);
    TT_CHECK_EQ(r.active.all.current, 2);
    TT_CHECK_EQ(r.active.all.peak, 2);
    TT_CHECK_EQ(r.active_bytes.all.current, 4096);
    TT_CHECK_EQ(r.requested_bytes.all.current, 4000);
    drop(b, 2000);
    fake_work(S(1)); /* after the free: does not matter */
    atomic_fetch_sub(&S(1)->queue->queued, 1);
    fake_pass(S(1));
    atomic_fetch_add(&S(1)->queue->queued, 1);
    r = books_of(D);
    TT_CHECK_EQ(r.active.all.current, 0);
    TT_CHECK_EQ(r.requested_bytes.all.current, 0);
    TT_CHECK_EQ(fake_count[0].marks, 0);
    TT_CHECK_EQ(fake_count[0].syncs, 0);
    b = get(0, 3000); /* both together again */
    TT_CHECK_PTR(b, a);
    drop(b, 3000);
}

TT_TEST(cache, pending_blocks_are_active_in_peaks)
{
    tt_memory_report r;
    char *a, *b;

    fake_reset();
    a = get(0, 512);
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(2)));
    fake_work(S(2));
    drop(a, 512);
    tti_cache_reset_peak(D);
    b = get(0, 512);
    r = books_of(D);
    TT_CHECK_EQ(r.allocations.all.peak, 1);
    TT_CHECK_EQ(r.active.all.peak, 2);
    TT_CHECK_EQ(r.active.small.peak, 2);
    TT_CHECK_EQ(r.active_bytes.all.peak, 1024);
    fake_pass(S(2));
    tti_cache_reset_peak(D);
    r = books_of(D);
    TT_CHECK_EQ(r.active.all.peak, 1);
    drop(b, 512);
    a = get(0, 1024);
    r = books_of(D);
    TT_CHECK_EQ(r.active.all.peak, 1);
    TT_CHECK_EQ(r.active_bytes.all.peak, 1024);
    drop(a, 1024);
}

TT_TEST(cache, emptying_waits_for_streams_and_counts_once)
{
    tt_memory_report before, after;
    char *a, *kept;

    fake_reset();
    a = get(0, 5 * MB);
    kept = get(0, 100);
    fake_work(S(0));
    drop(a, 5 * MB);
    before = books_of(D);
    tti_cache_empty(D);
    after = books_of(D);
    TT_CHECK_EQ(fake_count[0].syncs, 1);
    TT_CHECK_EQ(after.num_sync_all_streams, before.num_sync_all_streams + 1);
    TT_CHECK_EQ(after.num_device_free, before.num_device_free + 1);
    TT_CHECK_EQ(after.reserved_bytes.all.current, 2 * MB);
    TT_CHECK_EQ(after.allocated_bytes.all.current, 512);
    TT_CHECK_EQ(fake_count[0].held, 2 * MB);
    tti_cache_empty(D);
    TT_CHECK_EQ(books_of(D).num_sync_all_streams, before.num_sync_all_streams + 2);
    drop(kept, 100);
}

TT_TEST(cache, peaks_start_again_after_a_reset)
{
    tt_memory_stats st;
    char *a;

    fake_reset();
    a = get(0, 3000);
    drop(a, 3000);
    st = tti_cache_stats(D);
    TT_CHECK_EQ(st.peak, 3000);
    TT_CHECK_EQ(st.current, 0);
    tti_cache_reset_peak(D);
    TT_CHECK_EQ(books_of(D).allocated_bytes.all.peak, 0);
    a = get(0, 1000);
    st = tti_cache_stats(D);
    TT_CHECK_EQ(st.current, 1000);
    TT_CHECK_EQ(st.peak, 1000);
    TT_CHECK_EQ(st.n_allocations, 2);
    TT_CHECK_EQ(st.n_frees, 1);
    TT_CHECK_EQ(st.n_system, 1);
    TT_CHECK_EQ(st.reserved, 2 * MB);
    drop(a, 1000);
}

TT_TEST(cache, without_a_cache_every_block_is_a_segment)
{
    tt_memory_report r;
    char *a, *b;

    setenv("TUTTI_CL_NO_CACHE", "1", 1);
    fake_reset();
    a = get(0, 100);
    b = get(0, 30 * MB);
    r = books_of(D);
    TT_CHECK_EQ(r.segments.small.current, 1);
    TT_CHECK_EQ(r.segments.large.current, 1);
    TT_CHECK_EQ(r.reserved_bytes.all.current, 100 + 30 * MB);
    TT_CHECK_EQ(fake_count[0].held, 100 + 30 * MB);
    fake_work(S(0));
    fake_work(S(1));
    TT_CHECK_OK(tti_cache_record_stream(D, a, S(1)));
    drop(a, 100);
    TT_CHECK_EQ(fake_count[0].syncs, 2); /* memory goes back only when nobody uses it */
    drop(b, 30 * MB);
    r = books_of(D);
    TT_CHECK_EQ(r.reserved_bytes.all.current, 0);
    TT_CHECK_EQ(r.num_device_free, 2);
    TT_CHECK_EQ(fake_count[0].held, 0);
}
