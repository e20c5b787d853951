/* SPDX-License-Identifier: Apache-2.0 */
/* The start: finding a platform and its devices, and one context over them. Drivers are not safe against
 * being started by two threads, so it happens once, whoever asks first. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/mem.h"
#include "device/opencl/cl.h"

#define MAX_PLATFORMS 16
#define GPU_GROUP 64
#define PLATFORM_NAME 128

tti_cl_state tti_cl_all;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *why = ""; /* there are no devices */
static _Atomic bool begun;   /* the driver may have threads */

tt_status tti_cl_fail(const char *what, cl_int code)
{
    tt_status st = code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE
                       ? TT_ERR_NOMEM
                       : TT_ERR_DEVICE;

    return TT_FAIL(st, "cl: cannot %s: %s", what, TTI_CL_ERROR(code));
}

/* ---- facts about a device ------------------------------------------------------------------- */

static void text_of(cl_device_id id, cl_device_info what, char *text, size_t size)
{
    if (tti_cl.GetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS)
        snprintf(text, size, "unknown");
    text[size - 1] = '\0';
}

static uint64_t number_of(cl_device_id id, cl_device_info what)
{
    uint64_t n = 0; /* little-endian or not: all of what we ask for is of one of two widths */
    cl_uint narrow = 0;

    if (what == CL_DEVICE_MAX_COMPUTE_UNITS) {
        tti_cl.GetDeviceInfo(id, what, sizeof narrow, &narrow, NULL);
        return narrow;
    }
    tti_cl.GetDeviceInfo(id, what, sizeof n, &n, NULL);
    return n;
}

static bool has_extension(cl_device_id id, const char *name)
{
    char list[4096];

    text_of(id, CL_DEVICE_EXTENSIONS, list, sizeof list);
    return strstr(list, name) != NULL;
}

/* Computes on our cores, in our memory, and can call our functions. A device of all types at once is a simulator. */
static bool computes_here(cl_device_id id)
{
    cl_device_exec_capabilities can = 0;
    cl_device_type type = number_of(id, CL_DEVICE_TYPE);

    tti_cl.GetDeviceInfo(id, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL);
    return (type & CL_DEVICE_TYPE_CPU) != 0 &&
           (type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR)) == 0 &&
           (can & CL_EXEC_NATIVE_KERNEL) != 0;
}

static void platform_name(cl_platform_id p, char name[PLATFORM_NAME])
{
    name[0] = '\0';
    tti_cl.GetPlatformInfo(p, CL_PLATFORM_NAME, PLATFORM_NAME, name, NULL);
    name[PLATFORM_NAME - 1] = '\0';
}

static bool is_pocl(cl_platform_id p)
{
    char name[PLATFORM_NAME];

    platform_name(p, name);
    return strcmp(name, "Portable Computing Language") == 0;
}

