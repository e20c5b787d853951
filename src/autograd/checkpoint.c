/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing. The usual way records the segment as always, but in a frame: its nodes
 * forget what they would save, and the first of them that backward asks runs the segment again to fill
 * the frame. The re-entrant way runs the segment unrecorded and starts a backward of its own inside
 * backward. Both replay the default random numbers of the CPU and of the devices of the inputs. */
#include "base/error.h"
#include "graph/graph.h"
#include "ops/op.h"
#include "tutti/random.h"

#define MAX_GENERATORS 17 /* the CPU and all devices of a kind */

/* The states of the default generators that a segment may draw from. */
typedef struct rng_states {
    tt_generator *of[MAX_GENERATORS];
    tt_generator_state state[MAX_GENERATORS];
    int n;
} rng_states;

typedef struct segment {
    tti_frame frame; /* first: frames are freed through it */
    tt_segment_fn fn;
    void *ctx;
    tt_tensor **in; /* owned */
    int n_in, n_out;
    bool replay;
    rng_states rng;
    tti_autocast_modes modes; /* as they were */
} segment;

static void segment_destroy(segment *s)
{
    for (int i = 0; s->in != NULL && i < s->n_in; i++)
        tt_tensor_free(s->in[i]);
    tti_mfree(s->in);
    tti_mfree(s);
}

static void frame_destroy(tti_frame *f)
{
    segment_destroy((segment *)f);
}

static void rng_add(rng_states *r, tt_device device)
{
    tt_generator *g = tt_default_generator(device);

    for (int i = 0; i < r->n; i++)
        if (r->of[i] == g)
            return;
    if (g == NULL || r->n == MAX_GENERATORS)
        return;
    r->of[r->n] = g;
    r->state[r->n++] = tt_generator_get(g);
}

/* Put the states in place; `r` then has those that were there. */
static void rng_swap(rng_states *r)
{
    for (int i = 0; i < r->n; i++) {
        tt_generator_state now = tt_generator_get(r->of[i]);

        tt_generator_set(r->of[i], r->state[i]);
        r->state[i] = now;
    }
}

/* Run the segment on copies of its inputs that are outside of the graph but ask for the same
 * gradients. */
static tt_status run_again(const segment *s, tt_tensor **in, tt_tensor **out)
{
    rng_states rng = s->rng;
    tti_autocast_modes modes = tti_autocast_get();
    tt_status st = TT_OK;

    for (int i = 0; i < s->n_in && st == TT_OK; i++) {
        in[i] = NULL;
        if (s->in[i] == NULL)
            continue;
        st = tti_give(&in[i], tti_alias(s->in[i]));
        if (st == TT_OK && tti_wants_grad(s->in[i]))
            st = tt_set_requires_grad(in[i], true);
    }
    if (st != TT_OK)
        return st;
    if (s->replay)
        rng_swap(&rng);
    tti_autocast_set(&s->modes);
    TT_ENABLE_GRAD
    st = s->fn(s->ctx, in, s->n_in, out, s->n_out);
    tti_autocast_set(&modes);
    if (s->replay)
        rng_swap(&rng);
    return st;
}

static tt_status frame_recompute(tti_frame *f)
{
    segment *s = (segment *)f;
    tti_frame *outer = tti_save_frame;
    tt_scope scope = tt_scope_open();
    tt_tensor **all = tti_calloc((size_t)(s->n_in + s->n_out), sizeof *all);
    tt_status st = all != NULL ? TT_OK : TT_ERR_NOMEM;

    tti_save_frame = f;
    f->recording = true;
    if (st == TT_OK)
        st = run_again(s, all, all + s->n_in);
    f->recording = false;
    tti_save_frame = outer;
    tti_mfree(all);
    tt_scope_close(&scope);
    return st;
}

