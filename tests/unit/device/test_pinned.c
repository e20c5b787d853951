/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: when blocks are used again, and copies that the host does not wait for. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/pinned.h"
#include "fake_accel.h"
#include "tutti/autograd.h"
#include "tutti/memory.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

#define S(nr) fake_stream(0, nr)

TT_TEST(pinned, blocks_wait_for_the_streams_that_use_them)
{
    char *a, *b, *c;

    fake_reset();
    a = tti_pinned_alloc(&fake_accel, 5000);
    TT_REQUIRE_NOT_NULL(a);
    TT_CHECK_EQ((uintptr_t)a % 4096, 0);
    fake_work(S(0));
    TT_CHECK_OK(tti_pinned_record(a + 4000, S(0))); /* anywhere in it */
    fake_work(S(1));
    TT_CHECK_OK(tti_pinned_record(a, S(1)));
    fake_work(S(1));
    TT_CHECK_OK(tti_pinned_record(a, S(1))); /* takes the place of the one before */
    TT_CHECK_EQ(fake_count[0].marks, 2);
    tti_pinned_free(a);
    TT_CHECK_EQ(tt_pinned_stats_get().pending, 8192);
    b = tti_pinned_alloc(&fake_accel, 8000);
    TT_CHECK(b != a);
    fake_pass(S(0));
    c = tti_pinned_alloc(&fake_accel, 8000);
    TT_CHECK(c != a && c != b);
    tti_pinned_free(c);
    fake_pass(S(1));
    TT_CHECK_EQ(tt_pinned_stats_get().pending, 0);
    TT_CHECK_EQ(tt_pinned_stats_get().current, 8192);
    TT_CHECK_EQ(tt_pinned_stats_get().reserved, 3 * 8192);
    c = tti_pinned_alloc(&fake_accel, 8000);
    TT_CHECK(c != b);
    tti_pinned_free(b);
    tti_pinned_free(c);
    TT_CHECK_EQ(fake_count[0].syncs, 0);
}

TT_TEST(pinned, emptying_waits_for_queued_copies)
{
    char *a, *b;

    fake_reset();
    a = tti_pinned_alloc(&fake_accel, 100);
    b = tti_pinned_alloc(&fake_accel, 100);
    fake_work(S(0));
    TT_CHECK_OK(tti_pinned_record(a, S(0)));
    tti_pinned_free(a);
    tt_pinned_empty_cache();
    TT_CHECK_EQ(fake_count[0].syncs, 1);
    TT_CHECK_EQ(fake_count[0].marks, 0);
    TT_CHECK_EQ(tt_pinned_stats_get().n_blocks, 1);
    TT_CHECK_EQ(tt_pinned_stats_get().reserved, 4096);
    tti_pinned_free(b);
    tt_pinned_empty_cache();
    TT_CHECK_EQ(tt_pinned_stats_get().reserved, 0);
}

TT_TEST(pinned, without_memory_it_says_so)
{
    char *a;

    fake_reset();
    TT_CHECK_NULL(tti_pinned_alloc(&fake_accel, SIZE_MAX - 5));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    atomic_store(&fake_count[0].fail_new, 1);
    a = tti_pinned_alloc(&fake_accel, 100); /* tries again with an empty cache */
    TT_CHECK_NOT_NULL(a);
    atomic_store(&fake_count[0].fail_new, 2);
    TT_CHECK_NULL(tti_pinned_alloc(&fake_accel, 100));
    atomic_store(&fake_count[0].fail_marks, 1);
    fake_work(S(0));
    TT_CHECK_OK(tti_pinned_record(a, S(0))); /* no mark: waits instead */
    TT_CHECK_EQ(fake_count[0].syncs, 1);
    tti_pinned_free(a);
    TT_CHECK_EQ(tt_pinned_stats_get().pending, 0);
    tt_pinned_empty_cache();
}

TT_TEST(pinned, a_lost_device_holds_nothing_back)
{
    char *a;

    fake_reset();
    a = tti_pinned_alloc(&fake_accel, 100);
    fake_work(S(0));
    TT_CHECK_OK(tti_pinned_record(a, S(0)));
    tti_pinned_free(a);
    atomic_store(&fake_count[0].lost, true);
    TT_CHECK_PTR(tti_pinned_alloc(&fake_accel, 100), a);
    tti_pinned_free(a);
    tt_pinned_empty_cache();
    TT_CHECK_EQ(fake_count[0].marks, 0);
}

/* ---- tensors, on real devices --------------------------------------------------------------------- */

static void need_device(void)
{
    if (tt_device_count(TT_DEVICE_CL) == 0)
        TT_SKIP("no device: %s", tt_device_missing(TT_DEVICE_CL));
}

