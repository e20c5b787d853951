/* SPDX-License-Identifier: Apache-2.0 */
/* Without staging: ranks read each other's buffers where they are. Those of threads by their address; those in
 * a heap through a mapping; any other through the kernel, which copies from one process to another.
 *
 * A rank announces where its buffers are in its slot. Nobody may touch what peers read until their phase says that they
 * have read it: base + 1. In all_reduce every rank reduces its slice of everybody's buffers; the results are written
 * into everybody's buffers where all can be reached, else fetched when the phase of their maker is base + 1. Who leaves
 * early sees to it that nobody touches its buffers afterwards (leave.c); that is why every use of them is between
 * tti_touch and tti_touched, and why a phase is set only after the latter. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "coll/heap.h"
#include "coll/internal.h"

/* Sizes of one part at which it is faster than staging, measured at 2 ranks. */
#define MAPPED_LEAST ((size_t)8 << 10)

#define PULL_PIECE ((size_t)1 << 20) /* copied from a thread while it cannot leave */

static bool by_kernel(tti_coll_kind kind, size_t largest)
{
    switch (kind) {
    case TTI_COLL_ALL_GATHER:
    case TTI_COLL_ALL_TO_ALL:
    case TTI_COLL_GATHER:
    case TTI_COLL_SCATTER:
        return largest > ((size_t)8 << 10);
    case TTI_COLL_BROADCAST: /* the root is idle meanwhile: from some size on, staging uses both */
        return largest > ((size_t)16 << 10) && largest <= ((size_t)512 << 10);
    case TTI_COLL_ALL_REDUCE: /* below, finding the pages of small ones costs more than copying twice */
        return largest >= ((size_t)3 << 20);
    default:
        return largest >= ((size_t)512 << 10);
    }
}

/* What a slot says. */
typedef struct notice {
    tti_place in, out;
    uint64_t parts[]; /* where the parts for each rank begin, counted as in.at */
} notice;

static notice *notice_of(const tti_team *team, int rank)
{
    return (notice *)(void *)tti_slot_of(team, rank, team->n)->data;
}

static bool has_parts(tti_coll_kind kind)
{
    return kind == TTI_COLL_SCATTER || kind == TTI_COLL_REDUCE_SCATTER ||
           kind == TTI_COLL_ALL_TO_ALL;
}

static bool from_root(tti_coll_kind kind)
{
    return kind == TTI_COLL_BROADCAST || kind == TTI_COLL_SCATTER;
}

static bool to_root(tti_coll_kind kind)
{
    return kind == TTI_COLL_GATHER || kind == TTI_COLL_REDUCE;
}

/* ---- choosing ----------------------------------------------------------------------------- */

static void place_of(const tti_team *team, const void *p, size_t bytes, tti_place *place)
{
    *place = (tti_place){ .at = (uint64_t)(uintptr_t)p };
    if (!team->same_process && team->all_maps)
        tti_heap_find(p, bytes, place);
}

/* What this rank's peers read, and, in all_reduce, write. */
static void announce(tti_team *team, const tti_coll *c)
{
    notice *me = notice_of(team, team->rank);
    tti_span in = c->kind == TTI_COLL_BROADCAST ? c->out : c->in;

    *me = (notice){ 0 };
    if (has_parts(c->kind)) {
        if (c->ins == NULL)
            return;
        in.data = c->ins[0].data;
        place_of(team, in.data, c->ins[0].bytes, &me->in);
        for (int r = 0; r < team->size; r++) {
            tti_place part;

            place_of(team, c->ins[r].data, c->ins[r].bytes, &part);
            if (part.seg != me->in.seg) { /* of several files: as if in none */
                me->in = (tti_place){ .at = (uint64_t)(uintptr_t)in.data };
                for (int k = 0; k < team->size; k++)
                    me->parts[k] = (uint64_t)(uintptr_t)c->ins[k].data;
                break;
            }
            me->parts[r] = part.at;
        }
        return;
    }
    place_of(team, in.data, in.bytes, &me->in);
    if (c->kind != TTI_COLL_ALL_REDUCE)
        return;
    team->lent_leaves = tti_heap_leaves();
    place_of(team, c->out.data, c->out.bytes, &me->out);
    if (me->out.seg != 0)
        team->lent = c->out;
    team->lent_phase = team->phase + 1;
}

