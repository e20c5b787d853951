/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients made to fit what they belong to, added up, and stored in leaves. */
#include "autograd/accumulate.h"

#include "ops/op.h"

void tti_meta_of_tensor(const tt_tensor *t, tti_out_meta *m)
{
    m->device = t->device;
    m->dtype = t->dtype;
    m->n_dims = t->n_dims;
    for (int i = 0; i < t->n_dims; i++)
        m->dims[i] = t->dims[i];
}

static bool same_dims(const tt_tensor *g, const tti_out_meta *m)
{
    if (g->n_dims != m->n_dims)
        return false;
    for (int i = 0; i < m->n_dims; i++)
        if (g->dims[i] != m->dims[i])
            return false;
    return true;
}

/* Sum over the dimensions that broadcasting added or stretched. */
static tt_tensor *sum_to(tt_tensor *g, const tti_out_meta *m, const char *what)
{
    int extra = g->n_dims - m->n_dims;
    int dims[TT_MAX_DIMS], n = 0;
    tt_shape shape = { .n_dims = m->n_dims };

    for (int i = 0; i < g->n_dims; i++) {
        int64_t want = i >= extra ? m->dims[i - extra] : 1;

        if (g->dims[i] != want && want != 1)
            extra = -1;
        if (extra < 0)
            break;
        if (i < extra || g->dims[i] != want)
            dims[n++] = i;
    }
    if (extra < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "backward: the gradient for %s has shape %s, expected %s", what,
                            TTI_SHAPE_OF(g), TTI_SHAPE_OF(m));
    for (int i = 0; i < m->n_dims; i++)
        shape.dims[i] = m->dims[i];
    return tt_reshape(n > 0 ? tt_sum_dims(g, dims, n, true) : g, shape);
}

tt_tensor *tti_grad_fit(tt_tensor *g, const tti_out_meta *m, const char *what)
{
    if (tt_unlikely(!same_dims(g, m)) && (g = sum_to(g, m, what)) == NULL)
        return NULL;
    if (tt_unlikely(g->dtype != m->dtype)) {
        if (tt_dtype_is_complex((tt_dtype)g->dtype) && !tt_dtype_is_complex((tt_dtype)m->dtype))
            g = tt_real(g);
        g = tt_to_dtype(g, (tt_dtype)m->dtype);
    }
    if (g != NULL && tt_unlikely(!tt_device_equal(g->device, m->device)) && m->n_dims == 0 &&
        m->device.kind == TT_DEVICE_CPU)
        g = tt_to_device(g, m->device); /* a single host value goes with any device */
    if (g != NULL && !tt_device_equal(g->device, m->device))
        return TT_FAIL_NULL(TT_ERR_INVALID, "backward: the gradient for %s is on another device",
                            what);
    return g;
}

/* Nobody else can see the elements of t, or has a use for them. */
static bool exclusive(const tt_tensor *t)
{
    if (tt_unlikely((t->flags & TTI_HOME) != 0))
        return atomic_load(&t->refs) == 1;
    return t->storage != NULL && atomic_load(&t->refs) == 1 &&
           atomic_load(&t->storage->refs) == 1 && t->storage->release == NULL &&
           t->storage->driver != NULL && t->grad_fn == NULL;
}

tt_tensor *tti_grad_sum(tt_tensor *a, tt_tensor *b, bool record)
{
    tt_tensor *sum;

    if (!record && exclusive(a) && b->storage != NULL && tti_is_contiguous(a) && a != b) {
        if (tti_binary(TTI_ADD, a, a, b, NULL) == TT_OK)
            return a;
        tt_tensor_free(a);
        return NULL;
    }
    sum = tt_tensor_retain(tt_add(a, b));
    tt_tensor_free(a);
    return sum;
}

/* The first gradient of a leaf: taken over when nobody else has it, else copied. */
static tt_tensor *first_grad(tt_tensor *leaf, tt_tensor *g, bool create_graph)
{
    tt_tensor *own;

    (void)leaf;
    if ((create_graph && g->grad_fn != NULL) || g->storage == NULL ||
        (exclusive(g) && tti_is_contiguous(g)))
        return g;
    own = tt_tensor_retain(tt_clone(g));
    tt_tensor_free(g);
    return own;
}

/* Later ones are added, in place unless the sum itself must be differentiable. */
static tt_tensor *next_grad(tt_tensor *old, tt_tensor *g, bool create_graph)
{
    tt_tensor *sum;

    if (!create_graph && old->storage != NULL) {
        TT_NO_GRAD
        sum = tt_tensor_retain(tt_add_(old, g));
    } else {
        sum = tt_tensor_retain(tt_add(old, g));
    }
    tt_tensor_free(g);
    return sum;
}

static tt_status post_hooks(tt_tensor *leaf)
{
    for (tt_hook *h = leaf->meta->post_hooks; h != NULL; h = h->next)
        if (!atomic_load(&h->dead))
            TT_TRY(h->fn.leaf(h->ctx, leaf));
    return TT_OK;
}

tt_status tti_accumulate(tt_tensor *leaf, tt_tensor *g, bool create_graph)
{
    tti_grad_meta *m = tti_meta(leaf);
    tt_scope scope = tt_scope_open();
    tt_tensor *sum = NULL;
    tt_tensor *old;

    if (m == NULL)
        tt_tensor_free(g);
    else if (m->grad == NULL)
        sum = first_grad(leaf, g, create_graph);
    else
        sum = next_grad(m->grad, g, create_graph);
    if (sum != NULL) {
        old = m->grad;
        if ((sum->flags & TTI_HOME) != 0)
            sum->flags &= (uint16_t)~TTI_HOME;
        m->grad = sum;
        tt_tensor_free(old);
    }
    tt_scope_close(&scope);
    if (sum == NULL)
        return tt_last_status();
    return m->post_hooks != NULL ? post_hooks(leaf) : TT_OK;
}
