/* SPDX-License-Identifier: Apache-2.0 */
/* Regular files only. */
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tti_open_regular(const char *what, const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0) {
        (void)TT_FAIL(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, "%s: %s: %s", what, path,
                      strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    (void)TT_FAIL(TT_ERR_IO, "%s: %s is not a regular file", what, path);
    close(fd);
    return -1;
}
