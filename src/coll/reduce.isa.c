/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over all ranks, compiled once per instruction set. Products and sums are never fused: the bits are
 * those of reduce_plain on every machine. */
#include "base/half.h"
#include "coll/reduce.h"

#define INLINE static inline __attribute__((always_inline))
#define BLOCK 512 /* elements whose accumulators stay in the nearest cache */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* T: the type; A: what it is accumulated in; GET, PUT: from one to the other; U: A without undefined overflow;
 * W: what averages accumulate in. */
#define ID(x) (x)

#define NAME f32
#define T float
#define A float
#define U float
#define W float
#define GET ID
#define PUT ID
#define REAL 1
#include "coll/reduce_type.inc"

#define NAME f64
#define T double
#define A double
#define U double
#define W double
#define GET ID
#define PUT ID
#define REAL 1
#include "coll/reduce_type.inc"

#define NAME f16
#define T uint16_t
#define A float
#define U float
#define W float
#define GET tti_f16_to_f32
#define PUT tti_f32_to_f16
#define GET_N tti_f16_to_f32_n
#define PUT_N tti_f32_to_f16_n
#define REAL 1
#include "coll/reduce_type.inc"

#define NAME bf16
#define T uint16_t
#define A float
#define U float
#define W float
#define GET tti_bf16_to_f32
#define PUT tti_f32_to_bf16
#define GET_N tti_bf16_to_f32_n
#define PUT_N tti_f32_to_bf16_n
#define REAL 1
#include "coll/reduce_type.inc"

#define NAME i8
#define T int8_t
#define A int8_t
#define U uint8_t
#define W int32_t
#define GET ID
#define PUT ID
#define REAL 0
#include "coll/reduce_type.inc"

#define NAME u8
#define T uint8_t
#define A uint8_t
#define U uint8_t
#define W int32_t
#define GET ID
#define PUT ID
#define REAL 0
#include "coll/reduce_type.inc"

#define NAME i16
#define T int16_t
#define A int16_t
#define U uint16_t
#define W int32_t
#define GET ID
#define PUT ID
#define REAL 0
#include "coll/reduce_type.inc"

#define NAME i32
#define T int32_t
#define A int32_t
#define U uint32_t
#define W int64_t
#define GET ID
#define PUT ID
#define REAL 0
#include "coll/reduce_type.inc"

#define NAME i64
#define T int64_t
#define A int64_t
#define U uint64_t
#define W int64_t
#define GET ID
#define PUT ID
#define REAL 0
#include "coll/reduce_type.inc"

#define TRUTH(x) ((uint8_t)((x) != 0))

#define NAME truth
#define T uint8_t
#define A uint8_t
#define U uint8_t
#define W int32_t
#define GET TRUTH
#define PUT TRUTH
#define REAL 0
#include "coll/reduce_type.inc"

#define REALS(t)                                                                      \
    {                                                                                 \
        sum_##t, avg_##t, product_##t, min_##t, max_##t, NULL, NULL, NULL, premul_##t \
    }
#define INTS(t)                                                                            \
    {                                                                                      \
        sum_##t, avg_##t, product_##t, min_##t, max_##t, band_##t, bor_##t, bxor_##t, NULL \
    }

extern const tti_reduce_table TTI_ISA_NAME(tti_reduce_table);
const tti_reduce_table TTI_ISA_NAME(tti_reduce_table) = {
    .fn = {
        [TT_F32] = REALS(f32),
        [TT_F64] = REALS(f64),
        [TT_F16] = REALS(f16),
        [TT_BF16] = REALS(bf16),
        [TT_I8] = INTS(i8),
        [TT_U8] = INTS(u8),
        [TT_I16] = INTS(i16),
        [TT_I32] = INTS(i32),
        [TT_I64] = INTS(i64),
        /* Sums and maxima of truths are `or`, products, minima and averages `and`. */
        [TT_BOOL] = { bor_truth, band_truth, band_truth, band_truth, bor_truth, band_truth, bor_truth,
                      bxor_truth, NULL },
    },
};
