/* SPDX-License-Identifier: Apache-2.0 */
/* Indexed moves on an accelerator, against the CPU's kernels; and what bad indices do. */
#include "accel_data.h"

#define CPU tti_kernels_cpu.index
#define DEV tti_kernels_accel.index

typedef struct index_case {
    int n_dims, dim;
    int64_t dims[4];
    int64_t n; /* indices */
} index_case;

static const index_case cases[] = {
    { 1, 0, { 9 }, 20 },          { 1, 0, { 1 }, 3 },           { 2, 0, { 7, 13 }, 11 },
    { 2, 1, { 7, 13 }, 30 },      { 2, 0, { 50, 256 }, 64 },    { 3, 1, { 5, 6, 4 }, 17 },
    { 3, 2, { 3, 40, 50 }, 100 }, { 4, 1, { 2, 9, 3, 8 }, 12 }, { 2, 0, { 5, 0 }, 4 },
    { 2, 0, { 5, 3 }, 0 },        { 1, 0, { 300 }, 5000 },
};
#define N_CASES ((int)(sizeof cases / sizeof cases[0]))

static const char *words(const char *op, tt_dtype d, const index_case *c)
{
    static char text[96];

    snprintf(text, sizeof text, "%s of %s, case [%lld, %lld] dim %d, %lld indices", op,
             tt_dtype_name(d), (long long)c->dims[0], (long long)c->dims[1], c->dim,
             (long long)c->n);
    return text;
}

/* The sizes of x with `n` along the dimension of the case. */
static void with_size(const index_case *c, int64_t n, int64_t *dims)
{
    memcpy(dims, c->dims, sizeof c->dims);
    dims[c->dim] = n;
}

static void select_case(tt_dtype d, const index_case *c)
{
    int64_t dims[4];
    pair x = accel_pair(c->dims, c->n_dims, d, PLAIN, USUAL, 1), out;
    pair index = accel_indices(&c->n, 1, c->dims[c->dim], 2);

    with_size(c, c->n, dims);
    out = accel_out(dims, c->n_dims, d, PLAIN);
    TT_REQUIRE_OK(CPU->index_select(out.cpu, x.cpu, c->dim, index.cpu));
    TT_CHECK_OK(DEV->index_select(out.dev, x.dev, c->dim, index.dev));
    accel_same(&out, 0.0, words("index_select", d, c));
}

/* Many indices come more than once: the order shows in sums of floats, and in who is last. */
static void put_case(tt_dtype d, const index_case *c)
{
    int64_t dims[4];
    pair index = accel_indices(&c->n, 1, c->dims[c->dim], 3), src;

    with_size(c, c->n, dims);
    src = accel_pair(dims, c->n_dims, d, PLAIN, USUAL, 4);
    for (int add = 0; add < 2; add++) {
        pair out = accel_pair(c->dims, c->n_dims, d, PLAIN, USUAL, 5);

        TT_REQUIRE_OK(CPU->index_put(out.cpu, c->dim, index.cpu, src.cpu, add));
        TT_CHECK_OK(DEV->index_put(out.dev, c->dim, index.dev, src.dev, add));
        accel_same(&out, 0.0, words(add ? "index_add" : "index_copy", d, c));
    }
}

/* An index of x's rank, smaller than x (or src larger than it) in the other dimensions. */
static void gather_case(tt_dtype d, const index_case *c)
{
    int64_t dims[4], larger[4];
    pair x = accel_pair(c->dims, c->n_dims, d, PLAIN, USUAL, 6), index, out, src;

    with_size(c, c->n, dims);
    for (int i = 0; i < c->n_dims; i++)
        dims[i] -= i != c->dim && dims[i] > 3 ? 1 : 0;
    for (int i = 0; i < c->n_dims; i++)
        larger[i] = dims[i] + (i % 2 == 0 ? 2 : 0);
    index = accel_indices(dims, c->n_dims, c->dims[c->dim], 7);
    out = accel_out(dims, c->n_dims, d, PLAIN);
    TT_REQUIRE_OK(CPU->gather(out.cpu, x.cpu, c->dim, index.cpu));
    TT_CHECK_OK(DEV->gather(out.dev, x.dev, c->dim, index.dev));
    accel_same(&out, 0.0, words("gather", d, c));
    src = accel_pair(larger, c->n_dims, d, PLAIN, USUAL, 8);
    for (int add = 0; add < 2; add++) {
        pair to = accel_pair(c->dims, c->n_dims, d, PLAIN, USUAL, 9);

        TT_REQUIRE_OK(CPU->scatter(to.cpu, c->dim, index.cpu, src.cpu, add));
        TT_CHECK_OK(DEV->scatter(to.dev, c->dim, index.dev, src.dev, add));
        accel_same(&to, 0.0, words(add ? "scatter_add" : "scatter", d, c));
    }
}

