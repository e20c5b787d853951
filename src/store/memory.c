/* SPDX-License-Identifier: Apache-2.0 */
/* The store inside one process: a table, a mutex, and a condition for those who wait. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/store.h"
#include "store/table.h"

typedef struct memory {
    pthread_mutex_t mu;
    pthread_cond_t changed; /* monotonic clock */
    tti_table table;        /* mu */
} memory;

/* Until something changes or the deadline passes; false in the latter case. */
static bool sleep_locked(memory *m, int64_t deadline)
{
    struct timespec t = { .tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000 };

    return pthread_cond_timedwait(&m->changed, &m->mu, &t) == 0;
}

/* After a change: wake everyone and let go of the lock. */
static tt_status changed_unlock(memory *m, tt_status st)
{
    if (st == TT_OK)
        pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->mu);
    return st;
}

static tt_status memory_set(void *ctx, const char *key, const void *data, size_t size)
{
    memory *m = ctx;

    pthread_mutex_lock(&m->mu);
    return changed_unlock(m, tti_table_set(&m->table, key, data, size));
}

static tt_status memory_multi_get(void *ctx, const char *const *keys, int n, int timeout_ms,
                                  tt_blob *blobs)
{
    int64_t deadline = tti_deadline(timeout_ms);
    memory *m = ctx;
    bool there;
    tt_status st;

    pthread_mutex_lock(&m->mu);
    while (!(there = tti_table_has(&m->table, keys, n)))
        if (!sleep_locked(m, deadline) && tti_ms_left(deadline) == 0)
            break;
    if (!there && !tti_table_has(&m->table, keys, n))
        st = tti_table_timeout(&m->table, keys, n, timeout_ms);
    else
        st = blobs != NULL ? tti_table_blobs(&m->table, keys, n, blobs) : TT_OK;
    pthread_mutex_unlock(&m->mu);
    return st;
}

static tt_status memory_get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    return memory_multi_get(ctx, &key, 1, timeout_ms, blob_p);
}

static tt_status memory_wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    return memory_multi_get(ctx, keys, n, timeout_ms, NULL);
}

static tt_status memory_check(void *ctx, const char *const *keys, int n, bool *present_p)
{
    memory *m = ctx;

    pthread_mutex_lock(&m->mu);
    *present_p = tti_table_has(&m->table, keys, n);
    pthread_mutex_unlock(&m->mu);
    return TT_OK;
}

static tt_status memory_add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    memory *m = ctx;
    char text[24];
    tt_status st;

    pthread_mutex_lock(&m->mu);
    st = tti_table_sum(&m->table, key, delta, value_p);
    if (st == TT_OK) {
        int size = snprintf(text, sizeof text, "%lld", (long long)*value_p);

        st = tti_table_set(&m->table, key, text, (size_t)size);
    }
    return changed_unlock(m, st);
}

static tt_status memory_compare_set(void *ctx, const char *key, const void *expected,
                                    size_t expected_size, const void *desired, size_t desired_size,
                                    tt_blob *blob_p)
{
    memory *m = ctx;
    tt_status st = TT_OK;

    pthread_mutex_lock(&m->mu);
    if (tti_table_matches(&m->table, key, expected, expected_size))
        st = tti_table_set(&m->table, key, desired, desired_size);
    if (st == TT_OK)
        st = tti_entry_blob(tti_table_find(&m->table, key), blob_p);
    return changed_unlock(m, st);
}

static tt_status memory_append(void *ctx, const char *key, const void *data, size_t size)
{
    memory *m = ctx;

    pthread_mutex_lock(&m->mu);
    return changed_unlock(m, tti_table_append(&m->table, key, data, size));
}

static tt_status memory_remove(void *ctx, const char *key, bool *removed_p)
{
    memory *m = ctx;

    pthread_mutex_lock(&m->mu);
    *removed_p = tti_table_remove(&m->table, key);
    pthread_mutex_unlock(&m->mu);
    return TT_OK;
}

static tt_status memory_count(void *ctx, const char *prefix, int64_t *n_p)
{
    memory *m = ctx;

    pthread_mutex_lock(&m->mu);
    *n_p = tti_table_count(&m->table, prefix);
    pthread_mutex_unlock(&m->mu);
    return TT_OK;
}

static tt_status memory_multi_set(void *ctx, const char *const *keys, const void *const *data,
                                  const size_t *sizes, int n)
{
    memory *m = ctx;
    tt_status st = TT_OK;

    pthread_mutex_lock(&m->mu);
    for (int i = 0; i < n && st == TT_OK; i++)
        st = tti_table_set(&m->table, keys[i], data[i], sizes[i]);
    return changed_unlock(m, st);
}

static tt_status memory_wait_change(void *ctx, const char *key, const void *seen, size_t seen_size,
                                    int timeout_ms, tt_blob *blob_p)
{
    int64_t deadline = tti_deadline(timeout_ms);
    memory *m = ctx;
    tt_status st;

    pthread_mutex_lock(&m->mu);
    while (!tti_table_differs(&m->table, key, seen, seen_size))
        if (!sleep_locked(m, deadline) && tti_ms_left(deadline) == 0)
            break;
    if (tti_table_differs(&m->table, key, seen, seen_size))
        st = tti_entry_blob(tti_table_find(&m->table, key), blob_p);
    else
        st = TT_FAIL(TT_ERR_TIMEOUT, "store: key \"%.200s\" did not change within %d ms", key,
                     timeout_ms);
    pthread_mutex_unlock(&m->mu);
    return st;
}

static void memory_free(void *ctx)
{
    memory *m = ctx;

    tti_table_fini(&m->table);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->mu);
    tti_mfree(m);
}

static const tt_store_ops memory_ops = {
    .abi = TT_STORE_ABI,
    .name = "memory",
    .set = memory_set,
    .get = memory_get,
    .add = memory_add,
    .wait = memory_wait,
    .check = memory_check,
    .compare_set = memory_compare_set,
    .append = memory_append,
    .remove = memory_remove,
    .count = memory_count,
    .multi_get = memory_multi_get,
    .multi_set = memory_multi_set,
    .wait_change = memory_wait_change,
    .free = memory_free,
};

tt_store *tt_store_memory_new(void)
{
    memory *m = tti_calloc(1, sizeof *m);
    pthread_condattr_t attr;

    if (m == NULL)
        return NULL;
    pthread_mutex_init(&m->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
    return tti_store_new(&memory_ops, m);
}
