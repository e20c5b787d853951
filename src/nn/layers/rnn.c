/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM and GRU: layers, directions, states; one pass over time is in rnn_fused.c and rnn_steps.c. Parameters are
 * weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then with _reverse, then the next layer. */
#include <stdio.h>

#include "nn/layers/rnn.h"

#define MAX_LAYERS 64

typedef struct rnn {
    int64_t in, hidden;
    int gates, layers, directions;
    tt_rnn_options opt;
} rnn;

/* Tensors of one call. */
typedef struct call {
    tt_tensor *h0, *c0; /* NULL or [layers * directions, B, hidden] */
    tt_tensor *h[2 * MAX_LAYERS], *c[2 * MAX_LAYERS];
} call;

/* ---- running ----------------------------------------------------------------------------- */

static tt_tensor *start_state(const rnn *d, tt_tensor *states, int i, const tt_tensor *x)
{
    if (states != NULL)
        return tt_select(states, 0, i);
    return tt_zeros(TT_SHAPE(x->dims[1], d->hidden), (tt_dtype)x->dtype, x->device);
}

static tt_tensor *run_direction(const tt_module *m, tt_tensor *x, call *k, int i)
{
    const rnn *d = m->data;
    tti_rnn_pass p = {
        .x = x,
        .w_ih = tt_module_param_at(m, 4 * i),
        .w_hh = tt_module_param_at(m, 4 * i + 1),
        .b_ih = tt_module_param_at(m, 4 * i + 2),
        .b_hh = tt_module_param_at(m, 4 * i + 3),
        .backwards = d->directions == 2 && i % 2 == 1,
        .h = start_state(d, k->h0, i, x),
        .c = d->gates == 4 ? start_state(d, k->c0, i, x) : NULL,
    };

    if (p.h == NULL || (d->gates == 4 && p.c == NULL))
        return NULL;
    if (tti_rnn_run(&p) != TT_OK)
        return NULL;
    k->h[i] = p.h;
    k->c[i] = p.c;
    return p.y;
}

static tt_tensor *run_layers(const tt_module *m, tt_tensor *x, call *k)
{
    const rnn *d = m->data;

    for (int layer = 0; x != NULL && layer < d->layers; layer++) {
        tt_tensor *y[2] = { NULL, NULL };

        if (layer > 0 && d->opt.dropout > 0)
            x = tt_dropout(x, d->opt.dropout, m->training, NULL);
        for (int i = 0; x != NULL && i < d->directions; i++) {
            y[i] = run_direction(m, x, k, layer * d->directions + i);
            if (y[i] == NULL)
                return NULL;
        }
        x = x != NULL && d->directions == 2 ? tt_cat(y, 2, 2) : y[0];
    }
    return x;
}

static tt_status check_state(const tt_module *m, const tt_tensor *s, const tt_tensor *x)
{
    const rnn *d = m->data;

    if (s == NULL || (s->n_dims == 3 && s->dims[0] == d->layers * d->directions &&
                      s->dims[1] == x->dims[1] && s->dims[2] == d->hidden))
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected an initial state [%d, %lld, %lld], got %s",
                   m->cls->name, d->layers * d->directions, (long long)x->dims[1],
                   (long long)d->hidden, TTI_SHAPE_OF(s));
}

static tt_status run_batched(const tt_module *m, tt_tensor *x, call *k, tt_tensor **outs)
{
    const rnn *d = m->data;
    int n = d->layers * d->directions;

    if (d->opt.batch_first)
        x = tt_transpose(x, 0, 1);
    if (x == NULL)
        return tt_last_status();
    TT_TRY(check_state(m, k->h0, x));
    TT_TRY(check_state(m, k->c0, x));
    outs[0] = run_layers(m, x, k);
    if (outs[0] != NULL && d->opt.batch_first)
        outs[0] = tt_transpose(outs[0], 0, 1);
    outs[1] = outs[0] != NULL ? tt_stack(k->h, n, 0) : NULL;
    if (outs[1] == NULL)
        return tt_last_status();
    if (d->gates == 4) {
        outs[2] = tt_stack(k->c, n, 0);
        return outs[2] != NULL ? TT_OK : tt_last_status();
    }
    return TT_OK;
}

