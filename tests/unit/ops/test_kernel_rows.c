/* SPDX-License-Identifier: Apache-2.0 */
/* A device that has only some kernels: whoever needs another one gets an error that names operator and device. */
#include <tutti/testing.h>
#include <tutti/tutti.h>

#include "ops/kernels.h"

/* What operators are tried with, made while the row is whole. */
typedef struct row_inputs {
    tt_tensor *x, *w;         /* [2, 4, 4, 4], require a gradient */
    tt_tensor *m;             /* [4, 4], requires a gradient */
    tt_tensor *channel;       /* [4] */
    tt_tensor *index, *class; /* int64 [4, 4], [4] */
    tt_tensor *mask;          /* bool [4, 4] */
} row_inputs;

typedef tt_tensor *(*row_try)(row_inputs *in);

static tt_tensor *leaf(tt_shape shape)
{
    tt_tensor *t = tt_rand(shape, TT_F32, TT_CPU);

    TT_CHECK_OK(tt_set_requires_grad(t, true));
    return t;
}

static void make_inputs(row_inputs *in)
{
    in->x = leaf(TT_SHAPE(2, 4, 4, 4));
    in->w = leaf(TT_SHAPE(2, 4, 4, 4));
    in->m = leaf(TT_SHAPE(4, 4));
    in->channel = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);
    in->index = tt_zeros(TT_SHAPE(4, 4), TT_I64, TT_CPU);
    in->class = tt_zeros(TT_SHAPE(4), TT_I64, TT_CPU);
    in->mask = tt_ones(TT_SHAPE(4, 4), TT_BOOL, TT_CPU);
}

#define TRY(name, call)                          \
    static tt_tensor *try_##name(row_inputs *in) \
    {                                            \
        (void)in;                                \
        return call;                             \
    }
static const tt_pool_options window = { .kernel = { 2, 2 } };
static const tt_batch_norm_options training = { .training = true };

TRY(add, tt_add(in->x, in->w))
TRY(neg, tt_neg(in->x))
TRY(where, tt_where(in->mask, in->m, in->m))
TRY(zeros, tt_zeros(TT_SHAPE(2), TT_F32, TT_CPU))
TRY(arange, tt_arange(0, 3, 1, TT_F32, TT_CPU))
TRY(cast, tt_to_dtype(in->x, TT_F64))
TRY(sum, tt_sum(in->x))
TRY(argmax, tt_argmax(in->x))
TRY(cumsum, tt_cumsum(in->x, 0))
TRY(sort, tt_sort(in->x, 0, false, NULL))
TRY(topk, tt_topk(in->x, 1, 0, true, NULL))
TRY(matmul, tt_matmul(in->m, in->m))
TRY(linear, tt_linear(in->m, in->m, in->channel))
TRY(index_select, tt_index_select(in->m, 0, in->class))
TRY(gather, tt_gather(in->m, 0, in->index))
TRY(tril, tt_tril(in->m, 0))
TRY(masked_select, tt_masked_select(in->m, in->mask))
TRY(nonzero, tt_nonzero(in->m))
TRY(one_hot, tt_one_hot(in->class, 3))
TRY(rand, tt_rand(TT_SHAPE(3), TT_F32, TT_CPU))
TRY(softmax, tt_softmax(in->m, 0))
TRY(cross_entropy, tt_cross_entropy(in->m, in->class))
TRY(mse_loss, tt_mse_loss(in->x, in->w))
TRY(layer_norm, tt_layer_norm(in->x, 1, in->channel, NULL, 1e-5))
TRY(group_norm, tt_group_norm(in->x, 2, in->channel, NULL, 1e-5))
TRY(batch_norm, tt_batch_norm(in->x, in->channel, NULL, &training))
TRY(conv2d, tt_conv2d(in->x, in->w, NULL, NULL))
TRY(conv_transpose2d, tt_conv_transpose2d(tt_narrow(in->x, 1, 0, 2), in->w, NULL, NULL))
TRY(max_pool2d, tt_max_pool2d(in->x, &window, NULL))
TRY(avg_pool2d, tt_avg_pool2d(in->x, &window))
TRY(adaptive_avg_pool2d, tt_adaptive_avg_pool2d(in->x, 3, 3))
TRY(adaptive_max_pool2d, tt_adaptive_max_pool2d(in->x, 3, 3, NULL))
TRY(embedding, tt_embedding(in->m, in->class, NULL))
TRY(embedding_bag, tt_embedding_bag(in->m, in->index, NULL, NULL))
TRY(attention, tt_attention(in->x, in->w, in->w, NULL))
TRY(dropout, tt_dropout(in->x, 0.5, true, NULL))

