/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the protocol, on a non-blocking socket with deadlines. */
#include "store/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_PAUSE_NS 2000000LL
#define LAST_PAUSE_NS 1000000000LL
#define HANDSHAKE_MS 15000

/* 0, or what went wrong as an errno; ETIMEDOUT at the deadline. */
static int wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = events };

    for (;;) {
        int n = poll(&p, 1, tti_ms_left(deadline));

        if (n > 0)
            return 0;
        if (n == 0 && tti_ms_left(deadline) == 0)
            return ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return errno;
    }
}

static int send_all(int fd, const uint8_t *p, size_t n, int64_t deadline)
{
    while (n > 0) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

        if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            int e = wait_for(fd, POLLOUT, deadline);

            if (e != 0)
                return e;
        } else if (w < 0 && errno != EINTR) {
            return errno;
        }
        p += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
    return 0;
}

/* ECONNRESET stands for an orderly end, too: the server never ends a conversation. */
static int recv_all(int fd, uint8_t *p, size_t n, int64_t deadline)
{
    while (n > 0) {
        ssize_t r = recv(fd, p, n, 0);

        if (r == 0)
            return ECONNRESET;
        if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            int e = wait_for(fd, POLLIN, deadline);

            if (e != 0)
                return e;
        } else if (r < 0 && errno != EINTR) {
            return errno;
        }
        p += r > 0 ? r : 0;
        n -= r > 0 ? (size_t)r : 0;
    }
    return 0;
}

static int connect_one(const struct addrinfo *a, int64_t deadline, int *fd_p)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, e = 0;
    socklen_t n = sizeof e;

    if (fd < 0)
        return errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        e = errno;
        if (e == EINPROGRESS || e == EINTR) {
            e = wait_for(fd, POLLOUT, deadline);
            if (e == 0)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
        }
    }
    if (e != 0) {
        close(fd);
        return e;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *fd_p = fd;
    return 0;
}

/* Both sides prove that they know the secret. An errno, or 0 with the status in *st_p. */
static int shake_hands(const tti_peer *peer, int fd, int64_t deadline, tt_status *st_p)
{
    uint8_t ours[TTI_HELLO_SIZE], theirs[TTI_HELLO_SIZE], proof[TTI_PROOF_SIZE],
        verdict[TTI_VERDICT_SIZE];
    int e;

    memcpy(ours, TTI_PROTO_MAGIC, 8);
    tti_store32(ours + 8, TTI_PROTO_VERSION);
    tti_store32(ours + 12, (uint32_t)peer->rank);
    if ((*st_p = tti_nonce(ours + 16)) != TT_OK)
        return 0;
    e = send_all(fd, ours, sizeof ours, deadline);
    if (e == 0)
        e = recv_all(fd, theirs, sizeof theirs, deadline);
    if (e != 0)
        return e;
    if (memcmp(theirs, TTI_PROTO_MAGIC, 8) != 0)
        *st_p = TT_FAIL(TT_ERR_FORMAT, "store: what listens at %s:%d is no tutti store", peer->host,
                        peer->port);
    else if (tti_load32(theirs + 12) != TTI_VERDICT_OK)
        *st_p = TT_FAIL(TT_ERR_INVALID,
                        "store: the server at %s:%d speaks version %u of the protocol, this "
                        "client version %d",
                        peer->host, peer->port, tti_load32(theirs + 8), TTI_PROTO_VERSION);
    else
        *st_p = tti_prove(peer->secret, "client", ours, theirs, proof);
    if (*st_p != TT_OK)
        return 0;
    e = send_all(fd, proof, sizeof proof, deadline);
    if (e == 0)
        e = recv_all(fd, verdict, sizeof verdict, deadline);
    if (e != 0)
        return e;
    *st_p = tti_prove(peer->secret, "server", ours, theirs, proof);
    if (*st_p == TT_OK &&
        (tti_load32(verdict) != TTI_VERDICT_OK || !tti_proof_equal(proof, verdict + 4)))
        *st_p = TT_FAIL(TT_ERR_INVALID,
                        "store: the server at %s:%d has another job secret: wrong secret%s",
                        peer->host, peer->port,
                        peer->secret[0] == '\0' ? " (none is set here: TUTTI_JOB_SECRET)" : "");
    return 0;
}

/* One attempt on every address of the name. */
static int try_once(const tti_peer *peer, const struct addrinfo *list, int64_t deadline, int *fd_p,
                    tt_status *st_p)
{
    int e = EHOSTUNREACH;

    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        int64_t until = tti_deadline(HANDSHAKE_MS);
        int fd = -1;

        until = until < deadline ? until : deadline;
        *st_p = TT_OK;
        e = connect_one(a, until, &fd);
        if (e == 0) {
            e = shake_hands(peer, fd, until, st_p);
            if (e == 0 && *st_p == TT_OK) {
                *fd_p = fd;
                return 0;
            }
            close(fd);
            if (e == 0)
                return 0;
        }
        if (e == EMFILE || e == ENFILE)
            return e;
    }
    return e;
}

