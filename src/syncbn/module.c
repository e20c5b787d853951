/* SPDX-License-Identifier: Apache-2.0 */
/* The layer, and the conversion of a tree. */
#include <stdio.h>

#include "base/error.h"
#include "nn/layers/layer.h"
#include "tutti/syncbn.h"

typedef struct sync_data {
    tt_batch_norm_info info;
    tt_pg *pg; /* retained; NULL: the default */
} sync_data;

static tt_status check_input(const sync_data *d, const tt_tensor *x)
{
    if (x->n_dims < 2 || x->n_dims > 5 || x->dims[1] != d->info.channels)
        return TT_FAIL(TT_ERR_INVALID,
                       "SyncBatchNorm: expected 2 to 5 dimensions and %lld channels, got shape %s",
                       (long long)d->info.channels, TTI_SHAPE_OF(x));
    return TT_OK;
}

static tt_tensor *forward(tt_module *m, tt_tensor *x)
{
    const sync_data *d = m->data;
    tt_tensor *w = tt_module_param_at(m, 0), *b = tt_module_param_at(m, 1);
    bool own_stats = tt_module_buffer_at(m, 0) == NULL;
    tt_batch_norm_options o = {
        .running_mean = tt_module_buffer_at(m, 0),
        .running_var = tt_module_buffer_at(m, 1),
        .eps = d->info.options.eps,
        .momentum = d->info.options.momentum,
        .training = m->training || own_stats,
    };

    if (check_input(d, x) != TT_OK)
        return NULL;
    if (!m->training)
        return tt_batch_norm(x, w, b, &o);
    if (!own_stats) {
        o.momentum = tti_batch_norm_count(m, d->info.options.momentum);
        if (o.momentum < 0)
            return NULL;
    }
    return tt_sync_batch_norm(x, w, b, d->pg, &o);
}

static tt_status copy(tt_module *dst, const tt_module *src)
{
    const sync_data *d = src->data;

    if (d->pg != NULL)
        (void)tt_pg_retain(d->pg);
    (void)dst; /* its data are a copy of src's */
    return TT_OK;
}

static void drop(tt_module *m)
{
    tt_pg_free(((sync_data *)m->data)->pg);
}

static int describe(const tt_module *m, char *text, size_t size)
{
    return tti_batch_norm_describe(&((const sync_data *)m->data)->info, text, size);
}

static const tt_module_class sync_class = { .name = "SyncBatchNorm",
                                            .data_size = sizeof(sync_data),
                                            .forward = forward,
                                            .copy = copy,
                                            .free = drop,
                                            .describe = describe };

tt_module *tt_sync_batch_norm_new(int64_t channels, tt_pg *pg, const tt_norm_options *opt)
{
    tt_module *plain = tt_batch_norm1d_new(channels, opt);

    return plain != NULL ? tt_sync_batch_norm_convert(plain, pg) : NULL;
}

bool tt_module_is_sync_batch_norm(const tt_module *m, tt_batch_norm_info *info_p)
{
    if (m == NULL || m->cls != &sync_class)
        return false;
    if (info_p != NULL)
        *info_p = ((const sync_data *)m->data)->info;
    return true;
}

tt_pg *tt_sync_batch_norm_group(const tt_module *m)
{
    return tt_module_is_sync_batch_norm(m, NULL) ? ((const sync_data *)m->data)->pg : NULL;
}

bool tt_module_has_sync_batch_norm(const tt_module *m)
{
    if (tt_module_is_sync_batch_norm(m, NULL))
        return true;
    for (int i = 0; m != NULL && i < tt_module_n_children(m); i++)
        if (tt_module_has_sync_batch_norm(tt_module_child_at(m, i)))
            return true;
    return false;
}

/* ---- conversion -------------------------------------------------------------------------- */

typedef struct converter {
    tt_pg *pg;
    tti_ptr_map made; /* of old layers; the converter owns them */
} converter;

/* The parameters and buffers themselves, not copies. */
static tt_status take_over(tt_module *dst, const tt_module *src)
{
    for (int k = 0; k <= TTI_BUFFER; k++)
        for (size_t i = 0; i < src->slots[k].n; i++) {
            const tti_slot *s = &src->slots[k].items[i];
            bool buffer = k == TTI_BUFFER;
            bool wants = tti_wants_grad(s->t);

            if (s->t == NULL)
                TT_TRY(buffer ? tt_module_add_no_buffer(dst, s->name)
                              : tt_module_add_no_param(dst, s->name));
            else if (buffer)
                TT_TRY(s->temp ? tt_module_add_temp_buffer(dst, s->name, s->t)
                               : tt_module_add_buffer(dst, s->name, s->t));
            else
                TT_TRY(tt_module_add_param(dst, s->name, s->t));
            if (s->t != NULL && !buffer && !wants)
                TT_TRY(tt_set_requires_grad(s->t, false));
        }
    return TT_OK;
}

static tt_module *make(const converter *c, tt_module *old, const tt_batch_norm_info *info)
{
    tt_module *m = tt_module_new(&sync_class);
    sync_data *d;

    if (m == NULL)
        return NULL;
    d = m->data;
    d->info = *info;
    d->info.n_dims = 0;
    d->pg = c->pg != NULL ? tt_pg_retain(c->pg) : NULL;
    m->training = old->training;
    return tti_layer_done(m, take_over(m, old));
}

/* The new layer in place of `old`, borrowed; NULL on failure. */
static tt_module *convert_layer(converter *c, tt_module *old, const tt_batch_norm_info *info)
{
    tt_module *m = tti_ptr_map_get(&c->made, old);
    bool found;

    if (m != NULL)
        return m;
    m = make(c, old, info);
    if (m != NULL && tti_ptr_map_add(&c->made, tt_module_retain(old), m, &found) != TT_OK) {
        tt_module_free(old);
        tt_module_free(m);
        return NULL;
    }
    return m;
}

static bool is_layer(const tt_module *m, tt_batch_norm_info *info)
{
    return tt_module_is_batch_norm(m, info) || tt_module_is_sync_batch_norm(m, info);
}

static tt_status convert_children(void *ctx, tt_module *m)
{
    converter *c = ctx;

    for (size_t i = 0; i < m->slots[TTI_CHILD].n; i++) {
        tti_slot *s = &m->slots[TTI_CHILD].items[i];
        tt_batch_norm_info info;
        tt_module *layer;

        if (!is_layer(s->m, &info))
            continue;
        layer = convert_layer(c, s->m, &info);
        if (layer == NULL)
            return tt_last_status();
        TT_TRY(tt_module_set_child(m, s->name, layer));
    }
    return TT_OK;
}

static void converter_fini(converter *c)
{
    for (size_t i = 0; i < c->made.cap; i++)
        if (c->made.keys[i] != NULL) {
            tt_module_free((tt_module *)(uintptr_t)c->made.keys[i]);
            tt_module_free(c->made.values[i]);
        }
    tti_ptr_map_fini(&c->made);
}

tt_module *tt_sync_batch_norm_convert(tt_module *m, tt_pg *pg)
{
    converter c = { .pg = pg };
    tt_batch_norm_info info;
    tt_status st = TT_OK;
    tt_module *root;

    if (m == NULL) {
        tti_null_given("sync_batch_norm_convert", "a module");
        return NULL;
    }
    if (is_layer(m, &info)) {
        root = make(&c, m, &info);
        tt_module_free(m);
        return root;
    }
    st = tt_module_apply(m, convert_children, &c);
    converter_fini(&c);
    if (st == TT_OK)
        return m;
    tt_module_free(m);
    return NULL;
}
