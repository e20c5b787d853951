/* SPDX-License-Identifier: Apache-2.0 */
/* Stores: small key-value services through which ranks find each other. Keys are texts of 1 to 4096
 * bytes, values are bytes (at most 64 MiB).
 *
 *     tt_store *s = tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });
 *     tt_store_set(s, "greeting", "hello", 5);
 *     tt_blob b;
 *     if (tt_store_get(s, "greeting", &b) == TT_OK)
 *         tt_blob_free(&b);
 *     tt_store_free(s);
 *
 * Every store may be used by several threads at once. A call that waits gives up after the store's
 * time-out with TT_ERR_TIMEOUT and a message that names the missing keys. */
#ifndef TUTTI_STORE_H
#define TUTTI_STORE_H

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TT_STORE_MAX_KEY 4096
#define TT_STORE_MAX_VALUE ((size_t)64 << 20)

typedef struct tt_store tt_store;

/* Bytes that came out of a store; end them with tt_blob_free. `data` is never NULL after success and
 * has a zero byte behind its end, which `size` does not count. */
typedef struct tt_blob {
    void *data;
    size_t size;
} tt_blob;

TT_API void tt_blob_free(tt_blob *blob); /* accepts NULL and zeroed blobs */

/* ---- opening --------------------------------------------------------------------------- */

/* Inside this process: for ranks that are threads, and for tests. */
TT_API tt_store *tt_store_memory_new(void);

/* A file that all ranks can reach. Made if missing; every change is one locked, checked record, so
 * that a writer killed at any moment loses at most its own last change. */
TT_API tt_store *tt_store_file_open(const char *path);

typedef struct tt_store_tcp_options {
    bool serve;             /* also run the server, in a thread of this process */
    const char *secret;     /* the job secret; NULL: TUTTI_JOB_SECRET, else none */
    int connect_timeout_ms; /* 0: 60,000. How long to go on trying to reach the server */
    int timeout_ms;         /* 0: 300,000. See tt_store_set_timeout */
    int rank;               /* for the server's messages about this client; -1 or 0: not said */
    bool has_rank;          /* `rank` is meant */
    int listen_fd;          /* serve on this listening socket, if has_listen_fd; it is taken over */
    bool has_listen_fd;
} tt_store_tcp_options;

/* A client of the server at host:port; with `serve` the server too (port 0: any free one). `host` is
 * an IPv4 or IPv6 address or a name; a server listens on exactly that address. The wire protocol is
 * in docs/store-protocol.md. */
TT_API tt_store *tt_store_tcp_open(const char *host, int port, const tt_store_tcp_options *opt);
TT_API int tt_store_tcp_port(const tt_store *s); /* -1 if it is no TCP store */

/* A view of `store`, which it keeps, in which every key gets `prefix` and a slash in front. */
TT_API tt_store *tt_store_prefix_new(const char *prefix, tt_store *store);

/* What a store of your own has to do. Keys are checked before. A value is returned with
 * tt_blob_copy. `timeout_ms` is never negative; functions that wait return TT_ERR_TIMEOUT. */
typedef struct tt_store_ops {
    uint32_t abi; /* TT_STORE_ABI; members are only ever appended */
    const char *name;

    tt_status (*set)(void *ctx, const char *key, const void *data, size_t size);
    /* Waits for the key. */
    tt_status (*get)(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p);
    /* The value is a decimal number as text, 0 when missing. */
    tt_status (*add)(void *ctx, const char *key, int64_t delta, int64_t *value_p);
    /* Until all keys exist. */
    tt_status (*wait)(void *ctx, const char *const *keys, int n, int timeout_ms);
    /* Whether all keys exist, at once. */
    tt_status (*check)(void *ctx, const char *const *keys, int n, bool *present_p);

    /* Optional: NULL means that the store cannot, and the call fails with TT_ERR_UNSUPPORTED; but
     * multi_get, multi_set and wait_change fall back on the calls above. */
    tt_status (*compare_set)(void *ctx, const char *key, const void *expected, size_t expected_size,
                             const void *desired, size_t desired_size, tt_blob *blob_p);
    tt_status (*append)(void *ctx, const char *key, const void *data, size_t size);
    tt_status (*remove)(void *ctx, const char *key, bool *removed_p);
    /* Of the keys that begin with `prefix`. */
    tt_status (*count)(void *ctx, const char *prefix, int64_t *n_p);
    tt_status (*multi_get)(void *ctx, const char *const *keys, int n, int timeout_ms,
                           tt_blob *blobs);
    tt_status (*multi_set)(void *ctx, const char *const *keys, const void *const *data,
                           const size_t *sizes, int n);
    /* Waits until the value of `key` is another than `seen` (size 0 with NULL: until it exists). */
    tt_status (*wait_change)(void *ctx, const char *key, const void *seen, size_t seen_size,
                             int timeout_ms, tt_blob *blob_p);
    void (*free)(void *ctx); /* the last reference is gone */
} tt_store_ops;
#define TT_STORE_ABI 1

