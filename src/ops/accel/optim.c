/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer steps: what a step needs to know is computed here in double, as on the CPU, then one launch per parameter. */
#include "ops/accel/optim.h"

#include <math.h>

#include "ops/accel/walk.h"

extern const char tti_source_optim[];
static const tti_program program = { "optim", { tti_source_optim } };

#define ROW 4096 /* elements of a stretch of a dense parameter */

/* As in optim.cl. */
enum { SGD, ADAM, ADAGRAD, RMSPROP, SCALE, CLAMP, UNSCALE };
enum {
    DECAY = 1,
    HAS_1 = 2,
    HAS_2 = 4,
    HAS_3 = 8,
    FIRST = 16,
    NESTEROV = 32,
    NEAR_OLD = 64,
    IN_ORDER = 128
};

typedef struct step_args {
    uint64_t n, rows, width;
    int32_t rule, flags;
    int64_t sparse_dims;
    int64_t dims[TT_MAX_DIMS];
    uint64_t c[10];
} step_args;

tt_dtype tti_accel_real_type(const tt_tensor *t, uint64_t *n_p)
{
    bool complex_type = tt_dtype_is_complex((tt_dtype)t->dtype);

    *n_p = (uint64_t)t->numel * (complex_type ? 2 : 1);
    if (complex_type)
        return t->dtype == TT_C64 ? TT_F32 : TT_F64;
    return (tt_dtype)t->dtype;
}

/* Rows of the gradient: those it names, or stretches. */
static void set_rows(step_args *a, const tt_tensor *g, uint64_t n)
{
    a->n = n;
    a->width = ROW;
    a->rows = (n + ROW - 1) / ROW;
    if (g == NULL || g->sparse == NULL)
        return;
    (void)tti_accel_real_type(g->sparse->values, &a->n);
    a->rows = (uint64_t)g->sparse->indices->dims[1];
    a->width = a->rows > 0 ? a->n / a->rows : 0;
    a->sparse_dims = g->sparse->sparse_dims;
    for (int d = 0; d < g->sparse->sparse_dims; d++)
        a->dims[d] = g->dims[d];
    if ((g->flags & TTI_COALESCED) == 0)
        a->flags |= IN_ORDER;
}

static tt_status run(step_args *a, const double *c, int n_c, tt_tensor *p, const tt_tensor *g,
                     tt_tensor *const state[3], tt_tensor *found)
{
    static tti_kernel_slot slots[TT_N_DTYPES];
    tt_device d = p->device;
    uint64_t n;
    tt_dtype type = tti_accel_real_type(p, &n);
    const tt_tensor *values = g != NULL && g->sparse != NULL ? g->sparse->values : g;
    tti_grid grid;
    tti_kernel *k;

    set_rows(a, g, n);
    if (a->n == 0)
        return TT_OK;
    TT_TRY(tti_accel_check_type("optimizer", p));
    k = tti_kernel_get(&slots[type], d, &program, tti_accel_type(type), "optimize");
    if (k == NULL)
        return tt_last_status();
    for (int i = 0; i < n_c; i++)
        a->c[i] = tti_compute_bits(type == TT_F64 ? TTI_IN_F64 : TTI_IN_F32, c[i]);
    for (int i = 0; i < 3; i++)
        a->flags |= state[i] != NULL ? HAS_1 << i : 0;
    grid = (a->flags & IN_ORDER) != 0 ? (tti_grid){ 1 } : tti_grid_rows(d, a->rows, a->width);
    return tti_launch(
        d, k, grid,
        (tti_arg[]){ TTI_MEM(tti_data(p)), TTI_MEM(values != NULL ? tti_data(values) : NULL),
                     TTI_MEM(state[0] != NULL ? tti_data(state[0]) : NULL),
                     TTI_MEM(state[1] != NULL ? tti_data(state[1]) : NULL),
                     TTI_MEM(state[2] != NULL ? tti_data(state[2]) : NULL),
                     TTI_MEM(a->sparse_dims > 0 ? tti_data(g->sparse->indices) : NULL),
                     TTI_MEM(found != NULL ? tti_data(found) : NULL), TTI_VAL(*a) },
        8);
}

