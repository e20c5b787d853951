/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns tensors, and for how long: scopes, references, wrapped memory, views and versions. */
#include <pthread.h>
#include <string.h>

#include "tutti/autograd.h"
#include "tutti/ops.h"
#include "tutti/tensor.h"
#include "tutti/testing.h"

static tt_tensor *one(void)
{
    return tt_ones(TT_SHAPE(1), TT_F32, TT_CPU);
}

static uint64_t in_use(void)
{
    return tt_memory_stats_get(TT_CPU).current;
}

TT_TEST(scope, nested_scopes_free_their_own)
{
    uint64_t bytes = in_use();
    size_t n = tt_scope_count();

    TT_SCOPE {
        one();
        one();
        TT_CHECK_EQ(tt_scope_count(), n + 2);
        TT_SCOPE {
            one();
            TT_CHECK_EQ(tt_scope_count(), n + 3);
            TT_CHECK_EQ(in_use(), bytes + 12);
        }
        TT_CHECK_EQ(tt_scope_count(), n + 2);
        TT_CHECK_EQ(in_use(), bytes + 8);
    }
    TT_CHECK_EQ(tt_scope_count(), n);
    TT_CHECK_EQ(in_use(), bytes);
}

static int leave_early(int how)
{
    for (int i = 0; i < 3; i++)
        TT_SCOPE {
            one();
            if (how == 0)
                return i;
            TT_SCOPE {
                one();
                if (how == 1)
                    goto out;
                if (how == 2)
                    break;
                one();
            }
            if (how == 3)
                continue;
            one();
        }
    return 10;
out:
    return 20;
}

TT_TEST(scope, return_goto_break_and_continue_close_it)
{
    static const int want[] = { 0, 20, 10, 10, 10 };
    size_t n = tt_scope_count();
    uint64_t bytes = in_use();

    for (int how = 0; how < 5; how++) {
        TT_CHECK_EQ(leave_early(how), want[how]);
        TT_CHECK_EQ(tt_scope_count(), n);
        TT_CHECK_EQ(in_use(), bytes);
    }
}

TT_TEST(scope, close_keep_hands_one_over)
{
    uint64_t bytes = in_use();

    TT_SCOPE {
        tt_scope s = tt_scope_open();
        tt_tensor *kept, *again;
        size_t n = tt_scope_count();

        one();
        kept = tt_full(TT_SHAPE(2), 5.0, TT_F64, TT_CPU);
        one();
        TT_CHECK_PTR(tt_scope_close_keep(&s, kept), kept);
        TT_CHECK_EQ(tt_scope_count(), n + 1);
        TT_CHECK_EQ(in_use(), bytes + 16);
        TT_CHECK_NEAR(tt_at(kept, (const int64_t[]){ 1 }), 5.0, 0);
        again = tt_scope_close_keep(&s, kept); /* closed already: nothing happens */
        TT_CHECK_PTR(again, kept);
        tt_scope_close(&s);
        TT_CHECK_EQ(tt_scope_count(), n + 1);

        s = tt_scope_open();
        one();
        TT_CHECK_NULL(tt_scope_close_keep(&s, NULL));
        TT_CHECK_EQ(tt_scope_count(), n + 1);
    }
    TT_CHECK_EQ(in_use(), bytes);
}

TT_TEST(scope, retained_tensors_survive)
{
    uint64_t bytes = in_use();
    tt_tensor *kept = NULL, *view = NULL;

    TT_SCOPE {
        kept = tt_tensor_retain(tt_arange(0, 6, 1, TT_F32, TT_CPU));
        view = tt_tensor_retain(tt_narrow(kept, 0, 2, 2));
    }
    TT_CHECK_NEAR(tt_at(kept, (const int64_t[]){ 4 }), 4.0, 0);
    tt_tensor_free(kept);
    TT_CHECK_EQ(in_use(), bytes + 24); /* the view keeps the memory */
    TT_CHECK_NEAR(tt_at(view, (const int64_t[]){ 1 }), 3.0, 0);
    tt_tensor_free(view);
    TT_CHECK_EQ(in_use(), bytes);
    tt_tensor_free(NULL);
    TT_CHECK_NULL(tt_tensor_retain(NULL));
}

