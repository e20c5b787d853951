/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings in training: sparse gradients train to the same weights as dense ones, a padding row never
 * moves, and indices outside of the table are refused. Bilinear's two inputs have to agree. */
#include "tutti/optim.h"
#include "unit/nn/nn_data.h"

enum { ROWS = 9, WIDTH = 3, STEPS = 20 };

typedef tt_optim *(*optim_fn)(tt_tensor *const *params, int n);

static tt_optim *sgd(tt_tensor *const *params, int n)
{
    return tt_sgd_new(params, n, &(tt_sgd_options){ .lr = 0.1 });
}

static tt_optim *adagrad(tt_tensor *const *params, int n)
{
    return tt_adagrad_new(params, n, &(tt_adagrad_options){ .lr = 0.1, .lr_decay = 0.05 });
}

/* Rows 2 and 5 repeat within a step, row 8 is never used. */
static tt_tensor *indices(int step)
{
    return tt_reshape(TT_INTS(2, step % 8, 5, 2, (3 * step) % 8, 5), TT_SHAPE(2, 3));
}

static tt_module *make(bool bag, bool sparse, bool padding)
{
    tt_module *m;

    if (bag)
        m = tt_embedding_bag_new(ROWS, WIDTH, &(tt_bag_options){ .sparse_grad = sparse });
    else
        m = tt_embedding_new(ROWS, WIDTH,
                             &(tt_embedding_options){ .sparse_grad = sparse,
                                                      .has_padding_idx = padding,
                                                      .padding_idx = 5 });
    TT_REQUIRE_NOT_NULL(m);
    nn_fill_params(m);
    return m;
}

static void train(tt_module *m, optim_fn fn, bool sparse)
{
    tt_tensor *w = tt_module_param(m, "weight");
    tt_optim *o = fn(&w, 1);

    TT_REQUIRE_NOT_NULL(o);
    for (int step = 0; step < STEPS; step++) {
        TT_SCOPE {
            tt_tensor *y = tt_module_forward(m, indices(step));

            TT_REQUIRE_NOT_NULL(y);
            TT_REQUIRE_OK(tt_backward(tt_sum(tt_square(tt_sub_scalar(y, 0.7)))));
            TT_CHECK_EQ(tt_tensor_is_sparse(tt_grad_of(w)), sparse);
            TT_REQUIRE_OK(tt_optim_step(o));
            TT_REQUIRE_OK(tt_optim_zero_grad(o, false));
        }
    }
    tt_optim_free(o);
}

TT_TEST(embedding_training, sparse_gradients_train_as_dense_ones_do)
{
    static const optim_fn fns[] = { sgd, adagrad };

    for (int i = 0; i < 8; i++) {
        bool bag = i & 1, padding = i & 2;
        tt_module *dense = make(bag, false, padding), *sparse = make(bag, true, padding);
        tt_module *before = make(bag, false, padding);

        train(dense, fns[i >> 2], false);
        train(sparse, fns[i >> 2], true);
        TT_SCOPE {
            tt_tensor *a = tt_detach(tt_module_param(dense, "weight"));
            tt_tensor *b = tt_detach(tt_module_param(sparse, "weight"));
            tt_tensor *c = tt_detach(tt_module_param(before, "weight"));

            TT_CHECK(tt_allclose(a, b, &(tt_close_options){ .rtol = 1e-5, .atol = 1e-6 }));
            for (int row = 0; row < ROWS; row++)
                TT_CHECK_EQ(tt_equal(tt_select(a, 0, row), tt_select(c, 0, row)),
                            row == 8 || (!bag && padding && row == 5));
        }
        tt_module_free(dense);
        tt_module_free(sparse);
        tt_module_free(before);
    }
}

TT_TEST(embedding_training, indices_outside_of_the_table_are_refused)
{
    for (int bag = 0; bag < 2; bag++) {
        tt_module *m = make(bag, false, false);

        TT_SCOPE {
            TT_CHECK_NULL(tt_module_forward(m, tt_reshape(TT_INTS(0, 9), TT_SHAPE(1, 2))));
            TT_CHECK_CONTAINS(tt_last_error(), "9");
            TT_CHECK_NULL(tt_module_forward(m, tt_reshape(TT_INTS(0, -1), TT_SHAPE(1, 2))));
            TT_CHECK_CONTAINS(tt_last_error(), "-1");
        }
        tt_module_free(m);
    }
}

TT_TEST(bilinear, inputs_have_to_agree_but_for_the_last_dimension)
{
    tt_module *m = tt_bilinear_new(4, 2, 3, NULL);

    TT_SCOPE {
        tt_tensor *x = nn_tensor(TT_SHAPE(2, 3, 4), 1);

        TT_CHECK_NOT_NULL(tt_bilinear_forward(m, x, nn_tensor(TT_SHAPE(2, 3, 2), 2)));
        TT_CHECK_NULL(tt_bilinear_forward(m, x, nn_tensor(TT_SHAPE(3, 2, 2), 2)));
        TT_CHECK_CONTAINS(tt_last_error(), "got [2, 3, 4] and [3, 2, 2]");
        TT_CHECK_NULL(tt_bilinear_forward(m, x, nn_tensor(TT_SHAPE(2, 3, 4), 2)));
        TT_CHECK_NULL(tt_bilinear_forward(m, x, nn_tensor(TT_SHAPE(6, 2), 2)));
    }
    tt_module_free(m);
}
