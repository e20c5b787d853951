/* SPDX-License-Identifier: Apache-2.0 */
/* Runs this program again with hidden tests and reads what it prints, its reports and its exit code. */
#ifndef TESTS_HARNESS_AGAIN_H
#define TESTS_HARNESS_AGAIN_H

#include <stdbool.h>
#include <sys/types.h>

enum { AGAIN_TEXT = 1 << 16 };

typedef struct again_outcome {
    int code;                /* exit code, or minus the signal */
    double seconds;          /* that it took */
    char text[AGAIN_TEXT];   /* both its outputs */
    char report[AGAIN_TEXT]; /* its --report, "" if none was written */
    char junit[AGAIN_TEXT];
} again_outcome;

/* RUN("suite.name", "--limit", "1", ...): the outcome stays until the next. */
#define RUN(...) again_finish(again_start((const char *const[]){ __VA_ARGS__, NULL }))

pid_t again_start(const char *const *args);
const again_outcome *again_finish(pid_t pid);
void again_read(const char *name, char *text); /* a file of the last start, AGAIN_TEXT bytes */
const char *again_last_line(const char *text);
bool again_is_running(long pid);

#endif
