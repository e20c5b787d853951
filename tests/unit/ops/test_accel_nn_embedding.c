/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables, bags of them, and their gradients on accelerators against the CPU: the same bits where sums are
 * made in the same order. */
#include "accel_nn.h"

/* ---- single rows: rows, dim, n ------------------------------------------------------------------- */

static tt_status look_up(accel_run *r)
{
    tt_tensor *w = accel_in(r, TT_SHAPE(r->n[0], r->n[1]), 1);
    tt_tensor *at = accel_ints(r, r->n[2], r->n[0], 0, 2);

    return accel_nn(r)->embedding(accel_out(r, TT_SHAPE(r->n[2], r->n[1]), r->dtype), w, at);
}

static tt_status look_up_grad(accel_run *r)
{
    tt_tensor *dy = accel_in(r, TT_SHAPE(r->n[2], r->n[1]), 1);
    tt_tensor *at = accel_ints(r, r->n[2], r->n[0], 0, 2);

    return accel_nn(r)->embedding_grad(accel_out(r, TT_SHAPE(r->n[0], r->n[1]), r->dtype), dy, at,
                                       r->flags != 0 ? 1 : -1);
}

static const int64_t tables[][3] = { { 5, 3, 20 },   { 65, 64, 300 }, { 7, 130, 9 },
                                     { 300, 1, 50 }, { 4, 5, 0 },     { 3, 0, 4 } };

ACCEL_TEST(accel_nn, embedding)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        accel_run r = { .n = { tables[i][0], tables[i][1], tables[i][2] } };

        for (int t = 0; t < accel_types; t++) {
            r.dtype = accel_floats[t];
            accel_compare_tol("look_up", look_up, r, 0.0);
        }
        for (r.flags = 0; r.flags < 2; r.flags++)
            for (int t = 0; t < 2 && t < accel_types; t++) {
                r.dtype = accel_floats[t];
                accel_compare_tol("look_up_grad", look_up_grad, r, 0.0);
            }
    }
}

static tt_status any_type(accel_run *r)
{
    tt_tensor *w =
        tt_to_dtype(tt_mul_scalar(nn_values(TT_SHAPE(9, 7), TT_F64, 1), 100.0), r->dtype);
    tt_tensor *at = accel_ints(r, 30, 9, 0, 2);

    return accel_nn(r)->embedding(accel_out(r, TT_SHAPE(30, 7), r->dtype), accel_put(w, r->d), at);
}

ACCEL_TEST(accel_nn, embedding_of_any_type)
{
    static const tt_dtype types[] = { TT_I8, TT_I16, TT_I32, TT_I64, TT_BOOL, TT_U8 };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        accel_compare_tol("any_type", any_type, (accel_run){ .dtype = types[i] }, 0.0);
}

static void check_bad_index(int64_t bad)
{
    accel_run r = { .d = tt_cl(0), .dtype = TT_F32 };
    const int64_t index[3] = { 1, bad, 2 };
    tt_tensor *at = accel_put(tt_from_data(index, TT_SHAPE(3), TT_I64), r.d);
    tt_tensor *w = accel_in(&r, TT_SHAPE(4, 2), 1), *out = accel_out(&r, TT_SHAPE(3, 2), TT_F32);
    tt_tensor *dw = accel_out(&r, TT_SHAPE(4, 2), TT_F32);
    char words[64];

    snprintf(words, sizeof words, "embedding: index %lld at position 1", (long long)bad);
    TT_CHECK_OK(accel_nn(&r)->embedding(out, w, at));
    TT_CHECK_ERR_SAYS(tt_device_sync(r.d), TT_ERR_INVALID, words);
    TT_CHECK_OK(accel_nn(&r)->embedding_grad(dw, out, at, -1));
    TT_CHECK_OK(tt_device_sync(r.d));
}

ACCEL_TEST(accel_nn, a_bad_index_is_reported)
{
    check_bad_index(4);
    check_bad_index(-1);
    check_bad_index(INT64_MAX);
}

