/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the harness share: the record a test leaves, options, results, reporters. */
#ifndef TTI_TESTING_TESTING_H
#define TTI_TESTING_TESTING_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tutti/testing.h"

/* What a test says about itself. It lies in memory shared with the runner, so it outlives a crash,
 * and every process a test forks writes to the same one. */
typedef struct tti_test_record {
    atomic_int n_failures;
    atomic_bool finished; /* the test function returned or was ended by the harness */
    atomic_bool seed_used;
    atomic_flag making_tmpdir;    /* held by whoever makes it */
    atomic_int n_stacks;          /* printed on request */
    int code;                     /* of a test whose ranks are kept: how it ended ... */
    double seconds;               /* ... how long it took ... */
    off_t output_from, output_to; /* ... and where its part of the output is */
    char first[1024];             /* the first failure, one line; of several ranks: that of each */
    char note[512];               /* note, or reason of a skip */
    char tmpdir[256];             /* "" until asked for */
} tti_test_record;

typedef struct tti_test_options {
    const char **filters;
    int n_filters;
    const char **excludes;
    int n_excludes;
    const char *report;
    const char *junit;
    int jobs;
    int repeat;
    int durations;
    double limit; /* 0: each test's own */
    uint64_t seed;
    bool list, tap, no_fork, shuffle, fail_fast, verbose, hidden, help;
    bool colour, progress; /* decided by the terminal */
} tti_test_options;

typedef enum tti_test_verdict { TTI_TEST_SKIP, TTI_TEST_PASS, TTI_TEST_FAIL } tti_test_verdict;

/* One run of one test. */
typedef struct tti_test_run {
    const tt_test *test;
    int order; /* of the test among those selected */
    uint64_t seed;
    bool seed_used;
    bool started;
    bool done;
    tti_test_verdict verdict;
    double seconds;
    char note[1280];
    char *output; /* what it printed; NULL when nothing is kept */
} tti_test_run;

typedef struct tti_test_totals {
    int passed, failed, skipped;
} tti_test_totals;

/* registry.c */
const tt_test_suite *tti_test_suite_find(const char *suite);
const tt_test *tti_test_find(const char *suite, const char *name);
bool tti_test_collect(const tti_test_options *opt, const tt_test ***tests_p, int *n_p);
bool tti_test_selected(const tt_test *t, const tti_test_options *opt);

/* options.c. Returns -1 to go on, otherwise the exit code. */
int tti_test_options_parse(tti_test_options *opt, int argc, char **argv);
void tti_test_options_free(tti_test_options *opt);

/* body.c: runs the test function in this process and returns its exit code. With `forked`, the
 * process may be ended inside; otherwise it always returns. `limit` matters to tests of ranks. */
int tti_test_body(const tt_test *t, tti_test_record *record, uint64_t seed, double limit,
                  bool forked);
/* Runs it on this thread, which has set tti_test_mine, and always returns. */
int tti_test_guarded(const tt_test *t);
/* The same for a rank that is kept: with a record, and a search for leaks. */
int tti_test_kept_body(const tt_test *t, tti_test_record *record, uint64_t seed);
/* A search for leaks by a sanitizer takes far longer than a small test. Where one is built in, tests that are marked
 * `together` share a process with others of their suite and one search at its end: runs them, writes to their
 * records, and ends the process. */
bool tti_test_together_pays(void);
void tti_test_together(tti_test_run *const *runs, tti_test_record *const *records, int n)
    __attribute__((noreturn));
void tti_test_end_body(int code) __attribute__((noreturn));
void tti_test_leave(int code) __attribute__((noreturn));

/* stack.c. In the child: handlers that print stacks. In the runner: ask all threads of a child for
 * theirs, and replace addresses in what it printed (`text` is freed or returned). */
void tti_test_stack_prepare(void);
void tti_test_stack_install(bool crashes_too);
int tti_test_stack_request(pid_t pid); /* the number of threads asked */
/* Asks, and waits until all of them have printed: false when `seconds` pass first. */
bool tti_test_stack_collect(pid_t pid, tti_test_record *record, double seconds);
char *tti_test_stack_resolve(char *text);

/* record.c: the record of the test that is running in this process, and that of a rank which is a
 * thread. tti_test_here: the one that counts on this thread; NULL outside of tests. */
extern tti_test_record *tti_test_current;
extern _Thread_local tti_test_record *tti_test_mine;
tti_test_record *tti_test_here(void);
tti_test_record *tti_test_record_new(void);
void tti_test_record_free(tti_test_record *r);
void tti_test_remove_tree(const char *path);

/* judge.c: verdict and note of a run from how its process ended (a waitpid status). */
void tti_test_judge(tti_test_run *run, const tti_test_record *r, int wait_status, double limit,
                    bool timed_out);
bool tti_test_sanitized(void);
/* The limit of a test on a quiet machine, and on this one as it is now: the one that --limit gives, else stretched. */
double tti_test_limit(const tt_test *t, const tti_test_options *opt);
double tti_test_limit_now(const tt_test *t, const tti_test_options *opt);

/* limits.c: how many times longer everything takes on this machine at the moment, at least 1: the processes that
 * want to run, for each core. The other one computes it from the average load. */
double tti_test_stretch(void);
double tti_test_stretch_at(double load, long cores);

/* How many ranks a test has; 1 for a plain one. */
int tti_test_n_ranks(const tt_test *t);

/* scope.c: undoes what the body of a test has left changed. */
void tti_test_scopes_end(void);
const char *tti_test_subtest(void); /* "a=1, b=2: " inside a sub-test, else "" */

/* runner.c: runs all, forked, several at a time. Returns 0 or the signal that interrupted it. */
int tti_test_run_forked(tti_test_run *runs, int n_runs, const tti_test_options *opt);
int tti_test_run_inline(tti_test_run *runs, int n_runs, const tti_test_options *opt);
double tti_test_now(void);

/* console.c */
void tti_test_console_begin(const tti_test_options *opt, int n_runs);
void tti_test_console_running(const tti_test_run *run);
void tti_test_console_result(const tti_test_run *run);
void tti_test_console_end(const tti_test_run *runs, int n_runs);
tti_test_totals tti_test_count(const tti_test_run *runs, int n_runs);

/* report.c. Each writes a whole file or nothing; false after printing why. */
bool tti_test_write_tsv(const char *path, const tti_test_run *runs, int n_runs, int n_tests);
bool tti_test_write_junit(const char *path, const tti_test_run *runs, int n_runs, int n_tests);

#endif /* TTI_TESTING_TESTING_H */
