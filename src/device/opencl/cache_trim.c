/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping the directory of built programs small: what was not used for longest goes first. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "device/opencl/cache_file.h"

#define LEFTOVER_SECONDS (24 * 3600) /* unfinished files and notes of this age belong to nobody */

typedef struct entry {
    char name[TTI_CL_NAME_BYTES + 16];
    struct timespec used;
    uint64_t bytes;
} entry;

typedef struct listing {
    entry *entries;
    size_t n, cap;
    uint64_t bytes;
} listing;

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), tail = strlen(ending);

    return n > tail && strcmp(name + n - tail, ending) == 0;
}

/* A file of ours: 64 digits and an ending. */
static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == TTI_CL_NAME_BYTES - 1 &&
           name[TTI_CL_NAME_BYTES - 1] == '.' && strlen(name) < sizeof((entry *)0)->name;
}

static bool list(DIR *dir, listing *l)
{
    time_t now = time(NULL);
    struct stat st;

    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        entry *to;

        if (!is_ours(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (!ends_with(e->d_name, ".bin")) {
            if (now - st.st_mtime > LEFTOVER_SECONDS)
                (void)unlinkat(dirfd(dir), e->d_name, 0);
            continue;
        }
        if (tti_vec_reserve((void **)&l->entries, &l->cap, l->n + 1, sizeof *l->entries) != TT_OK)
            return false;
        to = &l->entries[l->n++];
        strcpy(to->name, e->d_name);
        to->used = st.st_mtim;
        to->bytes = (uint64_t)st.st_size;
        l->bytes += to->bytes;
    }
    return true;
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

void tti_cl_cache_trim(uint64_t most)
{
    const char *path = tti_cl_cache_directory();
    DIR *dir = path != NULL ? opendir(path) : NULL;
    listing l = { .entries = NULL };

    if (dir == NULL)
        return;
    if (list(dir, &l) && l.bytes > most) {
        qsort(l.entries, l.n, sizeof *l.entries, by_use);
        for (size_t i = 0; i < l.n && l.bytes > most - most / 4; i++) {
            (void)unlinkat(dirfd(dir), l.entries[i].name, 0);
            l.bytes -= l.entries[i].bytes;
        }
    }
    tti_mfree(l.entries);
    closedir(dir);
}
