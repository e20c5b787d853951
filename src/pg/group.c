/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending groups. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "base/error.h"
#include "base/refcount.h"
#include "base/text.h"
#include "pg/pg.h"
#include "pg/work.h"
#include "prof/emit.h"

static atomic_int n_groups;
atomic_uint tti_fork_id;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&tti_fork_id, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

int tt_pg_count(void)
{
    return atomic_load_explicit(&n_groups, memory_order_relaxed);
}

/* ---- making ---------------------------------------------------------------------------------- */

enum { MAX_STEPS = 16 };

/* What the backend's exchange needs while it opens. */
typedef struct opening {
    tti_meeting meeting;
    char steps[MAX_STEPS][32]; /* exchanged so far */
    int n_steps;
} opening;

static tt_status exchange(void *ctx, const char *step, const void *mine, size_t n, void *all)
{
    opening *o = ctx;

    if (o->n_steps < MAX_STEPS)
        snprintf(o->steps[o->n_steps++], sizeof o->steps[0], "%s", step);
    return tti_exchange(&o->meeting, step, mine, n, all);
}

/* Whether somebody whom this group needs may wait for this rank elsewhere. */
static tt_status look_around(const void *ctx)
{
    const tt_pg *pg = ctx;

    return tti_teams_check_awaited(pg->name, tti_group_id(pg->uid));
}

static tti_meeting meeting_of(const tt_pg *pg)
{
    return (tti_meeting){ .store = pg->store,
                          .root = pg->root,
                          .group = pg->name,
                          .rank = pg->rank,
                          .size = pg->n_ranks,
                          .global_ranks = pg->global_ranks,
                          .idents = pg->idents,
                          .timeout_ms = tt_pg_timeout(pg),
                          .look = look_around,
                          .look_ctx = pg };
}

/* Learns who the others are, unless the parent group knew. */
static tt_status meet(tt_pg *pg, const tti_ident *known)
{
    size_t n = (size_t)pg->n_ranks;
    tti_ident self;

    tti_ident *idents = tti_calloc(n, sizeof *idents);
    if (idents == NULL)
        return TT_ERR_NOMEM;
    if (known != NULL) {
        memcpy(idents, known, n * sizeof *idents);
        pg->idents = idents;
        return TT_OK;
    }
    tti_meeting m = meeting_of(pg);
    tt_status st = tti_ident_self(pg->global_rank, pg->n_ranks, &self);
    if (st == TT_OK)
        st = tti_exchange(&m, "ident", &self, sizeof self, idents);
    pg->idents = idents;
    return st;
}

static tt_status check_hosts(const tt_pg *pg)
{
    for (int i = 0; i < pg->n_ranks; i++) {
        const tti_ident *a = &pg->idents[pg->rank], *b = &pg->idents[i];
        if (tti_ident_same_host(a, b))
            continue;
        if (tti_ident_same_kernel(a, b))
            return TT_FAIL(
                TT_ERR_UNSUPPORTED,
                "group %s: rank %d and rank %d are on one host (%s) but in different pid "
                "namespaces (containers): they cannot see each other's processes, which "
                "backend %s needs; start them in one pid namespace",
                pg->name, a->global_rank, b->global_rank, b->host, pg->ops->name);
        if (a->boot_id[0] == '\0' || b->boot_id[0] == '\0')
            return TT_FAIL(
                TT_ERR_UNSUPPORTED,
                "group %s: rank %d on host %s and rank %d on host %s: whether that is one "
                "host cannot be told without /proc/sys/kernel/random/boot_id",
                pg->name, a->global_rank, a->host, b->global_rank, b->host);
        return TT_FAIL(TT_ERR_UNSUPPORTED,
                       "group %s: rank %d is on host %s and rank %d on host %s; backend %s "
                       "joins the processes of one host",
                       pg->name, a->global_rank, a->host, b->global_rank, b->host, pg->ops->name);
    }
    return TT_OK;
}

/* How a dead rank ended, if its launcher says so soon enough. */
static void exit_cause(void *ctx, int rank, char *text, size_t size)
{
    const tt_pg *pg = ctx;

    tti_exit_cause(pg->root, pg->global_ranks[rank], 30, text, size);
}

