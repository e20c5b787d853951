/* SPDX-License-Identifier: Apache-2.0 */
/* What single calls cost on cl:0, against the same thing asked of OpenCL itself (opened at run time, in the library's own
 * context), OpenBLAS and CLBlast. Sides take turns; figures are medians. A line per comparison: case, metric,
 * ours, the other's name, the other's.
 *
 * usage: device [ROUNDS] */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tutti/stream.h"
#include "tutti/tutti.h"

enum {
    MAX_ROUNDS = 1000,
    CALLS = 200,
    QUICK_CALLS = 20000, /* of what takes nanoseconds */
    SMALL = 1024,
    USES = 2,
    LAZY = 1 << 20,
    BLOCK = 64 << 20, /* more than C libraries keep for themselves when it is freed */
    LARGE = 64 << 20,
    SIDE = 512
};

#define CL_FUNCTIONS(X)        \
    X(CreateCommandQueue)      \
    X(CreateBuffer)            \
    X(ReleaseMemObject)        \
    X(CreateProgramWithSource) \
    X(BuildProgram)            \
    X(CreateKernel)            \
    X(SetKernelArg)            \
    X(EnqueueNDRangeKernel)    \
    X(EnqueueFillBuffer)       \
    X(EnqueueCopyBuffer)       \
    X(Finish)

static struct {
#define X(name) __typeof__(cl##name) *name;
    CL_FUNCTIONS(X)
#undef X
} cl;

static struct {
    cl_context context;
    cl_device_id device, to;
    cl_command_queue queue;
} raw;

static tt_device here, there; /* cl:0 and, if there is one, cl:1 */
static int rounds = 41;

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sides take turns; each returns the microseconds that count. medians[i] is that of side i. */
static void compare(double (*const *sides)(void), int n, double *medians)
{
    static double times[4][MAX_ROUNDS];

    for (int i = 0; i < n; i++)
        (void)sides[i]();
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < n; i++)
            times[i][r] = sides[i]();
    for (int i = 0; i < n; i++) {
        qsort(times[i], (size_t)rounds, sizeof times[i][0], by_size);
        medians[i] = times[i][rounds / 2];
    }
}

static void row(const char *name, const char *metric, double ours, const char *peer, double theirs)
{
    printf("%s\t%s\t%.6g\t%s\t%.6g\n", name, metric, ours, peer, theirs);
    fflush(stdout);
}

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "device: %s: %s\n", what, tt_last_error());
    exit(1);
}

static void start(void)
{
    tt_device_native n;
    void *lib = dlopen("libOpenCL.so.1", RTLD_NOW);

    here = tt_cl(0);
    need(lib != NULL && tt_device_count(TT_DEVICE_CL) > 0, "no OpenCL device");
    there = tt_cl(tt_device_count(TT_DEVICE_CL) > 1 ? 1 : 0);
#define X(name) *(void **)&cl.name = dlsym(lib, "cl" #name);
    CL_FUNCTIONS(X)
#undef X
    need(tt_device_native_get(there, &n) == TT_OK, "handles");
    raw.to = n.device;
    need(tt_device_native_get(here, &n) == TT_OK, "handles");
    raw.context = n.context;
    raw.device = n.device;
    raw.queue = cl.CreateCommandQueue(raw.context, raw.device, 0, NULL);
    need(raw.queue != NULL, "a queue");
}

/* ---- a: enqueueing an element-wise operator -------------------------------------------------------- */

static cl_kernel bare;
static cl_mem bare_args[3];
static tt_tensor *x, *y;

static void enqueue_open(void)
{
    static const char *text =
        "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void add("
        "__global float *c, __global const float *a, __global const float *b, ulong n)"
        "{ for (ulong i = 0; i < n; i++) c[i] = a[i] + b[i]; }";
    cl_program p = cl.CreateProgramWithSource(raw.context, 1, &text, NULL, NULL);

    need(cl.BuildProgram(p, 1, &raw.device, "", NULL, NULL) == CL_SUCCESS, "build");
    bare = cl.CreateKernel(p, "add", NULL);
    for (int i = 0; i < 3; i++)
        bare_args[i] = cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE, SMALL * 4, NULL, NULL);
    x = tt_tensor_retain(tt_ones(TT_SHAPE(SMALL), TT_F32, here));
    y = tt_tensor_retain(tt_ones(TT_SHAPE(SMALL), TT_F32, here));
    need(x != NULL && y != NULL, "tensors");
}

