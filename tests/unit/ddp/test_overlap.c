/* SPDX-License-Identifier: Apache-2.0 */
/* Who reduces buckets, and when: the decision, that all ranks draw the same one, and that training is the same to
 * the bit in every way, with everything that a tt_ddp can do. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddp/ddp.h"
#include "pg/overlap.h"
#include "tutti/ddp.h"
#include "tutti/functional.h"
#include "tutti/join.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/optim.h"
#include "tutti/testing_tools.h"
#include "unit/ddp/tools.h"

static const tti_overlap ways[] = { TTI_OVERLAP_ENGINE, TTI_OVERLAP_FILL, TTI_OVERLAP_END };
enum { N_WAYS = 3 };

/* ---- the decision ---------------------------------------------------------------------------------- */

typedef struct rank_row {
    int host;
    uint64_t cpus;
    int threads, quota;
    bool accel;
} rank_row;

typedef struct table_row {
    const char *what;
    int n;
    rank_row ranks[4];
    tti_overlap want;
} table_row;

static const table_row table[] = {
    { "a core each", 2, { { 1, 1, 1, 0, 0 }, { 1, 2, 1, 0, 0 } }, TTI_OVERLAP_END },
    { "two cores for two", 2, { { 1, 3, 1, 0, 0 }, { 1, 3, 1, 0, 0 } }, TTI_OVERLAP_END },
    { "a core too few", 2, { { 1, 7, 1, 0, 0 }, { 1, 7, 1, 0, 0 } }, TTI_OVERLAP_END },
    { "a core for each engine", 2, { { 1, 15, 1, 0, 0 }, { 1, 15, 1, 0, 0 } }, TTI_OVERLAP_ENGINE },
    { "two cores each, bound", 2, { { 1, 3, 1, 0, 0 }, { 1, 12, 1, 0, 0 } }, TTI_OVERLAP_ENGINE },
    { "all cores compute", 2, { { 1, 15, 3, 0, 0 }, { 1, 240, 4, 0, 0 } }, TTI_OVERLAP_END },
    { "more threads than cores", 1, { { 1, 3, 8, 0, 0 } }, TTI_OVERLAP_END },
    { "alone with a core to spare", 1, { { 1, 3, 1, 0, 0 } }, TTI_OVERLAP_ENGINE },
    { "a quota", 2, { { 1, 255, 1, 2, 0 }, { 1, 255, 1, 2, 0 } }, TTI_OVERLAP_END },
    { "a quota that is enough",
      2,
      { { 1, 255, 1, 4, 0 }, { 1, 255, 1, 4, 0 } },
      TTI_OVERLAP_ENGINE },
    { "one without a quota", 2, { { 1, 255, 1, 2, 0 }, { 1, 255, 1, 0, 0 } }, TTI_OVERLAP_ENGINE },
    { "the poorest of two machines counts",
      3,
      { { 1, 255, 1, 0, 0 }, { 2, 1, 1, 0, 0 }, { 1, 255, 1, 0, 0 } },
      TTI_OVERLAP_END },
    { "two rich machines", 2, { { 1, 3, 1, 0, 0 }, { 2, 3, 1, 0, 0 } }, TTI_OVERLAP_ENGINE },
    { "an accelerator", 2, { { 1, 1, 1, 0, 1 }, { 1, 2, 1, 0, 1 } }, TTI_OVERLAP_ENGINE },
    { "nothing known", 1, { { 1, 0, 1, 0, 0 } }, TTI_OVERLAP_END },
};

static void fill_facts(const table_row *row, tti_overlap_facts *f)
{
    for (int r = 0; r < row->n; r++) {
        const rank_row *k = &row->ranks[r];

        f[r] = (tti_overlap_facts){ .host = k->host,
                                    .threads = k->threads,
                                    .quota = k->quota,
                                    .on_accelerator = k->accel,
                                    .cpus = { (int64_t)k->cpus } };
    }
}

TT_TEST(ddp_overlap, the_table_of_decisions)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        tti_overlap_facts f[4];

        fill_facts(&table[i], f);
        if (tti_overlap_choose(f, table[i].n) != table[i].want)
            TT_FAIL_TEST("%s: got %s", table[i].what,
                         tti_overlap_name(tti_overlap_choose(f, table[i].n)));
        for (int w = 0; w < N_WAYS; w++) {
            for (int r = 0; r < table[i].n; r++)
                f[r].wanted = ways[w];
            TT_CHECK_EQ(tti_overlap_choose(f, table[i].n), ways[w]);
        }
    }
}

