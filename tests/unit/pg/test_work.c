/* SPDX-License-Identifier: Apache-2.0 */
/* Works and messages: results, life times, time-outs, batches. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/pg_group.h"

/* A group of one: everything happens, nobody is waited for. */
static tt_pg *alone(const char *backend)
{
    tt_store *s = tt_store_memory_new();
    tt_pg *pg = tt_pg_new_store(s, 0, 1, &(tt_pg_options){ .backend = backend });

    tt_store_free(s);
    TT_REQUIRE(pg != NULL);
    return pg;
}

static tt_value *sum_plus(void *ctx, tt_future *f)
{
    tt_value *list = tt_future_value(f);
    TT_CHECK_EQ(tt_value_count(list), 1);
    return tt_value_float_new(tt_item(tt_value_as_tensor(tt_value_at(list, 0))) + *(double *)ctx);
}

TT_TEST(pg_work, future_has_the_result)
{
    tt_pg *pg = alone("threads");
    double more = 0.5;

    TT_SCOPE {
        tt_work *w;
        TT_REQUIRE_OK(tt_pg_all_reduce(pg, filled(1, 3, TT_F32), NULL, &w));
        tt_future *f = tt_work_future(w);
        tt_future *g = tt_future_then(f, sum_plus, &more);
        tt_work_free(w);
        TT_CHECK_OK(tt_future_wait(g, 0));
        TT_CHECK_NEAR(tt_value_as_float(tt_future_value(g)), 3.5, 0);
        tt_future_free(f);
        tt_future_free(g);
    }
    tt_pg_free(pg);
}

TT_TEST(pg_work, future_asked_for_after_the_end)
{
    tt_pg *pg = alone("threads");

    TT_SCOPE {
        tt_work *w;
        TT_REQUIRE_OK(tt_pg_all_reduce(pg, filled(1, 3, TT_F32), NULL, &w));
        TT_CHECK_OK(tt_work_wait(w, 0));
        tt_future *f = tt_work_future(w), *same = tt_work_future(w);
        TT_CHECK(tt_future_done(f));
        TT_CHECK_PTR(f, same);
        TT_CHECK_STR(tt_work_op(w), "all_reduce");
        TT_CHECK_STR(tt_work_error(w), "");
        TT_CHECK_EQ(tt_work_source(w), -1);
        tt_future_free(f);
        tt_future_free(same);
        tt_work_free(w);
    }
    tt_pg_free(pg);
}

TT_TEST(pg_work, freed_at_once_and_group_after_it)
{
    for (int i = 0; i < 200; i++) {
        tt_pg *pg = alone("threads");
        tt_work *w;
        TT_SCOPE
            TT_REQUIRE_OK(tt_pg_all_reduce(pg, filled(100, 3, TT_F32), NULL, &w));
        tt_work_free(w);
        tt_pg_free(pg); /* waits for it */
    }
    TT_CHECK_EQ(tt_pg_count(), 0);
}

static tt_value *free_group(void *ctx, tt_future *f)
{
    (void)f;
    tt_pg_free(ctx);
    return tt_value_null_new();
}

TT_TEST(pg_work, callback_gives_up_the_group)
{
    tt_pg *pg = alone("threads");
    tt_future *g = NULL;

    TT_SCOPE {
        tt_work *w;
        TT_REQUIRE_OK(tt_pg_all_reduce(pg, filled(1000, 3, TT_F32), NULL, &w));
        tt_future *f = tt_work_future(w);
        g = tt_future_then(f, free_group, pg);
        tt_future_free(f);
        tt_work_free(w);
    }
    TT_CHECK_OK(tt_future_wait(g, 0));
    tt_future_free(g);
    while (tt_pg_count() > 0) /* its own thread is still taking it down */
        usleep(100);
}

TT_TEST(pg_work, memory_of_the_group_outlives_it)
{
    TT_SCOPE {
        tt_pg *pg = alone("threads");
        tt_tensor *t = tt_pg_alloc(pg, TT_SHAPE(1000), TT_F32);
        TT_REQUIRE(t != NULL);
        tt_fill_(t, 2);
        tt_pg_free(pg);
        check_filled(t, 2);
    }
}

