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
#include "base/error.h"
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
    tt_error_info about; /* its fields */
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

/* The fields of the last failure: about `n` ranks, `first` the first. */
static void check_fields(const char *step, tt_error_kind kind, int n, int first, const char *cause)
{
    tt_error_info e;

    TT_REQUIRE(tt_last_error_info(&e));
    TT_CHECK_STR(e.group, "test");
    TT_CHECK_STR(e.operation, step);
    TT_CHECK_EQ(e.kind, kind);
    TT_CHECK_EQ(e.n_ranks, n);
    TT_CHECK_EQ(e.ranks[0], first);
    TT_CHECK_STR(e.cause, cause);
}

TT_TEST(exchange, names_the_ranks_that_did_not_come)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 2, .timeout_ms = 100 };
    tti_meeting m = meeting(&r, s);
    int mine = 1, all[SIZE];

    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_TIMEOUT,
                      "group test: start: waited 100 ms for 5 of 6 ranks: 0, 1, 3, 4, 5");
    check_fields("start", TT_ERROR_MISSING, 5, 0, "");
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
    check_fields("start", TT_ERROR_DIED, 1, 14, "killed by signal 9");
    TT_CHECK_LT(tti_now_ns() - begin, 20000000000LL); /* not the time-out */
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
    TT_CHECK_LT(tti_now_ns() - begin, 20000000000LL); /* not the time-out */
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

static void *come_late(void *arg)
{
    rank *r = arg;
    tti_meeting m = meeting(r, r->store);
    int mine = 1, all[2];

    usleep(60000); /* so that the other one has waited in vain; if not, nothing is lost */
    m.size = 2;
    r->status = tti_exchange(&m, "start", &mine, sizeof mine, all);
    return NULL;
}

/* An exchange that succeeds leaves the record of the program alone, though it waited in vain meanwhile. */
TT_TEST(exchange, does_not_replace_an_error_that_is_pending)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 0, .timeout_ms = 60000 }, late = r;
    tti_meeting m = meeting(&r, s);
    int mine = 1, all[2];

    late.rank = 1;
    m.size = 2;
    TT_REQUIRE_EQ(pthread_create(&late.thread, NULL, come_late, &late), 0);
    tt_fail(TT_ERR_FORMAT, "of the program");
    TT_CHECK_OK(tti_exchange(&m, "start", &mine, sizeof mine, all));
    TT_CHECK_EQ(tti_null_given("test", "something"), TT_ERR_FORMAT);
    TT_CHECK_STR(tt_last_error(), "of the program");
    pthread_join(late.thread, NULL);
    TT_CHECK_OK(late.status);
    tt_store_free(s);
}

/* ---- ranks that give up ------------------------------------------------------------------------ */

static void *exchange_until_it_fails(void *arg)
{
    rank *r = arg;
    tti_meeting m = meeting(r, r->store);
    int mine = 1, all[SIZE];

    r->status = tti_exchange(&m, "start", &mine, sizeof mine, all);
    snprintf(r->error, sizeof r->error, "%s", r->status == TT_OK ? "" : tt_last_error());
    tt_last_error_info(&r->about);
    return NULL;
}

TT_TEST(exchange, ends_when_a_rank_gives_up)
{
    tt_store *s = tt_store_memory_new();
    rank waits = { .store = s, .rank = 0, .timeout_ms = 60000 }, fails = waits;
    tti_meeting m;

    fails.rank = 4;
    m = meeting(&fails, s);
    TT_REQUIRE_EQ(pthread_create(&waits.thread, NULL, exchange_until_it_fails, &waits), 0);
    TT_CHECK_ERR(TT_FAIL(TT_ERR_NOMEM, "no room"), TT_ERR_NOMEM);
    tti_exchange_give_up(&m, TT_ERR_NOMEM, "no room");
    TT_CHECK_STR(tt_last_error(), "no room");
    tti_exchange_give_up(&m, TT_ERR_IO, "the first one counts");
    pthread_join(waits.thread, NULL);
    TT_CHECK_EQ(waits.status, TT_ERR_PEER);
    TT_CHECK_CONTAINS(waits.error, "group test: start: rank 4 gave up: no room");
    TT_CHECK_EQ(waits.about.ranks[0], 4);
    TT_CHECK_STR(waits.about.cause, "no room");
    tt_store_free(s);
}

