/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of tti_team_alloc: who may have which bytes, and when they are given back. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll/heap.h"
#include "deeds.h"

enum { SLOTS = 48 };

typedef struct piece {
    unsigned char *p;
    size_t bytes;
    unsigned char mark;
} piece;

static void take(tti_team *team, piece *s, size_t bytes, unsigned char mark)
{
    *s = (piece){ tti_team_alloc(team, bytes), bytes, mark };
    TT_REQUIRE_NOT_NULL(s->p);
    TT_CHECK_EQ((uintptr_t)s->p % 64, 0);
    memset(s->p, mark, bytes);
}

static void give_back(tti_team *team, piece *s)
{
    for (size_t i = 0; i < s->bytes; i++)
        TT_REQUIRE_EQ(s->p[i], s->mark);
    tti_team_free_bytes(team, s->p);
    s->p = NULL;
}

/* Files of teams that this process has mapped. */
static int count_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    TT_REQUIRE_NOT_NULL(f);
    while (fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "tutti-") != NULL;
    fclose(f);
    return n;
}

/* Pages of address space. */
static long count_pages(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long n = 0;

    TT_REQUIRE_NOT_NULL(f);
    TT_CHECK_EQ(fscanf(f, "%ld", &n), 1);
    fclose(f);
    return n;
}

/* Pieces of random sizes come and go in random order: none ever overlaps another. */
static void comes_and_goes(world *w, int rank, void *ctx)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, 100000, 1048576, 1048577, 3000000 };
    uint64_t state = *(const uint64_t *)ctx + (uint64_t)rank;
    tti_team *team = world_team(w, rank);
    piece slots[SLOTS] = { { 0 } };

    for (int i = 0; i < FEWER(1500, 150); i++) {
        piece *s = &slots[next_random(&state) % SLOTS];
        uint64_t which = next_random(&state) % 40;

        if (s->p != NULL)
            give_back(team, s);
        else
            take(team, s, which < 10 ? sizes[which] : next_random(&state) % 2000, (unsigned char)i);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].p != NULL)
            give_back(team, &slots[i]);
    tti_team_close(team);
}

TT_TEST(coll_heap, pieces_never_overlap)
{
    uint64_t seed = tt_test_seed();

    world_run(2, NULL, comes_and_goes, &seed);
    world_run(3, &(world_options){ .threads = true }, comes_and_goes, &seed);
}

/* What was freed is used again: a program that allocates in every step does not grow. */
static void does_not_grow(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    piece keep, step[3], big;
    int before, most;

    (void)ctx;
    take(team, &keep, 1000, 7); /* lives through all */
    take(team, &step[0], 300000, 1);
    give_back(team, &step[0]);
    before = count_maps();
    most = before;
    for (int i = 0; i < FEWER(400, 40); i++) {
        for (int k = 0; k < 3; k++)
            take(team, &step[k], 300000, (unsigned char)(i + k));
        for (int k = 0; k < 3; k++)
            give_back(team, &step[(k + i) % 3]);
        most = count_maps() > most ? count_maps() : most;
    }
    TT_CHECK_LE(most, before + 2);
    for (int i = 0; i < FEWER(20, 3); i++) {
        take(team, &big, 20000000, (unsigned char)i);
        give_back(team, &big);
    }
    TT_CHECK_LE(count_maps(), before + 2);
    give_back(team, &keep);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_heap, freed_memory_is_used_again, 240)
{
    world_run(1, NULL, does_not_grow, NULL);
}

static void outlives_the_team(world *w, int rank, void *ctx)
{
    int before = count_maps();
    tti_team *team = world_team(w, rank);
    piece a, b;

    (void)ctx;
    take(team, &a, 100, 1);
    take(team, &b, 5000000, 2);
    deed_do(team, rank, world_size(w),
            &(deed){ .kind = TTI_COLL_ALL_REDUCE, .dtype = TT_F32, .count = 100000, .heap = true });
    tti_team_close(team);
    TT_CHECK_GT(count_maps(), before);
    memset(a.p, 3, a.bytes);
    a.mark = 3;
    give_back(NULL, &b); /* the team is not looked at */
    give_back(NULL, &a);
    TT_CHECK_LE(count_maps(), before);
    tti_team_free_bytes(NULL, NULL);
}

