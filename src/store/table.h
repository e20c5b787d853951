/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in memory: what the memory store guards with a mutex, what the file store fills from its
 * log, and what the TCP server answers from. No locks of its own. */
#ifndef TTI_STORE_TABLE_H
#define TTI_STORE_TABLE_H

#include "base/status.h"
#include "tutti/store.h"

typedef struct tti_entry {
    struct tti_entry *next; /* in its bucket */
    uint64_t hash;
    char *key;     /* ends with a zero byte */
    uint8_t *data; /* has one more byte, zero, behind its end */
    size_t size, cap;
} tti_entry;

typedef struct tti_table {
    tti_entry **buckets;
    size_t n_buckets; /* a power of two, or 0 */
    size_t n;
} tti_table;

uint64_t tti_key_hash(const char *key);

/* The entry, or NULL. It stays valid until the next change of the table. */
tti_entry *tti_table_find(const tti_table *t, const char *key);
tt_status tti_table_set(tti_table *t, const char *key, const void *data, size_t size);
tt_status tti_table_append(tti_table *t, const char *key, const void *data, size_t size);
bool tti_table_remove(tti_table *t, const char *key);
int64_t tti_table_count(const tti_table *t, const char *prefix);
void tti_table_fini(tti_table *t);

/* What the text at key plus delta would be; the table is not changed. */
tt_status tti_table_sum(const tti_table *t, const char *key, int64_t delta, int64_t *sum_p);
/* Whether compare_set would replace: the value is `expected`, or size is 0 and the key missing or empty. */
bool tti_table_matches(const tti_table *t, const char *key, const void *expected, size_t size);
/* Whether wait_change is over: the key exists and differs from `seen` (size 0 with NULL: exists). */
bool tti_table_differs(const tti_table *t, const char *key, const void *seen, size_t size);
/* A copy of an entry's value; an empty one for NULL. */
tt_status tti_entry_blob(const tti_entry *e, tt_blob *blob_p);
/* Whether all keys exist. */
bool tti_table_has(const tti_table *t, const char *const *keys, int n);
/* Copies of all values, or none. All keys exist. */
tt_status tti_table_blobs(const tti_table *t, const char *const *keys, int n, tt_blob *blobs);
/* Fails with TIMEOUT, naming the keys that are missing. */
tt_status tti_table_timeout(const tti_table *t, const char *const *keys, int n, int timeout_ms);

#endif
