/* SPDX-License-Identifier: Apache-2.0 */
/* Behaviours of devices and streams over several devices. Sleeps are 50 million cycles, that is 50 ms; what must be
 * seen before a sleep ends is looked at again when the machine was too busy to look in time. */
#include <pthread.h>

#include "base/clock.h"
#include "cl_fixture.h"
#include "tutti/ops.h"

#define SLEEP 50000000u
#define ATTEMPTS 200

static bool same(tt_device a, int index)
{
    return tt_device_equal(a, tt_cl(index));
}

static bool is_done(tt_stream *s)
{
    bool done = false;

    TT_CHECK_OK(tt_stream_query(s, &done));
    return done;
}

static void sync_both(void)
{
    TT_REQUIRE_OK(tt_device_sync(tt_cl(0)));
    TT_REQUIRE_OK(tt_device_sync(tt_cl(1)));
}

static tt_status sync_named(const char *name)
{
    tt_device d;

    TT_TRY(tt_device_parse(name, &d));
    return tt_device_sync(d);
}

TT_TEST(multigpu, test_cuda_synchronize)
{
    need_devices(2);
    TT_CHECK_OK(tt_device_sync(TT_CL));
    TT_CHECK_OK(sync_named("cl"));
    TT_CHECK_OK(sync_named("cl:0"));
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    TT_CHECK_OK(tt_device_sync((tt_device){ TT_DEVICE_CL, 0 }));
    TT_CHECK_OK(sync_named("cl:1"));
    TT_CHECK_OK(tt_device_sync(tt_cl(1)));
    TT_CHECK_OK(tt_device_sync((tt_device){ TT_DEVICE_CL, 1 }));
    TT_CHECK_ERR_SAYS(tt_device_sync(TT_CPU), TT_ERR_INVALID, "expected an accelerator device");
    TT_CHECK_ERR_SAYS(sync_named("cpu"), TT_ERR_INVALID, "expected an accelerator device");
}

/* ---- the first use ------------------------------------------------------------------------------- */

static pthread_barrier_t at_once;

static void *first_use(void *index_p)
{
    int index = *(int *)index_p;
    bool good = false;

    pthread_barrier_wait(&at_once);
    TT_SCOPE {
        tt_tensor *x = tt_to_device(tt_full(TT_SHAPE(1), 1, TT_F32, TT_CPU), tt_cl(index));
        float back = 0;

        good = x != NULL && tt_copy_out_f32(x, &back, 1) == TT_OK && back == 1.0f;
    }
    return good ? index_p : NULL;
}

static int race(void *unused)
{
    static int indices[] = { 0, 1 };
    pthread_t threads[2];
    void *good[2];

    (void)unused;
    pthread_barrier_init(&at_once, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, first_use, &indices[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &good[i]);
    return good[0] != NULL && good[1] != NULL ? 0 : tt_device_count(TT_DEVICE_CL) < 2 ? 86 : 1;
}

TT_TEST_LIMIT(multigpu, test_cuda_init_race, 120)
{
    for (int i = 0; i < 10; i++) {
        int code = in_child(race, NULL);

        if (code == 86)
            tt_test_skip(TT_TEST_SKIP_2_DEVICES, NULL);
        TT_REQUIRE_EQ(code, 0);
    }
}

/* ---- copies --------------------------------------------------------------------------------------- */

static bool equal(tt_tensor *x, tt_tensor *y)
{
    float a[25], b[25];

    TT_REQUIRE_OK(tt_copy_out_f32(x, a, 25));
    TT_REQUIRE_OK(tt_copy_out_f32(y, b, 25));
    return memcmp(a, b, sizeof a) == 0;
}

/* Into y from two streams; `held` sleeps and is current in the first copy with `shared`, `other` in the second. Only
 * `shared` is waited for at first. */
static void copy_twice(tt_tensor *x, tt_tensor *x_plus_one, tt_tensor *y, tt_stream *held,
                       tt_stream *shared, tt_stream *other)
{
    TT_STREAM_SCOPE(held)
    {
        TT_CHECK_OK(tt_stream_sleep(held, SLEEP));
        TT_STREAM_SCOPE(shared)
        TT_CHECK_NOT_NULL(tt_copy_(y, x_plus_one));
    }
    TT_STREAM_SCOPE(other)
    TT_STREAM_SCOPE(shared)
    TT_CHECK_NOT_NULL(tt_copy_(y, x));
    TT_CHECK_OK(tt_stream_sync(shared));
    TT_STREAM_SCOPE(shared)
    TT_CHECK(equal(x, y));
    sync_both(); /* and nothing comes late */
    TT_CHECK(equal(x, y));
}

static void copies_between(int from, int to)
{
    tt_stream *s0 = tt_stream_new(tt_cl(from), NULL), *s1 = tt_stream_new(tt_cl(to), NULL);
    tt_stream *s2 = tt_stream_new(tt_cl(from), NULL), *s3 = tt_stream_new(tt_cl(to), NULL);

    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(5, 5), TT_F32, tt_cl(from));
        tt_tensor *y = tt_zeros(TT_SHAPE(5, 5), TT_F32, tt_cl(to));
        tt_tensor *x_plus_one = tt_full(TT_SHAPE(5, 5), 1, TT_F32, tt_cl(from));

        TT_REQUIRE(x != NULL && y != NULL && x_plus_one != NULL);
        sync_both();
        copy_twice(x, x_plus_one, y, s0, s1, s2);
        copy_twice(x, x_plus_one, y, s1, s0, s3);
    }
    tt_stream_free(s0);
    tt_stream_free(s1);
    tt_stream_free(s2);
    tt_stream_free(s3);
}

