/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks tell each other things through a store, and notice who is missing and why. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rendezvous/exchange.h"
#include <tutti/testing.h>

enum { SIZE = 6 };

typedef struct rank {
    tt_store *store;
    int rank;
    int world_size;
    int timeout_ms;
    tt_status status;
    char error[400];
    pthread_t thread;
} rank;

static tti_meeting meeting(const rank *r, tt_store *view)
{
    return (tti_meeting){ .store = view,
                          .root = r->store,
                          .group = "test",
                          .rank = r->rank,
                          .size = SIZE,
                          .timeout_ms = r->timeout_ms };
}

static void *exchange_numbers(void *arg)
{
    rank *r = arg;

    for (int round = 0; round < 3; round++) {
        char name[20];
        int all[SIZE] = { 0 }, mine = r->rank * 100 + round;
        tt_store *view;
        tti_meeting m;

        snprintf(name, sizeof name, "g%d", round / 2); /* the third is of another group */
        view = tt_store_prefix_new(name, r->store);
        m = meeting(r, view);
        TT_CHECK_OK(tti_exchange(&m, round == 1 ? "second" : "first", &mine, sizeof mine, all));
        for (int i = 0; i < SIZE; i++)
            TT_CHECK_EQ(all[i], i * 100 + round);
        tt_store_free(view);
    }
    return NULL;
}

static void with_threads(tt_store *s, void *(*fn)(void *))
{
    rank ranks[SIZE];

    for (int i = 0; i < SIZE; i++) {
        ranks[i] = (rank){ .store = s, .rank = i, .timeout_ms = 20000 };
        TT_REQUIRE_EQ(pthread_create(&ranks[i].thread, NULL, fn, &ranks[i]), 0);
    }
    for (int i = 0; i < SIZE; i++)
        pthread_join(ranks[i].thread, NULL);
}

TT_TEST(exchange, gives_everybody_the_bytes_of_all_in_memory)
{
    tt_store *s = tt_store_memory_new();

    with_threads(s, exchange_numbers);
    tt_store_free(s);
}

TT_TEST(exchange, gives_everybody_the_bytes_of_all_over_tcp)
{
    tt_store *s = tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });

    TT_REQUIRE_NOT_NULL(s);
    with_threads(s, exchange_numbers);
    tt_store_free(s);
}

TT_TEST(exchange, gives_everybody_the_bytes_of_all_in_a_file)
{
    char path[500];
    tt_store *s;

    snprintf(path, sizeof path, "%s/s", tt_test_tmpdir());
    s = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(s);
    with_threads(s, exchange_numbers);
    tt_store_free(s);
}

TT_TEST(exchange, costs_a_rank_alone_nothing)
{
    tti_meeting m = { .group = "one", .size = 1, .timeout_ms = 10 };
    int mine = 7, all = 0;

    TT_CHECK_OK(tti_exchange(&m, "x", &mine, sizeof mine, &all));
    TT_CHECK_EQ(all, 7);
}

TT_TEST(exchange, names_the_ranks_that_did_not_come)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 2, .timeout_ms = 100 };
    tti_meeting m = meeting(&r, s);
    int mine = 1, all[SIZE];

    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_TIMEOUT,
                      "group test: start: waited 100 ms for 5 of 6 ranks: 0, 1, 3, 4, 5");
    tt_store_free(s);
}

TT_TEST(exchange, believes_the_launcher_that_a_rank_has_ended)
{
    tt_store *s = tt_store_memory_new(), *view = tt_store_prefix_new("deep", s);
    rank r = { .store = view, .rank = 2, .timeout_ms = 30000 };
    int mine = 1, all[SIZE], globals[SIZE] = { 10, 11, 12, 13, 14, 15 };
    tti_meeting m = meeting(&r, view);
    char words[100];
    int64_t begin;

    m.global_ranks = globals;
    TT_CHECK_OK(tti_exit_record(s, 4, "of another group"));
    TT_CHECK_OK(tti_exit_record(s, 14, "killed by signal 9"));
    begin = tti_now_ns();
    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_PEER,
                      "rank 4 has ended: killed by signal 9");
    TT_CHECK_LT(tti_now_ns() - begin, 2000000000LL);
    tti_exit_cause(view, 14, 1, words, sizeof words);
    TT_CHECK_STR(words, "killed by signal 9");
    tti_exit_cause(view, 13, 1, words, sizeof words);
    TT_CHECK_STR(words, "");
    tt_store_free(view);
    tt_store_free(s);
}

