/* SPDX-License-Identifier: Apache-2.0 */
/* Object collectives: nested values as bytes (docs/objects.md) over the collectives of tensors. Before any
 * data move, every rank knows all sizes and that everybody is ready; a rank that failed says so in place
 * of its size, so that all fail together and nobody waits for data that never come. */
#include <string.h>

#include "pg/call.h"
#include "tutti/ops.h"

/* One call of one rank. */
typedef struct object_call {
    tt_pg *pg;
    const char *op;
    tt_coll_options opt; /* root is a rank of the group by now */
    int root, rank, size;
    tti_error_copy error; /* what went wrong on this rank */
} object_call;

static tt_status begin(object_call *c, tt_pg *pg, const char *op, const tt_coll_options *opt)
{
    TT_TRY(tti_pg_check(pg, op));
    if (tti_collecting(pg))
        return TT_FAIL(TT_ERR_INVALID, "%s: objects cannot be sent inside a coalescing scope", op);
    *c = (object_call){ .pg = pg, .op = op, .rank = pg->rank, .size = pg->size };
    if (opt != NULL)
        c->opt = *opt;
    c->opt.op = TT_REDUCE_SUM;
    return TT_OK;
}

static tt_status begin_rooted(object_call *c, tt_pg *pg, const char *op, int root,
                              const tt_coll_options *opt)
{
    TT_TRY(begin(c, pg, op, opt));
    c->root = tti_pg_root(pg, root, opt, op, "root");
    c->opt.global_ranks = false;
    return c->root >= 0 ? TT_OK : tt_last_status();
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* The size of a value's bytes, or the negative status of a failure, which is kept in the call. */
static int64_t encode(object_call *c, const tt_value *v, void **data_p)
{
    size_t n;
    tt_status st = tt_value_encode(v, data_p, &n);

    if (st == TT_OK)
        return (int64_t)n;
    tti_error_save(&c->error);
    return (int64_t)st;
}

/* What a list of sizes tells of failures on `root` or, -1, on the rank of each place: one's own before
 * those of others. */
static tt_status judge(const object_call *c, const int64_t *sizes, int n, int root)
{
    int64_t total = 0;

    if (c->error.status != TT_OK) {
        tti_error_restore(&c->error);
        return c->error.status;
    }
    for (int i = 0; i < n; i++) {
        int who = c->pg->global_ranks[root >= 0 ? root : i];

        if (sizes[i] >= 0 && !__builtin_add_overflow(total, sizes[i], &total))
            continue;
        if (sizes[i] == TT_ERR_FORMAT)
            return TT_FAIL(TT_ERR_FORMAT, "%s: group %s: the value of rank %d cannot be sent",
                           c->op, c->pg->name, who);
        return TT_FAIL(TT_ERR_PEER, "%s: group %s: rank %d failed: %s", c->op, c->pg->name, who,
                       tt_status_text((tt_status)sizes[i]));
    }
    return TT_OK;
}

static tt_tensor *over(void *data, int64_t n, tt_dtype dtype)
{
    return n > 0 ? tt_wrap(data, TT_SHAPE(n), NULL, dtype, NULL, NULL)
                 : tt_empty(TT_SHAPE(0), dtype, TT_CPU);
}

/* Everybody's number, to all[0 .. size - 1]; fails on all ranks when one of them is negative. */
static tt_status exchange(object_call *c, int64_t mine, int64_t *all)
{
    TT_SCOPE {
        tt_tensor *in = over(&mine, 1, TT_I64), *out = over(all, c->size, TT_I64);

        if (in == NULL || out == NULL)
            return tt_last_status();
        TT_TRY(tt_pg_all_gather_into(c->pg, in, out, &c->opt, NULL));
    }
    return judge(c, all, c->size, -1);
}

/* All ranks have what they need to go on, or all fail. */
static tt_status agree(object_call *c, tt_status st, int64_t *scratch)
{
    if (st != TT_OK)
        tti_error_save(&c->error);
    return exchange(c, (int64_t)st, scratch);
}

/* ---- buffers -------------------------------------------------------------------------------- */

/* Tensors of these sizes, of the scope. */
static tt_status make_buffers(tt_tensor **ts, const int64_t *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        ts[i] = tt_empty(TT_SHAPE(sizes[i]), TT_U8, TT_CPU);
        if (ts[i] == NULL)
            return tt_last_status();
    }
    return TT_OK;
}

static void drop_values(tt_value **values, int n)
{
    for (int i = 0; i < n; i++) {
        tt_value_free(values[i]);
        values[i] = NULL;
    }
}

/* All of them or none. */
static tt_status decode_all(tt_tensor *const *ts, tt_value **values, int n)
{
    for (int i = 0; i < n; i++) {
        values[i] = tt_value_decode(tt_tensor_data(ts[i]), tt_tensor_bytes(ts[i]));
        if (values[i] == NULL) {
            drop_values(values, i);
            return tt_last_status();
        }
    }
    return TT_OK;
}

/* ---- all_gather, gather --------------------------------------------------------------------- */

