/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that hold; test_harness.c has those that do not. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "tutti/testing.h"

TT_TEST(testing_check, integers_of_all_types_compare)
{
    unsigned char small = 200;
    size_t size = 7;

    TT_CHECK_EQ(small, 200);
    TT_CHECK_EQ(UINT64_MAX, UINT64_MAX);
    TT_CHECK_NE(size, 8);
    TT_CHECK_LT(-1, size);
    TT_CHECK_LE(size, 7);
    TT_CHECK_GT(size, -1);
    TT_CHECK_GE(true, 1);
}

TT_TEST(testing_check, a_check_evaluates_its_arguments_once_and_gives_its_outcome)
{
    int n = 0;
    bool held = TT_CHECK_EQ(++n, 1);

    TT_CHECK(held);
    TT_CHECK_EQ(n, 1);
    TT_CHECK_OK(n++ == 1 ? 0 : -1);
    TT_CHECK_EQ(n, 2);
}

TT_TEST(testing_check, near_takes_equal_infinities)
{
    TT_CHECK_NEAR(INFINITY, INFINITY, 0);
    TT_CHECK_NEAR(1.0f, 1.25, 0.25);
    TT_CHECK_NEAR(-0.0, 0.0, 0);
}

TT_TEST(testing_check, strings_bytes_and_pointers_compare)
{
    char text[] = "abc";

    TT_CHECK_STR(text, "abc");
    TT_CHECK_STR(NULL, NULL);
    TT_CHECK_CONTAINS("haystack", "st");
    TT_CHECK_MEM(text, "abd", 2);
    TT_CHECK_PTR(text, &text[0]);
    TT_CHECK_NULL(NULL);
    TT_REQUIRE_NOT_NULL(text);
}

TT_TEST(testing_check, tmpdir_is_the_same_directory_all_through_a_test)
{
    const char *dir = tt_test_tmpdir();
    struct stat st;

    TT_REQUIRE_NOT_NULL(dir);
    TT_REQUIRE_EQ(stat(dir, &st), 0);
    TT_CHECK(S_ISDIR(st.st_mode));
    TT_CHECK_STR(tt_test_tmpdir(), dir);
}

TT_TEST(testing_check, skip_codes_have_reasons)
{
    TT_CHECK_NULL(tt_test_skip_reason(71));
    TT_CHECK_STR(tt_test_skip_reason(TT_TEST_SKIP_4_DEVICES), "needs 4 devices");
    TT_CHECK_STR(tt_test_skip_reason(89), "no accelerator");
    TT_CHECK_NULL(tt_test_skip_reason(90));
}

TT_TEST(testing_check, errors_are_checked_by_code_and_words)
{
    TT_CHECK_OK(TT_OK);
    TT_CHECK_ERR(tt_fail(TT_ERR_IO, "no"), TT_ERR_IO);
    TT_CHECK_ERR_SAYS(tt_fail(TT_ERR_INVALID, "expected %d", 7), TT_ERR_INVALID, "expected 7");
}

static tt_status three_allocations(void *ctx)
{
    int *n_calls = ctx;
    void *p[3];
    bool complete;

    for (int i = 0; i < 3; i++)
        p[i] = tti_malloc(8);
    complete = p[0] != NULL && p[1] != NULL && p[2] != NULL;
    for (int i = 0; i < 3; i++)
        tti_mfree(p[i]);
    ++*n_calls;
    return complete ? TT_OK : TT_ERR_NOMEM;
}

TT_TEST(testing_check, fail_allocs_fails_every_allocation_once)
{
    int n_calls = 0;

    TT_CHECK_EQ(tt_test_fail_allocs(three_allocations, &n_calls), 3);
    TT_CHECK_EQ(n_calls, 4);
}
