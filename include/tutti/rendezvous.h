/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous: how a process learns its rank, the number of ranks, and the store they share.
 *
 *     tt_rendezvous r;
 *     if (tt_rendezvous_open("env://", NULL, &r) == TT_OK)
 *         printf("rank %d of %d\n", r.rank, r.size);
 *     tt_rendezvous_close(&r);
 */
#ifndef TUTTI_RENDEZVOUS_H
#define TUTTI_RENDEZVOUS_H

#include "tutti/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The place of this process among all ranks, read from the environment that its launcher made. */
typedef struct tt_world {
    int rank, size;
    int local_rank, local_size; /* on this host; -1 when the launcher does not say */
    int node, n_nodes;          /* -1 likewise */
    const char *launcher;       /* "tutti", "torchrun", "openmpi", "pmix", "pmi", "slurm", "none" */
} tt_world;

/* A process that nothing launched is rank 0 of 1. Variables that contradict each other or are no
 * numbers are an error that names them. docs/rendezvous.md has the order in which they are looked at. */
TT_API tt_status tt_world_detect(tt_world *world_p);

typedef struct tt_rendezvous_options {
    int rank, size; /* meant if has_rank; they win over the URL and the environment */
    bool has_rank;
    int timeout_ms;     /* 0: 300,000. For reaching the store, and its time-out afterwards */
    const char *secret; /* NULL: TUTTI_JOB_SECRET */
} tt_rendezvous_options;

typedef struct tt_rendezvous {
    tt_store *store;
    int rank, size;
    tt_world world; /* the rest of what is known about this process */
} tt_rendezvous;

/* `url` is one of
 *   env://                        TUTTI_STORE, which `tutti run` sets, else MASTER_ADDR, MASTER_PORT; rank
 *                                 and size as tt_world_detect finds them
 *   tcp://host:port?rank=R&size=N rank 0 serves, unless a server is there already
 *   file:///path?rank=R&size=N
 * NULL means env://. A world of one needs no address. */
TT_API tt_status tt_rendezvous_open(const char *url, const tt_rendezvous_options *opt,
                                    tt_rendezvous *r_p);
TT_API void tt_rendezvous_close(
    tt_rendezvous *r); /* frees the store; accepts NULL and zeroed ones */

#ifdef __cplusplus
}
#endif

#endif
