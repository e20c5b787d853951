/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of a world: names, ranks, sub-groups, and a group made by hand from a rendezvous. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world/distributed.h"

/* Ranks 1 and 2, or 0 and 1 of a world of two. */
static tt_pg *pair_group(bool *member_p)
{
    int first = tt_test_size() > 2 ? 1 : 0, ranks[] = { first, first + 1 };
    tt_pg *pg = tt_pg_subgroup(dist_world(), ranks, 2, NULL);

    TT_REQUIRE_NOT_NULL(pg);
    *member_p = tt_test_rank() == first || tt_test_rank() == first + 1;
    TT_CHECK_EQ(tt_pg_is_member(pg), *member_p);
    return pg;
}

static void end_pair(tt_pg *pg)
{
    dist_meet();
    tt_pg_free(pg);
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_get_rank)
{
    char path[512];
    bool seen[DIST_MAX] = { false };
    int n = 0, rank;
    struct dirent *e;
    FILE *f;
    DIR *d;

    snprintf(path, sizeof path, "%s/rank.%ld", tt_test_tmpdir(), (long)getpid());
    f = fopen(path, "w");
    TT_REQUIRE_NOT_NULL(f);
    fprintf(f, "%d", tt_pg_rank(dist_world()));
    fclose(f);
    dist_meet();
    d = opendir(tt_test_tmpdir());
    TT_REQUIRE_NOT_NULL(d);
    while ((e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, "rank.", 5) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), e->d_name);
        f = fopen(path, "r");
        TT_REQUIRE_NOT_NULL(f);
        TT_REQUIRE_EQ(fscanf(f, "%d", &rank), 1);
        fclose(f);
        TT_REQUIRE(rank >= 0 && rank < tt_test_size());
        TT_CHECK(!seen[rank]);
        seen[rank] = true;
        n++;
    }
    closedir(d);
    TT_CHECK_EQ(n, tt_test_size());
    TT_CHECK_EQ(tt_pg_rank(dist_world()), tt_test_rank());
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_get_backend)
{
    bool member;
    tt_pg *pg = pair_group(&member);

    TT_CHECK_STR(tt_pg_backend(dist_world()), "shm");
    tt_clear_error();
    if (member) {
        TT_CHECK_STR(tt_pg_backend(pg), "shm");
    } else {
        TT_CHECK_NULL(tt_pg_backend(pg));
        TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
    }
    end_pair(pg);
}

TT_TEST_RANKS(2, distributed, test_Backend_enum_class)
{
    static const char *const good[] = { "shm", "SHM", "sHm" };
    static const char *const bad[] = { NULL, "3", "", "[\"shm\"]", "shm " };
    const char *name;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        name = NULL;
        TT_CHECK_OK(tt_backend_parse(good[i], &name));
        TT_CHECK_STR(name, "shm");
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        TT_CHECK_ERR(tt_backend_parse(bad[i], &name), TT_ERR_INVALID);
}

TT_TEST_RANKS(4, distributed, test_destroy_group)
{
    int before;
    bool member;
    tt_pg *pg;

    (void)dist_world();
    before = tt_pg_count();
    pg = pair_group(&member);
    TT_CHECK_EQ(tt_pg_count(), before + (member ? 1 : 0));
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    tt_pg_free(pg);
    TT_CHECK_EQ(tt_pg_count(), before);
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_get_rank_size_group)
{
    bool member;
    tt_pg *pg = pair_group(&member);

    TT_CHECK_EQ(tt_pg_size(pg), member ? 2 : -1);
    TT_CHECK_EQ(tt_pg_rank(pg), member ? tt_test_rank() - 1 : -1);
    end_pair(pg);
}

TT_TEST_RANKS(4, distributed, test_destroy_full_group)
{
    tt_pg *pg = tt_pg_subgroup(dist_world(), NULL, 0, NULL);

    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    tt_pg_free(pg);
    TT_CHECK(tt_pg_is_initialized());
    TT_CHECK_OK(tt_pg_barrier(tt_pg_default(), NULL, NULL));
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_get_rank_size_full_group)
{
    tt_pg *pg = tt_pg_subgroup(dist_world(), NULL, 0, NULL);

    TT_CHECK_EQ(tt_pg_size(pg), tt_pg_size(dist_world()));
    TT_CHECK_EQ(tt_pg_rank(pg), tt_pg_rank(dist_world()));
    TT_CHECK_EQ(tt_pg_size(pg), tt_test_size());
    TT_CHECK_EQ(tt_pg_rank(pg), tt_test_rank());
    end_pair(pg);
}

