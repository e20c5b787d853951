/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, losses, layer norm and dropout on accelerators against the CPU. */
#include "accel_nn.h"

/* ---- softmax: n = outer, n, inner; flag 1: logarithm ------------------------------------------- */

static tt_status softmax(accel_run *r)
{
    tt_shape s = TT_SHAPE(r->n[0], r->n[1], r->n[2]);
    tt_tensor *x = tt_mul_scalar(nn_values(s, r->dtype, 1), 20.0);

    return accel_nn(r)->softmax(accel_out(r, s, r->dtype), accel_put(x, r->d), r->n[1], r->n[2],
                                r->flags != 0);
}

static tt_status softmax_grad(accel_run *r)
{
    tt_shape s = TT_SHAPE(r->n[0], r->n[1], r->n[2]);

    return accel_nn(r)->softmax_grad(accel_out(r, s, r->dtype), accel_in(r, s, 1),
                                     accel_in(r, s, 2), r->n[1], r->n[2], r->flags != 0);
}

ACCEL_TEST(accel_nn, softmax)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },    { 3, 5, 1 },   { 4, 33, 1 },
                                        { 2, 5000, 1 }, { 2, 7, 3 },   { 1, 4, 130 },
                                        { 3, 65, 2 },   { 40, 64, 1 }, { 0, 4, 1 } };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned log = 0; log < 2; log++) {
                accel_compare(softmax, .dtype = accel_floats[t], .flags = log,
                              .n = { sizes[i][0], sizes[i][1], sizes[i][2] });
                accel_compare(softmax_grad, .dtype = accel_floats[t], .flags = log,
                              .n = { sizes[i][0], sizes[i][1], sizes[i][2] });
            }
}

static tt_status softmax_special(accel_run *r)
{
    static const float rows[4][5] = { { INFINITY, 0, 1, 2, 3 },
                                      { -INFINITY, 0, 1, 2, 3 },
                                      { NAN, 0, 1, 2, 3 },
                                      { -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY } };
    tt_tensor *x = accel_put(tt_from_data(rows, TT_SHAPE(4, 5), TT_F32), r->d);

    return accel_nn(r)->softmax(accel_out(r, TT_SHAPE(4, 5), TT_F32), x, 5, 1, r->flags != 0);
}

ACCEL_TEST(accel_nn, softmax_of_infinities)
{
    accel_compare(softmax_special, .dtype = TT_F32);
    accel_compare(softmax_special, .dtype = TT_F32, .flags = 1);
}

/* ---- cross-entropy: rows, classes; flags 1: weights, 2: ignored rows, 4: a scale for each row ------- */

static tt_status entropy(accel_run *r)
{
    tt_dtype real = r->dtype == TT_F64 ? TT_F64 : TT_F32;
    tt_tensor *x = accel_in(r, TT_SHAPE(r->n[0], r->n[1]), 1);
    tt_tensor *t = accel_ints(r, r->n[0], r->n[1], r->flags & 2 ? -1 : 0, 2);
    tt_tensor *w = r->flags & 1 ? accel_real(r, TT_SHAPE(r->n[1]), 3) : NULL;
    tt_tensor *scale = accel_real(r, r->flags & 4 ? TT_SHAPE(r->n[0]) : TT_SHAPE_SCALAR, 4);
    tt_tensor *losses = accel_out(r, TT_SHAPE(r->n[0]), real);
    tt_tensor *lse = accel_out(r, TT_SHAPE(r->n[0]), real);
    tt_tensor *dx = accel_out(r, TT_SHAPE(r->n[0], r->n[1]), r->dtype);

    TT_TRY(accel_nn(r)->cross_entropy(losses, lse, x, t, w));
    return accel_nn(r)->cross_entropy_grad(dx, x, lse, t, w, scale, 0.25);
}

