/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files beside their place, and removing what killed writers left. */
#include "base/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX ".tutti-"
#define ENDING ".tmp"
#define DIGITS 16
#define NAME_LENGTH (sizeof PREFIX - 1 + DIGITS + sizeof ENDING - 1)

/* ---- faults ------------------------------------------------------------------------------------ */

static _Thread_local uint64_t disk_fail_first, disk_calls;
static _Thread_local int disk_fail_errno;

void tti_disk_fail_from(uint64_t first, int error)
{
    disk_fail_first = first;
    disk_fail_errno = error;
    disk_calls = 0;
}

uint64_t tti_disk_calls(void)
{
    return disk_calls;
}

/* True, with errno set, when a test wants this call to fail. */
static bool disk_fault(void)
{
    disk_calls++;
    if (disk_fail_first == 0 || disk_calls < disk_fail_first)
        return false;
    errno = disk_fail_errno;
    return true;
}

/* ---- failures ---------------------------------------------------------------------------------- */

static void writer_failed(tti_writer *w, const char *verb)
{
    int error = errno;
    tt_status st = error == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO;

    if (w->status != TT_OK)
        return;
    w->status = w->what == NULL ? st
                                : TT_FAIL(st, "%s: cannot %s \"%s\": %s", w->what, verb, w->path,
                                          strerror(error));
}

void tti_writer_check(tti_writer *w, tt_status st)
{
    if (w->status == TT_OK)
        w->status = st;
}

/* ---- temporaries ------------------------------------------------------------------------------- */

/* Cuts a path to that of its directory. */
static const char *cut_to_directory(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return ".";
    slash[slash == path ? 1 : 0] = '\0';
    return path;
}

static bool is_temporary_name(const char *name)
{
    return strlen(name) == NAME_LENGTH && strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 &&
           strspn(name + sizeof PREFIX - 1, "0123456789abcdef") == DIGITS &&
           strcmp(name + sizeof PREFIX - 1 + DIGITS, ENDING) == 0;
}

/* Removes a temporary if nobody has it locked. The lock is held until it is gone, so that a writer which has just
 * made it and not locked it yet notices (lock_temporary). Where files cannot be locked it stays. */
static void remove_if_stale(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat opened, named;

    if (fd < 0)
        return;
    if (fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
        (void)unlinkat(directory, name, 0);
    close(fd);
}

static void remove_stale(const char *directory)
{
    DIR *d = opendir(directory);
    struct dirent *entry;

    if (d == NULL)
        return;
    while ((entry = readdir(d)) != NULL)
        if (is_temporary_name(entry->d_name))
            remove_if_stale(dirfd(d), entry->d_name);
    closedir(d);
}

/* False: somebody took it for a stale one, another is needed. */
static bool lock_temporary(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK; /* this file system has no locks, so that nobody removes it */
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static uint64_t random_number(void)
{
    struct timespec now;
    uint64_t r;

    if (getrandom(&r, sizeof r, 0) == (ssize_t)sizeof r)
        return r;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid() << 20) *
           0x9e3779b97f4a7c15u;
}

/* `name` has room for NAME_LENGTH characters and the end, and is the end of w->temporary. */
static int create_temporary(tti_writer *w, char *name)
{
    mode_t mode = (w->flags & TTI_WRITER_PRIVATE) != 0 ? 0600 : 0666;

    for (int attempt = 0; attempt < 100; attempt++) {
        int fd;

        snprintf(name, NAME_LENGTH + 1, PREFIX "%016llx" ENDING,
                 (unsigned long long)random_number());
        fd = disk_fault() ? -1 : open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 && lock_temporary(fd))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != EEXIST)
            return -1;
    }
    errno = EEXIST;
    return -1;
}

/* ---- writing ----------------------------------------------------------------------------------- */

void tti_writer_open(tti_writer *w, const char *what, const char *path, int flags)
{
    const char *slash;
    size_t before;

    *w = (tti_writer){ .what = what, .path = path, .flags = flags, .fd = -1 };
    if (path == NULL) {
        w->status = what == NULL ? TT_ERR_INVALID
                                 : TT_FAIL(TT_ERR_INVALID, "%s: expected a path, got NULL", what);
        return;
    }
    slash = strrchr(path, '/');
    before = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    w->temporary = tti_malloc(before + NAME_LENGTH + 3);
    if (w->temporary == NULL) {
        w->status = TT_ERR_NOMEM;
        return;
    }
    snprintf(w->temporary, before + 3, "%.*s.", (int)before, path); /* "/tmp/." is /tmp */
    remove_stale(w->temporary);
    w->fd = create_temporary(w, w->temporary + before);
    if (w->fd < 0)
        writer_failed(w, "create");
}

