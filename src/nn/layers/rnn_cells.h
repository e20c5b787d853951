/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of recurrent cells for one row of a batch, in float32: all gates in one pass. */
#ifndef TTI_NN_LAYERS_RNN_CELLS_H
#define TTI_NN_LAYERS_RNN_CELLS_H

#include <stdint.h>

/* Backward of one LSTM cell. */
typedef struct tti_lstm_row {
    const float *gates, *c_before, *c; /* as forward left them */
    const float *dh;                   /* gradient of h */
    float *dc;                         /* gradient of c; then that of c_before */
    float *dgates;                     /* [4n]: gradients of the sums */
    float *h;                          /* computed again */
} tti_lstm_row;

typedef struct tti_rnn_cells {
    /* gates [4n]: sums in, values of i, f, g, o out; c and h: the new states. */
    void (*lstm)(float *gates, const float *c_before, float *c, float *h, int64_t n);
    void (*lstm_back)(const tti_lstm_row *row, int64_t n);
    /* in, rec [3n]: the two sums. kept [4n]: r, z, n and rec's part of n. */
    void (*gru)(const float *in, const float *rec, const float *h_before, float *kept, float *h,
                int64_t n);
    /* dh_before: only what does not pass through rec. */
    void (*gru_back)(const float *kept, const float *h_before, const float *dh, float *din,
                     float *drec, float *dh_before, int64_t n);
} tti_rnn_cells;

#endif
