/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN, which multiplies matrices of float32 numbers and convolves. We open it ourselves, at the first use, so that it is
 * bound to its own functions: another copy in the process, such as the one inside of PyTorch, has some of the same
 * names, and as a part of libtutti it would be bound to whichever came first. */
#ifndef TTI_OPS_CPU_DNNL_LIB_H
#define TTI_OPS_CPU_DNNL_LIB_H

#include <dnnl.h>

#include "base/status.h"

#define TTI_DNNL_FUNCTIONS(X)                         \
    X(dilated_convolution_backward_data_desc_init)    \
    X(dilated_convolution_backward_weights_desc_init) \
    X(dilated_convolution_forward_desc_init)          \
    X(engine_create)                                  \
    X(memory_create)                                  \
    X(memory_desc_equal)                              \
    X(memory_desc_get_size)                           \
    X(memory_desc_init_by_tag)                        \
    X(memory_destroy)                                 \
    X(memory_set_data_handle_v2)                      \
    X(primitive_attr_create)                          \
    X(primitive_attr_destroy)                         \
    X(primitive_attr_set_scratchpad_mode)             \
    X(primitive_create)                               \
    X(primitive_desc_create)                          \
    X(primitive_desc_destroy)                         \
    X(primitive_desc_query)                           \
    X(primitive_desc_query_md)                        \
    X(primitive_destroy)                              \
    X(primitive_execute)                              \
    X(reorder_primitive_desc_create)                  \
    X(sgemm)                                          \
    X(stream_create)                                  \
    X(stream_destroy)

/* Its functions without "dnnl_" in front. */
typedef struct tti_dnnl_functions {
#define X(name) __typeof__(&dnnl_##name) name;
    TTI_DNNL_FUNCTIONS(X)
#undef X
} tti_dnnl_functions;

/* Filled by tti_dnnl_open, and never again. */
extern tti_dnnl_functions tti_dnnl;

/* Before any use of tti_dnnl. The next call tries again after a failure. */
tt_status tti_dnnl_open(void);

#endif
