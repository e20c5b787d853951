/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over the inputs of all ranks, in the order of ranks. One call sees all of them, so that half
 * precision is rounded once and the result does not depend on how the elements were cut into calls. */
#ifndef TTI_COLL_REDUCE_H
#define TTI_COLL_REDUCE_H

#include "base/isa.h"
#include "coll/team.h"

/* out[i] = ins[0][i] op ins[1][i] op ... ins[k - 1][i] for i < count, from left to right. `out` may be one of the
 * inputs; otherwise nothing overlaps. `factors`: k of them for PREMUL_SUM, else ignored. Complex numbers count
 * as two elements. */
typedef void (*tti_reduce_fn)(void *out, const void *const *ins, int k, size_t count,
                              const double *factors);

const char *tti_reduce_name(tt_reduce_op op); /* "sum" */
/* NULL when the type does not have the operation. */
tti_reduce_fn tti_reduce_pick(tt_dtype dtype, tt_reduce_op op);
/* Elements, as the function above counts them, in `bytes` bytes. */
size_t tti_fold_count(tt_dtype dtype, size_t bytes);

/* The same, one element after the other; what the others are tested against. */
void tti_reduce_plain(tt_dtype dtype, tt_reduce_op op, void *out, const void *const *ins, int k,
                      size_t count, const double *factors);

#define TTI_N_REDUCE_OPS 9

typedef struct tti_reduce_table {
    tti_reduce_fn fn[10][TTI_N_REDUCE_OPS]; /* by the real types and tt_reduce_op */
} tti_reduce_table;

TTI_ISA_DECLARE(const tti_reduce_table, tti_reduce_table);

#endif
