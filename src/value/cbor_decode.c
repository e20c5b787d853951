/* SPDX-License-Identifier: Apache-2.0 */
/* CBOR to values. The bytes may come from anywhere: every length is checked against what is left
 * before it is believed, and nothing is allocated that the bytes read so far do not pay for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tutti/ops.h"
#include "tutti/sparse.h"
#include "value/cbor.h"

typedef struct reader {
    const unsigned char *data;
    size_t n, at;
    size_t item; /* where the item begins that is being read: for messages */
    int depth;
    bool place; /* tensors go to devices, as `map` (may be NULL) says; else they stay on the host */
    const tt_device_map *map;
} reader;

typedef struct head {
    unsigned major, info;
    uint64_t arg;
} head;

static tt_status bad(const reader *r, const char *what)
{
    return TT_FAIL(TT_ERR_FORMAT, "value decode: at byte %zu of %zu: %s", r->item, r->n, what);
}

static size_t left(const reader *r)
{
    return r->n - r->at;
}

/* ---- items ----------------------------------------------------------------------------------- */

static tt_status get_head(reader *r, head *h)
{
    size_t bytes;

    r->item = r->at;
    if (left(r) < 1)
        return bad(r, "expected an item, got the end");
    h->major = r->data[r->at] >> 5;
    h->info = r->data[r->at++] & 31;
    h->arg = h->info;
    if (h->info < 24)
        return TT_OK;
    if (h->info > 27)
        return bad(r, h->info == 31 ? "items of indefinite length are not supported"
                                    : "a reserved first byte");
    bytes = (size_t)1 << (h->info - 24);
    if (left(r) < bytes)
        return bad(r, "the item is cut off");
    h->arg = 0;
    for (size_t i = 0; i < bytes; i++)
        h->arg = h->arg << 8 | r->data[r->at++];
    return TT_OK;
}

static tt_status expect(reader *r, unsigned major, const char *what, uint64_t *arg_p)
{
    head h;

    TT_TRY(get_head(r, &h));
    if (h.major != major)
        return TT_FAIL(TT_ERR_FORMAT, "value decode: at byte %zu of %zu: expected %s", r->item,
                       r->n, what);
    *arg_p = h.arg;
    return TT_OK;
}

/* A text or byte string whose head has been read; points into the data. */
static tt_status get_string(reader *r, const head *h, const char **s_p, size_t *n_p)
{
    if (h->arg > left(r))
        return bad(r, "a string is longer than what is left");
    *s_p = (const char *)r->data + r->at;
    *n_p = (size_t)h->arg;
    r->at += *n_p;
    if (h->major == TTI_CBOR_TEXT && !tti_text_is_utf8(*s_p, *n_p))
        return bad(r, "a text is not UTF-8, or has a NUL in it");
    return TT_OK;
}

static tt_status expect_string(reader *r, unsigned major, const char *what, const char **s_p,
                               size_t *n_p)
{
    head h = { .major = major };

    TT_TRY(expect(r, major, what, &h.arg));
    return get_string(r, &h, s_p, n_p);
}

static tt_status expect_array(reader *r, uint64_t n, const char *what)
{
    uint64_t got = 0;

    TT_TRY(expect(r, TTI_CBOR_ARRAY, what, &got));
    return got == n ? TT_OK : bad(r, "an array of another length than its tag asks for");
}

static double half_value(unsigned bits)
{
    int exponent = (int)(bits >> 10) & 31;
    double mantissa = bits & 0x3ff;
    double f = exponent == 0    ? ldexp(mantissa, -24)
               : exponent != 31 ? ldexp(mantissa + 1024, exponent - 25)
               : (bits & 0x3ff) ? (double)NAN
                                : (double)INFINITY;

    return (bits & 0x8000) != 0 ? -f : f;
}

static tt_value *float_value(const head *h)
{
    uint32_t half = (uint32_t)h->arg;
    double f;
    float single;

    if (h->info == TTI_CBOR_F64) {
        memcpy(&f, &h->arg, sizeof f);
    } else if (h->info == TTI_CBOR_F32) {
        memcpy(&single, &half, sizeof single);
        f = (double)single;
    } else {
        f = half_value(half);
    }
    return tt_value_float_new(f);
}

