/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel training in which a rank is killed: the others are told who, in time; without it, and from the
 * last state that all of them have, they train on to the same end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tutti/models.h"
#include "tutti/optim.h"
#include "world/ddp_models.h"

enum { W = 3, N_STEPS = 60, N_EACH = 4 };

typedef enum moment { IN_FORWARD, IN_BACKWARD, IN_A_BUCKET, IN_THE_OPTIMIZER, AT_RANDOM } moment;

static const char *const moment_names[] = { "forward", "backward", "a_bucket", "the_optimizer",
                                            "random" };

/* A rank in training, and the two last states of its parameters: ranks can be a step apart. */
typedef struct trainee {
    tt_module *net;
    tt_ddp *ddp;
    tt_optim *opt;
    tt_state_dict *states[2];
    int step; /* complete ones */
    moment when;
    int victim, at_step;
    char path[512]; /* where the victim says when */
} trainee;

/* ---- the end of a rank --------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const trainee *t)
{
    FILE *f = fopen(t->path, "w");

    if (f != NULL) {
        fprintf(f, "%.6f", now());
        fclose(f);
    }
    raise(SIGKILL);
}

static double died_at(const trainee *t)
{
    FILE *f = fopen(t->path, "r");
    double at = 0;

    if (f == NULL)
        return 0;
    if (fscanf(f, "%lf", &at) != 1)
        at = 0;
    fclose(f);
    return at;
}

static bool is_time(const trainee *t, moment when)
{
    return t->when == when && t->step == t->at_step && tt_test_rank() == t->victim;
}

static tt_status before_forward(void *ctx, tt_module *m, tt_value **in_p)
{
    (void)m, (void)in_p;
    if (is_time(ctx, IN_FORWARD))
        die(ctx);
    return TT_OK;
}

/* On a parameter in the middle: some buckets are on their way. */
static tt_status in_backward(void *ctx, tt_tensor *leaf)
{
    (void)leaf;
    if (is_time(ctx, IN_BACKWARD))
        die(ctx);
    return TT_OK;
}

static void on_alarm(int number)
{
    (void)number;
    raise(SIGKILL);
}

/* In so many microseconds, whatever is going on then. */
static void die_soon(const trainee *t, long us)
{
    struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct itimerspec in = { .it_value = { .tv_nsec = us * 1000 + 1 } };
    FILE *f = fopen(t->path, "w");
    timer_t timer;

    if (f != NULL) {
        fprintf(f, "%.6f", now() + (double)us * 1e-6);
        fclose(f);
    }
    signal(SIGUSR1, on_alarm);
    TT_REQUIRE_EQ(timer_create(CLOCK_MONOTONIC, &e, &timer), 0);
    TT_REQUIRE_EQ(timer_settime(timer, 0, &in, NULL), 0);
}

/* ---- training ------------------------------------------------------------------------------------------- */

static tt_state_dict *copy_params(const tt_module *m)
{
    tt_state_dict *all = tt_module_state_dict(m), *copy = tt_state_dict_new();

    TT_SCOPE
        TT_NO_GRAD for (int i = 0; i < tt_state_dict_count(all); i++)
            TT_REQUIRE_OK(tt_state_dict_set(copy, tt_state_dict_name(all, i),
                                            tt_clone(tt_state_dict_tensor(all, i))));
    tt_state_dict_free(all);
    return copy;
}

static void keep_state(trainee *t)
{
    tt_state_dict_free(t->states[t->step % 2]);
    t->states[t->step % 2] = copy_params(t->net);
}

/* What is learned: the sum of the inputs. Each rank has its part of 24 samples, so that fewer have more. */
static tt_status train_step(trainee *t)
{
    tt_pg *pg = tt_ddp_group(t->ddp);
    int64_t each = 24 / tt_pg_size(pg);
    tt_status st = TT_OK;

    TT_SCOPE {
        tt_tensor *all = ddp_random(TT_SHAPE(24, 6), tt_test_seed() + (uint64_t)(t->step % 8));
        tt_tensor *x = tt_narrow(all, 0, each * tt_pg_rank(pg), each), *y, *out;

        y = tt_sum_dims(x, (const int[]){ 1 }, 1, true);
        if (is_time(t, IN_A_BUCKET) || is_time(t, AT_RANDOM))
            die_soon(t, (long)(tt_test_seed() % (t->when == AT_RANDOM ? 3000 : 400)));
        st = tt_optim_zero_grad(t->opt, true);
        out = st == TT_OK ? tt_ddp_forward(t->ddp, x) : NULL;
        st = out != NULL ? tt_backward(tt_mse_loss(out, y)) : tt_last_status();
    }
    TT_TRY(st);
    if (is_time(t, IN_THE_OPTIMIZER))
        die(t);
    TT_TRY(tt_optim_step(t->opt));
    t->step++;
    keep_state(t);
    return TT_OK;
}

/* ---- going on --------------------------------------------------------------------------------------------- */

static tt_pg *survivors(tt_pg *pg, int victim)
{
    int ranks[W], n = 0;
    tt_pg *rest;

    for (int i = 0; i < W; i++)
        if (i != victim)
            ranks[n++] = i;
    rest = tt_pg_subgroup(pg, ranks, n, &(tt_pg_options){ .timeout_ms = 20000 });
    if (rest == NULL)
        TT_FAIL_TEST("%s", tt_last_error());
    TT_REQUIRE_NOT_NULL(rest);
    return rest;
}

