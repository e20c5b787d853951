/* SPDX-License-Identifier: Apache-2.0 */
/* Building programs: from binaries on disk, else from their text, which is then kept. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "device/opencl/cache_file.h"
#include "device/opencl/cl.h"

extern const char tti_source_prelude[];

#define LOG_BYTES 16384

tti_cl_builds tti_cl_build_counts;

/* Compilers inside drivers take over signals when they are first used: give them back. */
static const int signals[] = { SIGHUP,  SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS, SIGILL,
                               SIGABRT, SIGFPE, SIGTRAP, SIGQUIT, SIGSYS,  SIGXCPU, SIGXFSZ };
#define N_SIGNALS (sizeof signals / sizeof signals[0])

/* The first build from source, during which they do so, is made alone. */
static pthread_mutex_t mu_first = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool first_done;

static cl_int build(cl_program native, const char *options)
{
    struct sigaction saved[N_SIGNALS];
    bool first = false;
    stack_t stack;
    cl_int code;

    if (!atomic_load_explicit(&first_done, memory_order_acquire)) {
        pthread_mutex_lock(&mu_first);
        first = !atomic_load_explicit(&first_done, memory_order_relaxed);
        if (!first)
            pthread_mutex_unlock(&mu_first);
    }
    sigaltstack(NULL, &stack); /* LLVM puts one of its own in place of this thread's */
    for (size_t i = 0; first && i < N_SIGNALS; i++)
        sigaction(signals[i], NULL, &saved[i]);
    code = tti_cl.BuildProgram(native, 0, NULL, options, NULL, NULL);
    for (size_t i = 0; first && i < N_SIGNALS; i++)
        sigaction(signals[i], &saved[i], NULL);
    sigaltstack(&stack, NULL);
    if (first) {
        atomic_store_explicit(&first_done, true, memory_order_release);
        pthread_mutex_unlock(&mu_first);
    }
    return code;
}

static void all_options(char *text, size_t size, const char *options)
{
    snprintf(text, size, "-cl-std=CL1.2 -DWG=%d%s%s%s %s", tti_cl_all.group,
             tti_cl_all.is_cpu ? " -DHOST_ADDRESSES" : "",
             tti_cl_all.is_cpu && tti_cl_all.group == 1 ? " -DCPU_DEVICE" : "",
             tti_cl_all.devices[0].properties.has_fp64 ? " -DHAS_FP64" : "", options);
}

static cl_program fail_build(const tti_program *p, const char *options, cl_program native,
                             cl_int code)
{
    char *log = tti_calloc(1, LOG_BYTES);

    if (log != NULL)
        tti_cl.GetProgramBuildInfo(native, tti_cl_all.devices[0].id, CL_PROGRAM_BUILD_LOG,
                                   LOG_BYTES - 1, log, NULL);
    TT_FAIL(TT_ERR_INVALID, "cl: program %s with \"%s\" does not build: %s\n%.600s", p->name,
            options, TTI_CL_ERROR(code), log != NULL ? log : "");
    tti_mfree(log);
    tti_cl.ReleaseProgram(native);
    return NULL;
}

/* The prelude and the parts of p, ended by NULL. */
static cl_uint texts_of(const tti_program *p, const char *texts[TTI_MAX_PARTS + 2])
{
    cl_uint n = 0;

    texts[n++] = tti_source_prelude;
    for (int i = 0; i < TTI_MAX_PARTS && p->parts[i] != NULL; i++)
        texts[n++] = p->parts[i];
    texts[n] = NULL;
    return n;
}

/* One text is compiled at a time. With PoCL devices rest meanwhile, if they come to rest soon: it compiles kernels once
 * more when they are first launched, in threads of its own, and its compiler was seen to crash when both happen at once. */
static pthread_mutex_t mu_compiler = PTHREAD_MUTEX_INITIALIZER;

