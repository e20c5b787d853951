/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: names, order, sharing, replacing, copying, modes, printing. */
#include <string.h>

#include "tutti/error.h"
#include "tutti/layers.h"
#include "tutti/nn.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

static tt_tensor *leaf_forward(tt_module *m, tt_tensor *x)
{
    return tt_mul(x, tt_module_param_at(m, 0));
}

static const tt_module_class leaf_class = { .name = "Leaf", .forward = leaf_forward };
static const tt_module_class box_class = { .name = "Box" };

static tt_module *leaf(double value)
{
    tt_module *m = tt_module_new(&leaf_class);

    TT_SCOPE {
        TT_CHECK_OK(tt_module_add_param(m, "w", tt_full(TT_SHAPE(2), value, TT_F32, TT_CPU)));
        TT_CHECK_OK(tt_module_add_buffer(m, "seen", tt_zeros(TT_SHAPE(1), TT_I64, TT_CPU)));
        TT_CHECK_OK(tt_module_add_temp_buffer(m, "scratch", tt_zeros(TT_SHAPE(1), TT_F32, TT_CPU)));
    }
    return m;
}

/* Box with its own parameter "p", children "b" and "a", and "twin", which is "a" again. */
static tt_module *tree(void)
{
    tt_module *m = tt_module_new(&box_class), *a = leaf(2);

    TT_CHECK_OK(tt_module_give_child(m, "b", leaf(1)));
    TT_CHECK_OK(tt_module_add_child(m, "a", a));
    TT_CHECK_OK(tt_module_give_child(m, "twin", a));
    TT_SCOPE {
        TT_CHECK_OK(tt_module_add_param(m, "p", tt_ones(TT_SHAPE(3), TT_F32, TT_CPU)));
    }
    return m;
}

static void check_names(tt_state_dict *list, const char *const *names, int n)
{
    TT_REQUIRE_EQ(tt_state_dict_count(list), n);
    for (int i = 0; i < n; i++)
        TT_CHECK_STR(tt_state_dict_name(list, i), names[i]);
    tt_state_dict_free(list);
}

#define NAMES(...) \
    (const char *const[]){ __VA_ARGS__ }, (int)(sizeof((const char *[]){ __VA_ARGS__ }) / 8)

TT_TEST(module, lists_parameters_in_order_without_duplicates)
{
    tt_module *m = tree();

    check_names(tt_module_params(m, NULL), NAMES("p", "b.w", "a.w"));
    check_names(tt_module_params(m, &(tt_named_options){ .duplicates = true }),
                NAMES("p", "b.w", "a.w", "twin.w"));
    check_names(tt_module_params(m, &(tt_named_options){ .own = true, .prefix = "net" }),
                NAMES("net.p"));
    check_names(tt_module_buffers(m, NULL), NAMES("b.seen", "b.scratch", "a.seen", "a.scratch"));
    check_names(tt_module_state_dict(m),
                NAMES("p", "b.w", "b.seen", "a.w", "a.seen", "twin.w", "twin.seen"));
    TT_CHECK_EQ(tt_module_count_params(m), 7);
    tt_module_free(m);
}

TT_TEST(module, lists_a_parameter_shared_under_two_names_once)
{
    tt_module *m = tree();

    TT_CHECK_OK(tt_module_set_param(m, "b.w", tt_module_param(m, "a.w")));
    check_names(tt_module_params(m, NULL), NAMES("p", "b.w"));
    TT_CHECK_EQ(tt_module_count_params(m), 5);
    tt_module_free(m);
}

static tt_status note_name(void *ctx, const char *name, tt_module *m)
{
    strcat(ctx, name);
    strcat(ctx, ":");
    strcat(ctx, tt_module_class_of(m)->name);
    strcat(ctx, " ");
    return TT_OK;
}

static tt_status note_class(void *ctx, tt_module *m)
{
    strcat(ctx, tt_module_class_of(m)->name);
    strcat(ctx, " ");
    return TT_OK;
}

TT_TEST(module, visits_modules_parents_first_and_children_first)
{
    tt_module *m = tree();
    char names[256] = "", classes[256] = "";

    TT_CHECK_OK(tt_module_each(m, note_name, names));
    TT_CHECK_STR(names, ":Box b:Leaf a:Leaf ");
    TT_CHECK_OK(tt_module_apply(m, note_class, classes));
    TT_CHECK_STR(classes, "Leaf Leaf Box ");
    tt_module_free(m);
}

