/* SPDX-License-Identifier: Apache-2.0 */
/* MultiheadAttention: parameters in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias. */
#include <math.h>

#include "nn/layers/layer.h"

typedef struct mha {
    int64_t width;
    int heads;
    tt_mha_options opt;
} mha;

/* One call: what it attends with, and sizes. */
typedef struct attending {
    const mha *d;
    tt_tensor *q, *k, *v; /* [B, heads, T or S, E / heads] */
    int64_t batch, n_q, n_k;
    bool training;
} attending;

/* ---- masks ------------------------------------------------------------------------------- */

static bool is_bool(const tt_tensor *t)
{
    return (tt_dtype)t->dtype == TT_BOOL;
}

/* A mask as numbers to add: true becomes minus infinity. */
static tt_tensor *as_added(tt_tensor *mask, tt_dtype dtype)
{
    if (!is_bool(mask))
        return mask;
    return tt_masked_fill(tt_zeros(tt_tensor_shape(mask), dtype, mask->device), mask, -INFINITY);
}

/* Two masks (either may be NULL) as one. Both bool: true where either is. */
static tt_tensor *join_masks(tt_tensor *a, tt_tensor *b, tt_dtype dtype)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    if (is_bool(a) && is_bool(b))
        return tt_logical_or(a, b);
    return tt_add(as_added(a, dtype), as_added(b, dtype));
}

static tt_status shape_mask(const attending *a, tt_tensor **mask_p)
{
    tt_tensor *mask = *mask_p;

    if (mask->n_dims == 3)
        mask = tt_reshape(mask, TT_SHAPE(a->batch, a->d->heads, a->n_q, a->n_k));
    else if (mask->n_dims != 2 || mask->dims[0] != a->n_q || mask->dims[1] != a->n_k)
        return TT_FAIL(TT_ERR_INVALID,
                       "MultiheadAttention: expected a mask [%lld, %lld] or [%lld, %lld, %lld], "
                       "got %s",
                       (long long)a->n_q, (long long)a->n_k, (long long)(a->batch * a->d->heads),
                       (long long)a->n_q, (long long)a->n_k, TTI_SHAPE_OF(mask));
    *mask_p = mask;
    return mask != NULL ? TT_OK : tt_last_status();
}

static tt_status shape_padding(const attending *a, tt_tensor **padding_p)
{
    tt_tensor *padding = *padding_p;

    if (padding->n_dims == 1)
        padding = tt_unsqueeze(padding, 0);
    if (padding == NULL)
        return tt_last_status();
    if (padding->n_dims != 2 || padding->dims[0] != a->batch || padding->dims[1] != a->n_k)
        return TT_FAIL(TT_ERR_INVALID,
                       "MultiheadAttention: expected a padding mask [%lld, %lld], got %s",
                       (long long)a->batch, (long long)a->n_k, TTI_SHAPE_OF(padding));
    *padding_p = tt_reshape(padding, TT_SHAPE(a->batch, 1, 1, a->n_k));
    return *padding_p != NULL ? TT_OK : tt_last_status();
}

/* True above the diagonal: what comes later. */
static tt_tensor *causal_mask(const attending *a)
{
    return tt_triu(tt_ones(TT_SHAPE(a->n_q, a->n_k), TT_BOOL, a->q->device), 1);
}

/* All masks of the call as one, NULL for none; a lone causal one is left to the operator. */
static tt_status build_mask(const attending *a, const tt_mha_call *opt, bool explicit_causal,
                            tt_tensor **mask_p)
{
    tt_tensor *mask = opt->mask, *padding = opt->padding_mask, *causal = NULL;
    tt_dtype dtype = (tt_dtype)a->q->dtype;

    *mask_p = NULL;
    if (mask != NULL)
        TT_TRY(shape_mask(a, &mask));
    if (padding != NULL)
        TT_TRY(shape_padding(a, &padding));
    if (opt->causal && (explicit_causal || mask != NULL || padding != NULL)) {
        causal = causal_mask(a);
        if (causal == NULL)
            return tt_last_status();
    }
    if (mask == NULL && padding == NULL && causal == NULL)
        return TT_OK;
    mask = join_masks(join_masks(mask, padding, dtype), causal, dtype);
    if (mask == NULL)
        return tt_last_status();
    *mask_p = mask;
    return TT_OK;
}

/* ---- attention --------------------------------------------------------------------------- */

/* With the weights written out: [B, heads, T, S]. */
static tt_tensor *attend_with_weights(const attending *a, const tt_mha_call *opt,
                                      tt_tensor **weights_p)
{
    double scale = 1 / sqrt((double)a->d->width / a->d->heads);
    tt_tensor *scores, *mask;

    if (build_mask(a, opt, true, &mask) != TT_OK)
        return NULL;
    scores = tt_matmul(tt_mul_scalar(a->q, scale), tt_transpose(a->k, -2, -1));
    if (mask != NULL)
        scores = tt_add(scores, as_added(mask, (tt_dtype)a->q->dtype));
    scores = tt_dropout(tt_softmax(scores, -1), a->d->opt.dropout, a->training, NULL);
    *weights_p = opt->per_head ? scores : tt_mean_dim(scores, 1, false);
    return *weights_p != NULL ? tt_matmul(scores, a->v) : NULL;
}

