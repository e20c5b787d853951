/* SPDX-License-Identifier: Apache-2.0 */
/* Flight recorder dumps, read. docs/flight-recorder.md describes the files. */
#ifndef TTI_PROF_DUMP_H
#define TTI_PROF_DUMP_H

#include "base/mem.h"

typedef enum tti_dump_state {
    TTI_DUMP_ISSUED,
    TTI_DUMP_STARTED,
    TTI_DUMP_COMPLETED,
    TTI_DUMP_FAILED,
} tti_dump_state;

typedef struct tti_dump_entry {
    char op[32], dtype[16], status[24];
    uint64_t seq, in_bytes, out_bytes;
    tti_dump_state state;
    bool p2p;
    int peer;       /* a rank of the group; -1 */
    double begin_s; /* monotonic */
    double end_s;
} tti_dump_entry;

/* One file: one rank of one group. */
typedef struct tti_dump {
    char *group;
    char host[64], cause[48];
    int rank, size, global_rank;
    int *global_ranks; /* size */
    double now_s;
    uint64_t last_issued;    /* collectives */
    tti_dump_entry *entries; /* collectives first, each kind by number */
    int n_entries;
} tti_dump;

typedef struct tti_dumps {
    tti_dump *all; /* sorted by group, then by rank */
    int n;
} tti_dumps;

/* All files of `dir` that end in .json. NOT_FOUND: there are none; FORMAT: names the damaged one. */
tt_status tti_dumps_load(const char *dir, tti_dumps *dumps);
void tti_dumps_fini(tti_dumps *dumps);

#endif
