/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a file: everyone keeps a table of what the log says up to some offset, and reads on from
 * there. Readers take no lock, since whole records never change; writers lock the file, read on, cut off
 * what a killed writer left behind, and append one record with one write.
 *
 * Compaction: when more than half of the records are dead, a writer appends records of all that is alive, says in the
 * head of the file that records begin there, and gives the space before that back to the disk, which then reads as
 * zeros. Killed at any step it leaves a file that says the same: until the head is written the new records repeat what
 * the old ones say. A reader that was further behind finds zeros, and begins again where the head says. The file keeps
 * its name and inode, since others have it open. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/log.h"
#include "store/proto.h"
#include "store/store.h"
#include "store/wire.h"

#define MAX_FILE ((int64_t)1 << 30)      /* of records */
#define MIN_COMPACT ((int64_t)256 << 10) /* less is not worth the work */
#define LOCK_LIMIT_MS 30000
#define MIN_READ ((size_t)64 << 10)

typedef struct file {
    char *path;
    pthread_mutex_t mu; /* guards all below */
    int fd;
    pid_t pid; /* that opened fd: a forked child must not share the lock */
    int64_t offset;
    int64_t begin;  /* where records began when somebody looked */
    int64_t enough; /* bytes of records up to which compaction is not thought of */
    tti_table table;
} file;

static void nap(int64_t *ns, int64_t most)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)*ns }, NULL);
    *ns = *ns * 2 > most ? most : *ns * 2;
}

static tt_status read_at(const file *f, int64_t at, uint8_t *p, size_t n, size_t *got_p)
{
    *got_p = 0;
    while (*got_p < n) {
        ssize_t r = pread(f->fd, p + *got_p, n - *got_p, at + (int64_t)*got_p);

        if (r == 0)
            break;
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return TT_FAIL(TT_ERR_IO, "store: file %s: read: %s", f->path, strerror(errno));
        *got_p += (size_t)r;
    }
    return TT_OK;
}

static tt_status size_of(const file *f, int64_t *size_p)
{
    struct stat info;

    if (fstat(f->fd, &info) != 0)
        return TT_FAIL(TT_ERR_IO, "store: file %s: %s", f->path, strerror(errno));
    if (info.st_size < f->offset)
        return TT_FAIL(TT_ERR_FORMAT,
                       "store: file %s was cut to %lld bytes by somebody else, %lld were read",
                       f->path, (long long)info.st_size, (long long)f->offset);
    *size_p = info.st_size;
    return TT_OK;
}

/* Where the head of the file says that records begin; 0 when there is no whole head. */
static tt_status read_head(const file *f, int64_t *begin_p)
{
    uint8_t head[TTI_LOG_BEGIN];
    uint64_t begin;
    size_t got;

    TT_TRY(read_at(f, 0, head, sizeof head, &got));
    if (memcmp(head, TTI_LOG_MAGIC, got < TTI_LOG_MAGIC_SIZE ? got : TTI_LOG_MAGIC_SIZE) != 0)
        return TT_FAIL(TT_ERR_FORMAT, "store: file %s exists and is no store", f->path);
    begin = got == sizeof head ? tti_load64(head + TTI_LOG_MAGIC_SIZE) : 0;
    if (got == sizeof head && (begin < TTI_LOG_BEGIN || begin > INT64_MAX / 2))
        return TT_FAIL(TT_ERR_FORMAT, "store: file %s is damaged at byte %d", f->path,
                       TTI_LOG_MAGIC_SIZE);
    *begin_p = (int64_t)begin;
    return TT_OK;
}

