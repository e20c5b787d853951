/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling against plain loops over windows in double, gradients against finite differences. */
#include "harness/check_tensor.h"
#include "unit/ops/nn_data.h"

typedef struct pool_case {
    int64_t h, w;
    tt_pool_options opt;
    int64_t oh, ow; /* as PyTorch has them */
} pool_case;

static const pool_case max_cases[] = {
    { 7, 9, { .kernel = { 2, 3 } }, 3, 3 },
    { 7, 9, { .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 } }, 7, 9 },
    { 8, 8, { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } }, 4, 4 },
    { 7, 9, { .kernel = { 3, 2 }, .stride = { 3, 4 }, .ceil_mode = true }, 3, 3 },
    { 5,
      5,
      { .kernel = { 2, 2 }, .stride = { 3, 3 }, .padding = { 1, 1 }, .ceil_mode = true },
      2,
      2 },
    { 9, 11, { .kernel = { 3, 3 }, .stride = { 2, 3 }, .dilation = { 2, 3 } }, 3, 2 },
    { 9,
      70,
      { .kernel = { 3, 3 }, .stride = { 2, 1 }, .padding = { 1, 1 }, .dilation = { 1, 2 } },
      5,
      68 },
    { 1, 1, { .kernel = { 1, 1 } }, 1, 1 },
};

/* All taps of a window may be in the padding: its gradient must stay inside the plane all the same. */
TT_TEST(pool, windows_of_padding_only)
{
    tt_pool_options opt = { .kernel = { 2, 2 }, .padding = { 1, 1 }, .dilation = { 2, 2 } };
    tt_tensor *x = tt_ones(TT_SHAPE(1, 1, 1, 1), TT_F32, TT_CPU), *at, *y;

    tt_set_requires_grad(x, true);
    y = tt_max_pool2d(x, &opt, &at);
    TT_REQUIRE_NOT_NULL(y);
    TT_CHECK_EQ(tt_item_int(at), 0);
    TT_CHECK_OK(tt_backward(tt_sum(y)));
}

typedef struct window {
    double max, sum;
    int64_t at, count, count_padded;
} window;

/* One window, element by element. */
static window look(const double *x, const pool_case *c, int64_t i, int64_t j)
{
    const tt_pool_options *o = &c->opt;
    int64_t s0 = o->stride[0] ? o->stride[0] : o->kernel[0];
    int64_t s1 = o->stride[1] ? o->stride[1] : o->kernel[1];
    window r = { .max = -INFINITY, .at = -1 };

    for (int64_t a = 0; a < o->kernel[0]; a++)
        for (int64_t b = 0; b < o->kernel[1]; b++) {
            int64_t h = i * s0 - o->padding[0] + a * (o->dilation[0] ? o->dilation[0] : 1);
            int64_t w = j * s1 - o->padding[1] + b * (o->dilation[1] ? o->dilation[1] : 1);

            r.count_padded += h < c->h + o->padding[0] && w < c->w + o->padding[1];
            if (h < 0 || w < 0 || h >= c->h || w >= c->w)
                continue;
            r.count++;
            r.sum += x[h * c->w + w];
            if (x[h * c->w + w] > r.max || isnan(x[h * c->w + w]))
                r.max = x[h * c->w + w], r.at = h * c->w + w;
        }
    return r;
}

static void check_max(const pool_case *c, tt_dtype dtype)
{
    tt_tensor *x = nn_values(TT_SHAPE(2, 3, c->h, c->w), dtype, 1), *at;
    tt_tensor *y = tt_max_pool2d(x, &c->opt, &at);
    const double *in = nn_read(x, 0), *out = nn_read(y, 1), *where = nn_read(at, 2);

    TT_CHECK_EQ(tt_tensor_size(y, 2), c->oh);
    TT_CHECK_EQ(tt_tensor_size(y, 3), c->ow);
    TT_CHECK_EQ(tt_tensor_dtype(y), dtype);
    TT_CHECK_EQ(tt_tensor_dtype(at), TT_I64);
    for (int64_t n = 0; n < 6 * c->oh * c->ow; n++) {
        int64_t plane = n / (c->oh * c->ow), o = n % (c->oh * c->ow);
        window r = look(in + plane * c->h * c->w, c, o / c->ow, o % c->ow);

        TT_REQUIRE_EQ((int64_t)where[n], r.at);
        TT_REQUIRE(out[n] == r.max);
    }
    TT_CHECK(nn_same(tt_max_pool2d(x, &c->opt, NULL), y, 0.0));
}

