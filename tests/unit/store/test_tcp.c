/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP store among strangers: wrong secrets, nonsense, idle connections, servers that end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/proto.h"
#include "store/server.h"
#include "store/tcp.h"
#include <tutti/store.h>
#include <tutti/testing.h>

static tt_store *serve(const char *secret)
{
    tt_store *s = tt_store_tcp_open("127.0.0.1", 0,
                                    &(tt_store_tcp_options){ .serve = true, .secret = secret });

    TT_REQUIRE_NOT_NULL(s);
    return s;
}

static tt_store *join(int port, const char *secret, int connect_ms)
{
    return tt_store_tcp_open(
        "127.0.0.1", port,
        &(tt_store_tcp_options){ .secret = secret, .connect_timeout_ms = connect_ms });
}

static int raw_connect(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    TT_REQUIRE_EQ(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Reads until the server closes; gives how many bytes came. */
static size_t read_to_end(int fd, uint8_t *p, size_t room)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    size_t n = 0;

    while (n < room) {
        ssize_t r;

        TT_REQUIRE_EQ(poll(&poller, 1, 20000), 1);
        r = recv(fd, p + n, room - n, 0);
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    return n;
}

TT_TEST(store_tcp, tells_a_wrong_secret_and_nothing_else)
{
    tt_store *s = serve("right");
    int64_t n;

    TT_REQUIRE_OK(tt_store_set(s, "k", "v", 1));
    unsetenv("TUTTI_JOB_SECRET");
    TT_CHECK_NULL(join(tt_store_tcp_port(s), "wrong", 5000));
    TT_CHECK_CONTAINS(tt_last_error(), "wrong secret");
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_NULL(join(tt_store_tcp_port(s), NULL, 5000));
    TT_CHECK_CONTAINS(tt_last_error(), "TUTTI_JOB_SECRET");
    TT_REQUIRE_OK(tt_store_count(s, &n));
    TT_CHECK_EQ(n, 1);
    tt_store_free(s);
}

TT_TEST(store_tcp, takes_the_secret_from_the_environment)
{
    tt_store *s, *c;

    setenv("TUTTI_JOB_SECRET", "of the job", 1);
    s = serve(NULL);
    c = join(tt_store_tcp_port(s), "of the job", 5000);
    TT_CHECK_NOT_NULL(c);
    tt_store_free(c);
    tt_store_free(s);
}

/* The server proves the secret too: one that only says yes is not believed. */
TT_TEST(store_tcp, does_not_believe_a_server_without_the_secret)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof a;
    pid_t pid;
    int status;

    TT_REQUIRE_EQ(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    TT_REQUIRE_EQ(listen(listener, 4), 0);
    TT_REQUIRE_EQ(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    pid = fork();
    if (pid == 0) {
        uint8_t hello[TTI_HELLO_SIZE], proof[TTI_PROOF_SIZE], verdict[TTI_VERDICT_SIZE] = { 0 };
        int fd = accept(listener, NULL, NULL);

        if (recv(fd, hello, sizeof hello, MSG_WAITALL) != sizeof hello)
            _exit(1);
        tti_store32(hello + 12, TTI_VERDICT_OK);
        if (send(fd, hello, sizeof hello, 0) != sizeof hello ||
            recv(fd, proof, sizeof proof, MSG_WAITALL) != sizeof proof ||
            send(fd, verdict, sizeof verdict, 0) != sizeof verdict)
            _exit(2);
        _exit(0);
    }
    TT_REQUIRE_GT(pid, 0);
    close(listener);
    TT_CHECK_NULL(join(ntohs(a.sin_port), "secret", 5000));
    TT_CHECK_CONTAINS(tt_last_error(), "wrong secret");
    waitpid(pid, &status, 0);
    TT_CHECK_EQ(status, 0);
}

TT_TEST(store_tcp, tells_another_version)
{
    tt_store *s = serve("x");
    uint8_t hello[TTI_HELLO_SIZE] = TTI_PROTO_MAGIC, answer[200];
    int fd = raw_connect(tt_store_tcp_port(s));

    tti_store32(hello + 8, 99);
    TT_REQUIRE_EQ(send(fd, hello, sizeof hello, 0), sizeof hello);
    TT_CHECK_EQ(read_to_end(fd, answer, sizeof answer), TTI_HELLO_SIZE);
    TT_CHECK_EQ(tti_load32(answer + 8), TTI_PROTO_VERSION);
    TT_CHECK_EQ(tti_load32(answer + 12), TTI_VERDICT_VERSION);
    close(fd);
    tt_store_free(s);
}

TT_TEST(store_tcp, hangs_up_on_garbage)
{
    tt_store *s = serve("x");
    unsigned state = (unsigned)tt_test_seed();
    int64_t n;

    for (int i = 0; i < 50; i++) {
        uint8_t garbage[6000], answer[400];
        int fd = raw_connect(tt_store_tcp_port(s));
        size_t size = 48 + (size_t)rand_r(&state) % (sizeof garbage - 48);

        for (size_t b = 0; b < size; b++)
            garbage[b] = (uint8_t)rand_r(&state);
        if (i % 2 == 0) { /* a right hello, then a wrong proof and more */
            memcpy(garbage, TTI_PROTO_MAGIC, 8);
            tti_store32(garbage + 8, TTI_PROTO_VERSION);
            size = size < 80 ? 80 : size;
        }
        TT_CHECK(send(fd, garbage, size, MSG_NOSIGNAL) > 0);
        TT_CHECK_LE(read_to_end(fd, answer, sizeof answer), TTI_HELLO_SIZE + TTI_VERDICT_SIZE);
        close(fd);
    }
    TT_REQUIRE_OK(tt_store_set(s, "k", "v", 1));
    TT_REQUIRE_OK(tt_store_count(s, &n));
    TT_CHECK_EQ(n, 1);
    tt_store_free(s);
}

TT_TEST(store_tcp, idle_strangers_do_not_disturb)
{
    tt_store *s = serve("x"), *c;
    int fds[10];
    tt_blob b;

    for (int i = 0; i < 10; i++)
        fds[i] = raw_connect(tt_store_tcp_port(s));
    c = join(tt_store_tcp_port(s), "x", 5000);
    TT_REQUIRE_NOT_NULL(c);
    TT_REQUIRE_OK(tt_store_set(c, "k", "v", 1));
    TT_REQUIRE_OK(tt_store_get(s, "k", &b));
    tt_blob_free(&b);
    for (int i = 0; i < 10; i++)
        close(fds[i]);
    tt_store_free(c);
    tt_store_free(s);
}

TT_TEST_LIMIT(store_tcp, sends_idle_strangers_away_after_a_while, 40)
{
    tt_store *s;
    int64_t begin = tti_now_ns();
    uint8_t byte;
    int fd;

    tti_server_stranger_ms = 300;
    s = serve("x");
    fd = raw_connect(tt_store_tcp_port(s));
    TT_CHECK_EQ(read_to_end(fd, &byte, 1), 0);
    TT_CHECK_GE(tti_now_ns() - begin, 300000000LL);
    close(fd);
    tt_store_free(s);
}

static void *wait_for_a_key(void *arg)
{
    const char *key = "released";

    TT_CHECK_OK(tt_store_wait(arg, &key, 1, 300000));
    return NULL;
}

/* A request that waits for minutes does not put off the time when a stranger is sent away. */
TT_TEST_LIMIT(store_tcp, sends_idle_strangers_away_whatever_else_waits, 120)
{
    tt_store *s, *c;
    pthread_t waiter;
    struct pollfd p;
    int64_t n = 0;

    tti_server_stranger_ms = 300;
    s = serve("x");
    c = join(tt_store_tcp_port(s), "x", 300000);
    TT_REQUIRE_NOT_NULL(c);
    TT_REQUIRE_EQ(pthread_create(&waiter, NULL, wait_for_a_key, c), 0);
    for (int i = 0; i < 50; i++) /* the waiting request comes before, among or after them */
        TT_REQUIRE_OK(tt_store_count(s, &n));
    for (int i = 0; i < 3; i++) {
        p = (struct pollfd){ raw_connect(tt_store_tcp_port(s)), POLLIN, 0 };
        TT_CHECK_EQ(poll(&p, 1, 60000), 1);
        close(p.fd);
    }
    TT_REQUIRE_OK(tt_store_set(s, "released", "", 0));
    pthread_join(waiter, NULL);
    tt_store_free(c);
    tt_store_free(s);
}

/* Who serves learns that a client broke off; those that say goodbye do not count. */
TT_TEST(store_tcp, counts_clients_that_break_off)
{
    tt_store *s = serve("x"), *c = join(tt_store_tcp_port(s), "x", 60000);
    int64_t end = tti_deadline(60000);
    int status;
    pid_t pid;

    TT_REQUIRE_NOT_NULL(c);
    tt_store_free(c);
    pid = fork();
    if (pid == 0) {
        c = join(tt_store_tcp_port(s), "x", 60000);
        _exit(c != NULL && tt_store_set(c, "k", "v", 1) == TT_OK ? 0 : 1); /* without a goodbye */
    }
    TT_REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    TT_CHECK_EQ(status, 0);
    while (tti_store_tcp_lost(s) == 0 && tti_ms_left(end) > 0)
        poll(NULL, 0, 2);
    TT_CHECK_EQ(tti_store_tcp_lost(s), 1);
    tt_store_free(s);
}

TT_TEST(store_tcp, says_that_the_server_is_gone)
{
    tt_store *s = serve("x"), *c = join(tt_store_tcp_port(s), "x", 60000);
    int64_t begin = tti_now_ns();
    char address[40];
    tt_blob b;

    TT_REQUIRE_NOT_NULL(c);
    TT_REQUIRE_OK(tt_store_set(c, "k", "v", 1));
    snprintf(address, sizeof address, "127.0.0.1:%d", tt_store_tcp_port(s));
    tt_store_free(s);
    TT_CHECK_ERR_SAYS(tt_store_get(c, "k", &b), TT_ERR_IO, address);
    TT_CHECK_CONTAINS(tt_last_error(), "is gone");
    /* Nobody listens there any more: it does not go on trying. */
    TT_CHECK_ERR_SAYS(tt_store_get(c, "k", &b), TT_ERR_IO, address);
    TT_CHECK_CONTAINS(tt_last_error(), "is gone");
    TT_CHECK_LT(tti_now_ns() - begin, 50000000000LL);
    tt_store_free(c);
}

static void *wait_in_vain(void *arg)
{
    tt_blob b;

    TT_CHECK_ERR_SAYS(tt_store_get(arg, "never", &b), TT_ERR_IO, "is gone");
    return NULL;
}

TT_TEST(store_tcp, wakes_those_who_wait_when_the_server_dies)
{
    tt_store *s, *c;
    int pipes[2], status, port;
    pthread_t thread;
    pid_t pid;

    TT_REQUIRE_EQ(pipe(pipes), 0);
    pid = fork();
    if (pid == 0) {
        s = tt_store_tcp_open("127.0.0.1", 0,
                              &(tt_store_tcp_options){ .serve = true, .secret = "x" });
        port = tt_store_tcp_port(s);
        if (write(pipes[1], &port, sizeof port) != sizeof port)
            _exit(1);
        pause();
    }
    TT_REQUIRE_GT(pid, 0);
    TT_REQUIRE_EQ(read(pipes[0], &port, sizeof port), sizeof port);
    c = join(port, "x", 5000);
    TT_REQUIRE_NOT_NULL(c);
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, wait_in_vain, c), 0); /* on the open connection */
    kill(pid, SIGKILL);
    pthread_join(thread, NULL);
    waitpid(pid, &status, 0);
    close(pipes[0]);
    close(pipes[1]);
    tt_store_free(c);
}

TT_TEST(store_tcp, serves_ipv6)
{
    tt_store *s = tt_store_tcp_open("::1", 0, &(tt_store_tcp_options){ .serve = true });
    tt_store *c;
    tt_blob b;

    if (s == NULL)
        TT_SKIP("no IPv6 here: %s", tt_last_error());
    c = tt_store_tcp_open("::1", tt_store_tcp_port(s), NULL);
    TT_REQUIRE_NOT_NULL(c);
    TT_REQUIRE_OK(tt_store_set(c, "k", "six", 3));
    TT_REQUIRE_OK(tt_store_get(s, "k", &b));
    TT_CHECK_STR((const char *)b.data, "six");
    tt_blob_free(&b);
    tt_store_free(c);
    tt_store_free(s);
}

TT_TEST(store_tcp, listens_on_exactly_the_given_address)
{
    tt_store *s = serve("x");

    TT_CHECK_NULL(
        tt_store_tcp_open("127.0.0.2", tt_store_tcp_port(s),
                          &(tt_store_tcp_options){ .secret = "x", .connect_timeout_ms = 50 }));
    TT_CHECK_CONTAINS(tt_last_error(), "no server at 127.0.0.2");
    TT_CHECK_NULL(tt_store_tcp_open("127.0.0.1", tt_store_tcp_port(s),
                                    &(tt_store_tcp_options){ .serve = true }));
    TT_CHECK_CONTAINS(tt_last_error(), "in use");
    tt_store_free(s);
}

TT_TEST(store_tcp, takes_over_a_listening_socket)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof a;
    tt_store *s;

    TT_REQUIRE_EQ(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    TT_REQUIRE_EQ(listen(fd, 4), 0);
    TT_REQUIRE_EQ(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    s = tt_store_tcp_open(
        "127.0.0.1", 0,
        &(tt_store_tcp_options){ .serve = true, .has_listen_fd = true, .listen_fd = fd });
    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_EQ(tt_store_tcp_port(s), ntohs(a.sin_port));
    TT_CHECK_OK(tt_store_set(s, "k", "v", 1));
    tt_store_free(s);
}

/* The server comes up later: the client goes on trying. */
static void *serve_later(void *arg)
{
    int *port = arg;

    return tt_store_tcp_open("127.0.0.1", *port,
                             &(tt_store_tcp_options){ .serve = true, .secret = "x" });
}

TT_TEST(store_tcp, goes_on_trying_until_the_server_is_there)
{
    tt_store *s = serve("x"), *c;
    int port = tt_store_tcp_port(s);
    pthread_t thread;
    void *later = NULL;

    tt_store_free(s);
    TT_CHECK_NULL(join(port, "x", 30));
    TT_CHECK_CONTAINS(tt_last_error(), "no server at 127.0.0.1");
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, serve_later, &port), 0);
    c = join(port, "x", 20000);
    TT_CHECK_NOT_NULL(c);
    pthread_join(thread, &later);
    TT_CHECK_NOT_NULL(later);
    tt_store_free(c);
    tt_store_free(later);
}