static void recover(trainee *t, tt_pg *rest)
{
    tt_tensor *step = tt_full(TT_SHAPE(1), t->step, TT_I32, TT_CPU);
    int last;

    TT_REQUIRE_OK(tt_pg_all_reduce(rest, step, &(tt_coll_options){ .op = TT_REDUCE_MIN }, NULL));
    last = (int)tt_item_int(step);
    TT_REQUIRE_LE(t->step - last, 1);
    t->step = last;
    TT_REQUIRE_NOT_NULL(t->states[last % 2]);
    TT_REQUIRE_OK(tt_module_load_state_dict(t->net, t->states[last % 2], NULL, NULL));
    tt_module_zero_grad(t->net);
    TT_REQUIRE_OK(tt_ddp_set_group(t->ddp, rest));
}

static void check_told(const trainee *t, tt_status st, const char *words)
{
    double late = now() - died_at(t);
    char name[32];

    snprintf(name, sizeof name, "rank %d", t->victim);
    TT_CHECK_EQ(st, TT_ERR_PEER);
    TT_CHECK_CONTAINS(words, name);
    TT_CHECK(late < 1.0);
    TT_NOTE("told after %.0f ms", late * 1e3);
}

static void train_through(trainee *t, tt_pg *pg)
{
    while (t->step < N_STEPS) {
        tt_status st = train_step(t);

        if (st == TT_OK)
            continue;
        TT_REQUIRE_PTR(tt_ddp_group(t->ddp), pg); /* once only */
        check_told(t, st, tt_last_error());
        TT_SCOPE {
            tt_pg *rest = survivors(pg, t->victim);

            recover(t, rest);
            tt_pg_free(rest);
        }
    }
}

/* ---- trials ------------------------------------------------------------------------------------------------ */

static double loss_of(tt_module *m)
{
    double loss = 0;

    TT_SCOPE
        TT_NO_GRAD
        {
            tt_tensor *x = ddp_random(TT_SHAPE(64, 6), 99);

            loss = tt_item(
                tt_mse_loss(tt_module_forward(m, x), tt_sum_dims(x, (const int[]){ 1 }, 1, true)));
        }
    return loss;
}

static tt_pg *open_group(void)
{
    char path[512];
    tt_store *store;
    tt_pg *pg;

    snprintf(path, sizeof path, "%s/world", tt_test_tmpdir());
    store = tt_store_file_open(path);
    TT_REQUIRE_NOT_NULL(store);
    pg = tt_pg_new_store(store, tt_test_rank(), W, &(tt_pg_options){ .timeout_ms = 20000 });
    tt_store_free(store);
    TT_REQUIRE_NOT_NULL(pg);
    return pg;
}

static void close_trainee(trainee *t)
{
    tt_state_dict_free(t->states[0]);
    tt_state_dict_free(t->states[1]);
    tt_optim_free(t->opt);
    tt_ddp_free(t->ddp);
    tt_module_free(t->net);
}

static void trial(void *ctx)
{
    int nr = *(const int *)ctx;
    uint64_t seed = tt_test_seed() + (uint64_t)nr * 77;
    trainee t = { .when = (moment)(nr / N_EACH),
                  .victim = (int)(seed % W),
                  .at_step = 1 + (int)(seed / 7 % 12) };
    tt_hook *hooks[2];
    tt_pg *pg;

    tt_test_expect_exit(t.victim, -SIGKILL);
    snprintf(t.path, sizeof t.path, "%s/died", tt_test_tmpdir());
    pg = open_group();
    t.net = ddp_module(TT_MLP(TT_ACT_RELU, 6, 64, 64, 1));
    t.ddp = ddp_new(t.net, pg, &(tt_ddp_options){ .bucket_cap_mb = 0.005 });
    t.opt = tt_sgd_for(t.net, &(tt_sgd_options){ .lr = 0.02 });
    hooks[0] = tt_module_add_forward_pre_hook(t.net, before_forward, &t);
    hooks[1] = tt_leaf_add_post_hook(tt_ddp_param(t.ddp, 2), in_backward, &t);
    keep_state(&t);
    train_through(&t, pg);
    TT_CHECK_EQ(tt_pg_size(tt_ddp_group(t.ddp)), W - 1);
    for (int i = 0; i < tt_ddp_n_params(t.ddp); i++)
        ddp_check_same(tt_ddp_group(t.ddp), tt_ddp_param(t.ddp, i));
    TT_CHECK(loss_of(t.net) < 2.0); /* 6 at first */
    TT_REQUIRE_OK(tt_pg_barrier(tt_ddp_group(t.ddp), NULL, NULL));
    for (int i = 0; i < 2; i++)
        tt_hook_remove(hooks[i]);
    close_trainee(&t);
    tt_pg_free(pg);
}

TT_TEST_TABLE(ddp_faults)
{
    static int numbers[5 * N_EACH];
    char name[64];

    for (int i = 0; i < 5 * N_EACH; i++) {
        tt_test *t;

        numbers[i] = i;
        snprintf(name, sizeof name, "killed_in_%s_%d", moment_names[i / N_EACH], i % N_EACH);
        t = tt_test_add("ddp_faults", name, trial, &numbers[i]);
        if (t == NULL)
            return;
        t->kind = TT_TEST_KIND_RANKS;
        t->ranks = W;
        t->limit = 60;
    }
}
