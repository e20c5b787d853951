/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: what its dumps hold, and when there are any. */
#include "pg/recorder.h"

#include <cJSON.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "pg/recorder_ring.h"
#include "tutti/testing.h"

static const int ranks[] = { 3, 5, 9 };

static tti_recorder *new_recorder(const char *group)
{
    tti_recorder *r = tti_recorder_new(&(tti_recorder_info){ .group = group,
                                                             .desc = "for tests",
                                                             .backend = "shm",
                                                             .rank = 1,
                                                             .size = 3,
                                                             .global_ranks = ranks,
                                                             .timeout_ms = 60000 });

    TT_REQUIRE_NOT_NULL(r);
    return r;
}

static uint64_t issue(tti_recorder *r, const char *op, uint64_t seq)
{
    return tti_recorder_issued(r, &(tti_record){ .op = op,
                                                 .seq = seq,
                                                 .peer = -1,
                                                 .dtype = TT_F32,
                                                 .in_bytes = 24,
                                                 .out_bytes = 48,
                                                 .n_dims = 2,
                                                 .dims = { 2, 3 },
                                                 .site = __builtin_return_address(0) });
}

static void use_dir(const char *dir)
{
    TT_REQUIRE_EQ(setenv("TUTTI_FLIGHT_DIR", dir, 1), 0);
}

/* The dump as JSON, to be freed; NULL when there is none. */
static cJSON *load(const char *name)
{
    static char text[2 << 20];
    char path[600];
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", getenv("TUTTI_FLIGHT_DIR"), name);
    f = fopen(path, "r");
    if (f == NULL)
        return NULL;
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return cJSON_ParseWithOpts(text, NULL, true);
}

static double number(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(j, key);

    if (!TT_CHECK(cJSON_IsNumber(item)))
        tt_test_note("%s", key);
    return item != NULL ? item->valuedouble : -1;
}

static const char *text(const cJSON *j, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(j, key));

    return s != NULL ? s : "absent";
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    TT_REQUIRE_NOT_NULL(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* SECURITY.md: only the user who runs the job reads its dumps. */
TT_TEST(recorder, dump_is_private)
{
    tti_recorder *r = new_recorder("world");
    char dir[600], path[700];
    mode_t before = umask(0);
    struct stat made, file;

    snprintf(dir, sizeof dir, "%s/made", tt_test_tmpdir());
    snprintf(path, sizeof path, "%s/world.5.json", dir);
    use_dir(dir);
    tti_recorder_dump(r, "time-out", "");
    umask(before);
    TT_REQUIRE_EQ(stat(dir, &made), 0);
    TT_REQUIRE_EQ(stat(path, &file), 0);
    TT_CHECK_EQ(made.st_mode & 07777, 0700);
    TT_CHECK_EQ(file.st_mode & 07777, 0600);
    tti_recorder_free(r);
}

TT_TEST(recorder, dump_says_everything)
{
    tti_recorder *r = new_recorder("world");
    uint64_t a, b;
    cJSON *j, *g, *e;

    use_dir(tt_test_tmpdir());
    a = issue(r, "all_reduce", 1);
    tti_recorder_started(r, a);
    tti_recorder_ended(r, a, TT_OK);
    b = issue(r, "broadcast", 2);
    tti_recorder_started(r, b);
    issue(r, "barrier", 3);
    a = tti_recorder_issued(
        r, &(tti_record){ .op = "send", .seq = 4, .p2p = true, .async = true, .peer = 2 });
    tti_recorder_started(r, a);
    tti_recorder_ended(r, a, TT_ERR_PEER);
    tti_recorder_dump(r, "time-out", "broadcast 2: rank \"0\" is missing");
    j = load("world.5.json");
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_STR(text(j, "cause"), "time-out");
    TT_CHECK_STR(text(j, "words"), "broadcast 2: rank \"0\" is missing");
    TT_CHECK_STR(text(j, "version"), tt_version());
    TT_CHECK_EQ((int)number(j, "pid"), getpid());
    TT_CHECK_EQ((int)number(j, "last_issued"), 3);
    TT_CHECK_EQ((int)number(j, "last_started"), 2);
    TT_CHECK_EQ((int)number(j, "last_completed"), 1);
    TT_CHECK_EQ((int)number(j, "p2p_last_issued"), 4);
    TT_CHECK_EQ((int)number(j, "p2p_last_completed"), 0);
    g = cJSON_GetObjectItem(j, "group");
    TT_CHECK_STR(text(g, "name"), "world");
    TT_CHECK_STR(text(g, "desc"), "for tests");
    TT_CHECK_STR(text(g, "backend"), "shm");
    TT_CHECK_EQ((int)number(g, "rank"), 1);
    TT_CHECK_EQ((int)number(g, "global_rank"), 5);
    TT_CHECK_EQ((int)number(g, "timeout_ms"), 60000);
    TT_CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(g, "global_ranks")), 3);
    e = cJSON_GetObjectItem(j, "entries");
    TT_REQUIRE_EQ(cJSON_GetArraySize(e), 4);
    TT_CHECK_STR(text(cJSON_GetArrayItem(e, 0), "state"), "completed");
    TT_CHECK_STR(text(cJSON_GetArrayItem(e, 1), "state"), "started");
    TT_CHECK_STR(text(cJSON_GetArrayItem(e, 2), "state"), "issued");
    TT_CHECK_STR(text(cJSON_GetArrayItem(e, 3), "state"), "failed");
    TT_CHECK_STR(text(cJSON_GetArrayItem(e, 3), "status"), "TT_ERR_PEER");
    TT_CHECK_EQ((int)number(cJSON_GetArrayItem(e, 3), "peer"), 2);
    e = cJSON_GetArrayItem(e, 0);
    TT_CHECK_STR(text(e, "op"), "all_reduce");
    TT_CHECK_STR(text(e, "dtype"), "float32");
    TT_CHECK_EQ((int)number(e, "in_bytes"), 24);
    TT_CHECK_EQ((int)number(e, "out_bytes"), 48);
    TT_CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(e, "dims")), 2);
    TT_CHECK_GE((int)number(e, "duration_ns"), 0);
    TT_CHECK(strcmp(text(e, "site"), "absent") != 0);
    TT_CHECK_NULL(
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(j, "entries"), 1), "ended_ns"));
    cJSON_Delete(j);
    tti_recorder_free(r);
    tti_recorder_free(NULL);
}

