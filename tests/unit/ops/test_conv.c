/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: the fast kernels against the plain ones over a table of sizes, known values,
 * gradients, layouts, several threads at once, failing memory, and what is refused. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tutti/autograd.h>
#include <tutti/testing.h>

#include "harness/check_tensor.h"
#include "ops/cpu/nn_conv.h"
#include "ops/op.h"

/* Numbers in [-1, 1), the same for the same seed. */
static tt_tensor *noise(tt_shape s, tt_dtype dtype, uint64_t seed)
{
    tt_tensor *t = tt_empty(s, dtype, TT_CPU);
    void *p = t != NULL ? tt_tensor_data(t) : NULL;

    for (int64_t i = 0; t != NULL && i < tt_tensor_numel(t); i++) {
        double v;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        v = (double)(seed >> 40) / (double)(1 << 23) - 1.0;
        if (dtype == TT_F64)
            ((double *)p)[i] = v;
        else
            ((float *)p)[i] = (float)v;
    }
    return t;
}

/* 0, 1, 2, ... */
static tt_tensor *counted(tt_shape s)
{
    tt_tensor *t = tt_empty(s, TT_F32, TT_CPU);

    for (int64_t i = 0; t != NULL && i < tt_tensor_numel(t); i++)
        ((float *)tt_tensor_data(t))[i] = (float)i;
    return t;
}

/* The largest difference, in units of the largest element of b. */
static double distance(const tt_tensor *a, const tt_tensor *b)
{
    const float *p = tt_tensor_data(a), *q = tt_tensor_data(b);
    double most = 0.0, scale = 1e-30;

    for (int64_t i = 0; i < tt_tensor_numel(b); i++) {
        double d = fabs((double)p[i] - (double)q[i]);

        most = d <= most ? most : d; /* keeps a NaN */
        scale = fmax(scale, fabs((double)q[i]));
    }
    return most / scale;
}

static bool holds(const tt_tensor *t, const double *values, int n)
{
    if (!TT_CHECK_NOT_NULL(t) || !TT_CHECK_EQ(tt_tensor_numel(t), n))
        return false;
    for (int i = 0; i < n; i++)
        if (!TT_CHECK_NEAR(((const float *)tt_tensor_data(t))[i], values[i], 1e-5))
            return false;
    return true;
}

/* ---- fast against plain ------------------------------------------------------------------------ */

typedef struct size_case {
    const char *name;
    int64_t n, c, h, w, oc, kh, kw, stride[2], pad[2], dilation[2], groups;
} size_case;

