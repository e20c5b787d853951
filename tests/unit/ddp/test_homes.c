/* SPDX-License-Identifier: Apache-2.0 */
/* Backward writes gradients into the buckets itself where it can, and gradients that somebody else holds, or that are
 * no leaf's, stay out of them. */
#include "tutti/ddp.h"
#include "tutti/functional.h"
#include "tutti/layers.h"
#include "tutti/observe.h"
#include "tutti/ops.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

enum { IMAGE = 6, CHANNELS = 4, CLASSES = 3 };

static tt_status count_calls(void *ctx, const tt_op_event *e)
{
    *(int *)ctx += e->after;
    return TT_OK;
}

static tt_tensor *ranked(tt_shape shape)
{
    return tool_numbers(shape, tt_test_seed() + (uint64_t)tt_test_rank());
}

/* m is wrapped and `local` is not; the gradients of m are the mean of what ranks have in `local`. */
static void check_means(tt_module *m, tt_module *local)
{
    tt_state_dict *ps = tt_module_params(local, NULL);

    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        tt_tensor *mean = tt_grad_of(tt_state_dict_tensor(ps, i));

        TT_REQUIRE_OK(
            tt_pg_all_reduce(tt_test_pg(), mean, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
    }
    tt_state_dict_free(ps);
    hook_check_grads(m, local, false);
}

/* Copies while backward runs. */
static int copies_of_step(tt_module *m, tt_tensor *x)
{
    int n = 0;
    tt_tensor *y = tt_module_forward(m, x);
    tt_observer *o = tt_observer_new("copy_", true, count_calls, &n);

    if (y == NULL || tt_backward(tt_sum(tt_mul(y, y))) != TT_OK)
        TT_FAIL_TEST("%s", tt_last_error());
    tt_observer_free(o);
    return n;
}

typedef struct pair {
    tt_module *m, *local; /* m is wrapped; local is a copy on its own */
    tt_ddp *d;
    tt_module *ddp; /* d as a module */
} pair;

/* Takes m. */
static pair pair_of(tt_module *m)
{
    pair p = { .m = m };

    TT_REQUIRE_NOT_NULL(m);
    p.d = tool_wrap(m, NULL);
    p.ddp = tt_ddp_as_module(p.d);
    p.local = tt_module_copy(m);
    TT_REQUIRE_NOT_NULL(p.local);
    return p;
}

static void drop_grads(pair *p)
{
    tt_module_zero_grad(p->m);
    tt_module_zero_grad(p->local);
}

static void pair_free(pair *p)
{
    tt_ddp_free(p->d);
    tt_module_free(p->local);
    tt_module_free(p->m);
}

static const tt_linear_options no_bias = { .no_bias = true };

static tt_module *image_net(void)
{
    static const tt_conv_layer_options plain = { .no_bias = true };

    return TT_SEQUENTIAL(tt_conv2d_new(1, CHANNELS, 3, &plain), tt_relu_new(), tt_flatten_new(),
                         tt_linear_new(CHANNELS * (IMAGE - 2) * (IMAGE - 2), CLASSES, &no_bias));
}

TT_TEST_THREADS(2, ddp_homes, weights_are_written_where_they_travel)
{
    pair p = pair_of(image_net());

    for (int i = 0; i < 4; i++)
        TT_SCOPE {
            tt_tensor *x = ranked(TT_SHAPE(2, 1, IMAGE, IMAGE));

            drop_grads(&p);
            TT_CHECK_EQ(copies_of_step(p.ddp, x), 0);
            copies_of_step(p.local, x);
            check_means(p.m, p.local);
        }
    pair_free(&p);
}

TT_TEST_THREADS(2, ddp_homes, gradients_that_are_there_are_added_to)
{
    pair p = pair_of(image_net());

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, 1, IMAGE, IMAGE));

        TT_DDP_NO_SYNC(p.d)
        copies_of_step(p.ddp, x);
        TT_CHECK_EQ(copies_of_step(p.ddp, x), 0);
        copies_of_step(p.local, x);
        copies_of_step(p.local, x);
        check_means(p.m, p.local);
    }
    pair_free(&p);
}

/* ---- more than one gradient ------------------------------------------------------------------------ */

