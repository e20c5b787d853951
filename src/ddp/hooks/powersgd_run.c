/* SPDX-License-Identifier: Apache-2.0 */
/* One bucket through PowerSGD. All of it is one function on the engine thread of the group, where collectives run
 * at once: so all ranks run them in the same order, whatever else is queued. */
#include <math.h>

#include "ddp/hooks/powersgd.h"
#include "tutti/ops.h"

/* A matrix of gradients and its factors: views, of the scope. */
typedef struct matrix {
    tt_tensor *m, *error, *p, *q;
} matrix;

typedef struct run {
    tt_powersgd *s;              /* retained */
    tti_powersgd_memory *memory; /* of the bucket, while it runs */
    const tt_ddp_bucket *b;
    tt_tensor *flat; /* retained */
    int index;
    bool batched;

    /* While it runs. */
    tt_tensor *square; /* batched: the bucket as a matrix, of the scope */
    matrix *ms;        /* owned */
    int n;
    int64_t numel, numel_p, numel_q; /* of all matrices, and of their factors */
    tt_tensor **rest;                /* owned: gradients that are sent as they are */
    int n_rest;
    int64_t numel_rest;
    bool finite;
} run;

static void run_free(void *ctx)
{
    run *r = ctx;

    tt_powersgd_free(r->s);
    tt_tensor_free(r->flat);
    tti_mfree(r->ms);
    tti_mfree(r->rest);
    tti_mfree(r);
}

/* ---- what is a matrix --------------------------------------------------------------------------- */

static int64_t rank_of(const run *r, int64_t rows, int64_t columns)
{
    int64_t least = rows < columns ? rows : columns;

    return least < r->s->options.rank ? least : r->s->options.rank;
}

static bool pays(const run *r, int64_t rows, int64_t columns)
{
    double sent = (double)(rows + columns) * r->s->options.rank;

    return sent * r->s->options.min_compression_rate < (double)rows * (double)columns;
}

static tt_status add_matrix(run *r, tt_tensor *m)
{
    int64_t rows = tt_tensor_size(m, 0), columns = tt_tensor_size(m, 1);
    int64_t rank = rank_of(r, rows, columns);

    r->ms[r->n++] = (matrix){ .m = m };
    r->numel += rows * columns;
    r->numel_p += rows * rank;
    r->numel_q += columns * rank;
    return TT_OK;
}

static tt_status sort_grads(run *r)
{
    for (int i = 0; i < r->b->n; i++) {
        tt_tensor *g = r->b->grads[i];
        int64_t n = tt_tensor_numel(g), rows = tt_tensor_dims(g) > 1 ? tt_tensor_size(g, 0) : 0;

        if (rows > 0 && pays(r, rows, n / rows)) {
            tt_tensor *m = tt_view(g, TT_SHAPE(rows, n / rows));

            TT_TRY(m != NULL ? add_matrix(r, m) : tt_last_status());
        } else {
            r->rest[r->n_rest++] = g;
            r->numel_rest += n;
        }
    }
    return TT_OK;
}

/* The whole bucket, filled up with zeros. */
static tt_status take_square(run *r)
{
    int64_t n = tt_tensor_numel(r->flat), side = (int64_t)ceil(sqrt((double)n));
    tt_tensor *all =
        tt_zeros(TT_SHAPE(side * side), tt_tensor_dtype(r->flat), tt_tensor_device(r->flat));

    if (tt_copy_(tt_narrow(all, 0, 0, n), r->flat) == NULL)
        return tt_last_status();
    r->square = all;
    return add_matrix(r, tt_view(all, TT_SHAPE(side, side)));
}

/* ---- memories ----------------------------------------------------------------------------------- */

/* *t_p has n elements of the bucket's type; if not, it is made anew, with zeros. *made_p tells. */
static tt_status have(const run *r, tt_pg *pg, tt_tensor **t_p, int64_t n, bool *made_p)
{
    tt_dtype dtype = tt_tensor_dtype(r->flat);
    tt_device device = tt_tensor_device(r->flat);
    tt_tensor *t = *t_p;

    *made_p = t == NULL || tt_tensor_numel(t) != n || tt_tensor_dtype(t) != dtype;
    if (!*made_p)
        return TT_OK;
    t = tt_zero_(pg != NULL && device.kind == TT_DEVICE_CPU ? tt_pg_alloc(pg, TT_SHAPE(n), dtype)
                                                            : tt_empty(TT_SHAPE(n), dtype, device));
    if (t == NULL)
        return tt_last_status();
    tt_tensor_free(*t_p);
    *t_p = tt_tensor_retain(t);
    return TT_OK;
}

static tt_tensor *piece(tt_tensor *all, int64_t *at_p, int64_t rows, int64_t columns)
{
    tt_tensor *t = tt_view(tt_narrow(all, 0, *at_p, rows * columns), TT_SHAPE(rows, columns));

    *at_p += rows * columns;
    return t;
}

/* Gives every matrix its views of the memories. *fresh_p: Q has no values yet. */
static tt_status lay_out(run *r, tt_pg *pg, bool *fresh_p)
{
    tti_powersgd_memory *mem = r->memory;
    int64_t at_e = 0, at_p = 0, at_q = 0;
    bool feedback = !r->s->options.no_error_feedback, made;

    TT_TRY(have(r, pg, &mem->p, r->numel_p, &made));
    TT_TRY(have(r, pg, &mem->q, r->numel_q, fresh_p));
    if (feedback)
        TT_TRY(have(r, NULL, &mem->error, r->numel, &made));
    for (int i = 0; i < r->n; i++) {
        matrix *m = &r->ms[i];
        int64_t rows = tt_tensor_size(m->m, 0), columns = tt_tensor_size(m->m, 1);
        int64_t rank = rank_of(r, rows, columns);

        m->p = piece(mem->p, &at_p, rows, rank);
        m->q = piece(mem->q, &at_q, columns, rank);
        if (feedback)
            m->error = piece(mem->error, &at_e, rows, columns);
        if (m->p == NULL || m->q == NULL || (feedback && m->error == NULL))
            return tt_last_status();
    }
    return TT_OK;
}

