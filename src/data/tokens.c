/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a file of tokens. The file is mapped, so that only what is used is read. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/open.h"
#include "data/data.h"

typedef struct tokens {
    const unsigned char *map;
    size_t map_bytes;
    const unsigned char *first;
    int64_t n_tokens, context, stride, n_windows;
    int width; /* bytes of a token */
    bool scattered;
} tokens;

static int64_t tokens_length(void *ctx)
{
    return ((tokens *)ctx)->n_windows;
}

static int64_t token_at(const tokens *t, int64_t i)
{
    const unsigned char *p = t->first + (size_t)i * (size_t)t->width;
    int64_t v = p[0] | (int64_t)p[1] << 8;

    return t->width == 2 ? v : v | (int64_t)p[2] << 16 | (int64_t)p[3] << 24;
}

static void copy_window(const tokens *t, tt_sample_at at, int64_t *x, int64_t *y)
{
    int64_t starts = t->n_tokens - t->context; /* a window and the token after it fit */
    int64_t from = t->scattered ? (int64_t)(at.random % (uint64_t)starts) : at.index * t->stride;

    for (int64_t i = 0; i < t->context; i++)
        x[i] = token_at(t, from + i);
    memcpy(y, x + 1, (size_t)(t->context - 1) * sizeof *y);
    y[t->context - 1] = token_at(t, from + t->context);
}

static tt_status tokens_get(void *ctx, tt_sample_at at, tt_tensor **fields)
{
    tokens *t = ctx;

    for (int f = 0; f < 2; f++) {
        fields[f] = tti_empty(&t->context, 1, TT_I64, TT_CPU);
        if (fields[f] == NULL)
            return tt_last_status();
    }
    copy_window(t, at, tti_data(fields[0]), tti_data(fields[1]));
    return TT_OK;
}

static tt_status tokens_get_batch(void *ctx, const tt_sample_at *at, int64_t n, tt_tensor **fields)
{
    tokens *t = ctx;

    for (int f = 0; f < 2; f++) {
        fields[f] = tti_empty((int64_t[]){ n, t->context }, 2, TT_I64, TT_CPU);
        if (fields[f] == NULL)
            return tt_last_status();
    }
    for (int64_t i = 0; i < n; i++)
        copy_window(t, at[i], (int64_t *)tti_data(fields[0]) + i * t->context,
                    (int64_t *)tti_data(fields[1]) + i * t->context);
    return TT_OK;
}

static void tokens_free(void *ctx)
{
    tokens *t = ctx;

    if (t->map != NULL)
        munmap((void *)(uintptr_t)t->map, t->map_bytes);
    tti_mfree(t);
}

static const tt_dataset_ops ops = {
    .name = "tokens",
    .length = tokens_length,
    .get = tokens_get,
    .get_batch = tokens_get_batch,
    .free = tokens_free,
};

static tt_status map_file(tokens *t, const char *path)
{
    struct stat st;
    int fd = tti_open_regular("tokens", path);
    void *map = MAP_FAILED;

    if (fd < 0)
        return tt_last_status();
    if (fstat(fd, &st) == 0 && st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return TT_FAIL(TT_ERR_IO, "tokens: %s: expected a file that is not empty and can be mapped",
                       path);
    t->map = map;
    t->map_bytes = (size_t)st.st_size;
    return TT_OK;
}

static tt_status lay_out(tokens *t, const char *path, const tt_token_options *o)
{
    size_t bytes;

    if (o->skip_bytes >= t->map_bytes)
        return TT_FAIL(TT_ERR_FORMAT, "tokens: %s: has %zu bytes, a header of %zu was expected",
                       path, t->map_bytes, o->skip_bytes);
    bytes = t->map_bytes - o->skip_bytes;
    if (bytes % (size_t)t->width != 0)
        return TT_FAIL(TT_ERR_FORMAT, "tokens: %s: %zu bytes are no whole number of %d-bit tokens",
                       path, bytes, t->width * 8);
    t->first = t->map + o->skip_bytes;
    t->n_tokens = (int64_t)(bytes / (size_t)t->width);
    if (t->n_tokens <= t->context)
        return TT_FAIL(TT_ERR_FORMAT,
                       "tokens: %s: expected more than %lld tokens for one window, got %lld", path,
                       (long long)t->context, (long long)t->n_tokens);
    t->n_windows = o->n_windows > 0 ? o->n_windows : (t->n_tokens - t->context - 1) / t->stride + 1;
    t->scattered = o->n_windows > 0;
    return TT_OK;
}

tt_dataset *tt_token_dataset_open(const char *path, int64_t context, const tt_token_options *opt)
{
    tt_token_options o = opt != NULL ? *opt : (tt_token_options){ 0 };
    tt_dataset *ds = NULL;
    tokens *t;

    if (o.bits == 0)
        o.bits = 16;
    if (o.stride == 0)
        o.stride = context;
    if (path == NULL || context < 1 || o.stride < 1 || o.n_windows < 0 ||
        (o.bits != 16 && o.bits != 32))
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "tokens: expected a path, context and stride >= 1 and tokens of 16 or "
                            "32 bits, got %lld, %lld and %d",
                            (long long)context, (long long)o.stride, o.bits);
    t = tti_calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->context = context;
    t->stride = o.stride;
    t->width = o.bits / 8;
    if (map_file(t, path) == TT_OK && lay_out(t, path, &o) == TT_OK)
        ds = tt_dataset_new(&ops, t, 2);
    if (ds == NULL)
        tokens_free(t);
    return ds;
}