/* x @ w @ w */
static tt_tensor *twice(tt_module *m, tt_tensor *x)
{
    tt_tensor *w = tt_module_param(m, "w");

    return tt_mm(tt_mm(x, w), w);
}

static const tt_module_class twice_class = { .name = "Twice", .forward = twice };

static tt_module *twice_new(void)
{
    tt_module *m = tt_module_new(&twice_class);

    TT_REQUIRE_OK(
        tt_module_add_param(m, "w", tool_numbers(TT_SHAPE(CLASSES, CLASSES), tt_test_seed())));
    return m;
}

TT_TEST_THREADS(2, ddp_homes, a_weight_that_is_used_twice)
{
    pair p = pair_of(twice_new());

    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            tt_tensor *x = ranked(TT_SHAPE(2, CLASSES));

            drop_grads(&p);
            TT_CHECK_EQ(copies_of_step(p.ddp, x), 0); /* the second is added in the bucket */
            copies_of_step(p.local, x);
            check_means(p.m, p.local);
        }
    pair_free(&p);
}

/* ---- gradients of others ---------------------------------------------------------------------------- */

static tt_status keep(void *ctx, tt_tensor **grad_p)
{
    *(tt_tensor **)ctx = tt_tensor_retain(*grad_p);
    return TT_OK;
}

TT_TEST_THREADS(2, ddp_homes, what_a_hook_keeps_stays_as_it_was)
{
    pair p = pair_of(twice_new());
    tt_tensor *kept = NULL;
    tt_hook *h = tt_tensor_add_hook(tt_module_param(p.m, "w"), keep, &kept);

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, CLASSES));

        copies_of_step(p.ddp, x);
        copies_of_step(p.local, x);
        TT_REQUIRE_NOT_NULL(kept);
        TT_CHECK(tt_equal(kept, tt_grad_of(tt_module_param(p.local, "w"))));
        check_means(p.m, p.local);
    }
    tt_tensor_free(kept);
    tt_hook_remove(h);
    pair_free(&p);
}

TT_TEST_THREADS(2, ddp_homes, gradients_asked_for_are_no_buckets)
{
    pair p = pair_of(twice_new());

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, CLASSES)), *w = tt_module_param(p.m, "w");
        tt_tensor *y = tt_sum(tt_module_forward(p.m, x)), *g = NULL, *before;

        TT_REQUIRE_OK(tt_grad(&y, 1, &w, 1, NULL, &g));
        before = tt_clone(g);
        TT_CHECK(tt_grad_of(w) == NULL);
        copies_of_step(p.ddp, x);
        copies_of_step(p.local, x);
        TT_CHECK(tt_equal(g, before));
        check_means(p.m, p.local);
    }
    pair_free(&p);
}

TT_TEST_THREADS(2, ddp_homes, without_hooks_gradients_are_everywhere_again)
{
    pair p = pair_of(twice_new());

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, CLASSES)), *w = tt_module_param(p.m, "w"), *g;

        copies_of_step(p.ddp, x);
        g = tt_tensor_retain(tt_grad_of(w)); /* of the bucket */
        drop_grads(&p);
        tt_ddp_remove_hooks(p.d);
        copies_of_step(p.m, x);
        TT_CHECK(tt_tensor_data(tt_grad_of(w)) != tt_tensor_data(g));
        tt_tensor_free(g);
    }
    pair_free(&p);
}

/* ---- gradients that somebody keeps -------------------------------------------------------------------- */

TT_TEST_THREADS(2, ddp_homes, gradients_kept_over_steps_stay_as_they_were)
{
    pair p = pair_of(twice_new());
    tt_tensor *w = tt_module_param(p.m, "w");

    for (int reduced = 0; reduced < 2; reduced++)
        TT_SCOPE {
            tt_tensor *x = ranked(TT_SHAPE(2, CLASSES)), *kept, *before;

            tt_module_zero_grad(p.m);
            tt_ddp_set_sync(p.d, reduced != 0);
            copies_of_step(p.ddp, x);
            tt_ddp_set_sync(p.d, true);
            kept = reduced ? tt_detach(tt_grad_of(w)) : tt_grad_of(w);
            tt_tensor_retain(kept);
            before = tt_clone(kept);
            tt_module_zero_grad(p.m);
            TT_DDP_NO_SYNC(p.d)
            copies_of_step(p.ddp, tt_add_scalar(x, 1));
            TT_CHECK(tt_equal(kept, before));
            tt_tensor_free(kept);
        }
    pair_free(&p);
}

