/* SPDX-License-Identifier: Apache-2.0 */
/* An accelerator that does nothing: segments are numbers that name memory, queues count what is put into them
 * and are advanced by hand. What the allocator does with it is therefore the same every time. Devices are of the kind
 * cuda, which has no driver here. */
#ifndef TESTS_DEVICE_FAKE_ACCEL_H
#define TESTS_DEVICE_FAKE_ACCEL_H

#include <stdatomic.h>

#include "device/accel.h"

struct tti_queue {
    int index;
    atomic_uint_fast64_t queued, done; /* pieces of work */
};

typedef struct fake_counts {
    atomic_uint_fast64_t n_new, n_free, held, marks; /* marks: alive */
    atomic_uint_fast64_t syncs;                      /* of queues and marks that had work left */
    atomic_uint_fast64_t capacity;                   /* bytes that segment_new gives out at most */
    atomic_int fail_new;   /* so many calls from now on fail, with NOMEM */
    atomic_int fail_marks; /* the same for mark */
    atomic_bool lost;      /* everything about devices fails */
} fake_counts;

extern fake_counts fake_count[TTI_MAX_DEVICES];
extern const tti_accel fake_accel;

tt_device fake_device(int index);
/* Queues 0 to 3 of a device, as streams. */
tt_stream *fake_stream(int index, int nr);
void fake_reset(void); /* full capacity, nothing fails */

/* Puts a piece of work into the stream; is done when fake_pass says so. */
uint64_t fake_work(tt_stream *s);
void fake_pass(tt_stream *s); /* all work so far is done */

#endif
