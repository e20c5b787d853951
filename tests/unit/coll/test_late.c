/* SPDX-License-Identifier: Apache-2.0 */
/* A rank dies while another one is late: those who wait for the late one hear of the death at once. Ranks that have done
 * their part may end without failing the others. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "coll/internal.h"
#include "deeds.h"

enum { TOLD = 0, ARRIVED = 1, DONE = 2 }; /* words of the world */

static const size_t counts[] = { 3, 3000, 300000 };

typedef struct late_plan {
    tti_coll_kind kind;
    size_t count;
    bool heap;
} late_plan;

static tt_status operate(tti_team *team, int rank, int size, const late_plan *p, int root)
{
    deed d = { .kind = p->kind,
               .dtype = TT_F32,
               .root = root,
               .count = p->count,
               .heap = p->heap,
               .seed = p->count };
    tt_status st = deed_try(team, rank, size, &d);

    if (st != TT_OK) /* some need nobody, or not everybody; a barrier does */
        return st;
    return tti_team_run(team, &(tti_coll){ .kind = TTI_COLL_BARRIER, .deadline_ns = soon() });
}

static void check_told(tt_status st, const char *who)
{
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), who);
    TT_CHECK_CONTAINS(tt_last_error(), "on here) died: ");
}

/* ---- late ranks and dead ranks ----------------------------------------------------------------- */

/* Rank 3 dies before the operation. Rank 0, which all others wait for first, comes when they have been told. */
static void one_late_one_dead(world *w, int rank, void *ctx)
{
    const late_plan *p = ctx;
    int size = world_size(w);
    tti_team *team = world_team(w, rank);

    if (rank == 3)
        kill(getpid(), SIGKILL);
    if (rank == 0)
        world_await(w, TOLD, (uint64_t)size - 2);
    check_told(operate(team, rank, size, p, p->count % 2 == 0 ? 0 : 1), "rank 3 (pid");
    atomic_fetch_add(&world_words(w)[TOLD], 1);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_late, a_death_is_told_while_another_rank_is_late, 180)
{
    for (int kind = 0; kind < TTI_COLL_FINGERPRINT; kind++)
        for (int i = 0; i < 3; i++)
            for (int heap = 0; heap <= (i == 2); heap++) {
                late_plan p = { (tti_coll_kind)kind, counts[i], heap != 0 };

                world_run(4, &(world_options){ .may_die = true, .no_cma = kind % 2 != 0 },
                          one_late_one_dead, &p);
            }
}

/* Ends the process once its rank has arrived in the operation after `n`. */
typedef struct arrival_watch {
    tti_team *team;
    uint64_t n;
} arrival_watch;

