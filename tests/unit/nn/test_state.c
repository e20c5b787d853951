/* SPDX-License-Identifier: Apache-2.0 */
/* State dictionaries, strict and not, and calls with other parameters. */
#include "tutti/nn.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

static tt_tensor *affine_forward(tt_module *m, tt_tensor *x)
{
    if (tt_module_param(m, "w") == NULL)
        return NULL;
    return tt_add(tt_mul(x, tt_module_param(m, "w")), tt_module_buffer(m, "b"));
}

static const tt_module_class affine_class = { .name = "Affine", .forward = affine_forward };

static tt_module *affine(double w, double b)
{
    tt_module *m = tt_module_new(&affine_class);

    TT_SCOPE {
        TT_CHECK_OK(tt_module_add_param(m, "w", tt_full(TT_SHAPE(2), w, TT_F32, TT_CPU)));
        TT_CHECK_OK(tt_module_add_buffer(m, "b", tt_full(TT_SHAPE(2), b, TT_F32, TT_CPU)));
    }
    return m;
}

static double first(const tt_tensor *t)
{
    return tt_at(t, (int64_t[]){ 0 });
}

TT_TEST(state_dict, loads_in_place_what_another_module_saved)
{
    tt_module *m = affine(1, 2), *n = affine(3, 4);
    tt_tensor *w = tt_module_param(n, "w");
    tt_state_dict *sd = tt_module_state_dict(m);

    TT_CHECK_OK(tt_module_load_state_dict(n, sd, NULL, NULL));
    TT_CHECK_PTR(tt_module_param(n, "w"), w);
    TT_CHECK_NEAR(first(w), 1, 0);
    TT_CHECK_NEAR(first(tt_module_buffer(n, "b")), 2, 0);
    TT_CHECK(tt_is_leaf(w) && tt_requires_grad(w));
    TT_CHECK(!tt_requires_grad(tt_state_dict_get(sd, "w")));
    tt_state_dict_free(sd);
    tt_module_free(m);
    tt_module_free(n);
}

TT_TEST(state_dict, lists_what_is_missing_unexpected_and_of_wrong_shape)
{
    tt_module *m = affine(1, 2);
    tt_state_dict *sd = tt_state_dict_new();
    tt_load_report r = { 0 };

    TT_SCOPE {
        TT_CHECK_OK(tt_state_dict_set(sd, "w", TT_FLOATS(1, 2, 3)));
        TT_CHECK_OK(tt_state_dict_set(sd, "extra", TT_FLOATS(1)));
    }
    TT_CHECK_ERR_SAYS(tt_module_load_state_dict(m, sd, NULL, &r), TT_ERR_INVALID,
                      "missing: b; unexpected: extra; wrong shape: w (expected [2], got [3])");
    TT_CHECK_EQ(r.n_missing, 1);
    TT_CHECK_STR(r.missing[0], "b");
    TT_CHECK_STR(r.unexpected[0], "extra");
    TT_CHECK_STR(r.mismatched[0], "w");
    tt_load_report_free(&r);
    TT_CHECK_ERR_SAYS(
        tt_module_load_state_dict(
            m, sd, &(tt_load_options){ .allow_missing = true, .allow_unexpected = true }, NULL),
        TT_ERR_INVALID, "wrong shape: w");
    TT_CHECK_NEAR(first(tt_module_param(m, "w")), 1, 0);
    tt_state_dict_free(sd);
    tt_module_free(m);
}

TT_TEST(state_dict, loads_what_fits_when_allowed)
{
    tt_module *m = affine(1, 2);
    tt_state_dict *sd = tt_state_dict_new();
    tt_load_report r = { 0 };

    TT_SCOPE {
        TT_CHECK_OK(tt_state_dict_set(sd, "net.b", TT_FLOATS(5, 6)));
        TT_CHECK_OK(tt_state_dict_set(sd, "net.more", TT_FLOATS(5, 6)));
        TT_CHECK_OK(tt_state_dict_set(sd, "other.b", TT_FLOATS(7, 8)));
    }
    TT_CHECK_OK(tt_module_load_state_dict(
        m, sd,
        &(tt_load_options){ .allow_missing = true, .allow_unexpected = true, .prefix = "net." },
        &r));
    TT_CHECK_EQ(r.n_missing, 1);
    TT_CHECK_EQ(r.n_unexpected, 1);
    TT_CHECK_STR(r.unexpected[0], "more");
    TT_CHECK_NEAR(first(tt_module_buffer(m, "b")), 5, 0);
    TT_CHECK_NEAR(first(tt_module_param(m, "w")), 1, 0);
    tt_load_report_free(&r);
    tt_state_dict_free(sd);
    tt_module_free(m);
}

