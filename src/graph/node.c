/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the graph: one allocation each, holding edges, results' shapes, saved tensors and the
 * operator's attributes. */
#include <string.h>

#include "base/small.h"
#include "device/accel.h"
#include "graph/graph.h"
#include "graph/saved.h"

TTI_HOT_TLS tt_grad_mode tti_grad_mode = TT_GRAD_ON;

TTI_HOT_TLS uint64_t tti_next_seq;
static TTI_HOT_TLS tti_node *dead_list; /* nodes waiting to be freed by the outermost call */
static TTI_HOT_TLS bool freeing;

static size_t round16(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

tti_node *tti_node_new(const tti_op *op, int n_in, int n_out, int n_saved, size_t attrs_bytes)
{
    size_t at_edges = round16(sizeof(tti_node));
    size_t at_saved = at_edges + round16((size_t)n_in * sizeof(tti_edge));
    size_t at_outs = at_saved + round16((size_t)n_saved * sizeof(tti_saved));
    size_t at_attrs = at_outs + round16((size_t)n_out * sizeof(tti_out_meta));
    size_t bytes = at_attrs + round16(attrs_bytes);
    char *mem = tti_small_alloc(bytes);
    tti_node *n = (tti_node *)(void *)mem;

    if (n == NULL)
        return NULL;
    memset(mem, 0, bytes);
    atomic_init(&n->refs, 1);
    n->op = op;
    n->bytes = (uint32_t)bytes;
    n->n_in = (uint16_t)n_in;
    n->n_out = (uint16_t)n_out;
    n->n_saved = (uint16_t)n_saved;
    n->seq = tti_next_seq++;
    n->edges = (tti_edge *)(void *)(mem + at_edges);
    n->saved = (tti_saved *)(void *)(mem + at_saved);
    n->outs = (tti_out_meta *)(void *)(mem + at_outs);
    n->attrs = mem + at_attrs;
    return n;
}

tti_node *tti_node_retain(tti_node *n)
{
    tti_ref(&n->refs);
    return n;
}

void tti_node_release(tti_node *n)
{
    for (int i = 0; i < n->n_saved; i++) {
        tti_saved s = n->saved[i];

        n->saved[i] = (tti_saved){ 0 };
        tt_tensor_free(s.t);
        if (s.frame != NULL)
            tti_saved_leave_frame(&s);
    }
    n->released = true;
}

static void node_destroy(tti_node *n)
{
    tti_node_release(n);
    tti_hooks_free(&n->hooks);
    if (n->attrs_free != NULL)
        n->attrs_free(n->attrs);
    for (int i = 0; i < n->n_in; i++) {
        if (n->edges[i].node != NULL)
            tti_node_free(n->edges[i].node);
        tt_tensor_free(n->edges[i].leaf);
    }
    tti_small_free(n, n->bytes);
}

/* A chain of nodes can be millions long; the outermost call frees them in a loop, those inside only
 * queue what they drop. */
void tti_node_free(tti_node *n)
{
    if (n == NULL || !tti_unref(&n->refs))
        return;
    n->next_dead = dead_list;
    dead_list = n;
    if (freeing)
        return;
    freeing = true;
    while (dead_list != NULL) {
        tti_node *dead = dead_list;

        dead_list = dead->next_dead;
        node_destroy(dead);
    }
    freeing = false;
}

void tti_node_set_edge(tti_node *n, int i, tt_tensor *in)
{
    if (!tti_wants_grad(in))
        return;
    if (in->grad_fn != NULL)
        n->edges[i] = (tti_edge){ .node = tti_node_retain(in->grad_fn), .out_nr = in->out_nr };
    else
        n->edges[i] = (tti_edge){ .leaf = tt_tensor_retain(in) };
}

void tti_node_set_out(tti_node *n, int out_nr, tt_tensor *out)
{
    tti_out_meta *m = &n->outs[out_nr];

    if (tt_unlikely(out->device.kind != TT_DEVICE_CPU) && n->stream == NULL)
        n->stream = tti_stream_of(out->device);
    m->device = out->device;
    m->dtype = out->dtype;
    m->n_dims = out->n_dims;
    for (int i = 0; i < out->n_dims; i++)
        m->dims[i] = out->dims[i];
    if (out->grad_fn != NULL) /* in place: the old history is an edge of n now */
        tti_node_free(out->grad_fn);
    out->grad_fn = tti_node_retain(n);
    out->out_nr = (uint32_t)out_nr;
    out->flags |= TTI_REQUIRES_GRAD;
}
