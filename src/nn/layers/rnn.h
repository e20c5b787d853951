/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of one recurrent layer, over all times. */
#ifndef TTI_NN_LAYERS_RNN_H
#define TTI_NN_LAYERS_RNN_H

#include "nn/layers/layer.h"

typedef struct tti_rnn_pass {
    tt_tensor *x;           /* [T, B, in] */
    tt_tensor *w_ih, *w_hh; /* [gates * hidden, in or hidden] */
    tt_tensor *b_ih, *b_hh; /* NULL or [gates * hidden] */
    tt_tensor *h, *c;       /* [B, hidden]; before, then after; c of LSTM only */
    bool backwards;         /* from the last time to the first */
    tt_tensor *y;           /* result: [T, B, hidden] */
} tti_rnn_pass;

/* Sets y, h and c. Float32 on the CPU is one operator; all else goes step by step. */
tt_status tti_rnn_run(tti_rnn_pass *p);
tt_status tti_lstm_steps(tti_rnn_pass *p);
tt_status tti_gru_steps(tti_rnn_pass *p);

#endif
