/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of golden cases, from JSON to the arguments of our operators. */
#include <math.h>
#include <string.h>

#include "golden/golden.h"

static const cJSON *find(const golden_call *c, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(c->attrs, name);
}

/* Numbers are numbers, true and false, or one of three strings. */
static double number_of(const cJSON *item)
{
    if (cJSON_IsBool(item))
        return cJSON_IsTrue(item) ? 1 : 0;
    if (!cJSON_IsString(item))
        return item->valuedouble;
    if (strcmp(item->valuestring, "nan") == 0)
        return NAN;
    return item->valuestring[0] == '-' ? -INFINITY : INFINITY;
}

bool golden_has(const golden_call *c, const char *name)
{
    const cJSON *item = find(c, name);

    return item != NULL && !cJSON_IsNull(item);
}

double golden_real(const golden_call *c, const char *name, double absent)
{
    return golden_has(c, name) ? number_of(find(c, name)) : absent;
}

int64_t golden_int(const golden_call *c, const char *name, int64_t absent)
{
    return golden_has(c, name) ? (int64_t)number_of(find(c, name)) : absent;
}

bool golden_flag(const golden_call *c, const char *name, bool absent)
{
    return golden_has(c, name) ? cJSON_IsTrue(find(c, name)) : absent;
}

const char *golden_word(const golden_call *c, const char *name, const char *absent)
{
    const char *word = cJSON_GetStringValue(find(c, name));

    return word != NULL ? word : absent;
}

int golden_ints(const golden_call *c, const char *name, int64_t *out)
{
    const cJSON *list = find(c, name), *item = NULL;
    int n = 0;

    if (!golden_has(c, name))
        return 0;
    if (!cJSON_IsArray(list)) {
        out[0] = (int64_t)number_of(list);
        return 1;
    }
    cJSON_ArrayForEach(item, list)
    {
        if (n < TT_MAX_DIMS)
            out[n++] = (int64_t)number_of(item);
    }
    return n;
}

int golden_dims(const golden_call *c, const char *name, int *out)
{
    int64_t wide[TT_MAX_DIMS];
    int n = golden_ints(c, name, wide);

    for (int i = 0; i < n; i++)
        out[i] = (int)wide[i];
    return n;
}

tt_shape golden_shape(const golden_call *c, const char *name)
{
    tt_shape shape = { .n_dims = 0 };

    shape.n_dims = golden_ints(c, name, shape.dims);
    return shape;
}

tt_dtype golden_dtype(const char *name)
{
    for (int d = 0; d < TT_N_DTYPES; d++) {
        if (strcmp(tt_dtype_name((tt_dtype)d), name) == 0)
            return (tt_dtype)d;
    }
    return TT_F32;
}

static const char *kind_of(const golden_call *c, const char *name)
{
    const char *const suffix = "_kind";
    char key[64];
    size_t n = strlen(name);

    if (n + strlen(suffix) >= sizeof(key))
        return "float";
    memcpy(key, name, n);
    memcpy(key + n, suffix, strlen(suffix) + 1);
    return golden_word(c, key, "float");
}

/* A complex number has no tensor that stands for it; a complex64 tensor without dimensions promotes
 * the same way. */
static tt_tensor *complex_number(const cJSON *pair)
{
    const float parts[2] = { (float)number_of(cJSON_GetArrayItem(pair, 0)),
                             (float)number_of(cJSON_GetArrayItem(pair, 1)) };

    return tt_from_data(parts, TT_SHAPE_SCALAR, TT_C64);
}

tt_tensor *golden_number(const golden_call *c, const char *name)
{
    const char *kind = kind_of(c, name);

    if (!golden_has(c, name))
        return NULL;
    if (strcmp(kind, "complex") == 0)
        return complex_number(find(c, name));
    if (strcmp(kind, "int") == 0)
        return tt_number_int(golden_int(c, name, 0));
    if (strcmp(kind, "bool") == 0)
        return tt_number_bool(golden_real(c, name, 0) != 0);
    return tt_number(golden_real(c, name, 0));
}

bool golden_is_plain(const golden_call *c, const char *name, const tt_tensor *beside)
{
    const char *kind = kind_of(c, name);
    tt_dtype dtype = tt_tensor_dtype(beside);
    bool wide = tt_dtype_is_floating(dtype) || tt_dtype_is_complex(dtype);

    if (strcmp(kind, "float") == 0)
        return wide;
    return strcmp(kind, "int") == 0 && (wide || tt_dtype_is_integral(dtype));
}
