/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers written with tensor operators, step by step: for all types and devices, and for
 * derivatives of derivatives. The product with the inputs is one for all times. */
#include "nn/layers/rnn.h"

static tt_status made(const tt_tensor *t)
{
    return t != NULL ? TT_OK : tt_last_status();
}

/* The results of all times, in the order of time, as one tensor. */
static tt_status collect(tti_rnn_pass *p, tt_status (*step)(tti_rnn_pass *p, tt_tensor *in))
{
    int64_t n = p->x->dims[0];
    tt_tensor **hs = tti_calloc((size_t)n + 1, sizeof(tt_tensor *));
    tt_status st = hs != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int64_t i = 0; st == TT_OK && i < n; i++) {
        int64_t t = p->backwards ? n - 1 - i : i;

        st = step(p, tt_select(p->x, 0, t));
        if (st == TT_OK)
            hs[t] = p->h;
    }
    if (st == TT_OK) {
        p->y = tt_stack(hs, (int)n, 0);
        st = made(p->y);
    }
    tti_mfree(hs);
    return st;
}

/* ---- LSTM: gates i, f, g, o --------------------------------------------------------------- */

static tt_status lstm_step(tti_rnn_pass *p, tt_tensor *in)
{
    int64_t n = p->h->dims[1];
    tt_tensor *gates = tt_addmm(in, p->h, p->w_hh, 1, 1);
    tt_tensor *i = tt_sigmoid(tt_narrow(gates, 1, 0, n));
    tt_tensor *f = tt_sigmoid(tt_narrow(gates, 1, n, n));
    tt_tensor *g = tt_tanh(tt_narrow(gates, 1, 2 * n, n));
    tt_tensor *o = tt_sigmoid(tt_narrow(gates, 1, 3 * n, n));

    p->c = tt_add(tt_mul(f, p->c), tt_mul(i, g));
    p->h = tt_mul(o, tt_tanh(p->c));
    return made(p->h);
}

tt_status tti_lstm_steps(tti_rnn_pass *p)
{
    tt_tensor *b = p->b_ih != NULL ? tt_add(p->b_ih, p->b_hh) : NULL;

    if (p->b_ih != NULL)
        TT_TRY(made(b));
    p->x = tt_linear(p->x, p->w_ih, b);
    p->w_hh = tt_t(p->w_hh);
    TT_TRY(made(p->x));
    TT_TRY(made(p->w_hh));
    return collect(p, lstm_step);
}

/* ---- GRU: gates r, z, n ------------------------------------------------------------------- */

static tt_status gru_step(tti_rnn_pass *p, tt_tensor *in)
{
    int64_t n = p->h->dims[1];
    tt_tensor *gates =
        p->b_hh != NULL ? tt_addmm(p->b_hh, p->h, p->w_hh, 1, 1) : tt_mm(p->h, p->w_hh);
    tt_tensor *rz = tt_sigmoid(tt_add(tt_narrow(in, 1, 0, 2 * n), tt_narrow(gates, 1, 0, 2 * n)));
    tt_tensor *r = tt_narrow(rz, 1, 0, n), *z = tt_narrow(rz, 1, n, n);
    tt_tensor *new =
        tt_tanh(tt_add(tt_narrow(in, 1, 2 * n, n), tt_mul(r, tt_narrow(gates, 1, 2 * n, n))));

    p->h = tt_add(new, tt_mul(z, tt_sub(p->h, new)));
    return made(p->h);
}

tt_status tti_gru_steps(tti_rnn_pass *p)
{
    p->x = tt_linear(p->x, p->w_ih, p->b_ih);
    p->w_hh = tt_t(p->w_hh);
    TT_TRY(made(p->x));
    TT_TRY(made(p->w_hh));
    return collect(p, gru_step);
}