TT_TEST(recorder, times_are_those_of_the_monotonic_clock)
{
    tti_recorder *r = new_recorder("clock");
    int64_t before, started, after;
    cJSON *j, *e;
    double issued, ended;
    uint64_t t;

    use_dir(tt_test_tmpdir());
    before = tti_now_ns();
    t = issue(r, "all_reduce", 1);
    tti_recorder_started(r, t);
    started = tti_now_ns();
    while (tti_now_ns() - started < 5000000)
        ;
    tti_recorder_ended(r, t, TT_OK);
    after = tti_now_ns();
    tti_recorder_dump(r, "test", NULL);
    j = load("clock.5.json");
    TT_REQUIRE_NOT_NULL(j);
    e = cJSON_GetArrayItem(cJSON_GetObjectItem(j, "entries"), 0);
    issued = number(e, "issued_ns");
    ended = number(e, "ended_ns");
    TT_CHECK(issued > (double)before - 100e3 && issued < (double)after + 100e3);
    TT_CHECK(ended > (double)started + 5e6 - 100e3 && ended < (double)after + 100e3);
    TT_CHECK_GE((long long)number(e, "duration_ns"), 4500000);
    TT_CHECK(number(j, "now_ns") >= ended - 100e3);
    cJSON_Delete(j);
    tti_recorder_free(r);
}

/* The owner of a group has a count of its own; the greater one is told. */
TT_TEST(recorder, last_of_all_threads)
{
    tti_recorder *r = new_recorder("owner");
    uint64_t tickets[4];
    cJSON *j;

    use_dir(tt_test_tmpdir());
    for (uint64_t seq = 1; seq <= 4; seq++)
        tickets[seq - 1] =
            tti_recorder_begun(r, &(tti_record){ .op = "send", .seq = seq, .p2p = true });
    tti_recorder_ended(r, tickets[1], TT_OK);
    TT_CHECK_EQ(tti_recorder_last_ended(r, 1), 2);
    tti_recorder_ended_owner(r, tickets[0], TT_OK);
    TT_CHECK_EQ(tti_recorder_last_ended(r, 1), 2);
    tti_recorder_ended_owner(r, tickets[2], TT_OK);
    TT_CHECK_EQ(tti_recorder_last_ended(r, 1), 3);
    tti_recorder_ended_owner(r, tickets[3], TT_ERR_PEER);
    TT_CHECK_EQ(tti_recorder_last_ended(r, 1), 3);
    TT_CHECK_EQ(tti_recorder_last_ended(r, 0), 0);
    tti_recorder_dump(r, "test", "");
    j = load("owner.5.json");
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_EQ((int)number(j, "p2p_last_completed"), 3);
    cJSON_Delete(j);
    tti_recorder_free(r);
}

