/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's kernels that choose by mask or make one: nonzero, masked_select and its reverse, one_hot,
 * triangles; and the stable sort of keys that sparse tensors need. */
#include <string.h>

#include "ops/cpu/index.h"

enum { BLOCK = 1024 };

/* flags[i] = element from + i is not zero. NaN is not zero, negative zero is. */
static void flags_of(const tt_tensor *x, int64_t from, int64_t n, uint8_t *flags)
{
    const char *p = (const char *)tti_data(x) + (size_t)from * tti_esize(x);

    switch ((tt_dtype)x->dtype) {
    case TT_F32:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const float *)(const void *)p)[i] != 0.0f;
        break;
    case TT_F64:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const double *)(const void *)p)[i] != 0.0;
        break;
    case TT_F16:
    case TT_BF16:
        for (int64_t i = 0; i < n; i++)
            flags[i] = (((const uint16_t *)(const void *)p)[i] & 0x7fff) != 0;
        break;
    case TT_C64:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const float *)(const void *)p)[2 * i] != 0.0f ||
                       ((const float *)(const void *)p)[2 * i + 1] != 0.0f;
        break;
    case TT_C128:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const double *)(const void *)p)[2 * i] != 0.0 ||
                       ((const double *)(const void *)p)[2 * i + 1] != 0.0;
        break;
    case TT_I16:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const int16_t *)(const void *)p)[i] != 0;
        break;
    case TT_I32:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const int32_t *)(const void *)p)[i] != 0;
        break;
    case TT_I64:
        for (int64_t i = 0; i < n; i++)
            flags[i] = ((const int64_t *)(const void *)p)[i] != 0;
        break;
    case TT_I8:
    case TT_U8:
    case TT_BOOL:
        for (int64_t i = 0; i < n; i++)
            flags[i] = p[i] != 0;
        break;
    }
}

tt_status tti_cpu_count_nonzero(const tt_tensor *x, int64_t *n_p)
{
    uint8_t flags[BLOCK];
    int64_t count = 0;

    for (int64_t from = 0; from < x->numel; from += BLOCK) {
        int64_t n = x->numel - from < BLOCK ? x->numel - from : BLOCK;

        flags_of(x, from, n, flags);
        for (int64_t i = 0; i < n; i++)
            count += flags[i];
    }
    *n_p = count;
    return TT_OK;
}

static int64_t *write_position(const tt_tensor *x, int64_t at, int64_t *out)
{
    for (int d = x->n_dims - 1; d >= 0; d--) {
        out[d] = at % x->dims[d];
        at /= x->dims[d];
    }
    return out + x->n_dims;
}

tt_status tti_cpu_nonzero(tt_tensor *out, const tt_tensor *x)
{
    uint8_t flags[BLOCK];
    int64_t *to = tti_data(out);

    for (int64_t from = 0; from < x->numel; from += BLOCK) {
        int64_t n = x->numel - from < BLOCK ? x->numel - from : BLOCK;

        flags_of(x, from, n, flags);
        for (int64_t i = 0; i < n; i++)
            if (flags[i] != 0)
                to = write_position(x, from + i, to);
    }
    return TT_OK;
}

tt_status tti_cpu_masked_select(tt_tensor *out, const tt_tensor *x, const tt_tensor *mask)
{
    size_t e = tti_esize(x);
    const char *from = tti_data(x);
    const uint8_t *set = tti_data(mask);
    char *to = tti_data(out);

    for (int64_t i = 0; i < x->numel; i++)
        if (set[i] != 0) {
            memcpy(to, from + (size_t)i * e, e);
            to += e;
        }
    return TT_OK;
}

tt_status tti_cpu_masked_scatter(tt_tensor *out, const tt_tensor *mask, const tt_tensor *src)
{
    size_t e = tti_esize(out);
    char *to = tti_data(out);
    const uint8_t *set = tti_data(mask);
    const char *from = tti_data(src);

    for (int64_t i = 0; i < out->numel; i++)
        if (set[i] != 0) {
            memcpy(to + (size_t)i * e, from, e);
            from += e;
        }
    return TT_OK;
}

