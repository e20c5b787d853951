/* SPDX-License-Identifier: Apache-2.0 */
/* The test harness: define tests, check values, run each test in a process of its own.
 *
 *     #include <tutti/testing.h>
 *
 *     TT_TEST(arithmetic, adds_small_numbers)
 *     {
 *         TT_CHECK_EQ(1 + 1, 2);
 *     }
 *
 * A program of such files needs one `main` that returns tt_test_main(argc, argv); `--help` lists its
 * options. docs/testing.md is the guide. */
#ifndef TUTTI_TESTING_H
#define TUTTI_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Defining tests ------------------------------------------------------------------------- */

typedef void (*tt_test_fn)(void *ctx);

typedef enum tt_test_kind {
    TT_TEST_KIND_PLAIN,   /* one process */
    TT_TEST_KIND_RANKS,   /* fresh processes */
    TT_TEST_KIND_THREADS, /* threads of one process */
    TT_TEST_KIND_KEPT     /* processes that live for all tests of their suite */
} tt_test_kind;

/* One test. `suite` and `name` identify it in reports; no two tests may share both. */
typedef struct tt_test {
    const char *suite;
    const char *name;
    tt_test_fn fn;
    void *ctx;        /* passed to fn */
    double limit;     /* seconds until it is killed; 0: the default, see docs/testing.md */
    int slots;        /* how many of the --jobs it uses up; 0: 1, or one per rank */
    bool hidden;      /* runs only with --hidden: it fails, hangs or crashes on purpose */
    const char *file; /* where it is defined, if known */
    int line;
    tt_test_kind kind;
    int ranks;            /* of kinds other than plain; 0: TUTTI_TEST_RANKS, else 4 */
    bool together;        /* small, and leaves no state behind: see docs/testing.md */
    struct tt_test *next; /* of the harness */
} tt_test;

/* TT_TEST(suite, name) { body }: both are words as C spells them. */
#define TT_TEST(suite, name) TT_TEST_DEFINE(suite##_T_##name, #suite, #name, 0, false)