TT_TEST(ddp_overlap, what_a_quota_grants)
{
    TT_CHECK_EQ(tti_overlap_cores_of_quota("max 100000\n"), 0);
    TT_CHECK_EQ(tti_overlap_cores_of_quota("200000 100000\n"), 2);
    TT_CHECK_EQ(tti_overlap_cores_of_quota("250000 100000"), 2);
    TT_CHECK_EQ(tti_overlap_cores_of_quota("50000 100000"), 1);
    TT_CHECK_EQ(tti_overlap_cores_of_quota("-1 100000"), 0);
    TT_CHECK_EQ(tti_overlap_cores_of_quota("100000 0"), 0);
    TT_CHECK_EQ(tti_overlap_cores_of_quota(""), 0);
}

TT_TEST(ddp_overlap, the_facts_of_this_process)
{
    tti_overlap_facts f;
    int cpus = 0;

    TT_REQUIRE_OK(tt_set_num_threads(3));
    tti_overlap_look(&f);
    for (int w = 0; w < TTI_OVERLAP_CPU_WORDS; w++)
        cpus += __builtin_popcountll((unsigned long long)f.cpus[w]);
    TT_CHECK_EQ(f.threads, 3);
    TT_CHECK_GE(cpus, 1);
    TT_CHECK_GE(f.quota, 0);
}

/* What the next tt_ddp of this process is to do; all ranks of these tests are processes. */
static void want(tti_overlap way)
{
    TT_REQUIRE_EQ(setenv("TUTTI_OVERLAP", tti_overlap_name(way), 1), 0);
}

static void check_way(const tt_ddp *d, tti_overlap way)
{
    tt_value *log = tt_ddp_log_value(d);

    TT_CHECK_STR(tt_value_as_text(tt_value_map_get(log, "overlap")), tti_overlap_name(way));
    tt_value_free(log);
}

/* ---- all ranks ------------------------------------------------------------------------------------- */