TT_TEST(ops_pool, max_matches_windows)
{
    static const tt_dtype dtypes[] = { TT_F32, TT_F64, TT_BF16, TT_F16 };

    for (size_t i = 0; i < sizeof max_cases / sizeof *max_cases; i++)
        for (int d = 0; d < 2; d++)
            TT_SCOPE
                check_max(&max_cases[i], dtypes[d]);
}

static const pool_case avg_cases[] = {
    { 7, 9, { .kernel = { 2, 3 } }, 3, 3 },
    { 7, 9, { .kernel = { 3, 3 }, .stride = { 1, 1 }, .padding = { 1, 1 } }, 7, 9 },
    { 8,
      8,
      { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .exclude_pad = true },
      4,
      4 },
    { 7, 9, { .kernel = { 3, 2 }, .stride = { 3, 4 }, .ceil_mode = true }, 3, 3 },
    { 8,
      8,
      { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .ceil_mode = true },
      5,
      5 },
    { 6, 6, { .kernel = { 2, 2 }, .divisor_override = 3 }, 3, 3 },
};

static void check_avg(const pool_case *c)
{
    tt_tensor *x = nn_values(TT_SHAPE(3, c->h, c->w), TT_F32, 2);
    tt_tensor *y = tt_avg_pool2d(x, &c->opt);
    const double *in = nn_read(x, 0), *out = nn_read(y, 1);

    TT_CHECK_EQ(tt_tensor_dims(y), 3);
    TT_CHECK_EQ(tt_tensor_size(y, 1), c->oh);
    TT_CHECK_EQ(tt_tensor_size(y, 2), c->ow);
    for (int64_t n = 0; n < 3 * c->oh * c->ow; n++) {
        int64_t plane = n / (c->oh * c->ow), o = n % (c->oh * c->ow);
        window r = look(in + plane * c->h * c->w, c, o / c->ow, o % c->ow);
        int64_t by = c->opt.divisor_override ? c->opt.divisor_override
                     : c->opt.exclude_pad    ? r.count
                                             : r.count_padded;

        TT_REQUIRE_NEAR(out[n], r.sum / (double)by, 1e-6);
    }
}

TT_TEST(ops_pool, average_matches_windows)
{
    for (size_t i = 0; i < sizeof avg_cases / sizeof *avg_cases; i++)
        TT_SCOPE
            check_avg(&avg_cases[i]);
}

TT_TEST(ops_pool, one_dimension)
{
    TT_SCOPE {
        tt_tensor *x = tt_reshape(TT_FLOATS(1, 5, 2, 7, 3, 9, 4), TT_SHAPE(1, 1, 7));
        tt_tensor *m = tt_max_pool1d(x, &(tt_pool_options){ .kernel = { 3 }, .stride = { 2 } });
        tt_tensor *a = tt_avg_pool1d(x, &(tt_pool_options){ .kernel = { 2 }, .ceil_mode = true });

        TT_CHECK(nn_same(m, tt_reshape(TT_FLOATS(5, 7, 9), TT_SHAPE(1, 1, 3)), 0.0));
        TT_CHECK(nn_same(a, tt_reshape(TT_FLOATS(3, 4.5, 6, 4), TT_SHAPE(1, 1, 4)), 0.0));
    }
}

TT_TEST(ops_pool, nan_wins)
{
    TT_SCOPE {
        tt_tensor *x = tt_reshape(TT_FLOATS(1, NAN, 9, 3), TT_SHAPE(1, 2, 2)), *at;
        tt_pool_options opt = { .kernel = { 2, 2 } };

        TT_CHECK(isnan(tt_item(tt_max_pool2d(x, &opt, &at))));
        TT_CHECK_EQ(tt_item_int(at), 1);
        TT_CHECK(isnan(tt_item(tt_adaptive_max_pool2d(x, 1, 1, NULL))));
    }
}

