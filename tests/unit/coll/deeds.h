/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives with known answers: every byte that a rank gives follows from seed, rank, destination and place, so
 * that every rank can work out what everybody should get. */
#ifndef TESTS_COLL_DEEDS_H
#define TESTS_COLL_DEEDS_H

#include "coll/reduce.h"
#include "world.h"

typedef struct deed {
    tti_coll_kind kind;
    tt_dtype dtype;
    tt_reduce_op op;
    int root;
    size_t count; /* elements of one part */
    bool uneven;  /* part d of rank s has (s + 2 * d) * 3 elements more */
    bool in_place;
    bool heap;    /* buffers from tti_team_alloc; may differ from rank to rank */
    size_t skew;  /* elements before the first of each buffer; may differ likewise */
    int limit_ms; /* 0: soon() */
    uint64_t seed;
} deed;

/* Does it and, if it went well, checks what this rank got. */
tt_status deed_try(tti_team *team, int rank, int size, const deed *d);
/* The same, and checks that it went well. */
void deed_do(tti_team *team, int rank, int size, const deed *d);
/* One at random, of at most `most` elements. */
deed deed_random(uint64_t *state, int size, size_t most);
uint64_t next_random(uint64_t *state);

#endif