TT_TEST_RANKS(3, ddp_overlap, ranks_with_different_facts_decide_alike)
{
    tt_module *m = tool_mlp(1);
    tt_ddp *d;

    TT_REQUIRE_OK(tt_set_num_threads(1 + 200 * tt_test_rank()));
    d = tool_wrap(m, NULL);
    check_way(d, TTI_OVERLAP_END); /* nobody has 600 cores; rank 0 may have two */
    TT_CHECK_OK(tt_ddp_set_group(d, tt_test_pg()));
    check_way(d, TTI_OVERLAP_END);
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_RANKS(2, ddp_overlap, different_wishes_are_an_error_everywhere)
{
    tt_module *m = tool_mlp(1);

    want(tt_test_rank() == 0 ? TTI_OVERLAP_FILL : TTI_OVERLAP_END);
    TT_CHECK_NULL(tt_ddp_new(m, tt_test_pg(), NULL));
    TT_CHECK_CONTAINS(tt_last_error(), "overlap is \"fill\" on rank 0, but \"end\" on rank 1");
    tt_module_free(m);
}

static char warned[256];

static void keep_warning(void *ctx, const char *category, const char *message)
{
    (void)ctx, (void)category;
    snprintf(warned, sizeof warned, "%s", message);
}

TT_TEST(ddp_overlap, a_word_that_is_none_is_warned_of)
{
    tti_overlap_facts f;

    TT_REQUIRE_EQ(setenv("TUTTI_OVERLAP", "sometimes", 1), 0);
    TT_REQUIRE_OK(tt_warnings_push(keep_warning, NULL));
    tti_overlap_look(&f);
    tt_warnings_pop();
    TT_CHECK_EQ(f.wanted, TTI_OVERLAP_AUTO);
    TT_CHECK_CONTAINS(warned, "expected auto, engine, fill or end, got \"sometimes\"");
}

TT_TEST_RANKS(2, ddp_overlap, the_record_says_what_was_chosen)
{
    for (int w = 0; w < N_WAYS; w++) {
        tt_module *m = tool_mlp(1);
        tt_ddp *d;

        want(ways[w]);
        d = tool_wrap(m, NULL);
        check_way(d, ways[w]);
        tt_ddp_free(d);
        tt_module_free(m);
    }
}

/* ---- the same bits --------------------------------------------------------------------------------- */

typedef struct course {
    tt_ddp_options opt;
    bool unused; /* odd ranks do not use the second layer */
    bool no_sync, hook, join;
} course;

static tt_tensor *net_forward(tt_module *m, tt_tensor *x, bool second)
{
    tt_tensor *h = tt_relu(tt_module_forward(tt_module_child(m, "0"), x));

    if (second)
        h = tt_relu(tt_module_forward(tt_module_child(m, "2"), h));
    return tt_module_forward(tt_module_child(m, "4"), h);
}

static bool skips_second; /* per process: a rank of these tests is one */

static tt_tensor *paths_forward(tt_module *self, tt_tensor *x)
{
    return net_forward(tt_module_child(self, "net"), x, !skips_second);
}

static const tt_module_class paths_class = { .name = "paths", .forward = paths_forward };

static tt_module *make_net(void)
{
    tt_module *net = tool_mlp(tt_test_seed()), *m = tt_module_new(&paths_class);

    TT_REQUIRE_NOT_NULL(m);
    TT_REQUIRE_OK(tt_module_add_child(m, "net", net));
    tt_module_free(net);
    return m;
}

static void overlap_step(tt_ddp *d, tt_optim *opt, int i)
{
    uint64_t seed = tt_test_seed() + (uint64_t)(100 * i + tt_test_rank());

    TT_SCOPE {
        tt_tensor *y = tt_ddp_forward(d, tool_numbers(TT_SHAPE(4, 6), seed));

        if (y == NULL)
            TT_FAIL_TEST("%s", tt_last_error());
        TT_REQUIRE_OK(tt_backward(tt_mean(tt_mul(y, y))));
        if (tt_ddp_set_sync(d, true)) {
            TT_REQUIRE_OK(tt_optim_step(opt));
            TT_REQUIRE_OK(tt_optim_zero_grad(opt, i % 2 == 0));
        } else {
            tt_ddp_set_sync(d, false);
        }
    }
}

/* All parameters after some steps, one after the other. */
static size_t collect(tt_module *m, float *out, size_t room)
{
    tt_state_dict *ps = tt_module_params(m, NULL);
    size_t n = 0;

    for (int i = 0; i < tt_state_dict_count(ps); i++) {
        tt_tensor *t = tt_state_dict_tensor(ps, i);

        TT_REQUIRE_OK(tt_copy_out_f32(t, out + n, room - n));
        n += (size_t)tt_tensor_numel(t);
    }
    tt_state_dict_free(ps);
    return n;
}

enum { ROOM = 4096 };

static void train(const course *c, tti_overlap way, float *out, size_t *n_p)
{
    tt_ddp_options opt = c->opt;
    tt_module *m = make_net();
    tt_optim *sgd = tt_sgd_for(m, &(tt_sgd_options){ .lr = 0.1, .momentum = 0.9 });
    tt_join *j = NULL;
    tt_ddp *d;

    want(way);
    opt.bucket_cap_mb = 0.0008;
    skips_second = c->unused && tt_test_rank() % 2 == 1;
    d = tool_wrap(m, &opt);
    check_way(d, way);
    if (c->hook)
        TT_REQUIRE_OK(tt_ddp_register_named(d, "allreduce_hook", NULL));
    if (c->join) {
        j = tt_join_new((tt_joinable[]){ tt_ddp_joinable(d) }, 1, NULL);
        TT_REQUIRE_NOT_NULL(j);
    }
    for (int i = 0; i < (c->join ? 3 + 2 * tt_test_rank() : 6); i++) {
        if (c->no_sync && i % 3 == 1)
            tt_ddp_set_sync(d, false);
        overlap_step(d, sgd, i);
        tt_ddp_set_sync(d, true);
    }
    if (j != NULL)
        TT_REQUIRE_OK(tt_join_finish(j));
    tt_join_free(j);
    *n_p = collect(m, out, ROOM);
    tt_optim_free(sgd);
    tt_ddp_free(d);
    tt_module_free(m);
}

static void same_bits(const course *c)
{
    static float first[ROOM], other[ROOM];
    size_t n = 0, n_other = 0;

    train(c, ways[0], first, &n);
    TT_CHECK_GT(n, 1900);
    for (int w = 1; w < N_WAYS; w++) {
        train(c, ways[w], other, &n_other);
        TT_CHECK_EQ(n_other, n);
        TT_CHECK_MEM(other, first, n * sizeof *first);
    }
}

TT_TEST_RANKS(3, ddp_overlap, all_ways_have_the_same_bits)
{
    same_bits(&(course){ 0 });
}

TT_TEST_RANKS(2, ddp_overlap, with_copies_of_gradients)
{
    same_bits(&(course){ .opt = { .copy_gradients = true } });
}

TT_TEST_RANKS(2, ddp_overlap, with_gradients_that_travel_in_half_precision)
{
    same_bits(&(course){ .opt = { .precision = { .reduce = TT_BF16 } } });
}

TT_TEST_RANKS(3, ddp_overlap, with_unused_parameters)
{
    same_bits(&(course){ .opt = { .find_unused = true }, .unused = true });
}

TT_TEST_RANKS(3, ddp_overlap, with_unused_parameters_and_skipped_buckets)
{
    same_bits(
        &(course){ .opt = { .find_unused = true, .skip_unused_buckets = true }, .unused = true });
}

TT_TEST_RANKS(3, ddp_overlap, with_a_static_graph)
{
    same_bits(&(course){ .opt = { .static_graph = true }, .unused = true });
}

TT_TEST_RANKS(2, ddp_overlap, without_synchronisation_now_and_then)
{
    same_bits(&(course){ .no_sync = true });
}

TT_TEST_RANKS(2, ddp_overlap, with_a_hook)
{
    same_bits(&(course){ .hook = true });
}

TT_TEST_RANKS(3, ddp_overlap, with_uneven_inputs)
{
    same_bits(&(course){ .join = true });
}

/* ---- when ------------------------------------------------------------------------------------------ */

typedef struct watch {
    tt_ddp *d;
    int n_ready;
    int n_ready_at_first; /* gradients that were there when the first bucket went */
} watch;

static tt_future *watching_hook(void *ctx, const tt_ddp_bucket *b)
{
    watch *w = ctx;

    if (w->n_ready_at_first < 0)
        w->n_ready_at_first = w->n_ready;
    return hook_mean(b);
}

static tt_status count_ready(void *ctx, tt_tensor *leaf)
{
    (void)leaf;
    ((watch *)ctx)->n_ready++;
    return TT_OK;
}

/* FILL and ENGINE start in the middle of backward, END when all gradients are there. */
static void starts_at(tti_overlap way, bool in_the_middle)
{
    tt_module *m = tool_mlp(tt_test_seed());
    tt_state_dict *ps = tt_module_params(m, NULL);
    watch w = { 0 };
    tt_hook *hooks[16] = { NULL };
    int n = tt_state_dict_count(ps);

    TT_REQUIRE(n <= 16);
    for (int i = 0; i < n; i++) {
        hooks[i] = tt_leaf_add_post_hook(tt_state_dict_tensor(ps, i), count_ready, &w);
        TT_REQUIRE_NOT_NULL(hooks[i]);
    }
    want(way);
    w.d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.0001 });
    TT_REQUIRE_OK(tt_ddp_register_hook(
        w.d, &(tt_ddp_hook){ .fn = watching_hook, .ctx = &w, .name = "watching" }));
    for (int i = 0; i < 3; i++) {
        w.n_ready = 0;
        w.n_ready_at_first = -1;
        hook_step(w.d, tt_test_seed());
    }
    if (in_the_middle)
        TT_CHECK_LT(w.n_ready_at_first, n);
    else
        TT_CHECK_EQ(w.n_ready_at_first, n);
    for (int i = 0; i < n; i++)
        tt_hook_remove(hooks[i]);
    tt_ddp_free(w.d);
    tt_state_dict_free(ps);
    tt_module_free(m);
}

