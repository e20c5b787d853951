/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices on an accelerator against those of the CPU, by each of the ways there are: random sizes,
 * types, strides, factors and biases. */
#include <pthread.h>

#include "ops/accel/gemm.h"
#include "ops/cpu/gemm_job.h"
#include "unit/ops/twins.h"

/* A matrix operand with chosen strides, twice. */
typedef struct pair {
    tt_tensor *cpu, *dev;
} pair;

typedef struct product {
    tt_dtype dtype;
    int64_t batch; /* 0: two dimensions */
    int64_t m, n, k;
    tti_gemm g;
    int a_form, b_form;
} product;

enum { DENSE, SWAPPED, SPACED, GAPS, REPEATED, N_FORMS };

static const tt_dtype all_types[] = { TT_F32, TT_F64, TT_F16, TT_BF16, TT_I8,  TT_U8,
                                      TT_I16, TT_I32, TT_I64, TT_C64,  TT_C128 };

/* rows x cols of a buffer: dense, column by column, with room between rows, with room between elements, or
 * the same matrix for the whole batch. */
static pair operand(const product *p, int64_t rows, int64_t cols, int form, tt_device d)
{
    int64_t rs = cols, cs = 1, dims[3], strides[3], offset = 3;
    int n = p->batch != 0 ? 3 : 2, at = n - 2;
    pair buffer, o;

    if (form == SWAPPED)
        rs = 1, cs = rows;
    else if (form == SPACED)
        rs = cols + 5;
    else if (form == GAPS)
        cs = 2, rs = 2 * cols + 1;
    dims[at] = rows, dims[at + 1] = cols;
    strides[at] = rs, strides[at + 1] = cs;
    if (n == 3) {
        dims[0] = p->batch;
        strides[0] = form == REPEATED ? 0 : rows * rs + cols * cs + 2;
    }
    buffer.cpu = twins_noise(
        TT_SHAPE(offset + (p->batch != 0 ? p->batch : 1) * (rows * rs + cols * cs + 2)), p->dtype);
    buffer.dev = twins_move(buffer.cpu, d);
    o.cpu = tti_view_raw(buffer.cpu, dims, strides, n, offset);
    o.dev = tti_view_raw(buffer.dev, dims, strides, n, offset);
    return o;
}

/* Where c is not read, it starts as NaN. */
static pair result(const product *p, tt_device d)
{
    tt_shape s = p->batch != 0 ? TT_SHAPE(p->batch, p->m, p->n) : TT_SHAPE(p->m, p->n);
    pair o = { twins_noise(s, p->dtype), NULL };

    if (p->g.beta == 0.0 && tt_dtype_is_floating(p->dtype))
        TT_REQUIRE_OK(tti_fill(o.cpu, NAN));
    o.dev = twins_move(o.cpu, d);
    return o;
}

static void compare(const product *p, tt_device d)
{
    bool ta = p->g.trans_a, tb = p->g.trans_b;
    pair a = operand(p, ta ? p->k : p->m, ta ? p->m : p->k, p->a_form, d);
    pair b = operand(p, tb ? p->n : p->k, tb ? p->k : p->n, p->b_form, d);
    pair c = result(p, d);
    tti_gemm on_cpu = p->g, on_dev = p->g;
    double apart;

    if (p->g.bias != NULL) {
        on_cpu.bias = twins_noise(TT_SHAPE(p->n), p->dtype);
        on_dev.bias = twins_move(on_cpu.bias, d);
    }
    TT_REQUIRE_OK(tti_kernels_of(c.cpu)->linalg->gemm(c.cpu, a.cpu, b.cpu, &on_cpu));
    TT_REQUIRE_OK(tti_kernels_of(c.dev)->linalg->gemm(c.dev, a.dev, b.dev, &on_dev));
    apart = twins_apart(c.cpu, c.dev);
    if (!TT_CHECK_LE(p->k, 4096) ||
        !TT_CHECK(apart <= twins_tolerance(p->dtype) * (1.0 + sqrt((double)p->k))))
        printf(
            "%s batch %lld m %lld n %lld k %lld trans %d %d forms %d %d alpha %g beta %g bias %d: "
            "%g apart",
            tt_dtype_name(p->dtype), (long long)p->batch, (long long)p->m, (long long)p->n,
            (long long)p->k, ta, tb, p->a_form, p->b_form, p->g.alpha, p->g.beta, p->g.bias != NULL,
            apart);
}