static const size_case size_cases[] = {
    { "plain_3x3", 2, 16, 9, 9, 16, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "stem_7x7_stride_2", 2, 3, 32, 32, 64, 7, 7, { 2, 2 }, { 3, 3 }, { 1, 1 }, 1 },
    { "one_channel", 3, 1, 12, 10, 1, 3, 3, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { "seventeen_channels", 2, 17, 7, 7, 17, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "from_17_to_64", 2, 17, 6, 5, 64, 3, 3, { 2, 1 }, { 1, 0 }, { 1, 1 }, 1 },
    { "batch_1", 1, 64, 8, 8, 64, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "kernel_1x1", 2, 64, 8, 8, 32, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { "kernel_1x1_stride_2", 2, 64, 8, 8, 128, 1, 1, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1 },
    { "kernel_11x11", 2, 3, 23, 21, 8, 11, 11, { 4, 4 }, { 2, 2 }, { 1, 1 }, 1 },
    { "kernel_5x2", 2, 8, 9, 11, 8, 5, 2, { 1, 3 }, { 2, 1 }, { 1, 1 }, 1 },
    { "dilation_2", 2, 8, 12, 12, 8, 3, 3, { 1, 1 }, { 2, 2 }, { 2, 2 }, 1 },
    { "dilation_3_by_2_stride_2", 2, 16, 15, 14, 16, 3, 3, { 2, 2 }, { 3, 1 }, { 3, 2 }, 1 },
    { "groups_2", 2, 8, 9, 9, 12, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 2 },
    { "groups_4_dilated", 2, 64, 9, 9, 64, 3, 3, { 1, 1 }, { 2, 2 }, { 2, 2 }, 4 },
    { "depthwise", 2, 32, 10, 10, 32, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 32 },
    { "depthwise_17", 2, 17, 10, 10, 17, 3, 3, { 2, 2 }, { 1, 1 }, { 1, 1 }, 17 },
    { "depthwise_doubling", 2, 6, 10, 10, 12, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 6 },
    { "left_over_input", 2, 8, 10, 10, 8, 3, 3, { 4, 4 }, { 0, 0 }, { 1, 1 }, 1 },
    { "output_1x1", 4, 16, 5, 5, 24, 5, 5, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { "height_1", 3, 16, 1, 50, 16, 1, 5, { 1, 2 }, { 0, 2 }, { 1, 1 }, 1 },
    { "pads_wider_than_the_image", 2, 8, 2, 2, 8, 3, 3, { 1, 1 }, { 2, 2 }, { 1, 1 }, 1 },
    { "small_1x1", 4, 64, 1, 1, 48, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "small_2x2", 9, 64, 2, 2, 64, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "small_2x2_odd_channels", 9, 37, 2, 2, 45, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "small_2x2_stride_2", 4, 64, 2, 2, 96, 3, 3, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1 },
    { "small_2x2_of_5x5", 4, 40, 2, 2, 40, 5, 5, { 1, 1 }, { 2, 2 }, { 1, 1 }, 1 },
    { "small_2x2_dilated", 9, 40, 2, 2, 33, 3, 3, { 1, 1 }, { 2, 2 }, { 2, 2 }, 1 },
    { "small_1x3_uneven", 9, 40, 1, 3, 40, 3, 4, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { "small_1x2_to_1x4", 9, 32, 1, 2, 32, 1, 3, { 1, 1 }, { 0, 2 }, { 1, 1 }, 1 },
    { "small_4x4_to_2x2", 4, 64, 4, 4, 80, 3, 3, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1 },
    { "small_3x3_to_2x2_by_1x1", 5, 64, 3, 3, 64, 1, 1, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1 },
    { "small_2x2_to_1x1_by_1x1", 5, 64, 2, 2, 64, 1, 1, { 2, 2 }, { 0, 0 }, { 1, 1 }, 1 },
    { "small_taps_out_of_reach", 4, 48, 3, 1, 48, 3, 7, { 2, 1 }, { 1, 6 }, { 1, 2 }, 1 },
};

static tti_conv sizes_of(const size_case *s)
{
    tti_conv g = { .n = s->n,
                   .c = s->c,
                   .h = s->h,
                   .w = s->w,
                   .oc = s->oc,
                   .kh = s->kh,
                   .kw = s->kw,
                   .groups = s->groups };

    for (int i = 0; i < 2; i++) {
        g.stride[i] = s->stride[i];
        g.pad[i] = s->pad[i];
        g.dilation[i] = s->dilation[i];
    }
    g.oh = (g.h + 2 * g.pad[0] - g.dilation[0] * (g.kh - 1) - 1) / g.stride[0] + 1;
    g.ow = (g.w + 2 * g.pad[1] - g.dilation[1] * (g.kw - 1) - 1) / g.stride[1] + 1;
    return g;
}

typedef struct operands {
    tt_tensor *x, *w, *b, *y;
} operands;

static operands operands_of(const tti_conv *g, uint64_t seed)
{
    return (operands){
        .x = noise(TT_SHAPE(g->n, g->c, g->h, g->w), TT_F32, seed),
        .w = noise(TT_SHAPE(g->oc, g->c / g->groups, g->kh, g->kw), TT_F32, seed + 1),
        .b = noise(TT_SHAPE(g->oc), TT_F32, seed + 2),
        .y = noise(TT_SHAPE(g->n, g->oc, g->oh, g->ow), TT_F32, seed + 3),
    };
}

static tt_status plain_conv(tti_conv_kind kind, const operands *o, const tt_tensor *b,
                            const tti_conv *g)
{
    tti_conv_job j = tti_conv_job_of(kind, o->x, o->w, o->y, b, g);

    return tti_conv_plain(&j);
}

/* Results start as noise: whatever is not written shows. */
static void compare(const tti_conv *g, uint64_t seed)
{
    TT_SCOPE {
        operands in = operands_of(g, seed), fast = operands_of(g, seed + 10),
                 plain = operands_of(g, seed + 20);

        for (int bias = 0; bias < 2; bias++) {
            TT_CHECK_OK(tti_cpu_conv(fast.y, in.x, in.w, bias ? in.b : NULL, g));
            TT_CHECK_OK(plain_conv(TTI_CONV_FORWARD,
                                   &(operands){ .x = in.x, .w = in.w, .y = plain.y },
                                   bias ? in.b : NULL, g));
            TT_CHECK_NEAR(distance(fast.y, plain.y), 0.0, 1e-5);
        }
        TT_CHECK_OK(tti_cpu_conv_grad_input(fast.x, in.y, in.w, g));
        TT_CHECK_OK(plain_conv(TTI_CONV_GRAD_INPUT,
                               &(operands){ .x = plain.x, .w = in.w, .y = in.y }, NULL, g));
        TT_CHECK_NEAR(distance(fast.x, plain.x), 0.0, 1e-5);
        TT_CHECK_OK(tti_cpu_conv_grad_weight(fast.w, in.y, in.x, g));
        TT_CHECK_OK(plain_conv(TTI_CONV_GRAD_WEIGHT,
                               &(operands){ .x = in.x, .w = plain.w, .y = in.y }, NULL, g));
        TT_CHECK_NEAR(distance(fast.w, plain.w), 0.0, 1e-5);
    }
}

static void test_sizes(void *ctx)
{
    tti_conv g = sizes_of(ctx);

    compare(&g, tt_test_seed());
}

TT_TEST_TABLE(conv)
{
    for (size_t i = 0; i < sizeof size_cases / sizeof size_cases[0]; i++) {
        char name[80];

        snprintf(name, sizeof name, "as_plain_%s", size_cases[i].name);
        tt_test_add("conv", name, test_sizes, (void *)&size_cases[i]);
    }
}

static const size_case *case_named(const char *name)
{
    for (size_t i = 0; i < sizeof size_cases / sizeof size_cases[0]; i++)
        if (strcmp(size_cases[i].name, name) == 0)
            return &size_cases[i];
    return NULL;
}

/* Without this, a fast path that is never taken would pass all of the above. */
TT_TEST(conv, usual_sizes_take_a_fast_path)
{
    static const char *const usual[] = { "plain_3x3", "kernel_1x1", "groups_2", "depthwise" };
    static const char *const small[] = { "small_1x1", "small_2x2", "small_2x2_stride_2" };

    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        TT_SCOPE {
            tti_conv g = sizes_of(case_named(usual[i]));
            operands in = operands_of(&g, 1);
            tti_conv_job j = tti_conv_job_of(TTI_CONV_FORWARD, in.x, in.w, in.y, NULL, &g);
            bool done = false;

            TT_CHECK_OK(tti_conv_dnnl(&j, &done));
            TT_CHECK(done);
        }
    }
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        tti_conv g = sizes_of(case_named(small[i]));

        TT_CHECK(tti_conv_small_takes(&g));
    }
}

TT_TEST(conv, repeats_bit_for_bit)
{
    TT_SCOPE {
        tti_conv g = sizes_of(&size_cases[0]);
        operands in = operands_of(&g, 5), a = operands_of(&g, 6), b = operands_of(&g, 7);

        for (int i = 0; i < 5; i++) {
            operands *to = i == 0 ? &a : &b;

            TT_CHECK_OK(tti_cpu_conv(to->y, in.x, in.w, in.b, &g));
            TT_CHECK_OK(tti_cpu_conv_grad_input(to->x, in.y, in.w, &g));
            TT_CHECK_OK(tti_cpu_conv_grad_weight(to->w, in.y, in.x, &g));
            if (i == 0)
                continue;
            TT_CHECK_MEM(tti_data(a.y), tti_data(b.y), (size_t)a.y->numel * 4);
            TT_CHECK_MEM(tti_data(a.x), tti_data(b.x), (size_t)a.x->numel * 4);
            TT_CHECK_MEM(tti_data(a.w), tti_data(b.w), (size_t)a.w->numel * 4);
        }
    }
}

/* ---- values ----------------------------------------------------------------------------------- */

TT_TEST(conv, values_of_conv2d)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(1, 1, 3, 3));
        tt_tensor *w = counted(TT_SHAPE(1, 1, 2, 2));
        tt_tensor *b = tt_full(TT_SHAPE(1), 100.0, TT_F32, TT_CPU);
        tt_conv_options o = { .stride = { 2, 2 }, .padding = { 1, 1 } };

        /* 0*x00 + 1*x01 + 2*x10 + 3*x11 */
        holds(tt_conv2d(x, w, NULL, NULL), (const double[]){ 19, 25, 37, 43 }, 4);
        holds(tt_conv2d(x, w, b, &o), (const double[]){ 100, 108, 121, 143 }, 4);
        TT_CHECK_EQ(tt_tensor_dims(tt_conv2d(tt_squeeze_dim(x, 0), w, NULL, NULL)), 3);
    }
}