/* As TT_TEST, killed after `seconds` instead of the default limit. */
#define TT_TEST_LIMIT(suite, name, seconds) \
    TT_TEST_DEFINE(suite##_T_##name, #suite, #name, seconds, false)

/* As TT_TEST for names that C cannot spell: suite and name are strings, `word` is any word that is
 * unique in the file. */
#define TT_TEST_NAMED(word, suite, name) TT_TEST_DEFINE(word, suite, name, 0, false)

/* As TT_TEST_LIMIT for tests that misbehave on purpose; see tt_test.hidden. */
#define TT_TEST_HIDDEN(suite, name, seconds) \
    TT_TEST_DEFINE(suite##_T_##name, #suite, #name, seconds, true)

/* Tests of several ranks: the body runs once per rank. RANKS: every rank is a fresh process, started
 * for this test. THREADS: every rank is a thread. KEPT: every rank is a process that runs all tests of
 * the suite that are KEPT, one after the other. The first rank that fails or skips ends the others. */
#define TT_TEST_RANKS(n, suite, name) TT_TEST_RANKS_LIMIT(n, suite, name, 0)
#define TT_TEST_RANKS_LIMIT(n, suite, name, seconds) \
    TT_TEST_WORLD(RANKS, n, suite##_T_##name, #suite, #name, seconds, false)
#define TT_TEST_RANKS_NAMED(n, word, suite, name) \
    TT_TEST_WORLD(RANKS, n, word, suite, name, 0, false)
#define TT_TEST_RANKS_HIDDEN(n, suite, name, seconds) \
    TT_TEST_WORLD(RANKS, n, suite##_T_##name, #suite, #name, seconds, true)
#define TT_TEST_THREADS(n, suite, name) TT_TEST_THREADS_LIMIT(n, suite, name, 0)
#define TT_TEST_THREADS_LIMIT(n, suite, name, seconds) \
    TT_TEST_WORLD(THREADS, n, suite##_T_##name, #suite, #name, seconds, false)
#define TT_TEST_THREADS_NAMED(n, word, suite, name) \
    TT_TEST_WORLD(THREADS, n, word, suite, name, 0, false)
#define TT_TEST_THREADS_HIDDEN(n, suite, name, seconds) \
    TT_TEST_WORLD(THREADS, n, suite##_T_##name, #suite, #name, seconds, true)
#define TT_TEST_KEPT(n, suite, name) \
    TT_TEST_WORLD(KEPT, n, suite##_T_##name, #suite, #name, 0, false)
#define TT_TEST_KEPT_NAMED(n, word, suite, name) TT_TEST_WORLD(KEPT, n, word, suite, name, 0, false)
#define TT_TEST_KEPT_HIDDEN(n, suite, name, seconds) \
    TT_TEST_WORLD(KEPT, n, suite##_T_##name, #suite, #name, seconds, true)

/* What all tests of several ranks in a suite have in common. */
typedef struct tt_test_suite {
    const char *suite;
    const char *backend; /* of tt_test_pg(); NULL: "shm" for processes, "threads" for threads */
    int timeout_ms;      /* of that group; 0: 60,000, and 120,000 for ranks that are kept */
    bool keep_group;     /* do not destroy the default group at the end of a body */
    /* In each rank that is kept, before its first test; a skip there skips every test of the suite. */
    tt_test_fn set_up;
    /* In each rank that is a thread: before the body, and after the group is gone. */
    tt_test_fn thread_set_up, thread_tear_down;
    void *ctx;
    struct tt_test_suite *next; /* of the harness */
} tt_test_suite;

/* Call it from a constructor or TT_TEST_TABLE; `suite` must stay valid. */
TT_API void tt_test_suite_register(tt_test_suite *suite);

/* TT_TEST_TABLE(suite) { body }: the body runs once at the start of tt_test_main, before tests are
 * selected, and adds tests whose names are known only then: one per row of a table, one per file.
 * It has to be quick. Once per suite and file. */
#define TT_TEST_TABLE(suite)                                                \
    static void suite##_T_table(void);                                      \
    __attribute__((constructor)) static void suite##_T_table_register(void) \
    {                                                                       \
        static tt_test_table table = { suite##_T_table, NULL };             \
        tt_test_table_register(&table);                                     \
    }                                                                       \
    static void suite##_T_table(void)

/* Adds a test that calls fn(ctx). The names are copied, ctx is not and must stay valid. Returns the
 * test, so that its limit or slots can be set; NULL when memory is short (the run then fails). */
TT_API tt_test *tt_test_add(const char *suite, const char *name, tt_test_fn fn, void *ctx);

/* ---- Checks --------------------------------------------------------------------------------- */

/* Each check evaluates its arguments once. When it does not hold, it prints place, expression and
 * values, marks the test as failed and goes on; its value is whether it held. Any thread of the test
 * may check. For each TT_CHECK... there is a TT_REQUIRE... which ends the test when it fails. */

#define TT_CHECK(cond) tt_test_check(TT_TEST_HERE, #cond, (cond) ? true : false)

/* Integers of any type, compared as long long. Floating-point arguments do not compile. */
#define TT_CHECK_EQ(a, b) TT_TEST_INT(a, b, #a " == " #b, TT_TEST_EQ)
#define TT_CHECK_NE(a, b) TT_TEST_INT(a, b, #a " != " #b, TT_TEST_NE)
#define TT_CHECK_LT(a, b) TT_TEST_INT(a, b, #a " < " #b, TT_TEST_LT)
#define TT_CHECK_LE(a, b) TT_TEST_INT(a, b, #a " <= " #b, TT_TEST_LE)
#define TT_CHECK_GT(a, b) TT_TEST_INT(a, b, #a " > " #b, TT_TEST_GT)
#define TT_CHECK_GE(a, b) TT_TEST_INT(a, b, #a " >= " #b, TT_TEST_GE)

/* |a - b| <= tol; equal infinities hold, a NaN never does. */
#define TT_CHECK_NEAR(a, b, tol) \
    tt_test_check_near(TT_TEST_HERE, #a " ~ " #b, (double)(a), (double)(b), (double)(tol))

/* Equal strings; NULL equals only NULL. */
#define TT_CHECK_STR(a, b) tt_test_check_str(TT_TEST_HERE, #a " is " #b, a, b)
/* `needle` occurs in `haystack`; never holds for NULL. */
#define TT_CHECK_CONTAINS(haystack, needle) \
    tt_test_check_contains(TT_TEST_HERE, #haystack " contains " #needle, haystack, needle)
/* `size` equal bytes; prints where they first differ. */
#define TT_CHECK_MEM(a, b, size) tt_test_check_mem(TT_TEST_HERE, #a " is " #b, a, b, size)

#define TT_CHECK_PTR(a, b) tt_test_check_ptr(TT_TEST_HERE, #a " == " #b, a, b, true)
#define TT_CHECK_NULL(p) tt_test_check_ptr(TT_TEST_HERE, #p " is NULL", p, NULL, true)
#define TT_CHECK_NOT_NULL(p) tt_test_check_ptr(TT_TEST_HERE, #p " is not NULL", p, NULL, false)

/* The call succeeds; if not, its error is printed. */
#define TT_CHECK_OK(call) tt_test_check_status(TT_TEST_HERE, #call, (int)(call), 0, NULL)
/* The call fails with `code`; and, with _SAYS, the text of tt_last_error() contains `words`. */
#define TT_CHECK_ERR(call, code) \
    tt_test_check_status(TT_TEST_HERE, #call, (int)(call), (int)(code), NULL)
#define TT_CHECK_ERR_SAYS(call, code, words) \
    tt_test_check_status(TT_TEST_HERE, #call, (int)(call), (int)(code), words)

#define TT_REQUIRE(cond) TT_TEST_MUST(TT_CHECK(cond))
#define TT_REQUIRE_EQ(a, b) TT_TEST_MUST(TT_CHECK_EQ(a, b))
#define TT_REQUIRE_NE(a, b) TT_TEST_MUST(TT_CHECK_NE(a, b))
#define TT_REQUIRE_LT(a, b) TT_TEST_MUST(TT_CHECK_LT(a, b))
#define TT_REQUIRE_LE(a, b) TT_TEST_MUST(TT_CHECK_LE(a, b))
#define TT_REQUIRE_GT(a, b) TT_TEST_MUST(TT_CHECK_GT(a, b))
#define TT_REQUIRE_GE(a, b) TT_TEST_MUST(TT_CHECK_GE(a, b))
#define TT_REQUIRE_NEAR(a, b, tol) TT_TEST_MUST(TT_CHECK_NEAR(a, b, tol))
#define TT_REQUIRE_STR(a, b) TT_TEST_MUST(TT_CHECK_STR(a, b))
#define TT_REQUIRE_CONTAINS(h, n) TT_TEST_MUST(TT_CHECK_CONTAINS(h, n))
#define TT_REQUIRE_MEM(a, b, size) TT_TEST_MUST(TT_CHECK_MEM(a, b, size))
#define TT_REQUIRE_PTR(a, b) TT_TEST_MUST(TT_CHECK_PTR(a, b))
#define TT_REQUIRE_NULL(p) TT_TEST_MUST(TT_CHECK_NULL(p))
#define TT_REQUIRE_NOT_NULL(p) TT_TEST_MUST(TT_CHECK_NOT_NULL(p))
#define TT_REQUIRE_OK(call) TT_TEST_MUST(TT_CHECK_OK(call))
#define TT_REQUIRE_ERR(call, code) TT_TEST_MUST(TT_CHECK_ERR(call, code))
#define TT_REQUIRE_ERR_SAYS(call, c, w) TT_TEST_MUST(TT_CHECK_ERR_SAYS(call, c, w))

/* TT_FAIL_TEST(format, ...): marks the test as failed, with these words, and goes on. */
#define TT_FAIL_TEST(...) tt_test_fail(TT_TEST_HERE, __VA_ARGS__)

/* ---- Other verbs inside a test --------------------------------------------------------------- */

/* Ends the test as skipped; the reason is counted and kept in the report. */
#define TT_SKIP(...) tt_test_skip(TT_TEST_SKIP_GENERIC, __VA_ARGS__)
/* Words for the note column of the report. The last note stays. */
#define TT_NOTE(...) tt_test_note(__VA_ARGS__)

/* Exit codes by which the process of a test says how it ended. 72 to 89 all mean skipped. */
enum {
    TT_TEST_EXIT_PASS = 0,
    TT_TEST_EXIT_FAIL = 10,
    TT_TEST_SKIP_BACKEND = 72,
    TT_TEST_SKIP_SMALL_WORLD = 73,
    TT_TEST_SKIP_NO_CUDA = 74,
    TT_TEST_SKIP_1_DEVICE = 75,
    TT_TEST_SKIP_NO_NCCL = 76,
    TT_TEST_SKIP_2_DEVICES = 77,
    TT_TEST_SKIP_ROCM = 78,
    TT_TEST_SKIP_NO_PEER_ACCESS = 79,
    TT_TEST_SKIP_3_DEVICES = 80,
    TT_TEST_SKIP_4_DEVICES = 81,
    TT_TEST_SKIP_5_DEVICES = 82,
    TT_TEST_SKIP_6_DEVICES = 83,
    TT_TEST_SKIP_7_DEVICES = 84,
    TT_TEST_SKIP_8_DEVICES = 85,
    TT_TEST_SKIP_GENERIC = 86,
    TT_TEST_SKIP_ODD_WORLD = 87,
    TT_TEST_SKIP_MISSING_IMPORT = 88,
    TT_TEST_SKIP_NO_ACCELERATOR = 89
};

/* The words for an exit code from 72 to 89; NULL for every other. */
TT_API const char *tt_test_skip_reason(int code);

/* Ends the test as skipped with one of the codes above. `format` NULL: the words of the code. */
TT_API void tt_test_skip(int code, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
TT_API void tt_test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the test where it stands; it passes unless a check has failed. */
TT_API void tt_test_stop(void) __attribute__((noreturn));

/* The seed for everything random in this test: that of the run (--seed or TUTTI_TEST_SEED, otherwise
 * chosen at random), plus the number of the repetition. It is printed if the test fails. */
TT_API uint64_t tt_test_seed(void);

/* A directory of this test's own, made on first use and removed with all it holds when the test
 * has ended, however it ended. NULL, and the test fails, when it cannot be made. */
TT_API const char *tt_test_tmpdir(void);

/* The limit of tests whose name is, or ends with a dot and, `name`, which must stay valid. Only tests of
 * several ranks without a limit of their own have one by name. Call it from a constructor. */
TT_API void tt_test_set_limit(const char *name, double seconds);
/* The limit that a test of several ranks with this name has: one set by name, else 500 seconds under a
 * sanitizer, else TUTTI_TEST_LIMIT, else 300. */
TT_API double tt_test_limit_for(const char *id);

/* ---- Inside tests of several ranks ----------------------------------------------------------- */

enum { TT_TEST_ANY_RANK = -1 };

/* This rank and the number of ranks. A test that is no test of ranks is rank 0 of 1. */
TT_API int tt_test_rank(void);
TT_API int tt_test_size(void);
/* The process of a rank. */
TT_API long tt_test_rank_pid(int rank);

/* Returns when all ranks have called it, or ends the body when another rank has failed. It uses
 * nothing of the library under test. */
TT_API void tt_test_barrier(void);
/* The same through files below tt_test_tmpdir(), for `count` ranks (0: all): TT_ERR_TIMEOUT, naming
 * the ranks that are missing, after `timeout_ms` (0: 10 seconds). */
TT_API tt_status tt_test_file_barrier(int count, int timeout_ms);

/* Says before it happens that `rank`, a process, will end with this exit code or, negative, by this
 * signal: the test then fails if it ends otherwise. TT_TEST_ANY_RANK: every rank may end so. */
TT_API void tt_test_expect_exit(int rank, int status);
/* However `rank` (TT_TEST_ANY_RANK: every one) ends, it is right. Its failed checks still count. */
TT_API void tt_test_ignore_exit(int rank);

/* While the body of this rank runs, the failure of another rank that is a thread calls fn(ctx), on
 * that thread: the place to wake what waits for the one that failed. At most 8 per rank. */
TT_API void tt_test_at_failure(void (*fn)(void *ctx), void *ctx);

/* Calls fn(ctx) again and again, while its first, then its second, then its third allocation fails,
 * until it makes no more. Checks that fn then succeeds and that before it returned TT_ERR_NOMEM (or
 * TT_OK, if it can do without); fn has to free what it made. Only allocations of the library on the
 * calling thread fail. Gives how many there are; 0 when a check failed. */
TT_API uint64_t tt_test_fail_allocs(tt_status (*fn)(void *ctx), void *ctx);

/* How many checks of this test have failed so far. */
TT_API int tt_test_failures(void);

/* Calls fn(ctx) in every test that passed, just before it is searched for leaked memory: the place to
 * drop caches. Call it from a constructor, TT_TEST_TABLE, or the test itself. At most 16. */
TT_API void tt_test_at_leak_check(void (*fn)(void *ctx), void *ctx);

/* ---- The program ----------------------------------------------------------------------------- */

/* Runs the tests the arguments select. Returns the exit code of the program: 0 when nothing failed
 * and at least one test ran, 1 when something failed, 2 for a mistake in the arguments or no test
 * selected, 128 + signal when interrupted. Call it before anything starts a thread: it forks. */
TT_API int tt_test_main(int argc, char **argv);

/* ---- What the macros above expand to; not to be used by name ---------------------------------- */

typedef enum tt_test_op {
    TT_TEST_EQ,
    TT_TEST_NE,
    TT_TEST_LT,
    TT_TEST_LE,
    TT_TEST_GT,
    TT_TEST_GE
} tt_test_op;

typedef struct tt_test_table {
    void (*fn)(void);
    struct tt_test_table *next;
} tt_test_table;

#define TT_TEST_HERE __FILE__, __LINE__
#define TT_TEST_MUST(ok) ((ok) ? (void)0 : tt_test_stop())

/* 8 is how compilers classify floating-point types; an array of negative size does not compile. */
#define TT_TEST_INTEGER(a) ((void)sizeof(char[__builtin_classify_type(a) == 8 ? -1 : 1]))
#define TT_TEST_INT(a, b, expr, op)          \
    (TT_TEST_INTEGER(a), TT_TEST_INTEGER(b), \
     tt_test_check_int(TT_TEST_HERE, expr, (long long)(a), op, (long long)(b)))

#define TT_TEST_DEFINE(id, suite_str, name_str, seconds, is_hidden) \
    TT_TEST_WORLD(PLAIN, 0, id, suite_str, name_str, seconds, is_hidden)

#define TT_TEST_WORLD(kind_word, n_ranks, id, suite_str, name_str, seconds, is_hidden) \
    static void id(void *tt_test_ctx);                                                 \
    __attribute__((constructor)) static void id##_register(void)                       \
    {                                                                                  \
        static tt_test test = {                                                        \
            suite_str, name_str,  id,       NULL,     seconds,                         \
            0,         is_hidden, __FILE__, __LINE__, TT_TEST_KIND_##kind_word,        \
            n_ranks,   false,     NULL                                                 \
        };                                                                             \
        tt_test_register(&test);                                                       \
    }                                                                                  \
    static void id(void *tt_test_ctx __attribute__((unused)))

TT_API void tt_test_register(tt_test *test);
TT_API void tt_test_table_register(tt_test_table *table);

TT_API bool tt_test_check(const char *file, int line, const char *expr, bool held);
TT_API bool tt_test_check_int(const char *file, int line, const char *expr, long long a,
                              tt_test_op op, long long b);
TT_API bool tt_test_check_near(const char *file, int line, const char *expr, double a, double b,
                               double tol);
TT_API bool tt_test_check_str(const char *file, int line, const char *expr, const char *a,
                              const char *b);
TT_API bool tt_test_check_contains(const char *file, int line, const char *expr,
                                   const char *haystack, const char *needle);
TT_API bool tt_test_check_mem(const char *file, int line, const char *expr, const void *a,
                              const void *b, size_t size);
TT_API bool tt_test_check_ptr(const char *file, int line, const char *expr, const void *a,
                              const void *b, bool want_equal);
TT_API bool tt_test_check_status(const char *file, int line, const char *expr, int got, int want,
                                 const char *words);
TT_API void tt_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TESTING_H */
