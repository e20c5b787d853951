/* SPDX-License-Identifier: Apache-2.0 */
/* Groups made and ended thousands of times leave nothing: no memory, no descriptor, nothing in /dev/shm. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tutti/testing.h>
#include <tutti/testing_tools.h>
#include <tutti/tutti.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, CYCLES = 500 };
#else
enum { SANITIZED = 0, CYCLES = 10000 };
#endif

/* Entries whose names begin so. */
static int entries(const char *path, const char *prefix)
{
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (d != NULL)
        closedir(d);
    return n;
}

/* Resident memory of this process in KiB. */
static long resident_kb(void)
{
    long pages = 0, ignored = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%ld %ld", &ignored, &pages) != 2)
        pages = -1;
    if (f != NULL)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void cycle(tt_pg *pg, int n)
{
    for (int i = 0; i < n; i++) {
        tt_pg *sub = tt_pg_subgroup(pg, NULL, 0, NULL);
        TT_REQUIRE(sub != NULL);
        TT_SCOPE {
            tt_tensor *t = tt_ones(TT_SHAPE(3), TT_F32, TT_CPU);
            TT_REQUIRE_OK(tt_pg_all_reduce(sub, t, NULL, NULL));
        }
        tt_pg_free(sub);
    }
}

static void check_cycles(tt_pg *pg, int n)
{
    int64_t keys, keys_after;

    cycle(pg, 200); /* caches fill */
    tt_test_barrier();
    int fds = entries("/proc/self/fd", ""), files = entries("/dev/shm", "tutti");
    long kb = resident_kb();
    TT_REQUIRE_OK(tt_store_count(tt_pg_store(pg), &keys));
    cycle(pg, n);
    tt_test_barrier();
    TT_CHECK_EQ(entries("/proc/self/fd", ""), fds);
    TT_CHECK_EQ(entries("/dev/shm", "tutti"), files);
    if (!SANITIZED) /* they keep freed memory to catch who still uses it */
        TT_CHECK_LT(resident_kb() - kb, 4096);
    TT_REQUIRE_OK(tt_store_count(tt_pg_store(pg), &keys_after));
    TT_CHECK_EQ(keys_after, keys);
    TT_NOTE("%d cycles, %ld KiB more", n, resident_kb() - kb);
}

TT_TEST_RANKS_LIMIT(2, pg_cycles, processes_leave_nothing, 300)
{
    check_cycles(tt_test_pg(), CYCLES);
}

TT_TEST_THREADS_LIMIT(2, pg_cycles, threads_leave_nothing, 300)
{
    tt_pg *pg = tt_test_pg();
    int fds = 0;

    cycle(pg, 200);
    tt_test_barrier();
    if (tt_test_rank() == 0)
        fds = entries("/proc/self/fd", "");
    tt_test_barrier();
    cycle(pg, CYCLES);
    tt_test_barrier();
    if (tt_test_rank() == 0)
        TT_CHECK_EQ(entries("/proc/self/fd", ""), fds);
    tt_test_barrier();
}
