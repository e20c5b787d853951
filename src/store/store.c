/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls: arguments are checked, keys get their prefix, the store's table does the work. */
#include "base/error.h"
#include "store/store.h"

#include <string.h>

#include "base/mem.h"
#include "base/refcount.h"

tt_store *tti_store_new(const tt_store_ops *ops, void *ctx)
{
    tt_store *s = tti_calloc(1, sizeof *s);
    tti_core *core = tti_calloc(1, sizeof *core);
    char *prefix = tti_strdup("");

    if (s == NULL || core == NULL || prefix == NULL) {
        tti_mfree(prefix);
        tti_mfree(core);
        tti_mfree(s);
        if (ops->free != NULL)
            ops->free(ctx);
        return NULL;
    }
    atomic_init(&core->refs, 1);
    core->ops = *ops;
    core->ctx = ctx;
    atomic_init(&s->refs, 1);
    atomic_init(&s->timeout_ms, TTI_STORE_TIMEOUT_MS);
    s->core = core;
    s->prefix = prefix;
    return s;
}

void *tti_store_ctx(const tt_store *s, void (*free_fn)(void *ctx))
{
    return s != NULL && s->core->ops.free == free_fn ? s->core->ctx : NULL;
}

/* A view of the core of `store` with a prefix of `size` bytes, which it takes. */
static tt_store *view_new(tt_store *store, char *prefix, size_t size)
{
    tt_store *s = tti_calloc(1, sizeof *s);

    if (s == NULL) {
        tti_mfree(prefix);
        return NULL;
    }
    atomic_init(&s->refs, 1);
    atomic_init(&s->timeout_ms, tt_store_timeout(store));
    tti_ref(&store->core->refs);
    s->core = store->core;
    s->prefix = prefix;
    s->prefix_size = size;
    return s;
}

tt_store *tti_store_root(tt_store *s)
{
    char *prefix = tti_strdup("");

    return prefix == NULL ? NULL : view_new(s, prefix, 0);
}

tt_store *tt_store_prefix_new(const char *prefix, tt_store *store)
{
    size_t size;
    char *full;

    if (store == NULL)
        return TT_NULL_GIVEN("store: prefix", "a store");
    if (prefix == NULL || prefix[0] == '\0')
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "store: prefix: expected a text that is not empty, got %s",
                            prefix == NULL ? "NULL" : "\"\"");
    size = strnlen(prefix, TT_STORE_MAX_KEY);
    if (store->prefix_size + size + 1 >= TT_STORE_MAX_KEY)
        return TT_FAIL_NULL(TT_ERR_INVALID, "store: prefix \"%.60s...\" is too long", prefix);
    full = tti_malloc(store->prefix_size + size + 2);
    if (full == NULL)
        return NULL;
    memcpy(full, store->prefix, store->prefix_size);
    memcpy(full + store->prefix_size, prefix, size);
    memcpy(full + store->prefix_size + size, "/", 2);
    return view_new(store, full, store->prefix_size + size + 1);
}

tt_store *tt_store_user_new(const tt_store_ops *ops, void *ctx)
{
    if (ops == NULL || ops->abi != TT_STORE_ABI)
        return TT_FAIL_NULL(TT_ERR_INVALID, "store: table of functions: expected abi %d, got %s%u",
                            TT_STORE_ABI, ops == NULL ? "NULL " : "", ops == NULL ? 0 : ops->abi);
    if (ops->name == NULL || ops->set == NULL || ops->get == NULL || ops->add == NULL ||
        ops->wait == NULL || ops->check == NULL) {
        if (ops->free != NULL)
            ops->free(ctx);
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "store: table of functions: name, set, get, add, wait and check are "
                            "needed, and one is NULL");
    }
    return tti_store_new(ops, ctx);
}

tt_store *tt_store_retain(tt_store *s)
{
    if (s != NULL)
        tti_ref(&s->refs);
    return s;
}

void tt_store_free(tt_store *s)
{
    if (s == NULL || !tti_unref(&s->refs))
        return;
    if (tti_unref(&s->core->refs)) {
        if (s->core->ops.free != NULL)
            s->core->ops.free(s->core->ctx);
        tti_mfree(s->core);
    }
    tti_mfree(s->prefix);
    tti_mfree(s);
}

const char *tt_store_kind(const tt_store *s)
{
    return s == NULL ? "none" : s->prefix_size > 0 ? "prefix" : s->core->ops.name;
}

tt_status tt_store_set_timeout(tt_store *s, int timeout_ms)
{
    if (s == NULL)
        return tti_null_given("store: time-out", "a store");
    if (timeout_ms < 1)
        return TT_FAIL(TT_ERR_INVALID, "store: time-out: expected at least 1 ms, got %d",
                       timeout_ms);
    atomic_store_explicit(&s->timeout_ms, timeout_ms, memory_order_relaxed);
    return TT_OK;
}

