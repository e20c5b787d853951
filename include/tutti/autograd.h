/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients. Operators on tensors that require a gradient build a graph; tt_backward walks it and
 * adds to the gradient of every leaf.
 *
 *     tt_tensor *w = tt_require_grad(tt_randn(TT_SHAPE(3), TT_F32, TT_CPU));
 *     TT_TRY(tt_backward(tt_sum(tt_mul(w, w))));
 *     tt_print(tt_grad_of(w));                      // 2 w
 */
#ifndef TUTTI_AUTOGRAD_H
#define TUTTI_AUTOGRAD_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- leaves ---------------------------------------------------------------------------- */

/* Ask for gradients of this leaf; returns t. Only floating and complex tensors can have one. */
TT_API tt_tensor *tt_require_grad(tt_tensor *t);
TT_API tt_status tt_set_requires_grad(tt_tensor *t, bool on); /* fails on non-leaves */
TT_API bool tt_requires_grad(const tt_tensor *t);
TT_API bool tt_is_leaf(const tt_tensor *t);
/* The name of the operator that made it ("mul"), or NULL for leaves. */
TT_API const char *tt_grad_fn_name(const tt_tensor *t);

/* The accumulated gradient: borrowed from t, NULL when there is none. */
TT_API tt_tensor *tt_grad_of(const tt_tensor *t);
/* Replace it (shape, type and device are checked); NULL drops it. */
TT_API tt_status tt_set_grad(tt_tensor *t, tt_tensor *grad);
/* Keep the gradient of a non-leaf too. */
TT_API tt_status tt_retain_grad(tt_tensor *t);

/* The same data, outside the graph. Shares storage and version counter. */
TT_API tt_tensor *tt_detach(tt_tensor *t);

/* ---- backward -------------------------------------------------------------------------- */

typedef struct tt_backward_options {
    tt_tensor *gradient;      /* of the result; NULL: 1, for results with one element */
    bool retain_graph;        /* keep saved tensors for another backward; create_graph implies it */
    bool create_graph;        /* make the gradients differentiable */
    tt_tensor *const *inputs; /* accumulate only into these leaves; NULL: all */
    int n_inputs;
} tt_backward_options;

TT_API tt_status tt_backward(tt_tensor *t);
TT_API tt_status tt_backward_with(tt_tensor *t, const tt_backward_options *opt);
/* From several results at once; `gradients` may be NULL, and so may each of them. */
TT_API tt_status tt_backward_many(tt_tensor *const *ts, tt_tensor *const *gradients, int n,
                                  const tt_backward_options *opt);

typedef struct tt_grad_options {
    tt_tensor *const *grad_outputs; /* NULL: ones */
    bool retain_graph;
    bool create_graph;
    bool allow_unused; /* else an input that does not matter is an error */
} tt_grad_options;

/* Gradients of `outputs` with respect to `inputs` (leaves or not), written to grads[0 .. n_in):
 * scope-owned, NULL for unused inputs. Nothing is accumulated into any leaf. */
TT_API tt_status tt_grad(tt_tensor *const *outputs, int n_out, tt_tensor *const *inputs, int n_in,
                         const tt_grad_options *opt, tt_tensor **grads);

/* ---- modes: thread-local, restored at the end of the block ------------------------------------ */

typedef enum tt_grad_mode {
    TT_GRAD_ON,
    TT_GRAD_OFF,       /* nothing is recorded */
    TT_GRAD_INFERENCE, /* nor can the results be used in a graph later */
} tt_grad_mode;

TT_API tt_grad_mode tt_grad_mode_get(void);
TT_API tt_grad_mode tt_grad_mode_set(tt_grad_mode mode); /* returns the mode before */

typedef struct tt_grad_guard {
    tt_grad_mode before;
} tt_grad_guard;

TT_API tt_grad_guard tt_grad_guard_open(tt_grad_mode mode);
TT_API void tt_grad_guard_close(tt_grad_guard *g);

