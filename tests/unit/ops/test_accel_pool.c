/* SPDX-License-Identifier: Apache-2.0 */
/* Pools and their gradients on an accelerator against those of the CPU, bit for bit: they sum in the same order. */
#include "unit/ops/twins.h"

static int64_t windows(int64_t size, const tti_pool *p, int i)
{
    return (size + 2 * p->pad[i] - p->dilation[i] * (p->kernel[i] - 1) - 1) / p->stride[i] + 1;
}

static tti_pool random_pool(bool average)
{
    tti_pool p;

    do {
        p = (tti_pool){ .n = twins_pick(1, 3),
                        .c = twins_pick(1, 5),
                        .h = twins_pick(1, 15),
                        .w = twins_pick(1, 40),
                        .divisor = twins_pick(0, 3) == 0 ? twins_pick(1, 9) : 0,
                        .exclude_pad = twins_pick(0, 1) };
        for (int i = 0; i < 2; i++) {
            p.kernel[i] = twins_pick(1, 4);
            p.stride[i] = twins_pick(1, 4);
            p.pad[i] = twins_pick(0, p.kernel[i] / 2);
            p.dilation[i] = average ? 1 : twins_pick(1, 3);
        }
    } while (p.h + 2 * p.pad[0] <= p.dilation[0] * (p.kernel[0] - 1) ||
             p.w + 2 * p.pad[1] <= p.dilation[1] * (p.kernel[1] - 1));
    p.oh = windows(p.h, &p, 0);
    p.ow = windows(p.w, &p, 1);
    return p;
}

static void say(const tti_pool *p, const char *what)
{
    tt_test_note(
        "%s: planes %lld of %lldx%lld to %lldx%lld kernel %lld %lld stride %lld %lld pad %lld "
        "%lld dilation %lld %lld divisor %lld exclude %d",
        what, (long long)(p->n * p->c), (long long)p->h, (long long)p->w, (long long)p->oh,
        (long long)p->ow, (long long)p->kernel[0], (long long)p->kernel[1], (long long)p->stride[0],
        (long long)p->stride[1], (long long)p->pad[0], (long long)p->pad[1],
        (long long)p->dilation[0], (long long)p->dilation[1], (long long)p->divisor,
        p->exclude_pad);
}

static void check(const tti_pool *p, const char *what, const tt_tensor *cpu, const tt_tensor *dev)
{
    tt_tensor *back = twins_back(dev);

    if (!TT_CHECK_MEM(tti_data(back), tti_data(cpu), (size_t)cpu->numel * tti_esize(cpu)))
        say(p, what);
}

/* What every case needs: an input with some NaN and ties, results as noise on both sides. */
typedef struct set {
    tt_tensor *x, *y, *at, *dx, *dy;
} set;

static set random_set(const tti_pool *p, tt_dtype dtype)
{
    tt_shape in = TT_SHAPE(p->n, p->c, p->h, p->w), out = TT_SHAPE(p->n, p->c, p->oh, p->ow);
    set s = { .x = twins_noise(in, dtype),
              .y = twins_noise(out, dtype),
              .at = twins_noise(out, TT_I64),
              .dx = twins_noise(in, dtype),
              .dy = twins_noise(out, dtype) };

    for (int i = 0; i < 4; i++) {
        int64_t at = twins_pick(0, s.x->numel - 1), from = twins_pick(0, s.x->numel - 1);
        size_t e = tti_esize(s.x);

        memcpy((char *)tti_data(s.x) + (size_t)at * e, (char *)tti_data(s.x) + (size_t)from * e, e);
        if (i == 0 && dtype == TT_F32 && twins_pick(0, 2) == 0)
            ((float *)tti_data(s.x))[at] = NAN;
    }
    return s;
}

static set move(const set *s, tt_device d)
{
    return (set){ twins_move(s->x, d), twins_move(s->y, d), twins_move(s->at, d),
                  twins_move(s->dx, d), twins_move(s->dy, d) };
}

/* The gradient takes planes. */
static tt_tensor *planes(const tt_tensor *t, const tti_pool *p)
{
    int64_t dims[2] = { p->n * p->c, t->dims[2] * t->dims[3] }, strides[2] = { dims[1], 1 };

    return tti_view_raw(t, dims, strides, 2, 0);
}

static tt_status max_grad(const set *s, const tti_pool *p)
{
    return tti_kernels_of(s->dx)->nn->max_pool_grad(planes(s->dx, p), planes(s->dy, p),
                                                    planes(s->at, p));
}

