/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a world, alone, in batches and under the profiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/distributed.h"

/* What watches the test: nothing, all operators and events, or events and a trace file. */
typedef enum watch { NONE, OPS, TRACE } watch;

static const watch none = NONE, ops = OPS, trace = TRACE;

static tt_prof *watch_start(const watch *w)
{
    tt_prof *p;

    if (*w == NONE)
        return NULL;
    p = tt_prof_start(&(tt_prof_options){ .shapes = true, .no_ops = *w == TRACE });
    TT_REQUIRE_NOT_NULL(p);
    return p;
}

static int count_in_file(const char *path, const char *words)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    int n = 0;

    TT_REQUIRE_NOT_NULL(f);
    (void)!fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        n++;
    free(text);
    return n;
}

/* The trace file has every event by its name. */
static void check_trace(tt_prof *p, const char *name, int n)
{
    char path[512], words[80];

    snprintf(path, sizeof path, "%s/trace%d.json", tt_test_tmpdir(), tt_test_rank());
    TT_REQUIRE_OK(tt_prof_export(p, path));
    snprintf(words, sizeof words, "\"%s\"", name);
    TT_CHECK_EQ(count_in_file(path, words), n);
    TT_CHECK_EQ(count_in_file(path, "\"distributedInfo\""), 1);
}

/* n events of this operation, asynchronous, with one cube whose edge is from lo to hi. */
static void watch_check(tt_prof *p, const watch *w, const char *op, int n, int64_t lo, int64_t hi)
{
    char name[64];
    int found = 0;

    if (p == NULL)
        return;
    snprintf(name, sizeof name, "shm:%s", op);
    for (size_t i = 0; i < tt_prof_n_events(p); i++) {
        const tt_prof_event *e = tt_prof_event_at(p, i);

        if (strcmp(e->name, name) != 0)
            continue;
        found++;
        TT_CHECK(e->async);
        TT_CHECK_EQ(e->count, 1);
        TT_CHECK_EQ(e->n_shapes, 1);
        if (e->n_shapes == 1) {
            TT_CHECK(tt_shape_equal(e->shapes[0], dist_cube(e->shapes[0].dims[0])));
            TT_CHECK_GE(e->shapes[0].dims[0], lo);
            TT_CHECK_LE(e->shapes[0].dims[0], hi);
        }
    }
    TT_CHECK_EQ(found, n);
    if (*w == TRACE && n > 0)
        check_trace(p, name, n);
}

static void watch_stop(tt_prof *p)
{
    if (p != NULL)
        TT_CHECK_OK(tt_prof_stop(p));
}

/* ---- one at a time ---------------------------------------------------------------------------- */

static void send_recv(const dist_group *g, const void *arg)
{
    tt_prof *p = watch_start(arg);

    for (int source = 0; source < g->n; source++)
        TT_SCOPE {
            tt_shape shape = dist_cube(source + 1);
            tt_tensor *t = dist_full(shape, TT_F32, g->me == source ? source + 1 : -1, 0);
            int from = -2;

            for (int dest = 0; g->me == source && dest < g->n; dest++)
                if (dest != source)
                    TT_REQUIRE_OK(tt_pg_send(g->pg, t, dest, 0, NULL, NULL));
            if (g->me != source) {
                TT_REQUIRE_OK(tt_pg_recv(g->pg, t, source, 0, NULL, &from, NULL));
                TT_CHECK_EQ(from, source);
            }
            DIST_CHECK_FULL(t, shape, source + 1, 0);
        }
    watch_stop(p);
    watch_check(p, arg, "send", g->n - 1, 1, g->n);
    watch_check(p, arg, "recv", g->n - 1, 1, g->n);
    tt_prof_free(p);
}

/* Each rank counts from whom it received; together everybody sent 2 to each of the others. */
static void check_sources(const dist_group *g, int64_t *heard)
{
    tt_tensor *t = tt_wrap(heard, TT_SHAPE(g->n), NULL, TT_I64, NULL, NULL);

    TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, t, NULL, NULL));
    for (int i = 0; i < g->n; i++)
        TT_CHECK_EQ(heard[i], 2 * (g->n - 1));
}

static void receive_any(const dist_group *g, bool async, int64_t *heard)
{
    tt_tensor *t = dist_full(dist_cube(10), TT_F32, -1, 0);
    tt_work *w = NULL;
    int source = -2;

    TT_REQUIRE_OK(
        tt_pg_recv(g->pg, t, TT_ANY_SOURCE, 0, NULL, async ? NULL : &source, async ? &w : NULL));
    if (async) {
        TT_REQUIRE_OK(tt_work_wait(w, 0));
        source = tt_work_source(w);
        tt_work_free(w);
    }
    TT_REQUIRE(source >= 0 && source < g->n && source != g->me);
    DIST_CHECK_FULL(t, dist_cube(10), source, 0);
    heard[source]++;
}