ACCEL_TEST(accel_nn, cross_entropy)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 5, 10 }, { 33, 65 }, { 3, 4097 }, { 0, 3 } };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned flags = 0; flags < 8; flags += t == 0 ? 1 : 7)
                accel_compare(entropy, .dtype = accel_floats[t], .flags = flags,
                              .n = { sizes[i][0], sizes[i][1] });
}

ACCEL_TEST(accel_nn, a_bad_class_is_reported)
{
    accel_run r = { .d = tt_cl(0), .dtype = TT_F32 };
    tt_tensor *x = accel_in(&r, TT_SHAPE(3, 4), 1), *losses = accel_out(&r, TT_SHAPE(3), TT_F32);
    const int64_t bad[3] = { 1, 9, 2 };
    tt_tensor *t = accel_put(tt_from_data(bad, TT_SHAPE(3), TT_I64), r.d);

    TT_CHECK_OK(
        accel_nn(&r)->cross_entropy(losses, accel_out(&r, TT_SHAPE(3), TT_F32), x, t, NULL));
    TT_CHECK_ERR_SAYS(tt_device_sync(r.d), TT_ERR_INVALID, "cross_entropy");
    TT_CHECK_OK(tt_device_sync(r.d));
    TT_CHECK_NEAR(nn_read(tt_to_device(losses, TT_CPU), 0)[1], 0.0, 0.0);
}

/* ---- losses of pairs: n elements; flags: the kind ---------------------------------------------------- */

static tt_status pairs(accel_run *r)
{
    const double p[2] = { 1.0 / (double)(r->n[0] > 0 ? r->n[0] : 1), 0.3 };
    tt_tensor *a = accel_in(r, TT_SHAPE(r->n[0]), 1), *b = accel_in(r, TT_SHAPE(r->n[0]), 2);
    tt_tensor *g = accel_in(r, TT_SHAPE_SCALAR, 3), *out = accel_out(r, TT_SHAPE_SCALAR, r->dtype);
    tt_tensor *da = accel_out(r, TT_SHAPE(r->n[0]), r->dtype);

    TT_TRY(accel_nn(r)->pair_loss((tti_pair_loss)r->flags, out, a, b, p));
    return accel_nn(r)->pair_loss_grad((tti_pair_loss)r->flags, da, g, a, b, p);
}

ACCEL_TEST(accel_nn, losses_of_pairs)
{
    static const int64_t sizes[] = { 0, 1, 31, 4096, 4097, 20011 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned kind = 0; kind < TTI_N_PAIR_LOSSES; kind++)
                accel_compare(pairs, .dtype = accel_floats[t], .flags = kind, .n = { sizes[i] });
}

/* ---- layer norm: rows, n; flags 1: weight, 2: bias, 4: root mean square ------------------------------- */

static tt_status layer(accel_run *r)
{
    tt_dtype real = r->dtype == TT_F64 ? TT_F64 : TT_F32;
    tt_shape s = TT_SHAPE(r->n[0], r->n[1]), v = TT_SHAPE(r->n[1]);
    tt_tensor *x = accel_in(r, s, 1), *dy = accel_in(r, s, 2);
    tt_tensor *w = r->flags & 1 ? accel_in(r, v, 3) : NULL;
    tt_tensor *b = r->flags & 2 ? accel_in(r, v, 4) : NULL;
    tt_tensor *mean = r->flags & 4 ? NULL : accel_out(r, TT_SHAPE(r->n[0]), real);
    tt_tensor *rstd = accel_out(r, TT_SHAPE(r->n[0]), real);
    tt_tensor *y = accel_out(r, s, r->dtype), *dx = accel_out(r, s, r->dtype);
    tt_tensor *dw = r->flags & 1 ? accel_out(r, v, r->dtype) : NULL;
    tt_tensor *db = r->flags & 2 ? accel_out(r, v, r->dtype) : NULL;

    TT_TRY(accel_nn(r)->layer_norm(y, mean, rstd, x, w, b, 1e-5));
    return accel_nn(r)->layer_norm_grad(dx, dw, db, dy, x, w, (const tt_tensor *[2]){ mean, rstd });
}

