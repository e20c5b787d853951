/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that move parts: gather, scatter, reduce-scatter, all-to-all. */
#include "pg/call.h"
#include "tensor/tensor.h"

#define SITE __builtin_return_address(0)

/* All tensors of the list have as many elements as the first and as `t`. */
static bool all_equal(tt_tensor *const *ts, int n, const tt_tensor *t)
{
    for (int i = 0; i < n; i++)
        if (ts[i]->numel != t->numel)
            return false;
    return true;
}

static tt_status check_numel(const tt_tensor *t, int64_t want, const char *op, const char *what)
{
    if (t->numel != want)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected %s of %lld elements, got %lld", op, what,
                       (long long)want, (long long)t->numel);
    return TT_OK;
}

tt_status tt_pg_all_gather(tt_pg *pg, tt_tensor *in, tt_tensor *const *outs, int n_outs,
                           const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "all_gather";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(in, op, "the input"));
    TT_TRY(tti_check_list(outs, n_outs, pg->size, false, op, "outputs"));
    TT_TRY(tti_check_dtypes(in, outs[0], op));
    TT_TRY(check_numel(outs[pg->rank], in->numel, op, "an output for this rank"));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_ALL_GATHER, opt);
    p->c.dtype = (tt_dtype)in->dtype;
    p->c.uneven = !all_equal(outs, n_outs, in);
    tt_status st = tti_call_arg(c, in, true, false, &p->c.in);
    for (int i = 0; i < n_outs && st == TT_OK; i++)
        st = tti_call_list_out(c, outs[i]);
    return tti_call_finish(c, st, work_p);
}

/* `whole` as size equal pieces of the newest part. */
static tt_status add_equal_pieces(tti_call *c, tt_tensor *whole, bool out)
{
    int n = c->pg->size;
    size_t few[64] = { 0 }, *sizes = few;

    if (n > 64 && (sizes = tti_malloc((size_t)n * sizeof *sizes)) == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        sizes[i] = (size_t)(whole->numel / n) * tti_esize(whole);
    tt_status st = tti_call_pieces(c, whole, out, sizes, n);
    if (sizes != few)
        tti_mfree(sizes);
    return st;
}

static tt_status check_into(tt_pg *pg, tt_tensor *in, tt_tensor *out, const char *op)
{
    TT_TRY(tti_check_tensor(in, op, "the input"));
    TT_TRY(tti_check_tensor(out, op, "the output"));
    TT_TRY(tti_check_dtypes(in, out, op));
    return check_numel(out, in->numel * pg->size, op, "an output");
}

static tt_status add_into(tti_call *c, tt_tensor *in, tt_tensor *out)
{
    tti_part *p = tti_call_part(c, TTI_COLL_ALL_GATHER, NULL);
    if (p == NULL)
        return TT_ERR_NOMEM;
    p->c.dtype = (tt_dtype)in->dtype;
    TT_TRY(tti_call_arg(c, in, true, false, &p->c.in));
    return add_equal_pieces(c, out, true);
}

tt_status tt_pg_all_gather_into(tt_pg *pg, tt_tensor *in, tt_tensor *out,
                                const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "all_gather";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(check_into(pg, in, out, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    return tti_call_finish(c, add_into(c, in, out), work_p);
}

tt_status tt_pg_all_gather_into_coalesced(tt_pg *pg, tt_tensor *const *ins, tt_tensor *const *outs,
                                          int n, const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "all_gather";
    tti_call stack, *c;
    tt_status st = TT_OK;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_list(ins, n, n, true, op, "inputs"));
    TT_TRY(tti_check_list(outs, n, n, true, op, "outputs"));
    for (int i = 0; i < n; i++)
        TT_TRY(check_into(pg, ins[i], outs[i], op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    for (int i = 0; i < n && st == TT_OK; i++)
        st = add_into(c, ins[i], outs[i]);
    return tti_call_finish(c, st, work_p);
}

/* One part per tensor: outs[i * n + k] gets rank i's ins[k]. */
static tt_status add_gathered(tti_call *c, tt_tensor *in, tt_tensor *const *outs, int n, int k)
{
    tti_part *p = tti_call_part(c, TTI_COLL_ALL_GATHER, NULL);
    if (p == NULL)
        return TT_ERR_NOMEM;
    p->c.dtype = (tt_dtype)in->dtype;
    p->c.uneven = true;
    TT_TRY(tti_call_arg(c, in, true, false, &p->c.in));
    for (int i = 0; i < c->pg->size; i++)
        TT_TRY(tti_call_list_out(c, outs[i * n + k]));
    return TT_OK;
}

tt_status tt_pg_all_gather_coalesced(tt_pg *pg, tt_tensor *const *ins, int n,
                                     tt_tensor *const *outs, const tt_coll_options *opt,
                                     tt_work **work_p)
{
    static const char op[] = "all_gather";
    tti_call stack, *c;
    tt_status st = TT_OK;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    if (n < 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected at least one tensor, got %d", op, n);
    TT_TRY(tti_check_list(ins, n, n, true, op, "inputs"));
    TT_TRY(tti_check_list(outs, n * pg->size, n * pg->size, true, op, "outputs"));
    for (int i = 0; i < n * pg->size; i++)
        TT_TRY(tti_check_dtypes(ins[i % n], outs[i], op));
    for (int k = 0; k < n; k++)
        TT_TRY(check_numel(outs[pg->rank * n + k], ins[k]->numel, op, "an output for this rank"));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    for (int k = 0; k < n && st == TT_OK; k++)
        st = add_gathered(c, ins[k], outs, n, k);
    return tti_call_finish(c, st, work_p);
}

/* Of gather and scatter: the root has one tensor per rank, the others none; `one` is this rank's own. */
static tt_status check_rooted(tt_pg *pg, const tt_tensor *one, tt_tensor *const *list, int n,
                              int root, const char *op, const char *what)
{
    if (pg->rank != root)
        return n == 0 ? TT_OK
                      : TT_FAIL(TT_ERR_INVALID, "%s: only the root, rank %d, has %s; got %d", op,
                                root, what, n);
    TT_TRY(tti_check_list(list, n, pg->size, false, op, what));
    TT_TRY(tti_check_dtypes(one, list[0], op));
    return check_numel(list[root], one->numel, op, "a tensor for this rank");
}

tt_status tt_pg_gather(tt_pg *pg, tt_tensor *in, tt_tensor *const *outs, int n_outs, int root,
                       const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "gather";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(in, op, "the input"));
    if ((root = tti_pg_root(pg, root, opt, op, "root")) < 0)
        return TT_ERR_INVALID;
    TT_TRY(check_rooted(pg, in, outs, n_outs, root, op, "outputs"));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_GATHER, opt);
    p->c.dtype = (tt_dtype)in->dtype;
    p->c.root = c->peer = root;
    p->c.uneven = true;
    tt_status st = tti_call_arg(c, in, true, false, &p->c.in);
    for (int i = 0; i < n_outs && st == TT_OK; i++) /* none but on the root */
        st = tti_call_list_out(c, outs[i]);
    return tti_call_finish(c, st, work_p);
}

tt_status tt_pg_scatter(tt_pg *pg, tt_tensor *out, tt_tensor *const *ins, int n_ins, int root,
                        const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "scatter";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(out, op, "the output"));
    if ((root = tti_pg_root(pg, root, opt, op, "root")) < 0)
        return TT_ERR_INVALID;
    TT_TRY(check_rooted(pg, out, ins, n_ins, root, op, "inputs"));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_SCATTER, opt);
    p->c.dtype = (tt_dtype)out->dtype;
    p->c.root = c->peer = root;
    p->c.uneven = true;
    tt_status st = TT_OK;
    for (int i = 0; i < n_ins && st == TT_OK; i++) /* none but on the root */
        st = tti_call_list_in(c, ins[i]);
    if (st == TT_OK)
        st = tti_call_arg(c, out, false, true, &c->parts[0].c.out);
    return tti_call_finish(c, st, work_p);
}

tt_status tt_pg_reduce_scatter(tt_pg *pg, tt_tensor *out, tt_tensor *const *ins, int n_ins,
                               const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "reduce_scatter";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(out, op, "the output"));
    TT_TRY(tti_check_list(ins, n_ins, pg->size, false, op, "inputs"));
    TT_TRY(tti_check_dtypes(out, ins[0], op));
    TT_TRY(tti_check_reduce((tt_dtype)out->dtype, opt, op));
    TT_TRY(check_numel(out, ins[pg->rank]->numel, op, "an output"));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_REDUCE_SCATTER, opt);
    p->c.dtype = (tt_dtype)out->dtype;
    p->c.uneven = !all_equal(ins, n_ins, out);
    tt_status st = TT_OK;
    for (int i = 0; i < n_ins && st == TT_OK; i++)
        st = tti_call_list_in(c, ins[i]);
    if (st == TT_OK)
        st = tti_call_arg(c, out, false, true, &c->parts[0].c.out);
    return tti_call_finish(c, st, work_p);
}

