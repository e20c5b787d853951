/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training for programs with gradients of their own: plain memory, no tensors.
 *
 *     tt_reducer_grad grads[] = { { .data = dw, .n = 4096 }, { .data = db, .n = 64 } };
 *     tt_reducer *r = tt_reducer_new(pg, grads, 2, NULL);
 *
 *     each step:  ... db is computed ...   tt_reducer_ready(r, 1);     // its way begins
 *                 ... dw is computed ...   tt_reducer_ready(r, 0);
 *                 tt_reducer_wait(r);      // both are means over all ranks now
 *                 ... the step of the optimizer ...
 *
 * Gradients travel in buckets of many, while the program goes on computing. A bucket leaves when all of it is
 * ready and those before it have left, so that ranks may compute in different orders. Buckets are filled from
 * the last gradient to the first, as that is how they usually become ready: list gradients in the order of the
 * forward pass. A gradient with data NULL lives in the reducer's memory, which all ranks share: nothing is
 * copied then. */
#ifndef TUTTI_REDUCER_H
#define TUTTI_REDUCER_H

#include "tutti/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_reducer tt_reducer;

typedef struct tt_reducer_grad {
    void *data;       /* yours, as long as the reducer lives; NULL: ask tt_reducer_data */
    int64_t n;        /* elements, the same on all ranks */
    tt_dtype dtype;   /* zero: float32 */
    const char *name; /* for messages; NULL: its number only */
} tt_reducer_grad;

typedef enum tt_reducer_op {
    TT_REDUCER_MEAN, /* integers: rounded towards zero */
    TT_REDUCER_SUM,
    TT_REDUCER_MIN,
    TT_REDUCER_MAX,
} tt_reducer_op;

typedef struct tt_reducer_options {
    size_t bucket_bytes;       /* a bucket is full when it has so many; 0: 25 MiB */
    size_t first_bucket_bytes; /* of the first one; 0: 1 MiB, or bucket_bytes if that is less */
    tt_reducer_op op;
    bool first_to_last; /* buckets are filled from gradient 0 on */
} tt_reducer_options;

/* Collective: all ranks, with the same sizes, types and options; INVALID, saying who differs, if not. Keeps
 * the group; copies the list. Memory of the reducer is zero at first. */
TT_API tt_reducer *tt_reducer_new(tt_pg *pg, const tt_reducer_grad *grads, int n,
                                  const tt_reducer_options *opt);
/* At any time. Accepts NULL. */
TT_API void tt_reducer_free(tt_reducer *r);

/* Gradient i is final: leave it alone until tt_reducer_wait. From any thread, each gradient once per
 * iteration; INVALID the second time and for an index that is none, and nothing has happened then. */
TT_API tt_status tt_reducer_ready(tt_reducer *r, int i);
/* Ends the iteration: waits until all gradients are reduced, in place, and makes the next one begin. INVALID,
 * naming them, while gradients are not ready: make them so (of zeros, if this iteration has none) and call it
 * again; the other ranks wait for that. When the group fails, its error; the gradients are undefined then. */
TT_API tt_status tt_reducer_wait(tt_reducer *r);

/* Where gradient i is: what was given, or 64-byte aligned memory of the reducer. NULL past the end. */
TT_API void *tt_reducer_data(const tt_reducer *r, int i);

TT_API int tt_reducer_n_buckets(const tt_reducer *r);
TT_API int tt_reducer_bucket_of(const tt_reducer *r, int i);       /* -1 past the end */
TT_API size_t tt_reducer_bucket_bytes(const tt_reducer *r, int b); /* of its gradients */
TT_API int64_t tt_reducer_iterations(const tt_reducer *r);         /* ended well so far */

#ifdef __cplusplus
}
#endif

#endif
