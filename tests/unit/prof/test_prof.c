/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: which events are in them, in which order, from which threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "prof/emit.h"
#include "tutti/observe.h"
#include "tutti/ops.h"
#include "tutti/prof.h"
#include "tutti/testing.h"

static const int two_ranks[] = { 0, 1 };

static tt_prof_event reduce_event(uint64_t seq)
{
    return (tt_prof_event){ .name = "shm:all_reduce",
                            .rank = 1,
                            .seq = seq,
                            .group = "world",
                            .group_desc = "everybody",
                            .group_size = 2,
                            .dtype = TT_F32,
                            .in_numel = 6,
                            .out_numel = 6,
                            .peer = -1,
                            .is_collective = true,
                            .ranks = two_ranks,
                            .n_ranks = 2 };
}

static size_t count(const tt_prof *p, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < tt_prof_n_events(p); i++)
        n += strcmp(tt_prof_event_at(p, i)->name, name) == 0;
    return n;
}

TT_TEST(prof, nothing_is_recorded_when_off)
{
    tt_prof_event e = reduce_event(1);

    TT_CHECK(!tti_prof_on());
    TT_CHECK_NULL(tti_prof_op_begin(&e));
    tti_prof_op_end(NULL, false);
    tt_prof_begin("before");
    tt_prof *p = tt_prof_start(NULL);
    TT_CHECK(tti_prof_on());
    tt_prof_end(); /* of a scope that began before the profile */
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK(!tti_prof_on());
    TT_CHECK_NULL(tti_prof_op_begin(&e));
    tt_prof_end(); /* one too many */
    TT_CHECK_EQ(tt_prof_n_events(p), 0);
    TT_CHECK_NULL(tt_prof_event_at(p, 0));
    tt_prof_free(p);
    tt_prof_free(NULL);
}

TT_TEST(prof, an_event_has_what_its_begin_said)
{
    char name[] = "shm:all_reduce", group[] = "world";
    tt_shape shape = TT_SHAPE(2, 3);
    int64_t splits[] = { 2, 4 };
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .shapes = true });
    tt_prof_event e = reduce_event(7);
    const tt_prof_event *got;

    e.name = name;
    e.group = group;
    e.shapes = &shape;
    e.n_shapes = 1;
    e.in_splits = splits;
    e.n_in_splits = 2;
    e.async = true;
    tti_prof_mark *m = tti_prof_op_begin(&e);
    memset(name, 'x', 3); /* all are copied */
    memset(group, 'x', 3);
    splits[0] = 99;
    shape.dims[0] = 99;
    tti_prof_op_end(m, true);
    TT_CHECK_OK(tt_prof_stop(p));
    TT_REQUIRE_EQ(tt_prof_n_events(p), 1);
    got = tt_prof_event_at(p, 0);
    TT_CHECK_STR(got->name, "shm:all_reduce");
    TT_CHECK_STR(got->group, "world");
    TT_CHECK_STR(got->group_desc, "everybody");
    TT_CHECK_EQ(got->count, 1);
    TT_CHECK_GE(got->start_ns, 0);
    TT_CHECK_GE(got->cpu_ns, 0);
    TT_CHECK_NE(got->thread, 0);
    TT_CHECK_EQ(got->seq, 7);
    TT_CHECK(got->async && got->failed && got->is_collective);
    TT_REQUIRE_EQ(got->n_shapes, 1);
    TT_CHECK(tt_shape_equal(got->shapes[0], TT_SHAPE(2, 3)));
    TT_REQUIRE_EQ(got->n_ranks, 2);
    TT_CHECK_EQ(got->ranks[1], 1);
    TT_CHECK_EQ(got->in_splits[0], 2);
    TT_CHECK_EQ(got->n_out_splits, 0);
    tt_prof_free(p);
}

