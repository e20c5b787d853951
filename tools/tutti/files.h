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
/* A text and a newline; control characters, which could change what a terminal shows, become question marks. */
void tti_put_plain(FILE *f, const char *text);

#endif
