/* SPDX-License-Identifier: Apache-2.0 */
/* State of a divided optimizer: the same as that of a whole one, loadable by any number of ranks. */
#include <stdio.h>

#include "tutti/nn.h"
#include "unit/zero/zero_tools.h"

static void check_same_dict(const tt_state_dict *got, const tt_state_dict *want)
{
    TT_CHECK_EQ(tt_state_dict_count(got), tt_state_dict_count(want));
    for (int i = 0; i < tt_state_dict_count(want); i++) {
        const char *name = tt_state_dict_name(want, i);
        tt_tensor *t = tt_state_dict_get(got, name);

        if (t == NULL || !tt_equal(t, tt_state_dict_tensor(want, i)))
            TT_FAIL_TEST("\"%s\" %s", name, t == NULL ? "is missing" : "differs");
    }
}

static void save_like_a_whole_one(void)
{
    for (int kind = 0; kind < ZT_KINDS; kind++) {
        tt_state_dict *got = tt_state_dict_new(), *want = tt_state_dict_new();
        zt_pair p;
        int last = tt_test_size() - 1;

        zt_open(&p, tt_test_pg(), (zt_kind)kind, ZT_PARAMS - 3, NULL);
        TT_REQUIRE_OK(tt_zero_add_group(p.zero, &p.divided[ZT_PARAMS - 3], 3, NULL));
        TT_REQUIRE_OK(tt_optim_add_group(p.optim, &p.whole[ZT_PARAMS - 3], 3, NULL));
        zt_train(&p, ZT_PARAMS, 0, 6);
        TT_REQUIRE_OK(tt_optim_save(p.optim, want, "opt."));
        /* To one rank, then to all. */
        TT_REQUIRE_OK(tt_zero_save(p.zero, tt_test_rank() == last ? got : NULL, "opt.", last));
        if (tt_test_rank() == last)
            check_same_dict(got, want);
        tt_state_dict_free(got);
        got = tt_state_dict_new();
        TT_REQUIRE_OK(tt_zero_save(p.zero, got, "opt.", TT_ZERO_ALL));
        check_same_dict(got, want);
        tt_state_dict_free(got);
        tt_state_dict_free(want);
        zt_close(&p);
    }
}

TT_TEST(zero_state, one_rank_saves_what_an_optimizer_saves)
{
    save_like_a_whole_one();
}

TT_TEST_THREADS(3, zero_state, threads_save_what_an_optimizer_saves)
{
    save_like_a_whole_one();
}

TT_TEST_RANKS(4, zero_state, processes_save_what_an_optimizer_saves)
{
    save_like_a_whole_one();
}

/* ---- another number of ranks ----------------------------------------------------------------------- */

static void save_file(const zt_pair *p, const char *path)
{
    tt_state_dict *sd = tt_state_dict_new();

    TT_REQUIRE_OK(tt_zero_save(p->zero, tt_test_rank() == 0 ? sd : NULL, NULL, 0));
    if (tt_test_rank() == 0)
        TT_REQUIRE_OK(tt_state_dict_save(sd, path));
    tt_state_dict_free(sd);
    TT_REQUIRE_OK(tt_pg_barrier(tt_test_pg(), NULL, NULL));
}

/* Go on from the file and from p's parameters on the given ranks only: as if nothing had happened. */
static void go_on(const zt_pair *p, zt_kind kind, const char *path, const int *ranks, int n)
{
    tt_pg *pg = tt_pg_subgroup(tt_test_pg(), ranks, n, NULL);
    tt_state_dict *sd = tt_state_dict_load(path), *own = tt_state_dict_new();
    zt_pair q;

    TT_REQUIRE_NOT_NULL(pg);
    TT_REQUIRE_NOT_NULL(sd);
    if (tt_pg_is_member(pg)) {
        zt_open(&q, pg, kind, ZT_PARAMS, NULL);
        TT_NO_GRAD for (int i = 0; i < ZT_PARAMS; i++)
        {
            TT_REQUIRE_NOT_NULL(tt_copy_(q.divided[i], p->whole[i]));
            TT_REQUIRE_NOT_NULL(tt_copy_(q.whole[i], p->whole[i]));
        }
        TT_REQUIRE_OK(tt_zero_load(q.zero, sd, NULL));
        TT_REQUIRE_OK(tt_optim_save(p->optim, own, NULL));
        TT_REQUIRE_OK(tt_optim_load(q.optim, own, NULL));
        zt_train(&q, ZT_PARAMS, 6, 12);
        zt_check_same(&q, ZT_PARAMS);
        zt_close(&q);
    }
    tt_state_dict_free(sd);
    tt_state_dict_free(own);
    TT_REQUIRE_OK(tt_pg_barrier(tt_test_pg(), NULL, NULL));
    tt_pg_free(pg);
}

