/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and threads that open the same store by URL. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/rendezvous.h>
#include <tutti/testing.h>

typedef struct member {
    const char *url;
    int rank, size;
    char greeting[40];
    pthread_t thread;
} member;

static tt_rendezvous_options options(int rank, int size)
{
    return (
        tt_rendezvous_options){ .rank = rank, .size = size, .has_rank = true, .timeout_ms = 20000 };
}

/* Rank 0 sets a greeting, all get it; rank 0 stays until the others have it. */
static void *meet(void *arg)
{
    member *m = arg;
    tt_rendezvous_options o = options(m->rank, m->size);
    tt_rendezvous r = { 0 };
    tt_blob b;
    int64_t n = 0;
    char all[20];

    if (!TT_CHECK_OK(tt_rendezvous_open(m->url, &o, &r)))
        return NULL;
    TT_CHECK_EQ(r.rank, m->rank);
    TT_CHECK_EQ(r.size, m->size);
    if (m->rank == 0)
        TT_CHECK_OK(tt_store_set(r.store, "greeting", m->greeting, strlen(m->greeting)));
    if (TT_CHECK_OK(tt_store_get(r.store, "greeting", &b))) {
        TT_CHECK_STR((const char *)b.data, m->greeting);
        tt_blob_free(&b);
    }
    TT_CHECK_OK(tt_store_add(r.store, "n", 1, &n));
    snprintf(all, sizeof all, "%d", m->size);
    if (n == m->size)
        TT_CHECK_OK(tt_store_set(r.store, "all", all, strlen(all)));
    if (m->rank == 0 && TT_CHECK_OK(tt_store_get(r.store, "all", &b)))
        tt_blob_free(&b);
    tt_rendezvous_close(&r);
    TT_CHECK_NULL(r.store);
    return NULL;
}

static void meet_all(const char *url, int size, const char *greeting)
{
    member members[8];

    for (int i = 0; i < size; i++) {
        members[i] = (member){ .url = url, .rank = i, .size = size };
        snprintf(members[i].greeting, sizeof members[i].greeting, "%s", greeting);
        TT_REQUIRE_EQ(pthread_create(&members[i].thread, NULL, meet, &members[i]), 0);
    }
    for (int i = 0; i < size; i++)
        pthread_join(members[i].thread, NULL);
}

static int free_port(void)
{
    tt_store *s = tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });
    int port = tt_store_tcp_port(s);

    tt_store_free(s);
    return port;
}

TT_TEST(rendezvous, meets_over_tcp)
{
    char url[80];

    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
    meet_all(url, 4, "hello");
}

TT_TEST(rendezvous, joins_a_server_that_is_there)
{
    tt_store *s = tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });
    char url[80];
    tt_blob b;

    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", tt_store_tcp_port(s));
    meet_all(url, 2, "hello");
    TT_REQUIRE_OK(tt_store_get(s, "greeting", &b));
    tt_blob_free(&b);
    tt_store_free(s);
}

TT_TEST(rendezvous, meets_in_one_file_again_and_again)
{
    char url[500];

    snprintf(url, sizeof url, "file://%s/meet", tt_test_tmpdir());
    meet_all(url, 4, "first");
    meet_all(url, 4, "second");
    meet_all(url, 2, "third");
    meet_all(url, 5, "fourth");
}

/* A file that dead processes have begun to use is as good as new. */
TT_TEST(rendezvous, is_not_fooled_by_a_file_of_the_dead)
{
    char url[500];
    int status;

    snprintf(url, sizeof url, "file://%s/meet", tt_test_tmpdir());
    for (int dead = 0; dead < 3; dead++) {
        pid_t pid = fork();

        if (pid == 0) {
            tt_rendezvous_options o = options(dead, 4);
            tt_rendezvous r;

            if (tt_rendezvous_open(url, &o, &r) == TT_OK)
                tt_store_set(r.store, "greeting", "stale", 5);
            raise(SIGKILL);
        }
        TT_REQUIRE_GT(pid, 0);
        waitpid(pid, &status, 0);
        TT_CHECK(WIFSIGNALED(status));
    }
    meet_all(url, 4, "fresh");
}

TT_TEST(rendezvous, reads_the_environment)
{
    tt_rendezvous r;
    char port[12];

    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    TT_CHECK_ERR_SAYS(tt_rendezvous_open(NULL, NULL, &r), TT_ERR_INVALID, "MASTER_ADDR");
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    TT_CHECK_ERR_SAYS(tt_rendezvous_open("env://", NULL, &r), TT_ERR_INVALID, "MASTER_PORT");
    setenv("MASTER_PORT", "none", 1);
    TT_CHECK_ERR_SAYS(tt_rendezvous_open("env://", NULL, &r), TT_ERR_INVALID, "MASTER_PORT");
    snprintf(port, sizeof port, "%d", free_port());
    setenv("MASTER_PORT", port, 1);
    TT_REQUIRE_OK(tt_rendezvous_open(NULL, NULL, &r));
    TT_CHECK_STR(tt_store_kind(r.store), "tcp");
    TT_CHECK_EQ(tt_store_tcp_port(r.store), atoi(port));
    TT_CHECK_EQ(r.size, 2);
    TT_CHECK_STR(r.world.launcher, "torchrun");
    tt_rendezvous_close(&r);
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("MASTER_ADDR");
    TT_REQUIRE_OK(tt_rendezvous_open(NULL, NULL, &r)); /* alone */
    TT_CHECK_EQ(r.size, 1);
    tt_rendezvous_close(&r);
    tt_rendezvous_close(NULL);
}

TT_TEST(rendezvous, refuses_a_wrong_rank)
{
    tt_rendezvous_options o = options(4, 4);
    tt_rendezvous r;

    TT_CHECK_ERR_SAYS(tt_rendezvous_open("tcp://127.0.0.1:9", &o, &r), TT_ERR_INVALID,
                      "rank 4 of 4");
    TT_CHECK_ERR_SAYS(tt_rendezvous_open("tcp://127.0.0.1:9?rank=2&size=1", NULL, &r),
                      TT_ERR_INVALID, "rank 2 of 1");
    o = options(1, 2);
    o.timeout_ms = 200;
    TT_CHECK_ERR_SAYS(tt_rendezvous_open("tcp://127.0.0.1:9", &o, &r), TT_ERR_TIMEOUT,
                      "127.0.0.1:9");
}
