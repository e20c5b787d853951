/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the ranks of a team share, and what lies where in it:
 *
 *     head | blocks, one per rank | slots, some per rank | windows, one per rank | messages
 *
 * A block holds a rank's words: each is written by that rank alone (bells excepted) and read by all.
 * Words that are polled have a pair of cache lines to themselves, because CPUs fetch lines in pairs. */
#ifndef TTI_COLL_SEGMENT_H
#define TTI_COLL_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>

#include "coll/team.h"

#define TTI_LINE 128

/* Slots of a rank, at most: how far one may be ahead of the others, where that is possible at all. */
#define TTI_SLOTS 32

/* A rank's place to sleep. See wait.h. */
typedef struct tti_bell {
    alignas(TTI_LINE) _Atomic uint32_t rings; /* the futex word: how often it was rung */
    _Atomic uint32_t sleepers;
} tti_bell;

typedef enum tti_standing {
    TTI_STANDING_HERE,
    TTI_STANDING_LEFT,    /* closed its team */
    TTI_STANDING_ABORTED, /* tti_team_abort */
    TTI_STANDING_FAILED,  /* an operation failed there: it takes part in nothing more */
} tti_standing;

/* What a rank called, so that others can say how it differs from what they called. */
typedef struct tti_announced {
    uint64_t n; /* the team's own count of operations */
    uint64_t seq;
    uint64_t bytes; /* of the part that has to have the same size everywhere */
    int32_t kind, dtype, op, root;
    int32_t uneven;
    int32_t words; /* a hash of the 64 bytes of a fingerprint, or of the list of sizes */
} tti_announced;

/* Where a buffer is, for peers that use it in place. */
typedef struct tti_place {
    uint64_t at;    /* offset in a segment of the rank's heap; else its address in that process */
    uint64_t bytes; /* of the segment */
    uint32_t seg;   /* number of the segment; 0: not in the heap */
    int32_t fd;     /* of the segment, in that process */
} tti_place;

#define TTI_RANK_WORDS 8 /* a bit for each of TTI_MAX_RANKS */

/* A rank's words of monitored barriers, each the count of a barrier; see monitored.c. */
typedef struct tti_monitored {
    alignas(TTI_LINE) _Atomic uint64_t here; /* it came to this one */
    alignas(TTI_LINE) _Atomic uint64_t go;   /* rank 0: everybody came */
    _Atomic uint64_t failed;                 /* rank 0: not everybody came */
    _Atomic uint64_t
        missing[TTI_RANK_WORDS]; /* rank 0: to the one that failed last; a bit per rank */
} tti_monitored;

typedef struct tti_block {
    tti_bell bell;
    alignas(TTI_LINE) _Atomic uint64_t phase;        /* steps done, ever increasing */
    alignas(TTI_LINE) _Atomic uint32_t touching;     /* threads: it is in memory of another now */
    alignas(TTI_LINE) tti_announced call[TTI_SLOTS]; /* of operation n: call[n % n_slots] */

    tti_monitored monitored[TTI_N_MONITORED_BY];

    /* See replace.c. */
    alignas(TTI_LINE) _Atomic int32_t replaced; /* it goes on in another group */
    _Atomic int32_t lost; /* while it waits there: the global rank that died, + 1 */
    _Atomic uint64_t
        awaited[TTI_RANK_WORDS]; /* and the ranks of this team that it waits for, a bit each */
    _Atomic uint64_t joining;    /* and the identity of the group where it does */

    /* Written once, before state; read when something went wrong. */
    alignas(TTI_LINE) _Atomic int32_t state; /* tti_standing */
    int32_t status;                          /* of the failure */
    int32_t culprit;                         /* rank that caused it, or -1 */
    char reason[468];
    tt_error_info about; /* the fields of the failure */
} tti_block;

/* A small message next to the flag that announces it. */
#define TTI_SLOT_BYTES 16448 /* with the head */

typedef struct tti_slot {
    alignas(64) _Atomic uint64_t word; /* count of the operation << 32 | fingerprint */
    double factor;
    unsigned char data[48]; /* and on to the end of the slot */
} tti_slot;

#define TTI_SLOT_ROOM (TTI_SLOT_BYTES - offsetof(tti_slot, data))

typedef struct tti_head {
    uint64_t magic;
    uint64_t bytes;
    uint32_t version;
    uint32_t size;
    unsigned char token[16];
} tti_head;

/* Where the parts are, as offsets; the same on every rank. */
typedef struct tti_layout {
    size_t blocks, slots, slot_stride, n_slots, windows, window_bytes, messages, bytes;
} tti_layout;

void tti_layout_make(int size, size_t window_bytes, size_t message_bytes, tti_layout *layout_p);

/* One rank's mapping. */
typedef struct tti_segment {
    char *base;
    size_t bytes;
    bool in_process; /* plain memory with a count of users instead of a file */
    unsigned char token[16];
} tti_segment;

/* Collective. Gives memory filled with zero bytes, except for its head. */
tt_status tti_segment_open(const tti_team_args *args, size_t bytes, tti_segment *segment_p);
void tti_segment_close(tti_segment *segment); /* a zeroed one too */

/* An anonymous file of `bytes` bytes that are really there; -1, and the cause recorded, when there is no room. */
int tti_memfd(const char *name, size_t bytes);
/* Opens and maps descriptor `fd` of process `pid`; NULL, nothing recorded, when that is not possible. */
void *tti_map_peer_fd(int pid, int fd, size_t bytes);

#endif
