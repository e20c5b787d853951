/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over whole values: copy, map over tensors, equality, text. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "value/value.h"

/* Gives an owned value in place of a leaf. */
typedef tt_value *(*leaf_fn)(void *ctx, const tt_value *leaf);

static tt_value *rebuild(const tt_value *v, leaf_fn fn, void *ctx)
{
    tt_value *out;

    if (!tt_value_is_container(v))
        return fn(ctx, v);
    out = tti_value_empty_like(v);
    for (size_t i = 0; out != NULL && i < v->u.box.n; i++) {
        const tti_entry *e = &v->u.box.items[i];

        if (tti_value_append(out, e->name, rebuild(e->v, fn, ctx)) != TT_OK) {
            tt_value_free(out);
            out = NULL;
        }
    }
    return out;
}

static tt_value *share(const tt_value *leaf)
{
    return tt_value_retain((tt_value *)leaf);
}

static tt_value *copy_leaf(void *ctx, const tt_value *leaf)
{
    tt_value *out;
    void *p;

    (void)ctx;
    if (leaf->kind != TT_VALUE_OPAQUE || leaf->u.opaque.cls->copy == NULL)
        return share(leaf);
    p = leaf->u.opaque.cls->copy(leaf->u.opaque.p);
    if (p == NULL)
        return TT_FAIL_NULL(TT_ERR_NOMEM, "value: a %s could not be copied",
                            leaf->u.opaque.cls->type_name);
    out = tt_value_opaque_new(leaf->u.opaque.cls, p);
    if (out == NULL && leaf->u.opaque.cls->free != NULL)
        leaf->u.opaque.cls->free(p);
    return out;
}

static tt_status no_value(const char *what)
{
    return tti_null_given(what, "a value");
}

tt_value *tt_value_copy(const tt_value *v)
{
    if (v == NULL) {
        no_value("value copy");
        return NULL;
    }
    return rebuild(v, copy_leaf, NULL);
}

typedef struct mapping {
    tt_value_tensor_fn fn;
    void *ctx;
} mapping;

static tt_value *map_leaf(void *ctx, const tt_value *leaf)
{
    mapping *m = ctx;

    return leaf->kind == TT_VALUE_TENSOR ? tt_value_tensor_new(m->fn(m->ctx, leaf->u.t))
                                         : share(leaf);
}

tt_value *tt_value_map_tensors(const tt_value *v, tt_value_tensor_fn fn, void *ctx)
{
    mapping m = { fn, ctx };

    if (v == NULL) {
        no_value("value map");
        return NULL;
    }
    return rebuild(v, map_leaf, &m);
}

tt_status tt_value_each_tensor(const tt_value *v, tt_value_each_fn fn, void *ctx)
{
    if (v == NULL)
        return TT_OK;
    if (v->kind == TT_VALUE_TENSOR)
        return fn(ctx, v->u.t);
    for (size_t i = 0; tt_value_is_container(v) && i < v->u.box.n; i++)
        TT_TRY(tt_value_each_tensor(v->u.box.items[i].v, fn, ctx));
    return TT_OK;
}

static tt_status count_one(void *ctx, tt_tensor *t)
{
    (void)t;
    ++*(size_t *)ctx;
    return TT_OK;
}

size_t tt_value_n_tensors(const tt_value *v)
{
    size_t n = 0;

    (void)tt_value_each_tensor(v, count_one, &n);
    return n;
}

