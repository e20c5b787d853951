/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 with the names of Hugging Face's checkpoints: wte, wpe, h.N.ln_1, h.N.attn.c_attn, ... The
 * layers called c_* store their weight [in, out]; the head is wte. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "nn/layers/layer.h"
#include "tutti/models.h"

/* ---- linear layers the other way round ------------------------------------------------------ */

typedef struct conv1d {
    int64_t in, out;
} conv1d;

static tt_tensor *conv1d_forward(tt_module *m, tt_tensor *x)
{
    return tt_linear(x, tt_t(tt_module_param_at(m, 0)), tt_module_param_at(m, 1));
}

static int conv1d_describe(const tt_module *m, char *text, size_t size)
{
    const conv1d *c = m->data;

    return snprintf(text, size, "nf=%lld, nx=%lld", (long long)c->out, (long long)c->in);
}

static const tt_module_class conv1d_class = { .name = "Conv1D",
                                              .data_size = sizeof(conv1d),
                                              .forward = conv1d_forward,
                                              .describe = conv1d_describe };

static tt_status add_normal(tt_module *m, const char *name, tt_shape shape, double std)
{
    TT_SCOPE {
        tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);

        return tt_module_add_param(m, name, tt_init_normal(t, 0, std, NULL));
    }
    return TT_OK;
}

static tt_status add_conv1d(tt_module *m, const char *name, int64_t in, int64_t out, double std)
{
    tt_module *c = tt_module_new(&conv1d_class);
    tt_status st;

    if (c == NULL)
        return tt_last_status();
    *(conv1d *)c->data = (conv1d){ in, out };
    st = add_normal(c, "weight", TT_SHAPE(in, out), std);
    if (st == TT_OK)
        st = tti_layer_filled(c, "bias", TT_SHAPE(out), 0);
    return tt_module_give_child(m, name, tti_layer_done(c, st));
}

/* ---- blocks ------------------------------------------------------------------------------ */

typedef struct part {
    int heads;
    double dropout;
} part;

static tt_tensor *drop(const tt_module *m, tt_tensor *x)
{
    double p = ((const part *)m->data)->dropout;

    return p > 0 ? tt_dropout(x, p, m->training, NULL) : x;
}

static tt_tensor *attention_forward(tt_module *m, tt_tensor *x)
{
    const part *d = m->data;
    int64_t batch = x->dims[0], time = x->dims[1], width = x->dims[2];
    tt_tensor *all = tt_module_run(m, "c_attn", x), *qkv[3], *y;

    for (int i = 0; i < 3; i++) {
        qkv[i] = tt_reshape(tt_narrow(all, 2, i * width, width),
                            TT_SHAPE(batch, time, d->heads, width / d->heads));
        qkv[i] = tt_transpose(qkv[i], 1, 2);
    }
    y = tt_attention(
        qkv[0], qkv[1], qkv[2],
        &(tt_attention_options){ .causal = true, .dropout_p = m->training ? d->dropout : 0 });
    y = tt_reshape(tt_transpose(y, 1, 2), TT_SHAPE(batch, time, width));
    return y != NULL ? drop(m, tt_module_run(m, "c_proj", y)) : NULL;
}

static tt_tensor *mlp_forward(tt_module *m, tt_tensor *x)
{
    x = tt_gelu_tanh(tt_module_run(m, "c_fc", x));
    return x != NULL ? drop(m, tt_module_run(m, "c_proj", x)) : NULL;
}

static tt_tensor *residual(tt_module *m, tt_tensor *x, const char *norm, const char *step)
{
    tt_tensor *y = x != NULL ? tt_module_run(m, norm, x) : NULL;

    return y != NULL ? tt_add(x, tt_module_run(m, step, y)) : NULL;
}

static tt_tensor *block_forward(tt_module *m, tt_tensor *x)
{
    return residual(m, residual(m, x, "ln_1", "attn"), "ln_2", "mlp");
}

static const tt_module_class attention_class = { .name = "GPT2Attention",
                                                 .data_size = sizeof(part),
                                                 .forward = attention_forward };
static const tt_module_class mlp_class = { .name = "GPT2MLP",
                                           .data_size = sizeof(part),
                                           .forward = mlp_forward };
static const tt_module_class block_class = { .name = "GPT2Block", .forward = block_forward };

/* ---- the model --------------------------------------------------------------------------- */

typedef struct gpt2 {
    part part;
    tt_gpt2_options opt;
} gpt2;

static tt_tensor *hidden(tt_module *m, tt_tensor *tokens)
{
    const gpt2 *d = m->data;
    tt_tensor *at, *x;

    if (tokens->n_dims != 2 || tokens->dims[1] > d->opt.context)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "gpt2: expected tokens [B, T] with T up to %lld, got %s",
                            (long long)d->opt.context, TTI_SHAPE_OF(tokens));
    at = tt_arange(0, (double)tokens->dims[1], 1, TT_I64, tokens->device);
    x = tt_module_run(m, "wte", tokens);
    x = drop(m, tt_add(x, at != NULL ? tt_module_run(m, "wpe", at) : NULL));
    x = x != NULL ? tti_forward_children(tt_module_child(m, "h"), x, NULL, NULL) : NULL;
    return x != NULL ? tt_module_run(m, "ln_f", x) : NULL;
}

