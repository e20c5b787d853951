/* SPDX-License-Identifier: Apache-2.0 */
/* Values to CBOR. The value is walked twice: to measure it and to find what cannot be written, then to
 * write it into memory of just that size. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "tutti/autograd.h"
#include "tutti/ops.h"
#include "tutti/sparse.h"
#include "value/cbor.h"

typedef struct writer {
    unsigned char *data; /* NULL: only measure */
    size_t n;
} writer;

/* Where we are in the value: one on the stack per level. */
typedef struct place {
    const struct place *up; /* NULL: the root */
    const tt_value *box;
    size_t i; /* the entry of `box` */
    int depth;
} place;

/* ---- items --------------------------------------------------------------------------------- */

static void put(writer *w, const void *data, size_t n)
{
    if (w->data != NULL && n != 0)
        memcpy(w->data + w->n, data, n);
    w->n += n;
}

static void put_byte(writer *w, unsigned byte)
{
    unsigned char b = (unsigned char)byte;

    put(w, &b, 1);
}

/* Big-endian, as everything in CBOR but our tensors. */
static void put_be(writer *w, uint64_t x, int bytes)
{
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        put_byte(w, (unsigned)(x >> shift) & 0xff);
}

/* The first bytes of an item, as short as they go. */
static void put_head(writer *w, unsigned major, uint64_t arg)
{
    static const int sizes[] = { 1, 2, 4, 8 };
    unsigned i = arg < 24 ? 0 : arg <= 0xff ? 1 : arg <= 0xffff ? 2 : arg <= 0xffffffff ? 3 : 4;

    if (i == 0) {
        put_byte(w, major << 5 | (unsigned)arg);
        return;
    }
    put_byte(w, major << 5 | (23 + i));
    put_be(w, arg, sizes[i - 1]);
}

static void put_int(writer *w, int64_t i)
{
    if (i >= 0)
        put_head(w, TTI_CBOR_UINT, (uint64_t)i);
    else
        put_head(w, TTI_CBOR_NINT, ~(uint64_t)i);
}

/* Always the whole double: NaNs and signed zeros arrive as they were. */
static void put_float(writer *w, double f)
{
    uint64_t bits;

    memcpy(&bits, &f, sizeof bits);
    put_byte(w, TTI_CBOR_SIMPLE << 5 | TTI_CBOR_F64);
    put_be(w, bits, 8);
}

static void put_simple(writer *w, unsigned simple)
{
    put_byte(w, TTI_CBOR_SIMPLE << 5 | simple);
}

static void put_text(writer *w, const char *s, size_t n)
{
    put_head(w, TTI_CBOR_TEXT, n);
    put(w, s, n);
}

/* ---- what cannot be written ------------------------------------------------------------------ */

static void add_place(tti_text *out, const place *p)
{
    if (p->up == NULL)
        tti_text_add(out, tt_value_kind_name(p->box->kind));
    else
        add_place(out, p->up);
    if (p->box->u.box.items[p->i].name != NULL)
        tti_text_addf(out, ".%s", p->box->u.box.items[p->i].name);
    else
        tti_text_addf(out, "[%zu]", p->i);
}

static tt_status refuse(const place *at, const char *what)
{
    tti_text path = { 0 };
    tt_status st;

    if (at != NULL)
        add_place(&path, at);
    else
        tti_text_add(&path, "the value");
    st = path.status != TT_OK
             ? path.status
             : TT_FAIL(TT_ERR_FORMAT, "value encode: %.300s: %s", tti_text_str(&path), what);
    tti_text_fini(&path);
    return st;
}

