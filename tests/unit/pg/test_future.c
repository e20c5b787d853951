/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: chains, failures, several at once, and freeing them at odd moments. */
#include <pthread.h>
#include <stdatomic.h>

#include <tutti/testing.h>
#include <tutti/work.h>

static tt_value *plus_one(void *ctx, tt_future *f)
{
    (void)ctx;
    tt_value *v = tt_future_value(f);
    return v != NULL ? tt_value_int_new(tt_value_as_int(v) + 1) : NULL;
}

static void set_int(tt_future *f, int64_t i)
{
    tt_value *v = tt_value_int_new(i);
    TT_CHECK_OK(tt_future_set(f, v));
    tt_value_free(v);
}

TT_TEST(pg_future, has_no_value_before_its_end)
{
    tt_future *f = tt_future_new();

    TT_CHECK(!tt_future_done(f));
    TT_CHECK_NULL(tt_future_value(f));
    TT_CHECK_ERR_SAYS(tt_future_wait(f, 1), TT_ERR_TIMEOUT, "1 ms");
    set_int(f, 7);
    TT_CHECK(tt_future_done(f));
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(f)), 7);
    TT_CHECK_OK(tt_future_wait(f, 1));
    tt_future_free(f);
}

TT_TEST(pg_future, completes_once)
{
    tt_future *f = tt_future_new();

    set_int(f, 1);
    TT_CHECK_ERR(tt_future_set(f, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_future_fail(f, TT_ERR_IO, "no"), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(f)), 1);
    tt_future_free(f);
}

TT_TEST(pg_future, a_null_value_is_a_value)
{
    tt_future *f = tt_future_new();

    TT_CHECK_OK(tt_future_set(f, NULL));
    TT_CHECK_EQ(tt_value_kind_of(tt_future_value(f)), TT_VALUE_NULL);
    tt_future_free(f);
}

TT_TEST(pg_future, chains_before_and_after_the_end)
{
    tt_future *f = tt_future_new();
    tt_future *a = tt_future_then(f, plus_one, NULL);
    tt_future *b = tt_future_then(a, plus_one, NULL);

    TT_CHECK(!tt_future_done(b));
    set_int(f, 10);
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(a)), 11);
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(b)), 12);
    tt_future *c = tt_future_then(b, plus_one, NULL); /* at once */
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(c)), 13);
    tt_future_free(a);
    tt_future_free(b);
    tt_future_free(c);
    tt_future_free(f);
}

TT_TEST(pg_future, failures_run_down_the_chain)
{
    tt_future *f = tt_future_new();
    tt_future *a = tt_future_then(f, plus_one, NULL);

    TT_CHECK_OK(tt_future_fail(f, TT_ERR_PEER, "rank 3 died"));
    TT_CHECK_ERR_SAYS(tt_future_wait(a, 0), TT_ERR_PEER, "rank 3 died");
    TT_CHECK_STR(tt_future_error(a), "rank 3 died");
    TT_CHECK_NULL(tt_future_value(a));
    tt_future_free(a);
    tt_future_free(f);
}

static tt_value *give_nothing(void *ctx, tt_future *f)
{
    (void)ctx;
    (void)f;
    return NULL;
}

TT_TEST(pg_future, a_function_without_a_value_fails_its_future)
{
    tt_future *f = tt_future_new();
    tt_future *a = tt_future_then(f, give_nothing, NULL);

    set_int(f, 1);
    TT_CHECK_ERR_SAYS(tt_future_wait(a, 0), TT_ERR_INVALID, "no value");
    tt_future_free(a);
    tt_future_free(f);
}

TT_TEST(pg_future, given_up_futures_end_what_follows)
{
    tt_future *f = tt_future_new();
    tt_future *a = tt_future_then(f, plus_one, NULL);

    tt_future_free(f);
    TT_CHECK_ERR(tt_future_wait(a, 0), TT_ERR_ABORTED);
    tt_future_free(a);
}

TT_TEST(pg_future, all_gives_values_in_order)
{
    tt_future *fs[3] = { tt_future_new(), tt_future_new(), tt_future_new() };
    tt_future *all = tt_future_all(fs, 3);

    for (int i = 2; i >= 0; i--) {
        TT_CHECK(!tt_future_done(all));
        set_int(fs[i], 100 + i);
    }
    tt_value *list = tt_future_value(all);
    TT_REQUIRE(list != NULL && tt_value_count(list) == 3);
    for (size_t i = 0; i < 3; i++)
        TT_CHECK_EQ(tt_value_as_int(tt_value_at(list, i)), 100 + (int)i);
    tt_future_free(all);
    for (int i = 0; i < 3; i++)
        tt_future_free(fs[i]);
}