/* To all ranks, or with `to_root` to the root only. `sizes` and `outs` have room for all ranks. */
static tt_status gather(object_call *c, const tt_value *v, bool to_root, tt_value **values,
                        void **data_p, int64_t *sizes, tt_tensor **outs)
{
    bool receives = !to_root || c->rank == c->root;
    tt_tensor *in;
    tt_status st;

    TT_TRY(exchange(c, encode(c, v, data_p), sizes));
    in = over(*data_p, sizes[c->rank], TT_U8);
    st = in == NULL ? tt_last_status() : receives ? make_buffers(outs, sizes, c->size) : TT_OK;
    TT_TRY(agree(c, st, sizes));
    if (to_root)
        TT_TRY(tt_pg_gather(c->pg, in, receives ? outs : NULL, receives ? c->size : 0, c->root,
                            &c->opt, NULL));
    else
        TT_TRY(tt_pg_all_gather(c->pg, in, outs, c->size, &c->opt, NULL));
    return receives ? decode_all(outs, values, c->size) : TT_OK;
}

static tt_status gather_with_memory(object_call *c, const tt_value *v, bool to_root,
                                    tt_value **values)
{
    int64_t *sizes = tti_malloc((size_t)c->size * sizeof *sizes);
    tt_tensor **outs = tti_calloc((size_t)c->size, sizeof(tt_tensor *));
    void *data = NULL;
    tt_status st = TT_ERR_NOMEM;

    if (sizes != NULL && outs != NULL)
        TT_SCOPE {
            st = gather(c, v, to_root, values, &data, sizes, outs);
        }
    tt_bytes_free(data);
    tti_mfree(sizes);
    tti_mfree(outs);
    return st;
}

tt_status tt_pg_all_gather_object(tt_pg *pg, const tt_value *v, tt_value **values,
                                  const tt_coll_options *opt)
{
    object_call c;

    TTI_MEMBERS_ONLY(pg, "all_gather_object", NULL);
    TT_TRY(begin(&c, pg, "all_gather_object", opt));
    if (values == NULL)
        return TT_FAIL(TT_ERR_INVALID, "all_gather_object: expected room for %d values, got NULL",
                       c.size);
    return gather_with_memory(&c, v, false, values);
}

tt_status tt_pg_gather_object(tt_pg *pg, const tt_value *v, tt_value **values, int root,
                              const tt_coll_options *opt)
{
    object_call c;

    TTI_MEMBERS_ONLY(pg, "gather_object", NULL);
    TT_TRY(begin_rooted(&c, pg, "gather_object", root, opt));
    if ((values != NULL) != (c.rank == c.root))
        return TT_FAIL(TT_ERR_INVALID, "gather_object: %s",
                       values != NULL ? "only the root gives room for values, the others NULL"
                                      : "expected room for the values on the root, got NULL");
    return gather_with_memory(&c, v, true, values);
}

/* ---- broadcast, scatter --------------------------------------------------------------------- */

/* The root's values as bytes, one after the other. */
typedef struct packets {
    int n;
    int64_t *sizes; /* the same on all ranks once they are sent */
    void **parts;   /* root only */
    tt_tensor *all; /* of the scope; on the root filled */
} packets;

static void packets_fini(packets *p)
{
    for (int i = 0; p->parts != NULL && i < p->n; i++)
        tt_bytes_free(p->parts[i]);
    tti_mfree(p->parts);
    tti_mfree(p->sizes);
}

static tt_status packets_init(packets *p, int n)
{
    *p = (packets){ .n = n };
    p->sizes = tti_calloc((size_t)n + 1, sizeof *p->sizes);
    p->parts = tti_calloc((size_t)n + 1, sizeof *p->parts);
    return p->sizes != NULL && p->parts != NULL ? TT_OK : TT_ERR_NOMEM;
}

static int64_t packets_total(const packets *p)
{
    int64_t total = 0;

    for (int i = 0; i < p->n; i++)
        total += p->sizes[i];
    return total;
}

/* The root encodes; all learn the sizes, or that it could not. */
static tt_status send_sizes(object_call *c, packets *p, tt_value *const *values)
{
    p->sizes[p->n] = p->n;
    for (int i = 0; c->rank == c->root && i < p->n; i++) {
        p->sizes[i] = encode(c, values[i], &p->parts[i]);
        if (p->sizes[i] < 0)
            break;
    }
    TT_SCOPE {
        tt_tensor *t = over(p->sizes, p->n + 1, TT_I64);

        if (t == NULL)
            return tt_last_status();
        TT_TRY(tt_pg_broadcast(c->pg, t, c->root, &c->opt, NULL));
    }
    return judge(c, p->sizes, p->n, c->root);
}

static tt_status fill_all(packets *p, int64_t total)
{
    char *at;

    p->all = tt_empty(TT_SHAPE(total), TT_U8, TT_CPU);
    if (p->all == NULL)
        return tt_last_status();
    at = tt_tensor_data(p->all);
    for (int i = 0; i < p->n; i++)
        if (p->parts[i] != NULL) {
            memcpy(at, p->parts[i], (size_t)p->sizes[i]);
            at += p->sizes[i];
        }
    return TT_OK;
}