TT_TEST(prof, operators_and_scopes_nest_in_order)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .shapes = true });
    const tt_prof_event *outer, *op;

    TT_SCOPE {
        tt_prof_begin("outer");
        tt_prof_begin("inner");
        TT_CHECK_NOT_NULL(tt_mul(TT_FLOATS(1, 2, 3), TT_FLOATS(4, 5, 6)));
        tt_prof_end();
        TT_CHECK_NOT_NULL(tt_exp(TT_FLOATS(1, 2)));
        tt_prof_end();
    }
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_EQ(count(p, "mul"), 1);
    TT_CHECK_EQ(count(p, "exp"), 1);
    outer = tt_prof_event_at(p, 0);
    TT_REQUIRE_NOT_NULL(outer);
    TT_CHECK_STR(outer->name, "outer");
    TT_CHECK_STR(tt_prof_event_at(p, 1)->name, "inner");
    TT_CHECK_EQ(outer->rank, -1);
    TT_CHECK_EQ(outer->peer, -1);
    for (size_t i = 1; i < tt_prof_n_events(p); i++) {
        op = tt_prof_event_at(p, i);
        TT_CHECK_GE(op->start_ns, tt_prof_event_at(p, i - 1)->start_ns);
        TT_CHECK_LE(op->start_ns + op->cpu_ns, outer->start_ns + outer->cpu_ns);
        if (strcmp(op->name, "mul") == 0) {
            TT_REQUIRE_EQ(op->n_shapes, 2);
            TT_CHECK(tt_shape_equal(op->shapes[1], TT_SHAPE(3)));
        }
    }
    tt_prof_free(p);
}

TT_TEST(prof, complex_shapes_are_pairs_of_reals)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .shapes = true });
    bool found = false;

    TT_SCOPE {
        tt_tensor *z = tt_zeros(TT_SHAPE(3, 2), TT_C64, TT_CPU);

        TT_CHECK_NOT_NULL(tt_mul(z, z));
    }
    TT_CHECK_OK(tt_prof_stop(p));
    for (size_t i = 0; i < tt_prof_n_events(p); i++) {
        const tt_prof_event *e = tt_prof_event_at(p, i);

        if (strcmp(e->name, "mul") == 0) {
            found = true;
            TT_CHECK(tt_shape_equal(e->shapes[0], TT_SHAPE(3, 2, 2)));
        }
    }
    TT_CHECK(found);
    tt_prof_free(p);
}

TT_TEST(prof, options_leave_things_out)
{
    tt_prof *no_ops = tt_prof_start(&(tt_prof_options){ .no_ops = true, .shapes = true });
    tt_prof *few = tt_prof_start(&(tt_prof_options){ .max_events = 3 });

    TT_SCOPE {
        for (int i = 0; i < 5; i++) {
            tt_prof_begin("step");
            TT_CHECK_NOT_NULL(tt_exp(TT_FLOATS(1)));
            tt_prof_end();
        }
    }
    TT_CHECK_OK(tt_prof_stop(no_ops));
    TT_CHECK_OK(tt_prof_stop(few));
    TT_CHECK_OK(tt_prof_stop(few)); /* again is no harm */
    TT_CHECK_EQ(tt_prof_n_events(no_ops), 5);
    TT_CHECK_EQ(count(no_ops, "step"), 5);
    TT_CHECK_EQ(tt_prof_n_events(few), 3);
    TT_CHECK_GE(tt_prof_n_dropped(few), 7);
    TT_CHECK_EQ(tt_prof_n_dropped(no_ops), 0);
    for (size_t i = 0; i < 3; i++)
        TT_CHECK_EQ(tt_prof_event_at(few, i)->n_shapes, 0);
    tt_prof_free(no_ops);
    tt_prof_free(few);
    TT_CHECK_ERR_SAYS(tt_prof_stop(NULL), TT_ERR_INVALID, "got NULL");
}

static tt_status refuse(void *ctx, const tt_op_event *e)
{
    (void)ctx;
    return e->after ? TT_OK : TT_ERR_VETOED;
}

TT_TEST(prof, refused_operators_leave_the_others_right)
{
    tt_observer *o = tt_observer_new("exp", true, refuse, NULL);
    tt_prof *p = tt_prof_start(NULL);

    TT_SCOPE {
        for (int i = 0; i < 200; i++) {
            tt_tensor *x = TT_FLOATS(1, 2);

            TT_CHECK_NULL(tt_exp(x));
            tt_clear_error();
            TT_CHECK_NOT_NULL(tt_mul(x, x));
        }
    }
    TT_CHECK_OK(tt_prof_stop(p));
    tt_observer_free(o);
    TT_CHECK_EQ(count(p, "mul"), 200);
    for (size_t i = 0; i < tt_prof_n_events(p); i++)
        if (strcmp(tt_prof_event_at(p, i)->name, "mul") == 0)
            TT_CHECK(!tt_prof_event_at(p, i)->failed);
    tt_prof_free(p);
}

