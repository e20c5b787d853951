/* SPDX-License-Identifier: Apache-2.0 */
/* Running one collective: announces it, sees that the others called the same, and picks the way to do it.
 *
 * Operation n of a team is announced by a word in slot n % S of every rank. Nobody begins operation n before everybody
 * has begun n - S + 1, that is, has finished n - S, which used the same slot. */
#include <string.h>

#include "coll/internal.h"

const char *tti_coll_name(tti_coll_kind kind)
{
    static const char *const names[TTI_N_COLL_KINDS] = {
        "barrier",    "broadcast", "all_reduce",     "reduce",     "gather",
        "all_gather", "scatter",   "reduce_scatter", "all_to_all", "fingerprint"
    };

    return (unsigned)kind < TTI_N_COLL_KINDS ? names[kind] : "unknown";
}

/* ---- waiting ----------------------------------------------------------------------------- */

typedef struct target {
    tti_team *team;
    int rank;
    bool slot; /* the word is that of a slot, whose count has to be reached; else all of it has */
    _Atomic uint64_t *word;
    uint64_t value;
} target;

static inline bool reached(const target *t)
{
    uint64_t word = atomic_load_explicit(t->word, memory_order_acquire);

    return t->slot ? tti_has_begun(word, t->value) : word >= t->value;
}

static bool ready(void *ctx)
{
    return reached(ctx);
}

static tti_doing doing(const tti_team *team)
{
    return (tti_doing){ tti_coll_name(team->c->kind), team->c->seq };
}

/* Somebody has come to this operation and called something else: no use waiting any longer. */
static tt_status check_calls(tti_team *team)
{
    for (int r = 0; r < team->size; r++) {
        uint64_t word =
            atomic_load_explicit(&tti_slot_of(team, r, team->n)->word, memory_order_acquire);

        if ((uint32_t)(word >> 32) == (uint32_t)team->n && word != team->word)
            return tti_mismatch(team, r, team->n);
    }
    return TT_OK;
}

static tt_status check(void *ctx)
{
    target *t = ctx;
    tti_team *team = t->team;
    tti_doing d = doing(team);

    if (tti_p2p_box_busy(team->box))
        tti_p2p_box_progress(team->box);
    tti_look_for_dead(team);
    TT_TRY(tti_check_peers(team, t->rank, &d));
    return check_calls(team);
}

/* Most waits are over before it is worth asking for the time. */
static int64_t deadline_of(tti_team *team)
{
    if (team->deadline_ns == 0)
        team->deadline_ns =
            team->c->deadline_ns != 0 ? team->c->deadline_ns : tti_deadline(team->c->timeout_ms);
    return team->deadline_ns;
}

static tt_status await(target *t)
{
    tti_team *team = t->team;
    tti_wait w = { .ready = ready, .ctx = t, .check = check };
    tti_doing d = doing(team);
    tt_status st;

    for (int i = 0; i < team->patience.eager; i++)
        if (tt_likely(reached(t)))
            return TT_OK;
    w.deadline_ns = deadline_of(team);
    st = tti_bell_wait(&team->mine->bell, &team->patience, &w);
    if (st == TT_ERR_TIMEOUT)
        st = tti_timed_out(team, t->rank, &d);
    return st;
}

static tt_status await_slot(tti_team *team, int rank, uint64_t n)
{
    target t = { team, rank, true, &tti_slot_of(team, rank, n)->word, n };

    return await(&t);
}

tt_status tti_await_arrival(tti_team *team, int rank)
{
    uint64_t word;

    TT_TRY(await_slot(team, rank, team->n));
    word = atomic_load_explicit(&tti_slot_of(team, rank, team->n)->word, memory_order_relaxed);
    return tt_likely(word == team->word) ? TT_OK : tti_mismatch(team, rank, team->n);
}

/* What peers called from team->known + 1 to `last`, which everybody has begun. Who is a whole round of slots ahead has
 * compared with ours itself. */
static tt_status compare(tti_team *team, uint64_t last)
{
    for (uint64_t n = team->known + 1; n <= last; n++)
        for (int r = 0; r < team->size; r++) {
            uint64_t word =
                atomic_load_explicit(&tti_slot_of(team, r, n)->word, memory_order_relaxed);

            if (tt_unlikely((uint32_t)(word >> 32) == (uint32_t)n &&
                            word != team->words[n & (team->layout.n_slots - 1)]))
                return tti_mismatch(team, r, n);
        }
    team->known = last;
    return TT_OK;
}

tt_status tti_await_arrivals(tti_team *team)
{
    for (int r = 0; r < team->size; r++)
        if (r != team->rank)
            TT_TRY(tti_await_arrival(team, r));
    if (tt_unlikely(team->known + 1 < team->n))
        TT_TRY(compare(team, team->n - 1));
    team->known = team->n;
    return TT_OK;
}