TT_TEST(ops_pool, first_of_equals_and_minus_infinity)
{
    TT_SCOPE {
        tt_tensor *at;
        tt_pool_options opt = { .kernel = { 2, 2 }, .stride = { 1, 1 }, .padding = { 1, 1 } };
        const double *i;

        TT_REQUIRE_NOT_NULL(tt_max_pool2d(tt_zeros(TT_SHAPE(1, 2, 2), TT_F32, TT_CPU), &opt, &at));
        i = nn_read(at, 0);
        TT_CHECK(i[0] == 0 && i[1] == 0 && i[4] == 0 && i[8] == 3);
        TT_REQUIRE_NOT_NULL(
            tt_max_pool2d(tt_full(TT_SHAPE(1, 2, 2), -INFINITY, TT_F32, TT_CPU), &opt, &at));
        i = nn_read(at, 0);
        TT_CHECK(i[0] == 0 && i[2] == 1 && i[8] == 3);
    }
}

static void check_adaptive(int64_t oh, int64_t ow)
{
    int64_t h = 7, w = 5;
    tt_tensor *x = nn_values(TT_SHAPE(2, 2, h, w), TT_F64, 3), *at;
    tt_tensor *a = tt_adaptive_avg_pool2d(x, oh, ow), *m = tt_adaptive_max_pool2d(x, oh, ow, &at);
    const double *in = nn_read(x, 0), *avg = nn_read(a, 1), *max = nn_read(m, 2);
    const double *where = nn_read(at, 3);

    for (int64_t n = 0; n < 4 * oh * ow; n++) {
        const double *plane = in + n / (oh * ow) * h * w;
        int64_t i = n % (oh * ow) / ow, j = n % ow;
        int64_t h0 = i * h / oh, h1 = ((i + 1) * h + oh - 1) / oh;
        int64_t w0 = j * w / ow, w1 = ((j + 1) * w + ow - 1) / ow;
        double sum = 0, best = -INFINITY;

        for (int64_t p = h0 * w; p < h1 * w; p++)
            if (p % w >= w0 && p % w < w1) {
                sum += plane[p];
                best = plane[p] > best ? plane[p] : best;
            }
        TT_REQUIRE_NEAR(avg[n], sum / (double)((h1 - h0) * (w1 - w0)), 1e-12);
        TT_REQUIRE(max[n] == best);
        TT_REQUIRE(plane[(int64_t)where[n]] == best);
    }
}

TT_TEST(ops_pool, adaptive_matches_windows)
{
    TT_SCOPE {
        check_adaptive(3, 2);
        check_adaptive(1, 1);
        check_adaptive(7, 5);
        check_adaptive(9, 6);
    }
}

TT_TEST(ops_pool, half_types_go_through_float)
{
    TT_SCOPE {
        tt_pool_options opt = { .kernel = { 2, 2 } };
        tt_tensor *x = nn_values(TT_SHAPE(1, 2, 6, 6), TT_BF16, 4);
        tt_tensor *want = tt_to_dtype(tt_avg_pool2d(tt_to_dtype(x, TT_F32), &opt), TT_BF16);

        TT_CHECK(nn_same(tt_avg_pool2d(x, &opt), want, 0.0));
        want = tt_to_dtype(tt_max_pool2d(tt_to_dtype(x, TT_F32), &opt, NULL), TT_BF16);
        TT_CHECK(nn_same(tt_max_pool2d(x, &opt, NULL), want, 0.0));
    }
}

TT_TEST(ops_pool, any_layout)
{
    TT_SCOPE {
        tt_pool_options opt = { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } };
        tt_tensor *x = nn_values(TT_SHAPE(2, 3, 8, 6), TT_F32, 5);
        tt_tensor *last = tt_to_format(x, TT_FORMAT_CHANNELS_LAST);

        TT_REQUIRE_NOT_NULL(last);
        TT_CHECK(nn_same(tt_max_pool2d(last, &opt, NULL), tt_max_pool2d(x, &opt, NULL), 1e-6));
        TT_CHECK(nn_same(tt_avg_pool2d(last, &opt), tt_avg_pool2d(x, &opt), 1e-6));
    }
}

/* ---- gradients --------------------------------------------------------------------------------- */

