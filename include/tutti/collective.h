/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives, point-to-point messages and barriers of a group.
 *
 *     TT_TRY(tt_pg_all_reduce(pg, grad, &(tt_coll_options){ .op = TT_REDUCE_AVG }, NULL));
 *
 * Every member calls the same operations in the same order, with the same element type and sizes
 * where nothing else is said; ranks that differ get an error that says who differs and how. With
 * work_p NULL the call waits for the end; else it returns at once and *work_p is yours: until the
 * work is done the tensors must be left alone (they are kept alive). On a group that this process is not in, every call
 * succeeds at once and does nothing (*work_p is then a work that is done).
 *
 * Tensors may be strided. Reductions add in the order of ranks: every rank gets the same bits, every
 * time. Sums of float16 and bfloat16 are made in float32 and rounded once. For bool, sum and max mean
 * or, product and min mean and. Complex tensors can be summed and averaged, nothing else.
 *
 * `root` and peers are ranks of the group, or global ranks with opt->global_ranks. */
#ifndef TUTTI_COLLECTIVE_H
#define TUTTI_COLLECTIVE_H

#include "tutti/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tt_reduce_op {
    TT_REDUCE_SUM,
    TT_REDUCE_AVG, /* integers: rounded towards zero */
    TT_REDUCE_PRODUCT,
    TT_REDUCE_MIN, /* NaN if any is */
    TT_REDUCE_MAX,
    TT_REDUCE_BAND, /* integers and bool */
    TT_REDUCE_BOR,
    TT_REDUCE_BXOR,
    TT_REDUCE_PREMUL_SUM, /* each rank's input times its `factor`, then the sum; floating types */
} tt_reduce_op;

TT_API const char *tt_reduce_op_name(tt_reduce_op op); /* "sum" */

#define TT_NO_WAIT (-1)

typedef struct tt_coll_options {
    tt_reduce_op op;
    double factor;         /* for PREMUL_SUM */
    int timeout_ms;        /* 0: the group's; TT_NO_WAIT (monitored barrier only): none at all */
    bool global_ranks;     /* root and peer are global ranks */
    bool report_all_ranks; /* monitored barrier: name every missing rank, not the first only */
} tt_coll_options;

/* ---- collectives ----------------------------------------------------------------------- */

TT_API tt_status tt_pg_broadcast(tt_pg *pg, tt_tensor *t, int root, const tt_coll_options *opt,
                                 tt_work **work_p);
/* In place on every rank. Sparse tensors: sum only; t's indices and values are replaced. */
TT_API tt_status tt_pg_all_reduce(tt_pg *pg, tt_tensor *t, const tt_coll_options *opt,
                                  tt_work **work_p);
/* Out of place: `out` gets the result, `in` is only read. */
TT_API tt_status tt_pg_all_reduce_to(tt_pg *pg, tt_tensor *in, tt_tensor *out,
                                     const tt_coll_options *opt, tt_work **work_p);
/* In place on the root; the others' tensors are only read. */
TT_API tt_status tt_pg_reduce(tt_pg *pg, tt_tensor *t, int root, const tt_coll_options *opt,
                              tt_work **work_p);

/* outs[i] gets rank i's `in`; n_outs is the group's size. Sizes may differ from rank to rank, outs[i]
 * having rank i's. */
TT_API tt_status tt_pg_all_gather(tt_pg *pg, tt_tensor *in, tt_tensor *const *outs, int n_outs,
                                  const tt_coll_options *opt, tt_work **work_p);
/* The inputs one after the other in `out`, which has size times as many elements: concatenated or
 * stacked along the first dimension. */
TT_API tt_status tt_pg_all_gather_into(tt_pg *pg, tt_tensor *in, tt_tensor *out,
                                       const tt_coll_options *opt, tt_work **work_p);
/* As all_gather, on the root only; the others give NULL and 0. */
TT_API tt_status tt_pg_gather(tt_pg *pg, tt_tensor *in, tt_tensor *const *outs, int n_outs,
                              int root, const tt_coll_options *opt, tt_work **work_p);
/* `out` of rank i gets the root's ins[i]; the others give NULL and 0. */
TT_API tt_status tt_pg_scatter(tt_pg *pg, tt_tensor *out, tt_tensor *const *ins, int n_ins,
                               int root, const tt_coll_options *opt, tt_work **work_p);
/* `out` of rank i gets the reduction of everybody's ins[i]; ins[i] may have another size than ins[j]. */
TT_API tt_status tt_pg_reduce_scatter(tt_pg *pg, tt_tensor *out, tt_tensor *const *ins, int n_ins,
                                      const tt_coll_options *opt, tt_work **work_p);
/* The same from one tensor of size equal parts. */
TT_API tt_status tt_pg_reduce_scatter_from(tt_pg *pg, tt_tensor *out, tt_tensor *in,
                                           const tt_coll_options *opt, tt_work **work_p);
/* outs[i] gets rank i's ins[own rank]; shapes may differ. */
TT_API tt_status tt_pg_all_to_all(tt_pg *pg, tt_tensor *const *outs, tt_tensor *const *ins, int n,
                                  const tt_coll_options *opt, tt_work **work_p);
