/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses and the error record of each thread. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tutti/testing.h"

TT_TEST(status, every_code_has_a_name_and_a_text)
{
    static const tt_status all[] = {
#define X(name, value, text) TT_##name,
        TT_STATUS_MAP(X)
#undef X
    };

    TT_CHECK_STR(tt_status_name(TT_OK), "TT_OK");
    TT_CHECK_STR(tt_status_text(TT_OK), "success");
    TT_CHECK_STR(tt_status_name(TT_ERR_VETOED), "TT_ERR_VETOED");
    TT_CHECK_STR(tt_status_text(TT_ERR_TIMEOUT), "the deadline passed");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        TT_CHECK_EQ(all[i], -(int)i);
        TT_CHECK(strncmp(tt_status_name(all[i]), "TT_", 3) == 0);
        TT_CHECK(strcmp(tt_status_text(all[i]), "unknown") != 0);
        for (size_t j = 0; j < i; j++)
            TT_CHECK(strcmp(tt_status_name(all[i]), tt_status_name(all[j])) != 0);
    }
    TT_CHECK_STR(tt_status_name((tt_status)1), "unknown");
    TT_CHECK_STR(tt_status_text((tt_status)-999), "unknown");
}

TT_TEST(status, an_error_is_kept_until_it_is_cleared)
{
    TT_CHECK_STR(tt_last_error(), "");
    TT_CHECK_EQ(tt_last_status(), TT_OK);
    TT_CHECK_STR(tt_last_error_where(), "");
    TT_CHECK_EQ(tt_fail(TT_ERR_IO, "disk %d of %s", 3, "four"), TT_ERR_IO);
    TT_CHECK_STR(tt_last_error(), "disk 3 of four");
    TT_CHECK_EQ(tt_last_status(), TT_ERR_IO);
    TT_CHECK_STR(tt_last_error_where(), "user code");
    tt_clear_error();
    TT_CHECK_STR(tt_last_error(), "");
    TT_CHECK_EQ(tt_last_status(), TT_OK);
    TT_CHECK_STR(tt_last_error_where(), "");
}

TT_TEST(status, where_is_relative_to_the_source_tree)
{
    TT_CHECK_EQ(tti_fail("/some/dir/src/ops/matmul.c", 41, TT_ERR_INVALID, "x"), TT_ERR_INVALID);
    TT_CHECK_STR(tt_last_error_where(), "src/ops/matmul.c:41");
    tti_fail("elsewhere.c", 7, TT_ERR_INVALID, "x");
    TT_CHECK_STR(tt_last_error_where(), "elsewhere.c:7");
    TT_CHECK_NULL(TT_FAIL_NULL(TT_ERR_NOMEM, "no %s", "room"));
    TT_CHECK_CONTAINS(tt_last_error_where(), "test_status.c:");
    TT_CHECK_STR(tt_last_error(), "no room");
}

TT_TEST(status, long_messages_and_paths_are_cut)
{
    char words[5000];

    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    tti_fail(words, 1, TT_ERR_INVALID, "%s", words);
    TT_CHECK_EQ(strlen(tt_last_error()), sizeof((tti_error_copy *)0)->text - 1);
    TT_CHECK_EQ(strlen(tt_last_error_where()), sizeof((tti_error_copy *)0)->where - 1);
    TT_CHECK_EQ(strspn(tt_last_error(), "w"), strlen(tt_last_error()));
    tt_fail(TT_ERR_IO, "short");
    TT_CHECK_STR(tt_last_error(), "short");
}

TT_TEST(status, a_message_may_quote_the_one_before)
{
    tt_fail(TT_ERR_IO, "the cause");
    tt_fail(TT_ERR_ABORTED, "step 2: %s", tt_last_error());
    tt_fail(TT_ERR_ABORTED, "job: %s (%s)", tt_last_error(), tt_last_error_where());
    TT_CHECK_STR(tt_last_error(), "job: step 2: the cause (user code)");
    TT_CHECK_EQ(tt_last_status(), TT_ERR_ABORTED);
}

TT_TEST(status, a_saved_record_comes_back_whole)
{
    tti_error_copy copy;

    tti_fail("src/a.c", 5, TT_ERR_FORMAT, "first");
    tti_error_save(&copy);
    tt_fail(TT_ERR_IO, "second");
    tti_error_restore(&copy);
    TT_CHECK_STR(tt_last_error(), "first");
    TT_CHECK_EQ(tt_last_status(), TT_ERR_FORMAT);
    TT_CHECK_STR(tt_last_error_where(), "src/a.c:5");
}

static tt_status pass_on(tt_status st, int *after)
{
    TT_TRY(st);
    ++*after;
    return TT_OK;
}

TT_TEST(status, try_returns_only_failures)
{
    int after = 0;

    TT_CHECK_EQ(pass_on(TT_OK, &after), TT_OK);
    TT_CHECK_EQ(after, 1);
    TT_CHECK_EQ(pass_on(TT_ERR_PEER, &after), TT_ERR_PEER);
    TT_CHECK_EQ(after, 1);
}

typedef struct teller {
    int number;
    pthread_barrier_t *all;
} teller;

static void *own_error(void *ctx)
{
    const teller *t = ctx;
    char mine[32];

    TT_CHECK_STR(tt_last_error(), "");
    snprintf(mine, sizeof mine, "thread %d", t->number);
    tt_fail(TT_ERR_INVALID, "%s", mine);
    pthread_barrier_wait(t->all); /* everybody has failed now */
    TT_CHECK_STR(tt_last_error(), mine);
    tt_clear_error();
    pthread_barrier_wait(t->all);
    TT_CHECK_STR(tt_last_error(), "");
    return NULL;
}

