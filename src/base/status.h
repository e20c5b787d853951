/* SPDX-License-Identifier: Apache-2.0 */
/* The per-thread error record and its one writer. */
#ifndef TTI_BASE_STATUS_H
#define TTI_BASE_STATUS_H

#include "tutti/error.h"

/* Record the cause of a failure and return `st`. Use through TT_FAIL. */
tt_status tti_fail(const char *file, int line, tt_status st, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define TT_FAIL(st, ...) tti_fail(__FILE__, __LINE__, (st), __VA_ARGS__)

/* The same for functions that return a pointer: records and gives NULL. */
#define TT_FAIL_NULL(st, ...) ((void)tti_fail(__FILE__, __LINE__, (st), __VA_ARGS__), NULL)

#define tt_likely(x) __builtin_expect(!!(x), 1)
#define tt_unlikely(x) __builtin_expect(!!(x), 0)

/* The error record with all that belongs to it, to be kept over clean-up code or taken to another thread. */
typedef struct tti_error_copy {
    tt_status status;
    unsigned char state; /* whether it is pending: base/error.h */
    char text[1024];
    char where[160];
    tt_error_info info; /* its status is not used */
} tti_error_copy;

void tti_error_save(tti_error_copy *copy);
/* Makes the record what it was when it was saved, whatever was recorded, handled or done since. */
void tti_error_restore(const tti_error_copy *copy);

#endif
