/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL driver where things are missing or go wrong: no loader, no devices, no memory, devices that are lost,
 * children, and programs that end with work queued. */
#include <signal.h>

#include "cl_fixture.h"
#include "device/opencl/cl.h"

enum { N = 1000, SKIP = 86 };

/* ---- what may be missing --------------------------------------------------------------------------- */

/* In a child: there are no devices, and `words` say why. */
static int nothing_there(void *words)
{
    tt_device d;

    if (tt_device_count(TT_DEVICE_CL) != 0 ||
        strstr(tt_device_missing(TT_DEVICE_CL), words) == NULL)
        return 1;
    if (tt_device_parse("cl:0", &d) != TT_ERR_NOT_FOUND || strstr(tt_last_error(), words) == NULL)
        return 2;
    if (tt_stream_new(TT_CL, NULL) != NULL || tt_last_status() != TT_ERR_NOT_FOUND)
        return 3;
    if (tt_device_sync(tt_cl(0)) != TT_ERR_NOT_FOUND)
        return 4;
    return tt_device_parse("cpu", &d) == TT_OK ? 0 : 5; /* everything else works */
}

TT_TEST(opencl, no_loader_is_said)
{
    setenv("TUTTI_CL_LIBRARY", "/nonexistent/libOpenCL.so.1", 1);
    TT_CHECK_EQ(in_child(nothing_there, (void *)"ocl-icd-libopencl1"), 0);
}

TT_TEST(opencl, a_library_that_is_no_loader_is_said)
{
    setenv("TUTTI_CL_LIBRARY", "libm.so.6", 1);
    TT_CHECK_EQ(in_child(nothing_there, (void *)"older than OpenCL 1.2"), 0);
}

TT_TEST(opencl, no_driver_is_said)
{
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    TT_CHECK_EQ(in_child(nothing_there, (void *)"pocl-opencl-icd"), 0);
}

TT_TEST(opencl, no_such_platform_is_said)
{
    setenv("TUTTI_CL_PLATFORM", "No Such Platform", 1);
    TT_CHECK_EQ(in_child(nothing_there, (void *)"TUTTI_CL_PLATFORM"), 0);
}

static int runs_on_all(void *n)
{
    if (tt_device_count(TT_DEVICE_CL) == 0)
        return SKIP;
    if (tt_device_count(TT_DEVICE_CL) != *(int *)n)
        return 1;
    for (int i = 0; i < *(int *)n; i++)
        if (!fixture_runs(tt_cl(i), &fixture_single, 3))
            return 2;
    return 0;
}

static void check_run(int code)
{
    if (code == SKIP)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, NULL);
    TT_CHECK_EQ(code, 0);
}

TT_TEST(opencl, several_whole_devices_work)
{
    int n = 3;

    setenv("POCL_DEVICES", "pthread pthread pthread", 1);
    setenv("TUTTI_CL_CACHE", tt_test_tmpdir(), 1); /* built, then read */
    unsetenv("TUTTI_CL_SPLIT");
    check_run(in_child(runs_on_all, &n));
    check_run(in_child(runs_on_all, &n));
}

/* Two threads make no five devices: they become names of one. */
TT_TEST(opencl, a_device_that_cannot_be_divided_gets_several_names)
{
    int n = 5;

    setenv("POCL_PTHREAD_MIN_THREADS", "2", 1);
    setenv("POCL_MAX_PTHREAD_COUNT", "2", 1);
    setenv("TUTTI_CL_SPLIT", "5", 1);
    check_run(in_child(runs_on_all, &n));
}

TT_TEST(opencl, one_device_is_one)
{
    int n = 1;

    unsetenv("TUTTI_CL_SPLIT");
    check_run(in_child(runs_on_all, &n));
}

TT_TEST(opencl, groups_of_many_items_work)
{
    int n = 3;

    setenv("TUTTI_CL_WG", "8", 1);
    check_run(in_child(runs_on_all, &n));
}