/* A text as a C string of its own. */
static char *copy_text(const char *s, size_t n)
{
    char *copy = tti_malloc(n + 1);

    if (copy != NULL) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static tt_status get_shape(reader *r, tt_shape *s)
{
    uint64_t n = 0, dim = 0;
    int64_t product = 1;

    TT_TRY(expect(r, TTI_CBOR_ARRAY, "a shape", &n));
    if (n > TT_MAX_DIMS)
        return bad(r, "a shape with more than 8 dimensions");
    *s = (tt_shape){ .n_dims = (int)n };
    for (int i = 0; i < s->n_dims; i++) {
        TT_TRY(expect(r, TTI_CBOR_UINT, "a dimension", &dim));
        if (dim > INT64_MAX ||
            __builtin_mul_overflow(product, dim != 0 ? (int64_t)dim : 1, &product))
            return bad(r, "a shape that is too large");
        s->dims[i] = (int64_t)dim;
    }
    return TT_OK;
}

static tt_status get_dtype(reader *r, tt_dtype *dtype)
{
    const char *s;
    size_t n;

    TT_TRY(expect_string(r, TTI_CBOR_TEXT, "an element type", &s, &n));
    for (int d = 0; d < TT_N_DTYPES; d++)
        if (strlen(tt_dtype_name((tt_dtype)d)) == n &&
            memcmp(tt_dtype_name((tt_dtype)d), s, n) == 0) {
            *dtype = (tt_dtype)d;
            return TT_OK;
        }
    return bad(r, "an unknown element type");
}

/* "cpu", "cl:1"; "cl" is the current one. The device need not exist. */
static bool read_device(const char *s, size_t n, tt_device *d)
{
    static const char *const kinds[] = { "cpu", "cl", "cuda" };
    size_t at = 0;
    int index = 0;

    while (at < n && s[at] != ':')
        at++;
    for (size_t i = at + 1; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || index > INT16_MAX / 10 - 1)
            return false;
        index = 10 * index + (s[i] - '0');
    }
    for (int k = 0; k < 3; k++)
        if (strlen(kinds[k]) == at && memcmp(kinds[k], s, at) == 0 && at + 1 != n) {
            *d = (tt_device){ (int16_t)k, (int16_t)(at < n || k == 0 ? index : TT_CURRENT) };
            return true;
        }
    return false;
}

/* Where a tensor goes that was on `from`. */
static tt_status choose_device(const tt_device_map *map, tt_device from, tt_device *to)
{
    bool found = false;
    char name[32];

    *to = from;
    if (map != NULL && map->fn != NULL)
        found = map->fn(map->ctx, from, to);
    for (int i = 0; map != NULL && i < map->n_moves && !found; i++)
        if (tt_device_equal(map->moves[i].from, from)) {
            *to = map->moves[i].to;
            found = true;
        }
    if (to->kind == TT_DEVICE_CPU || tt_device_resolve(*to, to) == TT_OK)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "value decode: a tensor belongs on %s, which does not exist here: say where to "
                   "put it with a tt_device_map",
                   tt_device_name(*to, name, sizeof name));
}

/* Where the tensor was, and where it is to go; the host when tensors are not placed. */
static tt_status get_device(reader *r, tt_device *to)
{
    tt_device from;
    const char *s;
    size_t n;

    *to = TT_CPU;
    TT_TRY(expect_string(r, TTI_CBOR_TEXT, "a device", &s, &n));
    if (!r->place)
        return TT_OK;
    if (!read_device(s, n, &from))
        return bad(r, "a device that is none");
    return choose_device(r->map, from, to);
}

static tt_status put_on(tt_tensor **t_p, tt_device to)
{
    *t_p = tt_to_device(*t_p, to);
    return *t_p != NULL ? TT_OK : tt_last_status();
}

/* The tag has been read. Gives a tensor of the scope. */
static tt_status get_dense(reader *r, tt_tensor **t_p)
{
    size_t n, bytes;
    const char *data;
    tt_dtype dtype = TT_F32;
    tt_device to;
    tt_shape shape;

    TT_TRY(expect_array(r, 4, "a tensor"));
    TT_TRY(get_dtype(r, &dtype));
    TT_TRY(get_device(r, &to));
    TT_TRY(get_shape(r, &shape));
    TT_TRY(expect_string(r, TTI_CBOR_BYTES, "a tensor's bytes", &data, &n));
    if (__builtin_mul_overflow((size_t)tt_shape_numel(shape), tt_dtype_size(dtype), &bytes) ||
        bytes != n)
        return bad(r, "a tensor whose bytes are not what its shape needs");
    for (size_t i = 0; dtype == TT_BOOL && i < n; i++)
        if ((unsigned char)data[i] > 1)
            return bad(r, "a bool tensor with an element that is neither 0 nor 1");
    *t_p = tt_from_data(data, shape, dtype);
    return put_on(t_p, to);
}

