/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of operations under way, and futures of their results.
 *
 *     tt_work *w;
 *     TT_TRY(tt_pg_all_reduce(pg, t, NULL, &w));
 *     ...                                            // compute something else
 *     tt_status st = tt_work_wait(w, 0);             // the operation's own status
 *     tt_work_free(w);                               // any time; the operation goes on
 *
 * A work or future completes exactly once: success, failure, time-out or abort. */
#ifndef TUTTI_WORK_H
#define TUTTI_WORK_H

#include "tutti/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_work tt_work;
typedef struct tt_future tt_future;

/* ---- works ----------------------------------------------------------------------------- */

TT_API bool tt_work_done(const tt_work *w); /* succeeded or failed */
/* Waits for the end and gives the operation's status; its words become the last error. When
 * `timeout_ms` (0: none but the operation's own) passes first: TT_ERR_TIMEOUT, and it goes on. */
TT_API tt_status tt_work_wait(tt_work *w, int timeout_ms);
TT_API tt_status tt_work_status(const tt_work *w);  /* TT_OK while it runs */
TT_API const char *tt_work_error(const tt_work *w); /* "" until it failed */
/* The rank that a receive got its data from, once done; -1 for other operations. */
TT_API int tt_work_source(const tt_work *w);
TT_API const char *tt_work_op(const tt_work *w); /* "all_reduce" */
TT_API uint64_t tt_work_seq(const tt_work *w);   /* its number in its group */
TT_API tt_work *tt_work_retain(tt_work *w);
TT_API void tt_work_free(tt_work *w); /* accepts NULL */

/* The future of the operation's result: a list of its output tensors. Yours to free. */
TT_API tt_future *tt_work_future(tt_work *w);

/* ---- futures --------------------------------------------------------------------------- */

/* A future to be completed by tt_future_set or tt_future_fail. */
TT_API tt_future *tt_future_new(void);
/* The first of these counts, later ones fail with TT_ERR_INVALID. `v` is kept; NULL is null. */
TT_API tt_status tt_future_set(tt_future *f, tt_value *v);
TT_API tt_status tt_future_fail(tt_future *f, tt_status st, const char *words);

TT_API bool tt_future_done(const tt_future *f);
/* As tt_work_wait. On a group's own thread, where functions of futures run, both refuse with TT_ERR_INVALID to wait for
 * what that thread has to do itself. */
TT_API tt_status tt_future_wait(tt_future *f, int timeout_ms);
/* Borrowed, as long as the future lives; NULL with an error before the end or after a failure. */
TT_API tt_value *tt_future_value(const tt_future *f);
TT_API const char *tt_future_error(const tt_future *f);

/* Gives the value of the new future (a reference, NULL to fail). `f` is done; it may have failed. */
typedef tt_value *(*tt_future_fn)(void *ctx, tt_future *f);

/* Calls fn when `f` is done, at once if it is, without any lock held; the new future has what fn
 * gave. fn runs on the thread that completed `f`, so it must not wait for other work of the group. */
TT_API tt_future *tt_future_then(tt_future *f, tt_future_fn fn, void *ctx);
/* A future that is done when all are: the list of their values, or the first failure in order. */
TT_API tt_future *tt_future_all(tt_future *const *fs, int n);

TT_API tt_future *tt_future_retain(tt_future *f);
TT_API void tt_future_free(tt_future *f); /* accepts NULL; also inside its own callback */

#ifdef __cplusplus
}
#endif

#endif
