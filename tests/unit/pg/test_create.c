/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that fails while a group is made tells the others, which then do not wait until their time is over. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tutti/collective.h"
#include "tutti/error.h"
#include "tutti/memory.h"
#include "tutti/testing.h"

enum { LONG_MS = 120000 }; /* nobody may wait that long */

static tt_store *store_of(const char *name, int round)
{
    char path[512];
    tt_store *s;

    snprintf(path, sizeof path, "%s/%s-%d", tt_test_tmpdir(), name, round);
    s = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(s);
    return s;
}

/* Makes a group and uses it once. */
static tt_status make_group(tt_store *s, int timeout_ms)
{
    tt_pg *pg = tt_pg_new_store(s, tt_test_rank(), tt_test_size(),
                                &(tt_pg_options){ .backend = "shm", .timeout_ms = timeout_ms });
    tt_status st = pg != NULL ? tt_pg_barrier(pg, NULL, NULL) : tt_last_status();

    tt_pg_free(pg);
    return st;
}

/* What the rank that may fail says to the others: whether it did. */
static bool tell(tt_store *s, bool failed)
{
    TT_REQUIRE_OK(tt_store_set(s, "failed", failed ? "1" : "0", 1));
    return failed;
}

static bool is_told(tt_store *s)
{
    tt_blob b;
    bool failed;

    TT_REQUIRE_OK(tt_store_get(s, "failed", &b));
    failed = *(const char *)b.data == '1';
    tt_blob_free(&b);
    return failed;
}

/* ---- memory --------------------------------------------------------------------------------------- */

/* The n-th allocation of rank `victim` fails; false when it makes fewer. */
static bool fail_allocation(int victim, int round, uint64_t n)
{
    tt_store *s = store_of("group", round), *told = store_of("told", round);
    bool hit;
    tt_status st;

    if (tt_test_rank() == victim) {
        tt_debug_fail_alloc(n);
        st = make_group(s, LONG_MS);
        hit = tt_debug_fail_alloc(0) >= n;
        TT_CHECK(st == TT_OK || (hit && st == TT_ERR_NOMEM));
        tell(told, st != TT_OK);
        tell(s, hit);
    } else {
        st = make_group(s, LONG_MS);
        if (is_told(told)) {
            TT_CHECK_EQ(st, TT_ERR_PEER);
            TT_CHECK_CONTAINS(tt_last_error(), victim == 0 ? "rank 0" : "rank 1");
        } else {
            TT_CHECK_OK(st);
        }
        hit = is_told(s);
    }
    tt_test_barrier();
    tt_store_free(told);
    tt_store_free(s);
    return hit;
}

/* The first allocation that a rank makes after it has come to the others. Whoever fails before that never came. */
static uint64_t first_after_coming(void)
{
    uint64_t n = 0;
    tt_status st = TT_ERR_NOMEM;

    while (st == TT_ERR_NOMEM) { /* alone: else it waits for the others in vain */
        tt_store *s = store_of("alone", (int)++n);

        tt_debug_fail_alloc(n);
        st = make_group(s, 1);
        tt_debug_fail_alloc(0);
        tt_store_free(s);
    }
    TT_CHECK_EQ(st, TT_ERR_TIMEOUT);
    return n;
}

static void fail_every_allocation(int victim)
{
    tt_store *s = store_of("first", 0);
    uint64_t first, n;
    tt_blob b;

    if (tt_test_rank() == victim) {
        first = first_after_coming();
        TT_REQUIRE_OK(tt_store_set(s, "first", &first, sizeof first));
    }
    TT_REQUIRE_OK(tt_store_get(s, "first", &b));
    memcpy(&first, b.data, sizeof first);
    tt_blob_free(&b);
    tt_store_free(s);
    for (n = first; fail_allocation(victim, (int)n, n) && tt_test_failures() == 0;)
        n++;
    TT_CHECK_GT(n - first, 20);
}

TT_TEST_RANKS_LIMIT(2, pg_create, rank_0_lacks_memory, 600)
{
    fail_every_allocation(0);
}

TT_TEST_RANKS_LIMIT(2, pg_create, rank_1_lacks_memory, 600)
{
    fail_every_allocation(1);
}

/* ---- descriptors ---------------------------------------------------------------------------------- */

/* Leaves `spare` descriptors that can be opened; how many were taken. */
static int take_descriptors(int *fds, int most, int spare)
{
    int n = 0;

    while (n < most && (fds[n] = fcntl(2, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    for (int i = 0; i < spare && n > 0; i++)
        close(fds[--n]);
    return n;
}

/* Rank `victim` has few descriptors; false when they are enough. */
static bool lack_descriptors(int victim, int spare)
{
    tt_store *s = store_of("group", spare), *told = store_of("told", spare);
    int fds[64], n = 0;
    bool failed;
    tt_status st;

    if (tt_test_rank() == victim)
        n = take_descriptors(fds, 64, spare);
    st = make_group(s, LONG_MS);
    while (n > 0)
        close(fds[--n]);
    failed = tt_test_rank() == victim ? tell(told, st != TT_OK) : is_told(told);
    if (failed && tt_test_rank() !=
                      victim) /* IO: all know that there is no memory that each of them can open */
        TT_CHECK(st == TT_ERR_IO || (st == TT_ERR_PEER && strstr(tt_last_error(), "rank 1")));
    tt_test_barrier();
    tt_store_free(told);
    tt_store_free(s);
    return failed;
}

TT_TEST_RANKS_LIMIT(3, pg_create, a_rank_lacks_descriptors, 300)
{
    struct rlimit limit = { 64, 64 };
    int spare = 0;

    TT_REQUIRE_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (lack_descriptors(1, spare) && tt_test_failures() == 0)
        spare++;
    TT_CHECK_GT(spare, 1);
    TT_CHECK_LT(spare, 40);
}