static tt_tensor *gpt2_forward(tt_module *m, tt_tensor *tokens)
{
    return tt_linear(hidden(m, tokens), tt_module_param(m, "wte.weight"), NULL);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && strcmp(name + n - k, end) == 0;
}

static const char *gpt2_rename(const tt_module *m, const char *name, char *buffer, size_t size)
{
    static const char prefix[] = "transformer.";

    (void)m;
    (void)buffer;
    (void)size;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    if (strcmp(name, "lm_head.weight") == 0 || ends_with(name, ".attn.bias") ||
        ends_with(name, ".attn.masked_bias"))
        return NULL;
    return name;
}

static const tt_module_class gpt2_class = {
    .name = "GPT2", .data_size = sizeof(gpt2), .forward = gpt2_forward, .rename = gpt2_rename
};

tt_tensor *tt_gpt2_hidden(tt_module *m, tt_tensor *tokens)
{
    tt_scope s;

    if (tokens == NULL)
        return TT_NULL_GIVEN("gpt2_hidden", "a module and tokens");
    if (tt_module_data(m, &gpt2_class) == NULL)
        return NULL;
    s = tt_scope_open();
    return tt_scope_close_keep(&s, hidden(m, tokens));
}

/* ---- making ------------------------------------------------------------------------------ */

/* A child that the caller fills. */
static tt_module *add_part(tt_module *m, const char *name, const tt_module_class *cls,
                           const part *data)
{
    tt_module *child = tt_module_new(cls);

    if (child != NULL && data != NULL)
        *(part *)child->data = *data;
    return tt_module_give_child(m, name, child) == TT_OK ? tt_module_child(m, name) : NULL;
}

static tt_status add_norm(tt_module *m, const char *name, const tt_gpt2_options *o)
{
    return tt_module_give_child(
        m, name, tt_layer_norm_new(TT_SHAPE(o->width), &(tt_norm_options){ .eps = o->eps }));
}

static tt_status add_block(tt_module *list, int i, const gpt2 *d)
{
    /* What goes into the residual stream starts smaller, by the number of such places. */
    double std = 0.02, last = 0.02 / sqrt(2.0 * d->opt.layers);
    int64_t w = d->opt.width;
    tt_module *block, *sub;

    TT_TRY(tt_module_append(list, tt_module_new(&block_class)));
    block = tt_module_child_at(list, i);
    TT_TRY(add_norm(block, "ln_1", &d->opt));
    sub = add_part(block, "attn", &attention_class, &d->part);
    if (sub == NULL)
        return tt_last_status();
    TT_TRY(add_conv1d(sub, "c_attn", w, 3 * w, std));
    TT_TRY(add_conv1d(sub, "c_proj", w, w, last));
    TT_TRY(add_norm(block, "ln_2", &d->opt));
    sub = add_part(block, "mlp", &mlp_class, &d->part);
    if (sub == NULL)
        return tt_last_status();
    TT_TRY(add_conv1d(sub, "c_fc", w, 4 * w, std));
    return add_conv1d(sub, "c_proj", 4 * w, w, last);
}

static tt_status add_embedding(tt_module *m, const char *name, int64_t n, int64_t width, double std)
{
    TT_SCOPE {
        tt_tensor *w = tt_init_normal(tt_empty(TT_SHAPE(n, width), TT_F32, TT_CPU), 0, std, NULL);

        return tt_module_give_child(m, name, w != NULL ? tt_embedding_from(w, NULL) : NULL);
    }
    return TT_OK;
}

static tt_status fill(tt_module *m, const gpt2 *d)
{
    TT_TRY(add_embedding(m, "wte", d->opt.vocab, d->opt.width, 0.02));
    TT_TRY(add_embedding(m, "wpe", d->opt.context, d->opt.width, 0.02));
    TT_TRY(tt_module_give_child(m, "h", tt_module_list_new()));
    for (int i = 0; i < d->opt.layers; i++)
        TT_TRY(add_block(tt_module_child(m, "h"), i, d));
    return add_norm(m, "ln_f", &d->opt);
}

tt_module *tt_gpt2(const tt_gpt2_options *opt)
{
    tt_gpt2_options o = opt != NULL ? *opt : (tt_gpt2_options){ 0 };
    tt_module *m;

    o.layers = o.layers != 0 ? o.layers : 12;
    o.heads = o.heads != 0 ? o.heads : 12;
    o.width = o.width != 0 ? o.width : 768;
    o.context = o.context != 0 ? o.context : 1024;
    o.vocab = o.vocab != 0 ? o.vocab : 50257;
    if (o.layers < 0 || o.heads < 0 || o.width % o.heads != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "gpt2: expected a width that %d heads divide, got %lld",
                            o.heads, (long long)o.width);
    m = tt_module_new(&gpt2_class);
    if (m == NULL)
        return NULL;
    *(gpt2 *)m->data = (gpt2){ { o.heads, o.dropout }, o };
    return tti_layer_done(m, fill(m, m->data));
}