static void compare_max(const tti_pool *p, tt_dtype dtype, tt_device d, bool adaptive)
{
    set cpu = random_set(p, dtype), dev = move(&cpu, d);
    const tti_nn_kernels *c = tti_kernels_of(cpu.x)->nn, *a = tti_kernels_of(dev.x)->nn;

    TT_REQUIRE_OK((adaptive ? c->adaptive_pool : c->max_pool)(cpu.y, cpu.at, cpu.x, p));
    TT_REQUIRE_OK((adaptive ? a->adaptive_pool : a->max_pool)(dev.y, dev.at, dev.x, p));
    check(p, "max", cpu.y, dev.y);
    check(p, "indices", cpu.at, dev.at);
    TT_REQUIRE_OK(max_grad(&cpu, p));
    TT_REQUIRE_OK(max_grad(&dev, p));
    check(p, "max grad", cpu.dx, dev.dx);
    if (adaptive)
        return;
    dev.y = twins_move(twins_noise(tt_tensor_shape(cpu.y), dtype), d);
    TT_REQUIRE_OK(a->max_pool(dev.y, NULL, dev.x, p));
    check(p, "max without indices", cpu.y, dev.y);
}

static void compare_avg(const tti_pool *p, tt_dtype dtype, tt_device d, bool adaptive)
{
    set cpu = random_set(p, dtype), dev = move(&cpu, d);
    const tti_nn_kernels *c = tti_kernels_of(cpu.x)->nn, *a = tti_kernels_of(dev.x)->nn;

    if (adaptive) {
        TT_REQUIRE_OK(c->adaptive_pool(cpu.y, NULL, cpu.x, p));
        TT_REQUIRE_OK(a->adaptive_pool(dev.y, NULL, dev.x, p));
        TT_REQUIRE_OK(c->adaptive_avg_pool_grad(cpu.dx, cpu.dy, p));
        TT_REQUIRE_OK(a->adaptive_avg_pool_grad(dev.dx, dev.dy, p));
    } else {
        TT_REQUIRE_OK(c->avg_pool(cpu.y, cpu.x, p));
        TT_REQUIRE_OK(a->avg_pool(dev.y, dev.x, p));
        TT_REQUIRE_OK(c->avg_pool_grad(cpu.dx, cpu.dy, p));
        TT_REQUIRE_OK(a->avg_pool_grad(dev.dx, dev.dy, p));
    }
    check(p, "average", cpu.y, dev.y);
    check(p, "average grad", cpu.dx, dev.dx);
}

static void all(int rounds)
{
    static const tt_dtype types[] = { TT_F32, TT_F64 };
    tt_device d = twins_device();

    for (int t = 0; t < 2; t++)
        for (int i = 0; i < rounds; i++)
            TT_SCOPE {
                tti_pool p = random_pool(false);

                compare_max(&p, types[t], d, false);
                p = random_pool(true);
                compare_avg(&p, types[t], d, false);
                p.oh = twins_pick(1, p.h + 2);
                p.ow = twins_pick(1, p.w + 2);
                compare_max(&p, types[t], d, true);
                compare_avg(&p, types[t], d, true);
            }
    TT_CHECK_OK(tt_device_sync(d));
}

TT_TEST_LIMIT(accel_pool, as_on_the_cpu, 120)
{
    all(60);
}

/* Quick enough for a simulator that checks every access. */
TT_TEST_LIMIT(accel_pool, some, 300)
{
    all(4);
}

TT_TEST_LIMIT(accel_pool, in_groups, 120)
{
    setenv("TUTTI_CL_WG", "64", 1);
    all(5);
}

TT_TEST(accel_pool, no_planes)
{
    tti_pool p = random_pool(false);
    tt_device d = twins_device();
    tt_tensor *x, *y;

    p.n = 0;
    x = tti_empty((const int64_t[]){ 0, p.c, p.h, p.w }, 4, TT_F32, d);
    y = tti_empty((const int64_t[]){ 0, p.c, p.oh, p.ow }, 4, TT_F32, d);
    TT_CHECK_OK(tti_kernels_of(x)->nn->max_pool(y, NULL, x, &p));
    TT_CHECK_OK(tti_kernels_of(x)->nn->avg_pool(y, x, &p));
    TT_CHECK_OK(tti_kernels_of(x)->nn->avg_pool_grad(x, y, &p));
}
