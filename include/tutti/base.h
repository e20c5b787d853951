/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses, the last error, logging, warnings and settings: what every other header stands on.
 *
 * An action returns tt_status. A constructor or a tensor expression returns NULL when it fails.
 * Either way tt_last_error() says what went wrong, in words, for the calling thread:
 *
 *     tt_tensor *y = tt_relu(tt_matmul(x, w));
 *     if (y == NULL)
 *         fprintf(stderr, "%s\n", tt_last_error());
 */
#ifndef TUTTI_BASE_H
#define TUTTI_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_API __attribute__((visibility("default")))

#define TT_VERSION_MAJOR 0
#define TT_VERSION_MINOR 1
#define TT_VERSION_PATCH 0

/* The version of the library in use, such as "0.1.0". */
TT_API const char *tt_version(void);

/* ---- statuses ------------------------------------------------------------------------- */

#define TT_STATUS_MAP(X)                                         \
    X(OK, 0, "success")                                          \
    X(ERR_INVALID, -1, "the caller broke the contract")          \
    X(ERR_NOMEM, -2, "out of memory")                            \
    X(ERR_UNSUPPORTED, -3, "not supported here")                 \
    X(ERR_TIMEOUT, -4, "the deadline passed")                    \
    X(ERR_PEER, -5, "another rank failed or left")               \
    X(ERR_DEVICE, -6, "the device reported an error")            \
    X(ERR_IO, -7, "a system call failed")                        \
    X(ERR_ABORTED, -8, "the operation was aborted")              \
    X(ERR_FORMAT, -9, "the data are not in the expected format") \
    X(ERR_NOT_FOUND, -10, "no such thing")                       \
    X(ERR_VETOED, -11, "an observer refused the operator")

typedef enum tt_status {
#define X(name, value, text) TT_##name = (value),
    TT_STATUS_MAP(X)
#undef X
} tt_status;

/* "TT_ERR_INVALID" and "the caller broke the contract"; unknown codes give "unknown". */
TT_API const char *tt_status_name(tt_status st);
TT_API const char *tt_status_text(tt_status st);

/* Pass a failure on to the caller. For functions that return tt_status and have nothing to undo. */
#define TT_TRY(call)                      \
    do {                                  \
        tt_status tt_try_status = (call); \
        if (tt_try_status != TT_OK)       \
            return tt_try_status;         \
    } while (0)

/* ---- the last error of this thread ----------------------------------------------------- */

/* The cause of the latest failure on this thread, "" if there was none. Valid until the next
 * failure or tt_clear_error() on this thread. */
TT_API const char *tt_last_error(void);
TT_API tt_status tt_last_status(void);
/* Where it was noticed: "src/ops/matmul.c:41"; for bug reports. */
TT_API const char *tt_last_error_where(void);
TT_API void tt_clear_error(void);

/* Record a failure from your own code (a user-defined function, a hook) and return `st`. */
TT_API tt_status tt_fail(tt_status st, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- log and warnings ------------------------------------------------------------------ */

typedef enum tt_log_level {
    TT_LOG_ERROR,
    TT_LOG_WARN,
    TT_LOG_INFO,
    TT_LOG_DEBUG,
    TT_LOG_TRACE,
} tt_log_level;

typedef void (*tt_log_fn)(void *ctx, tt_log_level level, const char *message);

/* Where log lines go; NULL gives back the default: warnings and errors to standard error.
 * The sink is called without a lock held, possibly from several threads at once. */
TT_API void tt_log_set_sink(tt_log_fn fn, void *ctx);
TT_API void tt_log_set_level(tt_log_level level); /* default: TUTTI_LOG_LEVEL or warn */
TT_API tt_log_level tt_log_get_level(void);

/* A warning has a category ("deprecated", "scope", ...) so that programs can filter them. */
typedef void (*tt_warning_fn)(void *ctx, const char *category, const char *message);

/* Send the warnings of this thread to `fn` until the matching pop; captures nest. */
TT_API tt_status tt_warnings_push(tt_warning_fn fn, void *ctx);
TT_API void tt_warnings_pop(void);
/* Issue a warning: to the innermost capture of this thread, else to the log. */
TT_API void tt_warn(const char *category, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- settings -------------------------------------------------------------------------- */

/* Threads that operators may use (one OpenMP pool). Default: TUTTI_NUM_THREADS, else what OpenMP
 * says. Values below 1 fail. A process that is forked from one with threads has 1, and UNSUPPORTED for more. */
TT_API tt_status tt_set_num_threads(int n);
TT_API int tt_get_num_threads(void);

/* In deterministic mode an operator that can only give run-to-run different bits fails instead.
 * All CPU operators are deterministic anyway. */
TT_API void tt_set_deterministic(bool on);
TT_API bool tt_is_deterministic(void);

/* Make the n-th allocation from now on fail (1: the next), on this thread; 0 switches it off.
 * Returns how many allocations were counted since the last call. For tests of error paths. */
TT_API uint64_t tt_debug_fail_alloc(uint64_t n);

/* Every environment variable the library reads: name, help text, and value in force (NULL when
 * unset). Returns false past the end. */
TT_API bool tt_env_row(int index, const char **name_p, const char **help_p, const char **value_p);

#ifdef __cplusplus
}
#endif

#endif