static tt_status write_head(const file *f, int64_t begin)
{
    uint8_t head[TTI_LOG_BEGIN];

    memcpy(head, TTI_LOG_MAGIC, TTI_LOG_MAGIC_SIZE);
    tti_store64(head + TTI_LOG_MAGIC_SIZE, (uint64_t)begin);
    if (pwrite(f->fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        return TT_FAIL(TT_ERR_IO, "store: file %s: write: %s", f->path, strerror(errno));
    return TT_OK;
}

/* Applies all whole records that are new. */
static tt_status read_on(file *f)
{
    size_t need = 0, got = 0;
    tt_status st = TT_OK;
    int64_t size;

    TT_TRY(size_of(f, &size));
    while (st == TT_OK && f->offset < size) {
        size_t n = need > MIN_READ ? need : MIN_READ;
        size_t used = 0; /* by records that were applied in this turn */
        uint8_t *p;

        n = (int64_t)n > size - f->offset ? (size_t)(size - f->offset) : n;
        p = tti_malloc(n);
        if (p == NULL)
            return TT_ERR_NOMEM;
        st = read_at(f, f->offset, p, n, &got);
        if (st == TT_OK)
            st = tti_log_apply(p, got, &f->table, &used, &need);
        f->offset += (int64_t)used; /* also of the records before a damaged one */
        if (st == TT_ERR_FORMAT)
            st = TT_FAIL(TT_ERR_FORMAT, "store: file %s is damaged at byte %lld", f->path,
                         (long long)f->offset);
        tti_mfree(p);
        if (used == 0 && (need <= n || (int64_t)need > size - f->offset))
            break; /* the rest is no whole record */
    }
    return st;
}

static tt_status lock(file *f)
{
    int64_t deadline = tti_deadline(LOCK_LIMIT_MS), ns = 20000;

    while (flock(f->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return TT_FAIL(TT_ERR_IO, "store: file %s: lock: %s", f->path, strerror(errno));
        if (tti_ms_left(deadline) == 0)
            return TT_FAIL(TT_ERR_TIMEOUT,
                           "store: file %s: another process has held its lock for %d ms", f->path,
                           LOCK_LIMIT_MS);
        nap(&ns, 2000000);
    }
    return TT_OK;
}

static void unlock(const file *f)
{
    flock(f->fd, LOCK_UN);
}

/* In a forked child: a descriptor, and thus a lock, of its own. */
static tt_status after_fork(file *f)
{
    char self[40];
    int fd;

    if (f->pid == getpid())
        return TT_OK;
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    fd = open(self, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        fd = open(f->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return TT_FAIL(TT_ERR_IO, "store: file %s: open: %s", f->path, strerror(errno));
    close(f->fd);
    f->fd = fd;
    f->pid = getpid();
    return TT_OK;
}

/* With the lock held. When somebody has compacted what this reader has not read yet, it begins again. */
static tt_status read_locked(file *f)
{
    tti_error_copy first;
    int64_t begin = 0;

    if (read_on(f) == TT_OK)
        return TT_OK;
    tti_error_save(&first);
    if (first.status == TT_ERR_FORMAT)
        TT_TRY(read_head(f, &begin));
    if (begin <= f->offset) {
        tti_error_restore(&first);
        return first.status;
    }
    tti_table_fini(&f->table);
    f->table = (tti_table){ 0 };
    f->offset = f->begin = begin;
    return read_on(f);
}

/* New records without a lock. Bytes that another process is just replacing may look damaged: under the
 * lock they no longer do, unless they are. */
static tt_status refresh(file *f)
{
    tti_error_copy first;

    TT_TRY(after_fork(f));
    if (read_on(f) == TT_OK)
        return TT_OK;
    tti_error_save(&first);
    if (first.status != TT_ERR_FORMAT) {
        tti_error_restore(&first);
        return first.status;
    }
    TT_TRY(lock(f));
    first.status = read_locked(f);
    unlock(f);
    return first.status;
}

/* All bytes at the end of the file, or none. */
static tt_status write_end(file *f, const void *data, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t w =
            pwrite(f->fd, (const uint8_t *)data + done, n - done, f->offset + (int64_t)done);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0) {
            int why = errno;

            if (ftruncate(f->fd, f->offset) != 0)
                why = errno;
            return TT_FAIL(TT_ERR_IO, "store: file %s: write: %s", f->path, strerror(why));
        }
        done += (size_t)w;
    }
    return TT_OK;
}

/* Gives the space of these bytes back to the disk. */
static tt_status give_back(const file *f, int64_t from, int64_t n)
{
    if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, n) != 0)
        return TT_FAIL(TT_ERR_IO, "store: file %s: fallocate: %s", f->path, strerror(errno));
    return TT_OK;
}

/* A file system that cannot give space back keeps the file as it is; bytes behind its end show which can. */
static tt_status compact(file *f, size_t live)
{
    int64_t begin = f->offset;
    uint8_t *all;
    tt_status st;

    TT_TRY(give_back(f, begin + (int64_t)live, 4096));
    all = tti_log_live(&f->table);
    if (all == NULL)
        return TT_ERR_NOMEM;
    st = write_end(f, all, live);
    tti_mfree(all);
    TT_TRY(st);
    f->offset += (int64_t)live;
    TT_TRY(write_head(f, begin));
    f->begin = begin;
    return give_back(f, TTI_LOG_BEGIN, begin - TTI_LOG_BEGIN);
}

/* With the lock held and all records read. What fails here (a full disk has no room for the new records) is no failure
 * of the write that follows, and is tried again when the file has grown. */
static tt_status consider_compaction(file *f)
{
    size_t live = tti_log_live_size(&f->table);
    tti_error_copy before;
    int64_t used;

    TT_TRY(read_head(f, &f->begin));
    used = f->offset - f->begin;
    f->enough = (int64_t)live * 2 > MIN_COMPACT ? (int64_t)live * 2 : MIN_COMPACT;
    if (used <= f->enough)
        return TT_OK;
    tti_error_save(&before);
    if (compact(f, live) != TT_OK) {
        f->enough = 2 * used;
        tti_error_restore(&before);
    }
    return TT_OK;
}

/* Locks, reads on, and cuts off the torn record of a killed writer. */
static tt_status begin_write(file *f)
{
    tt_status st;
    int64_t size;

    TT_TRY(after_fork(f));
    TT_TRY(lock(f));
    st = read_locked(f);
    if (st == TT_OK)
        st = size_of(f, &size);
    if (st == TT_OK && size > f->offset && ftruncate(f->fd, f->offset) != 0)
        st = TT_FAIL(TT_ERR_IO, "store: file %s: %s", f->path, strerror(errno));
    if (st == TT_OK && f->offset - f->begin > f->enough)
        st = consider_compaction(f);
    if (st != TT_OK)
        unlock(f);
    return st;
}

/* Whether n more bytes of records may be written. */
static tt_status has_room(file *f, size_t n)
{
    if (f->offset - f->begin + (int64_t)n > MAX_FILE)
        TT_TRY(read_head(f, &f->begin)); /* another may have compacted */
    if (f->offset - f->begin + (int64_t)n <= MAX_FILE)
        return TT_OK;
    return TT_FAIL(TT_ERR_IO, "store: file %s would grow beyond %lld bytes: begin a new one",
                   f->path, (long long)MAX_FILE);
}

static tt_status write_record(file *f, tti_log_op op, const char *key, const void *data,
                              size_t size)
{
    const tti_entry *e = op == TTI_LOG_APPEND ? tti_table_find(&f->table, key) : NULL;
    size_t n;
    uint8_t *r;
    tt_status st;

    if (e != NULL && size > TT_STORE_MAX_VALUE - e->size)
        return TT_FAIL(TT_ERR_INVALID, "store: append: key \"%.200s\": more than %zu bytes", key,
                       TT_STORE_MAX_VALUE);
    r = tti_log_record(op, key, data, size, &n);
    if (r == NULL)
        return TT_ERR_NOMEM;
    st = has_room(f, n);
    if (st == TT_OK)
        st = write_end(f, r, n);
    tti_mfree(r);
    return st;
}

/* All records with one write, so that only a writer killed within it leaves less than all. */
static tt_status file_multi_set(void *ctx, const char *const *keys, const void *const *data,
                                const size_t *sizes, int n)
{
    tti_buffer all = { 0 };
    tt_status st = TT_OK;
    file *f = ctx;

    for (int i = 0; i < n && st == TT_OK; i++) {
        size_t size = 0;
        uint8_t *r = tti_log_record(TTI_LOG_SET, keys[i], data[i], sizes[i], &size);

        tti_put(&all, r, size);
        st = r == NULL ? TT_ERR_NOMEM : TT_OK;
        tti_mfree(r);
    }
    if (st == TT_OK && all.bad)
        st = TT_FAIL(TT_ERR_NOMEM, "store: file %s: too much for one multi_set", f->path);
    pthread_mutex_lock(&f->mu);
    if (st == TT_OK && (st = begin_write(f)) == TT_OK) {
        st = has_room(f, all.n);
        if (st == TT_OK)
            st = write_end(f, all.data, all.n);
        unlock(f);
    }
    pthread_mutex_unlock(&f->mu);
    tti_mfree(all.data);
    return st;
}

/* One change under the lock; the caller's table learns of it by reading it back. */
static tt_status change(file *f, tti_log_op op, const char *key, const void *data, size_t size)
{
    tt_status st;

    pthread_mutex_lock(&f->mu);
    st = begin_write(f);
    if (st == TT_OK) {
        st = write_record(f, op, key, data, size);
        unlock(f);
    }
    pthread_mutex_unlock(&f->mu);
    return st;
}

static tt_status file_set(void *ctx, const char *key, const void *data, size_t size)
{
    return change(ctx, TTI_LOG_SET, key, data, size);
}

static tt_status file_append(void *ctx, const char *key, const void *data, size_t size)
{
    return change(ctx, TTI_LOG_APPEND, key, data, size);
}

static tt_status file_add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    file *f = ctx;
    char text[24];
    tt_status st;

    pthread_mutex_lock(&f->mu);
    st = begin_write(f);
    if (st == TT_OK) {
        st = tti_table_sum(&f->table, key, delta, value_p);
        if (st == TT_OK) {
            int size = snprintf(text, sizeof text, "%lld", (long long)*value_p);

            st = write_record(f, TTI_LOG_SET, key, text, (size_t)size);
        }
        unlock(f);
    }
    pthread_mutex_unlock(&f->mu);
    return st;
}

