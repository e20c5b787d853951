/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier made of files only, so that it works whatever the library under test does: each rank has a
 * file with the number of barriers it has reached, changed and read under one lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "testing/testing.h"

enum { DEFAULT_TIMEOUT_MS = 10000, POLL_US = 10000 };

static _Thread_local long my_turn;

static int lock_folder(const char *folder)
{
    char path[512];
    int fd;

    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return -1;
    snprintf(path, sizeof path, "%s/lock", folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool write_turn(const char *folder, int rank, long turn)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%d", folder, rank);
    f = fopen(path, "we");
    if (f == NULL)
        return false;
    fprintf(f, "%ld\n", turn);
    return fclose(f) == 0;
}

static long read_turn(const char *folder, int rank)
{
    char path[512];
    long turn = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/%d", folder, rank);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%ld", &turn) != 1)
        turn = 0;
    fclose(f);
    return turn;
}

/* How many ranks have reached `turn`; the others are named in `missing`. -1: the files fail. */
static int count_arrived(const char *folder, long turn, char *missing, size_t size)
{
    int lock = lock_folder(folder), n = 0;
    size_t used = 0;

    if (lock < 0)
        return -1;
    missing[0] = '\0';
    for (int i = 0; i < tt_test_size(); i++) {
        if (read_turn(folder, i) >= turn)
            n++;
        else if (used < size)
            used += (size_t)snprintf(missing + used, size - used, "%s%d", used > 0 ? ", " : "", i);
    }
    close(lock);
    return n;
}

static bool arrive(const char *folder)
{
    int lock = lock_folder(folder);
    bool written;

    if (lock < 0)
        return false;
    written = write_turn(folder, tt_test_rank(), ++my_turn);
    close(lock);
    return written;
}

tt_status tt_test_file_barrier(int count, int timeout_ms)
{
    int wanted = count > 0 ? count : tt_test_size();
    double give_up = tti_test_now() + (timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS) / 1e3;
    const char *dir = tt_test_tmpdir();
    char folder[400], missing[128];
    int n;

    if (dir == NULL)
        return TT_FAIL(TT_ERR_IO, "file barrier: no temporary directory");
    snprintf(folder, sizeof folder, "%s/barrier", dir);
    if (!arrive(folder))
        return TT_FAIL(TT_ERR_IO, "file barrier: %s: %s", folder, strerror(errno));
    for (;;) {
        n = count_arrived(folder, my_turn, missing, sizeof missing);
        if (n < 0)
            return TT_FAIL(TT_ERR_IO, "file barrier: %s: %s", folder, strerror(errno));
        if (n >= wanted)
            return TT_OK;
        if (tti_test_now() >= give_up)
            return TT_FAIL(TT_ERR_TIMEOUT,
                           "file barrier %ld: expected %d ranks, got %d; missing: %s", my_turn,
                           wanted, n, missing);
        usleep(POLL_US);
    }
}
