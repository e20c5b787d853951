/* SPDX-License-Identifier: Apache-2.0 */
/* Groups made from a part of another group's ranks. Only members take part, so the new group's key in the store
 * must follow from what each of them knows: the parent, the list of ranks, and how often it was asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pg/pg.h"

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

/* Counts how often this list was asked for on this parent, from 1; 0 without memory. */
static uint64_t count_child(tt_pg *pg, uint64_t hash)
{
    uint64_t n = 0;

    pthread_mutex_lock(&pg->mu_children);
    size_t i = 0;
    while (i < pg->n_children && pg->children[i].hash != hash)
        i++;
    if (i < pg->n_children) {
        n = ++pg->children[i].n;
    } else if (tti_vec_reserve((void **)&pg->children, &pg->cap_children, i + 1,
                               sizeof *pg->children) == TT_OK) {
        pg->children[pg->n_children++] = (tti_child_count){ hash, 1 };
        n = 1;
    }
    pthread_mutex_unlock(&pg->mu_children);
    return n;
}

static tt_status check_ranks(const tt_pg *parent, const int *ranks, int n)
{
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->n_ranks)
            return TT_FAIL(
                TT_ERR_INVALID,
                "subgroup of %s: expected ranks from 0 to %d, got rank %d, which is out of "
                "range",
                parent->name, parent->n_ranks - 1, ranks[i]);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return TT_FAIL(TT_ERR_INVALID, "subgroup of %s: rank %d is listed twice",
                               parent->name, ranks[i]);
    }
    return TT_OK;
}

static tt_pg_options merged(const tt_pg *parent, const tt_pg_options *opt)
{
    tt_pg_options o = parent->options;

    o.timeout_ms = tt_pg_timeout(parent);
    if (opt == NULL)
        return o;
    o.backend = opt->backend;
    o.name = opt->name;
    o.desc = opt->desc;
    if (opt->timeout_ms > 0)
        o.timeout_ms = opt->timeout_ms;
    if (opt->debug != TT_DEBUG_DEFAULT)
        o.debug = opt->debug;
    if (opt->staging_bytes > 0)
        o.staging_bytes = opt->staging_bytes;
    o.no_cma = o.no_cma || opt->no_cma;
    return o;
}

/* The members' global ranks and, from the parent, who they are. */
typedef struct selection {
    int *global_ranks;
    tti_ident *idents; /* NULL: the parent has none */
    int rank;          /* ours among them, or -1 */
} selection;

static tt_status select_members(const tt_pg *parent, const int *ranks, int n, selection *s)
{
    s->rank = -1;
    s->global_ranks = tti_malloc((size_t)(n + 1) * sizeof *s->global_ranks);
    if (parent->idents != NULL)
        s->idents = tti_malloc((size_t)(n + 1) * sizeof *s->idents);
    if (s->global_ranks == NULL || (parent->idents != NULL && s->idents == NULL))
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        s->global_ranks[i] = parent->global_ranks[ranks[i]];
        if (s->idents != NULL)
            s->idents[i] = parent->idents[ranks[i]];
        if (ranks[i] == parent->rank)
            s->rank = i;
    }
    return TT_OK;
}

uint64_t tti_group_id(const char *uid)
{
    return hash_bytes(0xcbf29ce484222325ull, uid, strlen(uid)) | 1;
}

/* Makes it, and lets those come who may still wait for this rank elsewhere, when it is a group of survivors. */
static tt_pg *make_among(tt_pg *parent, const int *ranks, const tti_group_args *a)
{
    bool ours = parent->backend != NULL && parent->ops->replace != NULL &&
                parent->fork_id == atomic_load_explicit(&tti_fork_id, memory_order_relaxed);

    if (ours)
        parent->ops->replace(parent->backend, ranks, a->n_ranks, tti_group_id(a->uid));
    tt_pg *pg = tti_group_new(a);
    if (ours)
        parent->ops->replaced(parent->backend);
    return pg;
}