TT_TEST(exchange, finds_an_exit_key_without_the_list)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 0, .timeout_ms = 30000 };
    tti_meeting m = meeting(&r, s);
    int mine = 1, all[SIZE];

    TT_CHECK_OK(tt_store_set(s, "tutti/exit/5", "exit code 3", 11));
    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_PEER,
                      "rank 5 has ended: exit code 3");
    tt_store_free(s);
}

TT_TEST(exchange, notices_a_process_that_has_died)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 0, .timeout_ms = 30000 };
    tti_meeting m = meeting(&r, s);
    tti_ident idents[2];
    int mine = 1, all[2], status;
    char words[60];
    int64_t begin;
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    TT_REQUIRE_GT(pid, 0);
    TT_REQUIRE_OK(tti_ident_self(0, 2, &idents[0]));
    idents[1] = idents[0];
    idents[1].pid = pid;
    idents[1].start_time = 0;
    TT_CHECK(tti_ident_alive(&idents[0]));
    TT_CHECK(tti_ident_same_host(&idents[0], &idents[1]));
    TT_CHECK(!tti_ident_alive(&idents[1])); /* the pid is another process's */
    kill(pid, SIGKILL);
    begin = tti_now_ns();
    m.size = 2;
    m.idents = idents;
    snprintf(words, sizeof words, "rank 1 (pid %d on", pid);
    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_PEER, words);
    TT_CHECK_LT(tti_now_ns() - begin, 2000000000LL);
    waitpid(pid, &status, 0);
    TT_CHECK(!tti_ident_alive(&idents[1]));
    tt_store_free(s);
}

static void *exchange_idents(void *arg)
{
    rank *r = arg;
    tti_meeting m = meeting(r, r->store);
    tti_ident self, all[SIZE];

    TT_CHECK_OK(tti_ident_self(r->rank, r->world_size, &self));
    r->status = tti_exchange(&m, "idents", &self, sizeof self, all);
    snprintf(r->error, sizeof r->error, "%s", r->status == TT_OK ? "" : tt_last_error());
    return NULL;
}

/* The rank that was told of a larger world need not wait for it. */
TT_TEST(exchange, tells_ranks_that_their_world_sizes_differ)
{
    tt_store *s = tt_store_memory_new();
    rank ranks[2];

    for (int i = 0; i < 2; i++) {
        ranks[i] =
            (rank){ .store = s, .rank = i, .timeout_ms = 30000, .world_size = i == 0 ? 6 : 8 };
        TT_REQUIRE_EQ(pthread_create(&ranks[i].thread, NULL, exchange_idents, &ranks[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(ranks[i].thread, NULL);
        TT_CHECK_EQ(ranks[i].status, TT_ERR_PEER);
        TT_CHECK_CONTAINS(ranks[i].error, "world size of");
        TT_CHECK_CONTAINS(ranks[i].error, i == 0 ? "rank 1 (pid" : "rank 0 (pid");
    }
    tt_store_free(s);
}

TT_TEST(exchange, tells_ranks_that_their_versions_differ)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 0, .timeout_ms = 30000 };
    tti_meeting m = meeting(&r, s);
    uint8_t strange[12] = { 9, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0 };
    int mine = 1, all[2];

    m.size = 2;
    TT_CHECK_OK(tt_store_set(s, "x/start/1", strange, sizeof strange));
    TT_CHECK_OK(tt_store_add(s, "x/start/count", 1, NULL));
    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_PEER,
                      "rank 1 speaks version 9 of the protocol, this rank (0) version 1");
    tt_store_free(s);
}
