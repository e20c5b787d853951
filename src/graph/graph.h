/* SPDX-License-Identifier: Apache-2.0 */
/* The graph that autograd walks: nodes (one per recorded operator), edges from a node to whatever made
 * its inputs, and the gradient data that hang on tensors.
 *
 *     loss.grad_fn -> node "mul" --edge--> node "relu" --edge--> leaf w (w.meta.grad, hooks)
 *                        |                    |
 *                     saved a, b           saved y
 *
 * A node is built by the thread that runs the operator, is immutable afterwards except for hooks and
 * for the release of its saved tensors, and is walked by autograd/engine.c. Nodes own the nodes and
 * leaves they point to; tensors own their grad_fn. A node never owns its own results. */
#ifndef TTI_GRAPH_GRAPH_H
#define TTI_GRAPH_GRAPH_H

#include "base/refcount.h"
#include "base/tls.h"
#include "tensor/tensor.h"
#include "tutti/autograd.h"
#include "tutti/stream.h"

/* Compute the gradients of the inputs. grad_out[i] is the gradient of result i (NULL: undefined, only
 * when there are several results). Fill grad_in[i] for inputs that tti_needs(); NULL leaves it
 * undefined. Tensors are scope-owned. The gradient may have a broadcast shape or another floating
 * type: the engine sums and converts it to what the input has. With create_graph, the operators
 * used here are recorded too, so write derivatives in terms of tt_ functions. */
typedef tt_status (*tti_backward_fn)(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in);

enum {
    TTI_OP_SPARSE = 1, /* takes sparse inputs */
    TTI_OP_HIDDEN = 2, /* not shown to observers */
    TTI_OP_WIDE = 4,   /* autocast: in float32 */
    TTI_OP_SPREAD = 8, /* takes inputs on different devices */
};

/* What is known about an operator: a static const record per operator. */
typedef struct tti_op {
    const char *name;
    tti_backward_fn backward; /* NULL: no derivative; results do not require gradients */
    unsigned flags;
} tti_op;

/* Where the gradient of an input goes: to a node, to a leaf, or nowhere (both NULL). */
typedef struct tti_edge {
    tti_node *node;
    tt_tensor *leaf;
    uint32_t out_nr;
} tti_edge;

/* A stretch of the graph whose saved tensors are not kept but made again when backward asks for them
 * (checkpointing). Saved tensors are numbered in the order in which the stretch saves them; the second
 * run saves the same ones in the same order. Used by one thread at a time. */
typedef struct tti_frame {
    atomic_int refs;
    size_t n_saved;      /* in the first run */
    tt_tensor **tensors; /* of the second run: owned, NULL once released */
    size_t n_tensors, cap_tensors;
    bool recording; /* the second run is under way */
    tt_status (*recompute)(struct tti_frame *f);
    void (*free)(struct tti_frame *f);
} tti_frame;

/* The frame into which this thread saves, or NULL. */
extern TTI_HOT_TLS tti_frame *tti_save_frame;

void tti_frame_free(tti_frame *f); /* drops a reference */

typedef struct tti_saved {
    tt_tensor *t; /* NULL: none, released, or to be made again */
    uint64_t version;
    bool own_result; /* an alias of a result of this node, without its grad_fn */
    uint32_t out_nr;
    tti_frame *frame; /* NULL: t is kept */
    size_t frame_index;
    tti_edge origin; /* frame: where the tensor came from in the graph */
} tti_saved;

/* What the gradient of a result must look like. */
typedef struct tti_out_meta {
    tt_device device;
    uint8_t dtype;
    uint8_t n_dims;
    int64_t dims[TT_MAX_DIMS];
} tti_out_meta;

struct tt_hook {
    atomic_int refs; /* the list's and the user's */
    atomic_bool dead;
    union {
        tt_tensor_hook_fn grad;
        tt_leaf_hook_fn leaf;
        void (*other)(void); /* of lists above this layer, which know its type */
    } fn;
    void *ctx;
    uint32_t out_nr; /* of a node's result */
    tt_hook *next;
};

struct tti_node {
    atomic_int refs;
    uint16_t n_in, n_out, n_saved;
    bool released;  /* saved tensors are gone */
    uint32_t bytes; /* of the whole allocation */
    const tti_op *op;
    uint64_t seq; /* later operators have greater numbers */
    tti_edge *edges;
    tti_saved *saved;
    tti_out_meta *outs;
    void *attrs;                     /* what the operator needs to remember; plain data */
    void (*attrs_free)(void *attrs); /* NULL: nothing to do */
    tt_hook *hooks;                  /* on gradients of results, in the order added */
    tt_tensor *retain[2]; /* borrowed: non-leaves that keep their gradient (first results) */
    tt_stream *stream;    /* on which it ran; NULL: on the CPU */
    tti_node *next_dead;  /* while being freed */
};

