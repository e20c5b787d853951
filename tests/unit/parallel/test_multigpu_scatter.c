/* SPDX-License-Identifier: Apache-2.0 */
/* Rows about pieces of tensors and of nested values on several devices, and their joining. */
#include <string.h>

#include "devices.h"

static const tt_device both[2] = { { TT_DEVICE_CL, 0 }, { TT_DEVICE_CL, 1 } };

/* ---- scatter --------------------------------------------------------------------------------- */

typedef struct scatter_case {
    tt_shape shape;
    bool gpu;
    int dim;
    const int64_t *sizes; /* NULL: halves */
} scatter_case;

static tt_tensor *piece(tt_tensor *x, const scatter_case *c, int i)
{
    int64_t half = tt_tensor_size(x, c->dim) / 2;
    int64_t first = c->sizes != NULL ? c->sizes[0] : half;
    int64_t size = c->sizes != NULL ? c->sizes[i] : half;

    return tt_narrow(x, c->dim, i == 0 ? 0 : first, size);
}

static void check_pieces(tt_tensor *x, const scatter_case *c, const tt_scatter_options *o)
{
    tt_tensor *y[2] = { NULL };
    int n = 0;

    TT_REQUIRE_OK(tt_comm_scatter(x, TT_DEVICES(tt_cl(0), tt_cl(1)), o, y, &n));
    TT_CHECK_EQ(n, 2);
    for (int i = 0; i < 2; i++) {
        TT_CHECK(is_on(y[i], i));
        TT_CHECK(same_bits(y[i], tt_contiguous(piece(x, c, i))));
    }
    if (c->gpu)
        TT_CHECK_PTR(tt_tensor_data(y[0]), tt_tensor_data(x));
}

static void check_outputs(tt_tensor *x, const scatter_case *c)
{
    tt_tensor *outs[2], *y[2] = { NULL };
    tt_scatter_options o = { .dim = c->dim };

    for (int i = 0; i < 2; i++)
        outs[i] = tt_empty(tt_tensor_shape(piece(x, c, i)), TT_F32, tt_cl(i));
    TT_REQUIRE_OK(tt_comm_scatter(x, TT_OUTPUTS(outs[0], outs[1]), &o, y, NULL));
    for (int i = 0; i < 2; i++) {
        TT_CHECK_PTR(y[i], outs[i]);
        TT_CHECK(is_on(y[i], i));
        TT_CHECK(same_bits(y[i], tt_contiguous(piece(x, c, i))));
    }
}

static void wrong_outputs(tt_tensor *x, const scatter_case *c, tt_tensor **y)
{
    tt_scatter_options o = { .dim = c->dim };
    tt_tensor *first = tt_empty(tt_tensor_shape(piece(x, c, 0)), TT_F32, tt_cl(0));
    tt_tensor *second = tt_empty(tt_tensor_shape(piece(x, c, 1)), TT_F32, tt_cl(1));
    tt_tensor *at_home = tt_empty_like(host(first)), *deeper = tt_unsqueeze(first, 0);
    tt_shape longer = tt_tensor_shape(second);

    longer.dims[c->dim < 0 ? c->dim + 2 : c->dim]++;
    TT_CHECK_ERR_SAYS(tt_comm_scatter(x, TT_OUTPUTS(at_home, second), &o, y, NULL), TT_ERR_INVALID,
                      "output 0 on an accelerator");
    TT_CHECK_ERR_SAYS(tt_comm_scatter(x, TT_OUTPUTS(deeper, second), &o, y, NULL), TT_ERR_INVALID,
                      "output 0");
    TT_CHECK_ERR_SAYS(
        tt_comm_scatter(x, TT_OUTPUTS(first, tt_empty(longer, TT_F32, tt_cl(1))), &o, y, NULL),
        TT_ERR_INVALID, "add up to");
}

