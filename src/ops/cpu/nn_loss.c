/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of pairs on the CPU: blocks of fixed size, added up in order. */
#include "ops/cpu/nn_loss.h"

#include "ops/cpu/nn_real.h"
#include "ops/cpu/nn_table.h"
#include "ops/cpu/parallel.h"

#define BLOCK 4096
#define GRAIN 32768
#define WAVE 64 /* blocks whose sums are kept at a time */

static tti_pair_args block_at(const tt_tensor *a, const tt_tensor *b, int64_t block)
{
    int64_t first = block * BLOCK, esize = (int64_t)tti_esize(a);

    return (tti_pair_args){ .a = (const char *)tti_data(a) + first * esize,
                            .b = (const char *)tti_data(b) + first * esize,
                            .n = a->numel - first < BLOCK ? a->numel - first : BLOCK };
}

tt_status tti_pair_loss_run(tti_pair_loss kind, tt_tensor *out, const tt_tensor *a,
                            const tt_tensor *b, const double p[2])
{
    const tti_pair_fns *fns = &(*TTI_ISA_PICK(tti_pairs))[kind][a->dtype];
    int64_t blocks = (a->numel + BLOCK - 1) / BLOCK;
    int threads = tti_threads_for(a->numel, GRAIN);
    double total = 0;

    if (fns->sum == NULL)
        return tti_no_kernel("loss", a);
    for (int64_t first = 0; first < blocks; first += WAVE) {
        int64_t n = blocks - first < WAVE ? blocks - first : WAVE;
        double sums[WAVE];

        TTI_PARALLEL_FOR(n > 1 ? threads : 1, i, n, 1, {
            tti_pair_args args = block_at(a, b, first + i);

            args.beta = p[1];
            sums[i] = fns->sum(&args);
        });
        for (int64_t i = 0; i < n; i++)
            total += sums[i];
    }
    tti_float_put(out, 0, total * p[0]);
    return TT_OK;
}

tt_status tti_pair_loss_grad_run(tti_pair_loss kind, tt_tensor *da, const tt_tensor *grad,
                                 const tt_tensor *a, const tt_tensor *b, const double p[2])
{
    const tti_pair_fns *fns = &(*TTI_ISA_PICK(tti_pairs))[kind][a->dtype];
    int64_t blocks = (a->numel + BLOCK - 1) / BLOCK;
    int threads = tti_threads_for(a->numel, GRAIN);
    double scale = tti_float_get(grad, 0) * p[0];

    if (fns->grad == NULL)
        return tti_no_kernel("loss", a);
    TTI_PARALLEL_FOR(threads, i, blocks, 1, {
        tti_pair_args args = block_at(a, b, i);

        args.da = (char *)tti_data(da) + i * BLOCK * (int64_t)tti_esize(a);
        args.scale = scale;
        args.beta = p[1];
        fns->grad(&args);
    });
    return TT_OK;
}