/* ---- bags: rows, dim, bags, n; flags: mode, 4: padding, 8: a factor for each member, 16: some in no bag ------ */

static tt_tensor *bag_offsets(accel_run *r)
{
    int64_t bags = r->n[2], n = r->n[3] - (r->flags & 16 ? r->n[3] / 4 : 0);
    tt_tensor *t = tt_empty(TT_SHAPE(bags + 1), TT_I64, TT_CPU);
    int64_t *at = tt_tensor_data(t);

    for (int64_t b = 0; b <= bags; b++) /* some are empty */
        at[b] = b == 0 ? 0 : b == bags ? n : n * ((b + 1) / 3) / (bags / 3 + 1);
    return accel_put(t, r->d);
}

static tti_bags bags_of(accel_run *r)
{
    return (tti_bags){ .index = accel_ints(r, r->n[3], r->n[0], 0, 2),
                       .offsets = bag_offsets(r),
                       .sample = r->flags & 8 ? accel_in(r, TT_SHAPE(r->n[3]), 3) : NULL,
                       .mode = r->flags & 3,
                       .padding = r->flags & 4 ? 1 : -1 };
}

static tt_status bag(accel_run *r)
{
    tti_bags b = bags_of(r);
    tt_shape s = TT_SHAPE(r->n[2], r->n[1]);
    tt_tensor *out = accel_out(r, s, r->dtype), *counts = accel_out(r, TT_SHAPE(r->n[2]), TT_I64);
    tt_tensor *argmax = b.mode == TT_BAG_MAX ? accel_out(r, s, TT_I64) : NULL;
    tt_tensor *w = accel_in(r, TT_SHAPE(r->n[0], r->n[1]), 1);

    return accel_nn(r)->embedding_bag(out, counts, argmax, w, &b);
}

static tt_status bag_grads(accel_run *r)
{
    tti_bags b = bags_of(r);
    tt_shape s = TT_SHAPE(r->n[2], r->n[1]);
    accel_run inner = *r;
    tt_tensor *out = accel_out(&inner, s, r->dtype);
    tt_tensor *counts = accel_out(&inner, TT_SHAPE(r->n[2]), TT_I64);
    tt_tensor *argmax = b.mode == TT_BAG_MAX ? accel_out(&inner, s, TT_I64) : NULL;
    tt_tensor *w = accel_in(r, TT_SHAPE(r->n[0], r->n[1]), 1), *dy = accel_in(r, s, 4);
    tt_tensor *dw = accel_out(r, TT_SHAPE(r->n[0], r->n[1]), r->dtype);

    TT_TRY(accel_nn(r)->embedding_bag(out, counts, argmax, w, &b));
    TT_TRY(accel_nn(r)->embedding_bag_grad(dw, dy, counts, argmax, &b));
    if (b.mode == TT_BAG_MAX)
        return TT_OK;
    TT_TRY(accel_nn(r)->embedding_bag_rows(accel_out(r, TT_SHAPE(r->n[3], r->n[1]), r->dtype), dy,
                                           counts, &b));
    return accel_nn(r)->embedding_bag_weights_grad(accel_out(r, TT_SHAPE(r->n[3]), r->dtype), dy, w,
                                                   &b);
}

/* The order and the groups are made here: sorting is not what is tested. */
static tt_status bag_sums(accel_run *r)
{
    tti_bags b = bags_of(r);
    accel_run host = *r;
    tt_tensor *keys, *order = tt_empty(TT_SHAPE(r->n[3]), TT_I64, TT_CPU), *made[2], *counts;
    int64_t groups;

    host.d = TT_CPU;
    keys = accel_ints(&host, r->n[3], r->n[0], 0, 2);
    TT_TRY(tti_kernel_rows[TT_DEVICE_CPU]->index->sort_keys(order, keys, &groups));
    counts = tt_add_scalar(accel_ints(&host, r->n[2], 5, 0, 6), 1.0);
    made[0] = accel_out(r, TT_SHAPE(groups, r->n[1]), r->dtype);
    made[1] = accel_out(r, TT_SHAPE(1, groups), TT_I64);
    return accel_nn(r)->embedding_bag_sums(made, accel_in(r, TT_SHAPE(r->n[2], r->n[1]), 4),
                                           accel_put(counts, r->d), accel_put(order, r->d), &b);
}