static bool in_heap(const tti_team *team, const tti_coll *c, int rank)
{
    const notice *n = notice_of(team, rank);

    return n->in.seg != 0 && (c->kind != TTI_COLL_ALL_REDUCE || n->out.seg != 0);
}

tt_status tti_choose_direct(tti_team *team, const tti_coll *c, size_t largest, bool *direct_p)
{
    *direct_p = team->size > 1 && largest >= MAPPED_LEAST;
    if (*direct_p)
        announce(team, c);
    tti_arrive(team);
    if (!*direct_p || team->same_process || (team->all_cma && by_kernel(c->kind, largest)))
        return TT_OK;
    for (int r = 0; r < team->size && *direct_p; r++) {
        if (from_root(c->kind) ? r != c->root : to_root(c->kind) && r == c->root)
            continue;
        if (r != team->rank)
            TT_TRY(tti_await_arrival(team, r));
        *direct_p = in_heap(team, c, r);
    }
    return TT_OK;
}

/* ---- reaching --------------------------------------------------------------------------------- */

/* The address here of what a peer announced, `at` counted as in the place; NULL: only through the kernel. */
static char *address(tti_team *team, int rank, const tti_place *place, uint64_t at)
{
    tti_place p = *place;

    if (team->same_process)
        return (char *)(uintptr_t)at;
    if (p.seg == 0)
        return NULL;
    p.at = at;
    return tti_heap_map(team, rank, &p);
}

/* The kernel did not let us read or map: the peer has died, or will have in a moment. */
static tt_status unreadable(tti_team *team, int rank, int err)
{
    tti_doing d = { tti_coll_name(team->c->kind), team->c->seq };

    for (int i = 0; i < 200; i++) {
        tti_look_for_dead(team);
        TT_TRY(tti_check_peer(team, rank, &d));
        usleep(1000);
    }
    return TT_FAIL(TT_ERR_IO, "group %s: %s %llu: reading memory of rank %d: %s", team->group,
                   d.what, (unsigned long long)d.seq, team->peers[rank].who.global_rank,
                   strerror(err));
}

static tt_status fetch(tti_team *team, int rank, uint64_t at, void *to, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        struct iovec here = { (char *)to + done, bytes - done };
        struct iovec there = { (void *)(uintptr_t)(at + done), bytes - done };
        ssize_t n = process_vm_readv(team->peers[rank].pid, &here, 1, &there, 1, 0);

        if (n <= 0 && errno != EINTR)
            return unreadable(team, rank, errno);
        done += n > 0 ? (size_t)n : 0;
    }
    return TT_OK;
}

static tt_status pull(tti_team *team, int rank, const tti_place *place, uint64_t at, tti_span to)
{
    const char *here;

    if (to.bytes == 0)
        return TT_OK;
    here = address(team, rank, place, at);
    if (here == NULL && place->seg != 0)
        return unreadable(team, rank, errno);
    if (here == NULL) {
        TT_TRY(fetch(team, rank, at, to.data, to.bytes));
        return tti_touched(team, rank);
    }
    for (size_t done = 0; done < to.bytes; done += PULL_PIECE) {
        size_t n = to.bytes - done < PULL_PIECE ? to.bytes - done : PULL_PIECE;

        TT_TRY(tti_touch(team, rank));
        memcpy((char *)to.data + done, here + done, n);
        TT_TRY(tti_touched(team, rank));
    }
    return TT_OK;
}

/* ---- copies -------------------------------------------------------------------------------------- */

static tti_span destination(const tti_coll *c, int from)
{
    return from_root(c->kind) ? c->out : c->outs[from];
}