TT_TEST(conv, values_of_conv1d)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(1, 2, 4)); /* 0 1 2 3, 4 5 6 7 */
        tt_tensor *w = counted(TT_SHAPE(2, 2, 2)); /* 0 1, 2 3; 4 5, 6 7 */
        tt_conv_options dilated = { .padding = { 1 }, .dilation = { 3 } };
        tt_conv_options grouped = { .stride = { 2 }, .groups = 2 };

        holds(tt_conv1d(x, w, NULL, NULL), (const double[]){ 24, 30, 36, 64, 86, 108 }, 6);
        holds(tt_conv1d(x, w, NULL, &dilated), (const double[]){ 20, 32, 10, 52, 88, 34 }, 6);
        holds(tt_conv1d(x, counted(TT_SHAPE(2, 1, 2)), NULL, &grouped),
              (const double[]){ 1, 3, 23, 33 }, 4);
        TT_CHECK_EQ(tt_tensor_dims(tt_conv1d(tt_squeeze_dim(x, 0), w, NULL, NULL)), 2);
    }
}

TT_TEST(conv, values_of_conv_transpose2d)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(1, 1, 2, 2));
        tt_tensor *w = counted(TT_SHAPE(1, 1, 2, 2));
        tt_tensor *b = tt_full(TT_SHAPE(1), 10.0, TT_F32, TT_CPU);
        tt_conv_options o = { .stride = { 2, 2 }, .padding = { 1, 1 }, .output_padding = { 1, 1 } };

        holds(tt_conv_transpose2d(x, w, NULL, NULL), (const double[]){ 0, 0, 1, 0, 4, 6, 4, 12, 9 },
              9);
        holds(tt_conv_transpose2d(x, w, b, &o),
              (const double[]){ 10, 12, 13, 12, 10, 13, 16, 16, 19 }, 9);
    }
}

