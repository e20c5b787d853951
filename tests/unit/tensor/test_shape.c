/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of sizes and strides against tables and brute force; element types. */
#include <string.h>

#include "base/philox.h"
#include "tensor/shape.h"
#include "tutti/testing.h"

#define DIMS(...)     \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }

TT_TEST(shape, numel_and_what_does_not_fit)
{
    TT_CHECK_EQ(tti_numel(NULL, 0), 1);
    TT_CHECK_EQ(tti_numel(DIMS(2, 3, 4), 3), 24);
    TT_CHECK_EQ(tti_numel(DIMS(2, 0, 4), 3), 0);
    TT_CHECK_EQ(tti_numel(DIMS(2, -1), 2), -1);
    TT_CHECK_EQ(tti_numel(DIMS(0, -1), 2), -1);
    TT_CHECK_EQ(tti_numel(DIMS(INT64_MAX, 1), 2), INT64_MAX);
    TT_CHECK_EQ(tti_numel(DIMS(INT64_MAX, 2), 2), -1);
    TT_CHECK_EQ(tti_numel(DIMS((int64_t)1 << 32, (int64_t)1 << 31), 2), -1);
    TT_CHECK_EQ(tti_numel(DIMS((int64_t)1 << 31, (int64_t)1 << 31), 2), (int64_t)1 << 62);
    TT_CHECK_EQ(tt_shape_numel(TT_SHAPE_SCALAR), 1);
    TT_CHECK_EQ(tt_shape_numel((tt_shape){ .n_dims = 9 }), -1);
    TT_CHECK_EQ(tt_shape_numel((tt_shape){ .n_dims = -1 }), -1);
}

TT_TEST(shape, equal_looks_at_the_dimensions_that_count)
{
    tt_shape a = TT_SHAPE(2, 3), b = TT_SHAPE(2, 3);

    b.dims[5] = 77;
    TT_CHECK(tt_shape_equal(a, b));
    TT_CHECK(!tt_shape_equal(a, TT_SHAPE(3, 2)));
    TT_CHECK(!tt_shape_equal(a, TT_SHAPE(2, 3, 1)));
    TT_CHECK(tt_shape_equal(TT_SHAPE_SCALAR, TT_SHAPE_SCALAR));
    TT_CHECK(!tt_shape_equal((tt_shape){ .n_dims = 12 }, (tt_shape){ .n_dims = 12 }));
}

static void check_format(const int64_t *dims, int n, tt_memory_format f, const int64_t *want)
{
    int64_t got[TT_MAX_DIMS];

    tti_strides_format(dims, n, f, got);
    TT_CHECK_MEM(got, want, (size_t)n * sizeof *want);
}

TT_TEST(shape, strides_of_memory_formats)
{
    check_format(DIMS(2, 3, 4), 3, TT_FORMAT_CONTIGUOUS, DIMS(12, 4, 1));
    check_format(DIMS(2, 0, 4), 3, TT_FORMAT_CONTIGUOUS, DIMS(4, 4, 1));
    check_format(DIMS(2, 3, 4, 5), 4, TT_FORMAT_CONTIGUOUS, DIMS(60, 20, 5, 1));
    check_format(DIMS(2, 3, 4, 5), 4, TT_FORMAT_CHANNELS_LAST, DIMS(60, 1, 15, 3));
    check_format(DIMS(2, 3, 4, 5, 6), 5, TT_FORMAT_CHANNELS_LAST_3D, DIMS(360, 1, 90, 18, 3));
    check_format(DIMS(2, 3, 4), 3, TT_FORMAT_CHANNELS_LAST, DIMS(12, 4, 1)); /* not 4-D */
}

