/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a test function in this process: early ends, notes, the seed, the search for leaks. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "testing/testing.h"
#include "testing/world.h"

#define ENDING_MS 500

enum { MAX_LEAK_HOOKS = 16 };

typedef struct leak_hook {
    void (*fn)(void *ctx);
    void *ctx;
} leak_hook;

static leak_hook leak_hooks[MAX_LEAK_HOOKS];
static int n_leak_hooks;

static struct {
    bool forked;
    uint64_t seed;
    double limit;
    int n_descriptors; /* before the test; -1: not counted */
} body;

/* Where the body on this thread returns to when it is ended early; NULL: it runs none, or the process
 * may be ended. */
static _Thread_local jmp_buf *my_stop;

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
void tti_test_leave(int code)
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
 * function; it can only end the whole process. */
void tti_test_end_body(int code)
{
    tti_test_record *r = tti_test_here();

    if (r != NULL)
        atomic_store(&r->finished, true);
    if (my_stop == NULL)
        tti_test_leave(code);
    longjmp(*my_stop, code == 0 ? -1 : code);
}

void tt_test_stop(void)
{
    tti_test_end_body(exit_code());
}

void tt_test_note(const char *format, ...)
{
    tti_test_record *r = tti_test_here();
    va_list args;

    if (r == NULL)
        return;
    va_start(args, format);
    vsnprintf(r->note, sizeof r->note, format, args);
    va_end(args);
}

void tt_test_skip(int code, const char *format, ...)
{
    tti_test_record *r = tti_test_here();
    va_list args;

    if (r != NULL && format != NULL) {
        va_start(args, format);
        vsnprintf(r->note, sizeof r->note, format, args);
        va_end(args);
    }
    tti_test_end_body(code);
}

uint64_t tt_test_seed(void)
{
    tti_test_record *r = tti_test_here();

    if (r != NULL)
        atomic_store(&r->seed_used, true);
    return body.seed;
}

/* How many descriptors are open, the highest last; -1 when that cannot be known. */
static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    int n = 0;

    if (dir == NULL)
        return -1;
    while ((e = readdir(dir)) != NULL)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* "7 -> socket:[123]" for the descriptors above the standard ones. */
static void list_descriptors(char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int fd = 3; fd < 1024 && used < size; fd++) {
        char path[32], target[128];
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof target - 1);
        if (n > 0)
            used += (size_t)snprintf(text + used, size - used, " %d -> %.*s", fd, (int)n, target);
    }
}

static void search_descriptors(const tt_test *t)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    int n = count_descriptors();
    char list[512];

    /* A thread of the library that is just ending may still hold some: the engine of a group whose last
     * reference was that of an operation. */
    for (int i = 0; i < ENDING_MS && n > body.n_descriptors && body.n_descriptors >= 0; i++) {
        nanosleep(&pause, NULL);
        n = count_descriptors();
    }
    if (body.n_descriptors < 0 || n <= body.n_descriptors)
        return;
    list_descriptors(list, sizeof list);
    tt_test_fail(t->file != NULL ? t->file : t->suite, t->line, "%d descriptors leaked; open:%s",
                 n - body.n_descriptors, list);
}

static void search_leaks(const tt_test *t)
{
    for (int i = 0; i < n_leak_hooks; i++)
        leak_hooks[i].fn(leak_hooks[i].ctx);
    if (__lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0)
        tt_test_fail(t->file != NULL ? t->file : t->suite, t->line, "memory leaked");
    search_descriptors(t);
}

int tti_test_guarded(const tt_test *t)
{
    jmp_buf stop;
    int code = setjmp(stop);

    if (code == 0) {
        my_stop = &stop;
        t->fn(t->ctx);
        code = exit_code();
    }
    my_stop = NULL;
    if (tti_test_mine == NULL) /* what threads share is not theirs to put back */
        tti_test_scopes_end();
    atomic_store(&tti_test_here()->finished, true);
    return code == -1 ? TT_TEST_EXIT_PASS : code;
}

int tti_test_kept_body(const tt_test *t, tti_test_record *record, uint64_t seed)
{
    int code;

    tti_test_current = record;
    body.forked = false;
    body.seed = seed;
    body.n_descriptors = -1; /* the group is made by the first test and stays */
    code = tti_test_guarded(t);
    if (code == TT_TEST_EXIT_PASS) {
        search_leaks(t);
        code = exit_code();
    }
    return code;
}

bool tti_test_together_pays(void)
{
    return __lsan_do_recoverable_leak_check != NULL;
}

/* A leak is charged to the last test: which one it was shows when they run alone. */
static void search_together(tti_test_run *const *runs, int n)
{
    int before = tt_test_failures();

    search_leaks(runs[n - 1]->test);
    if (n > 1 && tt_test_failures() > before)
        printf("one of %d tests that share this process, %s to %s, is to blame: run each alone\n",
               n, runs[0]->test->name, runs[n - 1]->test->name);
}

void tti_test_together(tti_test_run *const *runs, tti_test_record *const *records, int n)
{
    body.forked = false;
    body.n_descriptors = count_descriptors();
    for (int i = 0; i < n; i++) {
        tti_test_record *r = records[i];
        double start = tti_test_now();
        int code;

        tti_test_current = r;
        body.seed = runs[i]->seed;
        r->output_from = lseek(STDOUT_FILENO, 0, SEEK_CUR);
        code = tti_test_guarded(runs[i]->test);
        atomic_store(&r->finished, false); /* until all of its record is written */
        if (i == n - 1 && code == TT_TEST_EXIT_PASS)
            search_together(runs, n);
        fflush(NULL);
        r->output_to = lseek(STDOUT_FILENO, 0, SEEK_CUR);
        r->code = code == TT_TEST_EXIT_PASS ? exit_code() : code;
        r->seconds = tti_test_now() - start;
        atomic_store(&r->finished, true);
    }
    tti_test_leave(0);
}

/* A test of several ranks is led here; the ranks run its function. */
static int run_here(const tt_test *t)
{
    if (tti_world_wanted(t))
        return tti_world_lead(t, body.seed, body.limit);
    if (!body.forked)
        return tti_test_guarded(t);
    t->fn(t->ctx);
    return exit_code();
}

int tti_test_body(const tt_test *t, tti_test_record *record, uint64_t seed, double limit,
                  bool forked)
{
    int code;

    tti_test_current = record;
    body.forked = forked;
    body.seed = seed;
    body.limit = limit;
    body.n_descriptors = forked ? count_descriptors() : -1;

    code = run_here(t);
    tti_world_end_body(code);
    if (code == TT_TEST_EXIT_PASS) {
        search_leaks(t);
        code = exit_code();
    }
    atomic_store(&record->finished, true);
    if (forked)
        tti_test_leave(code);
    tti_test_current = NULL;
    return code;
}
