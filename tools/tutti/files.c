/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and printing with care. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *take_regular(int fd, const char *mode)
{
    struct stat st;
    FILE *f = NULL;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        errno = EINVAL;
    else
        f = fdopen(fd, mode);
    if (f == NULL)
        close(fd);
    return f;
}

FILE *tti_open_input(const char *path)
{
    return take_regular(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), "r");
}

FILE *tti_open_output(const char *path, bool follow)
{
    if (follow)
        return fopen(path, "we");
    return take_regular(
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666), "w");
}

/* The form of the name and the lock are those of the library's own temporary files, which removes them from a
 * directory that it writes into once their writer is gone. */
void tti_replacement_open(tti_replacement *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    int before = slash != NULL ? (int)(slash + 1 - path) : 0, fd = -1;
    size_t room = (size_t)before + 40;
    uint64_t number;

    *r = (tti_replacement){ .path = path, .temporary = malloc(room) };
    if (r->temporary == NULL || getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return;
    snprintf(r->temporary, room, "%.*s.tutti-%016" PRIx64 ".tmp", before, path, number);
    fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    (void)flock(fd, LOCK_EX | LOCK_NB); /* some file systems have no locks */
    r->f = fdopen(fd, "w");
    if (r->f == NULL) {
        (void)unlink(r->temporary);
        close(fd);
    }
}

bool tti_replacement_finish(tti_replacement *r, bool complete)
{
    int error = errno;
    bool ok = false;

    if (r->f != NULL) {
        ok = complete && ferror(r->f) == 0 && fflush(r->f) == 0 &&
             rename(r->temporary, r->path) == 0;
        error = errno;
        if (!ok)
            (void)unlink(r->temporary);
        ok = fclose(r->f) == 0 && ok;
    }
    free(r->temporary);
    errno = error;
    return ok;
}

void tti_put_plain(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    for (; *s != '\0'; s++) {
        bool second = s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0; /* U+0080 to U+009F */

        fputc((*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f || second ? '?' : *s, f);
        s += second;
    }
    fputc('\n', f);
}
