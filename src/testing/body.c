/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a test function in this process: early ends, notes, the seed, the search for leaks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing/testing.h"

enum { MAX_LEAK_HOOKS = 16 };

typedef struct leak_hook {
    void (*fn)(void *ctx);
    void *ctx;
} leak_hook;

static leak_hook leak_hooks[MAX_LEAK_HOOKS];
static int n_leak_hooks;

static struct {
    bool forked;
    pthread_t thread; /* the one that runs the test function */
    jmp_buf stop;
    uint64_t seed;
} body;

/* Present only in sanitized and in coverage builds. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
extern void __gcov_dump(void) __attribute__((weak));

void tt_test_at_leak_check(void (*fn)(void *ctx), void *ctx)
{
    if (n_leak_hooks < MAX_LEAK_HOOKS)
        leak_hooks[n_leak_hooks++] = (leak_hook){ fn, ctx };
    else
        fprintf(stderr, "testing: more than %d leak hooks\n", MAX_LEAK_HOOKS);
}

/* Ends the process without the handlers of exit(): they belong to the runner this was forked from,
 * and those of other libraries may wait for threads that do not exist here. */
static void leave(int code) __attribute__((noreturn));
static void leave(int code)
{
    fflush(NULL);
    if (__gcov_dump != NULL)
        __gcov_dump();
    _exit(code);
}

static int exit_code(void)
{
    return tt_test_failures() > 0 ? TT_TEST_EXIT_FAIL : TT_TEST_EXIT_PASS;
}

/* Ends the test with this code from anywhere. A thread other than the test's cannot unwind the test
 * function; unforked it can only end the whole program. */
static void end_with(int code) __attribute__((noreturn));
static void end_with(int code)
{
    if (tti_test_current != NULL)
        atomic_store(&tti_test_current->finished, true);
    if (tti_test_current == NULL || body.forked || !pthread_equal(pthread_self(), body.thread))
        leave(code);
    longjmp(body.stop, code == 0 ? -1 : code);
}

void tt_test_stop(void)
{
    end_with(exit_code());
}

void tt_test_note(const char *format, ...)
{
    va_list args;

    if (tti_test_current == NULL)
        return;
    va_start(args, format);
    vsnprintf(tti_test_current->note, sizeof tti_test_current->note, format, args);
    va_end(args);
}

void tt_test_skip(int code, const char *format, ...)
{
    va_list args;

    if (tti_test_current != NULL && format != NULL) {
        va_start(args, format);
        vsnprintf(tti_test_current->note, sizeof tti_test_current->note, format, args);
        va_end(args);
    }
    end_with(code);
}

uint64_t tt_test_seed(void)
{
    if (tti_test_current != NULL)
        atomic_store(&tti_test_current->seed_used, true);
    return body.seed;
}

static void search_leaks(const tt_test *t)
{
    for (int i = 0; i < n_leak_hooks; i++)
        leak_hooks[i].fn(leak_hooks[i].ctx);
    if (__lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0)
        tt_test_fail(t->file != NULL ? t->file : t->suite, t->line, "memory leaked");
}

int tti_test_body(const tt_test *t, tti_test_record *record, uint64_t seed, bool forked)
{
    int code;

    tti_test_current = record;
    body.forked = forked;
    body.thread = pthread_self();
    body.seed = seed;

    code = setjmp(body.stop);
    if (code == 0) {
        t->fn(t->ctx);
        if (exit_code() == TT_TEST_EXIT_PASS)
            search_leaks(t);
        code = exit_code();
    }
    if (code == -1)
        code = TT_TEST_EXIT_PASS;
    atomic_store(&record->finished, true);
    if (forked)
        leave(code);
    tti_test_current = NULL;
    return code;
}
