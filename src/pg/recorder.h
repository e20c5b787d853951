/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: the last operations of a group, kept in a ring that costs next to nothing and is written
 * to a file when something goes wrong. */
#ifndef TTI_PG_RECORDER_H
#define TTI_PG_RECORDER_H

#include "base/status.h"
#include "tutti/tensor.h"

#define TTI_RECORDER_SIZE 2048 /* operations */

typedef struct tti_recorder tti_recorder;

typedef struct tti_recorder_info {
    const char *group, *desc, *backend;
    int rank, size;
    const int *global_ranks; /* copied */
    int timeout_ms;
} tti_recorder_info;

/* One operation, as issued. */
typedef struct tti_record {
    const char *op; /* static */
    uint64_t seq;   /* collectives and messages are numbered apart */
    bool p2p;
    bool async;
    int peer; /* root or peer; -1 */
    tt_dtype dtype;
    uint64_t in_bytes, out_bytes;
    int n_dims; /* of the first input */
    int64_t dims[TT_MAX_DIMS];
    const void *site; /* where the call returns to */
} tti_record;

/* Registers it with the process, so that a signal dumps it too. */
tti_recorder *tti_recorder_new(const tti_recorder_info *info);
void tti_recorder_free(tti_recorder *r);

/* Any thread. Gives the operation's ticket; old operations are overwritten. Takes the time itself. */
uint64_t tti_recorder_issued(tti_recorder *r, const tti_record *rec);
/* The same for an operation that starts at once: issued and started in one. */
uint64_t tti_recorder_begun(tti_recorder *r, const tti_record *rec);
/* That, when no other thread takes a ticket meanwhile. */
uint64_t tti_recorder_begun_alone(tti_recorder *r, const tti_record *rec);
void tti_recorder_started(tti_recorder *r, uint64_t ticket);
void tti_recorder_ended(tti_recorder *r, uint64_t ticket, tt_status st);
/* That, on a thread that is the only one ever to call this on the recorder (tti_alone_owns): without a locked instruction. */
void tti_recorder_ended_owner(tti_recorder *r, uint64_t ticket, tt_status st);

/* After tt_pg_set_timeout. */
void tti_recorder_set_timeout(tti_recorder *r, int timeout_ms);

/* Writes TUTTI_FLIGHT_DIR/<group>.<global rank>.json, complete or not at all, once per `cause`; nothing when
 * the variable is unset. Never fails the caller nor touches its last error; logs. The directory is made if
 * its parent is there. Letters of the name that files should not have become '_'. */
void tti_recorder_dump(tti_recorder *r, const char *cause, const char *words);

/* Starts, once per process, the thread that dumps all recorders at SIGUSR2 (unless the program has its own
 * handler) and warns about operations that take long. */
tt_status tti_monitor_start(void);

#endif
