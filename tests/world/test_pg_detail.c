/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks are told at debug level DETAIL, and what the flight recorder leaves behind. */
#include <cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/distributed.h"

static tt_pg *detailed(const char *file, int timeout_ms)
{
    char path[512];
    tt_store *store;
    tt_pg *pg;

    snprintf(path, sizeof path, "%s/%s", tt_test_tmpdir(), file);
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    pg = tt_pg_new_store(store, tt_test_rank(), tt_test_size(),
                         &(tt_pg_options){ .backend = "shm",
                                           .timeout_ms = timeout_ms,
                                           .name = "trainers",
                                           .desc = "the group that trains",
                                           .debug = TT_DEBUG_DETAIL });
    tt_store_free(store);
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_EQ(tt_pg_debug_level(pg), TT_DEBUG_DETAIL);
    return pg;
}

/* ---- ranks that call different things ------------------------------------------------------------ */

typedef struct difference {
    const char *name;
    tt_status (*call)(tt_pg *pg, bool odd); /* odd: the rank that differs */
    const char *odd_words, *usual_words;
} difference;

static tt_status other_operation(tt_pg *pg, bool odd)
{
    tt_tensor *t = tt_ones(TT_SHAPE(4), TT_F32, TT_CPU);

    return odd ? tt_pg_broadcast(pg, t, 0, NULL, NULL) : tt_pg_all_reduce(pg, t, NULL, NULL);
}

static tt_status other_type(tt_pg *pg, bool odd)
{
    return tt_pg_all_reduce(pg, tt_ones(TT_SHAPE(4), odd ? TT_I32 : TT_F32, TT_CPU), NULL, NULL);
}

static tt_status other_size(tt_pg *pg, bool odd)
{
    return tt_pg_all_reduce(pg, tt_ones(TT_SHAPE(odd ? 5 : 4), TT_F32, TT_CPU), NULL, NULL);
}

static tt_status other_root(tt_pg *pg, bool odd)
{
    return tt_pg_broadcast(pg, tt_ones(TT_SHAPE(4), TT_F32, TT_CPU), odd ? 2 : 0, NULL, NULL);
}

static tt_status other_reduction(tt_pg *pg, bool odd)
{
    tt_coll_options opt = { .op = odd ? TT_REDUCE_MAX : TT_REDUCE_MIN };

    return tt_pg_all_reduce(pg, tt_ones(TT_SHAPE(4), TT_F32, TT_CPU), &opt, NULL);
}

static tt_status barrier_instead(tt_pg *pg, bool odd)
{
    tt_tensor *t = tt_ones(TT_SHAPE(2), TT_F64, TT_CPU),
              *all = tt_ones(TT_SHAPE(6), TT_F64, TT_CPU);

    return odd ? tt_pg_barrier(pg, NULL, NULL) : tt_pg_all_gather_into(pg, t, all, NULL, NULL);
}

static tt_status other_scatter(tt_pg *pg, bool odd)
{
    int64_t n = odd ? 3 : 2;

    return tt_pg_reduce_scatter_from(pg, tt_ones(TT_SHAPE(n), TT_F32, TT_CPU),
                                     tt_ones(TT_SHAPE(3 * n), TT_F32, TT_CPU), NULL, NULL);
}

static const difference differences[] = {
    { "operation", other_operation, "rank 1 called broadcast", "called all_reduce" },
    { "type", other_type, "of int32, 16 bytes", "of float32, 16 bytes" },
    { "size", other_size, "of float32, 20 bytes", "of float32, 16 bytes" },
    { "root", other_root, ", root 2", ", root 0" },
    { "reduction", other_reduction, "16 bytes, max", "16 bytes, min" },
    { "barrier", barrier_instead, "rank 1 called barrier", "called all_gather" },
    { "scatter", other_scatter, "rank 1 called reduce_scatter", "of float32, 8 bytes" },
};