static double enqueue_ours(void)
{
    double from = now_us(), us;

    TT_NO_GRAD
    {
        for (int i = 0; i < CALLS; i++)
            TT_SCOPE
                need(tt_add(x, y) != NULL, "add");
    }
    us = (now_us() - from) / CALLS;
    need(tt_device_sync(here) == TT_OK, "sync");
    return us;
}

static double enqueue_raw(void)
{
    size_t one = 1;
    cl_ulong n = SMALL;
    double from = now_us(), us;

    for (int i = 0; i < CALLS; i++) {
        for (cl_uint a = 0; a < 3; a++)
            cl.SetKernelArg(bare, a, sizeof bare_args[a], &bare_args[a]);
        cl.SetKernelArg(bare, 3, sizeof n, &n);
        cl.EnqueueNDRangeKernel(raw.queue, bare, 1, NULL, &one, &one, 0, NULL, NULL);
    }
    us = (now_us() - from) / CALLS;
    cl.Finish(raw.queue);
    return us;
}

/* ---- b: memory from the cache ------------------------------------------------------------------------ */

static double from_cache(size_t bytes)
{
    double from = now_us();

    for (int i = 0; i < QUICK_CALLS; i++) {
        void *p = tt_memory_alloc(here, bytes);

        need(p != NULL, "memory");
        tt_memory_free(here, p, bytes);
    }
    return (now_us() - from) / QUICK_CALLS;
}

static double cache_ours(void)
{
    return from_cache(BLOCK);
}

static double cache_ours_lazy(void)
{
    return from_cache(LAZY);
}

/* Nothing is behind such a buffer yet. */
static double buffer_raw(void)
{
    double from = now_us();

    for (int i = 0; i < QUICK_CALLS; i++)
        cl.ReleaseMemObject(cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE, LAZY, NULL, NULL));
    return (now_us() - from) / QUICK_CALLS;
}

static void fill(cl_mem m)
{
    cl_uint zero = 0;

    cl.EnqueueFillBuffer(raw.queue, m, &zero, sizeof zero, 0, BLOCK, 0, NULL, NULL);
    cl.Finish(raw.queue);
}

/* What a new buffer costs until it is written once, without what the writing costs in an old one. */
static double used_buffer_raw(void)
{
    static cl_mem old;
    double from = now_us(), used, again;

    for (int i = 0; i < USES; i++) {
        cl_mem m = cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE, BLOCK, NULL, NULL);

        fill(m);
        cl.ReleaseMemObject(m);
    }
    used = now_us() - from;
    if (old == NULL)
        old = cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE, BLOCK, NULL, NULL);
    from = now_us();
    for (int i = 0; i < USES; i++)
        fill(old);
    again = now_us() - from;
    return (used - again) / (USES);
}

/* ---- c: copies between devices -------------------------------------------------------------------------- */

static tt_tensor *copy_from, *copy_to;
static cl_mem raw_from, raw_to;

static void copy_open(void)
{
    copy_from = tt_tensor_retain(tt_zeros(TT_SHAPE(LARGE), TT_U8, here));
    copy_to = tt_tensor_retain(tt_zeros(TT_SHAPE(LARGE), TT_U8, there));
    raw_from = cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE, LARGE, NULL, NULL);
    raw_to = cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE, LARGE, NULL, NULL);
    need(copy_from != NULL && copy_to != NULL && raw_from != NULL && raw_to != NULL, "memory");
    cl.EnqueueFillBuffer(raw.queue, raw_from, &(cl_uint){ 0 }, 4, 0, LARGE, 0, NULL, NULL);
    cl.EnqueueFillBuffer(raw.queue, raw_to, &(cl_uint){ 0 }, 4, 0, LARGE, 0, NULL, NULL);
    cl.Finish(raw.queue);
}