TT_TEST(shape, wrapped_dimensions)
{
    int dim = -1;

    TT_CHECK_OK(tti_wrap_dim("op", &dim, 3));
    TT_CHECK_EQ(dim, 2);
    dim = -3;
    TT_CHECK_OK(tti_wrap_dim("op", &dim, 3));
    TT_CHECK_EQ(dim, 0);
    dim = 3;
    TT_CHECK_ERR_SAYS(tti_wrap_dim("op", &dim, 3), TT_ERR_INVALID,
                      "op: expected a dimension from -3 to 2, got 3");
    dim = -4;
    TT_CHECK_ERR(tti_wrap_dim("op", &dim, 3), TT_ERR_INVALID);
    dim = -1;
    TT_CHECK_OK(tti_wrap_dim("op", &dim, 0));
    TT_CHECK_EQ(dim, 0);
    dim = 1;
    TT_CHECK_ERR(tti_wrap_dim("op", &dim, 0), TT_ERR_INVALID);
}

TT_TEST(shape, texts_are_cut_where_the_room_ends)
{
    char text[TTI_SHAPE_TEXT], small[6];

    TT_CHECK_STR(tti_shape_text(NULL, 0, text, sizeof text), "[]");
    TT_CHECK_STR(tti_shape_text(DIMS(2, -3), 2, text, sizeof text), "[2, -3]");
    TT_CHECK_STR(tti_shape_text(DIMS(22, 33), 2, small, sizeof small), "[22, ");
    for (int i = 0; i < TT_MAX_DIMS; i++) /* the longest there are: cut or not, it ends */
        tti_shape_text(DIMS(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,
                            INT64_MIN, INT64_MIN),
                       i + 1, text, sizeof text);
    TT_CHECK_LT(strlen(text), sizeof text);
}

/* ---- broadcasting ---------------------------------------------------------------------------- */

typedef struct pair {
    tt_shape a, b, out; /* out.n_dims -1: they do not fit */
} pair;

TT_TEST(broadcast, table_both_ways)
{
    static const tt_shape no = { .n_dims = -1 };
    const pair table[] = {
        { TT_SHAPE_SCALAR, TT_SHAPE_SCALAR, TT_SHAPE_SCALAR },
        { TT_SHAPE(3), TT_SHAPE_SCALAR, TT_SHAPE(3) },
        { TT_SHAPE(3), TT_SHAPE(3), TT_SHAPE(3) },
        { TT_SHAPE(3), TT_SHAPE(1), TT_SHAPE(3) },
        { TT_SHAPE(2, 1), TT_SHAPE(1, 3), TT_SHAPE(2, 3) },
        { TT_SHAPE(4, 2, 1), TT_SHAPE(3), TT_SHAPE(4, 2, 3) },
        { TT_SHAPE(0), TT_SHAPE(1), TT_SHAPE(0) },
        { TT_SHAPE(2, 0), TT_SHAPE(2, 1), TT_SHAPE(2, 0) },
        { TT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), TT_SHAPE(5), TT_SHAPE(1, 1, 1, 1, 1, 1, 1, 5) },
        { TT_SHAPE(3), TT_SHAPE(2), no },
        { TT_SHAPE(0), TT_SHAPE(2), no },
        { TT_SHAPE(2, 3), TT_SHAPE(3, 2), no },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int swap = 0; swap < 2; swap++) {
            const tt_shape *a = swap ? &table[i].b : &table[i].a;
            const tt_shape *b = swap ? &table[i].a : &table[i].b;
            tt_shape out = { 0 };
            tt_status st =
                tti_broadcast("op", a->dims, a->n_dims, b->dims, b->n_dims, out.dims, &out.n_dims);

            if (table[i].out.n_dims < 0) {
                TT_CHECK_EQ(st, TT_ERR_INVALID);
                continue;
            }
            TT_CHECK_OK(st);
            TT_CHECK(tt_shape_equal(out, table[i].out));
        }
    tti_broadcast("op", DIMS(2, 3), 2, DIMS(4), 1, (int64_t[8]){ 0 }, &(int){ 0 });
    TT_CHECK_STR(tt_last_error(),
                 "op: shapes [2, 3] and [4] do not broadcast: dimension 1 has 3 and 4");
}

