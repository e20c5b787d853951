/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the library: failing on purpose, growing vectors and texts, small blocks; and the settings
 * and random blocks that need no tensor. */
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/philox.h"
#include "base/settings.h"
#include "base/small.h"
#include "base/text.h"
#include "tutti/testing.h"

TT_TEST(mem, the_nth_allocation_fails_once)
{
    void *p[4];

    tt_debug_fail_alloc(3);
    for (int i = 0; i < 4; i++)
        p[i] = tti_malloc(10);
    TT_CHECK_EQ(tt_debug_fail_alloc(0), 5); /* the thread's record of failures is one of them */
    TT_CHECK_EQ(tt_debug_fail_alloc(0), 0);
    TT_CHECK(p[0] != NULL && p[1] != NULL && p[2] == NULL && p[3] != NULL);
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_STR(tt_last_error(), "out of memory: 10 bytes wanted");
    for (int i = 0; i < 4; i++)
        tti_mfree(p[i]);
}

TT_TEST(mem, every_function_is_counted_and_can_fail)
{
    char *s, *t = tti_malloc(4);
    unsigned char *z;

    TT_REQUIRE_NOT_NULL(t);
    memcpy(t, "abc", 4);
    tt_debug_fail_alloc(1);
    TT_CHECK_NULL(tti_calloc(2, 8));
    TT_CHECK_CONTAINS(tt_last_error(), "16 bytes");
    tt_debug_fail_alloc(1);
    TT_CHECK_NULL(tti_realloc(t, 1000));
    TT_CHECK_STR(t, "abc"); /* untouched */
    tt_debug_fail_alloc(1);
    TT_CHECK_NULL(tti_strdup(t));
    tt_debug_fail_alloc(1);
    TT_CHECK_NULL(tti_small_alloc(24));
    tt_debug_fail_alloc(0);

    s = tti_strdup(t);
    z = tti_calloc(3, 5);
    t = tti_realloc(t, 1000);
    TT_CHECK_EQ(tt_debug_fail_alloc(0), 3);
    TT_CHECK_STR(s, "abc");
    TT_CHECK_STR(t, "abc");
    for (int i = 0; i < 15; i++)
        TT_CHECK_EQ(z[i], 0);
    tti_mfree(s);
    tti_mfree(t);
    tti_mfree(z);
}

TT_TEST(mem, nothing_and_too_much)
{
    void *p = tti_malloc(0), *q = tti_calloc(0, 8);

    TT_CHECK_NOT_NULL(p);
    TT_CHECK_NOT_NULL(q);
    TT_CHECK_NULL(tti_calloc(SIZE_MAX / 2, 4));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    tti_mfree(p);
    tti_mfree(q);
    tti_mfree(NULL);
}

TT_TEST(mem, vectors_grow_and_keep_their_items)
{
    int64_t *items = NULL;
    size_t cap = 0, before;

    for (size_t n = 0; n < 1000; n++) {
        TT_REQUIRE_OK(tti_vec_reserve((void **)&items, &cap, n + 1, sizeof *items));
        TT_REQUIRE_GE(cap, n + 1);
        items[n] = (int64_t)n * 3;
    }
    for (size_t n = 0; n < 1000; n++)
        TT_CHECK_EQ(items[n], (int64_t)n * 3);
    before = cap;
    tt_debug_fail_alloc(1);
    TT_CHECK_OK(tti_vec_reserve((void **)&items, &cap, cap, sizeof *items)); /* fits: no call */
    TT_CHECK_ERR(tti_vec_reserve((void **)&items, &cap, cap + 1, sizeof *items), TT_ERR_NOMEM);
    tt_debug_fail_alloc(0);
    TT_CHECK_EQ(cap, before);
    TT_CHECK_EQ(items[999], 2997);
    TT_CHECK_ERR(tti_vec_reserve((void **)&items, &cap, SIZE_MAX / 4, sizeof *items), TT_ERR_NOMEM);
    TT_CHECK_ERR(tti_vec_reserve((void **)&items, &cap, SIZE_MAX, sizeof *items), TT_ERR_NOMEM);
    TT_CHECK_EQ(cap, before);
    TT_CHECK_EQ(items[0], 0);
    tti_mfree(items);
}