tt_status tti_await_phase(tti_team *team, int rank, uint64_t value)
{
    target t = { team, rank, false, &team->peers[rank].block->phase, value };

    return await(&t);
}

tt_status tti_await_phases(tti_team *team, uint64_t value)
{
    for (int r = 0; r < team->size; r++)
        if (r != team->rank)
            TT_TRY(tti_await_phase(team, r, value));
    return TT_OK;
}

/* ---- announcing --------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* The size that is the same on every rank, and a hash of what else is. */
static void measure(const tti_team *team, const tti_coll *c, tti_announced *call)
{
    uint64_t words = 0;

    switch (c->kind) {
    case TTI_COLL_BARRIER:
        break;
    case TTI_COLL_BROADCAST:
    case TTI_COLL_SCATTER:
        call->bytes = c->out.bytes;
        break;
    case TTI_COLL_FINGERPRINT:
        for (size_t i = 0; i + 8 <= c->in.bytes; i += 8) {
            uint64_t x;

            memcpy(&x, (const char *)c->in.data + i, 8);
            words = mix(words, x);
        }
        call->bytes = c->in.bytes;
        break;
    case TTI_COLL_REDUCE_SCATTER:
    case TTI_COLL_ALL_TO_ALL:
        for (int r = 0; r < team->size; r++) {
            call->bytes += c->ins[r].bytes;
            words = mix(words, c->ins[r].bytes);
        }
        break;
    default:
        call->bytes = c->in.bytes;
    }
    if (c->uneven)
        call->bytes = words = 0;
    call->words = (int32_t)(words ^ (words >> 32));
}

/* Describes the call where peers can read it, and makes the word that announces it. */
static void describe(tti_team *team, const tti_coll *c)
{
    tti_announced *call = &team->mine->call[team->n & (team->layout.n_slots - 1)];
    uint64_t h;

    *call = (tti_announced){ .n = team->n,
                             .seq = c->seq,
                             .kind = (int32_t)c->kind,
                             .dtype = (int32_t)c->dtype,
                             .op = (int32_t)c->op,
                             .root = c->root,
                             .uneven = c->uneven };
    measure(team, c, call);
    h = mix(call->bytes, (uint64_t)(uint32_t)call->words);
    h = mix(h, (uint64_t)c->kind | (uint64_t)c->dtype << 8 | (uint64_t)c->op << 16 |
                   (uint64_t)c->uneven << 24 | (uint64_t)(uint32_t)c->root << 32);
    team->word = team->n << 32 | (uint32_t)(h ^ (h >> 32));
    team->words[team->n & (team->layout.n_slots - 1)] = team->word;
}

static bool rooted(tti_coll_kind kind)
{
    return kind == TTI_COLL_BROADCAST || kind == TTI_COLL_REDUCE || kind == TTI_COLL_SCATTER ||
           kind == TTI_COLL_GATHER;
}

void tti_arrive(tti_team *team)
{
    tti_slot *slot = tti_slot_of(team, team->rank, team->n);

    slot->factor = team->c->factor;
    /* Release: whoever sees the word sees the call and the message that stand beside it. */
    atomic_store_explicit(&slot->word, team->word, memory_order_release);
    tti_ring_peers(team, rooted(team->c->kind));
}

/* Begins operation n once everybody has begun n - S + 1. Who has to wait waits for half of that way at once. */
static tt_status begin(tti_team *team, const tti_coll *c)
{
    uint64_t next = team->n + 1, n_slots = team->layout.n_slots;

    team->c = c;
    team->running = next;
    team->last_phase = 0;
    if (tt_unlikely(team->known + n_slots <= next)) {
        for (int r = 0; r < team->size; r++)
            if (r != team->rank)
                TT_TRY(await_slot(team, r, next - n_slots / 2));
        TT_TRY(compare(team, next - n_slots / 2));
    }
    team->n = next;
    describe(team, c);
    return TT_OK;
}

/* ---- sizes that differ --------------------------------------------------------------------- */

/* Everybody's sizes: row r has rank r's ins, then its outs, `size` of each. */
static void own_sizes(const tti_team *team, const tti_coll *c, uint64_t *row)
{
    for (int r = 0; r < team->size; r++) {
        row[r] = c->ins != NULL ? c->ins[r].bytes : c->in.bytes;
        row[team->size + r] = c->outs != NULL ? c->outs[r].bytes : c->out.bytes;
    }
}

