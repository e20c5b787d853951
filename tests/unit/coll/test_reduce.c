/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of reductions against the plain version, and the plain version against numbers worked out by hand. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "deeds.h"

#define MOST 1100

static void fill_bytes(uint64_t *state, tt_dtype d, unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t x = next_random(state);

        memcpy(data + i, &x, 8);
    }
    for (size_t i = 0; d == TT_BOOL && i < bytes; i++)
        data[i] &= 1;
}

/* NaNs may differ in their payload. */
static bool same(tt_dtype d, const unsigned char *a, const unsigned char *b, size_t i)
{
    size_t each = d == TT_C64 ? 4 : d == TT_C128 ? 8 : tt_dtype_size(d);
    float x, y;
    double u, v;

    if (memcmp(a + i * each, b + i * each, each) == 0)
        return true;
    if (d == TT_F32 || d == TT_C64) {
        memcpy(&x, a + i * each, 4);
        memcpy(&y, b + i * each, 4);
        return x != x && y != y;
    }
    if (d == TT_F64 || d == TT_C128) {
        memcpy(&u, a + i * each, 8);
        memcpy(&v, b + i * each, 8);
        return u != u && v != v;
    }
    if (d == TT_F16 || d == TT_BF16) {
        uint16_t p, q;

        memcpy(&p, a + i * each, 2);
        memcpy(&q, b + i * each, 2);
        x = d == TT_F16 ? tti_f16_to_f32(p) : tti_bf16_to_f32(p);
        y = d == TT_F16 ? tti_f16_to_f32(q) : tti_bf16_to_f32(q);
        return x != x && y != y;
    }
    return false;
}

static void compare(uint64_t *state, tt_dtype d, tt_reduce_op op, int k)
{
    static unsigned char in[5][MOST * 16], out[MOST * 16], want[MOST * 16];
    size_t n = next_random(state) % MOST, bytes = n * tt_dtype_size(d),
           count = tti_fold_count(d, bytes);
    const void *ins[5] = { in[0], in[1], in[2], in[3], in[4] };
    double factors[5] = { 0.5, -1.25, 3, 0.1, 7 };
    tti_reduce_fn fn = tti_reduce_pick(d, op);

    if (fn == NULL)
        return;
    for (int r = 0; r < k; r++)
        fill_bytes(state, d, in[r], sizeof in[r]);
    tti_reduce_plain(d, op, want, ins, k, count, factors);
    fn(out, ins, k, count, factors);
    for (size_t i = 0; i < count; i++)
        if (!same(d, out, want, i)) {
            TT_FAIL_TEST("%s of %s, %d ranks, element %zu of %zu", tti_reduce_name(op),
                         tt_dtype_name(d), k, i, count);
            break;
        }
    fn(in[k - 1], ins, k, count, factors); /* in place gives the same */
    for (size_t i = 0; i < count; i++)
        if (!same(d, in[k - 1], want, i)) {
            TT_FAIL_TEST("in place: %s of %s, element %zu", tti_reduce_name(op), tt_dtype_name(d),
                         i);
            break;
        }
}

TT_TEST(coll_reduce, kernels_give_the_bits_of_the_plain_version)
{
    uint64_t state = tt_test_seed();

    for (int d = 0; d < TT_N_DTYPES; d++)
        for (int op = 0; op < TTI_N_REDUCE_OPS; op++)
            for (int k = 1; k <= 5; k++)
                for (int again = 0; again < 3; again++)
                    compare(&state, (tt_dtype)d, (tt_reduce_op)op, k);
}

TT_TEST(coll_reduce, halves_are_rounded_once)
{
    /* 1 + 2^-11 + 2^-11: each half of the last place alone would be lost. */
    uint16_t a = tti_f32_to_f16(1.0f), b = tti_f32_to_f16(0x1p-11f), out = 0;
    const void *ins[3] = { &a, &b, &b };

    tti_reduce_pick(TT_F16, TT_REDUCE_SUM)(&out, ins, 3, 1, NULL);
    TT_CHECK_EQ(out, tti_f32_to_f16(1.0f + 0x1p-10f));
}

