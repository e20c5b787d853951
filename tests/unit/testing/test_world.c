/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of several ranks, from inside: each rank knows its place and shares what it should. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/collective.h"
#include "tutti/testing_tools.h"

TT_TEST(testing_world, a_plain_test_is_rank_0_of_1)
{
    TT_CHECK_EQ(tt_test_rank(), 0);
    TT_CHECK_EQ(tt_test_size(), 1);
    TT_CHECK_EQ(tt_test_rank_pid(0), getpid());
    tt_test_barrier();
    TT_CHECK_OK(tt_test_file_barrier(0, 0));
}

static void write_line(const char *name, const char *text)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    f = fopen(path, "w");
    TT_REQUIRE_NOT_NULL(f);
    fputs(text, f);
    fclose(f);
}

static bool has_file(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), name);
    return access(path, F_OK) == 0;
}

TT_TEST_RANKS(4, testing_world, ranks_share_directory_seed_and_barrier)
{
    char name[32], text[64];

    TT_CHECK_EQ(tt_test_size(), 4);
    TT_CHECK_EQ(atoi(getenv("RANK")), tt_test_rank());
    TT_CHECK_EQ(atoi(getenv("LOCAL_RANK")), tt_test_rank());
    TT_CHECK_STR(getenv("WORLD_SIZE"), "4");
    TT_CHECK_EQ(tt_test_rank_pid(tt_test_rank()), getpid());
    snprintf(name, sizeof name, "of %d", tt_test_rank());
    snprintf(text, sizeof text, "%llu", (unsigned long long)tt_test_seed());
    write_line(name, text);
    tt_test_barrier();
    for (int i = 0; i < 4; i++) {
        char path[512], got[64] = "";
        FILE *f;

        snprintf(path, sizeof path, "%s/of %d", tt_test_tmpdir(), i);
        f = fopen(path, "r");
        TT_REQUIRE_NOT_NULL(f);
        TT_CHECK_NOT_NULL(fgets(got, sizeof got, f));
        fclose(f);
        TT_CHECK_STR(got, text);
    }
}

TT_TEST_RANKS(3, testing_world, file_barriers_hold_ranks_together)
{
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "%d of %d", i, tt_test_rank());
        write_line(name, "x");
        TT_REQUIRE_OK(tt_test_file_barrier(0, 0));
        for (int r = 0; r < 3; r++) {
            snprintf(name, sizeof name, "%d of %d", i, r);
            TT_CHECK(has_file(name));
        }
    }
}

TT_TEST_RANKS(3, testing_world, file_barriers_count_and_time_out)
{
    if (tt_test_rank() < 2)
        TT_CHECK_OK(tt_test_file_barrier(2, 0));
    tt_test_barrier();
    if (tt_test_rank() == 0)
        TT_CHECK_ERR_SAYS(tt_test_file_barrier(3, 50), TT_ERR_TIMEOUT,
                          "expected 3 ranks, got 1; missing: 1, 2");
    tt_test_barrier();
}

TT_TEST_THREADS(4, testing_world, threads_share_memory_and_barrier)
{
    static atomic_int sum;

    TT_CHECK_EQ(tt_test_size(), 4);
    TT_CHECK_STR(getenv("WORLD_SIZE"), "4");
    for (int i = 1; i <= 20; i++) {
        atomic_fetch_add(&sum, tt_test_rank());
        tt_test_barrier();
        TT_CHECK_EQ(atomic_load(&sum), 6 * i);
        tt_test_barrier();
    }
    TT_CHECK_OK(tt_test_file_barrier(0, 0));
}

TT_TEST_RANKS(8, testing_world, more_ranks_than_cores)
{
    for (int i = 0; i < 50; i++)
        tt_test_barrier();
}

/* ---- groups ---- */

static void sum_over_all(int n)
{
    TT_SCOPE {
        tt_tensor *t = tt_full(TT_SHAPE(3), tt_test_rank() + 1, TT_F32, TT_CPU);

        TT_REQUIRE_OK(tt_pg_all_reduce(tt_test_pg(), t, NULL, NULL));
        TT_CHECK_NEAR(((const float *)tt_tensor_data(t))[2], n * (n + 1) / 2, 0);
    }
}

TT_TEST_RANKS(3, testing_world, processes_have_a_group)
{
    sum_over_all(3);
}

TT_TEST_THREADS(3, testing_world, threads_have_a_group)
{
    sum_over_all(3);
}

TT_TEST_KEPT(2, testing_world_kept, the_first_test_makes_a_group)
{
    sum_over_all(2);
}

TT_TEST_KEPT(2, testing_world_kept, the_second_uses_it)
{
    TT_CHECK(tt_pg_is_initialized());
    sum_over_all(2);
}

TT_TEST_RANKS(3, testing_world, survivors_learn_how_a_rank_ended)
{
    const char *key = "tutti/exit/1";
    tt_blob cause = { 0 };

    tt_test_expect_exit(1, -SIGKILL);
    tt_test_pg();
    if (tt_test_rank() == 1)
        raise(SIGKILL);
    TT_REQUIRE_OK(tt_store_get(tt_test_store(), key, &cause));
    TT_CHECK_STR(cause.data, "killed by signal 9");
    tt_blob_free(&cause);
    TT_CHECK_ERR_SAYS(tt_pg_barrier(tt_test_pg(), NULL, NULL), TT_ERR_PEER, "1");
    tt_test_file_barrier(2, 0);
}
