/* SPDX-License-Identifier: Apache-2.0 */
/* The team from inside: what its files share. */
#ifndef TTI_COLL_INTERNAL_H
#define TTI_COLL_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "coll/p2p.h"
#include "coll/reduce.h"
#include "coll/wait.h"

#define TTI_MAX_RANKS 500 /* the sizes of uneven operations fit a slot */
#define TTI_BUFFERS 4     /* that a window is cut into */

struct tti_heap;
struct tti_life;
struct tti_text;

/* What this rank knows of a peer. Fixed after open unless said otherwise. */
typedef struct tti_peer {
    tti_member who;
    int pid; /* as it sees itself */
    tti_block *block;
    char *slots; /* the first of layout.n_slots */
    char *window;
    struct tti_life *life; /* NULL: threads of this process, or this rank itself */
    bool cma;              /* process_vm_readv and _writev work on it */
    atomic_bool dead;      /* known to have died; any thread */
    atomic_int awaits; /* without which dead rank it waited for this one; see state_of in team.c */
} tti_peer;

struct tti_team {
    tti_team *next; /* of the list in replace.c */

    /* Fixed after open. */
    int rank, size;
    int n_cores; /* of all ranks together */
    char *group;
    bool same_process;
    bool all_cma;  /* with every peer */
    bool all_maps; /* everybody can map the files of everybody */
    tti_peer *peers;
    tti_member *members;
    unsigned char probe[16]; /* what peers try to read */
    tti_block *mine;
    tti_segment segment;
    tti_layout layout;
    tti_patience patience;
    void (*cause)(void *ctx, int rank, char *text, size_t size);
    void *cause_ctx;

    /* Of the thread that runs collectives. */
    uint64_t n;                /* operations begun */
    uint64_t running;          /* the operation that waits now: n, or n + 1 while it begins */
    uint64_t last_phase;       /* of a rank that has done its part in it; 0: arriving is all */
    uint64_t known;            /* everybody has begun this one */
    uint64_t phase;            /* my block's phase */
    const tti_coll *c;         /* what runs now */
    int64_t deadline_ns;       /* of what runs now; 0: not asked for yet */
    uint64_t word;             /* what announces it */
    uint64_t words[TTI_SLOTS]; /* and the operations before it */
    tti_span lent;             /* memory of this rank that peers write into in what runs now */
    uint64_t lent_phase;       /* of who has written all of its part there */
    uint64_t lent_leaves;      /* tti_heap_leaves when it was announced */
    tti_reduce_fn reduce;
    tt_status broken; /* of the first failure */
    char broken_text[1024];
    tt_error_info broken_about; /* its fields */
    const void **inputs;        /* size: scratch of reductions */
    void **outputs;             /* size: the same */
    double *factors;            /* size: of PREMUL_SUM */
    uint64_t *sizes;            /* 2 * size * size: of uneven operations */
    char *scratch;              /* L2-sized buffer for CMA; made at first use */
    struct tti_heap *heap;      /* memory of the peers' tti_team_alloc that is mapped here */

    /* Any thread. */
    atomic_int aborted;
    pthread_mutex_t mu_standing;                      /* my block's state and reason */
    pthread_mutex_t mu_monitored[TTI_N_MONITORED_BY]; /* one monitored barrier, to its end */
    uint64_t n_monitored[TTI_N_MONITORED_BY];         /* begun; mu_monitored */
    tti_p2p_box *box;                                 /* guards itself */
};

static inline tti_slot *tti_slot_of(const tti_team *team, int rank, uint64_t n)
{
    return (tti_slot *)(void *)(team->peers[rank].slots +
                                (n & (team->layout.n_slots - 1)) * team->layout.slot_stride);
}

/* Whether the rank whose slot of operation n has this word has begun n; its word may be that of a later one. */
static inline bool tti_has_begun(uint64_t word, uint64_t n)
{
    return (int32_t)((uint32_t)(word >> 32) - (uint32_t)n) >= 0;
}

/* After a release store that any peer may be waiting for: one fence for all, or none where sleepers see to it. */
static inline void tti_ring_peers(const tti_team *team, bool light)
{
    if (light && team->patience.heavy)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    for (int r = 0; r < team->size; r++)
        if (tt_unlikely(atomic_load_explicit(&team->peers[r].block->bell.sleepers,
                                             memory_order_relaxed) != 0 &&
                        r != team->rank))
            tti_bell_wake(&team->peers[r].block->bell);
}

/* ---- what may go wrong (trouble.c) ------------------------------------------------------ */

/* Asks the kernel whether peers live; cheap enough for every 10 ms. */
void tti_look_for_dead(tti_team *team);

/* What a wait is about, for its messages: "group g: recv 12" and so on. */
typedef struct tti_doing {
    const char *what; /* "all_reduce" */
    uint64_t seq;
} tti_doing;

/* TT_ERR_ABORTED, recorded, when this rank was aborted. */
tt_status tti_check_self(tti_team *team, const tti_doing *doing);
/* The same, and if `rank` is dead, left, aborted or failed: records that and returns PEER (INVALID when ranks called
 * different things). Looks at words in memory and at what tti_look_for_dead found. */