static void *die_on_arrival(void *ctx)
{
    const arrival_watch *a = ctx;
    _Atomic uint64_t *word = &tti_slot_of(a->team, a->team->rank, a->n)->word;

    while (!tti_has_begun(atomic_load(word), a->n))
        ;
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Rank 2 arrives and dies before it has done its part; rank 0 is late. */
static void dies_after_arrival(world *w, int rank, void *ctx)
{
    const late_plan *p = ctx;
    tti_team *team = world_team(w, rank);
    arrival_watch a = { team, 1 };
    pthread_t thread;

    if (rank == 2)
        TT_REQUIRE_EQ(pthread_create(&thread, NULL, die_on_arrival, &a), 0);
    if (rank == 0)
        world_await(w, TOLD, 1);
    check_told(operate(team, rank, 3, p, 0), "rank 2 (pid");
    atomic_fetch_add(&world_words(w)[TOLD], 1);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_late, a_death_after_arrival_is_told_too, 120)
{
    static const tti_coll_kind kinds[] = { TTI_COLL_ALL_REDUCE, TTI_COLL_ALL_GATHER,
                                           TTI_COLL_REDUCE_SCATTER, TTI_COLL_ALL_TO_ALL };

    for (int i = 0; i < 4; i++)
        for (int no_cma = 0; no_cma < 2; no_cma++) {
            late_plan p = { kinds[i], 300000, false };

            world_run(3, &(world_options){ .may_die = true, .no_cma = no_cma != 0 },
                      dies_after_arrival, &p);
        }
}

/* ---- ranks that did their part --------------------------------------------------------------------- */

static bool is_dead(tti_team *team, int rank)
{
    int dead[WORLD_MAX], n = tti_team_dead(team, dead);

    for (int i = 0; i < n; i++)
        if (dead[i] == rank)
            return true;
    return false;
}

/* Rank 2 does its part and ends without a word. Rank 1 comes only then, and rank 0 gets its result. */
static void ends_when_done(world *w, int rank, void *ctx)
{
    const late_plan *p = ctx;
    tti_team *team = world_team(w, rank);
    int64_t limit = soon();
    deed d = { .kind = p->kind, .dtype = TT_F32, .count = p->count, .seed = 9 };

    while (rank == 1 && !is_dead(team, 2) && tti_now_ns() < limit)
        ;
    deed_do(team, rank, 3, &d);
    if (rank == 2)
        _exit(tt_test_failures() != 0);
    atomic_fetch_add(&world_words(w)[DONE], 1);
    world_await(w, DONE, 2); /* rank 0 must not see that rank 1 left */
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_late, a_rank_that_did_its_part_may_end, 60)
{
    static const late_plan plans[] = { { TTI_COLL_REDUCE, 3, false },
                                       { TTI_COLL_GATHER, 3, false } };

    for (int i = 0; i < 2; i++)
        for (int no_cma = 0; no_cma < 2; no_cma++) {
            late_plan p = plans[i];

            world_run(3, &(world_options){ .no_cma = no_cma != 0 }, ends_when_done, &p);
        }
}

/* ---- ranks that wait elsewhere ---------------------------------------------------------------------- */

static tt_status message(tti_team *team, bool send, int peer, float *x, int limit_ms)
{
    tti_p2p_args args = { .send = send, .data = x, .bytes = sizeof *x, .peer = peer, .tag = 3 };
    tti_p2p *op;
    tt_status st;

    TT_REQUIRE_OK(tti_p2p_start(team, &args, &op));
    st = tti_p2p_wait(op, tti_deadline(limit_ms));
    tti_p2p_free(op);
    return st;
}

/* Rank 2 is dead, and rank 1 waits for rank 0 in a group of survivors. A receive of another team is told so. When rank 0 has
 * come to that group, messages of that team go through, though rank 1 has not left it yet. */
static void waits_elsewhere(world *w, int rank, void *ctx)
{
    static const int survivors[] = { 0, 1 };
    tti_team *broken = world_team(w, rank), *other = world_team(w, rank);
    float x = 7;

    (void)ctx;
    if (rank == 2)
        kill(getpid(), SIGKILL);
    for (int64_t limit = soon(); !is_dead(broken, 2);)
        TT_REQUIRE_LT(tti_now_ns(), limit);
    if (rank == 1) {
        tti_team_replace(broken, survivors, 2, 9);
        world_await(w, TOLD, 1);
        TT_CHECK_OK(message(other, true, 0, &x, 20000));
        world_await(w, DONE, 1);
    } else {
        x = 0;
        TT_CHECK_ERR_SAYS(message(other, false, 1, &x, 20000), TT_ERR_PEER,
                          "rank 2 died, and rank 1");
        TT_CHECK_CONTAINS(tt_last_error(), "waits for rank 0 in a group without it");
        TT_CHECK_ERR_SAYS(tti_teams_check_awaited("new", 8), TT_ERR_PEER, "group new: rank 2 died");
        TT_CHECK_OK(tti_teams_check_awaited("new", 9));
        tti_team_replace(broken, survivors, 2, 9);
        TT_CHECK_OK(tti_teams_check_awaited("new", 8));                 /* it has come there */
        TT_CHECK_ERR(message(other, false, 1, &x, 30), TT_ERR_TIMEOUT); /* not told again */
        atomic_store(&world_words(w)[TOLD], 1);
        TT_CHECK_OK(message(other, false, 1, &x, 20000));
        TT_CHECK_EQ((int)x, 7);
        atomic_store(&world_words(w)[DONE], 1);
    }
    tti_team_replaced(broken);
    tti_team_close(other);
    tti_team_close(broken);
}

TT_TEST(coll_late, a_message_ends_alone_when_its_peer_waits_elsewhere)
{
    world_run(3, &(world_options){ .may_die = true }, waits_elsewhere, NULL);
}

/* ---- monitored barriers ------------------------------------------------------------------------------ */

static tt_status monitored(tti_team *team, tti_monitored_by by)
{
    return tti_team_monitored_barrier(team, by, 5, soon(), true);
}

/* Rank 3 dies; ranks 1 and 2 are told before rank 0 comes. */
static void monitored_without_lead(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    if (rank == 3)
        kill(getpid(), SIGKILL);
    if (rank == 0)
        world_await(w, TOLD, 2);
    check_told(monitored(team, TTI_MONITORED_PROGRAM), ": rank 3 (pid");
    TT_CHECK_CONTAINS(tt_last_error(), "rank 3 did not come");
    atomic_fetch_add(&world_words(w)[TOLD], 1);
    world_await(w, TOLD, 3);
    tti_team_close(team);
}

TT_TEST(coll_late, monitored_barrier_tells_of_a_death_before_rank_0_comes)
{
    world_run(4, &(world_options){ .may_die = true }, monitored_without_lead, NULL);
}

/* Rank 1 aborts: the words have its reason. */
static void monitored_with_abort(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);

    (void)ctx;
    if (rank == 1)
        tti_team_abort(team, "the loss is NaN");
    else
        TT_CHECK_ERR_SAYS(monitored(team, TTI_MONITORED_PROGRAM), TT_ERR_PEER,
                          "on here) aborted: the loss is NaN");
    atomic_fetch_add(&world_words(w)[TOLD], 1);
    world_await(w, TOLD, 3);
    tti_team_close(team);
}

TT_TEST(coll_late, monitored_barrier_has_the_reason_of_an_abort)
{
    world_run(3, NULL, monitored_with_abort, NULL);
    world_run(3, &(world_options){ .threads = true }, monitored_with_abort, NULL);
}

enum { ROUNDS = 300 };

static void *checks_main(void *ctx)
{
    for (int i = 0; i < ROUNDS; i++)
        TT_CHECK_OK(monitored(ctx, TTI_MONITORED_CHECKS));
    return NULL;
}

/* The barriers of the program and those of the checks run at once, each in step with its own kind. */
static void two_callers(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    pthread_t thread;

    (void)ctx;
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, checks_main, team), 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        atomic_fetch_add(&world_words(w)[ARRIVED], 1);
        TT_CHECK_OK(monitored(team, TTI_MONITORED_PROGRAM));
        /* Everybody came to this one: no barrier of the other sort let this rank go. */
        TT_REQUIRE_GE(atomic_load(&world_words(w)[ARRIVED]), i * (uint64_t)world_size(w));
    }
    pthread_join(thread, NULL);
    atomic_fetch_add(&world_words(w)[DONE], 1);
    world_await(w, DONE, (uint64_t)world_size(w));
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_late, monitored_barriers_of_two_callers_do_not_mix, 120)
{
    world_run(3, NULL, two_callers, NULL);
    world_run(2, &(world_options){ .threads = true }, two_callers, NULL);
}
