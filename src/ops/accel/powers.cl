/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of |x|^power over stretches of CHUNK elements, each in a fixed order; the host adds the stretches. On a CPU
 * the order is that of ops/cpu/optim_loops.inc. */
#include "ops/accel/vmath.cl"

#define CHUNK 16384
#ifdef CPU_DEVICE
#define LANES 16
#else
#define LANES 1
#endif
#ifdef HAS_FP64
typedef f64 sum_t;
#else
typedef f32 sum_t;
#endif
#if defined(IS_F16)
#define READ(p, i) tti_f16_to_f32((p)[i])
#elif defined(IS_BF16)
#define READ(p, i) tti_bf16_to_f32((p)[i])
#else
#define READ(p, i) ((p)[i])
#endif

enum { SUM, SQUARES, GREATEST, POWERS };

FN sum_t term(sum_t x, int kind, sum_t power)
{
    return kind == SQUARES ? x * x : kind == POWERS ? pow(fabs(x), power) : fabs(x);
}

FN sum_t joined(sum_t a, sum_t b, int kind)
{
    if (kind != GREATEST)
        return a + b;
    return b > a || b != b ? b : a;
}

KERNEL void powers(MEM(sum_t, out), MEM(const T, x), u64 n, i32 kind, f32 power)
{
    OPEN(sum_t, out);
    OPEN(const T, x);
    SHARED sum_t parts[WG];

    FOR_ROWS(row, (n + CHUNK - 1) / CHUNK) {
        GLOBAL const T *at = x + row * CHUNK;
        int count = n - row * CHUNK < CHUNK ? (int)(n - row * CHUNK) : CHUNK;
        int whole = count - count % (LANES * WG);
        sum_t lanes[LANES], sum = 0;

        for (int j = 0; j < LANES; j++)
            lanes[j] = 0;
        for (int i = (int)LID * LANES; i < whole; i += LANES * WG)
            for (int j = 0; j < LANES; j++)
                lanes[j] = joined(lanes[j], term((sum_t)READ(at, i + j), kind, (sum_t)power), kind);
        for (int i = whole + (int)LID; i < count; i += WG)
            lanes[0] = joined(lanes[0], term((sum_t)READ(at, i), kind, (sum_t)power), kind);
        for (int j = 0; j < LANES; j++)
            sum = joined(sum, lanes[j], kind);
        parts[LID] = sum;
        BARRIER;
        if (LID == 0) {
            for (int j = 1; j < WG; j++)
                sum = joined(sum, parts[j], kind);
            out[row] = sum;
        }
        BARRIER;
    }
}
