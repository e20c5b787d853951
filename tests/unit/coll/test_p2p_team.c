/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a team, beside its collectives: the ranks are threads. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "coll/team.h"
#include "tutti/testing.h"

enum { RANKS = 3, LONG = 500000 };

static pthread_barrier_t meeting;
static unsigned char table[RANKS][4096];

/* Everybody's bytes through one table. */
static tt_status exchange(void *ctx, const char *step, const void *mine, size_t n, void *all)
{
    int rank = *(int *)ctx;

    (void)step;
    TT_REQUIRE_LE(n, sizeof table[0]);
    memcpy(table[rank], mine, n);
    pthread_barrier_wait(&meeting);
    for (int r = 0; r < RANKS; r++)
        memcpy((char *)all + (size_t)r * n, table[r], n);
    pthread_barrier_wait(&meeting);
    return TT_OK;
}

static tt_status end(tti_p2p *op, int *source_p)
{
    tt_status st = tti_p2p_wait(op, tti_deadline(20000));

    if (st == TT_OK)
        st = tti_p2p_result(op, source_p);
    tti_p2p_free(op);
    return st;
}

/* Messages around the ring are under way while everybody meets in a barrier. */
static void around(tti_team *team, int rank)
{
    static unsigned char in[RANKS][LONG], out[RANKS][LONG];
    tti_coll barrier = { .kind = TTI_COLL_BARRIER, .deadline_ns = tti_deadline(20000) };
    tti_p2p_args give = { .send = true, .data = out[rank], .peer = (rank + 1) % RANKS, .tag = 1 };
    tti_p2p_args get = { .data = in[rank], .peer = -1, .tag = 1 };

    for (size_t n = 0; n < LONG; n = n * 9 + 1) {
        tti_p2p *a, *b;
        int source = -1;

        memset(out[rank], rank + 1, n);
        give.bytes = get.bytes = n;
        TT_REQUIRE_OK(tti_p2p_start(team, &get, &a));
        TT_REQUIRE_OK(tti_p2p_start(team, &give, &b));
        TT_CHECK_OK(tti_team_run(team, &barrier));
        TT_CHECK_OK(end(a, &source));
        TT_CHECK_OK(end(b, NULL));
        TT_CHECK_EQ(source, (rank + RANKS - 1) % RANKS);
        for (size_t i = 0; i < n; i++)
            TT_REQUIRE_EQ(in[rank][i], source + 1);
        barrier.seq++;
    }
}

/* The last rank aborts: the others hear of it while they wait for its message. */
static void after_abort(tti_team *team, int rank)
{
    int value = 0;
    tti_p2p_args get = {
        .data = &value, .bytes = sizeof value, .peer = RANKS - 1, .tag = 2, .seq = 5
    };
    tt_error_info e;
    tti_p2p *op;

    if (rank == RANKS - 1)
        get.peer = 0; /* which sends nothing */
    TT_REQUIRE_OK(tti_p2p_start(team, &get, &op));
    if (rank == RANKS - 1) {
        tti_team_abort(team, "on purpose");
        TT_CHECK_ERR_SAYS(end(op, NULL), TT_ERR_ABORTED, "aborted on this rank: on purpose");
        return;
    }
    TT_CHECK_ERR_SAYS(end(op, NULL), TT_ERR_PEER, "group t: recv 5 from rank 12");
    TT_CHECK_CONTAINS(tt_last_error(), "on here) aborted: on purpose");
    TT_REQUIRE(tt_last_error_info(&e));
    TT_CHECK_EQ(e.kind, TT_ERROR_ABORTED);
    TT_CHECK_STR(e.operation, "recv");
    TT_CHECK_EQ(e.number, 5);
    TT_CHECK_EQ(e.ranks[0], 12); /* the global rank */
    TT_CHECK_STR(e.host, "here");
    TT_CHECK_STR(e.cause, "on purpose");
}

static void *rank_main(void *ctx)
{
    int rank = *(int *)ctx;
    tti_member members[RANKS];
    tti_team_args args = { .rank = rank,
                           .size = RANKS,
                           .group = "t",
                           .members = members,
                           .same_process = true,
                           .timeout_ms = 20000,
                           .exchange = exchange,
                           .ctx = ctx };
    tti_team *team = NULL;

    for (int r = 0; r < RANKS; r++)
        members[r] = (tti_member){ .global_rank = 10 + r, .pid = (int)getpid(), .host = "here" };
    TT_REQUIRE_OK(tti_team_open(&args, &team));
    around(team, rank);
    after_abort(team, rank);
    pthread_barrier_wait(&meeting);
    tti_team_close(team);
    return NULL;
}

TT_TEST(p2p_team, messages_beside_collectives)
{
    pthread_t threads[RANKS];
    int ranks[RANKS];

    TT_REQUIRE_EQ(pthread_barrier_init(&meeting, NULL, RANKS), 0);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = r;
        TT_REQUIRE_EQ(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&meeting);
}
