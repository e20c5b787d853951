/* SPDX-License-Identifier: Apache-2.0 */
/* Communication hooks: what happens to a bucket of gradients in place of the mean over all ranks.
 *
 *     static tt_future *mean(void *ctx, const tt_ddp_bucket *b)     // a hook of one's own
 *     {
 *         tt_work *w;
 *         if (tt_pg_all_reduce(b->pg, b->flat, &(tt_coll_options){ .op = TT_REDUCE_AVG }, &w) != TT_OK)
 *             return NULL;
 *         tt_future *done = tt_work_future(w);
 *         tt_work_free(w);
 *         return done;
 *     }
 *     TT_TRY(tt_ddp_register_hook(ddp, &(tt_ddp_hook){ .name = "mine", .fn = mean }));
 *
 * Hooks run inside of tt_backward, in the order of buckets, the same on all ranks. docs/ddp.md is the guide. */
#ifndef TUTTI_DDP_HOOKS_H
#define TUTTI_DDP_HOOKS_H

#include "tutti/ddp.h"
#include "tutti/optim.h"
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
 * may run on the thread of a group, where waiting for a work of that group would be for ever; for several
 * collectives in a row there is tt_ddp_run_steps. */
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
/* Frees a hook that was not registered. Accepts NULL and zeroed hooks. */
TT_API void tt_ddp_hook_drop(tt_ddp_hook *hook);

/* For hooks that need several collectives one after the other: fn(ctx, pg) runs on the thread of the group,
 * after everything that was called on it before. Collectives of pg that it calls without a work run at once, in
 * the same order on all ranks. The future has what fn gives (a reference; NULL to fail). `free_ctx` (may be NULL)
 * is called once, in every case. */
typedef tt_value *(*tt_ddp_steps_fn)(void *ctx, tt_pg *pg);
TT_API tt_future *tt_ddp_run_steps(tt_pg *pg, tt_ddp_steps_fn fn, void *ctx,
                                   void (*free_ctx)(void *ctx));

/* ---- stock hooks ------------------------------------------------------------------------- */

/* `pg` is the group to use (a tt_pg), NULL: that of the tt_ddp. They can be called from hooks of one's own. */

/* The mean over ranks, with the bits that there are without a hook. */
TT_API tt_future *tt_ddp_allreduce_hook(void *pg, const tt_ddp_bucket *b);
/* The same, sent as float16 or bfloat16. The sum is made in float32. */
TT_API tt_future *tt_ddp_fp16_compress_hook(void *pg, const tt_ddp_bucket *b);
TT_API tt_future *tt_ddp_bf16_compress_hook(void *pg, const tt_ddp_bucket *b);
/* Sent as 8 bits per element, with one scale for the bucket or for every 512 elements; the mean of what can
 * be read from that, the same bits on all ranks. A part with an infinity or NaN becomes NaN. */
TT_API tt_future *tt_ddp_quantize_per_tensor_hook(void *pg, const tt_ddp_bucket *b);
TT_API tt_future *tt_ddp_quantize_per_channel_hook(void *pg, const tt_ddp_bucket *b);
/* Nothing is sent; each rank keeps its own gradients. */
TT_API tt_future *tt_ddp_noop_hook(void *pg, const tt_ddp_bucket *b);

/* *hook_p gives the bucket to `inner` as float16 or bfloat16, and takes its result back. Takes inner's ctx
 * over, also when it fails. Its name is "fp16_compress_wrapper(powerSGD_hook)". */
TT_API tt_status tt_ddp_fp16_compress_wrapper(const tt_ddp_hook *inner, tt_ddp_hook *hook_p);
TT_API tt_status tt_ddp_bf16_compress_wrapper(const tt_ddp_hook *inner, tt_ddp_hook *hook_p);

/* Any hook of this header by its name: "allreduce_hook", "fp16_compress_hook", "bf16_compress_hook",
 * "powerSGD_hook", "batched_powerSGD_hook", "quantization_pertensor_hook", "quantization_perchannel_hook",
 * "post_localSGD_hook", "noop_hook", or one of them in a wrapper; "ALLREDUCE" and "FP16_COMPRESS" are the
 * same as two of them. `state` is what the function takes, and is kept; NULL is its default (INVALID for
 * post_localSGD_hook). NOT_FOUND, with a list, for other names. */
TT_API tt_status tt_ddp_hook_named(const char *name, void *state, tt_ddp_hook *hook_p);
TT_API tt_status tt_ddp_register_named(tt_ddp *d, const char *name, void *state);
TT_API const char *tt_ddp_hook_list(int index); /* the names; NULL past the end */

/* ---- PowerSGD ------------------------------------------------------------------------------ */

/* Gradients that are matrices are sent as the product of two thin ones, found by one step of power iteration;
 * what that leaves out is added to the next gradient. */
