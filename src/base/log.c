/* SPDX-License-Identifier: Apache-2.0 */
/* The log sink and the stack of warning captures of each thread. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/mem.h"

typedef struct capture {
    tt_warning_fn fn;
    void *ctx;
    struct capture *outer;
} capture;

static const char *const level_names[] = { "error", "warn", "info", "debug", "trace" };

static _Thread_local capture *captures;
static atomic_int level = -1; /* -1: not read from the environment yet */

static pthread_mutex_t mu_sink = PTHREAD_MUTEX_INITIALIZER;
static tt_log_fn sink; /* mu_sink */
static void *sink_ctx; /* mu_sink */

void tt_log_set_sink(tt_log_fn fn, void *ctx)
{
    pthread_mutex_lock(&mu_sink);
    sink = fn;
    sink_ctx = ctx;
    pthread_mutex_unlock(&mu_sink);
}

void tt_log_set_level(tt_log_level l)
{
    atomic_store_explicit(&level, (int)l, memory_order_relaxed);
}

tt_log_level tt_log_get_level(void)
{
    int l = atomic_load_explicit(&level, memory_order_relaxed);

    if (l >= 0)
        return (tt_log_level)l;
    atomic_store_explicit(&level, TT_LOG_WARN, memory_order_relaxed); /* a warning asks for it */
    l = tti_env_choice(TTI_ENV_LOG_LEVEL, level_names, TT_LOG_TRACE + 1, TT_LOG_WARN);
    atomic_store_explicit(&level, l, memory_order_relaxed);
    return (tt_log_level)l;
}

static void emit(tt_log_level l, const char *text)
{
    tt_log_fn fn;
    void *ctx;

    pthread_mutex_lock(&mu_sink);
    fn = sink;
    ctx = sink_ctx;
    pthread_mutex_unlock(&mu_sink);

    if (fn != NULL)
        fn(ctx, l, text);
    else
        fprintf(stderr, "tutti %s: %s\n", level_names[l], text);
}

void tti_log(tt_log_level l, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    if (l > tt_log_get_level())
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    emit(l, text);
}

tt_status tt_warnings_push(tt_warning_fn fn, void *ctx)
{
    capture *c;

    if (fn == NULL)
        return TT_FAIL(TT_ERR_INVALID, "warnings: expected a function, got NULL");
    c = tti_malloc(sizeof *c);
    if (c == NULL)
        return TT_ERR_NOMEM;
    *c = (capture){ .fn = fn, .ctx = ctx, .outer = captures };
    captures = c;
    return TT_OK;
}

void tt_warnings_pop(void)
{
    capture *c = captures;

    if (c == NULL)
        return;
    captures = c->outer;
    tti_mfree(c);
}

void tt_warn(const char *category, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (captures != NULL)
        captures->fn(captures->ctx, category, text);
    else
        tti_log(TT_LOG_WARN, "%s: %s", category, text);
}
