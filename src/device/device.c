/* SPDX-License-Identifier: Apache-2.0 */
/* Device values: names, parsing, and dispatch to the driver of their kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/tls.h"
#include "device/accel.h"

static const char *const kind_names[TTI_N_KINDS] = { "cpu", "cl", "cuda" };

/* By kind. */
static TTI_HOT_TLS int16_t current[TTI_N_KINDS];

static const tti_driver *find(int kind)
{
    for (int i = 0; tti_drivers[i] != NULL; i++)
        if ((int)tti_drivers[i]->kind == kind)
            return tti_drivers[i];
    return NULL;
}

char *tt_device_name(tt_device d, char *text, size_t size)
{
    const char *kind = d.kind >= 0 && d.kind < TTI_N_KINDS ? kind_names[d.kind] : "unknown";

    if ((d.kind == TT_DEVICE_CPU && d.index == 0) || d.index == TT_CURRENT)
        snprintf(text, size, "%s", kind);
    else
        snprintf(text, size, "%s:%d", kind, d.index);
    return text;
}

int tt_device_count(tt_device_kind kind)
{
    const tti_driver *drv = find((int)kind);

    return drv != NULL ? drv->count() : 0;
}

const char *tt_device_missing(tt_device_kind kind)
{
    const tti_driver *drv = find((int)kind);

    if (drv == NULL)
        return "this build of the library has no such kind of device";
    return drv->missing != NULL ? drv->missing() : "";
}

const char *tt_device_kernel_cache(tt_device_kind kind)
{
    const tti_driver *drv = find((int)kind);

    return drv != NULL && drv->accel != NULL ? drv->accel->kernel_cache() : NULL;
}

const tti_driver *tti_driver_of(tt_device d)
{
    const tti_driver *drv;
    const char *why;
    char name[32];
    int n;

    if (tt_likely(d.kind == TT_DEVICE_CPU && d.index == 0))
        return tti_drivers[0];
    drv = find(d.kind);
    n = drv != NULL ? drv->count() : 0;
    if (tt_likely(d.index >= 0 && d.index < n))
        return drv;
    tt_device_name(d, name, sizeof name);
    if (n > 0)
        return TT_FAIL_NULL(TT_ERR_NOT_FOUND,
                            "device: %s does not exist here: there are %d of its "
                            "kind",
                            name, n);
    why = drv != NULL ? tt_device_missing((tt_device_kind)d.kind) : "";
    return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "device: %s does not exist here%s%s", name,
                        why[0] != '\0' ? ": " : "", why);
}

tt_device tt_device_current(tt_device_kind kind)
{
    tt_device d = { .kind = (int16_t)kind };

    if ((unsigned)kind < TTI_N_KINDS)
        d.index = current[kind];
    return d;
}

tt_status tt_device_resolve(tt_device d, tt_device *resolved_p)
{
    if (d.index == TT_CURRENT && (unsigned)d.kind < TTI_N_KINDS)
        d.index = current[d.kind];
    if (tti_driver_of(d) == NULL)
        return tt_last_status();
    *resolved_p = d;
    return TT_OK;
}

tt_status tt_device_use(tt_device d)
{
    TT_TRY(tt_device_resolve(d, &d));
    current[d.kind] = d.index;
    return TT_OK;
}

tt_device_guard tt_device_guard_open(tt_device d)
{
    tt_device_guard g = { .before = tt_device_current((tt_device_kind)d.kind) };

    if (tt_device_use(d) != TT_OK)
        g.before.index = TT_CURRENT;
    return g;
}

void tt_device_guard_close(tt_device_guard *g)
{
    if (g != NULL && g->before.index != TT_CURRENT)
        current[g->before.kind] = g->before.index;
}

const tti_accel *tti_accel_of(const char *name, tt_device d)
{
    const tti_driver *drv = tti_driver_of(d);
    char text[32];

    if (drv == NULL)
        return NULL;
    if (drv->accel == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected an accelerator device, got %s", name,
                            tt_device_name(d, text, sizeof text));
    return drv->accel;
}

tt_status tt_device_properties_get(tt_device d, tt_device_properties *p)
{
    const tti_accel *a;

    TT_TRY(tt_device_resolve(d, &d));
    a = tti_accel_of("device_properties", d);
    return a != NULL ? a->properties(d.index, p) : tt_last_status();
}

tt_status tt_device_native_get(tt_device d, tt_device_native *n)
{
    const tti_accel *a;

    TT_TRY(tt_device_resolve(d, &d));
    a = tti_accel_of("device_native", d);
    return a != NULL ? a->native(d.index, n) : tt_last_status();
}

static bool parse_index(const char *text, long *index_p)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    *index_p = strtol(text, &end, 10);
    return *end == '\0' && *index_p <= INT16_MAX;
}

tt_status tt_device_parse(const char *text, tt_device *device_p)
{
    size_t len;
    const char *colon;
    long index = 0;

    if (text == NULL)
        return TT_FAIL(TT_ERR_INVALID, "device: expected a name such as \"cpu\", got NULL");
    colon = strchr(text, ':');
    len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    for (int kind = 0; kind < TTI_N_KINDS; kind++) {
        tt_device d = { .kind = (int16_t)kind };

        if (strlen(kind_names[kind]) != len || strncmp(text, kind_names[kind], len) != 0)
            continue;
        if (colon != NULL && !parse_index(colon + 1, &index))
            break;
        d.index = (int16_t)index;
        if (tti_driver_of(d) == NULL)
            return tt_last_status();
        if (colon == NULL && kind != TT_DEVICE_CPU)
            d.index = TT_CURRENT;
        *device_p = d;
        return TT_OK;
    }
    return TT_FAIL(TT_ERR_INVALID,
                   "device: expected \"cpu\", \"cl\", \"cuda\" or one with an index such as "
                   "\"cl:0\", got \"%s\"",
                   text);
}

tt_status tt_device_sync(tt_device d)
{
    TT_TRY(tt_device_resolve(d, &d));
    if (tti_accel_of("device_sync", d) == NULL)
        return tt_last_status();
    return tti_driver_of(d)->sync(d.index);
}

/* The driver of d, in which TT_CURRENT is replaced. */
static const tti_driver *driver_at(tt_device *d)
{
    return tt_device_resolve(*d, d) == TT_OK ? tti_driver_of(*d) : NULL;
}

tt_memory_stats tt_memory_stats_get(tt_device d)
{
    const tti_driver *drv = driver_at(&d);

    return drv != NULL ? drv->stats(d.index) : (tt_memory_stats){ 0 };
}

void tt_memory_reset_peak(tt_device d)
{
    const tti_driver *drv = driver_at(&d);

    if (drv != NULL)
        drv->reset_peak(d.index);
}

void tt_memory_empty_cache(tt_device d)
{
    const tti_driver *drv = driver_at(&d);

    if (drv != NULL)
        drv->empty_cache(d.index);
}