ACCEL_TEST(accel_nn, layer_norm)
{
    static const int64_t sizes[][2] = { { 2, 3 },    { 40, 33 },  { 5, 384 },
                                        { 700, 20 }, { 2, 5000 }, { 0, 8 } };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned flags = 0; flags < 8; flags++)
                if (t == 0 || flags == 3)
                    accel_compare_tol("layer", layer,
                                      (accel_run){ .dtype = accel_floats[t],
                                                   .flags = flags,
                                                   .n = { sizes[i][0], sizes[i][1] } },
                                      4 * accel_tolerance(accel_floats[t]));
}

static tt_status only_dx(accel_run *r)
{
    tt_shape s = TT_SHAPE(r->n[0], r->n[1]);
    tt_tensor *mean = accel_real(r, TT_SHAPE(r->n[0]), 5),
              *rstd = accel_real(r, TT_SHAPE(r->n[0]), 6);
    tt_tensor *x = accel_in(r, s, 1), *dy = accel_in(r, s, 2);

    TT_TRY(accel_nn(r)->layer_norm_grad(accel_out(r, s, r->dtype), NULL, NULL, dy, x, NULL,
                                        (const tt_tensor *[2]){ mean, rstd }));
    return accel_nn(r)->layer_norm_grad(NULL, NULL, accel_out(r, TT_SHAPE(r->n[1]), r->dtype), dy,
                                        x, NULL, (const tt_tensor *[2]){ mean, rstd });
}

ACCEL_TEST(accel_nn, parts_of_the_gradient_of_layer_norm)
{
    accel_compare(only_dx, .dtype = TT_F32, .n = { 9, 70 });
    accel_compare(only_dx, .dtype = TT_F64, .n = { 9, 70 });
}

/* ---- dropout: n elements --------------------------------------------------------------------------------- */

static tt_status dropout(accel_run *r)
{
    tt_shape s = TT_SHAPE(r->n[0]);

    return accel_nn(r)->dropout(accel_out(r, s, r->dtype), accel_in(r, s, 1), r->flags / 10.0,
                                tt_test_seed(), 0xffffffffu - 2);
}

ACCEL_TEST(accel_nn, dropout_draws_the_cpus_numbers)
{
    static const int64_t sizes[] = { 0, 1, 3, 64, 65, 10001 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < accel_types; t++)
            for (unsigned p = 0; p < 10; p += 3)
                accel_compare_tol(
                    "dropout", dropout,
                    (accel_run){ .dtype = accel_floats[t], .flags = p, .n = { sizes[i] } }, 0.0);
}

/* Quick enough for a simulator that checks every access. */
ACCEL_TEST(accel_nn, small_rows)
{
    for (unsigned flags = 0; flags < 2; flags++) {
        accel_compare(softmax, .dtype = TT_F32, .flags = flags, .n = { 3, 11, 1 });
        accel_compare(softmax, .dtype = TT_F32, .flags = flags, .n = { 2, 5, 3 });
        accel_compare(softmax_grad, .dtype = TT_F32, .flags = flags, .n = { 3, 11, 1 });
        accel_compare(softmax_grad, .dtype = TT_F32, .flags = flags, .n = { 2, 5, 3 });
    }
    accel_compare(entropy, .dtype = TT_F32, .flags = 7, .n = { 5, 10 });
    for (unsigned kind = 0; kind < TTI_N_PAIR_LOSSES; kind++)
        accel_compare(pairs, .dtype = TT_F32, .flags = kind, .n = { 21 });
    accel_compare(layer, .dtype = TT_F32, .flags = 3, .n = { 18, 11 });
    accel_compare(layer, .dtype = TT_F32, .flags = 7, .n = { 3, 9 });
    accel_compare(dropout, .dtype = TT_F32, .flags = 3, .n = { 35 });
}
