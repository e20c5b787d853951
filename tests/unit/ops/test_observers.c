/* SPDX-License-Identifier: Apache-2.0 */
/* Observers: many at once, on other threads, freed while they observe. */
#include <pthread.h>
#include <stdatomic.h>

#include "tutti/observe.h"
#include "tutti/testing.h"
#include "tutti/tutti.h"

static tt_tensor *two(void)
{
    return tt_full(TT_SHAPE(2), 2.0, TT_F32, TT_CPU);
}

static tt_status count(void *ctx, const tt_op_event *e)
{
    if (e->after)
        atomic_fetch_add((atomic_int *)ctx, 1);
    return TT_OK;
}

static tt_status check_event(void *ctx, const tt_op_event *e)
{
    int *calls = ctx;

    TT_CHECK_STR(e->name, "mul");
    TT_CHECK_EQ(e->n_in, 2);
    TT_CHECK_EQ(e->after, *calls == 1);
    if (e->after) {
        TT_CHECK_OK(e->status);
        TT_CHECK_NEAR(tt_at(e->out, (const int64_t[]){ 0 }), 4.0, 0);
    } else {
        TT_CHECK_NULL(e->out);
        TT_CHECK_NEAR(tt_at(e->in[0], (const int64_t[]){ 0 }), 2.0, 0);
    }
    ++*calls;
    return TT_OK;
}

TT_TEST(observers, are_told_before_and_after)
{
    TT_SCOPE {
        int calls = 0;
        tt_observer *o = tt_observer_new("mul", true, check_event, &calls);

        TT_CHECK_NOT_NULL(tt_mul(two(), two()));
        TT_CHECK_EQ(calls, 2);
        TT_CHECK_NOT_NULL(tt_exp(two()));
        TT_CHECK_EQ(calls, 2);
        tt_observer_free(o);
        TT_CHECK_NOT_NULL(tt_mul(two(), two()));
        TT_CHECK_EQ(calls, 2);
    }
    TT_CHECK_NULL(tt_observer_new("mul", true, NULL, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "expected a function");
    tt_observer_free(NULL);
}

TT_TEST(observers, a_hundred_are_all_told)
{
    atomic_int calls = 0;
    tt_observer *all[100];

    for (int i = 0; i < 100; i++) {
        all[i] = tt_observer_new(i % 2 == 0 ? "mul" : NULL, false, count, &calls);
        TT_REQUIRE_NOT_NULL(all[i]);
    }
    TT_SCOPE {
        tt_tensor *x = two();
        int before = atomic_load(&calls);

        TT_CHECK_NOT_NULL(tt_mul(x, x));
        TT_CHECK_EQ(atomic_load(&calls) - before, 100);
    }
    for (int i = 0; i < 100; i++)
        tt_observer_free(all[i]);
}

static void *multiply(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 100; i++)
        TT_SCOPE
            TT_CHECK_NOT_NULL(tt_mul(two(), two()));
    return NULL;
}

TT_TEST(observers, see_every_thread_or_only_their_own)
{
    atomic_int every = 0, mine = 0;
    tt_observer *a = tt_observer_new("mul", false, count, &every);
    tt_observer *b = tt_observer_new("mul", true, count, &mine);
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, multiply, NULL), 0);
    multiply(NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    TT_CHECK_EQ(atomic_load(&every), 300);
    TT_CHECK_EQ(atomic_load(&mine), 100);
    tt_observer_free(a);
    tt_observer_free(b);
}

static atomic_int of_those_that_come_and_go;

TT_TEST(observers, come_and_go_while_others_run)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, multiply, NULL), 0);
    for (int i = 0; i < 500; i++)
        tt_observer_free(tt_observer_new("mul", false, count, &of_those_that_come_and_go));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

typedef struct suicidal {
    tt_observer *self;
    int calls;
} suicidal;

static tt_status free_self(void *ctx, const tt_op_event *e)
{
    suicidal *s = ctx;

    (void)e;
    s->calls++;
    tt_observer_free(s->self);
    s->self = NULL;
    return TT_OK;
}

static tt_status use_operators(void *ctx, const tt_op_event *e)
{
    ++*(int *)ctx;
    return e->after || tt_exp(e->in[0]) != NULL ? TT_OK : tt_last_status();
}

TT_TEST(observers, may_free_themselves_and_use_operators)
{
    TT_SCOPE {
        suicidal s = { 0 };
        int calls = 0;
        tt_tensor *x = two();
        tt_observer *o;

        s.self = tt_observer_new("mul", false, free_self, &s);
        TT_CHECK_NOT_NULL(tt_mul(x, x));
        TT_CHECK_NOT_NULL(tt_mul(x, x));
        TT_CHECK_EQ(s.calls, 1);
        o = tt_observer_new(NULL, true, use_operators, &calls);
        TT_CHECK_NOT_NULL(tt_mul(x, x));
        TT_CHECK_EQ(calls, 2); /* its own exp is not observed */
        tt_observer_free(o);
    }
}

static tt_status fail_after(void *ctx, const tt_op_event *e)
{
    (void)ctx;
    return e->after ? tt_fail(TT_ERR_IO, "nobody reads this") : TT_OK;
}

TT_TEST(observers, leave_the_error_record_alone)
{
    TT_SCOPE {
        tt_tensor *x = two();
        tt_observer *o = tt_observer_new(NULL, true, fail_after, NULL);

        tt_fail(TT_ERR_FORMAT, "kept");
        TT_CHECK_NOT_NULL(tt_mul(x, x));
        TT_CHECK_STR(tt_last_error(), "kept");
        tt_observer_free(o);
    }
}
