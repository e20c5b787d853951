/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of wrong calls: what a call must give and say. */
#ifndef TESTS_UNIT_ROBUST_REFUSES_H
#define TESTS_UNIT_ROBUST_REFUSES_H

#include <string.h>
#include <tutti/testing.h>
#include <tutti/tutti.h>

/* BAD(expression, status, words): gives NULL. REFUSED(call, status, words): gives the status. */
#define BAD(expr, code, words)                                     \
    (tt_clear_error(), (expr) != NULL ? works(TT_TEST_HERE, #expr) \
                                      : refuses(TT_TEST_HERE, #expr, code, code, words))
#define REFUSED(call, code, words) \
    (tt_clear_error(), refuses(TT_TEST_HERE, #call, call, code, words))

static inline void works(const char *file, int line, const char *call)
{
    tt_test_fail(file, line, "%s: expected a failure, got a result", call);
}

static inline void refuses(const char *file, int line, const char *call, tt_status got,
                           tt_status want, const char *words)
{
    if (tt_last_status() != want || got != want)
        tt_test_fail(file, line, "%s: expected %s, got %s: %s", call, tt_status_name(want),
                     tt_status_name(got != want ? got : tt_last_status()), tt_last_error());
    else if (strstr(tt_last_error(), words) == NULL)
        tt_test_fail(file, line, "%s: expected \"%s\" in: %s", call, words, tt_last_error());
}

/* A small training step with a known result. */
static inline void still_works(void)
{
    tt_clear_error();
    TT_SCOPE {
        tt_tensor *w = tt_require_grad(TT_FLOATS(1, 2));

        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(w, w))));
        TT_CHECK_NEAR(tt_item(tt_sum(tt_grad_of(w))), 6, 0);
    }
    TT_CHECK_EQ(tt_last_status(), TT_OK);
}

static inline tt_tensor *zeros(tt_shape shape)
{
    return tt_zeros(shape, TT_F32, TT_CPU);
}

#endif
