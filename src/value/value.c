/* SPDX-License-Identifier: Apache-2.0 */
/* Making, filling and asking values; see tutti/value.h. */
#include <string.h>

#include "base/error.h"
#include "tensor/tensor.h"
#include "value/value.h"
#include "tensor/debug.h"

const char *tt_value_kind_name(tt_value_kind kind)
{
    static const char *const names[] = {
        "null",   "bool",   "int",  "float", "text", "bytes",
        "tensor", "opaque", "list", "tuple", "map",  "record",
    };

    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

/* ---- making ------------------------------------------------------------------------------ */

static tt_value *value_new(tt_value_kind kind)
{
    tt_value *v = tti_calloc(1, sizeof *v);

    if (v == NULL)
        return NULL;
    atomic_init(&v->refs, 1);
    v->kind = kind;
    return v;
}

tt_value *tt_value_null_new(void)
{
    return value_new(TT_VALUE_NULL);
}

tt_value *tt_value_bool_new(bool b)
{
    tt_value *v = value_new(TT_VALUE_BOOL);

    if (v != NULL)
        v->u.b = b;
    return v;
}

tt_value *tt_value_int_new(int64_t i)
{
    tt_value *v = value_new(TT_VALUE_INT);

    if (v != NULL)
        v->u.i = i;
    return v;
}

tt_value *tt_value_float_new(double f)
{
    tt_value *v = value_new(TT_VALUE_FLOAT);

    if (v != NULL)
        v->u.f = f;
    return v;
}

static tt_value *bytes_new(tt_value_kind kind, const void *data, size_t n)
{
    tt_value *v = value_new(kind);

    if (v == NULL)
        return NULL;
    v->u.bytes.data = tti_malloc(n + 1);
    if (v->u.bytes.data == NULL) {
        tt_value_free(v);
        return NULL;
    }
    if (n != 0)
        memcpy(v->u.bytes.data, data, n);
    v->u.bytes.data[n] = '\0';
    v->u.bytes.n = n;
    return v;
}

tt_value *tt_value_text_new(const char *text)
{
    if (text == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value: expected a text, got NULL");
    return bytes_new(TT_VALUE_TEXT, text, strlen(text));
}

tt_value *tt_value_bytes_new(const void *data, size_t n)
{
    if (data == NULL && n != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value: expected %zu bytes, got NULL", n);
    return bytes_new(TT_VALUE_BYTES, data, n);
}

tt_value *tt_value_tensor_new(tt_tensor *t)
{
    tt_value *v;

    if (tti_check_alive(t, "value") != TT_OK)
        return NULL;
    if (t == NULL)
        return TT_NULL_GIVEN("value", "a tensor");
    v = value_new(TT_VALUE_TENSOR);
    if (v != NULL)
        v->u.t = tt_tensor_retain(t);
    return v;
}

tt_value *tt_value_opaque_new(const tt_opaque_class *cls, void *p)
{
    tt_value *v;

    if (cls == NULL || cls->type_name == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value: an opaque value needs a class with a name");
    v = value_new(TT_VALUE_OPAQUE);
    if (v == NULL)
        return NULL;
    v->u.opaque.cls = cls;
    v->u.opaque.p = p;
    return v;
}

tt_value *tt_value_list_new(void)
{
    return value_new(TT_VALUE_LIST);
}

tt_value *tt_value_tuple_new(void)
{
    return value_new(TT_VALUE_TUPLE);
}

tt_value *tt_value_map_new(void)
{
    return value_new(TT_VALUE_MAP);
}

tt_value *tt_value_record_new(const char *type_name)
{
    tt_value *v;

    if (type_name == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value: a record needs the name of its type");
    v = value_new(TT_VALUE_RECORD);
    if (v == NULL)
        return NULL;
    v->u.box.type_name = tti_strdup(type_name);
    if (v->u.box.type_name == NULL) {
        tt_value_free(v);
        return NULL;
    }
    return v;
}

tt_value *tti_value_empty_like(const tt_value *v)
{
    return v->kind == TT_VALUE_RECORD ? tt_value_record_new(v->u.box.type_name)
                                      : value_new(v->kind);
}

tt_value *tt_value_retain(tt_value *v)
{
    if (v != NULL)
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

static void box_fini(tt_value *v)
{
    for (size_t i = 0; i < v->u.box.n; i++) {
        tti_mfree(v->u.box.items[i].name);
        tt_value_free(v->u.box.items[i].v);
    }
    tti_mfree(v->u.box.items);
    tti_mfree(v->u.box.type_name);
}

void tt_value_free(tt_value *v)
{
    if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (v->kind == TT_VALUE_TEXT || v->kind == TT_VALUE_BYTES)
        tti_mfree(v->u.bytes.data);
    else if (v->kind == TT_VALUE_TENSOR)
        tt_tensor_free(v->u.t);
    else if (v->kind == TT_VALUE_OPAQUE && v->u.opaque.cls->free != NULL)
        v->u.opaque.cls->free(v->u.opaque.p);
    else if (tt_value_is_container(v))
        box_fini(v);
    tti_mfree(v);
}

/* ---- filling ----------------------------------------------------------------------------- */

static bool is_list(const tt_value *v)
{
    return v != NULL && (v->kind == TT_VALUE_LIST || v->kind == TT_VALUE_TUPLE);
}

static bool is_map(const tt_value *v)
{
    return v != NULL && (v->kind == TT_VALUE_MAP || v->kind == TT_VALUE_RECORD);
}

static tt_status not_a(const char *expected, const tt_value *got)
{
    if (got == NULL)
        return TTI_NULL("value: expected %s, got nothing", expected);
    return TT_FAIL(TT_ERR_INVALID, "value: expected %s, got %s", expected,
                   tt_value_kind_name(got->kind));
}

tt_status tti_value_append(tt_value *box, const char *name, tt_value *v)
{
    tti_entry *e;

    if (v == NULL)
        return tti_null_given("value", "an entry");
    if (tti_vec_reserve((void **)&box->u.box.items, &box->u.box.cap, box->u.box.n + 1, sizeof *e) !=
        TT_OK) {
        tt_value_free(v);
        return TT_ERR_NOMEM;
    }
    e = &box->u.box.items[box->u.box.n];
    e->name = NULL;
    if (name != NULL) {
        e->name = tti_strdup(name);
        if (e->name == NULL) {
            tt_value_free(v);
            return TT_ERR_NOMEM;
        }
    }
    e->v = v;
    box->u.box.n++;
    return TT_OK;
}

tt_status tt_value_list_give(tt_value *list, tt_value *v)
{
    tt_status st;

    if (is_list(list) && list != v)
        return tti_value_append(list, NULL, v);
    st = list == v && v != NULL ? TT_FAIL(TT_ERR_INVALID, "value: a list cannot contain itself")
                                : not_a("a list or tuple", list);
    tt_value_free(v);
    return st;
}

tt_status tt_value_list_add(tt_value *list, tt_value *v)
{
    return tt_value_list_give(list, tt_value_retain(v));
}

static tti_entry *find(const tt_value *map, const char *name)
{
    for (size_t i = 0; i < map->u.box.n; i++)
        if (strcmp(map->u.box.items[i].name, name) == 0)
            return &map->u.box.items[i];
    return NULL;
}

static tt_status check_set(const tt_value *map, const char *name, const tt_value *v)
{
    if (!is_map(map))
        return not_a("a map or record", map);
    if (name == NULL)
        return TT_FAIL(TT_ERR_INVALID, "value: an entry of a map needs a name");
    if (map == v)
        return TT_FAIL(TT_ERR_INVALID, "value: a map cannot contain itself");
    return TT_OK;
}

tt_status tt_value_map_give(tt_value *map, const char *name, tt_value *v)
{
    tt_status st = v == NULL ? TT_OK : check_set(map, name, v);
    tti_entry *e;

    if (st != TT_OK) {
        tt_value_free(v);
        return st;
    }
    e = v != NULL ? find(map, name) : NULL;
    if (e == NULL)
        return tti_value_append(map, name, v);
    tt_value_free(e->v);
    e->v = v;
    return TT_OK;
}

tt_status tt_value_map_set(tt_value *map, const char *name, tt_value *v)
{
    return tt_value_map_give(map, name, tt_value_retain(v));
}

/* ---- asking ------------------------------------------------------------------------------ */

tt_value_kind tt_value_kind_of(const tt_value *v)
{
    return v != NULL ? v->kind : TT_VALUE_NULL;
}

bool tt_value_is_container(const tt_value *v)
{
    return is_list(v) || is_map(v);
}

size_t tt_value_count(const tt_value *v)
{
    if (tt_value_is_container(v))
        return v->u.box.n;
    if (v != NULL && (v->kind == TT_VALUE_TEXT || v->kind == TT_VALUE_BYTES))
        return v->u.bytes.n;
    return 0;
}

static tti_entry *entry_at(const tt_value *v, size_t i)
{
    if (!tt_value_is_container(v)) {
        not_a("a container", v);
        return NULL;
    }
    if (i >= v->u.box.n)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value: entry %zu of a %s with %zu", i,
                            tt_value_kind_name(v->kind), v->u.box.n);
    return &v->u.box.items[i];
}

tt_value *tt_value_at(const tt_value *v, size_t i)
{
    tti_entry *e = entry_at(v, i);

    return e != NULL ? e->v : NULL;
}

const char *tt_value_name_at(const tt_value *v, size_t i)
{
    tti_entry *e = entry_at(v, i);

    if (e != NULL && e->name == NULL)
        not_a("a map or record", v);
    return e != NULL ? e->name : NULL;
}

tt_value *tt_value_map_get(const tt_value *v, const char *name)
{
    tti_entry *e;

    if (!is_map(v) || name == NULL) {
        not_a("a map or record and a name", v);
        return NULL;
    }
    e = find(v, name);
    if (e == NULL)
        return TT_FAIL_NULL(TT_ERR_NOT_FOUND, "value: the %s has no entry \"%s\"",
                            tt_value_kind_name(v->kind), name);
    return e->v;
}

bool tt_value_map_has(const tt_value *v, const char *name)
{
    return is_map(v) && name != NULL && find(v, name) != NULL;
}

static bool is(const tt_value *v, tt_value_kind kind)
{
    if (v != NULL && v->kind == kind)
        return true;
    not_a(tt_value_kind_name(kind), v);
    return false;
}

bool tt_value_as_bool(const tt_value *v)
{
    return is(v, TT_VALUE_BOOL) && v->u.b;
}

int64_t tt_value_as_int(const tt_value *v)
{
    return is(v, TT_VALUE_INT) ? v->u.i : 0;
}

double tt_value_as_float(const tt_value *v)
{
    if (v != NULL && v->kind == TT_VALUE_INT)
        return (double)v->u.i;
    return is(v, TT_VALUE_FLOAT) ? v->u.f : 0;
}

const char *tt_value_as_text(const tt_value *v)
{
    return is(v, TT_VALUE_TEXT) ? v->u.bytes.data : NULL;
}

const void *tt_value_as_bytes(const tt_value *v, size_t *n_p)
{
    if (!is(v, TT_VALUE_BYTES))
        return NULL;
    *n_p = v->u.bytes.n;
    return v->u.bytes.data;
}

tt_tensor *tt_value_as_tensor(const tt_value *v)
{
    return is(v, TT_VALUE_TENSOR) ? v->u.t : NULL;
}

void *tt_value_as_opaque(const tt_value *v, const tt_opaque_class *cls)
{
    if (!is(v, TT_VALUE_OPAQUE))
        return NULL;
    if (v->u.opaque.cls != cls)
        return TT_FAIL_NULL(TT_ERR_INVALID, "value: expected a %s, got a %s",
                            cls != NULL ? cls->type_name : "class", v->u.opaque.cls->type_name);
    return v->u.opaque.p;
}

const char *tt_value_type_name(const tt_value *v)
{
    if (v != NULL && v->kind == TT_VALUE_RECORD)
        return v->u.box.type_name;
    return v != NULL && v->kind == TT_VALUE_OPAQUE ? v->u.opaque.cls->type_name : NULL;
}
