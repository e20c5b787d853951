/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse tensors in coordinate form: making them, taking them apart, and to and from dense. Seen as a
 * dense tensor they are linear in their values, and that is how gradients pass: through values, and
 * through dense tensors read at the coordinates. */
#include "base/error.h"
#include "ops/sparse.h"

#include "ops/element.h"
#include "ops/view.h"
#include "tensor/debug.h"

/* ---- parts ------------------------------------------------------------------------------- */

/* The sparse dimensions as one: [rows, dense...]. */
static tt_shape rows_shape(const int64_t *dims, int n_dims, int sparse_dims)
{
    tt_shape s = { .n_dims = n_dims - sparse_dims + 1, .dims = { 1 } };

    for (int i = 0; i < sparse_dims; i++)
        s.dims[0] *= dims[i];
    for (int i = sparse_dims; i < n_dims; i++)
        s.dims[i - sparse_dims + 1] = dims[i];
    return s;
}

static tt_tensor *make_keys_device(tt_tensor *indices, const int64_t *dims)
{
    tt_tensor *keys = tt_select(indices, 0, 0);

    for (int64_t d = 1; d < indices->dims[0] && keys != NULL; d++)
        keys = tt_add(tt_mul_scalar(keys, (double)dims[d]), tt_select(indices, 0, d));
    return keys != NULL ? tt_contiguous(keys) : NULL;
}

static tt_tensor *make_keys(const tt_tensor *indices, const int64_t *dims)
{
    int64_t nnz = indices->dims[1];
    tt_tensor *from, *keys;
    const int64_t *p;
    int64_t *k;

    if (indices->device.kind != TT_DEVICE_CPU)
        return make_keys_device((tt_tensor *)(uintptr_t)indices, dims);
    from = tti_contiguous((tt_tensor *)(uintptr_t)indices);
    keys = tti_empty(&nnz, 1, TT_I64, indices->device);
    if (from == NULL || keys == NULL)
        return NULL;
    p = tti_data(from);
    k = tti_data(keys);
    for (int64_t i = 0; i < nnz; i++) {
        int64_t key = 0;

        for (int64_t d = 0; d < indices->dims[0]; d++)
            key = key * dims[d] + p[d * nnz + i];
        k[i] = key;
    }
    return keys;
}

tt_tensor *tti_sparse_keys(const tt_tensor *t)
{
    return make_keys(t->sparse->indices, t->dims);
}

/* Entries with the same coordinates belong to one group; groups are in ascending order. */
typedef struct groups {
    tt_tensor *indices; /* [sparse_dims, groups] */
    tt_tensor *of;      /* [nnz]: the group of each entry */
    tt_tensor *first;   /* [groups]: the first entry of each */
} groups;

static void number_groups(const tt_tensor *keys, const tt_tensor *order, const groups *g)
{
    const int64_t *k = tti_data(keys), *o = tti_data(order);
    int64_t *of = tti_data(g->of), *first = tti_data(g->first);
    int64_t at = -1;

    for (int64_t i = 0; i < keys->numel; i++) {
        if (i == 0 || k[o[i]] != k[o[i - 1]])
            first[++at] = o[i];
        of[o[i]] = at;
    }
}

/* The same on an accelerator: a group begins where sorted keys differ, and its number is how many began
 * before. */
static tt_status number_groups_device(tt_tensor *keys, tt_tensor *order, const groups *g)
{
    int64_t n = keys->numel;
    tt_tensor *sorted = tti_empty(&n, 1, TT_I64, keys->device);
    tt_tensor *parts[2] = { tt_ones(TT_SHAPE(1), TT_BOOL, keys->device), NULL };
    tt_tensor *begins, *number;

    if (n == 0)
        return TT_OK;
    TT_TRY(tti_index_select(sorted, keys, 0, order));
    parts[1] = tt_ne(tt_narrow(sorted, 0, 1, n - 1), tt_narrow(sorted, 0, 0, n - 1));
    begins = parts[1] != NULL ? tt_cat(parts, 2, 0) : NULL;
    number = tt_add_scalar(tt_cumsum(tt_to_dtype(begins, TT_I64), 0), -1);
    if (number == NULL)
        return tt_last_status();
    TT_TRY(tti_index_put(g->of, 0, order, number, false));
    return TTI_RUN("sparse_coalesce", keys, index, masked_select, g->first, order, begins);
}

