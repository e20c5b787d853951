/* SPDX-License-Identifier: Apache-2.0 */
/* Communication hooks: what happens to a bucket of gradients in place of the mean over all ranks.
 *
 *     static tt_future *half(void *ctx, const tt_ddp_bucket *b)     // a hook of one's own
 *     {
 *         tt_work *w;
 *         if (tt_pg_all_reduce(b->pg, b->flat, &(tt_coll_options){ .op = TT_REDUCE_AVG }, &w) != TT_OK)
 *             return NULL;
 *         tt_future *done = tt_work_future(w);
 *         tt_work_free(w);
 *         return done;
 *     }
 *     TT_TRY(tt_ddp_register_hook(ddp, &(tt_ddp_hook){ .name = "mine", .fn = half }));
 *
 * Hooks run inside of tt_backward, in the order of buckets, the same on all ranks. docs/ddp.md is the guide. */
#ifndef TUTTI_DDP_HOOKS_H
#define TUTTI_DDP_HOOKS_H

#include "tutti/ddp.h"
#include "tutti/work.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- hooks of one's own ----------------------------------------------------------------- */

/* Gradients that travel together. Everything is borrowed, and stays until the hook's future is done. */
typedef struct tt_ddp_bucket {
    int index;
    bool is_last; /* of this backward */
    tt_ddp *ddp;
    tt_pg *pg; /* that of the tt_ddp */
    tt_tensor *
        flat; /* one-dimensional, in the group's memory: this rank's gradients, not yet divided; zeros
                      * between them */
    int n;    /* parameters */
    tt_tensor *const *grads; /* views of flat */
    tt_tensor *const *params;
    const char *const *names; /* dotted */
    int64_t iteration;        /* reductions before this one */
} tt_ddp_bucket;

/* Gives a future (NULL to fail) of what the bucket becomes: a tensor with as many elements as b->flat, or a
 * list that begins with one, as the future of an all_reduce has. It may be b->flat itself, which then needs
 * no copy. Runs on the thread of backward, which must not be kept waiting. Functions chained to the future
 * may run on the thread of a group: there, a collective of that group runs at once if it is called without
 * a work (in the same order on all ranks), and waiting for a work would be for ever. */
typedef tt_future *(*tt_ddp_hook_fn)(void *ctx, const tt_ddp_bucket *b);

typedef struct tt_ddp_hook {
    const char *name; /* in the record and in errors; NULL: "user" */
    tt_ddp_hook_fn fn;
    /* On the thread of backward, when the bucket has become what the hook gave and the gradients are in place,
     * in the order of buckets; may be NULL. */
    tt_status (*done)(void *ctx, const tt_ddp_bucket *b);
    void *ctx;
    void (*free_ctx)(void *ctx); /* may be NULL; called once, when the hook is dropped */
} tt_ddp_hook;

/* From the next backward on, on all ranks alike. A tt_ddp has one hook at most: INVALID for a second one, or
 * inside of a backward that reduces. Takes ctx over, also when it fails. */
TT_API tt_status tt_ddp_register_hook(tt_ddp *d, const tt_ddp_hook *hook);
TT_API const char *tt_ddp_hook_name(const tt_ddp *d); /* NULL: none */

#ifdef __cplusplus
}
#endif

#endif
