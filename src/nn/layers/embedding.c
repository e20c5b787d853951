/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding and EmbeddingBag. */
#include <stdio.h>

#include "base/error.h"
#include "nn/layers/layer.h"

typedef struct embedding {
    int64_t n, width;
    tt_embedding_options opt;
    tt_bag_options bag;
} embedding;

static tt_tensor *embedding_forward(tt_module *m, tt_tensor *x)
{
    return tt_embedding(tt_module_param_at(m, 0), x, &((const embedding *)m->data)->opt);
}

static int describe(const tt_module *m, char *text, size_t size)
{
    const embedding *e = m->data;

    return snprintf(text, size, "%lld, %lld", (long long)e->n, (long long)e->width);
}

static const tt_module_class embedding_class = { .name = "Embedding",
                                                 .data_size = sizeof(embedding),
                                                 .forward = embedding_forward,
                                                 .describe = describe };

static tt_tensor *bag(tt_module *m, tt_tensor *index, tt_tensor *offsets, tt_tensor *weights)
{
    tt_bag_options o = ((const embedding *)m->data)->bag;

    o.per_sample_weights = weights;
    return tt_embedding_bag(tt_module_param_at(m, 0), index, offsets, &o);
}

static tt_tensor *bag_forward(tt_module *m, tt_tensor *x)
{
    return bag(m, x, NULL, NULL);
}

static tt_value *bag_call(tt_module *m, const tt_value *in)
{
    tt_tensor *y;

    if (tt_value_kind_of(in) == TT_VALUE_TENSOR)
        y = bag(m, tt_value_as_tensor(in), NULL, NULL);
    else
        y = bag(m, tti_tuple_tensor(in, 0), tti_tuple_tensor(in, 1), tti_tuple_tensor(in, 2));
    return y != NULL ? tt_value_tensor_new(y) : NULL;
}

static int bag_describe(const tt_module *m, char *text, size_t size)
{
    static const char *const modes[] = { "mean", "sum", "max" };
    const embedding *e = m->data;

    return snprintf(text, size, "%lld, %lld, mode='%s'", (long long)e->n, (long long)e->width,
                    modes[e->bag.mode]);
}

static const tt_module_class bag_class = { .name = "EmbeddingBag",
                                           .data_size = sizeof(embedding),
                                           .forward = bag_forward,
                                           .call = bag_call,
                                           .describe = bag_describe };

bool tti_has_sparse_grad(const tt_module *m)
{
    const embedding *e = m->data;

    return (m->cls == &embedding_class && e->opt.sparse_grad) ||
           (m->cls == &bag_class && e->bag.sparse_grad);
}

/* ---- making ------------------------------------------------------------------------------ */

/* A weight drawn from N(0, 1) with zeros in the padding row; of the scope. */
static tt_tensor *draw(const embedding *e, bool has_padding, int64_t padding)
{
    tt_tensor *w = tt_empty(TT_SHAPE(e->n, e->width), TT_F32, TT_CPU);

    if (tt_init_normal(w, 0, 1, NULL) == NULL)
        return NULL;
    if (has_padding && tt_init_constant(tt_select(w, 0, padding), 0) == NULL)
        return NULL;
    return w;
}

/* An index that counts from the end as one that counts from the start. */
static tt_status check_padding(const char *name, bool has, int64_t *padding, int64_t n)
{
    if (!has)
        return TT_OK;
    if (*padding < -n || *padding >= n)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected padding_idx within %lld rows, got %lld", name,
                       (long long)n, (long long)*padding);
    if (*padding < 0)
        *padding += n;
    return TT_OK;
}

static tt_module *embedding_make(const tt_module_class *cls, embedding *e, tt_tensor *weight)
{
    bool is_bag = cls == &bag_class;
    tt_module *m;
    tt_status st;

    if (weight != NULL) {
        if (weight->n_dims != 2)
            return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a weight [n, width], got %s",
                                cls->name, TTI_SHAPE_OF(weight));
        e->n = weight->dims[0];
        e->width = weight->dims[1];
    }
    if (tti_layer_check(cls->name, "rows", e->n, 1) != TT_OK ||
        tti_layer_check(cls->name, "width", e->width, 1) != TT_OK ||
        check_padding(cls->name, e->opt.has_padding_idx, &e->opt.padding_idx, e->n) != TT_OK ||
        check_padding(cls->name, e->bag.has_padding_idx, &e->bag.padding_idx, e->n) != TT_OK)
        return NULL;
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    *(embedding *)m->data = *e;
    TT_SCOPE {
        tt_tensor *w = weight;

        if (w == NULL)
            w = draw(e, is_bag ? e->bag.has_padding_idx : e->opt.has_padding_idx,
                     is_bag ? e->bag.padding_idx : e->opt.padding_idx);
        st = tt_module_add_param(m, "weight", w);
    }
    return tti_layer_done(m, st);
}

tt_module *tt_embedding_new(int64_t n, int64_t width, const tt_embedding_options *opt)
{
    embedding e = { .n = n, .width = width };

    if (opt != NULL)
        e.opt = *opt;
    return embedding_make(&embedding_class, &e, NULL);
}

tt_module *tt_embedding_from(tt_tensor *weight, const tt_embedding_options *opt)
{
    embedding e = { 0 };

    if (weight == NULL) {
        tti_null_given("Embedding", "a weight");
        return NULL;
    }
    if (opt != NULL)
        e.opt = *opt;
    return embedding_make(&embedding_class, &e, weight);
}

tt_module *tt_embedding_bag_new(int64_t n, int64_t width, const tt_bag_options *opt)
{
    embedding e = { .n = n, .width = width };

    if (opt != NULL)
        e.bag = *opt;
    e.bag.per_sample_weights = NULL;
    return embedding_make(&bag_class, &e, NULL);
}

tt_module *tt_embedding_bag_from(tt_tensor *weight, const tt_bag_options *opt)
{
    embedding e = { 0 };

    if (weight == NULL) {
        tti_null_given("EmbeddingBag", "a weight");
        return NULL;
    }
    if (opt != NULL)
        e.bag = *opt;
    e.bag.per_sample_weights = NULL;
    return embedding_make(&bag_class, &e, weight);
}

tt_tensor *tt_embedding_bag_forward(tt_module *m, tt_tensor *index, tt_tensor *offsets,
                                    tt_tensor *per_sample_weights)
{
    tt_value *in, *out;
    tt_tensor *y;

    if (index == NULL)
        return TT_NULL_GIVEN("embedding_bag_forward", "a module and indices");
    if (tt_module_data(m, &bag_class) == NULL)
        return NULL;
    in = tti_tuple_of((tt_tensor *[]){ index, offsets, per_sample_weights }, 3);
    out = in != NULL ? tt_module_call(m, in) : NULL;
    y = out != NULL ? tti_scope_keep(tt_value_as_tensor(out)) : NULL;
    tt_value_free(in);
    tt_value_free(out);
    return y;
}
