/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_DEBUG_TENSORS=1: uses of dead tensors and wrong frees are errors that say who made the tensor and where
 * it ended. Every test is a process of its own and sets the variable before its first tensor. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti/testing.h"
#include "tutti/tutti.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SEES_FREES = 1 }; /* the address sanitizer keeps freed memory itself */
#else
enum { SEES_FREES = 0 };
#endif

static void debug_on(void)
{
    TT_REQUIRE_EQ(setenv("TUTTI_DEBUG_TENSORS", "1", 1), 0);
    tt_clear_error();
}

static char warned[1024];

static void keep_warning(void *ctx, const char *category, const char *message)
{
    (void)ctx;
    snprintf(warned, sizeof warned, "%s: %s", category, message);
}

static void expect_words(const char *want)
{
    TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    TT_CHECK_CONTAINS(tt_last_error(), want);
}

/* The offset in "...words program+0x11f9 ..." of the last error; -1 when there is none. */
static long site_after(const char *words)
{
    const char *at = strstr(tt_last_error(), words);

    at = at != NULL ? strstr(at, "+0x") : NULL;
    return at != NULL ? strtol(at + 1, NULL, 16) : -1;
}

TT_TEST(debug_tensors, use_after_scope_says_who_made_it_and_where_it_ended)
{
    tt_tensor *t = NULL;

    debug_on();
    TT_SCOPE {
        t = TT_FLOATS(1, 2, 3);
    }
    TT_CHECK_EQ(tt_print(tt_add(t, t)), TT_ERR_INVALID);
    expect_words("add: this tensor is dead (float32 [3], made by from_data in the scope opened at");
    expect_words("): it was freed when the scope opened at ");
    expect_words("; tt_tensor_retain keeps a tensor longer");
    TT_CHECK_GT(site_after("made by from_data in the scope opened at "), 0);
    TT_CHECK_EQ(site_after("made by from_data in the scope opened at "),
                site_after("freed when the scope opened at "));
    TT_CHECK_NE(site_after(" ended at "), site_after("freed when the scope opened at "));
}

TT_TEST(debug_tensors, the_operator_and_the_scope_around_are_named)
{
    tt_tensor *t = NULL;

    debug_on();
    TT_SCOPE {
        tt_tensor *x = tt_ones(TT_SHAPE(2, 4), TT_F64, TT_CPU);
        tt_scope s = tt_scope_open();

        t = tt_exp(tt_mul(x, x));
        t = tt_scope_close_keep(&s, t);
        TT_CHECK_NEAR(tt_item(tt_sum(t)), 8 * exp(1), 1e-9);
    }
    tt_clear_error();
    TT_CHECK_EQ(tt_tensor_numel(t), 0);
    expect_words("tensor_numel: this tensor is dead (float64 [2, 4], made by exp in");
    TT_CHECK_NE(site_after("made by exp in the scope opened at "),
                site_after("freed when the scope opened at "));
}

static void *makes_one(void *ctx)
{
    *(tt_tensor **)ctx = tt_ones(TT_SHAPE(2), TT_I64, TT_CPU);
    return NULL;
}

TT_TEST(debug_tensors, the_end_of_a_thread_is_an_end)
{
    tt_tensor *t = NULL;
    pthread_t th;

    debug_on();
    TT_REQUIRE_EQ(pthread_create(&th, NULL, makes_one, &t), 0);
    pthread_join(th, NULL);
    TT_CHECK_EQ(tt_item_int(t), 0);
    expect_words(
        "int64 [2], made by ones outside of any scope): it was freed when its thread ended");
}

TT_TEST(debug_tensors, freeing_what_a_scope_owns_is_refused)
{
    debug_on();
    TT_REQUIRE_OK(tt_warnings_push(keep_warning, NULL));
    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2);

        tt_tensor_free(t);
        expect_words("tensor_free: this tensor (float32 [2], made by from_data in the scope");
        expect_words("belongs to a scope that is open");
        TT_CHECK_CONTAINS(warned, "tensor: tensor_free: this tensor (float32 [2]");
        TT_CHECK_NEAR(tt_item(tt_sum(t)), 3, 0); /* nothing has happened to it */
        tt_clear_error();
        tt_tensor_free(tt_tensor_retain(t)); /* what was kept may be freed */
        TT_CHECK_EQ(tt_last_status(), TT_OK);
    }
    TT_CHECK_EQ(tt_last_status(), TT_OK);
    tt_warnings_pop();
}

TT_TEST(debug_tensors, freeing_twice_is_named)
{
    tt_tensor *t = NULL;

    debug_on();
    TT_REQUIRE_OK(tt_warnings_push(keep_warning, NULL));
    TT_SCOPE {
        t = tt_tensor_retain(tt_ones(TT_SHAPE(3, 1), TT_F16, TT_CPU));
    }
    tt_tensor_free(t);
    TT_CHECK_EQ(tt_last_status(), TT_OK);
    tt_tensor_free(t);
    expect_words("tensor_free: this tensor is dead (float16 [3, 1], made by ones");
    expect_words("it was freed when its last owner called tt_tensor_free");
    TT_CHECK_CONTAINS(warned, "is dead");
    TT_CHECK_NULL(tt_tensor_retain(t));
    tt_warnings_pop();
}