TT_TEST(broadcast, strides_are_zero_where_an_operand_repeats)
{
    int64_t got[3];

    tti_broadcast_strides(DIMS(3, 1), DIMS(7, 5), 2, 3, DIMS(4, 3, 2), got);
    TT_CHECK_MEM(got, DIMS(0, 7, 0), sizeof got);
    tti_broadcast_strides(DIMS(4, 3, 2), DIMS(6, 2, 1), 3, 3, DIMS(4, 3, 2), got);
    TT_CHECK_MEM(got, DIMS(6, 2, 1), sizeof got);
}

/* ---- views against brute force ------------------------------------------------------------------ */

static int64_t address(const int64_t *dims, const int64_t *strides, int n, int64_t at)
{
    int64_t sum = 0;

    for (int i = n - 1; i >= 0; i--) {
        sum += at % dims[i] * strides[i];
        at /= dims[i];
    }
    return sum;
}

/* The only strides that can work are those seen at the unit vectors; try them on every element. */
static bool brute_force(const tt_shape *from, const int64_t *strides, const tt_shape *to,
                        int64_t *found)
{
    int64_t total = tt_shape_numel(*from), unit = 1;

    for (int i = to->n_dims - 1; i >= 0; i--) {
        found[i] = to->dims[i] > 1 ? address(from->dims, strides, from->n_dims, unit) : 0;
        unit *= to->dims[i];
    }
    for (int64_t at = 0; at < total; at++)
        if (address(from->dims, strides, from->n_dims, at) !=
            address(to->dims, found, to->n_dims, at))
            return false;
    return true;
}

/* Up to 4 sizes from 1, 2, 3, 4, 6 and strides that are dense, permuted, stepped or repeated. */
static void random_layout(tti_philox_block r, tt_shape *s, int64_t *strides)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 6, 2 };
    int64_t step = r.w[1] % 4 == 0 ? 2 : 1;
    bool used[4] = { false };

    s->n_dims = 1 + (int)(r.w[0] % 4);
    for (int i = 0; i < s->n_dims; i++)
        s->dims[i] = sizes[((r.w[2] >> (4 * i)) & 15) % 6];
    for (int k = 0; k < s->n_dims; k++) {
        int i = s->n_dims - 1 - k;

        if (r.w[1] % 3 == 0) /* another order of dimensions */
            i = (int)((r.w[3] + (unsigned)k) % (unsigned)s->n_dims);
        while (used[i])
            i = (i + 1) % s->n_dims;
        used[i] = true;
        strides[i] = ((r.w[3] >> (8 + 3 * k)) & 7) == 0 ? 0 : step;
        step *= s->dims[i];
    }
}

/* Cut the same number of elements another way: split off random divisors. */
static tt_shape random_cut(tti_philox_block r, int64_t total)
{
    tt_shape s = { .n_dims = 0 };

    for (int i = 0; i < 5; i++) {
        int64_t d = 1 + ((r.w[i % 4] >> (i * 5)) & 7);

        if (total % d != 0)
            continue;
        s.dims[s.n_dims++] = d;
        total /= d;
    }
    s.dims[s.n_dims++] = total;
    return s;
}

TT_TEST(view_strides, agree_with_brute_force)
{
    uint64_t seed = tt_test_seed();
    int yes = 0, no = 0;

    for (uint64_t k = 0; k < 20000; k++) {
        tt_shape from = { 0 }, to;
        int64_t strides[TT_MAX_DIMS], got[TT_MAX_DIMS], want[TT_MAX_DIMS];
        bool possible, found;

        random_layout(tti_philox(seed, k, 0), &from, strides);
        to = random_cut(tti_philox(seed, k, 1), tt_shape_numel(from));
        possible = brute_force(&from, strides, &to, want);
        found = tti_view_strides(from.dims, strides, from.n_dims, to.dims, to.n_dims, got);
        for (int i = 0; possible && found && i < to.n_dims; i++)
            if (to.dims[i] > 1 && got[i] != want[i])
                found = false;
        if (possible != found) {
            char a[TTI_SHAPE_TEXT], b[TTI_SHAPE_TEXT], c[TTI_SHAPE_TEXT];

            TT_FAIL_TEST("case %llu: %s with strides %s as %s", (unsigned long long)k,
                         tti_shape_text(from.dims, from.n_dims, a, sizeof a),
                         tti_shape_text(strides, from.n_dims, b, sizeof b),
                         tti_shape_text(to.dims, to.n_dims, c, sizeof c));
            break;
        }
        yes += possible;
        no += !possible;
    }
    TT_CHECK_GT(yes, 1000);
    TT_CHECK_GT(no, 1000);
}