static void wrong_targets(tt_tensor *x, const scatter_case *c, const tt_scatter_options *o)
{
    tt_tensor *outs[2] = { x, x }, *y[3];
    tt_targets two = { .devices = both, .n_devices = 2, .outputs = outs, .n_outputs = 2 };
    tt_targets no_device = { .devices = both }, no_output = { .outputs = outs };

    TT_CHECK_ERR_SAYS(tt_comm_scatter(x, &two, o, y, NULL), TT_ERR_INVALID, "got both");
    TT_CHECK_ERR_SAYS(tt_comm_scatter(x, &no_device, o, y, NULL), TT_ERR_INVALID, "devices, got 0");
    TT_CHECK_ERR_SAYS(tt_comm_scatter(x, &no_output, o, y, NULL), TT_ERR_INVALID, "outputs, got 0");
    if (c->sizes != NULL)
        TT_CHECK_ERR_SAYS(tt_comm_scatter(x, TT_DEVICES(tt_cl(0), tt_cl(1), tt_cl(0)), o, y, NULL),
                          TT_ERR_INVALID, "as many sizes as devices, 3, got 2");
    wrong_outputs(x, c, y);
}

static void check_scatter(scatter_case c)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_scatter_options o = { .dim = c.dim, .sizes = c.sizes, .n_sizes = c.sizes ? 2 : 0 };
        tt_tensor *x = tt_randn(c.shape, TT_F32, TT_CPU);

        if (c.gpu)
            x = on(x, 0);
        check_pieces(x, &c, &o);
        check_outputs(x, &c);
        wrong_targets(x, &c, &o);
    }
}

static const int64_t two_four[2] = { 2, 4 };

TT_TEST(multigpu, test_scatter_cpu)
{
    check_scatter((scatter_case){ TT_SHAPE(4, 4), false, 0, NULL });
}

TT_TEST(multigpu, test_scatter_cpu_dim)
{
    check_scatter((scatter_case){ TT_SHAPE(4, 4), false, 1, NULL });
}

TT_TEST(multigpu, test_scatter_cpu_neg_dim)
{
    check_scatter((scatter_case){ TT_SHAPE(4, 4), false, -2, NULL });
}

TT_TEST(multigpu, test_scatter_cpu_sizes)
{
    check_scatter((scatter_case){ TT_SHAPE(6, 4), false, 0, two_four });
}

TT_TEST(multigpu, test_scatter_gpu)
{
    check_scatter((scatter_case){ TT_SHAPE(4, 4), true, 0, NULL });
}

TT_TEST(multigpu, test_scatter_gpu_dim)
{
    check_scatter((scatter_case){ TT_SHAPE(4, 4), true, 1, NULL });
}

TT_TEST(multigpu, test_scatter_gpu_neg_dim)
{
    check_scatter((scatter_case){ TT_SHAPE(4, 4), true, -2, NULL });
}

TT_TEST(multigpu, test_scatter_gpu_sizes)
{
    check_scatter((scatter_case){ TT_SHAPE(6, 4), true, 0, two_four });
}

/* ---- gather ---------------------------------------------------------------------------------- */

static void gathered(tt_tensor *const *in, int dim, const tt_device *to, tt_device expected,
                     bool given)
{
    int64_t size = tt_tensor_size(in[0], dim);
    tt_shape shape = tt_tensor_shape(in[0]);
    tt_tensor *out = NULL, *y;

    shape.dims[dim < 0 ? dim + 2 : dim] *= 2;
    if (given)
        out = tt_empty(shape, TT_F32, expected);
    y = tt_comm_gather(
        in, 2, &(tt_gather_options){ .dim = dim, .device = given ? NULL : to, .output = out });
    if (!TT_CHECK_NOT_NULL(y))
        TT_FAIL_TEST("%s", tt_last_error());
    if (given)
        TT_CHECK_PTR(y, out);
    TT_CHECK(tt_device_equal(tt_tensor_device(y), expected));
    TT_CHECK(tt_shape_equal(tt_tensor_shape(y), shape));
    TT_CHECK(same_bits(tt_contiguous(tt_narrow(y, dim, 0, size)), in[0]));
    TT_CHECK(same_bits(tt_contiguous(tt_narrow(y, dim, size, size)), in[1]));
}