/* ---- asking for too much --------------------------------------------------------------------------- */

TT_TEST(opencl, unknown_devices_are_named)
{
    need_devices(1);
    TT_CHECK_ERR_SAYS(tt_device_use(tt_cl(99)), TT_ERR_NOT_FOUND, "cl:99");
    TT_CHECK_ERR_SAYS(tt_device_sync(tt_cl(99)), TT_ERR_NOT_FOUND, "cl:99");
    TT_CHECK_NULL(tt_stream_default(tt_cl(99)));
    TT_CHECK_NULL(tt_stream_new(tt_cl(-7), NULL));
    TT_DEVICE_SCOPE(tt_cl(99))
    TT_CHECK_EQ(tt_device_current(TT_DEVICE_CL).index, 0);
}

TT_TEST(opencl, too_much_memory_is_an_error_and_no_more)
{
    tt_device_properties p;
    int32_t *x;

    need_devices(1);
    TT_REQUIRE_OK(tt_device_properties_get(tt_cl(0), &p));
    TT_CHECK_NULL(tti_driver_of(tt_cl(0))->alloc(0, (size_t)p.memory + 1));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_NULL(tti_driver_of(tt_cl(0))->alloc(0, (size_t)p.max_allocation + 1));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_NULL(tti_driver_of(tt_cl(0))->alloc(0, SIZE_MAX / 2));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    x = fixture_alloc(tt_cl(0), N);
    TT_CHECK_NOT_NULL(x);
    fixture_free(tt_cl(0), x, N);
}

TT_TEST(opencl, wrong_arguments_of_kernels_are_errors)
{
    tti_kernel *k;
    int32_t value = 0, *x;
    uint64_t n = N;
    tti_arg host[] = { TTI_MEM(&value), TTI_MEM(&value), TTI_VAL(n) };
    tti_arg many[TTI_MAX_ARGS + 1] = { TTI_VAL(n) };

    need_devices(1);
    k = tti_kernel_build(tt_cl(0), &fixture_program, "-DSCALE=3", "scale");
    TT_REQUIRE_NOT_NULL(k);
    TT_CHECK_ERR_SAYS(tti_launch(tt_cl(0), k, (tti_grid){ 1 }, host, 3), TT_ERR_INVALID,
                      "not memory of an OpenCL device");
    TT_CHECK_ERR_SAYS(tti_launch(tt_cl(0), k, (tti_grid){ 1 }, many, TTI_MAX_ARGS + 1),
                      TT_ERR_INVALID, "at most");
    TT_CHECK_OK(tti_launch(tt_cl(0), k, (tti_grid){ 0 }, host, 3));
    x = fixture_alloc(tt_cl(0), N);
    TT_CHECK_OK(fixture_fill(tt_cl(0), x, 4, N));
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    fixture_free(tt_cl(0), x, N);
}

/* Segments come and go: a kernel must not go on with the arguments of one that is gone. */
TT_TEST(opencl, kernels_notice_that_buffers_are_gone)
{
    need_devices(1);
    for (int i = 0; i < 20; i++) {
        int32_t *x = fixture_alloc(tt_cl(0), N), host[N];

        TT_REQUIRE_NOT_NULL(x);
        TT_CHECK_OK(fixture_fill(tt_cl(0), x, i, N));
        TT_CHECK_OK(tti_driver_of(tt_cl(0))->copy_out(0, host, x, sizeof host));
        TT_CHECK_EQ(host[N - 1], i);
        fixture_free(tt_cl(0), x, N);
        tt_memory_empty_cache(tt_cl(0));
    }
}

