/* SPDX-License-Identifier: Apache-2.0 */
/* tutti doctor: what this machine has, whether it works, and what to do about what does not. */
#include "doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tutti/base.h"
#include "tutti/stream.h"

#define GIB (1024.0 * 1024 * 1024)
#define LEAST_SHARED (256.0 * 1024 * 1024) /* what a few ranks with large messages use */

void tti_doctor_say(tti_doctor *d, const char *what, tti_state state, const char *advice,
                    const char *format, ...)
{
    static const char *const states[] = { "ok", "note", "broken" };
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tti_table_add(&d->table, what);
    tti_table_add(&d->table, states[state]);
    tti_table_add(&d->table, text);
    tti_table_add(&d->table, advice != NULL ? advice : "");
    d->broken = d->broken || state == TTI_STATE_BROKEN;
}

/* ---- the host ------------------------------------------------------------------------------------ */

/* The value of the first line of a file that begins with `key`; false: none. */
static bool line_of(const char *path, const char *key, char *value, size_t size)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(path, "r");

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');

        if (colon == NULL || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%s", colon);
        value[strcspn(value, "\n")] = '\0';
        found = true;
    }
    if (f != NULL)
        fclose(f);
    return found;
}

static void look_at_host(tti_doctor *d)
{
    char name[256] = "unknown", total[64] = "0", available[64] = "0";

    line_of("/proc/cpuinfo", "model name", name, sizeof name);
    line_of("/proc/meminfo", "MemTotal", total, sizeof total);
    line_of("/proc/meminfo", "MemAvailable", available, sizeof available);
    tti_doctor_say(d, "library", TTI_STATE_OK, NULL, "tutti %s", tt_version());
    tti_doctor_say(d, "cpu", TTI_STATE_OK, NULL, "%s, %ld cores, operators use %d threads", name,
                   sysconf(_SC_NPROCESSORS_ONLN), tt_get_num_threads());
    tti_doctor_say(d, "cpu kernels", TTI_STATE_OK, NULL, "%s", tt_cpu_kernels());
    tti_doctor_say(d, "memory", TTI_STATE_OK, NULL, "%.1f GiB, %.1f GiB available",
                   atof(total) * 1024 / GIB, atof(available) * 1024 / GIB);
}

static void look_at_shared_memory(tti_doctor *d)
{
    struct statvfs v;
    double all, left;

    if (statvfs("/dev/shm", &v) != 0 || access("/dev/shm", W_OK) != 0) {
        tti_doctor_say(d, "shared memory", TTI_STATE_BROKEN,
                       "mount it: mount -t tmpfs shm /dev/shm",
                       "/dev/shm cannot be written: ranks of one host need it");
        return;
    }
    all = (double)v.f_blocks * (double)v.f_frsize;
    left = (double)v.f_bavail * (double)v.f_frsize;
    tti_doctor_say(d, "shared memory", left < LEAST_SHARED ? TTI_STATE_NOTE : TTI_STATE_OK,
                   left < LEAST_SHARED ? "give it more: mount -o remount,size=2g /dev/shm, or "
                                         "docker run --shm-size=2g"
                                       : NULL,
                   "/dev/shm: %.2f GiB, %.2f GiB free", all / GIB, left / GIB);
}

/* ---- devices -------------------------------------------------------------------------------------- */

static void look_at_device(tti_doctor *d, int index)
{
    tt_device_properties p;
    char name[16];

    tt_device_name(tt_cl(index), name, sizeof name);
    if (tt_device_properties_get(tt_cl(index), &p) != TT_OK) {
        tti_doctor_say(d, name, TTI_STATE_BROKEN, NULL, "%s", tt_last_error());
        return;
    }
    tti_doctor_say(d, name, TTI_STATE_OK, NULL,
                   "%s (%s): %d units, %.1f GiB, blocks up to %.1f GiB, groups of %d; float64: %s; "
                   "float16: %s; priorities: %s",
                   p.name, p.driver, p.units, (double)p.memory / GIB,
                   (double)p.max_allocation / GIB, p.group, p.has_fp64 ? "yes" : "no",
                   p.has_fp16 ? "yes" : "stored, computed as float32",
                   p.has_priorities ? "yes" : "no");
}