/* As int64, wrapping as their type does; values that no float holds. */
TT_TEST(conv, integers)
{
    static const tt_dtype types[] = { TT_I8, TT_U8, TT_I16, TT_I32, TT_I64 };
    tt_conv_options o = { .stride = { 2, 2 }, .padding = { 1, 1 } };

    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(1, 1, 3, 3)), *w = counted(TT_SHAPE(1, 1, 2, 2));
        tt_tensor *b = tt_full(TT_SHAPE(1), 100.0, TT_F32, TT_CPU), *y;
        const int64_t big = INT64_C(1) << 60;

        for (int i = 0; i < 5; i++) {
            tt_tensor *ix = tt_to_dtype(x, types[i]), *iw = tt_to_dtype(w, types[i]);
            tt_tensor *ib = tt_to_dtype(b, types[i]);

            y = tt_conv2d(ix, iw, ib, &o);
            TT_REQUIRE_NOT_NULL(y);
            TT_CHECK_EQ(tt_tensor_dtype(y), types[i]);
            TT_CHECK(tt_equal(y, tt_to_dtype(tt_conv2d(x, w, b, &o), types[i])));
            TT_CHECK_VALUES(y, 100, 108, 121, types[i] == TT_I8 ? 143 - 256 : 143);
            y = tt_conv_transpose2d(ix, iw, ib, NULL);
            TT_CHECK(tt_equal(y, tt_to_dtype(tt_conv_transpose2d(x, w, b, NULL), types[i])));
        }
        y = tt_conv1d(tt_reshape(TT_INTS(big, 1, big + 1), TT_SHAPE(1, 1, 3)),
                      tt_reshape(TT_INTS(1, 2), TT_SHAPE(1, 1, 2)), NULL, NULL);
        TT_CHECK(tt_equal(y, tt_reshape(TT_INTS(big + 2, 2 * big + 3), TT_SHAPE(1, 1, 2))));
        TT_CHECK_NULL(tt_conv2d(tt_to_dtype(x, TT_BOOL), tt_to_dtype(w, TT_BOOL), NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a floating or complex tensor, got bool");
    }
}