typedef struct tt_powersgd tt_powersgd;

#define TT_POWERSGD_AT_ONCE (-1)

typedef struct tt_powersgd_options {
    int rank;           /* of the approximation; 0: 1 */
    int64_t start_iter; /* means until then; 0: 1000; TT_POWERSGD_AT_ONCE: none */
    double
        min_compression_rate; /* matrices that would not shrink so much are sent as they are; 0: 2 */
    bool no_error_feedback;
    bool no_warm_start;               /* begin each iteration from random numbers */
    double orthogonalization_epsilon; /* added to the norms that are divided by */
    uint64_t seed;                    /* the same on all ranks */
} tt_powersgd_options;

/* For one tt_ddp, on all ranks alike. `pg` NULL: that of the tt_ddp. INVALID when start_iter is below 2 with
 * error feedback or warm start, as buckets change after the first iteration. */
TT_API tt_powersgd *tt_powersgd_new(tt_pg *pg, const tt_powersgd_options *opt);
TT_API tt_powersgd *tt_powersgd_retain(tt_powersgd *s);
TT_API void tt_powersgd_free(tt_powersgd *s);

/* `state` is a tt_powersgd: matrix by matrix, or the whole bucket as one square matrix. */
TT_API tt_future *tt_ddp_powersgd_hook(void *state, const tt_ddp_bucket *b);
TT_API tt_future *tt_ddp_batched_powersgd_hook(void *state, const tt_ddp_bucket *b);

typedef struct tt_powersgd_info {
    tt_powersgd_options options; /* with the defaults filled in */
    tt_pg *pg;                   /* borrowed; NULL: that of the tt_ddp */
    int64_t iter;
    int64_t numel_before, numel_after; /* elements of gradients, and of what was sent for them */
    uint64_t generator_seed, generator_offset;
} tt_powersgd_info;

TT_API tt_powersgd_info tt_powersgd_ask(const tt_powersgd *s);

/* The whole state but the group as a record, yours to free; a warning (category "powersgd") says so. Not while
 * a backward runs. */
TT_API tt_value *tt_powersgd_save(const tt_powersgd *s);
/* The reverse; the group is the default one, if there is one, and a warning says so. FORMAT, naming the field,
 * for anything that is not such a record. */
TT_API tt_powersgd *tt_powersgd_load(const tt_value *v);
/* The same with files. */
TT_API tt_status tt_powersgd_save_file(const tt_powersgd *s, const char *path);
TT_API tt_powersgd *tt_powersgd_load_file(const char *path);

/* ---- post-local SGD ------------------------------------------------------------------------ */

/* The mean over all ranks until some iteration; from then on over a part of them, or nobody. Goes together
 * with averaging the parameters now and then. */
typedef struct tt_local_sgd_state tt_local_sgd_state;

typedef struct tt_local_sgd_state_options {
    tt_pg *pg;                  /* kept; NULL: that of the tt_ddp */
    tt_pg *subgroup;            /* kept; NULL: the ranks of `pg` on this host */
    int64_t start_iter;         /* 0: from the beginning */
    bool no_gradient_allreduce; /* nobody from then on */
} tt_local_sgd_state_options;

TT_API tt_local_sgd_state *tt_local_sgd_state_new(const tt_local_sgd_state_options *opt);
TT_API tt_local_sgd_state *tt_local_sgd_state_retain(tt_local_sgd_state *s);
TT_API void tt_local_sgd_state_free(tt_local_sgd_state *s);
TT_API int64_t tt_local_sgd_state_iter(const tt_local_sgd_state *s);
TT_API tt_future *tt_ddp_post_local_sgd_hook(void *state, const tt_ddp_bucket *b);

/* ---- optimizers inside of backward ---------------------------------------------------------- */

/* *hook_p does what `inner` does, then `opt` (borrowed) updates those of the bucket's parameters that it has,
 * as each bucket arrives. Takes inner's ctx over, also when it fails. Do not call tt_optim_step as well. */
TT_API tt_status tt_ddp_hook_with_optimizer(const tt_ddp_hook *inner, tt_optim *opt,
                                            tt_ddp_hook *hook_p);

typedef struct tt_in_backward tt_in_backward;

typedef struct tt_in_backward_options {
    bool keep_grads; /* after the update; else they are dropped */
} tt_in_backward_options;

/* From now on backward updates each parameter of `opt` (borrowed) as soon as its gradient is final: for
 * parameters of a tt_ddp, made before or after, when its bucket has arrived, and only in backwards that
 * reduce; for others, at once. Do not call tt_optim_step as well. */
TT_API tt_in_backward *tt_in_backward_new(tt_optim *opt, const tt_in_backward_options *options);
TT_API void tt_in_backward_free(tt_in_backward *b); /* accepts NULL; before the optimizer */

#ifdef __cplusplus
}
#endif

#endif
