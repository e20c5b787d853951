/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of built programs. A file is written under another name and renamed, so that readers see all of it or
 * none; its head has the checksum of the rest. `NAME.seen` notes that a program was built once, and its
 * lock says who makes the binary: it goes with the process that holds it. */
#include "device/opencl/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/writer.h"

#define MAX_PATH 1024
#define MAX_BYTES ((uint64_t)256 << 20)

static const char magic[8] = "tutticl2";

typedef struct head {
    char magic[8];
    uint64_t bytes; /* after the head */
    uint8_t sum
        [TTI_SHA256_BYTES]; /* of the name and the bytes: a program must not pass for another one */
} head;

static char directory[MAX_PATH - 128]; /* "": none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose_directory(void)
{
    const char *own = tti_env_get(TTI_ENV_CL_CACHE);
    const char *xdg = tti_foreign_get(TTI_FOREIGN_XDG_CACHE_HOME);
    const char *home = tti_foreign_get(TTI_FOREIGN_HOME);
    int n = 0;

    if (own != NULL && strcmp(own, "off") == 0)
        return;
    if (own != NULL)
        n = snprintf(directory, sizeof directory, "%s", own);
    else if (xdg != NULL && xdg[0] == '/')
        n = snprintf(directory, sizeof directory, "%s/tutti/cl", xdg);
    else if (home != NULL && home[0] == '/')
        n = snprintf(directory, sizeof directory, "%s/.cache/tutti/cl", home);
    if (n < 0 || (size_t)n >= sizeof directory)
        directory[0] = '\0';
}

const char *tti_cl_cache_directory(void)
{
    pthread_once(&once, choose_directory);
    return directory[0] != '\0' ? directory : NULL;
}

static void path_of(char *path, const char *name, const char *ending)
{
    snprintf(path, MAX_PATH, "%s/%s%s", directory, name, ending);
}

static void make_directory(void)
{
    char path[sizeof directory];

    snprintf(path, sizeof path, "%s", directory);
    for (char *p = path + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0700);
            *p = '/';
        }
    (void)mkdir(path, 0700);
}

static bool read_all(int fd, void *data, size_t bytes)
{
    for (char *p = data; bytes > 0;) {
        ssize_t n = read(fd, p, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* What others may have written is not loaded as a program: files and directory belong to this user, or root, and nobody else may
 * write to them. */
static bool is_ours(const struct stat *st)
{
    return (st->st_uid == geteuid() || st->st_uid == 0) && (st->st_mode & 022) == 0;
}

static bool directory_is_ours(void)
{
    struct stat st;

    return stat(directory, &st) == 0 && S_ISDIR(st.st_mode) && is_ours(&st);
}

static void sum_of(const char *name, const unsigned char *data, size_t bytes,
                   uint8_t sum[TTI_SHA256_BYTES])
{
    tti_sha256 h;

    tti_sha256_begin(&h);
    tti_sha256_add(&h, name, strlen(name) + 1);
    tti_sha256_add(&h, data, bytes);
    tti_sha256_end(&h, sum);
}

/* All of an open file, if its head fits. */
static unsigned char *read_checked(const char *name, int fd, size_t *bytes_p)
{
    uint8_t sum[TTI_SHA256_BYTES];
    unsigned char *data;
    struct stat st;
    head h;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !is_ours(&st))
        return NULL;
    if (!read_all(fd, &h, sizeof h) || memcmp(h.magic, magic, sizeof magic) != 0 || h.bytes == 0 ||
        h.bytes > MAX_BYTES || (uint64_t)st.st_size != sizeof h + h.bytes)
        return NULL;
    data = tti_malloc((size_t)h.bytes);
    if (data == NULL)
        return NULL;
    if (read_all(fd, data, (size_t)h.bytes)) {
        sum_of(name, data, (size_t)h.bytes, sum);
        if (memcmp(sum, h.sum, sizeof sum) == 0) {
            *bytes_p = (size_t)h.bytes;
            return data;
        }
    }
    tti_mfree(data);
    return NULL;
}

unsigned char *tti_cl_cache_read(const char *name, size_t *bytes_p)
{
    char path[MAX_PATH];
    unsigned char *data;
    int fd;

    if (tti_cl_cache_directory() == NULL || !directory_is_ours())
        return NULL;
    path_of(path, name, ".bin");
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    data = read_checked(name, fd, bytes_p);
    if (data != NULL)
        (void)futimens(fd, NULL); /* the least used are the first to go */
    close(fd);
    if (data == NULL)
        tti_cl_cache_drop(name);
    return data;
}

void tti_cl_cache_drop(const char *name)
{
    char path[MAX_PATH];

    if (tti_cl_cache_directory() == NULL)
        return;
    path_of(path, name, ".bin");
    (void)unlink(path);
}

int tti_cl_cache_claim(const char *name, bool at_once)
{
    char path[MAX_PATH];
    int fd;

    if (tti_cl_cache_directory() == NULL)
        return -1;
    make_directory();
    if (!directory_is_ours())
        return -1;
    path_of(path, name, ".seen");
    fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && !at_once) {
        close(fd);
        return -1;
    }
    if (fd < 0)
        fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    path_of(path, name, ".bin");
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && access(path, F_OK) != 0)
        return fd;
    close(fd);
    return -1;
}

void tti_cl_cache_write(const char *name, int claim, const unsigned char *data, size_t bytes)
{
    char path[MAX_PATH];
    head h = { .bytes = bytes };
    tti_writer w;

    memcpy(h.magic, magic, sizeof magic);
    sum_of(name, data, bytes, h.sum);
    path_of(path, name, ".bin");
    tti_writer_open(&w, NULL, path, TTI_WRITER_PRIVATE);
    tti_writer_put(&w, &h, sizeof h);
    tti_writer_put(&w, data, bytes);
    (void)tti_writer_finish(&w);
    path_of(path, name, ".seen");
    (void)unlink(path);
    close(claim);
}
