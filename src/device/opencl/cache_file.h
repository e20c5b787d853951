/* SPDX-License-Identifier: Apache-2.0 */
/* Built programs on disk: one file per program, named by the hash of all that it depends on. Many processes may use the
 * directory at once. Nothing here fails: without a usable directory or file there is simply nothing kept. */
#ifndef TTI_DEVICE_OPENCL_CACHE_FILE_H
#define TTI_DEVICE_OPENCL_CACHE_FILE_H

#include "base/sha256.h"
#include "tutti/base.h"

#define TTI_CL_NAME_BYTES (2 * TTI_SHA256_BYTES + 1)

/* Where files are kept, or NULL: TUTTI_CL_CACHE is "off", or there is no place. Made at the first write. */
const char *tti_cl_cache_directory(void);

/* The contents of a file, to be freed with tti_mfree; NULL: none, or damaged (then it is removed). */
unsigned char *tti_cl_cache_read(const char *name, size_t *bytes_p);

/* Whether this process should write the file. Getting binaries out of a driver may cost much more than building did,
 * so, unless `at_once`, a program is kept when it is built for the second time, and by one process
 * only. -1: no. Else hand it to tti_cl_cache_write, or close it. */
int tti_cl_cache_claim(const char *name, bool at_once);
void tti_cl_cache_write(const char *name, int claim, const unsigned char *data, size_t bytes);

void tti_cl_cache_drop(const char *name);

/* When files are more than `most` bytes together, remove those that were not used for longest, until a quarter of
 * that is free. Nothing but our own files is touched. */
void tti_cl_cache_trim(uint64_t most);

#define TTI_CL_CACHE_BYTES ((uint64_t)512 << 20)

#endif
