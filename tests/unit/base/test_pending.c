/* SPDX-License-Identifier: Apache-2.0 */
/* When a NULL is taken for the result of the last failure, and when it is a failure of its own. */
#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *failed(void)
{
    return tt_matmul(tt_ones(TT_SHAPE(2, 3), TT_F32, TT_CPU),
                     tt_ones(TT_SHAPE(4, 5), TT_F32, TT_CPU));
}

static void check_own_failure(tt_tensor *null)
{
    TT_CHECK_NULL(tt_add(TT_FLOATS(1, 2), null));
    TT_CHECK_STR(tt_last_error(), "add: operand 1 is NULL");
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
}

TT_TEST(pending, the_first_error_stays)
{
    TT_SCOPE {
        tt_tensor *x = tt_relu(failed());
        tt_tensor *other = tt_exp(tt_neg(TT_FLOATS(1, 2))); /* succeeds meanwhile */

        TT_CHECK_ERR(tt_backward(tt_sum(tt_add(x, other))), TT_ERR_INVALID);
        TT_CHECK_CONTAINS(tt_last_error(), "mm: shapes [2, 3] and [4, 5] do not fit");
    }
}

TT_TEST(pending, a_null_without_a_failure_is_one)
{
    TT_SCOPE {
        check_own_failure(NULL);
    }
}

TT_TEST(pending, an_error_that_was_read_is_handled)
{
    tt_error_info info;

    TT_SCOPE {
        tt_tensor *x = failed();

        TT_CHECK_CONTAINS(tt_last_error(), "mm: ");
        check_own_failure(x);
        x = failed();
        TT_CHECK_CONTAINS(tt_last_error_where(), "matmul.c");
        check_own_failure(x);
        x = failed();
        TT_CHECK(tt_last_error_info(&info));
        check_own_failure(x);
        x = failed();
        tt_clear_error();
        check_own_failure(x);
    }
}

TT_TEST(pending, work_that_went_on_makes_it_unclear)
{
    TT_SCOPE {
        tt_tensor *x = failed(), *w = tt_require_grad(TT_FLOATS(1, 2));

        TT_REQUIRE_OK(tt_backward(tt_sum(w)));
        TT_CHECK_NULL(tt_add(w, x));
        TT_CHECK_CONTAINS(tt_last_error(),
                          "add: operand 1 is NULL; the failure before was: mm: shapes");
    }
}

TT_TEST(pending, a_request_that_found_nothing_is_not_blamed_later)
{
    tt_store *store = tt_store_memory_new();
    tt_blob value;

    TT_REQUIRE(store != NULL);
    TT_REQUIRE_OK(tt_store_set_timeout(store, 1));
    TT_CHECK(tt_store_get(store, "missing", &value) == TT_ERR_TIMEOUT);
    TT_REQUIRE_OK(tt_store_set(store, "present", "1", 1));
    TT_SCOPE {
        TT_CHECK_NULL(tt_neg(NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "neg: operand 0 is NULL");
    }
    tt_store_free(store);
}

/* ---- chains of constructors -------------------------------------------------------------------------- */

TT_TEST(pending, a_file_that_is_missing_is_named_by_the_loader)
{
    tt_tensor *images = tt_idx_read("/no/such/file.idx");
    tt_dataset *ds = tt_tensor_dataset_new((tt_tensor *[]){ images }, 1);
    tt_loader *loader = tt_loader_new(ds, &(tt_loader_options){ .batch_size = 4 });
    TT_CHECK(tt_loader_next(loader).status != TT_OK);
    TT_CHECK_CONTAINS(tt_last_error(), "/no/such/file.idx");
}

TT_TEST(pending, a_group_that_failed_is_named_by_backward)
{
    tt_pg *pg = tt_pg_new_store(NULL, 3, 2, NULL); /* rank 3 of 2 */
    tt_module *m = tt_linear_new(2, 2, NULL);
    tt_ddp *ddp = tt_ddp_new(m, pg, NULL);

    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1, 2), TT_F32, TT_CPU);

        TT_CHECK(tt_backward(tt_sum(tt_ddp_forward(ddp, x))) != TT_OK);
        TT_CHECK_CONTAINS(tt_last_error(), "rank 3");
    }
    tt_module_free(m);
}

TT_TEST(pending, a_layer_that_failed_is_named_by_the_step)
{
    tt_module *m = tt_linear_new(-3, 2, NULL);
    tt_optim *o = tt_adam_for(m, NULL);
    tt_schedule *s = tt_step_lr_new(o, 1, 0.5);

    TT_CHECK(tt_optim_step(o) != TT_OK);
    TT_CHECK(tt_schedule_step(s) != TT_OK);
    TT_CHECK_CONTAINS(tt_last_error(), "-3");
}
