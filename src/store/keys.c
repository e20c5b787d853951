/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as the caller gave them become full names; and the words for those that never came. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/store.h"

static tt_status check_key(const tt_store *s, const char *what, const char *key)
{
    size_t size;

    if (key == NULL || key[0] == '\0')
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a key, got %s", what,
                       key == NULL ? "NULL" : "an empty one");
    size = strnlen(key, TT_STORE_MAX_KEY + 1);
    if (size + s->prefix_size > TT_STORE_MAX_KEY)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: key \"%.60s...\" has more than %d bytes with its prefix", what, key,
                       TT_STORE_MAX_KEY);
    return TT_OK;
}

/* One allocation: the pointers, then the texts. */
static tt_status compose(tti_keys *k, const tt_store *s, const char *const *keys, int n)
{
    size_t bytes = (size_t)n * sizeof(char *);
    char *at;

    for (int i = 0; i < n; i++)
        bytes += s->prefix_size + strlen(keys[i]) + 1;
    k->memory = bytes <= sizeof k->small ? NULL : tti_malloc(bytes);
    if (bytes > sizeof k->small && k->memory == NULL)
        return TT_ERR_NOMEM;
    k->many = (const char **)(void *)(k->memory != NULL ? k->memory : k->small);
    at = (char *)(k->many + n);
    for (int i = 0; i < n; i++) {
        size_t size = strlen(keys[i]);

        memcpy(at, s->prefix, s->prefix_size);
        memcpy(at + s->prefix_size, keys[i], size + 1);
        k->many[i] = at;
        at += s->prefix_size + size + 1;
    }
    k->full = k->many;
    k->one = k->many[0];
    return TT_OK;
}

tt_status tti_keys_init(tti_keys *k, const tt_store *s, const char *what, const char *const *keys,
                        int n)
{
    k->memory = NULL;
    if (s == NULL || keys == NULL)
        return TTI_NULL("%s: the %s is NULL", what, s == NULL ? "store" : "list of keys");
    if (n < 1 || n > TTI_STORE_MAX_KEYS)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected 1 to %d keys, got %d", what,
                       TTI_STORE_MAX_KEYS, n);
    for (int i = 0; i < n; i++)
        TT_TRY(check_key(s, what, keys[i]));
    if (s->prefix_size > 0)
        return compose(k, s, keys, n);
    k->full = keys;
    k->one = keys[0];
    return TT_OK;
}

void tti_keys_fini(tti_keys *k)
{
    tti_mfree(k->memory);
}

tt_status tti_check_value(const char *what, const char *key, const void *data, size_t size)
{
    if (size > TT_STORE_MAX_VALUE)
        return TT_FAIL(TT_ERR_INVALID, "%s: key \"%.200s\": %zu bytes, at most %zu are allowed",
                       what, key, size, TT_STORE_MAX_VALUE);
    if (data == NULL && size > 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: key \"%.200s\": the value is NULL", what, key);
    return TT_OK;
}

void tti_missing_init(tti_missing *m)
{
    *m = (tti_missing){ .n = 0 };
}

void tti_missing_add(tti_missing *m, const char *key)
{
    size_t room = sizeof m->text - m->used;
    int wrote;

    m->n++;
    if (m->n_named + 1 < m->n) /* one did not fit before: keep the order */
        return;
    wrote = snprintf(m->text + m->used, room, "%s\"%.200s\"", m->n_named > 0 ? ", " : "", key);
    if (wrote < 0 || (size_t)wrote >= room) {
        m->text[m->used] = '\0';
        return;
    }
    m->used += (size_t)wrote;
    m->n_named++;
}

tt_status tti_missing_fail(const tti_missing *m, int n, int timeout_ms)
{
    char more[40] = "";

    if (m->n > m->n_named)
        snprintf(more, sizeof more, " and %d more", m->n - m->n_named);
    if (n == 1)
        return TT_FAIL(TT_ERR_TIMEOUT, "store: key %s was not set within %d ms", m->text,
                       timeout_ms);
    return TT_FAIL(TT_ERR_TIMEOUT, "store: %d of %d keys were not set within %d ms: %s%s", m->n, n,
                   timeout_ms, m->text, more);
}
