/* SPDX-License-Identifier: Apache-2.0 */
/* The log: sink and levels; warnings: captures that nest; variables of the environment. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/isa.h"
#include "base/log.h"
#include "tutti/testing.h"

typedef struct seen {
    int calls;
    tt_log_level level;
    char category[32];
    char text[2048];
} seen;

static void see_line(void *ctx, tt_log_level level, const char *message)
{
    seen *s = ctx;

    s->calls++;
    s->level = level;
    strncpy(s->text, message, sizeof s->text - 1);
}

static void see_warning(void *ctx, const char *category, const char *message)
{
    seen *s = ctx;

    s->calls++;
    strncpy(s->category, category, sizeof s->category - 1);
    strncpy(s->text, message, sizeof s->text - 1);
}

TT_TEST(log, the_sink_gets_what_the_level_allows)
{
    seen s = { 0 };

    tt_log_set_sink(see_line, &s);
    tt_log_set_level(TT_LOG_INFO);
    TT_CHECK_EQ(tt_log_get_level(), TT_LOG_INFO);
    tti_log(TT_LOG_DEBUG, "quiet");
    TT_CHECK_EQ(s.calls, 0);
    tti_log(TT_LOG_INFO, "step %d", 4);
    TT_CHECK_EQ(s.calls, 1);
    TT_CHECK_EQ(s.level, TT_LOG_INFO);
    TT_CHECK_STR(s.text, "step 4");
    tt_log_set_level(TT_LOG_ERROR);
    tti_log(TT_LOG_WARN, "quiet");
    tt_warn("test", "quiet too");
    TT_CHECK_EQ(s.calls, 1);
    tti_log(TT_LOG_ERROR, "loud");
    TT_CHECK_EQ(s.calls, 2);
    TT_CHECK_EQ(s.level, TT_LOG_ERROR);
    tt_log_set_sink(NULL, NULL);
}

TT_TEST(log, long_lines_are_cut)
{
    seen s = { 0 };
    char words[1500];

    memset(words, 'l', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    tt_log_set_sink(see_line, &s);
    tti_log(TT_LOG_ERROR, "%s", words);
    TT_CHECK_EQ(strlen(s.text), 1023);
    tt_warn("c", "%s", words);
    TT_CHECK_EQ(strlen(s.text), 1023);
    TT_CHECK(strncmp(s.text, "c: lll", 6) == 0);
    tt_log_set_sink(NULL, NULL);
}

TT_TEST(log, the_level_comes_from_the_environment)
{
    TT_REQUIRE_EQ(setenv("TUTTI_LOG_LEVEL", "debug", 1), 0);
    tt_log_set_level((tt_log_level)-1); /* as at the start */
    TT_CHECK_EQ(tt_log_get_level(), TT_LOG_DEBUG);
    TT_REQUIRE_EQ(setenv("TUTTI_LOG_LEVEL", "shouting", 1), 0);
    TT_CHECK_EQ(tt_log_get_level(), TT_LOG_DEBUG); /* read once */
    tt_log_set_level((tt_log_level)-1);
    TT_CHECK_EQ(tt_log_get_level(), TT_LOG_WARN);
}

TT_TEST(warnings, go_to_the_log_with_their_category)
{
    seen s = { 0 };

    tt_log_set_sink(see_line, &s);
    tt_warn("deprecated", "use %s", "the other");
    TT_CHECK_EQ(s.calls, 1);
    TT_CHECK_EQ(s.level, TT_LOG_WARN);
    TT_CHECK_STR(s.text, "deprecated: use the other");
    tt_log_set_sink(NULL, NULL);
}

TT_TEST(warnings, captures_nest)
{
    seen sink = { 0 }, outer = { 0 }, inner = { 0 };

    tt_log_set_sink(see_line, &sink);
    TT_REQUIRE_OK(tt_warnings_push(see_warning, &outer));
    tt_warn("a", "one");
    TT_REQUIRE_OK(tt_warnings_push(see_warning, &inner));
    tt_warn("b", "two %d", 2);
    TT_CHECK_EQ(outer.calls, 1);
    TT_CHECK_STR(outer.category, "a");
    TT_CHECK_STR(outer.text, "one");
    TT_CHECK_EQ(inner.calls, 1);
    TT_CHECK_STR(inner.category, "b");
    TT_CHECK_STR(inner.text, "two 2");
    tt_warnings_pop();
    tt_warn("c", "three");
    TT_CHECK_STR(outer.text, "three");
    tt_warnings_pop();
    TT_CHECK_EQ(sink.calls, 0);
    tt_warn("d", "four");
    TT_CHECK_EQ(sink.calls, 1);
    tt_warnings_pop(); /* nothing to pop */
    tt_warn("d", "five");
    TT_CHECK_EQ(sink.calls, 2);
    TT_CHECK_EQ(outer.calls, 2);
    tt_log_set_sink(NULL, NULL);
}

