/* SPDX-License-Identifier: Apache-2.0 */
/* The one way in which the library writes a file: under a temporary name in the same directory, renamed when
 * it is complete, so that no reader ever sees half of it and a failure leaves the old file as it was.
 *
 * A temporary is called ".tutti-<16 random hexadecimal digits>.tmp", which no other process, thread or earlier
 * process with the same number has used, and its writer holds a lock (flock) on it while it writes. A writer that was
 * killed holds none any more: whoever next writes into that directory removes what it left. */
#ifndef TTI_BASE_WRITER_H
#define TTI_BASE_WRITER_H

#include "base/mem.h"

enum {
    /* When tti_writer_finish returns TT_OK, the file and its name are on the disk (fsync of both). Without it
     * the file survives a kill of the process, but maybe not a loss of power. */
    TTI_WRITER_DURABLE = 1,
    TTI_WRITER_PRIVATE = 2 /* mode 0600, otherwise 0666 less the umask */
};

/* A file being written. After the first failure the other calls do nothing; finish reports it. */
typedef struct tti_writer {
    const char *what; /* begins messages; NULL: failures are only returned, not recorded */
    const char *path; /* borrowed until finish */
    char *temporary;
    int flags, fd;
    tt_status status;
} tti_writer;

void tti_writer_open(tti_writer *w, const char *what, const char *path, int flags);
void tti_writer_put(tti_writer *w, const void *data, size_t size);
/* Give up with `st` unless it is TT_OK. */
void tti_writer_check(tti_writer *w, tt_status st);
/* Renames the file into place, or removes what was written. */
tt_status tti_writer_finish(tti_writer *w);

/* Makes the directory `path`; that it exists already is fine when `exists_ok`. Its name is on the disk then.
 * `what` begins messages. */
tt_status tti_directory_make(const char *what, const char *path, bool exists_ok);

/* For tests: of the calls of this thread that write to a disk (creating, writing, flushing, renaming), as counted from
 * now on, those from `first` (1, 2, ...; 0: none) on fail with the number `error` of errno. A full disk
 * stays full. */
void tti_disk_fail_from(uint64_t first, int error);
/* How many such calls there were since then. */
uint64_t tti_disk_calls(void);

#endif
