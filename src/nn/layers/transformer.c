/* SPDX-License-Identifier: Apache-2.0 */
/* Transformer encoders and decoders, with PyTorch's names: self_attn, multihead_attn, linear1, dropout,
 * linear2, norm1 ..., dropout1 ... */
#include <stdio.h>

#include "nn/layers/layer.h"

typedef struct block {
    bool decoder, norm_first;
    tt_activation activation;
} block;

/* What a layer is called with. */
typedef struct inputs {
    tt_tensor *memory;
    tt_transformer_call opt;
} inputs;

/* ---- layers ------------------------------------------------------------------------------ */

static tt_tensor *activate(tt_activation a, tt_tensor *x)
{
    switch (a) {
    case TT_ACT_RELU:
        return tt_relu(x);
    case TT_ACT_GELU:
        return tt_gelu(x);
    case TT_ACT_GELU_TANH:
        return tt_gelu_tanh(x);
    case TT_ACT_SILU:
        return tt_silu(x);
    case TT_ACT_TANH:
        return tt_tanh(x);
    case TT_ACT_SIGMOID:
        return tt_sigmoid(x);
    case TT_ACT_NONE:
        break;
    }
    return x;
}

static tt_tensor *self_attention(tt_module *m, tt_tensor *x, const inputs *in)
{
    tt_mha_call c = { .mask = in->opt.mask,
                      .padding_mask = in->opt.padding_mask,
                      .causal = in->opt.causal };

    x = tt_mha_forward(tt_module_child(m, "self_attn"), x, x, x, &c, NULL);
    return x != NULL ? tt_module_run(m, "dropout1", x) : NULL;
}

static tt_tensor *cross_attention(tt_module *m, tt_tensor *x, const inputs *in)
{
    tt_mha_call c = { .mask = in->opt.memory_mask,
                      .padding_mask = in->opt.memory_padding_mask,
                      .causal = in->opt.memory_causal };

    x = tt_mha_forward(tt_module_child(m, "multihead_attn"), x, in->memory, in->memory, &c, NULL);
    return x != NULL ? tt_module_run(m, "dropout2", x) : NULL;
}

static tt_tensor *feed_forward(tt_module *m, tt_tensor *x, const inputs *in)
{
    const block *b = m->data;

    (void)in;
    x = activate(b->activation, tt_module_run(m, "linear1", x));
    x = tt_module_run(m, "linear2", x != NULL ? tt_module_run(m, "dropout", x) : NULL);
    return x != NULL ? tt_module_run(m, b->decoder ? "dropout3" : "dropout2", x) : NULL;
}

typedef tt_tensor *(*step_fn)(tt_module *m, tt_tensor *x, const inputs *in);

/* x + step(norm(x)), or norm(x + step(x)). */
static tt_tensor *residual(tt_module *m, tt_tensor *x, const inputs *in, step_fn step,
                           const char *norm)
{
    if (x == NULL)
        return NULL;
    if (((const block *)m->data)->norm_first) {
        tt_tensor *n = tt_module_run(m, norm, x);

        return n != NULL ? tt_add(x, step(m, n, in)) : NULL;
    }
    x = tt_add(x, step(m, x, in));
    return x != NULL ? tt_module_run(m, norm, x) : NULL;
}

static tt_tensor *run_layer(tt_module *m, tt_tensor *x, const inputs *in)
{
    bool decoder = ((const block *)m->data)->decoder;

    x = residual(m, x, in, self_attention, "norm1");
    if (decoder)
        x = residual(m, x, in, cross_attention, "norm2");
    return residual(m, x, in, feed_forward, decoder ? "norm3" : "norm2");
}

/* ---- stacks ------------------------------------------------------------------------------ */

static tt_tensor *stack_step(void *ctx, tt_module *layer, tt_tensor *x)
{
    const inputs *in = ctx;

    return tt_transformer_forward(layer, x, in->memory, &in->opt);
}

static tt_tensor *run_stack(tt_module *m, tt_tensor *x, const inputs *in)
{
    x = tti_forward_children(tt_module_child(m, "layers"), x, stack_step, (void *)in);
    return x != NULL && tt_module_has(m, "norm") ? tt_module_run(m, "norm", x) : x;
}