TT_TEST_RANKS(2, ddp_overlap, the_engine_starts_in_the_middle)
{
    starts_at(TTI_OVERLAP_ENGINE, true);
}

TT_TEST_RANKS(2, ddp_overlap, fill_starts_in_the_middle)
{
    starts_at(TTI_OVERLAP_FILL, true);
}

TT_TEST_RANKS(2, ddp_overlap, end_starts_when_all_are_there)
{
    starts_at(TTI_OVERLAP_END, false);
}

/* ---- a rank that dies ------------------------------------------------------------------------------ */

static tt_status dies(void *ctx, tt_tensor *leaf)
{
    (void)leaf;
    if (++*(int *)ctx == 3)
        raise(SIGKILL);
    return TT_OK;
}

static void survives(tti_overlap way)
{
    tt_module *m = tool_mlp(tt_test_seed());
    tt_ddp *d;
    tt_status st = TT_OK;
    int n = 0;

    tt_test_expect_exit(2, -SIGKILL);
    want(way);
    d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.0001 });
    if (tt_test_rank() == 2)
        tt_leaf_add_post_hook(tt_module_param(m, "2.weight"), dies, &n);
    for (int i = 0; i < 10 && st == TT_OK; i++)
        TT_SCOPE {
            tt_tensor *y = tt_ddp_forward(d, tool_numbers(TT_SHAPE(4, 6), (uint64_t)i));

            st = y != NULL ? tt_backward(tt_sum(y)) : tt_last_status();
        }
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(tt_last_error(), "rank 2");
    tt_ddp_free(d);
    tt_module_free(m);
}

