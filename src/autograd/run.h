/* SPDX-License-Identifier: Apache-2.0 */
/* The books of one backward: a task per node or leaf that the walk can reach, how many gradients it
 * still waits for, those that arrived, and a heap of the tasks that are ready. Everything belongs to
 * one run on one thread, so several runs may share a graph. */
#ifndef TTI_AUTOGRAD_RUN_H
#define TTI_AUTOGRAD_RUN_H

#include "graph/graph.h"

#define TTI_RUN_SMALL 48

typedef struct tti_task {
    tti_node *node; /* exactly one of node and leaf */
    tt_tensor *leaf;
    uint32_t deps;       /* gradients (or their absence) still to come */
    uint32_t first_grad; /* of its slots in run->grads */
    bool needed;         /* its gradient is wanted, or leads to one that is */
    bool passes;         /* it leads to another one that is wanted */
} tti_task;

typedef struct tti_end_call {
    tt_backward_end_fn fn;
    void (*failed)(void *ctx); /* may be NULL */
    void *ctx;
} tti_end_call;

/* autograd/streams.h */
typedef struct tti_streams {
    tt_stream *entered; /* made current for the node that runs; NULL: nothing was to be done */
    tt_stream_guard guard;
    tt_stream **used; /* other than those that were current */
    size_t n_used, cap_used;
} tti_streams;

typedef struct tti_run {
    tti_task *tasks;
    size_t n_tasks, cap_tasks;
    uint32_t *table; /* hash of key -> task + 1; 0: empty */
    size_t table_size;
    tt_tensor **grads; /* owned references, or NULL */
    size_t n_grads, cap_grads;
    uint32_t *heap; /* ready tasks; the greatest sequence number on top, leaves before all */
    size_t n_heap, cap_heap;

    bool retain_graph, create_graph;
    tti_streams streams;

    tti_end_call *end_calls;
    size_t n_end_calls, cap_end_calls;
    size_t n_ended;        /* of them: they have succeeded */
    struct tti_run *outer; /* the run inside which this one was started */

    tti_task small_tasks[TTI_RUN_SMALL];
    uint32_t small_table[2 * TTI_RUN_SMALL + 32];
    tt_tensor *small_grads[TTI_RUN_SMALL];
    uint32_t small_heap[TTI_RUN_SMALL];
} tti_run;

void tti_run_init(tti_run *r);
void tti_run_fini(tti_run *r);

/* The task of a node or leaf (one of them NULL), made if it is new; *made_p says so. */
tt_status tti_run_task(tti_run *r, tti_node *node, tt_tensor *leaf, uint32_t *task_p, bool *made_p);
/* The same for one that must exist; returns UINT32_MAX when it does not. */
uint32_t tti_run_find(const tti_run *r, const void *key);

tt_status tti_run_push(tti_run *r, uint32_t task);
uint32_t tti_run_pop(tti_run *r); /* the heap is not empty */

#endif
