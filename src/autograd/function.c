/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the user: forward runs unrecorded, its results become those of one node, whose backward
 * is the user's. The context lives in the node. */
#include <string.h>

#include "base/error.h"
#include "ops/observe.h"
#include "ops/op.h"

struct tt_function_ctx {
    tti_op op; /* the node's record, named as the function is */
    const tt_function *fn;
    void *user;
    tti_node *node;    /* borrowed; NULL during forward */
    tt_tensor **saved; /* owned, during forward */
    size_t n_saved, cap_saved;
    tt_tensor *const *in; /* during forward */
    int n_in, n_out;
    uint64_t non_differentiable;
    bool keep_undefined;
};

static void drop_saved(tt_function_ctx *ctx)
{
    for (size_t i = 0; i < ctx->n_saved; i++)
        tt_tensor_free(ctx->saved[i]);
    ctx->n_saved = 0;
}

static void ctx_free(tt_function_ctx *ctx)
{
    if (ctx == NULL)
        return;
    drop_saved(ctx);
    tti_mfree(ctx->saved);
    if (ctx->fn->free_user != NULL)
        ctx->fn->free_user(ctx->user);
    tti_mfree(ctx);
}

static void attrs_free(void *attrs)
{
    ctx_free(*(tt_function_ctx **)attrs);
}

static tt_function_ctx *ctx_of(const tti_node *n)
{
    return *(tt_function_ctx *const *)tti_attrs(n);
}

/* ---- backward ---------------------------------------------------------------------------- */

static tt_tensor *zeros_for(const tti_out_meta *m)
{
    tt_tensor *z = tti_empty(m->dims, m->n_dims, (tt_dtype)m->dtype, m->device);

    return z != NULL && tti_fill(z, 0.0) == TT_OK ? z : NULL;
}

static tt_status user_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tt_function_ctx *ctx = ctx_of(n);
    tt_tensor *filled[8];

    if (n->released)
        return TT_FAIL(TT_ERR_INVALID,
                       "backward: \"%s\" was released by an earlier backward; pass retain_graph to "
                       "the first one",
                       n->op->name);
    ctx->node = n;
    for (int i = 0; i < n->n_out; i++) {
        filled[i] = grad_out[i];
        if (filled[i] == NULL && !ctx->keep_undefined && (ctx->non_differentiable >> i & 1) == 0)
            TT_TRY(tti_give(&filled[i], zeros_for(&n->outs[i])));
    }
    return ctx->fn->backward(ctx, filled, n->n_out, grad_in, n->n_in);
}

/* ---- forward ------------------------------------------------------------------------------ */

static tt_function_ctx *ctx_new(const tt_function *fn, void *user, tt_tensor *const *in, int n_in,
                                int n_out)
{
    tt_function_ctx *ctx = tti_calloc(1, sizeof *ctx);

    if (ctx == NULL)
        return NULL;
    ctx->op = (tti_op){ .name = fn->name, .backward = user_backward, .flags = TTI_OP_SPARSE };
    ctx->fn = fn;
    ctx->user = user;
    ctx->in = in;
    ctx->n_in = n_in;
    ctx->n_out = n_out;
    return ctx;
}

/* A result that is an input, or already has a history, gets a handle of its own. */
static tt_status own_handles(const tt_function_ctx *ctx, tt_tensor **out)
{
    for (int i = 0; i < ctx->n_out; i++) {
        bool foreign = out[i] == NULL || tti_wants_grad(out[i]);

        if (out[i] == NULL)
            return TTI_NULL("%s: forward left result %d NULL", ctx->op.name, i);
        for (int j = 0; j < ctx->n_in; j++)
            foreign = foreign || out[i] == ctx->in[j];
        if (foreign)
            TT_TRY(tti_give(&out[i], tti_alias(out[i])));
    }
    return TT_OK;
}

