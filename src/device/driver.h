/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of device must be able to do with memory and with queued work. A kind is one folder
 * with one table of these functions; its row is in src/registry.c. Kinds that queue work also have an accelerator
 * table, on which streams, events, the caching allocator and launches are built once for all of them. */
#ifndef TTI_DEVICE_DRIVER_H
#define TTI_DEVICE_DRIVER_H

#include "tutti/device.h"

typedef struct tti_accel tti_accel; /* device/accel.h */

typedef struct tti_driver {
    tt_device_kind kind;
    const char *name;       /* "cpu", "cl" */
    const tti_accel *accel; /* NULL: work is synchronous */

    int (*count)(void);
    const char *(*missing)(void); /* why count is 0; NULL: never */

    /* 64-byte aligned memory, through the device's cache; NULL with the cause recorded. `bytes` is
     * never 0 and is handed back to free unchanged. Any thread. On an accelerator: for use on the current
     * stream of the device. */
    void *(*alloc)(int index, size_t bytes);
    void (*free)(int index, void *p, size_t bytes);

    /* Ordered on the current stream; the host buffer may be reused when they return. */
    tt_status (*copy_in)(int index, void *dst, const void *host, size_t bytes);
    tt_status (*copy_out)(int index, void *host, const void *src, size_t bytes);
    tt_status (*copy)(int index, void *dst, const void *src, size_t bytes);

    tt_status (*sync)(int index);

    tt_memory_stats (*stats)(int index);
    void (*reset_peak)(int index);
    void (*empty_cache)(int index);
} tti_driver;

/* The rows of src/registry.c, ended by NULL. */
extern const tti_driver *const tti_drivers[];

/* The driver of a device, or NULL (recorded) when this build or machine has none. d.index is not TT_CURRENT. */
const tti_driver *tti_driver_of(tt_device d);

extern const tti_driver tti_driver_cpu;
extern const tti_driver tti_driver_cl;

#endif
