/* SPDX-License-Identifier: Apache-2.0 */
/* Files are replaced whole or not at all, and what killed or failing writers leave is removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/writer.h"
#include "tutti/testing.h"

static void path_in_tmpdir(char *path, size_t size, const char *name)
{
    TT_REQUIRE(snprintf(path, size, "%s/%s", tt_test_tmpdir(), name) < (int)size);
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    int n = 0;

    TT_REQUIRE_NOT_NULL(d);
    while ((entry = readdir(d)) != NULL)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void check_text(const char *path, const char *expected)
{
    char text[64] = "";
    FILE *f = fopen(path, "re");

    TT_REQUIRE_NOT_NULL(f);
    TT_CHECK(fread(text, 1, sizeof text - 1, f) <= sizeof text);
    fclose(f);
    TT_CHECK_STR(text, expected);
}

static tt_status write_text(const char *path, const char *text, int flags)
{
    tti_writer w;

    tti_writer_open(&w, "test", path, flags);
    tti_writer_put(&w, text, strlen(text));
    return tti_writer_finish(&w);
}

TT_TEST(writer, replaces_a_file_and_leaves_nothing_else)
{
    char path[512];
    struct stat st;

    path_in_tmpdir(path, sizeof path, "file");
    umask(022);
    TT_CHECK_EQ(write_text(path, "old", TTI_WRITER_DURABLE), TT_OK);
    TT_CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
    TT_CHECK_EQ(write_text(path, "new", TTI_WRITER_PRIVATE), TT_OK);
    TT_CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    check_text(path, "new");
    TT_CHECK_EQ(count_files(tt_test_tmpdir()), 1);
}

/* Every call fails once, and all after it, as on a disk that became full there; flushing the directory is the last one. */
TT_TEST(writer, reports_a_failure_of_every_call_and_cleans_up)
{
    static const int errors[] = { ENOSPC, EIO };
    char path[512];

    path_in_tmpdir(path, sizeof path, "file");
    for (int flags = 0; flags <= TTI_WRITER_DURABLE; flags++)
        for (int e = 0; e < 2; e++) {
            uint64_t calls;

            TT_REQUIRE_EQ(write_text(path, "old", flags), TT_OK);
            tti_disk_fail_from(0, 0);
            TT_REQUIRE_EQ(write_text(path, "old", flags), TT_OK);
            calls = tti_disk_calls();
            TT_CHECK_EQ(calls, flags == TTI_WRITER_DURABLE ? 5 : 4);
            for (uint64_t n = 1; n <= calls; n++) {
                tti_disk_fail_from(n, errors[e]);
                TT_CHECK_EQ(write_text(path, "new", flags), TT_ERR_IO);
                TT_CHECK(strstr(tt_last_error(), strerror(errors[e])) != NULL);
                tti_disk_fail_from(0, 0);
                check_text(path, n < 5 ? "old" : "new"); /* the fifth comes after the rename */
                TT_CHECK_EQ(count_files(tt_test_tmpdir()), 1);
            }
        }
}

TT_TEST(writer, removes_temporaries_of_the_dead_and_no_others)
{
    static const char *const foreign[] = { ".tutti-0123456789abcdef.tmp2", ".tutti-0123.tmp",
                                           "x.tutti-0123456789abcdef.tmp",
                                           ".tutti-0123456789ABCDEF.tmp", "latest.1.3.tmp" };
    char path[512], stale[512], link_path[512];
    tti_writer live;

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        path_in_tmpdir(path, sizeof path, foreign[i]);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
    path_in_tmpdir(stale, sizeof stale, ".tutti-0123456789abcdef.tmp");
    close(open(stale, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    path_in_tmpdir(link_path, sizeof link_path, ".tutti-0123456789abcdee.tmp");
    TT_REQUIRE(symlink("latest.1.3.tmp", link_path) == 0);

    path_in_tmpdir(path, sizeof path, "live");
    tti_writer_open(&live, "test", path, 0);
    tti_writer_put(&live, "of the living", 13);
    TT_CHECK(access(stale, F_OK) != 0);
    TT_CHECK(access(live.temporary, F_OK) == 0);

    path_in_tmpdir(stale, sizeof stale, "other"); /* must leave the one that is being written */
    TT_CHECK_EQ(write_text(stale, "other", 0), TT_OK);
    TT_CHECK(access(live.temporary, F_OK) == 0);
    TT_CHECK_EQ(tti_writer_finish(&live), TT_OK);
    check_text(path, "of the living");
    TT_CHECK_EQ(count_files(tt_test_tmpdir()), 5 + 1 + 2); /* foreign, link, live and other */
}

static void *write_often(void *arg)
{
    char path[512];

    path_in_tmpdir(path, sizeof path, arg);
    for (int i = 0; i < 300; i++)
        if (!TT_CHECK_EQ(write_text(path, "words", 0), TT_OK))
            break;
    return NULL;
}

/* A temporary that was made but not locked yet may be taken for a stale one: its writer makes another. */
TT_TEST(writer, threads_do_not_remove_each_others_temporaries)
{
    static char names[2][2] = { "a", "b" };
    pthread_t threads[4];
    char path[512];

    for (int i = 0; i < 4; i++)
        TT_REQUIRE(pthread_create(&threads[i], NULL, write_often, names[i % 2]) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    path_in_tmpdir(path, sizeof path, "a");
    check_text(path, "words");
    TT_CHECK_EQ(count_files(tt_test_tmpdir()), 2);
}

TT_TEST(writer, a_limit_of_file_sizes_is_an_error_and_no_signal)
{
    static char big[100000];
    struct rlimit before, small;
    sigset_t pending;
    char path[512];
    tti_writer w;
    tt_status st;

    path_in_tmpdir(path, sizeof path, "file");
    TT_REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = (struct rlimit){ .rlim_cur = 40000, .rlim_max = before.rlim_max };
    TT_REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    signal(SIGXFSZ, SIG_DFL);
    tti_writer_open(&w, "test", path, 0);
    tti_writer_put(&w, big, sizeof big);
    st = tti_writer_finish(&w);
    TT_REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    TT_CHECK_EQ(st, TT_ERR_IO);
    TT_CHECK(strstr(tt_last_error(), "File too large") != NULL);
    TT_CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGXFSZ));
    TT_CHECK_EQ(count_files(tt_test_tmpdir()), 0);
}

TT_TEST(writer, makes_directories_and_reports_that_they_were_not_flushed)
{
    char path[512];

    path_in_tmpdir(path, sizeof path, "directory");
    for (uint64_t n = 1; n <= 2; n++) {
        tti_disk_fail_from(n, EIO);
        TT_CHECK_EQ(tti_directory_make("test", path, false), TT_ERR_IO);
        tti_disk_fail_from(0, 0);
        TT_CHECK(access(path, F_OK) != 0);
    }
    TT_CHECK_EQ(tti_directory_make("test", path, true), TT_OK);
    TT_CHECK_EQ(tti_directory_make("test", path, true), TT_OK);
    TT_CHECK_EQ(tti_directory_make("test", path, false), TT_ERR_IO);
    TT_CHECK(strstr(tt_last_error(), "File exists") != NULL);
}