tt_status tti_cpu_one_hot(tt_tensor *out, const tt_tensor *index)
{
    int64_t classes = out->dims[out->n_dims - 1];
    const int64_t *p = tti_data(index);
    int64_t *to = tti_data(out);

    TT_TRY(tti_index_check("one_hot", index, index->n_dims, classes));
    memset(to, 0, tt_tensor_bytes(out));
    for (int64_t i = 0; i < index->numel; i++)
        to[i * classes + p[i]] = 1;
    return TT_OK;
}

/* Keep columns [from, to) of a row of `columns`, zero the others. */
static void keep_columns(char *out, const char *in, int64_t from, int64_t to, int64_t columns,
                         size_t e)
{
    from = from < 0 ? 0 : from > columns ? columns : from;
    to = to < from ? from : to > columns ? columns : to;
    memset(out, 0, (size_t)from * e);
    memcpy(out + (size_t)from * e, in + (size_t)from * e, (size_t)(to - from) * e);
    memset(out + (size_t)to * e, 0, (size_t)(columns - to) * e);
}

tt_status tti_cpu_tri(tt_tensor *out, const tt_tensor *x, int64_t diagonal, bool upper)
{
    int64_t columns = x->dims[x->n_dims - 1], rows = x->dims[x->n_dims - 2];
    size_t e = tti_esize(x), pitch = (size_t)columns * e;
    int64_t total = columns > 0 ? x->numel / columns : 0;
    char *to = tti_data(out);
    const char *from = tti_data(x);

    /* Far outside, where row + diagonal would overflow, every diagonal is alike. */
    diagonal = diagonal > columns ? columns : diagonal < -rows ? -rows : diagonal;
    TTI_PARALLEL_FOR(tti_index_threads((size_t)total * pitch), r, total, 1, {
        int64_t edge = r % rows + diagonal;

        if (upper)
            keep_columns(to + (size_t)r * pitch, from + (size_t)r * pitch, edge, columns, columns,
                         e);
        else
            keep_columns(to + (size_t)r * pitch, from + (size_t)r * pitch, 0, edge + 1, columns, e);
    });
    return TT_OK;
}

/* ---- sorting keys -------------------------------------------------------------------------- */

/* One stable pass by the byte at `shift`, from `a` to `b`; false when that byte is the same in all,
 * and nothing was done. */
static bool radix_pass(const int64_t *keys, const int64_t *a, int64_t *b, int64_t n, int shift)
{
    int64_t starts[257] = { 0 };

    for (int64_t i = 0; i < n; i++)
        starts[((keys[i] >> shift) & 255) + 1]++;
    for (int i = 1; i <= 256; i++)
        if (starts[i] == n)
            return false;
    for (int i = 1; i <= 256; i++)
        starts[i] += starts[i - 1];
    for (int64_t i = 0; i < n; i++)
        b[starts[(keys[a[i]] >> shift) & 255]++] = a[i];
    return true;
}

static bool is_sorted(const int64_t *keys, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (keys[i] < keys[i - 1])
            return false;
    return true;
}

/* Keys are not negative. */
tt_status tti_cpu_sort_keys(tt_tensor *order, const tt_tensor *keys, int64_t *groups_p)
{
    const int64_t *k = tti_data(keys);
    int64_t *out = tti_data(order);
    int64_t n = keys->numel;
    int64_t *other, *a = out, *b;

    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    if (!is_sorted(k, n)) {
        other = tti_malloc((size_t)n * sizeof *other);
        if (other == NULL)
            return TT_ERR_NOMEM;
        b = other;
        for (int shift = 0; shift < 64; shift += 8)
            if (radix_pass(k, a, b, n, shift)) {
                int64_t *swap = a;

                a = b;
                b = swap;
            }
        if (a != out)
            memcpy(out, a, (size_t)n * sizeof *out);
        tti_mfree(other);
    }
    *groups_p = n > 0 ? 1 : 0;
    for (int64_t i = 1; i < n; i++)
        *groups_p += k[out[i]] != k[out[i - 1]];
    return TT_OK;
}