/* outs: y, h and (LSTM) c, of the scope. Inputs [T, in] are a batch of one without its dimension. */
static tt_status run(const tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor *c0,
                     tt_tensor **outs)
{
    const rnn *d = m->data;
    call k = { .h0 = h0, .c0 = c0 };
    bool lone;

    if (x == NULL)
        return tti_null_given(m->cls->name, "a tensor");
    lone = x->n_dims == 2;
    if ((x->n_dims != 3 && !lone) || x->dims[x->n_dims - 1] != d->in)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: expected 2 or 3 dimensions, the last of size %lld, got %s",
                       m->cls->name, (long long)d->in, TTI_SHAPE_OF(x));
    if (!lone)
        return run_batched(m, x, &k, outs);
    k.h0 = h0 != NULL ? tt_unsqueeze(h0, 1) : NULL;
    k.c0 = c0 != NULL ? tt_unsqueeze(c0, 1) : NULL;
    x = tt_unsqueeze(x, d->opt.batch_first ? 0 : 1);
    if (x == NULL || (h0 != NULL && k.h0 == NULL) || (c0 != NULL && k.c0 == NULL))
        return tt_last_status();
    TT_TRY(run_batched(m, x, &k, outs));
    outs[0] = tt_squeeze_dim(outs[0], d->opt.batch_first ? 0 : 1);
    outs[1] = tt_squeeze_dim(outs[1], 1);
    if (d->gates == 4)
        outs[2] = tt_squeeze_dim(outs[2], 1);
    return outs[0] != NULL && outs[1] != NULL && (d->gates == 3 || outs[2] != NULL)
               ? TT_OK
               : tt_last_status();
}

/* ---- the classes ------------------------------------------------------------------------- */

static tt_tensor *forward(tt_module *m, tt_tensor *x)
{
    tt_tensor *outs[3] = { NULL };

    return run(m, x, NULL, NULL, outs) == TT_OK ? outs[0] : NULL;
}

/* (y, (h, c)) or (y, h) */
static tt_value *pack(bool lstm, tt_tensor *const *outs)
{
    tt_value *v = tt_value_tuple_new();
    tt_status st = v != NULL ? tt_value_list_give(v, tt_value_tensor_new(outs[0])) : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tt_value_list_give(v, lstm ? tti_tuple_of(outs + 1, 2) : tt_value_tensor_new(outs[1]));
    if (st != TT_OK) {
        tt_value_free(v);
        return NULL;
    }
    return v;
}

static tt_value *rnn_call(tt_module *m, const tt_value *in)
{
    bool lstm = ((const rnn *)m->data)->gates == 4, lone = tt_value_kind_of(in) == TT_VALUE_TENSOR;
    tt_tensor *x = lone ? tt_value_as_tensor(in) : tti_tuple_tensor(in, 0);
    tt_tensor *outs[3] = { NULL }, *h0 = lone ? NULL : tti_tuple_tensor(in, 1), *c0 = NULL;

    if (lstm && !lone && tt_value_is_container(in) && tt_value_count(in) > 1) {
        h0 = tti_tuple_tensor(tt_value_at(in, 1), 0);
        c0 = tti_tuple_tensor(tt_value_at(in, 1), 1);
    }
    if (run(m, x, h0, c0, outs) != TT_OK)
        return NULL;
    return pack(lstm, outs);
}

static int describe(const tt_module *m, char *text, size_t size)
{
    const rnn *d = m->data;
    int n = snprintf(text, size, "%lld, %lld", (long long)d->in, (long long)d->hidden);

    if (d->layers != 1)
        n += snprintf(text + n, size - (size_t)n, ", num_layers=%d", d->layers);
    if (d->opt.no_bias)
        n += snprintf(text + n, size - (size_t)n, ", bias=False");
    if (d->opt.batch_first)
        n += snprintf(text + n, size - (size_t)n, ", batch_first=True");
    if (d->opt.dropout > 0)
        n += snprintf(text + n, size - (size_t)n, ", dropout=%g", d->opt.dropout);
    if (d->directions == 2)
        n += snprintf(text + n, size - (size_t)n, ", bidirectional=True");
    return n;
}

static const tt_module_class lstm_class = { .name = "LSTM",
                                            .data_size = sizeof(rnn),
                                            .forward = forward,
                                            .call = rnn_call,
                                            .describe = describe };
static const tt_module_class gru_class = { .name = "GRU",
                                           .data_size = sizeof(rnn),
                                           .forward = forward,
                                           .call = rnn_call,
                                           .describe = describe };

/* ---- making ------------------------------------------------------------------------------ */

static tt_status add_direction(tt_module *m, int layer, int direction)
{
    static const char *const words[] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
    const rnn *d = m->data;
    int64_t rows = d->gates * d->hidden;
    int64_t in = layer == 0 ? d->in : d->hidden * d->directions;
    double bound = tti_layer_bound((double)d->hidden);

    for (int i = 0; i < 4; i++) {
        char name[40];

        snprintf(name, sizeof name, "%s_l%d%s", words[i], layer, direction == 1 ? "_reverse" : "");
        if (i >= 2 && d->opt.no_bias)
            TT_TRY(tt_module_add_no_param(m, name));
        else if (i >= 2)
            TT_TRY(tti_layer_uniform(m, name, TT_SHAPE(rows), bound));
        else
            TT_TRY(tti_layer_uniform(m, name, TT_SHAPE(rows, i == 0 ? in : d->hidden), bound));
    }
    return TT_OK;
}