TT_TEST(module, finds_and_replaces_by_dotted_name)
{
    tt_module *m = tree(), *other = leaf(7);

    TT_CHECK_NULL(tt_module_param(m, "a.nothing"));
    TT_CHECK_CONTAINS(tt_last_error(), "a.nothing");
    TT_CHECK_NULL(tt_module_param(m, "a.seen"));
    TT_CHECK_CONTAINS(tt_last_error(), "is a buffer");
    TT_CHECK_OK(tt_module_set_child(m, "b", other));
    TT_CHECK_PTR(tt_module_child(m, "b"), other);
    TT_CHECK_NEAR(tt_at(tt_module_param(m, "b.w"), (int64_t[]){ 0 }), 7, 0);
    TT_CHECK_OK(tt_module_remove(m, "b.seen"));
    TT_CHECK(!tt_module_has(m, "b.seen"));
    TT_CHECK(tt_module_has(m, "b.scratch"));
    TT_CHECK_OK(tt_module_remove(m, "b"));
    TT_CHECK_STR(tt_module_child_name_at(m, 0), "a");
    tt_module_free(other);
    tt_module_free(m);
}

TT_TEST(module, refuses_bad_names_and_cycles)
{
    tt_module *m = tree();

    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1);

        TT_CHECK_ERR_SAYS(tt_module_add_param(m, "x.y", t), TT_ERR_INVALID, "without dots");
        TT_CHECK_ERR_SAYS(tt_module_add_buffer(m, "a", t), TT_ERR_INVALID, "used already");
        TT_CHECK_ERR_SAYS(tt_module_add_child(tt_module_child(m, "a"), "up", m), TT_ERR_INVALID,
                          "below itself");
        tt_clear_error();
        TT_CHECK_ERR(tt_module_add_param(m, "x", NULL), TT_ERR_INVALID);
    }
    tt_module_free(m);
}

TT_TEST(module, copies_deeply_and_keeps_sharing)
{
    tt_module *m = tree(), *copy;

    TT_CHECK_OK(tt_set_requires_grad(tt_module_param(m, "p"), false));
    TT_CHECK_OK(tt_module_set_param(m, "b.w", tt_module_param(m, "a.w")));
    tt_module_eval(m);
    copy = tt_module_copy(m);
    TT_REQUIRE_NOT_NULL(copy);
    TT_CHECK(tt_module_param(copy, "a.w") != tt_module_param(m, "a.w"));
    TT_CHECK_PTR(tt_module_param(copy, "a.w"), tt_module_param(copy, "b.w"));
    TT_CHECK_PTR(tt_module_child(copy, "a"), tt_module_child(copy, "twin"));
    TT_CHECK(!tt_requires_grad(tt_module_param(copy, "p")));
    TT_CHECK(tt_requires_grad(tt_module_param(copy, "a.w")));
    TT_CHECK(!tt_module_is_training(tt_module_child(copy, "a")));
    TT_SCOPE {
        TT_NO_GRAD
        {
            tt_fill_(tt_module_param(copy, "a.w"), 9);
        }
        TT_CHECK_NEAR(tt_at(tt_module_param(m, "a.w"), (int64_t[]){ 0 }), 2, 0);
        TT_CHECK_NEAR(tt_at(tt_module_param(copy, "b.w"), (int64_t[]){ 1 }), 9, 0);
    }
    tt_module_free(m);
    tt_module_free(copy);
}

TT_TEST(module, zeroes_gradients_to_null_or_to_zero)
{
    tt_module *m = leaf(3);
    tt_tensor *w = tt_module_param(m, "w");

    TT_SCOPE {
        TT_CHECK_OK(tt_set_grad(w, TT_FLOATS(1, 2)));
        TT_CHECK_OK(tt_module_zero_grad_keep(m));
        TT_REQUIRE_NOT_NULL(tt_grad_of(w));
        TT_CHECK_NEAR(tt_at(tt_grad_of(w), (int64_t[]){ 1 }), 0, 0);
        tt_module_zero_grad(m);
        TT_CHECK_NULL(tt_grad_of(w));
        TT_CHECK_OK(tt_module_set_requires_grad(m, false));
        TT_CHECK(!tt_requires_grad(w));
    }
    tt_module_free(m);
}

