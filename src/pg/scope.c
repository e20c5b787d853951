/* SPDX-License-Identifier: Apache-2.0 */
/* Coalescing scopes: a thread's calls on a group are collected and then run as one. */
#include "base/tls.h"
#include "pg/call.h"

/* One open scope; a thread may have one on each of several groups. */
struct tti_scope_list {
    tt_pg *pg;
    tti_call *first, *last;
    tti_scope_list *outer;
};

static TTI_HOT_TLS tti_scope_list *open_scopes;

static tti_scope_list **find(const tt_pg *pg)
{
    for (tti_scope_list **s_p = &open_scopes; *s_p != NULL; s_p = &(*s_p)->outer)
        if ((*s_p)->pg == pg)
            return s_p;
    return NULL;
}

bool tti_collecting(const tt_pg *pg)
{
    return __builtin_expect(open_scopes != NULL, 0) && find(pg) != NULL;
}

tt_status tti_collect(tti_call *c)
{
    tti_scope_list *s = *find(c->pg);

    c->next = NULL;
    if (s->last != NULL)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
    return TT_OK;
}

static void drop_calls(void *ctx)
{
    for (tti_call *c = ctx; c != NULL;) {
        tti_call *next = c->next;
        tti_call_drop(c);
        c = next;
    }
}

tt_status tt_pg_coalesce_begin(tt_pg *pg)
{
    if (pg != NULL && pg->rank < 0)
        return TT_OK;
    TT_TRY(tti_pg_check(pg, "coalesce_begin"));
    if (find(pg) != NULL)
        return TT_FAIL(TT_ERR_INVALID, "coalesce_begin: group %s has an open scope already",
                       pg->name);
    tti_scope_list *s = tti_calloc(1, sizeof *s);
    if (s == NULL)
        return TT_ERR_NOMEM;
    s->pg = pg;
    s->outer = open_scopes;
    open_scopes = s;
    return TT_OK;
}

/* Closes the scope and gives its calls. */
static tti_call *take_calls(tt_pg *pg)
{
    tti_scope_list **s_p = find(pg), *s = *s_p;
    tti_call *calls = s->first;

    *s_p = s->outer;
    tti_mfree(s);
    return calls;
}

static tt_status run_calls(void *ctx, tt_pg *pg)
{
    (void)pg;
    for (tti_call *c = ctx; c != NULL; c = c->next)
        TT_TRY(tti_call_run(c));
    return TT_OK;
}

tt_status tt_pg_coalesce_end(tt_pg *pg, tt_work **work_p)
{
    TTI_MEMBERS_ONLY(pg, "coalesced", work_p);
    TT_TRY(tti_pg_check(pg, "coalesce_end"));
    if (find(pg) == NULL)
        return TT_FAIL(TT_ERR_INVALID, "coalesce_end: group %s has no open scope", pg->name);
    tti_call *calls = take_calls(pg);
    for (tti_call *c = calls; c != NULL; c = c->next)
        tti_call_issue(c);
    return tti_pg_run_async(pg, "coalesced", run_calls, calls, drop_calls, work_p);
}

void tt_pg_coalesce_cancel(tt_pg *pg)
{
    if (pg != NULL && find(pg) != NULL)
        drop_calls(take_calls(pg));
}