static tt_status file_compare_set(void *ctx, const char *key, const void *expected,
                                  size_t expected_size, const void *desired, size_t desired_size,
                                  tt_blob *blob_p)
{
    file *f = ctx;
    tt_status st;

    pthread_mutex_lock(&f->mu);
    st = begin_write(f);
    if (st == TT_OK) {
        if (tti_table_matches(&f->table, key, expected, expected_size))
            st = write_record(f, TTI_LOG_SET, key, desired, desired_size);
        if (st == TT_OK)
            st = read_on(f);
        if (st == TT_OK)
            st = tti_entry_blob(tti_table_find(&f->table, key), blob_p);
        unlock(f);
    }
    pthread_mutex_unlock(&f->mu);
    return st;
}

static tt_status file_remove(void *ctx, const char *key, bool *removed_p)
{
    file *f = ctx;
    tt_status st;

    pthread_mutex_lock(&f->mu);
    st = begin_write(f);
    if (st == TT_OK) {
        *removed_p = tti_table_find(&f->table, key) != NULL;
        if (*removed_p)
            st = write_record(f, TTI_LOG_REMOVE, key, "", 0);
        unlock(f);
    }
    pthread_mutex_unlock(&f->mu);
    return st;
}

static tt_status file_multi_get(void *ctx, const char *const *keys, int n, int timeout_ms,
                                tt_blob *blobs)
{
    int64_t deadline = tti_deadline(timeout_ms), ns = 50000;
    file *f = ctx;

    for (;;) {
        bool last = tti_ms_left(deadline) == 0, there;
        tt_status st;

        pthread_mutex_lock(&f->mu);
        st = refresh(f);
        there = st == TT_OK && tti_table_has(&f->table, keys, n);
        if (there && blobs != NULL)
            st = tti_table_blobs(&f->table, keys, n, blobs);
        else if (!there && st == TT_OK && last)
            st = tti_table_timeout(&f->table, keys, n, timeout_ms);
        pthread_mutex_unlock(&f->mu);
        if (there || st != TT_OK)
            return st;
        nap(&ns, 5000000);
    }
}

