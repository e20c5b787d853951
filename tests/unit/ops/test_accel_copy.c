/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, fills and ranges on an accelerator: every pair of types against the CPU. */
#include "accel_data.h"
#include "ops/cpu/pointwise.h"

#define CPU tti_kernels_cpu.pointwise
#define DEV tti_kernels_accel.pointwise

static bool check_copy(const pair *to, const pair *from)
{
    char what[96];

    snprintf(what, sizeof what, "%s from %s, %d dims", tt_dtype_name((tt_dtype)to->cpu->dtype),
             tt_dtype_name((tt_dtype)from->cpu->dtype), to->cpu->n_dims);
    return TT_CHECK_OK(CPU->copy(to->cpu, from->cpu)) &&
           TT_CHECK_OK(DEV->copy(to->dev, from->dev)) && accel_same(to, 0, what);
}

/* Builds five programs, if they are not on the disk. */
TT_TEST_LIMIT(accel_copy, converts_between_all_types, 300)
{
    const int64_t dims[] = { 6, 90 };
    int turn = 0;

    (void)accel_device();
    for (tt_dtype s = TT_F32; s <= TT_C128; s++)
        for (tt_dtype d = TT_F32; d <= TT_C128; d++)
            for (kind k = USUAL; k <= SPECIAL; k++, turn++)
                TT_SCOPE {
                    pair from = accel_pair(dims, 2, s, (layout)(turn % N_LAYOUTS), k, 1);
                    pair to = accel_out(dims, 2, d, (layout)(turn / 4 % REPEATED));

                    if (!check_copy(&to, &from))
                        return;
                }
}

/* What does not fit becomes what the CPU makes of it. */
TT_TEST_LIMIT(accel_copy, numbers_too_large_for_integers, 120)
{
    static const double large[] = { 300,      -300,      70000, -70000, 3e9,    -3e9,
                                    0x1p31,   -0x1p31,   1e18,  -1e18,  0x1p63, -0x1p63,
                                    INFINITY, -INFINITY, NAN,   -0.9 };
    const int64_t n = sizeof large / sizeof large[0];

    (void)accel_device();
    for (tt_dtype s = TT_F32; s <= TT_F64; s++)
        for (tt_dtype d = TT_I8; d <= TT_BOOL; d++)
            TT_SCOPE {
                pair from = { accel_laid(&n, 1, s, PLAIN), NULL }, to = accel_out(&n, 1, d, PLAIN);

                for (int64_t i = 0; i < n; i++)
                    accel_store(from.cpu->storage->data, s, i, large[i]);
                from.dev = accel_copy(from.cpu, accel_device());
                if (!check_copy(&to, &from))
                    return;
            }
}

TT_TEST_LIMIT(accel_copy, broadcasts_and_reorders, 120)
{
    (void)accel_device();
    for (tt_dtype d = TT_F32; d <= TT_C128; d++)
        for (layout l = PLAIN; l < N_LAYOUTS; l++)
            TT_SCOPE {
                const int64_t dims[] = { 17, 3, 40 }, row[] = { 40 }, column[] = { 3, 1 };
                pair a = accel_pair(row, 1, d, STEPPED, USUAL, 1),
                     b = accel_pair(column, 2, d, l, USUAL, 2);
                pair c = accel_pair(dims, 3, d, l, USUAL, 3);
                pair y = accel_out(dims, 3, d, (layout)(l % REPEATED));

                if (!check_copy(&y, &a) || !check_copy(&y, &b) || !check_copy(&y, &c))
                    return;
            }
}

TT_TEST_LIMIT(accel_copy, dense_and_empty, 120)
{
    (void)accel_device();
    TT_SCOPE {
        const int64_t n = 70001, none = 0;
        pair x = accel_pair(&n, 1, TT_F32, PLAIN, USUAL, 1), y = accel_out(&n, 1, TT_F32, PLAIN);
        pair e = accel_out(&none, 1, TT_F32, PLAIN), h = accel_out(&none, 1, TT_F16, PLAIN);

        check_copy(&y, &x);
        check_copy(&y, &y);
        check_copy(&e, &e);
        check_copy(&h, &e);
        TT_CHECK_OK(DEV->fill(e.dev, 1, 0));
        TT_CHECK_OK(DEV->arange(e.dev, 0, 1));
    }
}

