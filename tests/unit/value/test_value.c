/* SPDX-License-Identifier: Apache-2.0 */
/* Values: making, asking, mapping over tensors, comparing, printing, and running out of memory. */
#include <string.h>

#include "tutti/ops.h"
#include "tutti/testing.h"
#include "tutti/value.h"

static int n_freed;

static void count_free(void *p)
{
    (void)p;
    n_freed++;
}

static void *same_pointer(void *p)
{
    return p;
}

static const tt_opaque_class ticket = { "Ticket", same_pointer, count_free, NULL };

/* {"a": [t, 1], "b": Point(x=t, y=(2.5,)), "c": <Ticket>} */
static tt_value *sample(tt_tensor *t, void *opaque)
{
    tt_value *v = tt_value_map_new(), *list = tt_value_list_new(), *tuple = tt_value_tuple_new(),
             *point = tt_value_record_new("Point");

    TT_CHECK_OK(tt_value_list_give(list, tt_value_tensor_new(t)));
    TT_CHECK_OK(tt_value_list_give(list, tt_value_int_new(1)));
    TT_CHECK_OK(tt_value_list_give(tuple, tt_value_float_new(2.5)));
    TT_CHECK_OK(tt_value_map_give(point, "x", tt_value_tensor_new(t)));
    TT_CHECK_OK(tt_value_map_give(point, "y", tuple));
    TT_CHECK_OK(tt_value_map_give(v, "a", list));
    TT_CHECK_OK(tt_value_map_give(v, "b", point));
    TT_CHECK_OK(tt_value_map_give(v, "c", tt_value_opaque_new(&ticket, opaque)));
    return v;
}

TT_TEST(value, holds_every_kind)
{
    tt_value *v[] = { tt_value_null_new(),        tt_value_bool_new(true),
                      tt_value_int_new(-5),       tt_value_float_new(0.5),
                      tt_value_text_new("tutti"), tt_value_bytes_new("a\0b", 3) };
    size_t n = 0;

    TT_CHECK_EQ(tt_value_kind_of(v[0]), TT_VALUE_NULL);
    TT_CHECK(tt_value_as_bool(v[1]));
    TT_CHECK_EQ(tt_value_as_int(v[2]), -5);
    TT_CHECK_NEAR(tt_value_as_float(v[3]), 0.5, 0);
    TT_CHECK_NEAR(tt_value_as_float(v[2]), -5, 0);
    TT_CHECK_STR(tt_value_as_text(v[4]), "tutti");
    TT_CHECK_EQ(tt_value_count(v[4]), 5);
    TT_CHECK_MEM(tt_value_as_bytes(v[5], &n), "a\0b", 3);
    TT_CHECK_EQ(n, 3);
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)
        tt_value_free(v[i]);
}

TT_TEST(value, says_what_it_is_when_asked_for_another_kind)
{
    tt_value *v = tt_value_int_new(3), *map = tt_value_map_new();

    TT_CHECK_NULL(tt_value_as_text(v));
    TT_CHECK_CONTAINS(tt_last_error(), "expected text, got int");
    TT_CHECK_NULL(tt_value_map_get(map, "gone"));
    TT_CHECK_CONTAINS(tt_last_error(), "no entry \"gone\"");
    TT_CHECK_NULL(tt_value_at(map, 0));
    TT_CHECK_ERR(tt_value_list_add(map, v), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_value_map_set(map, "me", map), TT_ERR_INVALID);
    tt_value_free(v);
    tt_value_free(map);
}

TT_TEST(value, keeps_names_in_order_and_replaces_in_place)
{
    tt_value *map = tt_value_map_new();

    TT_CHECK_OK(tt_value_map_give(map, "z", tt_value_int_new(1)));
    TT_CHECK_OK(tt_value_map_give(map, "a", tt_value_int_new(2)));
    TT_CHECK_OK(tt_value_map_give(map, "z", tt_value_int_new(3)));
    TT_CHECK_EQ(tt_value_count(map), 2);
    TT_CHECK_STR(tt_value_name_at(map, 0), "z");
    TT_CHECK_STR(tt_value_name_at(map, 1), "a");
    TT_CHECK_EQ(tt_value_as_int(tt_value_map_get(map, "z")), 3);
    TT_CHECK(tt_value_map_has(map, "a"));
    TT_CHECK(!tt_value_map_has(map, "b"));
    tt_value_free(map);
}

