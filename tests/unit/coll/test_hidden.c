/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that may not look into each other: no /proc/PID/fd, no copies by the kernel. The descriptor of the team's memory is
 * then sent to them; it has no name at any time, so that nothing stays however they end. */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "deeds.h"

enum { NOBODY = 65534 };

/* Which ranks hide, as bits; and which one dies. */
typedef struct hiding {
    unsigned who;
    int victim; /* -1: none */
} hiding;

/* From here on only root may look into this process, and no rank is root. */
static void hide(bool wanted)
{
    if (getuid() == 0)
        TT_REQUIRE(setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                   setresuid(NOBODY, NOBODY, NOBODY) == 0);
    TT_REQUIRE_EQ(prctl(PR_SET_DUMPABLE, wanted ? 0 : 1), 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* lost with the old user */
}

static bool can_open(int pid)
{
    char path[64];
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    d = opendir(path);
    if (d != NULL)
        closedir(d);
    return d != NULL;
}

/* Whether the team's memory is an anonymous file, which no kill can leave behind. */
static bool has_no_name(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    bool anonymous = false, named = false;
    char line[512];

    TT_REQUIRE_NOT_NULL(f);
    while (fgets(line, sizeof line, f) != NULL) {
        anonymous |= strstr(line, "memfd:tutti-team") != NULL;
        named |= strstr(line, "/dev/shm/tutti-") != NULL;
    }
    fclose(f);
    return anonymous && !named;
}

static void works_hidden(world *w, int rank, void *ctx)
{
    const hiding *h = ctx;
    int size = world_size(w);
    tti_team *team;
    tt_status st = TT_OK;
    int64_t limit = soon();

    hide((h->who >> rank & 1) != 0);
    atomic_fetch_add(&world_words(w)[2], 1);
    world_await(w, 2, (uint64_t)size);
    for (int r = 0; r < size; r++)
        if (r != rank && (h->who >> r & 1) != 0)
            TT_CHECK(!can_open(world_pid(w, r)));
    team = world_team(w, rank);
    TT_CHECK(has_no_name());
    for (int i = 0; i < 4 * TTI_COLL_FINGERPRINT; i++)
        deed_do(team, rank, size,
                &(deed){ .kind = (tti_coll_kind)(i % TTI_COLL_FINGERPRINT),
                         .dtype = TT_F32,
                         .root = i % size,
                         .count = i % 2 == 0 ? 60 : 90001,
                         .heap = i % 4 >= 2,
                         .seed = (uint64_t)i });
    if (rank == h->victim)
        kill(getpid(), SIGKILL);
    while (h->victim >= 0 && st == TT_OK && tti_now_ns() < limit)
        st = deed_try(team, rank, size,
                      &(deed){ .kind = TTI_COLL_ALL_REDUCE, .dtype = TT_F32, .count = 9 });
    if (h->victim >= 0)
        TT_CHECK_ERR_SAYS(st, TT_ERR_PEER, "died");
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_hidden, memory_is_sent_to_everybody, 120)
{
    for (int size = 2; size <= 4; size++)
        world_run(size, NULL, works_hidden, &(hiding){ .who = ~0u, .victim = -1 });
}

TT_TEST_LIMIT(coll_hidden, one_rank_hides_from_the_others, 120)
{
    for (unsigned r = 0; r < 3; r++)
        world_run(3, NULL, works_hidden, &(hiding){ .who = 1u << r, .victim = -1 });
}

TT_TEST_LIMIT(coll_hidden, a_death_is_noticed_all_the_same, 120)
{
    for (int victim = 0; victim < 3; victim++)
        world_run(3, &(world_options){ .may_die = true }, works_hidden,
                  &(hiding){ .who = ~0u, .victim = victim });
}
