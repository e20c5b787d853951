/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc: anonymous files of this process, cut from the front; a file is used anew, or given back,
 * when nothing of it is in use any more. They are in one list for the whole process, because memory may be freed
 * after its team was closed. Peers map a file when they first meet it, and keep it until their team is closed or the
 * owner has put another file in its place; the pages of a file that is given back are freed all the same.
 *
 * A rank that leaves an operation makes the pages that peers could still write into private (tti_heap_leave): its
 * addresses then lead to copies of its own, and the mappings of the peers to the pages of the file, which nobody
 * reads any more. Peers cannot tell and need not know. */
#include "coll/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_LEAST ((size_t)1 << 20)

/* Blocks from this size on begin and end at a page: what peers write into in place is at least as large, and what
 * becomes private with one block is then of no other. */
#define PAGED_LEAST ((size_t)8 << 10)

/* Since Linux 5.14; not in the headers of older C libraries. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

typedef struct heap_file {
    struct heap_file *next;
    char *base;
    size_t bytes, used;
    int fd, live;
    uint32_t number;
    const tti_team *team;     /* that may take more from it; NULL: closed */
    bool has_private;         /* some page is: nothing more is taken from it */
    unsigned char page_own[]; /* per page: 1 when it is private */
} heap_file;

static pthread_mutex_t mu_files = PTHREAD_MUTEX_INITIALIZER;
static heap_file *files; /* mu_files */
static uint32_t n_files; /* mu_files: made so far */
static _Atomic uint64_t n_leaves;

/* What this rank mapped of a peer. */
typedef struct tti_heap {
    struct tti_heap *next;
    int rank, fd;
    uint32_t seg;
    char *base;
    size_t bytes;
} tti_heap;

tt_status tti_heap_open(tti_team *team)
{
    team->heap = NULL;
    return TT_OK;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t heap_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void file_free(heap_file *f)
{
    if (f->base != NULL)
        munmap(f->base, f->bytes);
    if (f->fd >= 0) {
        /* Peers may keep the file mapped for long: they shall not keep its pages. Who does not support it keeps them. */
        (void)fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)f->bytes);
        close(f->fd);
    }
    tti_mfree(f);
}

static heap_file *file_new_locked(tti_team *team, size_t bytes)
{
    size_t size = heap_round_up(bytes < FILE_LEAST ? FILE_LEAST : bytes, page_bytes());
    int fd = tti_memfd("tutti-buffers", size); /* first: it refuses what the machine has not */
    heap_file *f;
    void *p;

    if (fd < 0)
        return NULL;
    f = tti_calloc(1, sizeof *f + size / page_bytes());
    if (f == NULL) {
        close(fd);
        return NULL;
    }
    f->bytes = size;
    f->fd = fd;
    p = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (p == MAP_FAILED) {
        file_free(f);
        return TT_FAIL_NULL(TT_ERR_NOMEM, "team: cannot map %zu bytes", bytes);
    }
    f->base = p;
    f->team = team;
    f->number = ++n_files;
    f->next = files;
    files = f;
    return f;
}

void *tti_team_alloc(tti_team *team, size_t bytes)
{
    size_t step = bytes < PAGED_LEAST ? 128 : page_bytes();
    size_t need = heap_round_up(bytes == 0 ? 1 : bytes, step);
    heap_file *f;
    char *p = NULL;

    if (bytes > SIZE_MAX / 2)
        return TT_FAIL_NULL(TT_ERR_NOMEM, "team: cannot allocate %zu bytes", bytes);
    pthread_mutex_lock(&mu_files);
    for (f = files; f != NULL; f = f->next)
        if (f->team == team && !f->has_private && heap_round_up(f->used, step) <= f->bytes &&
            f->bytes - heap_round_up(f->used, step) >= need)
            break;
    if (f == NULL)
        f = file_new_locked(team, need);
    if (f != NULL) {
        p = f->base + heap_round_up(f->used, step);
        f->used = heap_round_up(f->used, step) + need;
        f->live++;
    }
    pthread_mutex_unlock(&mu_files);
    return p;
}