static tti_member *members_of(const tt_pg *pg)
{
    tti_member *members = tti_calloc((size_t)pg->n_ranks, sizeof *members);
    if (members == NULL)
        return NULL;
    for (int i = 0; i < pg->n_ranks; i++) {
        members[i].global_rank = pg->global_ranks[i];
        if (pg->idents != NULL) {
            members[i].pid = pg->idents[i].pid;
            memcpy(members[i].host, pg->idents[i].host, sizeof members[i].host);
        }
    }
    return members;
}

/* Everybody has come through the last exchange once this barrier is passed: what was put into the store can go,
 * or groups made and ended again and again would fill it. */
static tt_status tidy(tt_pg *pg, const opening *o, bool met)
{
    TT_TRY(
        pg->ops->run(pg->backend, &(tti_coll){ .kind = TTI_COLL_BARRIER,
                                               .deadline_ns = tti_deadline(tt_pg_timeout(pg)) }));
    for (int i = 0; i < o->n_steps; i++)
        tti_exchange_forget(&o->meeting, o->steps[i]);
    if (met)
        tti_exchange_forget(&o->meeting, "ident");
    return TT_OK;
}

static tt_status open_backend(tt_pg *pg, const tt_pg_options *opt, bool met)
{
    opening o = { .meeting = meeting_of(pg) };
    tti_member *members = members_of(pg);
    if (members == NULL)
        return TT_ERR_NOMEM;
    tt_status st = pg->ops->open(&(tti_team_args){ .rank = pg->rank,
                                                   .size = pg->n_ranks,
                                                   .group = pg->name,
                                                   .members = members,
                                                   .same_process = pg->ops->local,
                                                   .no_cma = opt->no_cma,
                                                   .staging_bytes = opt->staging_bytes,
                                                   .timeout_ms = tt_pg_timeout(pg),
                                                   .exchange = exchange,
                                                   .ctx = &o,
                                                   .cause = exit_cause,
                                                   .cause_ctx = pg },
                                 &pg->backend);
    tti_mfree(members);
    if (st == TT_OK && o.n_steps > 0)
        st = tidy(pg, &o, met);
    return st;
}

static tt_status open_recorder(tt_pg *pg)
{
    pg->recorder = tti_recorder_new(&(tti_recorder_info){ .group = pg->name,
                                                          .desc = pg->desc,
                                                          .backend = pg->ops->name,
                                                          .rank = pg->rank,
                                                          .size = pg->n_ranks,
                                                          .global_ranks = pg->global_ranks,
                                                          .timeout_ms = tt_pg_timeout(pg) });
    return pg->recorder != NULL ? tti_monitor_start() : TT_ERR_NOMEM;
}

static tt_status join(tt_pg *pg, const tti_group_args *a)
{
    if (a->root != NULL && (pg->store = tt_store_prefix_new(pg->uid, a->root)) == NULL)
        return tt_last_status();
    if (pg->ops != &tti_backend_fake) {
        if (pg->store == NULL)
            return TTI_NULL("group %s: backend %s needs a store, got NULL", pg->name,
                            pg->ops->name);
        TT_TRY(meet(pg, a->idents));
        TT_TRY(check_hosts(pg));
    }
    TT_TRY(open_backend(pg, &a->opt, a->idents == NULL));
    return open_recorder(pg);
}

/* The others must not wait for this rank until their time is over. */
static void give_up(const tt_pg *pg, tt_status st)
{
    tti_meeting m = meeting_of(pg);

    if (pg->store != NULL)
        tti_exchange_give_up(&m, st, tti_last_error());
}

static tt_status copy_args(tt_pg *pg, const tti_group_args *a)
{
    pg->uid = tti_strdup(a->uid);
    pg->name = tti_strdup(a->name);
    pg->desc = tti_strdup(a->opt.desc != NULL ? a->opt.desc : "");
    pg->global_ranks = tti_malloc((size_t)(a->n_ranks + 1) * sizeof *pg->global_ranks);
    if (pg->uid == NULL || pg->name == NULL || pg->desc == NULL || pg->global_ranks == NULL)
        return TT_ERR_NOMEM;
    memcpy(pg->global_ranks, a->global_ranks, (size_t)a->n_ranks * sizeof *pg->global_ranks);
    return TT_OK;
}

