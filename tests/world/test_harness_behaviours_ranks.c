/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviours of the harness by name: ranks that are processes, and those that are kept. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <tutti/testing_tools.h>
#include <unistd.h>

#include "harness/again.h"
#include "testing/kept.h"
#include "testing/testing.h"

static double soon(void)
{
    return (tti_test_sanitized() ? 20 : 6) * tti_test_stretch(); /* 0.1 on an idle machine */
}

static int count_files(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    if (dir == NULL)
        return -1;
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* ---- processes ---- */

TT_TEST_RANKS_NAMED(0, multi_process_test_case, "harness", "MultiProcessTestCase")
{
    char path[512];
    int fd;

    TT_CHECK_EQ(tt_test_size(), tt_test_world_size());
    snprintf(path, sizeof path, "%s/%d", tt_test_tmpdir(), tt_test_rank());
    fd = creat(path, 0600);
    TT_REQUIRE_GE(fd, 0);
    close(fd);
    tt_test_barrier();
    for (int i = 0; i < tt_test_size(); i++) {
        snprintf(path, sizeof path, "%s/%d", tt_test_tmpdir(), i);
        TT_CHECK_EQ(access(path, F_OK), 0);
        for (int k = 0; k < i; k++)
            TT_CHECK_NE(tt_test_rank_pid(i), tt_test_rank_pid(k));
    }
}

TT_TEST_NAMED(join_or_run, "harness", "MultiProcessTestCase.join_or_run")
{
    const again_outcome *o = RUN("meta_ranks.all_pass", "-v");

    /* The body ran in the ranks only, and not in the process that joined them. */
    for (int i = 0; i < 4; i++) {
        char words[32], *at;

        snprintf(words, sizeof words, "| rank %d of 4\n", i);
        at = strstr(o->text, words);
        TT_REQUIRE_NOT_NULL(at);
        TT_CHECK_NULL(strstr(at + 1, words));
    }
    TT_CHECK_NULL(strstr(o->text, "rank -1"));
    o = RUN("meta_ranks.no_such_test");
    TT_CHECK_EQ(o->code, 2);
    TT_CHECK_CONTAINS(o->text, "no test is selected");
}

TT_TEST_RANKS_NAMED(2, mp_set_up, "harness", "MultiProcessTestCase.setUp")
{
    /* Each test starts with a directory of its own and nothing expected or ignored. */
    TT_CHECK_EQ(count_files(tt_test_tmpdir()), 2);
    tt_test_barrier();
    if (tt_test_rank() == 0)
        TT_CHECK_STR(again_last_line(RUN("meta_ranks.any_may_end_so", "meta_ranks.one_calls_exit",
                                         "meta_ranks.does_not_end_as_declared", "--jobs", "1")
                                         ->text),
                     "1 passed, 2 failed, 0 skipped\n");
}

TT_TEST_NAMED(mp_tear_down, "harness", "MultiProcessTestCase.tearDown")
{
    const char *const args[] = { "meta_ranks.all_pass",
                                 "meta_ranks.one_fails_others_wait",
                                 "--jobs",
                                 "1",
                                 "--repeat",
                                 "20",
                                 NULL };
    pid_t pid = again_start(args);
    char path[64], text[AGAIN_TEXT];
    int n, most = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    while ((n = count_files(path)) > 0) { /* of the runner, while it works through 40 tests */
        most = n > most ? n : most;
        again_read("text", text);
        if (strstr(text, "passed,") != NULL)
            break;
        usleep(2000);
    }
    TT_CHECK_CONTAINS(again_finish(pid)->text, "20 passed, 20 failed, 0 skipped\n");
    TT_CHECK_LE(most, 16);
}

TT_TEST_RANKS_NAMED(3, mp_spawn, "harness", "MultiProcessTestCase._spawn_processes")
{
    char name[32] = "", expected[32], command[256] = "";
    static int touched;
    FILE *f;

    TT_CHECK_EQ(touched++, 0); /* a clean start, not a copy of the parent's memory */
    prctl(PR_GET_NAME, name);
    snprintf(expected, sizeof expected, "rank %d", tt_test_rank());
    TT_CHECK_STR(name, expected);
    f = fopen("/proc/self/cmdline", "r");
    TT_REQUIRE_NOT_NULL(f);
    for (size_t i = 0, n = fread(command, 1, sizeof command - 1, f); i < n; i++)
        command[i] = command[i] == '\0' ? ' ' : command[i];
    fclose(f);
    snprintf(expected, sizeof expected, "--as-rank %d:", tt_test_rank());
    TT_CHECK_CONTAINS(command, expected);
    TT_CHECK_EQ(getpid(), tt_test_rank_pid(tt_test_rank()));
}

TT_TEST_NAMED(mp_event_listener, "harness", "MultiProcessTestCase._event_listener")
{
    const again_outcome *o = RUN("meta_stacks", "--limit", "4");

    /* All threads of a rank answer, the one that computes too. */
    TT_CHECK_CONTAINS(o->text, "stack of thread rank 0:\n");
    TT_CHECK_CONTAINS(o->text, "stack of thread helper:\n");
    TT_CHECK_CONTAINS(o->text, "stand_still_in_test at ");
}

static void stand_still_in_test(void)
{
    for (;;)
        pause();
}

static void *helper(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "helper");
    stand_still_in_test();
    return NULL;
}

