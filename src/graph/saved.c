/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that nodes save for backward: kept, or, inside a frame, forgotten and made again. */
#include "graph/saved.h"
#include "tensor/shape.h"

TTI_HOT_TLS tti_frame *tti_save_frame;

/* ---- frames ------------------------------------------------------------------------------ */

void tti_frame_free(tti_frame *f)
{
    if (f == NULL || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < f->n_tensors; i++)
        tt_tensor_free(f->tensors[i]);
    tti_mfree(f->tensors);
    f->free(f);
}

void tti_saved_leave_frame(tti_saved *s)
{
    tti_frame *f = s->frame;

    if (s->frame_index < f->n_tensors) {
        tt_tensor_free(f->tensors[s->frame_index]);
        f->tensors[s->frame_index] = NULL;
    }
    if (s->origin.node != NULL)
        tti_node_free(s->origin.node);
    tt_tensor_free(s->origin.leaf);
    s->frame = NULL;
    tti_frame_free(f);
}

/* The second run hands in what the first one forgot. */
static tt_status frame_collect(tti_frame *f, tt_tensor *t)
{
    tt_tensor *kept = tti_alias(t);

    if (kept == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tti_vec_reserve((void **)&f->tensors, &f->cap_tensors, f->n_tensors + 1,
                           sizeof *f->tensors));
    f->tensors[f->n_tensors++] = tt_tensor_retain(kept);
    return TT_OK;
}

static void frame_forget(tti_frame *f, tti_saved *s, tt_tensor *t)
{
    s->frame = f;
    s->frame_index = f->n_saved++;
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    if (s->own_result || !tti_wants_grad(t))
        return;
    if (t->grad_fn != NULL)
        s->origin = (tti_edge){ .node = tti_node_retain(t->grad_fn), .out_nr = t->out_nr };
    else
        s->origin = (tti_edge){ .leaf = tt_tensor_retain(t) };
}

static tt_tensor *frame_get(tti_node *n, const tti_saved *s)
{
    tti_frame *f = s->frame;

    if (f->n_tensors == 0 && f->recompute(f) != TT_OK)
        return NULL;
    if (f->n_tensors != f->n_saved)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "checkpoint: the function saved %zu tensors at first and %zu when run "
                            "again; it must do the same both times",
                            f->n_saved, f->n_tensors);
    if (f->tensors[s->frame_index] == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "backward: a tensor that \"%s\" saved was already released",
                            n->op->name);
    return f->tensors[s->frame_index];
}

/* ---- saving ------------------------------------------------------------------------------- */

tt_status tti_node_save(tti_node *n, int i, tt_tensor *t)
{
    tti_saved *s = &n->saved[i];

    if (t == NULL)
        return TT_OK;
    s->version = tti_version(t);
    if (t->grad_fn == n) {
        s->own_result = true;
        s->out_nr = t->out_nr;
    }
    if (tt_unlikely(tti_save_frame != NULL)) {
        if (tti_save_frame->recording)
            return frame_collect(tti_save_frame, t);
        frame_forget(tti_save_frame, s, t);
        return TT_OK;
    }
    s->t = tt_tensor_retain(s->own_result ? tti_alias(t) : t);
    return s->t != NULL ? TT_OK : TT_ERR_NOMEM;
}

/* ---- getting back --------------------------------------------------------------------------- */

/* `t`, back in the graph at the given place, so that derivatives of derivatives pass through it. */
static tt_tensor *attach(tt_tensor *t, const tti_edge *place)
{
    t = tti_alias(t);
    if (t == NULL)
        return NULL;
    t->grad_fn = tti_node_retain(place->node);
    t->out_nr = place->out_nr;
    t->flags |= TTI_REQUIRES_GRAD;
    return t;
}

static tt_status check_saved(const tti_node *n, const tti_saved *s)
{
    if (n->released)
        return TT_FAIL(TT_ERR_INVALID,
                       "backward: the saved tensors of \"%s\" were released by an earlier "
                       "backward; pass retain_graph to the first one",
                       n->op->name);
    if (s->t == NULL || tt_likely(tti_version(s->t) == s->version))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "backward: a %s tensor of shape %s that \"%s\" saved was modified in place: "
                   "expected version %llu, got %llu",
                   tt_dtype_name((tt_dtype)s->t->dtype), TTI_SHAPE_OF(s->t), n->op->name,
                   (unsigned long long)s->version, (unsigned long long)tti_version(s->t));
}

tt_tensor *tti_saved_get(tti_node *n, int i)
{
    const tti_saved *s = &n->saved[i];
    tt_tensor *t = s->t;
    tti_edge place = { .node = n, .out_nr = s->out_nr };

    if (tt_unlikely(check_saved(n, s) != TT_OK))
        return NULL;
    if (s->frame != NULL)
        t = frame_get(n, s);
    if (t == NULL || tti_grad_mode != TT_GRAD_ON)
        return t;
    if (s->own_result)
        return attach(t, &place);
    if (s->frame == NULL)
        return t;
    if (s->origin.leaf != NULL)
        return s->origin.leaf;
    return s->origin.node != NULL ? attach(t, &s->origin) : t;
}
