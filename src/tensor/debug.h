/* SPDX-License-Identifier: Apache-2.0 */
/* The search for dead tensors (TUTTI_DEBUG_TENSORS=1): every tensor knows who made it and how many scopes own
 * it; freed ones stay in a bounded quarantine, without a storage, so that who uses one later gets an error
 * instead of somebody else's memory. Functions that begin with tti_debug_ are called in that mode only. */
#ifndef TTI_TENSOR_DEBUG_H
#define TTI_TENSOR_DEBUG_H

#include "base/debug.h"
#include "tensor/tensor.h"

/* ---- asking ------------------------------------------------------------------------------------ */

/* The failure of `who`, which was given a dead tensor; TT_OK if it lives, or nobody searches. */
tt_status tti_check_dead(const tt_tensor *t, const char *who);

/* TT_OK for a tensor that lives, and for NULL, which is the caller's to judge; else the error that `who` was
 * given a dead one. */
static inline tt_status tti_check_alive(const tt_tensor *t, const char *who)
{
    return tt_likely(t == NULL || t->storage != NULL) ? TT_OK : tti_check_dead(t, who);
}

/* The same as a question, to which NULL is no. */
static inline bool tti_alive(const tt_tensor *t, const char *who)
{
    return tt_likely(t != NULL) && tti_check_alive(t, who) == TT_OK;
}

/* ---- who made it, who owns it ------------------------------------------------------------------ */

/* Memory for a tensor, in this mode; tti_debug_bury ends it. NULL with the cause recorded. */
tt_tensor *tti_debug_alloc(void);
/* `t` was made by `maker` ("add", "" when not known yet) in the innermost scope of this thread. */
void tti_debug_made(tt_tensor *t, const char *maker);
/* The reference that a scope holds comes and goes. */
void tti_debug_scope_owns(tt_tensor *t);
void tti_debug_scope_gives_up(tt_tensor *t);

static inline void tti_made_by(tt_tensor *t, const char *maker)
{
    if (tt_unlikely(tti_debug_tensors()) && t != NULL)
        tti_debug_made(t, maker);
}

/* The depth-th scope of this thread, counted from 1, was opened by the code at `site`. */
void tti_debug_scope_opened(int depth, const void *site);
/* It is closed by the code at `site`: what dies from here on does so because of that, until tti_debug_scope_closed,
 * which gets the answer. Depth 0: the thread ends. */
typedef struct tti_debug_ending {
    int depth; /* -1: no scope is being closed */
    const void *site;
} tti_debug_ending;
tti_debug_ending tti_debug_scope_closing(int depth, const void *site);
void tti_debug_scope_closed(tti_debug_ending before);

/* ---- the end ----------------------------------------------------------------------------------- */

/* Whether the caller may give up a reference to `t`. False, with an error and a warning, when `t` is dead or
 * when all references belong to scopes. */
bool tti_debug_may_free(tt_tensor *t);
/* `t`, whose parts are freed, becomes a dead one. */
void tti_debug_bury(tt_tensor *t);

#endif
