/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers: the order of an epoch as an array of indices. Shuffles are Fisher-Yates with numbers from
 * Philox, keyed by the seed and numbered by the epoch: the same on every machine. */
#include <string.h>

#include "base/error.h"
#include "base/philox.h"
#include "data/data.h"

tt_sampler *tt_sampler_new(const tt_sampler_ops *ops, void *ctx)
{
    tt_sampler *s;

    if (ops == NULL || ops->length == NULL || ops->order == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "sampler: expected a table with length and order");
    s = tti_calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    atomic_init(&s->refs, 1);
    s->ops = ops;
    s->ctx = ctx;
    s->length = ops->length(ctx);
    return s;
}

tt_sampler *tti_sampler_retain(tt_sampler *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void tt_sampler_free(tt_sampler *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->ops->free != NULL)
        s->ops->free(s->ctx);
    tti_mfree(s);
}

int64_t tt_sampler_length(const tt_sampler *s)
{
    return s != NULL ? s->length : 0;
}

tt_status tt_sampler_order(tt_sampler *s, uint64_t epoch, int64_t *indices)
{
    if (s == NULL)
        return tti_null_given("sampler_order", "a sampler");
    return s->ops->order(s->ctx, epoch, indices);
}

/* ---- sequential, random, distributed: one context ------------------------------------------------- */

typedef struct plan {
    int64_t n;
    int64_t per_epoch; /* indices of this rank */
    int64_t start;     /* of the order */
    uint64_t seed;
    int rank, size;
    bool shuffle, replacement;
} plan;

__extension__ typedef unsigned __int128 wide;

/* A number below n from 64 random bits; the bias is below n / 2^64. */
static int64_t below(uint64_t bits, int64_t n)
{
    return (int64_t)(((wide)bits * (uint64_t)n) >> 64);
}

static uint64_t bits_at(uint64_t seed, uint64_t epoch, int64_t i)
{
    tti_philox_block b = tti_philox(seed, (uint64_t)i, epoch);

    return (uint64_t)b.w[0] << 32 | b.w[1];
}

/* One block of Philox has the numbers of two swaps. */
static void shuffle(int64_t *a, int64_t n, uint64_t seed, uint64_t epoch)
{
    tti_philox_block b = { { 0 } };

    for (int64_t i = n - 1; i > 0; i--) {
        bool even = (n - 1 - i) % 2 == 0;
        int64_t j, t = a[i];

        if (even)
            b = tti_philox(seed, (uint64_t)i, epoch);
        j = below(even ? (uint64_t)b.w[0] << 32 | b.w[1] : (uint64_t)b.w[2] << 32 | b.w[3], i + 1);
        a[i] = a[j];
        a[j] = t;
    }
}

/* Where entry i of this rank is in the order of all. */
static int64_t place(const plan *p, int64_t i)
{
    return p->start + (p->rank + i * p->size) % (p->n - p->start);
}

static int64_t plan_length(void *ctx)
{
    return ((plan *)ctx)->per_epoch;
}

static tt_status plan_order(void *ctx, uint64_t epoch, int64_t *out)
{
    plan *p = ctx;
    int64_t *all;

    if (p->replacement) {
        for (int64_t i = 0; i < p->per_epoch; i++)
            out[i] = below(bits_at(p->seed, epoch, i), p->n);
        return TT_OK;
    }
    if (!p->shuffle) {
        for (int64_t i = 0; i < p->per_epoch; i++)
            out[i] = place(p, i);
        return TT_OK;
    }
    all = p->per_epoch == p->n ? out : tti_malloc((size_t)p->n * sizeof *all);
    if (all == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < p->n; i++)
        all[i] = i;
    shuffle(all, p->n, p->seed, epoch);
    if (all == out)
        return TT_OK;
    for (int64_t i = 0; i < p->per_epoch; i++)
        out[i] = all[place(p, i)];
    tti_mfree(all);
    return TT_OK;
}

static const tt_sampler_ops plan_ops = {
    .name = "sampler",
    .length = plan_length,
    .order = plan_order,
    .free = tti_mfree,
};

static tt_sampler *plan_new(plan like)
{
    plan *p;
    tt_sampler *s;

    if (like.n < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "sampler: expected n >= 0, got %lld",
                            (long long)like.n);
    p = tti_malloc(sizeof *p);
    if (p == NULL)
        return NULL;
    *p = like;
    s = tt_sampler_new(&plan_ops, p);
    if (s == NULL)
        tti_mfree(p);
    return s;
}

