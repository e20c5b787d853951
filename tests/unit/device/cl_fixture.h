/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of OpenCL devices have in common: a small program, and running it. */
#ifndef TESTS_UNIT_DEVICE_CL_FIXTURE_H
#define TESTS_UNIT_DEVICE_CL_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/launch.h"
#include "device/opencl/cl.h"
#include "tutti/testing.h"

/* Ends the test as skipped unless there are n devices. */
static inline void need_devices(int n)
{
    if (tt_device_count(TT_DEVICE_CL) == 0)
        tt_test_skip(TT_TEST_SKIP_NO_ACCELERATOR, "%s", tt_device_missing(TT_DEVICE_CL));
    if (tt_device_count(TT_DEVICE_CL) < n)
        tt_test_skip(TT_TEST_SKIP_2_DEVICES, "expected %d devices, got %d", n,
                     tt_device_count(TT_DEVICE_CL));
}

/* y[i] = x[i] * SCALE + 1 over int32, and a second kernel beside it. */
static const char fixture_text[] = "KERNEL void scale(MEM(i32, y), MEM(const i32, x), u64 n)\n"
                                   "{\n"
                                   "    OPEN(i32, y);\n"
                                   "    OPEN(const i32, x);\n"
                                   "    FOR_EACH(i, n)\n"
                                   "        y[i] = x[i] * SCALE + 1;\n"
                                   "}\n";
static const char fixture_more[] = "KERNEL void fill(MEM(i32, y), i32 value, u64 n)\n"
                                   "{\n"
                                   "    OPEN(i32, y);\n"
                                   "    FOR_EACH(i, n)\n"
                                   "        y[i] = value;\n"
                                   "}\n";
static const tti_program fixture_program = { "fixture", { fixture_text, fixture_more } };
static const tti_program fixture_single = { "single", { fixture_text } };

/* Device memory of n int32. */
static inline int32_t *fixture_alloc(tt_device d, int n)
{
    const tti_driver *drv = tti_driver_of(d);

    return drv != NULL ? drv->alloc(d.index, (size_t)n * 4) : NULL;
}

static inline void fixture_free(tt_device d, int32_t *p, int n)
{
    if (p != NULL)
        tti_driver_of(d)->free(d.index, p, (size_t)n * 4);
}

static inline tt_status fixture_fill(tt_device d, int32_t *y, int32_t value, int n)
{
    static tti_kernel_slot slot;
    tti_kernel *k = tti_kernel_get(&slot, d, &fixture_program, "-DSCALE=3", "fill");
    uint64_t count = (uint64_t)n;
    tti_arg args[] = { TTI_MEM(y), TTI_VAL(value), TTI_VAL(count) };

    if (k == NULL)
        return tt_last_status();
    return tti_launch(d, k, tti_grid_elements(d, count), args, 3);
}

static inline tt_status fixture_scale(tt_device d, int32_t *y, const int32_t *x, int n)
{
    static tti_kernel_slot slot;
    tti_kernel *k = tti_kernel_get(&slot, d, &fixture_program, "-DSCALE=3", "scale");
    uint64_t count = (uint64_t)n;
    tti_arg args[] = { TTI_MEM(y), TTI_MEM(x), TTI_VAL(count) };

    if (k == NULL)
        return tt_last_status();
    return tti_launch(d, k, tti_grid_elements(d, count), args, 3);
}

/* Run the kernel `scale` of p, built with SCALE = factor, over `n` numbers; whether all came out right. */
static inline bool fixture_runs(tt_device d, const tti_program *p, int factor)
{
    enum { N = 1000 };
    int32_t host[N], *x = fixture_alloc(d, N), *y = fixture_alloc(d, N);
    const tti_driver *drv = tti_driver_of(d);
    uint64_t n = N;
    tti_arg args[] = { TTI_MEM(y), TTI_MEM(x), TTI_VAL(n) };
    char options[32];
    tti_kernel *k;
    bool good;

    for (int i = 0; i < N; i++)
        host[i] = i;
    snprintf(options, sizeof options, "-DSCALE=%d", factor);
    k = tti_kernel_build(d, p, options, "scale");
    good = k != NULL && x != NULL && y != NULL &&
           drv->copy_in(d.index, x, host, sizeof host) == TT_OK &&
           tti_launch(d, k, tti_grid_elements(d, n), args, 3) == TT_OK &&
           drv->copy_out(d.index, host, y, sizeof host) == TT_OK;
    for (int i = 0; good && i < N; i++)
        good = host[i] == i * factor + 1;
    fixture_free(d, x, N);
    fixture_free(d, y, N);
    return good;
}

/* The exit code of a child that runs fn(arg), whose result is its exit code; -1 if it ended otherwise. To be
 * called before this process has used a device. */
static inline pid_t child_start(int (*fn)(void *arg), void *arg)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(fn(arg));
    return pid;
}

static inline int child_end(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int in_child(int (*fn)(void *arg), void *arg)
{
    return child_end(child_start(fn, arg));
}

#endif
