/* SPDX-License-Identifier: Apache-2.0 */
/* Linear and Bilinear. */
#include <stdio.h>

#include "nn/layers/layer.h"

typedef struct linear {
    int64_t in, in2, out;
    bool no_bias;
} linear;

static tt_tensor *linear_forward(tt_module *m, tt_tensor *x)
{
    return tt_linear(x, tt_module_param_at(m, 0), tt_module_param_at(m, 1));
}

static int linear_describe(const tt_module *m, char *text, size_t size)
{
    const linear *l = m->data;

    return snprintf(text, size, "in_features=%lld, out_features=%lld, bias=%s", (long long)l->in,
                    (long long)l->out, l->no_bias ? "False" : "True");
}

static const tt_module_class linear_class = {
    .name = "Linear",
    .data_size = sizeof(linear),
    .forward = linear_forward,
    .describe = linear_describe,
};

static tt_status add_bias(tt_module *m, bool none, int64_t out, double bound)
{
    return none ? tt_module_add_no_param(m, "bias")
                : tti_layer_uniform(m, "bias", TT_SHAPE(out), bound);
}

tt_module *tt_linear_new(int64_t in, int64_t out, const tt_linear_options *opt)
{
    linear l = { .in = in, .out = out, .no_bias = opt != NULL && opt->no_bias };
    double bound = tti_layer_bound((double)in);
    tt_module *m;
    tt_status st;

    if (tti_layer_check("Linear", "in_features", in, 0) != TT_OK ||
        tti_layer_check("Linear", "out_features", out, 0) != TT_OK)
        return NULL;
    m = tt_module_new(&linear_class);
    if (m == NULL)
        return NULL;
    *(linear *)m->data = l;
    st = tti_layer_uniform(m, "weight", TT_SHAPE(out, in), bound);
    if (st == TT_OK)
        st = add_bias(m, l.no_bias, out, bound);
    return tti_layer_done(m, st);
}

/* ---- bilinear ---------------------------------------------------------------------------- */

static bool alike_but_last(tt_shape a, tt_shape b)
{
    if (a.n_dims < 1 || a.n_dims != b.n_dims)
        return false;
    for (int i = 0; i < a.n_dims - 1; i++)
        if (a.dims[i] != b.dims[i])
            return false;
    return true;
}

/* x1 A gives [N, out, in2]; times x2, summed over in2. */
static tt_tensor *bilinear(tt_module *m, tt_tensor *x1, tt_tensor *x2)
{
    const linear *l = m->data;
    tt_tensor *w = tt_module_param_at(m, 0), *b = tt_module_param_at(m, 1), *y;
    tt_shape s;

    if (x1 == NULL || x2 == NULL) {
        tti_null_given("Bilinear", "two tensors");
        return NULL;
    }
    s = tt_tensor_shape(x1);
    if (!alike_but_last(s, tt_tensor_shape(x2)) || s.dims[s.n_dims - 1] != l->in ||
        tt_tensor_size(x2, -1) != l->in2)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "Bilinear: expected inputs [..., %lld] and [..., %lld] alike but for "
                            "the last dimension, got %s and %s",
                            (long long)l->in, (long long)l->in2, TTI_SHAPE_OF(x1),
                            TTI_SHAPE_OF(x2));
    w = tt_reshape(tt_permute(w, (const int[]){ 1, 0, 2 }, 3), TT_SHAPE(l->in, l->out * l->in2));
    y = tt_matmul(tt_reshape(x1, TT_SHAPE(-1, l->in)), w);
    y = tt_mul(tt_reshape(y, TT_SHAPE(-1, l->out, l->in2)),
               tt_reshape(x2, TT_SHAPE(-1, 1, l->in2)));
    s.dims[s.n_dims - 1] = l->out;
    y = tt_reshape(tt_sum_dim(y, 2, false), s);
    return b != NULL ? tt_add(y, b) : y;
}

static tt_value *bilinear_call(tt_module *m, const tt_value *in)
{
    tt_tensor *y = bilinear(m, tti_tuple_tensor(in, 0), tti_tuple_tensor(in, 1));

    return y != NULL ? tt_value_tensor_new(y) : NULL;
}

static int bilinear_describe(const tt_module *m, char *text, size_t size)
{
    const linear *l = m->data;

    return snprintf(text, size, "in1_features=%lld, in2_features=%lld, out_features=%lld, bias=%s",
                    (long long)l->in, (long long)l->in2, (long long)l->out,
                    l->no_bias ? "False" : "True");
}

static const tt_module_class bilinear_class = {
    .name = "Bilinear",
    .data_size = sizeof(linear),
    .call = bilinear_call,
    .describe = bilinear_describe,
};

tt_module *tt_bilinear_new(int64_t in1, int64_t in2, int64_t out, const tt_linear_options *opt)
{
    double bound = tti_layer_bound((double)in1);
    tt_module *m;
    tt_status st;

    if (tti_layer_check("Bilinear", "in1_features", in1, 1) != TT_OK ||
        tti_layer_check("Bilinear", "in2_features", in2, 1) != TT_OK ||
        tti_layer_check("Bilinear", "out_features", out, 1) != TT_OK)
        return NULL;
    m = tt_module_new(&bilinear_class);
    if (m == NULL)
        return NULL;
    *(linear *)m->data = (linear){ in1, in2, out, opt != NULL && opt->no_bias };
    st = tti_layer_uniform(m, "weight", TT_SHAPE(out, in1, in2), bound);
    if (st == TT_OK)
        st = add_bias(m, opt != NULL && opt->no_bias, out, bound);
    return tti_layer_done(m, st);
}

tt_tensor *tt_bilinear_forward(tt_module *m, tt_tensor *x1, tt_tensor *x2)
{
    tt_value *in, *out;
    tt_tensor *y;

    if (tt_module_data(m, &bilinear_class) == NULL || x1 == NULL || x2 == NULL)
        return NULL;
    in = tti_tuple_of((tt_tensor *[]){ x1, x2 }, 2);
    out = in != NULL ? tt_module_call(m, in) : NULL;
    y = out != NULL ? tti_scope_keep(tt_value_as_tensor(out)) : NULL;
    tt_value_free(in);
    tt_value_free(out);
    return y;
}