/* From one tensor to one tensor, cut along the first dimension: rows to and from each rank. Both splits
 * NULL: equal parts. */
TT_API tt_status tt_pg_all_to_all_single(tt_pg *pg, tt_tensor *out, tt_tensor *in,
                                         const int64_t *out_splits, const int64_t *in_splits,
                                         const tt_coll_options *opt, tt_work **work_p);

/* Nobody leaves before everybody has come. */
TT_API tt_status tt_pg_barrier(tt_pg *pg, const tt_coll_options *opt, tt_work **work_p);
/* A barrier that names who did not come: group rank 0 waits for each rank and fails with the first missing
 * one (or all, opt->report_all_ranks); ranks that came fail as well. Works while collectives hang. */
TT_API tt_status tt_pg_monitored_barrier(tt_pg *pg, const tt_coll_options *opt);

/* ---- several at once ------------------------------------------------------------------- */

/* One operation on n tensors, of several types if you like. */
TT_API tt_status tt_pg_all_reduce_coalesced(tt_pg *pg, tt_tensor *const *ts, int n,
                                            const tt_coll_options *opt, tt_work **work_p);
/* outs[i * n + k] gets rank i's ins[k]. */
TT_API tt_status tt_pg_all_gather_coalesced(tt_pg *pg, tt_tensor *const *ins, int n,
                                            tt_tensor *const *outs, const tt_coll_options *opt,
                                            tt_work **work_p);
/* all_gather_into and reduce_scatter_from of n pairs. */
TT_API tt_status tt_pg_all_gather_into_coalesced(tt_pg *pg, tt_tensor *const *ins,
                                                 tt_tensor *const *outs, int n,
                                                 const tt_coll_options *opt, tt_work **work_p);
TT_API tt_status tt_pg_reduce_scatter_coalesced(tt_pg *pg, tt_tensor *const *outs,
                                                tt_tensor *const *ins, int n,
                                                const tt_coll_options *opt, tt_work **work_p);

/* Between begin and end, this thread's collectives on pg are collected (their work_p must be NULL; they
 * return at once) and start together at the end; *work_p is the one handle of all. `cancel` drops them. */
TT_API tt_status tt_pg_coalesce_begin(tt_pg *pg);
TT_API tt_status tt_pg_coalesce_end(tt_pg *pg, tt_work **work_p);
TT_API void tt_pg_coalesce_cancel(tt_pg *pg);

/* ---- point to point -------------------------------------------------------------------- */

#define TT_ANY_SOURCE (-1)

/* Messages between two ranks with equal tags arrive in the order sent. Tags are 0 or more. A message
 * of another size than the receiver's tensor is an error on the receiver. Sending to oneself works if
 * the receive is or gets posted. From anyone: TT_ERR_PEER once a rank died or aborted, see docs. */
TT_API tt_status tt_pg_send(tt_pg *pg, tt_tensor *t, int dest, int tag, const tt_coll_options *opt,
                            tt_work **work_p);
/* source_p (may be NULL) tells who sent it, if the call waits; tt_work_source if it does not. */
TT_API tt_status tt_pg_recv(tt_pg *pg, tt_tensor *t, int source, int tag,
                            const tt_coll_options *opt, int *source_p, tt_work **work_p);

typedef enum tt_p2p_kind {
    TT_P2P_NONE, /* a zeroed entry is an error, not a send */
    TT_P2P_SEND,
    TT_P2P_RECV,
} tt_p2p_kind;

typedef struct tt_p2p_op {
    tt_p2p_kind kind;
    tt_pg *pg; /* the same in all entries of a batch */
    tt_tensor *t;
    int peer;
    int tag;
} tt_p2p_op;

/* Starts all, in any order that cannot block; works[i] is the handle of ops[i]. All or nothing. */
TT_API tt_status tt_p2p_batch(const tt_p2p_op *ops, int n, const tt_coll_options *opt,
                              tt_work **works);

/* ---- objects --------------------------------------------------------------------------- */

/* Nested values of any size. A value that cannot be sent (an opaque one inside) fails on every rank with
 * TT_ERR_FORMAT, without hanging. What comes out is yours to free. */

/* values_p[i] is rank i's: room for size. */
TT_API tt_status tt_pg_all_gather_object(tt_pg *pg, const tt_value *v, tt_value **values,
                                         const tt_coll_options *opt);
/* The same on the root only; the others give NULL. */
TT_API tt_status tt_pg_gather_object(tt_pg *pg, const tt_value *v, tt_value **values, int root,
                                     const tt_coll_options *opt);
/* On the root values[i] are sent; on the others each is replaced (the old one freed, NULL is fine). n is
 * the same everywhere. */
TT_API tt_status tt_pg_broadcast_objects(tt_pg *pg, tt_value **values, int n, int root,
                                         const tt_coll_options *opt);
/* Rank i gets the root's values[i]; n_out is how many slots `out` has: INVALID when there is none. */
TT_API tt_status tt_pg_scatter_objects(tt_pg *pg, tt_value **out, int n_out,
                                       tt_value *const *values, int n_values, int root,
                                       const tt_coll_options *opt);

#ifdef __cplusplus
}
#endif

#endif
