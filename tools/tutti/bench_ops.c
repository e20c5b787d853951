/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that `tutti bench` knows: one row each. */
#include <stddef.h>
#include <string.h>

#include "bench.h"

#define OPTIONS(c) (&(tt_coll_options){ .op = (c)->opt->redop })

static tt_status all_reduce(const tti_bench_case *c, const tti_bench_slot *s)
{
    if (c->in_place)
        return tt_pg_all_reduce(c->pg, s->in, OPTIONS(c), NULL);
    return tt_pg_all_reduce_to(c->pg, s->in, s->out, OPTIONS(c), NULL);
}

static tt_status all_gather(const tti_bench_case *c, const tti_bench_slot *s)
{
    return tt_pg_all_gather_into(c->pg, s->in, s->out, NULL, NULL);
}

static tt_status reduce_scatter(const tti_bench_case *c, const tti_bench_slot *s)
{
    return tt_pg_reduce_scatter_from(c->pg, s->out, s->in, OPTIONS(c), NULL);
}

static tt_status all_to_all(const tti_bench_case *c, const tti_bench_slot *s)
{
    return tt_pg_all_to_all_single(c->pg, s->out, s->in, NULL, NULL, NULL, NULL);
}

static tt_status broadcast(const tti_bench_case *c, const tti_bench_slot *s)
{
    return tt_pg_broadcast(c->pg, s->in, 0, NULL, NULL);
}

static tt_status reduce(const tti_bench_case *c, const tti_bench_slot *s)
{
    return tt_pg_reduce(c->pg, s->in, 0, OPTIONS(c), NULL);
}

static tt_status barrier(const tti_bench_case *c, const tti_bench_slot *s)
{
    (void)s;
    return tt_pg_barrier(c->pg, NULL, NULL);
}

static int partner(const tti_bench_case *c)
{
    int other = c->rank ^ 1;

    return other < c->size ? other : c->rank;
}

/* Pairs of neighbours; with an odd number of ranks the last one only watches. */
static tt_status there_and_back(const tti_bench_case *c, const tti_bench_slot *s)
{
    int other = partner(c);

    if (other == c->rank)
        return TT_OK;
    if (c->rank < other) {
        TT_TRY(tt_pg_send(c->pg, s->in, other, 0, NULL, NULL));
        return tt_pg_recv(c->pg, s->out, other, 0, NULL, NULL, NULL);
    }
    TT_TRY(tt_pg_recv(c->pg, s->out, other, 0, NULL, NULL, NULL));
    return tt_pg_send(c->pg, s->in, other, 0, NULL, NULL);
}

static int previous(const tti_bench_case *c)
{
    return (c->rank + c->size - 1) % c->size;
}

static tt_status exchange(const tti_bench_case *c, const tti_bench_slot *s)
{
    tt_p2p_op both[] = {
        { .kind = TT_P2P_SEND, .pg = c->pg, .t = s->in, .peer = (c->rank + 1) % c->size },
        { .kind = TT_P2P_RECV, .pg = c->pg, .t = s->out, .peer = previous(c) },
    };
    tt_work *works[2];
    tt_status st = TT_OK;

    TT_TRY(tt_p2p_batch(both, 2, NULL, works));
    for (int i = 0; i < 2; i++) {
        tt_status one = tt_work_wait(works[i], 0);

        st = st == TT_OK ? one : st;
        tt_work_free(works[i]);
    }
    return st;
}

static int self(const tti_bench_case *c)
{
    return c->rank;
}

/* Not communication: what the machine's memory gives when all ranks copy at once. */
static tt_status copy(const tti_bench_case *c, const tti_bench_slot *s)
{
    (void)c;
    memcpy(tt_tensor_data(s->out), tt_tensor_data(s->in), tt_tensor_bytes(s->in));
    return TT_OK;
}

static double bus_all_reduce(double n)
{
    return 2 * (n - 1) / n;
}

static double bus_parts(double n)
{
    return (n - 1) / n;
}

static const tti_bench_op ops[] = {
    { .name = "all_reduce",
      .summary = "everybody gets the reduction of all inputs",
      .result = TTI_RESULT_REDUCED,
      .reduces = true,
      .bus = bus_all_reduce,
      .call = all_reduce },
    { .name = "all_gather",
      .summary = "everybody gets all inputs",
      .result = TTI_RESULT_GATHERED,
      .out_parts = true,
      .bus = bus_parts,
      .call = all_gather },
    { .name = "reduce_scatter",
      .summary = "everybody gets a part of the reduction",
      .result = TTI_RESULT_PIECE,
      .in_parts = true,
      .reduces = true,
      .bus = bus_parts,
      .call = reduce_scatter },
    { .name = "all_to_all",
      .summary = "everybody gets a part of every input",
      .result = TTI_RESULT_TURNED,
      .in_parts = true,
      .out_parts = true,
      .never_in_place = true,
      .bus = bus_parts,
      .call = all_to_all },
    { .name = "broadcast",
      .summary = "everybody gets the input of rank 0",
      .result = TTI_RESULT_FROM,
      .always_in_place = true,
      .call = broadcast },
    { .name = "reduce",
      .summary = "rank 0 gets the reduction of all inputs",
      .result = TTI_RESULT_ROOT,
      .always_in_place = true,
      .reduces = true,
      .call = reduce },
    { .name = "barrier", .summary = "everybody waits for all", .no_data = true, .call = barrier },
    { .name = "sendrecv",
      .summary = "half the time there and back, in pairs",
      .result = TTI_RESULT_FROM,
      .never_in_place = true,
      .needs_two = true,
      .calls_per_time = 2,
      .from = partner,
      .call = there_and_back },
    { .name = "exchange",
      .summary = "all send to the next rank and receive from the one before",
      .result = TTI_RESULT_FROM,
      .never_in_place = true,
      .needs_two = true,
      .from = previous,
      .call = exchange },
    { .name = "copy",
      .summary = "no communication: all ranks copy memory at once",
      .result = TTI_RESULT_FROM,
      .never_in_place = true,
      .from = self,
      .call = copy },
};

const tti_bench_op *tti_bench_op_at(int index)
{
    return index >= 0 && index < (int)(sizeof ops / sizeof ops[0]) ? &ops[index] : NULL;
}
