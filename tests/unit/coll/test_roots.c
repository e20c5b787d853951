/* SPDX-License-Identifier: Apache-2.0 */
/* Roots that run ahead of the others, and what happens when several ranks take themselves for the root. */
#include "unit/coll/world.h"

/* Everybody takes itself for the root, so that nobody waits: noticed by whatever comes next. */
static void all_are_roots(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    char data[8] = { 0 };
    tti_coll c = { .kind = TTI_COLL_BROADCAST,
                   .out = { data, 8 },
                   .root = rank,
                   .deadline_ns = soon(),
                   .seq = 3 };
    tt_status st = tti_team_run(team, &c);

    for (int i = 0; i < 20 && st == TT_OK; i++) {
        c.seq++;
        if (i >= *(const int *)ctx) {
            c.kind = TTI_COLL_BARRIER;
            c.root = 0;
        }
        st = tti_team_run(team, &c);
    }
    TT_CHECK_EQ(st, TT_ERR_INVALID);
    /* Which two of them are named depends on who is behind. */
    TT_CHECK_CONTAINS(tt_last_error(), "ranks called different things");
    TT_CHECK_CONTAINS(tt_last_error(), "broadcast (float32, 8 bytes, root");
    tti_team_close(team);
}

TT_TEST(coll_trouble, notices_several_roots)
{
    for (int more = 0; more < 20; more += 3) {
        world_run(2, NULL, all_are_roots, &more);
        world_run(3, &(world_options){ .threads = true }, all_are_roots, &more);
    }
}
