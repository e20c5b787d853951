/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a group's own thread: they run at once, in every way of calling. And calls that cannot be queued. */
#include "pg/call.h"
#include "pg/recorder_ring.h"
#include "tutti/collective.h"
#include "tutti/ddp_hooks.h"
#include "tutti/ops.h"
#include "tutti/prof.h"
#include "tutti/sparse.h"
#include "tutti/testing_tools.h"

static tt_tensor *sparse_of(int rank)
{
    return tt_sparse_coo(tt_reshape(TT_INTS(rank), TT_SHAPE(1, 1)), TT_FLOATS(rank + 1),
                         TT_SHAPE(4));
}

/* Two sums as one call. */
static tt_status coalesced(tt_pg *pg, tt_tensor *a, tt_tensor *b)
{
    TT_TRY(tt_pg_coalesce_begin(pg));
    TT_TRY(tt_pg_all_reduce(pg, a, NULL, NULL));
    TT_TRY(tt_pg_all_reduce(pg, b, NULL, NULL));
    return tt_pg_coalesce_end(pg, NULL);
}

static void every_way_of_calling(tt_pg *pg)
{
    int rank = tt_pg_rank(pg), size = tt_pg_size(pg);
    tt_value *mine = tt_value_int_new(10 + rank), *all[4] = { NULL };
    tt_tensor *s = sparse_of(rank), *a = TT_FLOATS(1), *b = TT_FLOATS(2);

    TT_CHECK_OK(tt_pg_all_reduce(pg, s, NULL, NULL));
    TT_CHECK_EQ(tt_sparse_nnz(s), size);
    for (int r = 0; r < size; r++)
        TT_CHECK((int)tt_item(tt_select(tt_to_dense(s), 0, r)) == r + 1);
    TT_CHECK_OK(coalesced(pg, a, b));
    TT_CHECK((int)tt_item(a) == size);
    TT_CHECK((int)tt_item(b) == 2 * size);
    TT_CHECK_OK(tt_pg_all_gather_object(pg, mine, all, NULL));
    for (int r = 0; r < size; r++) {
        TT_CHECK_EQ(tt_value_as_int(all[r]), 10 + r);
        tt_value_free(all[r]);
    }
    tt_value_free(mine);
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    TT_CHECK_OK(tt_pg_monitored_barrier(pg, NULL));
}

static tt_value *as_steps(void *ctx, tt_pg *pg)
{
    (void)ctx;
    every_way_of_calling(pg);
    every_way_of_calling(pg);
    return tt_value_int_new(7);
}

TT_TEST_THREADS(2, engine, steps_may_call_everything)
{
    tt_pg *pg = tt_test_pg();
    tt_future *f = tt_ddp_run_steps(pg, as_steps, NULL, NULL);

    TT_REQUIRE_NOT_NULL(f);
    TT_REQUIRE_OK(tt_future_wait(f, 0));
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(f)), 7);
    tt_future_free(f);
    TT_SCOPE {
        every_way_of_calling(pg); /* the numbers of the ranks still agree */
    }
    tt_test_barrier();
}

static tt_value *as_callback(void *ctx, tt_future *f)
{
    (void)f;
    TT_SCOPE {
        every_way_of_calling(ctx);
    }
    return tt_value_null_new();
}

TT_TEST_THREADS(2, engine, callbacks_may_call_everything)
{
    tt_pg *pg = tt_test_pg();

    TT_SCOPE {
        tt_work *w;
        tt_tensor *t = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);

        TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, &w));
        tt_future *first = tt_work_future(w), *f = tt_future_then(first, as_callback, pg);

        TT_REQUIRE_NOT_NULL(f);
        TT_CHECK_OK(tt_future_wait(f, 0));
        tt_future_free(f);
        tt_future_free(first);
        tt_work_free(w);
    }
    tt_test_barrier();
}

static tt_value *wait_for_itself(void *ctx, tt_pg *pg)
{
    tt_tensor *t = TT_FLOATS(1);
    tt_work *w;

    TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, &w));
    TT_CHECK_ERR_SAYS(tt_work_wait(w, 0), TT_ERR_INVALID, "would never end");
    *(tt_work **)ctx = w;
    return tt_value_null_new();
}

TT_TEST_THREADS(2, engine, waiting_for_its_own_queue_is_an_error)
{
    tt_work *w = NULL;
    tt_future *f = tt_ddp_run_steps(tt_test_pg(), wait_for_itself, &w, NULL);

    TT_REQUIRE_NOT_NULL(f);
    TT_CHECK_OK(tt_future_wait(f, 0));
    TT_CHECK_OK(tt_work_wait(w, 0)); /* it comes after the steps */
    tt_work_free(w);
    tt_future_free(f);
    tt_test_barrier();
}

/* The same for futures: of a work, of what follows it, and of several. One of another group, or one that is done, is no
 * reason to refuse. */
