/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: compare, and when it does not hold print place, expression and values. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "testing/testing.h"
#include "testing/world.h"

enum { MAX_PRINTED = 20 }; /* a check in a loop must not drown the first failure */

/* Paths as the compiler saw them, shortened to start at the last tests/, src/ or include/. */
static const char *short_path(const char *file)
{
    static const char *const roots[] = { "/tests/", "/src/", "/include/", "/examples/" };

    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const char *at = strstr(file, roots[i]);

        if (at != NULL)
            return at + 1;
    }
    return file;
}

static void failed(const char *file, int line, const char *format, va_list args)
{
    tti_test_record *r = tti_test_here();
    char text[2048];
    int n;

    vsnprintf(text, sizeof text, format, args);
    if (r == NULL) {
        fprintf(stderr, "%s:%d: outside of any test: %s\n", file, line, text);
        return;
    }
    n = atomic_fetch_add(&r->n_failures, 1);
    if (n == 0)
        snprintf(r->first, sizeof r->first, "%.100s:%d: %.100s%.380s", short_path(file), line,
                 tti_test_subtest(), text);
    fflush(stdout);
    if (n < MAX_PRINTED)
        fprintf(stderr, "%s%s:%d: %s%s\n", tti_test_thread_words(), short_path(file), line,
                tti_test_subtest(), text);
    else if (n == MAX_PRINTED)
        fprintf(stderr, "(further failures of this test are only counted)\n");
}

void tt_test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    failed(file, line, format, args);
    va_end(args);
}

int tt_test_failures(void)
{
    tti_test_record *r = tti_test_here();

    return r != NULL ? atomic_load(&r->n_failures) : 0;
}

bool tt_test_check(const char *file, int line, const char *expr, bool held)
{
    if (!held)
        tt_test_fail(file, line, "expected %s", expr);
    return held;
}

static bool holds(long long a, tt_test_op op, long long b)
{
    switch (op) {
    case TT_TEST_EQ:
        return a == b;
    case TT_TEST_NE:
        return a != b;
    case TT_TEST_LT:
        return a < b;
    case TT_TEST_LE:
        return a <= b;
    case TT_TEST_GT:
        return a > b;
    case TT_TEST_GE:
        return a >= b;
    }
    return false;
}

bool tt_test_check_int(const char *file, int line, const char *expr, long long a, tt_test_op op,
                       long long b)
{
    bool held = holds(a, op, b);

    if (!held)
        tt_test_fail(file, line, "expected %s, got %lld and %lld", expr, a, b);
    return held;
}

bool tt_test_check_near(const char *file, int line, const char *expr, double a, double b,
                        double tol)
{
    bool same = a == b; /* equal infinities have no difference */
    bool held = same || fabs(a - b) <= tol;

    if (!held)
        tt_test_fail(file, line, "expected %s within %g, got %.9g and %.9g (difference %.3g)", expr,
                     tol, a, b, fabs(a - b));
    return held;
}

static const char *shown(const char *s)
{
    return s != NULL ? s : "(null)";
}

bool tt_test_check_str(const char *file, int line, const char *expr, const char *a, const char *b)
{
    bool held = a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);

    if (!held)
        tt_test_fail(file, line, "expected %s, got\n    \"%s\"\n    \"%s\"", expr, shown(a),
                     shown(b));
    return held;
}

bool tt_test_check_contains(const char *file, int line, const char *expr, const char *haystack,
                            const char *needle)
{
    bool held = haystack != NULL && needle != NULL && strstr(haystack, needle) != NULL;

    if (!held)
        tt_test_fail(file, line, "expected %s, got\n    \"%s\"\n  without\n    \"%s\"", expr,
                     shown(haystack), shown(needle));
    return held;
}

bool tt_test_check_mem(const char *file, int line, const char *expr, const void *a, const void *b,
                       size_t size)
{
    const unsigned char *x = a, *y = b;

    for (size_t i = 0; i < size; i++) {
        if (x[i] != y[i]) {
            tt_test_fail(file, line, "expected %s, byte %zu of %zu is 0x%02x and 0x%02x", expr, i,
                         size, x[i], y[i]);
            return false;
        }
    }
    return true;
}

bool tt_test_check_ptr(const char *file, int line, const char *expr, const void *a, const void *b,
                       bool want_equal)
{
    const char *error = tti_last_error();

    if ((a == b) == want_equal)
        return true;
    if (want_equal)
        tt_test_fail(file, line, "expected %s, got %p and %p", expr, a, b);
    else
        tt_test_fail(file, line, "expected %s%s%s", expr, *error ? "; last error: " : "", error);
    return false;
}

bool tt_test_check_status(const char *file, int line, const char *expr, int got, int want,
                          const char *words)
{
    const char *error = got != 0 ? tti_last_error() : "";

    if (got != want)
        tt_test_fail(file, line, "expected %s from %s, got %s%s%s", tt_status_name((tt_status)want),
                     expr, tt_status_name((tt_status)got), *error ? ": " : "", error);
    else if (words != NULL && strstr(error, words) == NULL)
        tt_test_fail(file, line, "expected an error that says \"%s\" from %s, got \"%s\"", words,
                     expr, error);
    else
        return true;
    return false;
}
