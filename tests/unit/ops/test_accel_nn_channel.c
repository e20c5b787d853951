/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm and group norm on accelerators against the CPU. */
#include "accel_nn.h"

/* x [n, c, h, w] as flags say: LAST in memory with the channels last. */
enum { LAST = 1, WEIGHT = 2, BIAS = 4, WIDE = 8 };

static tt_tensor *image(accel_run *r, uint64_t stream)
{
    tt_shape s = TT_SHAPE(r->n[0], r->n[1], r->n[2], r->n[3]);
    tt_tensor *x =
        nn_values(r->flags & LAST ? TT_SHAPE(s.dims[0], s.dims[2], s.dims[3], s.dims[1]) : s,
                  r->dtype, stream);

    x = accel_put(x, r->d);
    return r->flags & LAST ? tt_permute(x, (const int[]){ 0, 3, 1, 2 }, 4) : x;
}

/* Room with the strides of an image; what is compared is the memory in order. */
static tt_tensor *room(accel_run *r)
{
    int64_t n = r->n[0] * r->n[1] * r->n[2] * r->n[3];
    tt_tensor *flat = accel_out(r, TT_SHAPE(n), r->dtype);

    if (r->flags & LAST)
        return tt_permute(tt_reshape(flat, TT_SHAPE(r->n[0], r->n[2], r->n[3], r->n[1])),
                          (const int[]){ 0, 3, 1, 2 }, 4);
    return tt_reshape(flat, TT_SHAPE(r->n[0], r->n[1], r->n[2], r->n[3]));
}

static tt_status stats(accel_run *r)
{
    tt_dtype real = r->dtype == TT_F64 || r->flags & WIDE ? TT_F64 : TT_F32;
    tt_tensor *mean = accel_out(r, TT_SHAPE(r->n[1]), real);

    return accel_nn(r)->batch_norm_stats(mean, accel_out(r, TT_SHAPE(r->n[1]), real), image(r, 1));
}

static tt_status apply(accel_run *r)
{
    tt_shape c = TT_SHAPE(r->n[1]);
    tt_tensor *w = r->flags & WEIGHT ? accel_real(r, c, 3) : NULL;
    tt_tensor *b = r->flags & BIAS ? accel_real(r, c, 4) : NULL;
    tt_tensor *mean = r->flags & WIDE ? NULL : accel_real(r, c, 5);

    return accel_nn(r)->batch_norm_apply(room(r), image(r, 1), mean, accel_real(r, c, 6), w, b);
}

static tt_status grad(accel_run *r)
{
    tt_shape c = TT_SHAPE(r->n[1]);
    tt_dtype real = r->dtype == TT_F64 || r->flags & WIDE ? TT_F64 : TT_F32;
    tt_tensor *w = r->flags & WEIGHT ? accel_real(r, c, 3) : NULL;
    const tt_tensor *stat[2] = { accel_real(r, c, 5), accel_real(r, c, 6) };
    tt_tensor *dw = accel_out(r, c, real), *db = accel_out(r, c, real);
    tt_tensor *x = image(r, 1), *dy = image(r, 2);
    const tt_tensor *sums[2] = { dw, db };

    TT_TRY(accel_nn(r)->batch_norm_grad(room(r), dw, db, dy, x, w, stat));
    TT_TRY(accel_nn(r)->batch_norm_grad(NULL, NULL, accel_out(r, c, real), dy, x, w, stat));
    return accel_nn(r)->batch_norm_input_grad(room(r), dy, x, w, stat, sums, 100.0);
}

static const int64_t images[][4] = {
    { 2, 3, 4, 5 }, { 3, 70, 2, 3 }, { 5, 130, 1, 1 }, { 1, 2, 70, 70 }, { 300, 3, 1, 2 }
};

ACCEL_TEST(accel_nn, batch_norm)
{
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned flags = 0; flags < 16; flags++) {
                accel_run r = { .dtype = accel_floats[t], .flags = flags };
                double tol = 4 * accel_tolerance(r.dtype);

                if (t > 0 && flags != 3 && flags != 14)
                    continue;
                memcpy(r.n, images[i], sizeof r.n);
                accel_compare_tol("stats", stats, r, tol);
                accel_compare_tol("apply", apply, r, tol);
                accel_compare_tol("grad", grad, r, tol);
            }
}

