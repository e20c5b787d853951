/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of neural networks on an accelerator against the CPU: results and gradients, with their options; and what
 * they say about bad classes and indices. */
#include "accel_nn.h"

static tt_tensor *leaf(accel_run *r, tt_shape shape, uint64_t stream)
{
    return tt_require_grad(accel_in(r, shape, stream));
}

/* out, and the gradients of a sum of it with fixed weights by n leaves. */
static tt_status with_grads(accel_run *r, tt_tensor *out, tt_tensor *const *leaves, int n)
{
    tt_tensor *g;

    TT_TRY(tti_made(out));
    r->out[r->n_out++] = tt_detach(out);
    g = accel_in(r, tt_tensor_shape(out), 99);
    TT_TRY(tt_backward_many(&out, &g, 1, NULL));
    for (int i = 0; i < n; i++)
        TT_TRY(tti_give(&r->out[r->n_out++], tt_grad_of(leaves[i])));
    return TT_OK;
}

/* ---- cross-entropy: flags 0-2: reduction, 4: weights, 8: ignored, 16: smoothed, 32: nll ------------------ */

static tt_status entropy(accel_run *r)
{
    tt_tensor *x = leaf(r, TT_SHAPE(11, 7), 1),
              *t = accel_ints(r, 11, 7, r->flags & 8 ? -100 : 0, 2);
    tt_loss_options o = { .reduction = (tt_reduction)(r->flags & 3),
                          .weight = r->flags & 4 ? accel_real(r, TT_SHAPE(7), 3) : NULL,
                          .label_smoothing = r->flags & 16 ? 0.1 : 0.0 };
    tt_tensor *out =
        r->flags & 32 ? tt_nll_loss(tt_log_softmax(x, 1), t, &o) : tt_cross_entropy_with(x, t, &o);

    return with_grads(r, out, &x, 1);
}

TT_TEST_LIMIT(accel_nn_ops, cross_entropy, 300)
{
    accel_begin(0);
    for (unsigned flags = 0; flags < 48; flags++)
        if ((flags & 3) != 3)
            accel_compare(entropy, .dtype = TT_F32, .flags = flags);
}

/* The losses are float32 then, and the result is not. */
TT_TEST_LIMIT(accel_nn_ops, cross_entropy_of_half_types, 300)
{
    accel_begin(0);
    for (unsigned flags = 0; flags < 16; flags++)
        if ((flags & 3) != 3) {
            accel_compare(entropy, .dtype = TT_F16, .flags = flags);
            accel_compare(entropy, .dtype = TT_BF16, .flags = flags);
        }
}

static tt_status images(accel_run *r)
{
    tt_tensor *x = leaf(r, TT_SHAPE(2, 3, 4, 5), 1);
    tt_tensor *t = tt_reshape(accel_ints(r, 40, 3, 0, 2), TT_SHAPE(2, 4, 5));
    tt_loss_options o = { .has_ignore_index = true,
                          .ignore_index = 1,
                          .reduction = (tt_reduction)r->flags };

    return with_grads(r, tt_cross_entropy_with(x, t, &o), &x, 1);
}

TT_TEST_LIMIT(accel_nn_ops, cross_entropy_of_images, 300)
{
    accel_begin(0);
    for (unsigned reduction = 0; reduction < 3; reduction++)
        accel_compare(images, .dtype = TT_F32, .flags = reduction);
}

TT_TEST_LIMIT(accel_nn_ops, bad_classes_are_reported, 300)
{
    const int64_t bad[][2] = { { 1, 5 }, { -1, 0 } };
    tt_device d = tt_cl(0);
    accel_run r = { .d = d, .dtype = TT_F32 };

    accel_begin(0);

    for (int i = 0; i < 2; i++) {
        tt_tensor *t = accel_put(tt_from_data(bad[i], TT_SHAPE(2), TT_I64), d);
        tt_tensor *x = leaf(&r, TT_SHAPE(2, 5), 1);

        TT_CHECK_OK(tt_backward(tt_cross_entropy(x, t)));
        TT_CHECK_ERR_SAYS(tt_device_sync(d), TT_ERR_INVALID, "cross_entropy: index");
        TT_CHECK_NOT_NULL(tt_nll_loss(x, t, NULL));
        TT_CHECK_ERR_SAYS(tt_device_sync(d), TT_ERR_INVALID, "nll_loss: index");
    }
    TT_CHECK_OK(tt_device_sync(d));
}