static double copy_ours(void)
{
    double from = now_us();

    TT_SCOPE
        need(tt_copy_(copy_to, copy_from) != NULL, "copy");
    need(tt_device_sync(there) == TT_OK, "sync");
    return now_us() - from;
}

static double copy_raw(void)
{
    double from = now_us();

    cl.EnqueueCopyBuffer(raw.queue, raw_from, raw_to, 0, 0, LARGE, 0, NULL, NULL);
    cl.Finish(raw.queue);
    return now_us() - from;
}

/* ---- d: products of matrices ------------------------------------------------------------------------------- */

static tt_tensor *a, *b;
static float *host[3];
static cl_mem blast_args[3];
static int (*clblast)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t, cl_mem,
                      size_t, size_t, float, cl_mem, size_t, size_t, cl_command_queue *,
                      cl_event *);

static void gemm_open(void)
{
    size_t bytes = sizeof(float) * SIDE * SIDE;
    void *lib = dlopen("libclblast.so.1", RTLD_NOW);

    if (lib != NULL)
        *(void **)&clblast = dlsym(lib, "CLBlastSgemm");
    a = tt_tensor_retain(tt_ones(TT_SHAPE(SIDE, SIDE), TT_F32, here));
    b = tt_tensor_retain(tt_ones(TT_SHAPE(SIDE, SIDE), TT_F32, here));
    for (int i = 0; i < 3; i++) {
        host[i] = calloc(1, bytes);
        need(host[i] != NULL, "memory");
        for (int j = 0; j < SIDE * SIDE; j++)
            host[i][j] = 1.0f;
        blast_args[i] = cl.CreateBuffer(raw.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                        bytes, host[i], NULL);
    }
}

static double gemm_ours(void)
{
    double from = now_us();

    TT_NO_GRAD
    {
        TT_SCOPE
            need(tt_mm(a, b) != NULL, "mm");
    }
    need(tt_device_sync(here) == TT_OK, "sync");
    return now_us() - from;
}

static double gemm_openblas(void)
{
    double from = now_us();

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1.0f, host[0], SIDE,
                host[1], SIDE, 0.0f, host[2], SIDE);
    return now_us() - from;
}

static double gemm_clblast(void)
{
    double from = now_us();

    need(clblast(101, 111, 111, SIDE, SIDE, SIDE, 1.0f, blast_args[0], 0, SIDE, blast_args[1], 0,
                 SIDE, 0.0f, blast_args[2], 0, SIDE, &raw.queue, NULL) == 0,
         "CLBlast");
    cl.Finish(raw.queue);
    return now_us() - from;
}

int main(int argc, char **argv)
{
    double m[4];

    if (argc > 1)
        rounds = atoi(argv[1]) < MAX_ROUNDS ? atoi(argv[1]) : MAX_ROUNDS;
    start();
    enqueue_open();
    compare((double (*const[])(void)){ enqueue_ours, enqueue_raw }, 2, m);
    row("enqueue", "us per call", m[0], "bare kernel", m[1]);
    compare((double (*const[])(void)){ cache_ours, used_buffer_raw, cache_ours_lazy, buffer_raw },
            4, m);
    row("memory", "us per block", m[0], "buffer, used once", m[1]);
    row("memory (lazy)", "us per block", m[2], "buffer, never used", m[3]);
    copy_open();
    compare((double (*const[])(void)){ copy_ours, copy_raw }, 2, m);
    row("copy", "GB/s", LARGE / m[0] * 1e-3, "raw copy", LARGE / m[1] * 1e-3);
    gemm_open();
    compare((double (*const[])(void)){ gemm_ours, gemm_openblas }, 2, m);
    row("gemm", "GFLOP/s", 2e-3 * SIDE * SIDE * SIDE / m[0], "OpenBLAS",
        2e-3 * SIDE * SIDE * SIDE / m[1]);
    if (clblast == NULL)
        return 0;
    rounds = rounds < 11 ? rounds : 11;
    compare((double (*const[])(void)){ gemm_ours, gemm_clblast }, 2, m);
    row("gemm", "GFLOP/s", 2e-3 * SIDE * SIDE * SIDE / m[0], "CLBlast",
        2e-3 * SIDE * SIDE * SIDE / m[1]);
    return 0;
}
