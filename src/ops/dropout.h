/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout with given random numbers, for dropout itself and for attention. */
#ifndef TTI_OPS_DROPOUT_H
#define TTI_OPS_DROPOUT_H

#include "ops/op.h"

typedef struct tti_dropout_attrs {
    double p;
    uint64_t seed, offset;
} tti_dropout_attrs;

/* Take so many blocks of four words from the generator (NULL: the device's default one). */
tt_status tti_take_blocks(tt_generator *gen, tt_device device, uint64_t blocks,
                          tti_dropout_attrs *a);
/* The recorded operator; its gradient is itself. */
tt_tensor *tti_dropout_with(tt_tensor *x, const tti_dropout_attrs *a);

#endif
