/* SPDX-License-Identifier: Apache-2.0 */
/* Communication among devices beyond the rows: gradients, odd lists, memory formats, nested values, failures. */
#include <string.h>

#include "devices.h"
#include "harness/check_tensor.h"

static const tt_device three[3] = { { TT_DEVICE_CL, 0 }, { TT_DEVICE_CL, 1 }, { TT_DEVICE_CL, 2 } };

static tt_tensor *numbers(int64_t rows, int64_t columns)
{
    return tt_reshape(tt_arange(0, (double)(rows * columns), 1, TT_F32, TT_CPU),
                      TT_SHAPE(rows, columns));
}

/* ---- gradients ------------------------------------------------------------------------------- */

TT_TEST(comm, gradient_of_broadcast_is_the_sum)
{
    need_devices(3);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(TT_FLOATS(1, 2, 3)), *y[3], *s = NULL;

        TT_REQUIRE_OK(tt_comm_broadcast(x, TT_DEVICES(three[0], three[1], three[2]), y));
        for (int i = 0; i < 3; i++) {
            tt_tensor *part = on(tt_sum(tt_mul_scalar(y[i], i + 1)), 0);

            s = s != NULL ? tt_add(s, part) : part;
        }
        TT_REQUIRE_OK(tt_backward(s));
        TT_CHECK_VALUES(tt_grad_of(x), 6, 6, 6);
    }
}

TT_TEST(comm, gradient_of_scatter_is_joined)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(numbers(3, 4)), *y[2];
        tt_scatter_options o = { .dim = -1, .sizes = (int64_t[]){ 1, 3 }, .n_sizes = 2 };

        TT_REQUIRE_OK(tt_comm_scatter(x, TT_DEVICES(tt_cl(0), tt_cl(1)), &o, y, NULL));
        TT_REQUIRE_OK(
            tt_backward(tt_add(on(tt_sum(tt_mul_scalar(y[0], 2)), 1), tt_sum(tt_mul(y[1], y[1])))));
        TT_CHECK_VALUES(tt_grad_of(x), 2, 2, 4, 6, 2, 10, 12, 14, 2, 18, 20, 22);
    }
}

TT_TEST(comm, gradient_of_gather_is_cut)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *a = tt_require_grad(on(numbers(2, 1), 0));
        tt_tensor *b = tt_require_grad(on(numbers(2, 2), 1));
        tt_tensor *y = tt_comm_gather((tt_tensor *[]){ a, b }, 2,
                                      &(tt_gather_options){ .dim = 1, .device = &TT_CPU });

        TT_REQUIRE_OK(tt_backward(tt_sum(tt_mul(y, numbers(2, 3)))));
        TT_CHECK(is_on(tt_grad_of(a), 0));
        TT_CHECK(is_on(tt_grad_of(b), 1));
        TT_CHECK_VALUES(host(tt_grad_of(a)), 0, 3);
        TT_CHECK_VALUES(host(tt_grad_of(b)), 1, 2, 4, 5);
    }
}

/* Parameter 0 is used on all devices, 1 on one of them, 2 nowhere; 3 wants no gradient. */
TT_TEST(comm, gradients_of_coalesced_copies_come_back)
{
    need_devices(3);
    TT_SCOPE {
        tt_tensor *ts[4], *y[12], *s = NULL;

        for (int i = 0; i < 4; i++) {
            ts[i] = on(tt_full(TT_SHAPE(2 + i), i + 1, TT_F32, TT_CPU), 0);
            if (i < 3)
                tt_require_grad(ts[i]);
        }
        TT_REQUIRE_OK(tt_comm_broadcast_coalesced(ts, 4, three, 3, NULL, y));
        for (int d = 1; d < 3; d++)
            TT_CHECK_STR(tt_grad_fn_name(y[d * 4]), "broadcast_coalesced");
        TT_CHECK(!tt_requires_grad(y[7]));
        for (int d = 0; d < 3; d++) {
            tt_tensor *part = on(tt_sum(tt_mul_scalar(y[d * 4], d + 1)), 0);

            s = s != NULL ? tt_add(s, part) : part;
        }
        s = tt_add(s, on(tt_sum(tt_mul(y[8 + 1], y[8 + 1])), 0));
        TT_REQUIRE_OK(tt_backward(s));
        TT_CHECK(is_on(tt_grad_of(ts[0]), 0));
        TT_CHECK_VALUES(host(tt_grad_of(ts[0])), 6, 6);
        TT_CHECK_VALUES(host(tt_grad_of(ts[1])), 4, 4, 4);
        TT_CHECK_NULL(tt_grad_of(ts[2]));
    }
}

