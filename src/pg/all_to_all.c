/* SPDX-License-Identifier: Apache-2.0 */
/* All-to-all: lists of tensors, and one tensor cut along its first dimension. */
#include "pg/call.h"
#include "tensor/tensor.h"

#define SITE __builtin_return_address(0)

static const char op[] = "all_to_all";

tt_status tt_pg_all_to_all(tt_pg *pg, tt_tensor *const *outs, tt_tensor *const *ins, int n,
                           const tt_coll_options *opt, tt_work **work_p)
{
    tti_call stack, *c;
    tt_status st = TT_OK;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_list(ins, n, pg->size, false, op, "inputs"));
    TT_TRY(tti_check_list(outs, n, pg->size, false, op, "outputs"));
    TT_TRY(tti_check_dtypes(ins[0], outs[0], op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_ALL_TO_ALL, opt);
    p->c.dtype = (tt_dtype)ins[0]->dtype;
    p->c.uneven = true;
    for (int i = 0; i < n && st == TT_OK; i++)
        st = tti_call_list_in(c, ins[i]);
    for (int i = 0; i < n && st == TT_OK; i++)
        st = tti_call_list_out(c, outs[i]);
    return tti_call_finish(c, st, work_p);
}

/* Bytes of each rank's rows of `t`, cut by `splits` (NULL: equal parts) of its first dimension. */
static tt_status piece_sizes(const tt_pg *pg, const tt_tensor *t, const int64_t *splits,
                             const char *what, size_t *sizes)
{
    int64_t rows = t->n_dims > 0 ? t->dims[0] : 1, sum = 0;
    size_t row_bytes = rows > 0 ? (size_t)(t->numel / rows) * tti_esize(t) : 0;

    if (splits == NULL && rows % pg->size != 0)
        return TT_FAIL(TT_ERR_INVALID,
                       "%s: the %s has %lld rows, which %d ranks cannot share equally", op, what,
                       (long long)rows, pg->size);
    for (int i = 0; i < pg->size; i++) {
        int64_t n = splits != NULL ? splits[i] : rows / pg->size;
        if (n < 0)
            return TT_FAIL(TT_ERR_INVALID, "%s: split %d of the %s is %lld", op, i, what,
                           (long long)n);
        sum += n;
        sizes[i] = (size_t)n * row_bytes;
    }
    if (sum != rows)
        return TT_FAIL(TT_ERR_INVALID, "%s: the splits of the %s add up to %lld, it has %lld rows",
                       op, what, (long long)sum, (long long)rows);
    return TT_OK;
}

tt_status tt_pg_all_to_all_single(tt_pg *pg, tt_tensor *out, tt_tensor *in,
                                  const int64_t *out_splits, const int64_t *in_splits,
                                  const tt_coll_options *opt, tt_work **work_p)
{
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(in, op, "the input"));
    TT_TRY(tti_check_tensor(out, op, "the output"));
    TT_TRY(tti_check_dtypes(in, out, op));
    size_t few[128] = { 0 }, *sizes = few;
    if (pg->size > 64 && (sizes = tti_malloc(2 * (size_t)pg->size * sizeof *sizes)) == NULL)
        return TT_ERR_NOMEM;
    tt_status st = piece_sizes(pg, in, in_splits, "input", sizes);
    if (st == TT_OK)
        st = piece_sizes(pg, out, out_splits, "output", sizes + pg->size);
    c = st == TT_OK ? tti_call_open(&stack, pg, op, opt, work_p, SITE) : NULL;
    if (c != NULL) {
        tti_part *p = tti_call_part(c, TTI_COLL_ALL_TO_ALL, opt);
        p->c.dtype = (tt_dtype)in->dtype;
        p->c.uneven = in_splits != NULL || out_splits != NULL;
        st = tti_call_pieces(c, in, false, sizes, pg->size);
        if (st == TT_OK)
            st = tti_call_pieces(c, out, true, sizes + pg->size, pg->size);
    } else if (st == TT_OK) {
        st = tt_last_status();
    }
    if (sizes != few)
        tti_mfree(sizes);
    return c != NULL ? tti_call_finish(c, st, work_p) : st;
}
