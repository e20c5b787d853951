/* SPDX-License-Identifier: Apache-2.0 */
/* Random fills: what a draw needs to know is computed here as the CPU's loops compute it, then one launch. */
#include <math.h>
#include <string.h>

#include "ops/accel/walk.h"
#include "ops/cpu/random.h"

extern const char tti_source_random[];
static const tti_program program = { "random", { tti_source_random } };

/* As in random.cl. */
typedef struct draw_args {
    uint64_t n, seed, offset;
    uint64_t a, b, top, cap, below;
    int64_t lo;
    uint64_t range;
    int32_t kind, dtype;
} draw_args;

static uint64_t float_bits(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

static uint64_t double_bits(double v)
{
    uint64_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

/* How many of the 2^bits draws are 1. */
static uint64_t below(double probability, int bits)
{
    double n = ceil(ldexp(probability, bits));

    return n > 0 ? (uint64_t)fmin(n, ldexp(1, bits)) : 0;
}

static void set_f32(draw_args *w, const tti_random_draw *d, tt_dtype to)
{
    bool uniform = d->kind == TTI_RANDOM_UNIFORM;
    bool rounded = uniform && (to == TT_F16 || to == TT_BF16) && d->a < d->b;
    float a = (float)d->a, b = (float)d->b;

    w->a = float_bits(a);
    w->b = float_bits(uniform ? b - a : b);
    w->top = float_bits(nextafterf(b, -INFINITY));
    w->cap = float_bits(rounded ? tti_half_below(to, b) : INFINITY);
    w->below = below(d->a, 32);
}

static void set_f64(draw_args *w, const tti_random_draw *d)
{
    w->a = double_bits(d->a);
    w->b = double_bits(d->kind == TTI_RANDOM_UNIFORM ? d->b - d->a : d->b);
    w->top = double_bits(nextafter(d->b, -INFINITY));
    w->cap = double_bits(INFINITY);
    w->below = below(d->a, 53);
}

static tt_status fill(tt_tensor *x, const tti_random_draw *draw)
{
    static tti_kernel_slot slots[TTI_N_COMPUTE];
    static const char *const options[] = { "-DIS_F32", "-DIS_F64", "-DIS_I64" };
    tt_dtype to = (tt_dtype)x->dtype;
    tti_compute c = tti_compute_of(tti_drawn_type(draw->kind, to));
    draw_args w = { .n = (uint64_t)x->numel, .seed = draw->seed, .offset = draw->offset };
    tti_kernel *k;

    if (x->numel == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type("random", x));
    if (tt_dtype_is_complex(to)) { /* real and imaginary parts, one after the other */
        to = to == TT_C64 ? TT_F32 : TT_F64;
        w.n *= 2;
    }
    w.kind = draw->kind;
    w.dtype = to;
    w.lo = draw->lo;
    w.range = (uint64_t)draw->hi - (uint64_t)draw->lo;
    if (c == TTI_IN_F32)
        set_f32(&w, draw, to);
    else if (c == TTI_IN_F64)
        set_f64(&w, draw);
    k = tti_kernel_get(&slots[c], x->device, &program, options[c], "draw");
    if (k == NULL)
        return tt_last_status();
    return tti_launch(x->device, k, tti_accel_walk_grid(x->device, w.n, 4096),
                      (tti_arg[]){ TTI_MEM(tti_data(x)), TTI_VAL(w) }, 2);
}

const tti_random_kernels tti_accel_random = { .fill = fill };
