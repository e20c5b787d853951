/* SPDX-License-Identifier: Apache-2.0 */
/* Homes: the memory in which a leaf's gradient is to be. A backward function that makes the tensor it writes with
 * tti_grad_new writes it there, which saves whoever set the home (data parallel training: the buckets) a copy. */
#include "graph/graph.h"
#include "tensor/shape.h"

TTI_HOT_TLS bool tti_homes_open;

tt_status tti_set_grad_home(tt_tensor *leaf, tt_tensor *home)
{
    tti_grad_meta *m = tti_meta(leaf);
    tt_tensor *old;

    if (m == NULL)
        return TT_ERR_NOMEM;
    old = m->home;
    m->home = tt_tensor_retain(home);
    m->home_taken = false;
    tt_tensor_free(old);
    return TT_OK;
}

tt_tensor *tti_grad_home(const tt_tensor *leaf)
{
    return leaf->meta != NULL ? leaf->meta->home : NULL;
}

static bool has_shape(const tt_tensor *t, const int64_t *dims, int n_dims)
{
    if (t->n_dims != n_dims)
        return false;
    for (int i = 0; i < n_dims; i++)
        if (t->dims[i] != dims[i])
            return false;
    return true;
}

/* Hooks may keep the gradient they see, which would change under them. On accelerators the stream of the node
 * knows nothing of those that used the memory before. */
static bool is_free(const tti_grad_meta *m)
{
    return m != NULL && m->home != NULL && !m->home_taken && m->grad == NULL && m->hooks == NULL &&
           m->pre_hooks == NULL && m->home->device.kind == TT_DEVICE_CPU;
}

tt_tensor *tti_grad_new(const tti_node *n, int i, const int64_t *dims, int n_dims, tt_dtype dtype,
                        tt_device device)
{
    tti_grad_meta *m = n->edges[i].leaf != NULL ? n->edges[i].leaf->meta : NULL;
    tt_tensor *g;

    if (tt_likely(!tti_homes_open || !is_free(m)) || m->home->dtype != dtype ||
        !tt_device_equal(m->home->device, device) || !has_shape(m->home, dims, n_dims))
        return tti_empty(dims, n_dims, dtype, device);
    g = tti_alias(m->home);
    if (g == NULL)
        return NULL;
    g->flags |= TTI_HOME;
    m->home_taken = true;
    return g;
}
