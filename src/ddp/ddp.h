/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of tt_ddp: a reducer that the leaves' hooks drive, the buckets it reduces, and a record of
 * what happened.
 *
 *     leaf hook --> tti_ddp_ready --> bucket full --> all_reduce, if those before it are on their way
 *     end of backward --> wait for all --> gradients are means
 */
#ifndef TTI_DDP_DDP_H
#define TTI_DDP_DDP_H

#include "base/clock.h"
#include "base/text.h"
#include "ddp/hooks/hooks.h"
#include "graph/graph.h"
#include "tutti/ddp.h"
#include "tutti/join.h"

typedef struct tti_ddp_param {
    tt_ddp *ddp;
    int index;
    tt_tensor *t; /* retained */
    char *name;   /* dotted */
    tt_hook *hook;
    int bucket;
    tt_tensor *view; /* of the bucket: where the gradient goes; owned */
    tt_tensor *kept; /* owned: the gradient before, of a parameter that was not used */
    bool ready;      /* in this backward */
    int n_fired;     /* how often its hook ran in this backward */
    bool was_used;   /* in the backward before */
    int n_expected;  /* static graph: how often it did in the first */
} tti_ddp_param;

struct tti_ddp_bucket {
    tt_tensor *flat; /* owned, in the group's memory */
    int *params;     /* indices, in the order of their places */
    int n_params;
    int n_pending;        /* not ready yet */
    size_t bytes;         /* of its parameters */
    tt_work *work;        /* owned; NULL: not started, or by a hook */
    tt_future *future;    /* owned: what the hook gave */
    tti_ddp_shown *shown; /* owned: what it sees */
};

/* Nanoseconds on the monotonic clock. */
typedef struct tti_ddp_times {
    int64_t forward_start, backward_start, backward_end, comm_start, comm_end;
    int64_t iteration; /* the last one measured, and what came out */
    int64_t forward, backward, comm, overlap;
    int64_t n; /* how many were */
    double sum_forward, sum_backward, sum_comm, sum_overlap;
} tti_ddp_times;

typedef enum tti_ddp_state {
    TTI_DDP_IDLE,     /* gradients only add up */
    TTI_DDP_PREPARED, /* the next backward reduces */
    TTI_DDP_REDUCING, /* it has begun */
    TTI_DDP_FAILED,   /* it ended with an error; works may be under way */
} tti_ddp_state;

struct tt_ddp {
    tt_module *module;
    tt_pg *pg;
    bool find_unused, views, buffer_sync;
    bool static_graph;
    bool search; /* find_unused, and the graph may change */
    tt_ddp_caps caps;
    char **ignored;
    int n_ignored;

    tti_ddp_param *params;
    int n_params;
    tti_ddp_bucket *buckets;
    int n_buckets;

    tt_ddp_hook *hook; /* owned; NULL: the mean of all ranks */
    tt_join *join;     /* borrowed: the scope for uneven inputs, while there is one */
    bool has_joined;   /* there was one */

    bool sync;
    tti_ddp_state state;
    int next_bucket; /* to be started */
    int *order;      /* in which gradients became ready, this backward */
    int n_ready;     /* how many are in there */
    bool rebuilt;
    bool may_rebuild; /* a whole backward has left its order in `first_order` */
    bool removed;
    bool changed; /* other parameters were used than before */
    bool learned; /* static graph: `n_expected` is known */

    tt_hook **out_hooks; /* search: on the outputs of the last forward */
    int n_out_hooks;
    bool *unused;       /* by the graph of the last forward */
    tt_tensor *used;    /* int32: who used what since the last reduction; owned */
    tt_tensor *reduced; /* int32: the sum over ranks */
    tt_work *used_work;
    bool have_used; /* `reduced` is that of a reduction */

    int64_t iteration; /* forwards that lead to a reduction */
    int sample_rate;
    int n_buckets_reduced;
    tti_ddp_times times;
    int *first_order;  /* that of the first backward: rank 0's, once buckets are rebuilt */
    char *first_sizes; /* of the first buckets, as text */
    char *error;       /* of the last failure */
};

/* ---- buckets.c -------------------------------------------------------------------------- */

tt_status tti_ddp_build(tt_ddp *d);   /* the first buckets */
tt_status tti_ddp_rebuild(tt_ddp *d); /* in the root's order of the last backward; collective */
void tti_ddp_free_buckets(tt_ddp *d);
bool tti_ddp_is_view(const tti_ddp_param *p, const tt_tensor *grad);

/* ---- reducer.c -------------------------------------------------------------------------- */

tt_status tti_ddp_leaf_hook(void *ctx, tt_tensor *leaf);
/* In backward: the reduction begins now, unless it has. */
tt_status tti_ddp_begin(tt_ddp *d);
/* After a forward that leads to a reduction. */
void tti_ddp_prepare(tt_ddp *d);
/* Waits for what a failed backward has left. */
tt_status tti_ddp_reset(tt_ddp *d);
/* A reduction that others have begun, to which this rank gives zeros; `asks`: and the map of used ones. */
tt_status tti_ddp_shadow(tt_ddp *d, bool asks);

/* ---- unused.c --------------------------------------------------------------------------- */

tt_status tti_ddp_search_unused(tt_ddp *d, tt_tensor *const *outs, int n);
/* So that backward begins the reduction even if no parameter gets a gradient on this rank. */
tt_status tti_ddp_hook_outputs(tt_ddp *d, tt_tensor *const *outs, int n);
void tti_ddp_unhook_outputs(tt_ddp *d);
tt_status tti_ddp_unfinished(tt_ddp *d); /* the error that lists parameters without a gradient */

/* ---- shadow.c --------------------------------------------------------------------------- */

/* With uneven inputs: what this rank is about to do, for those that have none. */
tt_status tti_ddp_tell_forward(tt_ddp *d, bool rebuilds, bool sends);
tt_status tti_ddp_tell_reduction(tt_ddp *d, bool asks);
int tti_ddp_root(const tt_ddp *d);                          /* whose order and buffers count */
tt_reduce_op tti_ddp_op(const tt_ddp *d);                   /* of buckets */
tt_status tti_ddp_divide(const tt_ddp *d, tt_tensor *flat); /* what that leaves to be done */

/* ---- states.c --------------------------------------------------------------------------- */

bool tti_ddp_ignores(const tt_ddp *d, const char *name);
tt_status tti_ddp_verify(const tt_ddp *d);
enum { TTI_DDP_PARAMS = 1, TTI_DDP_BUFFERS = 2, TTI_DDP_ALL = 3 };
tt_status tti_ddp_send_states(tt_ddp *d, int root, unsigned what);

/* ---- log.c ------------------------------------------------------------------------------ */

/* Keeps the last error in the record; returns `st`. */
tt_status tti_ddp_note_error(tt_ddp *d, tt_status st);
void tti_ddp_note_times(tt_ddp *d);
tt_status tti_ddp_note_sizes(tt_ddp *d);

#endif
