/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that get no gradient: finding them in the graph, and complaining about them. */
#include <string.h>

#include "autograd/run.h"
#include "ddp/ddp.h"
#include "tutti/prof.h"

static tt_status reach(tti_run *r, tt_tensor *const *outs, int n)
{
    uint32_t task;
    bool made;

    for (int i = 0; i < n; i++)
        if (tti_wants_grad(outs[i]))
            TT_TRY(tti_run_task(r, outs[i]->grad_fn, outs[i]->grad_fn == NULL ? outs[i] : NULL,
                                &task, &made));
    for (size_t at = 0; at < r->n_tasks; at++) {
        const tti_node *node = r->tasks[at].node;

        for (int i = 0; node != NULL && i < node->n_in; i++)
            if (tti_needs(node, i))
                TT_TRY(tti_run_task(r, node->edges[i].node, node->edges[i].leaf, &task, &made));
    }
    return TT_OK;
}

tt_status tti_ddp_search_unused(tt_ddp *d, tt_tensor *const *outs, int n)
{
    tti_run r;
    tt_status st;

    tt_prof_begin("search_unused_parameters");
    tti_run_init(&r);
    st = reach(&r, outs, n);
    for (int i = 0; st == TT_OK && i < d->n_params; i++)
        d->unused[i] = tti_run_find(&r, d->params[i].t) == UINT32_MAX;
    tti_run_fini(&r);
    tt_prof_end();
    return st;
}

/* ---- buckets that nobody uses ---------------------------------------------------------------- */

static void mark_buckets(tt_ddp *d, const int32_t *users)
{
    for (int b = 0; b < d->n_buckets; b++) {
        tti_ddp_bucket *bucket = &d->buckets[b];

        bucket->skip = true;
        for (int i = 0; i < bucket->n_params; i++)
            bucket->skip &= users[bucket->params[i]] == 0;
    }
}

tt_status tti_ddp_agree_unused(tt_ddp *d, bool shadow)
{
    int32_t *mine = tti_data(d->early);
    const int32_t *before = tti_data(d->used);

    for (int i = 0; i < d->n_params; i++)
        mine[i] = !shadow && (before[i] != 0 || !d->unused[i] || d->hidden);
    TT_TRY(tt_pg_all_reduce(d->pg, d->early, NULL, NULL));
    mark_buckets(d, mine);
    return TT_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static tt_status output_hook(void *ctx, tt_tensor **grad_p)
{
    (void)grad_p;
    return tti_ddp_begin(ctx);
}

void tti_ddp_unhook_outputs(tt_ddp *d)
{
    for (int i = 0; i < d->n_out_hooks; i++)
        tt_hook_remove(d->out_hooks[i]);
    tti_mfree(d->out_hooks);
    d->out_hooks = NULL;
    d->n_out_hooks = 0;
}

tt_status tti_ddp_hook_outputs(tt_ddp *d, tt_tensor *const *outs, int n)
{
    tti_ddp_unhook_outputs(d);
    d->out_hooks = tti_calloc((size_t)n + 1, sizeof *d->out_hooks);
    if (d->out_hooks == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        if (!tti_wants_grad(outs[i]) || outs[i]->grad_fn == NULL)
            continue;
        d->out_hooks[d->n_out_hooks] = tt_tensor_add_hook(outs[i], output_hook, d);
        if (d->out_hooks[d->n_out_hooks] == NULL)
            return tt_last_status();
        d->n_out_hooks++;
    }
    return TT_OK;
}

/* ---- complaining ------------------------------------------------------------------------- */

#define MAX_INDICES 24
#define MAX_TEXT 900 /* an error has room for little more */

static void add_indices(const tt_ddp *d, tti_text *text)
{
    int n = 0;

    for (int i = 0; i < d->n_params; i++)
        if (d->params[i].missing && n++ < MAX_INDICES)
            tti_text_addf(text, " %d", i);
    if (n > MAX_INDICES)
        tti_text_addf(text, " and %d more", n - MAX_INDICES);
}

static void add_names(const tt_ddp *d, tti_text *text)
{
    const char *comma = "";
    int left_out = 0;

    for (int i = 0; i < d->n_params; i++) {
        if (!d->params[i].missing)
            continue;
        if (text->n + strlen(d->params[i].name) > MAX_TEXT) {
            left_out++;
            continue;
        }
        tti_text_addf(text, "%s\"%s\"", comma, d->params[i].name);
        comma = ", ";
    }
    if (left_out > 0)
        tti_text_addf(text, " and %d more", left_out);
}

tt_status tti_ddp_unfinished(tt_ddp *d)
{
    tti_text text = { 0 };
    tt_status st;

    tti_text_add(&text,
                 "ddp: expected that the reduction of the previous iteration had finished, but "
                 "some parameters got no gradient. ");
    if (d->hidden)
        tti_text_add(&text,
                     "The outputs of forward hide something in an opaque value, where unused "
                     "parameters cannot be searched for: return tensors, lists or maps. ");
    else if (d->static_graph)
        tti_text_add(&text, "They had one in the first iteration: the graph has changed although "
                            "static_graph is set. ");
    else
        tti_text_add(&text, "If parts of the module are not used in every forward, set the option "
                            "find_unused; and make sure that all outputs of forward take part in "
                            "the loss. ");
    tti_text_addf(&text,
                  "Parameters that did not receive a gradient on rank %d:", tt_pg_rank(d->pg));
    add_indices(d, &text);
    if (tt_get_debug_level() == TT_DEBUG_OFF) {
        tti_text_add(&text, ". Set TUTTI_DISTRIBUTED_DEBUG to INFO or DETAIL to see their names");
    } else {
        tti_text_add(&text, ", which are ");
        add_names(d, &text);
    }
    st = text.status == TT_OK ? TT_FAIL(TT_ERR_INVALID, "%s", tti_text_str(&text)) : TT_ERR_NOMEM;
    tti_text_fini(&text);
    return st;
}
