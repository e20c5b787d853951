/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training: every rank has a copy of the module and trains on its own data; backward gives
 * all of them the mean of their gradients.
 *
 *     tt_ddp *ddp = tt_ddp_new(net, tt_pg_default(), NULL);   // all ranks now have rank 0's parameters
 *     TT_SCOPE {
 *         tt_tensor *loss = tt_mse_loss(tt_ddp_forward(ddp, x), y);
 *         TT_TRY(tt_backward(loss));                          // the gradients are means over the ranks
 *         TT_TRY(tt_optim_step(opt));
 *     }
 *     tt_ddp_free(ddp);
 *
 * Gradients travel in buckets while backward still computes others. docs/ddp.md is the guide. One thread
 * at a time uses a tt_ddp and its module. */
#ifndef TUTTI_DDP_H
#define TUTTI_DDP_H

#include "tutti/collective.h"
#include "tutti/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_ddp tt_ddp;

#define TT_DDP_MB ((size_t)1048576)
#define TT_DDP_BUCKET_MB 25                 /* how large buckets are */
#define TT_DDP_FIRST_BUCKET_BYTES TT_DDP_MB /* the first one: it should leave early */
#define TT_DDP_MAX_CAPS 64

typedef enum tt_ddp_switch {
    TT_DDP_DEFAULT,
    TT_DDP_ON,
    TT_DDP_OFF,
} tt_ddp_switch;

/* Types to compute and to travel in; float32, which is zero: as they are. Parameters stay what they are and
 * so do their gradients; forward sees copies of them in another type. */
typedef struct tt_ddp_precision {
    tt_dtype params;  /* floating parameters and inputs in forward, and so in backward */
    tt_dtype reduce;  /* gradients between the ranks, unless a communication hook sees to it */
    tt_dtype buffers; /* floating buffers, converted by tt_ddp_new */
    bool keep_inputs; /* do not convert the inputs of forward */
} tt_ddp_precision;

typedef struct tt_ddp_options {
    double bucket_cap_mb;             /* 0: 25, with a first bucket of 1 */
    const double *bucket_cap_mb_list; /* the cap of each bucket, the last one's for the rest */
    int n_bucket_caps;                /* 0: no list */
    /* Some parameters may get no gradient: look for them after each forward and ask everybody who used
     * which. A parameter that nobody used keeps the gradient it has, or none. */
    bool find_unused;
    /* The same parameters get gradients in every iteration as in the first, which may be others on other
     * ranks: no search and no asking from then on. A change is an error. */
    bool static_graph;
    /* find_unused: ask everybody after forward, and leave out buckets that nobody uses. */
    bool skip_unused_buckets;
    tt_mesh *mesh;        /* one-dimensional, in place of a group; borrowed */
    bool copy_gradients;  /* keep gradients outside of the buckets: one copy more of each */
    bool no_initial_sync; /* leave parameters and buffers as they are at first */
    tt_ddp_switch
        forward_sync_buffers;        /* on: rank 0's buffers go to all before a training forward */
    tt_ddp_switch broadcast_buffers; /* deprecated name of forward_sync_buffers, which wins */
    tt_ddp_precision precision;
    const char *const
        *ignored; /* parameters and buffers by dotted name: neither sent nor reduced */
    int n_ignored;
    int log_sample_rate; /* iterations between two measurements, after the first nine; 0: 100 */
} tt_ddp_options;

/* ---- life time ------------------------------------------------------------------------- */

/* Keeps the module and the group (NULL: opt->mesh's; not both). Collective: fails on all ranks, naming the parameter and the rank, when
 * their parameters differ in number, name, shape or type. INVALID if no parameter requires a gradient. */
TT_API tt_ddp *tt_ddp_new(tt_module *m, tt_pg *pg, const tt_ddp_options *opt);
/* Accepts NULL. Gradients that are views of buckets stay valid. */
TT_API void tt_ddp_free(tt_ddp *d);
/* Backward no longer reduces; for giving the module to another tt_ddp, also after a failure. */
TT_API void tt_ddp_remove_hooks(tt_ddp *d);

