/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives of oneDNN behind plain row-major tensors. oneDNN computes fastest in layouts of its own
 * choice: a plan is a primitive together with the conversions into and out of them. Plans are made
 * once per key and kept; running one allocates nothing but a scratch buffer, and any number of threads
 * may run the same plan at the same time. */
#ifndef TTI_OPS_CPU_DNNL_PLAN_H
#define TTI_OPS_CPU_DNNL_PLAN_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/dnnl_lib.h"

#define TTI_DNNL_ARGS 4

/* What a plan is found by. All bytes count: start from zero. */
typedef struct tti_dnnl_key {
    int32_t op;
    int32_t threads; /* primitives divide their work among so many when they are made */
    int64_t sizes[20];
} tti_dnnl_key;

typedef struct tti_dnnl_arg {
    int id;          /* DNNL_ARG_SRC, ... */
    dnnl_query_t md; /* which descriptor of the primitive belongs to it */
    int md_index;    /* and its number */
    bool is_result;  /* written, not read */
    dnnl_memory_desc_t plain;
} tti_dnnl_arg;

/* What to plan: filled by a maker. The plan takes over `pd`. */
typedef struct tti_dnnl_spec {
    dnnl_primitive_desc_t pd;
    tti_dnnl_arg args[TTI_DNNL_ARGS];
    int n_args;
} tti_dnnl_spec;

/* Describes the primitive of `ctx`; gives back what oneDNN says. */
typedef dnnl_status_t (*tti_dnnl_make_fn)(const void *ctx, dnnl_engine_t engine,
                                          const_dnnl_primitive_attr_t attr, tti_dnnl_spec *spec);

/* Runs the plan of `key`, made by `make` when it is new, on `data`, one pointer per argument in the
 * order of the spec. *done_p says whether it ran: false, with TT_OK, when oneDNN has no fast
 * implementation. */
tt_status tti_dnnl_run(const tti_dnnl_key *key, tti_dnnl_make_fn make, const void *ctx,
                       void *const *data, bool *done_p);

#endif