TT_TEST(coll_heap, memory_outlives_its_team)
{
    world_run(1, NULL, outlives_the_team, NULL);
    world_run(2, NULL, outlives_the_team, NULL);
}

/* The team after this one may be at the same address; its memory is its own. */
static void teams_follow(world *w, int rank, void *ctx)
{
    piece kept[20];

    (void)ctx;
    for (int i = 0; i < 20; i++) {
        tti_team *team = world_team(w, rank);

        take(team, &kept[i], 50000, (unsigned char)i);
        for (int k = 0; k < 3; k++)
            deed_do(team, rank, world_size(w),
                    &(deed){ .kind = TTI_COLL_ALL_GATHER,
                             .dtype = TT_I32,
                             .count = 30000,
                             .heap = k != 1,
                             .seed = (uint64_t)(i + k) });
        tti_team_close(team);
    }
    for (int i = 0; i < 20; i++)
        give_back(NULL, &kept[i]);
}

TT_TEST(coll_heap, teams_one_after_the_other_do_not_mix)
{
    world_run(2, NULL, teams_follow, NULL);
}

/* A peer that keeps the file of freed memory mapped keeps none of its pages. */
static void frees_what_is_mapped(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    char path[64], *peer;
    struct stat info;
    tti_place place;
    piece big;
    int fd;

    (void)ctx;
    take(team, &big, 5000000, 1);
    TT_REQUIRE(tti_heap_find(big.p, big.bytes, &place));
    snprintf(path, sizeof path, "/proc/self/fd/%d", place.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    TT_REQUIRE_GE(fd, 0);
    peer = mmap(NULL, place.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TT_REQUIRE(peer != MAP_FAILED);
    TT_CHECK_EQ(peer[0], 1);
    TT_CHECK_EQ(fstat(fd, &info), 0);
    TT_CHECK_GT(info.st_blocks, 9000);
    give_back(team, &big);
    TT_CHECK_EQ(fstat(fd, &info), 0);
    TT_CHECK_EQ(info.st_blocks, 0);
    munmap(peer, place.bytes);
    close(fd);
    tti_team_close(team);
}

TT_TEST(coll_heap, freed_pages_are_free_while_peers_map_them)
{
    world_run(1, NULL, frees_what_is_mapped, NULL);
}

static void asks_too_much(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    piece s;

    (void)ctx;
    TT_CHECK_NULL(tti_team_alloc(team, SIZE_MAX));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_NULL(tti_team_alloc(team, SIZE_MAX / 2));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_NULL(tti_team_alloc(team, (size_t)1 << 46));
    TT_CHECK_EQ(tt_last_status(), TT_ERR_NOMEM);
    TT_CHECK_CONTAINS(tt_last_error(), "more than the machine has");
    take(team, &s, 100, 9); /* and the team goes on */
    give_back(team, &s);
    deed_do(team, rank, 2, &(deed){ .kind = TTI_COLL_ALL_REDUCE, .dtype = TT_F32, .count = 10 });
    tti_team_close(team);
}

TT_TEST(coll_heap, impossible_sizes_are_refused)
{
    world_run(2, NULL, asks_too_much, NULL);
}

/* ---- a thousand teams ---------------------------------------------------------------------------- */

static void a_thousand(world *w, int rank, void *ctx)
{
    long pages = 0;
    int before = count_maps();

    (void)ctx;
    for (int i = 0; i < FEWER(1000, 100); i++) {
        tti_team *team = world_team(w, rank);

        deed_do(team, rank, world_size(w),
                &(deed){ .kind = (tti_coll_kind)(i % TTI_COLL_FINGERPRINT),
                         .dtype = TT_F32,
                         .count = 50,
                         .heap = i % 5 == 0,
                         .seed = (uint64_t)i });
        tti_team_close(team);
        if (i == 20)
            pages = count_pages();
    }
    TT_CHECK_LE(count_maps(), before);
    TT_CHECK_LE(count_pages(), pages + 65536); /* one team is a thousand or more */
}

TT_TEST_LIMIT(coll_heap, a_thousand_teams_leave_nothing, 400)
{
    world_run(2, NULL, a_thousand, NULL);
    world_run(2, &(world_options){ .threads = true }, a_thousand, NULL);
}