/* The way of devices that are no CPUs. */
TT_TEST(opencl, small_copies_do_not_wait_on_other_devices_either)
{
    int32_t value = 41, back = 0, *x;
    tt_stream *s;
    bool done = true;

    need_devices(1);
    s = tt_stream_current(tt_cl(0));
    x = fixture_alloc(tt_cl(0), N);
    tti_cl_all.is_cpu = false;
    TT_CHECK_OK(tt_stream_sleep(s, 200000000u));
    TT_CHECK_OK(tti_cl_copy_in(s->queue, x, &value, sizeof value, false));
    value = 0;
    TT_CHECK_OK(tt_stream_query(s, &done));
    TT_CHECK_OK(tti_cl_copy_out(s->queue, &back, x, sizeof back, false));
    tti_cl_all.is_cpu = true;
    TT_CHECK_EQ(back, 41);
    fixture_free(tt_cl(0), x, N);
}

/* ---- lost devices ---------------------------------------------------------------------------------- */

static void everything_says_lost(tt_device d, int32_t *x)
{
    static const char words[] = "cl:1 was lost";
    int32_t host[N] = { 0 };
    const tti_driver *drv = tti_driver_of(d);
    tt_stream *s = tt_stream_default(d);
    tt_event *e = tt_event_new(NULL);
    bool done;

    TT_CHECK_ERR_SAYS(tt_device_sync(d), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(tt_stream_sync(s), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(tt_stream_query(s, &done), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(tt_stream_sleep(s, 10), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(tt_event_record(e, s), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(fixture_fill(d, x, 1, N), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(drv->copy_in(d.index, x, host, sizeof host), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(drv->copy_out(d.index, host, x, sizeof host), TT_ERR_DEVICE, words);
    TT_CHECK_ERR_SAYS(drv->copy(d.index, x, x + N / 2, 4), TT_ERR_DEVICE, words);
    TT_CHECK_NULL(drv->alloc(d.index, 1 << 20));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_DEVICE);
    TT_CHECK_NULL(tt_stream_new(d, NULL));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_DEVICE);
    tt_event_free(e);
}

TT_TEST(opencl, a_lost_device_stays_lost_and_others_work)
{
    int32_t *x;

    need_devices(2);
    if (tti_cl_all.devices[0].id == tti_cl_all.devices[1].id)
        TT_SKIP("the devices are one");
    x = fixture_alloc(tt_cl(1), N);
    TT_CHECK_OK(fixture_fill(tt_cl(1), x, 4, N));
    tti_cl_debug_lose(1, CL_OUT_OF_RESOURCES);
    TT_CHECK_ERR_SAYS(tt_device_sync(tt_cl(1)), TT_ERR_DEVICE, "CL_OUT_OF_RESOURCES");
    everything_says_lost(tt_cl(1), x);
    TT_CHECK(fixture_runs(tt_cl(0), &fixture_program, 3));
    TT_CHECK_OK(tt_device_sync(tt_cl(0)));
    fixture_free(tt_cl(1), x, N);
    tt_memory_empty_cache(tt_cl(1));
}

TT_TEST(opencl, events_tell_of_lost_devices)
{
    tt_event *e;

    need_devices(2);
    e = tt_event_new(NULL);
    TT_CHECK_OK(tt_stream_sleep(tt_stream_current(tt_cl(1)), 1000));
    TT_CHECK_OK(tt_event_record(e, tt_stream_current(tt_cl(1))));
    tti_cl_debug_lose(1, CL_DEVICE_NOT_AVAILABLE);
    TT_CHECK_ERR_SAYS(tt_event_sync(e), TT_ERR_DEVICE, "CL_DEVICE_NOT_AVAILABLE");
    TT_CHECK_ERR(tt_device_sync(tt_cl(1)), TT_ERR_DEVICE);
    tt_event_free(e);
}

/* ---- processes -------------------------------------------------------------------------------------- */

typedef struct inherited {
    int32_t *x;
    tt_event *e;
    tt_stream *s;
} inherited;

/* In a child that was forked with work queued: errors, and nothing hangs. */
static int use_in_child(void *arg)
{
    inherited *i = arg;
    bool done;

    alarm(20);
    if (tt_device_count(TT_DEVICE_CL) != 0 ||
        strstr(tt_device_missing(TT_DEVICE_CL), "forked") == NULL)
        return 1;
    tti_driver_cl.free(0, i->x, N * 4);
    if (tt_stream_sync(i->s) == TT_OK || tt_stream_query(i->s, &done) == TT_OK ||
        tt_stream_sleep(i->s, 1) == TT_OK)
        return 2;
    if (tt_event_sync(i->e) == TT_OK || tt_event_query(i->e, &done) == TT_OK ||
        tt_event_record(i->e, i->s) == TT_OK)
        return 3;
    tt_event_free(i->e);
    if (tti_driver_cl.alloc(0, 64) != NULL || tti_driver_cl.sync(0) == TT_OK ||
        tti_driver_cl.copy(0, i->x, i->x, 4) == TT_OK)
        return 4;
    if (tt_stream_new(TT_CL, NULL) != NULL || tt_last_status() != TT_ERR_NOT_FOUND)
        return 5;
    tt_stream_free(i->s);
    return 0;
}

TT_TEST(opencl, a_forked_child_gets_errors)
{
    inherited i;

    need_devices(1);
    i.s = tt_stream_new(tt_cl(0), NULL);
    i.e = tt_event_new(NULL);
    i.x = fixture_alloc(tt_cl(0), N);
    TT_CHECK_OK(fixture_fill(tt_cl(0), i.x, 1, N));
    TT_CHECK_OK(tt_stream_sleep(i.s, 100000000u));
    TT_CHECK_OK(tt_event_record(i.e, i.s));
    TT_CHECK_EQ(in_child(use_in_child, &i), 0);
    TT_CHECK_OK(tt_stream_sync(i.s));
    tt_event_free(i.e);
    fixture_free(tt_cl(0), i.x, N);
    tt_stream_free(i.s);
}

static int exit_with_work(void *unused)
{
    int32_t *x;

    (void)unused;
    alarm(60);
    if (tt_device_count(TT_DEVICE_CL) == 0)
        return SKIP;
    x = fixture_alloc(tt_cl(0), N);
    for (int i = 0; i < 50; i++)
        fixture_fill(tt_cl(0), x, i, N);
    tt_stream_sleep(tt_stream_current(tt_cl(0)), 3000000);
    for (int i = 0; i < 50; i++)
        fixture_fill(tt_cl(0), x, i, N);
    tt_stream_sleep(tt_stream_current(tt_cl(0)), 600000000000u);
    fixture_fill(tt_cl(0), x, 1, N);
    exit(0);
}

TT_TEST_LIMIT(opencl, programs_end_with_work_queued, 120)
{
    for (int i = 0; i < 5; i++)
        check_run(in_child(exit_with_work, NULL));
}

static void on_signal(int number)
{
    (void)number;
}

TT_TEST(opencl, builds_leave_signal_handlers_alone)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGFPE };
    static char memory[65536];
    struct sigaction mine = { .sa_handler = on_signal }, now;
    stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory }, before, after;
    char options[32];

    setenv("TUTTI_CL_CACHE", "off", 1);
    need_devices(1);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &mine, NULL);
    TT_REQUIRE_EQ(sigaltstack(&stack, &before), 0);
    for (int round = 0; round < 3; round++) {
        snprintf(options, sizeof options, "-DSCALE=%d", 100 + round);
        TT_CHECK_NOT_NULL(tti_kernel_build(tt_cl(0), &fixture_single, options, "scale"));
        TT_CHECK(fixture_runs(tt_cl(0), &fixture_program, 3));
        TT_CHECK_EQ(sigaltstack(NULL, &after), 0);
        TT_CHECK_PTR(after.ss_sp, memory);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            sigaction(numbers[i], NULL, &now);
            TT_CHECK(now.sa_handler == on_signal);
        }
    }
    TT_CHECK_EQ(sigaltstack(&before, NULL), 0);
}
