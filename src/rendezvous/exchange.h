/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell each other while a group is being made, and how a rank that dies meanwhile is noticed. */
#ifndef TTI_RENDEZVOUS_EXCHANGE_H
#define TTI_RENDEZVOUS_EXCHANGE_H

#include "base/status.h"
#include "tutti/store.h"

/* The launcher (or the test harness) sets tutti/exit/<global rank> to a few words, such as "killed by signal
 * 9", when a rank has ended otherwise than with exit code 0. The key lies at the root of the store, outside
 * all prefixes of groups. */
#define TTI_EXIT_KEY "tutti/exit/%d"
/* The ranks for which there is such a key, as "3 7 ", so that waiting ranks look at one key instead of one per
 * rank. Set through tti_exit_record. */
#define TTI_EXIT_LIST "tutti/exits"

tt_status tti_exit_record(tt_store *root, int global_rank, const char *words);
/* Makes the list, empty. Whoever is going to note the ends of ranks says so before there are any: ranks wait for a cause
 * only where the list is. */
tt_status tti_exit_announce(tt_store *root);

#define TTI_IDENT_VERSION 1

/* What identifies a process to others. */
typedef struct tti_ident {
    int32_t pid;
    int32_t global_rank;
    int32_t world_size;
    uint32_t version;       /* TTI_IDENT_VERSION: a difference is an error that says so */
    uint64_t start_time;    /* of the process, so that a recycled pid is not taken for it */
    uint64_t pid_namespace; /* inode numbers */
    uint64_t ipc_namespace;
    char boot_id[40];
    char host[64];
} tti_ident;

tt_status tti_ident_self(int global_rank, int world_size, tti_ident *ident_p);
/* The same running kernel; its processes see each other only where the pid namespace is the same too. */
bool tti_ident_same_kernel(const tti_ident *a, const tti_ident *b);
bool tti_ident_same_host(const tti_ident *a, const tti_ident *b);
/* False when that process (on this host) is known to have ended. */
bool tti_ident_alive(const tti_ident *ident);

typedef struct tti_meeting {
    tt_store *store; /* the group's own view */
    tt_store *root;  /* any view of the store that has the exit keys; may be NULL */
    const char *group;
    int rank, size;
    const int *global_ranks;
    const tti_ident
        *idents; /* NULL in the first exchange, which is that of the idents themselves */
    int timeout_ms;
    /* Optional: a failure, recorded, when waiting for the others has no sense any more; asked in every turn. */
    tt_status (*look)(const void *ctx);
    const void *look_ctx;
} tti_meeting;

/* Everybody's n bytes, in the order of ranks. Fails within 50 ms when a rank has died (PEER, with its rank, pid
 * and, if known, exit cause) or gave up (with its words), else at the time-out (TIMEOUT, naming all missing ranks). */
tt_status tti_exchange(const tti_meeting *m, const char *step, const void *mine, size_t n,
                       void *all);

/* Says to the others that this rank makes the group no longer, and why. To be called whenever a rank fails while the group is
 * made; the first one counts. Keeps the last error. */
void tti_exchange_give_up(const tti_meeting *m, tt_status st, const char *words);

/* Takes what this rank put into the store for `step` out again; once nobody needs it any more. */
void tti_exchange_forget(const tti_meeting *m, const char *step);

/* The words of the exit key of a rank, "" when there is none; waits at most `timeout_ms`, and only where
 * somebody notes exits. */
void tti_exit_cause(tt_store *root, int global_rank, int timeout_ms, char *text, size_t size);

#endif