/* Every rank is ready, or all fail. */
static tt_status agree_alone(object_call *c, tt_status st)
{
    int64_t *scratch = tti_malloc((size_t)c->size * sizeof *scratch);

    if (scratch == NULL)
        return TT_ERR_NOMEM;
    st = agree(c, st, scratch);
    tti_mfree(scratch);
    return st;
}

/* Puts what arrived in place of `values`: all of it or nothing. */
static tt_status replace_values(const packets *p, tt_value **values)
{
    tt_value **fresh = tti_calloc((size_t)p->n + 1, sizeof(tt_value *));
    const char *at = tt_tensor_data(p->all);
    tt_status st = fresh != NULL ? TT_OK : TT_ERR_NOMEM;

    for (int i = 0; st == TT_OK && i < p->n; i++) {
        fresh[i] = tt_value_decode(at, (size_t)p->sizes[i]);
        if (fresh[i] == NULL)
            st = tt_last_status();
        at += p->sizes[i];
    }
    for (int i = 0; st == TT_OK && i < p->n; i++) {
        tt_value_free(values[i]);
        values[i] = fresh[i];
        fresh[i] = NULL;
    }
    if (fresh != NULL)
        drop_values(fresh, p->n);
    tti_mfree(fresh);
    return st;
}

static tt_status broadcast(object_call *c, packets *p, tt_value **values)
{
    TT_TRY(send_sizes(c, p, values));
    TT_TRY(agree_alone(c, fill_all(p, packets_total(p))));
    TT_TRY(tt_pg_broadcast(c->pg, p->all, c->root, &c->opt, NULL));
    return c->rank == c->root ? TT_OK : replace_values(p, values);
}

tt_status tt_pg_broadcast_objects(tt_pg *pg, tt_value **values, int n, int root,
                                  const tt_coll_options *opt)
{
    object_call c;
    packets p;
    tt_status st;

    TTI_MEMBERS_ONLY(pg, "broadcast_objects", NULL);
    TT_TRY(begin_rooted(&c, pg, "broadcast_objects", root, opt));
    if (n < 0 || (values == NULL && n > 0))
        return TT_FAIL(TT_ERR_INVALID, "broadcast_objects: expected 0 or more values, got %s",
                       n < 0 ? "a negative number" : "NULL");
    st = packets_init(&p, n);
    if (st == TT_OK)
        TT_SCOPE {
            st = broadcast(&c, &p, values);
        }
    packets_fini(&p);
    return st;
}

/* Rows from the root only: `splits` has room for two lists of all ranks. */
static tt_status scatter_bytes(object_call *c, const packets *p, tt_tensor *out, int64_t *splits)
{
    int64_t *from = splits, *to = splits + c->size;

    memset(splits, 0, 2 * (size_t)c->size * sizeof *splits);
    from[c->root] = p->sizes[c->rank];
    for (int i = 0; c->rank == c->root && i < c->size; i++)
        to[i] = p->sizes[i];
    return tt_pg_all_to_all_single(c->pg, out, p->all, from, to, &c->opt, NULL);
}

static tt_status scatter(object_call *c, packets *p, tt_value *const *values, tt_value **out)
{
    tt_tensor *mine = NULL;
    tt_value *got;
    tt_status st;
    int64_t *splits;

    TT_TRY(send_sizes(c, p, values));
    splits = tti_malloc(2 * (size_t)c->size * sizeof *splits);
    st = splits != NULL ? fill_all(p, c->rank == c->root ? packets_total(p) : 0) : TT_ERR_NOMEM;
    if (st == TT_OK)
        st = make_buffers(&mine, &p->sizes[c->rank], 1);
    st = agree_alone(c, st);
    if (st == TT_OK)
        st = scatter_bytes(c, p, mine, splits);
    tti_mfree(splits);
    TT_TRY(st);
    TT_TRY(decode_all(&mine, &got, 1));
    tt_value_free(out[0]);
    out[0] = got;
    return TT_OK;
}

tt_status tt_pg_scatter_objects(tt_pg *pg, tt_value **out, int n_out, tt_value *const *values,
                                int n_values, int root, const tt_coll_options *opt)
{
    object_call c;
    packets p;
    tt_status st;

    TTI_MEMBERS_ONLY(pg, "scatter_objects", NULL);
    TT_TRY(begin_rooted(&c, pg, "scatter_objects", root, opt));
    if (out == NULL || n_out < 1)
        return TT_FAIL(TT_ERR_INVALID,
                       "scatter_objects: expected a list with at least one slot for the result");
    if (c.rank == c.root && (values == NULL || n_values != c.size))
        return TT_FAIL(TT_ERR_INVALID, "scatter_objects: expected %d values on the root, got %d",
                       c.size, values != NULL ? n_values : 0);
    st = packets_init(&p, c.size);
    if (st == TT_OK)
        TT_SCOPE {
            st = scatter(&c, &p, values, out);
        }
    packets_fini(&p);
    return st;
}
