/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler: one event per operator and per operation of a group, for tables and trace files.
 *
 *     tt_prof *p = tt_prof_start(&(tt_prof_options){ .shapes = true });
 *     ...
 *     tt_prof_stop(p);
 *     tt_prof_export(p, "trace.json");               // opens in Perfetto and chrome://tracing
 *     tt_prof_free(p);
 *
 * Several may run at once. Costs one branch per operation when none does. */
#ifndef TUTTI_PROF_H
#define TUTTI_PROF_H

#include "tutti/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_prof tt_prof;

typedef struct tt_prof_options {
    bool shapes;           /* keep the shapes of inputs */
    bool no_ops;           /* leave out tensor operators */
    bool this_thread_only; /* what this thread calls, also when another thread finishes it */
    size_t max_events;     /* 0: 1,000,000; later ones are counted, not kept */
} tt_prof_options;

typedef struct tt_prof_event {
    const char *name; /* "shm:all_reduce", "matmul" */
    bool async;       /* ends on another thread than it began, or later than its call */
    int count;        /* 1 */
    int64_t start_ns; /* since the profile began */
    int64_t cpu_ns;   /* from begin to end; >= 0 */
    uint64_t thread;
    const tt_shape *shapes; /* of the inputs; complex tensors as pairs of reals: [..., 2] */
    int n_shapes;
    /* Of operations of a group; else -1, "" and 0. */
    int rank; /* in the group */
    uint64_t seq;
    const char *group; /* its name */
    const char *group_desc;
    int group_size;
    tt_dtype dtype;
    int64_t in_numel, out_numel;
    int peer; /* root or peer, -1 if none */
    bool failed;
    bool is_collective;
    const int *ranks; /* global ranks of the group's members, in its order; NULL: not known */
    int n_ranks;
    const int64_t *in_splits, *out_splits; /* elements per rank where they differ */
    int n_in_splits, n_out_splits;
    int world_size; /* how many global ranks there are; 0: not known */
} tt_prof_event;

TT_API tt_prof *tt_prof_start(const tt_prof_options *opt);
TT_API tt_status tt_prof_stop(tt_prof *p); /* operations still under way are left out */
TT_API void tt_prof_free(tt_prof *p);      /* stops it first; accepts NULL */

/* After the stop. Events are in the order they began; borrowed, until tt_prof_free. */
TT_API size_t tt_prof_n_events(const tt_prof *p);
TT_API const tt_prof_event *tt_prof_event_at(const tt_prof *p, size_t i); /* NULL past the end */
TT_API size_t tt_prof_n_dropped(const tt_prof *p);

/* A scope of your own: tt_prof_begin("load batch") ... tt_prof_end(). They nest, per thread. */
TT_API void tt_prof_begin(const char *name);
TT_API void tt_prof_end(void);

/* Chrome JSON with distributedInfo and, per collective, its metadata; complete or not there at all. */
TT_API tt_status tt_prof_export(const tt_prof *p, const char *path);
/* name, calls, total, mean, share of time, most expensive first. Free with tt_text_free. */
TT_API char *tt_prof_table(const tt_prof *p);

/* Reads the flight recorder dumps in `dir` (TUTTI_FLIGHT_DIR of a job) and says, a sentence per line, which
 * rank of which group keeps the others waiting, and why; with `json` a list of objects instead. *n_found_p
 * (may be NULL): how many culprits; 0 when all is well. Free with tt_text_free. NULL when there are no
 * dumps, or one of them is damaged. */
TT_API char *tt_flight_explain(const char *dir, bool json, int *n_found_p);

#ifdef __cplusplus
}
#endif

#endif