static tt_status find_groups(tt_tensor *indices, const int64_t *dims, groups *g)
{
    tt_tensor *keys = make_keys(indices, dims), *order;
    int64_t sizes[2] = { indices->dims[0], 0 };

    order = keys != NULL ? tti_empty(keys->dims, 1, TT_I64, keys->device) : NULL;
    g->of = order != NULL ? tti_empty(keys->dims, 1, TT_I64, keys->device) : NULL;
    if (g->of == NULL)
        return tt_last_status();
    TT_TRY(TTI_RUN("sparse_coalesce", keys, index, sort_keys, order, keys, &sizes[1]));
    g->first = tti_empty(&sizes[1], 1, TT_I64, keys->device);
    g->indices = g->first != NULL ? tti_empty(sizes, 2, TT_I64, keys->device) : NULL;
    if (g->indices == NULL)
        return tt_last_status();
    if (keys->device.kind != TT_DEVICE_CPU)
        TT_TRY(number_groups_device(keys, order, g));
    else
        number_groups(keys, order, g);
    return tti_index_select(g->indices, indices, 1, g->first);
}

/* A sparse tensor that is no part of a graph yet. */
static tt_tensor *assemble(tt_tensor *indices, tt_tensor *values, tt_shape shape, bool coalesced)
{
    tt_tensor *t = tti_bare(shape.dims, shape.n_dims, (tt_dtype)values->dtype, values->device);
    tt_tensor *plain;

    if (t == NULL)
        return NULL;
    t->sparse = tti_calloc(1, sizeof *t->sparse);
    plain = t->sparse != NULL ? tti_alias(values) : NULL;
    if (plain == NULL)
        return NULL;
    t->sparse->indices = tt_tensor_retain(indices);
    t->sparse->values = tt_tensor_retain(plain);
    t->sparse->sparse_dims = (int)indices->dims[0];
    if (coalesced)
        t->flags |= TTI_COALESCED;
    return t;
}

/* ---- making ------------------------------------------------------------------------------ */

typedef struct coo_attrs {
    tt_shape shape;
    int sparse_dims;
} coo_attrs;

/* A dense tensor at the coordinates. */
static tt_tensor *read_at(tt_tensor *dense, tt_tensor *keys, tt_shape shape, int sparse_dims)
{
    return tt_index_select(tt_reshape(dense, rows_shape(shape.dims, shape.n_dims, sparse_dims)), 0,
                           keys);
}

static tt_status coo_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const coo_attrs *a = tti_attrs(n);
    tt_tensor *indices = tti_saved_get(n, 0);

    if (indices == NULL)
        return tt_last_status();
    return tti_give(&grad_in[1],
                    read_at(tt_to_dense(grad_out[0]), make_keys(indices, a->shape.dims), a->shape,
                            a->sparse_dims));
}

static const tti_op op_coo = { "sparse_coo", coo_backward, 0 };