static tt_status file_get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    return file_multi_get(ctx, &key, 1, timeout_ms, blob_p);
}

static tt_status file_wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    return file_multi_get(ctx, keys, n, timeout_ms, NULL);
}

static tt_status file_check(void *ctx, const char *const *keys, int n, bool *present_p)
{
    file *f = ctx;
    tt_status st;

    pthread_mutex_lock(&f->mu);
    st = refresh(f);
    if (st == TT_OK)
        *present_p = tti_table_has(&f->table, keys, n);
    pthread_mutex_unlock(&f->mu);
    return st;
}

static tt_status file_count(void *ctx, const char *prefix, int64_t *n_p)
{
    file *f = ctx;
    tt_status st;

    pthread_mutex_lock(&f->mu);
    st = refresh(f);
    if (st == TT_OK)
        *n_p = tti_table_count(&f->table, prefix);
    pthread_mutex_unlock(&f->mu);
    return st;
}

static tt_status file_wait_change(void *ctx, const char *key, const void *seen, size_t seen_size,
                                  int timeout_ms, tt_blob *blob_p)
{
    int64_t deadline = tti_deadline(timeout_ms), ns = 50000;
    file *f = ctx;

    for (;;) {
        bool last = tti_ms_left(deadline) == 0, differs;
        tt_status st;

        pthread_mutex_lock(&f->mu);
        st = refresh(f);
        differs = st == TT_OK && tti_table_differs(&f->table, key, seen, seen_size);
        if (differs)
            st = tti_entry_blob(tti_table_find(&f->table, key), blob_p);
        pthread_mutex_unlock(&f->mu);
        if (differs || st != TT_OK)
            return st;
        if (last)
            return TT_FAIL(TT_ERR_TIMEOUT, "store: key \"%.200s\" did not change within %d ms", key,
                           timeout_ms);
        nap(&ns, 5000000);
    }
}