/* Puts the results on the graph. From success on, the node owns ctx. */
static tt_status record(tt_function_ctx *ctx, tt_tensor **out)
{
    tti_node *n = tti_node_new(&ctx->op, ctx->n_in, ctx->n_out, (int)ctx->n_saved, sizeof ctx);
    tt_status st = TT_OK;

    if (n == NULL)
        return TT_ERR_NOMEM;
    memcpy(n->attrs, &ctx, sizeof ctx);
    for (int i = 0; i < ctx->n_in; i++)
        tti_node_set_edge(n, i, ctx->in[i]);
    for (int i = 0; i < ctx->n_out; i++)
        if ((ctx->non_differentiable >> i & 1) == 0 &&
            (tt_dtype_is_floating((tt_dtype)out[i]->dtype) ||
             tt_dtype_is_complex((tt_dtype)out[i]->dtype)))
            tti_node_set_out(n, i, out[i]);
    for (size_t i = 0; i < ctx->n_saved && st == TT_OK; i++)
        st = tti_node_save(n, (int)i, ctx->saved[i]);
    if (st == TT_OK) {
        drop_saved(ctx);
        ctx->in = NULL;
        n->attrs_free = attrs_free;
    }
    tti_node_free(n);
    return st;
}

static tt_status run_forward(tt_function_ctx *ctx, tt_tensor **out)
{
    tt_status st = TT_OK;

    TT_NO_GRAD
    {
        st = ctx->fn->forward(ctx, ctx->in, ctx->n_in, out, ctx->n_out);
        if (st == TT_OK)
            st = own_handles(ctx, out);
    }
    return st;
}

tt_status tt_function_apply(const tt_function *fn, void *user, tt_tensor *const *in, int n_in,
                            tt_tensor **out, int n_out)
{
    tt_function_ctx *ctx;
    tt_status st;
    bool recorded = false;

    if (fn == NULL || fn->forward == NULL || fn->backward == NULL || fn->name == NULL)
        return TT_FAIL(TT_ERR_INVALID, "function: expected a name, a forward and a backward");
    if (n_out < 1 || n_out > 8)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected 1 to 8 results, got %d", fn->name, n_out);
    if (out == NULL || (in == NULL && n_in > 0))
        return tti_null_given(fn->name, "a list of inputs and room for the results");
    ctx = ctx_new(fn, user, in, n_in, n_out);
    if (ctx == NULL)
        return TT_ERR_NOMEM;
    tti_call c = { .op = &ctx->op, .in = in, .n_in = n_in };

    st = tti_call_begin(&c) ? TT_OK : tt_last_status();
    for (int i = 0; i < n_out; i++)
        out[i] = NULL;
    if (st == TT_OK)
        st = run_forward(ctx, out);
    if (st == TT_OK && c.wants_grad) {
        st = record(ctx, out);
        recorded = st == TT_OK;
    }
    if (c.observed)
        tti_observe_after(&(tt_op_event){
            .name = fn->name, .in = in, .n_in = n_in, .out = out[0], .status = st, .after = true });
    if (!recorded)
        ctx_free(ctx);
    for (int i = 0; i < n_out && st != TT_OK; i++)
        out[i] = NULL;
    return st;
}

/* ---- what forward and backward may ask ------------------------------------------------------ */

void *tt_function_user(const tt_function_ctx *ctx)
{
    if (ctx == NULL)
        return TT_NULL_GIVEN("function_user", "a context");
    return ctx->user;
}

tt_status tt_function_save(tt_function_ctx *ctx, tt_tensor *t)
{
    if (ctx == NULL)
        return tti_null_given("function_save", "a context");
    TT_TRY(tti_vec_reserve((void **)&ctx->saved, &ctx->cap_saved, ctx->n_saved + 1,
                           sizeof *ctx->saved));
    ctx->saved[ctx->n_saved++] = tt_tensor_retain(t);
    return TT_OK;
}

tt_tensor *tt_function_saved(tt_function_ctx *ctx, int i)
{
    if (ctx == NULL)
        return TT_NULL_GIVEN("function_saved", "a context");
    if (ctx->node == NULL || i < 0 || i >= ctx->node->n_saved)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: no saved tensor %d", ctx->op.name, i);
    return tti_saved_get(ctx->node, i);
}

bool tt_function_needs_grad(const tt_function_ctx *ctx, int input)
{
    if (ctx == NULL || input < 0 || input >= ctx->n_in)
        return false;
    return ctx->node != NULL ? tti_needs(ctx->node, input) : tti_wants_grad(ctx->in[input]);
}

void tt_function_mark_non_differentiable(tt_function_ctx *ctx, int output)
{
    if (ctx != NULL && output >= 0 && output < 64)
        ctx->non_differentiable |= UINT64_C(1) << output;
}

void tt_function_keep_undefined(tt_function_ctx *ctx)
{
    if (ctx != NULL)
        ctx->keep_undefined = true;
}