TT_TEST_RANKS_HIDDEN(1, meta_stacks, two_threads_hang, 0)
{
    pthread_t thread;

    TT_REQUIRE_EQ(pthread_create(&thread, NULL, helper, NULL), 0);
    stand_still_in_test();
}

TT_TEST_NAMED(mp_run_test, "harness", "MultiProcessTestCase.run_test")
{
    const again_outcome *o = RUN("meta_ranks.skips_with_words", "meta_ranks.all_fail",
                                 "meta_ranks.shows_its_seed", "--seed", "9");

    TT_CHECK_CONTAINS(o->report, "skips_with_words\tskip\t");
    TT_CHECK_CONTAINS(o->report, "all_fail\tfail\t");
    TT_CHECK_CONTAINS(o->report, "expected tt_test_rank() == -1, got 2 and -1");
    TT_CHECK_CONTAINS(o->text, "seed of rank 1 is 9\n");
    if (!tti_test_sanitized())
        TT_CHECK_CONTAINS(RUN("meta_ranks.one_crashes")->text, "crashed in thread rank 2:\n");
}

TT_TEST_NAMED(mp_traceback, "harness", "MultiProcessTestCase._get_timedout_process_traceback")
{
    const again_outcome *o =
        RUN("meta_ranks.two_hang", "meta_ranks.one_is_stopped", "--limit", "4");

    TT_CHECK_CONTAINS(o->text, "---- rank 1\n  | stack of thread rank 1:\n");
    TT_CHECK_CONTAINS(o->text, "---- rank 2\n  | stack of thread rank 2:\n");
    TT_CHECK_CONTAINS(o->text, "the stack could not be had\n");
    TT_CHECK_STR(again_last_line(o->text), "0 passed, 2 failed, 0 skipped\n");
}

TT_TEST_NAMED(mp_join, "harness", "MultiProcessTestCase._join_processes")
{
    const again_outcome *o = RUN("meta_ranks.one_fails_others_wait");

    TT_CHECK(o->seconds < soon());
    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): ");
    o = RUN("meta_ranks.two_hang", "--limit", "4");
    TT_CHECK_CONTAINS(o->report, "\ttimed out after 4 s: rank 1, 2 had not ended");
    TT_CHECK(o->seconds < 1 + soon());
    TT_CHECK_EQ(RUN("meta_ranks.all_pass")->code, 0);
}

TT_TEST_NAMED(mp_return_codes, "harness", "MultiProcessTestCase._check_return_codes")
{
    const again_outcome *o =
        RUN("meta_ranks.all_fail", "meta_ranks.one_is_killed", "meta_ranks.one_skips",
            "meta_ranks.exits_are_ignored", "meta_ranks.any_may_end_so",
            "meta_ranks.ends_as_declared", "meta_ranks.does_not_end_as_declared");

    TT_CHECK_STR(again_last_line(o->text), "3 passed, 3 failed, 1 skipped\n");
    TT_CHECK_CONTAINS(o->report, "got 0 and -1; rank 1");
    TT_CHECK_CONTAINS(o->report, "killed by SIGKILL");
    TT_CHECK_CONTAINS(o->report, "\tneeds a larger world\n");
}