TT_TEST(comm, coalesced_copies_are_differentiable_twice)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(on(TT_FLOATS(2, 3), 0)), *y[2], *g, *gg;

        TT_REQUIRE_OK(tt_comm_broadcast_coalesced(&x, 1, three, 2, NULL, y));
        TT_REQUIRE_OK(tt_grad((tt_tensor *[]){ tt_sum(tt_mul(tt_mul(y[1], y[1]), y[1])) }, 1, &x, 1,
                              &(tt_grad_options){ .create_graph = true }, &g));
        TT_CHECK_VALUES(host(g), 12, 27);
        TT_REQUIRE_OK(tt_grad((tt_tensor *[]){ tt_sum(g) }, 1, &x, 1, NULL, &gg));
        TT_CHECK_VALUES(host(gg), 12, 18);
    }
}

TT_TEST(comm, nothing_is_recorded_into_outputs)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(on(TT_FLOATS(1, 2), 0)), *y[2];
        tt_tensor *out = tt_empty(TT_SHAPE(2), TT_F32, tt_cl(1));
        uint64_t version = tt_tensor_version(out);

        TT_CHECK_ERR_SAYS(tt_comm_broadcast(x, TT_OUTPUTS(out), y), TT_ERR_INVALID, "TT_NO_GRAD");
        TT_NO_GRAD TT_CHECK_OK(tt_comm_broadcast(x, TT_OUTPUTS(out), y));
        TT_CHECK_EQ(tt_tensor_version(out), version + 1);
        TT_CHECK_VALUES(host(out), 1, 2);
    }
}

/* ---- lists and layouts --------------------------------------------------------------------------- */

TT_TEST(comm, scatter_gives_fewer_pieces_than_devices)
{
    need_devices(3);
    TT_SCOPE {
        tt_tensor *y[3];
        int n = 0;

        TT_REQUIRE_OK(
            tt_comm_scatter(numbers(4, 2), TT_DEVICES(three[0], three[1], three[2]), NULL, y, &n));
        TT_CHECK_EQ(n, 2);
        TT_CHECK_NULL(y[2]);
        TT_CHECK_VALUES(host(y[1]), 4, 5, 6, 7);
        TT_REQUIRE_OK(tt_comm_scatter(tt_zeros(TT_SHAPE(0, 2), TT_F32, TT_CPU),
                                      TT_DEVICES(three[0], three[1]), NULL, y, &n));
        TT_CHECK_EQ(n, 1);
        TT_CHECK_EQ(tt_tensor_numel(y[0]), 0);
    }
}

TT_TEST(comm, scatter_refuses_what_it_cannot_cut)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *y[2], *x = numbers(3, 2);
        tt_scatter_options o = { .sizes = (int64_t[]){ 1, 1 }, .n_sizes = 2 };

        TT_CHECK_ERR_SAYS(tt_comm_scatter(x, TT_DEVICES(tt_cl(0), tt_cl(1)), &o, y, NULL),
                          TT_ERR_INVALID, "add up to 3");
        o = (tt_scatter_options){ .dim = 2 };
        TT_CHECK_ERR_SAYS(tt_comm_scatter(x, TT_DEVICES(tt_cl(0)), &o, y, NULL), TT_ERR_INVALID,
                          "dimension");
        TT_CHECK_ERR_SAYS(tt_comm_scatter(tt_number(1), TT_DEVICES(tt_cl(0)), NULL, y, NULL),
                          TT_ERR_INVALID, "without dimensions");
        TT_CHECK_ERR_SAYS(tt_comm_scatter(x, TT_DEVICES(TT_CPU), NULL, y, NULL), TT_ERR_INVALID,
                          "device 0 to be an accelerator");
        TT_CHECK_ERR(tt_comm_scatter(x, TT_DEVICES(tt_cl(99)), NULL, y, NULL), TT_ERR_NOT_FOUND);
        TT_CHECK_ERR_SAYS(tt_comm_scatter(x, NULL, NULL, y, NULL), TT_ERR_INVALID, "got none");
    }
}

