/* SPDX-License-Identifier: Apache-2.0 */
/* Files of strangers: read without waiting, printed without their control characters. */
#ifndef TTI_TOOLS_FILES_H
#define TTI_TOOLS_FILES_H

#include <stdbool.h>
#include <stdio.h>

/* A regular file to be read; NULL with errno set, which is EINVAL for anything else: a FIFO would hold us up for ever. */
FILE *tti_open_input(const char *path);
/* A file to be written; with `follow` false not through a symbolic link, and only if it is a regular one. */
FILE *tti_open_output(const char *path, bool follow);

/* A file that replaces another one when it is complete: until then it has a random name of its own in the same directory, and a
 * failure leaves the old file as it was. A symbolic link at `path` is replaced, not followed. */
typedef struct tti_replacement {
    const char *path; /* borrowed until finish */
    char *temporary;
    FILE *f; /* NULL when open failed, errno says why; finish takes that too */
} tti_replacement;

void tti_replacement_open(tti_replacement *r, const char *path);
/* Renames the file if `complete` and all of it was written, and removes it otherwise. False with errno set when `path` is not the
 * new file. */
bool tti_replacement_finish(tti_replacement *r, bool complete);
/* A text and a newline; control characters, which could change what a terminal shows, become question marks. */
void tti_put_plain(FILE *f, const char *text);

#endif