TT_API tt_module *tt_ddp_module(const tt_ddp *d); /* borrowed */
TT_API tt_pg *tt_ddp_group(const tt_ddp *d);      /* borrowed */

/* Its forward and call are tt_ddp_forward and tt_ddp_call, and its child "module" is the module: for putting
 * a tt_ddp into other modules, or into another tt_ddp, which then reduces the gradients of both. Borrowed; it
 * fails when the tt_ddp is gone. A copy of it (tt_module_copy) is a module that nobody reduces. */
TT_API tt_module *tt_ddp_as_module(tt_ddp *d);

/* Go on with another group, also when the old one or the last backward has failed; gradients stay. Collective
 * over the new one: compares as tt_ddp_new does, and buckets begin anew. Values are not sent: for that there
 * is tt_ddp_sync_states. */
TT_API tt_status tt_ddp_set_group(tt_ddp *d, tt_pg *pg);

/* ---- training -------------------------------------------------------------------------- */

/* As tt_module_forward and tt_module_call. If gradients are recorded, the next backward reduces them. A
 * forward without, or in eval mode, involves no other rank. Fails when the backward before has left
 * parameters without a gradient, naming them. */
TT_API tt_tensor *tt_ddp_forward(tt_ddp *d, tt_tensor *x);
TT_API tt_value *tt_ddp_call(tt_ddp *d, tt_value *in);

/* Whether the forwards from here on lead to a reduction; returns what it was. Without, gradients add up
 * on this rank, and the next backward that reduces takes the sum. */
TT_API bool tt_ddp_set_sync(tt_ddp *d, bool on);

typedef struct tt_ddp_sync_guard {
    tt_ddp *ddp;
    bool before;
} tt_ddp_sync_guard;

TT_API tt_ddp_sync_guard tt_ddp_no_sync_open(tt_ddp *d);
TT_API void tt_ddp_no_sync_close(tt_ddp_sync_guard *g);