static int decay_flag(double weight_decay)
{
    return weight_decay != 0 ? DECAY : 0;
}

static tt_status sgd(tt_tensor *p, const tt_tensor *g, tt_tensor *buf, const tti_sgd_args *a)
{
    step_args s = { .rule = SGD,
                    .flags = decay_flag(a->weight_decay) | (a->first ? FIRST : 0) |
                             (a->nesterov ? NESTEROV : 0) };
    double c[] = { a->maximize ? -1 : 1, a->weight_decay,    a->momentum,
                   a->momentum,          1.0 - a->dampening, -a->lr };

    return run(&s, c, 6, p, g, (tt_tensor *[3]){ buf }, NULL);
}

static tt_status adam(tt_tensor *p, const tt_tensor *g, tt_tensor *m, tt_tensor *v, tt_tensor *vmax,
                      const tti_adam_args *a)
{
    double correct1 = 1.0 - pow(a->beta1, a->step);
    double root2 = sqrt(1.0 - pow(a->beta2, a->step));
    double decay = a->decoupled ? 0 : a->weight_decay;
    double rate = a->eps_inside ? a->lr * root2 / correct1 : a->lr / correct1;
    double c[] = { a->maximize ? -1 : 1,
                   decay,
                   a->decoupled ? 1.0 - a->lr * a->weight_decay : 1.0,
                   1.0 - a->beta1,
                   a->beta1,
                   a->beta2,
                   1.0 - a->beta2,
                   a->eps_inside ? 1.0 : root2,
                   a->eps,
                   -rate };
    step_args s = { .rule = ADAM,
                    .flags = decay_flag(decay) | (1.0 - a->beta1 < 0.5 ? NEAR_OLD : 0) };

    return run(&s, c, 10, p, g, (tt_tensor *[3]){ m, v, a->amsgrad ? vmax : NULL }, NULL);
}

static tt_status adagrad(tt_tensor *p, const tt_tensor *g, tt_tensor *sum,
                         const tti_adagrad_args *a)
{
    double rate = a->lr / (1.0 + (a->step - 1.0) * a->lr_decay);
    double c[] = { a->maximize ? -1 : 1, a->weight_decay, a->eps, -rate };
    step_args s = { .rule = ADAGRAD, .flags = decay_flag(a->weight_decay) };

    return run(&s, c, 4, p, g, (tt_tensor *[3]){ sum }, NULL);
}

static tt_status rmsprop(tt_tensor *p, const tt_tensor *g, tt_tensor *sq, tt_tensor *buf,
                         tt_tensor *avg, const tti_rmsprop_args *a)
{
    double c[] = { a->maximize ? -1 : 1, a->weight_decay, a->alpha, 1.0 - a->alpha, a->eps, -a->lr,
                   a->momentum };
    step_args s = { .rule = RMSPROP,
                    .flags = decay_flag(a->weight_decay) | (1.0 - a->alpha < 0.5 ? NEAR_OLD : 0) };

    return run(&s, c, 7, p, g, (tt_tensor *[3]){ sq, buf, avg }, NULL);
}

static tt_status scale(tt_tensor *x, double by)
{
    return run(&(step_args){ .rule = SCALE }, &by, 1, x, NULL, (tt_tensor *[3]){ NULL }, NULL);
}

static tt_status clamp(tt_tensor *x, double lo, double hi)
{
    return run(&(step_args){ .rule = CLAMP }, (double[]){ lo, hi }, 2, x, NULL,
               (tt_tensor *[3]){ NULL }, NULL);
}

static tt_status unscale(tt_tensor *x, double by, tt_tensor *found)
{
    return run(&(step_args){ .rule = UNSCALE }, &by, 1, x, NULL, (tt_tensor *[3]){ NULL }, found);
}

const tti_optim_kernels tti_accel_optim = {
    .sgd = sgd,
    .adam = adam,
    .adagrad = adagrad,
    .rmsprop = rmsprop,
    .scale = scale,
    .clamp = clamp,
    .sum_powers = tti_accel_sum_powers,
    .unscale = unscale,
};
