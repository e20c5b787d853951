/* SPDX-License-Identifier: Apache-2.0 */
/* The default group: one per process, or one per thread where ranks are threads. */
#include "pg/pg.h"

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
