/* SPDX-License-Identifier: Apache-2.0 */
/* Golden tables of result types: an operator on every pair of types, with tensors and numbers. */
#include <stdio.h>
#include <string.h>

#include "golden/golden.h"
#include "tutti/testing.h"

enum { UNKNOWN = -2 }; /* a type that we do not have; -1 is an error */

static tt_tensor *cumsum(tt_tensor *x)
{
    return tt_cumsum(x, 0);
}

static tt_tensor *softmax(tt_tensor *x)
{
    return tt_softmax(x, 0);
}

static tt_tensor *amax(tt_tensor *x)
{
    return tt_amax(x, NULL, 0, false);
}

static tt_tensor *std(tt_tensor *x)
{
    return tt_std_dims(x, NULL, 0, 1, false);
}

static tt_tensor *where(tt_tensor *x, tt_tensor *y)
{
    return tt_where(tt_ones(TT_SHAPE(1), TT_BOOL, TT_CPU), x, y);
}

/* Operators whose golden row wants attributes or other inputs. */
static const golden_op own[] = {
    { "add", .binary = tt_add },      { "sub", .binary = tt_sub },
    { "where", .binary = where },     { "sum", .unary = tt_sum },
    { "prod", .unary = tt_prod },     { "mean", .unary = tt_mean },
    { "amax", .unary = amax },        { "std", .unary = std },
    { "cumsum", .unary = cumsum },    { "softmax", .unary = softmax },
    { "argmax", .unary = tt_argmax }, { "all", .unary = tt_all },
};

static const golden_op *find(const char *name)
{
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strcmp(own[i].name, name) == 0)
            return &own[i];
    }
    return golden_find_op(name);
}

static tt_tensor *ones(const cJSON *attrs, int dtype, tt_shape shape)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(attrs, "dtypes");

    return tt_ones(shape, golden_dtype(cJSON_GetArrayItem(names, dtype)->valuestring), TT_CPU);
}

/* True, 2, 2.0 or 2j */
static tt_tensor *number(const char *kind)
{
    const float parts[2] = { 0, 2 };

    if (strcmp(kind, "bool") == 0)
        return tt_number_bool(true);
    if (strcmp(kind, "int") == 0)
        return tt_number_int(2);
    if (strcmp(kind, "float") == 0)
        return tt_number(2.0);
    return tt_from_data(parts, TT_SHAPE_SCALAR, TT_C64);
}

static tt_tensor *result_of(const golden_op *op, const cJSON *attrs, int row, int column)
{
    golden_call asked = { .attrs = attrs };
    const char *right = golden_word(&asked, "right", "none");
    const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(attrs, "kinds");

    if (strcmp(right, "none") == 0)
        return op->unary(ones(attrs, column, TT_SHAPE(3)));
    if (strcmp(right, "tensor") == 0)
        return op->binary(ones(attrs, row, TT_SHAPE(1)), ones(attrs, column, TT_SHAPE(1)));
    if (strcmp(right, "zero_dim") == 0)
        return op->binary(ones(attrs, row, TT_SHAPE(1)), ones(attrs, column, TT_SHAPE_SCALAR));
    bool zero_dim = strcmp(right, "zero_dim_number") == 0;
    return op->binary(ones(attrs, row, zero_dim ? TT_SHAPE_SCALAR : TT_SHAPE(1)),
                      number(cJSON_GetArrayItem(kinds, column)->valuestring));
}

static const char *type_name(const cJSON *attrs, int64_t index)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(attrs, "dtypes");

    return index < 0 ? "an error" : cJSON_GetArrayItem(names, (int)index)->valuestring;
}

void golden_check_promotion(const golden_file *file, const cJSON *entry)
{
    const cJSON *attrs = cJSON_GetObjectItemCaseSensitive(entry, "attrs");
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(entry, "outputs");
    golden_call asked = { .attrs = attrs };
    const golden_op *op = find(golden_word(&asked, "operator", ""));
    tt_tensor *table = golden_file_tensor(file, cJSON_GetArrayItem(outputs, 0)->valuestring);

    TT_REQUIRE_NOT_NULL(op);
    TT_REQUIRE_NOT_NULL(table);
    int columns = (int)tt_tensor_size(table, -1);
    const int64_t *want = tt_tensor_data(table);
    for (int i = 0; i < (int)tt_tensor_numel(table); i++) {
        if (want[i] == UNKNOWN)
            continue;
        tt_tensor *got = result_of(op, attrs, i / columns, i % columns);
        const char *name = got != NULL ? tt_dtype_name(tt_tensor_dtype(got)) : "an error";
        if (strcmp(name, type_name(attrs, want[i])) != 0)
            TT_FAIL_TEST("row %s, column %d: %s gives %s, wanted %s", type_name(attrs, i / columns),
                         i % columns, op->name, name, type_name(attrs, want[i]));
    }
}
