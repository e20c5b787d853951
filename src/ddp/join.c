/* SPDX-License-Identifier: Apache-2.0 */
/* Uneven inputs: ranks gather what each is about to do. Those without inputs say so and do the same with
 * nothing of their own, until nobody has any. */
#include "base/error.h"
#include "tutti/join.h"

#include <string.h>

#include "ddp/ddp.h"
#include "tutti/ops.h"

/* What a rank says: nothing left, or which joinable does what. */
#define SAYS_NONE 0
#define SAYS(index, event) (1 + (index) * (TT_JOIN_MAX_EVENT + 1) + (event))
#define SAID_INDEX(said) (((said)-1) / (TT_JOIN_MAX_EVENT + 1))
#define SAID_EVENT(said) (((said)-1) % (TT_JOIN_MAX_EVENT + 1))

struct tt_join {
    tt_joinable list[TT_JOIN_MAX];
    int n;
    tt_join_options opt;
    tt_pg *pg;       /* retained */
    tt_tensor *mine; /* int32[1], owned */
    tt_tensor *all;  /* int32[size], owned */
    bool attached;
    int n_active, first_active;
    bool ran_out, was_last;
    int last_rank;
};

/* ---- making -------------------------------------------------------------------------------- */

static tt_status check_list(const tt_joinable *list, int n)
{
    if (n < 1 || n > TT_JOIN_MAX || list == NULL)
        return TT_FAIL(TT_ERR_INVALID, "join: expected 1 to %d joinables, got %d", TT_JOIN_MAX, n);
    for (int i = 0; i < n; i++) {
        const tt_joinable_ops *ops = list[i].ops;

        if (ops == NULL || list[i].self == NULL)
            return TTI_NULL("join: expected joinable %d, got NULL", i);
        if (ops->group == NULL || ops->attach == NULL || ops->shadow == NULL)
            return TT_FAIL(TT_ERR_INVALID,
                           "join: expected %s to have the functions group, attach and shadow",
                           ops->name);
        if (ops->group(list[i].self) != list[0].ops->group(list[0].self))
            return TT_FAIL(TT_ERR_INVALID, "join: expected joinables of one group, %s has another",
                           ops->name);
        for (int k = 0; k < i; k++)
            if (list[k].self == list[i].self)
                return TT_FAIL(TT_ERR_INVALID, "join: %s is there twice", ops->name);
    }
    return TT_OK;
}

static tt_status make_books(tt_join *j)
{
    TT_SCOPE {
        tt_tensor *mine = tt_pg_alloc(j->pg, TT_SHAPE(1), TT_I32);
        tt_tensor *all = tt_pg_alloc(j->pg, TT_SHAPE(tt_pg_size(j->pg)), TT_I32);

        if (mine == NULL || all == NULL)
            return tt_last_status();
        j->mine = tt_tensor_retain(mine);
        j->all = tt_tensor_retain(all);
    }
    return TT_OK;
}

static tt_status set_up(tt_join *j)
{
    tt_pg *pg = j->list[0].ops->group(j->list[0].self);

    if (pg == NULL || !tt_pg_is_member(pg))
        return TT_FAIL(TT_ERR_INVALID, "join: this process is no member of the group of %s",
                       j->list[0].ops->name);
    j->pg = tt_pg_retain(pg);
    j->n_active = tt_pg_size(pg);
    for (int i = 0; i < j->n; i++)
        if (j->list[i].ops->check != NULL)
            TT_TRY(j->list[i].ops->check(j->list[i].self, &j->opt));
    return make_books(j);
}