TT_TEST(warnings, need_a_function_and_memory)
{
    seen s = { 0 };

    TT_CHECK_ERR_SAYS(tt_warnings_push(NULL, NULL), TT_ERR_INVALID, "expected a function");
    tt_debug_fail_alloc(1);
    TT_CHECK_ERR(tt_warnings_push(see_warning, &s), TT_ERR_NOMEM);
    tt_debug_fail_alloc(0);
    tt_log_set_sink(see_line, &s);
    tt_warn("x", "to the log");
    TT_CHECK_STR(s.text, "x: to the log");
    tt_log_set_sink(NULL, NULL);
}

static void *warn_elsewhere(void *ctx)
{
    (void)ctx;
    tt_warn("thread", "not captured");
    return NULL;
}

TT_TEST(warnings, a_capture_is_of_one_thread)
{
    seen sink = { 0 }, mine = { 0 };
    pthread_t thread;

    tt_log_set_sink(see_line, &sink);
    TT_REQUIRE_OK(tt_warnings_push(see_warning, &mine));
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, warn_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    TT_CHECK_EQ(mine.calls, 0);
    TT_CHECK_STR(sink.text, "thread: not captured");
    tt_warnings_pop();
    tt_log_set_sink(NULL, NULL);
}

TT_TEST(environment, bad_numbers_warn_and_fall_back)
{
    static const char *const bad[] = {
        "abc", "12x", " ", "0", "101", "99999999999999999999", "1.5"
    };
    seen s = { 0 };

    TT_REQUIRE_OK(tt_warnings_push(see_warning, &s));
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++) {
        TT_REQUIRE_EQ(setenv("TUTTI_SEED", bad[i], 1), 0);
        TT_CHECK_EQ(tti_env_int(TTI_ENV_SEED, 1, 100, 42), 42);
        TT_CHECK_EQ(s.calls, i + 1);
        TT_CHECK_STR(s.category, "environment");
        TT_CHECK_CONTAINS(s.text, "TUTTI_SEED: expected a whole number from 1 to 100, got");
        TT_CHECK_CONTAINS(s.text, bad[i]);
    }
    s.calls = 0;
    TT_REQUIRE_EQ(setenv("TUTTI_SEED", "100", 1), 0);
    TT_CHECK_EQ(tti_env_int(TTI_ENV_SEED, 1, 100, 42), 100);
    TT_REQUIRE_EQ(setenv("TUTTI_SEED", "-3", 1), 0);
    TT_CHECK_EQ(tti_env_int(TTI_ENV_SEED, -3, 100, 42), -3);
    TT_REQUIRE_EQ(setenv("TUTTI_SEED", "", 1), 0); /* empty is unset */
    TT_CHECK_EQ(tti_env_int(TTI_ENV_SEED, 1, 100, 42), 42);
    TT_CHECK_NULL(tti_env_get(TTI_ENV_SEED));
    TT_CHECK_EQ(s.calls, 0);
    tt_warnings_pop();
}

TT_TEST(environment, words_that_mean_nothing_warn)
{
    seen s = { 0 };

    TT_REQUIRE_OK(tt_warnings_push(see_warning, &s));
    tt_log_set_level((tt_log_level)-1); /* as at the start */
    setenv("TUTTI_LOG_LEVEL", "foo", 1);
    TT_CHECK_EQ(tt_log_get_level(), TT_LOG_WARN);
    TT_CHECK_EQ(s.calls, 1);
    TT_CHECK_STR(s.text,
                 "TUTTI_LOG_LEVEL: expected one of error, warn, info, debug, trace, got \"foo\"");
    TT_CHECK_EQ(tt_log_get_level(), TT_LOG_WARN); /* once */
    TT_CHECK_EQ(s.calls, 1);
    setenv("TUTTI_ISA", "foo", 1);
    (void)tti_cpu_isa();
    (void)tti_cpu_isa();
    TT_CHECK_EQ(s.calls, 2);
    TT_CHECK_STR(s.text, "TUTTI_ISA: expected one of base, avx2, avx512, got \"foo\"");
    tt_warnings_pop();
}

TT_TEST(environment, rows_end_and_names_differ)
{
    const char *name, *other, *value = "x";

    for (int i = 0; i < TTI_ENV_COUNT; i++) {
        TT_REQUIRE(tt_env_row(i, &name, NULL, NULL));
        for (int j = 0; j < i; j++) {
            TT_REQUIRE(tt_env_row(j, &other, NULL, NULL));
            TT_CHECK(strcmp(name, other) != 0);
        }
    }
    TT_CHECK(!tt_env_row(TTI_ENV_COUNT, &name, NULL, NULL));
    TT_REQUIRE_EQ(unsetenv("TUTTI_SEED"), 0);
    TT_CHECK(tt_env_row(TTI_ENV_SEED, NULL, NULL, &value));
    TT_CHECK_NULL(value);
}