static void send_recv_any_source(const dist_group *g, const void *arg)
{
    int64_t heard[DIST_MAX] = { 0 };
    tt_prof *p = watch_start(arg);

    for (int dest = 0; dest < g->n; dest++)
        TT_SCOPE {
            tt_tensor *t = dist_full(dist_cube(10), TT_F32, g->me, 0);

            for (int i = 0; i < 2 && g->me != dest; i++)
                TT_REQUIRE_OK(tt_pg_send(g->pg, t, dest, 0, NULL, NULL));
            for (int i = 0; i < 2 * (g->n - 1) && g->me == dest; i++)
                receive_any(g, i % 2 != 0, heard);
        }
    watch_stop(p);
    watch_check(p, arg, "send", 2 * (g->n - 1), 10, 10);
    watch_check(p, arg, "recvAnySource", 2 * (g->n - 1), 10, 10);
    watch_check(p, arg, "recv", 0, 10, 10);
    tt_prof_free(p);
    check_sources(g, heard);
}

static void send_recv_with_tag(const dist_group *g, const void *arg)
{
    tt_prof *p = watch_start(arg);

    for (int dest = 0; dest < g->n; dest++)
        TT_SCOPE {
            tt_tensor *t = dist_full(dist_cube(10), TT_F32, g->me, 0);

            if (g->me != dest)
                TT_REQUIRE_OK(tt_pg_send(g->pg, t, dest, g->me, NULL, NULL));
            for (int source = 0; g->me == dest && source < g->n; source++) {
                if (source == dest)
                    continue;
                t = dist_full(dist_cube(10), TT_F32, -1, 0);
                TT_REQUIRE_OK(tt_pg_recv(g->pg, t, source, source, NULL, NULL, NULL));
                DIST_CHECK_FULL(t, dist_cube(10), source, 0);
            }
        }
    watch_stop(p);
    watch_check(p, arg, "send", g->n - 1, 10, 10);
    watch_check(p, arg, "recv", g->n - 1, 10, 10);
    tt_prof_free(p);
}

static void wait_all(tt_work **works, int n)
{
    for (int i = 0; i < n; i++) {
        TT_CHECK_OK(tt_work_wait(works[i], 0));
        TT_CHECK(tt_work_done(works[i]));
        tt_work_free(works[i]);
    }
}

static void isend(const dist_group *g, const void *arg)
{
    tt_prof *p = watch_start(arg);
    tt_work *works[DIST_MAX];
    bool sender = g->me == 0;
    tt_tensor *t;

    for (int d = 1; sender && d < g->n; d++)
        TT_REQUIRE_OK(
            tt_pg_send(g->pg, dist_full(dist_cube(d), TT_F32, 10, 0), d, 0, NULL, &works[d - 1]));
    if (sender) {
        wait_all(works, g->n - 1);
    } else {
        t = dist_full(dist_cube(g->me), TT_F32, -1, 0);
        TT_REQUIRE_OK(tt_pg_recv(g->pg, t, 0, 0, NULL, NULL, NULL));
        DIST_CHECK_FULL(t, dist_cube(g->me), 10, 0);
    }
    watch_stop(p);
    watch_check(p, arg, "send", sender ? g->n - 1 : 0, 1, g->n - 1);
    watch_check(p, arg, "recv", sender ? 0 : 1, g->me, g->me);
    tt_prof_free(p);
}

static void irecv(const dist_group *g, const void *arg)
{
    tt_work *works[DIST_MAX];
    tt_tensor *ts[DIST_MAX];

    (void)arg;
    if (g->me != 0) {
        TT_REQUIRE_OK(
            tt_pg_send(g->pg, dist_full(dist_cube(g->me), TT_F32, 10, 0), 0, 0, NULL, NULL));
        return;
    }
    for (int s = 1; s < g->n; s++) {
        ts[s] = dist_full(dist_cube(s), TT_F32, -1, 0);
        TT_REQUIRE_OK(tt_pg_recv(g->pg, ts[s], s, 0, NULL, NULL, &works[s - 1]));
    }
    wait_all(works, g->n - 1);
    for (int s = 1; s < g->n; s++)
        DIST_CHECK_FULL(ts[s], dist_cube(s), 10, 0);
}

