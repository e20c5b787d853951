/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and printing with care. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
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
