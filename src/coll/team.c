/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a team. The ranks meet four times: who they are, where the memory is, whether everybody
 * has it, and whether everybody is ready. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "coll/heap.h"
#include "coll/internal.h"
#include "coll/life.h"

#define WINDOWS_BYTES ((size_t)8 << 20) /* of all ranks together, at most */
#define WINDOW_MOST ((size_t)2 << 20)
#define WINDOW_LEAST ((size_t)128 << 10)

/* What a rank tells the others about itself. */
typedef struct hello {
    uint64_t start_time;
    uint64_t probe; /* the address of its tti_team.probe */
    uint64_t staging_bytes;
    int32_t pid, rank;
    cpu_set_t cores; /* that it may use */
} hello;

/* What a rank can do, once its probe is filled. A rank that fails says so elsewhere: see tti_team_open. */
typedef struct ready {
    int32_t maps;  /* it can open everybody's files */
    int32_t cma;   /* it can read everybody's memory */
    int32_t heavy; /* it can fence for all of its peers */
} ready;

static size_t window_bytes(const tti_team_args *args)
{
    size_t bytes = args->staging_bytes;

    if (bytes == 0) {
        bytes = WINDOWS_BYTES / (size_t)args->size;
        bytes = bytes > WINDOW_MOST ? WINDOW_MOST : bytes;
    }
    bytes = bytes < WINDOW_LEAST ? WINDOW_LEAST : bytes;
    return bytes / TTI_BUFFERS / 4096 * 4096 * TTI_BUFFERS;
}

static tt_status make(const tti_team_args *args, tti_team *team)
{
    size_t n = (size_t)args->size;

    if (args->size < 1 || args->rank < 0 || args->rank >= args->size || args->size > TTI_MAX_RANKS)
        return TT_FAIL(TT_ERR_INVALID, "team: expected 1 to %d ranks, got rank %d of %d",
                       TTI_MAX_RANKS, args->rank, args->size);
    team->rank = args->rank;
    team->size = args->size;
    team->same_process = args->same_process;
    team->cause = args->cause;
    team->cause_ctx = args->cause_ctx;
    team->group = tti_strdup(args->group != NULL ? args->group : "");
    team->peers = tti_calloc(n, sizeof *team->peers);
    team->inputs = tti_calloc(n, sizeof *team->inputs);
    team->outputs = tti_calloc(n, sizeof *team->outputs);
    team->factors = tti_calloc(n, sizeof *team->factors);
    if (team->group == NULL || team->peers == NULL || team->inputs == NULL ||
        team->outputs == NULL || team->factors == NULL)
        return TT_ERR_NOMEM;
    for (int r = 0; r < args->size; r++)
        team->peers[r].who = args->members[r];
    tti_layout_make(args->size, window_bytes(args), tti_p2p_region_bytes(args->size),
                    &team->layout);
    return TT_OK;
}

/* Finds everybody's part of the mapped memory. */
static void place(tti_team *team)
{
    const tti_layout *l = &team->layout;

    for (int r = 0; r < team->size; r++) {
        tti_peer *p = &team->peers[r];
        char *base = team->segment.base;

        p->block = (tti_block *)(void *)(base + l->blocks) + r;
        p->slots = base + l->slots + l->n_slots * (size_t)r * l->slot_stride;
        p->window = base + l->windows + (size_t)r * l->window_bytes;
    }
    team->mine = team->peers[team->rank].block;
}

static tt_status watch(tti_team *team, const hello *all)
{
    for (int r = 0; r < team->size && !team->same_process; r++) {
        const tti_member *m = &team->peers[r].who;
        char cause[160] = "";
        tt_status st;

        if (r == team->rank || all[r].pid == all[team->rank].pid)
            continue;
        st = tti_life_open(all[r].pid, all[r].start_time, &team->peers[r].life);
        if (st == TT_ERR_PEER) {
            if (team->cause != NULL)
                team->cause(team->cause_ctx, r, cause, sizeof cause);
            return TT_FAIL(TT_ERR_PEER,
                           "group %s: rank %d (pid %d on %s) died while the group was made%s%s",
                           team->group, m->global_rank, all[r].pid, m->host,
                           cause[0] != '\0' ? ": " : "", cause);
        }
        if (st != TT_OK)
            return st;
    }
    return TT_OK;
}

