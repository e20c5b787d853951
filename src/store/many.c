/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls on several keys, and those that a store's table may leave out: they then do with the
 * calls that every table has. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/store.h"

static int limit_of(const tt_store *s, int timeout_ms)
{
    return timeout_ms > 0 ? timeout_ms : tt_store_timeout(s);
}

static tt_status check_limit(const char *what, int timeout_ms)
{
    if (timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a time-out of 0 ms or more, got %d", what,
                       timeout_ms);
    return TT_OK;
}

tt_status tt_store_wait(tt_store *s, const char *const *keys, int n, int timeout_ms)
{
    tti_keys k;
    tt_status st;

    TT_TRY(check_limit("store: wait", timeout_ms));
    TT_TRY(tti_keys_init(&k, s, "store: wait", keys, n));
    st = s->core->ops.wait(s->core->ctx, k.full, n, limit_of(s, timeout_ms));
    tti_keys_fini(&k);
    return st;
}

tt_status tt_store_check(tt_store *s, const char *const *keys, int n, bool *present_p)
{
    tti_keys k;
    tt_status st;

    if (present_p == NULL)
        return TT_FAIL(TT_ERR_INVALID, "store: check: the place for the answer is NULL");
    TT_TRY(tti_keys_init(&k, s, "store: check", keys, n));
    st = s->core->ops.check(s->core->ctx, k.full, n, present_p);
    tti_keys_fini(&k);
    return st;
}

/* One value after the other; what came is given back when one does not. */
static tt_status get_each(const tti_core *c, const char *const *keys, int n, int timeout_ms,
                          tt_blob *blobs)
{
    int64_t deadline = tti_deadline(timeout_ms);
    tt_status st;

    TT_TRY(c->ops.wait(c->ctx, keys, n, timeout_ms));
    for (int i = 0; i < n; i++) {
        st = c->ops.get(c->ctx, keys[i], tti_ms_left(deadline), &blobs[i]);
        if (st != TT_OK) {
            while (i-- > 0)
                tt_blob_free(&blobs[i]);
            return st;
        }
    }
    return TT_OK;
}

tt_status tt_store_multi_get(tt_store *s, const char *const *keys, int n, tt_blob *blobs)
{
    tti_keys k;
    tt_status st;

    if (blobs == NULL)
        return TT_FAIL(TT_ERR_INVALID, "store: multi_get: the place for the values is NULL");
    TT_TRY(tti_keys_init(&k, s, "store: multi_get", keys, n));
    if (s->core->ops.multi_get != NULL)
        st = s->core->ops.multi_get(s->core->ctx, k.full, n, tt_store_timeout(s), blobs);
    else
        st = get_each(s->core, k.full, n, tt_store_timeout(s), blobs);
    tti_keys_fini(&k);
    return st;
}

static tt_status set_each(const tti_core *c, const char *const *keys, const void *const *data,
                          const size_t *sizes, int n)
{
    for (int i = 0; i < n; i++)
        TT_TRY(c->ops.set(c->ctx, keys[i], data[i], sizes[i]));
    return TT_OK;
}

tt_status tt_store_multi_set(tt_store *s, const char *const *keys, const void *const *data,
                             const size_t *sizes, int n)
{
    tt_status st = TT_OK;
    tti_keys k;

    if (data == NULL || sizes == NULL)
        return TT_FAIL(TT_ERR_INVALID, "store: multi_set: the list of values is NULL");
    TT_TRY(tti_keys_init(&k, s, "store: multi_set", keys, n));
    for (int i = 0; i < n && st == TT_OK; i++)
        st = tti_check_value("store: multi_set", k.full[i], data[i], sizes[i]);
    if (st == TT_OK && s->core->ops.multi_set != NULL)
        st = s->core->ops.multi_set(s->core->ctx, k.full, data, sizes, n);
    else if (st == TT_OK)
        st = set_each(s->core, k.full, data, sizes, n);
    tti_keys_fini(&k);
    return st;
}

tt_status tt_store_append(tt_store *s, const char *key, const void *data, size_t size)
{
    tti_keys k;
    tt_status st;

    TT_TRY(tti_keys_init(&k, s, "store: append", &key, 1));
    st = tti_check_value("store: append", k.one, data, size);
    /* compare_set would not do instead: of two who append the same bytes, one would believe the other's
     * success to be its own. */
    if (st == TT_OK && s->core->ops.append == NULL)
        st = TT_FAIL(TT_ERR_UNSUPPORTED, "store: %s stores have no append", s->core->ops.name);
    else if (st == TT_OK)
        st = s->core->ops.append(s->core->ctx, k.one, data, size);
    tti_keys_fini(&k);
    return st;
}

/* For tables without wait_change: look again and again, less and less often. */
static tt_status poll_change(const tti_core *c, const char *key, const void *seen, size_t size,
                             int timeout_ms, tt_blob *blob_p)
{
    int64_t deadline = tti_deadline(timeout_ms), nap = 200000;

    for (;;) {
        bool present = false;

        TT_TRY(c->ops.check(c->ctx, &key, 1, &present));
        if (present) {
            tt_blob now;

            TT_TRY(c->ops.get(c->ctx, key, tti_ms_left(deadline) + 1, &now));
            if (seen == NULL || now.size != size || memcmp(now.data, seen, size) != 0) {
                *blob_p = now;
                return TT_OK;
            }
            tt_blob_free(&now);
        }
        if (tti_ms_left(deadline) == 0)
            return TT_FAIL(TT_ERR_TIMEOUT, "store: key \"%.200s\" did not change within %d ms", key,
                           timeout_ms);
        nanosleep(&(struct timespec){ .tv_nsec = (long)nap }, NULL);
        nap = nap * 2 > 20000000 ? 20000000 : nap * 2;
    }
}

tt_status tt_store_wait_change(tt_store *s, const char *key, const void *seen, size_t seen_size,
                               int timeout_ms, tt_blob *blob_p)
{
    tti_keys k;
    tt_status st;

    if (blob_p == NULL)
        return TT_FAIL(TT_ERR_INVALID, "store: wait_change: the place for the value is NULL");
    TT_TRY(check_limit("store: wait_change", timeout_ms));
    TT_TRY(tti_keys_init(&k, s, "store: wait_change", &key, 1));
    st = tti_check_value("store: wait_change", k.one, seen, seen_size);
    if (st == TT_OK && s->core->ops.wait_change != NULL)
        st = s->core->ops.wait_change(s->core->ctx, k.one, seen, seen_size, limit_of(s, timeout_ms),
                                      blob_p);
    else if (st == TT_OK)
        st = poll_change(s->core, k.one, seen, seen_size, limit_of(s, timeout_ms), blob_p);
    tti_keys_fini(&k);
    return st;
}
