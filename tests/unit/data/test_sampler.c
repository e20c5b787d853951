/* SPDX-License-Identifier: Apache-2.0 */
/* Samplers: orders, their repeatability, and how ranks share an epoch. */
#include <stdlib.h>
#include <string.h>

#include "tutti/data.h"
#include "tutti/testing.h"

static int64_t *order_of(tt_sampler *s, uint64_t epoch)
{
    int64_t *a = calloc((size_t)tt_sampler_length(s) + 1, sizeof *a);

    TT_REQUIRE_NOT_NULL(a);
    a[tt_sampler_length(s)] = -7; /* nothing may be written here */
    TT_REQUIRE_OK(tt_sampler_order(s, epoch, a));
    TT_CHECK_EQ(a[tt_sampler_length(s)], -7);
    return a;
}

/* How many of 0 .. n - 1 occur in a. */
static int64_t distinct(const int64_t *a, int64_t many, int64_t n)
{
    char *seen = calloc((size_t)n + 1, 1);
    int64_t count = 0;

    for (int64_t i = 0; i < many; i++) {
        TT_CHECK(a[i] >= 0 && a[i] < n);
        count += !seen[a[i]];
        seen[a[i]] = 1;
    }
    free(seen);
    return count;
}

TT_TEST(data, sequential_sampler_counts)
{
    tt_sampler *s = tt_sequential_sampler_new(5);
    int64_t *a = order_of(s, 3);

    for (int i = 0; i < 5; i++)
        TT_CHECK_EQ(a[i], i);
    free(a);
    tt_sampler_free(s);
}

TT_TEST(data, random_sampler_permutes_anew_each_epoch)
{
    tt_sampler *s = tt_random_sampler_new(1000, &(tt_random_sampler_options){ .seed = 5 });
    tt_sampler *other = tt_random_sampler_new(1000, &(tt_random_sampler_options){ .seed = 6 });
    int64_t *a = order_of(s, 0), *b = order_of(s, 1), *again = order_of(s, 0);
    int64_t *c = order_of(other, 0);
    int fixed = 0;

    TT_CHECK_EQ(distinct(a, 1000, 1000), 1000);
    TT_CHECK_EQ(distinct(b, 1000, 1000), 1000);
    TT_CHECK_MEM(a, again, 1000 * sizeof *a);
    TT_CHECK_NE(memcmp(a, b, 1000 * sizeof *a), 0);
    TT_CHECK_NE(memcmp(a, c, 1000 * sizeof *a), 0);
    for (int i = 0; i < 1000; i++)
        fixed += a[i] == i;
    TT_CHECK_LT(fixed, 10);
    free(a);
    free(b);
    free(c);
    free(again);
    tt_sampler_free(s);
    tt_sampler_free(other);
}

/* Each of the 24 orders of four items about as often as the others. */
TT_TEST(data, random_sampler_has_no_favourites)
{
    tt_sampler *s = tt_random_sampler_new(4, NULL);
    int counts[256] = { 0 }, orders = 0;

    for (uint64_t epoch = 0; epoch < 24000; epoch++) {
        int64_t a[4];

        TT_REQUIRE_OK(tt_sampler_order(s, epoch, a));
        counts[a[0] * 64 + a[1] * 16 + a[2] * 4 + a[3]]++;
    }
    for (int i = 0; i < 256; i++) {
        orders += counts[i] > 0;
        TT_CHECK(counts[i] == 0 || (counts[i] > 800 && counts[i] < 1200));
    }
    TT_CHECK_EQ(orders, 24);
    tt_sampler_free(s);
}

TT_TEST(data, random_sampler_draws_with_replacement_or_a_part)
{
    tt_sampler *s = tt_random_sampler_new(
        10, &(tt_random_sampler_options){ .replacement = true, .n_samples = 1000 });
    tt_sampler *part = tt_random_sampler_new(10, &(tt_random_sampler_options){ .n_samples = 4 });
    int64_t *a = order_of(s, 0), *b = order_of(part, 0);

    TT_CHECK_EQ(tt_sampler_length(s), 1000);
    TT_CHECK_EQ(distinct(a, 1000, 10), 10);
    TT_CHECK_EQ(distinct(b, 4, 10), 4);
    TT_CHECK_NULL(tt_random_sampler_new(3, &(tt_random_sampler_options){ .n_samples = 4 }));
    TT_CHECK_CONTAINS(tt_last_error(), "at most 3");
    free(a);
    free(b);
    tt_sampler_free(s);
    tt_sampler_free(part);
}

/* ---- ranks --------------------------------------------------------------------------------------- */

/* All ranks of a world of `size` in turn; gives how many indices each has, after checking that they
 * agree, and how many different ones there are in all. */
static int64_t each_rank(int64_t n, int size, bool drop_last, bool in_order, int64_t *distinct_p)
{
    tt_distributed_sampler_options o = { .seed = 9, .drop_last = drop_last, .in_order = in_order };
    int64_t per_rank = -1, *all = NULL;

    for (int rank = 0; rank < size; rank++) {
        tt_sampler *s = tt_distributed_sampler_new(n, rank, size, &o);
        int64_t *a;

        TT_REQUIRE_NOT_NULL(s);
        if (rank == 0) {
            per_rank = tt_sampler_length(s);
            all = calloc((size_t)(per_rank * size) + 1, sizeof *all);
        }
        TT_REQUIRE_EQ(tt_sampler_length(s), per_rank);
        a = order_of(s, 2);
        for (int64_t i = 0; i < per_rank; i++)
            all[i * size + rank] = a[i];
        free(a);
        tt_sampler_free(s);
    }
    *distinct_p = distinct(all, per_rank * size, n);
    /* Filled up from the beginning of the order. */
    for (int64_t i = n; i < per_rank * size; i++)
        TT_CHECK_EQ(all[i], all[i - n]);
    free(all);
    return per_rank;
}

