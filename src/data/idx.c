/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files: two zero bytes, a type, the number of dimensions, the dimensions as big-endian 32-bit
 * numbers, the elements in big-endian row-major order. */
#include <stdint.h>
#include <string.h>

#include "data/data.h"
#include "tensor/shape.h"

static tt_status type_of(unsigned char code, const char *source, tt_dtype *dtype_p)
{
    static const struct {
        unsigned char code;
        tt_dtype dtype;
    } types[] = { { 0x08, TT_U8 },  { 0x09, TT_I8 },  { 0x0B, TT_I16 },
                  { 0x0C, TT_I32 }, { 0x0D, TT_F32 }, { 0x0E, TT_F64 } };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].code == code) {
            *dtype_p = types[i].dtype;
            return TT_OK;
        }
    }
    return TT_FAIL(TT_ERR_FORMAT, "idx: %s: unknown element type 0x%02x", source, code);
}

static void copy_swapped(char *dst, const unsigned char *src, size_t n, size_t esize)
{
    if (esize == 1) {
        memcpy(dst, src, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < esize; b++)
            dst[i * esize + b] = (char)src[i * esize + esize - 1 - b];
}

static tt_tensor *parse(const unsigned char *p, size_t size, const char *source)
{
    int64_t dims[TT_MAX_DIMS], numel;
    tt_dtype dtype = TT_U8;
    size_t head, esize;
    tt_tensor *t;
    int n_dims;

    if (size < 4 || p[0] != 0 || p[1] != 0)
        return TT_FAIL_NULL(TT_ERR_FORMAT, "idx: %s: expected to begin with two zero bytes",
                            source);
    if (type_of(p[2], source, &dtype) != TT_OK)
        return NULL;
    n_dims = p[3];
    head = 4 + 4 * (size_t)n_dims;
    if (n_dims > TT_MAX_DIMS || size < head)
        return TT_FAIL_NULL(TT_ERR_FORMAT,
                            "idx: %s: expected at most %d dimensions and their sizes, got %d and "
                            "%zu bytes in all",
                            source, TT_MAX_DIMS, n_dims, size);
    for (int i = 0; i < n_dims; i++) {
        const unsigned char *d = p + 4 + 4 * i;

        dims[i] = (int64_t)d[0] << 24 | (int64_t)d[1] << 16 | (int64_t)d[2] << 8 | (int64_t)d[3];
    }
    numel = tti_numel(dims, n_dims);
    esize = tt_dtype_size(dtype);
    if (numel < 0 || (uint64_t)numel > (size - head) / esize ||
        (uint64_t)numel * esize != size - head)
        return TT_FAIL_NULL(
            TT_ERR_FORMAT, "idx: %s: expected the elements of a tensor %s of %s, got %zu bytes",
            source, tti_shape_text(dims, n_dims, (char[TTI_SHAPE_TEXT]){ 0 }, TTI_SHAPE_TEXT),
            tt_dtype_name(dtype), size - head);
    t = tti_empty(dims, n_dims, dtype, TT_CPU);
    if (t != NULL)
        copy_swapped(tti_data(t), p + head, (size_t)numel, esize);
    return t;
}

tt_tensor *tt_idx_parse(const void *data, size_t size)
{
    if (data == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "idx: expected data, got NULL");
    return parse(data, size, "data");
}

/* What parse will accept at most, by the header. A piece holds it whole: it has 4 + 4 * 255 bytes at most. */
static size_t claimed_size(const char *data, size_t n)
{
    const unsigned char *p = (const unsigned char *)data;
    size_t size = 8; /* of the largest elements */

    if (n < 4 || n < 4 + 4 * (size_t)p[3])
        return SIZE_MAX;
    for (int i = 0; i < p[3]; i++) {
        const unsigned char *d = p + 4 + 4 * i;
        size_t dim = (size_t)d[0] << 24 | (size_t)d[1] << 16 | (size_t)d[2] << 8 | (size_t)d[3];

        if (__builtin_mul_overflow(size, dim, &size))
            return SIZE_MAX;
    }
    return size < SIZE_MAX / 2 ? 4 + 4 * (size_t)p[3] + size : SIZE_MAX;
}

tt_tensor *tt_idx_read(const char *path)
{
    size_t size = 0;
    char *data = tti_file_read("idx", path, claimed_size, &size);
    tt_tensor *t;

    if (data == NULL)
        return NULL;
    t = parse((const unsigned char *)data, size, path);
    tti_mfree(data);
    return t;
}