static tt_status copy_from(tti_team *team, const tti_coll *c, int r)
{
    const notice *n;

    TT_TRY(tti_await_arrival(team, r));
    n = notice_of(team, r);
    return pull(team, r, &n->in, has_parts(c->kind) ? n->parts[team->rank] : n->in.at,
                destination(c, r));
}

static void keep_own(const tti_team *team, const tti_coll *c)
{
    const void *from;
    tti_span to;

    if (c->kind == TTI_COLL_BROADCAST)
        return;
    from = has_parts(c->kind) ? c->ins[team->rank].data : c->in.data;
    to = destination(c, team->rank);
    if (to.data != from && to.bytes > 0)
        memmove(to.data, from, to.bytes);
}

static tt_status copies(tti_team *team, const tti_coll *c)
{
    bool root = team->rank == c->root;
    uint64_t base = team->phase;

    if ((!from_root(c->kind) && !to_root(c->kind)) || root)
        keep_own(team, c);
    for (int i = 1; i < team->size; i++) {
        int r = (team->rank + i) % team->size;

        if (from_root(c->kind) ? r == c->root : !to_root(c->kind) || root)
            TT_TRY(copy_from(team, c, r));
    }
    tti_set_phase(team, base + 2);
    if (to_root(c->kind))
        return root ? TT_OK : tti_await_phase(team, c->root, base + 2);
    if (from_root(c->kind) && !root)
        return TT_OK;
    return tti_await_phases(team, base + 2);
}

/* ---- reductions ------------------------------------------------------------------------------------ */

/* Everybody's inputs at `at` bytes into the part that is reduced here; fetched ones are in the scratch. */
static tt_status gather_inputs(tti_team *team, const tti_coll *c, const char *own, size_t at,
                               size_t bytes)
{
    char *scratch = team->scratch;

    for (int r = 0; r < team->size; r++) {
        const notice *n = notice_of(team, r);
        uint64_t from = (has_parts(c->kind) ? n->parts[team->rank] : n->in.at) + at;
        char *here = r == team->rank ? NULL : address(team, r, &n->in, from);

        team->inputs[r] = r == team->rank ? own + at : here;
        if (r == team->rank || here != NULL)
            continue;
        TT_TRY(pull(team, r, &n->in, from, (tti_span){ scratch, bytes }));
        team->inputs[r] = scratch;
        scratch += bytes;
    }
    return TT_OK;
}

/* A block of everybody's inputs stays in the second cache. */
static tt_status block_bytes(tti_team *team, size_t *bytes_p)
{
    size_t block = ((size_t)256 << 10) / (size_t)team->size / 64 * 64;

    block = block < 8192 ? 8192 : block;
    if (team->scratch == NULL && !team->same_process)
        team->scratch = tti_malloc(block * (size_t)team->size);
    *bytes_p = block;
    return team->scratch != NULL || team->same_process ? TT_OK : TT_ERR_NOMEM;
}

/* Reduces `bytes` bytes, `at` bytes into the part, into `out`; and copies them to `also`, if there are such. */
static tt_status reduce_part(tti_team *team, const tti_coll *c, const char *own, tti_span part,
                             size_t at, char **also)
{
    size_t block;

    TT_TRY(block_bytes(team, &block));
    for (size_t done = 0; done < part.bytes; done += block) {
        size_t n = part.bytes - done < block ? part.bytes - done : block;
        char *out = (char *)part.data + done;

        TT_TRY(tti_touch(team, -1));
        TT_TRY(gather_inputs(team, c, own, at + done, n));
        team->reduce(out, team->inputs, team->size, tti_fold_count(c->dtype, n), team->factors);
        for (int r = 0; also != NULL && r < team->size; r++)
            if (r != team->rank)
                memcpy(also[r] + at + done, out, n);
        TT_TRY(tti_touched(team, -1));
    }
    return TT_OK;
}

