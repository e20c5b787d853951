/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel trainings in which a rank is killed at a random moment of forward, backward, a bucket's reduction,
 * the optimizer or a checkpoint. The others are told who, go on without it from the last checkpoint, and learn what was to
 * be learnt. Groups have so long a time-out that it cannot be what ends a wait; that survivors are told within two seconds
 * is asked of most trials, since a busy machine delays some of them. TRAINING_FAULT_TRIALS=400 in the environment asks
 * for that many trials of each kind; sanitizers run one of eight. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "golden/hashdata.h"
#include "tutti/checkpoint.h"
#include "tutti/ddp_hooks.h"
#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/random.h"
#include "tutti/testing.h"

enum { W = 3, STEPS = 40, EVERY = 4, SAMPLES = 60, INPUTS = 6, CLASSES = 3 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TRIALS = 40, ONE_OF = 8 }; /* slow there, and of little use: the killed cannot be asked */
#else
enum { TRIALS = 40, ONE_OF = 1 };
#endif

enum { TIMEOUT_MS = 300000, PATIENCE_MS = 250000 };

typedef enum phase { FORWARD, BACKWARD, BUCKET, OPTIMIZER, CHECKPOINT, N_PHASES } phase;
static const char *const phase_names[] = { "forward", "backward", "bucket", "optimizer",
                                           "checkpoint" };

typedef struct trial {
    phase where;
    int victim, step, delay_us;
    char path[512], dir[512];
} trial;

/* What a survivor reports. */
typedef struct report {
    int rank;
    tt_status status;
    int64_t at;         /* when it knew, monotonic ns */
    int64_t resumed_at; /* the step */
    double accuracy;
    tt_status end;
    char words[300];
    char last_words[300];
} report;

/* ---- dying ------------------------------------------------------------------------------------- */

static const trial *mine; /* of this process, if it is the victim */
static int64_t now_step;

static void die(int signal_number)
{
    (void)signal_number;
    kill(getpid(), SIGKILL);
}

/* The moment comes some microseconds after the phase has begun. */
static void enters(phase p)
{
    struct itimerval timer = { .it_value = { 0 } };

    if (mine == NULL || mine->where != p || mine->step > now_step)
        return;
    if (mine->delay_us == 0)
        die(0);
    timer.it_value.tv_usec = mine->delay_us;
    setitimer(ITIMER_REAL, &timer, NULL);
    mine = NULL;
}

static tt_future *deadly_hook(void *pg, const tt_ddp_bucket *b)
{
    tt_future *f = tt_ddp_allreduce_hook(pg, b);

    enters(BUCKET);
    return f;
}

/* ---- a small training ------------------------------------------------------------------------------ */

typedef struct job {
    tt_pg *pg;
    tt_ddp *ddp;
    tt_training t;
    const char *dir;
} job;

/* All samples; the class is that of the largest of three of the inputs. */
static void samples(tt_tensor **x_p, tt_tensor **y_p)
{
    tt_tensor *x = tt_empty(TT_SHAPE(SAMPLES, INPUTS), TT_F32, TT_CPU);

    golden_fill_uniform("faults/x", tt_tensor_data(x), SAMPLES * INPUTS, 1, 0);
    *x_p = x;
    *y_p = tt_argmax_dim(tt_narrow(x, 1, 0, CLASSES), 1, false);
}

static tt_status one_step(job *j)
{
    int n = tt_pg_size(j->pg), rows = SAMPLES / n;
    tt_tensor *x, *y, *scores, *loss;

    samples(&x, &y);
    enters(FORWARD);
    scores = tt_ddp_forward(j->ddp, tt_narrow(x, 0, tt_pg_rank(j->pg) * rows, rows));
    loss = tt_cross_entropy(scores, tt_narrow(y, 0, tt_pg_rank(j->pg) * rows, rows));
    if (loss == NULL)
        return tt_last_status();
    TT_TRY(tt_optim_zero_grad(j->t.optim, true));
    enters(BACKWARD);
    TT_TRY(tt_backward(loss));
    enters(OPTIMIZER);
    TT_TRY(tt_optim_step(j->t.optim));
    j->t.step++;
    return TT_OK;
}

