/* SPDX-License-Identifier: Apache-2.0 */
/* Nested values: what goes into and comes out of modules, and what ranks send each other when one
 * tensor is not enough.
 *
 *     tt_value *v = tt_value_map_new();
 *     tt_value_map_give(v, "image", tt_value_tensor_new(x));
 *     tt_value_map_give(v, "label", tt_value_int_new(7));
 *     tt_tensor *image = tt_value_as_tensor(tt_value_map_get(v, "image"));
 *     tt_value_free(v);
 *
 * Values are reference counted. `_new` gives you a reference, NULL on failure. `_add` and `_set` keep
 * a reference of their own; `_give` takes over yours, also when it fails, and given NULL passes the
 * failure on. What getters return is borrowed. Containers must not contain themselves. */
#ifndef TUTTI_VALUE_H
#define TUTTI_VALUE_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_value tt_value;

typedef enum tt_value_kind {
    TT_VALUE_NULL,
    TT_VALUE_BOOL,
    TT_VALUE_INT,
    TT_VALUE_FLOAT,
    TT_VALUE_TEXT,
    TT_VALUE_BYTES,
    TT_VALUE_TENSOR,
    TT_VALUE_OPAQUE,
    TT_VALUE_LIST,
    TT_VALUE_TUPLE,
    TT_VALUE_MAP,    /* names in the order they were set */
    TT_VALUE_RECORD, /* a map with the name of its type */
} tt_value_kind;

TT_API const char *tt_value_kind_name(tt_value_kind kind); /* "int", "list", ... */

/* ---- making --------------------------------------------------------------------------- */

TT_API tt_value *tt_value_null_new(void);
TT_API tt_value *tt_value_bool_new(bool b);
TT_API tt_value *tt_value_int_new(int64_t i);
TT_API tt_value *tt_value_float_new(double f);
TT_API tt_value *tt_value_text_new(const char *text);
TT_API tt_value *tt_value_bytes_new(const void *data, size_t n);
TT_API tt_value *tt_value_tensor_new(tt_tensor *t); /* keeps a reference to t */
TT_API tt_value *tt_value_list_new(void);
TT_API tt_value *tt_value_tuple_new(void);
TT_API tt_value *tt_value_map_new(void);
TT_API tt_value *tt_value_record_new(const char *type_name);

/* How a user's own pointer is copied, freed and compared; each may be NULL: then copies share the
 * pointer, nothing is freed, and equal means the same pointer. */
typedef struct tt_opaque_class {
    const char *type_name;
    void *(*copy)(void *p); /* NULL on failure */
    void (*free)(void *p);
    bool (*equal)(const void *a, const void *b);
} tt_opaque_class;

/* The value owns `p` if it succeeds. `cls` must outlive it. */
TT_API tt_value *tt_value_opaque_new(const tt_opaque_class *cls, void *p);

TT_API tt_value *tt_value_retain(tt_value *v);
TT_API void tt_value_free(tt_value *v);

/* A copy with containers of its own. Tensors are shared, opaque pointers copied by their class. */
TT_API tt_value *tt_value_copy(const tt_value *v);

/* ---- filling containers ------------------------------------------------------------------ */

/* To the end of a list or tuple. */
TT_API tt_status tt_value_list_add(tt_value *list, tt_value *v);
TT_API tt_status tt_value_list_give(tt_value *list, tt_value *v);
/* Set or replace an entry of a map or a field of a record. */
TT_API tt_status tt_value_map_set(tt_value *map, const char *name, tt_value *v);
TT_API tt_status tt_value_map_give(tt_value *map, const char *name, tt_value *v);

/* ---- asking ------------------------------------------------------------------------------ */