TT_TEST_LIMIT(accel_copy, fills, 120)
{
    static const double values[][2] = {
        { 0, 0 }, { -0.0, 0 }, { 1.5, -2 }, { 1e300, 0 }, { NAN, 1 }
    };

    (void)accel_device();
    for (tt_dtype d = TT_F32; d <= TT_C128; d++)
        for (int i = 0; i < 5; i++)
            TT_SCOPE {
                const int64_t dims[] = { 5, 121 };
                pair x = accel_out(dims, 2, d, (layout)(i % REPEATED));

                if (tt_dtype_is_integral(d) && (i == 3 || i == 4)) /* no such integer */
                    continue;
                TT_CHECK_OK(CPU->fill(x.cpu, values[i][0], values[i][1]));
                TT_CHECK_OK(DEV->fill(x.dev, values[i][0], values[i][1]));
                accel_same(&x, 0, tt_dtype_name(d));
            }
}

TT_TEST_LIMIT(accel_copy, ranges, 120)
{
    static const double from[][2] = { { 0, 1 }, { 5, -3 }, { -20, 7 } };

    (void)accel_device();
    for (tt_dtype d = TT_F32; d <= TT_C128; d++)
        for (int i = 0; i < 3; i++)
            TT_SCOPE {
                const int64_t n = 1000;
                pair x = accel_out(&n, 1, d, PLAIN);

                TT_CHECK_OK(CPU->arange(x.cpu, from[i][0], from[i][1]));
                TT_CHECK_OK(DEV->arange(x.dev, from[i][0], from[i][1]));
                accel_same(&x, 0, tt_dtype_name(d));
            }
    TT_SCOPE {
        const int64_t n = 1000;
        pair x = accel_out(&n, 1, TT_F64, PLAIN), y = accel_out(&n, 1, TT_F32, PLAIN);

        TT_CHECK_OK(CPU->arange(x.cpu, 0.1, 0.3));
        TT_CHECK_OK(DEV->arange(x.dev, 0.1, 0.3));
        accel_same(&x, 1e-15, "a range of fractions");
        TT_CHECK_OK(CPU->arange(y.cpu, 0.1, 0.3));
        TT_CHECK_OK(DEV->arange(y.dev, 0.1, 0.3));
        accel_same(&y, 1e-7, "a range of fractions");
    }
}

/* Through the public functions, with the host at both ends. */
TT_TEST_LIMIT(accel_copy, to_a_device_and_back, 120)
{
    tt_device d = accel_device();

    TT_SCOPE {
        tt_tensor *x = tt_randn(TT_SHAPE(9, 14), TT_F32, TT_CPU);
        tt_tensor *there = tt_transpose(tt_to_device(x, d), 0, 1);
        tt_tensor *back = tt_to_device(tt_to_dtype(there, TT_F64), TT_CPU);

        TT_REQUIRE_NOT_NULL(back);
        TT_CHECK(tt_equal(tt_to_dtype(back, TT_F32), tt_transpose(x, 0, 1)));
    }
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_copy, small_ones, 300)
{
    const int64_t dims[] = { 3, 4 };

    (void)accel_device();
    for (tt_dtype s = TT_F32; s <= TT_C128; s++)
        for (tt_dtype d = TT_F32; d <= TT_C128; d++)
            TT_SCOPE {
                pair from = accel_pair(dims, 2, s, SWAPPED, USUAL, 1),
                     to = accel_out(dims, 2, d, STEPPED);

                check_copy(&to, &from);
                TT_CHECK_OK(CPU->fill(to.cpu, 3, 0));
                TT_CHECK_OK(DEV->fill(to.dev, 3, 0));
                accel_same(&to, 0, "small fill");
            }
}
