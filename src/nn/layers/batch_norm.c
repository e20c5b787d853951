/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNorm1d, 2d and 3d: parameters weight and bias; buffers running_mean, running_var and
 * num_batches_tracked. */
#include <stdio.h>

#include "nn/layers/layer.h"

static tt_status check_input(const tt_batch_norm_info *d, const tt_tensor *x)
{
    int dims = x->n_dims;
    bool fits = d->n_dims == 1 ? dims == 2 || dims == 3 : dims == d->n_dims + 2;

    if (!fits)
        return TT_FAIL(TT_ERR_INVALID, "BatchNorm%dd: expected %s dimensions, got shape %s",
                       d->n_dims,
                       d->n_dims == 1   ? "2 or 3"
                       : d->n_dims == 2 ? "4"
                                        : "5",
                       TTI_SHAPE_OF(x));
    if (x->dims[1] != d->channels)
        return TT_FAIL(TT_ERR_INVALID, "BatchNorm%dd: expected %lld channels, got shape %s",
                       d->n_dims, (long long)d->channels, TTI_SHAPE_OF(x));
    return TT_OK;
}

double tti_batch_norm_count(tt_module *m, double momentum)
{
    tt_tensor *n = tt_module_buffer_at(m, 2);

    if (n == NULL)
        return momentum < 0 ? 0 : momentum;
    TT_NO_GRAD
    {
        if (tt_add_scalar_(n, 1) == NULL)
            return -1;
    }
    return momentum < 0 ? 1 / (double)tt_item_int(n) : momentum;
}

static tt_tensor *forward(tt_module *m, tt_tensor *x)
{
    const tt_batch_norm_info *d = m->data;
    bool own_stats = tt_module_buffer_at(m, 0) == NULL;
    tt_batch_norm_options o = {
        .running_mean = tt_module_buffer_at(m, 0),
        .running_var = tt_module_buffer_at(m, 1),
        .eps = d->options.eps,
        .momentum = d->options.momentum,
        .training = m->training || own_stats,
    };

    if (check_input(d, x) != TT_OK)
        return NULL;
    if (m->training && !own_stats) {
        o.momentum = tti_batch_norm_count(m, d->options.momentum);
        if (o.momentum < 0)
            return NULL;
    }
    return tt_batch_norm(x, tt_module_param_at(m, 0), tt_module_param_at(m, 1), &o);
}

int tti_batch_norm_describe(const tt_batch_norm_info *d, char *text, size_t size)
{
    const char *affine = d->options.no_affine ? "False" : "True"; /* which is weight and bias */
    char momentum[32] = "None";

    if (!(d->options.momentum < 0))
        snprintf(momentum, sizeof momentum, "%g", d->options.momentum);
    return snprintf(text, size,
                    "%lld, eps=%g, momentum=%s, affine=%s, bias=%s, track_running_stats=%s",
                    (long long)d->channels, d->options.eps, momentum, affine, affine,
                    d->options.no_running_stats ? "False" : "True");
}

static int describe(const tt_module *m, char *text, size_t size)
{
    return tti_batch_norm_describe(m->data, text, size);
}

static const tt_module_class classes[] = {
    { .name = "BatchNorm1d",
      .data_size = sizeof(tt_batch_norm_info),
      .forward = forward,
      .describe = describe },
    { .name = "BatchNorm2d",
      .data_size = sizeof(tt_batch_norm_info),
      .forward = forward,
      .describe = describe },
    { .name = "BatchNorm3d",
      .data_size = sizeof(tt_batch_norm_info),
      .forward = forward,
      .describe = describe },
};

static tt_status add_stats(tt_module *m, int64_t channels)
{
    TT_SCOPE {
        TT_TRY(
            tt_module_add_buffer(m, "running_mean", tt_zeros(TT_SHAPE(channels), TT_F32, TT_CPU)));
        TT_TRY(tt_module_add_buffer(m, "running_var", tt_ones(TT_SHAPE(channels), TT_F32, TT_CPU)));
        TT_TRY(tt_module_add_buffer(m, "num_batches_tracked",
                                    tt_zeros(TT_SHAPE_SCALAR, TT_I64, TT_CPU)));
    }
    return TT_OK;
}

static tt_status add_all(tt_module *m, const tt_batch_norm_info *d)
{
    tt_shape shape = TT_SHAPE(d->channels);

    if (d->options.no_affine) {
        TT_TRY(tt_module_add_no_param(m, "weight"));
        TT_TRY(tt_module_add_no_param(m, "bias"));
    } else {
        TT_TRY(tti_layer_filled(m, "weight", shape, 1));
        TT_TRY(tti_layer_filled(m, "bias", shape, 0));
    }
    if (!d->options.no_running_stats)
        return add_stats(m, d->channels);
    TT_TRY(tt_module_add_no_buffer(m, "running_mean"));
    TT_TRY(tt_module_add_no_buffer(m, "running_var"));
    return tt_module_add_no_buffer(m, "num_batches_tracked");
}

static tt_module *batch_norm_new(int n_dims, int64_t channels, const tt_norm_options *opt)
{
    tt_batch_norm_info d = { .channels = channels, .n_dims = n_dims };
    const tt_module_class *cls = &classes[n_dims - 1];
    tt_module *m;

    if (tti_layer_check(cls->name, "num_features", channels, 1) != TT_OK)
        return NULL;
    if (opt != NULL)
        d.options = *opt;
    if (!(d.options.eps > 0))
        d.options.eps = 1e-5;
    if (!(d.options.momentum > 0 || d.options.momentum < 0))
        d.options.momentum = 0.1;
    m = tt_module_new(cls);
    if (m == NULL)
        return NULL;
    *(tt_batch_norm_info *)m->data = d;
    return tti_layer_done(m, add_all(m, &d));
}

tt_module *tt_batch_norm1d_new(int64_t channels, const tt_norm_options *opt)
{
    return batch_norm_new(1, channels, opt);
}

tt_module *tt_batch_norm2d_new(int64_t channels, const tt_norm_options *opt)
{
    return batch_norm_new(2, channels, opt);
}

tt_module *tt_batch_norm3d_new(int64_t channels, const tt_norm_options *opt)
{
    return batch_norm_new(3, channels, opt);
}

bool tt_module_is_batch_norm(const tt_module *m, tt_batch_norm_info *info_p)
{
    if (m == NULL || m->cls < classes || m->cls >= classes + 3)
        return false;
    if (info_p != NULL)
        *info_p = *(const tt_batch_norm_info *)m->data;
    return true;
}