tt_join *tt_join_new(const tt_joinable *list, int n, const tt_join_options *opt)
{
    tt_join *j;

    if (check_list(list, n) != TT_OK)
        return NULL;
    j = tti_calloc(1, sizeof *j);
    if (j == NULL)
        return NULL;
    memcpy(j->list, list, (size_t)n * sizeof *list);
    j->n = n;
    j->opt = opt != NULL ? *opt : (tt_join_options){ 0 };
    j->last_rank = -1;
    if (j->opt.disabled)
        return j;
    if (set_up(j) != TT_OK) {
        tt_join_free(j);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        list[i].ops->attach(list[i].self, j);
    j->attached = true;
    return j;
}

static void detach(tt_join *j)
{
    for (int i = 0; j->attached && i < j->n; i++)
        j->list[i].ops->attach(j->list[i].self, NULL);
    j->attached = false;
}

void tt_join_free(tt_join *j)
{
    if (j == NULL)
        return;
    detach(j);
    tt_tensor_free(j->mine);
    tt_tensor_free(j->all);
    tt_pg_free(j->pg);
    tti_mfree(j);
}

/* ---- telling ------------------------------------------------------------------------------- */

/* A word of each rank, from each rank. */
static tt_status exchange(tt_join *j, int32_t word)
{
    *(int32_t *)tti_data(j->mine) = word;
    return tt_pg_all_gather_into(j->pg, j->mine, j->all, NULL, NULL);
}

static const char *name_of(const tt_join *j, int said)
{
    int i = SAID_INDEX(said);

    return said > SAYS_NONE && i < j->n ? j->list[i].ops->name : "something unknown";
}

/* Say `word`, and hear what the active ranks say, which must be the same: *said_p, SAYS_NONE when there
 * are none. */
static tt_status talk(tt_join *j, int32_t word, int32_t *said_p)
{
    const int32_t *all = tti_data(j->all);

    TT_TRY(exchange(j, word));
    j->n_active = 0;
    *said_p = SAYS_NONE;
    for (int r = 0; r < tt_pg_size(j->pg); r++) {
        if (all[r] == SAYS_NONE)
            continue;
        if (j->n_active++ == 0) {
            j->first_active = r;
            *said_p = all[r];
        } else if (all[r] != *said_p) {
            return TT_FAIL(TT_ERR_INVALID,
                           "join: expected all ranks with inputs to do the same, but rank %d is at "
                           "event %d of %s, and rank %d at event %d of %s",
                           j->first_active, SAID_EVENT(*said_p), name_of(j, *said_p), r,
                           SAID_EVENT(all[r]), name_of(j, all[r]));
        }
    }
    return TT_OK;
}

static int index_of(const tt_join *j, const void *self)
{
    for (int i = 0; i < j->n; i++)
        if (j->list[i].self == self)
            return i;
    return -1;
}

tt_status tt_join_notify(tt_join *j, const void *self, int event)
{
    int32_t said;
    int index;

    if (j == NULL || !j->attached || j->ran_out)
        return TT_OK;
    index = index_of(j, self);
    if (index < 0 || event < 0 || event > TT_JOIN_MAX_EVENT)
        return TT_FAIL(TT_ERR_INVALID,
                       "join: expected a joinable of this scope and an event up to %d, got event "
                       "%d of %s",
                       TT_JOIN_MAX_EVENT, event, index < 0 ? "another" : j->list[index].ops->name);
    TT_TRY(talk(j, SAYS(index, event), &said));
    if (j->opt.throw_on_early_termination && j->n_active < tt_pg_size(j->pg))
        return TT_FAIL(TT_ERR_INVALID,
                       "join: %d of %d ranks ran out of inputs; this is rank %d, which has more",
                       tt_pg_size(j->pg) - j->n_active, tt_pg_size(j->pg), tt_pg_rank(j->pg));
    return TT_OK;
}

/* ---- the end ------------------------------------------------------------------------------- */

static tt_status shadow(tt_join *j, int32_t said)
{
    int i = SAID_INDEX(said);
    tt_status st = TT_OK;

    if (i < 0 || i >= j->n)
        return TT_FAIL(TT_ERR_PEER, "join: rank %d has %d joinables or more, this rank %d",
                       j->first_active, i + 1, j->n);
    TT_SCOPE {
        st = j->list[i].ops->shadow(j->list[i].self, j, SAID_EVENT(said));
    }
    return st;
}

/* Everybody has run out; those who heard so at once were the last. */
static tt_status agree_on_last(tt_join *j)
{
    const int32_t *all = tti_data(j->all);

    TT_TRY(exchange(j, j->was_last));
    for (int r = 0; r < tt_pg_size(j->pg); r++)
        if (all[r] != 0)
            j->last_rank = r;
    if (j->last_rank < 0)
        return TT_FAIL(TT_ERR_PEER, "join: no rank was the last to run out of inputs");
    for (int i = 0; i < j->n; i++)
        if (j->list[i].ops->finish != NULL)
            TT_TRY(j->list[i].ops->finish(j->list[i].self, j));
    return TT_OK;
}

static tt_status run_out(tt_join *j)
{
    int32_t said;

    TT_TRY(talk(j, SAYS_NONE, &said));
    j->was_last = said == SAYS_NONE;
    if (said != SAYS_NONE && j->opt.throw_on_early_termination)
        return TT_FAIL(TT_ERR_INVALID, "join: rank %d ran out of inputs while %d of %d have more",
                       tt_pg_rank(j->pg), j->n_active, tt_pg_size(j->pg));
    while (said != SAYS_NONE) {
        TT_TRY(shadow(j, said));
        TT_TRY(talk(j, SAYS_NONE, &said));
    }
    return agree_on_last(j);
}

tt_status tt_join_finish(tt_join *j)
{
    tt_status st;

    if (j == NULL)
        return tti_null_given("join", "a scope");
    if (j->ran_out)
        return TT_FAIL(TT_ERR_INVALID, "join: this scope has been finished before");
    j->ran_out = true;
    st = j->attached ? run_out(j) : TT_OK;
    detach(j);
    return st;
}

/* ---- asking -------------------------------------------------------------------------------- */

int tt_join_n_active(const tt_join *j)
{
    return j != NULL ? j->n_active : 0;
}

int tt_join_first_active(const tt_join *j)
{
    return j != NULL ? j->first_active : 0;
}

bool tt_join_divides_by_active(const tt_join *j)
{
    return j != NULL && j->opt.divide_by_active;
}

bool tt_join_enabled(const tt_join *j)
{
    return j != NULL && !j->opt.disabled;
}

int tt_join_last_rank(const tt_join *j)
{
    return j != NULL ? j->last_rank : -1;
}