struct tti_grad_meta {
    tt_tensor *grad;          /* owned */
    tt_hook *hooks;           /* leaf: on its gradient */
    tt_hook *pre_hooks;       /* leaf: before accumulation */
    tt_hook *post_hooks;      /* leaf: after accumulation */
    tt_tensor *home;          /* leaf: where its gradient is to be; borrowed; NULL: anywhere */
    const tt_hook *home_hook; /* the post hook of who set it */
};

extern TTI_HOT_TLS tt_grad_mode tti_grad_mode;
/* The number of the next node of this thread. Threads that work on one graph begin where their caller was. */
extern TTI_HOT_TLS uint64_t tti_next_seq;

/* ---- nodes ------------------------------------------------------------------------------- */

/* A node with room for so many edges, results, saved tensors and bytes of attributes, all zero. */
tti_node *tti_node_new(const tti_op *op, int n_in, int n_out, int n_saved, size_t attrs_bytes);
tti_node *tti_node_retain(tti_node *n);
void tti_node_free(tti_node *n);
/* Drop the saved tensors: a second backward is an error from here on. */
void tti_node_release(tti_node *n);

/* Fill edge i from an input tensor (NULL or not requiring a gradient: nowhere). */
void tti_node_set_edge(tti_node *n, int i, tt_tensor *in);
/* Make `out` the result number `out_nr` of n. */
void tti_node_set_out(tti_node *n, int out_nr, tt_tensor *out);
/* Save a tensor for backward. `t` may be a result of n: then an alias is kept. */
tt_status tti_node_save(tti_node *n, int i, tt_tensor *t);

/* ---- inside backward functions --------------------------------------------------------------- */

static inline bool tti_needs(const tti_node *n, int i)
{
    return n->edges[i].node != NULL || n->edges[i].leaf != NULL;
}

static inline const void *tti_attrs(const tti_node *n)
{
    return n->attrs;
}

/* Saved tensor i, or NULL (recorded) when it was modified in place since or already released.
 * Optional ones that were NULL come back as NULL without an error: see tti_has_saved. */
tt_tensor *tti_saved_get(tti_node *n, int i);

static inline bool tti_has_saved(const tti_node *n, int i)
{
    return n->saved[i].t != NULL || n->saved[i].frame != NULL;
}

/* A tensor for the gradient of input i, not filled: in the leaf's home if it is free and of that shape and type,
 * else new. Scope-owned. For gradients that are written once, by what comes next, and given to that input only. */
tt_tensor *tti_grad_new(const tti_node *n, int i, const int64_t *dims, int n_dims, tt_dtype dtype,
                        tt_device device);

/* *slot = value; a NULL value is the failure of the expression that made it. */
static inline tt_status tti_give(tt_tensor **slot, tt_tensor *value)
{
    *slot = value;
    return tt_likely(value != NULL) ? TT_OK : tt_last_status();
}

/* ---- tensors and their gradient data --------------------------------------------------------- */

static inline bool tti_wants_grad(const tt_tensor *t)
{
    return t != NULL && (t->flags & TTI_REQUIRES_GRAD) != 0;
}

/* The gradient data of t, made on first use; NULL when out of memory. */
tti_grad_meta *tti_meta(tt_tensor *t);
void tti_graph_drop(tt_tensor *t);

/* A tensor over the same storage that is no part of any graph; scope-owned. */
tt_tensor *tti_alias(tt_tensor *t);

/* The leaf's first gradient is wanted in `home`: contiguous, like the leaf, with a storage of its own, and borrowed until
 * another or NULL (anywhere) is set. It is free while nobody else has a reference to it or its storage, and the leaf
 * has no live hooks before `hook`, the post hook of who sets it. It is a wish: look where the gradient is. */
void tti_set_grad_home(tt_tensor *leaf, tt_tensor *home, const tt_hook *hook);
tt_tensor *tti_grad_home(const tt_tensor *leaf);

/* Whether gradients of this thread's backward may go home: they end in leaves and nowhere else. */
extern TTI_HOT_TLS bool tti_homes_open;

/* ---- hooks ------------------------------------------------------------------------------- */

tt_hook *tti_hook_new(tt_hook **list);
void tti_hooks_free(tt_hook **list);
/* Free those that were removed. Nobody may be walking the list. */
void tti_hooks_purge(tt_hook **list);

#endif