int tt_store_timeout(const tt_store *s)
{
    return s == NULL ? TTI_STORE_TIMEOUT_MS
                     : atomic_load_explicit(&s->timeout_ms, memory_order_relaxed);
}

void tt_blob_free(tt_blob *blob)
{
    if (blob == NULL)
        return;
    tti_mfree(blob->data);
    *blob = (tt_blob){ NULL, 0 };
}

tt_status tt_blob_copy(const void *data, size_t size, tt_blob *blob_p)
{
    uint8_t *copy = size < SIZE_MAX ? tti_malloc(size + 1) : NULL;

    if (copy == NULL)
        return TT_FAIL(TT_ERR_NOMEM, "store: a value of %zu bytes", size);
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = 0;
    *blob_p = (tt_blob){ copy, size };
    return TT_OK;
}

/* ---- calls on one key -------------------------------------------------------------------- */

tt_status tt_store_set(tt_store *s, const char *key, const void *data, size_t size)
{
    tti_keys k;
    tt_status st;

    TT_TRY(tti_keys_init(&k, s, "store: set", &key, 1));
    st = tti_check_value("store: set", k.one, data, size);
    if (st == TT_OK)
        st = s->core->ops.set(s->core->ctx, k.one, data, size);
    if (st == TT_OK)
        tti_error_passed();
    tti_keys_fini(&k);
    return st;
}

tt_status tt_store_get(tt_store *s, const char *key, tt_blob *blob_p)
{
    tti_keys k;
    tt_status st;

    if (blob_p == NULL)
        return TT_FAIL(TT_ERR_INVALID, "store: get: the place for the value is NULL");
    TT_TRY(tti_keys_init(&k, s, "store: get", &key, 1));
    st = s->core->ops.get(s->core->ctx, k.one, tt_store_timeout(s), blob_p);
    if (st == TT_OK)
        tti_error_passed();
    tti_keys_fini(&k);
    return st;
}

tt_status tt_store_add(tt_store *s, const char *key, int64_t delta, int64_t *value_p)
{
    int64_t value;
    tti_keys k;
    tt_status st;

    TT_TRY(tti_keys_init(&k, s, "store: add", &key, 1));
    st = s->core->ops.add(s->core->ctx, k.one, delta, &value);
    if (st == TT_OK)
        tti_error_passed();
    tti_keys_fini(&k);
    if (st == TT_OK && value_p != NULL)
        *value_p = value;
    return st;
}

tt_status tt_store_compare_set(tt_store *s, const char *key, const void *expected,
                               size_t expected_size, const void *desired, size_t desired_size,
                               tt_blob *blob_p)
{
    tt_blob after = { NULL, 0 };
    tti_keys k;
    tt_status st;

    TT_TRY(tti_keys_init(&k, s, "store: compare_set", &key, 1));
    st = tti_check_value("store: compare_set", k.one, expected, expected_size);
    if (st == TT_OK)
        st = tti_check_value("store: compare_set", k.one, desired, desired_size);
    if (st == TT_OK && s->core->ops.compare_set == NULL)
        st = TT_FAIL(TT_ERR_UNSUPPORTED, "store: %s stores have no compare_set", s->core->ops.name);
    if (st == TT_OK)
        st = s->core->ops.compare_set(s->core->ctx, k.one, expected, expected_size, desired,
                                      desired_size, &after);
    tti_keys_fini(&k);
    if (st == TT_OK && blob_p != NULL)
        *blob_p = after;
    else
        tt_blob_free(&after);
    return st;
}

tt_status tt_store_delete(tt_store *s, const char *key, bool *deleted_p)
{
    bool deleted = false;
    tti_keys k;
    tt_status st;

    TT_TRY(tti_keys_init(&k, s, "store: delete", &key, 1));
    if (s->core->ops.remove == NULL)
        st = TT_FAIL(TT_ERR_UNSUPPORTED, "store: %s stores have no delete", s->core->ops.name);
    else
        st = s->core->ops.remove(s->core->ctx, k.one, &deleted);
    tti_keys_fini(&k);
    if (st == TT_OK && deleted_p != NULL)
        *deleted_p = deleted;
    return st;
}

tt_status tt_store_count(tt_store *s, int64_t *n_p)
{
    if (s == NULL || n_p == NULL)
        return tti_null_given("store: count", "a store and a place for the number");
    if (s->core->ops.count == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "store: %s stores have no count", s->core->ops.name);
    return s->core->ops.count(s->core->ctx, s->prefix, n_p);
}
