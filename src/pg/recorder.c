/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a flight recorder. A writer takes a ticket, which names a slot, and fills it; nobody waits for
 * anybody. A dump reads slots while they may change and leaves out those that did. */
#include "pg/recorder.h"

#include <string.h>

#include "base/mem.h"
#include "pg/recorder_ring.h"

#define RELAXED memory_order_relaxed
#define RELEASE memory_order_release
#define ACQUIRE memory_order_acquire

/* ---- life time ------------------------------------------------------------------------- */

void tti_recorder_unref(tti_recorder *r)
{
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&r->mu_dump);
    tti_mfree(r->slots);
    tti_mfree(r->group);
    tti_mfree(r->desc);
    tti_mfree(r->backend);
    tti_mfree(r->global_ranks);
    tti_mfree(r->causes);
    tti_mfree(r);
}

static bool fill(tti_recorder *r, const tti_recorder_info *info)
{
    r->group = tti_strdup(info->group != NULL ? info->group : "");
    r->desc = tti_strdup(info->desc != NULL ? info->desc : "");
    r->backend = tti_strdup(info->backend != NULL ? info->backend : "");
    r->slots = tti_calloc(TTI_RECORDER_SIZE, sizeof *r->slots);
    r->causes = tti_calloc(TTI_CAUSES, sizeof *r->causes);
    r->global_ranks = tti_calloc((size_t)info->size, sizeof *r->global_ranks);
    if (r->group == NULL || r->desc == NULL || r->backend == NULL || r->slots == NULL ||
        r->causes == NULL || r->global_ranks == NULL)
        return false;
    for (int i = 0; i < info->size; i++)
        r->global_ranks[i] = info->global_ranks != NULL ? info->global_ranks[i] : i;
    return true;
}

tti_recorder *tti_recorder_new(const tti_recorder_info *info)
{
    tti_recorder *r;

    if (info->size < 1 || info->rank < 0 || info->rank >= info->size)
        return TT_FAIL_NULL(TT_ERR_INVALID, "recorder: expected a rank below %d, got %d",
                            info->size, info->rank);
    r = tti_calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->mu_dump, NULL);
    r->rank = info->rank;
    r->size = info->size;
    atomic_init(&r->timeout_ms, info->timeout_ms);
    if (!fill(r, info)) {
        tti_recorder_unref(r);
        return NULL;
    }
    tti_ticks_init();
    tti_monitor_add(r);
    return r;
}

void tti_recorder_free(tti_recorder *r)
{
    if (r == NULL)
        return;
    tti_monitor_remove(r);
    tti_recorder_unref(r);
}

void tti_recorder_set_timeout(tti_recorder *r, int timeout_ms)
{
    atomic_store_explicit(&r->timeout_ms, timeout_ms, RELAXED);
}

/* ---- writing --------------------------------------------------------------------------- */

static uint64_t pack(const tti_record *rec)
{
    return (uint64_t)(uint8_t)rec->dtype | (uint64_t)(uint8_t)rec->n_dims << 8 |
           (uint64_t)rec->p2p << 16 | (uint64_t)rec->async << 17 |
           (uint64_t)(uint32_t)rec->peer << 32;
}

static inline tti_recorded *slot_of(tti_recorder *r, uint64_t ticket)
{
    return &r->slots[ticket % TTI_RECORDER_SIZE];
}

/* The highest of all values, also when several threads raise it at once. */
static inline void raise_to(atomic_ullong *at, uint64_t value)
{
    unsigned long long seen = atomic_load_explicit(at, RELAXED);

    while (seen < value &&
           !atomic_compare_exchange_weak_explicit(at, &seen, value, RELAXED, RELAXED))
        ;
}

/* That, when no other thread does so meanwhile: without the cost of a locked instruction. */
static inline void raise_alone(atomic_ullong *at, uint64_t value)
{
    if (atomic_load_explicit(at, RELAXED) < value)
        atomic_store_explicit(at, value, RELAXED);
}

static inline void put(tti_recorder *r, const tti_record *rec, uint64_t ticket, bool starts)
{
    uint64_t now = tti_ticks();
    tti_recorded *s = slot_of(r, ticket);

    atomic_store_explicit(&s->tag, TTI_RECORDED_FILLING, RELAXED);
    atomic_store_explicit(&s->started, starts ? now : 0, RELEASE);
    atomic_store_explicit(&s->ended, 0, RELEASE);
    atomic_store_explicit(&s->seq, rec->seq, RELEASE);
    atomic_store_explicit(&s->op, (uintptr_t)rec->op, RELEASE);
    atomic_store_explicit(&s->site, (uintptr_t)rec->site, RELEASE);
    atomic_store_explicit(&s->in_bytes, rec->in_bytes, RELEASE);
    atomic_store_explicit(&s->out_bytes, rec->out_bytes, RELEASE);
    atomic_store_explicit(&s->packed, pack(rec), RELEASE);
    for (int i = 0; i < rec->n_dims && i < TT_MAX_DIMS; i++)
        atomic_store_explicit(&s->dims[i], rec->dims[i], RELEASE);
    atomic_store_explicit(&s->issued, now, RELEASE);
    atomic_store_explicit(&s->tag, ticket + 1, RELEASE);
}