TT_TEST(conv, an_empty_batch_gives_empty_results_and_zero_gradients)
{
    TT_SCOPE {
        tt_tensor *x = tt_zeros(TT_SHAPE(0, 3, 8, 8), TT_F32, TT_CPU);
        tt_tensor *w = tt_require_grad(noise(TT_SHAPE(4, 3, 3, 3), TT_F32, 1));
        tt_tensor *y = tt_conv2d(x, w, NULL, NULL);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK(tt_shape_equal(tt_tensor_shape(y), TT_SHAPE(0, 4, 6, 6)));
        TT_CHECK_OK(tt_backward(tt_sum(y)));
        TT_CHECK_NEAR(tt_item(tt_sum(tt_mul(tt_grad_of(w), tt_grad_of(w)))), 0.0, 0.0);
    }
}

TT_TEST(conv, half_types_compute_in_float32)
{
    TT_SCOPE {
        tt_tensor *x = noise(TT_SHAPE(2, 8, 6, 6), TT_F32, 1);
        tt_tensor *w = noise(TT_SHAPE(8, 8, 3, 3), TT_F32, 2);
        tt_tensor *hx = tt_to_dtype(x, TT_BF16), *hw = tt_to_dtype(w, TT_BF16);
        tt_tensor *want = tt_conv2d(tt_to_dtype(hx, TT_F32), tt_to_dtype(hw, TT_F32), NULL, NULL);
        tt_tensor *y = tt_conv2d(hx, hw, NULL, NULL);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_EQ(tt_tensor_dtype(y), TT_BF16);
        TT_CHECK_NEAR(distance(tt_to_dtype(y, TT_F32), want), 0.0, 1.0 / 256);
    }
}

TT_TEST(conv, channels_last_in_and_out)
{
    TT_SCOPE {
        tt_tensor *x = noise(TT_SHAPE(2, 5, 6, 7), TT_F32, 1);
        tt_tensor *w = noise(TT_SHAPE(4, 5, 3, 3), TT_F32, 2);
        tt_tensor *last = tt_to_format(x, TT_FORMAT_CHANNELS_LAST);
        tt_tensor *y = tt_conv2d(last, w, NULL, NULL), *want = tt_conv2d(x, w, NULL, NULL);

        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_EQ(tt_tensor_strides(y)[1], 1);
        TT_CHECK(!tt_tensor_is_contiguous(y, TT_FORMAT_CONTIGUOUS));
        TT_CHECK_NEAR(distance(tt_to_format(y, TT_FORMAT_CONTIGUOUS), want), 0.0, 1e-6);
        y = tt_conv2d(x, tt_to_format(w, TT_FORMAT_CHANNELS_LAST), NULL, NULL);
        TT_REQUIRE_NOT_NULL(y);
        TT_CHECK_NEAR(distance(y, want), 0.0, 1e-6);
    }
}

/* ---- gradients -------------------------------------------------------------------------------- */

typedef struct grad_case {
    const char *name;
    int kind; /* 0: conv2d, 1: conv1d, 2: conv_transpose2d, 3: conv2d between transposes */
    int64_t x[4], w[4], n_bias;
    tt_conv_options opt;
} grad_case;

static const grad_case grad_cases[] = {
    { "conv2d", 0, { 2, 2, 4, 3 }, { 3, 2, 2, 2 }, 3, { .padding = { 1, 0 } } },
    { "conv2d_strided", 0, { 1, 2, 5, 4 }, { 2, 2, 3, 2 }, 2, { .stride = { 2, 1 } } },
    { "conv2d_dilated", 0, { 1, 1, 5, 5 }, { 2, 1, 2, 2 }, 2, { .dilation = { 2, 3 } } },
    { "conv2d_grouped", 0, { 1, 4, 3, 3 }, { 4, 2, 2, 2 }, 4, { .groups = 2 } },
    { "conv2d_of_views", 3, { 2, 2, 4, 3 }, { 3, 2, 2, 2 }, 3, { .padding = { 1, 0 } } },
    { "conv1d", 1, { 2, 2, 6 }, { 3, 2, 3 }, 3, { .stride = { 2 }, .padding = { 1 } } },
    { "conv_transpose2d",
      2,
      { 1, 2, 2, 3 },
      { 2, 3, 2, 2 },
      3,
      { .stride = { 2, 2 }, .padding = { 1, 0 }, .output_padding = { 1, 0 } } },
};

