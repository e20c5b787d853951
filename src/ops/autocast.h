/* SPDX-License-Identifier: Apache-2.0 */
/* Autocast: while it is on for a kind of device, operators of two lists first convert their floating inputs
 * there (not float64): products and convolutions to a half type, what needs range or precision to
 * float32. An operator is on a list when it says so:
 *
 *     TTI_AUTOCAST(TTI_LOW, &x, &w, &b);       // before the call begins; NULL tensors are skipped
 *
 * or, if it is elementwise, by the flag TTI_OP_WIDE. Conversions are recorded. The state is the thread's;
 * backward runs without. */
#ifndef TTI_OPS_AUTOCAST_H
#define TTI_OPS_AUTOCAST_H

#include "base/tls.h"
#include "tensor/tensor.h"

#define TTI_N_DEVICE_KINDS 3

typedef struct tti_autocast_modes {
    bool on[TTI_N_DEVICE_KINDS];
    uint8_t dtype[TTI_N_DEVICE_KINDS]; /* the half type: tt_dtype */
} tti_autocast_modes;

typedef enum tti_cast_to {
    TTI_LOW,
    TTI_WIDE, /* float32 */
} tti_cast_to;

/* On for any kind of device. */
extern TTI_HOT_TLS bool tti_autocasting;

tti_autocast_modes tti_autocast_get(void);
/* Converted weights are remembered until autocast is off altogether. */
void tti_autocast_set(const tti_autocast_modes *m);

/* Replaces *ts[0 .. n); one that cannot be converted becomes NULL, with the failure recorded. */
void tti_autocast(tti_cast_to to, tt_tensor **const *ts, int n);

#define TTI_AUTOCAST(to, ...)                                                                   \
    do {                                                                                        \
        if (tt_unlikely(tti_autocasting))                                                       \
            tti_autocast(to, (tt_tensor * *const[]){ __VA_ARGS__ },                             \
                         (int)(sizeof((tt_tensor **const[]){ __VA_ARGS__ }) / sizeof(void *))); \
    } while (0)

#endif
