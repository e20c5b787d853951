/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on accelerators against the CPU: the CPU's kernel in a stream, and the kernels of other devices. */
#include "accel_nn.h"

enum { CAUSAL = 1, MASK = 2, DROP = 4, SOME = 8, FUSED = 16 };

/* n = batch * 10 + heads, len_q, len_k, dim_qk * 1000 + dim_v */
typedef struct sizes {
    int64_t batch, heads, len_q, len_k, dim_qk, dim_v;
} sizes;

static sizes sizes_of(const accel_run *r)
{
    return (sizes){ r->n[0] / 10, r->n[0] % 10, r->n[1], r->n[2], r->n[3] / 1000, r->n[3] % 1000 };
}

/* [batch, heads, rows, cols]; FUSED: as it lies in a projection, [batch, rows, heads, cols]. */
static tt_tensor *operand(accel_run *r, int64_t rows, int64_t cols, uint64_t stream)
{
    sizes z = sizes_of(r);

    if ((r->flags & FUSED) == 0)
        return accel_in(r, TT_SHAPE(z.batch, z.heads, rows, cols), stream);
    return tt_permute(accel_in(r, TT_SHAPE(z.batch, rows, z.heads, cols), stream),
                      (const int[]){ 0, 2, 1, 3 }, 4);
}

static tt_tensor *mask_of(accel_run *r)
{
    sizes z = sizes_of(r);
    tt_tensor *m = tt_full(TT_SHAPE(z.len_q, z.len_k), 0.0, r->dtype, TT_CPU);
    int64_t dims[4] = { z.batch, z.heads, z.len_q, z.len_k }, strides[4] = { 0, 0, z.len_k, 1 };

    for (int64_t i = 0; i < z.len_q * z.len_k; i++)
        if (i % 3 == 0 || i / z.len_k == 2) { /* row 2 sees nothing */
            if (r->dtype == TT_F64)
                ((double *)tt_tensor_data(m))[i] = -INFINITY;
            else
                ((float *)tt_tensor_data(m))[i] = -INFINITY;
        }
    m = accel_put(m, r->d);
    return tti_view_raw(m, dims, strides, 4, 0);
}

static tt_status attend(accel_run *r)
{
    sizes z = sizes_of(r);
    tt_tensor *q = operand(r, z.len_q, z.dim_qk, 1), *k = operand(r, z.len_k, z.dim_qk, 2);
    tt_tensor *v = operand(r, z.len_k, z.dim_v, 3), *dout = operand(r, z.len_q, z.dim_v, 4);
    const tt_tensor *qkv[3] = { q, k, v };
    tti_attention a = { .batch = z.batch,
                        .heads = z.heads,
                        .len_q = z.len_q,
                        .len_k = z.len_k,
                        .dim_qk = z.dim_qk,
                        .dim_v = z.dim_v,
                        .scale = 0.7,
                        .causal = (r->flags & CAUSAL) != 0,
                        .mask = r->flags & MASK ? mask_of(r) : NULL,
                        .dropout_p = r->flags & DROP ? 0.3 : 0.0,
                        .seed = 77,
                        .offset = 5 };
    tt_tensor *out = accel_out(r, TT_SHAPE(z.batch, z.heads, z.len_q, z.dim_v), r->dtype);
    tt_tensor *lse = accel_out(r, TT_SHAPE(z.batch, z.heads, z.len_q), r->dtype);
    tt_tensor *dq = accel_out(r, TT_SHAPE(z.batch, z.heads, z.len_q, z.dim_qk), r->dtype);
    tt_tensor *dk = r->flags & SOME
                        ? NULL
                        : accel_out(r, TT_SHAPE(z.batch, z.heads, z.len_k, z.dim_qk), r->dtype);
    tt_tensor *dv = accel_out(r, TT_SHAPE(z.batch, z.heads, z.len_k, z.dim_v), r->dtype);

    TT_TRY(accel_nn(r)->attention(out, lse, qkv, &a));
    TT_TRY(accel_nn(r)->attention_grad((tt_tensor *[3]){ dq, dk, dv }, dout, qkv,
                                       (const tt_tensor *[2]){ out, lse }, &a));
    return r->d.kind == TT_DEVICE_CPU ? TT_OK : tt_device_sync(r->d);
}

ACCEL_TEST(accel_nn, attention)
{
    static const int64_t shapes[][4] = {
        { 11, 5, 5, 3004 }, { 22, 9, 70, 8008 }, { 12, 130, 66, 16005 }, { 11, 1, 1, 1001 }
    };

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int t = 0; t < 2 && t < accel_types; t++)
            for (unsigned flags = 0; flags < 32; flags++) {
                accel_run r = { .dtype = accel_floats[t], .flags = flags };

                if (t > 0 && flags != 7)
                    continue;
                memcpy(r.n, shapes[i], sizeof r.n);
                accel_compare_tol("attend", attend, r, 5e-5);
            }
}

ACCEL_TEST(accel_nn, attention_of_nothing)
{
    accel_run r = { .dtype = TT_F32, .n = { 12, 0, 4, 4004 }, .d = tt_cl(0) };

    TT_CHECK_OK(attend(&r));
    r = (accel_run){ .dtype = TT_F32, .n = { 12, 3, 0, 4004 }, .d = tt_cl(0) };
    TT_CHECK_OK(attend(&r));
    TT_CHECK_NEAR(nn_read(tt_to_device(r.out[0], TT_CPU), 0)[0], 0.0, 0.0);
}

/* Quick enough for a simulator that checks every access. */
ACCEL_TEST(accel_nn, small_attention)
{
    accel_run r = { .dtype = TT_F32, .n = { 12, 6, 9, 4003 } };

    for (r.flags = 0; r.flags < 8; r.flags++)
        accel_compare_tol("attend", attend, r, 5e-5);
    memcpy(r.n, (const int64_t[]){ 11, 3, 67, 2002 }, sizeof r.n); /* more than one tile of keys */
    accel_compare_tol("attend", attend, r, 5e-5);
    r.dtype = TT_F64;
    accel_compare_tol("attend", attend, r, 5e-5);
}
