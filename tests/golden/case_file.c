/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file of golden cases: a safetensors file whose metadata hold the cases as JSON. A reader
 * of its own, so that a mistake in the library's reader cannot hide one in an operator. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden/golden.h"

static const char complex_suffix[] = "#complex";

static const struct {
    const char *tag;
    tt_dtype dtype;
} tags[] = {
    { "BOOL", TT_BOOL }, { "U8", TT_U8 },   { "I8", TT_I8 },   { "I16", TT_I16 },
    { "I32", TT_I32 },   { "I64", TT_I64 }, { "F16", TT_F16 }, { "BF16", TT_BF16 },
    { "F32", TT_F32 },   { "F64", TT_F64 },
};

static const unsigned char *map_file(const char *path, size_t *size_p)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 8) {
        *size_p = (size_t)info.st_size;
        bytes = mmap(NULL, *size_p, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0)
        close(fd);
    return bytes == MAP_FAILED ? NULL : bytes;
}

golden_file *golden_file_open(const char *path, const char **why_p)
{
    golden_file *file = calloc(1, sizeof(*file));
    size_t size = 0;
    const unsigned char *bytes = map_file(path, &size);
    uint64_t header = 0;

    *why_p = "cannot be read";
    if (file == NULL || bytes == NULL)
        goto fail;
    memcpy(&header, bytes, sizeof(header));
    *why_p = "is no safetensors file";
    if (header > size - 8)
        goto fail;
    file->header = cJSON_ParseWithLength((const char *)bytes + 8, header);
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, "cases"));
    *why_p = "has no cases in its metadata";
    file->document = text != NULL ? cJSON_Parse(text) : NULL;
    if (file->document == NULL)
        goto fail;
    file->path = strdup(path);
    file->data = bytes + 8 + header;
    file->size = size - 8 - header;
    return file;
fail:
    if (file != NULL)
        cJSON_Delete(file->header);
    free(file);
    if (bytes != NULL)
        munmap((void *)bytes, size);
    return NULL;
}

static bool is_complex(const char *key)
{
    size_t n = strlen(key), m = strlen(complex_suffix);

    return n >= m && strcmp(key + n - m, complex_suffix) == 0;
}

static bool find_dtype(const cJSON *entry, bool complex, tt_dtype *out)
{
    const char *tag = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));

    for (size_t i = 0; tag != NULL && i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (strcmp(tag, tags[i].tag) == 0) {
            *out = tags[i].dtype;
            if (complex)
                *out = *out == TT_F64 ? TT_C128 : TT_C64;
            return true;
        }
    }
    return false;
}

tt_tensor *golden_file_tensor(const golden_file *file, const char *key)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(file->header, key);
    const cJSON *dims = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    bool complex = is_complex(key);
    tt_shape shape = { .n_dims = 0 };
    const cJSON *dim = NULL;
    tt_dtype dtype = TT_F32;

    if (entry == NULL || !find_dtype(entry, complex, &dtype) || cJSON_GetArraySize(offsets) != 2 ||
        cJSON_GetArraySize(dims) > TT_MAX_DIMS) {
        tt_fail(TT_ERR_FORMAT, "golden: %s has no usable tensor %s", file->path, key);
        return NULL;
    }
    cJSON_ArrayForEach(dim, dims) shape.dims[shape.n_dims++] = (int64_t)dim->valuedouble;
    if (complex)
        shape.n_dims--;
    size_t begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    size_t end = (size_t)cJSON_GetArrayItem(offsets, 1)->valuedouble;
    size_t bytes = (size_t)tt_shape_numel(shape) * tt_dtype_size(dtype);
    if (end > file->size || begin > end || end - begin != bytes) {
        tt_fail(TT_ERR_FORMAT, "golden: %s: wrong offsets of %s", file->path, key);
        return NULL;
    }
    return tt_from_data(file->data + begin, shape, dtype);
}