static tt_status check_parts(const tt_tensor *indices, const tt_tensor *values, tt_shape s)
{
    bool ok;
    char text[TTI_SHAPE_TEXT];

    if (indices->dtype != TT_I64 || indices->n_dims != 2)
        return TT_FAIL(TT_ERR_INVALID,
                       "sparse_coo: expected int64 indices [sparse dimensions, count], got %s %s",
                       tt_dtype_name((tt_dtype)indices->dtype), TTI_SHAPE_OF(indices));
    ok = s.n_dims >= 1 && s.n_dims <= TT_MAX_DIMS && tti_numel(s.dims, s.n_dims) >= 0 &&
         indices->dims[0] >= 1 && indices->dims[0] <= s.n_dims && values->n_dims >= 1 &&
         values->n_dims - 1 == s.n_dims - indices->dims[0] && values->dims[0] == indices->dims[1];
    for (int i = 1; ok && i < values->n_dims; i++)
        ok = values->dims[i] == s.dims[indices->dims[0] + i - 1];
    if (ok)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID,
                   "sparse_coo: indices %s and values %s do not describe a tensor of shape %s",
                   TTI_SHAPE_OF(indices), TTI_SHAPE_OF(values),
                   tti_shape_text(s.dims, s.n_dims >= 0 && s.n_dims <= TT_MAX_DIMS ? s.n_dims : 0,
                                  text, sizeof text));
}

/* Looks at every index, for which those on a device are brought to the host. */
static tt_status check_range(const tt_tensor *indices, tt_shape s)
{
    int64_t nnz = indices->dims[1];
    const int64_t *p;

    indices = tti_host_copy(indices);
    if (indices == NULL)
        return tt_last_status();
    p = tti_data(indices);

    for (int64_t at = 0; at < indices->numel; at++) {
        int64_t d = at / nnz;

        if (p[at] < 0 || p[at] >= s.dims[d])
            return TT_FAIL(TT_ERR_INVALID,
                           "sparse_coo: index %lld at [%lld, %lld] is out of range for dimension "
                           "%lld of size %lld",
                           (long long)p[at], (long long)d, (long long)(at % nnz), (long long)d,
                           (long long)s.dims[d]);
    }
    return TT_OK;
}

static tt_tensor *make(tt_tensor *indices, tt_tensor *values, tt_shape shape, bool coalesced,
                       bool checked)
{
    tt_tensor *in[] = { indices, values };
    tti_call c = { .op = &op_coo, .in = in, .n_in = 2 };
    coo_attrs a = { .shape = shape };

    if (!tti_call_begin(&c) || check_parts(indices, values, shape) != TT_OK)
        return NULL;
    indices = tti_contiguous(indices);
    if (indices == NULL || (checked && check_range(indices, shape) != TT_OK))
        return NULL;
    a.sparse_dims = (int)indices->dims[0];
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    tti_call_save(&c, indices);
    return tti_call_end(&c, assemble(indices, values, shape, coalesced), TT_OK);
}

tt_tensor *tt_sparse_coo(tt_tensor *indices, tt_tensor *values, tt_shape shape)
{
    return make(indices, values, shape, false, true);
}

tt_tensor *tt_sparse_coo_unchecked(tt_tensor *indices, tt_tensor *values, tt_shape shape,
                                   bool coalesced)
{
    return make(indices, values, shape, coalesced, false);
}

tt_tensor *tti_sparse_with(tt_tensor *t, tt_tensor *values)
{
    return tt_sparse_coo_unchecked(t->sparse->indices, values, tt_tensor_shape(t),
                                   tt_sparse_is_coalesced(t));
}

tt_tensor *tti_sparse_to_device(tt_tensor *t, tt_device device)
{
    tt_tensor *indices = tt_to_device(t->sparse->indices, device);
    tt_tensor *values = indices != NULL ? tt_to_device(tt_sparse_values(t), device) : NULL;

    if (values == NULL)
        return NULL;
    return tt_sparse_coo_unchecked(indices, values, tt_tensor_shape(t), tt_sparse_is_coalesced(t));
}

/* ---- taking apart ------------------------------------------------------------------------- */

static tt_status need_sparse(const char *name, const tt_tensor *t)
{
    TT_TRY(tti_check_alive(t, name));
    if (t == NULL)
        return tti_null_given(name, "a tensor");
    return t->sparse != NULL
               ? TT_OK
               : TT_FAIL(TT_ERR_INVALID, "%s: expected a sparse tensor, got a dense one", name);
}

