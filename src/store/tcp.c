/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP store: requests become frames. Each call takes an idle connection or makes one, so that a call
 * that waits does not keep other threads from theirs; a program with one thread has one connection. */
#include "store/tcp.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/mem.h"
#include "store/client.h"
#include "store/server.h"
#include "store/store.h"

#define CONNECT_MS 60000
#define ANSWER_MS 60000 /* for what the server does at once */
#define GRACE_MS 2000   /* beyond the time a request may wait at the server */
#define MAX_IDLE 4

typedef struct tcp {
    /* Fixed after opening. */
    tti_peer peer;
    tti_server *server; /* NULL: it is elsewhere */
    int connect_ms, answer_ms;

    pthread_mutex_t mu;
    int idle[MAX_IDLE]; /* mu: connections nobody uses */
    int n_idle;         /* mu */
    pid_t pid;          /* mu: whose connections they are: a forked child makes its own */
} tcp;

static tt_status take(tcp *t, int *fd_p)
{
    int fd = -1;

    pthread_mutex_lock(&t->mu);
    if (t->pid != getpid()) { /* the parent goes on using them: no goodbye */
        while (t->n_idle > 0)
            close(t->idle[--t->n_idle]);
        t->pid = getpid();
    }
    if (t->n_idle > 0)
        fd = t->idle[--t->n_idle];
    pthread_mutex_unlock(&t->mu);
    if (fd < 0)
        return tti_client_open(&t->peer, tti_deadline(t->connect_ms), fd_p);
    *fd_p = fd;
    return TT_OK;
}

static void give_back(tcp *t, int fd, bool broken)
{
    if (!broken) {
        pthread_mutex_lock(&t->mu);
        if (t->n_idle < MAX_IDLE && t->pid == getpid()) {
            t->idle[t->n_idle++] = fd;
            fd = -1;
        }
        pthread_mutex_unlock(&t->mu);
    }
    if (fd >= 0 && broken)
        close(fd);
    else if (fd >= 0)
        tti_client_close(fd);
}

/* Sends the frame, which it frees, and waits for the answer, to be freed by the caller. */
static tt_status call(tcp *t, tti_buffer *frame, int wait_ms, tti_buffer *answer_p)
{
    int64_t ms = wait_ms < 0 ? t->answer_ms : (int64_t)wait_ms + GRACE_MS;
    tt_status st = tti_frame_end(frame);
    bool broken = false;
    int fd;

    if (st == TT_OK && frame->n - 4 > TTI_MAX_FRAME)
        st = TT_FAIL(TT_ERR_INVALID, "store: %zu bytes in one request, at most %zu are allowed",
                     frame->n - 4, TTI_MAX_FRAME);
    if (st == TT_OK)
        st = take(t, &fd);
    if (st == TT_OK) {
        st = tti_client_call(&t->peer, fd, frame, tti_deadline(ms), answer_p, &broken);
        give_back(t, fd, broken);
    }
    tti_mfree(frame->data);
    return st;
}

static tt_status nonsense(const tcp *t)
{
    return TT_FAIL(TT_ERR_FORMAT, "store: the server at %s:%d sends nonsense", t->peer.host,
                   t->peer.port);
}

static tt_status call_plain(tcp *t, tti_buffer *frame, int wait_ms)
{
    tti_buffer answer;

    TT_TRY(call(t, frame, wait_ms, &answer));
    tti_mfree(answer.data);
    return TT_OK;
}

static tt_status call_number(tcp *t, tti_buffer *frame, int64_t *v_p)
{
    tti_buffer answer;
    bool good;

    TT_TRY(call(t, frame, -1, &answer));
    good = answer.n == 8;
    if (good)
        *v_p = (int64_t)tti_load64(answer.data);
    tti_mfree(answer.data);
    return good ? TT_OK : nonsense(t);
}

static tt_status call_values(tcp *t, tti_buffer *frame, int wait_ms, int n, tt_blob *blobs)
{
    tti_buffer answer;
    tti_reader in;
    tt_status st = TT_OK;
    int done = 0;

    TT_TRY(call(t, frame, wait_ms, &answer));
    in = (tti_reader){ answer.data, answer.n, false };
    for (; done < n; done++) {
        uint32_t size = tti_read32(&in);
        const uint8_t *p = tti_read_bytes(&in, size);

        st = p == NULL ? nonsense(t) : tt_blob_copy(p, size, &blobs[done]);
        if (st != TT_OK)
            break;
    }
    while (st != TT_OK && done > 0)
        tt_blob_free(&blobs[--done]);
    tti_mfree(answer.data);
    return st;
}

