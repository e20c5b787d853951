/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of values: one struct for all kinds. */
#ifndef TTI_VALUE_VALUE_H
#define TTI_VALUE_VALUE_H

#include <stdatomic.h>

#include "base/mem.h"
#include "tutti/value.h"

typedef struct tti_entry {
    char *name; /* NULL in lists and tuples */
    tt_value *v;
} tti_entry;

struct tt_value {
    atomic_int refs;
    tt_value_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        tt_tensor *t;
        struct {
            char *data; /* a NUL follows */
            size_t n;
        } bytes; /* text too */
        struct {
            const tt_opaque_class *cls;
            void *p;
        } opaque;
        struct {
            char *type_name; /* records only */
            tti_entry *items;
            size_t n, cap;
        } box;
    } u;
};

/* An empty container of the kind and type name of v. */
tt_value *tti_value_empty_like(const tt_value *v);
/* Append without looking for the name; takes over `v`. */
tt_status tti_value_append(tt_value *box, const char *name, tt_value *v);

#endif
