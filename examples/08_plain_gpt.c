/* SPDX-License-Identifier: Apache-2.0 */
/* A small GPT in plain C: its own memory, its own forward and backward loops, its own Adam. It knows no
 * tensors of Tutti. The lines marked DP make it data parallel; without them it is a program for one process.
 *
 *     tutti run -n 2 build/dev/examples/08_plain_gpt
 *
 * Every number of ranks that divides the batch of 8 gives the same training. Gradients lie in memory that
 * the ranks share, and are averaged while backward computes those of the layers below. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/reducer.h" /* DP */

enum { B = 8, T = 32, C = 32, HEADS = 4, HS = C / HEADS, LAYERS = 2, V = 32, STEPS = 240 };

static const char text[] = "the cellos begin so softly that the hall forgets to breathe. then the "
                           "horns answer from far away, "
                           "and the strings climb over them like light over a hill. nobody leads "
                           "now. each player listens, "
                           "counts, and comes in at the right moment, and sixty hands make one "
                           "sound. when the drum rolls they "
                           "all play at once: tutti. the last chord stands in the air, and the "
                           "hall begins to breathe again. ";

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz .,:";

/* ---- parameters ----------------------------------------------------------------------------- */

/* In the order of the forward pass; the 12 of a layer follow each other. Matrices are [in][out]. */
enum { WTE, WPE, LAYER0, PER_LAYER = 12, LNFW = LAYER0 + LAYERS * PER_LAYER, LNFB, HEAD, N_PARAMS };
enum { LN1W, LN1B, QKVW, QKVB, PROJW, PROJB, LN2W, LN2B, FCW, FCB, FC2W, FC2B };

typedef struct param {
    float *w, *grad, *m, *v;
    int n;
} param;

static param params[N_PARAMS];
static tt_reducer *reducer; /* DP */

