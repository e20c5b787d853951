/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders. Batches are numbered through all epochs; batch k goes through slot k % n_slots. A thread
 * claims the next number when its slot is free, which bounds how far ahead it loads, fills the slot
 * without a lock, and marks it ready. The caller waits for the slot of the number it wants, so the
 * order never depends on the threads. Without threads there is one slot and the caller fills it. */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"
#include "data/data.h"
#include "tutti/autograd.h"
#include "tutti/ops.h"

typedef enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY } slot_state;

typedef struct slot {
    slot_state state; /* mu */
    tt_sample_at *at; /* batch_size of them */
    tt_tensor **samples;
    int64_t n, number;
    uint64_t epoch;
    tt_tensor *fields[TT_MAX_FIELDS]; /* owned while READY */
    tt_status status;
    tti_error_copy error;
} slot;

struct tt_loader {
    tt_dataset *ds;
    tt_batch_sampler *batches;
    tt_loader_options opt;
    slot *slots;
    int n_slots;
    bool told_end; /* tt_loader_more said false for the epoch before */

    uint64_t take_epoch; /* the batch that tt_loader_next gives; the caller's thread only */
    int64_t take_number;

    pthread_mutex_t mu;
    pthread_cond_t changed;  /* a slot is ready or free, or the threads must stop */
    uint64_t claimed, taken; /* mu: how many batches, ever */
    uint64_t claim_epoch;    /* mu: the batch to claim next */
    int64_t claim_number;    /* mu */
    bool stop;               /* mu */
    pthread_t *threads;
    int n_running;
};

/* ---- filling a slot ------------------------------------------------------------------------------- */

static uint64_t sample_random(uint64_t seed, uint64_t epoch, int64_t index)
{
    /* Another key than the samplers', which may have the same seed. */
    tti_philox_block b = tti_philox(seed ^ 0x5DEECE66D1CE4E5Bu, (uint64_t)index, epoch);

    return (uint64_t)b.w[0] << 32 | b.w[1];
}

/* Which samples the slot gets: the next batch to claim. With threads mu is held. */
static void claim(tt_loader *l, slot *s)
{
    const int64_t *indices = NULL;
    int64_t limit = tt_dataset_length(l->ds);

    s->epoch = l->claim_epoch;
    s->number = l->claim_number;
    s->n = 0;
    s->status = tt_batch_sampler_get(l->batches, s->epoch, s->number, &indices, &s->n);
    for (int64_t i = 0; i < s->n && s->status == TT_OK; i++) {
        if (indices[i] < 0 || indices[i] >= limit)
            s->status =
                TT_FAIL(TT_ERR_INVALID, "loader: the sampler gave index %lld of a dataset of %lld",
                        (long long)indices[i], (long long)limit);
        s->at[i] = (tt_sample_at){ indices[i], s->epoch,
                                   sample_random(l->opt.seed, s->epoch, indices[i]) };
    }
    if (++l->claim_number == tt_batch_sampler_length(l->batches)) {
        l->claim_number = 0;
        l->claim_epoch++;
    }
}

static tt_status load_samples(tt_loader *l, slot *s, tt_tensor **out)
{
    int n_fields = l->ds->n_fields;

    for (int64_t i = 0; i < s->n; i++)
        TT_TRY(tt_dataset_get(l->ds, s->at[i], s->samples + i * n_fields));
    if (l->opt.collate != NULL)
        return l->opt.collate(l->opt.collate_ctx, s->samples, s->n, n_fields, out);
    return tti_stack_samples(s->samples, s->n, n_fields, out);
}

static tt_status load(tt_loader *l, slot *s)
{
    tt_tensor *out[TT_MAX_FIELDS] = { NULL };

    TT_TRY(s->status);
    TT_SCOPE {
        tt_grad_mode before = tt_grad_mode_set(TT_GRAD_OFF);
        bool at_once = l->ds->ops->get_batch != NULL && l->opt.collate == NULL;
        tt_status st =
            at_once ? l->ds->ops->get_batch(l->ds->ctx, s->at, s->n, out) : load_samples(l, s, out);

        tt_grad_mode_set(before);
        TT_TRY(st);
        for (int f = 0; f < l->ds->n_fields; f++)
            if (out[f] == NULL)
                return TT_FAIL(TT_ERR_INVALID, "loader: field %d of the batch is missing", f);
        for (int f = 0; f < l->ds->n_fields; f++)
            s->fields[f] = tt_tensor_retain(out[f]);
    }
    return TT_OK;
}

