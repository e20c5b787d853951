/* SPDX-License-Identifier: Apache-2.0 */
/* Values in files, and the checksums of files. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "checkpoint/checkpoint.h"
#include "io/file.h"

#define HEAD_BYTES 8 /* "TTC1" and a checksum of what follows */

char *tti_path_join(const char *dir, const char *name)
{
    size_t room = strlen(dir) + strlen(name) + 2;
    char *path = tti_malloc(room);

    if (path != NULL)
        snprintf(path, room, "%s/%s", dir, name);
    return path;
}

static uint32_t crc_of(const void *data, size_t n)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, n);
}

/* ---- values --------------------------------------------------------------------------------- */

tt_status tti_value_write(const char *path, const tt_value *v)
{
    unsigned char head[HEAD_BYTES] = "TTC1";
    tti_writer w;
    void *data;
    size_t n;
    uint32_t crc;
    tt_status st;

    TT_TRY(tt_value_encode(v, &data, &n));
    crc = crc_of(data, n);
    for (int i = 0; i < 4; i++)
        head[4 + i] = (unsigned char)(crc >> (8 * i));
    tti_writer_open(&w, "checkpoint", path, TTI_WRITER_DURABLE);
    tti_writer_put(&w, head, sizeof head);
    tti_writer_put(&w, data, n);
    st = tti_writer_finish(&w);
    tt_bytes_free(data);
    return st;
}

static tt_value *parse(const char *path, const unsigned char *p, size_t n, bool place,
                       const tt_device_map *map)
{
    uint32_t crc = 0;

    if (n < HEAD_BYTES || memcmp(p, "TTC1", 4) != 0)
        return TT_FAIL_NULL(TT_ERR_FORMAT, "checkpoint: \"%s\" is not a file of a checkpoint",
                            path);
    for (int i = 0; i < 4; i++)
        crc |= (uint32_t)p[4 + i] << (8 * i);
    if (crc != crc_of(p + HEAD_BYTES, n - HEAD_BYTES))
        return TT_FAIL_NULL(TT_ERR_FORMAT, "checkpoint: \"%s\" is damaged: its checksum is wrong",
                            path);
    return place ? tt_value_decode_to(p + HEAD_BYTES, n - HEAD_BYTES, map)
                 : tt_value_decode(p + HEAD_BYTES, n - HEAD_BYTES);
}

static tt_value *read_file(const char *path, bool place, const tt_device_map *map)
{
    tti_bytes *b = tti_bytes_map("checkpoint", path);
    tt_value *v = b != NULL ? parse(path, b->data, b->size, place, map) : NULL;

    tti_bytes_free(b);
    return v;
}

tt_value *tti_value_read(const char *path)
{
    return read_file(path, false, NULL);
}

tt_status tt_value_save(const char *path, const tt_value *v)
{
    if (path == NULL)
        return TT_FAIL(TT_ERR_INVALID, "value save: expected a path, got NULL");
    return tti_value_write(path, v);
}

tt_value *tt_value_load(const char *path, const tt_device_map *map)
{
    if (path == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value load: expected a path, got NULL");
    return read_file(path, true, map);
}

/* ---- facts ---------------------------------------------------------------------------------- */

static tt_value *facts_of(const char *name, const tti_bytes *b)
{
    tt_value *v = tt_value_map_new();

    if (v != NULL && tt_value_map_give(v, "file", tt_value_text_new(name)) == TT_OK &&
        tt_value_map_give(v, "bytes", tt_value_int_new((int64_t)b->size)) == TT_OK &&
        tt_value_map_give(v, "crc", tt_value_int_new(crc_of(b->data, b->size))) == TT_OK)
        return v;
    tt_value_free(v);
    return NULL;
}

tt_value *tti_file_facts(const char *dir, const char *name)
{
    char *path = tti_path_join(dir, name);
    tti_bytes *b = path != NULL ? tti_bytes_map("checkpoint", path) : NULL;
    tt_value *v = b != NULL ? facts_of(name, b) : NULL;

    tti_bytes_free(b);
    tti_mfree(path);
    return v;
}

/* Also refuses names that lead out of the directory. */
static tt_status check_file(const char *dir, const tt_value *want)
{
    const char *name = tt_value_as_text(tt_value_map_get(want, "file"));
    tt_value *got;
    tt_status st = TT_OK;

    if (name == NULL || strchr(name, '/') != NULL)
        return TT_FAIL(TT_ERR_FORMAT, "checkpoint: \"%s\" lists what is no file name", dir);
    got = tti_file_facts(dir, name);
    if (got ==
        NULL) /* what is listed must be there: NOT_FOUND would mean that there is no checkpoint */
        return tt_last_status() != TT_ERR_NOT_FOUND
                   ? tt_last_status()
                   : TT_FAIL(TT_ERR_FORMAT, "checkpoint: \"%s\" is damaged: \"%s\" is missing", dir,
                             name);
    if (!tt_value_equal(tt_value_map_get(want, "bytes"), tt_value_map_get(got, "bytes")))
        st = TT_FAIL(TT_ERR_FORMAT,
                     "checkpoint: \"%s/%s\" is damaged: expected %lld bytes, got %lld", dir, name,
                     (long long)tt_value_as_int(tt_value_map_get(want, "bytes")),
                     (long long)tt_value_as_int(tt_value_map_get(got, "bytes")));
    else if (!tt_value_equal(want, got))
        st = TT_FAIL(TT_ERR_FORMAT, "checkpoint: \"%s/%s\" is damaged: its checksum is wrong", dir,
                     name);
    tt_value_free(got);
    return st;
}

tt_status tti_check_files(const char *dir, const tt_value *manifest)
{
    const tt_value *files = tt_value_map_get(manifest, "files");

    if (tt_value_kind_of(files) != TT_VALUE_LIST)
        return TT_FAIL(TT_ERR_FORMAT, "checkpoint: the manifest of \"%s\" lists no files", dir);
    for (size_t i = 0; i < tt_value_count(files); i++)
        TT_TRY(check_file(dir, tt_value_at(files, i)));
    return TT_OK;
}
