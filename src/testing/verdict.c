/* SPDX-License-Identifier: Apache-2.0 */
/* From the ways the ranks of a test ended to one verdict, with the words of every rank. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "testing/testing.h"
#include "testing/world.h"

static bool ended_as(int status, int expected)
{
    if (expected < 0)
        return WIFSIGNALED(status) && WTERMSIG(status) == -expected;
    return WIFEXITED(status) && WEXITSTATUS(status) == expected;
}

static void words_of_end(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "by signal %d", WTERMSIG(status));
    else
        snprintf(text, size, "with exit code %d", WEXITSTATUS(status));
}

static bool may_end_so(const tti_world *w, const tti_world_rank *r, int status)
{
    return atomic_load(&r->ignored) ||
           (atomic_load(&w->any_expects) && ended_as(status, atomic_load(&w->any_status)));
}

static tti_test_verdict judge_expected(const tti_world_rank *r, const tti_rank_end *end, char *note,
                                       size_t size)
{
    int expected = atomic_load(&r->expected_status);
    char got[48], want[48];

    if (ended_as(end->status, expected))
        return TTI_TEST_PASS;
    words_of_end(end->status, got, sizeof got);
    words_of_end(expected < 0 ? -expected : expected << 8, want, sizeof want);
    snprintf(note, size, "expected to end %s, ended %s", want, got);
    return TTI_TEST_FAIL;
}

tti_test_verdict tti_rank_judge(const tti_world *w, int rank, const tti_rank_end *end, char *note,
                                size_t size)
{
    const tti_world_rank *r = &w->ranks[rank];
    tti_test_run run = { 0 };

    note[0] = '\0';
    if (atomic_load(&r->record.n_failures) > 0 && (!end->ended || end->stopped)) {
        snprintf(note, size, "%s", r->record.first);
        return TTI_TEST_FAIL;
    }
    if (!end->ended || end->stopped)
        return TTI_TEST_PASS;
    if (atomic_load(&r->record.n_failures) == 0) {
        if (ended_as(end->status, TTI_EXIT_WOKEN) || may_end_so(w, r, end->status))
            return TTI_TEST_PASS;
        if (atomic_load(&r->expects))
            return judge_expected(r, end, note, size);
    }
    tti_test_judge(&run, &r->record, end->status, 0, false);
    snprintf(note, size, "%s", run.note);
    return run.verdict;
}

static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* The code of the first rank that was skipped, so that its number says why. */
static int skip_code(const tti_world *w, const tti_rank_end *ends, tti_test_record *record)
{
    for (int i = 0; i < w->size; i++) {
        char note[1280];

        if (tti_rank_judge(w, i, &ends[i], note, sizeof note) != TTI_TEST_SKIP)
            continue;
        snprintf(record->note, sizeof record->note, "%.500s", note);
        return WEXITSTATUS(ends[i].status);
    }
    return TT_TEST_EXIT_PASS;
}

int tti_world_judge(const tti_world *w, const tti_rank_end *ends, int first, const char *why,
                    tti_test_record *record)
{
    size_t size = sizeof record->first;
    int n_failed = why != NULL ? 1 : 0;

    append(record->first, size, "%s", why != NULL ? why : "");
    for (int i = 0; i < w->size; i++) {
        char note[1280];

        if (atomic_load(&w->ranks[i].record.seed_used))
            atomic_store(&record->seed_used, true);
        if (record->note[0] == '\0')
            snprintf(record->note, sizeof record->note, "%s", w->ranks[i].record.note);
        if (tti_rank_judge(w, i, &ends[i], note, sizeof note) != TTI_TEST_FAIL)
            continue;
        append(record->first, size, "%srank %d%s: %s", n_failed > 0 ? "; " : "", i,
               i == first && w->size > 1 ? " (first)" : "", note);
        n_failed++;
    }
    atomic_fetch_add(&record->n_failures, n_failed);
    return n_failed > 0 ? TT_TEST_EXIT_FAIL : skip_code(w, ends, record);
}