/* Gives a file back that nobody uses; one of the least size is kept for the next time. One with private pages is
 * not, because peers that are late may write into the pages of the file. */
static heap_file *file_unused_locked(heap_file **at)
{
    heap_file *f = *at;

    f->used = 0;
    if (f->team != NULL && f->bytes == FILE_LEAST && !f->has_private)
        return NULL;
    *at = f->next;
    return f;
}

void tti_team_free_bytes(tti_team *team, void *p)
{
    heap_file *unused = NULL;

    (void)team; /* may be closed */
    if (p == NULL)
        return;
    pthread_mutex_lock(&mu_files);
    for (heap_file **f = &files; *f != NULL; f = &(*f)->next)
        if ((char *)p >= (*f)->base && (char *)p < (*f)->base + (*f)->bytes) {
            if (--(*f)->live == 0)
                unused = file_unused_locked(f);
            break;
        }
    pthread_mutex_unlock(&mu_files);
    if (unused != NULL)
        file_free(unused);
}

void tti_heap_close(tti_team *team)
{
    heap_file *unused = NULL;

    while (team->heap != NULL) {
        tti_heap *h = team->heap;

        team->heap = h->next;
        munmap(h->base, h->bytes);
        tti_mfree(h);
    }
    pthread_mutex_lock(&mu_files);
    for (heap_file **f = &files; *f != NULL;) {
        heap_file *this = *f;

        if (this->team == team)
            this->team = NULL;
        if (this->team == NULL && this->live == 0) {
            *f = this->next;
            this->next = unused;
            unused = this;
        } else {
            f = &this->next;
        }
    }
    pthread_mutex_unlock(&mu_files);
    while (unused != NULL) {
        heap_file *next = unused->next;

        file_free(unused);
        unused = next;
    }
}

/* The file that holds all of these bytes, or NULL. */
static heap_file *file_of_locked(const char *at, size_t bytes)
{
    for (heap_file *f = files; f != NULL; f = f->next)
        if (at >= f->base && at + bytes <= f->base + f->bytes)
            return f;
    return NULL;
}

static bool has_private_locked(const heap_file *f, size_t at, size_t bytes)
{
    size_t page;

    if (tt_likely(!f->has_private))
        return false;
    page = page_bytes();
    for (size_t i = at / page; i * page < at + bytes; i++)
        if (f->page_own[i] != 0)
            return true;
    return false;
}

bool tti_heap_find(const void *p, size_t bytes, tti_place *place_p)
{
    const char *at = p;
    const heap_file *f;

    pthread_mutex_lock(&mu_files);
    f = file_of_locked(at, bytes);
    if (f != NULL && has_private_locked(f, (size_t)(at - f->base), bytes))
        f = NULL;
    if (f != NULL)
        *place_p = (tti_place){ (uint64_t)(at - f->base), f->bytes, f->number, f->fd };
    pthread_mutex_unlock(&mu_files);
    return f != NULL;
}

/* ---- leaving ------------------------------------------------------------------------------ */

uint64_t tti_heap_leaves(void)
{
    return atomic_load_explicit(&n_leaves, memory_order_acquire);
}

/* Every page of a private mapping of a file is that of the file until it is first written: this makes the copies.
 * Writes of other threads of this process are kept, whenever they come. */
static bool populate(char *at, size_t bytes)
{
    int st;

    do {
        st = madvise(at, bytes, MADV_POPULATE_WRITE);
    } while (st != 0 && (errno == EINTR || errno == EAGAIN));
    if (st == 0 || errno != EINVAL)
        return st == 0;
    for (size_t i = 0; i < bytes; i += page_bytes()) /* an older kernel */
        atomic_fetch_or_explicit((_Atomic unsigned char *)(void *)(at + i), 0,
                                 memory_order_relaxed);
    return true;
}

/* Puts private copies in the place of shared pages. The mapping is made elsewhere first: when there is no room for
 * it nothing has changed yet. */