/* A write beyond the limit of a file's size (RLIMIT_FSIZE) sends this thread SIGXFSZ, which would end the
 * process; here it is an error like a full disk. */
static ssize_t write_without_signal(int fd, const void *data, size_t size)
{
    const struct timespec at_once = { 0, 0 };
    sigset_t too_big, before, pending;
    ssize_t n;
    int error;

    if (disk_fault())
        return -1;
    sigemptyset(&too_big);
    sigaddset(&too_big, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &too_big, &before);
    n = write(fd, data, size);
    error = errno;
    if (n < 0 && error == EFBIG && !sigismember(&pending, SIGXFSZ))
        (void)sigtimedwait(&too_big, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

void tti_writer_put(tti_writer *w, const void *data, size_t size)
{
    const char *p = data;

    while (w->status == TT_OK && size > 0) {
        size_t chunk = size < (1u << 30) ? size : 1u << 30;
        ssize_t n = write_without_signal(w->fd, p, chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            writer_failed(w, "write");
            return;
        }
        p += n;
        size -= (size_t)n;
    }
}

/* What a file system keeps back, and reports, until the file is flushed or closed. The lock must last, therefore
 * a second descriptor of the file is closed. */
static int flush_file(const tti_writer *w)
{
    int copy;

    if (disk_fault())
        return -1;
    copy = (w->flags & TTI_WRITER_DURABLE) != 0 ? -1 : fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
    return copy >= 0 ? close(copy) : fsync(w->fd);
}

/* Some file systems have no such flush: their directories need none. */
static int flush_directory(const char *directory)
{
    int fd, result, error;

    if (disk_fault())
        return -1;
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    result = fsync(fd);
    error = errno;
    close(fd);
    errno = error;
    return result != 0 && error != EINVAL && error != ENOTSUP ? -1 : 0;
}

/* The name is on the disk only when its directory is. Who may not read the directory flushes the whole
 * file system. */
static void flush_name(tti_writer *w)
{
    if (flush_directory(cut_to_directory(w->temporary)) != 0 &&
        (errno != EACCES || syncfs(w->fd) != 0))
        writer_failed(w, "flush the directory of");
}

static void complete_file(tti_writer *w)
{
    bool renamed = false;

    if (w->status == TT_OK && flush_file(w) != 0)
        writer_failed(w, "flush");
    if (w->status == TT_OK) {
        renamed = !disk_fault() && rename(w->temporary, w->path) == 0;
        if (!renamed)
            writer_failed(w, "replace");
    }
    if (!renamed)
        (void)unlink(w->temporary);
    else if ((w->flags & TTI_WRITER_DURABLE) != 0)
        flush_name(w);
    close(w->fd);
}

tt_status tti_writer_finish(tti_writer *w)
{
    if (w->fd >= 0)
        complete_file(w);
    tti_mfree(w->temporary);
    w->temporary = NULL;
    w->fd = -1;
    return w->status;
}

/* ---- directories ------------------------------------------------------------------------------- */

tt_status tti_directory_make(const char *what, const char *path, bool exists_ok)
{
    char *parent;
    int error = 0;

    if (disk_fault() || mkdir(path, 0777) != 0)
        return exists_ok && errno == EEXIST
                   ? TT_OK
                   : TT_FAIL(TT_ERR_IO, "%s: cannot make \"%s\": %s", what, path, strerror(errno));
    parent = tti_strdup(path);
    if (parent != NULL && flush_directory(cut_to_directory(parent)) != 0 && errno != EACCES)
        error = errno;
    if (parent == NULL || error != 0)
        (void)rmdir(path);
    if (parent == NULL)
        return TT_ERR_NOMEM;
    tti_mfree(parent);
    return error == 0 ? TT_OK
                      : TT_FAIL(TT_ERR_IO, "%s: cannot flush the directory of \"%s\": %s", what,
                                path, strerror(error));
}