static void tri_case(tt_dtype d, const index_case *c)
{
    static const int64_t diagonals[] = { 0, 1, -2, 5, -40, INT64_MAX, INT64_MIN };
    pair x = accel_pair(c->dims, c->n_dims, d, PLAIN, USUAL, 10);

    for (int i = 0; c->n_dims > 1 && i < 14; i++) {
        pair out = accel_out(c->dims, c->n_dims, d, PLAIN);

        TT_REQUIRE_OK(CPU->tri(out.cpu, x.cpu, diagonals[i / 2], i % 2 == 0));
        TT_CHECK_OK(DEV->tri(out.dev, x.dev, diagonals[i / 2], i % 2 == 0));
        accel_same(&out, 0.0, words("tri", d, c));
    }
}

static void mask_case(tt_dtype d, const index_case *c)
{
    pair x = accel_pair(c->dims, c->n_dims, d, PLAIN, SPECIAL, 16), out, back;
    pair mask = accel_pair(c->dims, c->n_dims, TT_BOOL, PLAIN, USUAL, 17);
    int64_t n = -1, m = -1, set = -1;

    TT_REQUIRE_OK(CPU->count_nonzero(x.cpu, &n));
    TT_CHECK_OK(DEV->count_nonzero(x.dev, &m));
    TT_CHECK_EQ(m, n);
    out = accel_out((int64_t[]){ n, c->n_dims }, 2, TT_I64, PLAIN);
    TT_REQUIRE_OK(CPU->nonzero(out.cpu, x.cpu));
    TT_CHECK_OK(DEV->nonzero(out.dev, x.dev));
    accel_same(&out, 0.0, words("nonzero", d, c));
    TT_REQUIRE_OK(CPU->count_nonzero(mask.cpu, &set));
    out = accel_out(&set, 1, d, PLAIN);
    TT_REQUIRE_OK(CPU->masked_select(out.cpu, x.cpu, mask.cpu));
    TT_CHECK_OK(DEV->masked_select(out.dev, x.dev, mask.dev));
    accel_same(&out, 0.0, words("masked_select", d, c));
    back = accel_out(c->dims, c->n_dims, d, PLAIN);
    TT_REQUIRE_OK(CPU->masked_scatter(back.cpu, mask.cpu, out.cpu));
    TT_CHECK_OK(DEV->masked_scatter(back.dev, mask.dev, out.dev));
    accel_same(&back, 0.0, words("masked_scatter", d, c));
}

static void index_type(void *ctx)
{
    tt_dtype d = *(const tt_dtype *)ctx;

    accel_device();
    for (int i = 0; i < N_CASES && tt_test_failures() == 0; i++)
        TT_SCOPE {
            select_case(d, &cases[i]);
            put_case(d, &cases[i]);
            gather_case(d, &cases[i]);
            tri_case(d, &cases[i]);
            mask_case(d, &cases[i]);
        }
}

TT_TEST_TABLE(accel_index)
{
    static tt_dtype types[TT_N_DTYPES];

    for (int d = 0; d < TT_N_DTYPES; d++) {
        char name[64];

        types[d] = (tt_dtype)d;
        snprintf(name, sizeof name, "moves_%s_as_the_cpu", tt_dtype_name(types[d]));
        tt_test_add("accel_index", name, index_type, &types[d])->limit = 300;
    }
}

/* Every kernel once, on few elements: what tools that watch each access can run. */
TT_TEST_LIMIT(accel_index, small_ones_as_the_cpu, 300)
{
    const index_case *c = &cases[3];

    accel_device();
    TT_SCOPE {
        select_case(TT_F32, c);
        put_case(TT_F32, c);
        gather_case(TT_F32, c);
        tri_case(TT_F32, c);
        mask_case(TT_F32, c);
    }
}