static void wrong_inputs(tt_tensor *const *in, int dim)
{
    tt_tensor *other[2] = { in[0], tt_unsqueeze(in[1], 0) };
    tt_tensor *at_home[2] = { host(in[0]), host(in[1]) };
    tt_tensor *odd[2] = { in[0], tt_reshape(tt_narrow(in[1], dim == 0 ? 1 : 0, 0, 1),
                                            dim == 0 ? TT_SHAPE(2, 1) : TT_SHAPE(1, 5)) };
    tt_gather_options o = { .dim = dim };

    TT_CHECK_NULL(tt_comm_gather(
        in, 2, &(tt_gather_options){ .dim = dim, .device = &both[0], .output = in[0] }));
    TT_CHECK_CONTAINS(tt_last_error(), "got both");
    TT_CHECK_NULL(tt_comm_gather(in, 0, &o));
    TT_CHECK_CONTAINS(tt_last_error(), "at least one tensor");
    TT_CHECK_NULL(tt_comm_gather(at_home, 2, &o));
    TT_CHECK_CONTAINS(tt_last_error(), "input 0 on an accelerator");
    TT_CHECK_NULL(tt_comm_gather(other, 2, &o));
    TT_CHECK_CONTAINS(tt_last_error(), "2 dimensions");
    TT_CHECK_NULL(tt_comm_gather(odd, 2, &o));
    TT_CHECK_CONTAINS(tt_last_error(), "input 1");
}

static void check_gather(int dim)
{
    int have = need_devices(2);

    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *in[2] = { on(tt_randn(TT_SHAPE(2, 5), TT_F32, TT_CPU), 0),
                             on(tt_randn(TT_SHAPE(2, 5), TT_F32, TT_CPU), 1) };
        tt_device to[3] = { tt_cl(0), TT_CPU, tt_cl(2) };

        TT_DEVICE_SCOPE(tt_cl(1))
        {
            for (int given = 0; given < 2; given++) {
                gathered(in, dim, NULL, tt_cl(1), given);
                for (int i = 0; i < (have > 2 ? 3 : 2); i++)
                    gathered(in, dim, &to[i], to[i], given);
            }
            wrong_inputs(in, dim);
        }
    }
}

TT_TEST(multigpu, test_gather)
{
    check_gather(0);
}

TT_TEST(multigpu, test_gather_dim)
{
    check_gather(1);
}

TT_TEST(multigpu, test_gather_neg_dim)
{
    check_gather(-1);
}

TT_TEST(multigpu, test_memory_format_scatter_gather)
{
    need_devices(2);
    tt_seed(tt_test_seed());
    TT_SCOPE {
        tt_tensor *x = tt_to_format(tt_randn(TT_SHAPE(10, 3, 32, 32), TT_F32, TT_CPU),
                                    TT_FORMAT_CHANNELS_LAST);
        tt_tensor *y[2] = { NULL }, *back;

        TT_REQUIRE_OK(tt_comm_scatter(x, TT_DEVICES(tt_cl(0), tt_cl(1)), NULL, y, NULL));
        for (int i = 0; i < 2; i++) {
            TT_CHECK(!tt_tensor_is_contiguous(y[i], TT_FORMAT_CONTIGUOUS));
            TT_CHECK(tt_tensor_is_contiguous(y[i], TT_FORMAT_CHANNELS_LAST));
        }
        back = tt_comm_gather(y, 2, NULL);
        TT_REQUIRE_NOT_NULL(back);
        TT_CHECK(tt_tensor_is_contiguous(back, TT_FORMAT_CHANNELS_LAST));
        TT_CHECK(same_bits(tt_contiguous(back), tt_contiguous(x)));
    }
}

/* ---- named fields ------------------------------------------------------------------------------ */