TT_TEST_RANKS_NAMED(0, mp_properties, "harness",
                    "MultiProcessTestCase.destroy_pg_upon_exit / world_size / is_master")
{
    static tt_test_suite suite = { .suite = "a suite without tests" };

    TT_CHECK(!suite.keep_group); /* groups are destroyed unless a suite keeps them */
    TT_CHECK_EQ(tt_test_size(), tt_test_world_size());
    TT_CHECK_EQ(tt_test_rank() == 0, atoi(getenv("RANK")) == 0);
    if (tt_test_rank() == 0)
        TT_CHECK_EQ(RUN("meta_group.leaves_it_to_the_harness")->code, 0);
}

TT_TEST_RANKS_HIDDEN(2, meta_group, leaves_it_to_the_harness, 0)
{
    tt_test_pg();
}

/* ---- groups of processes ---- */

TT_TEST_RANKS_NAMED(2, distributed_test_base, "harness", "DistributedTestBase")
{
    TT_CHECK_STR(getenv("WORLD_SIZE"), "2");
    TT_CHECK_EQ(tt_test_size(), 2);
    if (tt_test_rank() == 0) {
        const again_outcome *o = RUN("meta_tmp", "-v");
        char path[256] = "", *at = strstr(o->text, "tmp ");

        TT_REQUIRE_NOT_NULL(at);
        TT_REQUIRE_EQ(sscanf(at, "tmp %255s", path), 1);
        TT_CHECK_EQ(access(path, F_OK), -1); /* removed with the rendezvous file in it */
    }
}

TT_TEST_RANKS_HIDDEN(2, meta_tmp, says_where, 0)
{
    tt_test_store();
    if (tt_test_rank() == 0)
        printf("tmp %s\n", tt_test_tmpdir());
}

TT_TEST_NAMED(base_backend, "harness", "DistributedTestBase.backend")
{
    TT_CHECK_STR(tt_test_backend_for("cuda"), "nccl");
    TT_CHECK_STR(tt_test_backend_for("cuda:1"), "nccl");
    TT_CHECK_STR(tt_test_backend_for("cpu"), "shm");
    TT_CHECK_STR(tt_test_backend_for("cl"), "shm");
    TT_CHECK_STR(tt_test_backend_for("anything else"), "shm");
}

TT_TEST_RANKS_NAMED(2, base_create_pg, "harness", "DistributedTestBase.create_pg")
{
    tt_pg *pg = tt_test_pg();

    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_rank(pg), tt_test_rank());
    TT_CHECK_EQ(tt_pg_size(pg), 2);
    TT_CHECK_STR(tt_pg_backend(pg), "shm");
    TT_CHECK_EQ(tt_pg_timeout(pg), 60000);
    TT_CHECK_STR(tt_store_kind(tt_test_store()), "file");
    TT_CHECK_PTR(tt_test_pg(), pg);
}

TT_TEST_NAMED(base_rank_to_device, "harness", "DistributedTestBase.rank_to_device")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "3")
    {
        for (int r = 0; r < 8; r++)
            TT_CHECK_EQ(tt_test_rank_device(r), r % 3);
    }
    TT_TEST_WITH_ENV("TUTTI_TEST_DEVICES", "0")
    TT_CHECK_EQ(tt_test_rank_device(5), 0);
}

/* ---- kept ranks ---- */

TT_TEST_NAMED(retrieve_result, "harness", "retrieve_result_from_completion_queue")
{
    const again_outcome *o;

    TT_CHECK_NEAR(tti_kept_slice(0), 120, 0);
    TT_CHECK_NEAR(tti_kept_slice(8), 10, 0);
    TT_CHECK_NEAR(tti_kept_slice(100), 25, 0);
    TT_CHECK_NEAR(tti_kept_slice(4000), 120, 0);
    o = RUN("meta_kept_dies");
    TT_CHECK_CONTAINS(o->report, "\trank 1 (first): killed by SIGKILL (Killed)\n");
    o = RUN("meta_kept_hangs", "--limit", "4");
    TT_CHECK_CONTAINS(o->report, "\ttimed out after 4 s: no answer from rank 1\n");
}

