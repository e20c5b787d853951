/* SPDX-License-Identifier: Apache-2.0 */
/* How element by element kernels meet their operands. A work-item does blocks of BLOCK elements: it reads the
 * operands into private memory as numbers of the compute type C, whatever their type and strides, computes there,
 * and stores the results. So there is one loop per operator, without a remainder, and any compiler vectorises it.
 * On devices that are not CPUs a block is one element, which lives in registers.
 *
 * C is float32 for itself and the 16-bit floats, int64 for all integers and bool, float64, and pairs of those. */
#ifdef CPU_DEVICE
#define BLOCK 256
#else
#define BLOCK 1
#endif
#define WALK_DIMS 9 /* TT_MAX_DIMS, and one for the two halves of 16-byte elements */

/* Loops that are not worth the compiler's time, those over rows, and those that compute. Widths are those of the
 * widest registers, which compilers do not use unless they are told to. */
#if defined(CPU_DEVICE) && defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define SLOW_LOOP _Pragma("clang loop vectorize(disable) unroll(disable)")
#define FAST_LOOP _Pragma("clang loop interleave(disable) unroll(disable)")
#if defined(IS_F32)
#define MATH_LOOP _Pragma("clang loop vectorize_width(16) interleave_count(1) unroll(disable)")
#define DENSE_LOOP _Pragma("clang loop vectorize(assume_safety) vectorize_width(16) interleave_count(1) unroll(disable)")
#elif defined(IS_F64) || defined(IS_I64)
#define MATH_LOOP _Pragma("clang loop vectorize_width(8) unroll(disable)")
#define DENSE_LOOP _Pragma("clang loop vectorize(assume_safety) vectorize_width(8) unroll(disable)")
#else
#define MATH_LOOP
#define DENSE_LOOP
#endif
#else
#define SLOW_LOOP
#define FAST_LOOP
#define MATH_LOOP
#define DENSE_LOOP
#endif

/* As in ops/accel/walk.h. dims[0] is the innermost dimension; strides are in elements. */
typedef struct walk_t {
    u64 n;
    i32 n_dims, op;
    i32 dtypes[4]; /* of the result and the operands */
    u64 q[4];      /* parameters, as bits */
    i64 dims[WALK_DIMS];
    i64 strides[4][WALK_DIMS];
} walk_t;

/* tt_dtype */
enum { DT_F32, DT_F64, DT_F16, DT_BF16, DT_I8, DT_U8, DT_I16, DT_I32, DT_I64, DT_BOOL, DT_C64, DT_C128 };

#if defined(IS_F32)
#define C f32
#elif defined(IS_F64)
#define C f64
#elif defined(IS_I64)
#define C i64
#else
#define C complex_t
#endif

/* Where element e of operand k is; at[d] becomes its place in dimension d. */
FN i64 walk_place(const walk_t *w, int k, u64 e, i64 *at)
{
    int last = w->n_dims - 1;
    i64 place = 0;
    u64 rest = e;

    SLOW_LOOP
    for (int d = 0; d < last; d++) {
        u64 size = (u64)w->dims[d], next = rest / size;

        at[d] = (i64)(rest - next * size);
        place += at[d] * w->strides[k][d];
        rest = next;
    }
    at[last] = (i64)rest;
    return place + (i64)rest * w->strides[k][last];
}

/* From anywhere in a row to the start of the next one. */
FN i64 walk_next(const walk_t *w, int k, i64 place, i64 *at)
{
    place -= at[0] * w->strides[k][0];
    at[0] = 0;
    SLOW_LOOP
    for (int d = 1; d < w->n_dims; d++) {
        place += w->strides[k][d];
        if (++at[d] < w->dims[d])
            break;
        at[d] = 0;
        place -= w->dims[d] * w->strides[k][d];
    }
    return place;
}

/* ---- a row of elements of type S: dense, one value, or strided ----------------------------------- */

#define READ_ROW(S, GET)                                    \
    {                                                       \
        GLOBAL const S *from = (GLOBAL const S *)p + place; \
        if (stride == 1)                                    \
            FAST_LOOP                                       \
            for (int i = 0; i < n; i++)                     \
                x[i] = GET(from, i);                        \
        else if (stride == 0) {                             \
            C one = GET(from, 0);                           \
            FAST_LOOP                                       \
            for (int i = 0; i < n; i++)                     \
                x[i] = one;                                 \
        } else                                              \
            SLOW_LOOP                                       \
            for (int i = 0; i < n; i++)                     \
                x[i] = GET(from, i * stride);               \
    }                                                       \
    break
#define WRITE_ROW(S, PUT)                       \
    {                                           \
        GLOBAL S *to = (GLOBAL S *)p + place;   \
        if (stride == 1)                        \
            FAST_LOOP                           \
            for (int i = 0; i < n; i++)         \
                PUT(to, i, x[i]);               \
        else                                    \
            SLOW_LOOP                           \
            for (int i = 0; i < n; i++)         \
                PUT(to, i * stride, x[i]);      \
    }                                           \
    break