static tt_pg *make(tt_pg *parent, const int *ranks, int n, const tt_pg_options *opt)
{
    tt_pg_options o = merged(parent, opt);
    selection s = { 0 };
    char uid[64], name[96];
    tt_pg *pg = NULL;
    const tti_backend_ops *ops = parent->ops;

    if (o.backend != NULL && (ops = tti_backend_find(o.backend)) == NULL)
        return NULL;
    uint64_t hash = hash_bytes(0xcbf29ce484222325ull, parent->uid, strlen(parent->uid));
    hash = hash_bytes(hash, ranks, (size_t)n * sizeof *ranks);
    if (o.name != NULL)
        hash = hash_bytes(hash, o.name, strlen(o.name));
    uint64_t nth = count_child(parent, hash);
    if (nth != 0 && select_members(parent, ranks, n, &s) == TT_OK) {
        snprintf(uid, sizeof uid, "tutti/s%016llx.%llu", (unsigned long long)hash,
                 (unsigned long long)nth);
        snprintf(name, sizeof name, "%.60s/%04llx.%llu", parent->name,
                 (unsigned long long)(hash & 0xffff), (unsigned long long)nth);
        pg = make_among(parent, ranks,
                        &(tti_group_args){ .root = parent->root,
                                           .uid = uid,
                                           .global_ranks = s.global_ranks,
                                           .n_ranks = n,
                                           .rank = s.rank,
                                           .global_rank = parent->global_rank,
                                           .idents = s.idents,
                                           .ops = ops,
                                           .opt = o,
                                           .name = o.name != NULL ? o.name : name });
    }
    tti_mfree(s.global_ranks);
    tti_mfree(s.idents);
    return pg;
}

static int *all_ranks(int n)
{
    int *ranks = tti_malloc((size_t)n * sizeof *ranks);

    for (int i = 0; ranks != NULL && i < n; i++)
        ranks[i] = i;
    return ranks;
}

tt_pg *tt_pg_subgroup(tt_pg *parent, const int *ranks, int n, const tt_pg_options *opt)
{
    int *made = NULL;

    if (parent == NULL)
        return TT_NULL_GIVEN("subgroup", "a parent group");
    if (opt != NULL && opt->timeout_ms < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "subgroup: expected a time-out of 0 ms or more, got %d",
                            opt->timeout_ms);
    if (ranks == NULL) {
        n = parent->n_ranks;
        if ((made = all_ranks(n)) == NULL)
            return NULL;
        ranks = made;
    }
    tt_pg *pg = NULL;
    if (n < 1)
        TT_FAIL(TT_ERR_INVALID, "subgroup of %s: expected at least one rank, got %d", parent->name,
                n);
    else if (check_ranks(parent, ranks, n) == TT_OK)
        pg = make(parent, ranks, n, opt);
    tti_mfree(made);
    return pg;
}

/* ---- several groups ------------------------------------------------------------------------------ */

void tt_pg_list_free(tt_pg_list *list)
{
    if (list == NULL)
        return;
    for (int i = 0; i < list->n; i++)
        tt_pg_free(list->groups[i]);
    tti_mfree(list->groups);
    *list = (tt_pg_list){ 0 };
}

/* Makes them all, in order. */
static tt_status make_all(tt_pg *parent, const int *ranks, const int *counts, int n,
                          const tt_pg_options *opt, tt_pg_list *list_p)
{
    tt_pg_list made = { .groups = tti_calloc((size_t)n, sizeof(tt_pg *)) };
    if (made.groups == NULL)
        return TT_ERR_NOMEM;
    for (; made.n < n; made.n++) {
        tt_pg *pg = tt_pg_subgroup(parent, ranks, counts[made.n], opt);
        if (pg == NULL) {
            tti_error_copy cause;
            tti_error_save(&cause);
            tt_pg_list_free(&made);
            tti_error_restore(&cause);
            return tt_last_status();
        }
        made.groups[made.n] = pg;
        if (made.mine == NULL || pg->rank >= 0)
            made.mine = pg;
        ranks += counts[made.n];
    }
    *list_p = made;
    return TT_OK;
}