/* Entries that share coordinates share their gradient: one of them stands for all. */
static tt_status values_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const coo_attrs *a = tti_attrs(n);
    tt_tensor *indices = tti_saved_get(n, 0);
    groups g;

    if (indices == NULL)
        return tt_last_status();
    TT_TRY(find_groups(indices, a->shape.dims, &g));
    return tti_give(&grad_in[0],
                    tt_sparse_coo_unchecked(g.indices, tt_index_select(grad_out[0], 0, g.first),
                                            a->shape, true));
}

static const tti_op op_values = { "sparse_values", values_backward, TTI_OP_SPARSE };

tt_tensor *tt_sparse_indices(tt_tensor *t)
{
    return need_sparse("sparse_indices", t) == TT_OK
               ? tti_scope_add(tt_tensor_retain(t->sparse->indices))
               : NULL;
}

tt_tensor *tt_sparse_values(tt_tensor *t)
{
    tti_call c = { .op = &op_values, .in = &t, .n_in = 1 };
    coo_attrs a;

    if (need_sparse("sparse_values", t) != TT_OK || !tti_call_begin(&c))
        return NULL;
    a = (coo_attrs){ .shape = tt_tensor_shape(t), .sparse_dims = t->sparse->sparse_dims };
    c.attrs = &a;
    c.attrs_bytes = sizeof a;
    tti_call_save(&c, t->sparse->indices);
    return tti_call_end(&c, tti_alias(t->sparse->values), TT_OK);
}

int64_t tt_sparse_nnz(const tt_tensor *t)
{
    return tti_alive(t, "sparse_nnz") && tti_is_sparse(t) ? t->sparse->indices->dims[1] : 0;
}

int tt_sparse_dims(const tt_tensor *t)
{
    return tti_alive(t, "sparse_dims") && tti_is_sparse(t) ? t->sparse->sparse_dims : 0;
}

bool tt_sparse_is_coalesced(const tt_tensor *t)
{
    return tti_alive(t, "sparse_is_coalesced") && tti_is_sparse(t) &&
           ((t->flags & TTI_COALESCED) != 0 || tt_sparse_nnz(t) < 2);
}

/* ---- coalesce ----------------------------------------------------------------------------- */

/* As a dense tensor nothing changes. */
static tt_status same_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    (void)n;
    return tti_give(&grad_in[0], grad_out[0]);
}

static const tti_op op_coalesce = { "sparse_coalesce", same_backward, TTI_OP_SPARSE };

/* Entries are added in the order they come. */
static tt_tensor *coalesced(tt_tensor *t)
{
    tt_tensor *values = t->sparse->values, *sums;
    tt_shape s = tt_tensor_shape(values);
    groups g;

    if (find_groups(t->sparse->indices, t->dims, &g) != TT_OK)
        return NULL;
    s.dims[0] = g.first->numel;
    sums = tti_zeros_shape(s, values);
    if (tti_index_put(sums, 0, g.of, tti_contiguous(values), true) != TT_OK)
        return NULL;
    return assemble(g.indices, sums, tt_tensor_shape(t), true);
}

tt_tensor *tt_sparse_coalesce(tt_tensor *t)
{
    tti_call c = { .op = &op_coalesce, .in = &t, .n_in = 1 };

    if (need_sparse("sparse_coalesce", t) != TT_OK)
        return NULL;
    if (tt_sparse_is_coalesced(t))
        return t;
    return tti_call_begin(&c) ? tti_call_end(&c, coalesced(t), TT_OK) : NULL;
}

/* ---- to and from dense --------------------------------------------------------------------- */

/* The gradient of a sparse tensor lives where that has entries. */
static tt_status dense_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    tt_tensor *t = tti_saved_get(n, 0);
    tt_tensor *g = grad_out[0];

    if (t == NULL)
        return tt_last_status();
    TT_NO_GRAD
    {
        t = tt_sparse_coalesce(t);
    }
    if (t == NULL)
        return tt_last_status();
    g = read_at(g, tti_sparse_keys(t), tt_tensor_shape(t), t->sparse->sparse_dims);
    return tti_give(&grad_in[0], tti_sparse_with(t, g));
}