TT_TEST(pg_work, a_forked_child_may_not_use_the_group)
{
    tt_pg *pg = alone("threads");
    int status = 0;

    pid_t child = fork();
    if (child == 0) {
        tt_status st = tt_pg_barrier(pg, NULL, NULL);
        tt_pg_free(pg);
        _exit(st == TT_ERR_INVALID ? 0 : 1);
    }
    waitpid(child, &status, 0);
    TT_CHECK_EQ(status, 0);
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    tt_pg_free(pg);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void to_oneself(tt_pg *pg)
{
    tt_work *r, *s;
    tt_tensor *in = filled(50, 4, TT_F32), *out = filled(50, -1, TT_F32);

    TT_REQUIRE_OK(tt_pg_recv(pg, out, 0, 9, NULL, NULL, &r));
    TT_CHECK(!tt_work_done(r));
    TT_REQUIRE_OK(tt_pg_send(pg, in, 0, 9, NULL, &s));
    TT_CHECK_OK(tt_work_wait(r, 5000));
    TT_CHECK_OK(tt_work_wait(s, 5000));
    TT_CHECK_EQ(tt_work_source(r), 0);
    check_filled(out, 4);
    tt_work_free(r);
    tt_work_free(s);
}

TT_TEST(pg_message, to_oneself)
{
    tt_pg *pg = alone("threads");
    TT_SCOPE
        to_oneself(pg);
    tt_pg_free(pg);
}

TT_TEST(pg_message, waits_no_longer_than_told)
{
    tt_pg *pg = alone("threads");

    TT_SCOPE {
        tt_work *w;
        tt_tensor *t = filled(1, 0, TT_F32);
        TT_CHECK_ERR_SAYS(
            tt_pg_recv(pg, t, 0, 0, &(tt_coll_options){ .timeout_ms = 20 }, NULL, NULL),
            TT_ERR_TIMEOUT, "recv");
        TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, 1, NULL, NULL, &w));
        TT_CHECK_ERR_SAYS(tt_work_wait(w, 20), TT_ERR_TIMEOUT, "20 ms");
        TT_CHECK_OK(tt_pg_send(pg, filled(1, 6, TT_F32), 0, 1, NULL, NULL));
        TT_CHECK_OK(tt_work_wait(w, 0)); /* it went on */
        check_filled(t, 6);
        tt_work_free(w);
        /* Nobody waits for this one: the group's thread ends it at its own time-out. */
        TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, 2, &(tt_coll_options){ .timeout_ms = 30 }, NULL, &w));
        tt_future *f = tt_work_future(w);
        TT_CHECK_ERR_SAYS(tt_future_wait(f, 0), TT_ERR_TIMEOUT, "30 ms");
        tt_future_free(f);
        tt_work_free(w);
    }
    tt_pg_free(pg);
}

static void exchange_all(tt_pg *pg)
{
    int n = tt_pg_size(pg), me = tt_pg_rank(pg), k = 0;
    tt_p2p_op ops[16];
    tt_work *works[16];
    tt_tensor *got[8];

    for (int i = 0; i < n; i++) {
        got[i] = tt_full(TT_SHAPE(i + 1, 2), -1, TT_F64, TT_CPU);
        ops[k++] = (tt_p2p_op){ TT_P2P_RECV, pg, got[i], i, 3 };
        tt_tensor *t = tt_full(TT_SHAPE(me + 1, 2), 10 * me + i, TT_F64, TT_CPU);
        ops[k++] = (tt_p2p_op){ TT_P2P_SEND, pg, t, i, 3 };
    }
    TT_REQUIRE_OK(tt_p2p_batch(ops, k, NULL, works));
    for (int i = 0; i < k; i++) {
        TT_CHECK_OK(tt_work_wait(works[i], 0));
        tt_work_free(works[i]);
    }
    for (int i = 0; i < n && hears(pg, me == 0 ? 1 : 0); i++)
        check_filled(got[i], 10 * i + me);
}