ACCEL_TEST(accel_nn, batch_norm_of_nothing)
{
    accel_run r = { .dtype = TT_F32, .n = { 0, 3, 2, 2 }, .d = tt_cl(0) };
    tt_tensor *db = accel_out(&r, TT_SHAPE(3), TT_F32);
    const tt_tensor *stat[2] = { accel_real(&r, TT_SHAPE(3), 1), accel_real(&r, TT_SHAPE(3), 2) };

    TT_CHECK_OK(
        accel_nn(&r)->batch_norm_apply(room(&r), image(&r, 1), stat[0], stat[1], NULL, NULL));
    TT_CHECK_OK(
        accel_nn(&r)->batch_norm_grad(NULL, NULL, db, image(&r, 1), image(&r, 2), NULL, stat));
    TT_CHECK_VALUES(tt_to_device(db, TT_CPU), 0, 0, 0);
}

/* Means far from zero lose nothing of the variance. */
static tt_status far_stats(accel_run *r)
{
    tt_tensor *mean = accel_out(r, TT_SHAPE(2), TT_F32), *var = accel_out(r, TT_SHAPE(2), TT_F32);
    tt_tensor *x = tt_add_scalar(nn_values(TT_SHAPE(4, 2, 30, 30), TT_F32, 1), 1000.0);

    return accel_nn(r)->batch_norm_stats(mean, var, accel_put(x, r->d));
}

ACCEL_TEST(accel_nn, variance_far_from_zero)
{
    accel_compare_tol("far_stats", far_stats, (accel_run){ .dtype = TT_F32 }, 1e-4);
}

/* ---- group norm: n, c, inner, groups ------------------------------------------------------------- */

static tt_status group(accel_run *r)
{
    tt_dtype real = r->dtype == TT_F64 ? TT_F64 : TT_F32;
    tt_shape s = TT_SHAPE(r->n[0], r->n[1], r->n[2]), c = TT_SHAPE(r->n[1]);
    tt_shape rows = TT_SHAPE(r->n[0] * r->n[3]);
    tt_tensor *w = r->flags & WEIGHT ? accel_real(r, c, 3) : NULL;
    tt_tensor *b = r->flags & BIAS ? accel_real(r, c, 4) : NULL;
    tt_tensor *mean = accel_out(r, rows, real), *rstd = accel_out(r, rows, real);
    tt_tensor *x = accel_in(r, s, 1), *dy = accel_in(r, s, 2);
    tt_tensor *dw = r->flags & WEIGHT ? accel_out(r, c, real) : NULL;
    tt_tensor *db = r->flags & BIAS ? accel_out(r, c, real) : NULL;

    TT_TRY(accel_nn(r)->group_norm(accel_out(r, s, r->dtype), mean, rstd, x, w, b, 1e-5));
    return accel_nn(r)->group_norm_grad(accel_out(r, s, r->dtype), dw, db, dy, x, w,
                                        (const tt_tensor *[2]){ mean, rstd });
}

ACCEL_TEST(accel_nn, group_norm)
{
    static const int64_t sizes[][4] = {
        { 2, 4, 9, 2 }, { 3, 6, 40, 6 }, { 1, 8, 7, 1 }, { 2, 2, 3000, 1 }, { 4, 12, 1, 4 }
    };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned flags = 0; flags < 8; flags += 2) {
                accel_run r = { .dtype = accel_floats[t], .flags = flags };

                memcpy(r.n, sizes[i], sizeof r.n);
                accel_compare_tol("group", group, r, 8 * accel_tolerance(r.dtype));
            }
}

/* Quick enough for a simulator that checks every access. */
ACCEL_TEST(accel_nn, small_channels)
{
    for (unsigned flags = 6; flags < 8; flags++) {
        accel_run r = { .dtype = TT_F32, .flags = flags, .n = { 2, 3, 2, 5 } };

        accel_compare_tol("stats", stats, r, 1e-4);
        accel_compare_tol("apply", apply, r, 1e-4);
        accel_compare_tol("grad", grad, r, 1e-4);
    }
    accel_compare_tol("group", group,
                      (accel_run){ .dtype = TT_F32, .flags = 6, .n = { 2, 4, 9, 2 } }, 1e-4);
}
