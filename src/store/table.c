/* SPDX-License-Identifier: Apache-2.0 */
/* A chained hash table of keys and values. */
#include "store/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/store.h"

uint64_t tti_key_hash(const char *key)
{
    uint64_t h = 1469598103934665603u;

    for (; *key != '\0'; key++)
        h = (h ^ (uint8_t)*key) * 1099511628211u;
    return h ^ (h >> 32);
}

static tti_entry **slot_of(const tti_table *t, const char *key, uint64_t hash)
{
    tti_entry **e = &t->buckets[hash & (t->n_buckets - 1)];

    while (*e != NULL && ((*e)->hash != hash || strcmp((*e)->key, key) != 0))
        e = &(*e)->next;
    return e;
}

tti_entry *tti_table_find(const tti_table *t, const char *key)
{
    return t->n == 0 ? NULL : *slot_of(t, key, tti_key_hash(key));
}

static tt_status grow(tti_table *t)
{
    size_t n = t->n_buckets == 0 ? 64 : t->n_buckets * 2;
    tti_entry **buckets;

    if (t->n < t->n_buckets)
        return TT_OK;
    buckets = tti_calloc(n, sizeof *buckets);
    if (buckets == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < t->n_buckets; i++) {
        for (tti_entry *e = t->buckets[i], *next; e != NULL; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (n - 1)];
            buckets[e->hash & (n - 1)] = e;
        }
    }
    tti_mfree(t->buckets);
    t->buckets = buckets;
    t->n_buckets = n;
    return TT_OK;
}

static void entry_free(tti_entry *e)
{
    tti_mfree(e->key);
    tti_mfree(e->data);
    tti_mfree(e);
}

/* Room for `size` bytes and the zero behind them. */
static tt_status entry_reserve(tti_entry *e, size_t size)
{
    size_t cap = size + 1;
    uint8_t *data;

    if (cap <= e->cap)
        return TT_OK;
    if (e->cap > 0 && cap < e->cap * 2) /* appends, again and again */
        cap = e->cap * 2;
    data = tti_realloc(e->data, cap);
    if (data == NULL)
        return TT_ERR_NOMEM;
    e->data = data;
    e->cap = cap;
    return TT_OK;
}

/* A new, empty entry that is not in the table yet. */
static tti_entry *entry_new(const char *key, size_t size)
{
    tti_entry *e = tti_calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    e->key = tti_strdup(key);
    e->hash = tti_key_hash(key);
    if (e->key == NULL || entry_reserve(e, size) != TT_OK) {
        entry_free(e);
        return NULL;
    }
    return e;
}

static tt_status put(tti_table *t, const char *key, const void *data, size_t size, bool append)
{
    tti_entry *e;
    size_t old;

    TT_TRY(grow(t));
    e = *slot_of(t, key, tti_key_hash(key));
    old = e != NULL && append ? e->size : 0;
    if (size > TT_STORE_MAX_VALUE - old)
        return TT_FAIL(TT_ERR_INVALID, "store: key \"%.200s\": %zu bytes, at most %zu are allowed",
                       key, old + size, TT_STORE_MAX_VALUE);
    if (e == NULL) {
        e = entry_new(key, size);
        if (e == NULL)
            return TT_ERR_NOMEM;
        *slot_of(t, key, e->hash) = e;
        t->n++;
    } else {
        TT_TRY(entry_reserve(e, old + size));
    }
    if (size > 0)
        memcpy(e->data + old, data, size);
    e->size = old + size;
    e->data[e->size] = 0;
    return TT_OK;
}

tt_status tti_table_set(tti_table *t, const char *key, const void *data, size_t size)
{
    return put(t, key, data, size, false);
}

tt_status tti_table_append(tti_table *t, const char *key, const void *data, size_t size)
{
    return put(t, key, data, size, true);
}

bool tti_table_remove(tti_table *t, const char *key)
{
    tti_entry **slot, *e;

    if (t->n == 0)
        return false;
    slot = slot_of(t, key, tti_key_hash(key));
    e = *slot;
    if (e == NULL)
        return false;
    *slot = e->next;
    t->n--;
    entry_free(e);
    return true;
}

int64_t tti_table_count(const tti_table *t, const char *prefix)
{
    size_t length = strlen(prefix);
    int64_t n = 0;

    if (length == 0)
        return (int64_t)t->n;
    for (size_t i = 0; i < t->n_buckets; i++)
        for (const tti_entry *e = t->buckets[i]; e != NULL; e = e->next)
            n += strncmp(e->key, prefix, length) == 0;
    return n;
}

void tti_table_fini(tti_table *t)
{
    for (size_t i = 0; i < t->n_buckets; i++) {
        for (tti_entry *e = t->buckets[i], *next; e != NULL; e = next) {
            next = e->next;
            entry_free(e);
        }
    }
    tti_mfree(t->buckets);
    *t = (tti_table){ 0 };
}

tt_status tti_table_sum(const tti_table *t, const char *key, int64_t delta, int64_t *sum_p)
{
    const tti_entry *e = tti_table_find(t, key);
    const char *text = e != NULL ? (const char *)e->data : "0";
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || errno != 0 || (e != NULL && (size_t)(end - text) != e->size))
        return TT_FAIL(TT_ERR_INVALID,
                       "store: add: key \"%.200s\": expected a number, got \"%.40s\"", key, text);
    if (__builtin_add_overflow((int64_t)value, delta, sum_p))
        return TT_FAIL(TT_ERR_INVALID, "store: add: key \"%.200s\": %lld + %lld overflows", key,
                       value, (long long)delta);
    return TT_OK;
}

bool tti_table_matches(const tti_table *t, const char *key, const void *expected, size_t size)
{
    const tti_entry *e = tti_table_find(t, key);

    if (e == NULL)
        return size == 0;
    return e->size == size && (size == 0 || memcmp(e->data, expected, size) == 0);
}

bool tti_table_differs(const tti_table *t, const char *key, const void *seen, size_t size)
{
    const tti_entry *e = tti_table_find(t, key);

    if (e == NULL)
        return false;
    if (seen == NULL)
        return true;
    return e->size != size || (size > 0 && memcmp(e->data, seen, size) != 0);
}

tt_status tti_entry_blob(const tti_entry *e, tt_blob *blob_p)
{
    return e == NULL ? tt_blob_copy("", 0, blob_p) : tt_blob_copy(e->data, e->size, blob_p);
}

bool tti_table_has(const tti_table *t, const char *const *keys, int n)
{
    for (int i = 0; i < n; i++)
        if (tti_table_find(t, keys[i]) == NULL)
            return false;
    return true;
}

tt_status tti_table_blobs(const tti_table *t, const char *const *keys, int n, tt_blob *blobs)
{
    for (int i = 0; i < n; i++) {
        tt_status st = tti_entry_blob(tti_table_find(t, keys[i]), &blobs[i]);

        if (st != TT_OK) {
            while (i-- > 0)
                tt_blob_free(&blobs[i]);
            return st;
        }
    }
    return TT_OK;
}

tt_status tti_table_timeout(const tti_table *t, const char *const *keys, int n, int timeout_ms)
{
    tti_missing m;

    tti_missing_init(&m);
    for (int i = 0; i < n; i++)
        if (tti_table_find(t, keys[i]) == NULL)
            tti_missing_add(&m, keys[i]);
    return tti_missing_fail(&m, n, timeout_ms);
}
