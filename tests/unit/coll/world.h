/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for tests of teams: forked processes or threads, which meet over shared memory. */
#ifndef TESTS_COLL_WORLD_H
#define TESTS_COLL_WORLD_H

#include <tutti/testing.h>

#include "base/clock.h"
#include "coll/team.h"

#define WORLD_MAX 16

/* Instrumented code is slow, most of all in moving and comparing megabytes: it does less of the same. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FEWER(n, sanitized) (sanitized)
#else
#define FEWER(n, sanitized) (n)
#endif

typedef struct world world;

/* One rank's part of a test. Checks count for the whole test. */
typedef void (*rank_fn)(world *w, int rank, void *ctx);

typedef struct world_options {
    bool threads;
    bool no_cma;
    size_t staging_bytes;
    bool may_die; /* ranks may end by a signal */
} world_options;

/* Runs fn on every rank and waits for the end of all. */
void world_run(int size, const world_options *opt, rank_fn fn, void *ctx);
/* On a rank: opens its team. May be called several times by all. */
tti_team *world_team(world *w, int rank);
tt_status world_open(world *w, int rank, tti_team **team_p);
int world_size(const world *w);
int world_pid(const world *w, int rank);
/* `n` words that all ranks share, zero at first. */
_Atomic uint64_t *world_words(world *w);
/* Waits until a word is at least `value`; the test fails after 20 s. */
void world_await(world *w, int word, uint64_t value);

/* Limits long enough for a busy machine. */
static inline int64_t soon(void)
{
    return tti_deadline(20000);
}

#endif
