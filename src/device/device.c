/* SPDX-License-Identifier: Apache-2.0 */
/* Device values: names, parsing, and dispatch to the driver of their kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/driver.h"

static const char *const kind_names[] = { "cpu", "cl", "cuda" };
#define N_KINDS ((int)(sizeof kind_names / sizeof kind_names[0]))

static const tti_driver *find(int kind)
{
    for (int i = 0; tti_drivers[i] != NULL; i++)
        if ((int)tti_drivers[i]->kind == kind)
            return tti_drivers[i];
    return NULL;
}

char *tt_device_name(tt_device d, char *text, size_t size)
{
    const char *kind = d.kind >= 0 && d.kind < N_KINDS ? kind_names[d.kind] : "unknown";

    if (d.kind == TT_DEVICE_CPU && d.index == 0)
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

const tti_driver *tti_driver_of(tt_device d)
{
    const tti_driver *drv = find(d.kind);
    char name[32];

    if (tt_likely(drv != NULL && d.index >= 0 && (d.index == 0 || d.index < drv->count())))
        return drv;
    tt_device_name(d, name, sizeof name);
    return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "device: %s does not exist here", name);
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
    for (int kind = 0; kind < N_KINDS; kind++) {
        tt_device d = { .kind = (int16_t)kind };

        if (strlen(kind_names[kind]) != len || strncmp(text, kind_names[kind], len) != 0)
            continue;
        if (colon != NULL && !parse_index(colon + 1, &index))
            break;
        d.index = (int16_t)index;
        if (index >= tt_device_count((tt_device_kind)kind))
            return TT_FAIL(TT_ERR_NOT_FOUND, "device: %s does not exist: there are %d of its kind",
                           text, tt_device_count((tt_device_kind)kind));
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
    const tti_driver *drv = tti_driver_of(d);

    return drv != NULL ? drv->sync(d.index) : tt_last_status();
}

tt_memory_stats tt_memory_stats_get(tt_device d)
{
    const tti_driver *drv = tti_driver_of(d);

    return drv != NULL ? drv->stats(d.index) : (tt_memory_stats){ 0 };
}

void tt_memory_reset_peak(tt_device d)
{
    const tti_driver *drv = tti_driver_of(d);

    if (drv != NULL)
        drv->reset_peak(d.index);
}

void tt_memory_empty_cache(tt_device d)
{
    const tti_driver *drv = tti_driver_of(d);

    if (drv != NULL)
        drv->empty_cache(d.index);
}