TT_TEST(status, threads_do_not_share_it)
{
    pthread_t threads[4];
    pthread_barrier_t all;
    teller tellers[4];

    TT_REQUIRE_EQ(pthread_barrier_init(&all, NULL, 4), 0);
    tt_fail(TT_ERR_DEVICE, "of the main thread");
    for (int i = 0; i < 4; i++) {
        tellers[i] = (teller){ .number = i, .all = &all };
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, own_error, &tellers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    TT_CHECK_STR(tt_last_error(), "of the main thread");
    TT_CHECK_EQ(tt_last_status(), TT_ERR_DEVICE);
    pthread_barrier_destroy(&all);
}

/* ---- a record without memory ------------------------------------------------------------------ */

static void *fail_without_memory(void *ctx)
{
    tt_error_info info;

    (void)ctx;
    tt_debug_fail_alloc(1); /* the record of this thread */
    TT_CHECK_EQ(tt_fail(TT_ERR_IO, "disk %d", 3), TT_ERR_IO);
    TT_CHECK_EQ(tt_debug_fail_alloc(0), 1);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_IO);
    TT_CHECK_STR(tt_last_error(), "disk 3");
    TT_CHECK_STR(tt_last_error_where(), "user code");
    TT_CHECK(tt_last_error_info(&info));
    TT_CHECK_EQ(info.status, TT_ERR_IO);
    return NULL;
}

static void on_a_new_thread(void *(*fn)(void *))
{
    pthread_t thread;

    TT_REQUIRE_EQ(pthread_create(&thread, NULL, fn, NULL), 0);
    pthread_join(thread, NULL);
}

TT_TEST(status, a_failure_is_recorded_without_memory)
{
    on_a_new_thread(fail_without_memory);
}

static void *keep_without_memory(void *ctx)
{
    tti_error_copy copy;

    (void)ctx;
    tt_debug_fail_alloc(1);
    tt_fail(TT_ERR_PEER, "rank 1 died");
    tt_debug_fail_alloc(0);
    tti_error_save(&copy);
    tti_error_add(" on %s", "vm");
    TT_CHECK_STR(tt_last_error(), "rank 1 died on vm");
    tt_clear_error();
    TT_CHECK_EQ(tt_last_status(), TT_OK);
    tti_error_restore(&copy);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_PEER);
    TT_CHECK_STR(tt_last_error(), "rank 1 died");
    tt_fail(TT_ERR_IO, "%0200d", 7); /* now there is memory, and room for all of it */
    TT_CHECK_EQ(strlen(tt_last_error()), 200);
    return NULL;
}

TT_TEST(status, a_record_without_memory_is_kept_and_replaced)
{
    on_a_new_thread(keep_without_memory);
}

static void *fail_twice_without_memory(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 2; i++) {
        tt_debug_fail_alloc(1);
        tt_fail(TT_ERR_IO, "%0*d", i == 0 ? 500 : 5, 1);
        tt_debug_fail_alloc(0);
    }
    TT_CHECK_STR(tt_last_error(), "00001");
    return NULL;
}

TT_TEST(status, long_words_without_memory_are_cut)
{
    on_a_new_thread(fail_twice_without_memory);
}

/* ---- fields ------------------------------------------------------------------------------------ */

TT_TEST(status, fields_belong_to_one_failure)
{
    tt_error_info info = { .kind = TT_ERROR_DIED, .group = "world", .number = 7 };
    tti_error_copy kept;
    tti_error_copy copy;

    TT_CHECK(!tt_last_error_info(&info));
    TT_CHECK_EQ(info.kind, TT_ERROR_OTHER);
    info = (tt_error_info){ .kind = TT_ERROR_MISSING, .group = "world", .number = 7 };
    for (int r = 0; r < TT_ERROR_RANKS + 2; r++)
        tti_error_info_add_rank(&info, 2 * r);
    tt_fail(TT_ERR_TIMEOUT, "too late");
    tti_error_about(&info);
    tti_error_add(", after %d ms", 5);
    tti_error_save(&copy);
    tt_fail(TT_ERR_IO, "another");
    TT_CHECK(tt_last_error_info(&info));
    TT_CHECK_EQ(info.kind, TT_ERROR_OTHER);
    TT_CHECK_EQ(info.status, TT_ERR_IO);
    tt_fail(TT_ERR_IO, "and another");
    tti_error_restore(&copy);
    tti_error_save(&kept);
    tt_clear_error();
    tti_error_raise(&kept);
    TT_CHECK_STR(tt_last_error(), "too late, after 5 ms");
    TT_CHECK(tt_last_error_info(&info));
    TT_CHECK_EQ(info.status, TT_ERR_TIMEOUT);
    TT_CHECK_STR(tt_error_kind_name(info.kind), "missing");
    TT_CHECK_STR(info.group, "world");
    TT_CHECK_EQ(info.number, 7);
    TT_CHECK_EQ(info.n_ranks, TT_ERROR_RANKS + 2);
    TT_CHECK_EQ(info.ranks[TT_ERROR_RANKS - 1], 2 * (TT_ERROR_RANKS - 1));
    TT_CHECK_STR(tt_error_kind_name((tt_error_kind)99), "unknown");
}