static tt_tensor *doubled(void *ctx, tt_tensor *t)
{
    ++*(int *)ctx;
    return tt_mul_scalar(t, 2);
}

TT_TEST(value, maps_tensors_and_keeps_kinds_and_names)
{
    TT_SCOPE {
        int n = 0, mark = 0;
        tt_value *v = sample(TT_FLOATS(1, 2), &mark), *w = tt_value_map_tensors(v, doubled, &n);
        tt_value *b = tt_value_map_get(w, "b");
        tt_tensor *x = tt_value_as_tensor(tt_value_map_get(b, "x"));

        TT_CHECK_EQ(n, 2);
        TT_CHECK_EQ(tt_value_n_tensors(w), 2);
        TT_CHECK_STR(tt_value_type_name(b), "Point");
        TT_CHECK_EQ(tt_value_kind_of(tt_value_map_get(b, "y")), TT_VALUE_TUPLE);
        TT_CHECK_PTR(tt_value_as_opaque(tt_value_map_get(w, "c"), &ticket), &mark);
        TT_REQUIRE_NOT_NULL(x);
        TT_CHECK_NEAR(((float *)tt_tensor_data(x))[1], 4, 0);
        tt_value_free(v);
        tt_value_free(w);
    }
    TT_CHECK_EQ(n_freed, 1);
}

TT_TEST(value, prints_itself)
{
    TT_SCOPE {
        tt_value *v = sample(TT_FLOATS(1, 2), NULL);
        char *text = tt_value_text(v);

        TT_CHECK_STR(text, "{\"a\": [tensor float32 [2], 1], \"b\": Point(x=tensor float32 [2], "
                           "y=(2.5,)), \"c\": <Ticket>}");
        tt_text_free(text);
        tt_value_free(v);
    }
}

TT_TEST(value, compares_deeply)
{
    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2);
        tt_value *a = sample(t, &n_freed), *b = sample(t, &n_freed), *c = tt_value_copy(a);

        TT_CHECK(tt_value_equal(a, b));
        TT_CHECK(tt_value_equal(a, c));
        TT_CHECK_OK(tt_value_map_give(b, "d", tt_value_null_new()));
        TT_CHECK(!tt_value_equal(a, b));
        TT_CHECK_OK(tt_value_list_give(tt_value_map_get(c, "a"), tt_value_int_new(9)));
        TT_CHECK(!tt_value_equal(a, c));
        TT_CHECK_EQ(tt_value_count(tt_value_map_get(a, "a")), 2);
        tt_value_free(a);
        tt_value_free(b);
        tt_value_free(c);
    }
}

static tt_status build_and_copy(void *ctx)
{
    tt_value *v = tt_value_map_new(), *copy = NULL;
    tt_status st = v != NULL ? TT_OK : TT_ERR_NOMEM;
    char *text = NULL;

    (void)ctx;
    if (st == TT_OK)
        st = tt_value_map_give(v, "list", tt_value_list_new());
    if (st == TT_OK)
        st = tt_value_list_give(tt_value_map_get(v, "list"), tt_value_record_new("R"));
    if (st == TT_OK)
        st = tt_value_map_give(v, "text", tt_value_text_new("words"));
    if (st == TT_OK && (copy = tt_value_copy(v)) == NULL)
        st = tt_last_status();
    if (st == TT_OK && (text = tt_value_text(copy)) == NULL)
        st = tt_last_status();
    tt_text_free(text);
    tt_value_free(copy);
    tt_value_free(v);
    return st;
}

TT_TEST(value, survives_every_failed_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(build_and_copy, NULL), 10);
}