static void file_free(void *ctx)
{
    file *f = ctx;

    if (f->fd >= 0)
        close(f->fd);
    tti_table_fini(&f->table);
    pthread_mutex_destroy(&f->mu);
    tti_mfree(f->path);
    tti_mfree(f);
}

static const tt_store_ops file_ops = {
    .abi = TT_STORE_ABI,
    .name = "file",
    .set = file_set,
    .get = file_get,
    .add = file_add,
    .wait = file_wait,
    .check = file_check,
    .compare_set = file_compare_set,
    .append = file_append,
    .remove = file_remove,
    .count = file_count,
    .multi_get = file_multi_get,
    .multi_set = file_multi_set,
    .wait_change = file_wait_change,
    .free = file_free,
};

/* Writes the head of the file if nobody has yet, and reads what there is. */
static tt_status begin_file(file *f)
{
    tt_status st = TT_OK;

    f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return TT_FAIL(TT_ERR_IO, "store: file %s: open: %s", f->path, strerror(errno));
    f->pid = getpid();
    f->enough = MIN_COMPACT;
    TT_TRY(lock(f));
    st = read_head(f, &f->begin);
    if (st == TT_OK && f->begin == 0) {
        f->begin = TTI_LOG_BEGIN;
        st = write_head(f, f->begin);
    }
    f->offset = f->begin;
    if (st == TT_OK)
        st = read_on(f);
    unlock(f);
    return st;
}

tt_store *tt_store_file_open(const char *path)
{
    file *f;

    if (path == NULL || path[0] == '\0')
        return TT_FAIL_NULL(TT_ERR_INVALID, "store: file: expected a path");
    f = tti_calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    f->fd = -1;
    pthread_mutex_init(&f->mu, NULL);
    f->path = tti_strdup(path);
    if (f->path == NULL || begin_file(f) != TT_OK) {
        file_free(f);
        return NULL;
    }
    return tti_store_new(&file_ops, f);
}