TT_TEST(pg_future, all_fails_with_the_first_in_order)
{
    tt_future *fs[3] = { tt_future_new(), tt_future_new(), tt_future_new() };
    tt_future *all = tt_future_all(fs, 3);

    tt_future_fail(fs[2], TT_ERR_IO, "third");
    tt_future_fail(fs[1], TT_ERR_PEER, "second");
    set_int(fs[0], 0);
    TT_CHECK_ERR_SAYS(tt_future_wait(all, 0), TT_ERR_PEER, "second");
    tt_future_free(all);
    for (int i = 0; i < 3; i++)
        tt_future_free(fs[i]);
}

TT_TEST(pg_future, all_ends_when_one_is_given_up)
{
    tt_future *f = tt_future_new();
    tt_future *all = tt_future_all(&f, 1);

    tt_future_free(f);
    TT_CHECK_ERR(tt_future_wait(all, 0), TT_ERR_ABORTED);
    tt_future_free(all);
}

TT_TEST(pg_future, all_of_none_is_an_empty_list)
{
    tt_future *all = tt_future_all(NULL, 0);

    TT_CHECK(tt_future_done(all));
    TT_CHECK_EQ(tt_value_count(tt_future_value(all)), 0);
    TT_CHECK_NULL(tt_future_all((tt_future *[]){ NULL }, 1));
    tt_future_free(all);
}

static tt_value *free_self(void *ctx, tt_future *f)
{
    tt_future_free(f); /* the reference of the test */
    *(atomic_int *)ctx = 1;
    return tt_value_null_new();
}

TT_TEST(pg_future, may_be_freed_in_its_own_callback)
{
    tt_future *f = tt_future_new();
    atomic_int ran = 0;
    tt_future *mine = tt_future_retain(f);
    tt_future *a = tt_future_then(f, free_self, &ran);

    set_int(mine, 1);
    TT_CHECK_EQ(ran, 1);
    tt_future_free(mine);
    tt_future_free(a);
}

static void *set_later(void *arg)
{
    set_int(arg, 5);
    return NULL;
}

TT_TEST(pg_future, wakes_a_waiting_thread)
{
    tt_future *f = tt_future_new();
    pthread_t thread;

    pthread_create(&thread, NULL, set_later, f);
    TT_CHECK_OK(tt_future_wait(f, 0));
    TT_CHECK_EQ(tt_value_as_int(tt_future_value(f)), 5);
    pthread_join(thread, NULL);
    tt_future_free(f);
}

static tt_status whole_chain(void *ctx)
{
    (void)ctx;
    tt_future *f = tt_future_new();
    tt_future *a = f != NULL ? tt_future_then(f, plus_one, NULL) : NULL;
    tt_future *all = a != NULL ? tt_future_all((tt_future *[]){ f, a }, 2) : NULL;
    tt_value *v = all != NULL ? tt_value_int_new(1) : NULL;
    tt_status st = TT_ERR_NOMEM;

    if (v != NULL)
        st = tt_future_set(f, v);
    if (st == TT_OK)
        st = tt_future_wait(all, 0);
    tt_value_free(v);
    tt_future_free(all);
    tt_future_free(a);
    tt_future_free(f);
    return st;
}

TT_TEST(pg_future, survives_every_failing_allocation)
{
    TT_CHECK_GT(tt_test_fail_allocs(whole_chain, NULL), 5);
}

TT_TEST(pg_future, wrong_calls)
{
    TT_CHECK_ERR(tt_future_set(NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_future_wait(NULL, 0), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_future_then(NULL, plus_one, NULL));
    TT_CHECK_NULL(tt_future_all(NULL, 2));
    TT_CHECK_ERR(tt_work_wait(NULL, 0), TT_ERR_INVALID);
    TT_CHECK_NULL(tt_work_future(NULL));
    tt_future_free(NULL);
    tt_work_free(NULL);
}

static tt_value *fails(void *ctx, tt_future *f)
{
    (void)f;
    return (void)tt_fail(TT_ERR_IO, "of the function"),
           *(int *)ctx == 0 ? NULL : tt_value_null_new();
}

/* A function that runs at once is no business of the error that the program has not handled yet. */
TT_TEST(pg_future, functions_leave_a_pending_error_alone)
{
    tt_future *f = tt_future_new();

    TT_REQUIRE_OK(tt_future_set(f, NULL));
    for (int gives = 0; gives < 2; gives++) {
        tt_fail(TT_ERR_FORMAT, "of the program");
        tt_future *after = tt_future_then(f, fails, &gives);
        TT_CHECK_NULL(tt_future_then(NULL, fails, &gives));
        TT_CHECK_STR(tt_last_error(), "of the program");
        tt_future_free(after);
    }
    tt_future_free(f);
}