/* ---- equality ---------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool boxes_equal(const tt_value *a, const tt_value *b)
{
    if (a->u.box.n != b->u.box.n || !same_text(a->u.box.type_name, b->u.box.type_name))
        return false;
    for (size_t i = 0; i < a->u.box.n; i++)
        if (!same_text(a->u.box.items[i].name, b->u.box.items[i].name) ||
            !tt_value_equal(a->u.box.items[i].v, b->u.box.items[i].v))
            return false;
    return true;
}

static bool opaque_equal(const tt_value *a, const tt_value *b)
{
    const tt_opaque_class *cls = a->u.opaque.cls;

    if (cls != b->u.opaque.cls)
        return false;
    return a->u.opaque.p == b->u.opaque.p ||
           (cls->equal != NULL && cls->equal(a->u.opaque.p, b->u.opaque.p));
}

bool tt_value_equal(const tt_value *a, const tt_value *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TT_VALUE_NULL:
        return true;
    case TT_VALUE_BOOL:
        return a->u.b == b->u.b;
    case TT_VALUE_INT:
        return a->u.i == b->u.i;
    case TT_VALUE_FLOAT:
        return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0 ||
               (a->u.f <= b->u.f && a->u.f >= b->u.f);
    case TT_VALUE_TEXT:
    case TT_VALUE_BYTES:
        return a->u.bytes.n == b->u.bytes.n &&
               memcmp(a->u.bytes.data, b->u.bytes.data, a->u.bytes.n) == 0;
    case TT_VALUE_TENSOR:
        return a->u.t == b->u.t || tt_equal(a->u.t, b->u.t);
    case TT_VALUE_OPAQUE:
        return opaque_equal(a, b);
    default:
        return boxes_equal(a, b);
    }
}

/* ---- text -------------------------------------------------------------------------------- */

static void add_quoted(tti_text *out, const char *s, size_t n)
{
    tti_text_add(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '"' || c == '\\')
            tti_text_addf(out, "\\%c", c);
        else if (c < 32 || c == 127)
            tti_text_addf(out, "\\x%02x", c);
        else
            tti_text_addf(out, "%c", c);
    }
    tti_text_add(out, "\"");
}

static void add_tensor(tti_text *out, const tt_tensor *t)
{
    tt_shape s = tt_tensor_shape(t);

    tti_text_addf(out, "tensor %s [", tt_dtype_name(tt_tensor_dtype(t)));
    for (int i = 0; i < s.n_dims; i++)
        tti_text_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)s.dims[i]);
    tti_text_add(out, "]");
}

static void add_value(tti_text *out, const tt_value *v);

static void add_box(tti_text *out, const tt_value *v, const char *open, const char *close)
{
    tti_text_add(out, open);
    for (size_t i = 0; i < v->u.box.n; i++) {
        const tti_entry *e = &v->u.box.items[i];

        if (i > 0)
            tti_text_add(out, ", ");
        if (v->kind == TT_VALUE_MAP) {
            add_quoted(out, e->name, strlen(e->name));
            tti_text_add(out, ": ");
        } else if (v->kind == TT_VALUE_RECORD) {
            tti_text_addf(out, "%s=", e->name);
        }
        add_value(out, e->v);
    }
    if (v->kind == TT_VALUE_TUPLE && v->u.box.n == 1)
        tti_text_add(out, ",");
    tti_text_add(out, close);
}

static void add_value(tti_text *out, const tt_value *v)
{
    switch (tt_value_kind_of(v)) {
    case TT_VALUE_NULL:
        tti_text_add(out, "null");
        return;
    case TT_VALUE_BOOL:
        tti_text_add(out, v->u.b ? "true" : "false");
        return;
    case TT_VALUE_INT:
        tti_text_addf(out, "%lld", (long long)v->u.i);
        return;
    case TT_VALUE_FLOAT:
        tti_text_addf(out, "%.17g", v->u.f);
        return;
    case TT_VALUE_TEXT:
        add_quoted(out, v->u.bytes.data, v->u.bytes.n);
        return;
    case TT_VALUE_BYTES:
        tti_text_addf(out, "bytes[%zu]", v->u.bytes.n);
        return;
    case TT_VALUE_TENSOR:
        add_tensor(out, v->u.t);
        return;
    case TT_VALUE_OPAQUE:
        tti_text_addf(out, "<%s>", v->u.opaque.cls->type_name);
        return;
    case TT_VALUE_LIST:
        add_box(out, v, "[", "]");
        return;
    case TT_VALUE_TUPLE:
        add_box(out, v, "(", ")");
        return;
    case TT_VALUE_MAP:
        add_box(out, v, "{", "}");
        return;
    case TT_VALUE_RECORD:
        tti_text_add(out, v->u.box.type_name);
        add_box(out, v, "(", ")");
        return;
    }
}

char *tt_value_text(const tt_value *v)
{
    tti_text out = { 0 };

    add_value(&out, v);
    return tti_text_take(&out);
}
