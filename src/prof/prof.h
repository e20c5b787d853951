/* SPDX-License-Identifier: Apache-2.0 */
/* A profile: events in the order they began, in memory that only grows until the profile is freed.
 *
 * An operation under way holds a reference to its profile, so that a profile can be stopped and freed at any
 * time. Names and lists are kept once per profile. */
#ifndef TTI_PROF_PROF_H
#define TTI_PROF_PROF_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "tutti/prof.h"

/* Memory that only grows. */
typedef struct tti_prof_block {
    struct tti_prof_block *next;
    size_t used, size;
} tti_prof_block;

typedef struct tti_prof_memory {
    tti_prof_block *blocks;       /* the one in use first */
    struct tti_prof_word **words; /* hash table of what was kept */
    size_t n_words, cap_words;    /* cap: a power of two */
} tti_prof_memory;

void *tti_prof_alloc(tti_prof_memory *m, size_t bytes); /* zeroed; NULL: no memory */
/* A copy of the bytes, the same for the same bytes. */
const void *tti_prof_keep(tti_prof_memory *m, const void *data, size_t bytes);
void tti_prof_memory_fini(tti_prof_memory *m);

/* One event, possibly still under way. Also the mark that its begin gives. */
typedef struct tti_prof_mark {
    tt_prof_event e;
    tt_prof *prof;                 /* a reference, while under way */
    struct tti_prof_mark *sibling; /* the same operation in another profile */
    bool done;                     /* prof->mu */
} tti_prof_record;

typedef struct tti_prof_thread {
    uint64_t id;
    char name[16];
} tti_prof_thread;

struct tt_prof {
    atomic_int refs;
    tt_prof_options opt;
    uint64_t id;      /* never the same twice */
    uint64_t thread;  /* that started it */
    int64_t start_ns; /* monotonic */
    int64_t wall_ns;  /* the same moment on the wall's clock */
    tt_prof *next;    /* mu_running */

    pthread_mutex_t mu; /* all below; after the stop they do not change */
    bool stopped;
    tti_prof_memory memory;
    tti_prof_record **events;
    size_t n_events, cap_events, n_dropped, n_begun;
    tti_prof_thread *threads;
    size_t n_threads, cap_threads;
};

/* The rank and size last told to tti_prof_set_world: 0 and 1 before. */
void tti_prof_world(int *rank_p, int *size_p, char backend[16]);

/* Operators are watched while at least one profile wants them. */
tt_status tti_prof_ops_watch(void);
void tti_prof_ops_unwatch(void);

/* Begins an event in all profiles that want it; `op`: a tensor operator. */
struct tti_prof_mark *tti_prof_begin_event(const tt_prof_event *e, bool op);
/* Instead of its end: the event is left out. Accepts NULL. */
void tti_prof_drop(struct tti_prof_mark *mark);

#endif