/* Reads a few bytes of a peer through the kernel, to see whether it lets us, and whether they are the right ones. */
static bool reaches(const hello *peer, const unsigned char *token)
{
    unsigned char got[16] = { 0 };
    struct iovec here = { got, sizeof got };
    struct iovec there = { (void *)(uintptr_t)peer->probe, sizeof got };

    return process_vm_readv(peer->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof got &&
           memcmp(got, token, sizeof got) == 0;
}

static bool reaches_all(const tti_team *team, const hello *all)
{
    const tti_head *head = (const tti_head *)(const void *)team->segment.base;

    for (int r = 0; r < team->size; r++)
        if (r != team->rank && !reaches(&all[r], head->token))
            return false;
    return true;
}

/* Whether /proc lets this process open the descriptors of a peer: what the links of `fd` ask for, `exe` does too. */
static bool opens(int pid)
{
    char path[32], target[8];

    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (readlink(path, target, sizeof target) < 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    return access(path, X_OK) == 0;
}

static bool opens_all(const tti_team *team, const hello *all)
{
    for (int r = 0; r < team->size && !team->same_process; r++)
        if (r != team->rank && !opens(all[r].pid))
            return false;
    return true;
}

/* The p2p layer's view of a rank. */
static tti_rank_state state_of(void *ctx, int rank, bool ask)
{
    tti_team *team = ctx;
    int standing = atomic_load_explicit(&team->peers[rank].block->state, memory_order_acquire);
    int lost;

    if (standing == TTI_STANDING_LEFT)
        return TTI_RANK_LEFT;
    if (standing == TTI_STANDING_ABORTED)
        return TTI_RANK_ABORTED;
    if (ask)
        tti_look_for_dead(team);
    if (atomic_load_explicit(&team->peers[rank].dead, memory_order_acquire))
        return TTI_RANK_DEAD;
    if (rank == team->rank)
        return TTI_RANK_HERE;
    if (atomic_load_explicit(&team->peers[rank].block->replaced, memory_order_acquire) != 0)
        return TTI_RANK_ELSEWHERE;
    if (tt_likely(!tti_awaits(team, rank, &lost)))
        return TTI_RANK_HERE;
    atomic_store_explicit(&team->peers[rank].awaits, lost, memory_order_relaxed);
    return TTI_RANK_AWAITS;
}

/* Why a rank aborted, or how it ended: for the messages about it. */
static void reason_of(void *ctx, int rank, tti_rank_state state, char *text, size_t size)
{
    tti_team *team = ctx;
    const tti_block *b = team->peers[rank].block;

    text[0] = '\0';
    if (state == TTI_RANK_AWAITS)
        snprintf(text, size, "rank %d died",
                 atomic_load_explicit(&team->peers[rank].awaits, memory_order_relaxed));
    else if (state == TTI_RANK_DEAD && team->cause != NULL)
        team->cause(team->cause_ctx, rank, text, size);
    else if (state == TTI_RANK_ELSEWHERE ||
             atomic_load_explicit(&b->state, memory_order_acquire) == TTI_STANDING_ABORTED)
        snprintf(text, size, "%.*s", (int)sizeof b->reason - 1, b->reason);
}

static void wake_peer(void *ctx, int rank)
{
    tti_bell *bell = &((tti_team *)ctx)->peers[rank].block->bell;

    /* Rung after the bell of messages, whose fence stands for both. */
    if (tt_unlikely(atomic_load_explicit(&bell->sleepers, memory_order_relaxed) != 0))
        tti_bell_wake(bell);
}

static tt_status open_box(tti_team *team, const tti_team_args *args)
{
    tti_p2p_env env = {
        .rank = team->rank,
        .size = team->size,
        .group = team->group,
        .members = team->members,
        .same_process = team->same_process,
        .no_cma = args->no_cma,
        .n_cores = team->n_cores,
        .region = team->segment.base + team->layout.messages,
        .state = state_of,
        .reason = reason_of,
        .wake = wake_peer,
        .ctx = team,
    };

    team->members = tti_calloc((size_t)team->size, sizeof *team->members);
    if (team->members == NULL)
        return TT_ERR_NOMEM;
    memcpy(team->members, args->members, (size_t)team->size * sizeof *team->members);
    env.members = team->members;
    return tti_p2p_box_open(&env, &team->box);
}

/* Maps the memory and whatever hangs on it. */
static tt_status attach(tti_team *team, const tti_team_args *args, const hello *all)
{
    TT_TRY(watch(team, all));
    TT_TRY(tti_segment_open(args, team->layout.bytes, &team->segment));
    place(team);
    memcpy(team->probe, ((const tti_head *)(const void *)team->segment.base)->token,
           sizeof team->probe);
    TT_TRY(tti_heap_open(team));
    return open_box(team, args);
}

/* After the probes are filled: everybody says what it can do. */
static tt_status settle(tti_team *team, const tti_team_args *args, const hello *all)
{
    ready mine = { 0 };
    ready *states = tti_calloc((size_t)team->size, sizeof *states);
    tt_status st = states != NULL ? TT_OK : TT_ERR_NOMEM;
    unsigned char *bytes = (unsigned char *)states;

    mine.maps = opens_all(team, all);
    team->all_maps = true;
    if (st == TT_OK) /* the probes of all are filled when this is over */
        st = args->exchange(args->ctx, "team filled", &mine, sizeof mine, bytes);
    for (int r = 0; st == TT_OK && r < team->size; r++)
        team->all_maps &= states[r].maps != 0;
    mine.cma = !args->no_cma && !team->same_process && team->size > 1 && reaches_all(team, all);
    mine.heavy = team->size <= team->n_cores && tti_heavy_fence_init();
    if (st == TT_OK)
        st = args->exchange(args->ctx, "team ready", &mine, sizeof mine, bytes);
    team->all_cma = team->patience.heavy = st == TT_OK;
    for (int r = 0; st == TT_OK && r < team->size; r++) {
        team->all_cma &= states[r].cma != 0;
        team->patience.heavy &= states[r].heavy != 0;
    }
    if (team->patience.heavy)
        tti_p2p_box_fence_heavily(team->box);
    tti_mfree(states);
    return st;
}

static tt_status join(tti_team *team, const tti_team_args *args)
{
    hello me = { .pid = getpid(), .rank = args->rank, .probe = (uint64_t)(uintptr_t)team->probe };
    hello *all = tti_calloc((size_t)team->size, sizeof *all);
    tt_status st = TT_ERR_NOMEM;

    CPU_ZERO(&me.cores);
    sched_getaffinity(0, sizeof me.cores, &me.cores);
    me.start_time = tti_life_start_time(me.pid);
    me.staging_bytes = team->layout.window_bytes;
    if (all != NULL)
        st = args->exchange(args->ctx, "team", &me, sizeof me, all);
    for (int r = 0; st == TT_OK && r < team->size; r++)
        if (all[r].staging_bytes != me.staging_bytes)
            st = TT_FAIL(TT_ERR_INVALID, "group %s: ranks differ in staging_bytes", team->group);
    for (int r = 0; st == TT_OK && r < team->size; r++)
        CPU_OR(&me.cores, &me.cores, &all[r].cores);
    team->n_cores = CPU_COUNT(&me.cores);
    tti_patience_init(&team->patience, team->size, team->n_cores);
    if (st == TT_OK)
        st = attach(team, args, all);
    if (st == TT_OK)
        st = settle(team, args, all);
    for (int r = 0; st == TT_OK && r < team->size; r++) {
        team->peers[r].pid = all[r].pid;
        team->peers[r].cma = team->all_cma && r != team->rank;
    }
    tti_mfree(all);
    return st;
}

tt_status tti_team_open(const tti_team_args *args, tti_team **team_p)
{
    tti_team *team = tti_calloc(1, sizeof *team);
    tti_error_copy why;
    tt_status st;

    if (team == NULL)
        return TT_ERR_NOMEM;
    pthread_mutex_init(&team->mu_standing, NULL);
    for (int i = 0; i < TTI_N_MONITORED_BY; i++)
        pthread_mutex_init(&team->mu_monitored[i], NULL);
    st = make(args, team);
    if (st == TT_OK)
        st = join(team, args);
    if (st != TT_OK) {
        tti_error_save(&why);
        tti_team_close(team);
        tti_error_restore(&why);
        return st;
    }
    tti_teams_add(team);
    *team_p = team;
    return TT_OK;
}

void tti_team_close(tti_team *team)
{
    if (team == NULL)
        return;
    tti_teams_remove(team);
    if (team->mine != NULL)
        tti_set_standing(team, TTI_STANDING_LEFT, TT_ERR_PEER, NULL, NULL);
    if (team->box != NULL) {
        for (int r = 0; r < team->size; r++)
            tti_p2p_box_alarm(team->box, r);
        tti_p2p_box_close(team->box);
    }
    tti_heap_close(team);
    tti_segment_close(&team->segment);
    for (int r = 0; team->peers != NULL && r < team->size; r++)
        tti_life_close(team->peers[r].life);
    tti_mfree(team->scratch);
    tti_mfree(team->sizes);
    tti_mfree(team->factors);
    tti_mfree(team->outputs);
    tti_mfree(team->inputs);
    tti_mfree(team->peers);
    tti_mfree(team->members);
    tti_mfree(team->group);
    pthread_mutex_destroy(&team->mu_standing);
    for (int i = 0; i < TTI_N_MONITORED_BY; i++)
        pthread_mutex_destroy(&team->mu_monitored[i]);
    tti_mfree(team);
}

/* ---- messages ---------------------------------------------------------------------------- */

tt_status tti_p2p_start(tti_team *team, const tti_p2p_args *args, tti_p2p **op_p)
{
    return tti_p2p_box_start(team->box, args, op_p);
}

bool tti_p2p_now(tti_team *team, const tti_p2p_args *args, bool patient)
{
    return tti_p2p_box_now(team->box, args, patient);
}

void tti_p2p_progress(tti_team *team)
{
    tti_p2p_box_progress(team->box);
}

void tti_p2p_idle(tti_team *team, int64_t deadline_ns)
{
    tti_p2p_box_idle(team->box, deadline_ns);
}

void tti_team_wake(tti_team *team)
{
    tti_p2p_box_wake(team->box);
}