TT_TEST_NAMED(kept_class, "harness", "MultiProcContinuousTest")
{
    const again_outcome *o = RUN("meta_kept", "-v");

    TT_CHECK_CONTAINS(o->report, "meta_kept\tb_same_processes\tpass\t");
    TT_CHECK_CONTAINS(o->report, "\td_one_fails failed, its ranks are not used again\n");
    TT_CHECK_STR(again_last_line(o->text), "2 passed, 1 failed, 2 skipped\n");
}

/* A suite with a group of its own kind; both tests run in the same ranks. */
static tt_pg *first_group;

TT_TEST_KEPT_HIDDEN(2, meta_kept_group, a_makes_it, 0)
{
    first_group = tt_test_pg();
    TT_REQUIRE_NOT_NULL(first_group);
    TT_CHECK_EQ(tt_pg_rank(first_group), tt_test_rank());
    TT_CHECK_EQ(tt_pg_timeout(first_group), 120000);
    TT_CHECK_STR(tt_pg_backend(first_group), "shm");
    TT_CHECK_EQ(atoi(getenv("LOCAL_RANK")), tt_test_rank());
    TT_CHECK_STR(tt_store_kind(tt_test_store()), "file");
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_group, b_has_the_same, 0)
{
    TT_CHECK_PTR(tt_test_pg(), first_group);
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_own, a_has_options, 0)
{
    tt_pg *pg = tt_test_pg();

    TT_CHECK_EQ(tt_pg_timeout(pg), 30000);
    TT_CHECK_STR(tt_pg_backend(pg), "fake");
}

TT_TEST_TABLE(meta_kept_own)
{
    static tt_test_suite suite = { .suite = "meta_kept_own",
                                   .backend = "fake",
                                   .timeout_ms = 30000 };

    tt_test_suite_register(&suite);
}

TT_TEST_NAMED(kept_opts, "harness", "MultiProcContinuousTest.backend_str / device_type / opts")
{
    const tt_test_suite *s = tti_test_suite_find("meta_kept_own");

    TT_REQUIRE_NOT_NULL(s);
    TT_CHECK_STR(s->backend, "fake");
    TT_CHECK_NULL(tti_test_suite_find("meta_kept_group"));
    TT_CHECK_STR(again_last_line(RUN("meta_kept_own")->text), "1 passed, 0 failed, 0 skipped\n");
}

TT_TEST_NAMED(kept_init_pg, "harness", "MultiProcContinuousTest._init_pg")
{
    TT_CHECK_STR(again_last_line(RUN("meta_kept_group")->text), "2 passed, 0 failed, 0 skipped\n");
}

TT_TEST_NAMED(kept_worker_loop, "harness", "MultiProcContinuousTest._worker_loop")
{
    const again_outcome *o = RUN("meta_kept_skips");

    TT_CHECK_STR(again_last_line(o->text), "0 passed, 0 failed, 2 skipped\n");
    o = RUN("meta_kept", "-v", "--seed", "31");
    for (int i = 0; i < 3; i++) {
        char words[64];
        const char *at;

        snprintf(words, sizeof words, "---- rank %d\n  | process ", i);
        at = strstr(o->text, words);
        TT_REQUIRE_NOT_NULL(at);
        at = strstr(at, "seed ");
        TT_REQUIRE_NOT_NULL(at);
        TT_CHECK_EQ(atoi(at + 5), 31); /* the same on all ranks */
    }
    TT_CHECK_CONTAINS(o->report, "\tno peer access between devices\n");
    TT_CHECK_CONTAINS(o->report, "expected 1 == 2, got 1 and 2");
}

/* Where the ranks of a suite say who they are; see the tests of spawning. */
TT_TEST_KEPT_HIDDEN(2, meta_kept_who, a_says, 0)
{
    printf("rank process %ld\n", (long)getpid());
}

TT_TEST_KEPT_HIDDEN(0, meta_kept_size, a_says, 0)
{
    if (tt_test_rank() == 0)
        printf("kept world of %d\n", tt_test_size());
}