/* ---- batches ----------------------------------------------------------------------------------- */

/* A batch being put together, and the tensors that it receives. */
typedef struct batch {
    tt_p2p_op ops[4 * DIST_MAX];
    tt_work *works[4 * DIST_MAX];
    int n;
} batch;

static tt_tensor *add_recv(batch *b, const dist_group *g, int source, int64_t edge, int tag)
{
    tt_tensor *t = dist_full(dist_cube(edge), TT_F32, -1, 0);

    b->ops[b->n++] = (tt_p2p_op){ TT_P2P_RECV, g->pg, t, source, tag };
    return t;
}

static void add_send(batch *b, const dist_group *g, int dest, int64_t edge, double value, int tag)
{
    b->ops[b->n++] =
        (tt_p2p_op){ TT_P2P_SEND, g->pg, dist_full(dist_cube(edge), TT_F32, value, 0), dest, tag };
}

static void run_batch(batch *b)
{
    TT_REQUIRE_OK(tt_p2p_batch(b->ops, b->n, NULL, b->works));
    wait_all(b->works, b->n);
}

/* All pairs, oneself included; the second round repeats the operations of the first. */
static void batch_all(const dist_group *g, const void *arg)
{
    batch b = { .n = 0 };
    tt_tensor *got[2 * DIST_MAX];

    (void)arg;
    for (int round = 0; round < 2; round++) {
        for (int s = 0; s < g->n; s++) {
            got[round * g->n + s] = add_recv(&b, g, s, s + 1, 0);
            add_send(&b, g, s, g->me + 1, s, 0);
        }
        run_batch(&b);
        for (int i = 0; i < (round + 1) * g->n; i++) {
            DIST_CHECK_FULL(got[i], dist_cube(i % g->n + 1), g->me, 0);
            tt_fill_(got[i], -1);
        }
    }
}

/* With `arg`, tagged by the sender. */
static void batch_pairs(const dist_group *g, const void *arg)
{
    batch b = { .n = 0 };
    tt_tensor *got[DIST_MAX];

    for (int s = 0; s < g->n; s++)
        if (s != g->me) {
            got[s] = add_recv(&b, g, s, s + 1, arg != NULL ? s : 0);
            add_send(&b, g, s, g->me + 1, g->me, arg != NULL ? g->me : 0);
        }
    run_batch(&b);
    for (int s = 0; s < g->n; s++)
        if (s != g->me)
            DIST_CHECK_FULL(got[s], dist_cube(s + 1), s, 0);
}

static void batch_ring(const dist_group *g, const void *arg)
{
    int next = (g->me + 1) % g->n, last = (g->me + g->n - 1) % g->n;
    batch b = { .n = 0 };
    tt_tensor *got;

    (void)arg;
    add_send(&b, g, next, g->n, g->me, 0);
    got = add_recv(&b, g, last, g->n, 0);
    run_batch(&b);
    DIST_CHECK_FULL(got, dist_cube(g->n), last, 0);
}

static void batch_self(const dist_group *g, const void *arg)
{
    batch b = { .n = 0 };
    tt_tensor *got;

    (void)arg;
    TT_REQUIRE_OK(tt_pg_barrier(g->pg, NULL, NULL));
    if (g->me != 0)
        return;
    got = add_recv(&b, g, 0, 1, 0);
    add_send(&b, g, 0, 1, 7, 0);
    run_batch(&b);
    DIST_CHECK_FULL(got, dist_cube(1), 7, 0);
}

static void batch_without_rank_0(const dist_group *g, const void *arg)
{
    int peer = 3 - g->me;
    batch b = { .n = 0 };
    tt_tensor *got;

    (void)arg;
    TT_REQUIRE_OK(tt_pg_barrier(g->pg, NULL, NULL));
    if (g->me != 1 && g->me != 2)
        return;
    add_send(&b, g, peer, g->me + 1, g->me, 0);
    got = add_recv(&b, g, peer, peer + 1, 0);
    run_batch(&b);
    DIST_CHECK_FULL(got, dist_cube(peer + 1), peer, 0);
}

static void batch_op_error(const dist_group *g, const void *arg)
{
    batch b = { .n = 0 };

    (void)arg;
    if (g->me != 0)
        return;
    add_send(&b, g, 1, 1, 7, 0);
    add_send(&b, g, 1, 1, 7, 0);
    b.ops[1].kind = (tt_p2p_kind)17;
    TT_CHECK_ERR_SAYS(tt_p2p_batch(b.ops, b.n, NULL, b.works), TT_ERR_INVALID,
                      "neither a send nor a receive");
}

