/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks succeed, or all fail with the words of the first that did. */
#include "base/error.h"
#include "checkpoint/checkpoint.h"

int tti_group_rank(const tt_pg *pg)
{
    return pg != NULL ? tt_pg_rank(pg) : 0;
}

int tti_checkpoint_ranks(const tt_pg *pg)
{
    return pg != NULL ? tt_pg_size(pg) : 1;
}

/* [status, words, value] */
static tt_value *report_new(tt_status st, const tt_value *mine)
{
    tt_value *v = tt_value_list_new();
    tt_value *copy = mine != NULL ? tt_value_copy(mine) : tt_value_null_new();

    if (v == NULL || tt_value_list_give(v, tt_value_int_new(st)) != TT_OK ||
        tt_value_list_give(v, tt_value_text_new(st != TT_OK ? tti_last_error() : "")) != TT_OK) {
        tt_value_free(copy);
        tt_value_free(v);
        return NULL;
    }
    if (tt_value_list_give(v, copy) == TT_OK)
        return v;
    tt_value_free(v);
    return NULL;
}

static tt_status judge(tt_value *const *reports, int size)
{
    for (int i = 0; i < size; i++) {
        tt_status st = (tt_status)tt_value_as_int(tt_value_at(reports[i], 0));

        if (st != TT_OK)
            return TT_FAIL(st, size > 1 ? "%s (rank %d)" : "%s",
                           tt_value_as_text(tt_value_at(reports[i], 1)), i);
    }
    return TT_OK;
}

static tt_status collect(tt_value *const *reports, int size, tt_value **all_p)
{
    tt_value *all = tt_value_list_new();
    tt_status st = all != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < size; i++)
        st = tt_value_list_add(all, tt_value_at(reports[i], 2));
    if (st == TT_OK)
        *all_p = all;
    else
        tt_value_free(all);
    return st;
}

tt_status tti_agree(tt_pg *pg, tt_status st, const tt_value *mine, tt_value **all_p)
{
    int size = tti_checkpoint_ranks(pg);
    tt_value *report = report_new(st, mine);
    tt_value **reports = tti_calloc((size_t)size, sizeof *reports);

    if (report == NULL || reports == NULL)
        st = TT_ERR_NOMEM;
    else if (size > 1)
        st = tt_pg_all_gather_object(pg, report, reports, NULL);
    else
        reports[0] = tt_value_retain(report), st = TT_OK;
    if (st == TT_OK)
        st = judge(reports, size);
    if (st == TT_OK && all_p != NULL)
        st = collect(reports, size, all_p);
    for (int i = 0; reports != NULL && i < size; i++)
        tt_value_free(reports[i]);
    tti_mfree(reports);
    tt_value_free(report);
    return st;
}

tt_status tti_agree_text(tt_pg *pg, tt_status st, char **text_p)
{
    tt_value *mine = st == TT_OK && *text_p != NULL ? tt_value_text_new(*text_p) : NULL;
    tt_value *all = NULL;

    st = tti_agree(pg, st, mine, &all);
    tt_value_free(mine);
    if (st == TT_OK && tti_group_rank(pg) != 0) {
        *text_p = tti_strdup(tt_value_as_text(tt_value_at(all, 0)));
        st = *text_p != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    tt_value_free(all);
    return st;
}