static void begin_key(tti_buffer *b, tti_request_op op, const char *key)
{
    tti_frame_begin(b, (uint8_t)op);
    tti_put_sized(b, key, strlen(key));
}

static void put_keys(tti_buffer *b, const char *const *keys, int n)
{
    tti_put32(b, (uint32_t)n);
    for (int i = 0; i < n; i++)
        tti_put_sized(b, keys[i], strlen(keys[i]));
}

static tt_status tcp_set(void *ctx, const char *key, const void *data, size_t size)
{
    tti_buffer b;

    begin_key(&b, TTI_REQ_SET, key);
    tti_put_sized(&b, data, size);
    return call_plain(ctx, &b, -1);
}

static tt_status tcp_append(void *ctx, const char *key, const void *data, size_t size)
{
    tti_buffer b;

    begin_key(&b, TTI_REQ_APPEND, key);
    tti_put_sized(&b, data, size);
    return call_plain(ctx, &b, -1);
}

static tt_status tcp_add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    tti_buffer b;

    begin_key(&b, TTI_REQ_ADD, key);
    tti_put64(&b, (uint64_t)delta);
    return call_number(ctx, &b, value_p);
}

static tt_status tcp_multi_get(void *ctx, const char *const *keys, int n, int timeout_ms,
                               tt_blob *blobs)
{
    tti_buffer b;

    tti_frame_begin(&b, TTI_REQ_MULTI_GET);
    tti_put32(&b, (uint32_t)timeout_ms);
    put_keys(&b, keys, n);
    return call_values(ctx, &b, timeout_ms, n, blobs);
}

static tt_status tcp_get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    return tcp_multi_get(ctx, &key, 1, timeout_ms, blob_p);
}

static tt_status tcp_wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    tti_buffer b;

    tti_frame_begin(&b, TTI_REQ_WAIT);
    tti_put32(&b, (uint32_t)timeout_ms);
    put_keys(&b, keys, n);
    return call_plain(ctx, &b, timeout_ms);
}

static tt_status tcp_check(void *ctx, const char *const *keys, int n, bool *present_p)
{
    int64_t v = 0;
    tti_buffer b;

    tti_frame_begin(&b, TTI_REQ_CHECK);
    put_keys(&b, keys, n);
    TT_TRY(call_number(ctx, &b, &v));
    *present_p = v != 0;
    return TT_OK;
}

static tt_status tcp_compare_set(void *ctx, const char *key, const void *expected,
                                 size_t expected_size, const void *desired, size_t desired_size,
                                 tt_blob *blob_p)
{
    tti_buffer b;

    begin_key(&b, TTI_REQ_COMPARE_SET, key);
    tti_put_sized(&b, expected, expected_size);
    tti_put_sized(&b, desired, desired_size);
    return call_values(ctx, &b, -1, 1, blob_p);
}

static tt_status tcp_remove(void *ctx, const char *key, bool *removed_p)
{
    int64_t v = 0;
    tti_buffer b;

    begin_key(&b, TTI_REQ_REMOVE, key);
    TT_TRY(call_number(ctx, &b, &v));
    *removed_p = v != 0;
    return TT_OK;
}

static tt_status tcp_count(void *ctx, const char *prefix, int64_t *n_p)
{
    tti_buffer b;

    begin_key(&b, TTI_REQ_COUNT, prefix);
    return call_number(ctx, &b, n_p);
}

static tt_status tcp_multi_set(void *ctx, const char *const *keys, const void *const *data,
                               const size_t *sizes, int n)
{
    tti_buffer b;

    tti_frame_begin(&b, TTI_REQ_MULTI_SET);
    tti_put32(&b, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        tti_put_sized(&b, keys[i], strlen(keys[i]));
        tti_put_sized(&b, data[i], sizes[i]);
    }
    return call_plain(ctx, &b, -1);
}

static tt_status tcp_wait_change(void *ctx, const char *key, const void *seen, size_t seen_size,
                                 int timeout_ms, tt_blob *blob_p)
{
    tti_buffer b;

    tti_frame_begin(&b, TTI_REQ_WAIT_CHANGE);
    tti_put32(&b, (uint32_t)timeout_ms);
    tti_put_sized(&b, key, strlen(key));
    tti_put8(&b, seen != NULL);
    tti_put_sized(&b, seen, seen_size);
    return call_values(ctx, &b, timeout_ms, 1, blob_p);
}

