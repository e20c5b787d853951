/* SPDX-License-Identifier: Apache-2.0 */
/* Building programs: from binaries on disk, else from their text, which is then kept. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/opencl/cl.h"

extern const char tti_source_prelude[];

#define LOG_BYTES 16384

/* Compilers inside drivers take over signals: give them back. */
static const int signals[] = { SIGHUP,  SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS, SIGILL,
                               SIGABRT, SIGFPE, SIGTRAP, SIGQUIT, SIGSYS,  SIGXCPU, SIGXFSZ };
#define N_SIGNALS (sizeof signals / sizeof signals[0])

static void save_signals(struct sigaction *saved)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i], NULL, &saved[i]);
}

static void restore_signals(const struct sigaction *saved)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigaction(signals[i], &saved[i], NULL);
}

static void all_options(char *text, size_t size, const char *options)
{
    snprintf(text, size, "-cl-std=CL1.2 -DWG=%d%s%s %s", tti_cl_all.group,
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

static cl_program from_source(const tti_program *p, const char *options)
{
    const char *parts[TTI_MAX_PARTS + 1] = { tti_source_prelude };
    cl_program native;
    cl_uint n = 1;
    cl_int code = CL_SUCCESS;

    while (n <= TTI_MAX_PARTS && p->parts[n - 1] != NULL) {
        parts[n] = p->parts[n - 1];
        n++;
    }
    native = tti_cl.CreateProgramWithSource(tti_cl_all.context, n, parts, NULL, &code);
    if (native == NULL)
        return tti_cl_fail("make a program", code), NULL;
    code = tti_cl.BuildProgram(native, 0, NULL, options, NULL, NULL);
    return code == CL_SUCCESS ? native : fail_build(p, options, native, code);
}

cl_program tti_cl_program_build(const tti_program *p, const char *options)
{
    struct sigaction saved[N_SIGNALS];
    char all[1024];
    cl_program native;

    all_options(all, sizeof all, options);
    save_signals(saved);
    native = from_source(p, all);
    restore_signals(saved);
    return native;
}