static product random_product(tt_dtype dtype, int64_t most)
{
    static const double factors[] = { 1, 1, 2, -3 }, betas[] = { 0, 0, 1, -2 };
    static const tt_tensor some_bias;
    bool whole = !tt_dtype_is_floating(dtype) && !tt_dtype_is_complex(dtype);
    product p = { .dtype = dtype, .batch = twins_pick(0, 3) == 0 ? twins_pick(1, 5) : 0 };

    p.m = twins_pick(1, most);
    p.n = twins_pick(0, 4) == 0 ? 1 : twins_pick(1, most);
    p.k = twins_pick(1, most);
    p.g.alpha = factors[twins_pick(0, 3)];
    p.g.beta = betas[twins_pick(0, 3)];
    p.g.trans_a = twins_pick(0, 1);
    p.g.trans_b = twins_pick(0, 1);
    p.a_form = (int)twins_pick(0, N_FORMS - 1);
    p.b_form = (int)twins_pick(0, N_FORMS - 1);
    if (!whole && p.g.beta == 0.0 && twins_pick(0, 2) == 0)
        p.g.bias = &some_bias;
    return p;
}

static void all_by(const char *way, const tt_dtype *types, int n_types, int rounds, int64_t most)
{
    setenv("TUTTI_CL_GEMM", way, 1);
    tt_device d = twins_device();

    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < n_types; i++)
            TT_SCOPE {
                product p = random_product(types[i], most);

                compare(&p, d);
            }
    TT_CHECK_OK(tt_device_sync(d));
}

TT_TEST_LIMIT(accel_linalg, as_on_the_cpu_by_host, 120)
{
    all_by("host", all_types, sizeof all_types / sizeof all_types[0], 25, 100);
}

TT_TEST_LIMIT(accel_linalg, as_on_the_cpu_by_own_kernel, 120)
{
    all_by("own", all_types, sizeof all_types / sizeof all_types[0], 25, 100);
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_linalg, small_ones_by_own_kernel, 300)
{
    all_by("own", all_types, sizeof all_types / sizeof all_types[0], 2, 20);
}

TT_TEST_LIMIT(accel_linalg, own_kernel_in_groups, 120)
{
    setenv("TUTTI_CL_WG", "64", 1);
    all_by("own", all_types, sizeof all_types / sizeof all_types[0], 4, 70);
}

TT_TEST_LIMIT(accel_linalg, larger_ones, 120)
{
    setenv("TUTTI_CL_GEMM", "own", 1);
    tt_device d = twins_device();
    product p = { .dtype = TT_F32, .m = 129, .n = 257, .k = 511, .g = { .alpha = 1.0 } };

    compare(&p, d);
    p.g.trans_a = p.g.trans_b = true;
    compare(&p, d);
    p.batch = 3;
    p.dtype = TT_F64;
    compare(&p, d);
}

/* CLBlast compiles for seconds where nothing is cached, so there is one size. */
TT_TEST_LIMIT(accel_linalg, by_clblast, 300)
{
    setenv("TUTTI_CL_GEMM", "clblast", 1);
    tt_device d = twins_device();
    const tti_accel *accel = tti_driver_of(d)->accel;
    product p = { .dtype = TT_F32, .m = 33, .n = 17, .k = 65, .g = { .alpha = 2.0, .beta = -1.0 } };

    if (accel->gemm == NULL || !accel->has_gemm())
        TT_SKIP("no CLBlast");
    compare(&p, d);
    p.a_form = SPACED;
    p.b_form = SWAPPED;
    compare(&p, d);
}

/* ---- empty sizes ------------------------------------------------------------------------------------ */