/* ---- threads --------------------------------------------------------------------------- */

static void *end_mark(void *mark)
{
    tti_prof_op_end(mark, false);
    return NULL;
}

static void end_elsewhere(tti_prof_mark *m)
{
    pthread_t t;

    TT_REQUIRE_EQ(pthread_create(&t, NULL, end_mark, m), 0);
    pthread_join(t, NULL);
}

TT_TEST(prof, an_operation_may_end_on_another_thread)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .this_thread_only = true });
    tt_prof_event e = reduce_event(1);

    end_elsewhere(tti_prof_op_begin(&e));
    TT_CHECK_OK(tt_prof_stop(p));
    TT_REQUIRE_EQ(tt_prof_n_events(p), 1);
    TT_CHECK(tt_prof_event_at(p, 0)->async);
    tt_prof_free(p);
}

TT_TEST(prof, operations_under_way_are_left_out_and_harmless)
{
    tt_prof *p = tt_prof_start(NULL), *q = tt_prof_start(NULL);
    tt_prof_event e = reduce_event(1);
    tti_prof_mark *a = tti_prof_op_begin(&e), *b = tti_prof_op_begin(&e);

    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_EQ(tt_prof_n_events(p), 0);
    end_elsewhere(a);
    TT_CHECK_EQ(tt_prof_n_events(p), 0);
    tt_prof_free(p);
    end_elsewhere(b); /* p is gone, q is not */
    TT_CHECK_OK(tt_prof_stop(q));
    TT_CHECK_EQ(tt_prof_n_events(q), 2);
    tt_prof_free(q);
}

typedef struct worker {
    pthread_t thread;
    atomic_int *go;
    int n;
} worker;

static void *work(void *ctx)
{
    worker *w = ctx;
    tt_prof_event e = reduce_event(0);

    while (atomic_load(w->go) == 0)
        ;
    for (int i = 0; i < w->n; i++) {
        tt_prof_begin("step");
        e.seq = (uint64_t)i;
        tti_prof_op_end(tti_prof_op_begin(&e), false);
        tt_prof_end();
    }
    tt_prof_begin("left open");
    return NULL;
}