TT_API tt_value_kind tt_value_kind_of(const tt_value *v); /* NULL is TT_VALUE_NULL */
TT_API bool tt_value_is_container(const tt_value *v);
/* Entries of a container, bytes of a text or bytes; 0 for all else. */
TT_API size_t tt_value_count(const tt_value *v);
/* Entry i of any container; NULL with an error past the end. */
TT_API tt_value *tt_value_at(const tt_value *v, size_t i);
/* Name of entry i of a map or record; NULL with an error otherwise. */
TT_API const char *tt_value_name_at(const tt_value *v, size_t i);
/* The entry of a map or record; NULL with an error when there is none. */
TT_API tt_value *tt_value_map_get(const tt_value *v, const char *name);
TT_API bool tt_value_map_has(const tt_value *v, const char *name);

/* The content. A value of another kind is an error: false, 0 or NULL is returned then. */
TT_API bool tt_value_as_bool(const tt_value *v);
TT_API int64_t tt_value_as_int(const tt_value *v);
TT_API double tt_value_as_float(const tt_value *v); /* an int will do */
TT_API const char *tt_value_as_text(const tt_value *v);
TT_API const void *tt_value_as_bytes(const tt_value *v, size_t *n_p);
TT_API tt_tensor *tt_value_as_tensor(const tt_value *v);
/* The pointer, if the value was made with this class. */
TT_API void *tt_value_as_opaque(const tt_value *v, const tt_opaque_class *cls);
/* The name of a record's or an opaque value's type; NULL for all else. */
TT_API const char *tt_value_type_name(const tt_value *v);

/* ---- tensors inside ---------------------------------------------------------------------- */

/* Gives a tensor in place of t (borrowed or of the scope), NULL to fail. */
typedef tt_tensor *(*tt_value_tensor_fn)(void *ctx, tt_tensor *t);

/* The same value with every tensor replaced by what fn gives for it; kinds, names and order are kept,
 * leaves that are no tensors are shared. */
TT_API tt_value *tt_value_map_tensors(const tt_value *v, tt_value_tensor_fn fn, void *ctx);
/* Call fn with every tensor in order; the first failure ends it. */
typedef tt_status (*tt_value_each_fn)(void *ctx, tt_tensor *t);
TT_API tt_status tt_value_each_tensor(const tt_value *v, tt_value_each_fn fn, void *ctx);
TT_API size_t tt_value_n_tensors(const tt_value *v);

/* ---- comparing and printing --------------------------------------------------------------- */

/* Same kinds, names, order and content; tensors bit for bit. */
TT_API bool tt_value_equal(const tt_value *a, const tt_value *b);
/* {"image": tensor float32 [3, 4], "label": 7}. Free with tt_text_free. */
TT_API char *tt_value_text(const tt_value *v);

/* ---- bytes --------------------------------------------------------------------------------- */

/* The value as CBOR (RFC 8949; tensors, tuples and records are tagged, docs/objects.md): *data_p is freed
 * with tt_bytes_free. FORMAT, naming the place, for a value with an opaque one inside. */
TT_API tt_status tt_value_encode(const tt_value *v, void **data_p, size_t *size_p);
/* Whatever the bytes are, a value or TT_ERR_FORMAT (with the offset); nested at most 512 deep. Tensors arrive
 * in host memory, wherever they were. */
TT_API tt_value *tt_value_decode(const void *data, size_t size);

typedef struct tt_device_move {
    tt_device from, to;
} tt_device_move;

/* Where tensors go that come from a file, if not back to where they were: what `fn` says, then what is in the
 * table. */
typedef struct tt_device_map {
    bool (*fn)(void *ctx, tt_device from,
               tt_device *to_p); /* may be NULL; false: it has no opinion */
    void *ctx;
    const tt_device_move *moves;
    int n_moves;
} tt_device_map;

/* As tt_value_decode, with every tensor where it was or where the map (may be NULL) puts it. INVALID, naming it,
 * for a device that does not exist here. */
TT_API tt_value *tt_value_decode_to(const void *data, size_t size, const tt_device_map *map);
TT_API void tt_bytes_free(void *data);

#ifdef __cplusplus
}
#endif

#endif
