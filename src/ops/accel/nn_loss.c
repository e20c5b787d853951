/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of pairs, and dropout, on accelerators. */
#include "ops/accel/nn.h"

extern const char tti_source_nn_loss[];
extern const char tti_source_nn_dropout[];

static const tti_program losses = { "nn_loss", { tti_source_nn_math, tti_source_nn_loss } };
static const tti_program drops = { "nn_dropout", { tti_source_nn_dropout } };

static tti_nn_kernel pair_loss = { &losses, "pair_loss", { { { NULL } } } };
static tti_nn_kernel pair_loss_total = { &losses, "pair_loss_total", { { { NULL } } } };
static tti_nn_kernel pair_loss_grad = { &losses, "pair_loss_grad", { { { NULL } } } };
static tti_nn_kernel dropout = { &drops, "dropout", { { { NULL } } } };

enum { PIECE = 4096 }; /* of nn_math.cl */

tt_status tti_accel_pair_loss(tti_pair_loss kind, tt_tensor *out, const tt_tensor *a,
                              const tt_tensor *b, const double p[2])
{
    uint64_t n = (uint64_t)a->numel, pieces = (n + PIECE - 1) / PIECE;
    size_t bytes = (size_t)pieces * (a->dtype == TT_F64 ? 8 : 4);
    tti_nn_real factor = tti_nn_real_of(a, p[0]), beta = tti_nn_real_of(a, p[1]);
    uint32_t which = (uint32_t)kind;
    void *sums;
    tt_status st;

    TT_TRY(tti_accel_check_type("loss", a));
    sums = tti_accel_scratch(a->device, bytes);
    if (sums == NULL)
        return tt_last_status();
    const tti_arg parts[] = { TTI_MEM(sums),  tti_nn_mem(a),        tti_nn_mem(b),
                              TTI_VAL(which), TTI_NN_REAL(beta, a), TTI_VAL(n) };
    const tti_arg whole[] = { tti_nn_mem(out), TTI_MEM(sums), TTI_NN_REAL(factor, a),
                              TTI_VAL(pieces) };

    st = n == 0 ? TT_OK
                : tti_nn_run(&pair_loss, a->device, (tt_dtype)a->dtype,
                             tti_grid_rows(a->device, pieces, PIECE), parts, TTI_NN_COUNT(parts));
    if (st == TT_OK)
        st = tti_nn_run(&pair_loss_total, a->device, (tt_dtype)a->dtype, (tti_grid){ 1 }, whole,
                        TTI_NN_COUNT(whole));
    tti_accel_scratch_free(a->device, sums, bytes);
    return st;
}

tt_status tti_accel_pair_loss_grad(tti_pair_loss kind, tt_tensor *da, const tt_tensor *grad,
                                   const tt_tensor *a, const tt_tensor *b, const double p[2])
{
    uint64_t n = (uint64_t)a->numel;
    tti_nn_real factor = tti_nn_real_of(a, p[0]), beta = tti_nn_real_of(a, p[1]);
    uint32_t which = (uint32_t)kind;
    const tti_arg args[] = { tti_nn_mem(da),       tti_nn_mem(grad), tti_nn_mem(a),
                             tti_nn_mem(b),        TTI_VAL(which),   TTI_NN_REAL(factor, a),
                             TTI_NN_REAL(beta, a), TTI_VAL(n) };

    TT_TRY(tti_accel_check_type("loss", a));
    if (n == 0)
        return TT_OK;
    return tti_nn_run(&pair_loss_grad, a->device, (tt_dtype)a->dtype,
                      tti_grid_elements(a->device, n), args, TTI_NN_COUNT(args));
}

tt_status tti_accel_dropout(tt_tensor *y, const tt_tensor *x, double p, uint64_t seed,
                            uint64_t offset)
{
    uint64_t n = (uint64_t)x->numel;
    tti_nn_real scale = tti_nn_real_of(x, 1.0 / (1.0 - p));
    double edge = p * 0x1p32;
    uint32_t below = edge >= 0x1p32 - 1 ? UINT32_MAX : (uint32_t)edge;
    int64_t unit = tti_group_size(x->device) == 1 ? 64 : 4; /* elements of 4 * BLOCKS words */
    const tti_arg args[] = { tti_nn_mem(y),  tti_nn_mem(x), TTI_NN_REAL(scale, x),
                             TTI_VAL(below), TTI_VAL(seed), TTI_VAL(offset),
                             TTI_VAL(n) };

    TT_TRY(tti_accel_check_type("dropout", x));
    if (n == 0)
        return TT_OK;
    return tti_nn_run(&dropout, x->device, (tt_dtype)x->dtype,
                      tti_nn_grid(x->device, (x->numel + unit - 1) / unit, unit), args,
                      TTI_NN_COUNT(args));
}
