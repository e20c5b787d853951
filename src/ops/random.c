/* SPDX-License-Identifier: Apache-2.0 */
/* Filling tensors with random numbers, and making such tensors. */
#include "ops/generator.h"
#include "ops/elementwise.h"

#include <math.h>

static tt_status zero_backward(tti_node *n, tt_tensor *const *g, tt_tensor **out)
{
    (void)n;
    return tti_give(&out[0], tt_zeros_like(g[0]));
}

static const tti_op op_uniform = { "uniform_", zero_backward, 0 };
static const tti_op op_normal = { "normal_", zero_backward, 0 };
static const tti_op op_bernoulli = { "bernoulli_", zero_backward, 0 };
static const tti_op op_randint = { "randint_", zero_backward, 0 };

/* In row-major order, whatever the order in memory. */
static tt_status draw_into(tt_tensor *x, tti_random_draw *d, tt_generator *gen)
{
    uint64_t blocks = tti_random_blocks(d->kind, (tt_dtype)x->dtype, x->numel);
    tt_generator_state s = tti_generator_take(gen, x->device, blocks);
    tt_tensor *dense = x;

    d->seed = s.seed;
    d->offset = s.offset;
    if (!tti_is_contiguous(x)) {
        dense = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
        TT_TRY(tti_made(dense));
    }
    TT_TRY(TTI_RUN("random", x, random, fill, dense, d));
    return dense != x ? tti_copy(x, dense) : TT_OK;
}

static tt_tensor *fill_random(const tti_op *op, tt_tensor *x, tti_random_draw d, tt_generator *gen)
{
    tti_call c = { .op = op, .n_in = 1, .in = &x };

    if (!tti_call_begin_inplace(&c) || tti_check_writable(op->name, x) != TT_OK)
        return NULL;
    if ((d.kind == TTI_RANDOM_UNIFORM || d.kind == TTI_RANDOM_NORMAL) &&
        tti_check_floating(op->name, x, true) != TT_OK)
        return NULL;
    return tti_call_end_inplace(&c, draw_into(x, &d, gen));
}

tt_tensor *tt_uniform_(tt_tensor *x, double lo, double hi, tt_generator *gen)
{
    if (!(lo <= hi) || isinf(hi - lo))
        return TT_FAIL_NULL(TT_ERR_INVALID, "uniform_: expected lo <= hi, got %g and %g", lo, hi);
    return fill_random(&op_uniform, x,
                       (tti_random_draw){ .kind = TTI_RANDOM_UNIFORM, .a = lo, .b = hi }, gen);
}

tt_tensor *tt_normal_(tt_tensor *x, double mean, double std, tt_generator *gen)
{
    if (!(std >= 0))
        return TT_FAIL_NULL(TT_ERR_INVALID, "normal_: expected a std of 0 or more, got %g", std);
    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        std *= M_SQRT1_2; /* each part has half of the variance */
    return fill_random(&op_normal, x,
                       (tti_random_draw){ .kind = TTI_RANDOM_NORMAL, .a = mean, .b = std }, gen);
}

tt_tensor *tt_bernoulli_(tt_tensor *x, double p, tt_generator *gen)
{
    if (!(p >= 0 && p <= 1))
        return TT_FAIL_NULL(TT_ERR_INVALID, "bernoulli_: expected a probability, got %g", p);
    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "bernoulli_: not for complex tensors");
    return fill_random(&op_bernoulli, x, (tti_random_draw){ .kind = TTI_RANDOM_BERNOULLI, .a = p },
                       gen);
}

tt_tensor *tt_randint_(tt_tensor *x, int64_t lo, int64_t hi, tt_generator *gen)
{
    if (lo >= hi)
        return TT_FAIL_NULL(TT_ERR_INVALID, "randint_: expected lo < hi, got %lld and %lld",
                            (long long)lo, (long long)hi);
    if (x != NULL && tt_dtype_is_complex((tt_dtype)x->dtype))
        return TT_FAIL_NULL(TT_ERR_UNSUPPORTED, "randint_: not for complex tensors");
    return fill_random(&op_randint, x,
                       (tti_random_draw){ .kind = TTI_RANDOM_INT, .lo = lo, .hi = hi }, gen);
}

tt_tensor *tt_rand(tt_shape shape, tt_dtype dtype, tt_device device)
{
    return tt_uniform_(tt_empty(shape, dtype, device), 0.0, 1.0, NULL);
}

tt_tensor *tt_randn(tt_shape shape, tt_dtype dtype, tt_device device)
{
    return tt_normal_(tt_empty(shape, dtype, device), 0.0, 1.0, NULL);
}

tt_tensor *tt_randint(int64_t lo, int64_t hi, tt_shape shape, tt_device device)
{
    return tt_randint_(tt_empty(shape, TT_I64, device), lo, hi, NULL);
}