TT_TEST(data, distributed_sampler_pads_or_cuts)
{
    for (int w = 1; w <= 9; w++) {
        for (int in_order = 0; in_order < 2; in_order++) {
            int64_t n = 100 + w + 1, tiny = w / 2 - 1 > 1 ? w / 2 - 1 : 1, seen;
            int64_t cut = n % w != 0 ? (n - w + w - 1) / w : n / w;

            TT_CHECK_EQ(each_rank(n, w, true, in_order, &seen), cut);
            TT_CHECK_EQ(seen, cut * w);
            TT_CHECK_EQ(each_rank(n, w, false, in_order, &seen), (n + w - 1) / w);
            TT_CHECK_EQ(seen, n);
            TT_CHECK_EQ(each_rank(tiny, w, false, in_order, &seen), (tiny + w - 1) / w);
            TT_CHECK_EQ(seen, tiny);
        }
    }
}

TT_TEST(data, distributed_sampler_refuses_ranks_outside_the_world)
{
    TT_CHECK_NULL(tt_distributed_sampler_new(10, 2, 2, NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "0 <= rank < size, got 2 and 2");
    TT_CHECK_NULL(tt_distributed_sampler_new(10, 0, 0, NULL));
}

/* Three ranks take two each, then two others finish the epoch: everything once, in the same order. */
TT_TEST(data, distributed_sampler_goes_on_with_other_ranks)
{
    int64_t order[10], n = 0;
    tt_sampler *s =
        tt_distributed_sampler_new(10, 0, 1, &(tt_distributed_sampler_options){ .seed = 3 });
    int64_t *whole = order_of(s, 5);

    tt_sampler_free(s);
    for (int64_t i = 0; i < 2; i++)
        for (int rank = 0; rank < 3; rank++) {
            int64_t *a;

            s = tt_distributed_sampler_new(10, rank, 3,
                                           &(tt_distributed_sampler_options){ .seed = 3 });
            a = order_of(s, 5);
            order[n++] = a[i];
            free(a);
            tt_sampler_free(s);
        }
    for (int64_t i = 0; i < 2; i++)
        for (int rank = 0; rank < 2; rank++) {
            int64_t *a;

            s = tt_distributed_sampler_new(
                10, rank, 2, &(tt_distributed_sampler_options){ .seed = 3, .start = 6 });
            TT_REQUIRE_EQ(tt_sampler_length(s), 2);
            a = order_of(s, 5);
            order[n++] = a[i];
            free(a);
            tt_sampler_free(s);
        }
    TT_CHECK_MEM(order, whole, sizeof order);
    free(whole);
}

TT_TEST(data, distributed_sampler_starts_within_the_data)
{
    tt_distributed_sampler_options o = { .in_order = true, .start = 8 };
    tt_sampler *s = tt_distributed_sampler_new(10, 2, 3, &o);
    int64_t *a = order_of(s, 0);

    TT_CHECK_EQ(tt_sampler_length(s), 1);
    TT_CHECK_EQ(a[0], 8); /* filled up from where it began */
    free(a);
    tt_sampler_free(s);
    o.start = 10;
    s = tt_distributed_sampler_new(10, 0, 3, &o);
    TT_CHECK_EQ(tt_sampler_length(s), 0);
    tt_sampler_free(s);
    o.start = 11;
    TT_CHECK_NULL(tt_distributed_sampler_new(10, 0, 3, &o));
    TT_CHECK_CONTAINS(tt_last_error(), "0 <= start <= 10, got 11");
    o.start = -1;
    TT_CHECK_NULL(tt_distributed_sampler_new(10, 0, 3, &o));
}

TT_TEST(data, batch_sampler_groups_indices)
{
    tt_sampler *s = tt_sequential_sampler_new(10);
    tt_batch_sampler *all = tt_batch_sampler_new(s, 4, false);
    tt_batch_sampler *whole = tt_batch_sampler_new(s, 4, true);
    const int64_t *indices;
    int64_t n;

    tt_sampler_free(s);
    TT_CHECK_EQ(tt_batch_sampler_length(all), 3);
    TT_CHECK_EQ(tt_batch_sampler_length(whole), 2);
    TT_REQUIRE_OK(tt_batch_sampler_get(all, 0, 2, &indices, &n));
    TT_CHECK_EQ(n, 2);
    TT_CHECK_EQ(indices[1], 9);
    TT_REQUIRE_OK(tt_batch_sampler_get(whole, 0, 1, &indices, &n));
    TT_CHECK_EQ(n, 4);
    TT_CHECK_EQ(indices[0], 4);
    TT_CHECK_ERR_SAYS(tt_batch_sampler_get(whole, 0, 2, &indices, &n), TT_ERR_INVALID, "below 2");
    tt_batch_sampler_free(all);
    tt_batch_sampler_free(whole);
}