static void check_empty(const char *way)
{
    setenv("TUTTI_CL_GEMM", way, 1);
    tt_device d = twins_device();
    tt_tensor *c = twins_move(tt_full(TT_SHAPE(2, 3), 7.0, TT_F32, TT_CPU), d);
    tt_tensor *a = tti_empty((const int64_t[]){ 2, 0 }, 2, TT_F32, d);
    tt_tensor *b = tti_empty((const int64_t[]){ 0, 3 }, 2, TT_F32, d);
    tt_tensor *none = tti_empty((const int64_t[]){ 0, 3 }, 2, TT_F32, d);
    tt_tensor *x = tti_empty((const int64_t[]){ 0, 2 }, 2, TT_F32, d);
    const tti_linalg_kernels *k = tti_kernels_of(c)->linalg;

    TT_CHECK_OK(k->gemm(c, a, b, &(tti_gemm){ .alpha = 1.0, .beta = 2.0 }));
    TT_CHECK_NEAR(twins_apart(tt_full(TT_SHAPE(2, 3), 14.0, TT_F32, TT_CPU), c), 0.0, 0.0);
    TT_CHECK_OK(k->gemm(c, a, b, &(tti_gemm){ .alpha = 1.0 }));
    TT_CHECK_NEAR(twins_apart(tt_full(TT_SHAPE(2, 3), 0.0, TT_F32, TT_CPU), c), 0.0, 0.0);
    TT_CHECK_OK(k->gemm(none, x, c, &(tti_gemm){ .alpha = 1.0 }));
}

TT_TEST(accel_linalg, empty_sums_by_host)
{
    check_empty("host");
}

TT_TEST(accel_linalg, empty_sums_by_own_kernel)
{
    check_empty("own");
}

TT_TEST(accel_linalg, empty_sums_by_clblast)
{
    check_empty("clblast");
}

/* ---- the same bits again --------------------------------------------------------------------------- */

static void check_repeats(const char *way)
{
    setenv("TUTTI_CL_GEMM", way, 1);
    tt_device d = twins_device();
    tt_tensor *a = twins_move(twins_noise(TT_SHAPE(150, 150), TT_F32), d);
    tt_tensor *c = tti_empty(a->dims, 2, TT_F32, d), *first;

    TT_REQUIRE_OK(tti_kernels_of(a)->linalg->gemm(c, a, a, &(tti_gemm){ .alpha = 1.0 }));
    first = twins_back(c);
    for (int i = 0; i < 5; i++) {
        TT_REQUIRE_OK(tti_kernels_of(a)->linalg->gemm(c, a, a, &(tti_gemm){ .alpha = 1.0 }));
        TT_CHECK_MEM(tti_data(twins_back(c)), tti_data(first), sizeof(float) * 150 * 150);
    }
}

TT_TEST(accel_linalg, host_repeats_bit_for_bit)
{
    check_repeats("host");
}

TT_TEST(accel_linalg, own_kernel_repeats_bit_for_bit)
{
    check_repeats("own");
}

/* ---- many threads of the host at once --------------------------------------------------------------- */

static void *multiply_often(void *ctx)
{
    tt_device d = *(const tt_device *)ctx;
    int64_t dims[] = { 40, 40 };

    for (int i = 0; i < 20; i++)
        TT_SCOPE {
            tt_tensor *one = tt_full(TT_SHAPE(40, 40), 1.0, TT_F32, TT_CPU);
            tt_tensor *a = twins_move(one, d), *c = tti_empty(dims, 2, TT_F32, d);

            TT_CHECK_OK(tti_kernels_of(a)->linalg->gemm(c, a, a, &(tti_gemm){ .alpha = 1.0 }));
            TT_CHECK_NEAR(twins_apart(tt_full(TT_SHAPE(40, 40), 40.0, TT_F32, TT_CPU), c), 0.0,
                          0.0);
        }
    return NULL;
}

TT_TEST(accel_linalg, several_threads_and_devices)
{
    tt_device d[3];
    pthread_t t[3];
    int n = 0;

    (void)twins_device();
    for (int i = 0; i < 3; i++) {
        d[i] = tt_cl(i % tt_device_count(TT_DEVICE_CL));
        if (!TT_CHECK_EQ(pthread_create(&t[i], NULL, multiply_often, &d[i]), 0))
            break;
        n++;
    }
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
}
