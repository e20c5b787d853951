/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when a rank dies. Four ranks count up together; at step 3 rank 2 is killed. The others are told
 * which one it was, form a group of those who are left, and finish.
 *
 * The ranks are children of this program, not of `tutti run`, which would end the whole job: a group
 * needs no launcher, only a place where its ranks can meet. Here that is a file. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti/tutti.h"

enum { N_RANKS = 4, VICTIM = 2, N_STEPS = 6 };

/* A new group of those who live, in place of *pg_p. The old one serves to find each other. */
static tt_status regroup(tt_pg **pg_p)
{
    int dead[N_RANKS], alive[N_RANKS], n_alive = 0;
    int n_dead = tt_pg_dead_ranks(*pg_p, dead);

    for (int rank = 0, k = 0; rank < tt_pg_size(*pg_p); rank++)
        if (k < n_dead && dead[k] == rank)
            k++;
        else
            alive[n_alive++] = rank;
    tt_pg *rest = tt_pg_subgroup(*pg_p, alive, n_alive, &(tt_pg_options){ .name = "survivors" });
    if (rest == NULL)
        return tt_last_status();
    tt_pg_free(*pg_p);
    *pg_p = rest;
    return TT_OK;
}

static tt_status count_up(tt_pg **pg_p, int me)
{
    for (int step = 0; step < N_STEPS; step++)
        TT_SCOPE {
            tt_tensor *ones = tt_ones(TT_SHAPE(1000), TT_F32, TT_CPU);
            tt_status st;

            if (me == VICTIM && step == 3)
                raise(SIGKILL);
            st = tt_pg_all_reduce(*pg_p, ones, NULL, NULL);
            if (st == TT_ERR_PEER) { /* somebody died: what `ones` holds now is not to be used */
                printf("rank %d, step %d: %s\n", me, step, tt_last_error());
                TT_TRY(regroup(pg_p));
                ones = tt_ones(TT_SHAPE(1000), TT_F32, TT_CPU);
                st = tt_pg_all_reduce(*pg_p, ones, NULL, NULL); /* the step once more */
            }
            TT_TRY(st);
            if (tt_pg_rank(*pg_p) == 0)
                printf("step %d: %g ranks\n", step, tt_at(ones, (int64_t[]){ 999 }));
        }
    return TT_OK;
}

static int rank_main(const char *path, int me)
{
    char url[256];
    tt_pg *pg;
    tt_status st;

    snprintf(url, sizeof url, "file://%s?rank=%d&size=%d", path, me, N_RANKS);
    pg = tt_pg_new(url, &(tt_pg_options){ .timeout_ms = 30000 });
    st = pg != NULL ? count_up(&pg, me) : tt_last_status();
    if (st != TT_OK)
        fprintf(stderr, "rank %d: %s\n", me, tt_last_error());
    tt_pg_free(pg);
    return st != TT_OK;
}

int main(void)
{
    char path[] = "/tmp/tutti-survivors-XXXXXX";
    int file = mkstemp(path), status, n_finished = 0;
    pid_t pids[N_RANKS];

    if (file < 0)
        return perror(path), 1;
    for (int i = 0; i < N_RANKS;
         i++) { /* before the first operator: OpenMP does not survive a fork */
        fflush(stdout);
        pids[i] = fork();
        if (pids[i] == 0)
            exit(rank_main(path, i));
    }
    for (int i = 0; i < N_RANKS; i++)
        if (pids[i] > 0 && waitpid(pids[i], &status, 0) > 0 && status == 0)
            n_finished++;
    close(file);
    unlink(path);
    printf("%d of %d ranks finished\n", n_finished, N_RANKS);
    return n_finished != N_RANKS - 1;
}
