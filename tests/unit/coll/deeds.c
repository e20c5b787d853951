/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives with known answers. */
#include "deeds.h"

#include <stdlib.h>
#include <string.h>

#include "base/half.h"

uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static size_t elements(const deed *d, int from, int to)
{
    return d->count + (d->uneven ? (size_t)(from + 2 * to) * 3 : 0);
}

static size_t part_bytes(const deed *d, int from, int to)
{
    return elements(d, from, to) * tt_dtype_size(d->dtype);
}

/* Element i that `from` has for `to`. Small numbers, so that products stay finite. */
static void fill(const deed *d, int from, int to, void *data)
{
    size_t n = elements(d, from, to), each = tt_dtype_size(d->dtype);
    uint64_t state = d->seed + (uint64_t)from * 7919 + (uint64_t)to * 104729;
    bool complex = d->dtype == TT_C64 || d->dtype == TT_C128;

    for (size_t i = 0; i < n * (complex ? 2 : 1); i++) {
        uint64_t x = next_random(&state);
        float f = (float)(int64_t)(x % 2001) / 256.0f - 3.9f;

        switch (d->dtype) {
        case TT_F32:
        case TT_C64:
            ((float *)data)[i] = f;
            break;
        case TT_F64:
        case TT_C128:
            ((double *)data)[i] = f;
            break;
        case TT_F16:
            ((uint16_t *)data)[i] = tti_f32_to_f16(f);
            break;
        case TT_BF16:
            ((uint16_t *)data)[i] = tti_f32_to_bf16(f);
            break;
        case TT_BOOL:
            ((uint8_t *)data)[i] = x % 3 != 0;
            break;
        default:
            memcpy((char *)data + i * each, &x, each);
        }
    }
}

static double factor_of(int rank)
{
    return 0.5 + rank;
}

/* Buffers of a deed: parts one after the other. */
typedef struct buffers {
    char *in, *out;
    tti_span ins[WORLD_MAX], outs[WORLD_MAX];
} buffers;

static size_t skew_of(const deed *d)
{
    return d->skew * tt_dtype_size(d->dtype);
}

static void *get_memory(tti_team *team, const deed *d, size_t bytes)
{
    size_t all = bytes + skew_of(d);
    char *p = d->heap ? tti_team_alloc(team, all) : malloc(all + 1);

    TT_REQUIRE_NOT_NULL(p);
    memset(p, 0xa5, all);
    return p + skew_of(d);
}

static void lay_out(tti_team *team, int rank, int size, const deed *d, buffers *b)
{
    size_t in = 0, out = 0;

    for (int r = 0; r < size; r++) {
        in += part_bytes(d, rank, r);
        out += part_bytes(d, r, rank);
    }
    b->in = get_memory(team, d, in);
    b->out = get_memory(team, d, out);
    in = out = 0;
    for (int r = 0; r < size; r++) {
        b->ins[r] = (tti_span){ b->in + in, part_bytes(d, rank, r) };
        b->outs[r] = (tti_span){ b->out + out, part_bytes(d, r, rank) };
        in += b->ins[r].bytes;
        out += b->outs[r].bytes;
    }
}

static bool personal(tti_coll_kind kind)
{
    return kind == TTI_COLL_SCATTER || kind == TTI_COLL_REDUCE_SCATTER ||
           kind == TTI_COLL_ALL_TO_ALL;
}

static void check_part(const deed *d, int from, int to, const void *got, const char *what)
{
    size_t bytes = part_bytes(d, from, to);
    void *want = malloc(bytes + 1);

    fill(d, from, to, want);
    if (memcmp(got, want, bytes) != 0)
        TT_FAIL_TEST("%s %s: wrong part from %d to %d (%zu bytes, seed %llu)", what,
                     tti_coll_name(d->kind), from, to, bytes, (unsigned long long)d->seed);
    free(want);
}

static void check_sum(const deed *d, int to, int size, const void *got)
{
    size_t bytes = part_bytes(d, 0, to);
    char *all = malloc(bytes * (size_t)size + 1), *want = malloc(bytes + 1);
    const void *ins[WORLD_MAX];
    double factors[WORLD_MAX];

    for (int r = 0; r < size; r++) {
        fill(d, r, to, all + (size_t)r * bytes);
        ins[r] = all + (size_t)r * bytes;
        factors[r] = factor_of(r);
    }
    tti_reduce_plain(d->dtype, d->op, want, ins, size, tti_fold_count(d->dtype, bytes), factors);
    if (memcmp(got, want, bytes) != 0)
        TT_FAIL_TEST(
            "%s of %s by %s, %zu bytes, part %d of %d, seed %llu, heap %d, in place %d: wrong",
            tti_coll_name(d->kind), tt_dtype_name(d->dtype), tti_reduce_name(d->op), bytes, to,
            size, (unsigned long long)d->seed, d->heap, d->in_place);
    free(all);
    free(want);
}