/* A store made of your functions. It takes `ctx` over, also when it fails: `ops->free` has been called then, unless `ops` is
 * NULL or of another abi. */
TT_API tt_store *tt_store_user_new(const tt_store_ops *ops, void *ctx);
TT_API tt_status tt_blob_copy(const void *data, size_t size, tt_blob *blob_p);

TT_API tt_store *tt_store_retain(tt_store *s);
TT_API void tt_store_free(tt_store *s); /* accepts NULL */

/* ---- using ----------------------------------------------------------------------------- */

TT_API const char *tt_store_kind(const tt_store *s); /* "tcp", "file", "memory", "prefix", ... */
/* How long calls wait, in milliseconds; 300,000 at first. A view has its own. */
TT_API tt_status tt_store_set_timeout(tt_store *s, int timeout_ms);
TT_API int tt_store_timeout(const tt_store *s);

TT_API tt_status tt_store_set(tt_store *s, const char *key, const void *data, size_t size);
/* The value, as soon as there is one. */
TT_API tt_status tt_store_get(tt_store *s, const char *key, tt_blob *blob_p);
/* Adds to the number at key and gives the sum. Fails when the value is no number. */
TT_API tt_status tt_store_add(tt_store *s, const char *key, int64_t delta, int64_t *value_p);
TT_API tt_status tt_store_append(tt_store *s, const char *key, const void *data, size_t size);
/* Replaces the value by `desired` if it is `expected` (size 0: if the key is missing or empty); gives
 * what the key holds afterwards. */
TT_API tt_status tt_store_compare_set(tt_store *s, const char *key, const void *expected,
                                      size_t expected_size, const void *desired,
                                      size_t desired_size, tt_blob *blob_p);
/* Until all keys exist; timeout_ms 0: the store's time-out. */
TT_API tt_status tt_store_wait(tt_store *s, const char *const *keys, int n, int timeout_ms);
TT_API tt_status tt_store_check(tt_store *s, const char *const *keys, int n, bool *present_p);
TT_API tt_status tt_store_delete(tt_store *s, const char *key, bool *deleted_p);
TT_API tt_status tt_store_count(tt_store *s, int64_t *n_p); /* all keys; a view counts its own */
/* One round trip where the store can; `blobs` has room for n. All or nothing. */
TT_API tt_status tt_store_multi_get(tt_store *s, const char *const *keys, int n, tt_blob *blobs);
TT_API tt_status tt_store_multi_set(tt_store *s, const char *const *keys, const void *const *data,
                                    const size_t *sizes, int n);
/* The value of `key` as soon as it differs from `seen`; timeout_ms 0: the store's. */
TT_API tt_status tt_store_wait_change(tt_store *s, const char *key, const void *seen,
                                      size_t seen_size, int timeout_ms, tt_blob *blob_p);

typedef void (*tt_store_watch_fn)(void *ctx, const char *key, const void *data, size_t size);
typedef struct tt_store_watch tt_store_watch;

/* Calls fn with each new value of `key` (a value replaced quickly may be skipped, the last never is),
 * on a thread of the watch, until tt_store_watch_free, after which fn is not called any more. */
TT_API tt_store_watch *tt_store_watch_new(tt_store *s, const char *key, tt_store_watch_fn fn,
                                          void *ctx);
TT_API void tt_store_watch_free(tt_store_watch *w);

#ifdef __cplusplus
}
#endif

#endif
