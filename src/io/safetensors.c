/* SPDX-License-Identifier: Apache-2.0 */
/* Open safetensors files: the mapping, the list of what is in them, and tensors over it. */
#include "base/error.h"
#include "io/safetensors.h"

#include <cJSON.h>
#include <string.h>

static tt_status read_header(tt_safetensors *st)
{
    const unsigned char *p = st->bytes->data;
    uint64_t length = 0;

    if (st->bytes->size < 8)
        return TT_FAIL(TT_ERR_FORMAT, "safetensors: expected at least 8 bytes, got %zu",
                       st->bytes->size);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | p[i];
    if (length > TTI_ST_MAX_HEADER)
        return TT_FAIL(TT_ERR_FORMAT,
                       "safetensors: a header of %llu bytes is longer than the allowed %u",
                       (unsigned long long)length, TTI_ST_MAX_HEADER);
    if (length > st->bytes->size - 8)
        return TT_FAIL(TT_ERR_FORMAT,
                       "safetensors: a header of %llu bytes does not fit a file of %zu",
                       (unsigned long long)length, st->bytes->size);
    st->start = 8 + (size_t)length;
    return tti_st_parse(st, (const char *)p + 8, (size_t)length, st->bytes->size - st->start);
}

/* Takes `bytes` over. */
static tt_safetensors *open_bytes(tti_bytes *bytes)
{
    tt_safetensors *st;

    if (bytes == NULL)
        return NULL;
    st = tti_calloc(1, sizeof *st);
    if (st == NULL) {
        tti_bytes_free(bytes);
        return NULL;
    }
    st->bytes = bytes;
    if (read_header(st) != TT_OK) {
        tt_safetensors_free(st);
        return NULL;
    }
    return st;
}

tt_safetensors *tt_safetensors_open(const char *path)
{
    return open_bytes(tti_bytes_map("safetensors", path));
}

tt_safetensors *tt_safetensors_parse(const void *data, size_t size)
{
    if (data == NULL && size != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "safetensors: expected bytes, got NULL");
    return open_bytes(tti_bytes_copy(data, size));
}

void tt_safetensors_free(tt_safetensors *st)
{
    if (st == NULL)
        return;
    cJSON_Delete(st->json);
    tti_mfree(st->entries);
    tti_mfree(st->by_name);
    tti_mfree(st->metadata);
    tti_bytes_free(st->bytes);
    tti_mfree(st);
}

/* ---- asking ------------------------------------------------------------------------------ */

int tt_safetensors_count(const tt_safetensors *st)
{
    return st != NULL ? st->n_entries : 0;
}

static void describe(const tti_st_entry *e, tt_safetensors_info *info)
{
    *info = (tt_safetensors_info){
        .name = e->name, .dtype_name = e->dtype_name, .shape = e->shape, .bytes = e->end - e->begin
    };
    info->loadable = e->dtype != NULL && e->dtype->dtype >= 0 && e->shape.n_dims >= 0;
    if (info->loadable)
        info->dtype = (tt_dtype)e->dtype->dtype;
}

tt_status tt_safetensors_at(const tt_safetensors *st, int i, tt_safetensors_info *info_p)
{
    if (st == NULL)
        return tti_null_given("safetensors", "a file");
    if (i < 0 || i >= st->n_entries)
        return TT_FAIL(TT_ERR_INVALID, "safetensors: there are %d tensors, none with number %d",
                       tt_safetensors_count(st), i);
    describe(&st->entries[i], info_p);
    return TT_OK;
}

static const tti_st_entry *find(const tt_safetensors *st, const char *name)
{
    int from = 0, to;

    if (st == NULL)
        return TT_NULL_GIVEN("safetensors", "an open file");
    to = st->n_entries;
    while (name != NULL && from < to) {
        int middle = from + (to - from) / 2;
        const tti_st_entry *e = &st->entries[st->by_name[middle]];
        int order = strcmp(name, e->name);

        if (order == 0)
            return e;
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "safetensors: no tensor is named \"%s\"",
                        name != NULL ? name : "");
}

tt_status tt_safetensors_find(const tt_safetensors *st, const char *name,
                              tt_safetensors_info *info_p)
{
    const tti_st_entry *e = find(st, name);

    if (e == NULL)
        return tt_last_status();
    describe(e, info_p);
    return TT_OK;
}

tt_tensor *tt_safetensors_get(tt_safetensors *st, const char *name)
{
    const tti_st_entry *e = find(st, name);

    if (e == NULL)
        return NULL;
    if (e->dtype == NULL || e->dtype->dtype < 0)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED,
                            "safetensors: tensor \"%s\" has type %s, which is not supported", name,
                            e->dtype_name);
    if (e->shape.n_dims < 0)
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED,
                            "safetensors: tensor \"%s\" has more than %d dimensions", name,
                            TT_MAX_DIMS);
    return tti_over_bytes(st->bytes, st->start + (size_t)e->begin, e->shape, NULL,
                          (tt_dtype)e->dtype->dtype);
}

const char *tt_safetensors_metadata(const tt_safetensors *st, const char *key)
{
    for (int i = 0; st != NULL && key != NULL && i < st->n_metadata; i++)
        if (strcmp(st->metadata[i].key, key) == 0)
            return st->metadata[i].value;
    return NULL;
}

bool tt_safetensors_metadata_at(const tt_safetensors *st, int i, const char **key_p,
                                const char **value_p)
{
    if (st == NULL || i < 0 || i >= st->n_metadata)
        return false;
    *key_p = st->metadata[i].key;
    *value_p = st->metadata[i].value;
    return true;
}