TT_TEST(comm, a_device_may_come_twice)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *x = on(numbers(2, 2), 0), *y[3];
        tt_device list[3] = { tt_cl(0), tt_cl(0), tt_cl(1) };

        TT_REQUIRE_OK(tt_comm_broadcast_coalesced(&x, 1, list, 3, NULL, y));
        TT_CHECK_PTR(y[0], x);
        TT_CHECK_PTR(y[1], x);
        TT_CHECK(same_bits(y[2], x));
        TT_REQUIRE_OK(tt_comm_scatter(x, TT_DEVICES(tt_cl(1), tt_cl(1)), NULL, y, NULL));
        TT_CHECK_VALUES(host(y[1]), 2, 3);
    }
}

TT_TEST(comm, current_device_is_resolved)
{
    need_devices(2);
    TT_SCOPE
        TT_DEVICE_SCOPE(tt_cl(1))
        {
            tt_tensor *x = numbers(2, 2), *y;

            TT_REQUIRE_OK(tt_comm_broadcast(x, TT_DEVICES(TT_CL), &y));
            TT_CHECK(is_on(y, 1));
        }
}

/* Views, channels-last, a scalar, an empty one and one larger than the buffer travel as they are. */
TT_TEST(comm, coalesced_keeps_layouts)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *image = tt_randn(TT_SHAPE(2, 3, 4, 5), TT_F32, tt_cl(0));
        tt_tensor *ts[7] = { tt_to_format(image, TT_FORMAT_CHANNELS_LAST),
                             tt_transpose(on(numbers(3, 4), 0), 0, 1),
                             tt_expand(on(numbers(1, 3), 0), TT_SHAPE(4, 3)),
                             tt_narrow(on(numbers(4, 4), 0), 1, 1, 2),
                             on(tt_sum(numbers(2, 2)), 0),
                             tt_empty(TT_SHAPE(0, 3), TT_F32, tt_cl(0)),
                             tt_randn(TT_SHAPE(4096), TT_F32, tt_cl(0)) };
        tt_tensor *y[14], *sums[7];
        tt_coalesce_options o = { .buffer_bytes = 2048 };

        TT_REQUIRE_OK(tt_comm_broadcast_coalesced(ts, 7, three, 2, &o, y));
        for (int i = 0; i < 7; i++) {
            TT_CHECK(is_on(y[7 + i], 1));
            TT_CHECK(same_bits(tt_contiguous(y[7 + i]), tt_contiguous(ts[i])));
        }
        TT_CHECK(tt_tensor_is_contiguous(y[7], TT_FORMAT_CHANNELS_LAST));
        TT_CHECK_EQ(tt_tensor_strides(y[8])[0], 1);
        TT_REQUIRE_OK(tt_comm_reduce_add_coalesced(y, 7, 2, &TT_CPU, &o, sums));
        for (int i = 0; i < 7; i++) {
            TT_CHECK(tt_device_equal(tt_tensor_device(sums[i]), TT_CPU));
            TT_CHECK(
                tt_equal(tt_contiguous(sums[i]), tt_mul_scalar(tt_contiguous(host(ts[i])), 2)));
        }
    }
}

