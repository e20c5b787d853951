/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a safetensors file, checked: UTF-8, JSON of limited depth, no key twice, whole numbers only,
 * ranges that follow one another without gaps and fit shape and type. */
#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/safetensors.h"

#define MAX_DEPTH 6
#define MAX_WHOLE 9007199254740991.0 /* the largest number that JSON carries exactly */

static const tti_st_dtype dtypes[] = {
    { "BOOL", 8, TT_BOOL }, { "U8", 8, TT_U8 },    { "I8", 8, TT_I8 },    { "I16", 16, TT_I16 },
    { "I32", 32, TT_I32 },  { "I64", 64, TT_I64 }, { "F16", 16, TT_F16 }, { "BF16", 16, TT_BF16 },
    { "F32", 32, TT_F32 },  { "F64", 64, TT_F64 }, { "C64", 64, TT_C64 }, { "U16", 16, -1 },
    { "U32", 32, -1 },      { "U64", 64, -1 },     { "F8_E5M2", 8, -1 },  { "F8_E4M3", 8, -1 },
    { "F8_E8M0", 8, -1 },   { "F6_E2M3", 6, -1 },  { "F6_E3M2", 6, -1 },  { "F4", 4, -1 },
};
#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

const tti_st_dtype *tti_st_dtype_named(const char *name)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

const tti_st_dtype *tti_st_dtype_of(tt_dtype d)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == (int)d)
            return &dtypes[i];
    return NULL;
}

/* ---- JSON ------------------------------------------------------------------------------- */

/* The end of the number that begins at text[at]. The parser takes more than JSON allows, and forgets how a number was
 * written: whole ones are digits and nothing else, without a 0 before others. */
static tt_status check_number(const char *text, size_t length, size_t at, bool whole, size_t *end_p)
{
    size_t first = text[at] == '-' ? at + 1 : at, n = 0, end = first;

    while (end < length && text[end] >= '0' && text[end] <= '9')
        end++;
    n = end - first;
    while (end < length && strchr("0123456789+-.eE", text[end]) != NULL)
        end++;
    if (n == 0 || (n > 1 && text[first] == '0'))
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: the header is not JSON near byte %zu", at);
    if (whole && (first != at || end != first + n))
        return TT_FAIL(
            TT_ERR_FORMAT,
            "safetensors: expected a whole number in the header at byte %zu, got \"%.*s\"", at,
            (int)(end - at < 32 ? end - at : 32), text + at);
    *end_p = end;
    return TT_OK;
}

/* What the parser below would not notice, or take badly: bytes that are no text; brackets that nest deeply, because it
 * calls itself for each; numbers that are not as JSON has them, or in a list (of sizes, of offsets) not whole. */
static tt_status check_text(const char *text, size_t length)
{
    char open[MAX_DEPTH + 1];
    bool quoted = false;
    int depth = 0;

    if (!tti_text_is_utf8(text, length))
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: the header is not UTF-8");
    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (depth == MAX_DEPTH)
                return TT_FAIL(TT_ERR_FORMAT, "safetensors: the header is nested too deeply");
            open[++depth] = c;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            TT_TRY(check_number(text, length, i, depth > 0 && open[depth] == '[', &i));
            i--;
        }
    }
    return TT_OK;
}

static tt_status parse_json(const char *text, size_t length, cJSON **json_p)
{
    const char *end = NULL;

    if (length == 0 || text[0] != '{')
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: the header does not begin with a brace");
    TT_TRY(check_text(text, length));
    *json_p = cJSON_ParseWithLengthOpts(text, length, &end, false);
    if (*json_p == NULL)
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: the header is not JSON near byte %zu",
                       end != NULL ? (size_t)(end - text) : 0);
    for (; end < text + length; end++)
        if (*end != ' ')
            return TT_FAIL(TT_ERR_FORMAT, "safetensors: something follows the header's JSON");
    return TT_OK;
}

static tt_status whole_number(const cJSON *j, const char *name, const char *what, uint64_t *n_p)
{
    if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0 && j->valuedouble <= MAX_WHOLE) ||
        j->valuedouble != (double)(uint64_t)j->valuedouble)
        return TT_FAIL(TT_ERR_FORMAT,
                       "safetensors: tensor \"%s\": expected a whole number for its %s", name,
                       what);
    *n_p = (uint64_t)j->valuedouble;
    return TT_OK;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keys of an object must differ. */
static tt_status check_keys(const cJSON *object, int n)
{
    const char **keys = tti_malloc((size_t)(n > 0 ? n : 1) * sizeof *keys);
    const cJSON *child;
    tt_status st = TT_OK;
    int i = 0;

    if (keys == NULL)
        return TT_ERR_NOMEM;
    cJSON_ArrayForEach(child, object) keys[i++] = child->string;
    qsort(keys, (size_t)n, sizeof *keys, compare_text);
    for (i = 1; i < n && st == TT_OK; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            st = TT_FAIL(TT_ERR_FORMAT, "safetensors: the key \"%s\" comes twice", keys[i]);
    tti_mfree(keys);
    return st;
}

/* ---- entries ----------------------------------------------------------------------------- */

static tt_status parse_shape(const cJSON *j, tti_st_entry *e, uint64_t *numel_p)
{
    const cJSON *size;
    uint64_t n = 1, dim;
    bool zero = false;
    int n_dims = 0;

    if (!cJSON_IsArray(j))
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: tensor \"%s\" has no shape", e->name);
    cJSON_ArrayForEach(size, j)
    {
        TT_TRY(whole_number(size, e->name, "shape", &dim));
        if (n_dims < TT_MAX_DIMS)
            e->shape.dims[n_dims] = (int64_t)dim;
        n_dims++;
        zero = zero || dim == 0;
        if (dim != 0 && __builtin_mul_overflow(n, dim, &n))
            return TT_FAIL(TT_ERR_FORMAT, "safetensors: tensor \"%s\" is too large", e->name);
    }
    e->shape.n_dims = n_dims <= TT_MAX_DIMS ? n_dims : -1;
    *numel_p = zero ? 0 : n;
    return TT_OK;
}

