/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the ranks of a test, and notes for the survivors which of them died. */
#include "p2p_world.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti/testing.h"

static tti_rank_state state_of(void *ctx, int rank, bool ask)
{
    p2p_world *w = ctx;

    (void)ask; /* the parent of the ranks notes deaths as they happen */
    return (tti_rank_state)atomic_load(&w->shared->state[rank]);
}

static void run_rank(p2p_world *w, int rank, p2p_body body)
{
    p2p_rank r = { .world = w, .rank = rank, .random = w->seed * 31 + (uint64_t)rank + 1 };
    tti_p2p_env env = { .rank = rank,
                        .size = w->size,
                        .group = "test",
                        .members = w->members,
                        .same_process = w->threads,
                        .no_cma = w->no_cma,
                        .region = w->region,
                        .state = state_of,
                        .ctx = w };

    TT_REQUIRE_OK(tti_p2p_box_open(&env, &r.box));
    p2p_meet(&r);
    body(&r);
    if (!w->deaths)
        p2p_meet(&r);
    tti_p2p_box_close(r.box);
}

typedef struct thread_arg {
    p2p_world *w;
    int rank;
    p2p_body body;
} thread_arg;

static void *thread_main(void *ctx)
{
    thread_arg *a = ctx;

    run_rank(a->w, a->rank, a->body);
    return NULL;
}

static void run_threads(p2p_world *w, p2p_body body)
{
    pthread_t threads[P2P_MOST];
    thread_arg args[P2P_MOST];

    for (int i = 0; i < w->size; i++) {
        w->members[i] = (tti_member){ .global_rank = i, .pid = (int)getpid(), .host = "here" };
        args[i] = (thread_arg){ w, i, body };
    }
    for (int i = 0; i < w->size; i++)
        TT_REQUIRE_EQ(pthread_create(&threads[i], NULL, thread_main, &args[i]), 0);
    for (int i = 0; i < w->size; i++)
        pthread_join(threads[i], NULL);
}

static void child_main(p2p_world *w, int rank, p2p_body body)
{
    p2p_rank r = { .world = w, .rank = rank };

    atomic_store(&w->shared->note[rank], (int)getpid());
    p2p_meet(&r);
    for (int i = 0; i < w->size; i++)
        w->members[i] = (tti_member){ .global_rank = i,
                                      .pid = atomic_load(&w->shared->note[i]),
                                      .host = "here" };
    p2p_meet(&r);
    atomic_store(&w->shared->note[rank], 0);
    run_rank(w, rank, body);
    _exit(tt_test_failures() > 0 ? TT_TEST_EXIT_FAIL : 0);
}

static void run_processes(p2p_world *w, p2p_body body)
{
    pid_t pids[P2P_MOST];

    for (int i = 0; i < w->size; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            child_main(w, i, body);
        TT_REQUIRE(pids[i] > 0);
    }
    for (int n = 0; n < w->size; n++) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        for (int i = 0; i < w->size; i++)
            if (pids[i] == pid && WIFSIGNALED(status)) {
                atomic_store(&w->shared->died_ns[i], tti_now_ns());
                atomic_store(&w->shared->state[i], TTI_RANK_DEAD);
            }
        if (WIFSIGNALED(status))
            TT_CHECK(w->deaths);
        else
            TT_CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

void p2p_run(p2p_world *w, p2p_body body)
{
    size_t bytes = tti_p2p_region_bytes(w->size);

    w->shared =
        mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    w->region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TT_REQUIRE(w->shared != MAP_FAILED && w->region != MAP_FAILED);
    w->seed = tt_test_seed();
    (w->threads ? run_threads : run_processes)(w, body);
    munmap(w->region, bytes);
    munmap(w->shared, sizeof *w->shared);
}

void p2p_meet(p2p_rank *r)
{
    p2p_world *w = r->world;
    int mine = atomic_fetch_add(&w->shared->arrived, 1);
    int until = (mine / w->size + 1) * w->size;

    while (atomic_load(&w->shared->arrived) < until)
        sched_yield();
}

uint32_t p2p_random(p2p_rank *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->random >> 33);
}

tti_p2p *p2p_isend(p2p_rank *r, const void *data, size_t n, int to, int tag)
{
    tti_p2p_args args = {
        .send = true, .data = (void *)(uintptr_t)data, .bytes = n, .peer = to, .tag = tag
    };
    tti_p2p *op = NULL;

    TT_REQUIRE_OK(tti_p2p_box_start(r->box, &args, &op));
    return op;
}

tti_p2p *p2p_irecv(p2p_rank *r, void *data, size_t n, int from, int tag)
{
    tti_p2p_args args = { .data = data, .bytes = n, .peer = from, .tag = tag };
    tti_p2p *op = NULL;

    TT_REQUIRE_OK(tti_p2p_box_start(r->box, &args, &op));
    return op;
}

tt_status p2p_end(tti_p2p *op, int *source_p)
{
    tt_status st = tti_p2p_wait(op, tti_deadline(20000));

    if (source_p != NULL && tti_p2p_done(op))
        tti_p2p_result(op, source_p);
    tti_p2p_free(op);
    return st;
}

tt_status p2p_send(p2p_rank *r, const void *data, size_t n, int to, int tag)
{
    return p2p_end(p2p_isend(r, data, n, to, tag), NULL);
}

tt_status p2p_recv(p2p_rank *r, void *data, size_t n, int from, int tag)
{
    return p2p_end(p2p_irecv(r, data, n, from, tag), NULL);
}

static unsigned char byte_at(size_t i, int from, int to, uint64_t what)
{
    uint64_t x = (i / 8 + 1) * 0x9e3779b97f4a7c15u + what * 77 + (uint64_t)(from * 16 + to);

    return (unsigned char)((x >> 29) + i);
}

void p2p_fill(unsigned char *data, size_t n, int from, int to, uint64_t what)
{
    for (size_t i = 0; i < n; i++)
        data[i] = byte_at(i, from, to, what);
}

bool p2p_filled(const unsigned char *data, size_t n, int from, int to, uint64_t what)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != byte_at(i, from, to, what))
            return false;
    return true;
}
