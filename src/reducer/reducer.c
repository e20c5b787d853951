/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in plain memory, reduced bucket by bucket while the program computes the next ones. */
#include "base/error.h"
#include "reducer/reducer.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define DEFAULT_CAP ((size_t)25 << 20)
#define DEFAULT_FIRST ((size_t)1 << 20)

/* ---- life ---------------------------------------------------------------------------------- */

static tt_status take_grad(tti_reducer_grad *g, const tt_reducer_grad *from, int i)
{
    if ((unsigned)from->dtype >= TT_N_DTYPES)
        return TT_FAIL(TT_ERR_INVALID, "reducer: gradient %d has no type of the library: %d", i,
                       (int)from->dtype);
    if (from->n < 0 || (uint64_t)from->n > SIZE_MAX / 2 / tt_dtype_size(from->dtype))
        return TT_FAIL(TT_ERR_INVALID, "reducer: gradient %d cannot have %lld elements", i,
                       (long long)from->n);
    g->given = from->data;
    g->n = from->n;
    g->dtype = from->dtype;
    g->bytes = (size_t)from->n * tt_dtype_size(from->dtype);
    g->name = from->name != NULL ? tti_strdup(from->name) : NULL;
    return from->name == NULL || g->name != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status take_options(tt_reducer *r, const tt_reducer_options *opt)
{
    static const tt_reduce_op ops[] = { TT_REDUCE_AVG, TT_REDUCE_SUM, TT_REDUCE_MIN,
                                        TT_REDUCE_MAX };
    const tt_reducer_options defaults = { 0 };

    opt = opt != NULL ? opt : &defaults;
    if ((unsigned)opt->op >= sizeof ops / sizeof ops[0])
        return TT_FAIL(TT_ERR_INVALID, "reducer: no operation has the number %d", (int)opt->op);
    r->how.op = ops[opt->op];
    r->cap = opt->bucket_bytes > 0 ? opt->bucket_bytes : DEFAULT_CAP;
    r->first_cap = opt->first_bucket_bytes > 0 ? opt->first_bucket_bytes : DEFAULT_FIRST;
    if (opt->first_bucket_bytes == 0 && r->first_cap > r->cap)
        r->first_cap = r->cap;
    r->first_to_last = opt->first_to_last;
    return TT_OK;
}

/* Memory for the buckets, and where in it the gradients are. */
static tt_status alloc_buckets(tt_reducer *r)
{
    for (int k = 0; k < r->n_buckets; k++) {
        tti_reducer_bucket *b = &r->buckets[k];
        size_t bytes = b->extent > 0 ? b->extent : 64;
        int64_t n = (int64_t)(bytes / tt_dtype_size(b->dtype));

        b->flat = tt_tensor_retain(tt_pg_alloc(r->pg, TT_SHAPE(n), b->dtype));
        if (b->flat == NULL)
            return tt_last_status();
        memset(tt_tensor_data(b->flat), 0, bytes);
        b->n_pending = b->n_grads;
    }
    for (int i = 0; i < r->n_grads; i++) {
        tti_reducer_grad *g = &r->grads[i];

        g->place = (char *)tt_tensor_data(r->buckets[g->bucket].flat) + g->offset;
    }
    return TT_OK;
}

static tt_status build(tt_reducer *r, const tt_reducer_grad *grads, const tt_reducer_options *opt)
{
    tt_status st = TT_OK;

    TT_TRY(take_options(r, opt));
    r->grads = tti_calloc((size_t)r->n_grads, sizeof *r->grads);
    if (r->grads == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < r->n_grads; i++)
        TT_TRY(take_grad(&r->grads[i], &grads[i], i));
    TT_TRY(tti_reducer_plan(r));
    TT_TRY(tti_reducer_compare(r));
    TT_TRY(tti_overlap_agree(r->pg, false, &r->overlap));
    TT_SCOPE {
        st = alloc_buckets(r);
    }
    return st;
}

tt_reducer *tt_reducer_new(tt_pg *pg, const tt_reducer_grad *grads, int n,
                           const tt_reducer_options *opt)
{
    tt_reducer *r;

    if (pg == NULL)
        return TT_NULL_GIVEN("reducer", "a group");
    if (!tt_pg_is_member(pg))
        return TT_FAIL_NULL(TT_ERR_INVALID, "reducer: this process is not in group \"%s\"",
                            tt_pg_name(pg));
    if (grads == NULL || n < 1)
        return TT_FAIL_NULL(TT_ERR_INVALID, "reducer: expected at least one gradient, got %d", n);
    r = tti_calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->cv_started, NULL);
    r->pg = tt_pg_retain(pg);
    r->n_grads = n;
    if (build(r, grads, opt) == TT_OK)
        return r;
    tt_reducer_free(r);
    return NULL;
}