static tt_status check_from(tt_pg *pg, tt_tensor *out, tt_tensor *in, const tt_coll_options *opt,
                            const char *op)
{
    TT_TRY(tti_check_tensor(out, op, "the output"));
    TT_TRY(tti_check_tensor(in, op, "the input"));
    TT_TRY(tti_check_dtypes(out, in, op));
    TT_TRY(tti_check_reduce((tt_dtype)out->dtype, opt, op));
    return check_numel(in, out->numel * pg->size, op, "an input");
}

static tt_status add_from(tti_call *c, tt_tensor *out, tt_tensor *in, const tt_coll_options *opt)
{
    tti_part *p = tti_call_part(c, TTI_COLL_REDUCE_SCATTER, opt);
    if (p == NULL)
        return TT_ERR_NOMEM;
    p->c.dtype = (tt_dtype)out->dtype;
    TT_TRY(add_equal_pieces(c, in, false));
    return tti_call_arg(c, out, false, true, &p->c.out);
}

tt_status tt_pg_reduce_scatter_from(tt_pg *pg, tt_tensor *out, tt_tensor *in,
                                    const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "reduce_scatter";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(check_from(pg, out, in, opt, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    return tti_call_finish(c, add_from(c, out, in, opt), work_p);
}

tt_status tt_pg_reduce_scatter_coalesced(tt_pg *pg, tt_tensor *const *outs, tt_tensor *const *ins,
                                         int n, const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "reduce_scatter";
    tti_call stack, *c;
    tt_status st = TT_OK;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_list(ins, n, n, true, op, "inputs"));
    TT_TRY(tti_check_list(outs, n, n, true, op, "outputs"));
    for (int i = 0; i < n; i++)
        TT_TRY(check_from(pg, outs[i], ins[i], opt, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    for (int i = 0; i < n && st == TT_OK; i++)
        st = add_from(c, outs[i], ins[i], opt);
    return tti_call_finish(c, st, work_p);
}