/* ---- texts --------------------------------------------------------------------------------- */

TT_TEST(text, grows_is_cut_and_handed_over)
{
    tti_text t = { 0 };
    char *words;

    TT_CHECK_STR(tti_text_str(&t), "");
    tti_text_cut(&t, 0);
    tti_text_add(&t, "a");
    tti_text_addf(&t, "%d-%s", 12, "b");
    tti_text_add(&t, "");
    TT_CHECK_STR(tti_text_str(&t), "a12-b");
    TT_CHECK_EQ(t.n, 5);
    tti_text_cut(&t, 9); /* longer than it is: no change */
    TT_CHECK_EQ(t.n, 5);
    tti_text_cut(&t, 2);
    TT_CHECK_STR(tti_text_str(&t), "a1");
    for (int i = 0; i < 500; i++)
        tti_text_addf(&t, "%03d", i);
    TT_CHECK_EQ(t.n, 1502);
    words = tti_text_take(&t);
    TT_REQUIRE_NOT_NULL(words);
    TT_CHECK_EQ(strlen(words), 1502);
    TT_CHECK_STR(words + 1499, "499");
    TT_CHECK(strncmp(words, "a1000001002", 11) == 0);
    TT_CHECK_NULL(t.data);
    tti_mfree(words);
    words = tti_text_take(&t); /* of an empty text: "" */
    TT_CHECK_STR(words, "");
    tti_mfree(words);
}

TT_TEST(text, remembers_that_it_could_not_grow)
{
    tti_text t = { 0 };

    tti_text_add(&t, "kept");
    tt_debug_fail_alloc(1);
    tti_text_add(&t, "this one is too long for the room that there is");
    tt_debug_fail_alloc(0);
    TT_CHECK_EQ(t.status, TT_ERR_NOMEM);
    tti_text_add(&t, "x");
    tti_text_addf(&t, "%d", 1);
    TT_CHECK_STR(tti_text_str(&t), "kept");
    TT_CHECK_NULL(tti_text_take(&t));
    TT_CHECK_NULL(t.data);
}

/* ---- small blocks ----------------------------------------------------------------------------- */

TT_TEST(small, blocks_of_all_sizes_are_whole_and_apart)
{
    unsigned char *blocks[200];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            size_t bytes = (size_t)i * 7; /* beyond the largest class, too */

            blocks[i] = tti_small_alloc(bytes);
            TT_REQUIRE_NOT_NULL(blocks[i]);
            TT_CHECK_EQ((uintptr_t)blocks[i] % 16, 0);
            memset(blocks[i], i + 1, bytes);
        }
        for (int i = 0; i < 200; i++)
            for (int k = 0; k < i * 7; k++)
                if (blocks[i][k] != (unsigned char)(i + 1))
                    TT_FAIL_TEST("block %d was overwritten at %d", i, k);
        for (int i = 0; i < 200; i++)
            tti_small_free(blocks[i], (size_t)i * 7);
    }
    tti_small_free(NULL, 64);
}

TT_TEST(small, more_than_are_kept)
{
    static void *blocks[1000];

    for (int i = 0; i < 1000; i++) {
        blocks[i] = tti_small_alloc(100);
        TT_REQUIRE_NOT_NULL(blocks[i]);
    }
    for (int i = 0; i < 1000; i++)
        tti_small_free(blocks[i], 100);
}

typedef struct relay {
    pthread_barrier_t turn;
    unsigned char *blocks[2][300];
} relay;

typedef struct runner {
    relay *r;
    int number;
} runner;

