/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse gradients under tt_ddp: they stay sparse, and are the means that dense ones would be. */
#include "tutti/sparse.h"

#include "tutti/ddp.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

enum { ROWS = 20, WIDTH = 4 };

static tt_tensor *lookup_forward(tt_module *m, tt_tensor *x);

static const tt_module_class lookup_class = { .name = "Lookup", .forward = lookup_forward };

/* Rows, then a layer, so that there are dense gradients too. Rank 1 skips the rows for negative inputs. */
static tt_tensor *lookup_forward(tt_module *m, tt_tensor *x)
{
    bool skips = tt_item(tt_sum(x)) < 0;
    tt_tensor *y =
        skips ? tt_ones(TT_SHAPE(2, WIDTH), TT_F32, TT_CPU) : tt_module_run(m, "table", x);

    return tt_module_run(m, "lin", y);
}

static tt_module *lookup_new(bool sparse)
{
    tt_module *m = tt_module_new(&lookup_class);

    TT_REQUIRE_OK(tt_module_give_child(
        m, "table",
        tt_embedding_new(ROWS, WIDTH, &(tt_embedding_options){ .sparse_grad = sparse })));
    TT_REQUIRE_OK(tt_module_give_child(m, "lin", tt_linear_new(WIDTH, 3, NULL)));
    return m;
}

static void step(tt_ddp *d, tt_tensor *x)
{
    tt_tensor *y = tt_ddp_forward(d, x);

    if (y == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, y))));
}

static tt_tensor *grad_of_table(tt_ddp *d)
{
    return tt_grad_of(tt_module_param(tt_ddp_module(d), "table.weight"));
}

static bool is_sparse(tt_tensor *t)
{
    return t != NULL && tt_tensor_is_sparse(t);
}

/* Rank r looks up row r, twice, and row 7. */
static tt_tensor *rows_of_rank(void)
{
    tt_tensor *x = tt_full(TT_SHAPE(3), tt_test_rank(), TT_I64, TT_CPU);

    TT_REQUIRE_NOT_NULL(tt_fill_(tt_select(x, 0, 2), 7));
    return x;
}

static void as_dense(const tt_ddp_options *opt)
{
    tt_module *s = lookup_new(true), *m = lookup_new(false);
    tt_ddp *a = tool_wrap(s, opt), *b = tool_wrap(m, opt);
    tt_state_dict *sd = tt_module_state_dict(s);

    TT_REQUIRE_OK(tt_module_load_state_dict(m, sd, NULL, NULL));
    tt_state_dict_free(sd);
    for (int i = 0; i < 5; i++)
        TT_SCOPE {
            tt_module_zero_grad(s);
            tt_module_zero_grad(m);
            for (int k = 0; k < 1 + i % 2; k++) { /* every other time a sum of two */
                bool before = tt_ddp_set_sync(a, k == i % 2);

                tt_ddp_set_sync(b, k == i % 2);
                step(a, rows_of_rank());
                step(b, rows_of_rank());
                tt_ddp_set_sync(a, before);
                tt_ddp_set_sync(b, before);
            }
            TT_REQUIRE(is_sparse(grad_of_table(a)));
            TT_CHECK_LE(tt_sparse_nnz(grad_of_table(a)), 3 * 2 * tt_test_size());
            TT_CHECK(!is_sparse(grad_of_table(b)));
            TT_CHECK(tt_allclose(tt_to_dense(grad_of_table(a)), grad_of_table(b), NULL));
            TT_CHECK(tt_allclose(tt_grad_of(tt_module_param(s, "lin.weight")),
                                 tt_grad_of(tt_module_param(m, "lin.weight")), NULL));
        }
    tt_ddp_free(a);
    tt_ddp_free(b);
    tt_module_free(s);
    tt_module_free(m);
}

TT_TEST_THREADS(3, ddp_sparse, gradients_stay_sparse)
{
    as_dense(NULL);
    as_dense(&(tt_ddp_options){ .copy_gradients = true, .bucket_cap_mb = 1e-5 });
    as_dense(&(tt_ddp_options){ .static_graph = true });
}

TT_TEST_RANKS(2, ddp_sparse, between_processes)
{
    as_dense(&(tt_ddp_options){ .find_unused = true });
}

TT_TEST_THREADS(3, ddp_sparse, some_ranks_do_not_look_up)
{
    tt_module *m = lookup_new(true);
    tt_ddp *d = tool_wrap(m, &(tt_ddp_options){ .find_unused = true });
    tt_tensor *none = tt_full(TT_SHAPE(2), -1, TT_I64, TT_CPU), *kept, *dense;

    step(d, none);
    TT_CHECK_NULL(grad_of_table(d));
    TT_CHECK_EQ(tt_ddp_n_users(d, 0), 0);
    step(d, tt_test_rank() == 1 ? rows_of_rank() : none);
    TT_REQUIRE(is_sparse(grad_of_table(d)));
    TT_CHECK_EQ(tt_ddp_n_users(d, 0), 1);
    kept = tt_to_dense(grad_of_table(d));
    dense = tt_clone(kept);
    TT_REQUIRE_OK(tt_pg_broadcast(tt_test_pg(), dense, 1, NULL, NULL));
    TT_CHECK(tt_equal(kept, dense));
    TT_CHECK(tt_item(tt_sum(tt_abs(tt_select(dense, 0, 1)))) > 0);
    TT_CHECK_NEAR(tt_item(tt_sum(tt_abs(tt_select(dense, 0, 2)))), 0, 0);
    step(d, none); /* nobody again: it stays */
    TT_CHECK(tt_equal(tt_to_dense(grad_of_table(d)), kept));
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_THREADS(2, ddp_sparse, an_optimizer_for_sparse_gradients_follows)
{
    tt_module *m = lookup_new(true);
    tt_tensor *w = tt_module_param(m, "table.weight"), *before, *first;
    tt_ddp *d = tool_wrap(m, NULL);
    tt_optim *opt = tt_sparse_adam_new(&w, 1, NULL);

    TT_REQUIRE_NOT_NULL(opt);
    before = tt_clone(tt_detach(w));
    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            tt_module_zero_grad(m);
            step(d, rows_of_rank());
            TT_REQUIRE_OK(tt_optim_step(opt));
        }
    first = tt_clone(tt_detach(w));
    TT_REQUIRE_OK(tt_pg_broadcast(tt_test_pg(), first, 0, NULL, NULL));
    TT_CHECK(tt_equal(first, tt_detach(w)));
    TT_CHECK(!tt_equal(tt_select(before, 0, 1), tt_select(first, 0, 1)));
    TT_CHECK(tt_equal(tt_select(before, 0, 12), tt_select(first, 0, 12)));
    tt_optim_free(opt);
    tt_ddp_free(d);
    tt_module_free(m);
}
