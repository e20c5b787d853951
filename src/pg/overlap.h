/* SPDX-License-Identifier: Apache-2.0 */
/* Who reduces buckets of gradients, and when. The group's engine thread does it while backward computes, if
 * there is a core for it; where there is none, it would take the core from backward and make both slower, so
 * that the thread of backward does it itself. All ranks decide by the same facts, which they tell each other
 * once: what a machine has, never how busy it is. */
#ifndef TTI_PG_OVERLAP_H
#define TTI_PG_OVERLAP_H

#include "tutti/pg.h"

/* The results are the same to the bit. AUTO is ENGINE where every rank has a core for it besides those of its
 * compute threads, or computes on an accelerator, and END elsewhere. */
typedef enum tti_overlap {
    TTI_OVERLAP_AUTO,
    TTI_OVERLAP_ENGINE, /* the group's thread, while the program computes on */
    TTI_OVERLAP_FILL,   /* the thread that fills a bucket, which computes on afterwards */
    TTI_OVERLAP_END,    /* the thread that waits, at the end, all buckets one after the other */
} tti_overlap;

enum { TTI_OVERLAP_CPU_WORDS = 16 }; /* 1,024 CPUs, as cpu_set_t has */

/* What one rank knows. All members are int64_t: ranks exchange them as such. */
typedef struct tti_overlap_facts {
    int64_t host;                        /* the same on all ranks of a machine */
    int64_t wanted;                      /* tti_overlap, of TUTTI_OVERLAP */
    int64_t threads;                     /* that compute */
    int64_t quota;                       /* cores that control groups grant; 0: no limit */
    int64_t on_accelerator;              /* whether the gradients are on one */
    int64_t cpus[TTI_OVERLAP_CPU_WORDS]; /* a bit for each CPU that the rank may use */
} tti_overlap_facts;

/* What n ranks do, one of ENGINE, FILL and END. A pure function. `wanted` is the same for all. */
tti_overlap tti_overlap_choose(const tti_overlap_facts *all, int n);
/* The cores that a line of cpu.max grants ("200000 100000": 2), at least 1; 0 when it grants all. */
int tti_overlap_cores_of_quota(const char *line);
/* The facts of this process. */
void tti_overlap_look(tti_overlap_facts *f);

/* Tells the facts to all ranks of the group and decides. Collective; fails on all ranks, saying who, when
 * they want different things. */
tt_status tti_overlap_agree(tt_pg *pg, bool on_accelerator, tti_overlap *mode_p);

/* "engine", "fill", "end". */
const char *tti_overlap_name(tti_overlap mode);

#endif
