/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of all ranks that meet at a store, and the default one: one per process, or one per thread where
 * ranks are threads. */
#include <stdio.h>

#include "base/env.h"
#include "pg/pg.h"
#include "prof/emit.h"

enum { DEFAULT_TIMEOUT_MS = 1800000 };

/* ---- making ------------------------------------------------------------------------------ */

static tt_status check_options(const tt_pg_options *opt)
{
    if (opt->timeout_ms < 0)
        return TT_FAIL(TT_ERR_INVALID, "group: expected a time-out of 0 ms or more, got %d",
                       opt->timeout_ms);
    if ((unsigned)opt->debug > TT_DEBUG_DETAIL)
        return TT_FAIL(TT_ERR_INVALID, "group: %d is no debug level", (int)opt->debug);
    return TT_OK;
}

static tt_status check_global_ranks(const tt_pg_options *opt, int size)
{
    for (int i = 0; opt->global_ranks != NULL && i < size; i++) {
        if (opt->global_ranks[i] < 0)
            return TT_FAIL(TT_ERR_INVALID, "group: global rank %d of rank %d is negative",
                           opt->global_ranks[i], i);
        for (int k = 0; k < i; k++)
            if (opt->global_ranks[k] == opt->global_ranks[i])
                return TT_FAIL(TT_ERR_INVALID, "group: ranks %d and %d have global rank %d", k, i,
                               opt->global_ranks[i]);
    }
    return TT_OK;
}

/* How often this rank made a group of all ranks on this store: part of the group's key. The count is kept
 * in the store, so that it goes on when the store is opened again. */
static tt_status generation(tt_store *store, int rank, int64_t *n_p)
{
    char key[48];

    if (store == NULL) {
        *n_p = 1;
        return TT_OK;
    }
    snprintf(key, sizeof key, "tutti/made/%d", rank);
    return tt_store_add(store, key, 1, n_p);
}

static tt_pg *world_new(tt_store *store, int rank, int size, const tti_backend_ops *ops,
                        tt_pg_options opt)
{
    char uid[48];
    int64_t n;
    int *ranks = tti_malloc((size_t)size * sizeof *ranks);
    if (ranks == NULL)
        return NULL;
    for (int i = 0; i < size; i++)
        ranks[i] = opt.global_ranks != NULL ? opt.global_ranks[i] : i;
    tt_pg *pg = NULL;
    if (generation(store, rank, &n) == TT_OK) {
        snprintf(uid, sizeof uid, "tutti/g%lld", (long long)n);
        pg = tti_group_new(&(tti_group_args){ .root = store,
                                              .uid = uid,
                                              .global_ranks = ranks,
                                              .n_ranks = size,
                                              .rank = rank,
                                              .global_rank = ranks[rank],
                                              .ops = ops,
                                              .opt = opt,
                                              .name = opt.name != NULL ? opt.name : "world" });
    }
    tti_mfree(ranks);
    if (pg != NULL && opt.global_ranks == NULL)
        tti_prof_set_world(rank, size, ops->name);
    return pg;
}

tt_pg *tt_pg_new_store(tt_store *store, int rank, int size, const tt_pg_options *opt)
{
    tt_pg_options o = opt != NULL ? *opt : (tt_pg_options){ 0 };

    if (size < 1 || rank < 0 || rank >= size)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "group: expected a rank from 0 to size - 1, got rank %d of %d", rank,
                            size);
    if (check_options(&o) != TT_OK || check_global_ranks(&o, size) != TT_OK)
        return NULL;
    if (o.backend == NULL)
        o.backend = tti_env_get(TTI_ENV_BACKEND) != NULL ? tti_env_get(TTI_ENV_BACKEND) : "shm";
    const tti_backend_ops *ops = tti_backend_find(o.backend);
    if (ops == NULL)
        return NULL;
    if (o.timeout_ms == 0)
        o.timeout_ms = DEFAULT_TIMEOUT_MS;
    return world_new(store, rank, size, ops, o);
}

tt_pg *tt_pg_new(const char *url, const tt_pg_options *opt)
{
    tt_rendezvous r = { 0 };
    tt_rendezvous_options ro = { .timeout_ms =
                                     opt != NULL && opt->timeout_ms > 0 ? opt->timeout_ms : 0 };
    if (tt_rendezvous_open(url, &ro, &r) != TT_OK)
        return NULL;
    tt_pg *pg = tt_pg_new_store(r.store, r.rank, r.size, opt);
    tt_rendezvous_close(&r);
    return pg;
}

/* ---- the default group ------------------------------------------------------------------- */

static pthread_mutex_t mu_world = PTHREAD_MUTEX_INITIALIZER;
static tt_pg *process_world; /* mu_world */
static _Thread_local tt_pg *thread_world;

static tt_pg *current(void)
{
    if (thread_world != NULL)
        return thread_world;
    pthread_mutex_lock(&mu_world);
    tt_pg *pg = process_world;
    pthread_mutex_unlock(&mu_world);
    return pg;
}

static tt_status refuse_second(void)
{
    tt_pg *pg = current();

    return pg == NULL ? TT_OK
                      : TT_FAIL(TT_ERR_INVALID,
                                "init: there is a default group already (%s); end it with "
                                "tt_pg_shutdown first",
                                pg->name);
}

/* Takes the new group over; fails if another thread was faster. */
static tt_status install(tt_pg *pg)
{
    if (pg == NULL)
        return tt_last_status();
    if (pg->ops->local) {
        thread_world = pg;
        return TT_OK;
    }
    pthread_mutex_lock(&mu_world);
    bool taken = process_world != NULL;
    if (!taken)
        process_world = pg;
    pthread_mutex_unlock(&mu_world);
    if (!taken)
        return TT_OK;
    tt_pg_free(pg);
    return TT_FAIL(TT_ERR_INVALID, "init: another thread made a default group meanwhile");
}

tt_status tt_pg_init(const char *url, const tt_pg_options *opt)
{
    TT_TRY(refuse_second());
    return install(tt_pg_new(url, opt));
}

tt_status tt_pg_init_store(tt_store *store, int rank, int size, const tt_pg_options *opt)
{
    TT_TRY(refuse_second());
    return install(tt_pg_new_store(store, rank, size, opt));
}

tt_pg *tt_pg_default(void)
{
    tt_pg *pg = current();

    return pg != NULL
               ? pg
               : TT_FAIL_NULL(TT_ERR_INVALID, "there is no default group: call tt_pg_init first");
}

bool tt_pg_is_initialized(void)
{
    return current() != NULL;
}

tt_status tt_pg_shutdown(void)
{
    tt_pg *pg = thread_world;

    if (pg != NULL) {
        thread_world = NULL;
    } else {
        pthread_mutex_lock(&mu_world);
        pg = process_world;
        process_world = NULL;
        pthread_mutex_unlock(&mu_world);
    }
    if (pg == NULL)
        return TT_FAIL(TT_ERR_INVALID, "shutdown: there is no default group");
    tt_pg_free(pg);
    return TT_OK;
}
