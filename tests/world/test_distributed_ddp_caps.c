/* SPDX-License-Identifier: Apache-2.0 */
/* How large buckets are, from the options. */
#include <stdint.h>
#include <string.h>

#include "tutti/ddp.h"
#include "tutti/testing.h"

#define MB 1048576LL

/* One configuration and what comes out of it. */
typedef struct caps_row {
    const char *name;
    double cap_mb; /* 0: not given */
    double list[4];
    int n_list;
    long long cap, first; /* bytes; first 0: not asked */
} caps_row;

static const caps_row rows[] = {
    { "test_create_with_default_bucket_cap", 0, { 0 }, 0, 25 * MB, 1 * MB },
    { "test_create_with_custom_bucket_cap_mb", 100, { 0 }, 0, 100 * MB, 100 * MB },
    { "test_create_with_bucket_cap_mb_list", 0, { 10, 25, 50 }, 3, 50 * MB, 50 * MB },
    { "test_create_with_bucket_cap_mb_list_overrides_bucket_cap_mb",
      100,
      { 10, 25, 50 },
      3,
      50 * MB,
      50 * MB },
    { "test_single_element_bucket_cap_mb_list", 0, { 50 }, 1, 50 * MB, 50 * MB },
    { "test_large_bucket_cap_mb", 1000, { 0 }, 0, 1000 * MB, 1000 * MB },
    { "test_small_bucket_cap_mb", 1, { 0 }, 0, 1 * MB, 1 * MB },
    { "test_empty_bucket_cap_mb_list", 0, { 0 }, 0, 25 * MB, 1 * MB },
    { "test_bucket_cap_mb_list_with_duplicates", 0, { 25, 25, 25 }, 3, 25 * MB, 25 * MB },
    { "test_bucket_cap_mb_list_ascending_order", 0, { 5, 10, 15, 20 }, 4, 20 * MB, 20 * MB },
    { "test_bucket_cap_mb_list_descending_order", 0, { 100, 50, 25, 10 }, 4, 100 * MB, 100 * MB },
};

static void check_row(void *ctx)
{
    const caps_row *r = ctx;
    tt_ddp_caps caps;

    TT_REQUIRE_OK(tt_ddp_caps_make(r->cap_mb, r->list, r->n_list, &caps));
    TT_CHECK_EQ(caps.cap, r->cap);
    TT_CHECK_EQ(caps.first, r->first);
    TT_CHECK_EQ(caps.n_per_bucket, r->n_list);
    for (int i = 0; i < r->n_list; i++)
        TT_CHECK_EQ(caps.per_bucket[i], (long long)r->list[i] * MB);
    TT_CHECK_NEAR(tt_ddp_caps_mb(&caps), (double)r->cap / MB, 0);
}

TT_TEST_TABLE(distributed)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tt_test_add("distributed", rows[i].name, check_row, (void *)(uintptr_t)&rows[i]);
}

static tt_ddp_caps caps_of(double cap_mb, const double *list, int n)
{
    tt_ddp_caps caps = { 0 };

    TT_REQUIRE_OK(tt_ddp_caps_make(cap_mb, list, n, &caps));
    return caps;
}

TT_TEST(distributed, test_has_custom_per_bucket_caps_property)
{
    const double list[] = { 10, 25 };

    TT_CHECK_EQ(caps_of(25, NULL, 0).n_per_bucket, 0);
    TT_CHECK_EQ(caps_of(0, list, 2).n_per_bucket, 2);
}

TT_TEST(distributed, test_bucket_cap_mb_property)
{
    tt_ddp_caps large = caps_of(100, NULL, 0), plain = caps_of(0, NULL, 0);

    TT_CHECK_NEAR(tt_ddp_caps_mb(&large), 100, 0);
    TT_CHECK_NEAR(tt_ddp_caps_mb(&plain), 25, 0);
}

TT_TEST(distributed, test_default_bucket_cap_mb_value)
{
    TT_CHECK_EQ(TT_DDP_BUCKET_MB, 25);
}

TT_TEST(distributed, test_mb_to_bytes_value)
{
    TT_CHECK_EQ(TT_DDP_MB, 1048576);
}

/* ---- limits ------------------------------------------------------------------------------------- */

typedef struct limits {
    tt_ddp_limits initial, rebuild;
} limits;

static limits limits_of(tt_ddp_caps caps, bool find_unused, bool static_graph)
{
    limits l;

    tt_ddp_caps_limits(&caps, find_unused, static_graph, &l.initial, &l.rebuild);
    return l;
}

TT_TEST(distributed, test_compute_limits_with_custom_per_bucket_caps)
{
    const double list[] = { 10, 25, 50 };
    limits l = limits_of(caps_of(0, list, 3), true, false);

    TT_REQUIRE_EQ(l.initial.n, 3);
    TT_REQUIRE_EQ(l.rebuild.n, 3);
    for (int i = 0; i < 3; i++) {
        TT_CHECK_EQ(l.initial.bytes[i], (long long)list[i] * MB);
        TT_CHECK_EQ(l.rebuild.bytes[i], (long long)list[i] * MB);
    }
}

static void check_single(limits l, size_t bytes)
{
    TT_REQUIRE_EQ(l.initial.n, 1);
    TT_CHECK(l.initial.bytes[0] == bytes);
    TT_CHECK_EQ(l.rebuild.n, 0);
}

TT_TEST(distributed, test_compute_limits_static_graph_uses_maxsize)
{
    check_single(limits_of(caps_of(25, NULL, 0), true, true), SIZE_MAX);
}

TT_TEST(distributed, test_compute_limits_find_unused_false_uses_maxsize)
{
    check_single(limits_of(caps_of(25, NULL, 0), false, false), SIZE_MAX);
}

TT_TEST(distributed, test_compute_limits_default_with_find_unused_true)
{
    limits l = limits_of(caps_of(0, NULL, 0), true, false);

    TT_REQUIRE_EQ(l.initial.n, 2);
    TT_CHECK_EQ(l.initial.bytes[0], MB);
    TT_CHECK_EQ(l.initial.bytes[1], 25 * MB);
    TT_CHECK_EQ(l.rebuild.n, 0);
}

TT_TEST(distributed, test_compute_limits_custom_cap_with_find_unused_true)
{
    check_single(limits_of(caps_of(100, NULL, 0), true, false), 100 * MB);
}

TT_TEST(distributed, test_compute_limits_empty_rebuild_for_non_list_config)
{
    check_single(limits_of(caps_of(50, NULL, 0), true, false), 50 * MB);
}