static const tti_op op_to_dense = { "to_dense", dense_backward, TTI_OP_SPARSE };

/* out += t, entry by entry; out is contiguous and has t's shape and type. */
static tt_status add_into(tt_tensor *out, const tt_tensor *t)
{
    tt_shape s = rows_shape(t->dims, t->n_dims, t->sparse->sparse_dims);
    int64_t strides[TT_MAX_DIMS];
    tt_tensor *rows, *keys = tti_sparse_keys(t);

    tti_strides_contiguous(s.dims, s.n_dims, strides);
    rows = tti_view_raw(out, s.dims, strides, s.n_dims, out->offset);
    return tti_index_put(rows, 0, keys,
                         tti_contiguous(tti_cast(t->sparse->values, (tt_dtype)out->dtype)), true);
}

tt_tensor *tt_to_dense(tt_tensor *t)
{
    tti_call c = { .op = &op_to_dense, .in = &t, .n_in = 1 };
    tt_tensor *out;

    if (tti_check_alive(t, "to_dense") != TT_OK)
        return NULL;
    if (t != NULL && t->sparse == NULL)
        return t;
    if (!tti_call_begin(&c))
        return NULL;
    out = tti_zeros_shape(tt_tensor_shape(t), t);
    tti_call_save(&c, t);
    return tti_call_end(&c, out, out != NULL ? add_into(out, t) : tt_last_status());
}

tt_tensor *tti_sparse_mul(tt_tensor *a, tt_tensor *b)
{
    tt_tensor *sparse = tti_is_sparse(a) ? a : b, *dense = sparse == a ? b : a, *at;

    if (a == NULL || b == NULL)
        return TT_NULL_GIVEN("mul", "two tensors");
    if (tti_is_sparse(dense))
        return TT_FAIL_NULL(TT_ERR_INVALID, "mul: expected at most one sparse tensor, got two: use "
                                            "tt_to_dense");
    at = dense;
    if (dense->n_dims != 0)
        at = read_at(tt_expand(dense, tt_tensor_shape(sparse)), tti_sparse_keys(sparse),
                     tt_tensor_shape(sparse), sparse->sparse->sparse_dims);
    return at != NULL ? tti_sparse_with(sparse, tt_mul(tt_sparse_values(sparse), at)) : NULL;
}

/* Coordinates [sparse_dims, n] of the rows that are not all zero. */
static tt_tensor *find_rows(tt_tensor *x, int sparse_dims)
{
    tt_tensor *some = tt_detach(x);
    tt_shape s = tt_tensor_shape(x);

    if (sparse_dims < s.n_dims) {
        s.n_dims = sparse_dims + 1;
        s.dims[sparse_dims] = -1;
        some = tt_sum_dim(tt_reshape(tt_ne_scalar(some, 0), s), -1, false);
    }
    return tt_contiguous(tt_t(tt_nonzero(some)));
}

tt_tensor *tt_to_sparse(tt_tensor *t, int sparse_dims)
{
    tt_tensor *indices, *keys;

    if (tti_check_alive(t, "to_sparse") != TT_OK)
        return NULL;
    if (t == NULL)
        return tt_view(t, TT_SHAPE_SCALAR);
    if (t->sparse != NULL)
        return t;
    if (sparse_dims < 1 || sparse_dims > t->n_dims)
        return TT_FAIL_NULL(TT_ERR_INVALID, "to_sparse: expected 1 to %d sparse dimensions, got %d",
                            t->n_dims, sparse_dims);
    indices = t->numel != 0 ? find_rows(t, sparse_dims)
                            : tt_zeros(TT_SHAPE(sparse_dims, 0), TT_I64, t->device);
    keys = indices != NULL ? make_keys(indices, t->dims) : NULL;
    if (keys == NULL)
        return NULL;
    return tt_sparse_coo_unchecked(indices, read_at(t, keys, tt_tensor_shape(t), sparse_dims),
                                   tt_tensor_shape(t), true);
}