/* What a rank of each kind gives, and where it wants the answer. */
static void prepare(const deed *d, int rank, int size, buffers *b, tti_coll *c)
{
    int key = personal(d->kind) ? -1 : 0; /* what is for everybody is what is for rank 0 */

    for (int r = 0; r < size; r++)
        if (key < 0)
            fill(d, rank, r, b->ins[r].data);
    if (key == 0)
        fill(d, rank, 0, b->in);
    c->in = (tti_span){ b->in, part_bytes(d, rank, 0) };
    c->out = (tti_span){ b->out, part_bytes(d, 0, personal(d->kind) ? rank : 0) };
    if (d->kind == TTI_COLL_SCATTER)
        c->out.bytes = part_bytes(d, d->root, rank);
    if (d->kind == TTI_COLL_BROADCAST && rank == d->root)
        fill(d, rank, 0, b->out);
    if (d->kind == TTI_COLL_BROADCAST)
        c->out.bytes = part_bytes(d, d->root, 0);
    if (d->in_place && (d->kind == TTI_COLL_ALL_REDUCE || d->kind == TTI_COLL_REDUCE))
        c->out.data = b->in;
    if (personal(d->kind) && (d->kind != TTI_COLL_SCATTER || rank == d->root))
        c->ins = b->ins;
    if (d->kind == TTI_COLL_ALL_GATHER || d->kind == TTI_COLL_ALL_TO_ALL ||
        (d->kind == TTI_COLL_GATHER && rank == d->root))
        c->outs = b->outs;
}

/* The parts of gathers are those for rank 0, whoever gets them. */
static void gather_places(const deed *d, int rank, int size, buffers *b, tti_coll *c)
{
    size_t at = 0;

    for (int r = 0; r < size; r++) {
        b->outs[r] = (tti_span){ b->out + at, part_bytes(d, r, 0) };
        at += b->outs[r].bytes;
    }
    if (d->in_place && c->outs != NULL) {
        memcpy(b->outs[rank].data, c->in.data, c->in.bytes);
        c->in.data = b->outs[rank].data;
    }
}

static void judge(const deed *d, int rank, int size, const buffers *b, const tti_coll *c)
{
    switch (d->kind) {
    case TTI_COLL_BROADCAST:
        check_part(d, d->root, 0, c->out.data, "after");
        break;
    case TTI_COLL_SCATTER:
        check_part(d, d->root, rank, c->out.data, "after");
        break;
    case TTI_COLL_ALL_REDUCE:
        check_sum(d, 0, size, c->out.data);
        break;
    case TTI_COLL_REDUCE:
        if (rank == d->root)
            check_sum(d, 0, size, c->out.data);
        else
            check_part(d, rank, 0, c->in.data, "input of");
        break;
    case TTI_COLL_REDUCE_SCATTER:
        check_sum(d, rank, size, c->out.data);
        break;
    default:
        for (int r = 0; c->outs != NULL && r < size; r++)
            check_part(d, r, d->kind == TTI_COLL_ALL_TO_ALL ? rank : 0, b->outs[r].data, "after");
    }
}

tt_status deed_try(tti_team *team, int rank, int size, const deed *d)
{
    tti_coll c = { .kind = d->kind,
                   .dtype = d->dtype,
                   .op = d->op,
                   .root = d->root,
                   .uneven = d->uneven,
                   .factor = factor_of(rank),
                   .seq = 1,
                   .deadline_ns = d->limit_ms > 0 ? tti_deadline(d->limit_ms) : soon() };
    buffers b;
    tt_status st;

    lay_out(team, rank, size, d, &b);
    prepare(d, rank, size, &b, &c);
    if (d->kind == TTI_COLL_GATHER || d->kind == TTI_COLL_ALL_GATHER)
        gather_places(d, rank, size, &b, &c);
    st = tti_team_run(team, &c);
    if (st == TT_OK && d->kind != TTI_COLL_BARRIER)
        judge(d, rank, size, &b, &c);
    if (d->heap) {
        tti_team_free_bytes(team, b.in - skew_of(d));
        tti_team_free_bytes(team, b.out - skew_of(d));
    } else {
        free(b.in - skew_of(d));
        free(b.out - skew_of(d));
    }
    return st;
}

void deed_do(tti_team *team, int rank, int size, const deed *d)
{
    TT_CHECK_OK(deed_try(team, rank, size, d));
}

deed deed_random(uint64_t *state, int size, size_t most)
{
    static const size_t borders[] = { 0, 1, 7, 64, 1000, 2032, 2033, 8128, 65536, 131072, 262145 };
    deed d = { .seed = next_random(state) };

    d.kind = (tti_coll_kind)(next_random(state) % TTI_COLL_FINGERPRINT);
    d.root = (int)(next_random(state) % (uint64_t)size);
    do {
        d.dtype = (tt_dtype)(next_random(state) % TT_N_DTYPES);
        d.op = (tt_reduce_op)(next_random(state) % TTI_N_REDUCE_OPS);
    } while (tti_reduce_pick(d.dtype, d.op) == NULL);
    d.count = borders[next_random(state) % (sizeof borders / sizeof borders[0])];
    d.count = d.count > most ? next_random(state) % most : d.count;
    d.in_place = next_random(state) % 3 == 0;
    d.uneven =
        next_random(state) % 4 == 0 && (d.kind == TTI_COLL_ALL_GATHER ||
                                        d.kind == TTI_COLL_GATHER || d.kind == TTI_COLL_ALL_TO_ALL);
    d.heap = next_random(state) % 4 == 0;
    return d;
}
