/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of whole worlds share. */
#include "world/distributed.h"

#include <stdio.h>
#include <string.h>

#include "tutti/testing_tools.h"

const tt_coll_options dist_global = { .global_ranks = true };

/* ---- groups --------------------------------------------------------------------------------- */

/* The ranks of this test are threads: they have the group of the harness. */
static _Thread_local bool on_threads;

bool dist_on_threads(void)
{
    return on_threads;
}

static _Thread_local tt_device device;

tt_device dist_device(void)
{
    return device;
}

void dist_use_device(void)
{
    int n = tt_device_count(TT_DEVICE_CL);

    if (n == 0)
        TT_SKIP("%s", tt_device_missing(TT_DEVICE_CL));
    device = tt_cl(tt_test_rank() % n);
    TT_REQUIRE_OK(tt_device_use(device));
}

tt_pg *dist_world(void)
{
    static int n_made;
    char path[512];
    tt_store *store;

    if (tt_pg_is_initialized())
        return tt_pg_default();
    if (on_threads)
        return tt_test_pg();
    snprintf(path, sizeof path, "%s/world%d", tt_test_tmpdir(), n_made++);
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    TT_REQUIRE_OK(tt_pg_init_store(store, tt_test_rank(), tt_test_size(),
                                   &(tt_pg_options){ .backend = "shm", .timeout_ms = 30000 }));
    tt_store_free(store);
    return tt_pg_default();
}

void dist_meet(void)
{
    if (on_threads)
        tt_test_barrier();
    else
        TT_REQUIRE_OK(tt_test_file_barrier(0, 30000));
}

void dist_world_end(void)
{
    dist_meet();
    if (!on_threads)
        TT_CHECK_OK(tt_pg_shutdown());
}

void dist_each_debug_level(tt_test_fn fn, void *ctx)
{
    tt_debug_level before = tt_get_debug_level();

    if (!on_threads) {
        tt_test_each_debug_level(NULL, 0, fn, ctx);
        return;
    }
    for (int level = TT_DEBUG_OFF; level <= TT_DEBUG_DETAIL; level++) {
        tt_test_barrier();
        if (tt_test_rank() == 0)
            tt_set_debug_level((tt_debug_level)level);
        tt_test_barrier();
        fn(ctx);
    }
    tt_test_barrier();
    if (tt_test_rank() == 0)
        tt_set_debug_level(before);
}