/* Leaves the outcome in the slot, the words of a failure too: another thread may ask for them. */
static void fill(tt_loader *l, slot *s)
{
    s->status = load(l, s);
    if (s->status != TT_OK)
        tti_error_save(&s->error);
}

/* ---- threads -------------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    tt_loader *l = arg;

    pthread_mutex_lock(&l->mu);
    while (!l->stop) {
        slot *s = &l->slots[l->claimed % (uint64_t)l->n_slots];

        if (l->claimed - l->taken >= (uint64_t)l->n_slots) {
            pthread_cond_wait(&l->changed, &l->mu);
            continue;
        }
        l->claimed++;
        s->state = SLOT_BUSY;
        claim(l, s);
        pthread_mutex_unlock(&l->mu);
        fill(l, s);
        pthread_mutex_lock(&l->mu);
        s->state = SLOT_READY;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

static tt_status start(tt_loader *l)
{
    while (l->n_running < l->opt.n_threads) {
        int err = pthread_create(&l->threads[l->n_running], NULL, work, l);

        if (err != 0 && l->n_running == 0)
            return TT_FAIL(TT_ERR_IO, "loader: cannot start a thread: %s", strerror(err));
        if (err != 0)
            break; /* fewer threads give the same batches */
        l->n_running++;
    }
    return TT_OK;
}

/* Ends the threads and drops what they have loaded. */
static void halt(tt_loader *l)
{
    pthread_mutex_lock(&l->mu);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mu);
    for (int i = 0; i < l->n_running; i++)
        pthread_join(l->threads[i], NULL);
    l->n_running = 0;
    l->stop = false;
    for (int i = 0; l->slots != NULL && i < l->n_slots; i++) {
        for (int f = 0; f < TT_MAX_FIELDS; f++) {
            tt_tensor_free(l->slots[i].fields[f]);
            l->slots[i].fields[f] = NULL;
        }
        l->slots[i].state = SLOT_FREE;
    }
    l->claimed = l->taken = 0;
    l->claim_epoch = l->take_epoch;
    l->claim_number = l->take_number;
}

/* ---- making --------------------------------------------------------------------------------------- */

static tt_status make_batches(tt_loader *l, const tt_loader_options *o)
{
    int64_t n = tt_dataset_length(l->ds);
    tt_sampler *s = o->sampler;

    if (n < 0)
        return tt_last_status();
    if (s == NULL && o->shuffle)
        s = tt_random_sampler_new(n, &(tt_random_sampler_options){ .seed = o->seed });
    else if (s == NULL)
        s = tt_sequential_sampler_new(n);
    if (s == NULL)
        return tt_last_status();
    l->batches = tt_batch_sampler_new(s, l->opt.batch_size, o->drop_last);
    if (o->sampler == NULL)
        tt_sampler_free(s);
    l->opt.sampler = NULL;
    return l->batches != NULL ? TT_OK : tt_last_status();
}

