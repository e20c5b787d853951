/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm, RMSNorm and GroupNorm. */
#include <float.h>
#include <stdio.h>

#include "nn/layers/layer.h"

typedef struct norm {
    tt_shape shape; /* of what is normalised together */
    int64_t groups, channels;
    double eps; /* RMSNorm: 0: of the type it computes in */
    bool no_affine;
} norm;

static const norm *data(const tt_module *m)
{
    return m->data;
}

static tt_tensor *layer_norm_forward(tt_module *m, tt_tensor *x)
{
    return tt_layer_norm(x, data(m)->shape.n_dims, tt_module_param_at(m, 0),
                         tt_module_param_at(m, 1), data(m)->eps);
}

static bool is_wide(tt_dtype d)
{
    return d == TT_F64 || d == TT_C128;
}

static tt_tensor *rms_norm_forward(tt_module *m, tt_tensor *x)
{
    double eps = data(m)->eps;

    if (eps == 0)
        eps = x != NULL && is_wide(tt_tensor_dtype(x)) ? DBL_EPSILON : FLT_EPSILON;
    return tt_rms_norm(x, data(m)->shape.n_dims, tt_module_param_at(m, 0), eps);
}

static tt_tensor *group_norm_forward(tt_module *m, tt_tensor *x)
{
    return tt_group_norm(x, data(m)->groups, tt_module_param_at(m, 0), tt_module_param_at(m, 1),
                         data(m)->eps);
}

/* "(2, 3)", and "(4,)" for one dimension. */
static int add_shape(char *text, size_t size, tt_shape shape)
{
    int n = snprintf(text, size, "(");

    for (int i = 0; i < shape.n_dims; i++)
        n += snprintf(text + n, size - (size_t)n, i == 0 ? "%lld" : ", %lld",
                      (long long)shape.dims[i]);
    return n + snprintf(text + n, size - (size_t)n, shape.n_dims == 1 ? ",)" : ")");
}

/* The second parameter, in PyTorch's words. */
static const char *has_bias(const tt_module *m)
{
    return tt_module_param_at(m, 1) != NULL ? "True" : "False";
}

static int describe_rms(const tt_module *m, char *text, size_t size)
{
    const norm *d = data(m);
    int n = add_shape(text, size, d->shape);

    if (d->eps == 0)
        n += snprintf(text + n, size - (size_t)n, ", eps=None");
    else
        n += snprintf(text + n, size - (size_t)n, ", eps=%g", d->eps);
    return n + snprintf(text + n, size - (size_t)n, ", elementwise_affine=%s",
                        d->no_affine ? "False" : "True");
}

static int describe(const tt_module *m, char *text, size_t size)
{
    int n = describe_rms(m, text, size);

    return n + snprintf(text + n, size - (size_t)n, ", bias=%s", has_bias(m));
}

static int describe_group(const tt_module *m, char *text, size_t size)
{
    const norm *d = data(m);

    return snprintf(text, size, "%lld, %lld, eps=%g, affine=%s, bias=%s", (long long)d->groups,
                    (long long)d->channels, d->eps, d->no_affine ? "False" : "True", has_bias(m));
}

static const tt_module_class layer_norm_class = { .name = "LayerNorm",
                                                  .data_size = sizeof(norm),
                                                  .forward = layer_norm_forward,
                                                  .describe = describe };
static const tt_module_class rms_norm_class = { .name = "RMSNorm",
                                                .data_size = sizeof(norm),
                                                .forward = rms_norm_forward,
                                                .describe = describe_rms };
static const tt_module_class group_norm_class = { .name = "GroupNorm",
                                                  .data_size = sizeof(norm),
                                                  .forward = group_norm_forward,
                                                  .describe = describe_group };

static tt_status add_params(tt_module *m, tt_shape shape, bool weight, bool bias)
{
    TT_TRY(weight ? tti_layer_filled(m, "weight", shape, 1) : tt_module_add_no_param(m, "weight"));
    return bias ? tti_layer_filled(m, "bias", shape, 0) : tt_module_add_no_param(m, "bias");
}

static tt_module *norm_new(const tt_module_class *cls, const norm *d, tt_shape shape, bool bias)
{
    tt_module *m;

    for (int i = 0; i < shape.n_dims; i++)
        if (tti_layer_check(cls->name, "sizes", shape.dims[i], 1) != TT_OK)
            return NULL;
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    *(norm *)m->data = *d;
    return tti_layer_done(m, add_params(m, shape, !d->no_affine, bias));
}

static tt_norm_options resolve(const tt_norm_options *opt, double eps)
{
    tt_norm_options o = opt != NULL ? *opt : (tt_norm_options){ 0 };

    if (!(o.eps > 0))
        o.eps = eps;
    return o;
}

tt_module *tt_layer_norm_new(tt_shape last_dims, const tt_norm_options *opt)
{
    tt_norm_options o = resolve(opt, 1e-5);
    norm d = { .shape = last_dims, .eps = o.eps, .no_affine = o.no_affine };

    return norm_new(&layer_norm_class, &d, last_dims, !o.no_affine && !o.no_bias);
}

tt_module *tt_rms_norm_new(tt_shape last_dims, const tt_norm_options *opt)
{
    tt_norm_options o = resolve(opt, 0);
    norm d = { .shape = last_dims, .eps = o.eps, .no_affine = o.no_affine };

    return norm_new(&rms_norm_class, &d, last_dims, false);
}

tt_module *tt_group_norm_new(int64_t groups, int64_t channels, const tt_norm_options *opt)
{
    tt_norm_options o = resolve(opt, 1e-5);
    norm d = { .groups = groups, .channels = channels, .eps = o.eps, .no_affine = o.no_affine };

    if (tti_layer_check("GroupNorm", "groups", groups, 1) != TT_OK)
        return NULL;
    if (channels % groups != 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "GroupNorm: expected channels that %lld groups divide, got %lld",
                            (long long)groups, (long long)channels);
    return norm_new(&group_norm_class, &d, TT_SHAPE(channels), !o.no_affine);
}