/* Three ranks: the one alone with its call is the one that differs, on every rank in the same words. */
TT_TEST_RANKS(3, pg_detail, says_who_differs_and_how)
{
    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
        const difference *d = &differences[i];
        tt_pg *pg = detailed(d->name, 30000);

        TT_SCOPE {
            TT_CHECK_OK(tt_pg_all_reduce(pg, tt_ones(TT_SHAPE(3), TT_F32, TT_CPU), NULL, NULL));
            tt_status st = d->call(pg, tt_test_rank() == 1);
            if (st != TT_ERR_INVALID)
                TT_FAIL_TEST("%s: %s: %s", d->name, tt_status_name(st), tt_last_error());
            TT_CHECK_CONTAINS(tt_last_error(), "group trainers: ranks called different");
            TT_CHECK_CONTAINS(tt_last_error(), "rank 1 called ");
            TT_CHECK_CONTAINS(tt_last_error(), d->odd_words);
            TT_CHECK_CONTAINS(tt_last_error(), d->usual_words);
            TT_CHECK_CONTAINS(tt_last_error(), "rank 0 and the others called");
        }
        tt_test_barrier();
        tt_pg_free(pg);
    }
}

TT_TEST_RANKS(2, pg_detail, of_two_both_are_told)
{
    tt_pg *pg = detailed("store", 30000);

    TT_SCOPE
        TT_CHECK_ERR_SAYS(other_size(pg, tt_test_rank() == 1), TT_ERR_INVALID,
                          "rank 1 called all_reduce #1 of float32, 20 bytes; rank 0 called "
                          "all_reduce #1 of float32, 16 bytes");
    tt_test_barrier();
    tt_pg_free(pg);
}

/* What is right is not refused: sizes that may differ, roots that alone have lists, works. */
TT_TEST_RANKS(3, pg_detail, lets_everything_pass_that_is_right)
{
    tt_pg *pg = detailed("store", 30000);
    int me = tt_test_rank();

    TT_SCOPE {
        tt_tensor *t = tt_full(TT_SHAPE(4), me + 1, TT_F32, TT_CPU), *outs[3];
        tt_work *work;

        for (int r = 0; r < 3; r++)
            outs[r] = tt_zeros(TT_SHAPE(r + 1), TT_F32, TT_CPU);
        TT_CHECK_OK(tt_pg_all_gather(pg, tt_full(TT_SHAPE(me + 1), me, TT_F32, TT_CPU), outs, 3,
                                     NULL, NULL));
        for (int r = 0; r < 3; r++)
            DIST_CHECK_FULL(outs[r], TT_SHAPE(r + 1), r, 0);
        for (int r = 0; r < 3; r++)
            outs[r] = tt_full(TT_SHAPE(4), r * 10, TT_F32, TT_CPU);
        TT_CHECK_OK(tt_pg_scatter(pg, t, me == 2 ? outs : NULL, me == 2 ? 3 : 0, 2, NULL, NULL));
        DIST_CHECK_FULL(t, TT_SHAPE(4), me * 10, 0);
        TT_CHECK_OK(tt_pg_gather(pg, t, me == 1 ? outs : NULL, me == 1 ? 3 : 0, 1, NULL, NULL));
        TT_CHECK_OK(tt_pg_all_reduce(pg, t, NULL, &work));
        TT_CHECK_OK(tt_work_wait(work, 0));
        tt_work_free(work);
        DIST_CHECK_FULL(t, TT_SHAPE(4), 30, 0);
        TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    }
    TT_CHECK_EQ(tt_pg_seq(pg), 5);
    tt_pg_free(pg);
}

TT_TEST_RANKS(3, pg_detail, names_the_rank_that_does_not_come)
{
    tt_pg *pg = detailed("store", 300);

    TT_SCOPE {
        tt_tensor *t = tt_ones(TT_SHAPE(3), TT_F32, TT_CPU);

        TT_CHECK_OK(tt_pg_all_reduce(pg, t, &(tt_coll_options){ .timeout_ms = 30000 }, NULL));
        if (tt_test_rank() == 0)
            TT_CHECK_ERR_SAYS(tt_pg_all_reduce(pg, t, NULL, NULL), TT_ERR_TIMEOUT,
                              "rank 2 did not come");
        if (tt_test_rank() == 1) {
            tt_status st = tt_pg_all_reduce(pg, t, &(tt_coll_options){ .timeout_ms = 30000 }, NULL);
            TT_CHECK(st == TT_ERR_TIMEOUT || st == TT_ERR_PEER); /* rank 0 gave up */
            TT_CHECK_CONTAINS(tt_last_error(), "rank");
        }
    }
    tt_test_barrier();
    tt_pg_free(pg);
}

