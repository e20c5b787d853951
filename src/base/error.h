/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a failure has been handled, what it is about, and the answer to NULL. */
#ifndef TTI_BASE_ERROR_H
#define TTI_BASE_ERROR_H

#include "base/status.h"
#include "base/tls.h"
#include "tutti/error.h"

/* How far a recorded failure has been dealt with; include/tutti/error.h has the meaning. */
enum {
    TTI_ERROR_HANDLED, /* or there was none */
    TTI_ERROR_PENDING, /* a NULL that comes now is taken for its result */
    TTI_ERROR_UNCLEAR, /* actions have succeeded since, but nobody looked at it */
};

extern TTI_HOT_TLS unsigned char tti_error_state;

/* An action of the program succeeded. Costs a branch. */
static inline void tti_error_passed(void)
{
    if (tt_unlikely(tti_error_state == TTI_ERROR_PENDING))
        tti_error_state = TTI_ERROR_UNCLEAR;
}

/* The words of the last error, for the library, which passes them on: that does not handle it. */
const char *tti_last_error(void);

/* Whether the program itself recorded the last error, with tt_fail: its words are left as they are. */
bool tti_error_is_users(void);

/* Makes a kept failure the last error of this thread, pending. */
void tti_error_raise(const tti_error_copy *copy);

/* Add to the failure that this thread has just recorded: fields, and words at the end of its words. */
void tti_error_about(const tt_error_info *info);
void tti_error_add(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Fields that another process wrote, with strings that end and a kind and a count that can be. */
tt_error_info tti_error_info_from(const tt_error_info *theirs);
/* Lists one more rank in the fields; in ascending order. */
void tti_error_info_add_rank(tt_error_info *info, int rank);

/* For every function that expects an object and got NULL: keeps a pending failure, else records the words, which
 * name the function and the argument. Returns the status that is now the last one, never TT_OK. */
tt_status tti_null_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define TTI_NULL(...) tti_null_at(__FILE__, __LINE__, __VA_ARGS__)

/* The usual words: `what` names the function, `expected` the argument or arguments: "a module and an input". */
#define tti_null_given(what, expected) TTI_NULL("%s: expected %s, got NULL", what, expected)
/* The same for functions that return a pointer. */
#define TT_NULL_GIVEN(what, expected) ((void)tti_null_given(what, expected), NULL)

#endif
