/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of `tutti doctor`: what was looked at, how it is, what was seen, and what to do. */
#ifndef TTI_TOOLS_DOCTOR_H
#define TTI_TOOLS_DOCTOR_H

#include "table.h"
#include "tutti/device.h"

typedef enum tti_state {
    TTI_STATE_OK,
    TTI_STATE_NOTE,   /* something optional is not there, or could be better */
    TTI_STATE_BROKEN, /* something needed does not work: exit code 1 */
} tti_state;

typedef struct tti_doctor {
    tti_table table;
    bool broken;
} tti_doctor;

/* `advice` is NULL or "" when there is nothing to do. */
void tti_doctor_say(tti_doctor *d, const char *what, tti_state state, const char *advice,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Run one operator of every family of kernels on a device, for float32 or (all) every type, and compare with the
 * CPU: rows with the time that building and running took. */
void tti_doctor_kernels(tti_doctor *d, tt_device device, bool all);

#endif
