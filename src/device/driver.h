/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of device must be able to do with memory and with queued work. A kind is one folder
 * with one table of these functions and one table of kernels; its row is in src/registry.c. */
#ifndef TTI_DEVICE_DRIVER_H
#define TTI_DEVICE_DRIVER_H

#include "tutti/device.h"

typedef struct tti_driver {
    tt_device_kind kind;
    const char *name; /* "cpu", "cl" */

    int (*count)(void);

    /* 64-byte aligned memory, through the device's cache; NULL with the cause recorded. `bytes` is
     * never 0 and is handed back to free unchanged. Any thread. */
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

/* The driver of a device, or NULL (recorded) when this build or machine has none. */
const tti_driver *tti_driver_of(tt_device d);

extern const tti_driver tti_driver_cpu;

#endif
