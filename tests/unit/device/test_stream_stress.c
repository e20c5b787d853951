/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on all devices at once: their own streams, shared ones, memory, copies, events. */
#include <pthread.h>

#include "base/philox.h"
#include "cl_fixture.h"

enum { N = 300, THREADS = 6, ROUNDS = 60 };

typedef struct worker {
    pthread_t thread;
    int number;
    uint64_t seed;
    bool good;
} worker;

/* From one device through another and back: every number is checked at the end. */
static bool one_round(tt_device here, tt_device there, int32_t value)
{
    int32_t *x = fixture_alloc(here, N), *y = fixture_alloc(there, N), *z = fixture_alloc(here, N);
    int32_t host[N];
    tt_event *e = tt_event_new(NULL);
    bool good = x != NULL && y != NULL && z != NULL && e != NULL;

    good = good && fixture_fill(here, x, value, N) == TT_OK &&
           tti_copy_across(there, y, here, x, sizeof host) == TT_OK &&
           fixture_scale(there, y, y, N) == TT_OK &&
           tt_event_record(e, tti_stream_of(there)) == TT_OK &&
           tt_stream_wait(tti_stream_of(here), e) == TT_OK &&
           tti_copy_across(here, z, there, y, sizeof host) == TT_OK &&
           tti_driver_of(here)->copy_out(here.index, host, z, sizeof host) == TT_OK;
    for (int i = 0; good && i < N; i++)
        good = host[i] == value * 3 + 1;
    tt_event_free(e);
    fixture_free(here, x, N);
    fixture_free(there, y, N);
    fixture_free(here, z, N);
    return good;
}

static void *work(void *arg)
{
    worker *w = arg;
    int n = tt_device_count(TT_DEVICE_CL);

    w->good = true;
    for (int i = 0; i < ROUNDS && w->good; i++) {
        tti_philox_block block = tti_philox(w->seed, (uint64_t)i, (uint64_t)w->number);
        const uint32_t *r = (const uint32_t *)&block;
        tt_device here, there;
        tt_stream *own = NULL;

        here = tt_cl((int)(r[0] % (uint32_t)n));
        there = tt_cl((int)(r[1] % (uint32_t)n));
        if (r[2] % 2 == 0)
            own = tt_stream_new(here, NULL);
        TT_STREAM_SCOPE(own)
        w->good = one_round(here, there, (int32_t)(r[3] % 1000));
        tt_stream_free(own);
        if (r[2] % 7 == 0)
            w->good = w->good && tt_device_sync(there) == TT_OK;
    }
    return NULL;
}

TT_TEST_LIMIT(stream, threads_do_everything_at_once, 300)
{
    worker all[THREADS];

    need_devices(2);
    for (int i = 0; i < THREADS; i++) {
        all[i] = (worker){ .number = i, .seed = tt_test_seed() };
        TT_REQUIRE_EQ(pthread_create(&all[i].thread, NULL, work, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i].thread, NULL);
        TT_CHECK(all[i].good);
    }
    for (int i = 0; i < tt_device_count(TT_DEVICE_CL); i++)
        TT_CHECK_OK(tt_device_sync(tt_cl(i)));
}
