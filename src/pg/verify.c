/* SPDX-License-Identifier: Apache-2.0 */
/* Debug level DETAIL: before a collective runs, everybody has come (or the missing are named) and everybody is
 * about to run the same (or who differs is named, and how). */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "pg/call.h"
#include "tensor/tensor.h"

typedef struct fingerprint {
    uint64_t seq;
    char op[24];
    int32_t dtype, reduce_op, root, n_parts;
    uint64_t bytes; /* 0 where ranks may differ */
} fingerprint;

static fingerprint take(const tti_call *c)
{
    const tti_coll *coll = c->n_parts > 0 ? &c->parts[0].c : NULL;
    fingerprint f = { .seq = c->seq, .root = c->peer, .n_parts = c->n_parts, .dtype = -1 };

    snprintf(f.op, sizeof f.op, "%s", c->op);
    if (coll == NULL)
        return f;
    f.dtype = c->n_args > 0 ? (int32_t)coll->dtype : -1;
    f.reduce_op = (int32_t)coll->op;
    for (int i = 0; i < c->n_parts && !coll->uneven; i++) {
        const tti_coll *part = &c->parts[i].c; /* of some, the root alone has outputs */
        f.bytes += part->in.bytes > 0 ? part->in.bytes : part->out.bytes;
    }
    return f;
}

static void describe(const fingerprint *f, char *text, size_t size)
{
    int n = snprintf(text, size, "%s #%llu", f->op, (unsigned long long)f->seq);

    if (f->dtype >= 0)
        n += snprintf(text + n, size - (size_t)n, " of %s", tt_dtype_name((tt_dtype)f->dtype));
    n += snprintf(text + n, size - (size_t)n, ", %llu bytes", (unsigned long long)f->bytes);
    if (f->root >= 0)
        n += snprintf(text + n, size - (size_t)n, ", root %d", f->root);
    if (f->reduce_op != TT_REDUCE_SUM)
        snprintf(text + n, size - (size_t)n, ", %s", tt_reduce_op_name((tt_reduce_op)f->reduce_op));
}

/* The rank whose call most others share: the first of the largest class. */
static int majority(const fingerprint *all, int n)
{
    int best = 0, best_count = 0;

    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int k = 0; k < n; k++)
            count += memcmp(&all[i], &all[k], sizeof all[i]) == 0;
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return best;
}

static tt_status compare(const tt_pg *pg, const fingerprint *all)
{
    char usual[128], other[128];
    int m = majority(all, pg->size);
    tti_text differing = { 0 };

    for (int i = 0; i < pg->size; i++) {
        if (memcmp(&all[i], &all[m], sizeof all[i]) == 0)
            continue;
        describe(&all[i], other, sizeof other);
        tti_text_addf(&differing, "%srank %d called %s", differing.n > 0 ? "; " : "",
                      pg->global_ranks[i], other);
    }
    tt_status st = TT_OK;
    if (differing.n > 0) {
        describe(&all[m], usual, sizeof usual);
        st = TT_FAIL(TT_ERR_INVALID,
                     "group %s: ranks called different collectives: %s; rank %d %s %s", pg->name,
                     tti_text_str(&differing), pg->global_ranks[m],
                     pg->size > 2 ? "and the others called" : "called", usual);
    }
    tti_text_fini(&differing);
    return st;
}

tt_status tti_call_verify(tti_call *c, int64_t deadline_ns)
{
    tt_pg *pg = c->pg;
    fingerprint mine = take(c);
    size_t n = (size_t)pg->size;

    TT_TRY(
        pg->ops->monitored_barrier(pg->backend, TTI_MONITORED_CHECKS, c->seq, deadline_ns, true));
    fingerprint *all = tti_calloc(n, sizeof *all);
    tti_span *outs = tti_calloc(n, sizeof *outs);
    tt_status st = all != NULL && outs != NULL ? TT_OK : TT_ERR_NOMEM;
    if (st == TT_OK) {
        for (size_t i = 0; i < n; i++) {
            all[i] = mine; /* a backend without peers gives only our own */
            outs[i] = (tti_span){ &all[i], sizeof all[i] };
        }
        st = pg->ops->run(pg->backend, &(tti_coll){ .kind = TTI_COLL_ALL_GATHER,
                                                    .dtype = TT_U8,
                                                    .in = { &mine, sizeof mine },
                                                    .outs = outs,
                                                    .seq = c->seq,
                                                    .deadline_ns = deadline_ns });
    }
    if (st == TT_OK)
        st = compare(pg, all);
    tti_mfree(all);
    tti_mfree(outs);
    return st;
}