void tt_reducer_free(tt_reducer *r)
{
    if (r == NULL)
        return;
    for (int k = 0; k < r->n_buckets; k++) {
        tt_work_free(r->buckets[k].work);
        tt_tensor_free(r->buckets[k].flat);
    }
    for (int i = 0; r->grads != NULL && i < r->n_grads; i++)
        tti_mfree(r->grads[i].name);
    tti_mfree(r->buckets);
    tti_mfree(r->grads);
    tt_pg_free(r->pg);
    pthread_cond_destroy(&r->cv_started);
    pthread_mutex_destroy(&r->mu);
    tti_mfree(r);
}

/* ---- an iteration --------------------------------------------------------------------------- */

const char *tti_reducer_named(const tti_reducer_grad *g, char text[TTI_REDUCER_NAME])
{
    text[0] = '\0';
    if (g->name != NULL)
        snprintf(text, TTI_REDUCER_NAME, " (\"%s\")", g->name);
    return text;
}

/* The first failure of this iteration; what fails after it has the same cause and says less. */
static void note(tt_reducer *r, tt_status st)
{
    if (st == TT_OK || r->status != TT_OK)
        return;
    r->status = st;
    tti_error_save(&r->error);
}

/* Starts the buckets that may go, in order; with END they do so in tt_reducer_wait. One thread does it, with mu given up
 * during each call: others return, and it finds what they made ready. mu is held. */
static tt_status start_full_locked(tt_reducer *r, bool ending)
{
    if (r->starting || (r->overlap == TTI_OVERLAP_END && !ending))
        return r->status;
    r->starting = true;
    while (r->status == TT_OK && r->next < r->n_buckets && r->buckets[r->next].n_pending == 0) {
        tti_reducer_bucket *b = &r->buckets[r->next];
        tt_work **work_p = r->overlap == TTI_OVERLAP_ENGINE ? &b->work : NULL;

        pthread_mutex_unlock(&r->mu);
        tt_status st = tt_pg_all_reduce(r->pg, b->flat, &r->how, work_p);
        pthread_mutex_lock(&r->mu);
        note(r, st);
        r->next += r->status == TT_OK;
    }
    r->starting = false;
    pthread_cond_broadcast(&r->cv_started);
    return r->status;
}

tt_status tt_reducer_ready(tt_reducer *r, int i)
{
    tti_reducer_grad *g;
    char text[TTI_REDUCER_NAME];
    tt_status st;

    if (r == NULL)
        return tti_null_given("reducer", "a reducer");
    if (i < 0 || i >= r->n_grads)
        return TT_FAIL(TT_ERR_INVALID, "reducer: there is no gradient %d: expected 0 to %d", i,
                       r != NULL ? r->n_grads - 1 : -1);
    g = &r->grads[i];
    if (atomic_exchange_explicit(&g->ready, true, memory_order_acq_rel))
        return TT_FAIL(TT_ERR_INVALID,
                       "reducer: gradient %d%s is ready for the second time since tt_reducer_wait",
                       i, tti_reducer_named(g, text));
    if (g->given != NULL)
        memcpy(g->place, g->given, g->bytes);
    pthread_mutex_lock(&r->mu);
    r->buckets[g->bucket].n_pending--;
    st = start_full_locked(r, false);
    if (st != TT_OK)
        tti_error_raise(&r->error); /* another thread may have met it */
    pthread_mutex_unlock(&r->mu);
    return st;
}

