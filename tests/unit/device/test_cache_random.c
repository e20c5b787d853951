/* SPDX-License-Identifier: Apache-2.0 */
/* 10,000 random operations on the caching allocator, over 3 streams of 2 devices: after each one the books
 * are exact, blocks do not overlap, and nothing is handed out that a stream may still use. First over an accelerator
 * whose queues are advanced by hand, then on the devices that are here. */
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "books.h"
#include "device/cache.h"
#include "fake_accel.h"
#include "tutti/testing.h"

#define N_DEVICES 2
#define N_STREAMS 3
#define N_LIVE 200
#define N_PAST 400
#define MB ((size_t)1 << 20)

typedef struct piece {
    char *p;
    size_t bytes;
    int stream;
    uint64_t used[N_STREAMS]; /* the last work of each stream that uses it; 0: none */
    bool recorded[N_STREAMS];
} piece;

typedef struct model {
    tt_device d;
    tt_stream *streams[N_STREAMS];
    bool fake;
    piece live[N_LIVE];
    int n_live;
    piece past[N_PAST]; /* freed ones, the oldest forgotten */
    int n_past;
    int64_t requested, allocations, frees;
    tt_memory_report top; /* peaks seen */
    bool retried;
} model;

static uint64_t state;

static uint64_t below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static size_t any_size(void)
{
    switch (below(8)) {
    case 0:
        return 1 + below(20 * MB);
    case 1:
        return 1 + below(3 * MB);
    case 2:
        return 512 * (1 + below(4));
    default:
        return 1 + below((size_t)1 << (4 + below(16)));
    }
}

static bool overlap(const piece *a, const piece *b)
{
    return a->p < b->p + b->bytes && b->p < a->p + a->bytes;
}

/* A new piece is nobody's, and work that used it before is done or ordered before its own stream's. */
static void check_new(const model *m, const piece *n)
{
    for (int i = 0; i < m->n_live; i++)
        TT_REQUIRE(!overlap(&m->live[i], n));
    for (int i = 0; m->fake && i < m->n_past; i++) {
        if (!overlap(&m->past[i], n))
            continue;
        for (int s = 0; s < N_STREAMS; s++)
            if (s != n->stream && m->past[i].used[s] != 0)
                TT_REQUIRE_GE(atomic_load(&m->streams[s]->queue->done), m->past[i].used[s]);
    }
}

static void step_alloc(model *m)
{
    piece n = { .stream = (int)below(N_STREAMS), .bytes = any_size() };

    if (m->n_live == N_LIVE)
        return;
    n.p = tti_cache_alloc(m->d, m->streams[n.stream], n.bytes);
    if (n.p == NULL) { /* a limit is set now and then */
        TT_REQUIRE_EQ(tt_last_status(), TT_ERR_NOMEM);
        return;
    }
    check_new(m, &n);
    if (m->fake)
        n.used[n.stream] = fake_work(m->streams[n.stream]);
    m->live[m->n_live++] = n;
    m->requested += (int64_t)n.bytes;
    m->allocations++;
}

static void step_free(model *m)
{
    int i;
    piece gone;

    if (m->n_live == 0)
        return;
    i = (int)below((uint64_t)m->n_live);
    gone = m->live[i];
    m->live[i] = m->live[--m->n_live];
    tti_cache_free(m->d, gone.p, gone.bytes);
    m->requested -= (int64_t)gone.bytes;
    m->frees++;
    m->past[m->n_past < N_PAST ? m->n_past++ : (int)below(N_PAST)] = gone;
}

/* Another stream uses a piece, and says so. */
static void step_record(model *m)
{
    int s = (int)below(N_STREAMS);
    piece *x;

    if (m->n_live == 0)
        return;
    x = &m->live[below((uint64_t)m->n_live)];
    TT_REQUIRE_OK(tti_cache_record_stream(m->d, x->p, m->streams[s]));
    if (m->fake)
        x->used[s] = fake_work(m->streams[s]);
    else
        TT_REQUIRE_OK(m->streams[s]->accel->sleep(m->streams[s]->queue, 1000));
}

static void step_pass(model *m)
{
    tt_stream *s = m->streams[below(N_STREAMS)];

    if (!m->fake)
        TT_REQUIRE_OK(s->accel->queue_sync(s->queue));
    else if (below(2) == 0)
        fake_pass(s);
    else if (atomic_load(&s->queue->done) < atomic_load(&s->queue->queued))
        atomic_fetch_add(&s->queue->done, 1);
}