#define GET(p, i) ((C)(p)[i])
#define GET_PAIR(p, i) ((p)[i])
#define PUT_F32(p, i, x) ((p)[i] = (f32)(x))
#define PUT_F64(p, i, x) ((p)[i] = (f64)(x))
#define PUT_I8(p, i, x) ((p)[i] = (i8)(x))
#define PUT_U8(p, i, x) ((p)[i] = (u8)(x))
#define PUT_I16(p, i, x) ((p)[i] = (i16)(x))
#define PUT_I32(p, i, x) ((p)[i] = (i32)(x))
#define PUT_I64(p, i, x) ((p)[i] = (i64)(x))
#define PUT_BOOL(p, i, x) ((p)[i] = (x) != 0)
#define PUT_PAIR(p, i, x) ((p)[i] = (x))
#define PUT_REAL(p, i, x) ((p)[i] = (x).re)
#define PUT_TRUTH(p, i, x) ((p)[i] = (x).re != 0)

/* Operands of the types that are computed in C; bool is the condition of `where`. */
FN void read_row(C *x, GLOBAL const char *p, int dtype, i64 place, i64 stride, int n)
{
    switch (dtype) {
#if defined(IS_F32)
    case DT_F32: READ_ROW(f32, GET);
    case DT_F16: READ_ROW(u16, READ_F16);
    case DT_BF16: READ_ROW(u16, LDB);
    default: READ_ROW(u8, GET);
#elif defined(IS_F64)
    case DT_F64: READ_ROW(f64, GET);
    default: READ_ROW(u8, GET);
#elif defined(IS_I64)
    case DT_I8: READ_ROW(i8, GET);
    case DT_I16: READ_ROW(i16, GET);
    case DT_I32: READ_ROW(i32, GET);
    case DT_I64: READ_ROW(i64, GET);
    default: READ_ROW(u8, GET);
#else
#define GET_TRUTH(p, i) make((R)(p)[i], 0)
    case DT_BOOL: READ_ROW(u8, GET_TRUTH);
    default: READ_ROW(T, GET_PAIR);
#endif
    }
}

FN void write_row(const C *x, GLOBAL char *p, int dtype, i64 place, i64 stride, int n)
{
    switch (dtype) {
#if defined(IS_F32)
    case DT_F32: WRITE_ROW(f32, PUT_F32);
    case DT_F16: WRITE_ROW(u16, WRITE_F16);
    case DT_BF16: WRITE_ROW(u16, STB);
    default: WRITE_ROW(u8, PUT_BOOL);
#elif defined(IS_F64)
    case DT_F64: WRITE_ROW(f64, PUT_F64);
    default: WRITE_ROW(u8, PUT_BOOL);
#elif defined(IS_I64)
    case DT_I8: WRITE_ROW(i8, PUT_I8);
    case DT_U8: WRITE_ROW(u8, PUT_U8);
    case DT_I16: WRITE_ROW(i16, PUT_I16);
    case DT_I32: WRITE_ROW(i32, PUT_I32);
    case DT_I64: WRITE_ROW(i64, PUT_I64);
    default: WRITE_ROW(u8, PUT_BOOL);
#else
    case DT_BOOL: WRITE_ROW(u8, PUT_TRUTH);
    case DT_F32:
    case DT_F64: WRITE_ROW(R, PUT_REAL);
    default: WRITE_ROW(T, PUT_PAIR);
#endif
    }
}

/* ---- a block: n elements from e on, over as many rows as they take ---------------------------------- */

FN void walk_read(C *x, GLOBAL const char *p, const walk_t *w, int k, u64 e, int n)
{
    i64 at[WALK_DIMS];
    i64 place = walk_place(w, k, e, at), stride = w->strides[k][0];

    for (int done = 0;;) {
        i64 left = w->dims[0] - at[0];
        int row = left < n - done ? (int)left : n - done;

        read_row(x + done, p, w->dtypes[k], place, stride, row);
        done += row;
        if (done == n)
            break;
        place = walk_next(w, k, place, at);
    }
}

/* STORE is write_row, or a function of the same kind that knows other types. */
#define WALK_WRITE(x, p, w, e, n, STORE)                                                    \
    {                                                                                       \
        i64 at[WALK_DIMS];                                                                  \
        i64 place = walk_place(w, 0, e, at), stride = (w)->strides[0][0];                   \
                                                                                            \
        for (int done = 0;;) {                                                              \
            i64 left = (w)->dims[0] - at[0];                                                \
            int row = left < (n) - done ? (int)left : (n) - done;                           \
                                                                                            \
            STORE((x) + done, p, (w)->dtypes[0], place, stride, row);                       \
            done += row;                                                                    \
            if (done == (n))                                                                \
                break;                                                                      \
            place = walk_next(w, 0, place, at);                                             \
        }                                                                                   \
    }
