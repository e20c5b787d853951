/* SPDX-License-Identifier: Apache-2.0 */
/* A group of processes. Start four ranks of this program:
 *
 *     tutti run -n 4 build/dev/examples/06_process_group
 *
 * They fit one line to four shares of the data, which only works if they add up their gradients. Any
 * number of ranks will do; started without `tutti run` it is a world of one. */
#include <stdio.h>

#include "tutti/collective.h"
#include "tutti/tutti.h"

/* Everybody learns the plan of rank 0. Objects are nested values of any size. */
static tt_status agree(tt_pg *pg, int64_t *steps_p, double *lr_p)
{
    tt_value *plan = NULL; /* replaced on every rank but the root */
    tt_status st = TT_OK;

    if (tt_pg_rank(pg) == 0) {
        plan = tt_value_map_new();
        tt_value_map_give(plan, "steps", tt_value_int_new(200));
        tt_value_map_give(plan, "lr", tt_value_float_new(0.1));
    }
    st = tt_pg_broadcast_objects(pg, &plan, 1, 0, NULL);
    if (st == TT_OK) {
        *steps_p = tt_value_as_int(tt_value_map_get(plan, "steps"));
        *lr_p = tt_value_as_float(tt_value_map_get(plan, "lr"));
    }
    tt_value_free(plan);
    return st;
}

/* One step: gradients of the rank's own share, averaged over all ranks while the loss is computed. */
static tt_status step(tt_pg *pg, tt_tensor *x, tt_tensor *y, tt_tensor *line, double lr)
{
    tt_coll_options average = { .op = TT_REDUCE_AVG };
    tt_work *work;
    tt_tensor *error, *grad, *loss;
    tt_status st;

    error = tt_sub(tt_add(tt_mul(x, tt_select(line, 0, 0)), tt_select(line, 0, 1)), y);
    grad = tt_stack((tt_tensor *[]){ tt_mean(tt_mul(error, x)), tt_mean(error) }, 2, 0);
    TT_TRY(
        tt_pg_all_reduce(pg, grad, &average, &work)); /* starts: leave `grad` alone until it ends */
    loss = tt_mean(tt_square(error));
    st = tt_work_wait(work, 0); /* the status of the operation itself */
    tt_work_free(work);
    TT_TRY(st);
    TT_TRY(tt_pg_all_reduce(pg, loss, &average, NULL)); /* without a work the call waits */
    if (tt_item(loss) > 1e3)
        tt_pg_abort(pg,
                    "the loss grows"); /* the others fail at their next call, with these words */
    return tt_add_scaled_(line, grad, -2 * lr) != NULL ? TT_OK : tt_last_status();
}

/* Ranks with the same colour form a group: here the even and the odd ones. */
static tt_status halves(tt_pg *world)
{
    int rank = tt_pg_rank(world);
    tt_pg *half = tt_pg_split(world, rank % 2, rank, NULL);
    tt_status st = half != NULL ? TT_OK : tt_last_status();

    TT_SCOPE {
        tt_tensor *sum = tt_full(TT_SHAPE(1), rank, TT_I64, TT_CPU);

        if (st == TT_OK)
            st = tt_pg_all_reduce(half, sum, NULL, NULL);
        if (st == TT_OK)
            printf("rank %d is %d of %d among the %s ranks, whose sum is %g\n", rank,
                   tt_pg_rank(half), tt_pg_size(half), rank % 2 ? "odd" : "even", tt_item(sum));
    }
    tt_pg_free(half);
    return st;
}

static tt_status fit(tt_pg *pg)
{
    tt_tensor *x = tt_linspace(-1, 1, 64, TT_F32, TT_CPU);
    tt_tensor *line = tt_zeros(TT_SHAPE(2), TT_F32, TT_CPU);
    tt_tensor *y;
    int64_t steps;
    double lr;

    x = tt_add_scalar(x, 0.1 * tt_pg_rank(pg)); /* every rank sees other points of y = 3 x - 2 */
    y = tt_add_scalar(tt_mul_scalar(x, 3), -2);
    TT_TRY(agree(pg, &steps, &lr));
    for (int64_t i = 0; i < steps; i++)
        TT_SCOPE {
            TT_TRY(step(pg, x, y, line, lr));
        }
    if (tt_pg_rank(pg) == 0)
        printf("%d ranks found y = %.2f x %+.2f\n", tt_pg_size(pg), tt_at(line, (int64_t[]){ 0 }),
               tt_at(line, (int64_t[]){ 1 }));
    return TT_OK;
}

int main(void)
{
    tt_pg *world = tt_pg_new(NULL, NULL); /* rank and size come from the launcher */
    tt_status st = world != NULL ? TT_OK : tt_last_status();

    TT_SCOPE {
        if (st == TT_OK)
            st = fit(world);
        if (st == TT_OK)
            st = halves(world);
    }
    if (st != TT_OK)
        fprintf(stderr, "%s: %s\n", tt_status_name(st), tt_last_error());
    tt_pg_free(world);
    return st != TT_OK;
}
