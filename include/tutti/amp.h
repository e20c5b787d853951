/* SPDX-License-Identifier: Apache-2.0 */
/* Automatic mixed precision: operators that gain from it compute in a half type, and a factor on the loss
 * keeps small gradients from vanishing in float16.
 *
 *     tt_grad_scaler *scaler = tt_grad_scaler_new(NULL);
 *     ...
 *     TT_SCOPE {
 *         tt_tensor *loss = NULL;
 *
 *         TT_AUTOCAST(TT_DEVICE_CPU, TT_F16)
 *         loss = tt_cross_entropy(tt_module_forward(net, x), y);
 *         TT_TRY(tt_backward(tt_grad_scaler_scale(scaler, loss)));
 *         TT_TRY(tt_grad_scaler_step(scaler, opt, NULL));          // not if a gradient is infinite or NaN
 *         TT_TRY(tt_grad_scaler_update(scaler));
 *         TT_TRY(tt_optim_zero_grad(opt, false));
 *     }
 */
#ifndef TUTTI_AMP_H
#define TUTTI_AMP_H

#include "tutti/optim.h"
#include "tutti/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- autocast: thread-local, restored at the end of the block -------------------------------- */

/* For tensors on this kind of device that are float32, float16 or bfloat16:
 *   in the half type: linear, matmul and its relatives, convolutions, attention;
 *   in float32: softmax, losses, layer, group and RMS norm, exp, log, pow, reciprocal, rsqrt, softplus,
 *               norm, prod, cumsum, cumprod;
 *   all others take what they get and meet in the wider type.
 * A parameter is converted once in the outermost block. Backward runs in the types of the forward, also
 * inside of a block. A dtype other than TT_F16 and TT_BF16 is a warning ("amp"), and nothing is cast. */
typedef struct tt_autocast_guard {
    bool on[3]; /* before */
    unsigned char dtype[3];
} tt_autocast_guard;

TT_API tt_autocast_guard tt_autocast_open(tt_device_kind kind, tt_dtype dtype);
TT_API tt_autocast_guard tt_autocast_open_off(tt_device_kind kind);
TT_API void tt_autocast_close(tt_autocast_guard *g);
TT_API bool tt_autocast_is_on(tt_device_kind kind);
TT_API tt_dtype tt_autocast_dtype(tt_device_kind kind); /* TT_F32 while it is off */

#define TT_AUTOCAST_BLOCK(open, n)                                                          \
    for (tt_autocast_guard tt_guard_##n __attribute__((cleanup(tt_autocast_close))) = open, \
                                        *tt_once_##n = &tt_guard_##n;                       \
         tt_once_##n != NULL; tt_once_##n = NULL)
#define TT_AUTOCAST_NAMED(open, n) TT_AUTOCAST_BLOCK(open, n)
/* TT_AUTOCAST(TT_DEVICE_CPU, TT_BF16) { forward and loss } */
#define TT_AUTOCAST(kind, dtype) TT_AUTOCAST_NAMED(tt_autocast_open(kind, dtype), __COUNTER__)
/* In float32 after all, within a block. Half tensors from outside stay what they are. */
#define TT_AUTOCAST_OFF(kind) TT_AUTOCAST_NAMED(tt_autocast_open_off(kind), __COUNTER__)

/* ---- gradient scaler -------------------------------------------------------------------------- */

typedef struct tt_grad_scaler tt_grad_scaler;

typedef struct tt_grad_scaler_options {
    double scale;            /* at first; 0: 65536 */
    double growth_factor;    /* 0: 2 */
    double backoff_factor;   /* 0: 0.5 */
    int64_t growth_interval; /* steps without infinities before the scale grows; 0: 2000 */
    bool disabled;           /* everything passes through; the scale is 1 */
} tt_grad_scaler_options;

TT_API tt_grad_scaler *tt_grad_scaler_new(const tt_grad_scaler_options *opt);
TT_API void tt_grad_scaler_free(tt_grad_scaler *s);
TT_API bool tt_grad_scaler_is_enabled(const tt_grad_scaler *s);

/* t times the scale, differentiable, of t's type and on its device. */
TT_API tt_tensor *tt_grad_scaler_scale(tt_grad_scaler *s, tt_tensor *t);
/* The same for all tensors of a value; you free the result. */
TT_API tt_value *tt_grad_scaler_scale_value(tt_grad_scaler *s, const tt_value *v);

/* Divides the gradients by the scale and looks for infinities and NaN, so that they can be clipped before
 * the step. Once per optimizer and update; INVALID for float16 gradients. */
TT_API tt_status tt_grad_scaler_unscale(tt_grad_scaler *s, tt_optim *o);
/* Unscales, unless that was done, and makes a step if all gradients are finite. *skipped_p (may be NULL)
 * tells. Once per optimizer and update. */
TT_API tt_status tt_grad_scaler_step(tt_grad_scaler *s, tt_optim *o, bool *skipped_p);
/* The same with `step` in place of tt_optim_step, for what wraps an optimizer. */
typedef tt_status (*tt_grad_scaler_step_fn)(void *ctx);
TT_API tt_status tt_grad_scaler_step_with(tt_grad_scaler *s, tt_optim *o,
                                          tt_grad_scaler_step_fn step, void *ctx, bool *skipped_p);
/* After the steps of all optimizers: a smaller scale if any gradient was not finite, a greater one if that
 * has not happened for long. INVALID if no optimizer was unscaled. */
TT_API tt_status tt_grad_scaler_update(tt_grad_scaler *s);
/* The same with a scale that you chose. */
TT_API tt_status tt_grad_scaler_update_to(tt_grad_scaler *s, double scale);

TT_API double tt_grad_scaler_get_scale(const tt_grad_scaler *s); /* 1 if disabled */
/* Steps since the scale last changed. */
TT_API int64_t tt_grad_scaler_growth_tracker(const tt_grad_scaler *s);
/* Where the scale is kept: the device of what was scaled first; false before that. */
TT_API bool tt_grad_scaler_device(const tt_grad_scaler *s, tt_device *device_p);

/* What the last unscale of this optimizer found, per device of its gradients; until the update. */
TT_API int tt_grad_scaler_n_found(const tt_grad_scaler *s, const tt_optim *o);
/* 1 if a gradient there was not finite, else 0; NaN past the end. device_p may be NULL. */
TT_API double tt_grad_scaler_found(const tt_grad_scaler *s, const tt_optim *o, int i,
                                   tt_device *device_p);

/* "<prefix>scale", "<prefix>growth_factor", ..., "<prefix>growth_tracker"; nothing if disabled. */
TT_API tt_status tt_grad_scaler_save(const tt_grad_scaler *s, tt_state_dict *sd,
                                     const char *prefix);
/* All or nothing; a disabled scaler ignores it. */
TT_API tt_status tt_grad_scaler_load(tt_grad_scaler *s, const tt_state_dict *sd,
                                     const char *prefix);

#ifdef __cplusplus
}
#endif

#endif