TT_TEST(debug_tensors, views_and_gradients_die_with_their_scope_too)
{
    tt_tensor *view = NULL, *grad = NULL, *w = NULL;

    debug_on();
    TT_SCOPE {
        w = tt_require_grad(TT_FLOATS(1, 2, 3, 4));
        view = tt_narrow(w, 0, 1, 2);
        TT_CHECK_OK(tt_backward(tt_sum(tt_mul(w, w))));
        grad = tt_grad_of(w);
        TT_CHECK_NEAR(tt_item(tt_sum(grad)), 20, 0);
    }
    TT_CHECK_NULL(tt_tensor_data(view));
    expect_words("made by narrow");
    TT_CHECK_NULL(tt_relu(grad));
    TT_CHECK_EQ(tt_backward(w), TT_ERR_INVALID);
    expect_words("backward: this tensor is dead");
}

/* ---- memory ---------------------------------------------------------------------------------- */

TT_TEST(debug_tensors, freed_memory_reads_as_nan_and_writes_are_warned_of)
{
    float *p = NULL;

    if (SEES_FREES)
        TT_SKIP("the address sanitizer ends the process: see the next test");
    debug_on();
    TT_SCOPE {
        p = tt_tensor_data(TT_FLOATS(1, 2, 3));
    }
    TT_CHECK(isnan(p[0]) && isnan(p[2]));
    TT_REQUIRE_OK(tt_warnings_push(keep_warning, NULL));
    tt_memory_empty_cache(TT_CPU);
    TT_CHECK_STR(warned, "");
    TT_SCOPE {
        p = tt_tensor_data(TT_FLOATS(1, 2, 3));
    }
    p[1] = 7;
    tt_memory_empty_cache(TT_CPU);
    TT_CHECK_CONTAINS(warned, "memory of 12 bytes was written at byte 4 after");
    tt_warnings_pop();
}

TT_TEST(debug_tensors, the_address_sanitizer_finds_raw_addresses)
{
    volatile float *p = NULL;
    int status = 0;
    pid_t pid;

    if (!SEES_FREES)
        TT_SKIP("needs the address sanitizer");
    debug_on();
    TT_SCOPE {
        p = tt_tensor_data(TT_FLOATS(1, 2, 3));
    }
    pid = fork();
    TT_REQUIRE(pid >= 0);
    if (pid == 0) {
        close(STDERR_FILENO);
        _exit(p[0] == 1 ? 0 : 0);
    }
    TT_REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    TT_CHECK(status != 0);
}

TT_TEST(debug_tensors, the_quarantine_is_bounded)
{
    tt_tensor *first = NULL, *last = NULL;
    uint64_t before;

    debug_on();
    setenv("TUTTI_DEBUG_TENSORS_KEEP", "100", 1);
    setenv("TUTTI_DEBUG_TENSORS_MEMORY", "2", 1);
    before = tt_memory_stats_get(TT_CPU).current;
    for (int i = 0; i < 200; i++)
        TT_SCOPE {
            last = tt_full(TT_SHAPE(64 * 1024), i, TT_F32, TT_CPU);
            first = i == 110 ? last : first;
        }
    TT_CHECK_EQ(tt_memory_stats_get(TT_CPU).current, before); /* kept memory is free memory */
    TT_CHECK_LE(tt_memory_stats_get(TT_CPU).reserved, (uint64_t)16 << 20);
    TT_CHECK_NULL(tt_neg(last));
    expect_words("neg: this tensor is dead (float32 [65536]");
    TT_CHECK_NULL(tt_neg(first)); /* among the last hundred */
}

TT_TEST(debug_tensors, off_nothing_is_kept)
{
    void *a = NULL, *b = NULL;

    if (SEES_FREES)
        TT_SKIP("the address sanitizer keeps freed memory");
    TT_REQUIRE_EQ(setenv("TUTTI_DEBUG_TENSORS", "0", 1), 0);
    TT_SCOPE {
        a = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);
    }
    TT_SCOPE {
        b = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);
    }
    TT_CHECK_PTR(a, b);
}

/* ---- many threads ------------------------------------------------------------------------------ */

static void *shares(void *ctx)
{
    tt_tensor *t = ctx;

    for (int i = 0; i < 500; i++)
        TT_SCOPE {
            tt_tensor *kept = tt_tensor_retain(t);
            tt_tensor *y = tt_add(kept, kept);

            TT_CHECK_NEAR(tt_item(tt_sum(y)), 12, 0);
            tt_tensor_free(kept);
        }
    TT_CHECK_EQ(tt_last_status(), TT_OK);
    return NULL;
}

TT_TEST(debug_tensors, threads_may_share_a_tensor)
{
    pthread_t th[4];

    debug_on();
    TT_SCOPE {
        tt_tensor *t = TT_FLOATS(1, 2, 3);

        for (int i = 0; i < 4; i++)
            TT_REQUIRE_EQ(pthread_create(&th[i], NULL, shares, t), 0);
        for (int i = 0; i < 50; i++) {
            tt_scope s = tt_scope_open();

            t = tt_scope_close_keep(&s, t);
        }
        for (int i = 0; i < 4; i++)
            pthread_join(th[i], NULL);
    }
    TT_CHECK_EQ(tt_last_status(), TT_OK);
}
