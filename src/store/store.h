/* SPDX-License-Identifier: Apache-2.0 */
/* A store is a core (a table of functions and its object, shared by all views) and a prefix. */
#ifndef TTI_STORE_STORE_H
#define TTI_STORE_STORE_H

#include <stdatomic.h>

#include "base/status.h"
#include "tutti/store.h"

#define TTI_STORE_TIMEOUT_MS 300000
#define TTI_STORE_MAX_KEYS (1 << 20) /* of one call */

typedef struct tti_core {
    atomic_int refs;
    tt_store_ops ops;
    void *ctx;
} tti_core;

struct tt_store {
    atomic_int refs;
    atomic_int timeout_ms;
    tti_core *core;
    char *prefix; /* ends with a slash, or is "" */
    size_t prefix_size;
};

/* A store over `ctx`, which it takes: on failure ops->free(ctx) has been called. */
tt_store *tti_store_new(const tt_store_ops *ops, void *ctx);

/* A view of the whole store, whatever the prefix of `s`; to be freed. */
tt_store *tti_store_root(tt_store *s);

/* The object of a store if its table has this `free`, else NULL. */
void *tti_store_ctx(const tt_store *s, void (*free_fn)(void *ctx));

/* The full names of some keys of a store, checked. */
typedef struct tti_keys {
    const char *const *full;
    char *memory;
    const char *one;
    const char **many;
    _Alignas(void *) char small[256];
} tti_keys;

tt_status tti_keys_init(tti_keys *k, const tt_store *s, const char *what, const char *const *keys,
                        int n);
void tti_keys_fini(tti_keys *k);
tt_status tti_check_value(const char *what, const char *key, const void *data, size_t size);

/* Collects the keys that a call waited for in vain, and says so. */
typedef struct tti_missing {
    char text[600];
    size_t used;
    int n, n_named;
} tti_missing;

void tti_missing_init(tti_missing *m);
void tti_missing_add(tti_missing *m, const char *key);
tt_status tti_missing_fail(const tti_missing *m, int n, int timeout_ms);

#endif