/* Slices that begin where wide moves cannot: an odd element of the storage. */
TT_TEST(accel_index, slices_may_begin_anywhere)
{
    const int64_t dims[] = { 6, 8 }, strides[] = { 8, 1 }, n = 5;
    int64_t room = 64;

    accel_device();
    for (int64_t offset = 0; offset < 4; offset++)
        TT_SCOPE {
            pair x = accel_pair(&room, 1, TT_I16, PLAIN, USUAL, 18);
            pair index = accel_indices(&n, 1, 6, 19);
            pair out = accel_out((int64_t[]){ n, 8 }, 2, TT_I16, PLAIN);

            x.cpu = tti_view_raw(x.cpu, dims, strides, 2, offset);
            x.dev = tti_view_raw(x.dev, dims, strides, 2, offset);
            TT_REQUIRE_OK(CPU->index_select(out.cpu, x.cpu, 0, index.cpu));
            TT_CHECK_OK(DEV->index_select(out.dev, x.dev, 0, index.dev));
            accel_same(&out, 0.0, "index_select with an offset");
        }
}

/* Long ones have several chunks; and a number without dimensions has no coordinates. */
TT_TEST(accel_index, long_masks_and_numbers)
{
    static const index_case longs[] = { { 1, 0, { 100003 }, 10 }, { 3, 0, { 30, 41, 53 }, 1 } };
    int64_t n = -1;

    accel_device();
    TT_SCOPE {
        pair x = accel_pair(NULL, 0, TT_F32, PLAIN, USUAL, 20), out;

        mask_case(TT_F32, &longs[0]);
        mask_case(TT_I64, &longs[1]);
        TT_CHECK_OK(DEV->count_nonzero(x.dev, &n));
        TT_CHECK_EQ(n, 1);
        out = accel_out((int64_t[]){ 1, 0 }, 2, TT_I64, PLAIN);
        TT_CHECK_OK(DEV->nonzero(out.dev, x.dev));
    }
}

TT_TEST(accel_index, keys_are_sorted_stably)
{
    static const int64_t sizes[] = { 0, 1, 2, 23, 24, 25, 1000, 65536, 65537, 200001 };
    static const int64_t below[] = { 1, 3, 1000, 1 << 30 };

    accel_device();
    for (int i = 0; i < 40; i++)
        TT_SCOPE {
            int64_t n = sizes[i / 4], a = -1, b = -2;
            pair keys = accel_indices(&n, 1, below[i % 4], 21);
            pair order = accel_out(&n, 1, TT_I64, PLAIN);

            TT_REQUIRE_OK(CPU->sort_keys(order.cpu, keys.cpu, &a));
            TT_CHECK_OK(DEV->sort_keys(order.dev, keys.dev, &b));
            TT_CHECK_EQ(a, b);
            accel_same(&order, 0.0, "sort_keys");
        }
}

TT_TEST(accel_index, one_hot_rows_as_the_cpu)
{
    const int64_t dims[] = { 3, 50 };

    accel_device();
    TT_SCOPE {
        pair index = accel_indices(dims, 2, 7, 22);
        pair out = accel_pair((int64_t[]){ 3, 50, 7 }, 3, TT_I64, PLAIN, USUAL, 23);

        TT_REQUIRE_OK(CPU->one_hot(out.cpu, index.cpu));
        TT_CHECK_OK(DEV->one_hot(out.dev, index.dev));
        /* the room behind the tensor keeps what was there */
        accel_same(&out, 0.0, "one_hot");
    }
}

/* ---- bad indices ------------------------------------------------------------------------------------ */

/* [0, 1, bad, 2] */
static pair bad_indices(int64_t bad)
{
    int64_t n = 4, *at;
    pair p = { accel_laid(&n, 1, TT_I64, PLAIN), NULL };

    at = tti_data(p.cpu);
    at[1] = 1;
    at[2] = bad;
    at[3] = 2;
    p.dev = accel_copy(p.cpu, accel_device());
    return p;
}

/* The error comes when somebody waits, says what the CPU says, and comes once. */
static void check_trouble(tt_device d, const char *op, int64_t bad, int64_t size)
{
    char text[128];

    snprintf(text, sizeof text, "%s: index %lld at position 2 is out of range for size %lld", op,
             (long long)bad, (long long)size);
    TT_CHECK_ERR_SAYS(tt_device_sync(d), TT_ERR_INVALID, text);
    TT_CHECK_OK(tt_device_sync(d));
}

