/* SPDX-License-Identifier: Apache-2.0 */
/* The distributed sampler on ranks that are processes: everybody gets the same number of samples. */
#include <stdlib.h>

#include "tutti/data.h"
#include "world/distributed.h"

/* Every index is there as often as the plan says, over all ranks: once, and some again to fill up. */
static void check_shares(const dist_group *g, int64_t n, const int64_t *mine, int64_t each,
                         bool dropped)
{
    TT_SCOPE {
        tt_tensor *own = tt_from_data(mine, TT_SHAPE(each), TT_I64);
        tt_tensor *all = tt_empty(TT_SHAPE(g->n * each), TT_I64, TT_CPU);
        int64_t *uses = calloc((size_t)n, sizeof *uses), *p = tt_tensor_data(all);
        int64_t most = 0, least = INT64_MAX;

        TT_REQUIRE_OK(tt_pg_all_gather_into(g->pg, own, all, NULL, NULL));
        for (int64_t i = 0; i < g->n * each; i++) {
            TT_REQUIRE(p[i] >= 0 && p[i] < n);
            uses[p[i]]++;
        }
        for (int64_t i = 0; i < n; i++) {
            most = uses[i] > most ? uses[i] : most;
            least = uses[i] < least ? uses[i] : least;
        }
        TT_CHECK_LE(most - least, 1);
        TT_CHECK_EQ(most, dropped ? 1 : (g->n * each + n - 1) / n);
        free(uses);
    }
}

static void check_padding(const dist_group *g, int64_t n, bool drop_last, int64_t each)
{
    tt_sampler *s = tt_distributed_sampler_new(
        n, g->me, g->n, &(tt_distributed_sampler_options){ .seed = 11, .drop_last = drop_last });
    int64_t *mine = calloc((size_t)each, sizeof *mine);

    TT_REQUIRE_NOT_NULL(s);
    TT_REQUIRE_EQ(tt_sampler_length(s), each);
    TT_REQUIRE_OK(tt_sampler_order(s, 3, mine));
    TT_SCOPE {
        tt_tensor *count = tt_full(TT_SHAPE(1), (double)each, TT_I64, TT_CPU);

        TT_REQUIRE_OK(tt_pg_all_reduce(g->pg, count, NULL, NULL));
        TT_CHECK_EQ(tt_item_int(count), g->n * each);
    }
    check_shares(g, n, mine, each, drop_last);
    free(mine);
    tt_sampler_free(s);
}

static void padding(const dist_group *g, const void *arg)
{
    int64_t w = g->n, n = 100 + w + 1, tiny = w / 2 - 1 > 1 ? w / 2 - 1 : 1;

    (void)arg;
    check_padding(g, n, true, n % w != 0 ? (n - w + w - 1) / w : n / w);
    check_padding(g, n, false, (n + w - 1) / w);
    check_padding(g, tiny, false, (tiny + w - 1) / w);
}

static const dist_row rows[] = {
    { "test_DistributedSampler_padding", padding, DIST_WORLD, NULL, 0 },
};

TT_TEST_TABLE(distributed)
{
    DIST_ADD_ROWS_TWICE(rows);
}
