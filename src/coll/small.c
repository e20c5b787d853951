/* SPDX-License-Identifier: Apache-2.0 */
/* Small messages: they lie in the slot, behind the word that announces them, so that one store publishes
 * both. Everybody reads what it needs from everybody's slot. What is for all ranks lies at the
 * beginning; what is for single ranks, one after the other in the order of ranks. */
#include <string.h>

#include "coll/internal.h"

static bool personal(tti_coll_kind kind)
{
    return kind == TTI_COLL_SCATTER || kind == TTI_COLL_REDUCE_SCATTER ||
           kind == TTI_COLL_ALL_TO_ALL;
}

bool tti_fits_small(const tti_team *team, const tti_coll *c, size_t largest)
{
    bool reduces = c->kind == TTI_COLL_ALL_REDUCE || c->kind == TTI_COLL_REDUCE ||
                   c->kind == TTI_COLL_REDUCE_SCATTER;

    /* Copies through the kernel are faster from half of a slot on. */
    if (team->all_cma && !reduces && c->kind != TTI_COLL_BROADCAST && largest > TTI_SMALL_BYTES / 2)
        return false;
    return largest * (personal(c->kind) ? (size_t)team->size : 1) <= TTI_SMALL_BYTES;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memmove(to, from, bytes);
}

/* Parts of equal size on every rank start where those before them end. */
static size_t offset_of(const tti_coll *c, int rank, size_t each)
{
    size_t at = 0;

    if (c->kind == TTI_COLL_SCATTER)
        return (size_t)rank * each;
    for (int r = 0; r < rank; r++)
        at += c->ins[r].bytes;
    return at;
}

static void put(tti_team *team, const tti_coll *c, tti_slot *slot)
{
    switch (c->kind) {
    case TTI_COLL_BROADCAST:
        if (team->rank == c->root)
            copy(slot->data, c->out.data, c->out.bytes);
        break;
    case TTI_COLL_SCATTER:
        for (int r = 0; team->rank == c->root && r < team->size; r++)
            copy(slot->data + (size_t)r * c->out.bytes, c->ins[r].data, c->ins[r].bytes);
        break;
    case TTI_COLL_REDUCE_SCATTER:
    case TTI_COLL_ALL_TO_ALL:
        for (int r = 0; r < team->size; r++)
            copy(slot->data + offset_of(c, r, 0), c->ins[r].data, c->ins[r].bytes);
        break;
    default:
        copy(slot->data, c->in.data, c->in.bytes);
    }
}

/* From everybody's slots, `offset` bytes into each; what is mine from where it was. */
static void reduce(tti_team *team, const tti_coll *c, const void *own, size_t offset,
                   const tti_span *out)
{
    for (int r = 0; r < team->size; r++) {
        const tti_slot *slot = tti_slot_of(team, r, team->n);

        team->inputs[r] = r == team->rank ? own : slot->data + offset;
        team->factors[r] = slot->factor;
    }
    team->reduce(out->data, team->inputs, team->size, tti_fold_count(c->dtype, out->bytes),
                 team->factors);
}

static const unsigned char *data_of(const tti_team *team, int rank)
{
    return tti_slot_of(team, rank, team->n)->data;
}

/* One rank has what everybody wants. */
static tt_status get_from_root(tti_team *team, const tti_coll *c)
{
    size_t offset = c->kind == TTI_COLL_SCATTER ? (size_t)team->rank * c->out.bytes : 0;

    if (team->rank == c->root) {
        if (c->kind == TTI_COLL_SCATTER)
            copy(c->out.data, c->ins[c->root].data, c->out.bytes);
        return TT_OK;
    }
    TT_TRY(tti_await_arrival(team, c->root));
    copy(c->out.data, data_of(team, c->root) + offset, c->out.bytes);
    return TT_OK;
}

static void get_all(tti_team *team, const tti_coll *c)
{
    size_t offset = c->kind == TTI_COLL_ALL_TO_ALL ? offset_of(c, team->rank, 0) : 0;

    for (int r = 0; r < team->size; r++)
        if (r != team->rank)
            copy(c->outs[r].data, data_of(team, r) + offset, c->outs[r].bytes);
}

/* What a rank has for itself: done while the others' messages are on their way. */
static void keep_own(const tti_team *team, const tti_coll *c)
{
    const tti_span *to = &c->outs[team->rank];

    copy(to->data, c->ins != NULL ? c->ins[team->rank].data : c->in.data, to->bytes);
}

tt_status tti_run_small(tti_team *team, const tti_coll *c)
{
    bool rooted = c->kind == TTI_COLL_REDUCE || c->kind == TTI_COLL_GATHER;

    put(team, c, tti_slot_of(team, team->rank, team->n));
    tti_arrive(team);
    if (c->kind == TTI_COLL_BROADCAST || c->kind == TTI_COLL_SCATTER)
        return get_from_root(team, c);
    if (rooted && team->rank != c->root)
        return TT_OK;
    if (c->kind == TTI_COLL_GATHER || c->kind == TTI_COLL_ALL_GATHER ||
        c->kind == TTI_COLL_ALL_TO_ALL)
        keep_own(team, c);
    TT_TRY(tti_await_arrivals(team));
    if (c->kind == TTI_COLL_ALL_REDUCE || c->kind == TTI_COLL_REDUCE)
        reduce(team, c, c->in.data, 0, &c->out);
    else if (c->kind == TTI_COLL_REDUCE_SCATTER)
        reduce(team, c, c->ins[team->rank].data, offset_of(c, team->rank, 0), &c->out);
    else
        get_all(team, c);
    return TT_OK;
}
