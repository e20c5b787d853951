/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and their gradients on an accelerator against those of the CPU: chosen and random sizes, all types, in the
 * stream on the host and by our own kernels. */
#include "unit/ops/twins.h"

static const tti_conv chosen[] = {
    /* n c h w, oc (oh ow found below), kh kw, stride, pad, dilation, groups */
    { 2, 3, 8, 8, 4, 0, 0, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { 2, 16, 5, 7, 8, 0, 0, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { 3, 4, 9, 9, 6, 0, 0, 3, 2, { 2, 2 }, { 1, 0 }, { 1, 1 }, 2 },
    { 2, 6, 7, 8, 6, 0, 0, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 6 },
    { 1, 2, 12, 11, 3, 0, 0, 3, 3, { 1, 2 }, { 2, 3 }, { 2, 3 }, 1 },
    { 2, 3, 1, 20, 5, 0, 0, 1, 5, { 1, 3 }, { 0, 2 }, { 1, 1 }, 1 },
    { 9, 16, 2, 2, 16, 0, 0, 3, 3, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { 1, 1, 1, 1, 1, 0, 0, 1, 1, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 },
    { 2, 4, 6, 6, 4, 0, 0, 1, 1, { 2, 2 }, { 0, 0 }, { 1, 1 }, 2 },
    { 1, 2, 4, 4, 2, 0, 0, 3, 3, { 1, 1 }, { 3, 3 }, { 1, 1 }, 1 },
};

static bool find_outputs(tti_conv *g)
{
    g->oh = (g->h + 2 * g->pad[0] - g->dilation[0] * (g->kh - 1) - 1) / g->stride[0] + 1;
    g->ow = (g->w + 2 * g->pad[1] - g->dilation[1] * (g->kw - 1) - 1) / g->stride[1] + 1;
    return g->h + 2 * g->pad[0] > g->dilation[0] * (g->kh - 1) &&
           g->w + 2 * g->pad[1] > g->dilation[1] * (g->kw - 1);
}

static tti_conv random_sizes(void)
{
    tti_conv g;

    do {
        int64_t per = twins_pick(1, 6);

        g = (tti_conv){ .n = twins_pick(1, 4),
                        .groups = twins_pick(0, 2) == 0 ? twins_pick(2, 4) : 1,
                        .h = twins_pick(1, 14),
                        .w = twins_pick(1, 14),
                        .kh = twins_pick(1, 4),
                        .kw = twins_pick(1, 4) };
        g.c = per * g.groups;
        g.oc = twins_pick(1, 6) * g.groups;
        for (int i = 0; i < 2; i++) {
            g.stride[i] = twins_pick(1, 3);
            g.pad[i] = twins_pick(0, 3);
            g.dilation[i] = twins_pick(1, 3);
        }
    } while (!find_outputs(&g));
    return g;
}

typedef struct set {
    tt_tensor *x, *w, *y, *b;
} set;

static set random_set(const tti_conv *g, tt_dtype dtype)
{
    return (set){ twins_noise(TT_SHAPE(g->n, g->c, g->h, g->w), dtype),
                  twins_noise(TT_SHAPE(g->oc, g->c / g->groups, g->kh, g->kw), dtype),
                  twins_noise(TT_SHAPE(g->n, g->oc, g->oh, g->ow), dtype),
                  twins_noise(TT_SHAPE(g->oc), dtype) };
}

static void say(const tti_conv *g, tt_dtype dtype, const char *what, double apart)
{
    tt_test_note(
        "%s %s: n %lld c %lld %lldx%lld oc %lld kernel %lldx%lld stride %lld %lld pad %lld %lld "
        "dilation %lld %lld groups %lld: %g apart",
        tt_dtype_name(dtype), what, (long long)g->n, (long long)g->c, (long long)g->h,
        (long long)g->w, (long long)g->oc, (long long)g->kh, (long long)g->kw,
        (long long)g->stride[0], (long long)g->stride[1], (long long)g->pad[0],
        (long long)g->pad[1], (long long)g->dilation[0], (long long)g->dilation[1],
        (long long)g->groups, apart);
}

static void check(const tti_conv *g, const char *what, const tt_tensor *cpu, const tt_tensor *dev,
                  double terms)
{
    double apart = twins_apart(cpu, dev);
    double limit = twins_tolerance((tt_dtype)cpu->dtype) * (1.0 + sqrt(terms));

    if (!TT_CHECK(apart <= limit))
        say(g, (tt_dtype)cpu->dtype, what, apart);
}

/* Results start as noise on both sides: whatever is not written shows. */
static void compare(const tti_conv *g, tt_dtype dtype, tt_device d)
{
    set in = random_set(g, dtype), cpu = random_set(g, dtype);
    set din = { twins_move(in.x, d), twins_move(in.w, d), twins_move(in.y, d),
                twins_move(in.b, d) };
    set dev = { twins_move(cpu.x, d), twins_move(cpu.w, d), twins_move(cpu.y, d), NULL };
    const tti_nn_kernels *c = tti_kernels_of(in.x)->nn, *a = tti_kernels_of(din.x)->nn;
    double taps = (double)(g->kh * g->kw);

    for (int bias = 0; bias < 2; bias++) {
        TT_REQUIRE_OK(c->conv(cpu.y, in.x, in.w, bias ? in.b : NULL, g));
        TT_REQUIRE_OK(a->conv(dev.y, din.x, din.w, bias ? din.b : NULL, g));
        check(g, "conv", cpu.y, dev.y, taps * (double)(g->c / g->groups));
    }
    TT_REQUIRE_OK(c->conv_grad_input(cpu.x, in.y, in.w, g));
    TT_REQUIRE_OK(a->conv_grad_input(dev.x, din.y, din.w, g));
    check(g, "grad_input", cpu.x, dev.x, taps * (double)(g->oc / g->groups));
    TT_REQUIRE_OK(c->conv_grad_weight(cpu.w, in.y, in.x, g));
    TT_REQUIRE_OK(a->conv_grad_weight(dev.w, din.y, din.x, g));
    check(g, "grad_weight", cpu.w, dev.w, (double)(g->n * g->oh * g->ow));
}

static void all_by(const char *way, int rounds)
{
    static const tt_dtype types[] = { TT_F32, TT_F64, TT_F16, TT_BF16, TT_C64, TT_C128 };

    setenv("TUTTI_CL_GEMM", way, 1);
    tt_device d = twins_device();

    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
            TT_SCOPE {
                tti_conv g = chosen[i];

                TT_REQUIRE(find_outputs(&g));
                compare(&g, types[t], d);
            }
        for (int i = 0; i < rounds; i++)
            TT_SCOPE {
                tti_conv g = random_sizes();

                compare(&g, types[t], d);
            }
    }
    TT_CHECK_OK(tt_device_sync(d));
}

TT_TEST_LIMIT(accel_conv, as_on_the_cpu_by_host, 120)
{
    all_by("host", 20);
}

TT_TEST_LIMIT(accel_conv, as_on_the_cpu_by_own_kernels, 120)
{
    all_by("own", 20);
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_conv, random_ones_by_own_kernels, 300)
{
    setenv("TUTTI_CL_GEMM", "own", 1);
    tt_device d = twins_device();

    for (int i = 0; i < 6; i++)
        TT_SCOPE {
            tti_conv g = random_sizes();

            compare(&g, TT_F32, d);
        }
}

TT_TEST_LIMIT(accel_conv, own_kernels_in_groups, 120)
{
    setenv("TUTTI_CL_WG", "64", 1);
    all_by("own", 3);
}

/* More columns than are unfolded at a time. */
TT_TEST_LIMIT(accel_conv, many_images_in_parts, 120)
{
    tti_conv g = { .n = 5, .c = 24, .h = 128, .w = 128, .oc = 4, .kh = 3, .kw = 3, .groups = 1 };

    setenv("TUTTI_CL_GEMM", "own", 1);
    for (int i = 0; i < 2; i++)
        g.stride[i] = g.pad[i] = g.dilation[i] = 1;
    TT_REQUIRE(find_outputs(&g));
    compare(&g, TT_F32, twins_device());
}

static void check_no_images(const char *way)
{
    tti_conv g = chosen[0];

    setenv("TUTTI_CL_GEMM", way, 1);
    TT_REQUIRE(find_outputs(&g));
    g.n = 0;
    compare(&g, TT_F32, twins_device());
}

TT_TEST(accel_conv, no_images_by_host)
{
    check_no_images("host");
}

TT_TEST(accel_conv, no_images_by_own_kernels)
{
    check_no_images("own");
}