TT_TEST(coll_reduce, averages_of_integers_go_towards_zero)
{
    int32_t a = -7, b = 0, out = 99;
    int8_t big = 127, sum = 0;
    const void *ins[2] = { &a, &b }, *bigs[2] = { &big, &big };

    tti_reduce_pick(TT_I32, TT_REDUCE_AVG)(&out, ins, 2, 1, NULL);
    TT_CHECK_EQ(out, -3);
    tti_reduce_pick(TT_I8, TT_REDUCE_AVG)(&sum, bigs, 2, 1, NULL);
    TT_CHECK_EQ(sum, 127);
}

TT_TEST(coll_reduce, extremes_keep_nan)
{
    float a[2] = { NAN, 1 }, b[2] = { 1, NAN }, out[2] = { 0, 0 };
    const void *ins[2] = { a, b };

    tti_reduce_pick(TT_F32, TT_REDUCE_MIN)(out, ins, 2, 2, NULL);
    TT_CHECK(isnan(out[0]) && isnan(out[1]));
    tti_reduce_pick(TT_F32, TT_REDUCE_MAX)(out, ins, 2, 2, NULL);
    TT_CHECK(isnan(out[0]) && isnan(out[1]));
}

TT_TEST(coll_reduce, types_lack_what_makes_no_sense)
{
    TT_CHECK(tti_reduce_pick(TT_C64, TT_REDUCE_MAX) == NULL);
    TT_CHECK(tti_reduce_pick(TT_F32, TT_REDUCE_BXOR) == NULL);
    TT_CHECK(tti_reduce_pick(TT_I32, TT_REDUCE_PREMUL_SUM) == NULL);
}

/* ---- special numbers ----------------------------------------------------------------------------- */

static float two_floats(tt_reduce_op op, float a, float b)
{
    const void *ins[2] = { &a, &b };
    float out = 0, plain = 0;

    tti_reduce_pick(TT_F32, op)(&out, ins, 2, 1, NULL);
    tti_reduce_plain(TT_F32, op, &plain, ins, 2, 1, NULL);
    TT_CHECK(memcmp(&out, &plain, sizeof out) == 0 || (isnan(out) && isnan(plain)));
    return out;
}

TT_TEST(coll_reduce, infinities_follow_the_rules_of_floats)
{
    float inf = INFINITY;

    TT_CHECK(two_floats(TT_REDUCE_MAX, inf, 1) == inf && two_floats(TT_REDUCE_MAX, -inf, 1) == 1);
    TT_CHECK(two_floats(TT_REDUCE_MIN, inf, 1) == 1 && two_floats(TT_REDUCE_MIN, -inf, 1) == -inf);
    TT_CHECK(two_floats(TT_REDUCE_SUM, inf, 1) == inf);
    TT_CHECK(isnan(two_floats(TT_REDUCE_SUM, inf, -inf)));
    TT_CHECK(isnan(two_floats(TT_REDUCE_PRODUCT, inf, 0)));
    TT_CHECK(two_floats(TT_REDUCE_PRODUCT, -inf, 2) == -inf);
    TT_CHECK(two_floats(TT_REDUCE_AVG, 3e38f, 3e38f) == inf); /* the sum is made first */
    TT_CHECK(isnan(two_floats(TT_REDUCE_MIN, inf, NAN)));
    TT_CHECK(isnan(two_floats(TT_REDUCE_MAX, NAN, inf)));
}