static tt_status make_slots(tt_loader *l)
{
    size_t many = (size_t)l->opt.batch_size, fields;

    if (__builtin_mul_overflow(many, (size_t)l->ds->n_fields, &fields))
        return TT_FAIL(TT_ERR_NOMEM, "loader: out of memory: batches of %lld samples wanted",
                       (long long)l->opt.batch_size);
    l->n_slots = l->opt.n_threads == 0 ? 1 : l->opt.n_ahead;
    l->slots = tti_calloc((size_t)l->n_slots, sizeof *l->slots);
    l->threads = tti_calloc((size_t)l->opt.n_threads, sizeof *l->threads);
    if (l->slots == NULL || l->threads == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < l->n_slots; i++) {
        l->slots[i].at = tti_calloc(many, sizeof *l->slots[i].at);
        l->slots[i].samples = tti_calloc(fields, sizeof(tt_tensor *));
        if (l->slots[i].at == NULL || l->slots[i].samples == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

tt_loader *tt_loader_new(tt_dataset *ds, const tt_loader_options *opt)
{
    tt_loader_options o = opt != NULL ? *opt : (tt_loader_options){ 0 };
    tt_loader *l;

    if (ds == NULL)
        return TT_NULL_GIVEN("loader", "a dataset");
    if (o.batch_size == 0)
        o.batch_size = 1;
    if (o.n_ahead == 0)
        o.n_ahead = 2 * o.n_threads;
    if (o.batch_size < 1 || o.n_threads < 0 || o.n_ahead < 0 || (o.shuffle && o.sampler != NULL))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "loader: expected batch_size, n_threads and n_ahead >= 0, and shuffle "
                            "or a sampler, not both; got %lld, %d, %d",
                            (long long)o.batch_size, o.n_threads, o.n_ahead);
    l = tti_calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    pthread_mutex_init(&l->mu, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->ds = tti_dataset_retain(ds);
    l->opt = o;
    if (make_batches(l, &o) != TT_OK || make_slots(l) != TT_OK) {
        tt_loader_free(l);
        return NULL;
    }
    return l;
}

void tt_loader_free(tt_loader *l)
{
    if (l == NULL)
        return;
    halt(l);
    for (int i = 0; l->slots != NULL && i < l->n_slots; i++) {
        tti_mfree(l->slots[i].samples);
        tti_mfree(l->slots[i].at);
    }
    tti_mfree(l->threads);
    tti_mfree(l->slots);
    tt_batch_sampler_free(l->batches);
    tt_dataset_free(l->ds);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mu);
    tti_mfree(l);
}

/* ---- taking --------------------------------------------------------------------------------------- */

/* Moves what the slot holds into a batch of this thread's scope. */
static void take(tt_loader *l, slot *s, tt_batch *b)
{
    b->status = s->status;
    b->epoch = s->epoch;
    b->number = s->number;
    if (s->status != TT_OK) {
        tti_error_restore(&s->error);
        return;
    }
    b->size = s->n;
    b->n_fields = l->ds->n_fields;
    for (int f = 0; f < b->n_fields; f++) {
        b->fields[f] = tti_scope_add(s->fields[f]);
        s->fields[f] = NULL;
        if (b->fields[f] != NULL && l->opt.device.kind != TT_DEVICE_CPU)
            b->fields[f] = tt_to_device(b->fields[f], l->opt.device);
        if (b->fields[f] == NULL)
            b->status = tt_last_status();
    }
    if (b->status != TT_OK)
        memset(b->fields, 0, sizeof b->fields);
    b->x = b->fields[0];
    b->y = b->fields[1];
}

static void advance(tt_loader *l)
{
    l->told_end = false;
    if (++l->take_number == tt_loader_batches(l)) {
        l->take_number = 0;
        l->take_epoch++;
    }
}

tt_batch tt_loader_next(tt_loader *l)
{
    tt_batch b = { .status = TT_ERR_INVALID };
    slot *s;

    if (l == NULL) {
        b.status = tti_null_given("loader_next", "a loader");
        return b;
    }
    if (tt_loader_batches(l) == 0) {
        (void)TT_FAIL(TT_ERR_INVALID, "loader_next: the dataset has no batch to give");
        return b;
    }
    if (l->opt.n_threads == 0) {
        s = &l->slots[0];
        claim(l, s);
        fill(l, s);
        take(l, s, &b);
        advance(l);
        return b;
    }
    if (l->n_running == 0) {
        b.status = start(l);
        if (b.status != TT_OK)
            return b;
    }
    pthread_mutex_lock(&l->mu);
    s = &l->slots[l->taken % (uint64_t)l->n_slots];
    while (s->state != SLOT_READY)
        pthread_cond_wait(&l->changed, &l->mu);
    pthread_mutex_unlock(&l->mu);
    take(l, s, &b);
    pthread_mutex_lock(&l->mu);
    s->state = SLOT_FREE;
    l->taken++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->mu);
    advance(l);
    return b;
}

bool tt_loader_more(tt_loader *l)
{
    if (l == NULL || tt_loader_batches(l) == 0)
        return false;
    if (l->take_number != 0 || l->take_epoch == 0 || l->told_end)
        return true;
    l->told_end = true;
    return false;
}

int64_t tt_loader_batches(const tt_loader *l)
{
    return l != NULL ? tt_batch_sampler_length(l->batches) : 0;
}

uint64_t tt_loader_epoch(const tt_loader *l)
{
    return l != NULL ? l->take_epoch : 0;
}

tt_status tt_loader_seek(tt_loader *l, uint64_t epoch, int64_t batch)
{
    if (l == NULL)
        return tti_null_given("loader_seek", "a loader");
    if (batch < 0 || batch >= tt_loader_batches(l))
        return TT_FAIL(TT_ERR_INVALID, "loader_seek: expected a batch below %lld, got %lld",
                       (long long)tt_loader_batches(l), (long long)batch);
    l->take_epoch = epoch;
    l->take_number = batch;
    l->told_end = true; /* nothing of the epoch before was taken since */
    halt(l);
    return TT_OK;
}
