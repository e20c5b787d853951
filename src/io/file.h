/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read by mapping them privately; base/writer.h writes them. */
#ifndef TTI_IO_FILE_H
#define TTI_IO_FILE_H

#include <stdatomic.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/writer.h"

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

#endif
