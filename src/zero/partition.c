/* SPDX-License-Identifier: Apache-2.0 */
/* Who updates which parameter: large ones first, each to the rank with the fewest elements so far. It depends
 * on sizes only, so all ranks come to the same. */
#include <stdlib.h>

#include "base/mem.h"
#include "zero/zero.h"

typedef struct sized {
    int64_t numel;
    int index;
} sized;

static int by_size(const void *a, const void *b)
{
    const sized *x = a, *y = b;

    if (x->numel != y->numel)
        return x->numel > y->numel ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int least_loaded(const int64_t *loads, int size)
{
    int best = 0;

    for (int r = 1; r < size; r++)
        if (loads[r] < loads[best])
            best = r;
    return best;
}

/* `order` has room for all parameters. */
static void assign(tti_zero_group *g, sized *order, int64_t *loads, int size)
{
    for (int i = 0; i < g->n; i++)
        order[i] = (sized){ .numel = g->params[i].t->numel, .index = i };
    qsort(order, (size_t)g->n, sizeof *order, by_size);
    for (int i = 0; i < g->n; i++) {
        int owner = least_loaded(loads, size);

        g->params[order[i].index].owner = owner;
        loads[owner] += order[i].numel;
    }
}

static void number(tti_zero_group *g, int size)
{
    for (int r = 0; r < size; r++) {
        int local = 0;

        for (int i = 0; i < g->n; i++)
            if (g->params[i].owner == r)
                g->params[i].local = local++;
    }
}

tt_status tti_zero_partition(tt_zero *z, tti_zero_group *g, tt_tensor *const *params, int n)
{
    sized *order = tti_calloc((size_t)n, sizeof *order);
    tt_status st = TT_ERR_NOMEM;

    g->params = tti_calloc((size_t)n, sizeof *g->params);
    if (order != NULL && g->params != NULL) {
        for (; g->n < n; g->n++)
            g->params[g->n].t = tt_tensor_retain(params[g->n]);
        assign(g, order, z->loads, z->size);
        number(g, z->size);
        st = TT_OK;
    }
    tti_mfree(order);
    return st;
}

tt_tensor **tti_zero_own(const tt_zero *z, const tti_zero_group *g, int *n_p)
{
    tt_tensor **own = tti_malloc((size_t)g->n * sizeof *own);

    *n_p = 0;
    for (int i = 0; own != NULL && i < g->n; i++)
        if (g->params[i].owner == z->rank)
            own[(*n_p)++] = g->params[i].t;
    return own;
}

static void bucket_fini(tti_zero_bucket *b, int size)
{
    for (int r = 0; b->parts != NULL && r < size; r++)
        tt_tensor_free(b->parts[r]);
    tti_mfree(b->parts);
    tt_tensor_free(b->flat);
    tt_work_free(b->work);
}

void tti_zero_group_fini(tti_zero_group *g, int size)
{
    for (int i = 0; i < g->n; i++) {
        tt_tensor_free(g->params[i].t);
        tt_tensor_free(g->params[i].view);
    }
    for (int k = 0; k < TT_N_DTYPES; k++)
        bucket_fini(&g->buckets[k], size);
    tti_mfree(g->params);
}
