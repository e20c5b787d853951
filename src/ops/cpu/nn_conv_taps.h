/* SPDX-License-Identifier: Apache-2.0 */
/* How the taps of a kernel lie between the few pixels of a small image, and moving weights
 * accordingly: shared by nn_conv_small.c and its part per instruction set. */
#ifndef TTI_OPS_CPU_NN_CONV_TAPS_H
#define TTI_OPS_CPU_NN_CONV_TAPS_H

#include "ops/cpu/cpu.h"

#define TTI_SMALL_PIXELS 4
#define TTI_SMALL_LANES (TTI_SMALL_PIXELS * TTI_SMALL_PIXELS)

/* An index of -1 stands for 0. Lane o * TTI_SMALL_PIXELS + i is the pair of pixels (o, i). */
typedef struct tti_conv_taps {
    int64_t c, in, out, taps;     /* channels, pixels, pixels, at most TTI_SMALL_LANES */
    int32_t tap[TTI_SMALL_LANES]; /* of each pair */
    int32_t pair[TTI_SMALL_PIXELS][TTI_SMALL_LANES]; /* of each tap: its first, second, ... */
    int n_pairs;                                     /* the most that one tap has */
} tti_conv_taps;

/* For one output channel: w [c, taps], spread [out, c, in]. */
typedef struct tti_conv_taps_table {
    void (*spread)(const tti_conv_taps *t, const float *w, float *spread);
    void (*fold)(const tti_conv_taps *t, const float *spread, float *w); /* sums over pairs */
} tti_conv_taps_table;

TTI_ISA_DECLARE(const tti_conv_taps_table, tti_conv_taps_table);

#endif
