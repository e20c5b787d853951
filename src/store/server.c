/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets for the hub. Everything but start and stop happens on the server's thread; the loop, the hub and
 * the connections are its own. */
#include "store/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/hub.h"

#define BACKLOG 8192
#define MAX_STRANGERS 8192
#define MAX_QUEUED ((size_t)512 << 20) /* answers that a client does not fetch */
#define MAX_LISTENERS 8

atomic_int tti_server_stranger_ms = 10000;

typedef struct conn {
    uv_tcp_t tcp; /* first: handles are cast back */
    tti_session session;
    tti_server *server;
    int64_t since;
    struct conn *next, **slot; /* among the strangers, oldest last; slot NULL: known */
    bool closing;
} conn;

struct tti_server {
    uv_loop_t loop;
    uv_tcp_t listeners[MAX_LISTENERS];
    int n_listeners;
    uv_async_t stop;
    uv_timer_t timer;
    tti_hub hub;
    conn *strangers; /* the newest first */
    int n_strangers;
    atomic_ullong n_lost; /* connections that proved the secret and ended without a goodbye */
    char chunk[65536];
    int port;
    pthread_t thread;
    bool has_loop, has_thread;
};

typedef struct pending {
    uv_write_t req;
    uint8_t *data;
} pending;

static void forget_stranger(conn *c)
{
    if (c->slot == NULL)
        return;
    *c->slot = c->next;
    if (c->next != NULL)
        c->next->slot = c->slot;
    c->slot = NULL;
    c->server->n_strangers--;
}

static void on_closed(uv_handle_t *h)
{
    tti_mfree(h);
}

static void conn_close(conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    if (c->session.state == TTI_SESSION_OPEN && !c->session.bye)
        atomic_fetch_add_explicit(&c->server->n_lost, 1, memory_order_relaxed);
    forget_stranger(c);
    tti_session_fini(&c->session);
    c->session.state = TTI_SESSION_DEAD;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void on_sent(uv_write_t *req, int status)
{
    pending *p = (pending *)req;

    (void)status; /* a reader that is gone is noticed by reading */
    tti_mfree(p->data);
    tti_mfree(p);
}

/* tti_send_fn: what the socket does not take at once is queued. */
static void send_bytes(tti_session *s, uint8_t *data, size_t n)
{
    conn *c = (conn *)((char *)s - offsetof(conn, session));
    uv_stream_t *stream = (uv_stream_t *)&c->tcp;
    uv_buf_t buf = uv_buf_init((char *)data, (unsigned)n);
    pending *p;
    int done = 0;

    if (c->closing || uv_stream_get_write_queue_size(stream) > MAX_QUEUED) {
        s->state = TTI_SESSION_DEAD;
        tti_mfree(data);
        return;
    }
    if (uv_stream_get_write_queue_size(stream) == 0)
        done = uv_try_write(stream, &buf, 1);
    if (done < 0)
        done = 0;
    if ((size_t)done == n) {
        tti_mfree(data);
        return;
    }
    p = tti_calloc(1, sizeof *p);
    if (p != NULL) {
        p->data = data;
        buf = uv_buf_init((char *)data + done, (unsigned)(n - (size_t)done));
    }
    if (p == NULL || uv_write(&p->req, stream, &buf, 1, on_sent) != 0) {
        tti_mfree(data);
        tti_mfree(p);
        s->state = TTI_SESSION_DEAD;
    }
}

static void on_timer(uv_timer_t *timer);

/* When a connection that proves nothing is closed. */
static int64_t stranger_end(const conn *c)
{
    return c->since + atomic_load(&tti_server_stranger_ms) * 1000000LL;
}

/* The timer goes off within `ms`, and earlier if it was to do so. */
static void wake_within(tti_server *s, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&s->timer) || uv_timer_get_due_in(&s->timer) > ms)
        uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* Sets the timer to the next deadline of a request or a stranger. */
static void arm(tti_server *s, int64_t first)
{
    const conn *oldest = s->strangers;
    int64_t now = tti_now_ns();

    while (oldest != NULL && oldest->next != NULL)
        oldest = oldest->next;
    if (oldest != NULL && stranger_end(oldest) < first)
        first = stranger_end(oldest);
    if (first == TTI_NEVER)
        uv_timer_stop(&s->timer);
    else
        uv_timer_start(&s->timer, on_timer,
                       first <= now ? 1 : (uint64_t)(first - now) / 1000000 + 1, 0);
}