static tt_status refuse_opaque(const place *at, const tt_value *v)
{
    char words[160];

    snprintf(words, sizeof words, "an opaque %.80s cannot be made into bytes",
             v->u.opaque.cls->type_name);
    return refuse(at, words);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void put_shape(writer *w, tt_shape s)
{
    put_head(w, TTI_CBOR_ARRAY, (uint64_t)s.n_dims);
    for (int i = 0; i < s.n_dims; i++)
        put_int(w, s.dims[i]);
}

static void put_device(writer *w, const tt_tensor *t)
{
    char name[32];

    tt_device_name(tt_tensor_device(t), name, sizeof name);
    put_text(w, name, strlen(name));
}

static tt_status put_dense(writer *w, tt_tensor *t)
{
    const char *dtype = tt_dtype_name(tt_tensor_dtype(t));
    size_t bytes = tt_tensor_bytes(t);

    put_head(w, TTI_CBOR_TAG, TTI_TAG_TENSOR);
    put_head(w, TTI_CBOR_ARRAY, 4);
    put_text(w, dtype, strlen(dtype));
    put_device(w, t);
    put_shape(w, tt_tensor_shape(t));
    put_head(w, TTI_CBOR_BYTES, bytes);
    if (w->data == NULL || bytes == 0) {
        w->n += bytes;
        return TT_OK;
    }
    TT_SCOPE {
        tt_tensor *packed = tt_contiguous(tt_to_device(tt_detach(t), TT_CPU));

        if (packed == NULL)
            return tt_last_status();
        put(w, tt_tensor_data(packed), bytes);
    }
    return TT_OK;
}

static tt_status put_sparse(writer *w, tt_tensor *t)
{
    tt_tensor *indices, *values;

    put_head(w, TTI_CBOR_TAG, TTI_TAG_SPARSE);
    put_head(w, TTI_CBOR_ARRAY, 5);
    put_device(w, t);
    put_shape(w, tt_tensor_shape(t));
    put_simple(w, tt_sparse_is_coalesced(t) ? TTI_CBOR_TRUE : TTI_CBOR_FALSE);
    TT_SCOPE {
        indices = tt_sparse_indices(t);
        values = tt_sparse_values(tt_detach(t));
        if (indices == NULL || values == NULL)
            return tt_last_status();
        TT_TRY(put_dense(w, indices));
        TT_TRY(put_dense(w, values));
    }
    return TT_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static tt_status put_value(writer *w, const tt_value *v, const place *at);

static tt_status put_box(writer *w, const tt_value *v, const place *at)
{
    bool named = v->kind == TT_VALUE_MAP || v->kind == TT_VALUE_RECORD;
    place here = { at, v, 0, at != NULL ? at->depth + 1 : 1 };

    if (here.depth > TTI_CBOR_DEPTH)
        return refuse(NULL, "nested more than 512 deep");
    put_head(w, named ? TTI_CBOR_MAP : TTI_CBOR_ARRAY, v->u.box.n);
    for (here.i = 0; here.i < v->u.box.n; here.i++) {
        const tti_entry *e = &v->u.box.items[here.i];

        if (named) {
            size_t n = strlen(e->name);

            if (w->data == NULL && !tti_text_is_utf8(e->name, n))
                return refuse(at, "a name in it is not UTF-8");
            put_text(w, e->name, n);
        }
        TT_TRY(put_value(w, e->v, &here));
    }
    return TT_OK;
}

static tt_status put_record(writer *w, const tt_value *v, const place *at)
{
    size_t n = strlen(v->u.box.type_name);

    if (!tti_text_is_utf8(v->u.box.type_name, n))
        return refuse(at, "the name of its type is not UTF-8");
    put_head(w, TTI_CBOR_TAG, TTI_TAG_RECORD);
    put_head(w, TTI_CBOR_ARRAY, 2);
    put_text(w, v->u.box.type_name, n);
    return put_box(w, v, at);
}

static tt_status put_string(writer *w, const tt_value *v, const place *at)
{
    if (v->kind == TT_VALUE_BYTES)
        put_head(w, TTI_CBOR_BYTES, v->u.bytes.n);
    else if (w->data != NULL || tti_text_is_utf8(v->u.bytes.data, v->u.bytes.n))
        put_head(w, TTI_CBOR_TEXT, v->u.bytes.n);
    else
        return refuse(at, "the text is not UTF-8; bytes may hold anything");
    put(w, v->u.bytes.data, v->u.bytes.n);
    return TT_OK;
}

static tt_status put_value(writer *w, const tt_value *v, const place *at)
{
    switch (tt_value_kind_of(v)) {
    case TT_VALUE_NULL:
        put_simple(w, TTI_CBOR_NULL);
        return TT_OK;
    case TT_VALUE_BOOL:
        put_simple(w, v->u.b ? TTI_CBOR_TRUE : TTI_CBOR_FALSE);
        return TT_OK;
    case TT_VALUE_INT:
        put_int(w, v->u.i);
        return TT_OK;
    case TT_VALUE_FLOAT:
        put_float(w, v->u.f);
        return TT_OK;
    case TT_VALUE_TEXT:
    case TT_VALUE_BYTES:
        return put_string(w, v, at);
    case TT_VALUE_TENSOR:
        return tt_tensor_is_sparse(v->u.t) ? put_sparse(w, v->u.t) : put_dense(w, v->u.t);
    case TT_VALUE_OPAQUE:
        return refuse_opaque(at, v);
    case TT_VALUE_TUPLE:
        put_head(w, TTI_CBOR_TAG, TTI_TAG_TUPLE);
        return put_box(w, v, at);
    case TT_VALUE_RECORD:
        return put_record(w, v, at);
    case TT_VALUE_LIST:
    case TT_VALUE_MAP:
        break;
    }
    return put_box(w, v, at);
}

tt_status tt_value_encode(const tt_value *v, void **data_p, size_t *size_p)
{
    writer w = { 0 };
    tt_status st;

    if (data_p == NULL || size_p == NULL)
        return tti_null_given("value encode", "room for the bytes and their number");
    *data_p = NULL;
    *size_p = 0;
    TT_TRY(put_value(&w, v, NULL));
    w.data = tti_malloc(w.n);
    if (w.data == NULL)
        return TT_ERR_NOMEM;
    w.n = 0;
    st = put_value(&w, v, NULL);
    if (st != TT_OK) {
        tti_mfree(w.data);
        return st;
    }
    *data_p = w.data;
    *size_p = w.n;
    return TT_OK;
}

void tt_bytes_free(void *data)
{
    tti_mfree(data);
}