TT_TEST_RANKS(3, ddp_overlap, a_death_is_told_with_the_engine)
{
    survives(TTI_OVERLAP_ENGINE);
}

TT_TEST_RANKS(3, ddp_overlap, a_death_is_told_when_filling)
{
    survives(TTI_OVERLAP_FILL);
}

TT_TEST_RANKS(3, ddp_overlap, a_death_is_told_at_the_end)
{
    survives(TTI_OVERLAP_END);
}

/* ---- reductions that cannot be waited for ------------------------------------------------------------ */

typedef struct held {
    tt_ddp *d;
    atomic_bool go;
    bool refuses;
} held;

static tt_status refuse(void *ctx, tt_tensor *leaf)
{
    (void)leaf;
    return ((held *)ctx)->refuses ? tt_fail(TT_ERR_ABORTED, "refused by the test") : TT_OK;
}

static int works_held(const tt_ddp *d)
{
    int n = 0;

    for (int b = 0; b < d->n_buckets; b++)
        n += d->buckets[b].work != NULL;
    return n;
}

/* On the thread that has to run the reductions of the failed backward, after this: it cannot wait for them. */
static tt_value *forward_on_the_engine(void *ctx, tt_pg *pg)
{
    held *h = ctx;
    int n;

    (void)pg;
    while (!atomic_load(&h->go))
        sched_yield();
    n = works_held(h->d);
    TT_CHECK_GT(n, 0);
    for (int i = 0; i < 2; i++)
        TT_SCOPE
            TT_ENABLE_GRAD
            {
                TT_CHECK_NULL(tt_ddp_forward(h->d, tool_numbers(TT_SHAPE(4, 6), 1)));
                TT_CHECK_EQ(tt_last_status(), TT_ERR_INVALID);
                TT_CHECK_CONTAINS(tt_last_error(), "would never end");
                TT_CHECK_EQ(works_held(h->d), n); /* their memory is in use */
            }
    return tt_value_null_new();
}

static void fail_backward(held *h, tt_future **f_p)
{
    h->refuses = true;
    TT_SCOPE {
        tt_tensor *y = tt_ddp_forward(h->d, tool_numbers(TT_SHAPE(4, 6), 1));

        TT_REQUIRE_NOT_NULL(y);
        *f_p = tt_ddp_run_steps(tt_test_pg(), forward_on_the_engine, h, NULL);
        TT_REQUIRE_NOT_NULL(*f_p);
        TT_CHECK_ERR_SAYS(tt_backward(tt_sum(y)), TT_ERR_ABORTED, "refused by the test");
    }
    h->refuses = false;
}

TT_TEST_RANKS(2, ddp_overlap, works_under_way_are_kept_until_they_are_done)
{
    tt_module *m = tool_mlp(tt_test_seed()), *alone = tool_mlp(tt_test_seed());
    held h = { 0 };
    tt_future *f = NULL;
    tt_hook *hook = tt_leaf_add_post_hook(tt_module_param(m, "0.weight"), refuse, &h);

    TT_REQUIRE_NOT_NULL(
        hook); /* runs before the one that tt_ddp adds, and last of all parameters */
    want(TTI_OVERLAP_ENGINE);
    h.d = tool_wrap(m, &(tt_ddp_options){ .bucket_cap_mb = 0.0001 });
    for (int i = 0; i < 2; i++)
        hook_step(h.d, tt_test_seed());
    fail_backward(&h, &f);
    atomic_store(&h.go, true);
    TT_CHECK_OK(tt_future_wait(f, 0));
    tt_future_free(f);
    hook_step(h.d, tt_test_seed()); /* waits for them first */
    hook_step_alone(alone, tt_test_seed());
    hook_check_grads(m, alone, false);
    TT_CHECK_EQ(works_held(h.d), 0);
    tt_ddp_free(h.d);
    tt_hook_remove(hook);
    tt_module_free(alone);
    tt_module_free(m);
}
