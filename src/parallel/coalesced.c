/* SPDX-License-Identifier: Apache-2.0 */
/* Many tensors between devices in few copies. Dense tensors of one type are bundled until a buffer is full; a bundle is
 * packed on its device, travels as one block, and its members become tensors over parts of it, each with a version
 * of its own. Tensors that fill a buffer alone, and sparse ones, travel by themselves.
 *
 *     bundle:  [ t0 ....][ t3 ..][ t4 .........]     of one type, each at a multiple of ALIGN bytes
 */
#include <string.h>

#include "parallel/comm.h"

#define ALIGN ((size_t)64)

typedef struct bundler {
    tt_tensor *const *ts; /* of the first device: they say shapes and strides */
    int n;
    size_t limit;
    bool *taken;
    int *members; /* the bundle: numbers in ts */
    size_t *at;   /* where they are in the buffer */
    int n_members;
    size_t bytes;
} bundler;

static tt_status bundler_init(bundler *b, tt_tensor *const *ts, int n, size_t limit)
{
    size_t count = (size_t)n;
    char *room = tti_calloc(count, sizeof *b->at + sizeof *b->members + sizeof *b->taken);

    if (room == NULL)
        return TT_ERR_NOMEM;
    *b = (bundler){ .ts = ts, .n = n, .limit = limit != 0 ? limit : TTI_BUFFER_BYTES };
    b->at = (size_t *)(void *)room;
    b->members = (int *)(void *)(room + count * sizeof *b->at);
    b->taken = (bool *)(room + count * (sizeof *b->at + sizeof *b->members));
    return TT_OK;
}

static void bundler_fini(bundler *b)
{
    tti_mfree(b->at);
}

static void take(bundler *b, int i)
{
    b->taken[i] = true;
    b->members[b->n_members] = i;
    b->at[b->n_members++] = b->bytes;
    b->bytes += (tt_tensor_bytes(b->ts[i]) + ALIGN - 1) / ALIGN * ALIGN;
}

/* The next bundle; false: no tensor is left. The first one that is left goes in whatever its size. */
static bool next_bundle(bundler *b)
{
    size_t filled = 0;
    int first = 0;

    b->n_members = 0;
    b->bytes = 0;
    while (first < b->n && b->taken[first])
        first++;
    for (int i = first; i < b->n; i++) {
        const tt_tensor *t = b->ts[i];

        if (i != first && (b->taken[i] || t->dtype != b->ts[first]->dtype || t->storage == NULL ||
                           b->ts[first]->storage == NULL))
            continue;
        filled += tt_tensor_bytes(t);
        if (i != first && filled > b->limit)
            break;
        take(b, i);
    }
    return b->n_members > 0;
}

static bool travels_alone(const bundler *b)
{
    return b->n_members == 1 || b->bytes == 0;
}

/* Member k's place in a buffer. */
static tt_tensor *place(const bundler *b, int k, const tt_tensor *flat)
{
    const tt_tensor *like = b->ts[b->members[k]];

    return tti_over_like(like, tti_storage_part(flat->storage, b->at[k], tt_tensor_bytes(like)));
}

static tt_tensor *buffer(const bundler *b, tt_device d)
{
    tt_dtype type = (tt_dtype)b->ts[b->members[0]]->dtype;

    return tti_empty(&(int64_t){ (int64_t)(b->bytes / tti_dtype_sizes[type]) }, 1, type, d);
}

/* The members among `ts`, which are on one device, in a buffer there. */
static tt_tensor *pack(const bundler *b, tt_tensor *const *ts)
{
    tt_tensor *flat = buffer(b, ts[b->members[0]]->device);

    for (int k = 0; flat != NULL && k < b->n_members; k++)
        if (tti_copy(place(b, k, flat), ts[b->members[k]]) != TT_OK)
            return NULL;
    return flat;
}

static tt_status unpack(const bundler *b, const tt_tensor *flat, tt_tensor **results)
{
    TT_TRY(tti_made(flat));
    for (int k = 0; k < b->n_members; k++)
        TT_TRY(tti_give(&results[b->members[k]], place(b, k, flat)));
    return TT_OK;
}

/* ---- broadcast ----------------------------------------------------------------------------------- */

static tt_status send_bundle(const bundler *b, const tt_device *devices, int n_devices,
                             tt_tensor **results)
{
    tt_tensor *flat = travels_alone(b) ? NULL : pack(b, b->ts);

    if (!travels_alone(b) && flat == NULL)
        return tt_last_status();
    for (int d = 1; d < n_devices; d++) {
        tt_tensor **there = results + (size_t)d * (size_t)b->n;

        if (tt_device_equal(devices[d], devices[0]))
            continue;
        if (flat != NULL)
            TT_TRY(unpack(b, tt_to_device(flat, devices[d]), there));
        for (int k = 0; flat == NULL && k < b->n_members; k++)
            TT_TRY(tti_give(&there[b->members[k]], tt_to_device(b->ts[b->members[k]], devices[d])));
    }
    return TT_OK;
}

