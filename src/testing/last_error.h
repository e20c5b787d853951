/* SPDX-License-Identifier: Apache-2.0 */
/* The harness's view of the library's errors: words of the last one, names of statuses. */
#ifndef TTI_TESTING_LAST_ERROR_H
#define TTI_TESTING_LAST_ERROR_H

/* Never NULL; "" when there is none. */
const char *tti_test_last_error(void);
/* Valid until the eighth call after it on this thread. */
const char *tti_test_status_name(int status);

#endif /* TTI_TESTING_LAST_ERROR_H */
