/* SPDX-License-Identifier: Apache-2.0 */
/* The last error of a thread in fields, and what a NULL is taken for. tutti/base.h has the words.
 *
 *     tt_error_info e;
 *     if (tt_last_error_info(&e) && e.kind == TT_ERROR_DIED)
 *         printf("rank %d died on %s\n", e.ranks[0], e.host);
 *
 * A failure is pending until the program has handled it: it asked for it with tt_last_error, tt_last_error_where or
 * tt_last_error_info, or called tt_clear_error. A function that expects an object and gets NULL keeps a pending
 * failure, because the NULL is most likely its result: so the first error survives a chain of calls. If no failure is
 * pending, the function records that it got NULL. If backward, a step of an optimizer, a collective or a request to a
 * store has succeeded since the failure, nobody can tell where the NULL came from: the words then give both. */
#ifndef TUTTI_ERROR_H
#define TUTTI_ERROR_H

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a failure is about. */
typedef enum tt_error_kind {
    TT_ERROR_OTHER,   /* none of the others; `ranks` have to do with it, if there are any */
    TT_ERROR_DIED,    /* `ranks` died; `cause` says how, if that is known */
    TT_ERROR_LEFT,    /* `ranks` left the group */
    TT_ERROR_ABORTED, /* `ranks` called tt_pg_abort; `cause` is the reason they gave */
    TT_ERROR_MISSING, /* `ranks` did not come in time */
} tt_error_kind;

/* "died"; unknown kinds give "unknown". */
TT_API const char *tt_error_kind_name(tt_error_kind kind);

#define TT_ERROR_RANKS 64

/* Fields that are unknown or have no meaning are 0 or "". Ranks are global ones, ascending. */
typedef struct tt_error_info {
    tt_status status;
    tt_error_kind kind;
    char group[64];
    char operation[48];        /* "all_reduce", "recv", "monitored barrier" */
    uint64_t number;           /* of the operation in its group */
    int n_ranks;               /* how many ranks it is about */
    int ranks[TT_ERROR_RANKS]; /* the first of them */
    int pid;                   /* of ranks[0] */
    char host[64];             /* of ranks[0] */
    char cause[512];
} tt_error_info;

/* The fields of the latest failure on this thread. False, and all zero, if there was none. */
TT_API bool tt_last_error_info(tt_error_info *info_p);
/* Those of a tt_work that failed (tutti/work.h). False, and all zero, until it failed. */
struct tt_work;
TT_API bool tt_work_error_info(const struct tt_work *w, tt_error_info *info_p);

#ifdef __cplusplus
}
#endif

#endif
