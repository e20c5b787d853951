/* SPDX-License-Identifier: Apache-2.0 */
/* What every backend of process groups must do, asked of each of them. */
#include <stdlib.h>
#include <string.h>

#include "conformance/pg_group.h"

static const tt_dtype all_types[] = { TT_F32, TT_F64, TT_F16, TT_BF16, TT_I8,  TT_U8,
                                      TT_I16, TT_I32, TT_I64, TT_BOOL, TT_C64, TT_C128 };
enum { N_TYPES = sizeof all_types / sizeof all_types[0] };

/* Sizes on both sides of the borders between ways to move bytes; 0 among them. */
static const int64_t sizes[] = { 0, 1, 7, 100, 2049, 40000 };
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static double value_of(int rank)
{
    return rank + 2;
}

static double reduced(tt_pg *pg, tt_reduce_op op)
{
    double r = 0;
    int n = 0;

    for (int i = 0; i < tt_pg_size(pg); i++) {
        double v = value_of(i);
        if (!hears(pg, i))
            continue;
        int a = (int)r, b = (int)v;
        switch (op) {
        case TT_REDUCE_PRODUCT:
            r = n == 0 ? v : r * v;
            break;
        case TT_REDUCE_MIN:
            r = n == 0 || v < r ? v : r;
            break;
        case TT_REDUCE_MAX:
            r = n == 0 || v > r ? v : r;
            break;
        case TT_REDUCE_BAND:
            r = n == 0 ? v : (double)(a & b);
            break;
        case TT_REDUCE_BOR:
            r = n == 0 ? v : (double)(a | b);
            break;
        case TT_REDUCE_BXOR:
            r = n == 0 ? v : (double)(a ^ b);
            break;
        default:
            r = n == 0 ? v : r + v;
            break;
        }
        n++;
    }
    return op == TT_REDUCE_AVG ? r / n : r;
}

static bool allowed(tt_dtype d, tt_reduce_op op)
{
    bool bits = op == TT_REDUCE_BAND || op == TT_REDUCE_BOR || op == TT_REDUCE_BXOR;

    if (tt_dtype_is_complex(d))
        return op == TT_REDUCE_SUM || op == TT_REDUCE_AVG;
    return !bits || tt_dtype_is_integral(d);
}

static void all_reduce_types(tt_pg *pg)
{
    for (int d = 0; d < N_TYPES; d++)
        for (int op = TT_REDUCE_SUM; op <= TT_REDUCE_BXOR; op++) {
            if (all_types[d] == TT_BOOL || !allowed(all_types[d], (tt_reduce_op)op))
                continue;
            TT_SCOPE {
                tt_tensor *t = filled(33, value_of(tt_pg_rank(pg)), all_types[d]);
                TT_CHECK_OK(
                    tt_pg_all_reduce(pg, t, &(tt_coll_options){ .op = (tt_reduce_op)op }, NULL));
                double want = reduced(pg, (tt_reduce_op)op);
                if (tt_dtype_is_integral(all_types[d]))
                    want = (double)(int64_t)want;
                if (tt_dtype_is_complex(all_types[d]))
                    t = tt_slice(tt_view_as_real(t), 1, 0, 1, 1);
                if (!check_filled(tt_contiguous(t), want))
                    TT_FAIL_TEST("%s of %s", tt_reduce_op_name((tt_reduce_op)op),
                                 tt_dtype_name(all_types[d]));
            }
        }
}

static void all_reduce_bool(tt_pg *pg)
{
    bool fake = !hears(pg, tt_pg_rank(pg) == 0 ? 1 : 0);
    bool mine = tt_pg_rank(pg) == 1;
    static const struct {
        tt_reduce_op op;
        bool or ;
    } rows[] = {
        { TT_REDUCE_SUM, true },      { TT_REDUCE_MAX, true },  { TT_REDUCE_BOR, true },
        { TT_REDUCE_PRODUCT, false }, { TT_REDUCE_MIN, false }, { TT_REDUCE_BAND, false }
    };

    for (int i = 0; i < 6; i++) {
        tt_tensor *t = filled(9, mine, TT_BOOL);
        TT_CHECK_OK(tt_pg_all_reduce(pg, t, &(tt_coll_options){ .op = rows[i].op }, NULL));
        check_filled(t, fake ? mine : rows[i].or);
    }
}