/* The threads run before the profile does. */
static void run_workers(const tt_prof_options *opt, tt_prof **p_p)
{
    atomic_int go = 0;
    worker w[4];

    for (int i = 0; i < 4; i++) {
        w[i] = (worker){ .go = &go, .n = 500 };
        TT_REQUIRE_EQ(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    *p_p = tt_prof_start(opt);
    atomic_store(&go, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(w[i].thread, NULL);
    TT_CHECK_OK(tt_prof_stop(*p_p));
}

TT_TEST(prof, reaches_threads_that_already_run)
{
    tt_prof *p;
    uint64_t threads[4];
    int n_threads = 0;

    run_workers(NULL, &p);
    TT_CHECK_EQ(count(p, "step"), 2000);
    TT_CHECK_EQ(count(p, "shm:all_reduce"), 2000);
    TT_CHECK_EQ(count(p, "left open"), 4); /* ended with their threads */
    for (size_t i = 0; i < tt_prof_n_events(p); i++) {
        const tt_prof_event *e = tt_prof_event_at(p, i);
        int k = 0;

        if (i > 0)
            TT_CHECK_GE(e->start_ns, tt_prof_event_at(p, i - 1)->start_ns);
        while (k < n_threads && threads[k] != e->thread)
            k++;
        TT_REQUIRE_LT(k, 4);
        if (k == n_threads)
            threads[n_threads++] = e->thread;
    }
    TT_CHECK_EQ(n_threads, 4);
    tt_prof_free(p);
    run_workers(&(tt_prof_options){ .this_thread_only = true }, &p);
    TT_CHECK_EQ(tt_prof_n_events(p), 0);
    tt_prof_free(p);
}

static void *churn(void *ctx)
{
    atomic_int *stop = ctx;
    tt_prof_event e = reduce_event(0);

    while (atomic_load(stop) == 0) {
        tti_prof_mark *m = tti_prof_op_begin(&e);

        TT_SCOPE {
            TT_CHECK_NOT_NULL(tt_exp(TT_FLOATS(1, 2)));
        }
        tti_prof_op_end(m, false);
    }
    return NULL;
}

TT_TEST(prof, starts_and_stops_while_others_work)
{
    atomic_int stop = 0;
    pthread_t t[2];

    for (int i = 0; i < 2; i++)
        TT_REQUIRE_EQ(pthread_create(&t[i], NULL, churn, &stop), 0);
    for (int i = 0; i < 100; i++) {
        tt_prof *p = tt_prof_start(NULL), *q = tt_prof_start(&(tt_prof_options){ .no_ops = true });

        tt_prof_begin("x");
        tt_prof_end();
        TT_CHECK_OK(tt_prof_stop(p));
        TT_CHECK_EQ(count(p, "x"), 1);
        for (size_t k = 0; k < tt_prof_n_events(p); k++)
            TT_CHECK_GE(tt_prof_event_at(p, k)->cpu_ns, 0);
        tt_prof_free(p);
        tt_prof_free(q);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    TT_CHECK(!tti_prof_on());
}

/* ---- scopes deeper than remembered, memory that is short ----------------------------------- */

TT_TEST(prof, deep_scopes_match)
{
    tt_prof *p = tt_prof_start(NULL);

    for (int i = 0; i < 100; i++)
        tt_prof_begin("deep");
    for (int i = 0; i < 100; i++)
        tt_prof_end();
    tt_prof_begin(NULL);
    tt_prof_end();
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_EQ(count(p, "deep"), 100);
    TT_CHECK_EQ(count(p, ""), 1);
    tt_prof_free(p);
}

TT_TEST(prof, short_memory_drops_events_and_keeps_the_last_error)
{
    tt_prof_event e = reduce_event(1);
    tt_prof *p = tt_prof_start(NULL);

    tt_fail(TT_ERR_PEER, "kept");
    tt_debug_fail_alloc(1);
    TT_CHECK_NULL(tti_prof_op_begin(&e));
    tt_debug_fail_alloc(0);
    TT_CHECK_STR(tt_last_error(), "kept");
    TT_CHECK_EQ(tt_prof_n_dropped(p), 1);
    tti_prof_op_end(tti_prof_op_begin(&e), false);
    TT_CHECK_OK(tt_prof_stop(p));
    TT_CHECK_EQ(tt_prof_n_events(p), 1);
    tt_prof_free(p);
}

static tt_status start_and_stop(void *unused)
{
    tt_prof *p = tt_prof_start(NULL);
    char *table;
    tt_status st = TT_OK;

    (void)unused;
    if (p == NULL)
        return TT_ERR_NOMEM;
    tt_prof_begin("x");
    tt_prof_end();
    tt_prof_stop(p);
    table = tt_prof_table(p);
    if (table == NULL)
        st = TT_ERR_NOMEM;
    tt_text_free(table);
    tt_prof_free(p);
    return st;
}

TT_TEST(prof, survives_every_failed_allocation)
{
    TT_CHECK_GE(tt_test_fail_allocs(start_and_stop, NULL), 3);
}

TT_TEST(prof, table_adds_up_and_sorts)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .no_ops = true });
    char *table;

    tt_prof_begin("outer");
    for (int i = 0; i < 3; i++) {
        tt_prof_begin("a");
        tt_prof_end();
    }
    tt_prof_end();
    TT_CHECK_OK(tt_prof_stop(p));
    table = tt_prof_table(p);
    TT_REQUIRE_NOT_NULL(table);
    TT_CHECK_CONTAINS(table, "name");
    TT_CHECK(strstr(table, "outer") < strstr(table, "\na "));
    TT_CHECK_CONTAINS(strstr(table, "\na "), " 3 ");
    tt_text_free(table);
    tt_prof_free(p);
}
