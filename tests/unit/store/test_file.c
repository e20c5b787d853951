/* SPDX-License-Identifier: Apache-2.0 */
/* The file store: writers that are killed, files that are torn, damaged or something else. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/log.h"
#include <tutti/store.h>
#include <tutti/testing.h>

static char path[500];

static tt_store *open_here(void)
{
    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    return tt_store_file_open(path);
}

static off_t size_now(void)
{
    struct stat info = { .st_size = -1 };

    TT_CHECK_EQ(stat(path, &info), 0);
    return info.st_size;
}

/* ---- killed writers ---------------------------------------------------------------------------- */

/* Sets and counts until it is killed. Every value says how long it is, so that half of one shows. */
static void write_for_ever(int seed)
{
    tt_store *s = tt_store_file_open(path);
    static char value[70000];
    unsigned state = (unsigned)seed;

    for (int i = 0; s != NULL; i++) {
        char key[32];
        size_t n = (size_t)rand_r(&state) % (i % 16 == 0 ? sizeof value : 300);

        memset(value, 'a' + i % 26, n);
        if (n >= sizeof n)
            memcpy(value, &n, sizeof n);
        snprintf(key, sizeof key, "k%d", rand_r(&state) % 50);
        if (tt_store_set(s, key, value, n) != TT_OK || tt_store_add(s, "n", 1, NULL) != TT_OK)
            _exit(1);
    }
    _exit(2);
}

static void check_all_whole(tt_store *s)
{
    for (int i = 0; i < 50; i++) {
        char key[32];
        const char *keys = key;
        bool present = false;
        size_t n;
        tt_blob b;

        snprintf(key, sizeof key, "k%d", i);
        TT_REQUIRE_OK(tt_store_check(s, &keys, 1, &present));
        if (!present)
            continue;
        TT_REQUIRE_OK(tt_store_get(s, key, &b));
        if (b.size >= sizeof n) {
            memcpy(&n, b.data, sizeof n);
            TT_CHECK_EQ(n, b.size);
        }
        tt_blob_free(&b);
    }
}