static void all_reduce_sizes(tt_pg *pg)
{
    for (int s = 0; s < N_SIZES; s++)
        for (int async = 0; async < 2; async++) {
            TT_SCOPE {
                tt_tensor *t = filled(sizes[s], value_of(tt_pg_rank(pg)), TT_F32);
                tt_work *w = NULL;
                TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, async ? &w : NULL));
                if (async)
                    TT_CHECK_OK(tt_work_wait(w, 0));
                tt_work_free(w);
                check_filled(t, reduced(pg, TT_REDUCE_SUM));
            }
        }
}

static void all_reduce_out_of_place(tt_pg *pg)
{
    tt_tensor *in = filled(5000, value_of(tt_pg_rank(pg)), TT_F64);
    tt_tensor *out = filled(5000, -1, TT_F64);

    TT_CHECK_OK(tt_pg_all_reduce_to(pg, in, out, NULL, NULL));
    check_filled(in, value_of(tt_pg_rank(pg)));
    check_filled(out, reduced(pg, TT_REDUCE_SUM));
}

static void premultiplied_sum(tt_pg *pg)
{
    tt_tensor *t = filled(10, 1, TT_F32);
    double want = 0;

    for (int i = 0; i < tt_pg_size(pg); i++)
        want += hears(pg, i) ? i + 0.5 : 0;
    TT_CHECK_OK(tt_pg_all_reduce(
        pg, t, &(tt_coll_options){ .op = TT_REDUCE_PREMUL_SUM, .factor = tt_pg_rank(pg) + 0.5 },
        NULL));
    if (hears(pg, 0) && hears(pg, 2))
        check_filled(t, want);
}

static void strided(tt_pg *pg)
{
    tt_tensor *whole = tt_zeros(TT_SHAPE(6, 4), TT_F32, TT_CPU);
    tt_tensor *t = tt_slice(whole, 1, 1, 3, 1);

    tt_fill_(t, value_of(tt_pg_rank(pg)));
    TT_CHECK(!tt_tensor_is_contiguous(t, TT_FORMAT_CONTIGUOUS));
    TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
    check_filled(tt_contiguous(t), reduced(pg, TT_REDUCE_SUM));
    check_filled(tt_contiguous(tt_slice(whole, 1, 0, 1, 1)), 0); /* beside it nothing changed */
    check_filled(tt_contiguous(tt_slice(whole, 1, 3, 4, 1)), 0);
}

static void broadcast(tt_pg *pg)
{
    for (int root = 0; root < tt_pg_size(pg); root++)
        for (int s = 0; s < N_SIZES; s++) {
            TT_SCOPE {
                bool mine = tt_pg_rank(pg) == root;
                tt_tensor *t = filled(sizes[s], mine ? 5 : -1, TT_F32);
                TT_CHECK_OK(tt_pg_broadcast(pg, t, root, NULL, NULL));
                check_filled(t, hears(pg, root) ? 5 : -1);
            }
        }
}

static void reduce(tt_pg *pg)
{
    for (int root = 0; root < tt_pg_size(pg); root++)
        for (int s = 0; s < N_SIZES; s++) {
            TT_SCOPE {
                double v = value_of(tt_pg_rank(pg));
                tt_tensor *t = filled(sizes[s], v, TT_F32);
                TT_CHECK_OK(tt_pg_reduce(pg, t, root, NULL, NULL));
                check_filled(t, tt_pg_rank(pg) == root ? reduced(pg, TT_REDUCE_SUM) : v);
            }
        }
}

static void check_gathered(tt_pg *pg, tt_tensor *const *outs)
{
    for (int i = 0; i < tt_pg_size(pg); i++)
        check_filled(outs[i], hears(pg, i) ? value_of(i) : -1);
}