static void any_source(tt_pg *pg)
{
    int n = tt_pg_size(pg), me = tt_pg_rank(pg), seen = 0;
    tt_tensor *t = filled(10, me, TT_F32);

    if (!hears(pg, me == 0 ? 1 : 0))
        return;
    if (me != 0) {
        TT_CHECK_OK(tt_pg_send(pg, t, 0, 0, NULL, NULL));
        return;
    }
    for (int i = 1; i < n; i++) {
        int source = -1;
        TT_CHECK_OK(tt_pg_recv(pg, t, TT_ANY_SOURCE, 0, NULL, &source, NULL));
        TT_CHECK(source > 0 && source < n);
        check_filled(t, source);
        seen |= 1 << source;
    }
    TT_CHECK_EQ(seen, (1 << n) - 2);
}

static void strided_message(tt_pg *pg)
{
    int me = tt_pg_rank(pg);
    tt_tensor *whole = tt_full(TT_SHAPE(4, 4), me, TT_F32, TT_CPU);
    tt_tensor *column = tt_slice(whole, 1, 1, 2, 1);

    if (!hears(pg, me == 0 ? 1 : 0))
        return;
    if (me == 1)
        TT_CHECK_OK(tt_pg_send(pg, column, 0, 0, NULL, NULL));
    if (me != 0)
        return;
    TT_CHECK_OK(tt_pg_recv(pg, column, 1, 0, NULL, NULL, NULL));
    TT_CHECK_NEAR(tt_at(whole, (int64_t[]){ 2, 1 }), 1, 0);
    TT_CHECK_NEAR(tt_at(whole, (int64_t[]){ 2, 2 }), 0, 0);
}

/* Large messages both ways while collectives run: neither may wait for the other. */
static void beside_collectives(tt_pg *pg)
{
    int n = tt_pg_size(pg), me = tt_pg_rank(pg);
    tt_tensor *big = filled(300000, me, TT_F32), *got = filled(300000, -1, TT_F32);
    tt_tensor *t = filled(1000, 1, TT_F32);
    tt_work *s, *r, *a;

    if (!hears(pg, me == 0 ? 1 : 0))
        return;
    TT_REQUIRE_OK(tt_pg_send(pg, big, (me + 1) % n, 0, NULL, &s));
    TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, &a));
    TT_REQUIRE_OK(tt_pg_recv(pg, got, (me + n - 1) % n, 0, NULL, NULL, &r));
    TT_CHECK_OK(tt_work_wait(a, 0));
    TT_CHECK_OK(tt_work_wait(r, 0));
    TT_CHECK_OK(tt_work_wait(s, 0));
    check_filled(t, n);
    check_filled(got, (me + n - 1) % n);
    tt_work_free(s);
    tt_work_free(a);
    tt_work_free(r);
}

static const pg_case cases[] = {
    { "exchange_all", exchange_all, 4 },
    { "any_source", any_source, 4 },
    { "strided_message", strided_message, 2 },
    { "beside_collectives", beside_collectives, 3 },
};

TT_TEST_TABLE(pg_message_cases)
{
    add_pg_cases(cases, (int)(sizeof cases / sizeof cases[0]));
}

TT_TEST(pg_message, batches_say_what_is_wrong)
{
    tt_pg *a = alone("threads"), *b = alone("fake");
    tt_work *works[2];

    TT_SCOPE {
        tt_tensor *t = filled(1, 0, TT_F32);
        tt_p2p_op mixed[] = { { TT_P2P_SEND, a, t, 0, 0 }, { TT_P2P_SEND, b, t, 0, 0 } };
        tt_p2p_op none[] = { { 0 } };
        TT_CHECK_ERR_SAYS(tt_p2p_batch(mixed, 2, NULL, works), TT_ERR_INVALID, "one group");
        TT_CHECK_ERR_SAYS(tt_p2p_batch(none, 1, NULL, works), TT_ERR_INVALID, "neither a send");
        TT_CHECK_ERR(tt_p2p_batch(NULL, 1, NULL, works), TT_ERR_INVALID);
        TT_CHECK_ERR(tt_p2p_batch(mixed, 0, NULL, works), TT_ERR_INVALID);
    }
    tt_pg_free(a);
    tt_pg_free(b);
}

static tt_value *note_the_end(void *ctx, tt_future *f)
{
    (void)f;
    atomic_store((atomic_int *)ctx, 1);
    return tt_value_int_new(1);
}

