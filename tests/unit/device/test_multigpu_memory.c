/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of several accelerators in one process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "books.h"
#include "tutti/memory.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

static void need(int n)
{
    if (tt_device_count(TT_DEVICE_CL) < n)
        TT_SKIP("%d devices are needed, there are %d. %s", n, tt_device_count(TT_DEVICE_CL),
                tt_device_missing(TT_DEVICE_CL));
}

/* ---- a script of allocations that is checked after every step -------------------------------------- */

/* It goes on one step at a time, so that two of them can be interleaved. Sizes are in floats. */
typedef struct script {
    tt_device d; /* as the test spells it */
    int step;
    tt_tensor *held[120];
    int n_held, n_first; /* those of the first part */
    int64_t at_start, at_middle;
    tt_memory_report last;
    uint64_t random;
} script;

enum { ROSE, FELL, STAYED };

static uint64_t below(script *s, uint64_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % n;
}

static void never_falls(const tt_memory_report *before, const tt_memory_report *now)
{
    TT_REQUIRE_GE(now->allocated_bytes.all.peak, before->allocated_bytes.all.peak);
    TT_REQUIRE_GE(now->reserved_bytes.all.peak, before->reserved_bytes.all.peak);
    TT_REQUIRE_GE(now->num_device_alloc, before->num_device_alloc);
    TT_REQUIRE_GE(now->num_device_free, before->num_device_free);
}

/* After every step: what was predicted happened, exactly. `floats`: how much came or went; several blocks
 * are at least that and at most what rounding adds. */
static void check_step(script *s, int what, const size_t *floats, int n)
{
    tt_memory_report r = books_of(s->d);
    int64_t delta = r.allocated_bytes.all.current - s->last.allocated_bytes.all.current;
    int64_t least = 0, most = 0;

    for (int i = 0; i < n; i++) {
        int64_t bytes = (int64_t)(4 * floats[i] + 511) / 512 * 512;

        least += bytes;
        most += bytes + (bytes > 1 << 20 ? 1 << 20 : 0); /* a large block keeps a small rest */
    }
    if (what == FELL)
        delta = -delta;
    TT_REQUIRE_GE(delta, least);
    TT_REQUIRE_LE(delta, most);
    TT_REQUIRE(what == STAYED ? delta == 0 : delta > 0);
    TT_REQUIRE_LE(r.allocated_bytes.all.current, r.allocated_bytes.all.peak);
    TT_REQUIRE_LE(r.reserved_bytes.all.current, r.reserved_bytes.all.peak);
    TT_REQUIRE_EQ(r.allocated_bytes.all.current, tt_memory_allocated(s->d));
    TT_REQUIRE_EQ(r.reserved_bytes.all.peak, tt_memory_max_reserved(s->d));
    never_falls(&s->last, &r);
    s->last = r;
}

/* Empties the cache and resets the peaks: nothing else changes. */
static void check_empty(script *s)
{
    tt_memory_report r;

    tt_memory_empty_cache(s->d);
    r = books_of(s->d);
    TT_REQUIRE_EQ(r.num_sync_all_streams, s->last.num_sync_all_streams + 1);
    TT_REQUIRE_EQ(r.num_device_alloc, s->last.num_device_alloc);
    TT_REQUIRE_LE(r.reserved_bytes.all.current, s->last.reserved_bytes.all.current);
    TT_REQUIRE_EQ(r.allocated_bytes.all.current, s->last.allocated_bytes.all.current);
    never_falls(&s->last, &r);
    tt_memory_reset_peak(s->d);
    r = books_of(s->d);
    TT_REQUIRE_EQ(r.allocated_bytes.all.peak, r.allocated_bytes.all.current);
    TT_REQUIRE_EQ(r.reserved_bytes.all.peak, r.reserved_bytes.all.current);
    TT_REQUIRE_EQ(tt_memory_max_allocated(s->d), tt_memory_allocated(s->d));
    s->last = r;
}

static void hold(script *s, tt_shape shape)
{
    tt_tensor *t = NULL;
    size_t n;

    TT_SCOPE
        t = tt_tensor_retain(tt_empty(shape, TT_F32, s->d));
    TT_REQUIRE_NOT_NULL(t);
    n = (size_t)tt_tensor_numel(t);
    s->held[s->n_held++] = t;
    check_step(s, n > 0 ? ROSE : STAYED, &n, n > 0);
}

static void let_go(script *s, int i)
{
    size_t n = (size_t)tt_tensor_numel(s->held[i]);

    tt_tensor_free(s->held[i]);
    s->held[i] = s->held[--s->n_held];
    check_step(s, n > 0 ? FELL : STAYED, &n, n > 0);
}

