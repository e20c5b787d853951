/* SPDX-License-Identifier: Apache-2.0 */
/* A training that survives the death of a rank without a line of code for it. Start it like this:
 *
 *     tutti run -n 3 --max-restarts 2 build/dev/examples/10_restart
 *
 * Every ten steps the whole training goes to the disk. In step 25 of the first start rank 1 is killed; the
 * launcher ends the others, says what happened and starts all of them again, and they go on from step 20. */
#define _GNU_SOURCE 1 /* for nftw */
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti/checkpoint.h"
#include "tutti/ddp.h"
#include "tutti/tutti.h"

enum { N_STEPS = 60, N_SAMPLES = 120, N_INPUTS = 8 };

/* This rank's share of the samples: which of the first three inputs is the largest? */
static void samples(tt_pg *pg, tt_tensor **x_p, tt_tensor **y_p)
{
    int64_t n = N_SAMPLES / tt_pg_size(pg);
    tt_generator *same = tt_generator_new(1);
    tt_tensor *x = tt_normal_(tt_empty(TT_SHAPE(N_SAMPLES, N_INPUTS), TT_F32, TT_CPU), 0, 1, same);

    *x_p = tt_narrow(x, 0, tt_pg_rank(pg) * n, n);
    *y_p = tt_argmax_dim(tt_narrow(*x_p, 1, 0, 3), 1, false);
    tt_generator_free(same);
}

static tt_status step(tt_ddp *ddp, tt_optim *opt, double *loss_p)
{
    tt_tensor *x, *y, *loss;

    samples(tt_ddp_group(ddp), &x, &y);
    loss = tt_cross_entropy(tt_ddp_forward(ddp, x), y);
    TT_TRY(tt_optim_zero_grad(opt, true));
    TT_TRY(tt_backward(loss));
    TT_TRY(tt_optim_step(opt));
    *loss_p = tt_item(loss);
    return TT_OK;
}

/* For the demonstration: the first start loses a rank. */
static void perhaps_die(const tt_pg *pg, int64_t now)
{
    const char *starts = getenv("TORCHELASTIC_RESTART_COUNT");

    if (starts != NULL && strcmp(starts, "0") == 0 && tt_pg_rank(pg) == 1 && now == 25)
        raise(SIGKILL);
}

static tt_status train(tt_pg *pg, const char *dir)
{
    tt_training t = { .module = TT_MLP(TT_ACT_RELU, N_INPUTS, 32, 3) };
    double loss = 0;
    tt_status st;

    t.optim = tt_adam_for(t.module, &(tt_adam_options){ .lr = 0.02 });
    tt_ddp *ddp = tt_ddp_new(t.module, pg, NULL);
    if (ddp == NULL)
        return tt_last_status();
    st = tt_training_load(dir, pg, &t);
    if (st == TT_ERR_NOT_FOUND)
        st = TT_OK; /* this is the first start */
    if (tt_pg_rank(pg) == 0)
        printf("from step %lld\n", (long long)t.step);
    while (st == TT_OK && t.step < N_STEPS) {
        perhaps_die(pg, t.step);
        TT_SCOPE
            st = step(ddp, t.optim, &loss);
        t.step++;
        if (st == TT_OK && t.step % 10 == 0)
            st = tt_training_save(dir, pg, &t, NULL);
    }
    if (st == TT_OK && tt_pg_rank(pg) == 0)
        printf("step %lld: loss %.3f\n", (long long)t.step, loss);
    if (st == TT_OK && !(loss < 0.3))
        st = tt_fail(TT_ERR_INVALID, "the loss stayed at %g", loss);
    tt_ddp_free(ddp);
    tt_optim_free(t.optim);
    tt_module_free(t.module);
    return st;
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int main(void)
{
    char dir[256];
    const char *job = getenv("TORCHELASTIC_RUN_ID");
    tt_pg *pg;
    tt_status st;

    snprintf(dir, sizeof dir, "/tmp/tutti-restart-%s", job != NULL ? job : "alone");
    pg = tt_pg_new(NULL, NULL);
    st = pg != NULL ? train(pg, dir) : tt_last_status();
    if (st == TT_OK && tt_pg_rank(pg) == 0) /* a real training keeps them */
        nftw(dir, forget, 8, FTW_DEPTH | FTW_PHYS);
    if (st != TT_OK)
        fprintf(stderr, "%s\n", tt_last_error());
    tt_pg_free(pg);
    return st != TT_OK;
}