tt_pg *tti_group_new(const tti_group_args *a)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tt_pg *pg = tti_calloc(1, sizeof *pg);
    if (pg == NULL)
        return NULL;

    pthread_once(&once, watch_forks);
    atomic_init(&pg->refs, 1);
    pthread_mutex_init(&pg->mu_run, NULL);
    tti_alone_init(&pg->alone);
    pthread_mutex_init(&pg->mu_queue, NULL);
    pthread_mutex_init(&pg->mu_children, NULL);
    tti_cond_init(&pg->cv_queue);
    pg->rank = a->rank;
    pg->size = a->rank >= 0 ? a->n_ranks : -1;
    pg->n_ranks = a->n_ranks;
    pg->global_rank = a->global_rank;
    pg->root = tt_store_retain(a->root);
    pg->debug = a->opt.debug;
    pg->options = a->opt;
    pg->options.name = pg->options.desc = pg->options.backend = NULL;
    pg->options.global_ranks = NULL;
    pg->fork_id = atomic_load_explicit(&tti_fork_id, memory_order_relaxed);
    atomic_init(&pg->timeout_ms, a->opt.timeout_ms);
    tt_status st = copy_args(pg, a);
    if (st == TT_OK && a->rank >= 0) {
        pg->ops = a->ops;
        atomic_fetch_add_explicit(&n_groups, 1, memory_order_relaxed);
        st = join(pg, a);
        if (st != TT_OK)
            give_up(pg, st);
    }
    if (st == TT_OK)
        return pg;
    tti_error_copy cause;
    tti_error_save(&cause);
    tt_pg_free(pg);
    tti_error_restore(&cause);
    return NULL;
}

tt_pg *tt_pg_retain(tt_pg *pg)
{
    if (pg != NULL)
        tti_ref(&pg->refs);
    return pg;
}

/* After the engine has ended. */
void tti_group_destroy(tt_pg *pg)
{
    /* In a forked child the peers belong to the parent: only memory is given back. */
    bool ours = pg->fork_id == atomic_load_explicit(&tti_fork_id, memory_order_relaxed);

    if (pg->ops != NULL) {
        if (ours && pg->backend != NULL)
            pg->ops->close(pg->backend);
        if (ours)
            tti_recorder_free(pg->recorder);
        atomic_fetch_sub_explicit(&n_groups, 1, memory_order_relaxed);
    }
    tt_store_free(pg->store);
    tt_store_free(pg->root);
    tti_mfree(pg->idents);
    tti_mfree(pg->global_ranks);
    tti_mfree(pg->children);
    tti_mfree(pg->name);
    tti_mfree(pg->desc);
    tti_mfree(pg->uid);
    if (ours) { /* else the parent's threads seem to use them still: it would wait for those */
        pthread_cond_destroy(&pg->cv_queue);
        pthread_mutex_destroy(&pg->mu_children);
        pthread_mutex_destroy(&pg->mu_queue);
        pthread_mutex_destroy(&pg->mu_run);
    }
    tti_mfree(pg);
}

void tt_pg_free(tt_pg *pg)
{
    if (pg == NULL || !tti_unref(&pg->refs))
        return;
    if (tti_engine_stop(pg))
        tti_group_destroy(pg);
}

void tt_pg_abort(tt_pg *pg, const char *reason)
{
    if (pg != NULL && pg->backend != NULL &&
        pg->fork_id == atomic_load_explicit(&tti_fork_id, memory_order_relaxed))
        pg->ops->abort(pg->backend, reason);
}

/* ---- backends --------------------------------------------------------------------------------- */

const tti_backend_ops *tti_backend_find(const char *name)
{
    tti_text known = { 0 };

    for (int i = 0; tti_backends[i] != NULL; i++)
        if (strcasecmp(tti_backends[i]->name, name) == 0)
            return tti_backends[i];
    for (int i = 0; tti_backends[i] != NULL; i++)
        tti_text_addf(&known, "%s%s", i > 0 ? ", " : "", tti_backends[i]->name);
    TT_FAIL(TT_ERR_INVALID, "backend: expected one of %s; got \"%s\"", tti_text_str(&known), name);
    tti_text_fini(&known);
    return NULL;
}