/* ---- the classes ------------------------------------------------------------------------- */

static tt_tensor *run(tt_module *m, tt_tensor *x, const inputs *in);

static tt_tensor *forward(tt_module *m, tt_tensor *x)
{
    return run(m, x, &(inputs){ 0 });
}

/* (x, memory, mask, padding_mask, memory_mask, memory_padding_mask, causal, memory_causal) */
static tt_value *call(tt_module *m, const tt_value *v)
{
    bool lone = tt_value_kind_of(v) == TT_VALUE_TENSOR;
    size_t n = tt_value_is_container(v) ? tt_value_count(v) : 0;
    inputs in = {
        .memory = tti_tuple_tensor(v, 1),
        .opt = { .mask = tti_tuple_tensor(v, 2),
                 .padding_mask = tti_tuple_tensor(v, 3),
                 .memory_mask = tti_tuple_tensor(v, 4),
                 .memory_padding_mask = tti_tuple_tensor(v, 5),
                 .causal = n > 6 && tt_value_as_bool(tt_value_at(v, 6)),
                 .memory_causal = n > 7 && tt_value_as_bool(tt_value_at(v, 7)) },
    };
    tt_tensor *y = run(m, lone ? tt_value_as_tensor(v) : tti_tuple_tensor(v, 0), &in);

    return y != NULL ? tt_value_tensor_new(y) : NULL;
}

static const tt_module_class encoder_layer_class = {
    .name = "TransformerEncoderLayer", .data_size = sizeof(block), .forward = forward, .call = call
};
static const tt_module_class decoder_layer_class = { .name = "TransformerDecoderLayer",
                                                     .data_size = sizeof(block),
                                                     .call = call };
static const tt_module_class encoder_class = { .name = "TransformerEncoder",
                                               .forward = forward,
                                               .call = call };
static const tt_module_class decoder_class = { .name = "TransformerDecoder", .call = call };

static bool is_layer(const tt_module *m)
{
    return m->cls == &encoder_layer_class || m->cls == &decoder_layer_class;
}

static bool is_decoder(const tt_module *m)
{
    return m->cls == &decoder_layer_class || m->cls == &decoder_class;
}

static tt_tensor *run(tt_module *m, tt_tensor *x, const inputs *in)
{
    if (x == NULL) {
        tti_null_given(m->cls->name, "a tensor");
        return NULL;
    }
    if (is_decoder(m) && in->memory == NULL) {
        tti_null_given(m->cls->name, "a memory to look at");
        return NULL;
    }
    return is_layer(m) ? run_layer(m, x, in) : run_stack(m, x, in);
}

static tt_tensor *forward_hooked(tt_module *m, tt_tensor *x, const inputs *in)
{
    tt_value *v, *out = NULL;
    tt_tensor *y;

    v = tti_tuple_of((tt_tensor *[]){ x, in->memory, in->opt.mask, in->opt.padding_mask,
                                      in->opt.memory_mask, in->opt.memory_padding_mask },
                     6);
    if (v != NULL && tt_value_list_give(v, tt_value_bool_new(in->opt.causal)) == TT_OK &&
        tt_value_list_give(v, tt_value_bool_new(in->opt.memory_causal)) == TT_OK)
        out = tt_module_call(m, v);
    y = out != NULL ? tti_scope_keep(tt_value_as_tensor(out)) : NULL;
    tt_value_free(v);
    tt_value_free(out);
    return y;
}

tt_tensor *tt_transformer_forward(tt_module *m, tt_tensor *x, tt_tensor *memory,
                                  const tt_transformer_call *opt)
{
    inputs in = { .memory = memory };
    tt_scope s;

    if (m == NULL || x == NULL) {
        tti_null_given("transformer", "a module and a tensor");
        return NULL;
    }
    if (!is_layer(m) && m->cls != &encoder_class && m->cls != &decoder_class)
        return TT_FAIL_NULL(TT_ERR_INVALID, "transformer: expected an encoder or decoder, got a %s",
                            m->cls->name);
    if (opt != NULL)
        in.opt = *opt;
    if (tti_has_hooks(m))
        return forward_hooked(m, x, &in);
    s = tt_scope_open();
    return tt_scope_close_keep(&s, run(m, x, &in));
}