TT_TEST(comm, sums_of_three_go_where_they_are_told)
{
    need_devices(3);
    TT_SCOPE {
        tt_tensor *ts[3] = { on(TT_FLOATS(1, 2), 0), on(TT_FLOATS(10, 20), 1),
                             on(TT_FLOATS(100, 200), 2) };

        TT_CHECK_VALUES(host(tt_comm_reduce_add(ts, 3, NULL)), 111, 222);
        TT_CHECK(is_on(tt_comm_reduce_add(ts, 3, &three[2]), 2));
        TT_CHECK_VALUES(tt_comm_reduce_add(ts, 3, &TT_CPU), 111, 222);
        TT_CHECK(tt_comm_reduce_add(ts, 1, NULL) != ts[0]);
        TT_CHECK_VALUES(host(ts[0]), 1, 2);
        ts[2] = on(TT_FLOATS(1, 2, 3), 2);
        TT_CHECK_NULL(tt_comm_reduce_add(ts, 3, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "tensor 2 like the first");
        ts[1] = TT_FLOATS(1, 2);
        TT_CHECK_NULL(tt_comm_reduce_add(ts, 2, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "tensor 1 on an accelerator");
    }
}

TT_TEST(comm, coalesced_lists_are_checked)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *ts[4] = { on(TT_FLOATS(1), 0), on(TT_FLOATS(1), 1), on(TT_FLOATS(1), 1),
                             on(TT_FLOATS(1), 1) };
        tt_tensor *y[4];

        TT_CHECK_ERR_SAYS(tt_comm_broadcast_coalesced(ts, 2, three, 2, NULL, y), TT_ERR_INVALID,
                          "tensor 1 on the first device, cl:0, got one on cl:1");
        TT_CHECK_ERR_SAYS(tt_comm_broadcast_coalesced(ts, 0, three, 2, NULL, y), TT_ERR_INVALID,
                          "at least one tensor");
        TT_CHECK_ERR_SAYS(tt_comm_reduce_add_coalesced(ts, 2, 2, NULL, NULL, y), TT_ERR_INVALID,
                          "tensor 1 is not on the device of tensor 0");
        tt_clear_error();
        ts[3] = NULL;
        TT_CHECK_ERR_SAYS(tt_comm_reduce_add_coalesced(ts, 1, 4, NULL, NULL, y), TT_ERR_INVALID,
                          "tensor 3 is NULL");
        ts[1] = on(TT_FLOATS(1, 2), 1);
        TT_CHECK_ERR_SAYS(tt_comm_reduce_add_coalesced(ts, 1, 2, NULL, NULL, y), TT_ERR_INVALID,
                          "tensor 1 like tensor 0");
    }
}

