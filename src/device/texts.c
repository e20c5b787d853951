/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of kernels in a directory, as compilers get them: for checks, and to look at. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "device/launch.h"

extern const char tti_source_prelude[];

#define MAX_PATH 1024

/* DIRECTORY/program-DIS_F32-DARITY=2.cl: a file per program and set of options. */
static bool path_of(char path[MAX_PATH], const tti_program *p, const char *options)
{
    const char *directory = tti_env_get(TTI_ENV_KERNEL_TEXTS);
    int n;

    if (tt_likely(directory == NULL))
        return false;
    n = snprintf(path, MAX_PATH, "%s/%s", directory, p->name);
    if (n < 0 || n >= MAX_PATH - 160)
        return false;
    for (; *options != '\0' && n < MAX_PATH - 32; options++)
        if (*options != ' ' && *options != '/')
            path[n++] = *options;
    snprintf(path + n, 32, ".cl");
    return true;
}

/* Many processes may write the same one: whoever is last has written the same. */
void tti_kernel_text_write(const tti_program *p, const char *options)
{
    char path[MAX_PATH], temporary[MAX_PATH + 8];
    bool bad;
    FILE *f;
    int fd;

    if (!path_of(path, p, options) || access(path, F_OK) == 0)
        return;
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return;
    f = fdopen(fd, "w");
    if (f == NULL) {
        close(fd);
        (void)unlink(temporary);
        return;
    }
    fprintf(f, "/* %s */\n%s", options, tti_source_prelude);
    for (int i = 0; i < TTI_MAX_PARTS && p->parts[i] != NULL; i++)
        fprintf(f, "%s", p->parts[i]);
    bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad || rename(temporary, path) != 0)
        (void)unlink(temporary);
}
