/* SPDX-License-Identifier: Apache-2.0 */
/* gather and scatter on the CPU, and the typed rows that all indexed moves are made of. Moves care for
 * the size of an element only; additions for its type, and happen in the order of the index. */
#include "ops/cpu/index.h"

#include <complex.h>

#include "ops/cpu/vmath_half.h"

typedef struct wide {
    uint64_t a, b;
} wide;

#define ELEM uint8_t
#define NAME(f) f##_1
#include "ops/cpu/index_rows.inc"
#define ELEM uint16_t
#define NAME(f) f##_2
#include "ops/cpu/index_rows.inc"
#define ELEM uint32_t
#define NAME(f) f##_4
#include "ops/cpu/index_rows.inc"
#define ELEM uint64_t
#define NAME(f) f##_8
#include "ops/cpu/index_rows.inc"
#define ELEM wide
#define NAME(f) f##_16
#include "ops/cpu/index_rows.inc"

static float add_f16(tti_f16bits a, tti_f16bits b)
{
    return tti_f16_to_f32(a) + tti_f16_to_f32(b);
}

static float add_bf16(tti_bf16bits a, tti_bf16bits b)
{
    return tti_bf16_to_f32(a) + tti_bf16_to_f32(b);
}

#define PLUS(a, b) ((a) + (b))

#define ELEM float
#define NAME(f) f##_f32
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM double
#define NAME(f) f##_f64
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM uint8_t
#define NAME(f) f##_u8
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM uint16_t
#define NAME(f) f##_u16
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM uint32_t
#define NAME(f) f##_u32
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM uint64_t
#define NAME(f) f##_u64
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM bool
#define NAME(f) f##_bool
#define ADD(a, b) ((a) || (b))
#include "ops/cpu/index_add.inc"
#define ELEM tti_f16bits
#define NAME(f) f##_f16
#define ADD(a, b) tti_f32_to_f16(add_f16(a, b))
#include "ops/cpu/index_add.inc"
#define ELEM tti_bf16bits
#define NAME(f) f##_bf16
#define ADD(a, b) tti_f32_to_bf16(add_bf16(a, b))
#include "ops/cpu/index_add.inc"
#define ELEM float complex
#define NAME(f) f##_c64
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"
#define ELEM double complex
#define NAME(f) f##_c128
#define ADD(a, b) PLUS(a, b)
#include "ops/cpu/index_add.inc"

/* Sizes are powers of two up to 16: their logarithm counts the table. */
tti_row_fn tti_row_gather(size_t element_size)
{
    static const tti_row_fn fns[] = { gather_1, gather_2, gather_4, gather_8, gather_16 };

    return fns[__builtin_ctzl(element_size)];
}

tti_row_fn tti_row_put(size_t element_size)
{
    static const tti_row_fn fns[] = { put_1, put_2, put_4, put_8, put_16 };

    return fns[__builtin_ctzl(element_size)];
}

/* Signed integers add as unsigned ones, which wrap. */
static const struct {
    tti_row_fn put;
    tti_run_fn run;
} adders[TT_N_DTYPES] = {
    [TT_F32] = { put_add_f32, run_add_f32 }, [TT_F64] = { put_add_f64, run_add_f64 },
    [TT_F16] = { put_add_f16, run_add_f16 }, [TT_BF16] = { put_add_bf16, run_add_bf16 },
    [TT_I8] = { put_add_u8, run_add_u8 },    [TT_U8] = { put_add_u8, run_add_u8 },
    [TT_I16] = { put_add_u16, run_add_u16 }, [TT_I32] = { put_add_u32, run_add_u32 },
    [TT_I64] = { put_add_u64, run_add_u64 }, [TT_BOOL] = { put_add_bool, run_add_bool },
    [TT_C64] = { put_add_c64, run_add_c64 }, [TT_C128] = { put_add_c128, run_add_c128 },
};

tti_row_fn tti_row_put_add(tt_dtype dtype)
{
    return adders[dtype].put;
}

