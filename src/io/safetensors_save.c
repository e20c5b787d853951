/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files: wide types first, so that each tensor is aligned for its own; then by
 * name; the header padded with spaces to a multiple of 8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "io/safetensors.h"

/* ---- text that grows --------------------------------------------------------------------- */

typedef struct text {
    char *p;
    size_t n, cap;
    tt_status status;
} text;

static void put(text *t, const char *s, size_t n)
{
    if (t->status == TT_OK)
        t->status = tti_vec_reserve((void **)&t->p, &t->cap, t->n + n, 1);
    if (t->status != TT_OK)
        return;
    memcpy(t->p + t->n, s, n);
    t->n += n;
}

static void put_words(text *t, const char *s)
{
    put(t, s, strlen(s));
}

static void put_number(text *t, uint64_t n)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    put_words(t, digits);
}

static void put_quoted(text *t, const char *s)
{
    char piece[8];

    put_words(t, "\"");
    while (*s != '\0')
        put(t, piece, tti_json_piece(&s, piece));
    put_words(t, "\"");
}

/* ---- the header -------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const tt_named_tensor *x = a, *y = b;
    size_t ex = tti_esize(x->tensor), ey = tti_esize(y->tensor);

    if (ex != ey)
        return ex > ey ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void put_metadata(text *t, const tt_text_pair *metadata, int n)
{
    put_words(t, "\"__metadata__\":{");
    for (int i = 0; i < n; i++) {
        if (i > 0)
            put_words(t, ",");
        put_quoted(t, metadata[i].key);
        put_words(t, ":");
        put_quoted(t, metadata[i].value);
    }
    put_words(t, "}");
}

static void put_entry(text *t, const tt_named_tensor *e, uint64_t *at)
{
    uint64_t end = *at + tt_tensor_bytes(e->tensor);

    put_quoted(t, e->name);
    put_words(t, ":{\"dtype\":\"");
    put_words(t, tti_st_dtype_of((tt_dtype)e->tensor->dtype)->name);
    put_words(t, "\",\"shape\":[");
    for (int i = 0; i < e->tensor->n_dims; i++) {
        if (i > 0)
            put_words(t, ",");
        put_number(t, (uint64_t)e->tensor->dims[i]);
    }
    put_words(t, "],\"data_offsets\":[");
    put_number(t, *at);
    put_words(t, ",");
    put_number(t, end);
    put_words(t, "]}");
    *at = end;
}

static void put_header(text *t, const tt_named_tensor *sorted, int n, const tt_text_pair *metadata,
                       int n_metadata)
{
    uint64_t at = 0;

    put_words(t, "{");
    if (n_metadata > 0)
        put_metadata(t, metadata, n_metadata);
    for (int i = 0; i < n; i++) {
        if (i > 0 || n_metadata > 0)
            put_words(t, ",");
        put_entry(t, &sorted[i], &at);
    }
    put_words(t, "}");
    while (t->status == TT_OK && t->n % 8 != 0)
        put_words(t, " ");
}

/* ---- saving ------------------------------------------------------------------------------ */

/* The header is JSON, so a file with other names could not be read. */
static tt_status check_text(const char *what, int i, const char *words)
{
    return tti_text_is_utf8(words, strlen(words))
               ? TT_OK
               : TT_FAIL(TT_ERR_INVALID, "safetensors: expected UTF-8, but the %s %d is not", what,
                         i);
}

static tt_status check_entry(const tt_named_tensor *e, int i)
{
    if (e->tensor == NULL || e->name == NULL)
        return TTI_NULL("safetensors: tensor %d or its name is NULL", i);
    if (strcmp(e->name, "__metadata__") == 0)
        return TT_FAIL(TT_ERR_INVALID, "safetensors: a tensor cannot be named __metadata__");
    TT_TRY(check_text("name of tensor", i, e->name));
    if (e->tensor->storage == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED, "safetensors: tensor \"%s\" is sparse", e->name);
    if (tti_st_dtype_of((tt_dtype)e->tensor->dtype) == NULL)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "safetensors: tensor \"%s\": the format has no type for %s", e->name,
                       tt_dtype_name((tt_dtype)e->tensor->dtype));
    return TT_OK;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the words. */
