/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout. Nothing is kept but the place in the random stream: backward draws the same numbers
 * again, and so does the gradient of the gradient. */
#include "base/error.h"
#include "ops/dropout.h"
#include "tensor/debug.h"

tt_status tti_take_blocks(tt_generator *gen, tt_device device, uint64_t blocks,
                          tti_dropout_attrs *a)
{
    tt_generator_state s;

    if (gen == NULL)
        gen = tt_default_generator(device);
    if (gen == NULL)
        return tt_last_status();
    s = tt_generator_get(gen);
    a->seed = s.seed;
    a->offset = s.offset;
    s.offset += blocks;
    tt_generator_set(gen, s);
    return TT_OK;
}

static tt_status dropout_backward(tti_node *n, tt_tensor *const *grad_out, tt_tensor **grad_in)
{
    return tti_give(&grad_in[0], tti_dropout_with(grad_out[0], tti_attrs(n)));
}

static const tti_op op_dropout = { "dropout", dropout_backward, 0 };

static tt_status draw(tt_tensor *y, tt_tensor *x, const tti_dropout_attrs *a)
{
    TT_TRY(tti_made(y));
    TT_TRY(tti_made(x));
    if (a->p == 1.0)
        return tti_fill(y, 0.0);
    return TTI_RUN("dropout", x, nn, dropout, y, x, a->p, a->seed, a->offset);
}

tt_tensor *tti_dropout_with(tt_tensor *x, const tti_dropout_attrs *a)
{
    tti_call c = { .op = &op_dropout, .n_in = 1, .in = &x, .attrs = a, .attrs_bytes = sizeof *a };
    tt_tensor *y;

    if (!tti_call_begin(&c))
        return NULL;
    y = tti_empty(x->dims, x->n_dims, (tt_dtype)x->dtype, x->device);
    return tti_call_end(&c, y, draw(y, tti_contiguous(x), a));
}

/* Both parts of a number are kept or dropped together: the factors are those of a real tensor of its shape. */
static tt_tensor *complex_dropout(tt_tensor *x, const tti_dropout_attrs *a)
{
    tt_dtype real = x->dtype == TT_C128 ? TT_F64 : TT_F32;

    return tt_mul(x, tti_dropout_with(tt_ones(tt_tensor_shape(x), real, x->device), a));
}

tt_tensor *tt_dropout(tt_tensor *x, double p, bool training, tt_generator *gen)
{
    tti_dropout_attrs a = { .p = p };

    if (tti_check_alive(x, "dropout") != TT_OK)
        return NULL;
    if (x == NULL)
        return TT_NULL_GIVEN("dropout", "a tensor");
    if (!(p >= 0.0 && p <= 1.0))
        return TT_FAIL_NULL(TT_ERR_INVALID, "dropout: expected a probability from 0 to 1, got %g",
                            p);
    if (!training || p == 0.0)
        return x;
    if (tti_check_floating("dropout", x, true) != TT_OK ||
        tti_take_blocks(gen, x->device, ((uint64_t)x->numel + 3) / 4, &a) != TT_OK)
        return NULL;
    return tt_dtype_is_complex((tt_dtype)x->dtype) ? complex_dropout(x, &a)
                                                   : tti_dropout_with(x, &a);
}
