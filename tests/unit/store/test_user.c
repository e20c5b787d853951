/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made of the user's functions: who frees what. */
#include <tutti/testing.h>
#include <tutti/tutti.h>

static int n_freed;

static void count_free(void *ctx)
{
    n_freed += *(int *)ctx;
}

static tt_status fail_set(void *ctx, const char *key, const void *data, size_t size)
{
    (void)ctx, (void)key, (void)data, (void)size;
    return TT_ERR_IO;
}

static tt_status fail_get(void *ctx, const char *key, int timeout_ms, tt_blob *blob_p)
{
    (void)ctx, (void)key, (void)timeout_ms, (void)blob_p;
    return TT_ERR_IO;
}

static tt_status fail_add(void *ctx, const char *key, int64_t delta, int64_t *value_p)
{
    (void)ctx, (void)key, (void)delta, (void)value_p;
    return TT_ERR_IO;
}

static tt_status fail_wait(void *ctx, const char *const *keys, int n, int timeout_ms)
{
    (void)ctx, (void)keys, (void)n, (void)timeout_ms;
    return TT_ERR_IO;
}

static tt_status fail_check(void *ctx, const char *const *keys, int n, bool *present_p)
{
    (void)ctx, (void)keys, (void)n, (void)present_p;
    return TT_ERR_IO;
}

static tt_store_ops table(void)
{
    return (tt_store_ops){ .abi = TT_STORE_ABI,
                           .name = "counted",
                           .set = fail_set,
                           .get = fail_get,
                           .add = fail_add,
                           .wait = fail_wait,
                           .check = fail_check,
                           .free = count_free };
}

TT_TEST(store_user, the_context_is_freed_once_whatever_fails)
{
    tt_store_ops ops = table();
    int one = 1;
    tt_store *s = NULL;

    for (int n = 1; s == NULL; n++) {
        TT_REQUIRE(n < 10);
        n_freed = 0;
        tt_debug_fail_alloc(n);
        s = tt_store_user_new(&ops, &one);
        tt_debug_fail_alloc(0);
        TT_CHECK_EQ(n_freed, s == NULL ? 1 : 0);
        TT_CHECK_EQ(n > 1 || s == NULL, true);
    }
    tt_store_free(s);
    TT_CHECK_EQ(n_freed, 1);
}

TT_TEST(store_user, an_incomplete_table_frees_the_context)
{
    tt_store_ops ops = table();
    int one = 1;

    ops.wait = NULL;
    n_freed = 0;
    TT_CHECK_NULL(tt_store_user_new(&ops, &one));
    TT_CHECK_EQ(n_freed, 1);
    ops.abi = TT_STORE_ABI + 1; /* where `free` is cannot be known */
    TT_CHECK_NULL(tt_store_user_new(&ops, &one));
    TT_CHECK_EQ(n_freed, 1);
}