/* The error that lists gradients which are not ready. */
static tt_status missing(const tt_reducer *r)
{
    enum { SHOWN = 8 };
    tti_text list = { 0 };
    char text[TTI_REDUCER_NAME];
    int n = 0;
    tt_status st;

    for (int i = 0; i < r->n_grads; i++) {
        const tti_reducer_grad *g = &r->grads[i];

        if (atomic_load_explicit(&g->ready, memory_order_acquire))
            continue;
        if (n++ < SHOWN)
            tti_text_addf(&list, "%s%d%s", n > 1 ? ", " : "", i, tti_reducer_named(g, text));
    }
    if (n > SHOWN)
        tti_text_addf(&list, " and %d more", n - SHOWN);
    if (n == 0)
        st = TT_FAIL(TT_ERR_INVALID, "reducer: wait was called while another thread was in ready");
    else
        st =
            TT_FAIL(TT_ERR_INVALID, "reducer: wait needs all %d gradients, but %d %s not ready: %s",
                    r->n_grads, n, n == 1 ? "is" : "are", tti_text_str(&list));
    tti_text_fini(&list);
    return st;
}

/* All that is under way has ended. */
static tt_status finish(tt_reducer *r)
{
    for (int k = 0; k < r->n_buckets; k++) {
        tti_reducer_bucket *b = &r->buckets[k];

        if (b->work != NULL)
            note(r, tt_work_wait(b->work, 0));
        tt_work_free(b->work);
        b->work = NULL;
    }
    if (r->status == TT_OK)
        return TT_OK;
    tti_error_raise(&r->error);
    return r->status;
}

static void begin(tt_reducer *r)
{
    for (int i = 0; i < r->n_grads; i++)
        atomic_store_explicit(&r->grads[i].ready, false, memory_order_release);
    for (int k = 0; k < r->n_buckets; k++)
        r->buckets[k].n_pending = r->buckets[k].n_grads;
    r->status = TT_OK;
    r->next = 0;
}

static bool all_full_locked(const tt_reducer *r)
{
    bool all = true;

    for (int k = 0; k < r->n_buckets; k++)
        all = all && r->buckets[k].n_pending == 0;
    return all;
}

tt_status tt_reducer_wait(tt_reducer *r)
{
    tt_status st;
    bool complete;

    if (r == NULL)
        return tti_null_given("reducer", "a reducer");
    pthread_mutex_lock(&r->mu);
    while (r->starting)
        pthread_cond_wait(&r->cv_started, &r->mu);
    if (all_full_locked(r))
        (void)start_full_locked(r, true);
    complete = r->next == r->n_buckets || r->status != TT_OK;
    pthread_mutex_unlock(&r->mu);
    if (!complete)
        return missing(r);
    st = finish(r);
    for (int i = 0; st == TT_OK && i < r->n_grads; i++) {
        tti_reducer_grad *g = &r->grads[i];

        if (g->given != NULL)
            memcpy(g->given, g->place, g->bytes);
    }
    pthread_mutex_lock(&r->mu);
    begin(r);
    pthread_mutex_unlock(&r->mu);
    r->iterations += st == TT_OK;
    return st;
}

/* ---- asking ------------------------------------------------------------------------------- */

void *tt_reducer_data(const tt_reducer *r, int i)
{
    if (r == NULL)
        return TT_NULL_GIVEN("reducer", "a reducer");
    if (i < 0 || i >= r->n_grads)
        return TT_FAIL_NULL(TT_ERR_INVALID, "reducer: there is no gradient %d: expected 0 to %d", i,
                            r != NULL ? r->n_grads - 1 : -1);
    return r->grads[i].given != NULL ? r->grads[i].given : r->grads[i].place;
}

int tt_reducer_n_buckets(const tt_reducer *r)
{
    return r != NULL ? r->n_buckets : 0;
}

int tt_reducer_bucket_of(const tt_reducer *r, int i)
{
    return r != NULL && i >= 0 && i < r->n_grads ? r->grads[i].bucket : -1;
}

size_t tt_reducer_bucket_bytes(const tt_reducer *r, int b)
{
    return r != NULL && b >= 0 && b < r->n_buckets ? r->buckets[b].bytes : 0;
}

int64_t tt_reducer_iterations(const tt_reducer *r)
{
    return r != NULL ? r->iterations : 0;
}