/* ---- several at once ------------------------------------------------------------------------------ */

/* The sum of the global ranks of a group, found by its members. */
static void check_members(tt_pg *pg, int want)
{
    TT_SCOPE {
        tt_tensor *t = tt_full(TT_SHAPE(1), tt_test_rank(), TT_I64, TT_CPU);

        TT_REQUIRE_OK(tt_pg_all_reduce(pg, t, NULL, NULL));
        TT_CHECK_EQ(tt_item_int(t), want);
    }
}

TT_TEST_RANKS(4, distributed, test_new_subgroups)
{
    tt_pg_list list;
    int first = tt_test_rank() / 2 * 2;

    TT_REQUIRE_OK(tt_pg_subgroups(dist_world(), 2, NULL, &list));
    TT_CHECK_EQ(list.n, tt_test_size() / 2);
    TT_CHECK_EQ(tt_pg_size(list.mine), 2);
    TT_CHECK(tt_pg_is_member(list.mine));
    check_members(list.mine, first + first + 1);
    dist_meet();
    tt_pg_list_free(&list);
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_new_subgroups_with_group_param)
{
    static const int ranks[] = { 0, 2, 1, 3 }, counts[] = { 2, 2 };
    tt_pg_list pairs, singles;

    TT_REQUIRE_OK(tt_pg_subgroups_listed(dist_world(), ranks, counts, 2, NULL, &pairs));
    TT_REQUIRE_OK(tt_pg_subgroups(pairs.mine, 1, NULL, &singles));
    TT_CHECK_EQ(singles.n, 2);
    TT_CHECK_EQ(tt_pg_size(singles.mine), 1);
    TT_CHECK(tt_pg_is_member(singles.mine));
    TT_CHECK_EQ(tt_pg_global_rank(singles.mine, 0), tt_test_rank());
    check_members(singles.mine, tt_test_rank());
    dist_meet();
    tt_pg_list_free(&singles);
    tt_pg_list_free(&pairs);
    dist_world_end();
}

TT_TEST_RANKS(2, distributed, test_new_subgroups_group_size_exceeds_world_size)
{
    tt_pg_list list = { 0 };

    TT_CHECK_ERR_SAYS(tt_pg_subgroups(dist_world(), 100, NULL, &list), TT_ERR_INVALID,
                      "may not exceed the world size");
    TT_CHECK_NULL(list.mine);
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_new_subgroups_world_size_not_divisible_by_group_size)
{
    tt_pg_list list = { 0 };

    TT_CHECK_ERR_SAYS(tt_pg_subgroups(dist_world(), 3, NULL, &list), TT_ERR_INVALID,
                      "world size 4 must be divisible by 3");
    dist_world_end();
}

TT_TEST_RANKS(5, distributed, test_new_subgroups_by_enumeration)
{
    static const int ranks[] = { 0, 2, 1, 3 }, counts[] = { 2, 2 };
    tt_pg_list list;
    int me = tt_test_rank();

    TT_REQUIRE_OK(tt_pg_subgroups_listed(dist_world(), ranks, counts, 2, NULL, &list));
    tt_pg *mine = list.mine;
    TT_CHECK_EQ(list.n, 2);
    if (me < 4) {
        TT_CHECK_EQ(tt_pg_size(mine), 2);
        TT_CHECK_EQ(tt_pg_global_rank(mine, 0), me % 2);
        TT_CHECK_EQ(tt_pg_global_rank(mine, 1), me % 2 + 2);
        check_members(mine, 2 * (me % 2) + 2);
    } else {
        TT_CHECK(!tt_pg_is_member(mine));
    }
    for (int i = 0; i < list.n; i++)
        TT_CHECK_EQ(tt_pg_is_member(list.groups[i]), me < 4 && me % 2 == i);
    dist_meet();
    tt_pg_list_free(&list);
    dist_world_end();
}