#define TT_GRAD_MODE(mode) TT_GRAD_MODE_NAMED(mode, __COUNTER__)
#define TT_GRAD_MODE_NAMED(mode, n) TT_GRAD_MODE_WITH(mode, n)
#define TT_GRAD_MODE_WITH(mode, n)                                                 \
    for (tt_grad_guard tt_guard_##n                                                \
         __attribute__((cleanup(tt_grad_guard_close))) = tt_grad_guard_open(mode), \
         *tt_once_##n = &tt_guard_##n;                                             \
         tt_once_##n != NULL; tt_once_##n = NULL)
#define TT_NO_GRAD TT_GRAD_MODE(TT_GRAD_OFF)
#define TT_ENABLE_GRAD TT_GRAD_MODE(TT_GRAD_ON)
#define TT_INFERENCE TT_GRAD_MODE(TT_GRAD_INFERENCE)

/* ---- hooks ----------------------------------------------------------------------------- */

typedef struct tt_hook tt_hook;

/* Stop a hook and forget it. Accepts NULL; fine after the tensor is gone. */
TT_API void tt_hook_remove(tt_hook *h);

/* Called with the gradient of t when it is known, before it flows on. To change it, store another
 * tensor in *grad_p. An error ends backward with it. */
typedef tt_status (*tt_tensor_hook_fn)(void *ctx, tt_tensor **grad_p);
TT_API tt_hook *tt_tensor_add_hook(tt_tensor *t, tt_tensor_hook_fn fn, void *ctx);

/* On the accumulator of a leaf: before the gradient is added (may change it), and after. The
 * latter is what data-parallel training builds on: param's gradient is final for this backward. */
typedef tt_status (*tt_leaf_hook_fn)(void *ctx, tt_tensor *leaf);
TT_API tt_hook *tt_leaf_add_pre_hook(tt_tensor *leaf, tt_tensor_hook_fn fn, void *ctx);
TT_API tt_hook *tt_leaf_add_post_hook(tt_tensor *leaf, tt_leaf_hook_fn fn, void *ctx);

/* Call fn once, when the backward that is running on this thread has finished all its work.
 * Fails outside of backward. */
typedef tt_status (*tt_backward_end_fn)(void *ctx);
TT_API tt_status tt_on_backward_end(tt_backward_end_fn fn, void *ctx);

/* ---- functions of your own ---------------------------------------------------------------- */

typedef struct tt_function_ctx tt_function_ctx;

typedef struct tt_function {
    const char *name;
    /* Compute out[0 .. n_out) from the inputs; runs without recording. */
    tt_status (*forward)(tt_function_ctx *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                         int n_out);
    /* Fill grad_in (NULL: no gradient) from grad_out (entries are zeros when undefined, or NULL if
     * tt_function_keep_undefined was called). */
    tt_status (*backward)(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                          tt_tensor **grad_in, int n_in);
    void (*free_user)(void *user); /* may be NULL; called when the function's node is gone */
} tt_function;

/* Run it; out[] are scope-owned. `fn` must outlive the graph. */
TT_API tt_status tt_function_apply(const tt_function *fn, void *user, tt_tensor *const *in,
                                   int n_in, tt_tensor **out, int n_out);
/* For forward and backward: the pointer given to apply; keeping tensors for backward; whether the
 * gradient of an input is wanted; and what backward should not get or need. */
TT_API void *tt_function_user(const tt_function_ctx *ctx);
TT_API tt_status tt_function_save(tt_function_ctx *ctx,
                                  tt_tensor *t); /* in order; inputs or outputs */
TT_API tt_tensor *tt_function_saved(tt_function_ctx *ctx,
                                    int i); /* NULL if it was modified since */
TT_API bool tt_function_needs_grad(const tt_function_ctx *ctx, int input);
TT_API void tt_function_mark_non_differentiable(tt_function_ctx *ctx, int output);
TT_API void tt_function_keep_undefined(tt_function_ctx *ctx);

/* ---- checkpointing: trade time for memory ---------------------------------------------------- */

typedef tt_status (*tt_segment_fn)(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out,
                                   int n_out);

typedef struct tt_checkpoint_options {
    bool reentrant;      /* run a backward inside backward, the older way */
    bool skip_rng_state; /* do not replay random numbers */
} tt_checkpoint_options;

/* Run `fn` now, keep only its inputs, and run it again in backward. `ctx` must live until then. */
TT_API tt_status tt_checkpoint(tt_segment_fn fn, void *ctx, tt_tensor *const *in, int n_in,
                               tt_tensor **out, int n_out, const tt_checkpoint_options *opt);

/* ---- checking gradients -------------------------------------------------------------------- */

typedef struct tt_gradcheck_options {
    double eps;        /* 0: 1e-6; 5e-3 where an input is float32 or complex64 */
    double atol;       /* 0: 1e-5; 1e-3 there */
    double rtol;       /* 0: 1e-3; 1e-2 there */
    bool second_order; /* check gradients of gradients too */
} tt_gradcheck_options;

/* Compare backward of `fn` with finite differences at `in`: float64 or complex128, which tell mistakes
 * from rounding; float32 and complex64 find coarse mistakes only. A mismatch is INVALID with a message that says which input and element. */
TT_API tt_status tt_gradcheck(tt_segment_fn fn, void *ctx, tt_tensor *const *in, int n_in,
                              int n_out, const tt_gradcheck_options *opt);

#ifdef __cplusplus
}
#endif

#endif