static void look_at_cache(tti_doctor *d)
{
    const char *path = tt_device_kernel_cache(TT_DEVICE_CL);
    struct stat st;
    double bytes = 0;
    int n = 0;
    DIR *dir;

    if (path == NULL) {
        tti_doctor_say(d, "kernel cache", TTI_STATE_NOTE,
                       "unset TUTTI_CL_CACHE, or set it to a directory",
                       "off: every process builds its kernels anew");
        return;
    }
    dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        if (strstr(e->d_name, ".bin") != NULL && fstatat(dirfd(dir), e->d_name, &st, 0) == 0) {
            bytes += (double)st.st_size;
            n++;
        }
    if (dir != NULL)
        closedir(dir);
    if (stat(path, &st) == 0 &&
        ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0))
        tti_doctor_say(d, "kernel cache", TTI_STATE_NOTE,
                       "set TUTTI_CL_CACHE to a directory of your own that others cannot write to",
                       "%s is not used: others could put programs there", path);
    else if (dir == NULL || access(path, W_OK) != 0)
        tti_doctor_say(d, "kernel cache", TTI_STATE_NOTE,
                       "set TUTTI_CL_CACHE to a directory that can be written",
                       "%s cannot be used: every process builds its kernels anew", path);
    else
        tti_doctor_say(d, "kernel cache", TTI_STATE_OK, NULL, "%s: %d programs, %.1f MiB", path, n,
                       bytes / 1024 / 1024);
}

static void look_at_clblast(tti_doctor *d)
{
    tt_device_properties p;
    void *lib = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    bool cpu = tt_device_properties_get(tt_cl(0), &p) == TT_OK && p.is_cpu;

    if (lib != NULL)
        tti_doctor_say(d, "clblast", TTI_STATE_OK, NULL, "found%s",
                       cpu ? "; CPUs multiply with OpenBLAS, which is faster there" : "");
    else
        tti_doctor_say(d, "clblast", cpu ? TTI_STATE_OK : TTI_STATE_NOTE,
                       cpu ? NULL : "apt install libclblast1",
                       cpu ? "not there, and not needed on CPUs"
                           : "not there: products of matrices use our own kernel, which is slower");
    if (lib != NULL)
        dlclose(lib);
}

static void look_at_devices(tti_doctor *d, bool all)
{
    int n = tt_device_count(TT_DEVICE_CL);

    if (n == 0) {
        tti_doctor_say(d, "opencl", TTI_STATE_NOTE,
                       "for an OpenCL device on this CPU: apt install pocl-opencl-icd",
                       "no devices: %s", tt_device_missing(TT_DEVICE_CL));
        return;
    }
    tti_doctor_say(d, "opencl", TTI_STATE_OK, NULL, n == 1 ? "%d device" : "%d devices", n);
    for (int i = 0; i < n; i++)
        look_at_device(d, i);
    tti_doctor_kernels(d, tt_cl(0), all);
    look_at_cache(d);
    look_at_clblast(d);
}

static int run(const tti_args *args)
{
    static const char *const columns[] = { "what", "state", "found", "to do" };
    tti_doctor d = { .table = { .columns = columns, .n_columns = 4 } };
    int status;

    look_at_host(&d);
    look_at_shared_memory(&d);
    look_at_devices(&d, args->kernels);
    status = tti_table_finish(&d.table, args->format);
    return status == TTI_EXIT_OK && d.broken ? TTI_EXIT_FAILED : status;
}

const tti_command tti_command_doctor = {
    .name = "doctor",
    .arguments = "[--kernels] [--tsv | --json]",
    .summary = "look for what is missing or broken here, and say what to do",
    .help =
        "Looks at the CPU, memory, shared memory and OpenCL devices, runs one operator of every\n"
        "family of kernels on the first device and compares it with the CPU. Each line says what\n"
        "was looked at, whether it is ok, a note (optional, or could be better) or broken, what\n"
        "was found, and what to do. The exit code is 1 when something is broken.\n\n"
        "  --kernels   try every element type, not only float32; builds and keeps all of them\n",
    .takes_kernels = true,
    .run = run,
};
