/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of several devices joined in one: each is copied to its place, across devices, without a stop. The gradient
 * is cut and moved back. */
#include "parallel/comm.h"

#include <string.h>

typedef struct gather_attrs {
    int dim, n;
    tt_device devices[TTI_MAX_TARGETS];
    int64_t sizes[TTI_MAX_TARGETS];
} gather_attrs;

static tt_status gather_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    const gather_attrs *a = tti_attrs(n);
    int64_t at = 0;

    for (int i = 0; i < a->n; i++) {
        if (tti_needs(n, i))
            TT_TRY(
                tti_give(&grad_in[i], tt_to_device(tt_narrow(grad_out[0], a->dim, at, a->sizes[i]),
                                                   a->devices[i])));
        at += a->sizes[i];
    }
    return TT_OK;
}

static const tti_op op_gather = { "comm_gather", gather_backward, TTI_OP_SPREAD };

/* ---- checks ------------------------------------------------------------------------------------- */

static tt_status check_input(tt_tensor *const *ts, int i, int dim)
{
    const tt_tensor *first = ts[0], *t = ts[i];
    bool fits = t->n_dims == first->n_dims;

    if (!fits)
        return TT_FAIL(TT_ERR_INVALID,
                       "gather: expected input %d to have %d dimensions like the first, got shape "
                       "%s",
                       i, first->n_dims, TTI_SHAPE_OF(t));
    for (int d = 0; d < t->n_dims; d++)
        fits = fits && (d == dim || t->dims[d] == first->dims[d]);
    if (!fits)
        return TT_FAIL(TT_ERR_INVALID,
                       "gather: expected input %d to agree with the first, %s, except in dimension "
                       "%d, got shape %s",
                       i, TTI_SHAPE_OF(first), dim, TTI_SHAPE_OF(t));
    if (t->dtype != first->dtype)
        return TT_FAIL(TT_ERR_INVALID, "gather: expected input %d of type %s, got %s", i,
                       tt_dtype_name((tt_dtype)first->dtype), tt_dtype_name((tt_dtype)t->dtype));
    return TT_OK;
}

/* Fills in what backward has to know, and the shape of the result. */
static tt_status check_inputs(tt_tensor *const *ts, int n, gather_attrs *a, int64_t *dims)
{
    TT_TRY(tti_check_tensors("gather", ts, n));
    if (n > TTI_MAX_TARGETS)
        return TT_FAIL(TT_ERR_INVALID, "gather: expected at most %d tensors, got %d",
                       TTI_MAX_TARGETS, n);
    for (int i = 0; i < n; i++) {
        TT_TRY(tti_check_accelerator("gather", "input", i, ts[i]->device));
        if (ts[i]->storage == NULL)
            return TT_FAIL(TT_ERR_UNSUPPORTED, "gather: input %d is sparse", i);
    }
    if (ts[0]->n_dims == 0)
        return TT_FAIL(TT_ERR_INVALID, "gather: tensors without dimensions cannot be joined");
    TT_TRY(tti_wrap_dim("gather", &a->dim, ts[0]->n_dims));
    memcpy(dims, ts[0]->dims, sizeof ts[0]->dims);
    dims[a->dim] = 0;
    for (int i = 0; i < n; i++) {
        TT_TRY(check_input(ts, i, a->dim));
        a->devices[i] = ts[i]->device;
        a->sizes[i] = ts[i]->dims[a->dim];
        dims[a->dim] += a->sizes[i];
    }
    return TT_OK;
}

static tt_status check_output(const tt_tensor *out, const tt_tensor *first, const int64_t *dims)
{
    bool fits = out->storage != NULL && out->n_dims == first->n_dims && out->dtype == first->dtype;

    for (int d = 0; fits && d < out->n_dims; d++)
        fits = out->dims[d] == dims[d];
    if (fits)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "gather: expected an output %s %s, got %s %s",
                   tt_dtype_name((tt_dtype)first->dtype),
                   tti_shape_text(dims, first->n_dims, (char[TTI_SHAPE_TEXT]){ 0 }, TTI_SHAPE_TEXT),
                   tt_dtype_name((tt_dtype)out->dtype), TTI_SHAPE_OF(out));
}

/* ---- joining ------------------------------------------------------------------------------------ */

static bool all_in(tt_tensor *const *ts, int n, tt_memory_format f)
{
    for (int i = 0; i < n; i++)
        if (tti_is_contiguous(ts[i]) || !tt_tensor_is_contiguous(ts[i], f))
            return false;
    return true;
}

static tt_tensor *new_output(tt_tensor *const *ts, int n, const int64_t *dims, tt_device d)
{
    const tt_tensor *first = ts[0];
    tt_memory_format f = first->n_dims == 5 ? TT_FORMAT_CHANNELS_LAST_3D : TT_FORMAT_CHANNELS_LAST;
    int64_t strides[TT_MAX_DIMS];

    if ((first->n_dims != 4 && first->n_dims != 5) || !all_in(ts, n, f))
        return tti_empty(dims, first->n_dims, (tt_dtype)first->dtype, d);
    tti_strides_format(dims, first->n_dims, f, strides);
    return tti_empty_strided(dims, strides, first->n_dims, (tt_dtype)first->dtype, d);
}

static tt_status fill(tt_tensor *out, tt_tensor *const *ts, const gather_attrs *a)
{
    int64_t at = out->offset;

    for (int i = 0; i < a->n; i++) {
        tt_tensor *place = tti_view_raw(out, ts[i]->dims, out->strides, out->n_dims, at);

        if (ts[i]->numel > 0)
            TT_TRY(tti_copy(place, ts[i]));
        at += a->sizes[i] * out->strides[a->dim];
    }
    return TT_OK;
}

static tt_tensor *into_output(tt_tensor *out, tt_tensor *const *ts, const gather_attrs *a)
{
    for (int i = 0; i < a->n; i++)
        if (tti_check_unrecorded("gather", ts[i], &out, 1) != TT_OK)
            return NULL;
    TT_SCOPE {
        if (fill(out, ts, a) != TT_OK)
            return NULL;
    }
    tti_bump_version(out);
    return out;
}

static tt_status target(const tt_gather_options *o, const tt_tensor *first, tt_device *d_p)
{
    if (o->device != NULL)
        return tt_device_resolve(*o->device, d_p);
    *d_p = tt_device_current((tt_device_kind)first->device.kind);
    return TT_OK;
}

tt_tensor *tt_comm_gather(tt_tensor *const *ts, int n, const tt_gather_options *opt)
{
    tt_gather_options o = opt != NULL ? *opt : (tt_gather_options){ 0 };
    gather_attrs a = { .dim = o.dim, .n = n };
    tti_call c = { .op = &op_gather, .in = ts, .n_in = n, .attrs = &a, .attrs_bytes = sizeof a };
    int64_t dims[TT_MAX_DIMS];
    tt_tensor *out = NULL;
    tt_device d;
    tt_scope scope;

    if (o.device != NULL && o.output != NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "gather: expected a device or an output, got both");
    if (check_inputs(ts, n, &a, dims) != TT_OK)
        return NULL;
    if (o.output != NULL)
        return check_output(o.output, ts[0], dims) == TT_OK ? into_output(o.output, ts, &a) : NULL;
    if (target(&o, ts[0], &d) != TT_OK || !tti_call_begin(&c))
        return NULL;
    scope = tt_scope_open();
    out = new_output(ts, n, dims, d);
    out = tti_call_end(&c, out, out != NULL ? fill(out, ts, &a) : tt_last_status());
    return tt_scope_close_keep(&scope, out);
}