static tti_span slice(const tti_team *team, const tti_coll *c, int rank, size_t *at_p)
{
    size_t each = (c->in.bytes / (size_t)team->size + 64) / 64 * 64;
    size_t at = each * (size_t)rank;

    at = at < c->in.bytes ? at : c->in.bytes;
    *at_p = at;
    return (tti_span){ (char *)c->out.data + at,
                       c->in.bytes - at < each ? c->in.bytes - at : each };
}

/* Everybody's results, if all can be written to; else NULL. */
static char **all_outputs(tti_team *team)
{
    char **outs = (char **)(void *)team->outputs;

    for (int r = 0; r < team->size; r++) {
        const notice *n = notice_of(team, r);

        if (!team->same_process && (n->in.seg == 0 || n->out.seg == 0))
            return NULL;
    }
    for (int r = 0; r < team->size; r++) {
        const notice *n = notice_of(team, r);

        outs[r] = r == team->rank ? NULL : address(team, r, &n->out, n->out.at);
    }
    return outs;
}

/* Another group of this rank may have failed meanwhile in an operation on the same pages, which are private since: the
 * peers' results did not arrive. */
static tt_status still_lent(const tti_team *team, const tti_coll *c)
{
    tti_place place;

    if (tt_likely(team->same_process || tti_heap_leaves() == team->lent_leaves) ||
        tti_heap_find(c->out.data, c->out.bytes, &place))
        return TT_OK;
    return TT_FAIL(TT_ERR_IO,
                   "group %s: %s %llu: its memory was closed to the peers meanwhile, because an "
                   "operation of another group on the same pages failed",
                   team->group, tti_coll_name(c->kind), (unsigned long long)c->seq);
}

static tt_status all_reduce(tti_team *team, const tti_coll *c)
{
    uint64_t base = team->phase;
    char **outs = all_outputs(team);
    size_t at;
    tti_span mine = slice(team, c, team->rank, &at);

    for (int r = 0; outs != NULL && r < team->size; r++)
        if (r != team->rank && outs[r] == NULL)
            return unreadable(team, r, errno);
    TT_TRY(reduce_part(team, c, c->in.data, mine, at, outs));
    tti_set_phase(team, base + 1);
    for (int i = 1; i < team->size; i++) {
        int r = (team->rank + i) % team->size;
        const notice *n = notice_of(team, r);
        tti_span theirs = slice(team, c, r, &at);

        TT_TRY(tti_await_phase(team, r, base + 1));
        if (outs == NULL)
            TT_TRY(pull(team, r, &n->out, n->out.at + at, theirs));
    }
    tti_set_phase(team, base + 2);
    return outs != NULL ? still_lent(team, c) : tti_await_phases(team, base + 2);
}

static tt_status reductions(tti_team *team, const tti_coll *c)
{
    uint64_t base = team->phase;

    if (c->kind == TTI_COLL_REDUCE && team->rank != c->root) {
        tti_set_phase(team, base + 2);
        return tti_await_phase(team, c->root, base + 2);
    }
    TT_TRY(tti_await_arrivals(team));
    for (int r = 0; r < team->size; r++)
        team->factors[r] = tti_slot_of(team, r, team->n)->factor;
    if (c->kind == TTI_COLL_ALL_REDUCE)
        return all_reduce(team, c);
    TT_TRY(reduce_part(team, c, c->kind == TTI_COLL_REDUCE ? c->in.data : c->ins[team->rank].data,
                       c->out, 0, NULL));
    tti_set_phase(team, base + 2);
    return c->kind == TTI_COLL_REDUCE ? TT_OK : tti_await_phases(team, base + 2);
}

tt_status tti_run_direct(tti_team *team, const tti_coll *c)
{
    team->last_phase = team->phase + 2;
    if (c->kind == TTI_COLL_ALL_REDUCE || c->kind == TTI_COLL_REDUCE ||
        c->kind == TTI_COLL_REDUCE_SCATTER)
        return reductions(team, c);
    return copies(team, c);
}