static void batch_list_error(const dist_group *g, const void *arg)
{
    batch b = { .n = 2 };

    (void)arg;
    if (g->me != 0)
        return;
    TT_CHECK_ERR_SAYS(tt_p2p_batch(b.ops, b.n, NULL, b.works), TT_ERR_INVALID, "entry 0");
    TT_CHECK_ERR_SAYS(tt_p2p_batch(NULL, 2, NULL, b.works), TT_ERR_INVALID, "list");
    TT_CHECK_ERR_SAYS(tt_p2p_batch(b.ops, 0, NULL, b.works), TT_ERR_INVALID, "list");
}

static void batch_mixed_groups(const dist_group *g, const void *arg)
{
    static const int pair[] = { 0, 1 };
    tt_pg *a = tt_pg_subgroup(g->pg, pair, 2, &(tt_pg_options){ .backend = "shm" });
    tt_pg *b = tt_pg_subgroup(g->pg, pair, 2, &(tt_pg_options){ .backend = "fake" });
    tt_work *works[2];

    (void)arg;
    TT_REQUIRE(a != NULL && b != NULL);
    if (g->me == 0) {
        tt_tensor *t = dist_full(dist_cube(1), TT_F32, 7, 0);
        tt_p2p_op both[] = { { TT_P2P_SEND, a, t, 1, 0 }, { TT_P2P_SEND, b, t, 1, 0 } };

        TT_CHECK_ERR_SAYS(tt_p2p_batch(both, 2, NULL, works), TT_ERR_INVALID, "one group");
    }
    dist_meet();
    tt_pg_free(a);
    tt_pg_free(b);
}

static const dist_row rows[] = {
    { "test_send_recv", send_recv, DIST_WORLD, &none, 0 },
    { "test_send_recv_autograd_profiler", send_recv, DIST_WORLD, &ops, 0 },
    { "test_send_recv_torch_profiler", send_recv, DIST_WORLD, &trace, 0 },
    { "test_send_recv_any_source", send_recv_any_source, DIST_WORLD, &none, 0 },
    { "test_send_recv_any_source_autograd_profiler", send_recv_any_source, DIST_WORLD, &ops, 0 },
    { "test_send_recv_any_source_torch_profiler", send_recv_any_source, DIST_WORLD, &trace, 0 },
    { "test_send_recv_with_tag", send_recv_with_tag, DIST_WORLD, &none, 0 },
    { "test_send_recv_with_tag_autograd_profiler", send_recv_with_tag, DIST_WORLD, &ops, 0 },
    { "test_send_recv_with_tag_torch_profiler", send_recv_with_tag, DIST_WORLD, &trace, 0 },
    { "test_isend", isend, DIST_WORLD, &none, 0 },
    { "test_isend_autograd_profiler", isend, DIST_WORLD, &ops, 0 },
    { "test_isend_torch_profiler", isend, DIST_WORLD, &trace, 0 },
    { "test_irecv", irecv, DIST_WORLD, NULL, 0 },
    { "test_batch_isend_irecv_nccl", batch_all, DIST_WORLD, NULL, 0 },
    { "test_batch_isend_irecv_ring_exchange_nccl", batch_ring, DIST_WORLD, NULL, 0 },
    { "test_batch_isend_irecv_self_nccl", batch_self, DIST_WORLD, NULL, 2 },
    { "test_batch_isend_irecv_no_rank_zero_nccl", batch_without_rank_0, DIST_WORLD, NULL, 8 },
    { "test_batch_isend_irecv_gloo", batch_pairs, DIST_WORLD, NULL, 0 },
    { "test_batch_isend_irecv_gloo_tags", batch_pairs, DIST_WORLD, &none, 0 },
    { "test_batch_isend_irecv_op_err", batch_op_error, DIST_WORLD, NULL, 2 },
    { "test_batch_isend_irecv_op_list_err", batch_list_error, DIST_WORLD, NULL, 2 },
    { "test_batch_isend_irecv_mixed_backend_err", batch_mixed_groups, DIST_WORLD, NULL, 2 },
};

static const dist_row on_devices[] = {
    { "test_send_recv_nccl", send_recv, DIST_WORLD, &none, 0 },
    { "test_send_recv_nccl_autograd_profiler", send_recv, DIST_WORLD, &ops, 0 },
    { "test_send_recv_nccl_torch_profiler", send_recv, DIST_WORLD, &trace, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS(rows);
    DIST_ADD_ROWS_ON_DEVICES(on_devices);
}