TT_TEST_LIMIT(store_file, survives_killed_writers, 120)
{
    tt_store *s = open_here();
    unsigned state = (unsigned)tt_test_seed();
    int64_t before = 0, after;
    int status;

    TT_REQUIRE_NOT_NULL(s);
    for (int i = 0; i < 200; i++) {
        struct timespec t = { .tv_nsec = 200000 + rand_r(&state) % 6000000 };
        pid_t pid = fork();

        if (pid == 0)
            write_for_ever(rand_r(&state) + i);
        TT_REQUIRE_GT(pid, 0);
        nanosleep(&t, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        TT_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        TT_REQUIRE_OK(tt_store_add(s, "n", 0, &after)); /* also cuts off what was torn */
        TT_CHECK_GE(after, before);
        before = after;
    }
    TT_CHECK_GT(before, 0);
    check_all_whole(s);
    tt_store_free(s);
    s = tt_store_file_open(path); /* one that reads all from the beginning agrees */
    TT_REQUIRE_NOT_NULL(s);
    check_all_whole(s);
    TT_REQUIRE_OK(tt_store_add(s, "n", 0, &after));
    TT_CHECK_EQ(after, before);
    tt_store_free(s);
}

/* ---- torn and damaged files ---------------------------------------------------------------------- */

static void check_text(tt_store *s, const char *key, const char *text)
{
    tt_blob b;

    TT_REQUIRE_OK(tt_store_get(s, key, &b));
    TT_CHECK_STR((const char *)b.data, text);
    tt_blob_free(&b);
}

TT_TEST(store_file, cuts_off_a_torn_record_wherever_it_ends)
{
    tt_store *s = open_here();
    off_t whole, more;

    TT_REQUIRE_NOT_NULL(s);
    TT_REQUIRE_OK(tt_store_set(s, "kept", "value", 5));
    whole = size_now();
    TT_REQUIRE_OK(tt_store_set(s, "torn", "lost", 4));
    more = size_now();
    tt_store_free(s);
    for (off_t size = more - 1; size > whole; size--) {
        bool present = true;
        const char *key = "torn";
        tt_store *reader, *writer;

        TT_REQUIRE_EQ(truncate(path, size), 0);
        reader = tt_store_file_open(path);
        writer = tt_store_file_open(path);
        TT_REQUIRE(reader != NULL && writer != NULL);
        TT_CHECK_OK(tt_store_check(reader, &key, 1, &present));
        TT_CHECK(!present);
        TT_CHECK_EQ(size_now(), size); /* a reader changes nothing */
        TT_CHECK_OK(tt_store_set(writer, "torn", "lost", 4));
        TT_CHECK_EQ(size_now(), more);
        check_text(reader, "torn", "lost");
        check_text(reader, "kept", "value");
        tt_store_free(reader);
        tt_store_free(writer);
    }
}

/* What is left of a long record must not stay behind a short one. */
TT_TEST(store_file, cuts_off_a_torn_record_longer_than_the_next)
{
    static const char text[5000] = "long";
    tt_store *s = open_here();
    off_t whole = size_now();

    TT_REQUIRE_NOT_NULL(s);
    TT_REQUIRE_OK(tt_store_set(s, "torn", text, sizeof text));
    tt_store_free(s);
    TT_REQUIRE_EQ(truncate(path, size_now() - 1), 0);
    s = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(s);
    TT_REQUIRE_OK(tt_store_set(s, "short", "s", 1));
    TT_CHECK_EQ(size_now(), whole + TTI_LOG_HEAD + 5 + 1);
    check_text(s, "short", "s");
    tt_store_free(s);
}

TT_TEST(store_file, begins_anew_when_even_the_beginning_is_torn)
{
    tt_store *s = open_here();

    tt_store_free(s);
    for (off_t size = 0; size < TTI_LOG_BEGIN; size++) {
        TT_REQUIRE_EQ(truncate(path, size), 0);
        s = tt_store_file_open(path);
        TT_REQUIRE_NOT_NULL(s);
        TT_REQUIRE_OK(tt_store_set(s, "a", "b", 1));
        check_text(s, "a", "b");
        tt_store_free(s);
    }
}

TT_TEST(store_file, tells_damage_from_a_torn_end)
{
    tt_store *s = open_here();
    char byte = '!';
    tt_blob b;
    int fd;

    TT_REQUIRE_NOT_NULL(s);
    TT_REQUIRE_OK(tt_store_set(s, "first", "1", 1));
    TT_REQUIRE_OK(tt_store_set(s, "second", "2", 1));
    tt_store_free(s);
    fd = open(path, O_WRONLY);
    TT_REQUIRE_EQ(pwrite(fd, &byte, 1, TTI_LOG_BEGIN + TTI_LOG_HEAD), 1);
    close(fd);
    s = tt_store_file_open(path);
    TT_CHECK_NULL(s);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_EQ(size_now(), TTI_LOG_BEGIN + 2 * TTI_LOG_HEAD + 5 + 1 + 6 + 1); /* untouched */
    (void)b;
}

TT_TEST(store_file, leaves_other_files_alone)
{
    FILE *f;

    snprintf(path, sizeof path, "%s/letter", tt_test_tmpdir());
    f = fopen(path, "w");
    TT_REQUIRE_NOT_NULL(f);
    fputs("Dear reader, this is no store.", f);
    fclose(f);
    TT_CHECK_NULL(tt_store_file_open(path));
    TT_CHECK_CONTAINS(tt_last_error(), "exists and is no store");
    TT_CHECK_EQ(size_now(), 30);
    TT_CHECK_NULL(tt_store_file_open("/nonexistent/dir/store"));
    TT_CHECK_CONTAINS(tt_last_error(), "/nonexistent/dir/store");
    TT_CHECK_NULL(tt_store_file_open(""));
}

TT_TEST(store_file, notices_that_the_file_was_cut_under_its_feet)
{
    tt_store *s = open_here();
    const char *key = "a";
    bool present;

    TT_REQUIRE_OK(tt_store_set(s, "a", "b", 1));
    TT_REQUIRE_OK(tt_store_check(s, &key, 1, &present));
    TT_REQUIRE_EQ(truncate(path, 17), 0);
    TT_CHECK_ERR_SAYS(tt_store_check(s, &key, 1, &present), TT_ERR_FORMAT, "was cut");
    tt_store_free(s);
}

/* ---- reads that fail ------------------------------------------------------------------------------ */

/* From here on every read of exactly `bytes` bytes fails on this thread. False: the kernel takes no such filter. */
static bool fail_reads_of(uint32_t bytes)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bytes, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static void check_value(tt_store *s, const char *key, char value, size_t size)
{
    tt_blob b = { 0 };

    TT_REQUIRE_OK(tt_store_get(s, key, &b));
    TT_CHECK_EQ(b.size, size);
    TT_CHECK_EQ(((const char *)b.data)[0], value);
    tt_blob_free(&b);
}

/* The reader takes the first of two records, and then the read of the second one, and of that one only, fails. */
static void *read_with_a_failure(void *ctx)
{
    enum { SIZE = 40000 }; /* two of them do not fit into one read */
    tt_store *writer = open_here(), *reader = tt_store_file_open(path);
    static char value[SIZE + 5000];
    const char *key = "b";
    bool present = true;
    off_t begin = size_now(), record;

    TT_REQUIRE(writer != NULL && reader != NULL);
    memset(value, 'a', SIZE);
    TT_REQUIRE_OK(tt_store_set(writer, "a", value, SIZE));
    record = size_now() - begin;
    memset(value, 'b', SIZE);
    TT_REQUIRE_OK(tt_store_set(writer, "b", value, SIZE));
    TT_REQUIRE_EQ(size_now(), begin + 2 * record);
    TT_REQUIRE_OK(tt_store_check(writer, &key, 1, &present)); /* it has read its own records */
    *(bool *)ctx = fail_reads_of((uint32_t)record);
    if (*(bool *)ctx) {
        TT_CHECK_ERR_SAYS(tt_store_check(reader, &key, 1, &present), TT_ERR_IO, "read: ");
        memset(value, 'c', sizeof value);
        TT_REQUIRE_OK(tt_store_set(writer, "c", value, sizeof value));
        TT_CHECK_OK(tt_store_check(reader, &key, 1, &present));
        TT_REQUIRE(present); /* the second record was not passed over */
        check_value(reader, "a", 'a', SIZE);
        check_value(reader, "b", 'b', SIZE);
        check_value(reader, "c", 'c', sizeof value);
    }
    tt_store_free(reader);
    tt_store_free(writer);
    return NULL;
}

TT_TEST(store_file, a_failed_read_passes_over_nothing)
{
    pthread_t thread; /* the kernel's filter ends with it */
    bool filtered = false;

    TT_REQUIRE_EQ(pthread_create(&thread, NULL, read_with_a_failure, &filtered), 0);
    pthread_join(thread, NULL);
    if (!filtered)
        TT_SKIP("the kernel takes no seccomp filter here");
}

/* ---- compaction ---------------------------------------------------------------------------------- */

static int64_t space_now(void)
{
    struct stat info = { 0 };

    TT_CHECK_EQ(stat(path, &info), 0);
    return (int64_t)info.st_blocks * 512;
}

static bool holes_work(void)
{
    char name[600];
    bool yes;
    int fd;

    snprintf(name, sizeof name, "%s/holes", tt_test_tmpdir());
    fd = open(name, O_RDWR | O_CREAT, 0600);
    yes = fd >= 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
    if (fd >= 0)
        close(fd);
    return yes;
}

/* Sets one key again and again: 8 MB of records of which 4 kB are alive. */
static void fill_with_dead_records(tt_store *s)
{
    static char value[4000];

    for (int i = 0; i < 2000; i++) {
        memset(value, 'a' + i % 26, sizeof value);
        TT_REQUIRE_OK(tt_store_set(s, "again", value, sizeof value));
    }
}

TT_TEST(store_file, gives_back_the_space_of_dead_records)
{
    tt_store *s = open_here(), *late;
    const char *gone = "gone";
    bool present = true;
    tt_blob b;

    if (!holes_work())
        TT_SKIP("the file system has no holes");
    TT_REQUIRE_OK(tt_store_set(s, "kept", "value", 5));
    TT_REQUIRE_OK(tt_store_append(s, "grown", "a", 1));
    TT_REQUIRE_OK(tt_store_append(s, "grown", "b", 1));
    TT_REQUIRE_OK(tt_store_set(s, "gone", "value", 5));
    late = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(late);
    TT_REQUIRE_OK(tt_store_delete(s, "gone", NULL));
    fill_with_dead_records(s);
    TT_CHECK_GT(size_now(), 8000000);
    TT_CHECK_LT(space_now(), 1000000);
    tt_store_free(s);
    s = tt_store_file_open(path);
    for (int i = 0; i < 2;
         i++) { /* one that begins now, and one that has read up to where zeros are */
        tt_store *reader = i == 0 ? s : late;

        TT_REQUIRE_NOT_NULL(reader);
        check_text(reader, "kept", "value");
        check_text(reader, "grown", "ab");
        TT_REQUIRE_OK(tt_store_check(reader, &gone, 1, &present));
        TT_CHECK(!present);
        TT_REQUIRE_OK(tt_store_get(reader, "again", &b));
        TT_CHECK_EQ(b.size, 4000);
        TT_CHECK_EQ(((const char *)b.data)[3999], 'a' + 1999 % 26);
        tt_blob_free(&b);
    }
    TT_REQUIRE_OK(tt_store_set(late, "last", "word", 4));
    check_text(s, "last", "word");
    tt_store_free(s);
    tt_store_free(late);
}

TT_TEST(store_file, keeps_what_is_alive_however_much)
{
    static char value[4000];
    tt_store *s = open_here(), *again;
    int64_t n = 0;

    TT_REQUIRE_NOT_NULL(s);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 300; i++) {
            char key[32];

            snprintf(key, sizeof key, "key %d", i);
            value[0] = (char)('0' + round);
            TT_REQUIRE_OK(tt_store_set(s, key, value, sizeof value));
        }
    again = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(again);
    TT_REQUIRE_OK(tt_store_count(again, &n));
    TT_CHECK_EQ(n, 300);
    check_text(again, "key 7", "3");
    check_text(again, "key 299", "3");
    tt_store_free(again);
    tt_store_free(s);
}

