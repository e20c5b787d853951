/* SPDX-License-Identifier: Apache-2.0 */
/* What losses share. */
#ifndef TTI_OPS_LOSS_H
#define TTI_OPS_LOSS_H

#include "ops/op.h"

/* Both operands are there; else records it, unless that is the result of an earlier failure. */
bool tti_loss_given(const char *name, const tt_tensor *input, const tt_tensor *target);

/* Reduce losses of single elements as asked. */
tt_tensor *tti_loss_reduce(tt_tensor *losses, tt_reduction reduction);

/* Classes of a loss over rows [rows, classes]: checked, and as kernels want them. */
typedef struct tti_classes {
    tt_tensor *target; /* int64 [rows], contiguous; -1 where ignored */
    tt_tensor *weight; /* NULL, or [classes], contiguous, float32 (float64 beside float64) */
    double total;      /* sum of the weights of the targets that count */
    tt_tensor
        *sum; /* the same where the host does not read targets: 0-d, of weight's type; else NULL */
    bool ignored; /* some are, or may be */
} tti_classes;

tt_status tti_classes_make(const char *name, tt_tensor *target, int64_t n_classes, tt_dtype dtype,
                           const tt_loss_options *opt, tti_classes *c);
/* The weight of each row, 0 where ignored: [rows] of the given type. */
tt_tensor *tti_classes_row_weights(const tti_classes *c, tt_dtype dtype);
/* The sum of losses of rows over the sum of their weights; recorded. */
tt_tensor *tti_classes_mean(const tti_classes *c, tt_tensor *sum);
/* Targets with 0 where ignored, for use as indices. */
tt_tensor *tti_classes_index(const tti_classes *c);

/* Scores [N, C, d1, ...] as rows [N * d1 * ..., C]; recorded. */
tt_tensor *tti_loss_rows(tt_tensor *x);
/* Targets for such scores: [N, d1, ...], or 0-d beside [C]. Otherwise INVALID in the name of
 * `name`. */
tt_status tti_loss_check(const char *name, const tt_tensor *input, const tt_tensor *target);

#endif
