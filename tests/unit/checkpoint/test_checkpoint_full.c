/* SPDX-License-Identifier: Apache-2.0 */
/* Saves on disks that are full or broken: they fail, clean up, and the next one succeeds once there is room. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/writer.h"
#include "tutti/testing.h"
#include "tutti/testing_tools.h"
#include "tutti/tutti.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names below `dir`, sorted, to be freed. */
static char *names_below(const char *dir)
{
    tti_text all = { 0 };
    char *names[100];
    struct dirent *entry;
    int n = 0;
    DIR *d = opendir(dir);

    TT_REQUIRE_NOT_NULL(d);
    while ((entry = readdir(d)) != NULL && n < 100)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            names[n++] = strdup(entry->d_name);
    closedir(d);
    qsort(names, (size_t)n, sizeof names[0], by_name);
    for (int i = 0; i < n; i++) {
        struct stat st;
        char path[1024];

        tti_text_addf(&all, "%s ", names[i]);
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            char *inner = names_below(path);

            tti_text_addf(&all, "{ %s} ", inner);
            tti_mfree(inner);
        }
        free(names[i]);
    }
    return tti_text_take(&all);
}

static tt_status save_step(const char *dir, tt_pg *pg, int64_t step, bool sharded)
{
    tt_state_dict *sd = tt_state_dict_new();
    tt_training t = { .tensors = sd, .step = step };
    tt_training_save_options opt = { .sharded = sharded };
    tt_status st = TT_OK;

    TT_SCOPE {
        TT_CHECK_EQ(
            tt_state_dict_set(sd, "x", tt_full(TT_SHAPE(1000), (double)step, TT_F32, TT_CPU)),
            TT_OK);
        TT_CHECK_EQ(tt_state_dict_set(sd, "y", tt_full(TT_SHAPE(10), 1, TT_F32, TT_CPU)), TT_OK);
        st = tt_training_save(dir, pg, &t, &opt);
    }
    tt_state_dict_free(sd);
    return st;
}

static void check_step(const char *dir, tt_pg *pg, int64_t step)
{
    tt_state_dict *sd = tt_state_dict_new();
    tt_training t = { .tensors = sd };

    TT_REQUIRE_EQ(tt_training_load(dir, pg, &t), TT_OK);
    TT_CHECK_EQ(t.step, step);
    TT_CHECK_EQ((int64_t)((const float *)tt_tensor_data(tt_state_dict_get(sd, "x")))[999], step);
    tt_state_dict_free(sd);
}

static void try_error(const char *dir, int error)
{
    char *before = names_below(dir);

    for (uint64_t n = 1;; n++) {
        tt_status st;
        char *after;

        tti_disk_fail_from(n, error);
        st = save_step(dir, NULL, 2, false);
        if (tti_disk_calls() < n) { /* nothing failed: all calls have had their turn */
            tti_disk_fail_from(0, 0);
            TT_CHECK_EQ(st, TT_OK);
            TT_CHECK_GT(n, 15);
            break;
        }
        tti_disk_fail_from(0, 0);
        TT_CHECK_EQ(st, TT_ERR_IO);
        TT_CHECK(strstr(tt_last_error(), strerror(error)) != NULL);
        after = names_below(dir);
        TT_CHECK_STR(after, before);
        tti_mfree(after);
        check_step(dir, NULL, 1);
        if (tt_test_failures() != 0)
            TT_FAIL_TEST("with call %llu failing", (unsigned long long)n);
        if (tt_test_failures() != 0)
            break;
    }
    check_step(dir, NULL, 2);
    tti_mfree(before);
}

TT_TEST(checkpoint, a_full_disk_at_any_call_leaves_nothing_and_heals)
{
    char dir[512];

    snprintf(dir, sizeof dir, "%s/full", tt_test_tmpdir());
    TT_REQUIRE_EQ(save_step(dir, NULL, 1, false), TT_OK);
    try_error(dir, ENOSPC);
}

TT_TEST(checkpoint, a_failed_flush_of_any_file_or_directory_fails_the_save)
{
    char dir[512];

    snprintf(dir, sizeof dir, "%s/broken", tt_test_tmpdir());
    TT_REQUIRE_EQ(save_step(dir, NULL, 1, false), TT_OK);
    try_error(dir, EIO);
}

