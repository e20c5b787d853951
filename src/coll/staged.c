/* SPDX-License-Identifier: Apache-2.0 */
/* Larger messages go through the windows, cut into pieces: while a rank puts piece k + 1 into one buffer of its
 * window, the others take piece k from another.
 *
 * A rank's phase is base + k + 1 when it has put piece k, and so has taken piece k - 2. With four buffers, piece k may be
 * put when everybody has taken piece k - 4: when their phase is at least base + k - 1. */
#include <string.h>

#include "coll/internal.h"

typedef struct flow {
    tti_team *team;
    const tti_coll *c;
    bool shared; /* what a rank sends is the same for all readers */
    bool reduces;
    size_t piece; /* bytes of one piece, for one reader if it is not shared */
} flow;

static bool sends(const flow *f, int rank)
{
    tti_coll_kind kind = f->c->kind;

    if (kind == TTI_COLL_BROADCAST || kind == TTI_COLL_SCATTER)
        return rank == f->c->root;
    if (kind == TTI_COLL_REDUCE || kind == TTI_COLL_GATHER)
        return rank != f->c->root;
    return true;
}

static bool reads(const flow *f)
{
    tti_coll_kind kind = f->c->kind;

    if (kind == TTI_COLL_REDUCE || kind == TTI_COLL_GATHER)
        return f->team->rank == f->c->root;
    if (kind == TTI_COLL_BROADCAST || kind == TTI_COLL_SCATTER)
        return f->team->rank != f->c->root;
    return true;
}

static tti_span source(const flow *f, int reader)
{
    if (f->c->kind == TTI_COLL_BROADCAST)
        return f->c->out;
    return f->shared ? f->c->in : f->c->ins[reader];
}

static tti_span destination(const flow *f, int from)
{
    if (f->c->kind == TTI_COLL_BROADCAST || f->c->kind == TTI_COLL_SCATTER || f->reduces)
        return f->c->out;
    return f->c->outs[from];
}

/* Piece k of a span; empty past its end. */
static tti_span piece_of(const flow *f, tti_span s, uint64_t k)
{
    size_t at = k * f->piece;

    if (at >= s.bytes)
        return (tti_span){ s.data, 0 };
    return (tti_span){ (char *)s.data + at, s.bytes - at < f->piece ? s.bytes - at : f->piece };
}

/* A rank leaves itself out of its buffers. */
static size_t index_in(int owner, int reader)
{
    return (size_t)(reader < owner ? reader : reader - 1);
}

static void put(const flow *f, uint64_t k, uint64_t g)
{
    const tti_team *team = f->team;
    char *buffer = tti_buffer_of(team, team->rank, g);

    if (f->shared) {
        tti_span s = piece_of(f, source(f, -1), k);

        memcpy(buffer, s.data, s.bytes);
        return;
    }
    for (int r = 0; r < team->size; r++) {
        tti_span s = piece_of(f, source(f, r), k);

        if (r != team->rank && s.bytes > 0)
            memcpy(buffer + index_in(team->rank, r) * f->piece, s.data, s.bytes);
    }
}

static const char *others(const flow *f, int from, uint64_t g)
{
    const char *buffer = tti_buffer_of(f->team, from, g);

    return f->shared ? buffer : buffer + index_in(from, f->team->rank) * f->piece;
}

static void take_sum(const flow *f, uint64_t k, uint64_t g)
{
    tti_team *team = f->team;
    tti_span own = piece_of(f, source(f, team->rank), k);
    tti_span out = piece_of(f, f->c->out, k);

    for (int r = 0; r < team->size; r++)
        team->inputs[r] = r == team->rank ? own.data : others(f, r, g);
    if (out.bytes > 0)
        team->reduce(out.data, team->inputs, team->size, tti_fold_count(f->c->dtype, out.bytes),
                     team->factors);
}

static void take_copies(const flow *f, uint64_t k, uint64_t g)
{
    const tti_team *team = f->team;

    for (int i = 1; i < team->size; i++) {
        int r = (team->rank + i) % team->size; /* not all from the same rank at once */
        tti_span d = piece_of(f, destination(f, r), k);

        if (sends(f, r) && d.bytes > 0)
            memcpy(d.data, others(f, r, g), d.bytes);
    }
}

/* What a rank has for itself. */
static void keep_own(const flow *f, uint64_t k)
{
    tti_span from, to;
    int me = f->team->rank;

    if (f->c->kind == TTI_COLL_BROADCAST || f->reduces ||
        ((f->c->kind == TTI_COLL_GATHER || f->c->kind == TTI_COLL_SCATTER) && me != f->c->root))
        return;
    from = piece_of(f, source(f, me), k);
    to = piece_of(f, destination(f, me), k);
    if (to.bytes > 0 && to.data != from.data)
        memmove(to.data, from.data, to.bytes);
}

/* Waits for piece k of those it comes from. */
static tt_status await_piece(const flow *f, uint64_t k, uint64_t g)
{
    tti_team *team = f->team;

    for (int r = 0; r < team->size; r++) {
        if (r == team->rank || !sends(f, r))
            continue;
        if (k == 0)
            TT_TRY(tti_await_arrival(team, r));
        TT_TRY(tti_await_phase(team, r, g + 1));
        if (k == 0 && f->reduces)
            team->factors[r] = tti_slot_of(team, r, team->n)->factor;
    }
    return TT_OK;
}

static tt_status run(const flow *f, uint64_t n_pieces)
{
    tti_team *team = f->team;
    uint64_t base = team->phase;
    bool sender = sends(f, team->rank), reader = reads(f);

    team->last_phase = base + n_pieces + 1;
    TT_TRY(tti_await_phases(team,
                            base)); /* the windows are free: the last operation on them is over */
    team->factors[team->rank] = f->c->factor;
    for (uint64_t k = 0; k <= n_pieces; k++) {
        uint64_t g = base + k;

        if (k < n_pieces) {
            if (sender) {
                if (k >= 2)
                    TT_TRY(tti_await_phases(team, g - 1));
                put(f, k, g);
            }
            tti_set_phase(team, g + 1);
            keep_own(f, k);
        }
        if (k > 0 && reader) {
            TT_TRY(await_piece(f, k - 1, g - 1));
            if (f->reduces)
                take_sum(f, k - 1, g - 1);
            else
                take_copies(f, k - 1, g - 1);
        }
    }
    tti_set_phase(team, base + n_pieces + 1);
    return TT_OK;
}

tt_status tti_run_staged(tti_team *team, const tti_coll *c, size_t largest)
{
    flow f = { .team = team, .c = c };
    size_t readers = (size_t)(team->size > 1 ? team->size - 1 : 1);

    f.shared = c->kind != TTI_COLL_SCATTER && c->kind != TTI_COLL_REDUCE_SCATTER &&
               c->kind != TTI_COLL_ALL_TO_ALL;
    f.reduces = c->kind == TTI_COLL_ALL_REDUCE || c->kind == TTI_COLL_REDUCE ||
                c->kind == TTI_COLL_REDUCE_SCATTER;
    f.piece = tti_buffer_bytes(team);
    if (!f.shared)
        f.piece = f.piece / readers / 64 * 64;
    return run(&f, (largest + f.piece - 1) / f.piece);
}
