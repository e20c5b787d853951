/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of normalisation, by type. Statistics and coefficients are float32, float64 beside
 * float64: "real" below. */
#ifndef TTI_OPS_CPU_NN_NORM_H
#define TTI_OPS_CPU_NN_NORM_H

#include "ops/cpu/cpu.h"

/* One row of layer norm; rms: the mean is taken as 0. w, b, dx, dw and db may be NULL. */
typedef struct tti_row_norm {
    void *y; /* of the gradient: dx */
    const void *x, *dy, *w, *b;
    void *dw, *db; /* real sums so far */
    int64_t n;
    double eps, mean, rstd;
    bool rms;
} tti_row_norm;

/* A run of n elements of batch norm: all of one channel (planes: coefficients have one element), or
 * one of each channel (rows: n of them). Coefficients are real. */
typedef struct tti_channel_norm {
    void *out;
    const void *x, *dy;
    int64_t n;
    const void *scale, *mean, *shift, *slope;
    void *sum, *dot; /* planes: double; rows: real */
} tti_channel_norm;

typedef struct tti_norm_fns {
    void (*row)(tti_row_norm *a); /* sets mean and rstd */
    void (*row_grad)(const tti_row_norm *a);
    /* out = (x - mean) * scale + shift */
    void (*apply[2])(const tti_channel_norm *a); /* 0: planes, 1: rows */
    /* sum += dy, dot += dy * (x - mean) */
    void (*sums[2])(const tti_channel_norm *a);
    /* out = dy * scale + (x - mean) * slope + shift */
    void (*grad[2])(const tti_channel_norm *a);
} tti_norm_fns;

typedef tti_norm_fns tti_norm_table[TT_N_DTYPES];
TTI_ISA_DECLARE(const tti_norm_table, tti_norms);

#endif