static tt_status train(job *j)
{
    tt_status st = TT_OK;

    while (st == TT_OK && j->t.step < STEPS) {
        now_step = j->t.step;
        TT_SCOPE
            st = one_step(j);
        if (st == TT_OK && j->t.step % EVERY == 0) {
            enters(CHECKPOINT);
            st = tt_training_save(j->dir, j->pg, &j->t,
                                  &(tt_training_save_options){ .sharded = true });
        }
    }
    return st;
}

/* A group of those who live, and the last state that all had. */
static tt_status go_on(job *j, int victim)
{
    int ranks[W], n = 0;

    for (int i = 0; i < W; i++)
        if (i != victim)
            ranks[n++] = i;
    tt_pg *rest = tt_pg_subgroup(j->pg, ranks, n, &(tt_pg_options){ .timeout_ms = TIMEOUT_MS });
    if (rest == NULL)
        return tt_last_status();
    tt_pg_free(j->pg);
    j->pg = rest;
    TT_TRY(tt_ddp_set_group(j->ddp, rest));
    return tt_training_load(j->dir, rest, &j->t);
}

static double accuracy(job *j)
{
    double right = 0;

    TT_SCOPE
        TT_NO_GRAD
        {
            tt_tensor *x, *y;

            samples(&x, &y);
            tt_tensor *guess = tt_argmax_dim(tt_ddp_forward(j->ddp, x), 1, false);
            right = tt_item(tt_mean(tt_to_dtype(tt_eq(guess, y), TT_F32)));
        }
    return right;
}

/* ---- ranks --------------------------------------------------------------------------------------- */

static tt_status begin(job *j, const trial *t, int rank)
{
    char url[600];

    snprintf(url, sizeof url, "file://%s?rank=%d&size=%d", t->path, rank, W);
    j->dir = t->dir;
    j->pg = tt_pg_new(url, &(tt_pg_options){ .timeout_ms = TIMEOUT_MS });
    if (j->pg == NULL)
        return tt_last_status();
    tt_seed(3);
    j->t.module = TT_MLP(TT_ACT_TANH, INPUTS, 24, CLASSES);
    j->t.optim = tt_adam_for(j->t.module, &(tt_adam_options){ .lr = 0.05 });
    j->ddp = tt_ddp_new(j->t.module, j->pg, &(tt_ddp_options){ .bucket_cap_mb = 0.0005 });
    if (j->ddp == NULL)
        return tt_last_status();
    TT_TRY(tt_ddp_register_hook(j->ddp, &(tt_ddp_hook){ .name = "deadly", .fn = deadly_hook }));
    return tt_training_save(j->dir, j->pg, &j->t, NULL);
}

static void rank_main(const trial *t, int rank, int report_fd)
{
    report r = { .rank = rank };
    job j = { 0 };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, die);
    tt_set_num_threads(1);
    r.status = begin(&j, t, rank);
    if (rank == t->victim)
        mine = t;
    if (r.status == TT_OK)
        r.status = train(&j);
    r.at = tti_now_ns();
    snprintf(r.words, sizeof r.words, "%s", tt_last_error());
    if (r.status == TT_ERR_PEER) {
        r.end = go_on(&j, t->victim);
        r.resumed_at = j.t.step;
        if (r.end == TT_OK)
            r.end = train(&j);
        snprintf(r.last_words, sizeof r.last_words, "%s", tt_last_error());
        if (r.end == TT_OK)
            r.accuracy = accuracy(&j);
    }
    _exit(write(report_fd, &r, sizeof r) == sizeof r ? 0 : 4);
}

