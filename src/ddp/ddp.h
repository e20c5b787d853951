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
#include "pg/overlap.h"
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
    bool sparse;     /* its gradient will be, and travels alone */
    bool missing;    /* should have had a gradient in the last backward, and had none */
    bool ready;      /* in this backward */
    int n_fired;     /* how often its hook ran in this backward */
    bool was_used;   /* in the backward before */
    int n_expected;  /* static graph: how often it did in the first */
} tti_ddp_param;

/* A parameter of the module in two types. */
typedef struct tti_ddp_twin {
    char *name;
    tt_tensor *low; /* owned: that of the last forward */
} tti_ddp_twin;

struct tti_ddp_bucket {
    tt_tensor *flat;   /* owned, in the group's memory; NULL for a sparse gradient */
    tt_tensor *wire;   /* owned: what travels, if gradients do so in another type */
    tt_tensor *sparse; /* owned: the one gradient while it travels */
    bool skip;         /* nobody uses it in this iteration */
    bool travelled;    /* in this iteration, by itself: not through a hook */
    int *params;       /* indices, in the order of their places */
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
    TTI_DDP_IDLE,       /* gradients only add up */
    TTI_DDP_PREPARED,   /* the next backward reduces */
    TTI_DDP_REDUCING,   /* it has begun */
    TTI_DDP_FAILED,     /* it ended with an error; works may be under way */
    TTI_DDP_UNFINISHED, /* it ended without gradients that should have come */
} tti_ddp_state;

struct tt_ddp {
    tt_module *module;
    tt_pg *pg;
    uint64_t id; /* of its own in this process */
    bool find_unused, views, buffer_sync;
    tti_overlap overlap; /* ENGINE, FILL or END: what all ranks do */
    bool static_graph;
    bool search;      /* find_unused, and the graph may change */
    bool skip_unused; /* search: nor reduce what nobody uses */
    tt_device
        device; /* where inputs go: that of all parameters, if it is an accelerator; else the CPU */
    tt_ddp_precision precision;
    tti_ddp_twin *twins; /* precision.params: of all parameters that have one */
    int n_twins;
    tt_module *wrapper; /* owned, made when asked for */
    tt_ddp_caps caps;
    char **ignored;
    int n_ignored;

    tti_ddp_param *params;
    int n_params;
    tti_ddp_bucket *buckets;
    int n_buckets;

    tt_ddp_hook *hook;  /* owned; NULL: the mean of all ranks */
    tt_join *join;      /* borrowed: the scope for uneven inputs, while there is one */
    bool has_joined;    /* there was one */
    int64_t n_shadowed; /* reductions without inputs */
    tt_ddp *outer;      /* whose forward runs around this one's */
    uint64_t
        outer_id; /* the last one compared with, and whether it has all parameters of this one */
    bool outer_has_all;
    bool hidden; /* search: the outputs of the last forward had parts that cannot be looked into */

    tt_ddp_buffer_fn buffer_fn; /* NULL: rank 0's are sent */
    tt_ddp_when buffer_when;
    void *buffer_ctx;
    tt_future *buffer_future; /* owned: to be waited for in backward */

    bool sync;
    tti_ddp_state state;
    int next_bucket;  /* to be started */
    int next_arrival; /* to become gradients */
    bool eager;       /* as soon as they can */
    bool ending;      /* all gradients are there: END may start */
    int *order;       /* in which gradients became ready, this backward */
    int n_ready;      /* how many are in there */
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
    tt_tensor *early; /* int32, skip_unused: who will use what; owned */
    bool have_used;   /* `reduced` is that of a reduction */

    int64_t iteration; /* forwards that lead to a reduction */
    int sample_rate;
    int n_started; /* buckets, in this backward */
    int n_buckets_reduced;
    tti_ddp_times times;
    int *first_order;  /* that of the first backward: rank 0's, once buckets are rebuilt */
    char *first_sizes; /* of the first buckets, as text */
    char *error;       /* of the last failure */
};

/* ---- ddp.c ------------------------------------------------------------------------------- */

tt_status tti_ddp_make_maps(tt_ddp *d); /* what parameters without gradients need */

/* ---- buckets.c -------------------------------------------------------------------------- */