tt_sampler *tt_sequential_sampler_new(int64_t n)
{
    return plan_new((plan){ .n = n, .per_epoch = n, .size = 1 });
}

tt_sampler *tt_random_sampler_new(int64_t n, const tt_random_sampler_options *opt)
{
    tt_random_sampler_options o = opt != NULL ? *opt : (tt_random_sampler_options){ 0 };
    int64_t many = o.n_samples != 0 ? o.n_samples : n;

    if (many < 0 || (many > n && !o.replacement) || (many > 0 && n == 0))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "random_sampler: expected at most %lld samples without replacement, "
                            "got %lld",
                            (long long)n, (long long)many);
    return plan_new((plan){ .n = n,
                            .per_epoch = many,
                            .seed = o.seed,
                            .size = 1,
                            .shuffle = true,
                            .replacement = o.replacement });
}

tt_sampler *tt_distributed_sampler_new(int64_t n, int rank, int size,
                                       const tt_distributed_sampler_options *opt)
{
    tt_distributed_sampler_options o = opt != NULL ? *opt : (tt_distributed_sampler_options){ 0 };
    int64_t each;

    if (size < 1 || rank < 0 || rank >= size)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "distributed_sampler: expected 0 <= rank < size, got %d and %d", rank,
                            size);
    if (n >= 0 && (o.start < 0 || o.start > n))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "distributed_sampler: expected 0 <= start <= %lld, got %lld",
                            (long long)n, (long long)o.start);
    each = (n - o.start) / size; /* with drop_last: ceil((n - size) / size) when there is a rest */
    if (!o.drop_last && (n - o.start) % size != 0)
        each++;
    return plan_new((plan){ .n = n,
                            .per_epoch = each,
                            .start = o.start,
                            .seed = o.seed,
                            .rank = rank,
                            .size = size,
                            .shuffle = !o.in_order });
}

/* ---- batches of indices ----------------------------------------------------------------------------- */

struct tt_batch_sampler {
    tt_sampler *sampler;
    int64_t batch_size, n_batches;
    int64_t *order;
    uint64_t epoch;
    bool made; /* `order` is that of `epoch` */
};

tt_batch_sampler *tt_batch_sampler_new(tt_sampler *s, int64_t batch_size, bool drop_last)
{
    tt_batch_sampler *b;

    if (s == NULL)
        return TT_NULL_GIVEN("batch_sampler", "a sampler");
    if (batch_size < 1)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "batch_sampler: expected a sampler and a batch size >= 1, got %lld",
                            (long long)batch_size);
    b = tti_calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->sampler = tti_sampler_retain(s);
    b->batch_size = batch_size;
    b->n_batches = s->length / batch_size;
    if (!drop_last && s->length % batch_size != 0)
        b->n_batches++;
    return b;
}

void tt_batch_sampler_free(tt_batch_sampler *b)
{
    if (b == NULL)
        return;
    tti_mfree(b->order);
    tt_sampler_free(b->sampler);
    tti_mfree(b);
}

int64_t tt_batch_sampler_length(const tt_batch_sampler *b)
{
    return b != NULL ? b->n_batches : 0;
}

tt_status tt_batch_sampler_get(tt_batch_sampler *b, uint64_t epoch, int64_t i,
                               const int64_t **indices_p, int64_t *n_p)
{
    int64_t at, left;

    if (b == NULL)
        return tti_null_given("batch_sampler", "a batch sampler");
    if (i < 0 || i >= b->n_batches)
        return TT_FAIL(TT_ERR_INVALID, "batch_sampler: expected a batch below %lld, got %lld",
                       (long long)tt_batch_sampler_length(b), (long long)i);
    if (b->order == NULL)
        b->order = tti_malloc((size_t)b->sampler->length * sizeof *b->order);
    if (b->order == NULL)
        return TT_ERR_NOMEM;
    if (!b->made || b->epoch != epoch) {
        b->made = false;
        TT_TRY(tt_sampler_order(b->sampler, epoch, b->order));
        b->epoch = epoch;
        b->made = true;
    }
    at = i * b->batch_size;
    left = b->sampler->length - at;
    *indices_p = b->order + at;
    *n_p = left < b->batch_size ? left : b->batch_size;
    return TT_OK;
}
