/* SPDX-License-Identifier: Apache-2.0 */
/* Loops that the CPU's kernels share out to threads. A parallel region of OpenMP costs a system call and a few hundred
 * nanoseconds even for a team of one thread, which is longer than a small operator takes. So every kernel asks
 * tti_threads_for how many threads its work is worth, and a loop for one thread is a plain loop. */
#ifndef TTI_OPS_CPU_PARALLEL_H
#define TTI_OPS_CPU_PARALLEL_H

#include <omp.h>

#include "base/settings.h"

/* Runs the statements behind `step` for i = 0, step, 2 step ... below n, in shares of equal size:
 *
 *     TTI_PARALLEL_FOR(tti_threads_for(n, GRAIN), i, n, 1, work(i));
 *
 * `continue` ends one turn. Turns must not depend on each other, nor results on the number of threads. */
#define TTI_PARALLEL_FOR(threads, i, n, step, ...)                                        \
    TTI_FOR_("omp parallel for num_threads(team_) schedule(static)", threads, i, n, step, \
             __VA_ARGS__)

/* The same where turns take different times: whoever is free takes the next one. */
#define TTI_PARALLEL_FOR_UNEVEN(threads, i, n, step, ...)                                  \
    TTI_FOR_("omp parallel for num_threads(team_) schedule(dynamic)", threads, i, n, step, \
             __VA_ARGS__)

#define TTI_FOR_(pragma, threads, i, n, step, ...)                     \
    do {                                                               \
        const int team_ = (threads);                                   \
        const int64_t end_ = (n);                                      \
                                                                       \
        if (team_ <= 1) {                                              \
            for (int64_t i = 0; i < end_; i += (step)) {               \
                __VA_ARGS__;                                           \
            }                                                          \
        } else {                                                       \
            _Pragma(pragma) for (int64_t i = 0; i < end_; i += (step)) \
            {                                                          \
                __VA_ARGS__;                                           \
            }                                                          \
        }                                                              \
    } while (0)

/* Which of `threads` runs this turn, from 0: for memory that each has of its own. */
static inline int tti_worker(int threads)
{
    return threads > 1 ? omp_get_thread_num() : 0;
}

#endif