/* One step: a block comes or goes. False: it was the last. */
static bool advance(script *s)
{
    int k = s->step++;

    if (k == 0) {
        tt_memory_empty_cache(s->d);
        s->last = books_of(s->d);
        s->at_start = s->last.allocated_bytes.all.current;
        check_empty(s);
    } else if (k == 1) {
        hold(s, TT_SHAPE(1));
    } else if (k == 2) {
        hold(s, TT_SHAPE(10, 20));
    } else if (k == 3) {
        hold(s, TT_SHAPE(200, 300, 2000));
    } else if (k < 21) {
        int64_t i = k - 3; /* 1 to 17 */

        hold(s, TT_SHAPE(i, 4 * i));
    } else if (k < 38) {
        int64_t i = k - 16; /* 5 to 21 */

        hold(s, TT_SHAPE(i, 7 * i, 9 * i, 11 * i));
    } else if (k == 38) {
        hold(s, TT_SHAPE(0, 0, 0));
        check_empty(s);
    } else if (k < 56) { /* 17 of them go, in any order */
        let_go(s, (int)below(s, (uint64_t)s->n_held));
    } else if (k == 56) {
        s->n_first = s->n_held;
        s->at_middle = s->last.allocated_bytes.all.current;
        check_empty(s);
    } else if (k < 80) {
        int64_t i = k - 55; /* 2 to 24 */

        hold(s, TT_SHAPE(i, 3 * i, 8 * i));
    } else if (s->n_held > s->n_first) {
        let_go(s, s->n_first + (int)below(s, (uint64_t)(s->n_held - s->n_first)));
        if (s->n_held == s->n_first) {
            TT_REQUIRE_EQ(s->last.allocated_bytes.all.current, s->at_middle);
            check_empty(s);
        }
    } else if (s->n_held > 0) {
        s->n_first--;
        let_go(s, (int)below(s, (uint64_t)s->n_held));
    } else {
        TT_REQUIRE_EQ(s->last.allocated_bytes.all.current, s->at_start);
        check_empty(s);
        return false;
    }
    return true;
}

/* To its end; after each step of a one of b, or any number up to 2. */
static void play(script *a, script *b, bool random)
{
    while (advance(a)) {
        uint64_t steps = random ? below(a, 3) : 1;

        for (; b != NULL && steps > 0; steps--)
            if (!advance(b))
                b = NULL;
    }
    while (b != NULL && advance(b)) {}
}

TT_TEST_LIMIT(multigpu, test_memory_stats, 120)
{
    static script s = { .d = { TT_DEVICE_CL, TT_CURRENT } };

    need(1);
    s.random = tt_test_seed();
    play(&s, NULL, false);
    for (int i = 1; i < tt_device_count(TT_DEVICE_CL); i++)
        TT_CHECK_EQ(tt_memory_reserved(tt_cl(i)), 0);
}

TT_TEST_LIMIT(multigpu, test_memory_stats_multigpu, 240)
{
    tt_device named;

    need(2);
    TT_REQUIRE_OK(tt_device_parse("cl:1", &named));
    for (int round = 0; round < 4; round++) {
        script a = { .d = round % 2 == 0 ? tt_cl(0) : TT_CL, .random = tt_test_seed() };
        script b = { .d = round < 2 ? named : tt_cl(1), .random = tt_test_seed() + 1 };

        play(&a, &b, round % 2 == 1);
    }
}

/* ---- single figures --------------------------------------------------------------------------------- */

TT_TEST(multigpu, test_cuda_device_memory_allocated)
{
    uint64_t before[TT_LEAK_DEVICES];
    int n;

    need(2);
    n = tt_device_count(TT_DEVICE_CL);
    for (int i = 0; i < n; i++)
        before[i] = tt_memory_allocated(tt_cl(i));
    TT_SCOPE {
        TT_REQUIRE_NOT_NULL(tt_empty(TT_SHAPE(10), TT_F32, tt_cl(0)));
        TT_CHECK_GT(tt_memory_allocated(tt_cl(0)), before[0]);
        for (int i = 1; i < n; i++)
            TT_CHECK_EQ(tt_memory_allocated(tt_cl(i)), before[i]);
    }
    TT_CHECK_EQ(tt_memory_allocated(tt_cl(0)), before[0]);
}

