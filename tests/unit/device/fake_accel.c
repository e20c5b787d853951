/* SPDX-License-Identifier: Apache-2.0 */
/* An accelerator that does nothing. */
#include "fake_accel.h"

#include <stdlib.h>

#include "base/status.h"

#define N_QUEUES 4
#define FAKE_MEMORY ((uint64_t)64 << 30)

struct tti_mark {
    tti_queue *queue;
    uint64_t at;
};

fake_counts fake_count[TTI_MAX_DEVICES];
static tti_queue queues[TTI_MAX_DEVICES][N_QUEUES];
static tt_stream streams[TTI_MAX_DEVICES][N_QUEUES];
static atomic_uint_fast64_t next_address = (uint64_t)1 << 40;

static bool use_up(atomic_int *n)
{
    if (atomic_load(n) <= 0)
        return false;
    return atomic_fetch_sub(n, 1) > 0;
}

static void *segment_new(int index, size_t bytes)
{
    fake_counts *c = &fake_count[index];
    uint64_t room = (bytes + (2u << 20) - 1) & ~(uint64_t)((2u << 20) - 1);

    if (atomic_load(&c->lost))
        return TT_FAIL_NULL(TT_ERR_DEVICE, "fake: device %d is lost", index);
    if (use_up(&c->fail_new) || atomic_load(&c->held) + bytes > atomic_load(&c->capacity))
        return TT_FAIL_NULL(TT_ERR_NOMEM, "fake: no more memory");
    atomic_fetch_add(&c->n_new, 1);
    atomic_fetch_add(&c->held, bytes);
    return (void *)(uintptr_t)atomic_fetch_add(&next_address, room); /* never the same again */
}

static void segment_free(int index, void *address, size_t bytes)
{
    (void)address;
    atomic_fetch_add(&fake_count[index].n_free, 1);
    atomic_fetch_sub(&fake_count[index].held, bytes);
}

static tt_status memory_info(int index, uint64_t *free_p, uint64_t *total_p)
{
    *total_p = FAKE_MEMORY;
    *free_p = FAKE_MEMORY - atomic_load(&fake_count[index].held);
    return TT_OK;
}

static void *host_new(size_t bytes)
{
    if (use_up(&fake_count[0].fail_new))
        return TT_FAIL_NULL(TT_ERR_NOMEM, "fake: no more host memory");
    return aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
}

static void host_free(void *p, size_t bytes)
{
    (void)bytes;
    free(p);
}

static tt_status queue_sync(tti_queue *q)
{
    uint64_t queued = atomic_load(&q->queued);

    if (atomic_load(&fake_count[q->index].lost))
        return TT_FAIL(TT_ERR_DEVICE, "fake: device %d is lost", q->index);
    if (atomic_load(&q->done) < queued) {
        atomic_fetch_add(&fake_count[q->index].syncs, 1);
        atomic_store(&q->done, queued);
    }
    return TT_OK;
}

static tti_mark *mark(tti_queue *q, bool timing)
{
    tti_mark *m;

    (void)timing;
    if (use_up(&fake_count[q->index].fail_marks))
        return TT_FAIL_NULL(TT_ERR_NOMEM, "fake: no mark");
    m = malloc(sizeof *m);
    *m = (tti_mark){ q, atomic_load(&q->queued) };
    atomic_fetch_add(&fake_count[q->index].marks, 1);
    return m;
}

static void mark_free(tti_mark *m)
{
    atomic_fetch_sub(&fake_count[m->queue->index].marks, 1);
    free(m);
}

static tt_status mark_query(tti_mark *m, bool *done_p)
{
    if (atomic_load(&fake_count[m->queue->index].lost))
        return TT_FAIL(TT_ERR_DEVICE, "fake: device %d is lost", m->queue->index);
    *done_p = atomic_load(&m->queue->done) >= m->at;
    return TT_OK;
}

static tt_status mark_sync(tti_mark *m)
{
    bool done;

    TT_TRY(mark_query(m, &done));
    if (!done) {
        atomic_fetch_add(&fake_count[m->queue->index].syncs, 1);
        atomic_store(&m->queue->done, m->at);
    }
    return TT_OK;
}

const tti_accel fake_accel = {
    .segment_new = segment_new,
    .segment_free = segment_free,
    .memory_info = memory_info,
    .host_new = host_new,
    .host_free = host_free,
    .queue_sync = queue_sync,
    .mark = mark,
    .mark_free = mark_free,
    .mark_query = mark_query,
    .mark_sync = mark_sync,
};

tt_device fake_device(int index)
{
    return (tt_device){ TT_DEVICE_CUDA, (int16_t)index };
}

tt_stream *fake_stream(int index, int nr)
{
    tt_stream *s = &streams[index][nr];

    if (s->queue == NULL) {
        *s = (tt_stream){ .device = fake_device(index),
                          .accel = &fake_accel,
                          .queue = &queues[index][nr],
                          .is_default = nr == 0,
                          .in_use = true };
        queues[index][nr].index = index;
    }
    return s;
}

void fake_reset(void)
{
    for (int i = 0; i < TTI_MAX_DEVICES; i++) {
        atomic_store(&fake_count[i].capacity, FAKE_MEMORY);
        atomic_store(&fake_count[i].fail_new, 0);
        atomic_store(&fake_count[i].fail_marks, 0);
        atomic_store(&fake_count[i].lost, false);
    }
}

uint64_t fake_work(tt_stream *s)
{
    return atomic_fetch_add(&s->queue->queued, 1) + 1;
}

void fake_pass(tt_stream *s)
{
    atomic_store(&s->queue->done, atomic_load(&s->queue->queued));
}