static void tcp_free(void *ctx)
{
    tcp *t = ctx;
    bool ours = t->pid == getpid();

    while (t->n_idle > 0) {
        int fd = t->idle[--t->n_idle];

        if (ours)
            tti_client_close(fd);
        else
            close(fd);
    }
    if (ours) /* in a forked child there is no thread to stop */
        tti_server_free(t->server);
    pthread_mutex_destroy(&t->mu);
    tti_mfree(t->peer.host);
    tti_mfree(t->peer.secret);
    tti_mfree(t);
}

static const tt_store_ops tcp_ops = {
    .abi = TT_STORE_ABI,
    .name = "tcp",
    .set = tcp_set,
    .get = tcp_get,
    .add = tcp_add,
    .wait = tcp_wait,
    .check = tcp_check,
    .compare_set = tcp_compare_set,
    .append = tcp_append,
    .remove = tcp_remove,
    .count = tcp_count,
    .multi_get = tcp_multi_get,
    .multi_set = tcp_multi_set,
    .wait_change = tcp_wait_change,
    .free = tcp_free,
};

uint64_t tti_store_tcp_lost(const tt_store *s)
{
    const tcp *t = tti_store_ctx(s, tcp_free);

    return t != NULL && t->server != NULL ? tti_server_lost(t->server) : 0;
}

static tt_status check_options(const char *host, int port, const tt_store_tcp_options *o)
{
    if (host == NULL || host[0] == '\0')
        return TT_FAIL(TT_ERR_INVALID, "store: tcp: expected a host");
    if (port < (o->serve ? 0 : 1) || port > 65535)
        return TT_FAIL(TT_ERR_INVALID, "store: tcp: expected a port up to 65535, got %d", port);
    if (o->connect_timeout_ms < 0 || o->timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "store: tcp: expected time-outs of 0 ms or more");
    return TT_OK;
}

/* Where the server of this process is reached. */
static const char *own_host(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1" : strcmp(host, "::") == 0 ? "::1" : host;
}

static tt_status tcp_start(tcp *t, const char *host, int port, const tt_store_tcp_options *o,
                           bool *taken_p)
{
    const char *secret = o->secret != NULL ? o->secret : tti_env_get(TTI_ENV_JOB_SECRET);
    int fd;

    t->connect_ms = o->connect_timeout_ms > 0 ? o->connect_timeout_ms : CONNECT_MS;
    t->answer_ms = o->timeout_ms > 0 && o->timeout_ms < ANSWER_MS ? o->timeout_ms : ANSWER_MS;
    t->peer.port = port;
    t->peer.rank = o->has_rank ? o->rank : -1;
    t->peer.secret = tti_strdup(secret != NULL ? secret : "");
    t->peer.host = tti_strdup(o->serve ? own_host(host) : host);
    if (t->peer.secret == NULL || t->peer.host == NULL)
        return TT_ERR_NOMEM;
    if (o->serve) {
        t->server = tti_server_new(host, port, t->peer.secret, o->has_listen_fd ? o->listen_fd : -1,
                                   taken_p);
        if (t->server == NULL)
            return tt_last_status();
        t->peer.port = tti_server_port(t->server);
    }
    TT_TRY(take(t, &fd));
    give_back(t, fd, false);
    t->peer.met = true;
    return TT_OK;
}

static tt_store *open_store(const char *host, int port, const tt_store_tcp_options *opt,
                            bool *taken_p)
{
    tt_store_tcp_options o = opt != NULL ? *opt : (tt_store_tcp_options){ 0 };
    tti_error_copy kept;
    tt_store *s;
    tcp *t;

    if (check_options(host, port, &o) != TT_OK)
        return NULL;
    t = tti_calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    pthread_mutex_init(&t->mu, NULL);
    t->pid = getpid();
    if (tcp_start(t, host, port, &o, taken_p) != TT_OK) {
        tti_error_save(&kept);
        tcp_free(t);
        tti_error_restore(&kept);
        return NULL;
    }
    s = tti_store_new(&tcp_ops, t);
    if (s != NULL && o.timeout_ms > 0)
        tt_store_set_timeout(s, o.timeout_ms);
    return s;
}

tt_store *tt_store_tcp_open(const char *host, int port, const tt_store_tcp_options *opt)
{
    return open_store(host, port, opt, NULL);
}

tt_store *tti_store_tcp_serve_or_join(const char *host, int port, const tt_store_tcp_options *opt)
{
    tt_store_tcp_options o = *opt;
    bool taken = false;
    tt_store *s;

    o.serve = true;
    s = open_store(host, port, &o, &taken);
    if (s != NULL || !taken)
        return s;
    o.serve = false;
    return open_store(host, port, &o, NULL);
}

int tt_store_tcp_port(const tt_store *s)
{
    const tcp *t = tti_store_ctx(s, tcp_free);

    return t != NULL ? t->peer.port : -1;
}
