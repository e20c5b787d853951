/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast, reductions and barriers. */
#include "base/error.h"
#include "pg/call.h"
#include "tensor/tensor.h"

#define SITE __builtin_return_address(0)

tt_status tt_pg_broadcast(tt_pg *pg, tt_tensor *t, int root, const tt_coll_options *opt,
                          tt_work **work_p)
{
    static const char op[] = "broadcast";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(t, op, "the tensor"));
    if ((root = tti_pg_root(pg, root, opt, op, "root")) < 0)
        return TT_ERR_INVALID;
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_BROADCAST, opt);
    p->c.dtype = (tt_dtype)t->dtype;
    p->c.root = c->peer = root;
    tt_status st = tti_call_arg(c, t, true, true, &p->c.out);
    return tti_call_finish(c, st, work_p);
}

tt_status tt_pg_all_reduce(tt_pg *pg, tt_tensor *t, const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "all_reduce";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    if (t != NULL && t->sparse != NULL)
        return tti_pg_sparse_all_reduce(pg, t, opt, work_p);
    TT_TRY(tti_check_tensor(t, op, "the tensor"));
    TT_TRY(tti_check_reduce((tt_dtype)t->dtype, opt, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_ALL_REDUCE, opt);
    p->c.dtype = (tt_dtype)t->dtype;
    tt_status st = tti_call_arg(c, t, true, true, &p->c.out);
    p->c.in = p->c.out;
    return tti_call_finish(c, st, work_p);
}

tt_status tt_pg_all_reduce_to(tt_pg *pg, tt_tensor *in, tt_tensor *out, const tt_coll_options *opt,
                              tt_work **work_p)
{
    static const char op[] = "all_reduce";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(in, op, "the input"));
    TT_TRY(tti_check_tensor(out, op, "the output"));
    TT_TRY(tti_check_dtypes(in, out, op));
    if (in->numel != out->numel)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected an output of %lld elements, got %lld", op,
                       (long long)in->numel, (long long)out->numel);
    TT_TRY(tti_check_reduce((tt_dtype)in->dtype, opt, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_ALL_REDUCE, opt);
    p->c.dtype = (tt_dtype)in->dtype;
    tt_status st = tti_call_arg(c, in, true, false, &p->c.in);
    if (st == TT_OK)
        st = tti_call_arg(c, out, false, true, &p->c.out);
    return tti_call_finish(c, st, work_p);
}

tt_status tt_pg_reduce(tt_pg *pg, tt_tensor *t, int root, const tt_coll_options *opt,
                       tt_work **work_p)
{
    static const char op[] = "reduce";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    TT_TRY(tti_check_tensor(t, op, "the tensor"));
    TT_TRY(tti_check_reduce((tt_dtype)t->dtype, opt, op));
    if ((root = tti_pg_root(pg, root, opt, op, "root")) < 0)
        return TT_ERR_INVALID;
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_part *p = tti_call_part(c, TTI_COLL_REDUCE, opt);
    p->c.dtype = (tt_dtype)t->dtype;
    p->c.root = c->peer = root;
    tt_status st = tti_call_arg(c, t, true, pg->rank == root, &p->c.in);
    if (pg->rank == root)
        p->c.out = p->c.in;
    return tti_call_finish(c, st, work_p);
}

tt_status tt_pg_barrier(tt_pg *pg, const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "barrier";
    tti_call stack, *c;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    tti_call_part(c, TTI_COLL_BARRIER, opt);
    return tti_call_submit(c, work_p);
}

/* Not a call like the others: it must work while one of those hangs. Its number is that of the group's
 * latest collective. */
tt_status tt_pg_monitored_barrier(tt_pg *pg, const tt_coll_options *opt)
{
    static const char op[] = "monitored_barrier";

    TTI_MEMBERS_ONLY(pg, op, NULL);
    TT_TRY(tti_pg_check(pg, op));
    if (opt != NULL && opt->timeout_ms < 0 && opt->timeout_ms != TT_NO_WAIT)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a time-out of 0 ms or more, got %d", op,
                       opt->timeout_ms);
    int timeout = opt != NULL && opt->timeout_ms != 0 ? opt->timeout_ms : tt_pg_timeout(pg);
    uint64_t seq = atomic_load_explicit(&pg->seq, memory_order_relaxed);
    tti_record rec = { .op = op, .seq = seq, .peer = -1, .site = SITE };
    tti_alone_end(&pg->alone);
    uint64_t ticket = tti_recorder_begun(pg->recorder, &rec);
    tt_status st = pg->ops->monitored_barrier(pg->backend, TTI_MONITORED_PROGRAM, seq,
                                              tti_deadline(timeout == TT_NO_WAIT ? 0 : timeout),
                                              opt != NULL && opt->report_all_ranks);
    tti_recorder_ended(pg->recorder, ticket, st);
    if (st != TT_OK)
        tti_recorder_dump(pg->recorder, tt_status_name(st), tti_last_error());
    return st;
}

/* ---- several tensors at once ------------------------------------------------------------------ */

tt_status tt_pg_all_reduce_coalesced(tt_pg *pg, tt_tensor *const *ts, int n,
                                     const tt_coll_options *opt, tt_work **work_p)
{
    static const char op[] = "all_reduce";
    tti_call stack, *c;
    tt_status st = TT_OK;

    TTI_MEMBERS_ONLY(pg, op, work_p);
    TT_TRY(tti_pg_check(pg, op));
    if (n < 1)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected at least one tensor, got %d", op, n);
    TT_TRY(tti_check_list(ts, n, n, true, op, "tensors"));
    for (int i = 0; i < n; i++)
        TT_TRY(tti_check_reduce((tt_dtype)ts[i]->dtype, opt, op));
    if ((c = tti_call_open(&stack, pg, op, opt, work_p, SITE)) == NULL)
        return tt_last_status();
    for (int i = 0; i < n && st == TT_OK; i++) {
        tti_part *p = tti_call_part(c, TTI_COLL_ALL_REDUCE, opt);
        if (p == NULL)
            return tti_call_finish(c, TT_ERR_NOMEM, work_p);
        p->c.dtype = (tt_dtype)ts[i]->dtype;
        st = tti_call_arg_in_place(c, ts[i], &p->c.out);
        p->c.in = p->c.out;
    }
    return tti_call_finish(c, st, work_p);
}
