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