tt_status tti_ddp_build(tt_ddp *d);   /* the first buckets */
tt_status tti_ddp_rebuild(tt_ddp *d); /* in the root's order of the last backward; collective */
void tti_ddp_free_buckets(tt_ddp *d);
/* Whether backward writes gradients into the buckets itself; not while an abandoned reduction may still use them. */
void tti_ddp_homes(tt_ddp *d, bool open);
void tti_ddp_home(tti_ddp_param *p, bool open); /* of one parameter */
bool tti_ddp_is_view(const tti_ddp_param *p, const tt_tensor *grad);
/* The error of a module that was converted after it was wrapped: its gradients are not in the buckets any more. */
tt_status tti_ddp_check_views(const tt_ddp *d);

/* ---- ddp.c: who reduces; collective ----------------------------------------------------------- */

tt_status tti_ddp_agree_overlap(tt_ddp *d);

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

/* skip_unused: marks the buckets that nobody will use; `shadow`: this rank uses none. Collective. */
tt_status tti_ddp_agree_unused(tt_ddp *d, bool shadow);
tt_status tti_ddp_search_unused(tt_ddp *d, tt_tensor *const *outs, int n);
/* So that backward begins the reduction even if no parameter gets a gradient on this rank. */
tt_status tti_ddp_hook_outputs(tt_ddp *d, tt_tensor *const *outs, int n);
void tti_ddp_unhook_outputs(tt_ddp *d);
tt_status tti_ddp_unfinished(tt_ddp *d); /* the error that lists parameters without a gradient */

/* ---- shadow.c --------------------------------------------------------------------------- */

/* With uneven inputs: what this rank is about to do, for those that have none. */
tt_status tti_ddp_tell_forward(tt_ddp *d, bool rebuilds, bool sends);
tt_status tti_ddp_tell_after_forward(tt_ddp *d, bool sends, bool skips);
tt_status tti_ddp_tell_reduction(tt_ddp *d, bool asks);
int tti_ddp_root(const tt_ddp *d);                          /* whose order and buffers count */
tt_reduce_op tti_ddp_op(const tt_ddp *d);                   /* of buckets */
tt_status tti_ddp_divide(const tt_ddp *d, tt_tensor *flat); /* what that leaves to be done */

/* ---- states.c --------------------------------------------------------------------------- */

bool tti_ddp_ignores(const tt_ddp *d, const char *name);
tt_status tti_ddp_verify(const tt_ddp *d);
enum { TTI_DDP_PARAMS = 1, TTI_DDP_BUFFERS = 2, TTI_DDP_ALL = 3 };
tt_status tti_ddp_send_states(tt_ddp *d, int root, unsigned what);

/* ---- sparse.c ------------------------------------------------------------------------------ */

tt_status tti_ddp_mark_sparse(tt_ddp *d); /* parameters of which layers say so */
/* As staging and writing back of dense gradients. */
tt_status tti_ddp_stage_sparse(tt_ddp *d, tti_ddp_param *p, bool got);
tt_status tti_ddp_take_sparse(tt_ddp *d, tti_ddp_param *p, bool used);

/* ---- buffers.c ---------------------------------------------------------------------------- */

/* Around a forward that leads to a reduction, in training: if there is something to do, and doing it. */
bool tti_ddp_sends_buffers(const tt_ddp *d, tt_ddp_when now);
tt_status tti_ddp_sync_buffers(tt_ddp *d, tt_ddp_when now);
tt_status tti_ddp_wait_buffers(tt_ddp *d);

/* ---- precision.c -------------------------------------------------------------------------- */

tt_status tti_ddp_make_twins(tt_ddp *d); /* and converts buffers */
void tti_ddp_free_twins(tt_ddp *d);
/* Forward and call of the module, in the types that were asked for. */
tt_tensor *tti_ddp_run(tt_ddp *d, tt_tensor *x);
tt_value *tti_ddp_run_value(tt_ddp *d, tt_value *in);

/* ---- group.c, wrap.c ------------------------------------------------------------------------ */

tt_pg *tti_ddp_choose_group(tt_pg *pg, const tt_mesh *mesh);
void tti_ddp_unwrap(tt_ddp *d);

/* ---- log.c ------------------------------------------------------------------------------ */

/* Keeps the last error in the record; returns `st`. */
tt_status tti_ddp_note_error(tt_ddp *d, tt_status st);
void tti_ddp_note_times(tt_ddp *d);
tt_status tti_ddp_note_sizes(tt_ddp *d);

#endif
