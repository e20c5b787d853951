/* SPDX-License-Identifier: Apache-2.0 */
/* tt_ddp: its life, and forward. */
#include "ddp/ddp.h"

#include <string.h>

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

    if (!tt_device_equal(t->device, TT_CPU))
        return TT_FAIL(TT_ERR_UNSUPPORTED, "ddp: parameter \"%s\" is not on the CPU", name);
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

/* What parameters without gradients need. */
static tt_status make_maps(tt_ddp *d)
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

        if (reduced != NULL && used != NULL) {
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
    return d->find_unused || d->static_graph ? make_maps(d) : TT_OK;
}

static tt_status add_hooks(tt_ddp *d)
{
    for (int i = 0; i < d->n_params; i++) {
        d->params[i].hook = tt_leaf_add_post_hook(d->params[i].t, tti_ddp_leaf_hook, &d->params[i]);
        if (d->params[i].hook == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static tt_status set_up(tt_ddp *d, const tt_ddp_options *opt)
{
    TT_TRY(tt_ddp_caps_make(opt->bucket_cap_mb, opt->bucket_cap_mb_list, opt->n_bucket_caps,
                            &d->caps));
    TT_TRY(copy_names(d, opt));
    TT_TRY(collect_params(d));
    TT_TRY(make_books(d));
    TT_TRY(tti_ddp_verify(d));
    if (!opt->no_initial_sync)
        TT_TRY(tti_ddp_send_states(d, 0, TTI_DDP_ALL));
    TT_TRY(tti_ddp_build(d));
    TT_TRY(tti_ddp_note_sizes(d));
    return add_hooks(d);
}

static tt_pg *choose_group(tt_pg *pg, tt_mesh *mesh)
{
    if (mesh != NULL && pg != NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp: expected a group or a mesh, got both");
    if (mesh != NULL && tt_mesh_dims(mesh) != 1)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "ddp: only a mesh of one dimension is supported, this one has %d",
                            tt_mesh_dims(mesh));
    pg = mesh != NULL ? tt_mesh_group(mesh, 0) : pg;
    if (pg == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp: expected a group, got NULL");
    if (!tt_pg_is_member(pg))
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp: this process is no member of group %s",
                            tt_pg_name(pg));
    return pg;
}

tt_ddp *tt_ddp_new(tt_module *m, tt_pg *pg, const tt_ddp_options *opt)
{
    const tt_ddp_options zero = { 0 };
    tti_error_copy error;
    tt_ddp *d;

    if (opt == NULL)
        opt = &zero;
    if (m == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp: expected a module, got NULL");
    pg = choose_group(pg, opt->mesh);
    if (pg == NULL)
        return NULL;
    d = tti_calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->module = tt_module_retain(m);
    d->pg = tt_pg_retain(pg);
    d->find_unused = opt->find_unused;
    d->static_graph = opt->static_graph;
    d->search = opt->find_unused && !opt->static_graph;
    d->views = !opt->copy_gradients;
    d->buffer_sync = !opt->no_buffer_sync;
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
    d->removed = true;
}

void tt_ddp_free(tt_ddp *d)
{
    if (d == NULL)
        return;
    tt_ddp_remove_hooks(d);
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

/* ---- forward -------------------------------------------------------------------------------- */

/* Before a forward. *reduces_p: its backward will reduce. In eval mode ranks may be alone here. */
static tt_status before(tt_ddp *d, bool *reduces_p)
{
    bool records = !d->removed && tti_grad_mode == TT_GRAD_ON, rebuilds, sends;

    *reduces_p = records && d->sync;
    if (!*reduces_p)
        return records ? tti_ddp_tell_forward(d, false, false) : TT_OK;
    TT_TRY(tt_ddp_check_finished(d));
    if (d->state == TTI_DDP_FAILED)
        TT_TRY(tti_ddp_reset(d));
    tti_ddp_note_times(d);
    d->times.forward_start = tti_now_ns();
    rebuilds = d->may_rebuild && !d->rebuilt && tt_module_is_training(d->module);
    sends = d->buffer_sync && tt_module_is_training(d->module);
    TT_TRY(tti_ddp_tell_forward(d, rebuilds, sends));
    if (rebuilds)
        TT_TRY(tti_ddp_rebuild(d));
    return sends ? tti_ddp_send_states(d, tti_ddp_root(d), TTI_DDP_BUFFERS) : TT_OK;
}

static tt_status after(tt_ddp *d, bool reducing, tt_tensor *const *outs, int n)
{
    if (!reducing) {
        if (d->state == TTI_DDP_PREPARED && tti_grad_mode == TT_GRAD_ON)
            d->state = TTI_DDP_IDLE; /* the latest forward decides */
        return TT_OK;
    }
    if (d->search) {
        TT_TRY(tti_ddp_search_unused(d, outs, n));
        TT_TRY(tti_ddp_hook_outputs(d, outs, n));
    }
    tti_ddp_prepare(d);
    return TT_OK;
}

tt_tensor *tt_ddp_forward(tt_ddp *d, tt_tensor *x)
{
    tt_tensor *y;
    bool reducing;

    if (d == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp forward: expected a tt_ddp, got NULL");
    if (tti_ddp_note_error(d, before(d, &reducing)) != TT_OK)
        return NULL;
    y = tt_module_forward(d->module, x);
    if (y == NULL || tti_ddp_note_error(d, after(d, reducing, &y, 1)) != TT_OK)
        return NULL;
    return y;
}

typedef struct tensor_list {
    tt_tensor **ts; /* borrowed */
    size_t n, cap;
} tensor_list;

static tt_status collect(void *ctx, tt_tensor *t)
{
    tensor_list *l = ctx;

    TT_TRY(tti_vec_reserve((void **)&l->ts, &l->cap, l->n + 1, sizeof *l->ts));
    l->ts[l->n++] = t;
    return TT_OK;
}

tt_value *tt_ddp_call(tt_ddp *d, tt_value *in)
{
    tensor_list outs = { 0 };
    tt_value *out;
    tt_status st;
    bool reducing;

    if (d == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "ddp call: expected a tt_ddp, got NULL");
    if (tti_ddp_note_error(d, before(d, &reducing)) != TT_OK)
        return NULL;
    out = tt_module_call(d->module, in);
    if (out == NULL)
        return NULL;
    st = reducing && d->search ? tt_value_each_tensor(out, collect, &outs) : TT_OK;
    if (st == TT_OK)
        st = after(d, reducing, outs.ts, (int)outs.n);
    tti_mfree(outs.ts);
    if (tti_ddp_note_error(d, st) == TT_OK)
        return out;
    tt_value_free(out);
    return NULL;
}

bool tt_ddp_set_sync(tt_ddp *d, bool on)
{
    bool before_now = d->sync;

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
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a tt_ddp, got NULL");
    if (d->static_graph)
        return TT_OK;
    if (d->iteration > 0 || d->state != TTI_DDP_IDLE)
        return tti_ddp_note_error(
            d,
            TT_FAIL(TT_ERR_INVALID, "ddp: static_graph has to be set before the training starts"));
    TT_TRY(tti_ddp_note_error(d, make_maps(d)));
    d->static_graph = true;
    d->search = false;
    return TT_OK;
}

tt_status tt_ddp_check_finished(tt_ddp *d)
{
    if (d == NULL)
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a tt_ddp, got NULL");
    return d->state == TTI_DDP_REDUCING ? tti_ddp_note_error(d, tti_ddp_unfinished(d)) : TT_OK;
}

tt_status tt_ddp_sync_states(tt_ddp *d, int root)
{
    if (d == NULL)
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a tt_ddp, got NULL");
    return tti_ddp_note_error(d, tti_ddp_send_states(d, root, TTI_DDP_ALL));
}

tt_status tt_ddp_verify(tt_ddp *d)
{
    if (d == NULL)
        return TT_FAIL(TT_ERR_INVALID, "ddp: expected a tt_ddp, got NULL");
    return tti_ddp_note_error(d, tti_ddp_verify(d));
}
