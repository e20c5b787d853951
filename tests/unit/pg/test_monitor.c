/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor: dumps at SIGUSR2, warnings of slow operations, fork. Each test is a process of its own. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "pg/recorder.h"
#include "tutti/testing.h"

static tti_recorder *new_recorder(const char *group, int timeout_ms)
{
    tti_recorder *r = tti_recorder_new(&(tti_recorder_info){
        .group = group, .backend = "shm", .rank = 0, .size = 1, .timeout_ms = timeout_ms });

    TT_REQUIRE_NOT_NULL(r);
    return r;
}

/* Waits until the file is there, ten seconds at most. */
static bool appears(const char *group)
{
    int64_t until = tti_deadline(10000);
    char path[600];

    snprintf(path, sizeof path, "%s/%s.0.json", tt_test_tmpdir(), group);
    while (access(path, F_OK) != 0) {
        if (tti_now_ns() > until)
            return false;
        poll(NULL, 0, 1);
    }
    return unlink(path) == 0;
}

static void use_dir(void)
{
    TT_REQUIRE_EQ(setenv("TUTTI_FLIGHT_DIR", tt_test_tmpdir(), 1), 0);
}

TT_TEST(monitor, a_signal_dumps_all_recorders_each_time)
{
    tti_recorder *a = new_recorder("a", 1000), *b = new_recorder("b", 1000);

    use_dir();
    TT_REQUIRE_OK(tti_monitor_start());
    TT_REQUIRE_OK(tti_monitor_start());
    for (int i = 0; i < 3; i++) {
        TT_REQUIRE_EQ(kill(getpid(), SIGUSR2), 0);
        TT_CHECK(appears("a"));
        TT_CHECK(appears("b"));
    }
    tti_recorder_free(b);
    TT_REQUIRE_EQ(raise(SIGUSR2), 0);
    TT_CHECK(appears("a"));
    tti_recorder_free(a);
    TT_REQUIRE_EQ(raise(SIGUSR2), 0); /* nothing to dump */
}

static atomic_int n_own;

static void own_handler(int sig)
{
    (void)sig;
    atomic_fetch_add(&n_own, 1);
}

TT_TEST(monitor, leaves_the_programs_handler_alone)
{
    tti_recorder *r = new_recorder("a", 1000);

    use_dir();
    signal(SIGUSR2, own_handler);
    TT_REQUIRE_OK(tti_monitor_start());
    TT_REQUIRE_EQ(raise(SIGUSR2), 0);
    TT_CHECK_EQ(atomic_load(&n_own), 1);
    tti_recorder_free(r);
}

TT_TEST(monitor, is_one_thread_with_a_name_and_no_signals)
{
    char name[64], path[64], line[256];
    unsigned long long blocked = 0;
    int found = 0;

    TT_REQUIRE_OK(tti_monitor_start());
    TT_REQUIRE_OK(tti_monitor_start());
    for (int id = getpid(); id < getpid() + 50; id++) {
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%d/status", id);
        f = fopen(path, "r");
        if (f == NULL)
            continue;
        name[0] = '\0';
        while (fgets(line, sizeof line, f) != NULL) {
            sscanf(line, "Name: %63s", name);
            if (strcmp(name, "tt-monitor") == 0)
                sscanf(line, "SigBlk: %llx", &blocked);
        }
        found += strcmp(name, "tt-monitor") == 0;
        fclose(f);
    }
    TT_CHECK_EQ(found, 1);
    TT_CHECK((blocked >> (SIGUSR2 - 1) & 1) != 0);
    TT_CHECK((blocked >> (SIGINT - 1) & 1) != 0);
}

/* ---- warnings -------------------------------------------------------------------------------- */

static atomic_int n_slow, n_other;

static void count_slow(void *ctx, tt_log_level level, const char *words)
{
    (void)ctx;
    if (level == TT_LOG_WARN && strstr(words, "group slow rank 0: all_reduce 5 has been") != NULL)
        atomic_fetch_add(&n_slow, 1);
    else
        atomic_fetch_add(&n_other, 1);
}

