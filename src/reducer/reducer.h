/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of tt_reducer.
 *
 *     ready(i) --> copied into its bucket --> bucket full --> all_reduce, if those before it have left
 *     wait --> all works done --> copied back, everything pending again
 */
#ifndef TTI_REDUCER_REDUCER_H
#define TTI_REDUCER_REDUCER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "pg/overlap.h"
#include "tutti/collective.h"
#include "tutti/reducer.h"

typedef struct tti_reducer_grad {
    void *given;       /* the caller's; NULL: it lives in the bucket */
    char *place;       /* in the bucket */
    char *name;        /* owned; may be NULL */
    size_t bytes;      /* of its elements */
    int64_t n;         /* elements */
    tt_dtype dtype;    /* of them */
    int bucket;        /* where it lies */
    size_t offset;     /* bytes from the bucket's begin */
    atomic_bool ready; /* in this iteration */
} tti_reducer_grad;

typedef struct tti_reducer_bucket {
    tt_tensor *flat; /* owned, in the group's memory */
    tt_dtype dtype;
    size_t bytes;  /* of its gradients */
    size_t extent; /* with the gaps that align them */
    int n_grads;
    int last;      /* the place in the order of its last gradient */
    int n_pending; /* mu: not ready yet */
    tt_work *work; /* mu; owned; NULL: not started, or done */
} tti_reducer_bucket;

struct tt_reducer {
    /* Fixed after creation. */
    tt_pg *pg;
    tt_coll_options how;
    size_t cap, first_cap;
    bool first_to_last;
    tti_overlap overlap; /* ENGINE, FILL or END */
    tti_reducer_grad *grads;
    int n_grads;
    tti_reducer_bucket *buckets;
    int n_buckets;

    pthread_mutex_t mu;
    pthread_cond_t cv_started;
    bool starting;    /* mu: a thread starts buckets, without mu; cv_started when it has done so */
    int next;         /* mu: bucket to be started */
    tt_status status; /* mu: of the first bucket that failed */
    tti_error_copy error; /* mu: its words and fields */
    int64_t iterations;   /* of the thread that waits */
};

/* ---- reducer.c ---------------------------------------------------------------------------- */

#define TTI_REDUCER_NAME 128
/* Writes ` ("layer.weight")` for a gradient with a name, else nothing, into `text` and returns it. */
const char *tti_reducer_named(const tti_reducer_grad *g, char text[TTI_REDUCER_NAME]);

/* ---- plan.c ------------------------------------------------------------------------------- */

/* Which gradient lies in which bucket, and where. */
tt_status tti_reducer_plan(tt_reducer *r);
/* That all ranks have the same list and options. Collective. */
tt_status tti_reducer_compare(tt_reducer *r);

#endif