/* What rank s has for rank d is as large as the place for it. */
static tt_status sizes_fit(const tti_team *team, const tti_coll *c, size_t *largest_p)
{
    int p = team->size;
    const uint64_t *m = team->sizes;

    *largest_p = 0;
    for (int s = 0; s < p; s++)
        for (int d = 0; d < p; d++) {
            uint64_t sent = m[(size_t)s * 2 * (size_t)p + (size_t)d];
            uint64_t room = m[(size_t)d * 2 * (size_t)p + (size_t)(p + s)];
            bool counts = (c->kind != TTI_COLL_GATHER || d == c->root) &&
                          (c->kind != TTI_COLL_SCATTER || s == c->root);

            if (counts && sent != room)
                return TT_FAIL(
                    TT_ERR_INVALID,
                    "group %s: %s %llu: rank %d has %llu bytes for rank %d, which expects %llu",
                    team->group, tti_coll_name(c->kind), (unsigned long long)c->seq,
                    team->peers[s].who.global_rank, (unsigned long long)sent,
                    team->peers[d].who.global_rank, (unsigned long long)room);
            if (counts && sent > *largest_p)
                *largest_p = sent;
        }
    return TT_OK;
}

static tt_status exchange_sizes(tti_team *team, const tti_coll *c, size_t *largest_p)
{
    size_t p = (size_t)team->size, row = 2 * p * sizeof(uint64_t);
    tti_slot *mine = tti_slot_of(team, team->rank, team->n);

    if (team->sizes == NULL)
        team->sizes = tti_calloc(p, row);
    if (team->sizes == NULL)
        return TT_ERR_NOMEM;
    own_sizes(team, c, team->sizes + (size_t)team->rank * 2 * p);
    memcpy(mine->data, team->sizes + (size_t)team->rank * 2 * p, row);
    tti_arrive(team);
    TT_TRY(tti_await_arrivals(team));
    for (size_t r = 0; r < p; r++)
        memcpy(team->sizes + r * 2 * p, tti_slot_of(team, (int)r, team->n)->data, row);
    return sizes_fit(team, c, largest_p);
}

/* ---- the call ------------------------------------------------------------------------------- */

static bool reduces(tti_coll_kind kind)
{
    return kind == TTI_COLL_ALL_REDUCE || kind == TTI_COLL_REDUCE ||
           kind == TTI_COLL_REDUCE_SCATTER;
}

/* Of one rank for one rank, the most. */
static size_t largest_part(const tti_team *team, const tti_coll *c)
{
    size_t most = 0;

    if (c->kind == TTI_COLL_BROADCAST || c->kind == TTI_COLL_SCATTER)
        return c->out.bytes;
    if (c->kind != TTI_COLL_REDUCE_SCATTER && c->kind != TTI_COLL_ALL_TO_ALL)
        return c->in.bytes;
    for (int r = 0; r < team->size; r++)
        most = c->ins[r].bytes > most ? c->ins[r].bytes : most;
    return most;
}

static tt_status dispatch(tti_team *team, const tti_coll *c)
{
    size_t largest;
    bool direct;

    if (c->kind == TTI_COLL_BARRIER || c->kind == TTI_COLL_FINGERPRINT) {
        tti_arrive(team);
        return tti_await_arrivals(team);
    }
    if (c->uneven) {
        team->last_phase = team->phase + 1; /* at least: the data follow the sizes */
        TT_TRY(exchange_sizes(team, c, &largest));
        return tti_run_staged(team, c, largest);
    }
    largest = largest_part(team, c);
    if (tti_fits_small(team, c, largest))
        return tti_run_small(team, c);
    team->last_phase = team->phase + 1; /* at least, whatever way is chosen */
    TT_TRY(tti_choose_direct(team, c, largest, &direct));
    if (direct)
        return tti_run_direct(team, c);
    /* By slices nobody reads all of everybody's. */
    if (c->kind == TTI_COLL_ALL_REDUCE && (team->size > 2 || largest > tti_buffer_bytes(team)))
        return tti_run_pipeline(team, c);
    return tti_run_staged(team, c, largest);
}

tt_status tti_team_run(tti_team *team, const tti_coll *c)
{
    tt_status st;

    if (tt_unlikely(team->broken != TT_OK))
        return tti_team_broken(team);
    team->c = c;
    team->deadline_ns = 0;
    team->lent.bytes = 0;
    if (tt_unlikely(atomic_load_explicit(&team->aborted, memory_order_relaxed) != 0)) {
        tti_doing d = doing(team);

        return tti_check_self(team, &d);
    }
    if (reduces(c->kind)) {
        team->reduce = tti_reduce_pick(c->dtype, c->op);
        if (team->reduce == NULL)
            return tti_team_break(team, TT_FAIL(TT_ERR_UNSUPPORTED,
                                                "group %s: %s %llu: no %s of %s", team->group,
                                                tti_coll_name(c->kind), (unsigned long long)c->seq,
                                                tti_reduce_name(c->op), tt_dtype_name(c->dtype)));
    }
    st = begin(team, c);
    if (st == TT_OK)
        st = dispatch(team, c);
    return tt_likely(st == TT_OK) ? TT_OK : tti_leave_direct(team, tti_team_break(team, st));
}