static void reload(void)
{
    static const int two[] = { 1, 3 }, three[] = { 3, 0, 2 }, one[] = { 2 };
    char path[512];

    for (int kind = 0; kind < ZT_KINDS; kind++) {
        zt_pair p;

        snprintf(path, sizeof path, "%s/state%d.safetensors", tt_test_tmpdir(), kind);
        zt_open(&p, tt_test_pg(), (zt_kind)kind, ZT_PARAMS, NULL);
        zt_train(&p, ZT_PARAMS, 0, 6);
        save_file(&p, path);
        go_on(&p, (zt_kind)kind, path, two, 2);
        go_on(&p, (zt_kind)kind, path, three, 3);
        go_on(&p, (zt_kind)kind, path, one, 1);
        go_on(&p, (zt_kind)kind, path, NULL, 0);
        zt_close(&p);
    }
}

TT_TEST_RANKS(4, zero_state, four_ranks_save_and_two_or_three_go_on)
{
    reload();
}

TT_TEST_THREADS(4, zero_state, four_threads_save_and_two_or_three_go_on)
{
    reload();
}

/* ---- mistakes ---------------------------------------------------------------------------------------- */

static void set_number(tt_state_dict *sd, const char *name, double value)
{
    TT_SCOPE {
        TT_REQUIRE_OK(tt_state_dict_set(sd, name, tt_from_data(&value, TT_SHAPE_SCALAR, TT_F64)));
    }
}

TT_TEST_THREADS(2, zero_state, another_state_is_refused_and_changes_nothing)
{
    tt_state_dict *sd = tt_state_dict_new(), *empty = tt_state_dict_new();
    zt_pair p, other;

    zt_open(&p, tt_test_pg(), ZT_ADAM, ZT_PARAMS, NULL);
    zt_open(&other, tt_test_pg(), ZT_SGD, ZT_PARAMS, NULL);
    zt_train(&p, ZT_PARAMS, 0, 3);
    TT_REQUIRE_OK(tt_zero_save(p.zero, sd, NULL, TT_ZERO_ALL));
    TT_CHECK_ERR_SAYS(tt_zero_load(other.zero, sd, NULL), TT_ERR_INVALID, "sgd");
    TT_CHECK_ERR(tt_zero_load(p.zero, empty, NULL), TT_ERR_NOT_FOUND);
    TT_CHECK_ERR(tt_zero_load(p.zero, sd, "wrong."), TT_ERR_NOT_FOUND);
    tt_clear_error();
    TT_CHECK_ERR(tt_zero_load(NULL, sd, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_zero_load(p.zero, NULL, NULL), TT_ERR_INVALID);
    TT_CHECK_ERR_SAYS(tt_zero_save(p.zero, sd, NULL, 2), TT_ERR_INVALID, "got 2");
    TT_CHECK_ERR(tt_zero_save(p.zero, NULL, NULL, TT_ZERO_ALL), TT_ERR_INVALID);
    TT_CHECK_ERR(tt_zero_save(NULL, sd, NULL, 0), TT_ERR_INVALID);
    set_number(sd, "group.0.n_params", 4);
    TT_CHECK_ERR_SAYS(tt_zero_load(p.zero, sd, NULL), TT_ERR_INVALID, "the state has 4");
    set_number(sd, "group.0.n_params", ZT_PARAMS);
    set_number(sd, "param.2.shape", 7); /* of one rank: all refuse it */
    TT_CHECK_ERR_SAYS(tt_zero_load(p.zero, sd, NULL), TT_ERR_INVALID, "param.2.shape");
    set_number(sd, "n_groups", 2);
    TT_REQUIRE_OK(tt_state_dict_set(sd, "param.2.shape",
                                    tt_from_data((int64_t[]){ 33, 5 }, TT_SHAPE(2), TT_I64)));
    TT_CHECK_ERR_SAYS(tt_zero_load(p.zero, sd, NULL), TT_ERR_INVALID, "the state has 2");
    zt_train(&p, ZT_PARAMS, 3, 6);
    zt_check_same(&p, ZT_PARAMS);
    zt_close(&p);
    zt_close(&other);
    tt_state_dict_free(sd);
    tt_state_dict_free(empty);
}

static tt_status save_and_load(void *ctx)
{
    zt_pair *p = ctx;
    tt_state_dict *sd = tt_state_dict_new();
    tt_status st = sd != NULL ? tt_zero_save(p->zero, sd, "o.", 0) : TT_ERR_NOMEM;

    if (st == TT_OK)
        st = tt_zero_load(p->zero, sd, "o.");
    tt_state_dict_free(sd);
    return st;
}

TT_TEST(zero_state, memory_that_runs_out_is_an_error)
{
    zt_pair p;

    zt_open(&p, tt_test_pg(), ZT_SGD, 2, NULL);
    zt_train(&p, 2, 0, 2);
    TT_CHECK_GT(tt_test_fail_allocs(save_and_load, &p), 20);
    zt_train(&p, 2, 2, 4);
    zt_check_same(&p, 2);
    zt_close(&p);
}