static void check_gone(const char *text)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, "rank process ")) != NULL; at++, n++) {
        long pid = atol(at + 13);

        while (again_is_running(pid))
            usleep(1000);
    }
    TT_CHECK_EQ(n, 2);
}

TT_TEST_NAMED(kept_spawn, "harness", "MultiProcContinuousTest._spawn_processes")
{
    const again_outcome *o = RUN("meta_kept_who", "-v");

    TT_CHECK_EQ(o->code, 0);
    check_gone(o->text);
}

TT_TEST_NAMED(kept_world_size, "harness", "MultiProcContinuousTest._get_world_size")
{
    TT_TEST_WITH_ENV("TUTTI_TEST_RANKS", "5")
    TT_CHECK_CONTAINS(RUN("meta_kept_size", "-v")->text, "kept world of 5\n");
    TT_TEST_WITH_ENV("TUTTI_TEST_RANKS", NULL)
    TT_CHECK_CONTAINS(RUN("meta_kept_size", "-v")->text, "kept world of 4\n");
}

TT_TEST_NAMED(kept_ensure, "harness", "MultiProcContinuousTest._ensure_processes_spawned")
{
    const again_outcome *o = RUN("meta_kept_who", "meta_kept_group.b_*", "--list");

    /* Nothing is started before a test needs it, and each suite has its own. */
    TT_CHECK_EQ(o->code, 0);
    TT_CHECK_NULL(strstr(o->text, "rank process"));
    o = RUN("meta_kept_who", "meta_kept.a_first", "-v");
    TT_CHECK_STR(again_last_line(o->text), "2 passed, 0 failed, 0 skipped\n");
    o = RUN("meta_kept_mpi");
    TT_CHECK_CONTAINS(o->report, "\tthe backend mpi is not available\n");
}

static void need_mpi(void *ctx)
{
    (void)ctx;
    tt_test_require_backend("mpi");
}

TT_TEST_KEPT_HIDDEN(2, meta_kept_mpi, a, 0)
{
    TT_FAIL_TEST("ran without its backend");
}

TT_TEST_TABLE(meta_kept_mpi)
{
    static tt_test_suite suite = { .suite = "meta_kept_mpi", .set_up = need_mpi };

    tt_test_suite_register(&suite);
}

TT_TEST_NAMED(kept_tear_down, "harness", "MultiProcContinuousTest.tearDownClass")
{
    const again_outcome *o = RUN("meta_kept_who", "-v");

    TT_CHECK_STR(again_last_line(o->text), "1 passed, 0 failed, 0 skipped\n");
    check_gone(o->text);
    TT_CHECK(o->seconds < soon());
}

TT_TEST_NAMED(kept_set_up, "harness", "MultiProcContinuousTest.setUp")
{
    const again_outcome *o = RUN("meta_kept.d_one_fails", "meta_kept.e_is_poisoned");

    TT_CHECK_STR(again_last_line(o->text), "0 passed, 1 failed, 1 skipped\n");
    TT_CHECK_CONTAINS(o->report, "e_is_poisoned\tskip\t");
    TT_CHECK_EQ(RUN("meta_kept.e_is_poisoned")->code, 0); /* alone it runs */
}

TT_TEST_NAMED(kept_wait, "harness", "MultiProcContinuousTest._worker_run_main_wait")
{
    const again_outcome *o = RUN("meta_kept_drain", "-v");

    /* The failure of rank 0 does not hide the answers of the others. */
    TT_CHECK_CONTAINS(o->report, "got 0 and 9; rank 1");
    TT_CHECK_CONTAINS(o->report, "got 2 and 9");
    TT_CHECK_CONTAINS(o->report, "b_after\tskip\t");
    o = RUN("meta_kept_deaf");
    TT_CHECK(o->seconds < 1 + soon());
}

TT_TEST_KEPT_HIDDEN(3, meta_kept_drain, a_all_fail, 0)
{
    tt_test_barrier();
    TT_CHECK_EQ(tt_test_rank(), 9);
}

TT_TEST_KEPT_HIDDEN(3, meta_kept_drain, b_after, 0)
{
    printf("not reached\n");
}