/* Each fills blocks and frees those of the other. */
static void *run_relay(void *ctx)
{
    const runner *me = ctx;
    relay *r = me->r;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 300; i++) {
            r->blocks[me->number][i] = tti_small_alloc((size_t)(i % 9) * 60 + 1);
            memset(r->blocks[me->number][i], me->number * 100 + i % 100, (size_t)(i % 9) * 60 + 1);
        }
        pthread_barrier_wait(&r->turn);
        for (int i = 0; i < 300; i++) {
            unsigned char *b = r->blocks[1 - me->number][i];

            if (b[(i % 9) * 60] != (1 - me->number) * 100 + i % 100)
                TT_FAIL_TEST("round %d: block %d was overwritten", round, i);
            tti_small_free(b, (size_t)(i % 9) * 60 + 1);
        }
        pthread_barrier_wait(&r->turn);
    }
    return NULL;
}

TT_TEST(small, blocks_are_freed_by_another_thread)
{
    static relay r;
    runner runners[2] = { { &r, 0 }, { &r, 1 } };
    pthread_t threads[2];

    TT_REQUIRE_EQ(pthread_barrier_init(&r.turn, NULL, 2), 0);
    for (int i = 0; i < 2; i++)
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, run_relay, &runners[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&r.turn);
}

/* ---- settings and random blocks ------------------------------------------------------------------ */

TT_TEST(settings, threads_in_range_only)
{
    TT_CHECK_GE(tt_get_num_threads(), 1);
    TT_CHECK_OK(tt_set_num_threads(3));
    TT_CHECK_EQ(tt_get_num_threads(), 3);
    TT_CHECK_EQ(omp_get_max_threads(), omp_get_thread_limit() < 3 ? omp_get_thread_limit() : 3);
    TT_CHECK_ERR_SAYS(tt_set_num_threads(0), TT_ERR_INVALID, "expected 1 to 1024, got 0");
    TT_CHECK_ERR(tt_set_num_threads(-2), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_set_num_threads(1025), TT_ERR_INVALID);
    TT_CHECK_EQ(tt_get_num_threads(), 3);

    TT_CHECK_EQ(tti_threads_for(0, 100), 1);
    TT_CHECK_EQ(tti_threads_for(199, 100), 1);
    TT_CHECK_EQ(tti_threads_for(200, 100), 2);
    TT_CHECK_EQ(tti_threads_for(100000, 100), 3);
    TT_CHECK_OK(tt_set_num_threads(1));
    TT_CHECK_EQ(tti_threads_for(100000, 100), 1);
}

TT_TEST(settings, deterministic_is_off_until_asked_for)
{
    TT_CHECK(!tt_is_deterministic());
    tt_set_deterministic(true);
    TT_CHECK(tt_is_deterministic());
    tt_set_deterministic(false);
    TT_CHECK(!tt_is_deterministic());
}

static void check_block(uint64_t key, uint64_t lo, uint64_t hi, const uint32_t *want)
{
    tti_philox_block b = tti_philox(key, lo, hi);

    TT_CHECK_MEM(b.w, want, sizeof b.w);
}

/* The known answers published with the generator. */
TT_TEST(philox, known_answers)
{
    check_block(0, 0, 0, (const uint32_t[]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 });
    check_block(UINT64_MAX, UINT64_MAX, UINT64_MAX,
                (const uint32_t[]){ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd });
    check_block(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e,
                (const uint32_t[]){ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 });
}

TT_TEST(philox, units_stay_below_one)
{
    TT_CHECK_NEAR(tti_unit_float(0), 0, 0);
    TT_CHECK_NEAR(tti_unit_float(255), 0, 0);
    TT_CHECK_NEAR(tti_unit_float(256), 0x1p-24, 0);
    TT_CHECK(tti_unit_float(UINT32_MAX) < 1.0f);
    TT_CHECK_NEAR(tti_unit_float(UINT32_MAX), 1 - 0x1p-24, 0);
    TT_CHECK_NEAR(tti_unit_double(0, 2047), 0, 0);
    TT_CHECK_NEAR(tti_unit_double(0, 2048), 0x1p-53, 0);
    TT_CHECK(tti_unit_double(UINT32_MAX, UINT32_MAX) < 1.0);
    TT_CHECK_NEAR(tti_unit_double(0x80000000u, 0), 0.5, 0);
}