static tt_value *wait_for_futures(void *ctx, tt_pg *pg)
{
    tt_future *other = tt_future_new(), *done = tt_future_new();
    tt_tensor *t = TT_FLOATS(1);
    tt_work *w;

    TT_CHECK_OK(tt_future_set(done, NULL));
    TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, &w));
    tt_future *f = tt_work_future(w), *then = tt_future_then(f, as_callback, pg);
    tt_future *all = tt_future_all((tt_future *[]){ done, other, then }, 3);
    tt_future *last = tt_future_then(all, as_callback, pg);

    TT_CHECK_ERR_SAYS(tt_future_wait(f, 0), TT_ERR_INVALID, "would never be done");
    TT_CHECK_ERR_SAYS(tt_future_wait(then, 0), TT_ERR_INVALID, "would never be done");
    TT_CHECK_ERR_SAYS(tt_future_wait(all, 0), TT_ERR_INVALID, "would never be done");
    TT_CHECK_ERR_SAYS(tt_future_wait(last, 0), TT_ERR_INVALID, "would never be done");
    TT_CHECK_ERR_SAYS(tt_future_wait(other, 1), TT_ERR_TIMEOUT, "not done after a wait");
    TT_CHECK_OK(tt_future_wait(done, 0));
    TT_CHECK_OK(tt_future_set(other, NULL));
    *(tt_future **)ctx = last;
    tt_future_free(all);
    tt_future_free(then);
    tt_future_free(f);
    tt_future_free(done);
    tt_future_free(other);
    tt_work_free(w);
    return tt_value_null_new();
}

TT_TEST_THREADS(2, engine, waiting_for_futures_of_its_own_queue_is_an_error)
{
    tt_future *last = NULL;
    tt_future *f = tt_ddp_run_steps(tt_test_pg(), wait_for_futures, &last, NULL);

    TT_REQUIRE_NOT_NULL(f);
    TT_CHECK_OK(tt_future_wait(f, 0));
    TT_CHECK_OK(tt_future_wait(last, 0)); /* it comes after the steps */
    tt_future_free(last);
    tt_future_free(f);
    tt_test_barrier();
}

static tt_status fails_so(void *ctx, tt_pg *pg)
{
    (void)pg;
    return ctx != NULL ? tt_fail(TT_ERR_FORMAT, "of the first work") : TT_ERR_IO;
}

/* A failure without words gets words of its own, and not those of an earlier work of the group. */
TT_TEST_THREADS(1, engine, a_work_does_not_get_the_error_of_another)
{
    tt_work *works[2];

    for (int i = 0; i < 2; i++)
        TT_REQUIRE_OK(tti_pg_run_async(tt_test_pg(), "test", fails_so, i == 0 ? works : NULL, NULL,
                                       &works[i]));
    TT_CHECK_ERR_SAYS(tt_work_wait(works[0], 0), TT_ERR_FORMAT, "of the first work");
    TT_CHECK_ERR_SAYS(tt_work_wait(works[1], 0), TT_ERR_IO, tt_status_text(TT_ERR_IO));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_IO);
    tt_work_free(works[0]);
    tt_work_free(works[1]);
}

/* ---- calls that cannot be queued ----------------------------------------------------------------- */

static tt_status sum_with_a_work(void *ctx)
{
    tt_work *w = NULL;
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2);

        st = t != NULL ? tt_pg_all_reduce(ctx, t, NULL, &w) : tt_last_status();
        if (st == TT_OK)
            st = tt_work_wait(w, 0);
        tt_work_free(w);
    }
    return st;
}

static int n_open(tti_recorder *r)
{
    uint64_t n = atomic_load_explicit(&r->next, memory_order_acquire);
    tti_recorded_copy copy;
    int open = 0;

    for (uint64_t ticket = 0; ticket < n; ticket++)
        open += tti_recorder_read(r, ticket, &copy) && copy.ended == 0;
    return open;
}

TT_TEST_THREADS(1, engine, a_call_that_is_not_queued_leaves_nothing_open)
{
    tt_pg *pg = tt_test_pg();

    TT_REQUIRE_OK(sum_with_a_work(pg)); /* the thread runs */
    TT_CHECK_GT(tt_test_fail_allocs(sum_with_a_work, pg), 3);
    TT_CHECK_EQ(n_open(pg->recorder), 0);
}

static int n_failed(const tt_prof *p)
{
    int n = 0;

    for (size_t i = 0; i < tt_prof_n_events(p); i++)
        n += tt_prof_event_at(p, i)->failed;
    return n;
}

/* What the profiler saw begin it sees end: as failed. */
TT_TEST_THREADS(1, engine, a_call_that_is_not_queued_ends_in_the_profile)
{
    tt_pg *pg = tt_test_pg();
    tt_prof *p;

    p = tt_prof_start(NULL);
    TT_REQUIRE_NOT_NULL(p);
    TT_REQUIRE_OK(sum_with_a_work(pg)); /* the thread runs, and the profile has its lists */
    TT_CHECK_GT(tt_test_fail_allocs(sum_with_a_work, pg), 3);
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_GE(n_failed(p),
                2); /* there is no memory for the work, or for the list of its results */
    tt_prof_free(p);
}
