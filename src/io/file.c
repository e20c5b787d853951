/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping files and writing them so that no reader ever sees half of one. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static tt_status failed(const char *what, const char *verb, const char *path)
{
    return TT_FAIL(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, "%s: cannot %s \"%s\": %s", what,
                   verb, path, strerror(errno));
}

/* ---- reading ----------------------------------------------------------------------------- */

static tti_bytes *bytes_new(size_t size)
{
    tti_bytes *b = tti_calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    atomic_init(&b->refs, 1);
    b->size = size;
    return b;
}

static tti_bytes *map_fd(const char *what, const char *path, int fd)
{
    struct stat s;
    tti_bytes *b;
    void *p;

    if (fstat(fd, &s) != 0) {
        failed(what, "examine", path);
        return NULL;
    }
    if (!S_ISREG(s.st_mode))
        return TT_FAIL_NULL(TT_ERR_IO, "%s: \"%s\" is not a regular file", what, path);
    if (s.st_size == 0)
        return TT_FAIL_NULL(TT_ERR_FORMAT, "%s: \"%s\" is empty", what, path);
    b = bytes_new((size_t)s.st_size);
    if (b == NULL)
        return NULL;
    p = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) {
        failed(what, "map", path);
        tti_mfree(b);
        return NULL;
    }
    b->data = p;
    b->mapped = true;
    return b;
}

tti_bytes *tti_bytes_map(const char *what, const char *path)
{
    tti_bytes *b;
    int fd;

    if (path == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "%s: expected a path, got NULL", what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        failed(what, "open", path);
        return NULL;
    }
    b = map_fd(what, path, fd);
    close(fd);
    return b;
}

tti_bytes *tti_bytes_copy(const void *data, size_t size)
{
    tti_bytes *b = bytes_new(size);

    if (b == NULL)
        return NULL;
    b->data = tti_malloc(size != 0 ? size : 1);
    if (b->data == NULL) {
        tti_mfree(b);
        return NULL;
    }
    if (size != 0)
        memcpy(b->data, data, size);
    return b;
}

tti_bytes *tti_bytes_retain(tti_bytes *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void tti_bytes_free(tti_bytes *b)
{
    if (b == NULL || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (b->mapped)
        munmap(b->data, b->size);
    else
        tti_mfree(b->data);
    tti_mfree(b);
}

/* ---- writing ----------------------------------------------------------------------------- */

void tti_writer_check(tti_writer *w, tt_status st)
{
    if (w->status == TT_OK)
        w->status = st;
}

void tti_writer_open(tti_writer *w, const char *what, const char *path)
{
    static atomic_uint counter;
    size_t room;

    *w = (tti_writer){ .what = what, .path = path, .fd = -1 };
    if (path == NULL) {
        w->status = TT_FAIL(TT_ERR_INVALID, "%s: expected a path, got NULL", what);
        return;
    }
    room = strlen(path) + 40;
    w->temporary = tti_malloc(room);
    if (w->temporary == NULL) {
        w->status = TT_ERR_NOMEM;
        return;
    }
    snprintf(w->temporary, room, "%s.%ld.%u.tmp", path, (long)getpid(),
             atomic_fetch_add(&counter, 1));
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0)
        w->status = failed(what, "create", w->temporary);
}

void tti_writer_put(tti_writer *w, const void *data, size_t size)
{
    const char *p = data;

    while (w->status == TT_OK && size > 0) {
        size_t chunk = size < (1u << 30) ? size : 1u << 30;
        ssize_t n = write(w->fd, p, chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            w->status = failed(w->what, "write", w->temporary);
            return;
        }
        p += n;
        size -= (size_t)n;
    }
}

/* The name is on the disk only when the directory is; that this fails is no reason to fail. */
static void sync_directory(char *path)
{
    char *slash = strrchr(path, '/');
    int fd;

    if (slash != NULL)
        slash[slash == path ? 1 : 0] = '\0';
    fd = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

tt_status tti_writer_finish(tti_writer *w)
{
    if (w->fd >= 0) {
        if (w->status == TT_OK && fsync(w->fd) != 0)
            w->status = failed(w->what, "flush", w->temporary);
        if (close(w->fd) != 0 && w->status == TT_OK)
            w->status = failed(w->what, "close", w->temporary);
        if (w->status == TT_OK && rename(w->temporary, w->path) != 0)
            w->status = failed(w->what, "replace", w->path);
        if (w->status != TT_OK)
            unlink(w->temporary);
        else
            sync_directory(w->temporary);
    }
    tti_mfree(w->temporary);
    w->temporary = NULL;
    return w->status;
}
