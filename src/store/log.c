/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes records of the file store's log; knows nothing of files. */
#include "store/log.h"

#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "store/wire.h"

static uint32_t checksum(const uint8_t *p, size_t n)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), p, n);
}

static tt_status apply_one(tti_table *t, uint32_t op, const char *key, const uint8_t *data,
                           size_t size)
{
    switch (op) {
    case TTI_LOG_SET:
        return tti_table_set(t, key, data, size);
    case TTI_LOG_APPEND:
        return tti_table_append(t, key, data, size);
    default:
        tti_table_remove(t, key);
        return TT_OK;
    }
}

tt_status tti_log_apply(const uint8_t *p, size_t n, tti_table *t, size_t *used_p, size_t *need_p)
{
    char key[TT_STORE_MAX_KEY + 1];

    *used_p = *need_p = 0;
    while (n - *used_p >= TTI_LOG_HEAD) {
        const uint8_t *r = p + *used_p;
        uint32_t op = tti_load32(r + 4), key_size = tti_load32(r + 8), size = tti_load32(r + 12);
        size_t whole = (size_t)TTI_LOG_HEAD + key_size + size;

        if (op < TTI_LOG_SET || op > TTI_LOG_REMOVE || key_size < 1 ||
            key_size > TT_STORE_MAX_KEY || size > TT_STORE_MAX_VALUE)
            return TT_FAIL(TT_ERR_FORMAT, "store: file: no record where one should begin");
        *need_p = whole;
        if (whole > n - *used_p)
            return TT_OK;
        if (tti_load32(r) != checksum(r + 4, whole - 4))
            return TT_FAIL(TT_ERR_FORMAT, "store: file: wrong checksum of a record");
        memcpy(key, r + TTI_LOG_HEAD, key_size);
        key[key_size] = '\0';
        if (strlen(key) != key_size)
            return TT_FAIL(TT_ERR_FORMAT, "store: file: a key has a zero byte");
        TT_TRY(apply_one(t, op, key, r + TTI_LOG_HEAD + key_size, size));
        *used_p += whole;
        *need_p = 0;
    }
    return TT_OK;
}

/* Writes a record to `r`, which has room for it; how many bytes it has. */
static size_t put_record(uint8_t *r, tti_log_op op, const char *key, const void *data, size_t size)
{
    size_t key_size = strlen(key), whole = TTI_LOG_HEAD + key_size + size;

    tti_store32(r + 4, (uint32_t)op);
    tti_store32(r + 8, (uint32_t)key_size);
    tti_store32(r + 12, (uint32_t)size);
    memcpy(r + TTI_LOG_HEAD, key, key_size);
    if (size > 0)
        memcpy(r + TTI_LOG_HEAD + key_size, data, size);
    tti_store32(r, checksum(r + 4, whole - 4));
    return whole;
}

uint8_t *tti_log_record(tti_log_op op, const char *key, const void *data, size_t size,
                        size_t *record_size_p)
{
    uint8_t *r = tti_malloc(TTI_LOG_HEAD + strlen(key) + size);

    if (r != NULL)
        *record_size_p = put_record(r, op, key, data, size);
    return r;
}

size_t tti_log_live_size(const tti_table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_buckets; i++)
        for (const tti_entry *e = t->buckets[i]; e != NULL; e = e->next)
            n += TTI_LOG_HEAD + strlen(e->key) + e->size;
    return n;
}

uint8_t *tti_log_live(const tti_table *t)
{
    uint8_t *all = tti_malloc(tti_log_live_size(t) + 1), *r = all;

    for (size_t i = 0; i < t->n_buckets && all != NULL; i++)
        for (const tti_entry *e = t->buckets[i]; e != NULL; e = e->next)
            r += put_record(r, TTI_LOG_SET, e->key, e->data, e->size);
    return all;
}