TT_TEST(coll_reduce, zeros_keep_their_sign)
{
    TT_CHECK(signbit(two_floats(TT_REDUCE_SUM, -0.0f, -0.0f)));
    TT_CHECK(!signbit(two_floats(TT_REDUCE_SUM, -0.0f, 0.0f)));
    TT_CHECK(signbit(two_floats(TT_REDUCE_PRODUCT, -0.0f, 3)));
    /* Equal zeros: the one of the lower rank stays, on every rank. */
    TT_CHECK(signbit(two_floats(TT_REDUCE_MIN, -0.0f, 0.0f)));
    TT_CHECK(!signbit(two_floats(TT_REDUCE_MIN, 0.0f, -0.0f)));
    TT_CHECK(signbit(two_floats(TT_REDUCE_MAX, -0.0f, 0.0f)));
}

TT_TEST(coll_reduce, nan_wins_at_every_place_of_every_length)
{
    static const tt_reduce_op ops[] = { TT_REDUCE_MIN, TT_REDUCE_MAX, TT_REDUCE_SUM,
                                        TT_REDUCE_PRODUCT };
    float in[3][67], out[67];
    const void *ins[3] = { in[0], in[1], in[2] };

    for (int op = 0; op < 4; op++)
        for (size_t n = 1; n <= 67; n += 3)
            for (int r = 0; r < 3; r++) {
                size_t at = (n * 7 + (size_t)r) % n;

                for (size_t i = 0; i < 67; i++)
                    in[0][i] = in[1][i] = in[2][i] = 1;
                in[r][at] = NAN;
                tti_reduce_pick(TT_F32, ops[op])(out, ins, 3, n, NULL);
                for (size_t i = 0; i < n; i++)
                    TT_REQUIRE_EQ(isnan(out[i]) != 0, i == at);
            }
}

TT_TEST(coll_reduce, halves_keep_nan_and_infinity)
{
    uint16_t inf = tti_f32_to_f16(INFINITY), one = tti_f32_to_f16(1), nan = tti_f32_to_f16(NAN);
    uint16_t most = tti_f32_to_f16(65504), out = 0, huge = tti_f32_to_bf16(3e38f);
    const void *a[2] = { &one, &nan }, *b[2] = { &inf, &one }, *c[2] = { &most, &most };
    const void *d[2] = { &huge, &huge };

    tti_reduce_pick(TT_F16, TT_REDUCE_MIN)(&out, a, 2, 1, NULL);
    TT_CHECK(isnan(tti_f16_to_f32(out)));
    tti_reduce_pick(TT_F16, TT_REDUCE_MAX)(&out, b, 2, 1, NULL);
    TT_CHECK_EQ(out, inf);
    tti_reduce_pick(TT_F16, TT_REDUCE_SUM)(&out, c, 2, 1, NULL);
    TT_CHECK_EQ(out, inf);
    tti_reduce_pick(TT_F16, TT_REDUCE_AVG)(&out, c, 2, 1, NULL);
    TT_CHECK_EQ(out, most); /* made in float32, where nothing overflows */
    tti_reduce_pick(TT_BF16, TT_REDUCE_SUM)(&out, d, 2, 1, NULL);
    TT_CHECK(isinf(tti_bf16_to_f32(out)));
}

/* Integers go round as two's complement does. */
#define WRAPS(ctype, dtype, a_, b_, op, want)               \
    do {                                                    \
        ctype a = (a_), b = (b_), out = 0;                  \
        const void *ins[2] = { &a, &b };                    \
        tti_reduce_pick(dtype, op)(&out, ins, 2, 1, NULL);  \
        TT_CHECK_EQ(out, (ctype)(want));                    \
        tti_reduce_plain(dtype, op, &out, ins, 2, 1, NULL); \
        TT_CHECK_EQ(out, (ctype)(want));                    \
    } while (0)

