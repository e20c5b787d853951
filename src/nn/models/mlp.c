/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-layer perceptrons. */
#include "nn/layers/layer.h"
#include "tutti/models.h"

tt_module *tt_mlp(const int64_t *sizes, int n_sizes, tt_activation activation)
{
    tt_module *m;
    tt_status st = TT_OK;

    if (sizes == NULL || n_sizes < 2)
        return TT_FAIL_NULL(TT_ERR_INVALID, "mlp: expected at least two sizes, got %d", n_sizes);
    m = tt_sequential_new();
    if (m == NULL)
        return NULL;
    for (int i = 0; st == TT_OK && i + 1 < n_sizes; i++) {
        if (i > 0 && activation != TT_ACT_NONE)
            st = tt_module_append(m, tt_activation_new(activation));
        if (st == TT_OK)
            st = tt_module_append(m, tt_linear_new(sizes[i], sizes[i + 1], NULL));
    }
    return tti_layer_done(m, st);
}
