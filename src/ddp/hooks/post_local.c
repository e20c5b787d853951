/* SPDX-License-Identifier: Apache-2.0 */
/* Post-local SGD: the mean over all until some iteration, then over few. */
#include <stdatomic.h>

#include "base/error.h"
#include "base/refcount.h"
#include "ddp/hooks/stock.h"
#include "pg/pg.h"

struct tt_local_sgd_state {
    atomic_int refs;
    tt_pg *pg;       /* NULL: that of the tt_ddp */
    tt_pg *subgroup; /* NULL: to be made when it is needed */
    int64_t start_iter, iter;
    bool alone; /* no gradients are sent after the start */
};

tt_local_sgd_state *tt_local_sgd_state_new(const tt_local_sgd_state_options *opt)
{
    const tt_local_sgd_state_options zero = { 0 };
    tt_local_sgd_state *s;

    opt = opt != NULL ? opt : &zero;
    if (opt->start_iter < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID,
                            "post-local SGD: expected an iteration to start at, got %lld",
                            (long long)opt->start_iter);
    s = tti_calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    atomic_init(&s->refs, 1);
    s->pg = tt_pg_retain(opt->pg);
    s->subgroup = tt_pg_retain(opt->subgroup);
    s->start_iter = opt->start_iter;
    s->alone = opt->no_gradient_allreduce;
    return s;
}

tt_local_sgd_state *tt_local_sgd_state_retain(tt_local_sgd_state *s)
{
    if (s != NULL)
        tti_ref(&s->refs);
    return s;
}

void tt_local_sgd_state_free(tt_local_sgd_state *s)
{
    if (s == NULL || !tti_unref(&s->refs))
        return;
    tt_pg_free(s->pg);
    tt_pg_free(s->subgroup);
    tti_mfree(s);
}

int64_t tt_local_sgd_state_iter(const tt_local_sgd_state *s)
{
    return s != NULL ? s->iter : -1;
}

/* The first rank of the group on this host. */
static int leader(const tt_pg *pg)
{
    for (int r = 0; pg->idents != NULL && r < pg->size; r++)
        if (tti_ident_same_host(&pg->idents[r], &pg->idents[pg->rank]))
            return r;
    return 0;
}

/* The ranks on this host: the group itself if that is all. Collective. */
static tt_pg *host_group(tt_pg *pg)
{
    bool all = true;

    for (int r = 1; pg->idents != NULL && r < pg->size; r++)
        all = all && tti_ident_same_host(&pg->idents[0], &pg->idents[r]);
    return all ? tt_pg_retain(pg) : tt_pg_split(pg, leader(pg), pg->rank, NULL);
}

tt_future *tt_ddp_post_local_sgd_hook(void *state, const tt_ddp_bucket *b)
{
    tt_local_sgd_state *s = state;
    bool local;
    tt_pg *pg;

    if (s == NULL)
        return TT_NULL_GIVEN("post-local SGD", "a state");
    pg = s->pg != NULL ? s->pg : b->pg;
    local = s->iter >= s->start_iter;
    s->iter += b->is_last;
    if (!local)
        return tti_hook_mean(pg, b->flat);
    if (s->alone)
        return tti_hook_ready(b->flat);
    if (s->subgroup == NULL)
        s->subgroup = host_group(pg);
    return s->subgroup != NULL ? tti_hook_mean(s->subgroup, b->flat) : NULL;
}
