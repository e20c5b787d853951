/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent cells, compiled per instruction set; see rnn_cells.h for what they compute. */
#include "nn/layers/rnn_cells.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/vmath.h"

static void lstm(float *restrict gates, const float *restrict c_before, float *restrict c,
                 float *restrict h, int64_t n)
{
    float *restrict gi = gates, *restrict gf = gates + n;
    float *restrict gg = gates + 2 * n, *restrict go = gates + 3 * n;

    for (int64_t k = 0; k < n; k++) {
        float i = tti_vsigmoidf(gi[k]), f = tti_vsigmoidf(gf[k]);
        float g = tti_vtanhf(gg[k]), o = tti_vsigmoidf(go[k]);
        float s = f * c_before[k] + i * g;

        gi[k] = i;
        gf[k] = f;
        gg[k] = g;
        go[k] = o;
        c[k] = s;
        h[k] = o * tti_vtanhf(s);
    }
}

static void lstm_back(const tti_lstm_row *row, int64_t n)
{
    const float *restrict gi = row->gates, *restrict gf = gi + n;
    const float *restrict gg = gi + 2 * n, *restrict go = gi + 3 * n;
    const float *restrict c_before = row->c_before, *restrict c = row->c, *restrict dh = row->dh;
    float *restrict di = row->dgates, *restrict df = row->dgates + n;
    float *restrict dg = row->dgates + 2 * n, *restrict d_o = row->dgates + 3 * n;
    float *restrict dc = row->dc, *restrict h = row->h;

#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        float i = gi[k], f = gf[k], g = gg[k], o = go[k], t = tti_vtanhf(c[k]);
        float s = dc[k] + dh[k] * o * (1.0f - t * t);

        di[k] = s * g * i * (1.0f - i);
        df[k] = s * c_before[k] * f * (1.0f - f);
        dg[k] = s * i * (1.0f - g * g);
        d_o[k] = dh[k] * t * o * (1.0f - o);
        dc[k] = s * f;
        h[k] = o * t;
    }
}

static void gru(const float *restrict in, const float *restrict rec, const float *restrict h_before,
                float *restrict kept, float *restrict h, int64_t n)
{
    const float *restrict ir = in, *restrict iz = in + n, *restrict in_n = in + 2 * n;
    const float *restrict hr = rec, *restrict hz = rec + n, *restrict hn = rec + 2 * n;
    float *restrict kr = kept, *restrict kz = kept + n;
    float *restrict kn = kept + 2 * n, *restrict kh = kept + 3 * n;

    for (int64_t k = 0; k < n; k++) {
        float r = tti_vsigmoidf(ir[k] + hr[k]), z = tti_vsigmoidf(iz[k] + hz[k]);
        float m = tti_vtanhf(in_n[k] + r * hn[k]);

        kr[k] = r;
        kz[k] = z;
        kn[k] = m;
        kh[k] = hn[k];
        h[k] = m + z * (h_before[k] - m);
    }
}

static void gru_back(const float *restrict kept, const float *restrict h_before,
                     const float *restrict dh, float *restrict din, float *restrict drec,
                     float *restrict dh_before, int64_t n)
{
    const float *restrict kr = kept, *restrict kz = kept + n;
    const float *restrict kn = kept + 2 * n, *restrict kh = kept + 3 * n;
    float *restrict ir = din, *restrict iz = din + n, *restrict in_n = din + 2 * n;
    float *restrict hr = drec, *restrict hz = drec + n, *restrict hn = drec + 2 * n;

    for (int64_t k = 0; k < n; k++) {
        float r = kr[k], z = kz[k], m = kn[k];
        float dm = dh[k] * (1.0f - z) * (1.0f - m * m);
        float dr = dm * kh[k] * r * (1.0f - r);
        float dz = dh[k] * (h_before[k] - m) * z * (1.0f - z);

        ir[k] = hr[k] = dr;
        iz[k] = hz[k] = dz;
        in_n[k] = dm;
        hn[k] = dm * r;
        dh_before[k] = dh[k] * z;
    }
}

extern const tti_rnn_cells TTI_ISA_NAME(tti_rnn_cells);
const tti_rnn_cells TTI_ISA_NAME(tti_rnn_cells) = { lstm, lstm_back, gru, gru_back };
