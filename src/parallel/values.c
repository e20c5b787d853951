/* SPDX-License-Identifier: Apache-2.0 */
/* Nested values to devices and back: containers are taken apart and built again, one per device. */
#include "base/error.h"
#include "parallel/comm.h"
#include "value/value.h"

/* ---- scatter ------------------------------------------------------------------------------------- */

typedef struct cutter {
    const tt_device *devices;
    int n, dim;
    int pieces; /* of the tensors seen so far; 0: none */
} cutter;

static void drop(tt_value **vs, int n)
{
    for (int i = 0; i < n; i++) {
        tt_value_free(vs[i]);
        vs[i] = NULL;
    }
}

static tt_status wrap(tt_tensor *const *ts, int n, tt_value **parts)
{
    for (int i = 0; i < n; i++) {
        parts[i] = tt_value_tensor_new(ts[i]);
        if (parts[i] == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static tt_status cut_tensor(cutter *c, tt_tensor *t, tt_value **parts)
{
    tt_tensor *pieces[TTI_MAX_TARGETS];
    tt_targets to = { .devices = c->devices, .n_devices = c->n };
    int n = c->n;

    if (t->n_dims == 0) {
        TT_TRY(tt_comm_broadcast(t, &to, pieces));
        return wrap(pieces, n, parts);
    }
    TT_TRY(tt_comm_scatter(t, &to, &(tt_scatter_options){ .dim = c->dim }, pieces, &n));
    if (c->pieces != 0 && c->pieces != n)
        return TT_FAIL(TT_ERR_INVALID,
                       "scatter: expected all tensors to give %d pieces along dimension %d, got %d "
                       "from shape %s",
                       c->pieces, c->dim, n, TTI_SHAPE_OF(t));
    c->pieces = n;
    return wrap(pieces, n, parts);
}

static tt_status cut_value(cutter *c, const tt_value *v, tt_value **parts);

static tt_status cut_container(cutter *c, const tt_value *v, tt_value **parts)
{
    tt_value *entry[TTI_MAX_TARGETS] = { NULL };

    for (int d = 0; d < c->n; d++)
        if ((parts[d] = tti_value_empty_like(v)) == NULL)
            return tt_last_status();
    for (size_t i = 0; i < v->u.box.n; i++) {
        tt_status st = cut_value(c, v->u.box.items[i].v, entry);

        for (int d = 0; st == TT_OK && d < c->n; d++) {
            tt_value *one = entry[d]; /* NULL: fewer pieces than devices */

            entry[d] = NULL;
            if (one != NULL)
                st = tti_value_append(parts[d], v->u.box.items[i].name, one);
        }
        drop(entry, c->n);
        TT_TRY(st);
    }
    return TT_OK;
}

/* parts[0 .. n) are owned by the caller, also after a failure. */
static tt_status cut_value(cutter *c, const tt_value *v, tt_value **parts)
{
    if (tt_value_kind_of(v) == TT_VALUE_TENSOR)
        return cut_tensor(c, v->u.t, parts);
    if (tt_value_is_container(v))
        return cut_container(c, v, parts);
    for (int d = 0; d < c->n; d++)
        parts[d] = tt_value_retain((tt_value *)(uintptr_t)v);
    return TT_OK;
}

tt_status tt_comm_scatter_value(const tt_value *v, const tt_device *devices, int n_devices, int dim,
                                tt_value **results, int *n_p)
{
    tt_device to[TTI_MAX_TARGETS];
    tt_value *parts[TTI_MAX_TARGETS] = { NULL };
    cutter c = { .devices = to, .n = n_devices, .dim = dim };
    tt_status st = TT_OK;

    if (v == NULL)
        return tti_null_given("scatter", "a value");
    TT_TRY(tti_devices_get("scatter", devices, n_devices, to));
    TT_SCOPE {
        st = cut_value(&c, v, parts);
    }
    if (st != TT_OK) {
        drop(parts, n_devices);
        return st;
    }
    *n_p = c.pieces != 0 ? c.pieces : n_devices;
    drop(parts + *n_p, n_devices - *n_p);
    for (int d = 0; d < *n_p; d++)
        results[d] = parts[d];
    return TT_OK;
}

/* ---- gather -------------------------------------------------------------------------------------- */

typedef struct joiner {
    const tt_gather_options *opt;
    int n;
    bool warned;
} joiner;

static tt_value *differs(int i, const char *what, const tt_value *first, const tt_value *v)
{
    return TT_FAIL_NULL(TT_ERR_INVALID,
                        "gather: expected value %d to have the %s of the first: %s "
                        "and %s",
                        i, what, tt_value_kind_name(tt_value_kind_of(first)),
                        tt_value_kind_name(tt_value_kind_of(v)));
}

static tt_value *join_tensors(joiner *j, tt_value *const *vs)
{
    tt_tensor *ts[TTI_MAX_TARGETS], *joined;
    tt_gather_options o = j->opt != NULL ? *j->opt : (tt_gather_options){ 0 };
    bool scalars = true;

    for (int i = 0; i < j->n; i++) {
        ts[i] = vs[i]->u.t;
        scalars = scalars && ts[i]->n_dims == 0;
    }
    if (scalars) {
        if (!j->warned)
            tt_warn("gather", "tensors without dimensions are gathered into a vector");
        j->warned = true;
        for (int i = 0; i < j->n; i++)
            ts[i] = tt_unsqueeze(ts[i], 0);
        o.dim = 0;
    }
    joined = tt_comm_gather(ts, j->n, &o);
    return joined != NULL ? tt_value_tensor_new(joined) : NULL;
}

static tt_value *join_values(joiner *j, tt_value *const *vs);

static tt_value *join_containers(joiner *j, tt_value *const *vs)
{
    tt_value *box = tti_value_empty_like(vs[0]);
    tt_value *entries[TTI_MAX_TARGETS];

    for (size_t i = 0; box != NULL && i < vs[0]->u.box.n; i++) {
        const char *name = vs[0]->u.box.items[i].name;
        tt_value *one;

        for (int d = 0; d < j->n; d++)
            entries[d] = name != NULL ? tt_value_map_get(vs[d], name) : tt_value_at(vs[d], i);
        one = join_values(j, entries);
        if (one == NULL || tti_value_append(box, name, one) != TT_OK) {
            tt_value_free(box);
            return NULL;
        }
    }
    return box;
}

static tt_value *join_values(joiner *j, tt_value *const *vs)
{
    tt_value_kind kind = tt_value_kind_of(vs[0]);
    bool box = tt_value_is_container(vs[0]);

    for (int i = 0; i < j->n; i++) {
        if (vs[i] == NULL || tt_value_kind_of(vs[i]) != kind)
            return differs(i, "kind", vs[0], vs[i]);
        if (box && tt_value_count(vs[i]) != tt_value_count(vs[0]))
            return differs(i, "number of entries", vs[0], vs[i]);
        if (!box && kind != TT_VALUE_TENSOR && !tt_value_equal(vs[0], vs[i]))
            return differs(i, "content", vs[0], vs[i]);
    }
    if (box)
        return join_containers(j, vs);
    return kind == TT_VALUE_TENSOR ? join_tensors(j, vs) : tt_value_retain(vs[0]);
}

tt_value *tt_comm_gather_values(tt_value *const *vs, int n, const tt_gather_options *opt)
{
    joiner j = { .opt = opt, .n = n };
    tt_value *v = NULL;

    if (vs == NULL || n < 1 || n > TTI_MAX_TARGETS)
        return TT_FAIL_NULL(TT_ERR_INVALID, "gather: expected 1 to %d values, got %d",
                            TTI_MAX_TARGETS, vs != NULL ? n : 0);
    for (int i = 0; i < n; i++)
        if (vs[i] == NULL)
            return (void)TTI_NULL("gather: value %d of %d is NULL", i, n), NULL;
    if (opt != NULL && opt->output != NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "gather: values cannot go into an output");
    TT_SCOPE {
        v = join_values(&j, vs);
    }
    return v;
}
