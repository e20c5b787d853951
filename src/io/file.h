/* SPDX-License-Identifier: Apache-2.0 */
/* Files: read by mapping them privately, written beside their place and renamed into it. */
#ifndef TTI_IO_FILE_H
#define TTI_IO_FILE_H

#include <stdatomic.h>

#include "base/mem.h"
#include "base/status.h"

/* Bytes that several tensors look at. The last one to go unmaps or frees them. */
typedef struct tti_bytes {
    atomic_int refs;
    unsigned char *data;
    size_t size;
    bool mapped;
} tti_bytes;

/* The whole file, writable without reaching the file. `what` begins messages. */
tti_bytes *tti_bytes_map(const char *what, const char *path);
/* A copy of bytes in memory, aligned for any element. */
tti_bytes *tti_bytes_copy(const void *data, size_t size);
tti_bytes *tti_bytes_retain(tti_bytes *b);
void tti_bytes_free(tti_bytes *b);

/* A file being written. After the first failure the other calls do nothing; finish reports it. */
typedef struct tti_writer {
    const char *what, *path;
    char *temporary; /* its name until it is complete */
    int fd;
    tt_status status;
} tti_writer;

void tti_writer_open(tti_writer *w, const char *what, const char *path);
void tti_writer_put(tti_writer *w, const void *data, size_t size);
/* Give up with `st` unless it is TT_OK. */
void tti_writer_check(tti_writer *w, tt_status st);
/* Flush to the disk and rename, or remove what was written. */
tt_status tti_writer_finish(tti_writer *w);

#endif