static int param_size(int i)
{
    static const int of_layer[PER_LAYER] = { C, C, C * 3 * C, 3 * C, C * C,     C,
                                             C, C, C * 4 * C, 4 * C, 4 * C * C, C };

    if (i >= LAYER0 && i < LNFW)
        return of_layer[(i - LAYER0) % PER_LAYER];
    return i == WTE ? V * C : i == WPE ? T * C : i == HEAD ? C * V : C;
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void init_param(int i)
{
    param *p = &params[i];
    int k = i >= LAYER0 && i < LNFW ? (i - LAYER0) % PER_LAYER : -1;
    int is_scale = k == LN1W || k == LN2W || i == LNFW, is_bias = p->n <= 4 * C;
    unsigned seed = (unsigned)i + 1;

    p->w = calloc((size_t)p->n * 3, sizeof *p->w);
    p->m = p->w + p->n;
    p->v = p->m + p->n;
    for (int j = 0; j < p->n; j++)
        p->w[j] = is_bias ? (float)is_scale : ((float)next_random(&seed) / (1 << 24) - 0.5f) * 0.3f;
}

static void check(tt_status st)
{
    if (st != TT_OK)
        fprintf(stderr, "%s\n", tt_last_error()), exit(1);
}

/* ---- layers: forward and backward side by side ------------------------------------------------ */

/* out[t] = x[t] w + b */
static void linear(float *out, const float *x, const float *w, const float *b, int in, int n)
{
    for (int t = 0; t < T; t++) {
        float *o = out + t * n;

        for (int j = 0; j < n; j++)
            o[j] = b != NULL ? b[j] : 0;
        for (int i = 0; i < in; i++)
            for (int j = 0; j < n; j++)
                o[j] += x[t * in + i] * w[i * n + j];
    }
}

/* dx is set, the gradients of w and b are added to. */
static void linear_back(float *dx, const param *w, const param *b, const float *dout,
                        const float *x, int in, int n)
{
    for (int t = 0; t < T; t++) {
        const float *d = dout + t * n;

        for (int i = 0; i < in; i++) {
            float sum = 0;

            for (int j = 0; j < n; j++) {
                w->grad[i * n + j] += x[t * in + i] * d[j];
                sum += w->w[i * n + j] * d[j];
            }
            dx[t * in + i] = sum;
        }
        for (int j = 0; b != NULL && j < n; j++)
            b->grad[j] += d[j];
    }
}

/* `hat` keeps the normalised input, `rstd` one over the deviation. */
static void norm(float *out, float *hat, float *rstd, const float *x, const float *w,
                 const float *b)
{
    for (int t = 0; t < T; t++) {
        float mean = 0, var = 0;

        for (int i = 0; i < C; i++)
            mean += x[t * C + i] / C;
        for (int i = 0; i < C; i++)
            var += (x[t * C + i] - mean) * (x[t * C + i] - mean) / C;
        rstd[t] = 1 / sqrtf(var + 1e-5f);
        for (int i = 0; i < C; i++) {
            hat[t * C + i] = (x[t * C + i] - mean) * rstd[t];
            out[t * C + i] = hat[t * C + i] * w[i] + b[i];
        }
    }
}

static void norm_back(float *dx, float *dw, float *db, const float *dout, const float *hat,
                      const float *rstd, const float *w)
{
    for (int t = 0; t < T; t++) {
        const float *d = dout + t * C, *h = hat + t * C;
        float sum = 0, dot = 0;

        for (int i = 0; i < C; i++) {
            sum += d[i] * w[i] / C;
            dot += d[i] * w[i] * h[i] / C;
            dw[i] += d[i] * h[i];
            db[i] += d[i];
        }
        for (int i = 0; i < C; i++)
            dx[t * C + i] += (d[i] * w[i] - sum - h[i] * dot) * rstd[t];
    }
}

static void softmax(float *p, const float *x, int n)
{
    float max = x[0], sum = 0;

    for (int i = 1; i < n; i++)
        max = fmaxf(max, x[i]);
    for (int i = 0; i < n; i++)
        sum += p[i] = expf(x[i] - max);
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

/* Positions look at themselves and those before. qkv[t] = { q, k, v }; att[h][t] keeps the weights. */
static void attention(float *out, float (*att)[T][T], const float *qkv)
{
    const float scale = 1 / sqrtf(HS);

    memset(out, 0, sizeof(float) * T * C);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < T; t++) {
            const float *q = qkv + t * 3 * C + h * HS;
            float scores[T] = { 0 };

            for (int u = 0; u <= t; u++)
                for (int i = 0; i < HS; i++)
                    scores[u] += q[i] * qkv[u * 3 * C + C + h * HS + i] * scale;
            softmax(att[h][t], scores, t + 1);
            for (int u = 0; u <= t; u++)
                for (int i = 0; i < HS; i++)
                    out[t * C + h * HS + i] += att[h][t][u] * qkv[u * 3 * C + 2 * C + h * HS + i];
        }
}

static void attention_back(float *dqkv, const float *dout, float (*att)[T][T], const float *qkv)
{
    const float scale = 1 / sqrtf(HS);

    memset(dqkv, 0, sizeof(float) * T * 3 * C);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < T; t++) {
            const float *q = qkv + t * 3 * C + h * HS, *d = dout + t * C + h * HS;
            float datt[T] = { 0 }, dot = 0;

            for (int u = 0; u <= t; u++) {
                int at = u * 3 * C + 2 * C + h * HS;

                for (int i = 0; i < HS; i++) {
                    datt[u] += d[i] * qkv[at + i];
                    dqkv[at + i] += att[h][t][u] * d[i];
                }
                dot += att[h][t][u] * datt[u];
            }
            for (int u = 0; u <= t; u++) {
                float ds = att[h][t][u] * (datt[u] - dot) * scale;

                for (int i = 0; i < HS; i++) {
                    dqkv[t * 3 * C + h * HS + i] += ds * qkv[u * 3 * C + C + h * HS + i];
                    dqkv[u * 3 * C + C + h * HS + i] += ds * q[i];
                }
            }
        }
}

/* ---- the model ----------------------------------------------------------------------------------- */

typedef struct layer_acts {
    float x[T * C], ln1[T * C], hat1[T * C], rstd1[T], qkv[T * 3 * C], att[HEADS][T][T];
    float mix[T * C], mid[T * C], ln2[T * C], hat2[T * C], rstd2[T], fc[T * 4 * C], act[T * 4 * C];
} layer_acts;

static struct {
    layer_acts layers[LAYERS];
    float x[T * C], lnf[T * C], hatf[T * C], rstdf[T], logits[T * V], probs[T * V];
} a;