/* A writer that was held up while the ring went round once still fills its slot: the later one is left out. */
static inline uint64_t put_shared(tti_recorder *r, const tti_record *rec, bool starts)
{
    uint64_t ticket = atomic_fetch_add_explicit(&r->next, 1, RELAXED);

    if (tt_unlikely(atomic_exchange_explicit(&slot_of(r, ticket)->tag, TTI_RECORDED_FILLING,
                                             ACQUIRE) == TTI_RECORDED_FILLING))
        return ticket;
    raise_to(&r->last_issued[rec->p2p], rec->seq);
    if (starts)
        raise_to(&r->last_started[rec->p2p], rec->seq);
    put(r, rec, ticket, starts);
    return ticket;
}

uint64_t tti_recorder_issued(tti_recorder *r, const tti_record *rec)
{
    return put_shared(r, rec, false);
}

uint64_t tti_recorder_begun(tti_recorder *r, const tti_record *rec)
{
    return put_shared(r, rec, true);
}

uint64_t tti_recorder_begun_alone(tti_recorder *r, const tti_record *rec)
{
    uint64_t ticket = atomic_load_explicit(&r->next, RELAXED);

    atomic_store_explicit(&r->next, ticket + 1, RELAXED);
    raise_alone(&r->last_issued[rec->p2p], rec->seq);
    raise_alone(&r->last_started[rec->p2p], rec->seq);
    put(r, rec, ticket, true);
    return ticket;
}

void tti_recorder_started(tti_recorder *r, uint64_t ticket)
{
    tti_recorded *s = slot_of(r, ticket);
    int kind;

    if (tt_unlikely(atomic_load_explicit(&s->tag, ACQUIRE) != ticket + 1))
        return; /* 2,048 others came since */
    kind = (int)(atomic_load_explicit(&s->packed, RELAXED) >> 16 & 1);
    raise_to(&r->last_started[kind], atomic_load_explicit(&s->seq, RELAXED));
    atomic_store_explicit(&s->started, tti_ticks(), RELEASE);
}

static inline void end(tti_recorder *r, uint64_t ticket, tt_status st, bool owner)
{
    tti_recorded *s = slot_of(r, ticket);
    int kind;

    if (tt_unlikely(atomic_load_explicit(&s->tag, ACQUIRE) != ticket + 1))
        return;
    kind = (int)(atomic_load_explicit(&s->packed, RELAXED) >> 16 & 1);
    if (st == TT_OK && owner)
        raise_alone(&r->last_ended_owner[kind], atomic_load_explicit(&s->seq, RELAXED));
    else if (st == TT_OK)
        raise_to(&r->last_ended[kind], atomic_load_explicit(&s->seq, RELAXED));
    atomic_store_explicit(&s->status, (int)st, RELEASE);
    atomic_store_explicit(&s->ended, tti_ticks(), RELEASE);
}

void tti_recorder_ended(tti_recorder *r, uint64_t ticket, tt_status st)
{
    end(r, ticket, st, false);
}

void tti_recorder_ended_owner(tti_recorder *r, uint64_t ticket, tt_status st)
{
    end(r, ticket, st, true);
}

uint64_t tti_recorder_last_ended(const tti_recorder *r, int kind)
{
    uint64_t a = atomic_load_explicit(&r->last_ended[kind], RELAXED);
    uint64_t b = atomic_load_explicit(&r->last_ended_owner[kind], RELAXED);

    return a > b ? a : b;
}

/* ---- reading --------------------------------------------------------------------------- */

bool tti_recorder_read(tti_recorder *r, uint64_t ticket, tti_recorded_copy *copy)
{
    tti_recorded *s = slot_of(r, ticket);
    tti_record *rec = &copy->rec;
    uint64_t packed;

    if (atomic_load_explicit(&s->tag, ACQUIRE) != ticket + 1)
        return false;
    copy->ticket = ticket;
    copy->ended = atomic_load_explicit(&s->ended, ACQUIRE);
    copy->started = atomic_load_explicit(&s->started, ACQUIRE);
    copy->issued = atomic_load_explicit(&s->issued, ACQUIRE);
    copy->status = (tt_status)atomic_load_explicit(&s->status, ACQUIRE);
    packed = atomic_load_explicit(&s->packed, ACQUIRE);
    *rec = (tti_record){
        .op = (const char *)atomic_load_explicit(&s->op, ACQUIRE),
        .seq = atomic_load_explicit(&s->seq, ACQUIRE),
        .p2p = packed >> 16 & 1,
        .async = packed >> 17 & 1,
        .peer = (int)(int32_t)(packed >> 32),
        .dtype = (tt_dtype)(packed & 0xff),
        .in_bytes = atomic_load_explicit(&s->in_bytes, ACQUIRE),
        .out_bytes = atomic_load_explicit(&s->out_bytes, ACQUIRE),
        .n_dims = (int)(packed >> 8 & 0xff),
        .site = (const void *)atomic_load_explicit(&s->site, ACQUIRE),
    };
    if (rec->n_dims > TT_MAX_DIMS)
        rec->n_dims = TT_MAX_DIMS;
    for (int i = 0; i < rec->n_dims; i++)
        rec->dims[i] = atomic_load_explicit(&s->dims[i], ACQUIRE);
    return atomic_load_explicit(&s->tag, RELAXED) == ticket + 1;
}