static void check_info(tt_device d)
{
    uint64_t free_before, total_before, free_after, total_after;
    tt_device exact;

    TT_REQUIRE_OK(tt_device_resolve(d, &exact));
    tt_memory_empty_cache(d);
    TT_REQUIRE_OK(tt_memory_info(d, &free_before, &total_before));
    TT_SCOPE {
        TT_REQUIRE_NOT_NULL(tt_empty(TT_SHAPE(8 * 1024 * 1024), TT_F32, exact));
        TT_REQUIRE_OK(tt_device_sync(d));
        TT_REQUIRE_OK(tt_memory_info(d, &free_after, &total_after));
    }
    TT_CHECK_LT(free_after, free_before);
    TT_CHECK_EQ(free_before - free_after, 32 << 20);
    TT_CHECK_EQ(total_after, total_before);
    TT_CHECK_LE(free_before, total_before);
}

TT_TEST(multigpu, test_mem_get_info)
{
    tt_device named;

    need(2);
    check_info(tt_cl(0));
    check_info(TT_CL);
    TT_REQUIRE_OK(tt_device_parse("cl:0", &named));
    check_info(named);
    check_info(tt_cl(1));
    TT_REQUIRE_OK(tt_device_parse("cl:1", &named));
    check_info(named);
    TT_DEVICE_SCOPE(tt_cl(1)) check_info(TT_CL);
    TT_CHECK_ERR_SAYS(tt_memory_info(TT_CPU, NULL, NULL), TT_ERR_INVALID,
                      "expected an accelerator");
    TT_CHECK_EQ(tt_memory_info(tt_cl(77), NULL, NULL), TT_ERR_NOT_FOUND);
}

TT_TEST(memory, blocks_can_be_had_without_a_tensor)
{
    tt_memory_report before, after;
    void *p, *q;

    need(1);
    TT_REQUIRE_OK(tt_memory_report_get(TT_CL, &before));
    p = tt_memory_alloc(TT_CL, 1000);
    q = tt_memory_alloc(tt_cl(0), 3 << 20);
    TT_REQUIRE(p != NULL && q != NULL);
    TT_REQUIRE_OK(tt_memory_report_get(TT_CL, &after));
    TT_CHECK_EQ(after.requested_bytes.all.current - before.requested_bytes.all.current,
                1000 + (3 << 20));
    tt_memory_free(tt_cl(0), p, 1000);
    TT_CHECK_PTR(tt_memory_alloc(tt_cl(0), 900), p);
    tt_memory_free(TT_CL, p, 900);
    tt_memory_free(TT_CL, q, 3 << 20);
    tt_memory_free(TT_CL, NULL, 5);
    TT_CHECK_EQ(tt_memory_allocated(tt_cl(0)), before.allocated_bytes.all.current);
    TT_CHECK_NULL(tt_memory_alloc(TT_CPU, 10));
    TT_CHECK_CONTAINS(tt_last_error(), "expected an accelerator");
    TT_CHECK_NULL(tt_memory_alloc(tt_cl(99), 10));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOT_FOUND);
    TT_CHECK_NULL(tt_memory_alloc(tt_cl(0), 0));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
}

TT_TEST(memory, limits_hold_on_devices)
{
    tt_memory_report r;
    uint64_t total;

    need(1);
    TT_REQUIRE_OK(tt_memory_info(tt_cl(0), NULL, &total));
    tt_memory_empty_cache(tt_cl(0));
    TT_REQUIRE_OK(tt_memory_limit_bytes(tt_cl(0), tt_memory_reserved(tt_cl(0)) + (64 << 20)));
    TT_SCOPE {
        TT_CHECK_NULL(tt_empty(TT_SHAPE(100 << 20), TT_U8, tt_cl(0)));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
        TT_CHECK_CONTAINS(tt_last_error(), "cl:0: out of memory: 100.00 MiB");
        TT_CHECK_NOT_NULL(tt_empty(TT_SHAPE(50 << 20), TT_U8, tt_cl(0)));
    }
    TT_REQUIRE_OK(tt_memory_limit_fraction(tt_cl(0), 0.5));
    TT_REQUIRE_OK(tt_memory_report_get(tt_cl(0), &r));
    TT_CHECK_EQ(r.limit, total / 2);
    TT_CHECK_EQ(r.num_ooms, 1);
    TT_SCOPE
        TT_CHECK_NOT_NULL(tt_empty(TT_SHAPE(100 << 20), TT_U8, tt_cl(0)));
    TT_CHECK_ERR_SAYS(tt_memory_limit_fraction(tt_cl(0), 1.5), TT_ERR_INVALID, "expected 0 to 1");
    TT_CHECK_EQ(tt_memory_limit_bytes(TT_CPU, 5), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_memory_report_get(tt_cl(0), NULL), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_memory_snapshot_new(TT_CPU));
}

/* ---- leaks -------------------------------------------------------------------------------------------- */

static tt_tensor *kept[2];

static tt_status nothing(void *arg)
{
    (void)arg;
    return TT_OK;
}

