/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of modules: three ordered lists of named slots and four lists of hooks.
 *
 *     tt_module --slots[PARAM]--> "weight" -> tensor, "bias" -> tensor or NULL
 *               --slots[BUFFER]-> "running_mean" -> tensor
 *               --slots[CHILD]--> "conv1" -> tt_module
 */
#ifndef TTI_NN_MODULE_H
#define TTI_NN_MODULE_H

#include "base/error.h"
#include "base/text.h"
#include "graph/graph.h"
#include "tutti/nn.h"

typedef enum tti_slot_kind {
    TTI_PARAM,
    TTI_BUFFER,
    TTI_CHILD,
} tti_slot_kind;
#define TTI_N_SLOT_KINDS 3

typedef struct tti_slot {
    char *name;
    tt_tensor *t; /* NULL: stands for no tensor; always in children */
    tt_module *m; /* children only */
    bool temp;    /* buffers: not in state dictionaries */
} tti_slot;

typedef struct tti_slots {
    tti_slot *items;
    size_t n, cap;
} tti_slots;

struct tt_module {
    atomic_int refs;
    int running; /* calls under way: hooks are not freed meanwhile */
    bool training;
    const tt_module_class *cls;
    void *data;
    tti_slots slots[TTI_N_SLOT_KINDS];
    tt_hook *pre_hooks, *hooks, *back_pre_hooks, *back_hooks;
};

/* The slot of this name in m itself, of any kind; NULL if there is none. No error is recorded. */
tti_slot *tti_slot_find(const tt_module *m, const char *name, tti_slot_kind *kind_p);
/* The slot of a dotted name below m and the module that holds it. Records NOT_FOUND. */
tti_slot *tti_slot_resolve(const tt_module *m, const char *dotted, tti_slot_kind *kind_p,
                           tt_module **owner_p);
void tti_slot_fini(tti_slot *s);

/* A borrowed tensor handed to the current scope too, so that it outlives its owner. */
tt_tensor *tti_scope_keep(tt_tensor *t);

/* A floating tensor gets another type; it stays the same object. */
tt_status tti_convert_dtype(tt_tensor *t, tt_dtype dtype);

/* Whether the gradient of the module's first parameter will be sparse: embeddings that ask for it. */
bool tti_has_sparse_grad(const tt_module *m);

/* ---- a map from pointers to pointers ------------------------------------------------------- */

typedef struct tti_ptr_map {
    const void **keys;
    void **values;
    size_t n, cap; /* cap: a power of two */
} tti_ptr_map;

/* TT_OK and *found_p: whether the key was there before; if not it is entered with this value. */
tt_status tti_ptr_map_add(tti_ptr_map *map, const void *key, void *value, bool *found_p);
void *tti_ptr_map_get(const tti_ptr_map *map, const void *key);
void tti_ptr_map_fini(tti_ptr_map *map);

/* A copy of m with other tensors in place of its own, all of which are in the map; NULL: with copies of them. */
tt_module *tti_module_copy_with(const tt_module *m, const tti_ptr_map *tensors);

/* ---- state dictionaries -------------------------------------------------------------------- */

typedef struct tti_named {
    char *name;
    tt_tensor *t;
} tti_named;

struct tt_state_dict {
    tti_named *items;
    size_t n, cap;
};

/* Append without looking for the name; keeps a reference to t. */
tt_status tti_state_dict_append(tt_state_dict *sd, const char *name, tt_tensor *t);

/* ---- backward hooks ------------------------------------------------------------------------- */

typedef struct tti_back_record tti_back_record;

/* For one call of m: pass its input and its output through nodes that call the hooks. `*v_p` is
 * replaced by a value with the same tensors behind such a node. */
tti_back_record *tti_back_record_new(tt_module *m);
tt_status tti_back_wrap_input(tti_back_record *r, tt_value **v_p);
tt_status tti_back_wrap_output(tti_back_record *r, tt_value **v_p);
void tti_back_record_free(tti_back_record *r);
bool tti_any_hook(const tt_hook *list);
bool tti_has_hooks(const tt_module *m);

#endif
