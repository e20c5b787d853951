/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing between elements by a condition. */
#include "ops/elementwise.h"

#include <string.h>

static tt_status where_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    tt_tensor *condition = tti_saved_get(n, 0);

    if (tti_needs(n, 1))
        TT_TRY(tti_give(&out[1], tt_where(condition, g[0], tt_number(0.0))));
    if (tti_needs(n, 2))
        TT_TRY(tti_give(&out[2], tt_where(condition, tt_number(0.0), g[0])));
    return TT_OK;
}

static tt_status masked_fill_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    return tti_give(&out[0], tt_masked_fill(g[0], tti_saved_get(n, 0), 0.0));
}

static const tti_op op_where = { "where", where_backward, 0 };
static const tti_op op_masked_fill = { "masked_fill", masked_fill_backward, 0 };

static tt_status check_condition(const char *name, const tt_tensor *c)
{
    if (c->dtype == TT_BOOL)
        return TT_OK;
    return TT_FAIL(TT_ERR_INVALID, "%s: expected a bool condition, got %s", name,
                   tt_dtype_name((tt_dtype)c->dtype));
}

tt_tensor *tti_empty_broadcast3(const char *name, tt_tensor *const *in, tt_dtype dtype)
{
    int64_t two[TT_MAX_DIMS], all[TT_MAX_DIMS];
    int n_two, n;

    for (int i = 0; i < 3; i++)
        if (tti_same_shape(in[i], in[(i + 1) % 3]) &&
            (in[(i + 2) % 3]->numel == 1 || tti_same_shape(in[i], in[(i + 2) % 3])) &&
            in[(i + 2) % 3]->n_dims <= in[i]->n_dims)
            return tti_empty_like(in[i], dtype);
    if (tti_broadcast(name, in[0]->dims, in[0]->n_dims, in[1]->dims, in[1]->n_dims, two, &n_two) !=
            TT_OK ||
        tti_broadcast(name, two, n_two, in[2]->dims, in[2]->n_dims, all, &n) != TT_OK)
        return NULL;
    for (int i = 0; i < 3; i++)
        if (in[i]->n_dims == n && memcmp(in[i]->dims, all, (size_t)n * sizeof *all) == 0)
            return tti_empty_like(in[i], dtype);
    return tti_empty(all, n, dtype, tti_device_of(in, 3));
}

tt_device tti_device_of(tt_tensor *const *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i] != NULL && in[i]->device.kind != TT_DEVICE_CPU)
            return in[i]->device;
    return TT_CPU;
}

tt_tensor *tt_where(tt_tensor *condition, tt_tensor *a, tt_tensor *b)
{
    tt_tensor *in[3] = { condition, a, b };
    tti_call c = { .op = &op_where, .n_in = 3, .in = in };
    tt_tensor *out;
    tt_dtype d;

    if (!tti_call_begin(&c) || check_condition("where", condition) != TT_OK)
        return NULL;
    d = tti_result_type(a, b);
    out = tti_empty_broadcast3("where", in, d);
    if (out == NULL)
        return NULL;
    if (c.wants_grad)
        tti_call_save(&c, condition);
    return tti_call_end(&c, out,
                        tti_ternary(TTI_WHERE, out, tti_operand(condition, TT_BOOL, out->device),
                                    tti_operand(a, d, out->device), tti_operand(b, d, out->device),
                                    NULL));
}

tt_tensor *tt_masked_fill(tt_tensor *x, tt_tensor *mask, double value)
{
    tt_tensor *in[2] = { x, mask };
    tti_call c = { .op = &op_masked_fill, .n_in = 2, .in = in };
    tt_tensor *out, *one;
    tt_dtype d;

    if (!tti_call_begin(&c) || check_condition("masked_fill", mask) != TT_OK)
        return NULL;
    d = (tt_dtype)x->dtype;
    if (d != TT_BOOL && tti_check_storable("masked_fill", tti_scalar_type(x, value), d) != TT_OK)
        return NULL;
    out = tti_empty_broadcast("masked_fill", x, mask, d);
    one = out != NULL ? tti_empty(NULL, 0, d, out->device) : NULL;
    if (tti_fill(one, value) != TT_OK)
        return NULL;
    if (c.wants_grad)
        tti_call_save(&c, mask);
    return tti_call_end(&c, out,
                        tti_ternary(TTI_WHERE, out, tti_operand(mask, TT_BOOL, out->device), one,
                                    tti_operand(x, d, out->device), NULL));
}
