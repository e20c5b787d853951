/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks of device memory: what is there after some code and was not before. */
#include <string.h>

#include "base/error.h"
#include "base/status.h"
#include "device/cache.h"
#include "tutti/memory.h"

/* Bytes taken from the device, as the driver layer counts them, apart from the cache's books. */
static tt_status held(tt_device d, uint64_t *bytes_p)
{
    uint64_t free_bytes, total;

    TT_TRY(tt_memory_info(d, &free_bytes, &total));
    *bytes_p = total - free_bytes;
    return TT_OK;
}

static tt_status look(tt_device d, uint64_t *allocated_p, uint64_t *held_p)
{
    tt_memory_report r;

    TT_TRY(tt_device_sync(d));
    tti_cache_empty(d);
    TT_TRY(tt_memory_report_get(d, &r));
    *allocated_p = (uint64_t)r.active_bytes.all.current;
    return held(d, held_p);
}

tt_status tt_leak_check_begin(tt_leak_check *check)
{
    int n;

    if (check == NULL)
        return TT_FAIL(TT_ERR_INVALID, "leak_check_begin: expected a check to fill, got NULL");
    n = tt_device_count(TT_DEVICE_CL);
    *check = (tt_leak_check){ .kind = TT_DEVICE_CL,
                              .n_devices = n < TT_LEAK_DEVICES ? n : TT_LEAK_DEVICES };
    for (int i = 0; i < check->n_devices; i++)
        TT_TRY(look((tt_device){ (int16_t)check->kind, (int16_t)i }, &check->allocated[i],
                    &check->held[i]));
    return TT_OK;
}

tt_status tt_leak_check_end(const tt_leak_check *check)
{
    if (check == NULL)
        return tti_null_given("leak_check_end", "a check");
    for (int i = 0; i < check->n_devices; i++) {
        tt_device d = { (int16_t)check->kind, (int16_t)i };
        uint64_t allocated, now;
        char name[32];

        TT_TRY(look(d, &allocated, &now));
        if (allocated <= check->allocated[i])
            continue;
        tt_device_name(d, name, sizeof name);
        if (now > check->held[i])
            return TT_FAIL(
                TT_ERR_INVALID,
                "leak check: the device-level memory query (the driver layer's own count) "
                "confirmed a leak on %s: tensors hold %llu bytes, %llu before; %llu bytes "
                "are taken from the device, %llu before",
                name, (unsigned long long)allocated, (unsigned long long)check->allocated[i],
                (unsigned long long)now, (unsigned long long)check->held[i]);
        return TT_FAIL(TT_ERR_INVALID,
                       "leak check: a leak on %s: tensors hold %llu bytes, %llu before; they fit "
                       "into memory that was taken already, so the device-level memory query (the "
                       "driver layer's own count) shows no difference",
                       name, (unsigned long long)allocated,
                       (unsigned long long)check->allocated[i]);
    }
    return TT_OK;
}

tt_status tt_leak_check_call(tt_status (*fn)(void *arg), void *arg)
{
    tt_leak_check check;

    TT_TRY(tt_leak_check_begin(&check));
    TT_TRY(fn(arg));
    return tt_leak_check_end(&check);
}
