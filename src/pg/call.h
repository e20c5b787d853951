/* SPDX-License-Identifier: Apache-2.0 */
/* A call: one public operation of a group, its tensors turned into spans of host memory, ready to run on
 * the caller's thread or, copied to the heap, on the engine's. */
#ifndef TTI_PG_CALL_H
#define TTI_PG_CALL_H

#include "pg/pg.h"
#include "pg/stage.h"
#include "pg/work.h"
#include "prof/emit.h"

enum { TTI_SMALL_CALL = 8 }; /* tensors that need no allocation */

/* A tensor of the call. */
typedef struct tti_call_tensor {
    tt_tensor *t; /* retained if the call is on the heap */
    tti_stage stage;
    bool in, out;
} tti_call_tensor;

/* One collective of a call; a coalesced call has several. */
typedef struct tti_part {
    tti_coll c;
    int first_in, n_ins;   /* of spans; n_ins 0: c.in */
    int first_out, n_outs; /* likewise */
} tti_part;

struct tti_call {
    tt_pg *pg;
    const char *op;   /* "all_reduce" */
    const void *site; /* where the public call returns to */
    int peer;         /* root, or -1 */
    bool async, on_heap;
    bool issued; /* it has a ticket and perhaps a mark that have to be ended */
    uint64_t seq;
    uint64_t ticket; /* of the recorder */
    int timeout_ms;
    tti_prof_mark *mark;

    int n_args, n_spans, n_parts;
    int cap_args, cap_spans, cap_parts;
    tti_call_tensor *args;
    tti_span *spans;
    tti_part *parts;
    tti_call_tensor small_args[TTI_SMALL_CALL];
    tti_span small_spans[2 * TTI_SMALL_CALL];
    tti_part small_part;

    /* A call that is a function instead (tti_pg_run_async). */
    tti_pg_fn fn;
    void *ctx;
    void (*free_ctx)(void *ctx);

    tti_call *next; /* in a coalescing scope */
};

/* Begins a call on a group that tti_pg_check accepted; checks the options. Gives `stack` if the caller will wait, else a call on the
 * heap; NULL with an error. */
tti_call *tti_call_open(tti_call *stack, tt_pg *pg, const char *op, const tt_coll_options *opt,
                        tt_work **work_p, const void *site);
/* Ends it early. */
void tti_call_drop(tti_call *c);
/* The number of the function that this thread runs on the group (tti_pg_run_async); 0: none. */
uint64_t tti_running_seq(const tt_pg *pg);
/* Runs or queues it, and drops it in the end. */
tt_status tti_call_submit(tti_call *c, tt_work **work_p);
/* The last word of every public call: submits it, or drops it if building it failed with `st`. */
tt_status tti_call_finish(tti_call *c, tt_status st, tt_work **work_p);
/* What the engine does. */
tt_status tti_call_run(tti_call *c);

/* Adds a collective with everything set but its spans. NULL without memory. */
tti_part *tti_call_part(tti_call *c, tti_coll_kind kind, const tt_coll_options *opt);
/* Adds a tensor (checked before) and gives its span. */
tt_status tti_call_arg(tti_call *c, tt_tensor *t, bool in, bool out, tti_span *span_p);
/* The same for a tensor that is input and output. If it shares memory with a tensor of an earlier part of the call, it
 * travels as a copy of its own, so that every part reads what was there before the call. */
tt_status tti_call_arg_in_place(tti_call *c, tt_tensor *t, tti_span *span_p);
/* The same for the newest part's lists. */
tt_status tti_call_list_in(tti_call *c, tt_tensor *t);
tt_status tti_call_list_out(tti_call *c, tt_tensor *t);
/* Spans inside one tensor (packed if need be): n pieces of `sizes[i]` bytes. */
tt_status tti_call_pieces(tti_call *c, tt_tensor *t, bool out, const size_t *sizes, int n);

/* Whether this thread collects its calls on the group (scope.c); takes one over. */
bool tti_collecting(const tt_pg *pg);
tt_status tti_collect(tti_call *c);

/* Numbers, records and profiles a call that will run. */
void tti_call_issue(tti_call *c);
/* At debug level DETAIL, before the call runs: everybody is there and calls the same (verify.c). */
tt_status tti_call_verify(tti_call *c, int64_t deadline_ns);

/* ---- checks of arguments (check.c) ------------------------------------------------------- */

/* A dense tensor. `op` begins the message, `what` names the argument. */
tt_status tti_check_tensor(const tt_tensor *t, const char *op, const char *what);
tt_status tti_check_reduce(tt_dtype dtype, const tt_coll_options *opt, const char *op);
/* n tensors, none NULL, all of the type of the first (unless `mixed`). */
tt_status tti_check_list(tt_tensor *const *ts, int n, int want_n, bool mixed, const char *op,
                         const char *what);
tt_status tti_check_dtypes(const tt_tensor *a, const tt_tensor *b, const char *op);

/* Answer of a call on a group that this process is not in. */
tt_status tti_nonmember(const char *op, tt_work **work_p);

/* For the public functions: leave when this process is not in the group. */
#define TTI_MEMBERS_ONLY(pg, op, work_p)          \
    do {                                          \
        if ((pg) != NULL && (pg)->rank < 0)       \
            return tti_nonmember((op), (work_p)); \
    } while (0)

#endif