TT_TEST(recorder, keeps_the_last_2048)
{
    tti_recorder *r = new_recorder("ring");
    cJSON *j, *e, *item;
    uint64_t first = issue(r, "all_reduce", 1), t, seq = 5000 - TTI_RECORDER_SIZE + 1;

    use_dir(tt_test_tmpdir());
    for (uint64_t s = 2; s <= 5000; s++) {
        t = issue(r, "all_reduce", s);
        tti_recorder_started(r, t);
        tti_recorder_ended(r, t, TT_OK);
    }
    tti_recorder_ended(r, first, TT_ERR_PEER); /* overwritten long ago */
    tti_recorder_dump(r, "test", "");
    j = load("ring.5.json");
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_EQ((int)number(j, "n_recorded"), 5000);
    TT_CHECK_EQ((int)number(j, "last_completed"), 5000);
    e = cJSON_GetObjectItem(j, "entries");
    TT_CHECK_EQ(cJSON_GetArraySize(e), TTI_RECORDER_SIZE);
    cJSON_ArrayForEach(item, e)
    {
        TT_CHECK_EQ((uint64_t)number(item, "seq"), seq);
        TT_CHECK_STR(text(item, "state"), "completed");
        seq++;
    }
    cJSON_Delete(j);
    tti_recorder_free(r);
}

TT_TEST(recorder, dumps_once_per_cause_and_keeps_the_last_error)
{
    tti_recorder *r = new_recorder("a/b c");
    cJSON *j;
    char path[600];

    unsetenv("TUTTI_FLIGHT_DIR");
    tti_recorder_dump(r, "nowhere", "");
    snprintf(path, sizeof path, "%s/made", tt_test_tmpdir());
    use_dir(path);
    tt_fail(TT_ERR_PEER, "kept");
    tti_recorder_dump(r, "time-out", "first");
    TT_CHECK_STR(tt_last_error(), "kept");
    j = load("a_b_c.5.json");
    TT_REQUIRE_NOT_NULL(j);
    TT_CHECK_STR(text(j, "words"), "first");
    cJSON_Delete(j);
    tti_recorder_dump(r, "time-out", "second");
    j = load("a_b_c.5.json");
    TT_CHECK_STR(text(j, "words"), "first");
    cJSON_Delete(j);
    tti_recorder_dump(r, "abort", "third");
    j = load("a_b_c.5.json");
    TT_CHECK_STR(text(j, "words"), "third");
    TT_CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(j, "causes")), 2);
    cJSON_Delete(j);
    TT_CHECK_EQ(count_files(path), 1);
    tti_recorder_free(r);
}

static void count_log(void *ctx, tt_log_level level, const char *words)
{
    (void)level;
    if (strstr(words, "has no dump") != NULL)
        atomic_fetch_add((atomic_int *)ctx, 1);
}

TT_TEST(recorder, a_directory_that_cannot_be_is_a_warning)
{
    tti_recorder *r = new_recorder("lost");
    atomic_int warned = 0;

    use_dir("/proc/no/such/place");
    tt_log_set_sink(count_log, &warned);
    tt_clear_error();
    tti_recorder_dump(r, "test", "");
    tt_log_set_sink(NULL, NULL);
    TT_CHECK_EQ(atomic_load(&warned), 1);
    TT_CHECK_STR(tt_last_error(), "");
    tti_recorder_free(r);
}

TT_TEST(recorder, refuses_a_rank_that_is_none)
{
    TT_CHECK_NULL(tti_recorder_new(&(tti_recorder_info){ .group = "x", .rank = 2, .size = 2 }));
    TT_CHECK_CONTAINS(tt_last_error(), "expected a rank below 2, got 2");
}

static tt_status make_one(void *unused)
{
    tti_recorder *r = tti_recorder_new(&(tti_recorder_info){ .group = "x", .rank = 0, .size = 1 });

    (void)unused;
    tti_recorder_free(r);
    return r != NULL ? TT_OK : TT_ERR_NOMEM;
}

TT_TEST(recorder, survives_every_failed_allocation)
{
    TT_CHECK_GE(tt_test_fail_allocs(make_one, NULL), 5);
}

/* ---- several threads ------------------------------------------------------------------- */

typedef struct writer {
    pthread_t thread;
    tti_recorder *r;
    atomic_bool *stop;
    uint64_t n;
} writer;

static void *write_many(void *ctx)
{
    writer *w = ctx;

    while (!atomic_load(w->stop)) {
        uint64_t seq = ++w->n;
        uint64_t t = tti_recorder_issued(
            w->r,
            &(tti_record){ .op = seq % 2 != 0 ? "odd" : "even", .seq = seq, .in_bytes = seq });

        tti_recorder_started(w->r, t);
        tti_recorder_ended(w->r, t, TT_OK);
    }
    return NULL;
}

