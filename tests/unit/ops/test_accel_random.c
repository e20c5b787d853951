/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers on an accelerator are those of the CPU, bit for bit, and do not depend on its instruction set. */
#include "accel_data.h"
#include "base/isa.h"

#define CPU tti_kernels_cpu.random
#define DEV tti_kernels_accel.random

static const int64_t counts[] = { 0, 1, 3, 257, 5000 };
static const uint64_t offsets[] = { 0, 1, 12345, 0xfffffffeu, 0xffffffffffffff00u };

static bool check_draw(const tti_random_draw *draw, tt_dtype d, int64_t n)
{
    pair x = accel_out(&n, 1, d, PLAIN);
    char what[128];

    snprintf(what, sizeof what, "draw %d of %lld %s from %llu on, a %g b %g", (int)draw->kind,
             (long long)n, tt_dtype_name(d), (unsigned long long)draw->offset, draw->a, draw->b);
    return TT_CHECK_OK(CPU->fill(x.cpu, draw)) && TT_CHECK_OK(DEV->fill(x.dev, draw)) &&
           accel_same(&x, 0, what);
}

static void check_all(tti_random_draw draw, tt_dtype first, tt_dtype last)
{
    (void)accel_device();
    draw.seed = tt_test_seed();
    for (tt_dtype d = first; d <= last; d++)
        for (int i = 0; i < 5; i++)
            TT_SCOPE {
                draw.offset = offsets[i];
                for (int j = 0; j < 5; j++)
                    if (!check_draw(&draw, d, counts[j]))
                        return;
            }
}

TT_TEST_LIMIT(accel_random, uniform, 240)
{
    static const double bounds[][2] = { { 0, 1 }, { -3, 0.1 }, { 2, 2 }, { 1e-3, 1e3 } };

    for (int i = 0; i < 4; i++) {
        tti_random_draw draw = { .kind = TTI_RANDOM_UNIFORM, .a = bounds[i][0], .b = bounds[i][1] };

        check_all(draw, TT_F32, TT_BF16);
        check_all(draw, TT_C64, TT_C128);
    }
}

TT_TEST_LIMIT(accel_random, normal, 240)
{
    static const double by[][2] = { { 0, 1 }, { -3, 0.1 }, { 5, 0 } };

    for (int i = 0; i < 3; i++) {
        tti_random_draw draw = { .kind = TTI_RANDOM_NORMAL, .a = by[i][0], .b = by[i][1] };

        check_all(draw, TT_F32, TT_BF16);
        check_all(draw, TT_C64, TT_C128);
    }
}

TT_TEST_LIMIT(accel_random, bernoulli, 240)
{
    static const double p[] = { 0, 1, 0.3, 0x1p-32, 1 - 0x1p-40 };

    for (int i = 0; i < 5; i++)
        check_all((tti_random_draw){ .kind = TTI_RANDOM_BERNOULLI, .a = p[i] }, TT_F32, TT_BOOL);
}

TT_TEST_LIMIT(accel_random, integers, 240)
{
    static const int64_t to[][2] = {
        { 0, 2 }, { -100, 27 }, { -5, 1000000007 }, { INT64_MIN, INT64_MAX }
    };

    check_all((tti_random_draw){ .kind = TTI_RANDOM_INT, .lo = 0, .hi = 100 }, TT_F32, TT_BOOL);
    for (int i = 0; i < 4; i++)
        check_all((tti_random_draw){ .kind = TTI_RANDOM_INT, .lo = to[i][0], .hi = to[i][1] },
                  TT_I32, TT_I64);
}

/* The public functions take the same numbers from a generator on both. */
TT_TEST_LIMIT(accel_random, generators_agree, 120)
{
    tt_device d = accel_device();

    TT_SCOPE {
        tt_generator *a = tt_generator_new(tt_test_seed()), *b = tt_generator_new(tt_test_seed());

        for (int i = 0; i < 3; i++) {
            tt_tensor *x = tt_normal_(tt_empty(TT_SHAPE(7, 9), TT_F32, TT_CPU), 0, 1, a);
            tt_tensor *y = tt_normal_(tt_empty(TT_SHAPE(7, 9), TT_F32, d), 0, 1, b);

            TT_CHECK(tt_equal(x, tt_to_device(y, TT_CPU)));
            x = tt_uniform_(tt_transpose(x, 0, 1), -1, 1, a);
            y = tt_uniform_(tt_transpose(y, 0, 1), -1, 1, b);
            TT_CHECK(tt_equal(x, tt_to_device(y, TT_CPU)));
        }
        tt_generator_free(a);
        tt_generator_free(b);
    }
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_random, small_ones, 300)
{
    (void)accel_device();
    for (tti_random_kind k = TTI_RANDOM_UNIFORM; k <= TTI_RANDOM_INT; k++)
        for (tt_dtype d = TT_F32; d <= TT_BF16; d++)
            TT_SCOPE {
                check_draw(
                    &(tti_random_draw){
                        .kind = k, .a = 0.25, .b = 1, .lo = -3, .hi = 5, .offset = 9 },
                    d, 37);
            }
}