/* Half to one and a half of the pause, so that a thousand clients do not come back at the same moment. */
static void pause_some(int64_t *pause, int64_t deadline)
{
    int64_t left = (int64_t)tti_ms_left(deadline) * 1000000, ns;
    uint8_t nonce[TTI_NONCE_SIZE] = { 128 };

    (void)tti_nonce(nonce);
    ns = *pause / 2 + *pause / 256 * nonce[0];
    ns = ns > left ? left : ns;
    nanosleep(&(struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 }, NULL);
    *pause = *pause * 2 > LAST_PAUSE_NS ? LAST_PAUSE_NS : *pause * 2;
}

static tt_status fail_broken(const tti_peer *peer, int e)
{
    if (e == ETIMEDOUT)
        return TT_FAIL(TT_ERR_TIMEOUT, "store: the server at %s:%d does not answer", peer->host,
                       peer->port);
    return TT_FAIL(TT_ERR_IO, "store: the server at %s:%d is gone: %s", peer->host, peer->port,
                   strerror(e));
}

tt_status tti_client_open(const tti_peer *peer, int64_t deadline, int *fd_p)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV },
                    *list = NULL;
    int64_t begin = tti_now_ns(), pause = FIRST_PAUSE_NS;
    tt_status st = TT_OK;
    char service[12];
    int e;

    snprintf(service, sizeof service, "%d", peer->port);
    e = getaddrinfo(peer->host, service, &hints, &list);
    if (e != 0)
        return TT_FAIL(TT_ERR_IO, "store: %s: %s", peer->host, gai_strerror(e));
    for (;;) {
        e = try_once(peer, list, deadline, fd_p, &st);
        if (e == 0 || e == EMFILE || e == ENFILE || tti_ms_left(deadline) == 0)
            break;
        if (peer->met && e == ECONNREFUSED)
            break;
        pause_some(&pause, deadline);
    }
    freeaddrinfo(list);
    if (e == EMFILE || e == ENFILE)
        return TT_FAIL(TT_ERR_IO, "store: no descriptor for a connection to %s:%d: %s", peer->host,
                       peer->port, strerror(e));
    if (peer->met && e == ECONNREFUSED)
        return fail_broken(peer, e);
    if (e != 0)
        return TT_FAIL(TT_ERR_TIMEOUT, "store: no server at %s:%d within %lld ms: %s", peer->host,
                       peer->port, (long long)((tti_now_ns() - begin) / 1000000), strerror(e));
    return st;
}

void tti_client_close(int fd)
{
    static const uint8_t bye[5] = { 1, 0, 0, 0, TTI_REQ_BYE };

    (void)send_all(fd, bye, sizeof bye, 0);
    close(fd);
}

/* The server's words become this thread's error. */
static tt_status fail_told(const tti_peer *peer, uint8_t status, const tti_buffer *answer)
{
    tti_reader in = { answer->data, answer->n, false };
    uint32_t n = tti_read32(&in);
    const uint8_t *words = tti_read_bytes(&in, n);
    bool known = -(int)status >= TT_ERR_VETOED;

    if (words == NULL)
        return TT_FAIL(TT_ERR_FORMAT, "store: the server at %s:%d sends nonsense", peer->host,
                       peer->port);
    return TT_FAIL(known ? (tt_status) - (int)status : TT_ERR_FORMAT, "%.*s (server %s:%d)",
                   n > 900 ? 900 : (int)n, (const char *)words, peer->host, peer->port);
}

tt_status tti_client_call(const tti_peer *peer, int fd, const tti_buffer *frame, int64_t deadline,
                          tti_buffer *answer_p, bool *broken_p)
{
    int e = send_all(fd, frame->data, frame->n, deadline);
    tti_buffer answer = { 0 };
    uint8_t head[5];
    size_t size;
    tt_status st = TT_OK;

    *broken_p = true;
    if (e == 0)
        e = recv_all(fd, head, sizeof head, deadline);
    if (e != 0)
        return fail_broken(peer, e);
    size = tti_load32(head);
    if (size < 1 || size > TTI_MAX_REPLY)
        return TT_FAIL(TT_ERR_FORMAT, "store: the server at %s:%d sends nonsense", peer->host,
                       peer->port);
    answer.n = size - 1;
    answer.data = tti_malloc(size);
    if (answer.data == NULL)
        return TT_ERR_NOMEM;
    e = recv_all(fd, answer.data, answer.n, deadline);
    if (e != 0)
        st = fail_broken(peer, e);
    *broken_p = e != 0;
    if (e == 0 && head[4] != 0)
        st = fail_told(peer, head[4], &answer);
    if (st == TT_OK)
        *answer_p = answer;
    else
        tti_mfree(answer.data);
    return st;
}