static bool copy_pages(const heap_file *f, size_t at, size_t bytes)
{
    void *p = MAP_FAILED;

    if (!tti_alloc_should_fail())
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, f->fd, (off_t)at);
    if (p == MAP_FAILED)
        return false;
    if (mremap(p, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, f->base + at) == MAP_FAILED) {
        munmap(p, bytes);
        return false;
    }
    return populate(f->base + at, bytes);
}

/* Without memory for copies the content is given up, never the promise: empty pages, or, when the kernel has no room
 * even for the note that they are empty, pages that cannot be used at all. */
static void empty_pages(const heap_file *f, size_t at, size_t bytes)
{
    if (mmap(f->base + at, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        mprotect(f->base + at, bytes, PROT_NONE);
}

/* Pages first .. last - 1, of which some may be private already. */
static bool leave_pages_locked(heap_file *f, size_t first, size_t last)
{
    size_t page = page_bytes(), i = first, end;
    bool kept = true;

    f->has_private = true;
    while (i < last) {
        for (end = i; end < last && f->page_own[end] == 0; end++)
            f->page_own[end] = 1;
        if (end > i && !copy_pages(f, i * page, (end - i) * page)) {
            empty_pages(f, i * page, (end - i) * page);
            kept = false;
        }
        i = end > i ? end : i + 1;
    }
    return kept;
}

bool tti_heap_leave(const void *p, size_t bytes)
{
    const char *at = p;
    size_t page = page_bytes(), first;
    heap_file *f;
    bool kept = true;

    pthread_mutex_lock(&mu_files);
    f = bytes > 0 ? file_of_locked(at, bytes) : NULL;
    if (f != NULL) {
        atomic_fetch_add_explicit(&n_leaves, 1, memory_order_release);
        first = (size_t)(at - f->base) / page;
        kept = leave_pages_locked(f, first,
                                  heap_round_up((size_t)(at - f->base) + bytes, page) / page);
    }
    pthread_mutex_unlock(&mu_files);
    return kept;
}

/* ---- memory of peers ------------------------------------------------------------------------ */

/* Forgets what the owner has replaced: the same descriptor is now another file. */
static void forget(tti_team *team, int rank, int fd)
{
    for (tti_heap **h = &team->heap; *h != NULL;) {
        tti_heap *this = *h;

        if (this->rank == rank && this->fd == fd) {
            *h = this->next;
            munmap(this->base, this->bytes);
            tti_mfree(this);
        } else {
            h = &this->next;
        }
    }
}

/* Whether `rank` still is in the operation that runs now. Then the descriptor that it announced is that of its file:
 * who has left may have closed it, and opened something else in its place. */
static bool is_current(tti_team *team, int rank)
{
    const tti_peer *p = &team->peers[rank];

    tti_look_for_dead(team);
    return !atomic_load_explicit(&p->dead, memory_order_acquire) &&
           atomic_load_explicit(&p->block->state, memory_order_acquire) == TTI_STANDING_HERE;
}

char *tti_heap_map(tti_team *team, int rank, const tti_place *place)
{
    tti_heap *h;

    for (h = team->heap; h != NULL; h = h->next)
        if (h->rank == rank && h->seg == place->seg)
            return place->at <= h->bytes ? h->base + place->at : NULL;
    forget(team, rank, place->fd);
    h = tti_calloc(1, sizeof *h);
    if (h == NULL)
        return NULL;
    *h = (tti_heap){
        .next = team->heap, .rank = rank, .fd = place->fd, .seg = place->seg, .bytes = place->bytes
    };
    h->base = tti_map_peer_fd(team->peers[rank].pid, place->fd, place->bytes);
    if (h->base == NULL || place->at > place->bytes || !is_current(team, rank)) {
        if (h->base != NULL) {
            munmap(h->base, h->bytes);
            errno = ESTALE;
        }
        tti_mfree(h);
        return NULL;
    }
    team->heap = h;
    return h->base + place->at;
}
