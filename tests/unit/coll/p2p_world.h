/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for tests of messages: threads, or forked processes, over a region of plain shared memory. */
#ifndef TTI_TEST_P2P_WORLD_H
#define TTI_TEST_P2P_WORLD_H

#include <stdatomic.h>

#include "base/clock.h"
#include "coll/p2p.h"

#define P2P_MOST 8

typedef struct p2p_shared {
    _Atomic int state[P2P_MOST]; /* tti_rank_state */
    _Atomic int64_t died_ns[P2P_MOST];
    _Atomic int arrived;
    _Atomic int failures;
    _Atomic int note[P2P_MOST]; /* for the test */
} p2p_shared;

typedef struct p2p_world {
    int size;
    bool threads, no_cma;
    bool deaths; /* ranks may be killed */
    uint64_t seed;
    p2p_shared *shared;
    void *region;
    tti_member members[P2P_MOST];
    void *arg;
} p2p_world;

typedef struct p2p_rank {
    p2p_world *world;
    int rank;
    tti_p2p_box *box;
    uint64_t random;
} p2p_rank;

typedef void (*p2p_body)(p2p_rank *r);

/* Runs body on every rank and waits for all. */
void p2p_run(p2p_world *w, p2p_body body);
/* All ranks meet. */
void p2p_meet(p2p_rank *r);
uint32_t p2p_random(p2p_rank *r);

tti_p2p *p2p_isend(p2p_rank *r, const void *data, size_t n, int to, int tag);
tti_p2p *p2p_irecv(p2p_rank *r, void *data, size_t n, int from, int tag);
/* Waits at most 20 s and frees. */
tt_status p2p_end(tti_p2p *op, int *source_p);
tt_status p2p_send(p2p_rank *r, const void *data, size_t n, int to, int tag);
tt_status p2p_recv(p2p_rank *r, void *data, size_t n, int from, int tag);

/* Bytes that depend on all of these. */
void p2p_fill(unsigned char *data, size_t n, int from, int to, uint64_t what);
bool p2p_filled(const unsigned char *data, size_t n, int from, int to, uint64_t what);

#endif
