/* SPDX-License-Identifier: Apache-2.0 */
/* How operators take random numbers from a generator. */
#ifndef TTI_OPS_GENERATOR_H
#define TTI_OPS_GENERATOR_H

#include "tensor/tensor.h"
#include "tutti/random.h"

/* Reserve `blocks` Philox blocks: they start at the offset returned, and nobody else gets them. g NULL:
 * the default generator of the device. Any thread. */
tt_generator_state tti_generator_take(tt_generator *g, tt_device device, uint64_t blocks);

#endif