static tt_status no_leak(void *arg)
{
    TT_SCOPE {
        if (tt_empty(TT_SHAPE(1000, 1000), TT_F32, *(tt_device *)arg) == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static tt_status leak(void *arg)
{
    tt_device *d = arg;

    TT_SCOPE
        kept[d->index] = tt_tensor_retain(tt_empty(TT_SHAPE(8 * 1024 * 1024), TT_F32, *d));
    return kept[d->index] != NULL ? TT_OK : tt_last_status();
}

static tt_status leak_little(void *arg)
{
    tt_device *d = arg;

    TT_SCOPE
        kept[d->index] = tt_tensor_retain(tt_empty(TT_SHAPE(3), TT_F32, *d));
    return kept[d->index] != NULL ? TT_OK : tt_last_status();
}

static tt_status fails(void *arg)
{
    (void)arg;
    return tt_fail(TT_ERR_FORMAT, "my own trouble");
}

TT_TEST(multigpu, test_cuda_memory_leak_detection)
{
    need(2);
    TT_CHECK_OK(tt_leak_check_call(nothing, NULL));
    for (int i = 0; i < 2; i++) {
        tt_device d = tt_cl(i);
        char words[64];

        TT_CHECK_OK(tt_leak_check_call(no_leak, &d));
        snprintf(words, sizeof words, "confirmed a leak on cl:%d", i);
        TT_CHECK_ERR_SAYS(tt_leak_check_call(leak, &d), TT_ERR_INVALID, words);
        TT_CHECK_CONTAINS(tt_last_error(), "device-level memory query");
        TT_CHECK_OK(tt_leak_check_call(no_leak, &d)); /* what was there before is none */
        tt_tensor_free(kept[i]);
    }
    TT_CHECK_ERR_SAYS(tt_leak_check_call(fails, NULL), TT_ERR_FORMAT, "my own trouble");
}

TT_TEST(leak_check, small_leaks_inside_of_held_memory_are_found)
{
    tt_device d = tt_cl(0);

    need(1);
    TT_SCOPE {
        TT_REQUIRE_NOT_NULL(tt_empty(TT_SHAPE(5), TT_F32, d)); /* its segment has room left */
        TT_CHECK_ERR_SAYS(tt_leak_check_call(leak_little, &d), TT_ERR_INVALID, "a leak on cl:0");
        TT_CHECK_CONTAINS(tt_last_error(), "shows no difference");
        tt_tensor_free(kept[0]);
    }
    TT_CHECK_EQ(tt_leak_check_begin(NULL), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_leak_check_end(NULL), TT_ERR_INVALID);
}

/* ---- pinned memory ------------------------------------------------------------------------------------ */

static float value_of(tt_tensor *t)
{
    tt_tensor *host = tt_to_device(t, TT_CPU);

    TT_REQUIRE_NOT_NULL(host);
    return *(const float *)tt_tensor_data(host);
}

static tt_tensor *pinned_float(float value)
{
    tt_tensor *x = tt_pinned_empty(TT_SHAPE(1), TT_F32);

    TT_REQUIRE_NOT_NULL(x);
    TT_REQUIRE(tt_tensor_is_pinned(x));
    *(float *)tt_tensor_data(x) = value;
    return x;
}

TT_TEST(multigpu, test_caching_pinned_memory_multi_gpu)
{
    tt_tensor *on_0, *on_1;
    const void *first = NULL;
    bool done = true;

    need(2);
    TT_SCOPE {
        tt_tensor *x = pinned_float(1);

        first = tt_tensor_data(x);
        TT_REQUIRE_OK(tt_stream_sleep(tt_stream_current(tt_cl(1)), 1000000000));
        on_1 = tt_tensor_retain(tt_to_device_async(x, tt_cl(1)));
        TT_REQUIRE_NOT_NULL(on_1);
    }
    TT_SCOPE {
        tt_tensor *x = pinned_float(2);

        TT_CHECK(tt_tensor_data(x) != first); /* the first copy has not been made yet */
        TT_REQUIRE_OK(tt_stream_query(tt_stream_current(tt_cl(1)), &done));
        TT_CHECK(!done);
        on_0 = tt_tensor_retain(tt_to_device_async(x, tt_cl(0)));
        TT_REQUIRE_NOT_NULL(on_0);
    }
    TT_SCOPE {
        TT_CHECK_EQ((int)value_of(on_1), 1);
        TT_CHECK_EQ((int)value_of(on_0), 2);
        TT_CHECK_EQ(tt_pinned_stats_get().pending, 0);
    }
    tt_tensor_free(on_0);
    tt_tensor_free(on_1);
}