static tt_status parse_range(const cJSON *j, tti_st_entry *e)
{
    if (!cJSON_IsArray(j) || cJSON_GetArraySize(j) != 2)
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: tensor \"%s\" has no pair of offsets", e->name);
    TT_TRY(whole_number(cJSON_GetArrayItem(j, 0), e->name, "offset", &e->begin));
    TT_TRY(whole_number(cJSON_GetArrayItem(j, 1), e->name, "offset", &e->end));
    if (e->end < e->begin)
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: tensor \"%s\" ends before it begins", e->name);
    return TT_OK;
}

/* Types we do not know have a size we do not know: only fetching them is an error. */
static tt_status check_bytes(const tti_st_entry *e, uint64_t numel)
{
    uint64_t bits;

    if (e->dtype == NULL)
        return TT_OK;
    if (__builtin_mul_overflow(numel, (uint64_t)e->dtype->bits, &bits) || bits % 8 != 0 ||
        bits / 8 != e->end - e->begin)
        return TT_FAIL(TT_ERR_FORMAT,
                       "safetensors: tensor \"%s\": %llu elements of %s do not take %llu bytes",
                       e->name, (unsigned long long)numel, e->dtype_name,
                       (unsigned long long)(e->end - e->begin));
    return TT_OK;
}

static tt_status parse_entry(const cJSON *j, tti_st_entry *e)
{
    const cJSON *dtype;
    uint64_t numel = 0;

    e->name = j->string;
    if (!cJSON_IsObject(j))
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: tensor \"%s\" is not described by an object",
                       e->name);
    TT_TRY(check_keys(j, cJSON_GetArraySize(j)));
    dtype = cJSON_GetObjectItemCaseSensitive(j, "dtype");
    if (!cJSON_IsString(dtype))
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: tensor \"%s\" has no dtype", e->name);
    e->dtype_name = dtype->valuestring;
    e->dtype = tti_st_dtype_named(e->dtype_name);
    TT_TRY(parse_shape(cJSON_GetObjectItemCaseSensitive(j, "shape"), e, &numel));
    TT_TRY(parse_range(cJSON_GetObjectItemCaseSensitive(j, "data_offsets"), e));
    return check_bytes(e, numel);
}

static tt_status parse_metadata(const cJSON *j, tt_safetensors *st)
{
    const cJSON *pair;
    int n;

    if (!cJSON_IsObject(j))
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: __metadata__ is not an object");
    n = cJSON_GetArraySize(j);
    TT_TRY(check_keys(j, n));
    st->metadata = tti_calloc((size_t)(n > 0 ? n : 1), sizeof *st->metadata);
    if (st->metadata == NULL)
        return TT_ERR_NOMEM;
    cJSON_ArrayForEach(pair, j)
    {
        if (!cJSON_IsString(pair))
            return TT_FAIL(TT_ERR_FORMAT, "safetensors: __metadata__ \"%s\" is not a string",
                           pair->string);
        st->metadata[st->n_metadata++] =
            (tt_text_pair){ .key = pair->string, .value = pair->valuestring };
    }
    return TT_OK;
}

static int compare_place(const void *a, const void *b)
{
    const tti_st_entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tt_status check_places(const tt_safetensors *st, uint64_t n_bytes)
{
    uint64_t at = 0;

    for (int i = 0; i < st->n_entries; i++) {
        const tti_st_entry *e = &st->entries[i];

        if (e->begin != at)
            return TT_FAIL(TT_ERR_FORMAT,
                           "safetensors: tensor \"%s\" begins at %llu where %llu was expected: "
                           "there is %s",
                           e->name, (unsigned long long)e->begin, (unsigned long long)at,
                           e->begin > at ? "a gap" : "an overlap");
        at = e->end;
    }
    if (at != n_bytes)
        return TT_FAIL(TT_ERR_FORMAT,
                       "safetensors: tensors take %llu bytes, but %llu follow the header",
                       (unsigned long long)at, (unsigned long long)n_bytes);
    return TT_OK;
}

static int compare_names(const void *a, const void *b, void *ctx)
{
    const tti_st_entry *e = ctx;

    return strcmp(e[*(const uint32_t *)a].name, e[*(const uint32_t *)b].name);
}

tt_status tti_st_parse(tt_safetensors *st, const char *text, size_t length, uint64_t n_bytes)
{
    const cJSON *j;
    int n;

    TT_TRY(parse_json(text, length, &st->json));
    n = cJSON_GetArraySize(st->json);
    TT_TRY(check_keys(st->json, n));
    st->entries = tti_calloc((size_t)n + 1, sizeof *st->entries);
    st->by_name = tti_calloc((size_t)n + 1, sizeof *st->by_name);
    if (st->entries == NULL || st->by_name == NULL)
        return TT_ERR_NOMEM;
    cJSON_ArrayForEach(j, st->json)
    {
        if (strcmp(j->string, "__metadata__") == 0)
            TT_TRY(parse_metadata(j, st));
        else
            TT_TRY(parse_entry(j, &st->entries[st->n_entries++]));
    }
    qsort(st->entries, (size_t)st->n_entries, sizeof *st->entries, compare_place);
    for (int i = 0; i < st->n_entries; i++)
        st->by_name[i] = (uint32_t)i;
    qsort_r(st->by_name, (size_t)st->n_entries, sizeof *st->by_name, compare_names, st->entries);
    return check_places(st, n_bytes);
}
