/* SPDX-License-Identifier: Apache-2.0 */
/* Point to point over memory that the ranks share, and what a team has to give to it. The functions do
 * what their namesakes tti_p2p_... of team.h promise. */
#ifndef TTI_COLL_P2P_H
#define TTI_COLL_P2P_H

#include "coll/team.h"

typedef struct tti_p2p_box tti_p2p_box; /* the messages of one rank of one team */

typedef enum tti_rank_state {
    TTI_RANK_HERE,
    TTI_RANK_DEAD,
    TTI_RANK_LEFT,
    TTI_RANK_ABORTED,
    TTI_RANK_ELSEWHERE, /* goes on in a group of survivors */
    TTI_RANK_AWAITS /* waits for this rank in a group of survivors, and may come back after that */
} tti_rank_state;

typedef struct tti_p2p_env {
    int rank, size;
    const char *group;         /* borrowed, as are the members */
    const tti_member *members; /* `size` of them */
    bool same_process, no_cma;
    int n_cores; /* that the ranks have together */
    /* tti_p2p_region_bytes(size) of shared memory, zero when the first rank opens, aligned to 64. */
    void *region;
    /* How a rank is. `ask`: ask the kernel about all ranks first, otherwise only look at what is known. Called
     * with the lock of the box held, so it must not call back. */
    tti_rank_state (*state)(void *ctx, int rank, bool ask);
    /* Optional: a few words on how a dead rank ended, or why a rank (this one too) aborted or goes on elsewhere; "rank 5 died" for
     * one that awaits this one since. "" when nothing is known.
     * May wait some milliseconds for them. Called with the lock held, like `state`. */
    void (*reason)(void *ctx, int rank, tti_rank_state state, char *text, size_t size);
    /* Optional: called after something for `rank` was published, besides ringing the bell where its
     * p2p waits sleep; for ranks that sleep elsewhere. */
    void (*wake)(void *ctx, int rank);
    void *ctx;
} tti_p2p_env;

size_t tti_p2p_region_bytes(int size);
tt_status tti_p2p_box_open(const tti_p2p_env *env, tti_p2p_box **box_p);
/* Before the first message: who goes to sleep fences for those who send, on every rank (wait.h). */
void tti_p2p_box_fence_heavily(tti_p2p_box *box);
/* Unfinished operations end with TT_ERR_ABORTED; they may be freed later. Accepts NULL. */
void tti_p2p_box_close(tti_p2p_box *box);

tt_status tti_p2p_box_start(tti_p2p_box *box, const tti_p2p_args *args, tti_p2p **op_p);
bool tti_p2p_box_now(tti_p2p_box *box, const tti_p2p_args *args, bool patient);
void tti_p2p_box_progress(tti_p2p_box *box);
void tti_p2p_box_idle(tti_p2p_box *box, int64_t deadline_ns);
void tti_p2p_box_wake(tti_p2p_box *box);
/* Wakes every waiter of this rank, and those of `rank`: after a state changed. */
void tti_p2p_box_alarm(tti_p2p_box *box, int rank);
/* Whether messages are under way; for loops that wait for something else. */
bool tti_p2p_box_busy(const tti_p2p_box *box);

#endif
