/* SPDX-License-Identifier: Apache-2.0 */
/* A pass of LSTM or GRU over all times as one operator, in float32 on the CPU: one product for all
 * inputs, then a product and one loop per time. Backward likewise; the gradients of the weights are
 * one product each. With create_graph, backward goes through the steps of rnn_steps.c instead. */
#include <string.h>

#include "nn/layers/rnn.h"
#include "nn/layers/rnn_cells.h"
#include "ops/cpu/cpu.h"
#include "ops/matmul.h"

TTI_ISA_DECLARE(const tti_rnn_cells, tti_rnn_cells);

/* Inputs of the operator. Saved are the same, but for GRU (which has no c) its result in place of C0;
 * then what the cells keep. */
enum { X, W_IH, W_HH, B_IH, B_HH, H0, C0, N_IN };
enum { SAVED_RESULT = C0, SAVED_KEPT = N_IN };

typedef struct attrs {
    bool lstm, backwards;
    int64_t t, b, n; /* times, batch, hidden */
} attrs;

/* Where everything is. A tensor of one time is a view; raw pointers are for the cells. */
typedef struct pass {
    attrs a;
    int n_gates;
    const tti_rnn_cells *cells;
    tt_tensor *in[N_IN];
} pass;

static int64_t time_at(const pass *p, int64_t i)
{
    return p->a.backwards ? p->a.t - 1 - i : i;
}

static pass pass_new(const attrs *a)
{
    return (pass){ .a = *a, .n_gates = a->lstm ? 4 : 3, .cells = TTI_ISA_PICK(tti_rnn_cells) };
}

/* `rows` rows of `width`, from row `first` of x on; x is contiguous. */
static tt_tensor *rows_of(const tt_tensor *x, int64_t first, int64_t rows, int64_t width)
{
    return tti_view_raw(x, (int64_t[]){ rows, width }, (int64_t[]){ width, 1 }, 2,
                        x->offset + first * width);
}

static tt_tensor *new3(const pass *p, int64_t width)
{
    return tti_empty((int64_t[]){ p->a.t, p->a.b, width }, 3, TT_F32, TT_CPU);
}

static tt_tensor *new2(const pass *p, int64_t width)
{
    return tti_empty((int64_t[]){ p->a.b, width }, 2, TT_F32, TT_CPU);
}

/* The memory of time t in a tensor [T, B, width]; of `first` before the first step. */
static float *at(const pass *p, const tt_tensor *x, int64_t t, int64_t width)
{
    return (float *)tti_data(x) + t * p->a.b * width;
}

/* The state before step i: of the step before, or the initial one. */
static const float *before(const pass *p, const tt_tensor *states, const tt_tensor *first,
                           int64_t i)
{
    return i == 0 ? tti_data(first) : at(p, states, time_at(p, i - 1), p->a.n);
}

/* What the cells keep for backward is one block: [T, B, 4n] gates, then (LSTM) [T, B, n] cells. */
static tt_tensor *kept_new(const pass *p)
{
    return tti_empty((int64_t[]){ p->a.lstm ? 5 : 4, p->a.t, p->a.b, p->a.n }, 4, TT_F32, TT_CPU);
}

static tt_tensor *kept_cells(const pass *p, const tt_tensor *kept)
{
    return tti_view_raw(kept, (int64_t[]){ p->a.t, p->a.b, p->a.n },
                        (int64_t[]){ p->a.b * p->a.n, p->a.n, 1 }, 3,
                        kept->offset + 4 * p->a.t * p->a.b * p->a.n);
}

