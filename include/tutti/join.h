/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with different numbers of inputs. A rank that runs out takes part in what the others still do
 * together, with nothing of its own, until the last one is done; then all get the last one's model.
 *
 *     tt_joinable list[] = { tt_ddp_joinable(ddp) };
 *     tt_join *j = tt_join_new(list, 1, NULL);
 *     while (more inputs on this rank)
 *         TT_SCOPE { forward, backward, step }
 *     st = tt_join_finish(j);                      // shadows the others
 *     tt_join_free(j);
 *
 * What does things together is a joinable: a tt_ddp, a tt_zero, or an object of yours. Before it does, it
 * tells the others with tt_join_notify: one small all_gather. */
#ifndef TUTTI_JOIN_H
#define TUTTI_JOIN_H

#include "tutti/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_join tt_join;

typedef struct tt_join_options {
    bool disabled;         /* do nothing: inputs are even */
    bool divide_by_active; /* gradients are means over the ranks still training, not over all */
    /* Fail on all ranks when the first one runs out: for modules that communicate in forward, which
     * nobody can shadow. Every rank has then done the same number of iterations. */
    bool throw_on_early_termination;
} tt_join_options;

#define TT_JOIN_MAX 16         /* joinables */
#define TT_JOIN_MAX_EVENT 1023 /* see tt_join_notify */

typedef struct tt_joinable_ops {
    const char *name; /* for messages */
    tt_pg *(*group)(void *self);
    /* Fails for options that cannot work with `self`; may be NULL. */
    tt_status (*check)(void *self, const tt_join_options *opt);
    /* The scope begins: `self` calls tt_join_notify from now on. `j` NULL: it is over. */
    void (*attach)(void *self, tt_join *j);
    /* On ranks without inputs: the collectives that follow tt_join_notify(.., event) on the others. */
    tt_status (*shadow)(void *self, tt_join *j, int event);
    /* When all have run out, on all of them; may be NULL. tt_join_last_rank says whose state counts. */
    tt_status (*finish)(void *self, tt_join *j);
} tt_joinable_ops;

typedef struct tt_joinable {
    const tt_joinable_ops *ops;
    void *self;
} tt_joinable;

TT_API tt_joinable tt_ddp_joinable(tt_ddp *d);

/* ---- the scope --------------------------------------------------------------------------- */

/* All are of the same group, and in no other scope. They have to outlive it. */
TT_API tt_join *tt_join_new(const tt_joinable *list, int n, const tt_join_options *opt);
/* This rank has no more inputs. Returns when all have none and have the model of the last one. With
 * throw_on_early_termination: INVALID, naming this rank, if another one has more. */
TT_API tt_status tt_join_finish(tt_join *j);
/* Without finish before: this rank leaves, because of an error, say. Accepts NULL. */
TT_API void tt_join_free(tt_join *j);

/* ---- for joinables ------------------------------------------------------------------------ */

/* Called by `self` on every rank that still has inputs, before its collectives; `event` (0 to
 * TT_JOIN_MAX_EVENT) tells the others which will follow. Does nothing if j is NULL. INVALID, on all ranks,
 * if they do not all do the same; or if a rank has run out, with throw_on_early_termination. */
TT_API tt_status tt_join_notify(tt_join *j, const void *self, int event);

/* As of the last notification; before the first, all. */
TT_API int tt_join_n_active(const tt_join *j);
TT_API int tt_join_first_active(const tt_join *j); /* the lowest of their ranks */
TT_API bool tt_join_divides_by_active(const tt_join *j);
TT_API bool tt_join_enabled(const tt_join *j);
/* After finish: of the ranks that ran out last, the highest. Before: -1. */
TT_API int tt_join_last_rank(const tt_join *j);

#ifdef __cplusplus
}
#endif

#endif