static segment *segment_new(tt_segment_fn fn, void *ctx, tt_tensor *const *in, int n_in, int n_out)
{
    segment *s = tti_calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->in = tti_calloc((size_t)n_in, sizeof *s->in);
    if (s->in == NULL) {
        tti_mfree(s);
        return NULL;
    }
    for (int i = 0; i < n_in; i++)
        s->in[i] = tt_tensor_retain(in[i]);
    atomic_init(&s->frame.refs, 1);
    s->frame.recompute = frame_recompute;
    s->frame.free = frame_destroy;
    s->fn = fn;
    s->ctx = ctx;
    s->n_in = n_in;
    s->n_out = n_out;
    rng_add(&s->rng, TT_CPU);
    for (int i = 0; i < n_in; i++)
        if (in[i] != NULL)
            rng_add(&s->rng, in[i]->device);
    s->modes = tti_autocast_get();
    return s;
}

static tt_status run_in_frame(segment *s, tt_tensor *const *in, tt_tensor **out)
{
    tti_frame *outer = tti_save_frame;
    tt_status st;

    tti_save_frame = &s->frame;
    st = s->fn(s->ctx, in, s->n_in, out, s->n_out);
    tti_save_frame = outer;
    tti_frame_free(&s->frame);
    return st;
}

/* ---- the re-entrant way ---------------------------------------------------------------------- */

static tt_status reentrant_forward(tt_function_ctx *ctx, tt_tensor *const *in, int n_in,
                                   tt_tensor **out, int n_out)
{
    segment *s = tt_function_user(ctx);

    return s->fn(s->ctx, in, n_in, out, n_out);
}

static tt_status reentrant_walk(const segment *s, tt_tensor *const *grad_out, tt_tensor **work)
{
    tt_tensor **in = work;
    tt_tensor **out = in + s->n_in;
    tt_tensor **roots = out + s->n_out;
    tt_tensor **grads = roots + s->n_out;
    int n = 0;

    TT_TRY(run_again(s, in, out));
    for (int i = 0; i < s->n_out; i++)
        if (tti_wants_grad(out[i]) && grad_out[i] != NULL) {
            roots[n] = out[i];
            grads[n++] = grad_out[i];
        }
    if (n == 0)
        return TT_FAIL(TT_ERR_INVALID, "checkpoint: no result of the segment requires a gradient");
    return tt_backward_many(roots, grads, n, NULL);
}

static tt_status reentrant_backward(tt_function_ctx *ctx, tt_tensor *const *grad_out, int n_out,
                                    tt_tensor **grad_in, int n_in)
{
    const segment *s = tt_function_user(ctx);
    tt_tensor **work;
    tt_status st;

    if (tti_grad_mode == TT_GRAD_ON)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "checkpoint: the re-entrant way cannot be "
                                           "differentiated again; use the other one");
    work = tti_calloc((size_t)(n_in + 3 * n_out), sizeof *work);
    if (work == NULL)
        return TT_ERR_NOMEM;
    st = reentrant_walk(s, grad_out, work);
    for (int i = 0; i < n_in && st == TT_OK; i++)
        grad_in[i] = tti_scope_add(tt_tensor_retain(tt_grad_of(work[i])));
    tti_mfree(work);
    return st;
}

static void reentrant_free(void *user)
{
    segment_destroy(user);
}

static const tt_function reentrant = {
    .name = "checkpoint",
    .forward = reentrant_forward,
    .backward = reentrant_backward,
    .free_user = reentrant_free,
};

/* ---- public ------------------------------------------------------------------------------- */

tt_status tt_checkpoint(tt_segment_fn fn, void *ctx, tt_tensor *const *in, int n_in,
                        tt_tensor **out, int n_out, const tt_checkpoint_options *opt)
{
    tt_checkpoint_options o = opt != NULL ? *opt : (tt_checkpoint_options){ 0 };
    segment *s;

    if (fn == NULL || n_in < 1 || n_out < 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "checkpoint: expected a function with at least one input and one result");
    for (int i = 0; i < n_in; i++)
        if (in[i] == NULL && tti_error_state == TTI_ERROR_PENDING)
            return tt_last_status(); /* an input may be NULL, but this one is a failure */
    if (tti_grad_mode != TT_GRAD_ON)
        return fn(ctx, in, n_in, out, n_out);
    s = segment_new(fn, ctx, in, n_in, n_out);
    if (s == NULL)
        return TT_ERR_NOMEM;
    s->replay = !o.skip_rng_state;
    return o.reentrant ? tt_function_apply(&reentrant, s, in, n_in, out, n_out)
                       : run_in_frame(s, in, out);
}
