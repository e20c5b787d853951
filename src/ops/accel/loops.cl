/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over the dimensions of strided tensors, as tti_accel_loop in loops.h; and ranges of elements. */

typedef struct loop_t {
    i64 n, total;
    i64 dims[8], x[8], out[8];
} loop_t;

typedef struct place_t {
    i64 x, out;
} place_t;

/* Where the loop's i-th turn begins. */
FN place_t loop_at(loop_t l, u64 i)
{
    place_t p;

    p.x = 0;
    p.out = 0;
    for (i32 d = (i32)l.n - 1; d > 0; d--) {
        u64 q = i / (u64)l.dims[d], r = i - q * (u64)l.dims[d];

        p.x += (i64)r * l.x[d];
        p.out += (i64)r * l.out[d];
        i = q;
    }
    if (l.n > 0) {
        p.x += (i64)i * l.x[0];
        p.out += (i64)i * l.out[0];
    }
    return p;
}

/* FOR_RANGES(from, to, n): [0, n) as ranges [from, to), each by one work-item: one long one where an item is
 * a core, single elements elsewhere. The body may change both. */
#if WG == 1
#define FOR_RANGES(from, to, n)                                                     \
    for (u64 from##_n = (n), from##_step = (from##_n + GSZ - 1) / GSZ,              \
             from = GID * from##_step,                                              \
             to = from + from##_step < from##_n ? from + from##_step : from##_n,    \
             from##_once = 1;                                                       \
         from##_once != 0; from##_once = 0)
#else
#define FOR_RANGES(from, to, n)                                                     \
    for (u64 from##_n = (n), from##_i = GID, from = from##_i, to = from + 1;        \
         from##_i < from##_n; from##_i += GSZ, from = from##_i, to = from + 1)
#endif