static tt_tensor *attend(const attending *a, const tt_mha_call *opt)
{
    tt_attention_options o = { .dropout_p = a->training ? a->d->opt.dropout : 0 };

    if (build_mask(a, opt, false, &o.mask) != TT_OK)
        return NULL;
    o.causal = opt->causal && o.mask == NULL;
    if (o.mask != NULL && is_bool(o.mask)) {
        o.mask = tt_logical_not(o.mask);
        if (o.mask == NULL)
            return NULL;
    }
    return tt_attention(a->q, a->k, a->v, &o);
}

/* [B, T, E] to [B, heads, T, E / heads]. */
static tt_tensor *split_heads(tt_tensor *x, int heads)
{
    if (x == NULL)
        return NULL;
    return tt_transpose(tt_reshape(x, TT_SHAPE(x->dims[0], x->dims[1], heads, x->dims[2] / heads)),
                        1, 2);
}

/* The projections of query, key and value; with one product where inputs are the same. */
static tt_status project(const tt_module *m, tt_tensor *const *in, tt_tensor **out)
{
    const mha *d = m->data;
    tt_tensor *w = tt_module_param_at(m, 0), *b = tt_module_param_at(m, 1);
    bool self = in[0] == in[1] && in[1] == in[2];
    tt_tensor *all = self ? tt_linear(in[0], w, b) : NULL;

    if (self && all == NULL)
        return tt_last_status();
    for (int i = 0; i < 3; i++) {
        int64_t at = i * d->width;
        tt_tensor *p;

        if (self)
            p = tt_narrow(all, 2, at, d->width);
        else
            p = tt_linear(in[i], tt_narrow(w, 0, at, d->width),
                          b != NULL ? tt_narrow(b, 0, at, d->width) : NULL);
        out[i] = split_heads(p, d->heads);
        if (out[i] == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static tt_status check_inputs(const mha *d, tt_tensor *const *in)
{
    static const char *const names[] = { "query", "key", "value" };

    for (int i = 0; i < 3; i++) {
        if (in[i] == NULL)
            return tti_null_given("MultiheadAttention", "a query, a key and a value");
        if (in[i]->n_dims != 3 || in[i]->dims[2] != d->width)
            return TT_FAIL(
                TT_ERR_INVALID,
                "MultiheadAttention: expected a %s with 3 dimensions (or all inputs with 2, "
                "which are one batch), the last %lld, got %s",
                names[i], (long long)d->width, TTI_SHAPE_OF(in[i]));
    }
    return TT_OK;
}

static tt_tensor *run_batch(tt_module *m, tt_tensor *const *given, const tt_mha_call *opt,
                            tt_tensor **weights_p)
{
    static const tt_mha_call none = { 0 };
    const mha *d = m->data;
    tt_tensor *in[3] = { given[0], given[1], given[2] }, *heads[3], *y;
    attending a = { .d = d, .training = m->training };
    int time = d->opt.batch_first ? 1 : 0;

    if (check_inputs(d, in) != TT_OK)
        return NULL;
    a.batch = in[0]->dims[1 - time];
    a.n_q = in[0]->dims[time];
    a.n_k = in[1]->dims[time];
    for (int i = 0; i < 3 && time == 0; i++)
        in[i] = i > 0 && given[i] == given[i - 1] ? in[i - 1] : tt_transpose(in[i], 0, 1);
    if (project(m, in, heads) != TT_OK)
        return NULL;
    a.q = heads[0];
    a.k = heads[1];
    a.v = heads[2];
    opt = opt != NULL ? opt : &none;
    y = weights_p != NULL ? attend_with_weights(&a, opt, weights_p) : attend(&a, opt);
    y = tt_reshape(tt_transpose(y, 1, 2), TT_SHAPE(a.batch, a.n_q, d->width));
    y = tt_module_forward(tt_module_child_at(m, 0), y);
    return time == 1 ? y : tt_transpose(y, 0, 1);
}

static bool lacks_batch(tt_tensor *const *in)
{
    for (int i = 0; i < 3; i++)
        if (in[i] == NULL || in[i]->n_dims != 2)
            return false;
    return true;
}

/* Inputs [T, E] without a batch dimension are a batch of one for the call. */
static tt_tensor *run(tt_module *m, tt_tensor *const *given, const tt_mha_call *opt,
                      tt_tensor **weights_p)
{
    const mha *d = m->data;
    int batch = d->opt.batch_first ? 0 : 1;
    tt_tensor *in[3], *y;

    if (!lacks_batch(given))
        return run_batch(m, given, opt, weights_p);
    for (int i = 0; i < 3; i++)
        in[i] = i > 0 && given[i] == given[i - 1] ? in[i - 1] : tt_unsqueeze(given[i], batch);
    y = run_batch(m, in, opt, weights_p);
    if (y != NULL && weights_p != NULL && (*weights_p = tt_squeeze_dim(*weights_p, 0)) == NULL)
        return NULL;
    return tt_squeeze_dim(y, batch);
}

/* ---- the class --------------------------------------------------------------------------- */

static tt_tensor *mha_forward(tt_module *m, tt_tensor *x)
{
    return run(m, (tt_tensor *[]){ x, x, x }, NULL, NULL);
}

/* (query, key, value, mask, padding_mask, causal): all but the first three may be left out. */
static tt_value *mha_call(tt_module *m, const tt_value *in)
{
    tt_mha_call opt = { .mask = tti_tuple_tensor(in, 3), .padding_mask = tti_tuple_tensor(in, 4) };
    tt_tensor *y;

    if (tt_value_kind_of(in) == TT_VALUE_TENSOR) {
        y = mha_forward(m, tt_value_as_tensor(in));
    } else {
        opt.causal = tt_value_count(in) > 5 && tt_value_as_bool(tt_value_at(in, 5));
        y = run(m,
                (tt_tensor *[]){ tti_tuple_tensor(in, 0), tti_tuple_tensor(in, 1),
                                 tti_tuple_tensor(in, 2) },
                &opt, NULL);
    }
    return y != NULL ? tt_value_tensor_new(y) : NULL;
}

static const tt_module_class mha_class = {
    .name = "MultiheadAttention",
    .data_size = sizeof(mha),
    .forward = mha_forward,
    .call = mha_call,
};

static tt_status add_all(tt_module *m, const mha *d)
{
    int64_t e = d->width;

    TT_SCOPE {
        tt_tensor *w = tt_empty(TT_SHAPE(3 * e, e), TT_F32, TT_CPU);

        TT_TRY(tt_module_add_param(m, "in_proj_weight", tt_init_xavier_uniform(w, NULL)));
    }
    if (d->opt.no_bias)
        TT_TRY(tt_module_add_no_param(m, "in_proj_bias"));
    else
        TT_TRY(tti_layer_filled(m, "in_proj_bias", TT_SHAPE(3 * e), 0));
    TT_TRY(tt_module_give_child(
        m, "out_proj", tt_linear_new(e, e, &(tt_linear_options){ .no_bias = d->opt.no_bias })));
    if (!d->opt.no_bias && tt_init_constant(tt_module_param(m, "out_proj.bias"), 0) == NULL)
        return tt_last_status();
    return TT_OK;
}

tt_module *tt_mha_new(int64_t width, int heads, const tt_mha_options *opt)
{
    mha d = { .width = width, .heads = heads };
    tt_module *m;

    if (tti_layer_check(mha_class.name, "width", width, 1) != TT_OK ||
        tti_layer_check(mha_class.name, "heads", heads, 1) != TT_OK)
        return NULL;
    if (width % heads != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "MultiheadAttention: expected a width that %d heads divide, got %lld",
                            heads, (long long)width);
    if (opt != NULL)
        d.opt = *opt;
    m = tt_module_new(&mha_class);
    if (m == NULL)
        return NULL;
    *(mha *)m->data = d;
    return tti_layer_done(m, add_all(m, &d));
}

static tt_tensor *forward_hooked(tt_module *m, tt_tensor *const *in, const tt_mha_call *opt)
{
    static const tt_mha_call none = { 0 };
    tt_value *v, *out = NULL;
    tt_tensor *y;

    opt = opt != NULL ? opt : &none;
    v = tti_tuple_of((tt_tensor *[]){ in[0], in[1], in[2], opt->mask, opt->padding_mask }, 5);
    if (v != NULL && tt_value_list_give(v, tt_value_bool_new(opt->causal)) == TT_OK)
        out = tt_module_call(m, v);
    y = out != NULL ? tti_scope_keep(tt_value_as_tensor(out)) : NULL;
    tt_value_free(v);
    tt_value_free(out);
    return y;
}

tt_tensor *tt_mha_forward(tt_module *m, tt_tensor *query, tt_tensor *key, tt_tensor *value,
                          const tt_mha_call *opt, tt_tensor **weights_p)
{
    tt_tensor *in[] = { query, key, value }, *outs[2] = { NULL, NULL };
    tt_scope s;

    if (tt_module_data(m, &mha_class) == NULL)
        return NULL;
    if (tti_has_hooks(m) && weights_p == NULL && query != NULL && key != NULL && value != NULL)
        return forward_hooked(m, in, opt);
    s = tt_scope_open();
    outs[0] = run(m, in, opt, weights_p != NULL ? &outs[1] : NULL);
    if (outs[0] == NULL)
        outs[1] = NULL;
    if (tti_scope_close_keep_all(&s, outs, 2) != TT_OK)
        return NULL;
    if (weights_p != NULL)
        *weights_p = outs[1];
    return outs[0];
}