/* Its gradient has one, too. */
static tt_status twice(accel_run *r)
{
    tt_tensor *x = leaf(r, TT_SHAPE(4, 3), 1), *t = accel_ints(r, 4, 3, -100, 2), *g = NULL;
    tt_tensor *loss = tt_cross_entropy(x, t);
    tt_grad_options o = { .create_graph = true };

    TT_TRY(tt_grad(&loss, 1, &x, 1, &o, &g));
    return with_grads(r, g, &x, 1);
}

TT_TEST_LIMIT(accel_nn_ops, the_gradient_of_the_gradient, 300)
{
    accel_begin(0);
    accel_compare(twice, .dtype = TT_F64);
}

/* ---- embeddings -------------------------------------------------------------------------------------------- */

static tt_status look_up(accel_run *r)
{
    tt_tensor *w = leaf(r, TT_SHAPE(6, 5), 1);
    tt_tensor *at = tt_reshape(accel_ints(r, 12, 6, 0, 2), TT_SHAPE(3, 4));
    tt_embedding_options o = { .has_padding_idx = r->flags != 0, .padding_idx = -2 };

    return with_grads(r, tt_embedding(w, at, &o), &w, 1);
}

TT_TEST_LIMIT(accel_nn_ops, embedding, 300)
{
    accel_begin(0);
    for (int t = 0; t < accel_types; t++)
        for (unsigned flags = 0; flags < 2; flags++)
            accel_compare(look_up, .dtype = accel_floats[t], .flags = flags);
}

/* flags 0-2: mode, 4: padding, 8: offsets, 16: weights per sample, 32: sparse */
static tt_status bag(accel_run *r)
{
    static const int64_t starts[3] = { 0, 5, 5 };
    tt_tensor *leaves[2] = { leaf(r, TT_SHAPE(6, 5), 1), NULL };
    bool flat = (r->flags & 8) != 0;
    tt_shape shape = flat ? TT_SHAPE(12) : TT_SHAPE(3, 4);
    tt_tensor *at = tt_reshape(accel_ints(r, 12, 6, 0, 2), shape);
    tt_tensor *offsets = flat ? accel_put(tt_from_data(starts, TT_SHAPE(3), TT_I64), r->d) : NULL;
    tt_bag_options o = { .mode = (tt_bag_mode)(r->flags & 3),
                         .has_padding_idx = (r->flags & 4) != 0,
                         .padding_idx = 1,
                         .sparse_grad = (r->flags & 32) != 0 };
    tt_tensor *out;

    if (r->flags & 16)
        o.per_sample_weights = leaves[1] = leaf(r, shape, 3);
    if (!o.sparse_grad)
        return with_grads(r, tt_embedding_bag(leaves[0], at, offsets, &o), leaves,
                          leaves[1] ? 2 : 1);
    out = tt_sum(tt_embedding_bag(leaves[0], at, offsets, &o));
    TT_TRY(tti_made(out));
    TT_TRY(tt_backward(out));
    return tti_give(&r->out[r->n_out++], tt_to_dense(tt_grad_of(leaves[0])));
}

TT_TEST_LIMIT(accel_nn_ops, embedding_bag, 300)
{
    accel_begin(0);
    for (unsigned flags = 0; flags < 64; flags++) {
        unsigned mode = flags & 3;

        if (mode == 3 || ((flags & 16) != 0 && mode != TT_BAG_SUM) ||
            ((flags & 32) != 0 && mode == TT_BAG_MAX))
            continue;
        accel_compare(bag, .dtype = TT_F32, .flags = flags);
    }
}

/* ---- norms ------------------------------------------------------------------------------------------------- */

