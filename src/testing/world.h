/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of several ranks. A world is what the ranks of one test and their leader share: memory that
 * outlives each of them. The leader is the process of the test; it runs no test code. */
#ifndef TTI_TESTING_WORLD_H
#define TTI_TESTING_WORLD_H

#include "testing/testing.h"

/* The option by which the program is told that it is a rank: --as-rank RANK:FD. */
#define TTI_RANK_OPTION "--as-rank"

enum {
    TTI_MAX_RANKS = 256,
    TTI_MAX_HOOKS = 8,
    TTI_EXIT_WOKEN = 71 /* a rank ended only because another one did */
};

typedef struct tti_world_rank {
    tti_test_record record;
    atomic_int pid;
    atomic_bool expects; /* expected_status is meant */
    atomic_int expected_status;
    atomic_bool ignored;
} tti_world_rank;

typedef struct tti_world {
    tt_test_kind kind;
    int size;
    uint64_t seed;
    double limit;
    size_t bytes;
    char suite[256];
    char name[512];
    atomic_uint gate_count; /* ranks at the barrier */
    atomic_uint gate_turn;  /* barriers passed; a futex */
    atomic_bool ending;     /* a rank has failed or skipped: whoever waits for it should stop */
    atomic_bool any_expects;
    atomic_int any_status;
    tti_world_rank ranks[];
} tti_world;

/* How one rank ended, as the leader saw it. */
typedef struct tti_rank_end {
    bool ended;
    bool stopped; /* by the leader, since another rank had ended the test, or time was up */
    int status;   /* of waitpid */
} tti_rank_end;

/* lead.c: whether this process has to lead the ranks of t; does it and gives the exit code. */
bool tti_world_wanted(const tt_test *t);
int tti_world_lead(const tt_test *t, uint64_t seed, double limit);

/* spawn.c: starts rank processes; used by lead.c and kept.c. */
typedef struct tti_rank_proc {
    pid_t pid;
    int pid_fd;
    int output;  /* memory file */
    int channel; /* the leader's end; -1: none */
    off_t shown; /* of the output */
    tti_rank_end end;
} tti_rank_proc;

tti_world *tti_world_new(const tt_test *t, uint64_t seed, double limit, int *fd_p);
void tti_world_free(tti_world *w);
bool tti_rank_spawn(tti_rank_proc *p, const tti_world *w, int world_fd, int rank,
                    bool with_channel);
void tti_rank_reap(tti_rank_proc *p); /* it is dead or dying */
void tti_rank_close(tti_rank_proc *p);
/* What it printed since the last call; the caller frees it. NULL: nothing. */
char *tti_rank_output(tti_rank_proc *p);

/* verdict.c: pass, fail or skip of one rank, with words; and of all, written to the record of the
 * leader. `why`: what ended the test instead of a rank, or NULL. Returns the exit code. */
tti_test_verdict tti_rank_judge(const tti_world *w, int rank, const tti_rank_end *end, char *note,
                                size_t size);
int tti_world_judge(const tti_world *w, const tti_rank_end *ends, int first, const char *why,
                    tti_test_record *record);

/* rank.c: the world and rank of this process or thread. */
typedef struct tti_rank_self {
    tti_world *world; /* NULL: a plain test */
    int rank;
} tti_rank_self;

tti_rank_self tti_rank_get(void);
void tti_rank_enter_thread(tti_world *w, int rank); /* NULL: leave */
int tti_rank_main(const char *arg);
const char *tti_test_thread_words(void); /* "rank 3: " on a thread that is a rank, else "" */
void tti_gate_wake(tti_world *w);

/* threads.c */
int tti_threads_lead(const tt_test *t, tti_world *w);

/* kept.c: the loop of a rank that is kept. */
int tti_kept_loop(tti_world *w, int rank);

/* group.c: what belongs to tt_test_pg(). */
void tti_world_end_group(void);                                      /* the kept ranks' */
void tti_world_end_body(int code);                                   /* of this rank */
void tti_world_rank_died(tti_world *w, int rank, const char *cause); /* in the leader */

#endif /* TTI_TESTING_WORLD_H */