TT_TEST(recorder, dumps_while_threads_write_are_consistent)
{
    tti_recorder *r = new_recorder("busy");
    atomic_bool stop = false;
    writer w[3];
    char cause[16];

    use_dir(tt_test_tmpdir());
    for (int i = 0; i < 3; i++) {
        w[i] = (writer){ .r = r, .stop = &stop };
        TT_REQUIRE_EQ(pthread_create(&w[i].thread, NULL, write_many, &w[i]), 0);
    }
    for (int i = 0; i < 10; i++) {
        cJSON *j, *item;

        snprintf(cause, sizeof cause, "cause %d", i);
        tti_recorder_dump(r, cause, "");
        j = load("busy.5.json");
        TT_REQUIRE_NOT_NULL(j);
        cJSON_ArrayForEach(item, cJSON_GetObjectItem(j, "entries"))
        {
            uint64_t seq = (uint64_t)number(item, "seq");

            TT_CHECK_EQ((uint64_t)number(item, "in_bytes"), seq);
            TT_CHECK_STR(text(item, "op"), seq % 2 != 0 ? "odd" : "even");
        }
        cJSON_Delete(j);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(w[i].thread, NULL);
    tti_recorder_free(r);
}

/* ---- a process that is killed while it writes -------------------------------------------- */

TT_TEST(recorder, a_killed_writer_leaves_whole_files_only)
{
    char path[512];

    use_dir(tt_test_tmpdir());
    snprintf(path, sizeof path, "%s/killed.5.json", tt_test_tmpdir());
    for (int i = 0; i < 10; i++) {
        int64_t until;
        pid_t pid = fork();

        TT_REQUIRE_GE(pid, 0);
        if (pid == 0) {
            tti_recorder *r = new_recorder("killed");
            char cause[24];

            for (int k = 0; k < TTI_RECORDER_SIZE; k++)
                issue(r, "all_reduce", (uint64_t)k);
            for (int k = 0;; k++) {
                snprintf(cause, sizeof cause, "cause %d", k);
                tti_recorder_dump(r, cause, "");
            }
        }
        until = tti_now_ns() + 5000000 + i * 1700000;
        while (tti_now_ns() < until)
            ;
        kill(pid, SIGKILL);
        TT_CHECK_EQ(waitpid(pid, NULL, 0), pid);
        cJSON *j = load("killed.5.json");
        if (j != NULL)
            TT_CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(j, "entries")), TTI_RECORDER_SIZE);
        else /* it did not come that far: there may be the beginning of a file, under another name */
            TT_CHECK(access(path, F_OK) != 0);
        cJSON_Delete(j);
    }
}

/* Nanoseconds that this thread has computed for: others on the machine do not count. */
static int64_t thread_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

TT_TEST(recorder, costs_little)
{
    tti_recorder *r = new_recorder("speed");
    int64_t best = INT64_MAX;
    enum { N = 20000 };

    for (int round = 0; round < 10; round++) {
        int64_t start = thread_time(), ns;

        for (uint64_t i = 0; i < N; i++) {
            uint64_t t = issue(r, "all_reduce", i);

            tti_recorder_started(r, t);
            tti_recorder_ended(r, t, TT_OK);
        }
        ns = (thread_time() - start) / N;
        best = ns < best ? ns : best;
    }
    tt_test_note("%lld ns per operation", (long long)best);
    TT_CHECK_LT(best, 5000); /* under sanitizers; else some 60 */
    tti_recorder_free(r);
}

/* ---- two threads at once ------------------------------------------------------------------------ */

enum { RAISES = 1000 };

typedef struct raiser {
    tti_recorder *recorder;
    atomic_int *come; /* rounds begun, by both threads together */
    int which;
} raiser;

static void *raise_main(void *ctx)
{
    const raiser *a = ctx;

    for (int i = 1; i <= RAISES; i++) {
        atomic_fetch_add(a->come, 1);
        while (atomic_load(a->come) < 2 * i)
            sched_yield();
        issue(a->recorder, "all_reduce", (uint64_t)(2 * i + a->which));
        atomic_fetch_add(a->come + 1, 1);
        while (atomic_load(a->come + 1) < 2 * i)
            sched_yield();
        TT_REQUIRE_EQ(atomic_load(&a->recorder->last_issued[0]), (uint64_t)(2 * i + 1));
    }
    return NULL;
}

/* The number of the last operation never goes back to that of the thread that came second. */
TT_TEST_LIMIT(recorder, keeps_the_highest_number_of_two_threads, 120)
{
    tti_recorder *r = new_recorder("raised");
    atomic_int come[2] = { 0, 0 };
    raiser a = { r, come, 0 }, b = { r, come, 1 };
    pthread_t thread;

    TT_REQUIRE_EQ(pthread_create(&thread, NULL, raise_main, &a), 0);
    raise_main(&b);
    pthread_join(thread, NULL);
    tti_recorder_free(r);
}