TT_TEST(store_tcp, says_that_there_is_no_descriptor_left)
{
    tt_store *s = serve("x");
    struct rlimit old, small;
    int fds[64], n = 0;

    TT_REQUIRE_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    small.rlim_cur = 64;
    TT_REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
    while (n < 64 && (fds[n] = dup(0)) >= 0)
        n++;
    TT_CHECK_NULL(join(tt_store_tcp_port(s), "x", 5000));
    TT_CHECK_CONTAINS(tt_last_error(), "descriptor");
    TT_CHECK_OK(tt_store_set(s, "k", "v", 1)); /* who is connected stays so */
    TT_CHECK_NULL(tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true }));
    while (n > 0)
        close(fds[--n]);
    setrlimit(RLIMIT_NOFILE, &old);
    tt_store_free(s);
}

TT_TEST(store_tcp, refuses_bad_options)
{
    TT_CHECK_NULL(tt_store_tcp_open(NULL, 1, NULL));
    TT_CHECK_NULL(tt_store_tcp_open("127.0.0.1", 0, NULL));
    TT_CHECK_NULL(tt_store_tcp_open("127.0.0.1", 70000, NULL));
    TT_CHECK_NULL(tt_store_tcp_open("127.0.0.1", 1, &(tt_store_tcp_options){ .timeout_ms = -1 }));
    TT_CHECK_NULL(tt_store_tcp_open("no.such.host.invalid", 1,
                                    &(tt_store_tcp_options){ .connect_timeout_ms = 10 }));
    TT_CHECK_CONTAINS(tt_last_error(), "no.such.host.invalid");
    TT_CHECK_EQ(tt_store_tcp_port(NULL), -1);
}
