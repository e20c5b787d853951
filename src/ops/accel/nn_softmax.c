/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy on accelerators. */
#include "ops/accel/nn.h"

extern const char tti_source_nn_softmax[];

static const tti_program program = { "nn_softmax", { tti_source_nn_math, tti_source_nn_softmax } };

static tti_nn_kernel softmax_rows = { &program, "softmax_rows", { { { NULL } } } };
static tti_nn_kernel softmax_columns = { &program, "softmax_columns", { { { NULL } } } };
static tti_nn_kernel softmax_grad_rows = { &program, "softmax_grad_rows", { { { NULL } } } };
static tti_nn_kernel softmax_grad_columns = { &program, "softmax_grad_columns", { { { NULL } } } };
static tti_nn_kernel cross_entropy = { &program, "cross_entropy", { { { NULL } } } };
static tti_nn_kernel cross_entropy_grad = { &program, "cross_entropy_grad", { { { NULL } } } };
static tti_nn_kernel classes = { &program, "classes", { { { NULL } } } };

/* Units of columns for FOR_EACH: tiles on CPUs, single columns elsewhere. */
static tti_grid column_grid(const tt_tensor *x, int64_t n, int64_t inner)
{
    int64_t cols = tti_group_size(x->device) == 1 ? tti_nn_tile(x->device) : 1;
    int64_t outer = x->numel / (n * inner);

    return tti_nn_grid(x->device, outer * ((inner + cols - 1) / cols), n * cols);
}

tt_status tti_accel_softmax(tt_tensor *y, const tt_tensor *x, int64_t n, int64_t inner, bool log)
{
    uint64_t un = (uint64_t)n, uinner = (uint64_t)inner, outer;
    uint32_t is_log = log;

    TT_TRY(tti_accel_check_type("softmax", x));
    if (x->numel == 0)
        return TT_OK;
    outer = (uint64_t)x->numel / (un * uinner);
    if (inner == 1) {
        const tti_arg args[] = { tti_nn_mem(y), tti_nn_mem(x), TTI_VAL(outer), TTI_VAL(un),
                                 TTI_VAL(is_log) };

        return tti_nn_run(&softmax_rows, x->device, (tt_dtype)x->dtype,
                          tti_grid_rows(x->device, outer, un), args, TTI_NN_COUNT(args));
    }
    const tti_arg args[] = { tti_nn_mem(y), tti_nn_mem(x),   TTI_VAL(outer),
                             TTI_VAL(un),   TTI_VAL(uinner), TTI_VAL(is_log) };

    return tti_nn_run(&softmax_columns, x->device, (tt_dtype)x->dtype, column_grid(x, n, inner),
                      args, TTI_NN_COUNT(args));
}

tt_status tti_accel_softmax_grad(tt_tensor *dx, const tt_tensor *dy, const tt_tensor *y, int64_t n,
                                 int64_t inner, bool log)
{
    uint64_t un = (uint64_t)n, uinner = (uint64_t)inner, outer;
    uint32_t is_log = log;

    TT_TRY(tti_accel_check_type("softmax", dy));
    if (dy->numel == 0)
        return TT_OK;
    outer = (uint64_t)dy->numel / (un * uinner);
    if (inner == 1) {
        const tti_arg args[] = { tti_nn_mem(dx), tti_nn_mem(dy), tti_nn_mem(y),
                                 TTI_VAL(outer), TTI_VAL(un),    TTI_VAL(is_log) };

        return tti_nn_run(&softmax_grad_rows, dy->device, (tt_dtype)dy->dtype,
                          tti_grid_rows(dy->device, outer, un), args, TTI_NN_COUNT(args));
    }
    const tti_arg args[] = { tti_nn_mem(dx), tti_nn_mem(dy),  tti_nn_mem(y),  TTI_VAL(outer),
                             TTI_VAL(un),    TTI_VAL(uinner), TTI_VAL(is_log) };

    return tti_nn_run(&softmax_grad_columns, dy->device, (tt_dtype)dy->dtype,
                      column_grid(dy, n, inner), args, TTI_NN_COUNT(args));
}

/* ---- cross-entropy ----------------------------------------------------------------------- */

tt_status tti_accel_cross_entropy(tt_tensor *losses, tt_tensor *lse, const tt_tensor *x,
                                  const tt_tensor *target, const tt_tensor *weight)
{
    uint64_t rows = (uint64_t)x->dims[0], n = (uint64_t)x->dims[1];
    uint32_t op = TTI_TROUBLE_CROSS_ENTROPY;
    const tti_arg args[] = { tti_nn_mem(losses), tti_nn_mem(lse),    tti_nn_mem(x),
                             tti_nn_mem(target), tti_nn_mem(weight), TTI_VAL(rows),
                             TTI_VAL(n),         TTI_VAL(op),        tti_trouble_arg(x->device) };

    TT_TRY(tti_accel_check_type("cross_entropy", x));
    if (rows == 0)
        return TT_OK;
    return tti_nn_run(&cross_entropy, x->device, (tt_dtype)x->dtype,
                      tti_grid_rows(x->device, rows, n), args, TTI_NN_COUNT(args));
}

tt_status tti_accel_cross_entropy_grad(tt_tensor *dx, const tt_tensor *x, const tt_tensor *lse,
                                       const tt_tensor *target, const tt_tensor *weight,
                                       const tt_tensor *scale, double factor)
{
    uint64_t rows = (uint64_t)x->dims[0], n = (uint64_t)x->dims[1];
    uint64_t step = scale->n_dims == 0 ? 0 : (uint64_t)scale->strides[0];
    tti_nn_real f = tti_nn_real_of(x, factor);
    const tti_arg args[] = { tti_nn_mem(dx),     tti_nn_mem(x),      tti_nn_mem(lse),
                             tti_nn_mem(target), tti_nn_mem(weight), tti_nn_mem(scale),
                             TTI_VAL(step),      TTI_NN_REAL(f, x),  TTI_VAL(rows),
                             TTI_VAL(n) };

    TT_TRY(tti_accel_check_type("cross_entropy", x));
    if (x->numel == 0)
        return TT_OK;
    return tti_nn_run(&cross_entropy_grad, x->device, (tt_dtype)x->dtype,
                      tti_grid_rows(x->device, rows, n), args, TTI_NN_COUNT(args));
}

tt_status tti_accel_classes(tt_tensor *marked, tt_tensor *weights, const tt_tensor *target,
                            const tt_tensor *weight, const tti_class_range *range)
{
    uint64_t rows = (uint64_t)target->numel, n = (uint64_t)range->n_classes;
    uint32_t op = range->nll ? TTI_TROUBLE_NLL_LOSS : TTI_TROUBLE_CROSS_ENTROPY;
    const tti_arg args[] = {
        tti_nn_mem(marked),     tti_nn_mem(weights), tti_nn_mem(target),
        tti_nn_mem(weight),     TTI_VAL(rows),       TTI_VAL(n),
        TTI_VAL(range->ignore), TTI_VAL(op),         tti_trouble_arg(target->device)
    };

    TT_TRY(tti_accel_check_type("cross_entropy", weights));
    if (rows == 0)
        return TT_OK;
    return tti_nn_run(&classes, target->device, (tt_dtype)weights->dtype,
                      tti_grid_elements(target->device, rows), args, TTI_NN_COUNT(args));
}