static tt_module *rnn_new(const tt_module_class *cls, int64_t in, int64_t hidden,
                          const tt_rnn_options *opt)
{
    rnn d = { .in = in, .hidden = hidden, .gates = cls == &lstm_class ? 4 : 3 };
    tt_module *m;
    tt_status st = TT_OK;

    if (opt != NULL)
        d.opt = *opt;
    d.layers = d.opt.layers != 0 ? d.opt.layers : 1;
    d.directions = d.opt.bidirectional ? 2 : 1;
    if (tti_layer_check(cls->name, "input_size", in, 1) != TT_OK ||
        tti_layer_check(cls->name, "hidden_size", hidden, 1) != TT_OK)
        return NULL;
    if (d.layers < 1 || d.layers > MAX_LAYERS || !(d.opt.dropout >= 0 && d.opt.dropout <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "%s: expected 1 to %d layers and a dropout within 0 and 1, got %d and "
                            "%g",
                            cls->name, MAX_LAYERS, d.layers, d.opt.dropout);
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    *(rnn *)m->data = d;
    for (int i = 0; st == TT_OK && i < d.layers * d.directions; i++)
        st = add_direction(m, i / d.directions, i % d.directions);
    return tti_layer_done(m, st);
}

tt_module *tt_lstm_new(int64_t in, int64_t hidden, const tt_rnn_options *opt)
{
    return rnn_new(&lstm_class, in, hidden, opt);
}

tt_module *tt_gru_new(int64_t in, int64_t hidden, const tt_rnn_options *opt)
{
    return rnn_new(&gru_class, in, hidden, opt);
}

/* ---- calling with states ------------------------------------------------------------------- */

static tt_status forward_hooked(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor *c0,
                                tt_tensor **outs)
{
    bool lstm = ((const rnn *)m->data)->gates == 4;
    tt_value *in = tti_tuple_of((tt_tensor *[]){ x, h0 }, lstm ? 1 : 2), *out = NULL, *states;
    tt_status st = in != NULL ? TT_OK : tt_last_status();

    if (st == TT_OK && lstm)
        st = tt_value_list_give(in, tti_tuple_of((tt_tensor *[]){ h0, c0 }, 2));
    if (st == TT_OK && (out = tt_module_call(m, in)) == NULL)
        st = tt_last_status();
    if (st == TT_OK) {
        states = tt_value_at(out, 1);
        outs[0] = tti_scope_keep(tti_tuple_tensor(out, 0));
        outs[1] = tti_scope_keep(lstm ? tti_tuple_tensor(states, 0) : tti_tuple_tensor(out, 1));
        outs[2] = lstm ? tti_scope_keep(tti_tuple_tensor(states, 1)) : NULL;
        if (outs[0] == NULL || outs[1] == NULL)
            st = TT_FAIL(TT_ERR_INVALID, "%s: a hook returned something else than (y, state)",
                         m->cls->name);
    }
    tt_value_free(in);
    tt_value_free(out);
    return st;
}

static tt_tensor *forward_with(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor *c0,
                               tt_tensor **h_p, tt_tensor **c_p)
{
    tt_tensor *outs[3] = { NULL };
    tt_status st;

    if (x == NULL || m == NULL) {
        tti_null_given("recurrent layer", "a module and a tensor");
        return NULL;
    }
    if (tti_has_hooks(m)) {
        st = forward_hooked(m, x, h0, c0, outs);
    } else {
        tt_scope s = tt_scope_open();

        st = run(m, x, h0, c0, outs);
        if (st != TT_OK)
            outs[0] = outs[1] = outs[2] = NULL;
        if (tti_scope_close_keep_all(&s, outs, 3) != TT_OK)
            return NULL;
    }
    if (st != TT_OK)
        return NULL;
    if (h_p != NULL)
        *h_p = outs[1];
    if (c_p != NULL)
        *c_p = outs[2];
    return outs[0];
}

tt_tensor *tt_lstm_forward(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor *c0,
                           tt_tensor **h_p, tt_tensor **c_p)
{
    if (tt_module_data(m, &lstm_class) == NULL)
        return NULL;
    if ((h0 == NULL) != (c0 == NULL))
        return TT_FAIL_NULL(TT_ERR_INVALID, "LSTM: expected both initial states or none");
    return forward_with(m, x, h0, c0, h_p, c_p);
}

tt_tensor *tt_gru_forward(tt_module *m, tt_tensor *x, tt_tensor *h0, tt_tensor **h_p)
{
    if (tt_module_data(m, &gru_class) == NULL)
        return NULL;
    return forward_with(m, x, h0, NULL, h_p, NULL);
}