static void *of_another_thread(void *ctx)
{
    TT_CHECK_EQ(tt_scope_count(), 0);
    one();
    one();
    TT_CHECK_EQ(tt_scope_count(), 2);
    TT_SCOPE
        *(tt_tensor **)ctx = tt_tensor_retain(tt_full(TT_SHAPE(1), 3.0, TT_F32, TT_CPU));
    return NULL; /* what is left is freed with the thread */
}

TT_TEST(scope, each_thread_has_its_own)
{
    uint64_t bytes = in_use();
    tt_tensor *made = NULL;

    TT_SCOPE {
        size_t n;
        pthread_t thread;

        one();
        n = tt_scope_count();
        TT_REQUIRE_EQ(pthread_create(&thread, NULL, of_another_thread, &made), 0);
        pthread_join(thread, NULL);
        TT_CHECK_EQ(tt_scope_count(), n);
        TT_CHECK_EQ(in_use(), bytes + 8); /* ours, and the one it retained */
        TT_CHECK_NEAR(tt_item(made), 3.0, 0);
        tt_tensor_free(made);
    }
    TT_CHECK_EQ(in_use(), bytes);
}

static void count_scope_warnings(void *ctx, const char *category, const char *message)
{
    if (strcmp(category, "scope") == 0 && strstr(message, "TT_SCOPE") != NULL)
        ++*(int *)ctx;
}

TT_TEST(scope, many_tensors_outside_of_any_are_worth_one_warning)
{
    int warnings = 0;
    tt_scope all;

    TT_REQUIRE_OK(tt_warnings_push(count_scope_warnings, &warnings));
    TT_SCOPE {
        for (int i = 0; i < 110000; i++)
            tt_empty(TT_SHAPE(1), TT_F32, TT_CPU);
    }
    TT_CHECK_EQ(warnings, 0); /* a scope has them */
    all = (tt_scope){ .mark = tt_scope_count(), .open = false };
    for (int i = 0; i < 99999; i++)
        tt_empty(TT_SHAPE(1), TT_F32, TT_CPU);
    TT_CHECK_EQ(warnings, 0);
    for (int i = 0; i < 1000; i++)
        tt_empty(TT_SHAPE(1), TT_F32, TT_CPU);
    TT_CHECK_EQ(warnings, 1);
    TT_CHECK_EQ(tt_scope_count(), all.mark + 100999);
    tt_warnings_pop();
}

/* ---- wrapped memory ------------------------------------------------------------------------------ */

typedef struct released {
    int calls;
    void *data;
} released;

static void note_release(void *ctx, void *data)
{
    released *r = ctx;

    r->calls++;
    r->data = data;
}

TT_TEST(wrap, releases_once_when_the_last_view_is_gone)
{
    float data[6] = { 0, 1, 2, 3, 4, 5 };
    released r = { 0 };
    tt_tensor *view = NULL;

    TT_SCOPE {
        tt_tensor *t = tt_wrap(data, TT_SHAPE(2, 3), NULL, TT_F32, note_release, &r);

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_PTR(tt_tensor_data(t), data);
        TT_CHECK(tt_tensor_is_contiguous(t, TT_FORMAT_CONTIGUOUS));
        view = tt_tensor_retain(tt_transpose(t, 0, 1));
        tt_detach(t);
    }
    TT_CHECK_EQ(r.calls, 0);
    TT_CHECK_NEAR(tt_at(view, (const int64_t[]){ 2, 1 }), 5.0, 0);
    data[5] = 50; /* no copy was made */
    TT_CHECK_NEAR(tt_at(view, (const int64_t[]){ 2, 1 }), 50.0, 0);
    tt_tensor_free(view);
    TT_CHECK_EQ(r.calls, 1);
    TT_CHECK_PTR(r.data, data);
}

