/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements in host memory, for what looks at tensors rather than computes with them. */
#ifndef TTI_OPS_ELEMENT_H
#define TTI_OPS_ELEMENT_H

#include <string.h>

#include "ops/op.h"

typedef struct tti_element {
    double re, im;
    int64_t whole; /* integers and bool, exactly */
} tti_element;

/* Element number i of a contiguous tensor in host memory. */
tti_element tti_element_at(const tt_tensor *t, int64_t i);
/* t dense, contiguous and in host memory, without recording; scope-owned. */
tt_tensor *tti_host_copy(const tt_tensor *t);

#endif