/* Rows of three of [5, 3]: the bad one leaves its row alone, the others are done. */
static void check_rows(int64_t bad)
{
    const int64_t x_dims[] = { 5, 3 }, dims[] = { 4, 3 };
    tt_device d = accel_device();

    TT_SCOPE {
        pair index = bad_indices(bad), x = accel_pair(x_dims, 2, TT_F32, PLAIN, USUAL, 24);
        pair out = accel_out(dims, 2, TT_F32, PLAIN);
        const float *from = tti_data(x.cpu);
        float *to = tti_data(out.cpu);

        TT_CHECK_ERR(CPU->index_select(out.cpu, x.cpu, 0, index.cpu), TT_ERR_INVALID);
        TT_CHECK_OK(DEV->index_select(out.dev, x.dev, 0, index.dev));
        check_trouble(d, "index_select", bad, 5);
        memcpy(to, from, 6 * sizeof *to);
        memcpy(to + 9, from + 6, 3 * sizeof *to);
        accel_same(&out, 0.0, "index_select with a bad index");

        for (int add = 0; add < 2; add++) {
            pair t = accel_out(x_dims, 2, TT_F32, PLAIN);
            pair src = accel_pair(dims, 2, TT_F32, PLAIN, USUAL, 25);

            TT_CHECK_OK(DEV->index_put(t.dev, 0, index.dev, src.dev, add));
            check_trouble(d, add ? "index_add" : "index_copy", bad, 5);
            memcpy(tti_data(t.cpu), tti_data(src.cpu), 6 * sizeof(float));
            memcpy((float *)tti_data(t.cpu) + 6, (float *)tti_data(src.cpu) + 9, 3 * sizeof(float));
            accel_same(&t, 0.0, "index_put with a bad index");
        }
    }
}

static void check_elements(int64_t bad)
{
    const int64_t five = 5, four = 4, hot[] = { 4, 5 };
    tt_device d = accel_device();

    TT_SCOPE {
        pair index = bad_indices(bad), x = accel_pair(&five, 1, TT_F32, PLAIN, USUAL, 26);
        pair src = accel_pair(&four, 1, TT_F32, PLAIN, USUAL, 27);
        pair out = accel_out(&four, 1, TT_F32, PLAIN), to = accel_out(&five, 1, TT_F32, PLAIN);
        pair rows = accel_pair(hot, 2, TT_I64, PLAIN, USUAL, 28);
        const float *from = tti_data(x.cpu), *given = tti_data(src.cpu);
        int64_t *ones = tti_data(rows.cpu);

        TT_CHECK_OK(DEV->gather(out.dev, x.dev, 0, index.dev));
        check_trouble(d, "gather", bad, 5);
        memcpy(tti_data(out.cpu), (float[]){ from[0], from[1], 0, from[2] }, 4 * sizeof(float));
        accel_same(&out, 0.0, "gather with a bad index");
        TT_CHECK_OK(DEV->scatter(to.dev, 0, index.dev, src.dev, false));
        check_trouble(d, "scatter", bad, 5);
        memcpy(tti_data(to.cpu), (float[]){ given[0], given[1], given[3] }, 3 * sizeof(float));
        accel_same(&to, 0.0, "scatter with a bad index");
        TT_CHECK_OK(DEV->scatter(to.dev, 0, index.dev, src.dev, true));
        check_trouble(d, "scatter_add", bad, 5);
        TT_CHECK_OK(DEV->one_hot(rows.dev, index.dev));
        check_trouble(d, "one_hot", bad, 5);
        memset(ones, 0, 20 * sizeof *ones);
        ones[0] = ones[6] = ones[17] = 1;
        accel_same(&rows, 0.0, "one_hot with a bad index");
    }
}

TT_TEST(accel_index, bad_indices_are_told_and_touch_nothing)
{
    static const int64_t bad[] = { 5, -1, INT64_MAX, INT64_MIN };

    for (int i = 0; i < 4; i++) {
        check_rows(bad[i]);
        check_elements(bad[i]);
    }
}

TT_TEST(accel_index, a_mask_that_wants_too_much_is_trouble)
{
    const int64_t n = 6, few = 2;
    tt_device d = accel_device();

    TT_SCOPE {
        pair mask = { accel_laid(&n, 1, TT_BOOL, PLAIN), NULL };
        pair src = accel_pair(&few, 1, TT_F32, PLAIN, USUAL, 29),
             out = accel_out(&n, 1, TT_F32, PLAIN);
        const float *from = tti_data(src.cpu);

        memcpy(tti_data(mask.cpu), (uint8_t[]){ 0, 1, 0, 1, 1, 0 }, 6);
        mask.dev = accel_copy(mask.cpu, d);
        TT_CHECK_OK(DEV->masked_scatter(out.dev, mask.dev, src.dev));
        TT_CHECK_ERR_SAYS(tt_device_sync(d), TT_ERR_INVALID,
                          "masked_scatter: index 2 at position 4 is out of range for size 2");
        memcpy(tti_data(out.cpu), (float[]){ 0, from[0], 0, from[1] }, 4 * sizeof(float));
        accel_same(&out, 0.0, "masked_scatter of too few");
    }
}
