/* SPDX-License-Identifier: Apache-2.0 */
/* The default group of a test: made when asked for, destroyed at the end of the body. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>

#include "rendezvous/exchange.h"
#include "testing/group.h"
#include "testing/testing.h"
#include "testing/world.h"
#include "tutti/testing_tools.h"

enum { TIMEOUT_MS = 60000, KEPT_TIMEOUT_MS = 120000 };

/* The store of this rank; threads share one. */
static _Thread_local tt_store *my_store;
static tt_store *shared_store; /* guarded by shared_lock */
static int n_sharers;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

bool tti_group_has_backend(const char *name)
{
    const char *known;

    return tt_backend_parse(name, &known) == TT_OK;
}

void tti_group_read_debug_level(void)
{
    tt_set_debug_level(TT_DEBUG_DEFAULT);
}

static void store_path(char *path, size_t size)
{
    snprintf(path, size, "%s/store", tt_test_tmpdir());
}

static tt_store *share_store(void)
{
    tt_store *s;

    pthread_mutex_lock(&shared_lock);
    if (shared_store == NULL)
        shared_store = tt_store_memory_new();
    s = shared_store != NULL ? tt_store_retain(shared_store) : NULL;
    n_sharers += s != NULL;
    pthread_mutex_unlock(&shared_lock);
    return s;
}

static bool of_threads(void)
{
    const tti_world *w = tti_rank_get().world;

    return w != NULL && w->kind == TT_TEST_KIND_THREADS;
}

tt_store *tt_test_store(void)
{
    char path[512];

    if (my_store != NULL)
        return my_store;
    store_path(path, sizeof path);
    my_store = of_threads() ? share_store() : tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(my_store);
    if (!of_threads()) /* see tti_world_rank_died */
        TT_REQUIRE_OK(tti_exit_announce(my_store));
    return my_store;
}

static void abort_group(void *ctx)
{
    tt_pg_abort(ctx, "another rank of the test has failed");
}

static void make_group(void)
{
    tti_rank_self self = tti_rank_get();
    const tt_test_suite *s = self.world != NULL ? tti_test_suite_find(self.world->suite) : NULL;
    bool kept = self.world != NULL && self.world->kind == TT_TEST_KIND_KEPT;
    tt_pg_options opt = { .backend = of_threads() ? "threads" : "shm",
                          .timeout_ms = kept ? KEPT_TIMEOUT_MS : TIMEOUT_MS };

    if (s != NULL && s->backend != NULL)
        opt.backend = s->backend;
    if (s != NULL && s->timeout_ms > 0)
        opt.timeout_ms = s->timeout_ms;
    TT_REQUIRE_OK(tt_pg_init_store(tt_test_store(), tt_test_rank(), tt_test_size(), &opt));
    if (of_threads())
        tt_test_at_failure(abort_group, tt_pg_default());
}

tt_pg *tt_test_pg(void)
{
    if (!tt_pg_is_initialized())
        make_group();
    return tt_pg_default();
}

static void drop_store(void)
{
    if (my_store == NULL)
        return;
    tt_store_free(my_store);
    my_store = NULL;
    if (!of_threads())
        return;
    pthread_mutex_lock(&shared_lock);
    if (--n_sharers == 0) {
        tt_store_free(shared_store);
        shared_store = NULL;
    }
    pthread_mutex_unlock(&shared_lock);
}

void tti_world_end_group(void)
{
    if (tt_pg_is_initialized())
        tt_pg_shutdown();
    drop_store();
}

void tti_world_end_body(int code)
{
    tti_rank_self self = tti_rank_get();
    const tt_test_suite *s;

    if (self.world != NULL && self.world->kind == TT_TEST_KIND_KEPT)
        return;
    s = self.world != NULL ? tti_test_suite_find(self.world->suite) : NULL;
    if (s != NULL && s->keep_group)
        return;
    /* After a failure leaving may wait for ranks that will not come. */
    if (code != TT_TEST_EXIT_PASS && tt_pg_is_initialized())
        tt_pg_abort(tt_pg_default(), "a rank of the test has failed");
    tti_world_end_group();
}

/* Survivors learn from the store why a rank is gone; only where the test has made one. */
void tti_world_rank_died(tti_world *w, int rank, const char *cause)
{
    char path[512];
    tt_store *s;

    (void)w;
    store_path(path, sizeof path);
    if (access(path, F_OK) != 0)
        return;
    s = tt_store_file_open(path);
    if (s == NULL)
        return;
    if (tt_store_set_timeout(s, 1000) == TT_OK)
        tti_exit_record(s, rank, cause);
    tt_store_free(s);
}
