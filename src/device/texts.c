/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of kernels in a directory, as compilers get them: for checks, and to look at. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/writer.h"
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

static void put_words(tti_writer *w, const char *words)
{
    tti_writer_put(w, words, strlen(words));
}

/* Many processes may write the same one: whoever is last has written the same. */
void tti_kernel_text_write(const tti_program *p, const char *options)
{
    char path[MAX_PATH];
    tti_writer w;

    if (!path_of(path, p, options) || access(path, F_OK) == 0)
        return;
    tti_writer_open(&w, NULL, path, 0);
    put_words(&w, "/* ");
    put_words(&w, options);
    put_words(&w, " */\n");
    put_words(&w, tti_source_prelude);
    for (int i = 0; i < TTI_MAX_PARTS && p->parts[i] != NULL; i++)
        put_words(&w, p->parts[i]);
    (void)tti_writer_finish(&w);
}