static tt_status send_all(tt_tensor *const *ts, int n, const tt_device *devices, int n_devices,
                          size_t limit, tt_tensor **results)
{
    bundler b;
    tt_status st = bundler_init(&b, ts, n, limit);

    if (st != TT_OK)
        return st;
    for (int d = 0; d < n_devices; d++) /* a device that is the first again, too */
        memcpy(results + (size_t)d * (size_t)n, ts, (size_t)n * sizeof *ts);
    TT_NO_GRAD
    {
        while (st == TT_OK && next_bundle(&b))
            st = send_bundle(&b, devices, n_devices, results);
    }
    bundler_fini(&b);
    return st;
}

typedef struct spread_attrs {
    int n, n_copies; /* results are copies[c * n + i] */
    tt_device from;
    size_t limit;
} spread_attrs;

/* The copies' gradients of input i that are there; their number. */
static int grads_of(const spread_attrs *a, tt_tensor *const *grad_out, int i, tt_tensor **grads)
{
    int found = 0;

    for (int c = 0; c < a->n_copies; c++) {
        tt_tensor *g = grad_out[(size_t)c * (size_t)a->n + (size_t)i];

        if (g != NULL)
            grads[found++] = g;
    }
    return found;
}

static bool all_dense(tt_tensor *const *ts, int n)
{
    for (int i = 0; i < n; i++)
        if (ts[i]->storage == NULL)
            return false;
    return true;
}

/* Inputs of which every copy has a dense gradient travel together, the others alone. */
static tt_status sum_grads(const spread_attrs *a, const tti_node *node, tt_tensor *const *grad_out,
                           tt_tensor **grads, int *together, tt_tensor **grad_in)
{
    tt_tensor *few[TTI_MAX_TARGETS];
    tt_tensor **sums = grads + (size_t)a->n * (size_t)a->n_copies;
    int n = 0;

    for (int i = 0; i < a->n; i++) {
        int found = tti_needs(node, i) ? grads_of(a, grad_out, i, few) : 0;

        if (found == a->n_copies && all_dense(few, found) && tti_grad_mode == TT_GRAD_OFF)
            together[n++] = i;
        else if (found > 0)
            TT_TRY(tti_give(&grad_in[i], tt_comm_reduce_add(few, found, &a->from)));
    }
    for (int c = 0; c < a->n_copies; c++)
        for (int k = 0; k < n; k++)
            grads[c * n + k] = grad_out[c * a->n + together[k]];
    if (n == 0)
        return TT_OK;
    TT_TRY(tti_reduce_coalesced(grads, n, a->n_copies, a->from, a->limit, sums));
    for (int k = 0; k < n; k++)
        grad_in[together[k]] = sums[k];
    return TT_OK;
}

static tt_status spread_backward(tti_node *node, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const spread_attrs *a = tti_attrs(node);
    size_t count = (size_t)a->n * (size_t)(a->n_copies + 1);
    tt_tensor **grads = tti_malloc(count * sizeof *grads + (size_t)a->n * sizeof(int));
    tt_status st;

    if (grads == NULL)
        return TT_ERR_NOMEM;
    st = sum_grads(a, node, grad_out, grads, (int *)(void *)(grads + count), grad_in);
    tti_mfree(grads);
    return st;
}

static const tti_op op_spread = { "broadcast_coalesced", spread_backward, TTI_OP_SPARSE };

/* The copies of tensors that want a gradient become results of one node. */
static tt_status record(tt_tensor *const *ts, const spread_attrs *a, tt_tensor *const *copies)
{
    tti_node *node;
    bool wants = false;

    for (int i = 0; i < a->n; i++)
        wants = wants || tti_wants_grad(ts[i]);
    if (!wants || tti_grad_mode != TT_GRAD_ON || a->n_copies == 0)
        return TT_OK;
    if (a->n > UINT16_MAX / a->n_copies)
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "broadcast_coalesced: at most %d results can be recorded, got %d times %d",
                       UINT16_MAX, a->n, a->n_copies);
    node = tti_node_new(&op_spread, a->n, a->n * a->n_copies, 0, sizeof *a);
    if (node == NULL)
        return TT_ERR_NOMEM;
    memcpy(node->attrs, a, sizeof *a);
    for (int i = 0; i < a->n; i++) {
        tti_node_set_edge(node, i, ts[i]);
        for (int c = 0; tti_wants_grad(ts[i]) && c < a->n_copies; c++)
            if (copies[c * a->n + i] != ts[i])
                tti_node_set_out(node, c * a->n + i, copies[c * a->n + i]);
    }
    tti_node_free(node);
    return TT_OK;
}

static tt_status check_sources(tt_tensor *const *ts, int n, const tt_device *first)
{
    char is[32], want[32];

    TT_TRY(tti_check_tensors("broadcast_coalesced", ts, n));
    for (int i = 0; i < n; i++)
        if (!tt_device_equal(ts[i]->device, *first))
            return TT_FAIL(TT_ERR_INVALID,
                           "broadcast_coalesced: expected tensor %d on the first device, %s, got "
                           "one on %s",
                           i, tt_device_name(*first, want, sizeof want),
                           tt_device_name(ts[i]->device, is, sizeof is));
    return TT_OK;
}