dist_group dist_group_open(dist_kind kind, const tt_pg_options *opt)
{
    static const int sub[] = { 1, 2 };
    dist_group g = { .kind = kind, .me = tt_test_rank(), .n = tt_test_size() };

    TT_REQUIRE_LE(g.n, DIST_MAX);
    for (int i = 0; i < g.n; i++)
        g.ranks[i] = i;
    if (kind == DIST_SUB) {
        g.n = 2;
        memcpy(g.ranks, sub, sizeof sub);
        g.pg = tt_pg_subgroup(dist_world(), sub, 2, opt);
    } else if (kind == DIST_FULL) {
        g.pg = tt_pg_subgroup(dist_world(), NULL, 0, opt);
    } else {
        g.pg = tt_pg_retain(dist_world());
    }
    if (g.pg == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(g.pg);
    g.member = tt_pg_is_member(g.pg);
    TT_CHECK_EQ(g.member, kind != DIST_SUB || g.me == 1 || g.me == 2);
    return g;
}

void dist_group_close(dist_group *g)
{
    dist_meet();
    tt_pg_free(g->pg);
    dist_world_end();
}

static void run_row(void *ctx)
{
    const dist_row *row = ctx;
    dist_group g = dist_group_open(row->kind, NULL);

    if (g.member)
        TT_SCOPE {
            row->fn(&g, row->arg);
        }
    dist_group_close(&g);
}

static void run_row_on_threads(void *ctx)
{
    on_threads = true;
    run_row(ctx);
}

static void run_row_on_device(void *ctx)
{
    dist_use_device();
    run_row(ctx);
}

static void add_rows(const char *suite, tt_test_kind kind, tt_test_fn fn, const dist_row *rows,
                     int n)
{
    for (int i = 0; i < n; i++) {
        tt_test *t = tt_test_add(suite, rows[i].name, fn, (void *)(uintptr_t)&rows[i]);

        if (t == NULL)
            return;
        t->kind = kind;
        t->ranks = rows[i].ranks != 0 ? rows[i].ranks : rows[i].kind == DIST_SUB ? 8 : 4;
    }
}

void dist_add_rows(const dist_row *rows, int n)
{
    add_rows("distributed", TT_TEST_KIND_RANKS, run_row, rows, n);
}

void dist_add_rows_on_devices(const dist_row *rows, int n)
{
    add_rows("distributed", TT_TEST_KIND_RANKS, run_row_on_device, rows, n);
}

void dist_add_rows_twice(const dist_row *rows, int n)
{
    add_rows("distributed", TT_TEST_KIND_RANKS, run_row, rows, n);
    add_rows("distributed_threads", TT_TEST_KIND_THREADS, run_row_on_threads, rows, n);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* they have seen both halves apart */
    add_rows("distributed_devices", TT_TEST_KIND_RANKS, run_row_on_device, rows, n);
#endif
}

/* ---- tensors -------------------------------------------------------------------------------- */

tt_shape dist_cube(int64_t edge)
{
    return TT_SHAPE(edge, edge, edge);
}

tt_shape dist_real(tt_shape shape, tt_dtype dtype)
{
    if (tt_dtype_is_complex(dtype))
        shape.dims[shape.n_dims++] = 2;
    return shape;
}

tt_tensor *dist_full(tt_shape shape, tt_dtype dtype, double re, double im)
{
    tt_tensor *t, *pairs;

    if (!tt_dtype_is_complex(dtype))
        return tt_full(shape, dtype == TT_U8 && re < 0 ? 256 + re : re, dtype, device);
    t = tt_empty(shape, dtype, device);
    pairs = tt_view_as_real(t);
    tt_fill_(tt_select(pairs, -1, 0), re);
    tt_fill_(tt_select(pairs, -1, 1), im);
    return t;
}

bool dist_check_full(const char *file, int line, tt_tensor *t, tt_shape shape, double re, double im)
{
    tt_close_report report = { 0 };
    bool same = true;

    TT_SCOPE {
        tt_tensor *want = t != NULL ? dist_full(shape, tt_tensor_dtype(t), re, im) : NULL;

        same = tt_equal(t, want);
        if (!same) {
            (void)tt_compare(t, want, &(tt_close_options){ .exact = true }, &report);
            tt_test_fail(file, line, "expected a tensor full of %g%+gi: %s", re, im, report.text);
        }
    }
    return same;
}

/* ---- profiles ------------------------------------------------------------------------------- */

tt_prof *dist_prof_start(void)
{
    tt_prof *p = tt_prof_start(&(tt_prof_options){ .shapes = true });

    TT_REQUIRE_NOT_NULL(p);
    return p;
}

static void check_event(const tt_prof_event *e, const dist_group *g, const tt_shape *shapes, int n)
{
    TT_CHECK(e->async);
    TT_CHECK(!e->failed);
    TT_CHECK_EQ(e->count, 1);
    TT_CHECK_GE(e->cpu_ns, 0);
    TT_CHECK_EQ(e->rank, tt_pg_rank(g->pg));
    TT_CHECK_EQ(e->group_size, g->n);
    TT_CHECK_STR(e->group, tt_pg_name(g->pg));
    if (shapes == NULL)
        return;
    TT_CHECK_EQ(e->n_shapes, n);
    for (int i = 0; i < n && i < e->n_shapes; i++)
        TT_CHECK(tt_shape_equal(e->shapes[i], shapes[i]));
}

void dist_prof_end(tt_prof *p, const dist_group *g, const char *op, int n, const tt_shape *shapes,
                   int n_shapes)
{
    char name[64];
    int found = 0;

    snprintf(name, sizeof name, "%s:%s", tt_pg_backend(g->pg), op);
    TT_CHECK_OK(tt_prof_stop(p));
    for (size_t i = 0; i < tt_prof_n_events(p); i++) {
        const tt_prof_event *e = tt_prof_event_at(p, i);

        if (strcmp(e->name, name) != 0)
            continue;
        found++;
        check_event(e, g, shapes, n_shapes);
    }
    TT_CHECK_EQ(found, n);
    TT_CHECK_EQ(tt_prof_n_dropped(p), 0);
    tt_prof_free(p);
}