/* Both kinds of containers with names: records, which have a type, and maps. */
static tt_value *fields(bool record, tt_tensor *a, tt_tensor *b)
{
    tt_value *v = record ? tt_value_record_new("Pair") : tt_value_map_new();

    TT_REQUIRE_OK(tt_value_map_give(v, "a", tt_value_tensor_new(a)));
    TT_REQUIRE_OK(tt_value_map_give(v, "b", tt_value_tensor_new(b)));
    return v;
}

static tt_tensor *field(const tt_value *v, const char *name)
{
    return tt_value_as_tensor(tt_value_map_get(v, name));
}

static void check_same_fields(const tt_value *v, const tt_value *like)
{
    TT_CHECK_EQ(tt_value_kind_of(v), tt_value_kind_of(like));
    TT_CHECK_EQ(tt_value_count(v), 2);
    TT_CHECK_STR(tt_value_name_at(v, 0), "a");
    TT_CHECK_STR(tt_value_name_at(v, 1), "b");
    if (tt_value_kind_of(like) == TT_VALUE_RECORD)
        TT_CHECK_STR(tt_value_type_name(v), "Pair");
}

static void scattered_fields(bool record, int n)
{
    tt_tensor *a = on(tt_randn(TT_SHAPE(2 * n), TT_F32, TT_CPU), 0);
    tt_tensor *b = on(tt_randn(TT_SHAPE(2 * n), TT_F32, TT_CPU), 0);
    tt_value *v = fields(record, a, b), *parts[16] = { NULL };
    tt_device devices[16];
    int got = 0;

    for (int i = 0; i < n; i++)
        devices[i] = tt_cl(i);
    TT_REQUIRE_OK(tt_comm_scatter_value(v, devices, n, 0, parts, &got));
    TT_CHECK_EQ(got, n);
    for (int i = 0; i < got; i++) {
        check_same_fields(parts[i], v);
        TT_CHECK(is_on(field(parts[i], "a"), i));
        TT_CHECK(is_on(field(parts[i], "b"), i));
        TT_CHECK(same_bits(field(parts[i], "a"), tt_contiguous(tt_narrow(a, 0, 2 * i, 2))));
        TT_CHECK(same_bits(field(parts[i], "b"), tt_contiguous(tt_narrow(b, 0, 2 * i, 2))));
        tt_value_free(parts[i]);
    }
    tt_value_free(v);
}

TT_TEST(multigpu, test_scatter_namedtuple)
{
    int n = need_devices(2);

    tt_seed(tt_test_seed());
    TT_SCOPE {
        scattered_fields(true, n);
        scattered_fields(false, n);
    }
}

static void gathered_fields(bool record, int64_t size, tt_device to)
{
    tt_tensor *t[4]; /* a on 0 and b on 1, then a on 1 and b on 0 */
    tt_value *in[2], *out;

    for (int i = 0; i < 4; i++)
        t[i] = on(tt_randn(TT_SHAPE(size), TT_F32, TT_CPU), i == 0 || i == 3 ? 0 : 1);
    in[0] = fields(record, t[0], t[1]);
    in[1] = fields(record, t[2], t[3]);
    out = tt_comm_gather_values(in, 2, &(tt_gather_options){ .device = &to });
    TT_REQUIRE_NOT_NULL(out);
    check_same_fields(out, in[0]);
    for (int k = 0; k < 2; k++) {
        tt_tensor *joined = field(out, k == 0 ? "a" : "b");
        tt_tensor *want[2] = { host(t[k]), host(t[2 + k]) };

        TT_CHECK(tt_device_equal(tt_tensor_device(joined), to));
        TT_CHECK(same_bits(joined, tt_cat(want, 2, 0)));
    }
    tt_value_free(out);
    tt_value_free(in[0]);
    tt_value_free(in[1]);
}

TT_TEST(multigpu, test_gather_namedtuple)
{
    int n = need_devices(2);

    tt_seed(tt_test_seed());
    TT_SCOPE {
        for (int record = 0; record < 2; record++) {
            gathered_fields(record, 2 * n, TT_CPU);
            gathered_fields(record, 2 * n, tt_cl(0));
        }
    }
}