static void wait_for(atomic_int *count, int n)
{
    int64_t until = tti_deadline(10000);

    while (atomic_load(count) < n && tti_now_ns() < until)
        poll(NULL, 0, 5);
    TT_CHECK_EQ(atomic_load(count), n);
}

TT_TEST(monitor, warns_once_of_an_operation_that_takes_long)
{
    tti_recorder *r = new_recorder("slow", 200), *other;
    uint64_t t;

    tt_log_set_sink(count_slow, NULL);
    TT_REQUIRE_OK(tti_monitor_start());
    for (uint64_t seq = 1; seq < 5; seq++) {
        t = tti_recorder_issued(r, &(tti_record){ .op = "all_reduce", .seq = seq });
        tti_recorder_started(r, t);
        tti_recorder_ended(r, t, TT_OK);
    }
    t = tti_recorder_issued(r, &(tti_record){ .op = "all_reduce", .seq = 5 });
    tti_recorder_issued(r, &(tti_record){ .op = "all_reduce", .seq = 6 }); /* not started */
    tti_recorder_started(r, t);
    wait_for(&n_slow, 1);
    /* Another slow one shows that the monitor has looked again. */
    other = new_recorder("other", 200);
    tti_recorder_started(other, tti_recorder_issued(other, &(tti_record){ .op = "x", .seq = 1 }));
    wait_for(&n_other, 1);
    TT_CHECK_EQ(atomic_load(&n_slow), 1);
    tt_log_set_sink(NULL, NULL);
    tti_recorder_free(r);
    tti_recorder_free(other);
}

/* ---- fork ------------------------------------------------------------------------------------- */

static int child_of_fork(tti_recorder *inherited)
{
    tti_recorder *own;

    tti_recorder_free(inherited);
    raise(SIGUSR2); /* nobody listens; nothing happens */
    own = new_recorder("child", 1000);
    if (tti_monitor_start() != TT_OK)
        return 2;
    raise(SIGUSR2);
    if (!appears("child"))
        return 3;
    tti_recorder_free(own);
    return 0;
}

TT_TEST(monitor, starts_anew_in_a_child)
{
    tti_recorder *r = new_recorder("parent", 1000);
    char path[600];
    int status;
    pid_t pid;

#if defined(__SANITIZE_THREAD__)
    tti_recorder_free(r);
    TT_SKIP("the thread sanitizer lets no child of a threaded process start threads");
#endif
    use_dir();
    (void)tt_test_tmpdir();
    TT_REQUIRE_OK(tti_monitor_start());
    pid = fork();
    TT_REQUIRE_GE(pid, 0);
    if (pid == 0)
        _exit(child_of_fork(r));
    TT_REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    TT_CHECK(WIFEXITED(status));
    TT_CHECK_EQ(WEXITSTATUS(status), 0);
    snprintf(path, sizeof path, "%s/parent.0.json", tt_test_tmpdir());
    TT_CHECK_NE(access(path, F_OK), 0); /* the child's signal is not the parent's */
    TT_REQUIRE_EQ(raise(SIGUSR2), 0);
    TT_CHECK(appears("parent"));
    tti_recorder_free(r);
}

/* ---- groups come and go while signals arrive ---------------------------------------------------- */

static void *come_and_go(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
        tti_recorder *r = new_recorder("short", 1000);

        tti_recorder_issued(r, &(tti_record){ .op = "x", .seq = 1 });
        tti_recorder_free(r);
    }
    return NULL;
}

TT_TEST(monitor, recorders_may_go_while_they_are_dumped)
{
    tti_recorder *stays = new_recorder("stays", 1000);
    atomic_bool stop = false;
    pthread_t t[2];

    use_dir();
    TT_REQUIRE_OK(tti_monitor_start());
    for (int i = 0; i < 2; i++)
        TT_REQUIRE_EQ(pthread_create(&t[i], NULL, come_and_go, &stop), 0);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR2);
        TT_CHECK(appears("stays"));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    tti_recorder_free(stays);
}