static void describe(tti_cl_device *d)
{
    tt_device_properties *p = &d->properties;
    char version[64], platform[PLATFORM_NAME];
    cl_device_fp_config fp64 = 0;

    text_of(d->id, CL_DEVICE_NAME, p->name, sizeof p->name);
    text_of(d->id, CL_DEVICE_VENDOR, p->vendor, sizeof p->vendor);
    text_of(d->id, CL_DRIVER_VERSION, version, sizeof version);
    platform_name(tti_cl_all.platform, platform);
    snprintf(p->driver, sizeof p->driver, "%.60s %s", platform, version);
    p->memory = number_of(d->id, CL_DEVICE_GLOBAL_MEM_SIZE);
    p->max_allocation = number_of(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    p->units = (int)number_of(d->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    p->max_group = (int)number_of(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    p->is_cpu = computes_here(d->id);
    p->has_fp16 = has_extension(d->id, "cl_khr_fp16");
    tti_cl.GetDeviceInfo(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof fp64, &fp64, NULL);
    p->has_fp64 = fp64 != 0;
    p->has_priorities = tti_cl.CreateCommandQueueWithProperties != NULL &&
                        has_extension(d->id, "cl_khr_priority_hints");
}

/* ---- choosing devices -------------------------------------------------------------------------- */

/* The devices of one type of a platform, GPUs first. */
static int devices_of(cl_platform_id p, cl_device_id *ids)
{
    static const cl_device_type types[] = { CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR,
                                            CL_DEVICE_TYPE_ALL };
    cl_uint n = 0;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (tti_cl.GetDeviceIDs(p, types[i], TTI_MAX_DEVICES, ids, &n) == CL_SUCCESS && n > 0)
            return n < TTI_MAX_DEVICES ? (int)n : TTI_MAX_DEVICES;
    return 0;
}

static const char *sys_dir = "/sys";

void tti_cl_debug_sys(const char *dir)
{
    sys_dir = dir;
}

/* PoCL reads the topology of the processors from sysfs when it is first asked for devices, and ends the process when it
 * finds none, as in containers without /sys. So this looks first. */
static bool pocl_can_start(void)
{
    static const char *const places[] = { "devices/system/cpu/cpu0/topology",
                                          "bus/cpu/devices/cpu0/topology" };
    char path[256];

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", sys_dir, places[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    why = "PoCL needs the topology of the processors in /sys/devices/system/cpu, which is not "
          "there: mount sysfs on "
          "/sys, or set TUTTI_CL_PLATFORM to another platform";
    return false;
}

static bool wanted(cl_platform_id p)
{
    const char *part = tti_env_get(TTI_ENV_CL_PLATFORM);
    char name[PLATFORM_NAME];

    if (part != NULL) {
        platform_name(p, name);
        if (strstr(name, part) == NULL)
            return false;
    }
    return !is_pocl(p) || pocl_can_start();
}

/* Parts of a device that the driver keeps apart; false: it does not divide it like that. */
static bool divide(cl_device_id root, cl_device_id *ids, int parts)
{
    cl_uint units = (cl_uint)number_of(root, CL_DEVICE_MAX_COMPUTE_UNITS), count = 0;
    cl_device_partition_property how[TTI_MAX_DEVICES + 3] = { CL_DEVICE_PARTITION_BY_COUNTS };

    for (int i = 0; i < parts; i++)
        how[1 + i] = units / (cl_uint)parts;
    how[1 + parts] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    if (units < (cl_uint)parts ||
        tti_cl.CreateSubDevices(root, how, (cl_uint)parts, ids, &count) != CL_SUCCESS)
        return false;
    if ((int)count == parts)
        return true;
    for (cl_uint i = 0; i < count; i++)
        tti_cl.ReleaseDevice(ids[i]);
    return false;
}

/* One device as several: truly apart where the driver can divide it, else several names for one. */
static int split(cl_device_id *ids, int n, int parts)
{
    cl_device_id root = ids[0];

    if (n >= parts)
        return n;
    if (!divide(root, ids, parts))
        for (int i = 0; i < parts; i++)
            ids[i] = root;
    return parts;
}

static int choose(cl_device_id *ids)
{
    cl_platform_id all[MAX_PLATFORMS];
    cl_uint n = 0;
    int parts = (int)tti_env_int(TTI_ENV_CL_SPLIT, 1, TTI_MAX_DEVICES, 1), count = 0;

    if (tti_cl.GetPlatformIDs(MAX_PLATFORMS, all, &n) != CL_SUCCESS || n == 0) {
        why = "the OpenCL loader finds no driver: install one, such as pocl-opencl-icd for CPUs "
              "or the one of your GPU's maker";
        return 0;
    }
    why = "no OpenCL platform has a device (or none is the one TUTTI_CL_PLATFORM names)";
    for (cl_uint i = 0; i < n && i < MAX_PLATFORMS && count == 0; i++) {
        if (!wanted(all[i]))
            continue;
        tti_cl_all.platform = all[i];
        count = devices_of(all[i], ids);
    }
    return count > 0 ? split(ids, count, parts) : 0;
}

static int unique(const cl_device_id *ids, int n, cl_device_id *out)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int j = 0;

        while (j < count && out[j] != ids[i])
            j++;
        if (j == count)
            out[count++] = ids[i];
    }
    return count;
}

/* ---- the start ----------------------------------------------------------------------------------- */

/* How many devices PoCL was told to show. */
static int devices_asked_for(void)
{
    const char *text = tti_foreign_get(TTI_FOREIGN_POCL_DEVICES);
    int n = 0;

    for (; text != NULL && *text != '\0'; text++)
        n += *text != ' ' && (text[1] == ' ' || text[1] == '\0');
    return n;
}

/* PoCL reads these when it starts; what the user set stays. Sub-devices want threads of their own, one
 * compilation per kernel is enough for ours, and division by zero in host code is not its business. */
static void prepare_environment(void)
{
    char threads[16];
    int parts = (int)tti_env_int(TTI_ENV_CL_SPLIT, 1, TTI_MAX_DEVICES, 1);

    if (parts < devices_asked_for())
        parts = devices_asked_for();
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
    setenv("POCL_SIGFPE_HANDLER", "0", 0);
    if (parts > 1) {
        snprintf(threads, sizeof threads, "%d", 2 * parts);
        setenv("POCL_PTHREAD_MIN_THREADS", threads, 0);
    }
}

static void in_child(void)
{
    if (atomic_load(&begun))
        tti_cl_after_fork();
}

static void fill_state(const cl_device_id *ids, int n)
{
    tti_cl_state *a = &tti_cl_all;
    const tt_device_properties *p = &a->devices[0].properties;
    char version[128] = "";

    for (int i = 0; i < n; i++) {
        a->devices[i].id = ids[i];
        describe(&a->devices[i]);
    }
    a->is_pocl = is_pocl(a->platform);
    a->is_cpu = true;
    for (int i = 0; i < n; i++)
        a->is_cpu = a->is_cpu && a->devices[i].properties.is_cpu;
    a->group = (int)tti_env_int(TTI_ENV_CL_WG, 1, p->max_group, p->is_cpu ? 1 : GPU_GROUP);
    for (int i = 0; i < n; i++) {
        a->devices[i].properties.group = a->group;
        a->devices[i].properties.is_cpu = a->is_cpu;
    }
    tti_cl.GetPlatformInfo(a->platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    snprintf(a->key, sizeof a->key, "%s|%s|%s|%s", p->name, p->vendor, p->driver, version);
    a->alike = true;
    for (int i = 1; i < n; i++)
        a->alike = a->alike && strcmp(a->devices[i].properties.name, p->name) == 0 &&
                   strcmp(a->devices[i].properties.driver, p->driver) == 0 &&
                   a->devices[i].properties.has_fp64 == p->has_fp64;
}

/* The context and what every device needs; 0, or the number of devices. */
static int open_devices(void)
{
    cl_device_id ids[TTI_MAX_DEVICES];
    cl_int code = CL_SUCCESS;
    int n = choose(ids);

    if (n == 0)
        return 0;
    fill_state(ids, n);
    tti_cl_all.n_ids = unique(ids, n, tti_cl_all.ids);
    tti_cl_all.context =
        tti_cl.CreateContext(NULL, (cl_uint)tti_cl_all.n_ids, tti_cl_all.ids, NULL, NULL, &code);
    if (tti_cl_all.context == NULL) {
        why = "the OpenCL driver cannot make a context over its devices";
        return 0;
    }
    for (int i = 0; i < n; i++) {
        tti_cl_all.devices[i].trouble = tti_cl_segment_open(i, 4096);
        if (tti_cl_all.devices[i].trouble == NULL) {
            why = "the OpenCL driver cannot make a buffer of 4 KiB";
            return 0;
        }
    }
    return n;
}

static void start(void)
{
    prepare_environment();
    if (!tti_cl_open(&why))
        return;
    pthread_atfork(NULL, NULL, in_child);
    atomic_store(&begun, true);
    tti_cl_all.n = open_devices();
    atomic_store(&begun, tti_cl_all.n > 0);
}

int tti_cl_count(void)
{
    if (tti_cl_forked())
        return 0;
    pthread_once(&once, start);
    return tti_cl_all.n;
}

const char *tti_cl_missing(void)
{
    if (tti_cl_count() > 0)
        return "";
    if (tti_cl_forked())
        return "this process was forked after OpenCL was started, whose threads it does not have: "
               "fork before the first use of a device, or exec";
    return why;
}

tt_status tti_cl_start(void)
{
    if (tt_likely(tti_cl_count() > 0))
        return TT_OK;
    return TT_FAIL(TT_ERR_NOT_FOUND, "cl: there are no devices: %s", tti_cl_missing());
}