TT_TEST(state_dict, sets_replaces_and_removes_entries)
{
    tt_state_dict *sd = tt_state_dict_new();

    TT_SCOPE {
        TT_CHECK_OK(tt_state_dict_set(sd, "a", TT_FLOATS(1)));
        TT_CHECK_OK(tt_state_dict_set(sd, "b", TT_FLOATS(2)));
        TT_CHECK_OK(tt_state_dict_set(sd, "a", TT_FLOATS(3)));
    }
    TT_CHECK_EQ(tt_state_dict_count(sd), 2);
    TT_CHECK_NEAR(first(tt_state_dict_get(sd, "a")), 3, 0);
    TT_CHECK(tt_state_dict_remove(sd, "a"));
    TT_CHECK(!tt_state_dict_remove(sd, "a"));
    TT_CHECK_STR(tt_state_dict_name(sd, 0), "b");
    TT_CHECK_NULL(tt_state_dict_name(sd, 1));
    tt_state_dict_free(sd);
}

/* ---- functional calls ------------------------------------------------------------------------- */

static const tt_module_class pair_class;

static tt_tensor *pair_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "two", tt_module_run(m, "one", x));
}

static const tt_module_class pair_class = { .name = "Pair", .forward = pair_forward };

static tt_module *pair(void)
{
    tt_module *m = tt_module_new(&pair_class);

    TT_CHECK_OK(tt_module_give_child(m, "one", affine(2, 0)));
    TT_CHECK_OK(tt_module_give_child(m, "two", affine(3, 0)));
    return m;
}

static double call_with(tt_module *m, const char *const *names, tt_tensor *const *ts, int n)
{
    tt_tensor *y = tt_module_functional_call(m, names, ts, n, TT_FLOATS(1, 1));

    return y != NULL ? first(y) : -1;
}

TT_TEST(functional_call, substitutes_and_restores)
{
    tt_module *m = pair();

    TT_SCOPE {
        tt_tensor *w1 = tt_module_param(m, "one.w"), *w2 = tt_module_param(m, "two.w");
        const char *names[] = { "one.w", "two.w" };

        TT_CHECK_NEAR(call_with(m, names, (tt_tensor *[]){ TT_FLOATS(5, 5) }, 1), 15, 0);
        TT_CHECK_NEAR(call_with(m, names, (tt_tensor *[]){ w2, w1 }, 2), 6, 0);
        TT_CHECK_NEAR(call_with(m, names, (tt_tensor *[]){ w2, w2 }, 2), 9, 0);
        TT_CHECK_PTR(tt_module_param(m, "one.w"), w1);
        TT_CHECK_PTR(tt_module_param(m, "two.w"), w2);
    }
    tt_module_free(m);
}

TT_TEST(functional_call, replaces_a_shared_parameter_under_all_names)
{
    tt_module *m = pair();

    TT_CHECK_OK(tt_module_set_param(m, "two.w", tt_module_param(m, "one.w")));
    TT_SCOPE {
        const char *names[] = { "two.w" };

        TT_CHECK_NEAR(call_with(m, names, (tt_tensor *[]){ TT_FLOATS(5, 5) }, 1), 25, 0);
        TT_CHECK_NEAR(first(tt_module_forward(m, TT_FLOATS(1, 1))), 4, 0);
    }
    tt_module_free(m);
}

TT_TEST(functional_call, names_unknown_parameters_and_restores_after_failure)
{
    tt_module *m = pair();

    TT_SCOPE {
        tt_tensor *w1 = tt_module_param(m, "one.w");
        const char *bad[] = { "one.w", "three.w", "two" }, *shape[] = { "one.w" };
        tt_tensor *t = TT_FLOATS(1, 2, 3);

        TT_CHECK_NULL(tt_module_functional_call(m, bad, (tt_tensor *[]){ t, t, t }, 3, t));
        TT_CHECK_CONTAINS(tt_last_error(), "\"three.w\", \"two\"");
        TT_CHECK_NULL(tt_module_functional_call(m, shape, &t, 1, TT_FLOATS(1, 2)));
        TT_CHECK_PTR(tt_module_param(m, "one.w"), w1);
    }
    tt_module_free(m);
}