/* Nobody waits for the message itself, only for what hangs on it; then nobody at all but the group's end. */
TT_TEST(pg_message, ends_without_being_waited_for)
{
    tt_pg *pg = alone("threads");
    atomic_int ended = 0, later = 0;

    TT_SCOPE {
        tt_tensor *t = filled(1, 0, TT_F32);
        tt_work *w, *other;
        TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, 1, NULL, NULL, &w));
        tt_future *f = tt_work_future(w), *then = tt_future_then(f, note_the_end, &ended);
        TT_CHECK_EQ(atomic_load(&ended), 0);
        TT_CHECK_OK(tt_pg_send(pg, filled(1, 7, TT_F32), 0, 1, NULL, NULL));
        TT_CHECK_OK(tt_future_wait(then, 60000));
        TT_CHECK_EQ(atomic_load(&ended), 1);
        check_filled(t, 7);
        TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, 2, NULL, NULL, &other));
        tt_future *last = tt_work_future(other);
        tt_future *after = tt_future_then(last, note_the_end, &later);
        TT_CHECK_OK(tt_pg_send(pg, filled(1, 8, TT_F32), 0, 2, NULL, NULL));
        tt_work_free(other);
        tt_work_free(w);
        tt_pg_free(pg); /* ends what is under way first */
        TT_CHECK_EQ(atomic_load(&later), 1);
        check_filled(t, 8);
        tt_future_free(f);
        tt_future_free(then);
        tt_future_free(last);
        tt_future_free(after);
    }
}

enum { WAITS = 300 };

static void *wait_for_it(void *w)
{
    return tt_work_wait(w, 60000) == TT_OK ? w : NULL;
}

/* Two threads wait for one message while the engine looks after it, too: it ends once, for all of them. */
TT_TEST(pg_message, two_threads_wait_for_one)
{
    tt_pg *pg = alone("threads");

    for (int i = 0; i < WAITS; i++)
        TT_SCOPE {
            tt_tensor *t = filled(1, 0, TT_F32);
            pthread_t thread;
            void *woken = NULL;
            tt_work *w;
            TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, i, NULL, NULL, &w));
            TT_REQUIRE_EQ(pthread_create(&thread, NULL, wait_for_it, w), 0);
            TT_CHECK_OK(tt_pg_send(pg, filled(1, i, TT_F32), 0, i, NULL, NULL));
            TT_CHECK_OK(tt_work_wait(w, 60000));
            pthread_join(thread, &woken);
            TT_CHECK_PTR(woken, w);
            check_filled(t, i);
            tt_work_free(w);
        }
    tt_pg_free(pg);
}

static void *do_nothing(void *ctx)
{
    return ctx;
}

/* The engine thread cannot start, so nobody would ever end the message: the work says so instead of waiting for ever. */
TT_TEST(pg_message, ends_when_no_engine_can_be_started)
{
    tt_pg *pg = alone("threads");
    pthread_attr_t normal, huge;
    pthread_t thread;
    tt_work *w = NULL;

    TT_REQUIRE_EQ(pthread_getattr_default_np(&normal), 0);
    TT_REQUIRE_EQ(pthread_attr_init(&huge), 0);
    TT_REQUIRE_EQ(pthread_attr_setstacksize(&huge, (size_t)1 << 46), 0);
    TT_REQUIRE_EQ(pthread_setattr_default_np(&huge), 0);
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0) {
        pthread_join(thread, NULL);
        TT_SKIP("here threads start even if their stacks should be larger than the address space");
    }
    TT_SCOPE {
        tt_tensor *t = filled(1, 0, TT_F32);
        TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, 0, NULL, NULL, &w));
        TT_CHECK(tt_work_done(w));
        TT_CHECK_ERR_SAYS(tt_work_wait(w, 100), TT_ERR_IO, "cannot start its engine thread");
        tt_work_free(w);
        pthread_setattr_default_np(&normal);
        TT_REQUIRE_OK(tt_pg_recv(pg, t, 0, 0, NULL, NULL, &w)); /* and later it can */
        TT_CHECK_OK(tt_pg_send(pg, filled(1, 7, TT_F32), 0, 0, NULL, NULL));
        TT_CHECK_OK(tt_work_wait(w, 0));
        check_filled(t, 7);
        tt_work_free(w);
    }
    pthread_attr_destroy(&normal);
    pthread_attr_destroy(&huge);
    tt_pg_free(pg);
}
