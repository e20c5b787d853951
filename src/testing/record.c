/* SPDX-License-Identifier: Apache-2.0 */
/* The shared record of a running test, its temporary directory, and the words of skip codes. */
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "testing/testing.h"

tti_test_record *tti_test_current;
_Thread_local tti_test_record *tti_test_mine;

tti_test_record *tti_test_here(void)
{
    return tti_test_mine != NULL ? tti_test_mine : tti_test_current;
}

/* One row per exit code from 72 on. */
static const char *const skip_reasons[] = {
    "the backend is not available",
    "needs a larger world",
    "no CUDA device",
    "needs 1 device",
    "not built with NCCL",
    "needs 2 devices",
    "not for ROCm",
    "no peer access between devices",
    "needs 3 devices",
    "needs 4 devices",
    "needs 5 devices",
    "needs 6 devices",
    "needs 7 devices",
    "needs 8 devices",
    "skipped",
    "needs a world of even size",
    "something it imports is missing",
    "no accelerator",
};

const char *tt_test_skip_reason(int code)
{
    int n = (int)(sizeof skip_reasons / sizeof *skip_reasons);
    int i = code - TT_TEST_SKIP_BACKEND;

    return i >= 0 && i < n ? skip_reasons[i] : NULL;
}

tti_test_record *tti_test_record_new(void)
{
    void *p = mmap(NULL, sizeof(tti_test_record), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

void tti_test_record_free(tti_test_record *r)
{
    if (r == NULL)
        return;
    if (r->tmpdir[0] != '\0')
        tti_test_remove_tree(r->tmpdir);
    munmap(r, sizeof *r);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

void tti_test_remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static bool make_tmpdir(tti_test_record *r)
{
    const char *base = getenv("TMPDIR");
    char path[sizeof r->tmpdir];

    snprintf(path, sizeof path, "%s/tutti-test-XXXXXX", base != NULL && *base ? base : "/tmp");
    if (mkdtemp(path) == NULL)
        return false;
    memcpy(r->tmpdir, path, sizeof path);
    return true;
}

const char *tt_test_tmpdir(void)
{
    tti_test_record *r = tti_test_here();
    bool made;

    if (r == NULL)
        return NULL;
    while (atomic_flag_test_and_set(&r->making_tmpdir))
        sched_yield();
    made = r->tmpdir[0] != '\0' || make_tmpdir(r);
    atomic_flag_clear(&r->making_tmpdir);
    if (!made)
        tt_test_fail(__FILE__, __LINE__, "cannot make a temporary directory: %s", strerror(errno));
    return made ? r->tmpdir : NULL;
}