static void wait_for_rest(void)
{
    int64_t deadline = tti_deadline(2000);

    atomic_fetch_add(&tti_cl_build_counts.after_rest, 1);
    for (int i = 0; i < tti_cl_all.n; i++)
        while (!tti_streams_idle((tt_device){ TT_DEVICE_CL, (int16_t)i }) &&
               tti_now_ns() < deadline)
            nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

static cl_int compile(cl_program native, const char *options)
{
    cl_int code;

    pthread_mutex_lock(&mu_compiler);
    if (tti_cl_all.is_pocl)
        wait_for_rest();
    code = build(native, options);
    pthread_mutex_unlock(&mu_compiler);
    return code;
}

/* A driver whose own cache other processes are just writing may fail once. */
static cl_program from_source(const tti_program *p, const char *options)
{
    const char *texts[TTI_MAX_PARTS + 2];
    cl_uint n = texts_of(p, texts);

    for (bool again = false;; again = true) {
        cl_int code = CL_SUCCESS;
        cl_program native =
            tti_cl.CreateProgramWithSource(tti_cl_all.context, n, texts, NULL, &code);

        if (native == NULL)
            return tti_cl_fail("make a program", code), NULL;
        code = compile(native, options);
        if (code == CL_SUCCESS) {
            atomic_fetch_add(&tti_cl_build_counts.from_source, 1);
            return native;
        }
        if (again)
            return fail_build(p, options, native, code);
        tti_cl.ReleaseProgram(native);
    }
}

/* ---- the disk ------------------------------------------------------------------------------------ */

static void add_text(tti_sha256 *h, const char *text)
{
    tti_sha256_add(h, text, strlen(text) + 1);
}

/* The name of the file: the hash of everything that the binary depends on. */
static void name_of(const tti_program *p, const char *options, char name[TTI_CL_NAME_BYTES])
{
    const char *texts[TTI_MAX_PARTS + 2];
    uint8_t sum[TTI_SHA256_BYTES];
    tti_sha256 h;

    tti_sha256_begin(&h);
    add_text(&h, tt_version());
    add_text(&h, tti_cl_all.key);
    add_text(&h, options);
    texts_of(p, texts);
    for (int i = 0; texts[i] != NULL; i++)
        add_text(&h, texts[i]);
    tti_sha256_end(&h, sum);
    tti_sha256_text(sum, name);
}

static cl_program from_cache(const char *name, const char *options)
{
    const unsigned char *binaries[TTI_MAX_DEVICES];
    size_t sizes[TTI_MAX_DEVICES], bytes = 0;
    unsigned char *data = tti_cl_cache_read(name, &bytes);
    cl_program native;
    cl_int code = CL_SUCCESS;

    if (data == NULL)
        return NULL;
    for (int i = 0; i < tti_cl_all.n_ids; i++) {
        binaries[i] = data;
        sizes[i] = bytes;
    }
    native = tti_cl.CreateProgramWithBinary(tti_cl_all.context, (cl_uint)tti_cl_all.n_ids,
                                            tti_cl_all.ids, sizes, binaries, NULL, &code);
    tti_mfree(data);
    if (native != NULL && tti_cl.BuildProgram(native, 0, NULL, options, NULL, NULL) != CL_SUCCESS) {
        tti_cl.ReleaseProgram(native);
        native = NULL;
    }
    if (native == NULL)
        tti_cl_cache_drop(name);
    else
        atomic_fetch_add(&tti_cl_build_counts.from_disk, 1);
    return native;
}

/* The binaries of all devices in one block, one after the other; NULL: there are none. PoCL wants room for all of them,
 * although a NULL should leave one out. */
static unsigned char *binaries_of(cl_program native, size_t *first_p)
{
    size_t sizes[TTI_MAX_DEVICES] = { 0 }, all = 0;
    unsigned char *places[TTI_MAX_DEVICES] = { NULL }, *data;

    if (tti_cl.GetProgramInfo(native, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) !=
            CL_SUCCESS ||
        sizes[0] == 0)
        return NULL;
    for (int i = 0; i < tti_cl_all.n_ids; i++)
        all += sizes[i];
    data = tti_malloc(all);
    if (data == NULL)
        return NULL;
    all = 0;
    for (int i = 0; i < tti_cl_all.n_ids; i++) {
        places[i] = data + all;
        all += sizes[i];
    }
    *first_p = sizes[0];
    if (tti_cl.GetProgramInfo(native, CL_PROGRAM_BINARIES, sizeof places, places, NULL) ==
        CL_SUCCESS)
        return data;
    tti_mfree(data);
    return NULL;
}

/* The binary of the first device, which is that of all, to a file. */
static void keep(cl_program native, const char *name)
{
    size_t n_kernels = 0, bytes = 0;
    unsigned char *data;
    int claim;

    tti_cl.GetProgramInfo(native, CL_PROGRAM_NUM_KERNELS, sizeof n_kernels, &n_kernels, NULL);
    claim = tti_cl_cache_claim(name, !tti_cl_all.is_cpu || n_kernels == 1);
    if (claim < 0)
        return;
    data = binaries_of(native, &bytes);
    if (data != NULL) {
        tti_cl_cache_write(name, claim, data, bytes);
        tti_cl_cache_trim(TTI_CL_CACHE_BYTES);
        atomic_fetch_add(&tti_cl_build_counts.kept, 1);
    } else
        close(claim);
    tti_mfree(data);
}

cl_program tti_cl_program_build(const tti_program *p, const char *options)
{
    bool kept = tti_cl_all.alike && tti_cl_cache_directory() != NULL;
    char all[1024], name[TTI_CL_NAME_BYTES];
    cl_program native = NULL;

    all_options(all, sizeof all, options);
    if (kept) {
        name_of(p, all, name);
        native = from_cache(name, all);
    }
    if (native != NULL)
        return native;
    native = from_source(p, all);
    if (native != NULL && kept)
        keep(native, name);
    return native;
}