static tt_status apply(void *ctx, tt_tensor *const *in, int n_in, tt_tensor **out, int n_out)
{
    const grad_case *g = ctx;

    (void)n_in;
    (void)n_out;
    if (g->kind == 0)
        *out = tt_conv2d(in[0], in[1], in[2], &g->opt);
    else if (g->kind == 1)
        *out = tt_conv1d(in[0], in[1], in[2], &g->opt);
    else if (g->kind == 3)
        *out = tt_transpose(
            tt_conv2d(tt_transpose(in[0], 2, 3), tt_transpose(in[1], 2, 3), in[2], &g->opt), 1, 2);
    else
        *out = tt_conv_transpose2d(in[0], in[1], in[2], &g->opt);
    return *out != NULL ? TT_OK : tt_last_status();
}

static void test_gradients(void *ctx)
{
    const grad_case *g = ctx;
    int dims = g->kind == 1 ? 3 : 4;

    TT_SCOPE {
        uint64_t seed = tt_test_seed();
        tt_shape xs = { .n_dims = dims }, ws = { .n_dims = dims };

        for (int i = 0; i < dims; i++) {
            xs.dims[i] = g->x[i];
            ws.dims[i] = g->w[i];
        }
        TT_CHECK_OK(tt_gradcheck(
            apply, ctx,
            (tt_tensor *[]){ tt_require_grad(noise(xs, TT_F64, seed)),
                             tt_require_grad(noise(ws, TT_F64, seed + 1)),
                             tt_require_grad(noise(TT_SHAPE(g->n_bias), TT_F64, seed + 2)) },
            3, 1, &(tt_gradcheck_options){ .second_order = true }));
    }
}

TT_TEST_TABLE(conv_gradients)
{
    for (size_t i = 0; i < sizeof grad_cases / sizeof grad_cases[0]; i++)
        tt_test_add("conv_gradients", grad_cases[i].name, test_gradients, (void *)&grad_cases[i]);
}

/* ---- threads and memory ------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    int first;
    double worst;
} worker;

static void *work(void *ctx)
{
    worker *me = ctx;
    int n = (int)(sizeof size_cases / sizeof size_cases[0]);

    for (int i = 0; i < 2 * n; i++) {
        tti_conv g = sizes_of(&size_cases[(me->first + i) % n]);

        TT_SCOPE {
            operands in = operands_of(&g, 3), fast = operands_of(&g, 4), plain = operands_of(&g, 5);

            TT_CHECK_OK(tti_cpu_conv(fast.y, in.x, in.w, in.b, &g));
            TT_CHECK_OK(plain_conv(TTI_CONV_FORWARD,
                                   &(operands){ .x = in.x, .w = in.w, .y = plain.y }, in.b, &g));
            TT_CHECK_OK(tti_cpu_conv_grad_weight(fast.w, in.y, in.x, &g));
            TT_CHECK_OK(plain_conv(TTI_CONV_GRAD_WEIGHT,
                                   &(operands){ .x = in.x, .w = plain.w, .y = in.y }, NULL, &g));
            me->worst = fmax(me->worst, distance(fast.y, plain.y));
            me->worst = fmax(me->worst, distance(fast.w, plain.w));
        }
    }
    return NULL;
}

/* Two threads run the same sizes at the same time, two others different ones. */
TT_TEST(conv, threads_convolve_at_the_same_time)
{
    worker workers[4] = { { .first = 0 }, { .first = 0 }, { .first = 7 }, { .first = 15 } };

    TT_REQUIRE_OK(tt_set_num_threads(1));
    for (int i = 0; i < 4; i++)
        TT_REQUIRE_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < 4; i++) {
        TT_CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
        TT_CHECK_NEAR(workers[i].worst, 0.0, 1e-5);
    }
}

/* A different length at every call: the plans must not pile up, nor the results go wrong. */
TT_TEST(conv, many_different_sizes)
{
    TT_REQUIRE_OK(tt_set_num_threads(1));
    for (int64_t n = 1; n <= 600; n++) {
        size_case s = { "", 1, 4, 1, n + 2, 4, 1, 3, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 };
        tti_conv g = sizes_of(&s);

        if (n % 50 == 0)
            compare(&g, (uint64_t)n);
        TT_SCOPE {
            operands in = operands_of(&g, 1);

            TT_CHECK_OK(tti_cpu_conv(in.y, in.x, in.w, NULL, &g));
            TT_CHECK_OK(tti_cpu_conv_grad_input(in.x, in.y, in.w, &g));
        }
    }
}

