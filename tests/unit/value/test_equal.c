/* SPDX-License-Identifier: Apache-2.0 */
/* When values are equal, how copies share, and how references are counted. */
#include "tutti/ops.h"
#include "tutti/testing.h"
#include "tutti/value.h"

/* One value of each kind that has no tensor, all different. */
static int make_all(tt_value **v)
{
    int n = 0;

    v[n++] = tt_value_null_new();
    v[n++] = tt_value_bool_new(false);
    v[n++] = tt_value_bool_new(true);
    v[n++] = tt_value_int_new(0);
    v[n++] = tt_value_int_new(INT64_MIN);
    v[n++] = tt_value_float_new(0.5);
    v[n++] = tt_value_text_new("");
    v[n++] = tt_value_text_new("a");
    v[n++] = tt_value_bytes_new("a", 1);
    v[n++] = tt_value_bytes_new("a\0", 2);
    v[n++] = tt_value_list_new();
    v[n++] = tt_value_tuple_new();
    v[n++] = tt_value_map_new();
    v[n++] = tt_value_record_new("A");
    v[n++] = tt_value_record_new("B");
    return n;
}

TT_TEST(value_equal, every_kind_equals_only_itself)
{
    tt_value *a[20], *b[20];
    int n = make_all(a);

    TT_REQUIRE_EQ(make_all(b), n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (tt_value_equal(a[i], b[j]) != (i == j))
                TT_FAIL_TEST("values %d and %d", i, j);
    for (int i = 0; i < n; i++) {
        tt_value *copy = tt_value_copy(a[i]);

        TT_CHECK(tt_value_equal(a[i], copy));
        tt_value_free(copy);
        tt_value_free(a[i]);
        tt_value_free(b[i]);
    }
}

static tt_value *nest(int depth, int64_t core)
{
    tt_value *v = tt_value_int_new(core);

    for (int i = 0; i < depth; i++) {
        tt_value *outer = i % 2 == 0 ? tt_value_list_new() : tt_value_map_new();

        if (i % 2 == 0)
            TT_CHECK_OK(tt_value_list_give(outer, v));
        else
            TT_CHECK_OK(tt_value_map_give(outer, "in", v));
        v = outer;
    }
    return v;
}

TT_TEST(value_equal, looks_all_the_way_down)
{
    tt_value *a = nest(40, 7), *b = nest(40, 7), *c = nest(40, 8), *d = nest(42, 7);

    TT_CHECK(tt_value_equal(a, b));
    TT_CHECK(!tt_value_equal(a, c));
    TT_CHECK(!tt_value_equal(a, d));
    tt_value_free(a);
    tt_value_free(b);
    tt_value_free(c);
    tt_value_free(d);
}

TT_TEST(value_equal, tensors_are_compared_by_content)
{
    TT_SCOPE {
        tt_value *a = tt_value_tensor_new(TT_FLOATS(1, 2)),
                 *b = tt_value_tensor_new(TT_FLOATS(1, 2));
        tt_value *c = tt_value_tensor_new(TT_FLOATS(1, 3)), *d = tt_value_tensor_new(TT_INTS(1, 2));

        TT_CHECK(tt_value_equal(a, b));
        TT_CHECK(!tt_value_equal(a, c));
        TT_CHECK(!tt_value_equal(a, d));
        tt_value_free(a);
        tt_value_free(b);
        tt_value_free(c);
        tt_value_free(d);
    }
}

TT_TEST(value_equal, copies_have_containers_of_their_own_and_share_tensors)
{
    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2);
        tt_value *list = tt_value_list_new(), *copy;

        TT_CHECK_OK(tt_value_list_give(list, tt_value_tensor_new(t)));
        copy = tt_value_copy(list);
        TT_CHECK_PTR(tt_value_as_tensor(tt_value_at(copy, 0)), t);
        TT_CHECK_OK(tt_value_list_give(copy, tt_value_null_new()));
        TT_CHECK_EQ(tt_value_count(list), 1);
        TT_CHECK_EQ(tt_value_count(copy), 2);
        tt_value_free(list);
        tt_value_free(copy);
    }
}

TT_TEST(value_equal, containers_keep_what_was_added)
{
    tt_value *list = tt_value_list_new(), *v = tt_value_text_new("kept");

    TT_CHECK_OK(tt_value_list_add(list, v));
    TT_CHECK_OK(tt_value_list_add(list, v));
    tt_value_free(v);
    TT_CHECK_STR(tt_value_as_text(tt_value_at(list, 1)), "kept");
    v = tt_value_retain(tt_value_at(list, 0));
    tt_value_free(list);
    TT_CHECK_STR(tt_value_as_text(v), "kept");
    tt_value_free(v);
    tt_value_free(NULL);
}
