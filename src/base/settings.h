/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels ask before they start threads. */
#ifndef TTI_BASE_SETTINGS_H
#define TTI_BASE_SETTINGS_H

#include "tutti/base.h"

/* How many threads to use for `work` elements when a thread is worth starting for `grain` of them:
 * `#pragma omp parallel for num_threads(tti_threads_for(n, 32768))`. 1 inside a parallel region. */
int tti_threads_for(int64_t work, int64_t grain);

/* The calling thread works for a device of n cores: what it computes uses so many threads, whatever the
 * process was told. */
void tti_threads_here(int n);

#endif