/* TT_DDP_NO_SYNC(ddp) { forward and backward without reduction } */
#define TT_DDP_NO_SYNC(d) TT_DDP_NO_SYNC_NAMED(d, __COUNTER__)
#define TT_DDP_NO_SYNC_NAMED(d, n) TT_DDP_NO_SYNC_WITH(d, n)
#define TT_DDP_NO_SYNC_WITH(d, n)                                                 \
    for (tt_ddp_sync_guard tt_guard_##n                                           \
         __attribute__((cleanup(tt_ddp_no_sync_close))) = tt_ddp_no_sync_open(d), \
         *tt_once_##n = &tt_guard_##n;                                            \
         tt_once_##n != NULL; tt_once_##n = NULL)

/* Before the first iteration; INVALID afterwards. */
TT_API tt_status tt_ddp_set_static_graph(tt_ddp *d);
/* So far the same parameters got gradients on this rank in all reductions: static_graph would do. */
TT_API bool tt_ddp_is_static(const tt_ddp *d);
TT_API bool tt_ddp_has_rebuilt(const tt_ddp *d); /* buckets, in the order of gradients */

/* OK when the last backward has reduced everything; else the error that the next forward would give. */
TT_API tt_status tt_ddp_check_finished(tt_ddp *d);

/* Sends rank `root`'s parameters and buffers to all. Collective. */
TT_API tt_status tt_ddp_sync_states(tt_ddp *d, int root);
/* The same with buffers only: what forward does in training. */
TT_API tt_status tt_ddp_send_buffers(tt_ddp *d, int root);
/* What tt_ddp_new compares, for the module as it is now. Collective. */
TT_API tt_status tt_ddp_verify(tt_ddp *d);

typedef enum tt_ddp_when {
    TT_DDP_BEFORE_FORWARD,
    TT_DDP_AFTER_FORWARD,
} tt_ddp_when;

/* In place of the sending of buffers. A hook that does not wait for what it started stores a future of it in
 * *future_p, which is then no longer the hook's: it is waited for before forward computes, or else at the end
 * of backward. `buffers` are those that are not ignored. */
typedef tt_status (*tt_ddp_buffer_fn)(void *ctx, tt_ddp *d, const tt_state_dict *buffers,
                                      tt_future **future_p);
TT_API tt_status tt_ddp_set_buffer_hook(tt_ddp *d, tt_ddp_when when, tt_ddp_buffer_fn fn,
                                        void *ctx); /* fn NULL: none */

/* ---- asking ---------------------------------------------------------------------------- */

/* The parameters that are reduced, in the module's order. NULL past the end. */
TT_API int tt_ddp_n_params(const tt_ddp *d);
TT_API tt_tensor *tt_ddp_param(const tt_ddp *d, int i);
TT_API const char *tt_ddp_param_name(const tt_ddp *d, int i);
/* The names of tensors that should be exactly those parameters, in any order: INVALID when one is not, or one
 * of the parameters is missing. */
TT_API tt_status tt_ddp_name_params(const tt_ddp *d, tt_tensor *const *ts, int n,
                                    const char **names);
/* With precision.params: what the last forward used in place of the parameter (or buffer) of this name, and
 * what the optimizer works on. Borrowed; NULL without an error where there are no such twins. */
TT_API tt_tensor *tt_ddp_low_precision(const tt_ddp *d, const char *name);
TT_API tt_tensor *tt_ddp_full_precision(const tt_ddp *d, const char *name);
/* find_unused: how many ranks used parameter i in the last reduction; -1 before, or past the end. */
TT_API int tt_ddp_n_users(const tt_ddp *d, int i);

TT_API int tt_ddp_n_buckets(const tt_ddp *d);

/* What is known about this training: a map with PyTorch's names ("world_size", "bucket_sizes",
 * "backward_comm_time", ...); yours to free. docs/ddp.md lists them. */
TT_API tt_value *tt_ddp_log_value(const tt_ddp *d);
/* The same as a table. Free with tt_text_free. */
TT_API char *tt_ddp_log(const tt_ddp *d);
/* "env:NAME=value" or "env:NAME=N/A", a line for each variable that matters to training. Free likewise. */
TT_API char *tt_ddp_env_text(void);

/* ---- how tensors come into buckets --------------------------------------------------------- */

/* Caps in bytes, from what the options say. */
typedef struct tt_ddp_caps {
    size_t cap;                         /* of any bucket; the largest of a list */
    size_t first;                       /* of the first one */
    size_t per_bucket[TT_DDP_MAX_CAPS]; /* the list, if there is one */
    int n_per_bucket;
} tt_ddp_caps;

TT_API tt_status tt_ddp_caps_make(double cap_mb, const double *list_mb, int n_list,
                                  tt_ddp_caps *caps_p);
TT_API double tt_ddp_caps_mb(const tt_ddp_caps *caps);

typedef struct tt_ddp_limits {
    size_t bytes[TT_DDP_MAX_CAPS]; /* of bucket 0, 1, ...; the last one's for the rest */
    int n;
} tt_ddp_limits;

/* At first everything goes into one bucket (SIZE_MAX), as the order of gradients is not known yet: unless
 * buckets are never built again, which is so with find_unused, or there is a list. An empty `rebuild`
 * means the caps. */
TT_API void tt_ddp_caps_limits(const tt_ddp_caps *caps, bool find_unused, bool static_graph,
                               tt_ddp_limits *initial, tt_ddp_limits *rebuild);

/* The bucket of each tensor, in order: a bucket is full when it has reached its limit, and holds tensors of
 * one type and device. Buckets are numbered by their first tensors. UNSUPPORTED for sparse tensors. */
TT_API tt_status tt_ddp_assign(tt_tensor *const *ts, int n, const tt_ddp_limits *limits,
                               int *bucket_of, int *n_buckets_p);
/* The same; a failure goes into the record of d. */
TT_API tt_status tt_ddp_assign_logged(tt_ddp *d, tt_tensor *const *ts, int n,
                                      const tt_ddp_limits *limits, int *bucket_of,
                                      int *n_buckets_p);

#ifdef __cplusplus
}
#endif

#endif
