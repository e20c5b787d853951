/* SPDX-License-Identifier: Apache-2.0 */
/* Homes: the memory in which a leaf's gradient is to be. A backward function that makes the tensor it writes with
 * tti_grad_new writes it there, which saves whoever set the home (data parallel training: the buckets) a copy. */
#include "graph/graph.h"

TTI_HOT_TLS bool tti_homes_open;

void tti_set_grad_home(tt_tensor *leaf, tt_tensor *home, const tt_hook *hook)
{
    if (leaf->meta == NULL)
        return;
    leaf->meta->home = home;
    leaf->meta->home_hook = hook;
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

static const tt_hook *first_live(const tt_hook *list)
{
    while (list != NULL && atomic_load(&list->dead))
        list = list->next;
    return list;
}

/* Gradients that somebody has kept, or that are on their way to the leaf, have references to the storage. Hooks may
 * keep what they see, which would change under them. On accelerators the stream of the node knows nothing of
 * those that used the memory before. */
static bool is_free(const tti_grad_meta *m)
{
    return m != NULL && m->home != NULL && m->grad == NULL && atomic_load(&m->home->refs) == 1 &&
           atomic_load(&m->home->storage->refs) == 1 && first_live(m->hooks) == NULL &&
           first_live(m->pre_hooks) == NULL && first_live(m->post_hooks) == m->home_hook &&
           m->home->device.kind == TT_DEVICE_CPU;
}

tt_tensor *tti_grad_new(const tti_node *n, int i, const int64_t *dims, int n_dims, tt_dtype dtype,
                        tt_device device)
{
    const tti_grad_meta *m = n->edges[i].leaf != NULL ? n->edges[i].leaf->meta : NULL;
    tt_tensor *g;

    if (tt_likely(!tti_homes_open || !is_free(m)) || m->home->dtype != dtype ||
        !tt_device_equal(m->home->device, device) || !has_shape(m->home, dims, n_dims))
        return tti_empty(dims, n_dims, dtype, device);
    tti_bump_version(m->home);
    g = tti_alias(m->home);
    if (g != NULL)
        g->flags |= TTI_HOME;
    return g;
}
