/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a flight recorder, for recorder.c, recorder_dump.c and monitor.c. */
#ifndef TTI_PG_RECORDER_RING_H
#define TTI_PG_RECORDER_RING_H

#include <pthread.h>
#include <stdatomic.h>

#include "pg/recorder.h"
#include "pg/ticks.h"

/* One operation. All are atomics, because a dump may look while they change; `tag` says whether what was read
 * belongs together: it is the ticket + 1 while the slot holds that operation, TTI_RECORDED_FILLING while it is filled. Stores
 * release and loads acquire, which keeps them after and before those of the tag. */
#define TTI_RECORDED_FILLING UINT64_MAX

typedef struct tti_recorded {
    atomic_ullong tag;
    atomic_ullong issued, started, ended; /* ticks; 0: not yet */
    atomic_ullong seq;
    atomic_uintptr_t op, site;
    atomic_ullong in_bytes, out_bytes;
    atomic_ullong packed; /* dtype, n_dims, flags, peer */
    atomic_int status;
    atomic_llong dims[TT_MAX_DIMS];
} tti_recorded;

/* The same, read. */
typedef struct tti_recorded_copy {
    uint64_t ticket, issued, started, ended;
    tt_status status;
    tti_record rec;
} tti_recorded_copy;

#define TTI_CAUSES 8

typedef struct tti_cause {
    char cause[48];
    char words[512];
    int64_t ns; /* monotonic */
} tti_cause;

struct tti_recorder {
    atomic_ullong next; /* ticket */
    /* Largest sequence numbers: collectives, messages. */
    atomic_ullong last_issued[2], last_started[2], last_ended[2];
    atomic_ullong
        last_ended_owner[2]; /* of what the owner of the group ended, who alone writes it */
    tti_recorded *slots;     /* TTI_RECORDER_SIZE */

    /* Fixed. */
    char *group, *desc, *backend;
    int rank, size;
    int *global_ranks;
    atomic_int timeout_ms;

    /* Of the list in monitor.c. */
    atomic_int refs;
    tti_recorder *next_recorder;
    uint64_t looked_at,
        warned; /* monitor thread: all before have ended; last one it warned of, + 1 */

    pthread_mutex_t mu_dump; /* one dump at a time; the causes so far */
    tti_cause *causes;
    int n_causes;
};

/* False when there is no such operation any more. */
bool tti_recorder_read(tti_recorder *r, uint64_t ticket, tti_recorded_copy *copy);
/* As tti_recorder_dump; `again`: also when there was a dump with this cause. */
void tti_recorder_write(tti_recorder *r, const char *cause, const char *words, bool again);
/* The greatest number of a collective (kind 0) or message (1) that ended well. */
uint64_t tti_recorder_last_ended(const tti_recorder *r, int kind);
void tti_recorder_unref(tti_recorder *r);

/* The list of all recorders of the process. */
void tti_monitor_add(tti_recorder *r);
void tti_monitor_remove(tti_recorder *r);

#endif