tt_status tti_check_peer(tti_team *team, int rank, const tti_doing *doing);
/* The same for all ranks, because the one that is waited for may be late while another one is dead: whoever is gone and has
 * not done its part in the operation that runs now ends the wait for it. A rank that did its part may end or leave. */
tt_status tti_check_peers(tti_team *team, int waited_for, const tti_doing *doing);
/* Whether nobody needs this rank any more in the operation that runs now. */
bool tti_did_part(const tti_team *team, int rank);
/* PEER when a rank that the operation needs waits for this one in a group of survivors (replace.c). */
tt_status tti_check_awaited(tti_team *team, const tti_doing *doing);
/* Whether `rank` waits for this one in a group of survivors that this one did not come to; and who died (a global rank). */
bool tti_awaits(const tti_team *team, int rank, int *lost_p);
/* Whether it does that, or has given this team up. */
bool tti_is_elsewhere(const tti_team *team, int rank);
/* "rank 5 died, and rank 3 (pid 77 on anna) waits for rank 0 in a group without it". */
void tti_add_elsewhere(const tti_team *team, int rank, struct tti_text *t);
/* All open teams of the process. */
void tti_teams_add(tti_team *team);
void tti_teams_remove(tti_team *team);
/* "rank 1 (pid 77 on anna) died: was killed by signal 9", or how else a rank is gone. */
void tti_add_fate(tti_team *team, int rank, struct tti_text *t);
/* Says to the peers how this rank stands, once and for all, and wakes them. `about`: the fields of a failure, or NULL. */
void tti_set_standing(tti_team *team, tti_standing standing, tt_status status, const char *reason,
                      const tt_error_info *about);
/* Gives the failure that was just recorded the fields `e`, and those of the team and of what it was doing. */
void tti_add_fields(const tti_team *team, const tti_doing *doing, tt_error_info *e);
/* What became of a rank that is gone, in fields. */
tt_error_info tti_fate_of(tti_team *team, int rank);
/* The last error broke the team. Returns st. */
tt_status tti_team_break(tti_team *team, tt_status st);
/* Records once more what broke the team. */
tt_status tti_team_broken(const tti_team *team);
/* Records TIMEOUT: who came to the operation that runs now, and who did not. */
tt_status tti_timed_out(tti_team *team, int waited_for, const tti_doing *doing);
/* Records INVALID: `rank` called something else than this rank in operation n of the team. */
tt_status tti_mismatch(tti_team *team, int rank, uint64_t n);

/* ---- waiting in collectives (run.c) ------------------------------------------------------ */

/* Until `rank` has begun the operation that runs now; sees that it called the same. */
tt_status tti_await_arrival(tti_team *team, int rank);
tt_status tti_await_arrivals(tti_team *team); /* everybody's */
/* Until the phase of `rank`, or of everybody, is at least `value`. */
tt_status tti_await_phase(tti_team *team, int rank, uint64_t value);
tt_status tti_await_phases(tti_team *team, uint64_t value);
/* Tells the peers that this rank is at phase `value`. */
static inline void tti_set_phase(tti_team *team, uint64_t value)
{
    team->phase = value;
    atomic_store_explicit(&team->mine->phase, value, memory_order_release);
    tti_ring_peers(team, false);
}
/* Tells the peers that this rank has begun the operation, and what it called. What was put into the slot before
 * is theirs to read then. */
void tti_arrive(tti_team *team);

/* ---- ways to do it ----------------------------------------------------------------------- */

#define TTI_SMALL_BYTES 16384 /* what fits a slot */

static inline size_t tti_buffer_bytes(const tti_team *team)
{
    return team->layout.window_bytes / TTI_BUFFERS;
}

/* The buffer of a rank's window that belongs to phase `g`. */
static inline char *tti_buffer_of(const tti_team *team, int rank, uint64_t g)
{
    return team->peers[rank].window + g % TTI_BUFFERS * tti_buffer_bytes(team);
}

bool tti_fits_small(const tti_team *team, const tti_coll *c, size_t largest);
tt_status tti_run_small(tti_team *team, const tti_coll *c);
tt_status tti_run_staged(tti_team *team, const tti_coll *c, size_t largest);
tt_status tti_run_pipeline(tti_team *team, const tti_coll *c); /* all_reduce */
/* Whether this operation can do without staging; the same answer on every rank. Announces it, and waits for those on
 * whom the answer depends. */
tt_status tti_choose_direct(tti_team *team, const tti_coll *c, size_t largest, bool *direct_p);
tt_status tti_run_direct(tti_team *team, const tti_coll *c);

/* ---- memory of peers, in place (leave.c) --------------------------------------------------- */

/* Before and after this rank reads or writes memory of `rank` (-1: of anybody) where it lies; at most some megabytes
 * between the two. PEER, recorded: the peer has left the operation, so it must not be touched, or what was read is void.
 * After a failure of the first the second is not called. */
tt_status tti_touch(tti_team *team, int rank);
tt_status tti_touched(tti_team *team, int rank);
/* This rank leaves what runs now without having completed it, and has said so: when this returns no peer touches memory of
 * this rank any more, and none will. Returns `st`, whose cause is recorded; or NOMEM, recorded with that cause. */
tt_status tti_leave_direct(tti_team *team, tt_status st);

#endif