static tt_status once(void *ctx)
{
    const size_case *s = ctx;
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *x = tt_require_grad(noise(TT_SHAPE(s->n, s->c, s->h, s->w), TT_F32, 1));
        tt_tensor *w = tt_require_grad(noise(TT_SHAPE(s->oc, s->c, s->kh, s->kw), TT_F32, 2));
        tt_conv_options o = { .padding = { s->pad[0], s->pad[1] } };
        tt_tensor *y = tt_conv2d(x, w, NULL, &o);

        st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
    }
    return st;
}

TT_TEST(conv, survives_failing_allocations)
{
    static size_case fresh = { "", 2, 8, 6, 6, 8, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 };
    static size_case small = { "", 8, 32, 2, 2, 32, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 };

    TT_CHECK_GT(tt_test_fail_allocs(once, &fresh), 10);
    TT_CHECK_GT(tt_test_fail_allocs(once, &small), 10);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

TT_TEST(conv, says_what_is_wrong)
{
    TT_SCOPE {
        tt_tensor *x = counted(TT_SHAPE(1, 4, 5, 5)), *w = counted(TT_SHAPE(6, 4, 3, 3));
        tt_tensor *b = counted(TT_SHAPE(5));

        TT_CHECK_NULL(tt_conv2d(x, counted(TT_SHAPE(6, 3, 3, 3)), NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "takes 3 channels, the input [1, 4, 5, 5] has 4");
        TT_CHECK_NULL(tt_conv2d(x, counted(TT_SHAPE(6, 4, 7, 7)), NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "is larger than the padded input [1, 4, 5, 5]");
        TT_CHECK_NULL(tt_conv2d(x, w, b, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "expected a bias of shape [6], got [5]");
        TT_CHECK_NULL(tt_conv2d(x, tt_to_dtype(w, TT_F64), NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "of one type, got float32, float64");
        TT_CHECK_NULL(tt_conv2d(x, w, NULL, &(tt_conv_options){ .stride = { -1, 1 } }));
        TT_CHECK_CONTAINS(tt_last_error(), "stride and dilation must be positive");
        TT_CHECK_NULL(tt_conv2d(counted(TT_SHAPE(4, 5)), w, NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "expected an input and a weight of 4 dimensions");
        TT_CHECK_NULL(tt_conv1d(counted(TT_SHAPE(4)), counted(TT_SHAPE(6, 4, 3)), NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(),
                          "conv1d: expected an input and a weight of 3 dimensions");
        TT_CHECK_NULL(tt_conv_transpose2d(x, w, NULL, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "takes 6 channels, the input [1, 4, 5, 5] has 4");
        TT_CHECK_NULL(tt_conv_transpose2d(x, counted(TT_SHAPE(4, 6, 3, 3)), NULL,
                                          &(tt_conv_options){ .output_padding = { 1, 0 } }));
        TT_CHECK_CONTAINS(tt_last_error(), "output padding 1 must be smaller");
    }
}

TT_TEST(conv, options_beyond_any_number_are_refused)
{
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(1, 1, 4, 4), TT_F32, TT_CPU);
        tt_tensor *w = tt_ones(TT_SHAPE(1, 1, 3, 3), TT_F32, TT_CPU);
        tt_conv_options wide = { .dilation = { INT64_MAX, INT64_MAX } };
        tt_conv_options padded = { .padding = { INT64_MAX, INT64_MAX } };
        tt_conv_options far = { .stride = { INT64_MAX, INT64_MAX } };
        tt_pool_options pool = { .kernel = { 3, 3 }, .dilation = { INT64_MAX, INT64_MAX } };

        TT_CHECK_NULL(tt_conv2d(x, w, NULL, &wide));
        TT_CHECK_CONTAINS(tt_last_error(), "conv2d: the kernel");
        TT_CHECK_NULL(tt_conv2d(x, w, NULL, &padded));
        TT_CHECK_NULL(tt_conv_transpose2d(x, w, NULL, &wide));
        TT_CHECK_CONTAINS(tt_last_error(), "too large");
        TT_CHECK_NULL(tt_conv_transpose2d(x, w, NULL, &padded));
        TT_CHECK_NULL(tt_conv_transpose2d(x, w, NULL, &far));
        TT_CHECK_NULL(tt_max_pool2d(x, &pool, NULL));
        TT_CHECK_CONTAINS(tt_last_error(), "max_pool2d");
    }
}