TT_TEST(multigpu, test_copy_streams)
{
    need_devices(2);
    copies_between(0, 1);
    copies_between(0, 0);
}

/* ---- current and default -------------------------------------------------------------------------- */

TT_TEST(multigpu, test_current_stream)
{
    tt_stream *s0, *s1, *s2;

    need_devices(2);
    s0 = tt_stream_current(TT_CL);
    s1 = tt_stream_current(tt_cl(1));
    s2 = tt_stream_current(tt_cl(0));
    TT_CHECK(same(tt_stream_device(s0), 0));
    TT_CHECK(same(tt_stream_device(s1), 1));
    TT_CHECK(same(tt_stream_device(s2), 0));
    TT_CHECK(tt_stream_equal(s0, s2));
    TT_DEVICE_SCOPE(tt_cl(1))
    {
        TT_CHECK(tt_stream_equal(tt_stream_current(TT_CL), tt_stream_current(tt_cl(1))));
        TT_CHECK(same(tt_stream_device(tt_stream_current(TT_CL)), 1));
        TT_CHECK(same(tt_stream_device(tt_stream_current(tt_cl(0))), 0));
    }
    TT_CHECK_NULL(tt_stream_current(TT_CPU));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), "got cpu");
}

TT_TEST(multigpu, test_default_stream)
{
    need_devices(2);
    for (int i = 0; i < 2; i++)
        TT_DEVICE_SCOPE(tt_cl(i))
        {
            tt_stream *inside = tt_stream_default(TT_CL);

            TT_CHECK(tt_stream_equal(inside, tt_stream_default(tt_cl(i))));
            TT_CHECK(same(tt_stream_device(inside), i));
            TT_CHECK(tt_stream_equal(inside, tt_stream_current(TT_CL)));
        }
    TT_CHECK(!tt_stream_equal(tt_stream_default(tt_cl(0)), tt_stream_default(tt_cl(1))));
    TT_CHECK_NULL(tt_stream_default(TT_CPU));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), "got cpu");
}

static bool current_is(tt_stream *s, int index)
{
    return tt_stream_equal(tt_stream_current(TT_CL), s) &&
           tt_device_current(TT_DEVICE_CL).index == index;
}

TT_TEST(multigpu, test_stream_context)
{
    tt_stream *s0, *s1, *s2, *before;

    need_devices(2);
    s0 = tt_stream_current(TT_CL);
    before = tt_stream_current(tt_cl(1));
    s1 = tt_stream_new(tt_cl(1), NULL);
    s2 = tt_stream_new(tt_cl(0), NULL);
    TT_REQUIRE(s0 != NULL && s1 != NULL && s2 != NULL);
    TT_STREAM_SCOPE(s1)
    {
        TT_CHECK(current_is(s1, 1));
        TT_STREAM_SCOPE(s2)
        {
            TT_CHECK(current_is(s2, 0));
            TT_STREAM_SCOPE(s0)
            TT_CHECK(current_is(s0, 0));
            TT_CHECK(current_is(s2, 0));
        }
        TT_CHECK(current_is(s1, 1));
    }
    TT_CHECK(tt_stream_equal(tt_stream_current(tt_cl(1)), before));
    TT_CHECK(current_is(s0, 0));
    tt_stream_free(s1);
    tt_stream_free(s2);
}

TT_TEST(multigpu, test_streams_multi_gpu)
{
    tt_stream *s0, *s1;

    need_devices(2);
    s0 = tt_stream_current(TT_CL);
    TT_CHECK(same(tt_stream_device(s0), 0));
    s1 = tt_stream_new(tt_cl(1), NULL);
    TT_CHECK(same(tt_stream_device(s1), 1));
    TT_DEVICE_SCOPE(tt_cl(1))
    {
        TT_CHECK(same(tt_stream_device(tt_stream_current(TT_CL)), 1));
        TT_CHECK(!tt_stream_equal(tt_stream_current(TT_CL), s0));
    }
    tt_stream_free(s1);
}

/* ---- questions ------------------------------------------------------------------------------------- */

/* Both questions from no scope and from a scope of either device. */
static bool all_say(tt_stream *s0, bool done0, tt_stream *s1, bool done1)
{
    bool good = is_done(s0) == done0 && is_done(s1) == done1;

    for (int i = 0; i < 2; i++)
        TT_DEVICE_SCOPE(tt_cl(i))
    good = good && is_done(s0) == done0 && is_done(s1) == done1;
    return good;
}

