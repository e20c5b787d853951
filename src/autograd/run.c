/* SPDX-License-Identifier: Apache-2.0 */
/* Task table and ready heap of a backward. Small graphs need no allocation. */
#include "autograd/run.h"

#include <string.h>

#define SMALL_TABLE 128u

void tti_run_init(tti_run *r)
{
    memset(r, 0, offsetof(tti_run, small_tasks));
    r->tasks = r->small_tasks;
    r->cap_tasks = TTI_RUN_SMALL;
    r->table = r->small_table;
    r->table_size = SMALL_TABLE;
    r->grads = r->small_grads;
    r->cap_grads = TTI_RUN_SMALL;
    r->heap = r->small_heap;
    r->cap_heap = TTI_RUN_SMALL;
    memset(r->small_table, 0, SMALL_TABLE * sizeof *r->small_table);
    static_assert(sizeof r->small_table >= SMALL_TABLE * sizeof *r->small_table,
                  "the small table holds a power of two");
}

void tti_run_fini(tti_run *r)
{
    for (size_t i = 0; i < r->n_grads; i++)
        tt_tensor_free(r->grads[i]);
    if (r->tasks != r->small_tasks)
        tti_mfree(r->tasks);
    if (r->table != r->small_table)
        tti_mfree(r->table);
    if (r->grads != r->small_grads)
        tti_mfree(r->grads);
    if (r->heap != r->small_heap)
        tti_mfree(r->heap);
    tti_mfree(r->end_calls);
    tti_mfree(r->streams.used);
}

static size_t hash(const void *key, size_t size)
{
    return (size_t)(((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (size - 1);
}

static const void *key_of(const tti_task *t)
{
    return t->node != NULL ? (const void *)t->node : (const void *)t->leaf;
}

/* Where the key is, or where it would go. */
static size_t place(const tti_run *r, const void *key)
{
    size_t at = hash(key, r->table_size);

    while (r->table[at] != 0 && key_of(&r->tasks[r->table[at] - 1]) != key)
        at = (at + 1) & (r->table_size - 1);
    return at;
}

uint32_t tti_run_find(const tti_run *r, const void *key)
{
    return r->table[place(r, key)] - 1;
}

/* From the array inside the run to the heap, or to a larger one there. */
static tt_status grow(void **items, void *small, size_t *cap, size_t size)
{
    size_t wanted = *cap * 2;
    void *bigger = *items == small ? tti_malloc(wanted * size) : tti_realloc(*items, wanted * size);

    if (bigger == NULL)
        return TT_ERR_NOMEM;
    if (*items == small)
        memcpy(bigger, small, *cap * size);
    *items = bigger;
    *cap = wanted;
    return TT_OK;
}

static tt_status rehash(tti_run *r)
{
    size_t size = r->table_size * 2;
    uint32_t *table = tti_calloc(size, sizeof *table);
    uint32_t *old = r->table;

    if (table == NULL)
        return TT_ERR_NOMEM;
    r->table = table;
    r->table_size = size;
    for (size_t i = 0; i < r->n_tasks; i++)
        table[place(r, key_of(&r->tasks[i]))] = (uint32_t)i + 1;
    if (old != r->small_table)
        tti_mfree(old);
    return TT_OK;
}

static tt_status room_for_task(tti_run *r, size_t n_slots)
{
    if (r->n_tasks == r->cap_tasks)
        TT_TRY(grow((void **)&r->tasks, r->small_tasks, &r->cap_tasks, sizeof *r->tasks));
    while (r->n_grads + n_slots > r->cap_grads)
        TT_TRY(grow((void **)&r->grads, r->small_grads, &r->cap_grads, sizeof *r->grads));
    if ((r->n_tasks + 1) * 2 > r->table_size)
        TT_TRY(rehash(r));
    return TT_OK;
}

tt_status tti_run_task(tti_run *r, tti_node *node, tt_tensor *leaf, uint32_t *task_p, bool *made_p)
{
    const void *key = node != NULL ? (const void *)node : (const void *)leaf;
    size_t at = place(r, key);
    size_t n_slots = node != NULL ? node->n_out : 1;

    *made_p = r->table[at] == 0;
    if (!*made_p) {
        *task_p = r->table[at] - 1;
        return TT_OK;
    }
    TT_TRY(room_for_task(r, n_slots));
    at = place(r, key);
    r->table[at] = (uint32_t)r->n_tasks + 1;
    r->tasks[r->n_tasks] =
        (tti_task){ .node = node, .leaf = leaf, .first_grad = (uint32_t)r->n_grads };
    for (size_t i = 0; i < n_slots; i++)
        r->grads[r->n_grads++] = NULL;
    *task_p = (uint32_t)r->n_tasks++;
    return TT_OK;
}

static uint64_t rank_of(const tti_run *r, uint32_t task)
{
    const tti_task *t = &r->tasks[task];

    return t->node != NULL ? t->node->seq : UINT64_MAX;
}

tt_status tti_run_push(tti_run *r, uint32_t task)
{
    size_t i;

    if (r->n_heap == r->cap_heap)
        TT_TRY(grow((void **)&r->heap, r->small_heap, &r->cap_heap, sizeof *r->heap));
    i = r->n_heap++;
    while (i > 0 && rank_of(r, r->heap[(i - 1) / 2]) < rank_of(r, task)) {
        r->heap[i] = r->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->heap[i] = task;
    return TT_OK;
}

uint32_t tti_run_pop(tti_run *r)
{
    uint32_t top = r->heap[0];
    uint32_t last = r->heap[--r->n_heap];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= r->n_heap)
            break;
        if (child + 1 < r->n_heap && rank_of(r, r->heap[child + 1]) > rank_of(r, r->heap[child]))
            child++;
        if (rank_of(r, r->heap[child]) <= rank_of(r, last))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = last;
    return top;
}
