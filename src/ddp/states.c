/* SPDX-License-Identifier: Apache-2.0 */
/* What all ranks must have in common: which parameters there are, and their values. */
#include <stdio.h>
#include <string.h>

#include "ddp/ddp.h"

bool tti_ddp_ignores(const tt_ddp *d, const char *name)
{
    for (int i = 0; i < d->n_ignored; i++)
        if (strcmp(d->ignored[i], name) == 0)
            return true;
    return false;
}

/* ---- comparing --------------------------------------------------------------------------- */

static tt_status describe_param(tt_value *list, const char *name, const tt_tensor *t)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s [", tt_dtype_name((tt_dtype)t->dtype));

    for (int k = 0; k < t->n_dims; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, k > 0 ? ", %lld" : "%lld",
                      (long long)t->dims[k]);
    snprintf(text + n, sizeof text - (size_t)n, "]");
    TT_TRY(tt_value_list_give(list, tt_value_text_new(name)));
    return tt_value_list_give(list, tt_value_text_new(text));
}

static tt_status describe_all(const tt_ddp *d, const tt_state_dict *params, tt_value *list)
{
    char text[256];

    for (int i = 0; i < tt_state_dict_count(params); i++) {
        const char *name = tt_state_dict_name(params, i);
        const tt_tensor *t = tt_state_dict_tensor(params, i);

        if (tt_requires_grad(t) && !tti_ddp_ignores(d, name))
            TT_TRY(describe_param(list, name, t));
    }
    snprintf(text, sizeof text,
             "find_unused %d, skip %d, static_graph %d, cap %zu, first %zu, caps %d, buffers %d, "
             "reduce %s",
             d->find_unused, d->skip_unused, d->static_graph, d->caps.cap, d->caps.first,
             d->caps.n_per_bucket, d->buffer_sync, tt_dtype_name(d->precision.reduce));
    return tt_value_list_give(list, tt_value_text_new(text));
}

/* "weight", "float32 [3, 4]" for each parameter, then how the gradients are to be reduced. */
static tt_value *describe(const tt_ddp *d)
{
    tt_state_dict *params = tt_module_params(d->module, NULL);
    tt_value *list = tt_value_list_new();
    tt_status st = params != NULL && list != NULL ? describe_all(d, params, list) : TT_ERR_NOMEM;

    tt_state_dict_free(params);
    if (st == TT_OK)
        return list;
    tt_value_free(list);
    return NULL;
}

static const char *text_at(const tt_value *list, size_t i)
{
    return tt_value_as_text(tt_value_at(list, i));
}

static tt_status differ(const tt_value *a, const tt_value *b, int rank)
{
    size_t n = tt_value_count(a) / 2, m = tt_value_count(b) / 2;

    for (size_t i = 0; i < n && i < m; i++) {
        const char *name = text_at(a, 2 * i), *other = text_at(b, 2 * i);

        if (strcmp(name, other) != 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "ddp: parameter %zu is \"%s\" on rank 0, but \"%s\" on rank %d", i, name,
                           other, rank);
        if (strcmp(text_at(a, 2 * i + 1), text_at(b, 2 * i + 1)) != 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "ddp: parameter \"%s\" is %s on rank 0, but %s on rank %d", name,
                           text_at(a, 2 * i + 1), text_at(b, 2 * i + 1), rank);
    }
    if (n != m)
        return TT_FAIL(
            TT_ERR_INVALID,
            "ddp: rank 0 has %zu parameters with gradients, but rank %d has %zu: \"%s\" is "
            "only on one of them",
            n, rank, m, text_at(n > m ? a : b, 2 * (n > m ? m : n)));
    if (strcmp(text_at(a, 2 * n), text_at(b, 2 * n)) != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "ddp: the options are \"%s\" on rank 0, but \"%s\" on rank %d",
                       text_at(a, 2 * n), text_at(b, 2 * n), rank);
    return TT_OK;
}

tt_status tti_ddp_verify(const tt_ddp *d)
{
    int size = tt_pg_size(d->pg);
    tt_value *mine = describe(d);
    tt_value **all = tti_calloc((size_t)size, sizeof *all);
    tt_status st = mine != NULL && all != NULL ? TT_OK : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tt_pg_all_gather_object(d->pg, mine, all, NULL);
    for (int r = 1; st == TT_OK && r < size; r++)
        st = differ(all[0], all[r], r);
    for (int r = 0; all != NULL && r < size; r++)
        tt_value_free(all[r]);
    tti_mfree(all);
    tt_value_free(mine);
    return st;
}

/* ---- sending ------------------------------------------------------------------------------- */

static tt_status send_list(tt_ddp *d, const tt_state_dict *list, int root)
{
    for (int i = 0; i < tt_state_dict_count(list); i++) {
        tt_tensor *t = tt_state_dict_tensor(list, i);

        if (tti_ddp_ignores(d, tt_state_dict_name(list, i)) || t->numel == 0)
            continue;
        TT_TRY(tt_pg_broadcast(d->pg, t, root, NULL, NULL));
    }
    return TT_OK;
}

static tt_status send_lists(tt_ddp *d, const tt_state_dict *params, const tt_state_dict *buffers,
                            int root)
{
    tt_status st;

    TT_TRY(tt_pg_coalesce_begin(d->pg));
    st = params != NULL ? send_list(d, params, root) : TT_OK;
    if (st == TT_OK && buffers != NULL)
        st = send_list(d, buffers, root);
    if (st == TT_OK)
        return tt_pg_coalesce_end(d->pg, NULL);
    tt_pg_coalesce_cancel(d->pg);
    return st;
}

tt_status tti_ddp_send_states(tt_ddp *d, int root, unsigned what)
{
    bool params = (what & TTI_DDP_PARAMS) != 0, buffers = (what & TTI_DDP_BUFFERS) != 0;
    tt_state_dict *ps = params ? tt_module_params(d->module, NULL) : NULL;
    tt_state_dict *bs = buffers ? tt_module_buffers(d->module, NULL) : NULL;
    tt_status st = (bs != NULL) == buffers && (ps != NULL) == params ? TT_OK : tt_last_status();

    if (st == TT_OK && (params || tt_state_dict_count(bs) > 0))
        st = send_lists(d, ps, bs, root);
    tt_state_dict_free(ps);
    tt_state_dict_free(bs);
    return st;
}