/* A list of groups that is refused with these words. */
static void check_refused(const int *ranks, const int *counts, int n, const char *words)
{
    tt_pg_list list = { 0 };

    TT_CHECK_ERR_SAYS(tt_pg_subgroups_listed(dist_world(), ranks, counts, n, NULL, &list),
                      TT_ERR_INVALID, words);
    TT_CHECK_NULL(list.mine);
    TT_CHECK_NULL(list.groups);
    dist_world_end();
}

TT_TEST_RANKS(4, distributed, test_new_subgroups_by_enumeration_input_rank_exceeds_world_size)
{
    check_refused((const int[]){ 0, 1, 4, 2 }, (const int[]){ 2, 2 }, 2, "rank 4 is out of range");
}

TT_TEST_RANKS(2, distributed, test_new_subgroups_by_enumeration_negative_input_rank)
{
    check_refused((const int[]){ -1, -2, -3, -4 }, (const int[]){ 2, 2 }, 2,
                  "rank -1 is out of range");
}

TT_TEST_RANKS(4, distributed, test_new_subgroups_overlap_not_allowed)
{
    check_refused((const int[]){ 0, 1, 2, 1, 3 }, (const int[]){ 1, 2, 2 }, 3,
                  "rank 1 occurs in two subgroups");
}

/* ---- by hand -------------------------------------------------------------------------------------- */

/* A port that rank 0 serves a store at, known to all. */
static tt_store *serve(const dist_group *g, int *port_p)
{
    tt_store *server = NULL;

    TT_SCOPE {
        tt_tensor *t = tt_zeros(TT_SHAPE(1), TT_I64, TT_CPU);

        if (g->me == 0) {
            server = tt_store_tcp_open("127.0.0.1", 0, &(tt_store_tcp_options){ .serve = true });
            TT_REQUIRE_NOT_NULL(server);
            tt_fill_(t, tt_store_tcp_port(server));
        }
        TT_REQUIRE_OK(tt_pg_broadcast(g->pg, t, 0, NULL, NULL));
        *port_p = (int)tt_item_int(t);
    }
    return server;
}

/* Every root, every type, asynchronously. */
static void broadcast_by_hand(const dist_group *g)
{
    static const struct {
        tt_dtype dtype;
        double value;
    } rows[] = { { TT_F32, -1e-10 },  { TT_F64, -1e-100 }, { TT_I8, -2 },   { TT_U8, 129 },
                 { TT_I32, -100000 }, { TT_I64, -1e15 },   { TT_F16, -0.1 } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int root = 0; root < g->n; root++)
            TT_SCOPE {
                tt_shape shape = dist_cube(root + 1);
                tt_tensor *t =
                    dist_full(shape, rows[i].dtype, g->me == root ? rows[i].value : -1, 0);
                tt_prof *p = dist_prof_start();
                tt_work *w;

                TT_REQUIRE_OK(tt_pg_broadcast(g->pg, t, root, &(tt_coll_options){ 0 }, &w));
                TT_REQUIRE_OK(tt_work_wait(w, 0));
                tt_work_free(w);
                dist_prof_end(p, g, "broadcast", 1, NULL, 0);
                DIST_CHECK_FULL(t, shape, rows[i].value, 0);
            }
}

TT_TEST_RANKS(4, distributed, test_nccl_high_priority_stream)
{
    dist_group g = dist_group_open(DIST_WORLD, NULL), hand = g;
    tt_rendezvous_options opt = { .rank = g.me, .size = g.n, .has_rank = true };
    tt_store *server, *view;
    tt_rendezvous r;
    char text[16];
    int port;

    server = serve(&g, &port);
    snprintf(text, sizeof text, "%d", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", text, 1);
    TT_REQUIRE_OK(tt_rendezvous_open("env://", &opt, &r));
    TT_CHECK_EQ(r.rank, g.me);
    TT_CHECK_EQ(r.size, g.n);
    view = tt_store_prefix_new("by hand", r.store);
    TT_REQUIRE_NOT_NULL(view);
    hand.pg = tt_pg_new_store(view, r.rank, r.size, &(tt_pg_options){ .backend = "shm" });
    if (hand.pg == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(hand.pg);
    broadcast_by_hand(&hand);
    dist_meet();
    tt_pg_free(hand.pg);
    tt_store_free(view);
    tt_rendezvous_close(&r);
    dist_meet();
    tt_store_free(server);
    dist_group_close(&g);
}