tt_status tt_pg_subgroups(tt_pg *parent, int group_size, const tt_pg_options *opt,
                          tt_pg_list *list_p)
{
    if (parent == NULL)
        return tti_null_given("subgroups", "a group");
    if (group_size < 1 || list_p == NULL)
        return TT_FAIL(TT_ERR_INVALID, "subgroups: expected a size of 1 or more, got %d",
                       group_size);
    int size = parent->n_ranks, n = size / group_size;
    if (group_size > size)
        return TT_FAIL(TT_ERR_INVALID,
                       "subgroups: the group size %d may not exceed the world size %d", group_size,
                       size);
    if (size % group_size != 0)
        return TT_FAIL(TT_ERR_INVALID, "subgroups: the world size %d must be divisible by %d", size,
                       group_size);
    int *ranks = all_ranks(size), *counts = tti_malloc((size_t)n * sizeof *counts);
    tt_status st = ranks != NULL && counts != NULL ? TT_OK : TT_ERR_NOMEM;
    for (int i = 0; st == TT_OK && i < n; i++)
        counts[i] = group_size;
    if (st == TT_OK)
        st = make_all(parent, ranks, counts, n, opt, list_p);
    tti_mfree(ranks);
    tti_mfree(counts);
    return st;
}

static tt_status check_listed(const tt_pg *parent, const int *ranks, const int *counts, int n)
{
    int total = 0;

    for (int g = 0; g < n; g++) {
        if (counts[g] < 1)
            return TT_FAIL(TT_ERR_INVALID, "subgroups: group %d has %d ranks", g, counts[g]);
        total += counts[g];
    }
    for (int i = 0; i < total; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->n_ranks)
            return TT_FAIL(TT_ERR_INVALID, "subgroups: rank %d is out of range; expected 0 to %d",
                           ranks[i], parent->n_ranks - 1);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return TT_FAIL(TT_ERR_INVALID, "subgroups: rank %d occurs in two subgroups",
                               ranks[i]);
    }
    return TT_OK;
}

tt_status tt_pg_subgroups_listed(tt_pg *parent, const int *ranks, const int *counts, int n_groups,
                                 const tt_pg_options *opt, tt_pg_list *list_p)
{
    if (parent == NULL)
        return tti_null_given("subgroups", "a group");
    if (ranks == NULL || counts == NULL || n_groups < 1 || list_p == NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "subgroups: expected a group and at least one list of ranks");
    TT_TRY(check_listed(parent, ranks, counts, n_groups));
    return make_all(parent, ranks, counts, n_groups, opt, list_p);
}

/* ---- splitting ------------------------------------------------------------------------------------ */

typedef struct claim {
    int color, key, rank;
} claim;

static int by_key(const void *a, const void *b)
{
    const claim *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

/* Everybody's colour and key. */
static tt_status gather_claims(tt_pg *parent, claim mine, claim *all)
{
    tt_status st = TT_ERR_NOMEM;

    TT_SCOPE {
        tt_tensor *in = tt_wrap(&mine, TT_SHAPE(3), NULL, TT_I32, NULL, NULL);
        tt_tensor *out =
            tt_wrap(all, TT_SHAPE(3 * (int64_t)parent->size), NULL, TT_I32, NULL, NULL);
        st = in != NULL && out != NULL ? tt_pg_all_gather_into(parent, in, out, NULL, NULL)
                                       : tt_last_status();
    }
    return st;
}

tt_pg *tt_pg_split(tt_pg *parent, int color, int key, const tt_pg_options *opt)
{
    if (parent == NULL)
        return TT_NULL_GIVEN("split", "a group");
    if (parent->rank < 0)
        return TT_FAIL_NULL(TT_ERR_INVALID, "split: this process is in no such group");
    size_t size = (size_t)parent->size;
    claim *all = tti_calloc(size, sizeof *all);
    int *ranks = tti_malloc(size * sizeof *ranks);
    tt_pg *pg = NULL;
    int n = 0;

    if (all != NULL && ranks != NULL &&
        gather_claims(parent, (claim){ color < 0 ? -1 : color, key, parent->rank }, all) == TT_OK) {
        qsort(all, size, sizeof *all, by_key);
        for (size_t i = 0; i < size; i++)
            if (color >= 0 && all[i].color == color)
                ranks[n++] = all[i].rank;
        for (size_t i = 0; i < size && color < 0; i++) /* a sentinel over those who joined none */
            if (all[i].rank != parent->rank)
                ranks[n++] = all[i].rank;
        /* A sentinel may be over nobody: a group of one whose rank joined none. */
        pg = color < 0 ? make(parent, ranks, n, opt) : tt_pg_subgroup(parent, ranks, n, opt);
    }
    tti_mfree(all);
    tti_mfree(ranks);
    return pg;
}