static void step_rare(model *m)
{
    tt_memory_report before, after;

    tti_cache_report(m->d, &before);
    switch (below(4)) {
    case 0:
        if (before.num_device_alloc == 0)
            break; /* the cache of a fake device is made with its first block */
        tti_cache_empty(m->d);
        tti_cache_report(m->d, &after);
        TT_REQUIRE_EQ(after.num_sync_all_streams, before.num_sync_all_streams + 1);
        TT_REQUIRE_LE(after.reserved_bytes.all.current, before.reserved_bytes.all.current);
        TT_REQUIRE_GE(after.num_device_free, before.num_device_free);
        TT_REQUIRE_EQ(after.num_device_alloc, before.num_device_alloc);
        break;
    case 1:
        tti_cache_reset_peak(m->d);
        memset(&m->top, 0, sizeof m->top);
        break;
    case 2:
        TT_REQUIRE_OK(tti_cache_limit(m->d, m->streams[0]->accel, below(400) * MB));
        break;
    default:
        TT_REQUIRE_OK(tti_cache_limit(m->d, m->streams[0]->accel, (uint64_t)8 << 30));
        break;
    }
}

/* The peak is the largest value that was ever seen after an operation. */
static void peak_check(const tt_memory_row *now, tt_memory_row *top, bool exact)
{
    const tt_memory_tally *a = &now->all;
    tt_memory_tally *b = &top->all;

    for (int i = 0; i < 3; i++, a++, b++) {
        if (a->current > b->peak)
            b->peak = a->current;
        if (exact)
            TT_REQUIRE_EQ(a->peak, b->peak);
        else
            TT_REQUIRE_GE(a->peak, b->peak);
        b->peak = a->peak;
    }
}

static void check(model *m)
{
    tt_memory_report r = books_of(m->d);

    TT_REQUIRE_EQ(r.allocations.all.current, m->n_live);
    TT_REQUIRE_EQ(r.allocations.all.allocated, m->allocations);
    TT_REQUIRE_EQ(r.allocations.all.freed, m->frees);
    TT_REQUIRE_GE(r.requested_bytes.all.current, m->requested);
    if (r.active.all.current == r.allocations.all.current)
        TT_REQUIRE_EQ(r.requested_bytes.all.current, m->requested);
    peak_check(&r.allocations, &m->top.allocations, true);
    peak_check(&r.allocated_bytes, &m->top.allocated_bytes, true);
    peak_check(&r.segments, &m->top.segments, true);
    peak_check(&r.reserved_bytes, &m->top.reserved_bytes, true);
    /* Pending blocks come free inside an operation, and on real devices at any time. */
    peak_check(&r.active, &m->top.active, m->fake);
    peak_check(&r.active_bytes, &m->top.active_bytes, m->fake);
    peak_check(&r.requested_bytes, &m->top.requested_bytes, m->fake);
    peak_check(&r.inactive_split, &m->top.inactive_split, false);
    peak_check(&r.inactive_split_bytes, &m->top.inactive_split_bytes, false);
    if (m->fake)
        TT_REQUIRE_EQ(r.reserved_bytes.all.current, fake_count[m->d.index].held);
}

static void finish(model *m)
{
    while (m->n_live > 0)
        step_free(m);
    tti_cache_empty(m->d);
    check(m);
    tti_cache_report(m->d, &m->top);
    TT_REQUIRE_EQ(m->top.reserved_bytes.all.current, 0);
    TT_REQUIRE_EQ(m->top.active.all.current, 0);
    TT_REQUIRE_EQ(m->top.requested_bytes.all.current, 0);
    TT_REQUIRE_EQ(m->top.inactive_split.all.current, 0);
}

static void run(model *models, int steps)
{
    state = tt_test_seed();
    TT_NOTE("seed %llu", (unsigned long long)state);
    for (int i = 0; i < steps; i++) {
        model *m = &models[below(N_DEVICES)];
        uint64_t what = below(100);

        if (what < 40)
            step_alloc(m);
        else if (what < 75)
            step_free(m);
        else if (what < 85)
            step_record(m);
        else if (what < 97)
            step_pass(m);
        else
            step_rare(m);
        check(m);
    }
    for (int i = 0; i < N_DEVICES; i++)
        finish(&models[i]);
}

TT_TEST_LIMIT(cache_random, books_are_exact_over_10000_operations, 120)
{
    static model models[N_DEVICES];

    fake_reset();
    for (int i = 0; i < N_DEVICES; i++) {
        models[i].fake = true;
        models[i].d = fake_device(i);
        for (int s = 0; s < N_STREAMS; s++)
            models[i].streams[s] = fake_stream(i, s);
    }
    run(models, 10000);
    for (int i = 0; i < N_DEVICES; i++) {
        TT_REQUIRE_EQ(fake_count[i].held, 0);
        TT_REQUIRE_EQ(fake_count[i].marks, 0);
        TT_REQUIRE_EQ(fake_count[i].n_new, fake_count[i].n_free);
    }
}

