/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an open safetensors file: 8 bytes with the length of a JSON header, the header, and
 * the elements of all tensors without gaps. */
#ifndef TTI_IO_SAFETENSORS_H
#define TTI_IO_SAFETENSORS_H

#include "io/host.h"
#include "tutti/io.h"

#define TTI_ST_MAX_HEADER 100000000u /* bytes, as the format's own library has it */

typedef struct tti_st_dtype {
    char name[12];
    uint8_t bits;
    int8_t dtype; /* tt_dtype; -1: we have no such type */
} tti_st_dtype;

/* The row of a type by the format's name or ours; NULL when there is none. */
const tti_st_dtype *tti_st_dtype_named(const char *name);
const tti_st_dtype *tti_st_dtype_of(tt_dtype d);

typedef struct tti_st_entry {
    const char *name, *dtype_name;
    const tti_st_dtype *dtype; /* NULL: unknown */
    tt_shape shape;            /* n_dims -1: too many */
    uint64_t begin, end;       /* in the block of elements */
} tti_st_entry;

struct tt_safetensors {
    tti_bytes *bytes;
    size_t start;          /* of the elements */
    struct cJSON *json;    /* owns all words */
    tti_st_entry *entries; /* by place */
    uint32_t *by_name;     /* entries in the order of their names */
    int n_entries;
    tt_text_pair *metadata;
    int n_metadata;
};

/* Fill everything but bytes and start from the header's text. */
tt_status tti_st_parse(tt_safetensors *st, const char *text, size_t length, uint64_t n_bytes);

#endif
