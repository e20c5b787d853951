/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of sparse tensors: every type, indices that repeat, ranks with nothing, the same bits everywhere. */
#include <stdio.h>
#include <string.h>

#include "tutti/collective.h"
#include "tutti/ops.h"
#include "tutti/prof.h"
#include "tutti/sparse.h"
#include "tutti/testing.h"

enum { ROWS = 5, COLUMNS = 3 };

static tt_pg *group_of(void)
{
    char path[512];
    tt_store *store;
    tt_pg *pg;

    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    pg = tt_pg_new_store(store, tt_test_rank(), tt_test_size(),
                         &(tt_pg_options){ .backend = "threads", .timeout_ms = 30000 });
    tt_store_free(store);
    TT_REQUIRE_NOT_NULL(pg);
    return pg;
}

/* What rank r gives: 2 r rows, some of them twice. */
static tt_tensor *input(int r, tt_dtype dtype)
{
    int64_t n = 2 * r, at[16];
    double values[16 * COLUMNS];
    tt_tensor *indices, *rows;

    for (int64_t i = 0; i < n; i++)
        at[i] = (i * i + 2 * r) % ROWS;
    for (int64_t i = 0; i < n * COLUMNS; i++)
        values[i] = dtype == TT_BOOL ? (double)((i + r) % 2) : (double)(i + 1) / (r + 2) * 8;
    indices = tt_from_data(at, TT_SHAPE(1, n), TT_I64);
    rows = tt_to_dtype(tt_from_data(values, TT_SHAPE(n, COLUMNS), TT_F64), dtype);
    return tt_sparse_coo(indices, rows, TT_SHAPE(ROWS, COLUMNS));
}

/* All entries in the order of ranks, added in a type that loses nothing on the way. */
static tt_tensor *expected(int size, tt_dtype dtype)
{
    tt_dtype wide = dtype == TT_F16 || dtype == TT_BF16 ? TT_F32
                    : dtype == TT_BOOL                  ? TT_I64
                                                        : dtype;
    tt_tensor *at[8], *rows[8];

    for (int r = 0; r < size; r++) {
        tt_tensor *t = input(r, dtype);

        at[r] = tt_sparse_indices(t);
        rows[r] = tt_to_dtype(tt_sparse_values(t), wide);
    }
    return tt_to_dtype(tt_to_dense(tt_sparse_coo(tt_cat(at, size, 1), tt_cat(rows, size, 0),
                                                 TT_SHAPE(ROWS, COLUMNS))),
                       dtype);
}

TT_TEST_THREADS(4, sparse_sum, is_the_same_in_every_type_on_every_rank)
{
    static const tt_dtype dtypes[] = { TT_F32, TT_F64, TT_F16, TT_BF16,
                                       TT_I8,  TT_I32, TT_I64, TT_BOOL };
    tt_pg *pg = group_of();

    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        TT_SCOPE {
            tt_tensor *t = input(tt_test_rank(), dtypes[d]);

            TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
            TT_CHECK_EQ(tt_tensor_dtype(t), dtypes[d]);
            TT_CHECK(tt_sparse_is_coalesced(t));
            TT_CHECK_EQ(tt_sparse_nnz(t), ROWS);
            TT_CHECK(tt_equal(tt_sparse_indices(t),
                              tt_reshape(TT_INTS(0, 1, 2, 3, 4), TT_SHAPE(1, ROWS))));
            TT_CHECK(tt_equal(tt_sparse_values(t), expected(tt_test_size(), dtypes[d])));
        }
    tt_test_barrier();
    tt_pg_free(pg);
}

/* Nobody has an entry: neither has the sum. */
TT_TEST_THREADS(2, sparse_sum, of_nothing_is_nothing)
{
    tt_pg *pg = group_of();

    TT_SCOPE {
        tt_tensor *t = input(0, TT_F32);

        TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
        TT_CHECK_EQ(tt_sparse_nnz(t), 0);
    }
    tt_test_barrier();
    tt_pg_free(pg);
}

/* It takes its turn among other works, and is one operation to the profiler. */
TT_TEST_THREADS(3, sparse_sum, keeps_its_place_in_the_queue)
{
    tt_pg *pg = group_of();

    TT_SCOPE {
        tt_tensor *t = input(tt_test_rank(), TT_F64), *dense = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);
        tt_prof *p = tt_prof_start(&(tt_prof_options){ .no_ops = true, .this_thread_only = true });
        tt_work *works[3];

        TT_REQUIRE_OK(tt_pg_all_reduce(pg, dense, NULL, &works[0]));
        TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, &works[1]));
        TT_REQUIRE_OK(tt_pg_all_reduce(pg, dense, NULL, &works[2]));
        for (int i = 0; i < 3; i++) {
            TT_CHECK_OK(tt_work_wait(works[i], 0));
            TT_CHECK_STR(tt_work_op(works[i]), "all_reduce");
            TT_CHECK_EQ(tt_work_seq(works[i]), i + 1);
            tt_work_free(works[i]);
        }
        TT_CHECK_OK(tt_prof_stop(p));
        TT_CHECK_EQ(tt_prof_n_events(p), 3);
        tt_prof_free(p);
        TT_CHECK(tt_equal(tt_to_dense(t), expected(3, TT_F64)));
        TT_CHECK(tt_equal(dense, tt_full(TT_SHAPE(4), 9, TT_F32, TT_CPU)));
    }
    tt_test_barrier();
    tt_pg_free(pg);
}

static tt_status reduce_once(void *ctx)
{
    TT_SCOPE {
        tt_tensor *t = input(2, TT_F32);

        if (t == NULL)
            return tt_last_status();
        TT_TRY(tt_pg_all_reduce(ctx, t, NULL, NULL));
    }
    return TT_OK;
}

TT_TEST(sparse_sum, survives_every_failed_allocation)
{
    tt_pg *pg = group_of();

    TT_CHECK_GT(tt_test_fail_allocs(reduce_once, pg), 5);
    tt_pg_free(pg);
}