static tt_status run_max(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in, (void)n_out;
    out[0] = tt_max_pool2d(in[0], ctx, NULL);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status run_avg(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in, (void)n_out;
    out[0] = tt_avg_pool2d(in[0], ctx);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status run_adaptive(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    (void)n_in, (void)n_out;
    out[0] = *(bool *)ctx ? tt_adaptive_max_pool2d(in[0], 3, 2, NULL)
                          : tt_adaptive_avg_pool2d(in[0], 3, 2);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

static tt_status run_1d(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    tt_pool_options opt = { .kernel = { 3 }, .stride = { 2 }, .padding = { 1 } };

    (void)n_in, (void)n_out;
    out[0] = *(bool *)ctx ? tt_max_pool1d(in[0], &opt) : tt_avg_pool1d(in[0], &opt);
    return out[0] != NULL ? TT_OK : tt_last_status();
}

TT_TEST(ops_pool, gradients)
{
    TT_SCOPE {
        tt_tensor *x = tt_require_grad(nn_values(TT_SHAPE(2, 2, 6, 5), TT_F64, 6));
        tt_tensor *flat = tt_require_grad(nn_values(TT_SHAPE(2, 3, 7), TT_F64, 7));
        tt_pool_options opt = {
            .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 }, .ceil_mode = true
        };
        bool yes = true, no = false;
        tt_gradcheck_options twice = { .second_order = true };

        TT_CHECK_OK(tt_gradcheck(run_max, &opt, &x, 1, 1, &twice));
        TT_CHECK_OK(tt_gradcheck(run_avg, &opt, &x, 1, 1, &twice));
        opt.exclude_pad = true;
        TT_CHECK_OK(tt_gradcheck(run_avg, &opt, &x, 1, 1, NULL));
        TT_CHECK_OK(tt_gradcheck(run_adaptive, &yes, &x, 1, 1, &twice));
        TT_CHECK_OK(tt_gradcheck(run_adaptive, &no, &x, 1, 1, &twice));
        TT_CHECK_OK(tt_gradcheck(run_1d, &yes, &flat, 1, 1, &twice));
        TT_CHECK_OK(tt_gradcheck(run_1d, &no, &flat, 1, 1, &twice));
    }
}

/* ---- the rest ------------------------------------------------------------------------------------ */

/* Values that no float holds, and the lowest value of the type where a window has padding only. */
TT_TEST(ops_pool, integers)
{
    static const tt_dtype types[] = { TT_I8, TT_U8, TT_I16, TT_I32, TT_I64 };
    static const double lowest[] = { INT8_MIN, 0, INT16_MIN, INT32_MIN, INT64_MIN };
    tt_pool_options two = { .kernel = { 2, 2 } }, in_line = { .kernel = { 2 }, .stride = { 1 } };
    tt_pool_options apart = { .kernel = { 2, 2 }, .padding = { 1, 1 }, .dilation = { 2, 2 } };
    const int64_t big = INT64_C(1) << 60;

    TT_SCOPE {
        tt_tensor *x = tt_reshape(TT_INTS(3, 9, 2, 5, 7, 4, 8, 6), TT_SHAPE(1, 2, 4)), *at;
        tt_tensor *odd = TT_INTS(big + 1, big, big + 3, big + 2), *y;

        for (int i = 0; i < 5; i++) {
            y = tt_max_pool2d(tt_to_dtype(x, types[i]), &two, &at);
            TT_REQUIRE_NOT_NULL(y);
            TT_CHECK_EQ(tt_tensor_dtype(y), types[i]);
            TT_CHECK_VALUES(y, 9, 8);
            TT_CHECK_VALUES(at, 1, 6);
            y = tt_max_pool2d(tt_ones(TT_SHAPE(1, 1, 1), types[i], TT_CPU), &apart, NULL);
            TT_CHECK_VALUES(y, lowest[i]);
        }
        y = tt_max_pool1d(tt_reshape(odd, TT_SHAPE(1, 4)), &in_line);
        TT_CHECK(tt_equal(y, tt_reshape(TT_INTS(big + 1, big + 3, big + 3), TT_SHAPE(1, 3))));
        y = tt_avg_pool1d(tt_reshape(TT_INTS(-7, 2, 9, 4), TT_SHAPE(1, 4)),
                          &in_line); /* towards zero */
        TT_CHECK_EQ(tt_tensor_dtype(y), TT_I64);
        TT_CHECK_VALUES(y, -2, 5, 6);
    }
}

static tt_status status_of(const tt_tensor *t)
{
    return t != NULL ? TT_OK : tt_last_status();
}

TT_TEST(ops_pool, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1, 4, 4), TT_F32, TT_CPU);
        tt_tensor *flat = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);
        tt_tensor *truth = tt_ones(TT_SHAPE(1, 4, 4), TT_BOOL, TT_CPU);
        tt_tensor *ints = tt_ones(TT_SHAPE(1, 4, 4), TT_I32, TT_CPU);
        tt_pool_options two = { .kernel = { 2, 2 } };

        TT_CHECK_ERR_SAYS(status_of(tt_max_pool2d(x, NULL, NULL)), TT_ERR_INVALID, "kernel size");
        TT_CHECK_ERR_SAYS(
            status_of(tt_max_pool2d(
                x, &(tt_pool_options){ .kernel = { 2, 2 }, .padding = { 2, 0 } }, NULL)),
            TT_ERR_INVALID, "padding of at most half the kernel size, got padding 2 for kernel 2");
        TT_CHECK_ERR_SAYS(status_of(tt_avg_pool2d(x, &(tt_pool_options){ .kernel = { 5, 5 } })),
                          TT_ERR_INVALID, "size 4 for kernel 5");
        TT_CHECK_ERR_SAYS(status_of(tt_max_pool2d(flat, &two, NULL)), TT_ERR_INVALID,
                          "3-D or 4-D input, got [4]");
        TT_CHECK_ERR_SAYS(status_of(tt_max_pool2d(truth, &two, NULL)), TT_ERR_INVALID, "floating");
        TT_CHECK_ERR_SAYS(status_of(tt_avg_pool2d(ints, &two)), TT_ERR_INVALID,
                          "floating or int64 tensor, got int32");
        TT_CHECK_ERR_SAYS(status_of(tt_adaptive_avg_pool2d(ints, 2, 2)), TT_ERR_INVALID,
                          "floating");
        TT_CHECK_ERR_SAYS(status_of(tt_avg_pool2d(
                              x, &(tt_pool_options){ .kernel = { 2, 2 }, .dilation = { 2, 1 } })),
                          TT_ERR_INVALID, "dilation");
        TT_CHECK_ERR_SAYS(status_of(tt_adaptive_avg_pool2d(x, 0, 3)), TT_ERR_INVALID, "0 x 3");
        tt_clear_error();
        TT_CHECK_ERR_SAYS(status_of(tt_max_pool2d(NULL, &two, NULL)), TT_ERR_INVALID, "NULL");
    }
}

