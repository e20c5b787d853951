/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc: anonymous files of this process, cut from the front; a file is used anew, or given back,
 * when nothing of it is in use any more. They are in one list for the whole process, because memory may be freed
 * after its team was closed. Peers map a file when they first meet it, and keep it until their team is closed or the
 * owner has put another file in its place. */
#include "coll/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_LEAST ((size_t)1 << 20)

typedef struct heap_file {
    struct heap_file *next;
    char *base;
    size_t bytes, used;
    int fd, live;
    uint32_t number;
    const tti_team *team; /* that may take more from it; NULL: closed */
} heap_file;

static pthread_mutex_t mu_files = PTHREAD_MUTEX_INITIALIZER;
static heap_file *files; /* mu_files */
static uint32_t n_files; /* mu_files: made so far */

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

static void file_free(heap_file *f)
{
    if (f->base != NULL)
        munmap(f->base, f->bytes);
    if (f->fd >= 0)
        close(f->fd);
    tti_mfree(f);
}

static heap_file *file_new_locked(tti_team *team, size_t bytes)
{
    heap_file *f = tti_calloc(1, sizeof *f);
    void *p;

    if (f == NULL)
        return NULL;
    f->bytes = bytes < FILE_LEAST ? FILE_LEAST : (bytes + 4095) / 4096 * 4096;
    f->fd = tti_memfd("tutti-buffers", f->bytes);
    if (f->fd < 0) {
        tti_mfree(f);
        return NULL;
    }
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
    size_t need = (bytes + 127) / 128 * 128;
    heap_file *f;
    char *p = NULL;

    if (bytes > SIZE_MAX / 2)
        return TT_FAIL_NULL(TT_ERR_NOMEM, "team: cannot allocate %zu bytes", bytes);
    need = need == 0 ? 128 : need;
    pthread_mutex_lock(&mu_files);
    for (f = files; f != NULL; f = f->next)
        if (f->team == team && f->bytes - f->used >= need)
            break;
    if (f == NULL)
        f = file_new_locked(team, need);
    if (f != NULL) {
        p = f->base + f->used;
        f->used += need;
        f->live++;
    }
    pthread_mutex_unlock(&mu_files);
    return p;
}

/* Gives a file back that nobody uses; one of the least size is kept for the next time. */
static heap_file *file_unused_locked(heap_file **at)
{
    heap_file *f = *at;

    f->used = 0;
    if (f->team != NULL && f->bytes == FILE_LEAST)
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

bool tti_heap_find(const void *p, size_t bytes, tti_place *place_p)
{
    const char *at = p;
    bool found = false;

    pthread_mutex_lock(&mu_files);
    for (const heap_file *f = files; f != NULL && !found; f = f->next)
        if (at >= f->base && at + bytes <= f->base + f->bytes) {
            *place_p = (tti_place){ (uint64_t)(at - f->base), f->bytes, f->number, f->fd };
            found = true;
        }
    pthread_mutex_unlock(&mu_files);
    return found;
}

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
    if (h->base == NULL || place->at > place->bytes) {
        tti_mfree(h);
        return NULL;
    }
    team->heap = h;
    return h->base + place->at;
}