/* The last gradient is a part of the next loss, and read after the new one was computed. */
TT_TEST_THREADS(2, ddp_homes, a_kept_gradient_in_the_next_graph)
{
    pair p = pair_of(twice_new());
    tt_tensor *w = tt_module_param(p.m, "w"), *v = tt_module_param(p.local, "w");

    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            tt_tensor *x = ranked(TT_SHAPE(2, CLASSES)), *kept, *copy;

            drop_grads(&p);
            copies_of_step(p.ddp, x);
            kept = tt_tensor_retain(tt_grad_of(w));
            copy = tt_clone(kept);
            drop_grads(&p);
            TT_REQUIRE_OK(
                tt_backward(tt_add(tt_sum(tt_mul(w, kept)), tt_sum(tt_module_forward(p.ddp, x)))));
            TT_REQUIRE_OK(tt_backward(
                tt_add(tt_sum(tt_mul(v, copy)), tt_sum(tt_module_forward(p.local, x)))));
            check_means(p.m, p.local);
            tt_tensor_free(kept);
        }
    pair_free(&p);
}

static tt_status keep_of_leaf(void *ctx, tt_tensor *leaf)
{
    *(tt_tensor **)ctx = tt_tensor_retain(tt_grad_of(leaf));
    return TT_OK;
}

TT_TEST_THREADS(2, ddp_homes, a_hook_from_before_sees_what_is_local)
{
    tt_module *m = twice_new();
    tt_tensor *kept = NULL;
    tt_hook *h = tt_leaf_add_post_hook(tt_module_param(m, "w"), keep_of_leaf, &kept);
    pair p = pair_of(m);

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, CLASSES));

        copies_of_step(p.ddp, x);
        copies_of_step(p.local, x);
        TT_CHECK(tt_equal(kept, tt_grad_of(tt_module_param(p.local, "w"))));
        check_means(p.m, p.local);
    }
    tt_tensor_free(kept);
    tt_hook_remove(h);
    pair_free(&p);
}

/* A saved gradient is good as long as it is not changed itself, whatever happens to others of its bucket. */
TT_TEST_THREADS(2, ddp_homes, gradients_of_a_bucket_change_apart)
{
    pair p = pair_of(TT_SEQUENTIAL(tt_linear_new(CLASSES, CLASSES, &no_bias),
                                   tt_linear_new(CLASSES, CLASSES, &no_bias)));

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, CLASSES)), *first = tt_module_param(p.m, "0.weight");
        tt_tensor *kept, *penalty;

        copies_of_step(p.ddp, x);
        kept = tt_tensor_retain(tt_grad_of(first));
        TT_REQUIRE_OK(tt_set_grad(first, NULL)); /* the second keeps its own, which is added to */
        penalty = tt_sum(tt_mul(first, kept));
        TT_DDP_NO_SYNC(p.d)
        copies_of_step(p.ddp, x);
        if (tt_backward(penalty) != TT_OK)
            TT_FAIL_TEST("%s", tt_last_error());
        tt_tensor_free(kept);
    }
    pair_free(&p);
}

/* The new reduction changes it, which must not go unnoticed. */
TT_TEST_THREADS(2, ddp_homes, a_saved_gradient_that_is_reduced_again_is_an_error)
{
    pair p = pair_of(twice_new());
    tt_tensor *w = tt_module_param(p.m, "w");

    TT_SCOPE {
        tt_tensor *x = ranked(TT_SHAPE(2, CLASSES)), *kept, *penalty;

        for (int i = 0; i < 2; i++) { /* the second time in the final buckets */
            tt_module_zero_grad(p.m);
            copies_of_step(p.ddp, x);
        }
        kept = tt_tensor_retain(tt_grad_of(w));
        penalty = tt_sum(tt_mul(w, kept));
        tt_module_zero_grad(p.m);
        copies_of_step(p.ddp, x);
        TT_CHECK_ERR_SAYS(tt_backward(penalty), TT_ERR_INVALID, "modified in place");
        tt_tensor_free(kept);
    }
    pair_free(&p);
}