/* ---- what is left of a time-out ------------------------------------------------------------------- */

static cJSON *read_json(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    cJSON *json = NULL;

    if (f != NULL && text != NULL && fread(text, 1, (1 << 20) - 1, f) > 0)
        json = cJSON_Parse(text);
    if (f != NULL)
        fclose(f);
    free(text);
    return json;
}

/* Every dump in the directory is whole; gives how many there are. */
static int check_dumps(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        char path[1024];
        cJSON *json;

        if (strstr(e->d_name, ".json") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        json = read_json(path);
        TT_CHECK_NOT_NULL(json);
        TT_CHECK(cJSON_IsObject(json));
        cJSON_Delete(json);
        n++;
    }
    if (d != NULL)
        closedir(d);
    return n;
}

TT_TEST_RANKS(3, pg_detail, a_time_out_leaves_dumps_that_name_the_missing)
{
    char dir[512], path[512], *text;
    tt_store *store;
    tt_pg *pg;
    int n = 0;

    snprintf(dir, sizeof dir, "%s/flight", tt_test_tmpdir());
    setenv("TUTTI_FLIGHT_DIR", dir, 1);
    snprintf(path, sizeof path, "%s/store", tt_test_tmpdir());
    store = tt_store_file_open(path);
    pg = tt_pg_new_store(store, tt_test_rank(), 3,
                         &(tt_pg_options){ .backend = "shm", .timeout_ms = 20000 });
    TT_REQUIRE_NOT_NULL(pg);
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    TT_SCOPE
        if (tt_test_rank() != 2)
            TT_CHECK_ERR_SAYS(tt_pg_all_reduce(pg, tt_ones(TT_SHAPE(3), TT_F32, TT_CPU),
                                               &(tt_coll_options){ .timeout_ms = 200 }, NULL),
                              TT_ERR_TIMEOUT, "rank 2");
    tt_test_barrier();
    tt_pg_free(pg);
    tt_store_free(store);
    tt_test_barrier();
    TT_CHECK_GE(check_dumps(dir), 2);
    text = tt_flight_explain(dir, false, &n);
    TT_REQUIRE_NOT_NULL(text);
    TT_CHECK_GE(n, 1);
    TT_CHECK_CONTAINS(text, "rank 2");
    TT_CHECK_CONTAINS(text, "all_reduce");
    tt_text_free(text);
    text = tt_flight_explain(dir, true, NULL);
    TT_REQUIRE_NOT_NULL(text);
    cJSON *list = cJSON_Parse(text);
    TT_CHECK(cJSON_IsArray(list));
    TT_CHECK_GE(cJSON_GetArraySize(list), 1);
    cJSON_Delete(list);
    tt_text_free(text);
}

/* ---- deaths ---------------------------------------------------------------------------------------- */

TT_TEST_RANKS(3, pg_detail, dead_ranks_are_listed)
{
    tt_pg *pg = detailed("store", 30000);
    int dead[3] = { -1, -1, -1 };

    TT_CHECK_EQ(tt_pg_dead_ranks(pg, dead), 0);
    tt_test_expect_exit(1, 3);
    TT_CHECK_OK(tt_pg_barrier(pg, NULL, NULL));
    if (tt_test_rank() == 1)
        _Exit(3);
    TT_SCOPE
        TT_CHECK_ERR_SAYS(tt_pg_all_reduce(pg, tt_ones(TT_SHAPE(3), TT_F32, TT_CPU), NULL, NULL),
                          TT_ERR_PEER, "rank 1");
    TT_CHECK_EQ(tt_pg_dead_ranks(pg, dead), 1);
    TT_CHECK_EQ(dead[0], 1);
    TT_CHECK_OK(tt_test_file_barrier(2, 20000));
    tt_pg_free(pg);
}
