/* SPDX-License-Identifier: Apache-2.0 */
/* Strided tensors to and from dense memory, without autograd. */
#ifndef TTI_PG_PACK_H
#define TTI_PG_PACK_H

#include "tutti/tensor.h"

void tti_pack(const tt_tensor *t, void *dense);
void tti_unpack(tt_tensor *t, const void *dense);

#endif