tt_status tt_comm_broadcast_coalesced(tt_tensor *const *ts, int n, const tt_device *devices,
                                      int n_devices, const tt_coalesce_options *opt,
                                      tt_tensor **results)
{
    tt_device to[TTI_MAX_TARGETS];
    spread_attrs a = { .n = n,
                       .n_copies = n_devices - 1,
                       .limit = opt != NULL ? opt->buffer_bytes : 0 };
    tt_scope scope;
    tt_status st;

    TT_TRY(tti_devices_get("broadcast_coalesced", devices, n_devices, to));
    TT_TRY(check_sources(ts, n, &to[0]));
    a.from = to[0];
    scope = tt_scope_open();
    st = send_all(ts, n, to, n_devices, a.limit, results);
    if (st == TT_OK)
        st = record(ts, &a, results + n);
    return tti_close_keep(&scope, st, results, n * n_devices);
}

/* ---- sum ----------------------------------------------------------------------------------------- */

/* The bundle of every device, packed and added up on `to`. */
static tt_status sum_bundle(const bundler *b, tt_tensor *const *ts, int n_devices, tt_device to,
                            tt_tensor **results)
{
    tt_tensor *sum = tt_to_device(pack(b, ts), to);

    TT_TRY(tti_made(sum));
    for (int d = 1; d < n_devices; d++) {
        tt_tensor *term = tt_to_device(pack(b, ts + (size_t)d * (size_t)b->n), to);

        TT_TRY(tti_binary(TTI_ADD, sum, sum, term, NULL));
    }
    return unpack(b, sum, results);
}

static tt_status sum_alone(const bundler *b, tt_tensor *const *ts, int n_devices, tt_device to,
                           tt_tensor **results)
{
    tt_tensor *terms[TTI_MAX_TARGETS];

    for (int k = 0; k < b->n_members; k++) {
        int i = b->members[k];

        for (int d = 0; d < n_devices; d++)
            terms[d] = ts[(size_t)d * (size_t)b->n + (size_t)i];
        TT_TRY(tti_give(&results[i], tt_comm_reduce_add(terms, n_devices, &to)));
    }
    return TT_OK;
}

tt_status tti_reduce_coalesced(tt_tensor *const *ts, int n, int n_devices, tt_device to,
                               size_t buffer_bytes, tt_tensor **results)
{
    bundler b;
    tt_scope scope = tt_scope_open();
    tt_status st = bundler_init(&b, ts, n, buffer_bytes);

    if (st == TT_OK) {
        TT_NO_GRAD
        {
            while (st == TT_OK && next_bundle(&b))
                st = travels_alone(&b) ? sum_alone(&b, ts, n_devices, to, results)
                                       : sum_bundle(&b, ts, n_devices, to, results);
        }
        bundler_fini(&b);
    }
    return tti_close_keep(&scope, st, results, n);
}

static tt_status check_terms(tt_tensor *const *ts, int n, int n_devices)
{
    if (n < 1 || n_devices < 1 || n_devices > TTI_MAX_TARGETS)
        return TT_FAIL(TT_ERR_INVALID,
                       "reduce_add_coalesced: expected at least one tensor on 1 to %d devices, got "
                       "%d on %d",
                       TTI_MAX_TARGETS, n, n_devices);
    TT_TRY(tti_check_tensors("reduce_add_coalesced", ts, n * n_devices));
    for (int i = 0; i < n * n_devices; i++) {
        const tt_tensor *first = ts[i % n], *t = ts[i];

        TT_TRY(tti_check_accelerator("reduce_add_coalesced", "tensor", i, t->device));
        if (!tt_device_equal(t->device, ts[i / n * n]->device))
            return TT_FAIL(TT_ERR_INVALID,
                           "reduce_add_coalesced: tensor %d is not on the device of tensor %d", i,
                           i / n * n);
        if (!tti_same_shape(first, t) || first->dtype != t->dtype ||
            (first->storage == NULL) != (t->storage == NULL))
            return TT_FAIL(TT_ERR_INVALID,
                           "reduce_add_coalesced: expected tensor %d like tensor %d, %s %s, got "
                           "%s %s",
                           i, i % n, tt_dtype_name((tt_dtype)first->dtype), TTI_SHAPE_OF(first),
                           tt_dtype_name((tt_dtype)t->dtype), TTI_SHAPE_OF(t));
    }
    return TT_OK;
}

tt_status tt_comm_reduce_add_coalesced(tt_tensor *const *ts, int n, int n_devices,
                                       const tt_device *device, const tt_coalesce_options *opt,
                                       tt_tensor **results)
{
    tt_device to;

    TT_TRY(check_terms(ts, n, n_devices));
    to = ts[0]->device;
    if (device != NULL)
        TT_TRY(tt_device_resolve(*device, &to));
    return tti_reduce_coalesced(ts, n, n_devices, to, opt != NULL ? opt->buffer_bytes : 0, results);
}