static tt_status expect_dense(reader *r, tt_tensor **t_p)
{
    uint64_t tag = 0;

    TT_TRY(expect(r, TTI_CBOR_TAG, "a tensor", &tag));
    return tag == TTI_TAG_TENSOR ? get_dense(r, t_p) : bad(r, "expected a tensor");
}

/* Strictly ascending, compared column by column. */
static bool is_sorted(const tt_tensor *indices)
{
    int64_t rows = tt_tensor_size(indices, 0), nnz = tt_tensor_size(indices, 1);
    const int64_t *p = tt_tensor_data(indices);

    for (int64_t i = 1; i < nnz; i++) {
        int64_t d = 0;

        while (d < rows && p[d * nnz + i - 1] == p[d * nnz + i])
            d++;
        if (d == rows || p[d * nnz + i - 1] > p[d * nnz + i])
            return false;
    }
    return true;
}

/* In host memory, where its indices can be looked at; *to is where it goes. */
static tt_status get_sparse(reader *r, tt_tensor **t_p, tt_device *to)
{
    tt_tensor *indices, *values;
    head simple;
    tt_shape shape;
    size_t at = r->item;

    TT_TRY(expect_array(r, 5, "a sparse tensor"));
    TT_TRY(get_device(r, to));
    r->place = false;
    TT_TRY(get_shape(r, &shape));
    TT_TRY(get_head(r, &simple));
    if (simple.major != TTI_CBOR_SIMPLE ||
        (simple.info != TTI_CBOR_FALSE && simple.info != TTI_CBOR_TRUE))
        return bad(r, "expected true or false");
    TT_TRY(expect_dense(r, &indices));
    TT_TRY(expect_dense(r, &values));
    r->item = at;
    *t_p = tt_sparse_coo(indices, values, shape);
    if (*t_p == NULL)
        return tt_last_status() == TT_ERR_NOMEM
                   ? TT_ERR_NOMEM
                   : bad(r, "indices, values and shape of a sparse tensor do not fit");
    if (simple.info == TTI_CBOR_FALSE)
        return TT_OK;
    if (!is_sorted(indices))
        return bad(r, "a sparse tensor that says it is sorted and is not");
    *t_p = tt_sparse_coo_unchecked(indices, values, shape, true);
    return *t_p != NULL ? TT_OK : tt_last_status();
}

static tt_value *tensor_value(reader *r, uint64_t tag)
{
    tt_device to = TT_CPU;
    bool place = r->place;
    tt_tensor *t;
    tt_status st;

    TT_SCOPE {
        st = tag == TTI_TAG_TENSOR ? get_dense(r, &t) : get_sparse(r, &t, &to);
        r->place = place;
        if (st == TT_OK && tag == TTI_TAG_SPARSE)
            st = put_on(&t, to);
        return st == TT_OK ? tt_value_tensor_new(t) : NULL;
    }
    return NULL;
}

/* ---- containers ------------------------------------------------------------------------------ */

static tt_value *get_value(reader *r);

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the names, so that a large map takes no quadratic time. */
static tt_status check_names(reader *r, const tt_value *map, size_t at)
{
    size_t n = map->u.box.n;
    bool twice = false;
    char **names;

    if (n < 2)
        return TT_OK;
    names = tti_malloc(n * sizeof *names);
    if (names == NULL)
        return TT_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        names[i] = map->u.box.items[i].name;
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        twice = twice || strcmp(names[i - 1], names[i]) == 0;
    tti_mfree(names);
    r->item = at;
    return twice ? bad(r, "a map with a name that occurs twice") : TT_OK;
}

static tt_status get_entry(reader *r, tt_value *box, bool named)
{
    const char *s;
    char *name = NULL;
    size_t n;
    tt_value *v;
    tt_status st;

    if (named) {
        TT_TRY(expect_string(r, TTI_CBOR_TEXT, "a name", &s, &n));
        name = copy_text(s, n);
        if (name == NULL)
            return TT_ERR_NOMEM;
    }
    v = get_value(r);
    st = v != NULL ? tti_value_append(box, name, v) : tt_last_status();
    tti_mfree(name);
    return st;
}

