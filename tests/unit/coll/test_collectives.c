/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective against a plain computation, over processes and threads. */
#include "deeds.h"

#include <stdlib.h>
#include <string.h>

/* All types and operations on a few elements, all kinds over the borders between the ways to do them. */
static void all_types(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    for (int dtype = 0; dtype < TT_N_DTYPES; dtype++)
        for (int op = 0; op < TTI_N_REDUCE_OPS; op++) {
            deed d = { .kind = TTI_COLL_ALL_REDUCE,
                       .dtype = (tt_dtype)dtype,
                       .op = (tt_reduce_op)op,
                       .count = 77,
                       .seed = 5 };

            if (tti_reduce_pick(d.dtype, d.op) == NULL)
                continue;
            deed_do(team, rank, world_size(w), &d);
            d.kind = TTI_COLL_REDUCE_SCATTER;
            d.count = 3000;
            deed_do(team, rank, world_size(w), &d);
        }
    tti_team_close(team);
}

static const size_t counts[] = {
    0, 1, 2, 1016, 1017, 2032, 2033, 30000, 131072, 131073, FEWER(400001, 140000)
};

static void all_kinds(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    int size = world_size(w);

    (void)ctx;
    for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            deed d = { .kind = (tti_coll_kind)kind,
                       .dtype = TT_F32,
                       .count = counts[i],
                       .root = (int)i % size,
                       .seed = i };

            deed_do(team, rank, size, &d);
            d.in_place = true;
            deed_do(team, rank, size, &d);
            d.in_place = false;
            d.heap = true;
            deed_do(team, rank, size, &d);
            d.heap = false;
            d.uneven = kind == TTI_COLL_ALL_GATHER || kind == TTI_COLL_GATHER ||
                       kind == TTI_COLL_ALL_TO_ALL;
            deed_do(team, rank, size, &d);
        }
    tti_team_close(team);
}

static void random_sequence(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    uint64_t state = *(const uint64_t *)ctx;
    int n = tt_test_failures() == 0 ? FEWER(150, 40) : 0;

    for (int i = 0; i < n; i++) {
        deed d = deed_random(&state, world_size(w), 40000);

        deed_do(team, rank, world_size(w), &d);
    }
    tti_team_close(team);
}

/* The ways that are chosen by size and memory: 0 plain, 1 without copies through the kernel, 2 small windows. */
static void in_every_way(rank_fn fn, void *ctx, int most)
{
    for (int size = 1; size <= most; size++)
        for (int way = 0; way < 4; way++) {
            world_options opt = { .threads = way == 3,
                                  .no_cma = way == 1,
                                  .staging_bytes = way == 2 ? 1 : 0 };

            if (size > 4 && way != size % 4)
                continue; /* enough of each */
            world_run(size, &opt, fn, ctx);
        }
}

TT_TEST_LIMIT(coll, reduces_every_type_by_every_operation, 120)
{
    in_every_way(all_types, NULL, FEWER(5, 3));
}

TT_TEST_LIMIT(coll, moves_every_kind_over_every_border, 240)
{
    in_every_way(all_kinds, NULL, FEWER(5, 3));
}

TT_TEST_LIMIT(coll, keeps_random_sequences_apart, 240)
{
    uint64_t seed = tt_test_seed();

    in_every_way(random_sequence, &seed, FEWER(8, 4));
}