TT_TEST(view_strides, of_nothing_and_of_a_scalar)
{
    int64_t got[3];

    TT_CHECK(tti_view_strides(DIMS(0, 3), DIMS(3, 1), 2, DIMS(3, 0, 2), 3, got));
    TT_CHECK_MEM(got, DIMS(2, 2, 1), sizeof got);
    TT_CHECK(tti_view_strides(NULL, NULL, 0, DIMS(1, 1), 2, got));
    TT_CHECK(tti_view_strides(DIMS(1), DIMS(9), 1, NULL, 0, got));
}

/* ---- element types --------------------------------------------------------------------------- */

TT_TEST(dtype, promotion_is_symmetric_idempotent_and_never_loses_a_category)
{
    for (int a = 0; a < TT_N_DTYPES; a++) {
        TT_CHECK_EQ(tt_promote_types((tt_dtype)a, (tt_dtype)a), a);
        TT_CHECK_EQ(tt_promote_types((tt_dtype)a, TT_BOOL), a);
        for (int b = 0; b < TT_N_DTYPES; b++) {
            tt_dtype p = tt_promote_types((tt_dtype)a, (tt_dtype)b);

            TT_CHECK_EQ(tt_promote_types((tt_dtype)b, (tt_dtype)a), p);
            TT_CHECK_EQ(tt_promote_types(p, (tt_dtype)a), p); /* an upper bound */
            if (tt_dtype_is_complex((tt_dtype)a))
                TT_CHECK(tt_dtype_is_complex(p));
            if (tt_dtype_is_floating((tt_dtype)a))
                TT_CHECK(tt_dtype_is_floating(p) || tt_dtype_is_complex(p));
        }
    }
}

/* An integer with a half type gives the half type, so triples are associative within the integers and
 * within the floating and complex types. */
TT_TEST(dtype, promotion_is_associative)
{
    for (int a = 0; a < TT_N_DTYPES; a++)
        for (int b = 0; b < TT_N_DTYPES; b++)
            for (int c = 0; c < TT_N_DTYPES; c++) {
                tt_dtype left =
                    tt_promote_types(tt_promote_types((tt_dtype)a, (tt_dtype)b), (tt_dtype)c);
                tt_dtype right =
                    tt_promote_types((tt_dtype)a, tt_promote_types((tt_dtype)b, (tt_dtype)c));

                if (left != right)
                    TT_FAIL_TEST("%s, %s, %s", tt_dtype_name((tt_dtype)a),
                                 tt_dtype_name((tt_dtype)b), tt_dtype_name((tt_dtype)c));
            }
}

TT_TEST(dtype, some_pairs_and_what_is_no_type)
{
    TT_CHECK_EQ(tt_promote_types(TT_U8, TT_I8), TT_I16);
    TT_CHECK_EQ(tt_promote_types(TT_U8, TT_I32), TT_I32);
    TT_CHECK_EQ(tt_promote_types(TT_I64, TT_F16), TT_F16);
    TT_CHECK_EQ(tt_promote_types(TT_F16, TT_BF16), TT_F32);
    TT_CHECK_EQ(tt_promote_types(TT_F64, TT_C64), TT_C128);
    TT_CHECK_EQ(tt_promote_types(TT_I64, TT_C64), TT_C64);
    TT_CHECK_STR(tt_dtype_name(TT_BF16), "bfloat16");
    TT_CHECK_STR(tt_dtype_name((tt_dtype)40), "unknown");
    TT_CHECK_EQ(tt_dtype_size((tt_dtype)40), 0);
    TT_CHECK_EQ(tt_dtype_size(TT_C128), 16);
    TT_CHECK(!tt_dtype_is_integral(TT_BOOL));
    TT_CHECK(!tt_dtype_is_floating(TT_C64));
}
