/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4): names for contents, and checksums of files. */
#ifndef TTI_BASE_SHA256_H
#define TTI_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define TTI_SHA256_BYTES 32

typedef struct tti_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* so far */
    uint8_t block[64];
} tti_sha256;

void tti_sha256_begin(tti_sha256 *h);
void tti_sha256_add(tti_sha256 *h, const void *data, size_t bytes);
void tti_sha256_end(tti_sha256 *h, uint8_t sum[TTI_SHA256_BYTES]);

/* `sum` in hexadecimal: 64 characters and a 0. */
void tti_sha256_text(const uint8_t sum[TTI_SHA256_BYTES], char text[2 * TTI_SHA256_BYTES + 1]);

#endif
