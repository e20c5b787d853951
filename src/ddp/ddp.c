/* SPDX-License-Identifier: Apache-2.0 */
/* tt_ddp: its life. */
#include "base/error.h"
#include "ddp/ddp.h"

#include <stdatomic.h>

#include "tutti/ops.h"

/* ---- making --------------------------------------------------------------------------------- */

static tt_status copy_names(tt_ddp *d, const tt_ddp_options *opt)
{
    if (opt->n_ignored < 0 || (opt->n_ignored > 0 && opt->ignored == NULL))
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a list of ignored names, got NULL");
    d->ignored = tti_calloc((size_t)opt->n_ignored + 1, sizeof *d->ignored);
    if (d->ignored == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < opt->n_ignored; i++) {
        d->ignored[i] = tti_strdup(opt->ignored[i]);
        if (d->ignored[i] == NULL)
            return TT_ERR_NOMEM;
        d->n_ignored++;
    }
    return TT_OK;
}

static tt_status add_param(tt_ddp *d, const char *name, tt_tensor *t)
{
    tti_ddp_param *p = &d->params[d->n_params];

    *p = (tti_ddp_param){ .ddp = d, .index = d->n_params };
    p->name = tti_strdup(name);
    if (p->name == NULL)
        return TT_ERR_NOMEM;
    p->t = tt_tensor_retain(t);
    d->n_params++;
    return TT_OK;
}

static tt_status collect_params(tt_ddp *d)
{
    tt_state_dict *list = tt_module_params(d->module, NULL);
    tt_status st = TT_OK;
    int n;

    if (list == NULL)
        return tt_last_status();
    n = tt_state_dict_count(list);
    d->params = tti_calloc((size_t)n + 1, sizeof *d->params);
    if (d->params == NULL)
        st = TT_ERR_NOMEM;
    for (int i = 0; st == TT_OK && i < n; i++) {
        const char *name = tt_state_dict_name(list, i);
        tt_tensor *t = tt_state_dict_tensor(list, i);

        if (tt_requires_grad(t) && !tti_ddp_ignores(d, name))
            st = add_param(d, name, t);
    }
    tt_state_dict_free(list);
    if (st == TT_OK && d->n_params == 0)
        return TT_FAIL(
            TT_ERR_INVALID,
            "ddp: the module has no parameter that requires a gradient: nothing to train");
    return st;
}

/* A module on one accelerator gets its inputs there. */
static void find_device(tt_ddp *d)
{
    d->device = d->params[0].t->device;
    for (int i = 1; i < d->n_params; i++)
        if (!tt_device_equal(d->params[i].t->device, d->device))
            d->device = TT_CPU;
}

tt_status tti_ddp_make_maps(tt_ddp *d)
{
    int64_t n = d->n_params;

    if (d->used != NULL)
        return TT_OK;
    if (d->unused == NULL)
        d->unused = tti_calloc((size_t)n, sizeof *d->unused);
    if (d->unused == NULL)
        return TT_ERR_NOMEM;
    TT_SCOPE {
        tt_tensor *reduced = tt_pg_alloc(d->pg, TT_SHAPE(n), TT_I32);
        tt_tensor *used = tt_zeros(TT_SHAPE(n), TT_I32, TT_CPU);
        tt_tensor *early = d->skip_unused ? tt_pg_alloc(d->pg, TT_SHAPE(n), TT_I32) : used;

        if (reduced != NULL && used != NULL && early != NULL) {
            d->early = d->skip_unused ? tt_tensor_retain(early) : NULL;
            d->reduced = tt_tensor_retain(reduced);
            d->used = tt_tensor_retain(used);
        }
    }
    return d->used != NULL ? TT_OK : tt_last_status();
}

static tt_status make_books(tt_ddp *d)
{
    size_t n = (size_t)d->n_params;

    d->order = tti_calloc(n, sizeof *d->order);
    d->first_order = tti_calloc(n, sizeof *d->first_order);
    if (d->order == NULL || d->first_order == NULL)
        return TT_ERR_NOMEM;
    return d->find_unused || d->static_graph ? tti_ddp_make_maps(d) : TT_OK;
}

static tt_status add_hooks(tt_ddp *d)
{
    for (int i = 0; i < d->n_params; i++) {
        d->params[i].hook = tt_leaf_add_post_hook(d->params[i].t, tti_ddp_leaf_hook, &d->params[i]);
        if (d->params[i].hook == NULL)
            return tt_last_status();
    }
    tti_ddp_homes(d, true);
    return TT_OK;
}

tt_status tti_ddp_agree_overlap(tt_ddp *d)
{
    bool on_accelerator = d->device.kind != TT_DEVICE_CPU;

    return tti_overlap_agree(d->pg, on_accelerator, &d->overlap);
}

static tt_status set_up(tt_ddp *d, const tt_ddp_options *opt)
{
    TT_TRY(tt_ddp_caps_make(opt->bucket_cap_mb, opt->bucket_cap_mb_list, opt->n_bucket_caps,
                            &d->caps));
    TT_TRY(copy_names(d, opt));
    TT_TRY(collect_params(d));
    find_device(d);
    TT_TRY(tti_ddp_mark_sparse(d));
    TT_TRY(make_books(d));
    TT_TRY(tti_ddp_verify(d));
    TT_TRY(tti_ddp_agree_overlap(d));
    if (!opt->no_initial_sync)
        TT_TRY(tti_ddp_send_states(d, 0, TTI_DDP_ALL));
    TT_TRY(tti_ddp_make_twins(d));
    TT_TRY(tti_ddp_build(d));
    TT_TRY(tti_ddp_note_sizes(d));
    return add_hooks(d);
}