TT_TEST(comm, gather_checks_its_output)
{
    need_devices(2);
    TT_SCOPE {
        tt_tensor *ts[2] = { on(numbers(2, 2), 0), on(numbers(1, 2), 1) };
        tt_tensor *small = tt_empty(TT_SHAPE(2, 2), TT_F32, tt_cl(0));
        tt_tensor *out = tt_empty(TT_SHAPE(2, 3), TT_F32, TT_CPU), *y;

        TT_CHECK_NULL(tt_comm_gather(ts, 2, &(tt_gather_options){ .output = small }));
        TT_CHECK_CONTAINS(tt_last_error(), "an output float32 [3, 2]");
        out = tt_t(out); /* not row-major */
        y = tt_comm_gather(ts, 2, &(tt_gather_options){ .output = out });
        TT_CHECK_PTR(y, out);
        TT_CHECK_VALUES(y, 0, 1, 2, 3, 0, 1);
        ts[1] = tt_to_dtype(ts[1], TT_I64);
        TT_CHECK_NULL(tt_comm_gather(ts, 2, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "input 1 of type float32, got int64");
    }
}

/* ---- nested values --------------------------------------------------------------------------------- */

/* {"x": t, "rest": [number, (t, text)]} */
static tt_value *nested(tt_tensor *t, tt_tensor *number)
{
    tt_value *v = tt_value_map_new(), *list = tt_value_list_new(), *tuple = tt_value_tuple_new();

    TT_REQUIRE_OK(tt_value_list_give(tuple, tt_value_tensor_new(t)));
    TT_REQUIRE_OK(tt_value_list_give(tuple, tt_value_text_new("word")));
    TT_REQUIRE_OK(tt_value_list_give(list, tt_value_tensor_new(number)));
    TT_REQUIRE_OK(tt_value_list_give(list, tuple));
    TT_REQUIRE_OK(tt_value_map_give(v, "x", tt_value_tensor_new(t)));
    TT_REQUIRE_OK(tt_value_map_give(v, "rest", list));
    return v;
}

static void free_all(tt_value **vs, int n)
{
    for (int i = 0; i < n; i++)
        tt_value_free(vs[i]);
}

TT_TEST(comm, nested_values_go_and_come_back)
{
    need_devices(2);
    TT_SCOPE {
        tt_value *v = nested(numbers(3, 2), tt_number(7)), *parts[3] = { NULL }, *back;
        int n = 0;

        TT_REQUIRE_OK(tt_comm_scatter_value(v, three, 2, 0, parts, &n));
        TT_CHECK_EQ(n, 2);
        for (int i = 0; i < n; i++) {
            tt_value *rest = tt_value_map_get(parts[i], "rest");
            tt_value *tuple = tt_value_at(rest, 1);

            TT_CHECK_EQ(tt_value_kind_of(tuple), TT_VALUE_TUPLE);
            TT_CHECK_STR(tt_value_as_text(tt_value_at(tuple, 1)), "word");
            TT_CHECK(is_on(tt_value_as_tensor(tt_value_at(rest, 0)), i));
            TT_CHECK_NEAR(tt_item(tt_value_as_tensor(tt_value_at(rest, 0))), 7, 0);
            TT_CHECK_EQ(tt_tensor_size(tt_value_as_tensor(tt_value_at(tuple, 0)), 0), 2 - i);
        }
        back = tt_comm_gather_values(parts, n, &(tt_gather_options){ .device = &TT_CPU });
        TT_REQUIRE_NOT_NULL(back);
        TT_CHECK_VALUES(tt_value_as_tensor(tt_value_map_get(back, "x")), 0, 1, 2, 3, 4, 5);
        TT_CHECK_VALUES(tt_value_as_tensor(tt_value_at(tt_value_map_get(back, "rest"), 0)), 7, 7);
        tt_value_free(back);
        tt_value_free(v);
        free_all(parts, n);
    }
}

TT_TEST(comm, values_that_do_not_match_are_refused)
{
    need_devices(2);
    TT_SCOPE {
        tt_value *list = tt_value_list_new(), *parts[2], *vs[2];
        int n = 0;

        TT_REQUIRE_OK(tt_value_list_give(list, tt_value_tensor_new(numbers(4, 1))));
        TT_REQUIRE_OK(tt_value_list_give(list, tt_value_tensor_new(numbers(1, 1))));
        TT_CHECK_ERR_SAYS(tt_comm_scatter_value(list, three, 2, 0, parts, &n), TT_ERR_INVALID,
                          "2 pieces along dimension 0, got 1 from shape [1, 1]");
        vs[0] = list;
        vs[1] = tt_value_int_new(3);
        TT_CHECK_NULL(tt_comm_gather_values(vs, 2, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "value 1 to have the kind of the first: list and int");
        vs[0] = tt_value_int_new(4);
        TT_CHECK_NULL(tt_comm_gather_values(vs, 2, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "content");
        TT_CHECK_NULL(tt_comm_gather_values(vs, 0, NULL));
        tt_value_free(vs[0]);
        tt_value_free(vs[1]);
        tt_value_free(list);
    }
}

/* Whichever allocation fails, the call says so, and the next one works. */
TT_TEST(comm, running_out_of_memory_is_an_error)
{
    need_devices(2);
    TT_SCOPE {
        tt_value *v = nested(numbers(4, 2), tt_number(1)), *parts[2];
        tt_tensor *ts[2] = { tt_require_grad(on(numbers(2, 2), 0)), on(numbers(3, 2), 0) }, *y[4];
        int n = 0;

        TT_REQUIRE_OK(tt_comm_scatter_value(v, three, 2, 0, parts, &n));
        free_all(parts, n);
        TT_REQUIRE_OK(tt_comm_broadcast_coalesced(ts, 2, three, 2, NULL, y));
        for (uint64_t at = 1; at < 40; at++) {
            tt_status st;

            tt_debug_fail_alloc(at);
            st = tt_comm_scatter_value(v, three, 2, 0, parts, &n);
            tt_debug_fail_alloc(0);
            if (st == TT_OK)
                free_all(parts, n);
            else
                TT_CHECK_EQ(st, TT_ERR_NOMEM);
            tt_debug_fail_alloc(at);
            st = tt_comm_broadcast_coalesced(ts, 2, three, 2, NULL, y);
            tt_debug_fail_alloc(0);
            if (st != TT_OK)
                TT_CHECK_EQ(st, TT_ERR_NOMEM);
        }
        TT_REQUIRE_OK(tt_comm_broadcast_coalesced(ts, 2, three, 2, NULL, y));
        TT_CHECK(same_bits(y[3], ts[1]));
        tt_value_free(v);
    }
}