static const row_try tries[] = {
    try_add,
    try_neg,
    try_where,
    try_zeros,
    try_arange,
    try_cast,
    try_sum,
    try_argmax,
    try_cumsum,
    try_sort,
    try_topk,
    try_matmul,
    try_linear,
    try_index_select,
    try_gather,
    try_tril,
    try_masked_select,
    try_nonzero,
    try_one_hot,
    try_rand,
    try_softmax,
    try_cross_entropy,
    try_mse_loss,
    try_layer_norm,
    try_group_norm,
    try_batch_norm,
    try_conv2d,
    try_conv_transpose2d,
    try_max_pool2d,
    try_avg_pool2d,
    try_adaptive_avg_pool2d,
    try_adaptive_max_pool2d,
    try_embedding,
    try_embedding_bag,
    try_attention,
    try_dropout,
};
#define N_TRIES ((int)(sizeof tries / sizeof tries[0]))

/* Tables whose slots are all NULL, and no tables at all. */
static const tti_pointwise_kernels no_pointwise;
static const tti_reduce_kernels no_reduce;
static const tti_linalg_kernels no_linalg;
static const tti_index_kernels no_index;
static const tti_nn_kernels no_nn;
static const tti_random_kernels no_random;
static const tti_optim_kernels no_optim;
static const tti_kernels empty_slots = { "cpu",     &no_pointwise, &no_reduce, &no_linalg,
                                         &no_index, &no_nn,        &no_random, &no_optim };
static const tti_kernels empty_row = { .device = "cpu" };

static void use_row(const tti_kernels *row)
{
    tti_kernel_rows[TT_DEVICE_CPU] = row;
}

static void check_refused(void)
{
    TT_CHECK_EQ(tt_last_status(), TT_ERR_UNSUPPORTED);
    TT_CHECK_CONTAINS(tt_last_error(), "kernel on cpu");
}

static void check_forward(const tti_kernels *row)
{
    row_inputs in;

    for (int i = 0; i < N_TRIES; i++)
        TT_SCOPE {
            tt_tensor *y;

            make_inputs(&in);
            use_row(row);
            tt_clear_error();
            y = tries[i](&in);
            use_row(&tti_kernels_cpu);
            if (!TT_CHECK(y == NULL))
                TT_NOTE("operator %d of the list", i);
            check_refused();
        }
}

TT_TEST(kernel_rows, operators_name_what_is_missing)
{
    check_forward(&empty_slots);
    check_forward(&empty_row);
}

TT_TEST(kernel_rows, gradients_name_what_is_missing)
{
    row_inputs in;

    for (int i = 0; i < N_TRIES; i++)
        TT_SCOPE {
            tt_tensor *y, *seed;
            tt_status st;

            make_inputs(&in);
            y = tries[i](&in);
            if (y == NULL || !tt_requires_grad(y))
                continue;
            seed = tt_ones_like(y);
            use_row(&empty_slots);
            tt_clear_error();
            st = tt_backward_many(&y, &seed, 1, NULL);
            use_row(&tti_kernels_cpu);
            if (tries[i] == try_add || tries[i] == try_sum) /* copies of the gradient do */
                continue;
            if (!TT_CHECK_EQ(st, TT_ERR_UNSUPPORTED))
                TT_NOTE("operator %d of the list", i);
            check_refused();
        }
}

TT_TEST(kernel_rows, optimizers_name_what_is_missing)
{
    TT_SCOPE {
        tt_tensor *p = leaf(TT_SHAPE(3));
        tt_optim *os[] = { tt_sgd_new(&p, 1, NULL), tt_adam_new(&p, 1, NULL),
                           tt_adagrad_new(&p, 1, NULL), tt_rmsprop_new(&p, 1, NULL) };

        TT_CHECK_OK(tt_backward(tt_sum(tt_square(p))));
        for (int i = 0; i < 4; i++) {
            use_row(&empty_slots);
            TT_CHECK_EQ(tt_optim_step(os[i]), TT_ERR_UNSUPPORTED);
            use_row(&tti_kernels_cpu);
            check_refused();
            tt_optim_free(os[i]);
        }
        use_row(&empty_slots);
        TT_CHECK_EQ(tt_clip_grad_norm(&p, 1, 1.0, NULL, NULL), TT_ERR_UNSUPPORTED);
        TT_CHECK_EQ(tt_clip_grad_value(&p, 1, 1.0), TT_ERR_UNSUPPORTED);
        use_row(&tti_kernels_cpu);
        check_refused();
    }
}