TT_TEST(module, converts_types_without_changing_the_tensors_identity)
{
    tt_module *m = tree();
    tt_tensor *w = tt_module_param(m, "a.w");

    TT_SCOPE {
        TT_CHECK_OK(tt_set_grad(w, TT_FLOATS(1, 2)));
    }
    TT_CHECK_OK(tt_module_to_dtype(m, TT_F64));
    TT_CHECK_PTR(tt_module_param(m, "twin.w"), w);
    TT_CHECK_EQ(tt_tensor_dtype(w), TT_F64);
    TT_CHECK_EQ(tt_tensor_dtype(tt_grad_of(w)), TT_F64);
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_buffer(m, "a.seen")), TT_I64);
    TT_CHECK_EQ(tt_tensor_dtype(tt_module_buffer(m, "a.scratch")), TT_F64);
    TT_CHECK_NEAR(tt_at(w, (int64_t[]){ 1 }), 2, 0);
    TT_CHECK(tt_requires_grad(w));
    TT_CHECK_ERR(tt_module_to_dtype(m, TT_I32), TT_ERR_INVALID);
    tt_module_free(m);
}

TT_TEST(module, prints_its_tree)
{
    tt_module *m = tree();
    char *text;

    TT_CHECK_OK(tt_module_give_child(tt_module_child(m, "b"), "deep", leaf(1)));
    text = tt_module_text(m);
    TT_CHECK_STR(text, "Box(\n  (b): Leaf(\n    (deep): Leaf()\n  )\n  (a): Leaf()\n  (twin): "
                       "Leaf()\n)");
    tt_text_free(text);
    tt_module_free(m);
}

TT_TEST(module, gives_only_the_result_to_the_callers_scope)
{
    tt_module *m = leaf(3);

    TT_SCOPE {
        tt_tensor *x = TT_FLOATS(1, 2);
        size_t before = tt_scope_count();
        tt_tensor *y = tt_module_forward(m, x);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_EQ(tt_scope_count(), before + 1);
        TT_CHECK_NEAR(tt_at(y, (int64_t[]){ 1 }), 6, 0);
    }
    tt_module_free(m);
}

/* ---- data of one's own ------------------------------------------------------------------------ */

static int n_live;

typedef struct owner_data {
    int *count;
} owner_data;

static const tt_module_class owner_class;

static tt_status owner_copy(tt_module *dst, const tt_module *src)
{
    owner_data *d = tt_module_data(dst, &owner_class);

    (void)src;
    d->count = &n_live;
    ++*d->count;
    return TT_OK;
}

static void owner_free(tt_module *m)
{
    owner_data *d = tt_module_data(m, &owner_class);

    if (d->count != NULL)
        --*d->count;
}

static const tt_module_class owner_class = {
    .name = "Owner", .data_size = sizeof(owner_data), .copy = owner_copy, .free = owner_free
};
static const tt_module_class careless_class = { .name = "Careless", .free = owner_free };

TT_TEST(module, frees_and_copies_the_data_of_its_class)
{
    tt_module *m = tt_module_new(&owner_class), *copy;

    ((owner_data *)tt_module_data(m, &owner_class))->count = &n_live;
    n_live = 1;
    copy = tt_module_copy(m);
    TT_CHECK_EQ(n_live, 2);
    TT_CHECK_NULL(tt_module_data(m, &box_class));
    TT_CHECK_CONTAINS(tt_last_error(), "expected a Box, got a Owner");
    tt_module_free(m);
    tt_module_free(copy);
    TT_CHECK_EQ(n_live, 0);
    (void)careless_class;
}

static tt_status build_copy_run(void *ctx)
{
    tt_module *m = tt_module_new(&box_class), *copy = NULL;
    tt_state_dict *sd = NULL;
    tt_status st = m != NULL ? TT_OK : tt_last_status();

    (void)ctx;
    TT_SCOPE {
        tt_module *child = st == TT_OK ? tt_module_new(&leaf_class) : NULL;

        if (st == TT_OK)
            st =
                child != NULL ? tt_module_add_param(child, "w", TT_FLOATS(1, 2)) : tt_last_status();
        if (st == TT_OK)
            st = tt_module_add_child(m, "c", child);
        tt_module_free(child);
        if (st == TT_OK && (copy = tt_module_copy(m)) == NULL)
            st = tt_last_status();
        if (st == TT_OK && (sd = tt_module_state_dict(copy)) == NULL)
            st = tt_last_status();
        if (st == TT_OK)
            st = tt_module_load_state_dict(m, sd, NULL, NULL);
        if (st == TT_OK && tt_module_run(m, "c", TT_FLOATS(3, 4)) == NULL)
            st = tt_last_status();
    }
    tt_state_dict_free(sd);
    tt_module_free(copy);
    tt_module_free(m);
    return st;
}

TT_TEST(module, survives_every_failed_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(build_copy_run, NULL), 20);
}

/* ---- errors name the module ------------------------------------------------------------------- */