static void layer_forward(layer_acts *l, const param *p, float *out)
{
    float branch[T * C];

    norm(l->ln1, l->hat1, l->rstd1, l->x, p[LN1W].w, p[LN1B].w);
    linear(l->qkv, l->ln1, p[QKVW].w, p[QKVB].w, C, 3 * C);
    attention(l->mix, l->att, l->qkv);
    linear(branch, l->mix, p[PROJW].w, p[PROJB].w, C, C);
    for (int i = 0; i < T * C; i++)
        l->mid[i] = l->x[i] + branch[i];
    norm(l->ln2, l->hat2, l->rstd2, l->mid, p[LN2W].w, p[LN2B].w);
    linear(l->fc, l->ln2, p[FCW].w, p[FCB].w, C, 4 * C);
    for (int i = 0; i < T * 4 * C; i++)
        l->act[i] = l->fc[i] > 0 ? l->fc[i] * l->fc[i] : 0; /* relu, squared */
    linear(branch, l->act, p[FC2W].w, p[FC2B].w, 4 * C, C);
    for (int i = 0; i < T * C; i++)
        out[i] = l->mid[i] + branch[i];
}

/* `d`, the gradient of the output, becomes that of the input. */
static void layer_backward(layer_acts *l, const param *p, float *d)
{
    static float dwide[T * 4 * C], dsmall[T * C];

    linear_back(dwide, &p[FC2W], &p[FC2B], d, l->act, 4 * C, C);
    for (int i = 0; i < T * 4 * C; i++)
        dwide[i] *= l->fc[i] > 0 ? 2 * l->fc[i] : 0;
    linear_back(dsmall, &p[FCW], &p[FCB], dwide, l->ln2, C, 4 * C);
    norm_back(d, p[LN2W].grad, p[LN2B].grad, dsmall, l->hat2, l->rstd2, p[LN2W].w);
    linear_back(dsmall, &p[PROJW], &p[PROJB], d, l->mix, C, C);
    attention_back(dwide, dsmall, l->att, l->qkv);
    linear_back(dsmall, &p[QKVW], &p[QKVB], dwide, l->ln1, C, 3 * C);
    norm_back(d, p[LN1W].grad, p[LN1B].grad, dsmall, l->hat1, l->rstd1, p[LN1W].w);
}

static void forward(const int *tokens)
{
    for (int i = 0; i < T * C; i++)
        a.layers[0].x[i] = params[WTE].w[tokens[i / C] * C + i % C] + params[WPE].w[i];
    for (int k = 0; k < LAYERS; k++)
        layer_forward(&a.layers[k], params + LAYER0 + k * PER_LAYER,
                      k + 1 < LAYERS ? a.layers[k + 1].x : a.x);
    norm(a.lnf, a.hatf, a.rstdf, a.x, params[LNFW].w, params[LNFB].w);
    linear(a.logits, a.lnf, params[HEAD].w, NULL, C, V);
    for (int t = 0; t < T; t++)
        softmax(a.probs + t * V, a.logits + t * V, V);
}

/* Adds one of `n` sequences to the gradients, which are final after the last one. */
static float backward(const int *tokens, int n, int is_last)
{
    static float dlogits[T * V], dlnf[T * C], d[T * C];
    float loss = 0;

    memset(d, 0, sizeof d);
    for (int t = 0; t < T; t++) {
        loss -= logf(a.probs[t * V + tokens[t + 1]]) / (float)(T * n);
        for (int i = 0; i < V; i++)
            dlogits[t * V + i] = (a.probs[t * V + i] - (i == tokens[t + 1])) / (float)(T * n);
    }
    linear_back(dlnf, &params[HEAD], NULL, dlogits, a.lnf, C, V);
    norm_back(d, params[LNFW].grad, params[LNFB].grad, dlnf, a.hatf, a.rstdf, params[LNFW].w);
    for (int i = HEAD; is_last && i >= LNFW; i--)
        check(tt_reducer_ready(reducer, i)); /* DP: these gradients are final */
    for (int k = LAYERS - 1; k >= 0; k--) {
        int first = LAYER0 + k * PER_LAYER;

        layer_backward(&a.layers[k], params + first, d);
        for (int i = first + PER_LAYER - 1; is_last && i >= first; i--)
            check(tt_reducer_ready(reducer, i)); /* DP */
    }
    for (int i = 0; i < T * C; i++) {
        params[WTE].grad[tokens[i / C] * C + i % C] += d[i];
        params[WPE].grad[i] += d[i];
    }
    for (int i = WPE; is_last && i >= WTE; i--)
        check(tt_reducer_ready(reducer, i)); /* DP */
    return loss;
}