tti_run_fn tti_run_add(tt_dtype dtype)
{
    return adders[dtype].run;
}

/* ---- gather and scatter --------------------------------------------------------------------- */

/* How rows of the index map to the indexed tensor `t` and to the other one of the index's rank. */
typedef struct rows {
    int n_dims, dim;
    const int64_t *dims; /* of the index */
    int64_t n_rows;
    tti_index_row row; /* index at the first row */
    const int64_t *t_strides, *o_strides;
} rows;

static rows rows_of(const tt_tensor *t, int dim, const tt_tensor *index, const tt_tensor *other)
{
    int last = index->n_dims - 1;
    rows r = { .n_dims = index->n_dims,
               .dim = dim,
               .dims = index->dims,
               .t_strides = t->strides,
               .o_strides = other->strides };

    r.row.index = tti_data(index);
    r.row.n = last >= 0 ? index->dims[last] : 1;
    r.n_rows = r.row.n > 0 ? index->numel / r.row.n : 0;
    r.row.step = dim == last || last < 0 ? 0 : 1;
    r.row.stride = last >= 0 ? t->strides[dim] : 1;
    return r;
}

/* Row number -> offsets, in elements, of the row in t (without the indexed dimension) and other. */
static void row_at(const rows *r, int64_t number, int64_t *t_p, int64_t *other_p)
{
    int64_t t = 0, other = 0;

    for (int i = r->n_dims - 2; i >= 0; i--) {
        int64_t at = number % r->dims[i];

        number /= r->dims[i];
        t += i == r->dim ? 0 : at * r->t_strides[i];
        other += at * r->o_strides[i];
    }
    *t_p = t;
    *other_p = other;
}

tt_status tti_cpu_gather(tt_tensor *out, const tt_tensor *x, int dim, const tt_tensor *index)
{
    rows r = rows_of(x, dim, index, out);
    size_t e = tti_esize(x);
    tti_row_fn gather = tti_row_gather(e);
    char *to = tti_data(out);
    const char *from = tti_data(x);

    TT_TRY(tti_index_check("gather", index, dim, x->n_dims > 0 ? x->dims[dim] : 1));
    TTI_PARALLEL_FOR(tti_index_threads((size_t)index->numel * e), n, r.n_rows, 1, {
        tti_index_row row = r.row;
        int64_t t, other;

        row_at(&r, n, &t, &other);
        row.index += n * row.n;
        gather(to + (size_t)other * e, from + (size_t)t * e, &row);
    });
    return TT_OK;
}

static void scatter_rows(const rows *r, tti_row_fn put, char *out, const char *src, size_t e,
                         int64_t from, int64_t to)
{
    for (int64_t n = from; n < to; n++) {
        tti_index_row row = r->row;
        int64_t t, other;

        row_at(r, n, &t, &other);
        row.index += n * row.n;
        put(out + (size_t)t * e, src + (size_t)other * e, &row);
    }
}

/* Slabs of the first dimension never meet unless that is the indexed one. */
tt_status tti_cpu_scatter(tt_tensor *out, int dim, const tt_tensor *index, const tt_tensor *src,
                          bool add)
{
    rows r = rows_of(out, dim, index, src);
    size_t e = tti_esize(out);
    tti_row_fn put = add ? tti_row_put_add((tt_dtype)out->dtype) : tti_row_put(e);
    char *to = tti_data(out);
    const char *from = tti_data(src);
    int64_t slabs, each;

    TT_TRY(tti_index_check(add ? "scatter_add" : "scatter", index, dim,
                           out->n_dims > 0 ? out->dims[dim] : 1));
    if (index->numel == 0)
        return TT_OK;
    slabs = dim != 0 ? index->dims[0] : 1;
    each = r.n_rows / slabs;
    TTI_PARALLEL_FOR(slabs > 1 ? tti_index_threads((size_t)index->numel * e) : 1, i, slabs, 1,
                     scatter_rows(&r, put, to, from, e, i * each, (i + 1) * each));
    return TT_OK;
}
