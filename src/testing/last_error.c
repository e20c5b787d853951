/* SPDX-License-Identifier: Apache-2.0 */
/* The harness's view of the library's errors. Weak references: a program of tests for something
 * smaller than the library has none. */
#include <stdio.h>

#include "testing/last_error.h"

extern const char *tt_last_error(void) __attribute__((weak));
extern const char *tt_status_name(int status) __attribute__((weak));

const char *tti_test_last_error(void)
{
    return tt_last_error != NULL ? tt_last_error() : "";
}

const char *tti_test_status_name(int status)
{
    static _Thread_local char text[8][32];
    static _Thread_local unsigned next;
    char *t = text[next++ % 8];

    if (tt_status_name != NULL)
        return tt_status_name(status);
    snprintf(t, sizeof text[0], "status %d", status);
    return t;
}