static tt_status check_unique(const char **words, int n, const char *what)
{
    qsort(words, (size_t)n, sizeof *words, compare_words);
    for (int i = 1; i < n; i++)
        if (strcmp(words[i - 1], words[i]) == 0)
            return TT_FAIL(TT_ERR_INVALID, "safetensors: two %s are named \"%s\"", what, words[i]);
    return TT_OK;
}

static tt_status check(const tt_named_tensor *tensors, int n, const tt_text_pair *metadata,
                       int n_metadata)
{
    int most = n > n_metadata ? n : n_metadata;
    const char **words;
    tt_status st;

    if (n < 0 || n_metadata < 0 || (tensors == NULL && n > 0) ||
        (metadata == NULL && n_metadata > 0))
        return TT_FAIL(TT_ERR_INVALID, "safetensors: expected %d tensors and %d pairs, got NULL", n,
                       n_metadata);
    for (int i = 0; i < n; i++)
        TT_TRY(check_entry(&tensors[i], i));
    for (int i = 0; i < n_metadata; i++) {
        if (metadata[i].key == NULL || metadata[i].value == NULL)
            return TT_FAIL(TT_ERR_INVALID, "safetensors: metadata pair %d is NULL", i);
        TT_TRY(check_text("key of metadata pair", i, metadata[i].key));
        TT_TRY(check_text("value of metadata pair", i, metadata[i].value));
    }
    words = tti_malloc(((size_t)most + 1) * sizeof *words);
    if (words == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        words[i] = tensors[i].name;
    st = check_unique(words, n, "tensors");
    for (int i = 0; i < n_metadata; i++)
        words[i] = metadata[i].key;
    if (st == TT_OK)
        st = check_unique(words, n_metadata, "metadata pairs");
    tti_mfree(words);
    return st;
}

static void put_elements(tti_writer *w, tt_tensor *t)
{
    tt_scope scope = tt_scope_open();
    tt_tensor *host = tti_host_contiguous(t);

    if (host != NULL)
        tti_writer_put(w, tti_data(host), tt_tensor_bytes(host));
    else
        tti_writer_check(w, tt_last_status());
    tt_scope_close(&scope);
}

static tt_status write_file(const char *path, const text *head, const tt_named_tensor *sorted,
                            int n)
{
    unsigned char length[8];
    tti_writer w;

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(head->n >> (8 * i));
    tti_writer_open(&w, "safetensors", path, TTI_WRITER_DURABLE);
    tti_writer_put(&w, length, sizeof length);
    tti_writer_put(&w, head->p, head->n);
    for (int i = 0; i < n; i++)
        put_elements(&w, sorted[i].tensor);
    return tti_writer_finish(&w);
}

tt_status tt_safetensors_save(const char *path, const tt_named_tensor *tensors, int n_tensors,
                              const tt_text_pair *metadata, int n_metadata)
{
    tt_named_tensor *sorted;
    text head = { 0 };
    tt_status st;

    TT_TRY(check(tensors, n_tensors, metadata, n_metadata));
    sorted = tti_malloc(((size_t)n_tensors + 1) * sizeof *sorted);
    if (sorted == NULL)
        return TT_ERR_NOMEM;
    if (n_tensors > 0)
        memcpy(sorted, tensors, (size_t)n_tensors * sizeof *sorted);
    qsort(sorted, (size_t)n_tensors, sizeof *sorted, compare);
    put_header(&head, sorted, n_tensors, metadata, n_metadata);
    st = head.status;
    if (st == TT_OK && head.n > TTI_ST_MAX_HEADER)
        st = TT_FAIL(TT_ERR_INVALID,
                     "safetensors: a header of %zu bytes is longer than the "
                     "allowed %u",
                     head.n, TTI_ST_MAX_HEADER);
    if (st == TT_OK)
        st = write_file(path, &head, sorted, n_tensors);
    tti_mfree(head.p);
    tti_mfree(sorted);
    return st;
}