ACCEL_TEST(accel_nn, embedding_bag)
{
    static const int64_t sizes[][4] = {
        { 6, 5, 4, 30 }, { 50, 70, 9, 200 }, { 3, 1, 20, 10 }, { 8, 4, 0, 0 }, { 700, 3, 40, 3000 }
    };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned flags = 0; flags < 32; flags++) {
            accel_run r = { .flags = flags };

            if ((flags & 3) == 3 || ((flags & 8) != 0 && (flags & 3) != TT_BAG_SUM))
                continue;
            memcpy(r.n, sizes[i], sizeof r.n);
            for (int t = 0; t < accel_types; t++) {
                r.dtype = accel_floats[t];
                if (t == 0 || flags < 3)
                    accel_compare_tol("bag", bag, r, (flags & 8) != 0 ? -1.0 : 0.0);
                if (t < 2)
                    accel_compare_tol("bag_grads", bag_grads, r, -1.0);
                if (t < 2 && (flags & 3) != TT_BAG_MAX)
                    accel_compare_tol("bag_sums", bag_sums, r, -1.0);
            }
        }
}

ACCEL_TEST(accel_nn, bad_bags_are_reported)
{
    static const int64_t bad[][4] = {
        { 0, 2, 1, 3 }, { 1, 2, 2, 3 }, { 0, 2, 9, 9 }, { 0, -1, 2, 3 }
    };
    accel_run r = { .d = tt_cl(0), .dtype = TT_F32, .n = { 4, 2, 3, 3 } };
    tt_tensor *w = accel_in(&r, TT_SHAPE(4, 2), 1), *counts = accel_out(&r, TT_SHAPE(3), TT_I64);
    tt_tensor *out = accel_out(&r, TT_SHAPE(3, 2), TT_F32);
    tti_bags b = bags_of(&r);
    const int64_t far[3] = { 0, 1, 4 };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        b.offsets = accel_put(tt_from_data(bad[i], TT_SHAPE(4), TT_I64), r.d);
        TT_CHECK_OK(accel_nn(&r)->embedding_bag(out, counts, NULL, w, &b));
        TT_CHECK_ERR_SAYS(tt_device_sync(r.d), TT_ERR_INVALID, "embedding_bag");
    }
    b = bags_of(&r);
    b.index = accel_put(tt_from_data(far, TT_SHAPE(3), TT_I64), r.d);
    TT_CHECK_OK(accel_nn(&r)->embedding_bag(out, counts, NULL, w, &b));
    TT_CHECK_ERR_SAYS(tt_device_sync(r.d), TT_ERR_INVALID, "index 4 at position 2");
}

/* Quick enough for a simulator that checks every access. */
ACCEL_TEST(accel_nn, small_bags)
{
    static const unsigned flags[] = { 0, 1, 2, 20, 29 };
    accel_run r = { .dtype = TT_F32, .n = { 5, 10, 12 } };

    accel_compare_tol("look_up", look_up, r, 0.0);
    accel_compare_tol("look_up_grad", look_up_grad, r, 0.0);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        r.flags = flags[i];
        memcpy(r.n, (const int64_t[]){ 6, 10, 4, 13 }, sizeof r.n);
        accel_compare_tol("bag", bag, r, 1e-5);
        accel_compare_tol("bag_grads", bag_grads, r, 1e-5);
        if ((r.flags & 3) != TT_BAG_MAX)
            accel_compare_tol("bag_sums", bag_sums, r, 1e-5);
    }
}
