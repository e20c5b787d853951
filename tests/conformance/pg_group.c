/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a group of the asked backend for each case and runs it in every rank. */
#include "conformance/pg_group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tt_store *memory_store; /* of ranks that are threads */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_memory_store(void)
{
    memory_store = tt_store_memory_new();
}

static tt_store *open_store(const char *backend)
{
    char path[4096];

    if (strcmp(backend, "fake") == 0)
        return NULL;
    if (strcmp(backend, "threads") == 0) {
        pthread_once(&once, make_memory_store);
        return tt_store_retain(memory_store);
    }
    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    return tt_store_file_open(path);
}

static void run(const pg_case *c, const char *backend)
{
    bool fake = strcmp(backend, "fake") == 0;
    tt_store *store = open_store(backend);
    tt_pg *pg = tt_pg_new_store(store, fake ? 1 : tt_test_rank(), fake ? 3 : tt_test_size(),
                                &(tt_pg_options){ .backend = backend, .timeout_ms = 20000 });

    tt_store_free(store);
    TT_REQUIRE(pg != NULL);
    TT_SCOPE
        c->fn(pg);
    tt_pg_free(pg);
    if (strcmp(backend, "threads") == 0) { /* the last thread gives the store up */
        static int left;
        if (__atomic_add_fetch(&left, 1, __ATOMIC_ACQ_REL) == tt_test_size())
            tt_store_free(memory_store);
    }
}

static void run_shm(void *ctx)
{
    run(ctx, "shm");
}

static void run_threads(void *ctx)
{
    run(ctx, "threads");
}

static void run_fake(void *ctx)
{
    run(ctx, "fake");
}

void add_pg_cases(const pg_case *cases, int n)
{
    for (int i = 0; i < n; i++) {
        void *ctx = (void *)&cases[i];
        int ranks = cases[i].ranks != 0 ? cases[i].ranks : 3;
        tt_test *shm = tt_test_add("pg_shm", cases[i].name, run_shm, ctx);
        tt_test *threads = tt_test_add("pg_threads", cases[i].name, run_threads, ctx);
        if (shm != NULL) {
            shm->kind = TT_TEST_KIND_RANKS;
            shm->ranks = ranks;
        }
        if (threads != NULL) {
            threads->kind = TT_TEST_KIND_THREADS;
            threads->ranks = ranks;
        }
        tt_test_add("pg_fake", cases[i].name, run_fake, ctx);
    }
}

bool hears(tt_pg *pg, int r)
{
    return strcmp(tt_pg_backend(pg), "fake") != 0 || r == tt_pg_rank(pg);
}

bool check_elements(tt_tensor *t, double (*want)(void *ctx, int64_t i), void *ctx, double tol)
{
    int64_t n = tt_tensor_numel(t);
    double *x = malloc((size_t)(n + 1) * sizeof *x);
    bool ok = TT_CHECK_OK(tt_copy_out_f64(t, x, (size_t)n));

    for (int64_t i = 0; i < n && ok; i++) {
        ok = TT_CHECK_NEAR(x[i], want(ctx, i), tol);
        if (!ok)
            TT_FAIL_TEST("element %lld of %lld", (long long)i, (long long)n);
    }
    free(x);
    return ok;
}

static double constant(void *ctx, int64_t i)
{
    (void)i;
    return *(double *)ctx;
}

bool check_filled(tt_tensor *t, double value)
{
    return check_elements(t, constant, &value, 0);
}

tt_tensor *filled(int64_t n, double value, tt_dtype dtype)
{
    return tt_full(TT_SHAPE(n), value, dtype, TT_CPU);
}