static void on_timer(uv_timer_t *timer)
{
    tti_server *s = timer->data;
    int64_t now = tti_now_ns();

    for (conn *c = s->strangers, *next; c != NULL; c = next) {
        next = c->next;
        if (stranger_end(c) <= now) {
            tti_log(TT_LOG_INFO, "store: server: a connection proved nothing within %d ms",
                    atomic_load(&tti_server_stranger_ms));
            conn_close(c);
        }
    }
    uv_update_time(&s->loop);
    arm(s, tti_hub_expire(&s->hub, tti_now_ns()));
}

/* The timer goes off at the latest when the request that just began to wait is over. */
static void arm_for(tti_server *s, const tti_session *session)
{
    if (session->parked != NULL)
        wake_within(s, (uint64_t)tti_ms_left(session->parked->deadline) + 1);
}

static void log_end(const conn *c, const char *why)
{
    char who[40] = "a client";

    if (c->session.rank >= 0)
        snprintf(who, sizeof who, "rank %d", c->session.rank);
    if (!c->session.bye)
        tti_log(TT_LOG_INFO, "store: server: %s left without a word: %s", who, why);
}

static void on_alloc(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
    conn *c = (conn *)h;

    (void)wanted;
    *buf = uv_buf_init(c->server->chunk, sizeof c->server->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    conn *c = (conn *)stream;

    if (n == 0)
        return;
    if (n < 0) {
        log_end(c, uv_strerror((int)n));
        conn_close(c);
        return;
    }
    tti_session_feed(&c->session, (const uint8_t *)buf->base, (size_t)n);
    if (c->session.state >= TTI_SESSION_OPEN)
        forget_stranger(c);
    arm_for(c->server, &c->session);
    if (c->session.state == TTI_SESSION_DEAD) {
        if (c->session.complaint != NULL)
            tti_log(TT_LOG_INFO, "store: server: a connection is closed: %s", c->session.complaint);
        conn_close(c);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    tti_server *s = listener->data;
    conn *c;

    if (status < 0) {
        tti_log(TT_LOG_WARN, "store: server: a connection was not accepted: %s",
                uv_strerror(status));
        return;
    }
    c = tti_calloc(1, sizeof *c);
    if (c == NULL)
        return;
    c->server = s;
    c->since = tti_now_ns();
    tti_session_init(&c->session, &s->hub, send_bytes);
    uv_tcp_init(&s->loop, &c->tcp);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 || s->n_strangers >= MAX_STRANGERS) {
        conn_close(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    c->next = s->strangers;
    c->slot = &s->strangers;
    if (c->next != NULL)
        c->next->slot = &c->next;
    s->strangers = c;
    s->n_strangers++;
    wake_within(s, (uint64_t)atomic_load(&tti_server_stranger_ms) + 1);
    if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
        conn_close(c);
}

/* ---- start and stop ---------------------------------------------------------------------------- */

static void close_any(uv_handle_t *h, void *arg)
{
    tti_server *s = arg;
    bool own = h == (uv_handle_t *)&s->stop || h == (uv_handle_t *)&s->timer;

    for (int i = 0; i < s->n_listeners; i++)
        own |= h == (uv_handle_t *)&s->listeners[i];
    if (uv_is_closing(h))
        return;
    if (own)
        uv_close(h, NULL);
    else
        conn_close((conn *)h);
}

static void on_stop(uv_async_t *async)
{
    uv_walk(&((tti_server *)async->data)->loop, close_any, async->data);
}

static void *server_main(void *arg)
{
    tti_server *s = arg;

    pthread_setname_np(pthread_self(), "tt-store");
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int port_of(uv_tcp_t *tcp)
{
    struct sockaddr_storage a;
    int n = sizeof a;

    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&a, &n) != 0)
        return -1;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

/* Another listener, on an address or a descriptor. Gives libuv's error code. */
static int add_listener(tti_server *s, const struct sockaddr *address, int fd)
{
    uv_tcp_t *tcp = &s->listeners[s->n_listeners];
    int e = uv_tcp_init(&s->loop, tcp);

    if (e != 0)
        return e;
    tcp->data = s;
    s->n_listeners++; /* closed with the others from here on, whatever happens */
    e = address != NULL
            ? uv_tcp_bind(tcp, address, UV_TCP_IPV6ONLY * (address->sa_family == AF_INET6))
            : uv_tcp_open(tcp, fd);
    if (e == 0)
        e = uv_listen((uv_stream_t *)tcp, BACKLOG, on_connection);
    if (e == 0)
        s->port = port_of(tcp);
    return e;
}

/* All addresses of the name, with one port. */
static int listen_on(tti_server *s, const char *host, int port, const char **why_p)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    int first_error = UV_EADDRNOTAVAIL, e;
    char service[12];

    snprintf(service, sizeof service, "%d", port);
    e = getaddrinfo(host, service, &hints, &list);
    if (e != 0) {
        *why_p = gai_strerror(e);
        return UV_EAI_NONAME;
    }
    s->port = -1;
    for (struct addrinfo *a = list; a != NULL && s->n_listeners < MAX_LISTENERS; a = a->ai_next) {
        bool was_open = s->port >= 0;

        if (was_open && a->ai_family == AF_INET6)
            ((struct sockaddr_in6 *)a->ai_addr)->sin6_port = htons((uint16_t)s->port);
        else if (was_open)
            ((struct sockaddr_in *)a->ai_addr)->sin_port = htons((uint16_t)s->port);
        e = add_listener(s, a->ai_addr, -1);
        if (e != 0 && !was_open)
            first_error = e;
    }
    freeaddrinfo(list);
    *why_p = uv_strerror(first_error);
    return s->port >= 0 ? 0 : first_error;
}

/* libuv ends the process when it gets no descriptors for a loop, so the few that it needs are tried first. */
static tt_status check_descriptors(void)
{
    int fds[12], n = 0, error = 0;

    while (n < 12 && error == 0) {
        fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        error = fds[n] < 0 ? errno : 0;
        n += error == 0;
    }
    while (n > 0)
        close(fds[--n]);
    return error == 0 ? TT_OK
                      : TT_FAIL(TT_ERR_IO, "store: server: no file descriptors are left: %s",
                                strerror(error));
}

static tt_status server_open(tti_server *s, const char *host, int port, const char *secret, int fd,
                             bool *taken_p)
{
    const char *why = "";
    int e;

    TT_TRY(tti_hub_init(&s->hub, secret));
    TT_TRY(check_descriptors());
    e = uv_loop_init(&s->loop);
    if (e != 0)
        return TT_FAIL(TT_ERR_IO, "store: server: %s", uv_strerror(e));
    s->has_loop = true;
    e = uv_async_init(&s->loop, &s->stop, on_stop);
    if (e == 0)
        e = uv_timer_init(&s->loop, &s->timer);
    s->stop.data = s->timer.data = s;
    if (e != 0)
        return TT_FAIL(TT_ERR_IO, "store: server: %s", uv_strerror(e));
    if (fd >= 0) {
        e = add_listener(s, NULL, fd);
        why = e != 0 ? uv_strerror(e) : "";
    } else {
        e = listen_on(s, host, port, &why);
    }
    if (taken_p != NULL)
        *taken_p = e == UV_EADDRINUSE || e == UV_EADDRNOTAVAIL;
    if (e != 0)
        return TT_FAIL(TT_ERR_IO, "store: server: cannot listen on %s:%d: %s", host, port, why);
    if (pthread_create(&s->thread, NULL, server_main, s) != 0)
        return TT_FAIL(TT_ERR_NOMEM, "store: server: no thread could be started");
    s->has_thread = true;
    return TT_OK;
}

tti_server *tti_server_new(const char *host, int port, const char *secret, int listen_fd,
                           bool *taken_p)
{
    tti_server *s = tti_calloc(1, sizeof *s);
    tti_error_copy kept;

    if (s == NULL || server_open(s, host, port, secret, listen_fd, taken_p) == TT_OK)
        return s;
    tti_error_save(&kept);
    tti_server_free(s);
    tti_error_restore(&kept);
    return NULL;
}

uint64_t tti_server_lost(tti_server *s)
{
    return atomic_load_explicit(&s->n_lost, memory_order_relaxed);
}

int tti_server_port(const tti_server *s)
{
    return s->port;
}

void tti_server_free(tti_server *s)
{
    if (s == NULL)
        return;
    if (s->has_thread) {
        uv_async_send(&s->stop);
        pthread_join(s->thread, NULL);
    } else if (s->has_loop) {
        uv_walk(&s->loop, close_any, s);
        uv_run(&s->loop, UV_RUN_DEFAULT);
    }
    if (s->has_loop)
        uv_loop_close(&s->loop);
    tti_hub_fini(&s->hub);
    tti_mfree(s);
}
