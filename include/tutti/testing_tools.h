/* SPDX-License-Identifier: Apache-2.0 */
/* More for tests of groups: the group itself, reasons to skip, changed environments, captured output,
 * sub-tests. Used with tutti/testing.h. */
#ifndef TUTTI_TESTING_TOOLS_H
#define TUTTI_TESTING_TOOLS_H

#include "tutti/pg.h"
#include "tutti/testing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the group of a test -------------------------------------------------------------------- */

/* The default group of the test, made when a rank first asks for it, which all have to do: over a file
 * below tt_test_tmpdir() for processes, over memory for threads. It is destroyed at the end of the body,
 * with a rank that is kept at the end of the suite. The test ends, failed, when it cannot be made. */
TT_API tt_pg *tt_test_pg(void);
/* The store it is made with. Borrowed. */
TT_API tt_store *tt_test_store(void);

/* ---- reasons to skip, checked in a rank; each ends the body as skipped ------------------------ */

/* WORLD_SIZE, as launchers set it; tt_test_size() where there is none. */
TT_API int tt_test_world_size(void);
TT_API void tt_test_require_world(int at_least);   /* 73 */
TT_API void tt_test_require_even_world(void);      /* 87 */
TT_API void tt_test_require_backend(const char *); /* 72 unless the build has it */
/* 72 unless there is an accelerator and one of these backends, whose list ends with NULL; NULL: of all below. */
TT_API void tt_test_require_accelerator_backend(const char *const *names);
TT_API void tt_test_require_other_platform(const char *name, int code); /* "win32", "linux" */

/* Accelerators that tests may use: those found, or TUTTI_TEST_DEVICES. */
TT_API int tt_test_device_count(void);
TT_API bool tt_test_has_devices(int at_least);
TT_API int tt_test_devices_code(int n); /* the skip code for "needs n devices" */
/* n devices, or with `host_will_do` none at all. */
TT_API void tt_test_require_devices(int n, bool host_will_do);
TT_API void tt_test_require_device_per_rank(void); /* 89 without any, else as above */

/* Names whose lists end with NULL: backends whose groups take tensors of accelerators; types of devices of which
 * each rank of a data-parallel training gets one. That there is any accelerator says tt_test_has_devices(1). */
TT_API const char *const *tt_test_accelerator_backends(void);
TT_API const char *const *tt_test_rank_device_types(void);

/* The device of a rank: rank modulo their number; 0 without any. */
TT_API int tt_test_rank_device(int rank);
/* The devices of a rank when all are divided among `size` ranks, at least one each: writes the first
 * to *first_p and returns how many. */
TT_API int tt_test_rank_devices(int rank, int size, int *first_p);
/* The backend for tensors of a device, by its name without an index: "cpu", "cl", "cuda". */
TT_API const char *tt_test_backend_for(const char *device);
/* The ranks that the test suite.name asks for; `fallback` when there is no such test or it does not. */
TT_API int tt_test_required_ranks(const char *id, int fallback);

/* ---- environment, directories, output --------------------------------------------------------- */

/* TT_TEST_WITH_ENV(name, value) { ... }: the variable has this value (NULL: none) inside, and its old
 * one afterwards, also when a check ends the test. Do not return from the block. */
#define TT_TEST_WITH_ENV(name, value) TT_TEST_ENV_NAMED(name, value, __LINE__)
#define TT_TEST_ENV_NAMED(name, value, line) \
    TT_TEST_ENV_ON(name, value, line) /* expands __LINE__ */
#define TT_TEST_ENV_ON(name, value, line)                                   \
    for (bool tt_env_##line = tt_test_env_push(name, value); tt_env_##line; \
         tt_env_##line = tt_test_env_pop())
TT_API bool tt_test_env_push(const char *name, const char *value); /* true; at most 16 deep */
TT_API bool tt_test_env_pop(void);                                 /* false */

/* A directory below tt_test_tmpdir() with barrier, test_dir and init_dir in it, exported as TEMP_DIR;
 * INIT_METHOD becomes `init_method`, or (NULL) a file:// URL in init_dir. */
TT_API tt_status tt_test_make_dirs(const char *init_method);
TT_API void tt_test_remove_dirs(void); /* nothing when there are none */

/* Between begin and end, what the process prints goes to memory. One at a time. The texts stay until
 * the next begin. */
typedef struct tt_test_captured {
    const char *out, *err;
} tt_test_captured;
TT_API tt_status tt_test_capture_begin(void);
TT_API tt_test_captured tt_test_capture_end(void);

/* No core files from this process on: for tests that crash on purpose. */
TT_API void tt_test_no_core_dump(void);
/* TT_TEST_WITHOUT_CORE_DUMPS { ... }: no core files inside; afterwards the old limit, also when a check ends the
 * test. Do not return from the block, and do not nest it. */
#define TT_TEST_WITHOUT_CORE_DUMPS \
    for (bool tt_core_off = tt_test_core_push(); tt_core_off; tt_core_off = tt_test_core_pop())
TT_API bool tt_test_core_push(void); /* true */
TT_API bool tt_test_core_pop(void);  /* false */

/* ---- running a function several times --------------------------------------------------------- */

/* fn(ctx) at each debug level (NULL: off, info and detail), with a barrier after each; the old level is
 * restored. */
TT_API void tt_test_each_debug_level(const char *const *levels, int n, tt_test_fn fn, void *ctx);

typedef struct tt_test_param {
    const char *name;
    const char *const *values;
    int n_values;
} tt_test_param;

/* `chosen[i]` is the value of params[i]. */
typedef void (*tt_test_subtest_fn)(void *ctx, const char *const *chosen);

/* fn once for every combination, the last parameter fastest, with a barrier after each; failures name
 * the combination: "n=2, op=sum: ". At most 8 parameters. Returns how many there were. */
TT_API int tt_test_subtests(const tt_test_param *params, int n_params, tt_test_subtest_fn fn,
                            void *ctx);

/* Checks on one rank only: threads share what they may change. */
#define TT_CHECK_EQ_ON_RANK(rank, a, b) \
    (tt_test_rank() == (rank) ? TT_CHECK_EQ(a, b) : tt_test_check(TT_TEST_HERE, "", true))
#define TT_CHECK_NE_ON_RANK(rank, a, b) \
    (tt_test_rank() == (rank) ? TT_CHECK_NE(a, b) : tt_test_check(TT_TEST_HERE, "", true))

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TESTING_TOOLS_H */