/* ---- making ------------------------------------------------------------------------------ */

static tt_status add_norm(tt_module *m, const char *name, int64_t width,
                          const tt_transformer_options *o)
{
    return tt_module_give_child(
        m, name,
        tt_layer_norm_new(TT_SHAPE(width),
                          &(tt_norm_options){ .eps = o->eps, .no_bias = o->no_bias }));
}

static tt_status add_layer_parts(tt_module *m, int64_t width, int heads,
                                 const tt_transformer_options *o)
{
    tt_mha_options mha = { .dropout = o->dropout,
                           .no_bias = o->no_bias,
                           .batch_first = o->batch_first };
    tt_linear_options linear = { .no_bias = o->no_bias };
    bool decoder = is_decoder(m);
    char name[16];

    TT_TRY(tt_module_give_child(m, "self_attn", tt_mha_new(width, heads, &mha)));
    if (decoder)
        TT_TRY(tt_module_give_child(m, "multihead_attn", tt_mha_new(width, heads, &mha)));
    TT_TRY(tt_module_give_child(m, "linear1", tt_linear_new(width, o->feedforward, &linear)));
    TT_TRY(tt_module_give_child(m, "dropout", tt_dropout_new(o->dropout)));
    TT_TRY(tt_module_give_child(m, "linear2", tt_linear_new(o->feedforward, width, &linear)));
    for (int i = 1; i <= (decoder ? 3 : 2); i++) {
        snprintf(name, sizeof name, "norm%d", i);
        TT_TRY(add_norm(m, name, width, o));
    }
    for (int i = 1; i <= (decoder ? 3 : 2); i++) {
        snprintf(name, sizeof name, "dropout%d", i);
        TT_TRY(tt_module_give_child(m, name, tt_dropout_new(o->dropout)));
    }
    return TT_OK;
}

static tt_module *layer_new(const tt_module_class *cls, int64_t width, int heads,
                            const tt_transformer_options *opt)
{
    tt_transformer_options o = opt != NULL ? *opt : (tt_transformer_options){ 0 };
    tt_module *m;

    if (o.feedforward == 0)
        o.feedforward = 2048;
    o.dropout = o.dropout < 0 ? 0 : o.dropout > 0 ? o.dropout : 0.1;
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    *(block *)m->data = (block){ cls == &decoder_layer_class, o.norm_first, o.activation };
    return tti_layer_done(m, add_layer_parts(m, width, heads, &o));
}

tt_module *tt_transformer_encoder_layer_new(int64_t width, int heads,
                                            const tt_transformer_options *opt)
{
    return layer_new(&encoder_layer_class, width, heads, opt);
}

tt_module *tt_transformer_decoder_layer_new(int64_t width, int heads,
                                            const tt_transformer_options *opt)
{
    return layer_new(&decoder_layer_class, width, heads, opt);
}

static tt_status add_stack_parts(tt_module *m, const tt_module *layer, int n, tt_module *norm)
{
    TT_TRY(tt_module_give_child(m, "layers", tt_module_list_new()));
    for (int i = 0; i < n; i++)
        TT_TRY(tt_module_append(tt_module_child_at(m, 0), tt_module_copy(layer)));
    return norm != NULL ? tt_module_add_child(m, "norm", norm) : TT_OK;
}

static tt_module *stack_new(const tt_module_class *cls, const tt_module_class *layer_cls,
                            const tt_module *layer, int n, tt_module *norm)
{
    tt_module *m;

    if (layer == NULL) {
        tti_null_given(cls->name, "a layer");
        return NULL;
    }
    if (layer->cls != layer_cls)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a %s, got a %s", cls->name,
                            layer_cls->name, layer->cls->name);
    m = tt_module_new(cls);
    return m != NULL ? tti_layer_done(m, add_stack_parts(m, layer, n, norm)) : NULL;
}

tt_module *tt_transformer_encoder_new(const tt_module *layer, int n, tt_module *norm)
{
    return stack_new(&encoder_class, &encoder_layer_class, layer, n, norm);
}

tt_module *tt_transformer_decoder_new(const tt_module *layer, int n, tt_module *norm)
{
    return stack_new(&decoder_class, &decoder_layer_class, layer, n, norm);
}