/* Several processes that count together while the file is compacted under them, and one of them is killed now and then.
 * Everyone reads between its writes, and whoever falls behind finds zeros. */
static void count_for_ever(int me)
{
    tt_store *s = tt_store_file_open(path);
    static char value[3000];
    int64_t seen = 0, now = 0;
    char key[32];

    snprintf(key, sizeof key, "mine %d", me);
    for (int i = 0; s != NULL; i++) {
        if (tt_store_set(s, key, value, sizeof value) != TT_OK ||
            tt_store_add(s, "n", 1, &now) != TT_OK || now <= seen)
            _exit(1);
        seen = now;
    }
    _exit(2);
}

static pid_t start_counting(int me)
{
    pid_t pid = fork();

    if (pid == 0)
        count_for_ever(me);
    return pid;
}

TT_TEST_LIMIT(store_file, counts_right_over_kills_and_compactions, 240)
{
    enum { WRITERS = 3, KILLS = 60 };
    tt_store *s = open_here(), *slow = open_here();
    unsigned state = (unsigned)tt_test_seed();
    int64_t before = 0, after = 0;
    pid_t pids[WRITERS];
    int status;

    TT_REQUIRE(s != NULL && slow != NULL);
    for (int i = 0; i < WRITERS; i++)
        TT_REQUIRE_GT(pids[i] = start_counting(i), 0);
    for (int i = 0; i < KILLS; i++) {
        int who = rand_r(&state) % WRITERS;

        /* 200 more steps of the others, 600 kB and more, so that each turn sees a compaction or two. */
        for (after = before; after < before + 200;)
            TT_REQUIRE_OK(tt_store_add(s, "n", 0, &after));
        kill(pids[who], SIGKILL);
        waitpid(pids[who], &status, 0);
        TT_REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        TT_REQUIRE_OK(tt_store_add(slow, "n", 0, &before));
        TT_CHECK_GE(before, after);
        TT_REQUIRE_GT(pids[who] = start_counting(who), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
        TT_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    TT_REQUIRE_OK(tt_store_add(s, "n", 0, &after));
    TT_REQUIRE_OK(tt_store_add(slow, "n", 0, &before));
    TT_CHECK_EQ(before, after);
    tt_store_free(s);
    TT_REQUIRE_NOT_NULL(s = tt_store_file_open(path));
    TT_REQUIRE_OK(tt_store_add(s, "n", 0, &before));
    TT_CHECK_EQ(before, after);
    if (holes_work())
        TT_CHECK_LT(space_now(), 2000000);
    tt_store_free(s);
    tt_store_free(slow);
}

/* ---- records -------------------------------------------------------------------------------------- */

TT_TEST(store_log, applies_whole_records_and_says_what_the_next_needs)
{
    size_t a, b, used, need;
    uint8_t *first = tti_log_record(TTI_LOG_SET, "key", "value", 5, &a);
    uint8_t *second = tti_log_record(TTI_LOG_APPEND, "key", "!", 1, &b);
    uint8_t both[200];
    tti_table t = { 0 };

    TT_REQUIRE(first != NULL && second != NULL);
    memcpy(both, first, a);
    memcpy(both + a, second, b);
    TT_CHECK_OK(tti_log_apply(both, a + TTI_LOG_HEAD, &t, &used, &need));
    TT_CHECK_EQ(used, a);
    TT_CHECK_EQ(need, b);
    TT_CHECK_STR((const char *)tti_table_find(&t, "key")->data, "value");
    TT_CHECK_OK(tti_log_apply(both + a, b, &t, &used, &need));
    TT_CHECK_STR((const char *)tti_table_find(&t, "key")->data, "value!");
    TT_CHECK_EQ(need, 0);
    both[a + 4] = 77; /* an operation that does not exist */
    TT_CHECK_ERR(tti_log_apply(both, a + b, &t, &used, &need), TT_ERR_FORMAT);
    TT_CHECK_EQ(used, a);
    tti_mfree(first);
    tti_mfree(second);
    tti_table_fini(&t);
}