static void all_gather(tt_pg *pg)
{
    tt_tensor *outs[8];

    for (int s = 0; s < N_SIZES; s++)
        for (int uneven = 0; uneven < 2; uneven++) {
            TT_SCOPE {
                int64_t n = sizes[s] + uneven * tt_pg_rank(pg);
                for (int i = 0; i < tt_pg_size(pg); i++)
                    outs[i] = filled(sizes[s] + uneven * i, -1, TT_I32);
                TT_CHECK_OK(tt_pg_all_gather(pg, filled(n, value_of(tt_pg_rank(pg)), TT_I32), outs,
                                             tt_pg_size(pg), NULL, NULL));
                check_gathered(pg, outs);
            }
        }
}

static void all_gather_into(tt_pg *pg)
{
    int size = tt_pg_size(pg);
    tt_tensor *out = tt_full(TT_SHAPE(size, 6), -1, TT_F64, TT_CPU);

    TT_CHECK_OK(
        tt_pg_all_gather_into(pg, filled(6, value_of(tt_pg_rank(pg)), TT_F64), out, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_filled(tt_contiguous(tt_slice(out, 0, i, i + 1, 1)), hears(pg, i) ? value_of(i) : -1);
}

static void gather(tt_pg *pg)
{
    tt_tensor *outs[8];

    for (int root = 0; root < tt_pg_size(pg); root++)
        for (int s = 0; s < N_SIZES; s++) {
            TT_SCOPE {
                bool mine = tt_pg_rank(pg) == root;
                for (int i = 0; i < tt_pg_size(pg); i++)
                    outs[i] = filled(sizes[s], -1, TT_F32);
                TT_CHECK_OK(tt_pg_gather(pg, filled(sizes[s], value_of(tt_pg_rank(pg)), TT_F32),
                                         mine ? outs : NULL, mine ? tt_pg_size(pg) : 0, root, NULL,
                                         NULL));
                if (mine)
                    check_gathered(pg, outs);
            }
        }
}

static void scatter(tt_pg *pg)
{
    tt_tensor *ins[8];

    for (int root = 0; root < tt_pg_size(pg); root++)
        for (int s = 0; s < N_SIZES; s++) {
            TT_SCOPE {
                bool mine = tt_pg_rank(pg) == root;
                for (int i = 0; i < tt_pg_size(pg); i++)
                    ins[i] = filled(sizes[s], value_of(i), TT_F32);
                tt_tensor *out = filled(sizes[s], -1, TT_F32);
                TT_CHECK_OK(tt_pg_scatter(pg, out, mine ? ins : NULL, mine ? tt_pg_size(pg) : 0,
                                          root, NULL, NULL));
                check_filled(out, hears(pg, root) ? value_of(tt_pg_rank(pg)) : -1);
            }
        }
}

static void reduce_scatter(tt_pg *pg)
{
    tt_tensor *ins[8];

    for (int s = 0; s < N_SIZES; s++)
        for (int uneven = 0; uneven < 2; uneven++) {
            TT_SCOPE {
                for (int i = 0; i < tt_pg_size(pg); i++)
                    ins[i] =
                        filled(sizes[s] + uneven * i, 100 * i + value_of(tt_pg_rank(pg)), TT_F64);
                int me = tt_pg_rank(pg), n = 0;
                for (int i = 0; i < tt_pg_size(pg); i++)
                    n += hears(pg, i);
                tt_tensor *out = filled(sizes[s] + uneven * me, -1, TT_F64);
                TT_CHECK_OK(tt_pg_reduce_scatter(pg, out, ins, tt_pg_size(pg), NULL, NULL));
                check_filled(out, 100.0 * me * n + reduced(pg, TT_REDUCE_SUM));
            }
        }
}

static void reduce_scatter_from(tt_pg *pg)
{
    tt_tensor *in = filled(12 * tt_pg_size(pg), value_of(tt_pg_rank(pg)), TT_I64);
    tt_tensor *out = filled(12, -1, TT_I64);

    TT_CHECK_OK(tt_pg_reduce_scatter_from(pg, out, in, NULL, NULL));
    check_filled(out, reduced(pg, TT_REDUCE_SUM));
}

static void all_to_all(tt_pg *pg)
{
    tt_tensor *ins[8], *outs[8];
    int me = tt_pg_rank(pg);

    for (int s = 0; s < N_SIZES; s++)
        for (int uneven = 0; uneven < 2; uneven++) {
            TT_SCOPE {
                for (int i = 0; i < tt_pg_size(pg); i++) {
                    ins[i] = filled(sizes[s] + uneven * (me + 2 * i), 10 * me + i, TT_F32);
                    outs[i] = filled(sizes[s] + uneven * (i + 2 * me), -1, TT_F32);
                }
                TT_CHECK_OK(tt_pg_all_to_all(pg, outs, ins, tt_pg_size(pg), NULL, NULL));
                for (int i = 0; i < tt_pg_size(pg); i++)
                    check_filled(outs[i], hears(pg, i) ? 10 * i + me : -1);
            }
        }
}

static void all_to_all_single(tt_pg *pg)
{
    int me = tt_pg_rank(pg), size = tt_pg_size(pg);
    int64_t in_splits[8], out_splits[8], n_in = 0, n_out = 0;

    for (int i = 0; i < size; i++) { /* rank r sends i + 1 rows of r to rank i */
        in_splits[i] = i + 1;
        out_splits[i] = me + 1;
        n_in += in_splits[i];
        n_out += out_splits[i];
    }
    tt_tensor *out = tt_full(TT_SHAPE(n_out, 3), -1, TT_F32, TT_CPU);
    TT_CHECK_OK(tt_pg_all_to_all_single(pg, out, tt_full(TT_SHAPE(n_in, 3), me, TT_F32, TT_CPU),
                                        out_splits, in_splits, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_filled(
            tt_contiguous(tt_slice(out, 0, (int64_t)i * (me + 1), (int64_t)(i + 1) * (me + 1), 1)),
            hears(pg, i) ? i : -1);
    tt_tensor *even = tt_full(TT_SHAPE(2 * size), -1, TT_F32, TT_CPU);
    TT_CHECK_OK(
        tt_pg_all_to_all_single(pg, even, filled(2 * size, me, TT_F32), NULL, NULL, NULL, NULL));
    for (int i = 0; i < size; i++)
        check_filled(tt_slice(even, 0, 2 * i, 2 * i + 2, 1), hears(pg, i) ? i : -1);
}

/* The same tensor twice, views that share elements, and a tensor that wraps the same memory: each is reduced as it was
 * before the call. Only rank 0 does so; the others pass tensors with memory of their own. */
static void coalesced_aliases(tt_pg *pg)
{
    bool alias = tt_pg_rank(pg) == 0;
    double mine = value_of(tt_pg_rank(pg)), want = reduced(pg, TT_REDUCE_SUM);
    tt_tensor *t = filled(6, mine, TT_F32);
    tt_tensor *ts[4] = { t };
    tt_work *w = NULL;
    int n_heard = 0;

    for (int i = 0; i < tt_pg_size(pg); i++)
        n_heard += hears(pg, i);
    for (int i = 1; i < 4; i++)
        ts[i] = filled(i == 2 ? 3 : 6, mine, TT_F32);
    if (alias) {
        ts[1] = t;
        ts[2] = tt_slice(t, 0, 0, 6, 2);
        ts[3] = tt_wrap(tt_tensor_data(t), TT_SHAPE(6), NULL, TT_F32, NULL, NULL);
    }
    TT_CHECK_OK(tt_pg_all_reduce_coalesced(pg, ts, 4, NULL, NULL));
    for (int i = 0; i < 4; i++)
        check_filled(ts[i], want);
    TT_CHECK_OK(tt_pg_all_reduce_coalesced(pg, ts, 2, NULL, &w));
    TT_CHECK_OK(tt_work_wait(w, 0));
    tt_work_free(w);
    check_filled(ts[0], want * n_heard);
    check_filled(ts[1], want * n_heard);
}

static void coalesced(tt_pg *pg)
{
    double v = value_of(tt_pg_rank(pg));
    tt_tensor *ts[] = { filled(3, v, TT_F32), filled(0, v, TT_F32), filled(700, v, TT_I64) };
    tt_work *w;

    TT_CHECK_OK(tt_pg_all_reduce_coalesced(pg, ts, 3, NULL, &w));
    TT_CHECK_OK(tt_work_wait(w, 0));
    tt_work_free(w);
    check_filled(ts[0], reduced(pg, TT_REDUCE_SUM));
    check_filled(ts[2], reduced(pg, TT_REDUCE_SUM));

    tt_tensor *outs[8 * 2];
    tt_tensor *ins[] = { filled(2, v, TT_F32), filled(5, v, TT_F32) };
    for (int i = 0; i < tt_pg_size(pg); i++) {
        outs[2 * i] = filled(2, -1, TT_F32);
        outs[2 * i + 1] = filled(5, -1, TT_F32);
    }
    TT_CHECK_OK(tt_pg_all_gather_coalesced(pg, ins, 2, outs, NULL, NULL));
    for (int i = 0; i < 2 * tt_pg_size(pg); i++)
        check_filled(outs[i], hears(pg, i / 2) ? value_of(i / 2) : -1);
}

static void coalescing_scope(tt_pg *pg)
{
    double v = value_of(tt_pg_rank(pg));
    tt_tensor *a = filled(8, v, TT_F32), *b = filled(8, v, TT_F64);
    tt_work *w = NULL;

    TT_CHECK_OK(tt_pg_coalesce_begin(pg));
    TT_CHECK_ERR(tt_pg_coalesce_begin(pg), TT_ERR_INVALID);
    TT_CHECK_OK(tt_pg_all_reduce(pg, a, NULL, NULL));
    TT_CHECK_ERR(tt_pg_all_reduce(pg, b, NULL, &w), TT_ERR_INVALID);
    TT_CHECK_OK(tt_pg_all_reduce(pg, b, NULL, NULL));
    check_filled(a, v); /* nothing has run yet */
    TT_CHECK_OK(tt_pg_coalesce_end(pg, &w));
    TT_CHECK_OK(tt_work_wait(w, 0));
    tt_work_free(w);
    check_filled(a, reduced(pg, TT_REDUCE_SUM));
    check_filled(b, reduced(pg, TT_REDUCE_SUM));

    TT_CHECK_OK(tt_pg_coalesce_begin(pg));
    TT_CHECK_OK(tt_pg_all_reduce(pg, a, NULL, NULL));
    tt_pg_coalesce_cancel(pg);
    TT_CHECK_ERR(tt_pg_coalesce_end(pg, NULL), TT_ERR_INVALID);
    check_filled(a, reduced(pg, TT_REDUCE_SUM));
}

static void many_in_flight(tt_pg *pg)
{
    enum { N = 40 };
    tt_work *works[N];
    tt_tensor *ts[N];

    for (int i = 0; i < N; i++) {
        ts[i] = filled(1 + 300 * i, value_of(tt_pg_rank(pg)), TT_F32);
        TT_CHECK_OK(tt_pg_all_reduce(pg, ts[i], NULL, &works[i]));
    }
    tt_tensor *last = filled(4, value_of(tt_pg_rank(pg)), TT_F32);
    TT_CHECK_OK(tt_pg_all_reduce(pg, last, NULL, NULL)); /* after all of them */
    check_filled(last, reduced(pg, TT_REDUCE_SUM));
    for (int i = N - 1; i >= 0; i--) {
        TT_CHECK(tt_work_done(works[i]));
        TT_CHECK_OK(tt_work_wait(works[i], 0));
        TT_CHECK_EQ(tt_work_seq(works[i]), i + 1);
        tt_work_free(works[i]);
        check_filled(ts[i], reduced(pg, TT_REDUCE_SUM));
    }
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
}

static void shared_buffers(tt_pg *pg)
{
    for (int s = 0; s < N_SIZES; s++) {
        TT_SCOPE {
            tt_tensor *t = tt_pg_alloc(pg, TT_SHAPE(sizes[s]), TT_F32);
            TT_REQUIRE(t != NULL);
            TT_CHECK_EQ((uintptr_t)tt_tensor_data(t) % 64, 0);
            tt_fill_(t, value_of(tt_pg_rank(pg)));
            TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
            check_filled(t, reduced(pg, TT_REDUCE_SUM));
        }
    }
    void *p = tt_pg_alloc_bytes(pg, 1000);
    TT_CHECK_NOT_NULL(p);
    memset(p, 7, 1000);
    tt_pg_free_bytes(pg, p);
}

static void wrong_calls(tt_pg *pg)
{
    tt_tensor *t = filled(4, 1, TT_F32);
    tt_tensor *outs[8] = { 0 };
    int size = tt_pg_size(pg);

    for (int i = 0; i < size; i++)
        outs[i] = filled(4, -1, i == 0 ? TT_F64 : TT_F32);
    TT_CHECK_ERR_SAYS(tt_pg_broadcast(pg, t, size, NULL, NULL), TT_ERR_INVALID, "root");
    TT_CHECK_ERR_SAYS(tt_pg_broadcast(pg, t, -1, NULL, NULL), TT_ERR_INVALID, "root");
    TT_CHECK_ERR_SAYS(tt_pg_all_gather(pg, t, outs, size - 1, NULL, NULL), TT_ERR_INVALID,
                      "one per rank");
    TT_CHECK_ERR_SAYS(tt_pg_all_gather(pg, t, outs, size, NULL, NULL), TT_ERR_INVALID, "one type");
    TT_CHECK_ERR_SAYS(tt_pg_all_gather_into(pg, t, filled(4, 0, TT_F32), NULL, NULL),
                      TT_ERR_INVALID, "elements");
    TT_CHECK_ERR_SAYS(tt_pg_all_reduce(pg, t, &(tt_coll_options){ .op = TT_REDUCE_BAND }, NULL),
                      TT_ERR_INVALID, "integers");
    TT_CHECK_ERR_SAYS(tt_pg_all_reduce(pg, t, &(tt_coll_options){ .timeout_ms = -5 }, NULL),
                      TT_ERR_INVALID, "time-out");
    TT_CHECK_ERR_SAYS(tt_pg_all_to_all_single(pg, filled(7, 0, TT_F32), filled(7, 0, TT_F32), NULL,
                                              NULL, NULL, NULL),
                      TT_ERR_INVALID, "7 rows");
    TT_CHECK_ERR_SAYS(tt_pg_send(pg, t, 0, -3, NULL, NULL), TT_ERR_INVALID, "tag");
    TT_CHECK_ERR_SAYS(tt_pg_send(pg, t, size, 0, NULL, NULL), TT_ERR_INVALID, "destination");
    TT_CHECK_ERR(tt_pg_all_reduce(NULL, t, NULL, NULL), TT_ERR_INVALID);
    tt_clear_error();
    TT_CHECK_ERR(tt_pg_all_reduce(pg, NULL, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_pg_seq(pg), 0); /* nothing was begun */
    TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
}

static void subgroups(tt_pg *pg)
{
    int ranks[] = { 2, 0 };
    tt_pg *sub = tt_pg_subgroup(pg, ranks, 2, &(tt_pg_options){ .name = "pair" });
    tt_tensor *t = filled(3, value_of(tt_pg_rank(pg)), TT_F32);

    TT_REQUIRE(sub != NULL);
    TT_CHECK_STR(tt_pg_name(sub), "pair");
    TT_CHECK_OK(tt_pg_all_reduce(sub, t, NULL, NULL));
    if (tt_pg_rank(pg) == 1) { /* not in it: nothing happens */
        TT_CHECK_EQ(tt_pg_rank(sub), -1);
        TT_CHECK_EQ(tt_pg_size(sub), -1);
        TT_CHECK_NULL(tt_pg_backend(sub));
        check_filled(t, value_of(1));
    } else {
        TT_CHECK_EQ(tt_pg_rank(sub), tt_pg_rank(pg) == 2 ? 0 : 1);
        TT_CHECK_EQ(tt_pg_global_rank(sub, 0), 2);
        TT_CHECK_EQ(tt_pg_group_rank(sub, 1), -1);
        check_filled(t, value_of(0) + value_of(2));
        tt_fill_(t, tt_pg_rank(pg));
        TT_CHECK_OK(tt_pg_broadcast(sub, t, 2, &(tt_coll_options){ .global_ranks = true }, NULL));
        check_filled(t, 2);
    }
    tt_pg_free(sub);
}

static void splitting(tt_pg *pg)
{
    if (!hears(pg, tt_pg_rank(pg) == 0 ? 1 : 0))
        return; /* a fake group cannot tell what the others want */
    int me = tt_pg_rank(pg);
    tt_pg *part = tt_pg_split(pg, me == 1 ? -1 : 4, -me, NULL);

    TT_REQUIRE(part != NULL);
    TT_CHECK_EQ(tt_pg_rank(part), me == 1 ? -1 : me == 2 ? 0 : 1); /* by key: highest rank first */
    TT_CHECK_OK(tt_pg_barrier(part, NULL, NULL));
    tt_pg_free(part);
    tt_mesh *line = tt_mesh_new(pg, (int[]){ 3 }, 1, (const char *[]){ "dp" });
    TT_REQUIRE(line != NULL);
    TT_CHECK_EQ(tt_mesh_dim(line, "dp"), 0);
    TT_CHECK_EQ(tt_mesh_coord(line, 0), me);
    TT_CHECK_EQ(tt_pg_size(tt_mesh_group(line, 0)), 3);
    tt_mesh_free(line);
    TT_CHECK_NULL(tt_mesh_new(pg, (int[]){ 2, 2 }, 2, NULL));
}

static const pg_case cases[] = {
    { "all_reduce_types", all_reduce_types, 0 },
    { "all_reduce_bool", all_reduce_bool, 0 },
    { "all_reduce_sizes", all_reduce_sizes, 0 },
    { "all_reduce_sizes_four_ranks", all_reduce_sizes, 4 },
    { "all_reduce_alone", all_reduce_sizes, 1 },
    { "all_reduce_out_of_place", all_reduce_out_of_place, 0 },
    { "premultiplied_sum", premultiplied_sum, 0 },
    { "strided", strided, 0 },
    { "broadcast", broadcast, 0 },
    { "reduce", reduce, 0 },
    { "all_gather", all_gather, 0 },
    { "all_gather_into", all_gather_into, 0 },
    { "gather", gather, 0 },
    { "scatter", scatter, 0 },
    { "reduce_scatter", reduce_scatter, 0 },
    { "reduce_scatter_from", reduce_scatter_from, 0 },
    { "all_to_all", all_to_all, 0 },
    { "all_to_all_single", all_to_all_single, 0 },
    { "coalesced", coalesced, 0 },
    { "coalesced_aliases", coalesced_aliases, 0 },
    { "coalescing_scope", coalescing_scope, 0 },
    { "many_in_flight", many_in_flight, 0 },
    { "shared_buffers", shared_buffers, 0 },
    { "wrong_calls", wrong_calls, 0 },
    { "splitting", splitting, 0 },
};

TT_TEST_TABLE(pg_conformance)
{
    add_pg_cases(cases, (int)(sizeof cases / sizeof cases[0]));
}

static const pg_case real_cases[] = { { "subgroups", subgroups, 0 } };

TT_TEST_TABLE(pg_conformance_real)
{
    add_pg_cases(real_cases, 1);
}