static bool check_report(const trial *t, const report *r)
{
    char name[16];
    int at = t->step / EVERY * EVERY;
    bool ok = TT_CHECK_EQ(r->status, TT_ERR_PEER);

    snprintf(name, sizeof name, "rank %d", t->victim);
    ok &= TT_CHECK_CONTAINS(r->words, name);
    ok &= TT_CHECK_EQ(r->end, TT_OK);
    ok &= TT_CHECK(r->resumed_at >= at && r->resumed_at <= at + 2 * EVERY);
    ok &= TT_CHECK_EQ(r->resumed_at % EVERY, 0); /* that of a checkpoint, not of the failure */
    ok &= TT_CHECK(r->accuracy >= 0.9);
    if (!ok)
        TT_FAIL_TEST("survivor %d: %s; step %lld; then %s; accuracy %.2f", r->rank, r->words,
                     (long long)r->resumed_at, r->last_words, r->accuracy);
    return ok;
}

/* The time that the slower survivor took is kept in *slow_p. */
static bool run_trial(const trial *t, int64_t *slow_p)
{
    int reports[2];
    pid_t pids[W];
    bool ok = true;

    TT_REQUIRE_EQ(pipe(reports), 0);
    for (int i = 0; i < W; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            rank_main(t, i, reports[1]);
    }
    waitpid(pids[t->victim], NULL, 0);
    int64_t died = tti_now_ns();
    for (int i = 0; ok && i < W - 1; i++) {
        report r;
        struct pollfd p = { reports[0], POLLIN, 0 };

        ok = TT_CHECK_EQ(poll(&p, 1, PATIENCE_MS), 1) &&
             TT_CHECK_EQ(read(reports[0], &r, sizeof r), (ssize_t)sizeof r) && check_report(t, &r);
        if (ok && r.at - died > *slow_p)
            *slow_p = r.at - died;
    }
    for (int i = 0; i < W; i++) {
        if (i == t->victim)
            continue;
        if (!ok)
            kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close(reports[0]);
    close(reports[1]);
    if (!ok)
        TT_FAIL_TEST("rank %d killed %d us into %s of step %d", t->victim, t->delay_us,
                     phase_names[t->where], t->step);
    return ok;
}

static void killed_in(phase where, int max_us)
{
    const char *asked = getenv("TRAINING_FAULT_TRIALS");
    int n = (asked != NULL ? atoi(asked) : TRIALS) / ONE_OF;
    uint64_t base = tt_test_seed();
    int64_t worst = 0;
    int quick = 0;

    for (int i = 0; i < n; i++) {
        int64_t slow = 0;
        uint64_t h = golden_hash(base, (uint64_t)i);
        trial t = { .where = where,
                    .victim = (int)(h % W),
                    .step = 1 + (int)(h / W % (STEPS - 2 * EVERY)),
                    .delay_us = (int)(h / 1024 % (uint64_t)max_us) };

        snprintf(t.path, sizeof t.path, "%s/meet%d", tt_test_tmpdir(), i);
        snprintf(t.dir, sizeof t.dir, "%s/state%d", tt_test_tmpdir(), i);
        if (!run_trial(&t, &slow))
            return;
        worst = slow > worst ? slow : worst;
        quick += slow < 2000000000;
    }
    TT_CHECK_GT(quick, n / 2);
    tt_test_note("%d moments, slowest survivor %.0f ms, %d within 2 s", n, (double)worst * 1e-6,
                 quick);
}

TT_TEST_LIMIT(training_faults, killed_in_forward, 3600)
{
    killed_in(FORWARD, 60);
}

TT_TEST_LIMIT(training_faults, killed_in_backward, 3600)
{
    killed_in(BACKWARD, 100);
}

TT_TEST_LIMIT(training_faults, killed_in_the_middle_of_a_bucket, 3600)
{
    killed_in(BUCKET, 50);
}

TT_TEST_LIMIT(training_faults, killed_in_the_optimizer, 3600)
{
    killed_in(OPTIMIZER, 30);
}

TT_TEST_LIMIT(training_faults, killed_in_a_checkpoint, 3600)
{
    killed_in(CHECKPOINT, 8000);
}