TT_TEST(wrap, takes_strides_and_no_memory_at_all)
{
    double data[7] = { 0, 1, 2, 3, 4, 5, 6 };
    released r = { 0 };

    TT_SCOPE {
        tt_tensor *t = tt_wrap(data, TT_SHAPE(2, 2), (const int64_t[]){ 1, 5 }, TT_F64, NULL, NULL);

        TT_CHECK_NEAR(tt_at(t, (const int64_t[]){ 1, 1 }), 6.0, 0);
        TT_CHECK_NEAR(tt_at(t, (const int64_t[]){ 0, 1 }), 5.0, 0);
        TT_CHECK(!tt_tensor_is_contiguous(t, TT_FORMAT_CONTIGUOUS));
        TT_CHECK_NOT_NULL(tt_wrap(NULL, TT_SHAPE(0, 4), NULL, TT_F32, note_release, &r));
    }
    TT_CHECK_EQ(r.calls, 1);
}

static released of_failing;

static tt_status wrap_once(void *ctx)
{
    tt_status st = TT_OK;
    int before = of_failing.calls;

    TT_SCOPE {
        if (tt_wrap(ctx, TT_SHAPE(2), NULL, TT_F32, note_release, &of_failing) == NULL) {
            st = tt_last_status();
            TT_CHECK_EQ(of_failing.calls, before);
        }
    }
    TT_CHECK_EQ(of_failing.calls, before + (st == TT_OK));
    return st;
}

TT_TEST(wrap, does_not_release_what_it_refused)
{
    static const int64_t far[] = { INT64_MAX / 2, INT64_MAX / 2 };
    float data[4] = { 0 };
    released r = { 0 };

    TT_SCOPE {
        TT_CHECK_NULL(tt_wrap(NULL, TT_SHAPE(2), NULL, TT_F32, note_release, &r));
        TT_CHECK_CONTAINS(tt_last_error(), "wrap: expected memory, got NULL");
        TT_CHECK_NULL(tt_wrap(data, TT_SHAPE(-2), NULL, TT_F32, note_release, &r));
        TT_CHECK_NULL(tt_wrap(data, TT_SHAPE(2), NULL, (tt_dtype)50, note_release, &r));
        TT_CHECK_NULL(
            tt_wrap(data, TT_SHAPE(2), (const int64_t[]){ -1 }, TT_F32, note_release, &r));
        TT_CHECK_CONTAINS(tt_last_error(), "stride -1 of dimension 0 is negative");
        TT_CHECK_NULL(tt_wrap(data, TT_SHAPE(2, 2), far, TT_F32, note_release, &r));
        TT_CHECK_CONTAINS(tt_last_error(), "too far");
    }
    TT_CHECK_EQ(r.calls, 0);
    tt_test_fail_allocs(wrap_once, data);
}

/* ---- strides, views and versions ------------------------------------------------------------------- */

TT_TEST(empty_strided, holds_what_the_strides_reach)
{
    uint64_t bytes = in_use();

    TT_SCOPE {
        tt_tensor *t = tt_empty_strided(TT_SHAPE(2, 3), (const int64_t[]){ 1, 10 }, TT_F32, TT_CPU);

        TT_REQUIRE_NOT_NULL(t);
        TT_CHECK_EQ(in_use(), bytes + 22 * 4);
        TT_CHECK_EQ(tt_tensor_strides(t)[1], 10);
        TT_CHECK(!tt_tensor_is_contiguous(t, TT_FORMAT_CONTIGUOUS));
        t = tt_empty_strided(TT_SHAPE(2, 3), NULL, TT_F32, TT_CPU);
        TT_CHECK(tt_tensor_is_contiguous(t, TT_FORMAT_CONTIGUOUS));
        t = tt_empty_strided(TT_SHAPE(2, 3, 4, 5), (const int64_t[]){ 60, 1, 15, 3 }, TT_F32,
                             TT_CPU);
        TT_CHECK(tt_tensor_is_contiguous(t, TT_FORMAT_CHANNELS_LAST));
        TT_CHECK(!tt_tensor_is_contiguous(t, TT_FORMAT_CONTIGUOUS));
        TT_CHECK(!tt_tensor_is_contiguous(t, TT_FORMAT_CHANNELS_LAST_3D));
    }
}