static pid_t ended_process(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    TT_REQUIRE_GT(pid, 0);
    waitpid(pid, NULL, 0);
    return pid;
}

/* Rank 1 missed rank 2, said so and ended: it is not the one to blame. */
TT_TEST(exchange, blames_the_silent_rank_and_not_who_gave_up)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 0, .timeout_ms = 60000 }, other = r;
    tti_meeting m = meeting(&r, s), gone;
    tti_ident idents[SIZE];
    int mine = 1, all[SIZE];

    for (int i = 0; i < SIZE; i++)
        TT_REQUIRE_OK(tti_ident_self(i, SIZE, &idents[i]));
    idents[1].pid = ended_process();
    other.rank = 1;
    gone = meeting(&other, s);
    TT_FAIL(TT_ERR_TIMEOUT, "group test: start: waited for rank 2");
    tti_error_about(&(tt_error_info){ .kind = TT_ERROR_MISSING, .n_ranks = 1, .ranks = { 2 } });
    tti_exchange_give_up(&gone, TT_ERR_TIMEOUT, tt_last_error());
    m.idents = idents;
    TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_TIMEOUT,
                      "waited for rank 2");
    check_fields("start", TT_ERROR_MISSING, 1, 2, "");
    tt_store_free(s);
}

/* ---- how long a death takes to be noticed --------------------------------------------------------- */

/* A store in whose time nothing happens: a wait for a key that is not there is over at once. What was asked for is added up. */
typedef struct timeless {
    tt_store *memory;
    int n_waits, asked_ms;
} timeless;

static tt_status timeless_set(void *ctx, const char *key, const void *data, size_t size)
{
    return tt_store_set(((timeless *)ctx)->memory, key, data, size);
}

static tt_status timeless_get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    (void)timeout_ms;
    return tt_store_get(((timeless *)ctx)->memory, key, blob_p);
}

static tt_status timeless_add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    return tt_store_add(((timeless *)ctx)->memory, key, delta, value_p);
}

static tt_status timeless_check(void *ctx, const char *const *keys, int n, bool *present_p)
{
    return tt_store_check(((timeless *)ctx)->memory, keys, n, present_p);
}

static tt_status timeless_wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    timeless *t = ctx;
    bool present = false;

    t->n_waits++;
    t->asked_ms += timeout_ms;
    TT_REQUIRE_LT(t->n_waits, 1000); /* it waits in vain */
    return tt_store_check(t->memory, keys, n, &present) == TT_OK && present ? TT_OK
                                                                            : TT_ERR_TIMEOUT;
}

static void timeless_free(void *ctx)
{
    tt_store_free(((timeless *)ctx)->memory);
}

/* The promise is 50 ms: a turn of waiting is 20, and the launcher has another 20 to say how the rank ended. */
TT_TEST(exchange, looks_for_the_dead_after_20_ms_of_waiting)
{
    static const tt_store_ops ops = { .abi = TT_STORE_ABI,
                                      .name = "timeless",
                                      .set = timeless_set,
                                      .get = timeless_get,
                                      .add = timeless_add,
                                      .wait = timeless_wait,
                                      .check = timeless_check,
                                      .free = timeless_free };

    for (int launcher = 0; launcher < 2; launcher++) {
        timeless t = { .memory = tt_store_memory_new() };
        tt_store *s = tt_store_user_new(&ops, &t);
        rank r = { .store = s, .rank = 0, .timeout_ms = 60000 };
        tti_meeting m = meeting(&r, s);
        tti_ident idents[SIZE];
        int mine = 1, all[SIZE];

        TT_REQUIRE_NOT_NULL(s);
        for (int i = 0; i < SIZE; i++)
            TT_REQUIRE_OK(tti_ident_self(i, SIZE, &idents[i]));
        idents[3].pid = ended_process();
        m.idents = idents;
        if (launcher != 0)
            TT_CHECK_OK(tti_exit_announce(t.memory));
        TT_CHECK_ERR_SAYS(tti_exchange(&m, "start", &mine, sizeof mine, all), TT_ERR_PEER,
                          "rank 3 (pid");
        TT_CHECK_EQ(t.n_waits, 1 + launcher);
        TT_CHECK_LE(t.asked_ms, 20 + 20 * launcher);
        tt_store_free(s);
    }
}