TT_TEST_LIMIT(multigpu, test_streams_multi_gpu_query, 120)
{
    tt_stream *s0, *s1;
    bool in_time = false, good = false;

    need_devices(2);
    s0 = tt_stream_current(tt_cl(0));
    s1 = tt_stream_current(tt_cl(1));
    for (int i = 0; i < ATTEMPTS && !in_time; i++) {
        int64_t start;

        sync_both();
        start = tti_now_ns();
        TT_DEVICE_SCOPE(tt_cl(1))
        TT_CHECK_OK(tt_stream_sleep(tt_stream_current(TT_CL), SLEEP));
        good = all_say(s0, true, s1, false);
        in_time = tti_now_ns() - start < (int64_t)SLEEP;
    }
    TT_CHECK(good);
    TT_DEVICE_SCOPE(tt_cl(0))
    TT_CHECK_OK(tt_stream_sync(s1));
    TT_CHECK(all_say(s0, true, s1, true));
}

TT_TEST(multigpu, test_streams_multi_gpu_eq)
{
    tt_stream *a, *b, *c, *d;

    need_devices(2);
    TT_DEVICE_SCOPE(tt_cl(0))
    {
        a = tt_stream_current(TT_CL);
        b = tt_stream_current(TT_CL);
    }
    TT_DEVICE_SCOPE(tt_cl(1))
    {
        c = tt_stream_current(TT_CL);
        d = tt_stream_current(TT_CL);
    }
    TT_CHECK(tt_stream_equal(a, b));
    TT_CHECK(tt_stream_equal(c, d));
    TT_CHECK(!tt_stream_equal(c, a));
    TT_CHECK(tt_stream_hash(a) == tt_stream_hash(b));
    TT_CHECK(tt_stream_hash(c) == tt_stream_hash(d));
    TT_CHECK(tt_stream_hash(a) != tt_stream_hash(c));
    TT_CHECK(tt_device_equal(tt_stream_device(a), tt_stream_device(b)));
    TT_CHECK(!tt_device_equal(tt_stream_device(a), tt_stream_device(c)));
    TT_CHECK_PTR(tt_stream_native(a), tt_stream_native(b));
    TT_CHECK_PTR(tt_stream_native(c), tt_stream_native(d));
    TT_CHECK_NOT_NULL(tt_stream_native(a));
}

/* Where the driver has no priorities the range is (0, 0): no number is reported that has no effect. */
TT_TEST(multigpu, test_streams_priority)
{
    int low, high;
    tt_device_properties p;
    tt_stream *s0, *s1;

    need_devices(2);
    TT_REQUIRE_OK(tt_stream_priorities(TT_CL, &low, &high));
    TT_REQUIRE_OK(tt_device_properties_get(tt_cl(0), &p));
    TT_CHECK_EQ(p.has_priorities, high < low);
    if (!p.has_priorities)
        TT_CHECK(low == 0 && high == 0);
    s0 = tt_stream_new(tt_cl(0), &(tt_stream_options){ .priority = low });
    s1 = tt_stream_new(tt_cl(1), &(tt_stream_options){ .priority = high });
    TT_REQUIRE(s0 != NULL && s1 != NULL);
    TT_CHECK_EQ(tt_stream_priority(s0), low);
    TT_CHECK(same(tt_stream_device(s0), 0));
    TT_CHECK_EQ(tt_stream_priority(s1), high);
    TT_CHECK(same(tt_stream_device(s1), 1));
    TT_CHECK_NULL(tt_stream_new(tt_cl(0), &(tt_stream_options){ .priority = high - 1 }));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    tt_stream_free(s0);
    tt_stream_free(s1);
}

/* ---- queues of others ----------------------------------------------------------------------------- */

static void external(int index, tt_device d)
{
    tt_device_native n;
    cl_command_queue raw;
    tt_stream *a, *b;
    cl_int code = -1;

    TT_REQUIRE_OK(tt_device_native_get(tt_cl(index), &n));
    raw = tti_cl.CreateCommandQueue(n.context, n.device, 0, &code);
    TT_REQUIRE_EQ(code, 0);
    TT_REQUIRE_NOT_NULL(raw);
    a = tt_stream_wrap(d, raw);
    b = tt_stream_wrap(d, raw);
    TT_REQUIRE(a != NULL && b != NULL);
    TT_CHECK_PTR(tt_stream_native(a), raw);
    TT_CHECK_PTR(tt_stream_native(b), raw);
    TT_CHECK_EQ(tt_stream_device(a).index, index);
    TT_CHECK_EQ(tt_stream_device(b).index, index);
    TT_CHECK(tt_stream_equal(a, b));
    TT_CHECK_OK(tt_stream_sync(a));
    for (int i = 0; i < ATTEMPTS && !is_done(b); i++)
        TT_CHECK(i < ATTEMPTS - 1);
    TT_CHECK_EQ(tti_cl.ReleaseCommandQueue(raw), 0);
    tt_stream_free(a);
    tt_stream_free(b);
}

TT_TEST(multigpu, test_external_streams)
{
    need_devices(1);
    external(0, TT_CL);
    external(0, tt_cl(0));
}

TT_TEST(multigpu, test_external_streams_multi_device)
{
    need_devices(2);
    external(1, tt_cl(1));
}