/* ---- the steps ----------------------------------------------------------------------------------- */

#define DO(expression)               \
    do {                             \
        if ((expression) == NULL)    \
            return tt_last_status(); \
    } while (0)

/* M with what was left out before, remembered as what is left out until we know better. */
static tt_status feed_back(run *r)
{
    for (int i = 0; i < r->n && !r->s->options.no_error_feedback; i++) {
        DO(tt_add_(r->ms[i].m, r->ms[i].error));
        DO(tt_copy_(r->ms[i].error, r->ms[i].m));
    }
    return TT_OK;
}

static tt_status orthogonalize(run *r, tt_tensor *t)
{
    bool finite;

    TT_TRY(tti_orthogonalize(t, r->s->options.orthogonalization_epsilon, &finite));
    r->finite = r->finite && finite;
    return TT_OK;
}

static tt_status first_factor(run *r, bool fresh)
{
    if (fresh || r->s->options.no_warm_start)
        DO(tt_normal_(r->memory->q, 0, 1, r->s->gen));
    for (int i = 0; i < r->n; i++) {
        TT_TRY(orthogonalize(r, r->ms[i].q));
        DO(tt_copy_(r->ms[i].p, tt_matmul(r->ms[i].m, r->ms[i].q)));
    }
    return TT_OK;
}

static tt_status second_factor(run *r)
{
    for (int i = 0; i < r->n; i++) {
        TT_TRY(orthogonalize(r, r->ms[i].p));
        DO(tt_copy_(r->ms[i].q, tt_matmul(tt_t(r->ms[i].m), r->ms[i].p)));
    }
    return TT_OK;
}

static tt_status multiply(run *r)
{
    for (int i = 0; i < r->n; i++) {
        matrix *m = &r->ms[i];

        DO(tt_copy_(m->m, tt_matmul(m->p, tt_t(m->q))));
        if (m->error != NULL)
            DO(tt_sub_(m->error, m->m));
    }
    if (r->square != NULL)
        DO(tt_copy_(r->flat, tt_narrow(r->square, 0, 0, tt_tensor_numel(r->flat))));
    return TT_OK;
}

/* The means of P and of what is sent as it is, in one operation. */
static tt_status send_first(run *r, tt_pg *pg)
{
    const tt_coll_options mean = { .op = TT_REDUCE_AVG };
    tt_tensor *p = r->memory->p;

    if (r->n_rest == 0)
        return tt_pg_all_reduce(pg, p, &mean, NULL);
    if (r->n > 0)
        r->rest[r->n_rest++] = p;
    return tt_pg_all_reduce_coalesced(pg, r->rest, r->n_rest, &mean, NULL);
}

/* An infinity or NaN would stay in the memories for ever. */
static tt_status forget_poison(run *r)
{
    tt_tensor *all = tt_all(tt_isfinite(r->memory->q));

    if (all == NULL)
        return tt_last_status();
    if (r->finite && tt_item(all) != 0)
        return TT_OK;
    tti_powersgd_forget(r->memory);
    return TT_OK;
}

static tt_status reduce(run *r, tt_pg *pg)
{
    const tt_coll_options mean = { .op = TT_REDUCE_AVG };
    bool fresh;

    TT_TRY(r->batched ? take_square(r) : sort_grads(r));
    r->s->numel_before += tt_tensor_numel(r->flat);
    r->s->numel_after += r->numel_rest + r->numel_p + r->numel_q;
    if (r->n == 0)
        return send_first(r, pg);
    TT_TRY(lay_out(r, pg, &fresh));
    TT_TRY(feed_back(r));
    TT_TRY(first_factor(r, fresh));
    TT_TRY(send_first(r, pg));
    TT_TRY(second_factor(r));
    TT_TRY(tt_pg_all_reduce(pg, r->memory->q, &mean, NULL));
    TT_TRY(multiply(r));
    return forget_poison(r);
}

/* ---- on the engine -------------------------------------------------------------------------------- */

static tt_value *on_engine(void *ctx, tt_pg *pg)
{
    run *r = ctx;

    r->memory = tti_powersgd_memory_at(r->s, r->index);
    if (r->memory == NULL || reduce(r, pg) != TT_OK)
        return NULL;
    return tt_value_tensor_new(r->flat);
}

tt_future *tti_powersgd_run(tt_powersgd *s, tt_pg *pg, const tt_ddp_bucket *b, bool batched)
{
    run *r = tti_calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    *r = (run){ .s = tt_powersgd_retain(s), .b = b, .index = b->index, .batched = batched };
    r->flat = tt_tensor_retain(b->flat);
    r->finite = true;
    r->ms = tti_calloc((size_t)b->n + 1, sizeof *r->ms);
    r->rest = tti_calloc((size_t)b->n + 1, sizeof *r->rest);
    if (r->ms == NULL || r->rest == NULL) {
        run_free(r);
        return NULL;
    }
    return tt_ddp_run_steps(pg, on_engine, r, run_free);
}
