/* SPDX-License-Identifier: Apache-2.0 */
/* From the way a test's process ended to pass, fail or skip, with a note that says why. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "testing/testing.h"

/* Present only in builds with that sanitizer. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

bool tti_test_sanitized(void)
{
    return __asan_init != NULL || __tsan_init != NULL;
}

double tti_test_limit(const tt_test *t, const tti_test_options *opt)
{
    if (opt->limit > 0)
        return opt->limit;
    if (t->limit > 0)
        return tti_test_sanitized() ? 4.0 * t->limit : t->limit;
    if (t->kind == TT_TEST_KIND_PLAIN)
        return tti_test_sanitized() ? 240.0 : 60.0;
    return tt_test_limit_for(t->name);
}

double tti_test_limit_now(const tt_test *t, const tti_test_options *opt)
{
    return opt->limit > 0 ? opt->limit : tti_test_limit(t, opt) * tti_test_stretch();
}

static void judge_signal(tti_test_run *run, int sig)
{
    const char *name = sigabbrev_np(sig);

    run->verdict = TTI_TEST_FAIL;
    if (name != NULL)
        snprintf(run->note, sizeof run->note, "killed by SIG%s (%s)", name, strsignal(sig));
    else
        snprintf(run->note, sizeof run->note, "killed by signal %d", sig);
}

static void judge_exit(tti_test_run *run, const tti_test_record *r, int code)
{
    const char *reason = tt_test_skip_reason(code);

    if (atomic_load(&r->n_failures) > 0 || code == TT_TEST_EXIT_FAIL) {
        run->verdict = TTI_TEST_FAIL;
        snprintf(run->note, sizeof run->note, "%s",
                 r->first[0] != '\0' ? r->first : "ended with exit code 10");
    } else if (reason != NULL) {
        run->verdict = TTI_TEST_SKIP;
        snprintf(run->note, sizeof run->note, "%s", r->note[0] != '\0' ? r->note : reason);
    } else if (code != TT_TEST_EXIT_PASS) {
        run->verdict = TTI_TEST_FAIL;
        snprintf(run->note, sizeof run->note, "ended with exit code %d", code);
    } else if (!atomic_load(&r->finished)) {
        run->verdict = TTI_TEST_FAIL;
        snprintf(run->note, sizeof run->note, "called exit before its end");
    } else {
        run->verdict = TTI_TEST_PASS;
        snprintf(run->note, sizeof run->note, "%s", r->note);
    }
}

void tti_test_judge(tti_test_run *run, const tti_test_record *r, int wait_status, double limit,
                    bool timed_out)
{
    size_t used;

    if (timed_out) {
        run->verdict = TTI_TEST_FAIL;
        snprintf(run->note, sizeof run->note, "timed out after %g s", limit);
    } else if (WIFSIGNALED(wait_status)) {
        judge_signal(run, WTERMSIG(wait_status));
    } else {
        judge_exit(run, r, WEXITSTATUS(wait_status));
        return;
    }
    used = strlen(run->note);
    if (r->first[0] != '\0')
        snprintf(run->note + used, sizeof run->note - used, "; before that: %s", r->first);
}
