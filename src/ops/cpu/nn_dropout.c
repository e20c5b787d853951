/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout on the CPU: pieces of fixed size shared out to threads. */
#include "ops/cpu/nn_kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/philox_block.h"

enum { PIECE = 4096 };

static tti_dropout_fn pick(const tt_tensor *x)
{
    const tti_dropout_table *t = TTI_ISA_PICK(tti_dropout_table);

    switch (x->dtype) {
    case TT_F32:
        return t->f32;
    case TT_F64:
        return t->f64;
    case TT_F16:
        return t->f16;
    default:
        return t->bf16;
    }
}

tt_status tti_dropout_cpu(tt_tensor *y, const tt_tensor *x, double p, uint64_t seed,
                          uint64_t offset)
{
    tti_dropout_fn fn = pick(x);
    int64_t pieces = (x->numel + PIECE - 1) / PIECE;
    tti_dropout_job all = { .y = tti_data(y),
                            .x = tti_data(x),
                            .below = tti_dropout_below(p),
                            .scale = 1.0 / (1.0 - p),
                            .seed = seed,
                            .offset = offset };

    TTI_PARALLEL_FOR(tti_threads_for(x->numel, 4 * PIECE), i, pieces, 1, {
        tti_dropout_job job = all;

        job.begin = i * PIECE;
        job.n = x->numel - job.begin < PIECE ? x->numel - job.begin : PIECE;
        fn(&job);
    });
    return TT_OK;
}
