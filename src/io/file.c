/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping files into memory. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static tt_status failed(const char *what, const char *verb, const char *path)
{
    return TT_FAIL(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, "%s: cannot %s \"%s\": %s", what,
                   verb, path, strerror(errno));
}

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
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO must not hold us up */
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
