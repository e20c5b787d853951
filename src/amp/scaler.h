/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the gradient scaler. */
#ifndef TTI_AMP_SCALER_H
#define TTI_AMP_SCALER_H

#include "tensor/tensor.h"
#include "tutti/amp.h"

typedef struct tti_scaler_entry {
    tt_device device;
    tt_tensor *t; /* owned, float32, one element */
} tti_scaler_entry;

typedef struct tti_scaler_list {
    tti_scaler_entry *items;
    size_t n, cap;
} tti_scaler_list;

typedef enum tti_scaler_stage {
    TTI_SCALER_READY,
    TTI_SCALER_UNSCALED,
    TTI_SCALER_STEPPED,
} tti_scaler_stage;

/* What was done with an optimizer since the last update. */
typedef struct tti_scaled_optim {
    const tt_optim *optim; /* only compared */
    tti_scaler_stage stage;
    tti_scaler_list found;
} tti_scaled_optim;

struct tt_grad_scaler {
    bool enabled;
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, tracker;
    tti_scaler_list copies; /* of the scale; the first is on its own device */
    tti_scaled_optim *optims;
    size_t n_optims, cap_optims;
};

/* Refuses numbers that make no sense. */
tt_status tti_scaler_check(double scale, double growth, double backoff, int64_t interval);
/* For an optimizer of which other ranks have a part: it counts as unscaled, and if `bad` as having a gradient
 * that is not finite. */
tt_status tti_scaler_note(tt_grad_scaler *s, const tt_optim *o, bool bad);
/* For the tensors too. */
tt_status tti_scaler_set_scale(tt_grad_scaler *s, double scale);

#endif