/* The end of the last error, from its first "; in module" on; empty if there is none. */
static const char *module_words(void)
{
    const char *words = strstr(tt_last_error(), "; in module ");

    return words != NULL ? words : "";
}

static tt_tensor *outer_forward(tt_module *m, tt_tensor *x)
{
    return tt_module_run(m, "body", tt_reshape(x, TT_SHAPE(2, 3)));
}

/* A module of its own kind, whose child "body" has a child "1", which has a child "0" that wants 5 features. */
static tt_module *nested(void)
{
    static const tt_module_class outer_class = { .name = "Outer", .forward = outer_forward };
    tt_module *m = tt_module_new(&outer_class);
    tt_module *inner = TT_SEQUENTIAL(tt_linear_new(5, 2, NULL));

    TT_REQUIRE_NOT_NULL(inner);
    TT_REQUIRE_OK(tt_module_give_child(m, "body", TT_SEQUENTIAL(tt_relu_new(), inner)));
    return m;
}

TT_TEST(module, errors_name_the_innermost_module_once)
{
    tt_module *m = nested(), *alone = tt_linear_new(5, 2, NULL);
    tt_error_info info;

    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(6), TT_F32, TT_CPU);
        tt_value *in = tt_value_tensor_new(x);

        TT_CHECK_NULL(tt_module_forward(m, x));
        TT_CHECK_STR(module_words(), "; in module \"body.1.0\" (Linear)");
        TT_CHECK(strncmp(tt_last_error(), "linear: ", 8) == 0);
        TT_CHECK_CONTAINS(tt_last_error_where(), "src/ops/");
        TT_CHECK(tt_last_error_info(&info));
        TT_CHECK_EQ(info.status, TT_ERR_INVALID);
        TT_CHECK_EQ(info.n_ranks, 0);
        TT_CHECK_NULL(tt_module_call(m, in));
        TT_CHECK_STR(module_words(), "; in module \"body.1.0\" (Linear)");
        /* An operator of the outer module itself, which then hands NULL on to its child. */
        TT_CHECK_NULL(tt_module_forward(m, tt_ones(TT_SHAPE(7), TT_F32, TT_CPU)));
        TT_CHECK_STR(module_words(), "; in module Outer");
        TT_CHECK_NULL(tt_module_forward(alone, x));
        TT_CHECK_STR(module_words(), "; in module Linear");
        /* An error outside of modules names none. */
        TT_CHECK_NULL(tt_reshape(x, TT_SHAPE(4)));
        TT_CHECK_STR(module_words(), "");
        tt_value_free(in);
    }
    tt_module_free(alone);
    tt_module_free(m);
}

static tt_status passes(void *ctx, tt_module *m, tt_value *in, tt_value **out_p)
{
    (void)ctx, (void)m, (void)in, (void)out_p;
    return TT_OK;
}

static tt_module *called_by_stranger;

static tt_tensor *stranger_forward(tt_module *m, tt_tensor *x)
{
    (void)m;
    return tt_module_forward(called_by_stranger, x);
}

static tt_tensor *failing_forward(tt_module *m, tt_tensor *x)
{
    (void)m, (void)x;
    tt_fail(TT_ERR_FORMAT, "the user's own words");
    return NULL;
}

TT_TEST(module, errors_of_the_user_keep_their_words)
{
    static const tt_module_class failing_class = { .name = "Failing", .forward = failing_forward };
    tt_module *m = TT_SEQUENTIAL(tt_module_new(&failing_class));

    TT_SCOPE {
        TT_CHECK_NULL(tt_module_forward(m, TT_FLOATS(1, 2)));
        TT_CHECK_STR(tt_last_error(), "the user's own words");
        TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    }
    tt_module_free(m);
}

/* A module calls one that is not among its children, and in which one has a hook. */
TT_TEST(module, errors_name_modules_with_hooks_and_strangers)
{
    static const tt_module_class stranger_class = { .name = "Stranger",
                                                    .forward = stranger_forward };
    tt_module *m = nested(), *stranger = tt_module_new(&stranger_class);
    tt_hook *hook = tt_module_add_forward_hook(tt_module_child(m, "body"), passes, NULL);

    TT_REQUIRE_NOT_NULL(hook);
    called_by_stranger = m;
    TT_SCOPE {
        TT_CHECK_NULL(tt_module_forward(stranger, tt_ones(TT_SHAPE(6), TT_F32, TT_CPU)));
        TT_CHECK_STR(module_words(), "; in module \"body.1.0\" (Linear)");
    }
    tt_hook_remove(hook);
    tt_module_free(stranger);
    tt_module_free(m);
}