TT_TEST(ops_pool, same_with_any_number_of_threads)
{
    TT_SCOPE {
        tt_pool_options opt = { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } };
        tt_tensor *x = nn_values(TT_SHAPE(4, 16, 31, 33), TT_F32, 8);
        tt_tensor *m[2], *a[2];

        for (int i = 0; i < 2; i++) {
            TT_REQUIRE_OK(tt_set_num_threads(1 + 3 * i));
            m[i] = tt_max_pool2d(x, &opt, NULL);
            a[i] = tt_avg_pool2d(x, &opt);
        }
        TT_CHECK(nn_same(m[0], m[1], 0.0));
        TT_CHECK(nn_same(a[0], a[1], 0.0));
    }
}

static tt_status train_pools(void *ctx)
{
    tt_status st = TT_OK;

    (void)ctx;
    TT_SCOPE {
        tt_pool_options opt = { .kernel = { 2, 2 } };
        tt_tensor *x = tt_require_grad(tt_ones(TT_SHAPE(1, 2, 4, 4), TT_BF16, TT_CPU));
        tt_tensor *y = tt_avg_pool2d(tt_max_pool2d(x, &opt, NULL), &opt);

        st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
    }
    return st;
}

TT_TEST(ops_pool, survives_a_lack_of_memory)
{
    TT_CHECK_GT(tt_test_fail_allocs(train_pools, NULL), 5);
}
