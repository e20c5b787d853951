/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for a key to change and tells its owner. It looks up at least every 100 ms, to
 * see whether it is to end. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store.h"

#define SLICE_MS 100

struct tt_store_watch {
    /* Fixed after tt_store_watch_new. */
    tt_store *store;
    char *key;
    tt_store_watch_fn fn;
    void *ctx;
    pthread_t thread;
    bool started;

    atomic_bool stopping;
};

static void *watch_main(void *arg)
{
    tt_store_watch *w = arg;
    tt_blob seen = { NULL, 0 };

    while (!atomic_load_explicit(&w->stopping, memory_order_acquire)) {
        tt_blob now;
        tt_status st = tt_store_wait_change(w->store, w->key, seen.data, seen.size, SLICE_MS, &now);

        if (st == TT_ERR_TIMEOUT)
            continue;
        if (st != TT_OK) {
            tti_log(TT_LOG_WARN, "store: watch of key \"%.200s\" ends: %s", w->key,
                    tti_last_error());
            break;
        }
        tt_blob_free(&seen);
        seen = now;
        if (!atomic_load_explicit(&w->stopping, memory_order_acquire))
            w->fn(w->ctx, w->key, seen.data, seen.size);
    }
    tt_blob_free(&seen);
    return NULL;
}

tt_store_watch *tt_store_watch_new(tt_store *s, const char *key, tt_store_watch_fn fn, void *ctx)
{
    tt_store_watch *w;
    tti_keys k;

    if (fn == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "store: watch: the function is NULL");
    if (tti_keys_init(&k, s, "store: watch", &key, 1) != TT_OK)
        return NULL;
    tti_keys_fini(&k);
    w = tti_calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->fn = fn;
    w->ctx = ctx;
    w->key = tti_strdup(key);
    w->store = tt_store_retain(s);
    w->started = w->key != NULL && pthread_create(&w->thread, NULL, watch_main, w) == 0;
    if (!w->started) {
        tt_store_watch_free(w);
        return TT_FAIL_NULL(TT_ERR_NOMEM, "store: watch: no thread could be started");
    }
    return w;
}

void tt_store_watch_free(tt_store_watch *w)
{
    if (w == NULL)
        return;
    atomic_store_explicit(&w->stopping, true, memory_order_release);
    if (w->started)
        pthread_join(w->thread, NULL);
    tt_store_free(w->store);
    tti_mfree(w->key);
    tti_mfree(w);
}