/* Takes over `box`; its head, which says n, has been read. */
static tt_value *fill(reader *r, tt_value *box, uint64_t n)
{
    bool named = tt_value_kind_of(box) == TT_VALUE_MAP || tt_value_kind_of(box) == TT_VALUE_RECORD;
    size_t at = r->item;
    tt_status st = TT_OK;

    if (box == NULL)
        return NULL;
    if (r->depth == TTI_CBOR_DEPTH)
        st = bad(r, "nested more than 512 deep");
    else if (n > left(r) / (named ? 2 : 1))
        st = bad(r, "a container has more entries than bytes are left");
    r->depth++;
    for (uint64_t i = 0; st == TT_OK && i < n; i++)
        st = get_entry(r, box, named);
    r->depth--;
    if (st == TT_OK && named)
        st = check_names(r, box, at);
    if (st == TT_OK)
        return box;
    tt_value_free(box);
    return NULL;
}

static tt_value *tuple_value(reader *r)
{
    uint64_t n = 0;

    if (expect(r, TTI_CBOR_ARRAY, "a tuple's array", &n) != TT_OK)
        return NULL;
    return fill(r, tt_value_tuple_new(), n);
}

static tt_value *record_value(reader *r)
{
    tt_value *record = NULL;
    const char *s;
    char *name;
    uint64_t n = 0;
    size_t size;

    if (expect_array(r, 2, "a record") != TT_OK ||
        expect_string(r, TTI_CBOR_TEXT, "the name of a type", &s, &size) != TT_OK ||
        expect(r, TTI_CBOR_MAP, "a record's map", &n) != TT_OK)
        return NULL;
    name = copy_text(s, size);
    if (name != NULL)
        record = tt_value_record_new(name);
    tti_mfree(name);
    return fill(r, record, n);
}

static tt_value *tagged_value(reader *r, uint64_t tag)
{
    switch (tag) {
    case TTI_TAG_TUPLE:
        return tuple_value(r);
    case TTI_TAG_RECORD:
        return record_value(r);
    case TTI_TAG_TENSOR:
    case TTI_TAG_SPARSE:
        return tensor_value(r, tag);
    default:
        bad(r, "a tag that is not known");
        return NULL;
    }
}

static tt_value *simple_value(reader *r, const head *h)
{
    switch (h->info) {
    case TTI_CBOR_FALSE:
    case TTI_CBOR_TRUE:
        return tt_value_bool_new(h->info == TTI_CBOR_TRUE);
    case TTI_CBOR_NULL:
        return tt_value_null_new();
    case TTI_CBOR_F16:
    case TTI_CBOR_F32:
    case TTI_CBOR_F64:
        return float_value(h);
    default:
        bad(r, "a simple value that is not known");
        return NULL;
    }
}

static tt_value *string_value(reader *r, const head *h)
{
    const char *s;
    size_t n;
    char *copy;
    tt_value *v;

    if (get_string(r, h, &s, &n) != TT_OK)
        return NULL;
    if (h->major == TTI_CBOR_BYTES)
        return tt_value_bytes_new(s, n);
    copy = copy_text(s, n);
    v = copy != NULL ? tt_value_text_new(copy) : NULL;
    tti_mfree(copy);
    return v;
}

static tt_value *int_value(reader *r, const head *h)
{
    if (h->arg > INT64_MAX) {
        bad(r, "an integer that does not fit 64 bits");
        return NULL;
    }
    return tt_value_int_new(h->major == TTI_CBOR_UINT ? (int64_t)h->arg : -1 - (int64_t)h->arg);
}

static tt_value *get_value(reader *r)
{
    head h;

    if (get_head(r, &h) != TT_OK)
        return NULL;
    switch (h.major) {
    case TTI_CBOR_UINT:
    case TTI_CBOR_NINT:
        return int_value(r, &h);
    case TTI_CBOR_BYTES:
    case TTI_CBOR_TEXT:
        return string_value(r, &h);
    case TTI_CBOR_ARRAY:
        return fill(r, tt_value_list_new(), h.arg);
    case TTI_CBOR_MAP:
        return fill(r, tt_value_map_new(), h.arg);
    case TTI_CBOR_TAG:
        return tagged_value(r, h.arg);
    default:
        return simple_value(r, &h);
    }
}

static tt_value *decode(reader *r)
{
    tt_value *v;

    if (r->data == NULL && r->n != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value decode: expected %zu bytes, got NULL", r->n);
    v = get_value(r);
    if (v != NULL && r->at != r->n) {
        r->item = r->at;
        bad(r, "bytes follow the value");
        tt_value_free(v);
        return NULL;
    }
    return v;
}

tt_value *tt_value_decode(const void *data, size_t size)
{
    return decode(&(reader){ .data = data, .n = size });
}

tt_value *tt_value_decode_to(const void *data, size_t size, const tt_device_map *map)
{
    return decode(&(reader){ .data = data, .n = size, .place = true, .map = map });
}