TT_TEST(pinned, tensors_know_that_they_are)
{
    need_device();
    TT_SCOPE {
        tt_tensor *plain = tt_arange(0, 6, 1, TT_F32, TT_CPU), *p = tt_pin(plain);
        tt_tensor *none = tt_pinned_empty(TT_SHAPE(0, 3), TT_I64);

        TT_REQUIRE_NOT_NULL(p);
        TT_CHECK(!tt_tensor_is_pinned(plain));
        TT_CHECK(tt_tensor_is_pinned(p));
        TT_CHECK_PTR(tt_pin(p), p);
        TT_CHECK_MEM(tt_tensor_data(p), tt_tensor_data(plain), 24);
        TT_CHECK(tt_tensor_is_pinned(tt_reshape(p, TT_SHAPE(2, 3)))); /* a view is, too */
        TT_CHECK(!tt_tensor_is_pinned(tt_clone(p)));
        TT_REQUIRE_NOT_NULL(none);
        TT_CHECK(tt_tensor_is_pinned(none));
        TT_CHECK_EQ(tt_tensor_numel(none), 0);
        TT_CHECK(!tt_tensor_is_pinned(NULL));
        TT_CHECK_NULL(tt_pin(tt_empty(TT_SHAPE(2), TT_F32, tt_cl(0))));
        TT_CHECK_CONTAINS(tt_last_error(), "on an accelerator");
        TT_CHECK_EQ(tt_pinned_stats_get().current, 4096);
    }
    TT_CHECK_EQ(tt_pinned_stats_get().current, 0);
}

TT_TEST(pinned, copies_are_made_later_both_ways)
{
    const uint64_t ns = 200000000;
    tt_stream *s;
    bool done = true;

    need_device();
    s = tt_stream_current(tt_cl(0));
    TT_SCOPE {
        tt_tensor *host = tt_pin(tt_arange(0, 1000, 1, TT_F32, TT_CPU)), *there, *back;

        TT_REQUIRE_NOT_NULL(host);
        TT_REQUIRE_OK(tt_stream_sleep(s, ns));
        there = tt_to_device_async(host, tt_cl(0));
        back = tt_to_device_async(there, TT_CPU);
        TT_REQUIRE_NOT_NULL(back);
        TT_REQUIRE_OK(tt_stream_query(s, &done));
        TT_CHECK(!done); /* nobody waited for the copies */
        TT_CHECK(tt_tensor_is_pinned(back));
        TT_REQUIRE_OK(tt_stream_sync(s));
        TT_CHECK_MEM(tt_tensor_data(back), tt_tensor_data(host), 4000);
    }
}

TT_TEST(pinned, other_copies_are_made_at_once)
{
    need_device();
    TT_SCOPE {
        tt_tensor *plain = tt_arange(0, 10, 1, TT_F32, TT_CPU);
        tt_tensor *there = tt_to_device_async(plain, tt_cl(0)), *host;
        tt_tensor *pinned = tt_pinned_empty(TT_SHAPE(10), TT_F32);

        TT_REQUIRE(there != NULL && pinned != NULL);
        TT_CHECK_PTR(tt_to_device_async(there, tt_cl(0)), there);
        memset(tt_tensor_data(plain), 0, 40); /* may be used again at once */
        TT_CHECK_OK(tt_copy_async_(pinned, there));
        TT_REQUIRE_OK(tt_device_sync(tt_cl(0)));
        for (int i = 0; i < 10; i++)
            TT_CHECK_EQ((int)((float *)tt_tensor_data(pinned))[i], i);
        host = tt_zeros(TT_SHAPE(10), TT_F32, TT_CPU);
        TT_CHECK_OK(tt_copy_async_(host, there));
        TT_CHECK_MEM(tt_tensor_data(host), tt_tensor_data(pinned), 40);
        TT_CHECK_EQ(tt_copy_async_(NULL, there) == TT_OK, false);
        TT_CHECK_NULL(tt_to_device_async(pinned, tt_cl(99)));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
    }
}

TT_TEST(pinned, writing_later_counts_as_a_change)
{
    need_device();
    TT_SCOPE {
        tt_tensor *host = tt_pinned_empty(TT_SHAPE(4), TT_F32);
        tt_tensor *there = tt_empty(TT_SHAPE(4), TT_F32, tt_cl(0));
        uint64_t before = tt_tensor_version(there);

        memset(tt_tensor_data(host), 0, 16);
        TT_CHECK_OK(tt_copy_async_(there, host));
        TT_CHECK_EQ(tt_tensor_version(there), before + 1);
        TT_REQUIRE_OK(tt_device_sync(tt_cl(0)));
    }
}
