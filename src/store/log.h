/* SPDX-License-Identifier: Apache-2.0 */
/* The file store's log: a magic number, a u64 that says where the records begin, then records, each with its
 * lengths and a checksum. All numbers have the low byte first.
 *
 *     u32 checksum (CRC-32 of all that follows)   u32 operation   u32 key size   u32 value size
 *     key   value
 *
 * A record that ends behind the end of the file was being written when its writer died. A record that
 * is whole but has a wrong checksum is damage, which no killed writer can cause. */
#ifndef TTI_STORE_LOG_H
#define TTI_STORE_LOG_H

#include "store/table.h"

#define TTI_LOG_MAGIC "TTSTORE2"
#define TTI_LOG_MAGIC_SIZE 8
#define TTI_LOG_BEGIN 16 /* where the records of a new file begin */
#define TTI_LOG_HEAD 16

typedef enum tti_log_op { TTI_LOG_SET = 1, TTI_LOG_APPEND = 2, TTI_LOG_REMOVE = 3 } tti_log_op;

/* Applies the whole records among the `n` bytes at `p` to the table. *used_p: how many bytes they have;
 * *need_p: how many the next one has, 0 when not even its head is there. FORMAT for damage. */
tt_status tti_log_apply(const uint8_t *p, size_t n, tti_table *t, size_t *used_p, size_t *need_p);

/* How many bytes the records have that say all that a table says, and these records; to be freed with tti_mfree. */
size_t tti_log_live_size(const tti_table *t);
uint8_t *tti_log_live(const tti_table *t);

/* A record; to be freed with tti_mfree. */
uint8_t *tti_log_record(tti_log_op op, const char *key, const void *data, size_t size,
                        size_t *record_size_p);

#endif