TT_TEST(empty_strided, refuses_strides_that_reach_too_far)
{
    static const int64_t reach[] = { INT64_MAX, (int64_t)1 << 62, (int64_t)1 << 61, -1 };
    static const int64_t sum[] = { (int64_t)1 << 60, (int64_t)1 << 60 };

    TT_SCOPE {
        for (int i = 0; i < 4; i++) {
            TT_CHECK_NULL(tt_empty_strided(TT_SHAPE(2), &reach[i], TT_F64, TT_CPU));
            TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        }
        TT_CHECK_NULL(tt_empty_strided(TT_SHAPE(2, 2), sum, TT_C128, TT_CPU));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
        TT_CHECK_NULL(tt_empty_strided((tt_shape){ .n_dims = 9 }, reach, TT_F32, TT_CPU));
        TT_CHECK_CONTAINS(tt_last_error(), "expected 0 to 8 dimensions, got 9");
        TT_CHECK_NULL(tt_empty(TT_SHAPE((int64_t)1 << 62), TT_F32, TT_CPU));
        TT_CHECK_CONTAINS(tt_last_error(), "too large");
    }
}

TT_TEST(versions, are_shared_by_views)
{
    TT_SCOPE {
        tt_tensor *t = tt_zeros(TT_SHAPE(4), TT_F32, TT_CPU), *copy = tt_clone(t);
        tt_tensor *view = tt_narrow(t, 0, 1, 2), *apart = tt_detach(t);
        uint64_t start = tt_tensor_version(t);

        TT_CHECK_NOT_NULL(tt_add_(view, one()));
        TT_CHECK_GT(tt_tensor_version(t), start);
        TT_CHECK_EQ(tt_tensor_version(view), tt_tensor_version(t));
        TT_CHECK_EQ(tt_tensor_version(apart), tt_tensor_version(t));
        TT_CHECK(tt_tensor_shares_storage(view, t));
        TT_CHECK(!tt_tensor_shares_storage(copy, t));
        TT_CHECK_NEAR(tt_at(apart, (const int64_t[]){ 2 }), 1.0, 0);
        TT_CHECK_EQ(tt_tensor_version(NULL), 0);
    }
}

TT_TEST(tensor, questions_about_nothing_have_answers)
{
    TT_CHECK_EQ(tt_tensor_dims(NULL), 0);
    TT_CHECK_EQ(tt_tensor_size(NULL, 0), -1);
    TT_CHECK_EQ(tt_tensor_numel(NULL), 0);
    TT_CHECK_EQ(tt_tensor_bytes(NULL), 0);
    TT_CHECK_NULL(tt_tensor_data(NULL));
    TT_CHECK_NULL(tt_tensor_strides(NULL));
    TT_CHECK(!tt_tensor_shares_storage(NULL, NULL));
    TT_SCOPE {
        tt_tensor *t = tt_empty(TT_SHAPE(2, 3), TT_I16, TT_CPU);

        TT_CHECK_EQ(tt_tensor_size(t, -1), 3);
        TT_CHECK_EQ(tt_tensor_size(t, -2), 2);
        TT_CHECK_EQ(tt_tensor_size(t, 2), -1);
        TT_CHECK_EQ(tt_tensor_size(t, -3), -1);
        TT_CHECK_EQ(tt_tensor_bytes(t), 12);
    }
}
