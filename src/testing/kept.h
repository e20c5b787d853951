/* SPDX-License-Identifier: Apache-2.0 */
/* Suites whose ranks are kept between tests. */
#ifndef TTI_TESTING_KEPT_H
#define TTI_TESTING_KEPT_H

#include "testing/testing.h"

/* Runs the tests, all of one suite, with one set of ranks, writes to their records, and ends the
 * process. The ranks are started when the first test needs them. */
void tti_kept_lead(tti_test_run *const *runs, tti_test_record *const *records, int n,
                   const tti_test_options *opt) __attribute__((noreturn));
/* One test with ranks of its own; gives its exit code. */
int tti_kept_lead_alone(const tt_test *t, uint64_t seed, double limit);

/* How long to wait at a time for a rank's answer, of a whole time-out (0: not said). */
double tti_kept_slice(double timeout);

#endif /* TTI_TESTING_KEPT_H */