TT_TEST_LIMIT(cache_random, books_are_exact_on_real_devices, 240)
{
    static model models[N_DEVICES];

    if (tt_device_count(TT_DEVICE_CL) < N_DEVICES)
        TT_SKIP("two devices are needed: %s", tt_device_missing(TT_DEVICE_CL));
    for (int i = 0; i < N_DEVICES; i++) {
        models[i].d = tt_cl(i);
        models[i].streams[0] = tt_stream_default(tt_cl(i));
        for (int s = 1; s < N_STREAMS; s++)
            models[i].streams[s] = tt_stream_new(tt_cl(i), NULL);
        for (int s = 0; s < N_STREAMS; s++)
            TT_REQUIRE_NOT_NULL(models[i].streams[s]);
    }
    run(models, 10000);
    for (int i = 0; i < N_DEVICES; i++) {
        uint64_t free_bytes, total;

        TT_REQUIRE_OK(tt_memory_info(tt_cl(i), &free_bytes, &total));
        TT_REQUIRE_EQ(free_bytes, total);
        for (int s = 1; s < N_STREAMS; s++)
            tt_stream_free(models[i].streams[s]);
    }
}

/* ---- quick operations ------------------------------------------------------------------------------- */

#define N_TWIN 64

/* The same operations on two devices. The books of one are read after each, those of the other now and then: no
 * peak between two readings may be missed. */
typedef struct twin {
    void *p[2][N_TWIN];
    size_t bytes[N_TWIN];
} twin;

static void twin_alloc(twin *t, int i, size_t bytes)
{
    for (int d = 0; d < 2; d++) {
        t->p[d][i] = tti_cache_alloc(fake_device(d), fake_stream(d, 0), bytes);
        TT_REQUIRE_NOT_NULL(t->p[d][i]);
    }
    t->bytes[i] = bytes;
}

static void twin_free(twin *t, int i)
{
    for (int d = 0; d < 2; d++)
        tti_cache_free(fake_device(d), t->p[d][i], t->bytes[i]);
    t->bytes[i] = 0;
}

static void twin_step(twin *t, bool tiny)
{
    static const size_t sizes[] = {
        1, 500, 512, 700, 1024, 4000, 70000, 1 << 20, 3 << 20, 12 << 20
    };
    int i = (int)below(N_TWIN);

    if (t->bytes[i] != 0)
        twin_free(t, i);
    else
        twin_alloc(t, i, sizes[below(tiny ? 3 : below(100) == 0 ? 10 : 7)]);
}

/* So many blocks of each size that no request needs a new one for a while. */
static void twin_fill(twin *t)
{
    static const size_t sizes[] = { 512, 1024, 4000, 70000 };
    static twin more[4];

    for (int i = 0; i < N_TWIN; i++)
        if (t->bytes[i] != 0)
            twin_free(t, i);
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < N_TWIN; i++)
            twin_alloc(&more[s], i, sizes[s]);
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < N_TWIN; i++)
            twin_free(&more[s], i);
    for (int d = 0; d < 2; d++)
        tti_cache_reset_peak(fake_device(d));
}

/* A block that is pending all the time makes active blocks differ from used ones. */
static void pend_one(void)
{
    for (int d = 0; d < 2; d++) {
        void *p = tti_cache_alloc(fake_device(d), fake_stream(d, 0), 600);

        TT_REQUIRE_OK(tti_cache_record_stream(fake_device(d), p, fake_stream(d, 1)));
        fake_work(fake_stream(d, 1));
        tti_cache_free(fake_device(d), p, 600);
    }
}

TT_TEST_LIMIT(cache_random, no_peak_of_quick_operations_is_missed, 120)
{
    static twin t;
    tt_memory_report often, rarely;

    fake_reset();
    state = tt_test_seed();
    for (int i = 0; i < 60000; i++) {
        if (i % 600 == 200)
            twin_fill(&t);
        if (i == 20000)
            pend_one();
        twin_step(&t, i / 300 % 2 == 1); /* many blocks and few bytes, the other way round */
        tti_cache_report(fake_device(0), &often);
        if (below(200) == 0) {
            tti_cache_report(fake_device(1), &rarely);
            TT_REQUIRE_MEM(&often, &rarely, sizeof often);
        }
        if (below(5000) == 0)
            for (int d = 0; d < 2; d++)
                tti_cache_empty(fake_device(d));
    }
    for (int i = 0; i < N_TWIN; i++)
        if (t.bytes[i] != 0)
            twin_free(&t, i);
    tti_cache_report(fake_device(0), &often);
    tti_cache_report(fake_device(1), &rarely);
    TT_CHECK_MEM(&often, &rarely, sizeof often);
}