/* The disk of one rank of two fills up at every call in turn. */
TT_TEST_RANKS_LIMIT(2, checkpoint, a_full_disk_of_one_rank_leaves_nothing_and_heals, 240)
{
    tt_pg *pg = tt_test_pg();
    char dir[512], *before, *after;

    snprintf(dir, sizeof dir, "%s/sharded", tt_test_tmpdir());
    TT_REQUIRE_EQ(save_step(dir, pg, 1, true), TT_OK);
    TT_REQUIRE_EQ(tt_pg_barrier(pg, NULL, NULL), TT_OK);
    for (int who = 0; who < 2; who++) {
        before = names_below(dir);
        TT_REQUIRE_EQ(tt_pg_barrier(pg, NULL, NULL), TT_OK);
        for (uint64_t n = 1; tt_test_failures() == 0; n++) {
            tt_status st;

            tti_disk_fail_from(tt_test_rank() == who ? n : 0, ENOSPC);
            st = save_step(dir, pg, 1, true);
            tti_disk_fail_from(0, 0);
            if (st == TT_OK)
                break;
            TT_CHECK_EQ(st, TT_ERR_IO);
            TT_CHECK(strstr(tt_last_error(), "No space left on device") != NULL);
            TT_REQUIRE_EQ(tt_pg_barrier(pg, NULL, NULL), TT_OK); /* rank 0 has removed it */
            after = names_below(dir);
            TT_CHECK_STR(after, before);
            tti_mfree(after);
            TT_REQUIRE_EQ(tt_pg_barrier(pg, NULL, NULL), TT_OK);
        }
        tti_mfree(before);
    }
    check_step(dir, pg, 1);
}

/* What killed saves left is what fills the disk: it goes before the next one begins. */
TT_TEST(checkpoint, removes_incomplete_ones_before_it_writes)
{
    char dir[512], path[600], *names;

    snprintf(dir, sizeof dir, "%s/left", tt_test_tmpdir());
    TT_REQUIRE_EQ(save_step(dir, NULL, 1, false), TT_OK);
    snprintf(path, sizeof path, "%s/step-0000000007-0", dir);
    TT_REQUIRE(mkdir(path, 0777) == 0);
    strcat(path, "/.tutti-0123456789abcdef.tmp");
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    tti_disk_fail_from(4, ENOSPC);
    TT_CHECK_EQ(save_step(dir, NULL, 8, false), TT_ERR_IO);
    tti_disk_fail_from(0, 0);
    names = names_below(dir);
    TT_CHECK_STR(names,
                 "latest step-0000000001-0 { manifest.cbor rank-0.cbor tensors-0.safetensors } ");
    tti_mfree(names);
}

static void check_latest(const char *dir, const char *name)
{
    char expected[600], *path = tt_training_latest(dir);

    snprintf(expected, sizeof expected, "%s/%s", dir, name);
    TT_CHECK_STR(path, expected);
    tt_text_free(path);
}

static void write_latest(const char *dir, const char *name)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s/latest", dir);
    f = fopen(path, "we");
    TT_REQUIRE_NOT_NULL(f);
    fprintf(f, "%s\n", name);
    fclose(f);
}

/* "latest" names an older one after a kill between the manifest and "latest". */
TT_TEST(checkpoint, a_newer_complete_one_wins_over_latest)
{
    char dir[512];

    snprintf(dir, sizeof dir, "%s/two", tt_test_tmpdir());
    TT_REQUIRE_EQ(save_step(dir, NULL, 1, false), TT_OK);
    TT_REQUIRE_EQ(save_step(dir, NULL, 2, false), TT_OK);
    check_latest(dir, "step-0000000002-0");
    write_latest(dir, "step-0000000001-0");
    check_latest(dir, "step-0000000002-0");
}

/* A training that goes on from an older checkpoint saves smaller steps than are there already. */
TT_TEST(checkpoint, newer_is_what_was_saved_later_not_what_has_more_steps)
{
    char dir[512], path[600];

    snprintf(dir, sizeof dir, "%s/branch", tt_test_tmpdir());
    TT_REQUIRE_EQ(save_step(dir, NULL, 30, false), TT_OK);
    TT_REQUIRE_EQ(save_step(dir, NULL, 20, false), TT_OK);
    check_latest(dir, "step-0000000020-0");
    write_latest(dir, "step-0000000030-0");
    check_latest(dir, "step-0000000020-0");
    snprintf(path, sizeof path, "%s/latest", dir);
    TT_REQUIRE(unlink(path) == 0);
    check_latest(dir, "step-0000000020-0");
}