static tt_status batch(accel_run *r)
{
    tt_tensor *leaves[3] = { leaf(r, TT_SHAPE(3, 4, 5), 1), leaf(r, TT_SHAPE(4), 2),
                             leaf(r, TT_SHAPE(4), 3) };
    tt_tensor *mean = accel_real(r, TT_SHAPE(4), 4), *var = accel_real(r, TT_SHAPE(4), 5);
    tt_batch_norm_options o = { mean, var, 0.3, 1e-5, r->flags != 0 };

    TT_TRY(with_grads(r, tt_batch_norm(leaves[0], leaves[1], leaves[2], &o), leaves, 3));
    r->out[r->n_out++] = mean;
    r->out[r->n_out++] = var;
    return TT_OK;
}

static tt_status group(accel_run *r)
{
    tt_tensor *leaves[3] = { leaf(r, TT_SHAPE(3, 4, 5), 1), leaf(r, TT_SHAPE(4), 2),
                             leaf(r, TT_SHAPE(4), 3) };

    return with_grads(r, tt_group_norm(leaves[0], 2, leaves[1], leaves[2], 1e-5), leaves, 3);
}

static tt_status layer(accel_run *r)
{
    tt_tensor *leaves[3] = { leaf(r, TT_SHAPE(3, 4, 5), 1), leaf(r, TT_SHAPE(4, 5), 2),
                             leaf(r, TT_SHAPE(4, 5), 3) };

    if (r->flags != 0)
        return with_grads(r, tt_rms_norm(leaves[0], 2, leaves[1], 1e-5), leaves, 2);
    return with_grads(r, tt_layer_norm(leaves[0], 2, leaves[1], leaves[2], 1e-5), leaves, 3);
}

TT_TEST_LIMIT(accel_nn_ops, norms, 300)
{
    accel_begin(0);
    for (unsigned flags = 0; flags < 2; flags++) {
        accel_compare(batch, .dtype = TT_F32, .flags = flags);
        accel_compare(layer, .dtype = TT_F32, .flags = flags);
    }
    accel_compare(group, .dtype = TT_F32);
}

/* ---- random numbers ---------------------------------------------------------------------------------------- */

static tt_status drop(accel_run *r)
{
    tt_generator *gen = tt_generator_new(7);
    tt_tensor *x = leaf(r, TT_SHAPE(33, 3), 1);
    tt_status st = with_grads(r, tt_dropout(x, 0.4, true, gen), &x, 1);

    tt_generator_free(gen);
    return st;
}

static tt_status attend(accel_run *r)
{
    tt_generator *gen = tt_generator_new(7);
    tt_tensor *leaves[3] = { leaf(r, TT_SHAPE(2, 3, 5, 4), 1), leaf(r, TT_SHAPE(2, 3, 6, 4), 2),
                             leaf(r, TT_SHAPE(2, 3, 6, 8), 3) };
    tt_attention_options o = { .dropout_p = 0.3, .generator = gen, .causal = r->flags & 1 };
    tt_status st;

    if (r->flags & 2)
        o.mask = accel_in(r, TT_SHAPE(5, 6), 4);
    st = with_grads(r, tt_attention(leaves[0], leaves[1], leaves[2], &o), leaves, 3);
    tt_generator_free(gen);
    return st;
}

TT_TEST_LIMIT(accel_nn_ops, the_same_random_numbers, 300)
{
    accel_begin(0);
    accel_compare_tol("drop", drop, (accel_run){ .dtype = TT_F32 }, 0.0);
    for (unsigned flags = 0; flags < 4; flags++)
        accel_compare(attend, .dtype = TT_F32, .flags = flags);
}

TT_TEST_LIMIT(accel_nn_ops, integers_are_for_the_cpu, 300)
{
    tt_pool_options two = { .kernel = { 2, 2 } };

    accel_begin(0);
    TT_SCOPE {
        tt_tensor *x = tt_to_device(tt_ones(TT_SHAPE(1, 1, 4, 4), TT_I32, TT_CPU), tt_cl(0));

        TT_CHECK_NULL(tt_max_pool2d(x, &two, NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
        TT_CHECK_CONTAINS(tt_last_error(), "max_pool2d: no int32 kernel on cl:0");
        TT_CHECK_NULL(tt_conv2d(x, x, NULL, NULL));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
        TT_CHECK_CONTAINS(tt_last_error(), "conv2d: no int32 kernel on cl:0");
    }
}