static void adam(int step)
{
    const float lr = step < 180 ? 6e-3f : 2e-3f, b1 = 0.9f, b2 = 0.98f;
    float c1 = 1 - powf(b1, (float)step), c2 = 1 - powf(b2, (float)step);

    for (int i = 0; i < N_PARAMS; i++)
        for (int j = 0; j < params[i].n; j++) {
            param *p = &params[i];
            float g = p->grad[j];

            p->m[j] = b1 * p->m[j] + (1 - b1) * g;
            p->v[j] = b2 * p->v[j] + (1 - b2) * g * g;
            p->w[j] -= lr * (p->m[j] / c1) / (sqrtf(p->v[j] / c2) + 1e-8f);
        }
}

/* ---- training -------------------------------------------------------------------------------------- */

/* The loss over the whole batch, of which this rank does B / size sequences. */
static float train_step(int step, float *loss, int rank, int size)
{
    int tokens[T + 1];

    for (int i = 0; i < N_PARAMS; i++)
        memset(params[i].grad, 0, sizeof(float) * (size_t)params[i].n);
    *loss = 0;
    for (int b = rank; b < B; b += size) { /* DP: from b = 0 in steps of 1 */
        unsigned seed = (unsigned)(step * B + b) * 7919u;
        size_t at = next_random(&seed) % (sizeof text - 1 - T);

        for (int t = 0; t <= T; t++)
            tokens[t] = (int)(strchr(alphabet, text[at + (size_t)t]) - alphabet);
        forward(tokens);
        *loss += backward(tokens, B / size, b + size >= B);
    }
    check(tt_reducer_ready(reducer, N_PARAMS)); /* DP: the loss is averaged like a gradient */
    check(tt_reducer_wait(reducer));            /* DP */
    adam(step);
    return *loss;
}

/* What the model thinks comes after "the ". */
static void say(int n)
{
    int tokens[T] = { 't' - 'a', 'h' - 'a', 'e' - 'a', 26 }, at = 3;

    printf("the ");
    for (int i = 0; i < n; i++) {
        int best = 0;

        forward(tokens);
        for (int v = 1; v < (int)sizeof alphabet - 1; v++)
            best = a.probs[at * V + v] > a.probs[at * V + best] ? v : best;
        if (++at == T)
            memmove(tokens, tokens + 1, --at * sizeof tokens[0]);
        tokens[at] = best;
        putchar(alphabet[best]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : STEPS;
    tt_pg *pg = tt_pg_new(NULL, NULL);                  /* DP: who we are comes from `tutti run` */
    int rank = tt_pg_rank(pg), size = tt_pg_size(pg);   /* DP: 0 and 1 otherwise */
    tt_reducer_grad list[N_PARAMS + 1] = { 0 };         /* DP */
    tt_reducer_options opt = { .bucket_bytes = 16384 }; /* DP: for a model as small as this */
    float loss = 0;

    for (int i = 0; i < N_PARAMS; i++) {
        list[i].n = params[i].n = param_size(i);
        init_param(i);
    }
    list[N_PARAMS].n = 1;                                   /* DP: the loss */
    reducer = tt_reducer_new(pg, list, N_PARAMS + 1, &opt); /* DP */
    for (int i = 0; reducer != NULL && i < N_PARAMS; i++)
        params[i].grad = tt_reducer_data(reducer, i); /* DP: calloc(params[i].n, 4) */
    if (reducer == NULL || B % size != 0)
        return fprintf(stderr, "%s\n", tt_last_error()), 1;
    for (int step = 1; step <= steps; step++) {
        loss = train_step(step, tt_reducer_data(reducer, N_PARAMS), rank, size);
        if (rank == 0 && (step == 1 || step % 20 == 0))
            printf("step %3d  loss %.5f\n", step, loss);
    }
    if (rank == 0)
        say(100);
    for (int i = 0; i < N_PARAMS; i++)
        free(params[i].w);
    tt_reducer_free(reducer), tt_pg_free(pg); /* DP */
    return steps < STEPS || loss < 0.6f ? 0 : 1;
}
