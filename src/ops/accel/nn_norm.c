/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm on accelerators. */
#include "ops/accel/nn.h"

extern const char tti_source_nn_norm[];

static const tti_program program = { "nn_norm", { tti_source_nn_math, tti_source_nn_norm } };

static tti_nn_kernel layer_norm = { &program, "layer_norm", { { { NULL } } } };
static tti_nn_kernel layer_norm_dx = { &program, "layer_norm_dx", { { { NULL } } } };
static tti_nn_kernel layer_norm_weights = { &program, "layer_norm_weights", { { { NULL } } } };
static tti_nn_kernel layer_norm_total = { &program, "layer_norm_total", { { { NULL } } } };

tt_status tti_accel_layer_norm(tt_tensor *y, tt_tensor *mean, tt_tensor *rstd, const tt_tensor *x,
                               const tt_tensor *w, const tt_tensor *b, double eps)
{
    uint64_t rows = (uint64_t)x->dims[0], n = (uint64_t)x->dims[1];
    tti_nn_real e = tti_nn_real_of(x, eps);
    const tti_arg args[] = { tti_nn_mem(y),     tti_nn_mem(mean), tti_nn_mem(rstd),
                             tti_nn_mem(x),     tti_nn_mem(w),    tti_nn_mem(b),
                             TTI_NN_REAL(e, x), TTI_VAL(rows),    TTI_VAL(n) };

    TT_TRY(tti_accel_check_type("layer_norm", x));
    if (rows == 0)
        return TT_OK;
    return tti_nn_run(&layer_norm, x->device, (tt_dtype)x->dtype, tti_grid_rows(x->device, rows, n),
                      args, TTI_NN_COUNT(args));
}

static tt_status weight_grads(tt_tensor *dw, tt_tensor *db, const tt_tensor *dy, const tt_tensor *x,
                              const tt_tensor *mean_rstd[2])
{
    tt_device d = x->device;
    uint64_t rows = (uint64_t)x->dims[0], n = (uint64_t)x->dims[1], tile = (uint64_t)tti_nn_tile(d);
    uint64_t chunk = rows / 32 < 16 ? 16 : rows / 32 > 256 ? 256 : rows / 32;
    uint64_t chunks = (rows + chunk - 1) / chunk;
    size_t bytes = (size_t)(chunks * 2 * n) * (x->dtype == TT_F64 ? 8 : 4);
    void *sums = tti_accel_scratch(d, bytes);
    const tti_arg parts[] = { TTI_MEM(sums),
                              tti_nn_mem(dy),
                              tti_nn_mem(x),
                              tti_nn_mem(mean_rstd[0]),
                              tti_nn_mem(mean_rstd[1]),
                              TTI_VAL(rows),
                              TTI_VAL(n),
                              TTI_VAL(chunk) };
    const tti_arg whole[] = { tti_nn_mem(dw), tti_nn_mem(db), TTI_MEM(sums), TTI_VAL(chunks),
                              TTI_VAL(n) };
    tt_status st = TT_OK;

    if (sums == NULL)
        return tt_last_status();
    if (chunks > 0)
        st = tti_nn_run(&layer_norm_weights, d, (tt_dtype)x->dtype,
                        tti_grid_rows(d, (n + tile - 1) / tile * chunks, tile * chunk), parts,
                        TTI_NN_COUNT(parts));
    if (st == TT_OK)
        st = tti_nn_run(&layer_norm_total, d, (tt_dtype)x->dtype, tti_grid_elements(d, n), whole,
                        TTI_NN_COUNT(whole));
    tti_accel_scratch_free(d, sums, bytes);
    return st;
}

tt_status tti_accel_layer_norm_grad(tt_tensor *dx, tt_tensor *dw, tt_tensor *db,
                                    const tt_tensor *dy, const tt_tensor *x, const tt_tensor *w,
                                    const tt_tensor *mean_rstd[2])
{
    uint64_t rows = (uint64_t)x->dims[0], n = (uint64_t)x->dims[1];
    const tti_arg args[] = {
        tti_nn_mem(dx),           tti_nn_mem(dy),           tti_nn_mem(x), tti_nn_mem(w),
        tti_nn_mem(mean_rstd[0]), tti_nn_mem(mean_rstd[1]), TTI_VAL(rows), TTI_VAL(n)
    };

    TT_TRY(tti_accel_check_type("layer_norm", x));
    if (dx != NULL && x->numel > 0)
        TT_TRY(tti_nn_run(&layer_norm_dx, x->device, (tt_dtype)x->dtype,
                          tti_grid_rows(x->device, rows, n), args, TTI_NN_COUNT(args)));
    if ((dw != NULL || db != NULL) && n > 0)
        return weight_grads(dw, db, dy, x, mean_rstd);
    return TT_OK;
}
