/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of recurrent cells for one row of a batch, in float32: all gates in one pass. */
#ifndef TTI_NN_LAYERS_RNN_CELLS_H
#define TTI_NN_LAYERS_RNN_CELLS_H

#include <stdint.h>

typedef struct tti_rnn_cells {
    /* gates [4n]: sums in, values of i, f, g, o out; c and h: the new states. */
    void (*lstm)(float *gates, const float *c_before, float *c, float *h, int64_t n);
    /* dh is the gradient of h, dc that of c: replaced by that of c_before. dgates [4n] are the
     * gradients of the sums. h is computed again. */
    void (*lstm_back)(const float *gates, const float *c_before, const float *c, const float *dh,
                      float *dc, float *dgates, float *h, int64_t n);
    /* in, rec [3n]: the two sums. kept [4n]: r, z, n and rec's part of n. */
    void (*gru)(const float *in, const float *rec, const float *h_before, float *kept, float *h,
                int64_t n);
    /* dh_before: only what does not pass through rec. */
    void (*gru_back)(const float *kept, const float *h_before, const float *dh, float *din,
                     float *drec, float *dh_before, int64_t n);
} tti_rnn_cells;

#endif