/* Contiguous inputs; weights stay as they are, products read them with any strides. */
static tt_status take_inputs(pass *p, tt_tensor *const *in)
{
    for (int i = 0; i < N_IN; i++) {
        p->in[i] = in[i];
        if (in[i] == NULL || i == W_IH || i == W_HH)
            continue;
        p->in[i] = tti_contiguous(in[i]);
        if (p->in[i] == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

/* ---- forward ----------------------------------------------------------------------------- */

/* x @ w_ih^T + bias for all times. */
static tt_status project(const pass *p, tt_tensor *out, const tt_tensor *bias)
{
    int64_t in = p->in[X]->dims[2], width = p->n_gates * p->a.n, rows = p->a.t * p->a.b;
    tt_tensor *x = rows_of(p->in[X], 0, rows, in), *y = rows_of(out, 0, rows, width);

    if (x == NULL || y == NULL)
        return TT_ERR_NOMEM;
    return TTI_RUN("rnn", y, linalg, gemm, y, x, p->in[W_IH],
                   &(tti_gemm){ .alpha = 1, .trans_b = true, .bias = bias });
}

/* out [B, gates * n] = h @ w_hh^T + bias (+ out) */
static tt_status recur(const pass *p, tt_tensor *out, const tt_tensor *h, const tti_gemm *g)
{
    if (out == NULL || h == NULL)
        return TT_ERR_NOMEM;
    return TTI_RUN("rnn", out, linalg, gemm, out, h, p->in[W_HH], g);
}

/* kept: gates [T, B, 4n]; cells [T, B, n]. */
static tt_status lstm_forward(const pass *p, tt_tensor *y, tt_tensor *kept, tt_tensor *cells)
{
    int64_t n = p->a.n, b = p->a.b;
    tt_tensor *bias = p->in[B_IH] != NULL ? tt_add(p->in[B_IH], p->in[B_HH]) : NULL;
    tti_gemm add = { .alpha = 1, .beta = 1, .trans_b = true };

    if (p->in[B_IH] != NULL && bias == NULL)
        return tt_last_status();
    TT_TRY(project(p, kept, bias));
    for (int64_t i = 0; i < p->a.t; i++) {
        int64_t t = time_at(p, i);
        tt_tensor *h = i == 0 ? p->in[H0] : rows_of(y, time_at(p, i - 1) * b, b, n);
        const float *c = before(p, cells, p->in[C0], i);

        TT_TRY(recur(p, rows_of(kept, t * b, b, 4 * n), h, &add));
        for (int64_t r = 0; r < b; r++)
            p->cells->lstm(at(p, kept, t, 4 * n) + r * 4 * n, c + r * n, at(p, cells, t, n) + r * n,
                           at(p, y, t, n) + r * n, n);
    }
    return TT_OK;
}

/* kept: r, z, n and the recurrent part of n, [T, B, 4n]. */
static tt_status gru_forward(const pass *p, tt_tensor *y, tt_tensor *kept)
{
    int64_t n = p->a.n, b = p->a.b;
    tt_tensor *in = new3(p, 3 * n), *rec = new2(p, 3 * n);
    tti_gemm plain = { .alpha = 1, .trans_b = true, .bias = p->in[B_HH] };

    if (in == NULL || rec == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(project(p, in, p->in[B_IH]));
    for (int64_t i = 0; i < p->a.t; i++) {
        int64_t t = time_at(p, i);
        tt_tensor *h = i == 0 ? p->in[H0] : rows_of(y, time_at(p, i - 1) * b, b, n);
        const float *h_before = before(p, y, p->in[H0], i);

        TT_TRY(recur(p, rec, h, &plain));
        for (int64_t r = 0; r < b; r++)
            p->cells->gru(at(p, in, t, 3 * n) + r * 3 * n, (const float *)tti_data(rec) + r * 3 * n,
                          h_before + r * n, at(p, kept, t, 4 * n) + r * 4 * n,
                          at(p, y, t, n) + r * n, n);
    }
    return TT_OK;
}

/* ---- backward ---------------------------------------------------------------------------- */

typedef struct grads {
    tt_tensor *dy;         /* [T, B, n], contiguous; NULL: zeros */
    tt_tensor *dh, *dc;    /* [B, n]: of the states between steps */
    tt_tensor *din, *drec; /* [T, B, gates * n]; the same tensor for LSTM */
    tt_tensor *hidden;     /* [T, B, n]: the state before each step */
} grads;

/* dh += dy of this time. */
static void add_output(const pass *p, const grads *g, int64_t t)
{
    float *dh = tti_data(g->dh);
    const float *dy = g->dy != NULL ? at(p, g->dy, t, p->a.n) : NULL;

    for (int64_t k = 0; dy != NULL && k < p->a.b * p->a.n; k++)
        dh[k] += dy[k];
}

/* dh (+)= the gradient of the recurrent sums @ w_hh. */
static tt_status back_through(const pass *p, const grads *g, int64_t t, double beta)
{
    tt_tensor *d = rows_of(g->drec, t * p->a.b, p->a.b, p->n_gates * p->a.n);

    if (d == NULL)
        return TT_ERR_NOMEM;
    return TTI_RUN("rnn", g->dh, linalg, gemm, g->dh, d, p->in[W_HH],
                   &(tti_gemm){ .alpha = 1, .beta = beta });
}

static tt_status lstm_back(const pass *p, const tt_tensor *kept, const tt_tensor *cells, grads *g)
{
    int64_t n = p->a.n, b = p->a.b;
    tt_tensor *last = new2(p, n);

    if (last == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = p->a.t - 1; i >= 0; i--) {
        int64_t t = time_at(p, i);
        const float *c = before(p, cells, p->in[C0], i);
        /* The h computed again at this step is the state before the next one. */
        float *h = i + 1 < p->a.t ? at(p, g->hidden, time_at(p, i + 1), n) : tti_data(last);

        add_output(p, g, t);
        for (int64_t r = 0; r < b; r++)
            p->cells->lstm_back(&(tti_lstm_row){ .gates = at(p, kept, t, 4 * n) + r * 4 * n,
                                                 .c_before = c + r * n,
                                                 .c = at(p, cells, t, n) + r * n,
                                                 .dh = (float *)tti_data(g->dh) + r * n,
                                                 .dc = (float *)tti_data(g->dc) + r * n,
                                                 .dgates = at(p, g->drec, t, 4 * n) + r * 4 * n,
                                                 .h = h + r * n },
                                n);
        TT_TRY(back_through(p, g, t, 0));
    }
    return TT_OK;
}

static tt_status gru_back(const pass *p, const tt_tensor *kept, const tt_tensor *y, grads *g)
{
    int64_t n = p->a.n, b = p->a.b;
    tt_tensor *direct = new2(p, n);

    if (direct == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = p->a.t - 1; i >= 0; i--) {
        int64_t t = time_at(p, i);
        const float *h = before(p, y, p->in[H0], i);
        tt_tensor *swap;

        add_output(p, g, t);
        for (int64_t r = 0; r < b; r++)
            p->cells->gru_back(
                at(p, kept, t, 4 * n) + r * 4 * n, h + r * n, (float *)tti_data(g->dh) + r * n,
                at(p, g->din, t, 3 * n) + r * 3 * n, at(p, g->drec, t, 3 * n) + r * 3 * n,
                (float *)tti_data(direct) + r * n, n);
        memcpy(at(p, g->hidden, t, n), h, (size_t)(b * n) * sizeof(float));
        swap = g->dh;
        g->dh = direct;
        direct = swap;
        TT_TRY(back_through(p, g, t, 1));
    }
    return TT_OK;
}

/* ---- gradients of what is the same for all times ----------------------------------------------- */

static tt_tensor *column_sums(const pass *p, const tt_tensor *d)
{
    return tt_sum_dim(rows_of(d, 0, p->a.t * p->a.b, p->n_gates * p->a.n), 0, false);
}

static tt_status finish_grads(const pass *p, const tti_node *n, const grads *g, tt_tensor **gi)
{
    int64_t rows = p->a.t * p->a.b, width = p->n_gates * p->a.n, in = p->in[X]->dims[2];
    tt_tensor *din = rows_of(g->din, 0, rows, width), *drec = rows_of(g->drec, 0, rows, width);
    tt_tensor *x = rows_of(p->in[X], 0, rows, in), *h = rows_of(g->hidden, 0, rows, p->a.n);

    if (din == NULL || drec == NULL || x == NULL || h == NULL)
        return TT_ERR_NOMEM;
    if (tti_needs(n, X))
        TT_TRY(tti_give(&gi[X], tt_reshape(tti_mm(din, p->in[W_IH], false, false),
                                           TT_SHAPE(p->a.t, p->a.b, in))));
    if (tti_needs(n, W_IH))
        TT_TRY(tti_give(&gi[W_IH], tti_mm(din, x, true, false)));
    if (tti_needs(n, W_HH))
        TT_TRY(tti_give(&gi[W_HH], tti_mm(drec, h, true, false)));
    if (tti_needs(n, B_IH))
        TT_TRY(tti_give(&gi[B_IH], column_sums(p, g->din)));
    if (tti_needs(n, B_HH))
        TT_TRY(tti_give(&gi[B_HH], column_sums(p, g->drec)));
    if (tti_needs(n, H0))
        gi[H0] = g->dh;
    if (tti_needs(n, C0))
        gi[C0] = g->dc;
    return TT_OK;
}

/* Copies or zeros that the loop may write to. */
static tt_tensor *state_grad(const pass *p, tt_tensor *given)
{
    return given != NULL ? tt_clone(tti_contiguous(given))
                         : tt_zeros(TT_SHAPE(p->a.b, p->a.n), TT_F32, TT_CPU);
}

static tt_status back(tti_node *n, pass *p, tt_tensor *const *saved, tt_tensor *const *go,
                      tt_tensor **gi)
{
    grads g = { .dy = go[0] != NULL ? tti_contiguous(go[0]) : NULL };
    int64_t width = p->n_gates * p->a.n;
    const tt_tensor *kept = saved[SAVED_KEPT];
    tt_tensor *cells;

    g.dh = state_grad(p, NULL);
    g.dc = p->a.lstm ? state_grad(p, go[1]) : NULL;
    g.hidden = new3(p, p->a.n);
    g.drec = new3(p, width);
    g.din = p->a.lstm ? g.drec : new3(p, width);
    if ((go[0] != NULL && g.dy == NULL) || g.dh == NULL || (p->a.lstm && g.dc == NULL) ||
        g.hidden == NULL || g.drec == NULL || g.din == NULL)
        return tt_last_status();
    if (!p->a.lstm) {
        TT_TRY(gru_back(p, kept, saved[SAVED_RESULT], &g));
        return finish_grads(p, n, &g, gi);
    }
    cells = kept_cells(p, kept);
    if (cells == NULL)
        return TT_ERR_NOMEM;
    memcpy(at(p, g.hidden, time_at(p, 0), p->a.n), tti_data(p->in[H0]),
           (size_t)(p->a.b * p->a.n) * sizeof(float));
    TT_TRY(lstm_back(p, kept, cells, &g));
    return finish_grads(p, n, &g, gi);
}

/* Differentiable gradients: those of the steps, computed again. */
static tt_status back_by_steps(tti_node *n, const attrs *a, tt_tensor *const *in,
                               tt_tensor *const *go, tt_tensor **gi)
{
    tti_rnn_pass s = { in[X],  in[W_IH], in[W_HH],     in[B_IH], in[B_HH],
                       in[H0], in[C0],   a->backwards, NULL };
    tt_tensor *outs[2], *douts[2], *wanted[N_IN], *found[N_IN];
    int n_out = 0, n_in = 0;

    TT_TRY(a->lstm ? tti_lstm_steps(&s) : tti_gru_steps(&s));
    for (int i = 0; i < (a->lstm ? 2 : 1); i++) {
        if (go[i] == NULL)
            continue;
        outs[n_out] = i == 0 ? s.y : s.c;
        douts[n_out++] = go[i];
    }
    for (int i = 0; i < N_IN; i++)
        if (tti_needs(n, i))
            wanted[n_in++] = in[i];
    TT_TRY(tt_grad(
        outs, n_out, wanted, n_in,
        &(tt_grad_options){ .grad_outputs = douts, .create_graph = true, .allow_unused = true },
        found));
    for (int i = N_IN - 1; i >= 0; i--)
        if (tti_needs(n, i))
            gi[i] = found[--n_in];
    return TT_OK;
}

static tt_status rnn_backward(tti_node *n, tt_tensor *const *go, tt_tensor **gi)
{
    const attrs *a = tti_attrs(n);
    tt_tensor *saved[N_IN + 1], *in[N_IN];
    pass p;

    for (int i = 0; i <= N_IN; i++) {
        saved[i] = NULL;
        if (!tti_has_saved(n, i) && !n->released)
            continue;
        saved[i] = tti_saved_get(n, i);
        if (saved[i] == NULL)
            return tt_last_status();
    }
    memcpy(in, saved, sizeof in);
    if (!a->lstm)
        in[C0] = NULL;
    if (tti_grad_mode == TT_GRAD_ON)
        return back_by_steps(n, a, in, go, gi);
    p = pass_new(a);
    TT_TRY(take_inputs(&p, in));
    return back(n, &p, saved, go, gi);
}

/* ---- the operator ------------------------------------------------------------------------ */

static const tti_op op_lstm = { "lstm", rnn_backward, 0 };
static const tti_op op_gru = { "gru", rnn_backward, 0 };

/* outs: y and (LSTM) the last c. */
static tt_status forward(tti_call *c, pass *p, tt_tensor **outs)
{
    tt_tensor *kept = kept_new(p), *cells = NULL;

    outs[0] = new3(p, p->a.n);
    if (kept == NULL || outs[0] == NULL)
        return TT_ERR_NOMEM;
    if (p->a.lstm) {
        cells = kept_cells(p, kept);
        outs[1] = new2(p, p->a.n);
        if (cells == NULL || outs[1] == NULL)
            return TT_ERR_NOMEM;
    }
    for (int i = 0; i < N_IN; i++)
        tti_call_save(c, !p->a.lstm && i == SAVED_RESULT ? outs[0] : c->in[i]);
    tti_call_save(c, kept);
    if (!p->a.lstm)
        return gru_forward(p, outs[0], kept);
    TT_TRY(lstm_forward(p, outs[0], kept, cells));
    memcpy(tti_data(outs[1]), at(p, cells, time_at(p, p->a.t - 1), p->a.n),
           (size_t)(p->a.b * p->a.n) * sizeof(float));
    return TT_OK;
}

static tt_status fused(tti_rnn_pass *s)
{
    tt_tensor *in[] = { s->x, s->w_ih, s->w_hh, s->b_ih, s->b_hh, s->h, s->c };
    attrs a = { s->c != NULL, s->backwards, s->x->dims[0], s->x->dims[1], s->h->dims[1] };
    tti_call c = { .op = a.lstm ? &op_lstm : &op_gru,
                   .in = in,
                   .n_in = N_IN,
                   .optional = 1u << B_IH | 1u << B_HH | 1u << C0,
                   .attrs = &a,
                   .attrs_bytes = sizeof a };
    tt_tensor *outs[2] = { NULL, NULL };
    pass p = pass_new(&a);
    tt_status st;

    if (!tti_call_begin(&c))
        return tt_last_status();
    TT_NO_GRAD
    {
        st = take_inputs(&p, in);
        if (st == TT_OK)
            st = forward(&c, &p, outs);
    }
    TT_TRY(tti_call_end_many(&c, outs, a.lstm ? 2 : 1, st));
    s->y = outs[0];
    s->c = outs[1];
    s->h = tt_select(s->y, 0, s->backwards ? 0 : a.t - 1);
    return s->h != NULL ? TT_OK : tt_last_status();
}

static bool is_plain_float(const tt_tensor *t)
{
    return t == NULL ||
           ((tt_dtype)t->dtype == TT_F32 && t->device.kind == TT_DEVICE_CPU && t->storage != NULL);
}

tt_status tti_rnn_run(tti_rnn_pass *p)
{
    bool fast = is_plain_float(p->x) && is_plain_float(p->w_ih) && is_plain_float(p->w_hh) &&
                is_plain_float(p->b_ih) && is_plain_float(p->b_hh) && is_plain_float(p->h) &&
                is_plain_float(p->c);

    if (fast && p->x->numel > 0)
        return fused(p);
    return p->c != NULL ? tti_lstm_steps(p) : tti_gru_steps(p);
}