TT_TEST(coll_reduce, integers_wrap_around)
{
    WRAPS(int8_t, TT_I8, 127, 1, TT_REDUCE_SUM, -128);
    WRAPS(uint8_t, TT_U8, 200, 100, TT_REDUCE_SUM, 44);
    WRAPS(int16_t, TT_I16, INT16_MIN, -1, TT_REDUCE_SUM, INT16_MAX);
    WRAPS(int32_t, TT_I32, INT32_MAX, 1, TT_REDUCE_SUM, INT32_MIN);
    WRAPS(int64_t, TT_I64, INT64_MIN, -1, TT_REDUCE_SUM, INT64_MAX);
    WRAPS(int8_t, TT_I8, 16, 16, TT_REDUCE_PRODUCT, 0);
    WRAPS(int16_t, TT_I16, 300, 300, TT_REDUCE_PRODUCT, 24464);
    WRAPS(int32_t, TT_I32, 65536, 65537, TT_REDUCE_PRODUCT, 65536);
    WRAPS(int64_t, TT_I64, INT64_MAX, 2, TT_REDUCE_PRODUCT, -2);
}

TT_TEST(coll_reduce, integers_compare_with_their_sign)
{
    WRAPS(int8_t, TT_I8, -1, 1, TT_REDUCE_MIN, -1);
    WRAPS(uint8_t, TT_U8, 255, 1, TT_REDUCE_MIN, 1);
    WRAPS(uint8_t, TT_U8, 255, 1, TT_REDUCE_MAX, 255);
    WRAPS(int64_t, TT_I64, INT64_MIN, INT64_MAX, TT_REDUCE_MIN, INT64_MIN);
    WRAPS(int64_t, TT_I64, INT64_MIN, INT64_MAX, TT_REDUCE_MAX, INT64_MAX);
    WRAPS(int16_t, TT_I16, -1, 0x0f0f, TT_REDUCE_BAND, 0x0f0f);
    WRAPS(int32_t, TT_I32, INT32_MIN, 1, TT_REDUCE_BOR, INT32_MIN + 1);
    WRAPS(int64_t, TT_I64, -1, 5, TT_REDUCE_BXOR, -6);
}

TT_TEST(coll_reduce, averages_of_negatives_are_cut_towards_zero)
{
    WRAPS(int8_t, TT_I8, -128, -127, TT_REDUCE_AVG, -127);
    WRAPS(int8_t, TT_I8, -1, 0, TT_REDUCE_AVG, 0);
    WRAPS(int16_t, TT_I16, -3, -4, TT_REDUCE_AVG, -3);
    WRAPS(int16_t, TT_I16, 3, 4, TT_REDUCE_AVG, 3);
    WRAPS(int32_t, TT_I32, INT32_MIN, INT32_MIN + 1, TT_REDUCE_AVG, INT32_MIN + 1);
    WRAPS(int64_t, TT_I64, -9, 2, TT_REDUCE_AVG, -3);
    WRAPS(uint8_t, TT_U8, 255, 254, TT_REDUCE_AVG, 254);
}

TT_TEST(coll_reduce, every_rank_has_a_factor_of_its_own)
{
    double a = 1, b = 10, c = 100, out = 0, factors[3] = { 2, -0.5, 0 };
    float fa = 1, fb = 10, fc = 100, fout = 0;
    uint16_t ha = tti_f32_to_bf16(1), hb = tti_f32_to_bf16(10), hc = tti_f32_to_bf16(100), hout = 0;
    const void *ins[3] = { &a, &b, &c }, *fins[3] = { &fa, &fb, &fc }, *hins[3] = { &ha, &hb, &hc };

    tti_reduce_pick(TT_F64, TT_REDUCE_PREMUL_SUM)(&out, ins, 3, 1, factors);
    TT_CHECK(out == -3);
    tti_reduce_pick(TT_F32, TT_REDUCE_PREMUL_SUM)(&fout, fins, 3, 1, factors);
    TT_CHECK(fout == -3);
    tti_reduce_pick(TT_BF16, TT_REDUCE_PREMUL_SUM)(&hout, hins, 3, 1, factors);
    TT_CHECK_EQ(hout, tti_f32_to_bf16(-3));
    tti_reduce_pick(TT_F64, TT_REDUCE_PREMUL_SUM)(&out, ins, 1, 1, factors);
    TT_CHECK(out == 2); /* alone, it is still multiplied */
}