/* The old name of forward_sync_buffers counts where the new one says nothing. */
static bool sends_buffers(const tt_ddp_options *opt)
{
    tt_ddp_switch s = opt->forward_sync_buffers;

    if (opt->broadcast_buffers != TT_DDP_DEFAULT)
        tt_warn("deprecated",
                "ddp: the option broadcast_buffers is deprecated: use forward_sync_buffers");
    if (s == TT_DDP_DEFAULT)
        s = opt->broadcast_buffers;
    return s != TT_DDP_OFF;
}

tt_ddp *tt_ddp_new(tt_module *m, tt_pg *pg, const tt_ddp_options *opt)
{
    static _Atomic uint64_t n_made;
    const tt_ddp_options zero = { 0 };
    tti_error_copy error;
    tt_ddp *d;

    if (opt == NULL)
        opt = &zero;
    if (m == NULL)
        return TT_NULL_GIVEN("ddp", "a module");
    pg = tti_ddp_choose_group(pg, opt->mesh);
    if (pg == NULL)
        return NULL;
    d = tti_calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->id = atomic_fetch_add_explicit(&n_made, 1, memory_order_relaxed) + 1;
    d->module = tt_module_retain(m);
    d->pg = tt_pg_retain(pg);
    d->find_unused = opt->find_unused;
    d->static_graph = opt->static_graph;
    d->search = opt->find_unused && !opt->static_graph;
    d->views = !opt->copy_gradients;
    d->skip_unused = opt->skip_unused_buckets && d->search;
    d->buffer_sync = sends_buffers(opt);
    d->precision = opt->precision;
    d->sync = true;
    d->sample_rate = opt->log_sample_rate > 0 ? opt->log_sample_rate : 100;
    if (set_up(d, opt) == TT_OK)
        return d;
    tti_error_save(&error);
    tt_ddp_free(d);
    tti_error_restore(&error);
    return NULL;
}

void tt_ddp_remove_hooks(tt_ddp *d)
{
    for (int i = 0; d != NULL && i < d->n_params; i++) {
        tt_hook_remove(d->params[i].hook);
        d->params[i].hook = NULL;
    }
    if (d == NULL)
        return;
    tti_ddp_unhook_outputs(d);
    tti_ddp_homes(d, false);
    d->removed = true;
}

void tt_ddp_free(tt_ddp *d)
{
    if (d == NULL)
        return;
    tt_ddp_remove_hooks(d);
    tti_ddp_unwrap(d);
    tti_ddp_free_twins(d);
    tt_future_free(d->buffer_future);
    tti_ddp_free_buckets(d);
    tti_ddp_hook_free(d);
    for (int i = 0; i < d->n_params; i++) {
        tt_tensor_free(d->params[i].t);
        tt_tensor_free(d->params[i].kept);
        tti_mfree(d->params[i].name);
    }
    for (int i = 0; i < d->n_ignored; i++)
        tti_mfree(d->ignored[i]);
    tt_tensor_free(d->used);
    tt_tensor_free(d->reduced);
    tt_tensor_free(d->early);
    tt_work_free(d->used_work);
    tti_mfree(d->ignored);
    tti_mfree(d->params);
    tti_mfree(d->order);
    tti_mfree(d->first_order);
    tti_mfree(d->unused);
    tti_mfree(d->error);
    tti_mfree(d->first_sizes);
    tt_module_free(d->module);
    tt_pg_free(d->pg);
    tti_mfree(d);
}

/* ---- settings and checks -------------------------------------------------------------------- */

bool tt_ddp_set_sync(tt_ddp *d, bool on)
{
    bool before_now;

    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp") == TT_OK;
    before_now = d->sync;
    d->sync = on;
    return before_now;
}

tt_ddp_sync_guard tt_ddp_no_sync_open(tt_ddp *d)
{
    return (tt_ddp_sync_guard){ .ddp = d, .before = tt_ddp_set_sync(d, false) };
}

void tt_ddp_no_sync_close(tt_ddp_sync_guard *g)
{
    tt_ddp_set_sync(g->ddp, g->before);
}

tt_status tt_ddp_set_static_graph(tt_ddp *d)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    if (d->static_graph)
        return TT_OK;
    if (d->iteration > 0 || d->state != TTI_DDP_IDLE)
        return tti_ddp_note_error(
            d,
            TT_FAIL(TT_ERR_INVALID, "ddp: static_graph has to be set before the training starts"));
    TT_TRY(tti_ddp_note_error(d, tti_ddp_make_maps(d)));
    d->static_graph = true;
    d->search = false;
    return TT_OK;
}

tt_status tt_ddp_check_finished(tt_ddp *d)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    return d->state == TTI_DDP_REDUCING || d->state == TTI_DDP_UNFINISHED
               ? tti_ddp_note_error(d, tti_ddp_unfinished(d))
               : TT_OK;
}

tt_status tt_ddp_sync_states(tt_ddp *d, int root)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    return tti_ddp_note_error(d, tti_ddp_send_states(d, root, TTI_DDP_ALL));
}

tt_status tt_ddp_send_buffers(tt_ddp *d, int root)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    return tti_ddp_note_error(d, tti_ddp_send_states(d, root, TTI_DDP_BUFFERS));
}

tt_status tt_ddp_verify(tt_ddp *d)
{
    if (d == NULL)
        return tti_null_given("ddp", "a tt_ddp");
    return tti_ddp_note_error(d, tti_ddp_verify(d));
}