/* Nobody knows the processes yet but through what they said in this very exchange. */
TT_TEST(exchange, notices_a_death_in_the_exchange_of_identities)
{
    tt_store *s = tt_store_memory_new();
    rank r = { .store = s, .rank = 0, .timeout_ms = 60000 };
    tti_meeting m = meeting(&r, s);
    tti_ident self, all[SIZE];
    uint8_t value[8 + sizeof(tti_ident)] = { TTI_IDENT_VERSION, 0, 0, 0, sizeof(tti_ident) };
    char words[60];

    TT_REQUIRE_OK(tti_ident_self(1, SIZE, &self));
    self.pid = ended_process();
    memcpy(value + 8, &self, sizeof self);
    TT_CHECK_OK(tt_store_set(s, "x/ident/1", value, sizeof value));
    TT_CHECK_OK(tt_store_add(s, "x/ident/count", 1, NULL));
    snprintf(words, sizeof words, "rank 1 (pid %d on", self.pid);
    TT_REQUIRE_OK(tti_ident_self(0, SIZE, &self));
    TT_CHECK_ERR_SAYS(tti_exchange(&m, "ident", &self, sizeof self, all), TT_ERR_PEER, words);
    tt_store_free(s);
}

static void *note_exit_later(void *arg)
{
    tt_store *s = arg;

    usleep(50000); /* so that somebody waits already; if not, nothing is lost */
    TT_CHECK_OK(tti_exit_record(s, 3, "killed by signal 9"));
    return NULL;
}

TT_TEST(exchange, waits_for_a_cause_only_where_somebody_notes_it)
{
    tt_store *s = tt_store_memory_new();
    int64_t begin = tti_now_ns();
    pthread_t thread;
    char words[60];

    tti_exit_cause(s, 3, 600000, words, sizeof words);
    TT_CHECK_STR(words, "");
    TT_CHECK_LT(tti_now_ns() - begin, 300000000000LL);
    TT_CHECK_OK(tti_exit_announce(s));
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, note_exit_later, s), 0);
    tti_exit_cause(s, 3, 600000, words, sizeof words);
    TT_CHECK_STR(words, "killed by signal 9");
    pthread_join(thread, NULL);
    tt_store_free(s);
}

/* Rank 0 served the store and has ended: the words name it, whether its process is known or not. */
TT_TEST(exchange, names_rank_0_when_the_store_is_gone)
{
    for (int known = 0; known < 2; known++) {
        tt_store_tcp_options o = { .serve = true };
        tt_store *server = tt_store_tcp_open("127.0.0.1", 0, &o), *s;
        tti_ident idents[SIZE];
        rank r = { .rank = 1, .timeout_ms = 60000 };
        tti_meeting m;
        int mine = 1, all[SIZE];

        TT_REQUIRE_NOT_NULL(server);
        s = tt_store_tcp_open("127.0.0.1", tt_store_tcp_port(server), NULL);
        TT_REQUIRE_NOT_NULL(s);
        TT_CHECK_OK(tt_store_set(s, "met", "1", 1));
        for (int i = 0; i < SIZE; i++)
            TT_REQUIRE_OK(tti_ident_self(i, SIZE, &idents[i]));
        idents[0].pid = ended_process();
        r.store = s;
        m = meeting(&r, s);
        m.idents = known != 0 ? idents : NULL;
        tt_store_free(server);
        TT_CHECK_ERR(tti_exchange(&m, "start", &mine, sizeof mine, all),
                     known != 0 ? TT_ERR_PEER : TT_ERR_IO);
        TT_CHECK_CONTAINS(tt_last_error(),
                          known != 0 ? "rank 0 (pid" : "which global rank 0 serves");
        TT_CHECK_CONTAINS(tt_last_error(), "cannot be reached");
        TT_CHECK_CONTAINS(tt_last_error(), "no group can be made any more");
        tt_store_free(s);
    }
}
