/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that leave an operation early: nobody writes into their memory afterwards, and nobody takes what they have there
 * since for what they gave. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "coll/heap.h"
#include "deeds.h"

enum { N = 60000, SLICES = 3 }; /* floats; 240 kB, some blocks of a reduction */

/* ---- late ranks ---------------------------------------------------------------------------- */

typedef struct late {
    tti_coll_kind kind;
    bool heap, in_place;
    bool met;   /* the ranks have mapped each other's memory before */
    bool abort; /* the ranks that came are aborted instead of waiting till their time is over */
} late;

typedef struct buffers {
    float *in, *out; /* N each, or SLICES * N where parts of all ranks are */
    size_t bytes_in, bytes_out;
    tti_span ins[SLICES], outs[SLICES];
} buffers;

static float *some_memory(tti_team *team, const late *l, size_t bytes)
{
    float *p = l->heap ? tti_team_alloc(team, bytes) : malloc(bytes);

    TT_REQUIRE_NOT_NULL(p);
    return p;
}

static void no_memory(tti_team *team, const late *l, float *p)
{
    if (l->heap)
        tti_team_free_bytes(team, p);
    else
        free(p);
}

static void fill_floats(float *p, size_t bytes, float value)
{
    for (size_t i = 0; i < bytes / sizeof *p; i++)
        p[i] = value;
}

static size_t wrong_floats(const float *p, size_t bytes, float value)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes / sizeof *p; i++)
        n += p[i] != value;
    return n;
}

static void open_buffers(tti_team *team, const late *l, buffers *b)
{
    bool parts_in = l->kind == TTI_COLL_SCATTER || l->kind == TTI_COLL_REDUCE_SCATTER ||
                    l->kind == TTI_COLL_ALL_TO_ALL;
    bool parts_out = l->kind == TTI_COLL_GATHER || l->kind == TTI_COLL_ALL_GATHER ||
                     l->kind == TTI_COLL_ALL_TO_ALL;

    b->bytes_in = (parts_in ? SLICES : 1) * N * sizeof(float);
    b->bytes_out = (parts_out ? SLICES : 1) * N * sizeof(float);
    b->in = some_memory(team, l, b->bytes_in);
    b->out = l->in_place ? b->in : some_memory(team, l, b->bytes_out);
    for (int r = 0; r < SLICES; r++) {
        b->ins[r] = (tti_span){ b->in + (parts_in ? r * N : 0), N * sizeof(float) };
        b->outs[r] = (tti_span){ b->out + (parts_out ? r * N : 0), N * sizeof(float) };
    }
}

static void close_buffers(tti_team *team, const late *l, buffers *b)
{
    if (b->out != b->in)
        no_memory(team, l, b->out);
    no_memory(team, l, b->in);
}

static tt_status take_part(tti_team *team, const late *l, const buffers *b, int64_t deadline_ns)
{
    tti_coll c = { .kind = l->kind,
                   .dtype = TT_F32,
                   .op = TT_REDUCE_SUM,
                   .in = b->ins[0],
                   .out = b->outs[0],
                   .ins = b->ins,
                   .outs = b->outs,
                   .deadline_ns = deadline_ns,
                   .seq = 5 };

    return tti_team_run(team, &c);
}

/* What everybody gives is 1; results are 1 or, of sums, 3. */
static float right_value(const late *l)
{
    return l->kind == TTI_COLL_ALL_REDUCE || l->kind == TTI_COLL_REDUCE ||
                   l->kind == TTI_COLL_REDUCE_SCATTER
               ? 3.0f
               : 1.0f;
}

typedef struct aborter {
    world *w;
    tti_team *team;
} aborter;

/* Aborts once both have begun to wait, more or less: any moment will do. */
static void *abort_it(void *ctx)
{
    aborter *a = ctx;

    world_await(a->w, 1, 2);
    tti_team_abort(a->team, "enough");
    return NULL;
}

/* A rank that comes, waits for rank 2 in vain, and uses its memory for something else. */
static void come_in_vain(world *w, tti_team *team, const late *l, buffers *b)
{
    aborter a = { w, team };
    pthread_t thread;
    tt_status st;

    if (l->abort)
        TT_REQUIRE_EQ(pthread_create(&thread, NULL, abort_it, &a), 0);
    atomic_fetch_add(&world_words(w)[1], 1);
    st = take_part(team, l, b, l->abort ? soon() : tti_deadline(30));
    if (st == TT_OK) /* not the root: its part may have been done without the late one */
        TT_CHECK(l->kind == TTI_COLL_BROADCAST || l->kind == TTI_COLL_SCATTER ||
                 l->kind == TTI_COLL_REDUCE || l->kind == TTI_COLL_GATHER);
    else
        TT_CHECK(st == TT_ERR_TIMEOUT || st == TT_ERR_PEER || (l->abort && st == TT_ERR_ABORTED));
    if (l->abort)
        pthread_join(thread, NULL);
    fill_floats(b->in, b->bytes_in, 77);
    fill_floats(b->out, b->bytes_out, 77);
    atomic_fetch_add(&world_words(w)[0], 1);
    world_await(w, 2, 1); /* the late one has come and gone */
    TT_CHECK_EQ(wrong_floats(b->in, b->bytes_in, 77), 0);
    TT_CHECK_EQ(wrong_floats(b->out, b->bytes_out, 77), 0);
}

static void come_late(world *w, tti_team *team, const late *l, buffers *b)
{
    bool result = l->kind != TTI_COLL_REDUCE && l->kind != TTI_COLL_GATHER;
    tt_status st;

    world_await(w, 0, 2); /* the others have left, and have something else there now */
    st = take_part(team, l, b, soon());
    if (st == TT_OK && result) /* if it is told that all is well, it is */
        TT_CHECK_EQ(wrong_floats(b->out, b->bytes_out, right_value(l)), 0);
    if (l->kind == TTI_COLL_ALL_REDUCE)
        TT_CHECK(st != TT_OK);
    atomic_store(&world_words(w)[2], 1);
}

static void one_comes_late(world *w, int rank, void *ctx)
{
    const late *l = ctx;
    tti_team *team = world_team(w, rank);
    buffers b;

    open_buffers(team, l, &b);
    fill_floats(b.in, b.bytes_in, 1);
    if (l->met)
        TT_CHECK_OK(take_part(team, l, &b, soon()));
    fill_floats(b.out, b.bytes_out, 1);
    fill_floats(b.in, b.bytes_in, 1);
    if (rank == 2)
        come_late(w, team, l, &b);
    else
        come_in_vain(w, team, l, &b);
    close_buffers(team, l, &b); /* what has become private can be freed */
    tti_team_close(team);
}

static void try_late(late l, bool threads)
{
    for (int i = 0; i < 4; i++) {
        l.met = i % 2 == 1;
        l.abort = i >= 2;
        world_run(3, &(world_options){ .threads = threads }, one_comes_late, &l);
    }
}

TT_TEST_LIMIT(coll_leave, late_ranks_write_into_nobodys_memory, 300)
{
    try_late((late){ .kind = TTI_COLL_ALL_REDUCE, .heap = true, .in_place = true }, false);
    try_late((late){ .kind = TTI_COLL_ALL_REDUCE, .heap = true }, false);
}

TT_TEST_LIMIT(coll_leave, late_threads_write_into_nobodys_memory, 300)
{
    try_late((late){ .kind = TTI_COLL_ALL_REDUCE, .heap = true, .in_place = true }, true);
    try_late((late){ .kind = TTI_COLL_ALL_REDUCE }, true);
}

/* Of every kind, with memory of the group and without. */
TT_TEST_LIMIT(coll_leave, late_ranks_get_what_was_given_or_an_error, 400)
{
    for (int kind = TTI_COLL_BROADCAST; kind <= TTI_COLL_ALL_TO_ALL; kind++)
        for (int i = 0; i < FEWER(4, 2); i++)
            try_late((late){ .kind = (tti_coll_kind)kind, .heap = i % 2 == 0 }, i >= 2);
}

/* ---- stopped ranks --------------------------------------------------------------------------- */

static void stop_self(int signal_number)
{
    (void)signal_number;
    kill(getpid(), SIGSTOP);
}

/* Reductions until one fails; then the memory is used for something else. */
static void reduce_until_failure(tti_team *team, const late *l, buffers *b, int limit_ms)
{
    tt_status st = TT_OK;

    while (st == TT_OK) {
        fill_floats(b->in, b->bytes_in, 1);
        st = take_part(team, l, b, tti_deadline(limit_ms));
        if (st == TT_OK)
            TT_CHECK_EQ(wrong_floats(b->in, b->bytes_in, 3), 0);
    }
    fill_floats(b->in, b->bytes_in, 77);
}

/* Rank 2 is stopped by a timer, wherever it is then, and goes on when the others have left. */
static void one_is_stopped(world *w, int rank, void *ctx)
{
    late l = { .kind = TTI_COLL_ALL_REDUCE, .heap = true, .in_place = true };
    struct sigaction act = { .sa_handler = stop_self };
    struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
    struct itimerspec in = { .it_value = { 0, *(const long *)ctx } }, never = { 0 };
    tti_team *team = world_team(w, rank);
    timer_t timer;
    buffers b;

    open_buffers(team, &l, &b);
    if (rank == 2) {
        sigaction(SIGALRM, &act, NULL);
        TT_REQUIRE_EQ(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
        timer_settime(timer, 0, &in, NULL);
    }
    reduce_until_failure(team, &l, &b, rank == 2 ? 20000 : 200);
    if (rank == 2)
        timer_settime(timer, 0, &never, NULL);
    atomic_fetch_add(&world_words(w)[rank == 2], 1);
    world_await(w, 0, 2);
    for (int64_t limit = soon(); rank != 2 && atomic_load(&world_words(w)[1]) == 0;) {
        TT_REQUIRE_LT(tti_now_ns(), limit);
        kill(world_pid(w, 2), SIGCONT);
        sched_yield();
    }
    TT_CHECK_EQ(wrong_floats(b.in, b.bytes_in, 77), 0);
    close_buffers(team, &l, &b);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_leave, stopped_ranks_write_into_nobodys_memory, 300)
{
    uint64_t state = tt_test_seed() | 1;

    for (int i = 0; i < FEWER(12, 4); i++) {
        long after_ns = 1000 + (long)(next_random(&state) % 3000000);

        world_run(3, NULL, one_is_stopped, &after_ns);
    }
}

/* ---- ranks that replace the team ------------------------------------------------------------- */

enum { INSIDE = 0, MAY_WRITE = 1, REUSED = 2, WRITTEN = 3 }; /* words of the world */

static struct held {
    world *w;
    char *page; /* that the operation cannot get at before `until` is set */
    size_t bytes;
    int until; /* a word */
} held;

/* Holds the thread in the middle of the operation. */
static void hold(int signal_number, siginfo_t *info, void *ctx)
{
    (void)ctx;
    if ((char *)info->si_addr < held.page || (char *)info->si_addr >= held.page + held.bytes) {
        signal(signal_number, SIG_DFL); /* not ours: the instruction fails again */
        return;
    }
    atomic_fetch_add(&world_words(held.w)[INSIDE], 1);
    while (atomic_load(&world_words(held.w)[held.until]) == 0)
        sched_yield();
    mprotect(held.page, held.bytes, PROT_READ | PROT_WRITE);
}

/* The rank's own part of the sum cannot be read before the word is set. */
static void hold_until(world *w, int rank, const buffers *b, int word)
{
    struct sigaction act = { .sa_sigaction = hold, .sa_flags = SA_SIGINFO };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *part = (char *)b->in + (size_t)rank * b->bytes_in / SLICES + b->bytes_in / SLICES / 2;

    held = (struct held){ w, part - (uintptr_t)part % page, page, word };
    sigaction(SIGSEGV, &act, NULL);
    TT_REQUIRE_EQ(mprotect(held.page, page, PROT_NONE), 0);
}

typedef struct operation {
    tti_team *team;
    const late *l;
    const buffers *b;
} operation;

static void *operate(void *ctx)
{
    const operation *o = ctx;

    take_part(o->team, o->l, o->b, soon());
    return NULL;
}

/* Rank 1 is in the sum, on another thread, when its program makes a group without rank 2, which died. It has said that it
 * failed then, but the sum goes on as late as it likes. */
static void replace_inside(world *w, tti_team *team, const late *l, const buffers *b)
{
    static const int survivors[] = { 0, 1 };
    operation o = { team, l, b };
    int dead[SLICES];
    pthread_t thread;

    hold_until(w, 1, b, REUSED);
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, operate, &o), 0);
    world_await(w, INSIDE, 2); /* rank 0 is held, too */
    kill(world_pid(w, 2), SIGKILL);
    for (int64_t limit = soon(); tti_team_dead(team, dead) == 0; sched_yield())
        TT_REQUIRE_LT(tti_now_ns(), limit);
    tti_team_replace(team, survivors, 2, 5);
    atomic_store(&world_words(w)[MAY_WRITE], 1);
    pthread_join(thread, NULL);
    atomic_store(&world_words(w)[WRITTEN], 1);
    tti_team_replaced(team);
}

static void one_replaces(world *w, int rank, void *ctx)
{
    late l = { .kind = TTI_COLL_ALL_REDUCE, .heap = true, .in_place = true };
    tti_team *team = world_team(w, rank);
    buffers b;

    (void)ctx;
    open_buffers(team, &l, &b);
    fill_floats(b.in, b.bytes_in, 1);
    if (rank == 1) {
        replace_inside(w, team, &l, &b);
    } else {
        if (rank == 0)
            hold_until(w, 0, &b, MAY_WRITE);
        TT_CHECK_EQ(take_part(team, &l, &b, soon()), TT_ERR_PEER);
        TT_CHECK_CONTAINS(tt_last_error(), "rank 2 (pid");
        fill_floats(b.in, b.bytes_in, 77);
        atomic_store(&world_words(w)[REUSED], 1);
        world_await(w, WRITTEN, 1);
        TT_CHECK_EQ(wrong_floats(b.in, b.bytes_in, 77), 0);
    }
    close_buffers(team, &l, &b);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_leave, ranks_that_replace_the_team_write_into_nobodys_memory, 120)
{
    world_run(3, &(world_options){ .may_die = true }, one_replaces, NULL);
}

/* ---- the heap itself --------------------------------------------------------------------------- */

/* A second mapping of the file of this memory, as a peer has it. */
static char *as_a_peer(const void *p, size_t *bytes_p)
{
    tti_place place;
    char *base;

    TT_REQUIRE(tti_heap_find(p, 1, &place));
    base = tti_map_peer_fd(getpid(), place.fd, place.bytes);
    TT_REQUIRE_NOT_NULL(base);
    *bytes_p = place.bytes;
    return base;
}

static void leaves_some_pages(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;
    char *p = tti_team_alloc(team, 8 * page), *next = tti_team_alloc(team, 8 * page), *peer, *more;
    tti_place place;

    (void)ctx;
    TT_CHECK_EQ((uintptr_t)p % page, 0);
    TT_CHECK_EQ((uintptr_t)next % page, 0);
    memset(p, 1, 8 * page);
    memset(next, 2, 8 * page);
    peer = as_a_peer(p, &bytes);
    TT_CHECK(tti_heap_leave(p + page + 10, page));
    TT_CHECK(!tti_heap_find(p, 8 * page, &place)); /* not all of it can be reached */
    TT_CHECK(!tti_heap_find(p + 2 * page, 4, &place));
    TT_CHECK(tti_heap_find(p, page, &place));
    TT_CHECK(tti_heap_find(next, 8 * page, &place));
    p[page] = 3; /* stays when the pages around it follow */
    TT_CHECK(tti_heap_leave(p, 8 * page));
    TT_CHECK_EQ(p[page], 3);
    memset(peer, 9, bytes);
    for (size_t i = 0; i < 8 * page; i++)
        TT_REQUIRE_EQ(p[i], i == page ? 3 : 1);
    TT_CHECK_EQ(next[0], 9); /* another block: still shared */
    more = tti_team_alloc(team, 100);
    TT_CHECK(more + 100 <= p || more >= p + (1 << 20)); /* of another file */
    tti_team_free_bytes(team, p);
    tti_team_free_bytes(team, next);
    tti_team_free_bytes(team, more);
    munmap(peer, bytes);
    tti_team_close(team);
}

TT_TEST(coll_leave, pages_become_private_one_by_one)
{
    world_run(1, NULL, leaves_some_pages, NULL);
}

static void has_no_memory(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    size_t bytes;
    char *p = tti_team_alloc(team, 20000), *peer;

    (void)ctx;
    memset(p, 1, 20000);
    peer = as_a_peer(p, &bytes);
    tt_debug_fail_alloc(1);
    TT_CHECK(!tti_heap_leave(p, 20000));
    tt_debug_fail_alloc(0);
    for (int i = 0; i < 20000; i++)
        TT_REQUIRE_EQ(p[i], 0); /* not what it was, but nobody else's */
    memset(peer, 9, bytes);
    TT_CHECK_EQ(p[0], 0);
    memset(p, 5, 20000); /* and it can be used */
    tti_team_free_bytes(team, p);
    munmap(peer, bytes);
    tti_team_close(team);
}

TT_TEST(coll_leave, without_memory_the_content_is_lost_not_the_promise)
{
    world_run(1, NULL, has_no_memory, NULL);
}

typedef struct scarcity {
    uint64_t n;       /* which allocation of the call fails */
    _Atomic int said; /* how often that was the one for copies */
} scarcity;

static void fails_twice(world *w, int rank, void *ctx)
{
    late l = { .kind = TTI_COLL_ALL_REDUCE, .heap = true, .in_place = true };
    tti_team *team = world_team(w, rank);
    scarcity *s = ctx;
    tt_status st;
    buffers b;

    open_buffers(team, &l, &b);
    fill_floats(b.in, b.bytes_in, 1);
    if (rank == 0) {
        tt_debug_fail_alloc(s->n);
        st = take_part(team, &l, &b, tti_deadline(20));
        tt_debug_fail_alloc(0);
        TT_CHECK(st == TT_ERR_TIMEOUT || st == TT_ERR_NOMEM);
        if (strstr(tt_last_error(), "they are zero now") != NULL) {
            TT_CHECK_EQ(st, TT_ERR_NOMEM);
            TT_CHECK_CONTAINS(tt_last_error(), "all_reduce 5: timed out");
            TT_CHECK_EQ(wrong_floats(b.in, b.bytes_in, 0), 0);
            atomic_fetch_add(&s->said, 1);
        }
    }
    atomic_fetch_add(&world_words(w)[0], 1);
    world_await(w, 0, 2);
    close_buffers(team, &l, &b);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_leave, missing_memory_is_said, 200)
{
    scarcity *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TT_REQUIRE(s != MAP_FAILED);
    for (s->n = 1; s->n <= 8; s->n++)
        world_run(2, NULL, fails_twice, s);
    TT_CHECK_EQ(atomic_load(&s->said), 1);
    munmap(s, sizeof *s);
}

/* ---- threads of the program --------------------------------------------------------------------- */

typedef struct counting {
    volatile uint64_t *words; /* one in each page */
    size_t n, step;
    atomic_bool end;
    uint64_t lost;
} counting;

/* Adds one to each word in turn, and sees whether the last value is still there. */
static void *count_on(void *ctx)
{
    counting *c = ctx;

    for (uint64_t k = 1; !atomic_load(&c->end); k++)
        for (size_t i = 0; i < c->n; i++) {
            c->lost += c->words[i * c->step] != k - 1;
            c->words[i * c->step] = k;
        }
    return NULL;
}

/* Pages become private under the hands of a thread that writes into them: nothing of it is lost. */
static void keeps_what_is_written(world *w, int rank, void *ctx)
{
    tti_team *team = world_team(w, rank);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 64;
    counting c = { .n = pages, .step = page / sizeof(uint64_t) };
    char *p = tti_team_alloc(team, pages * page);
    pthread_t thread;

    (void)ctx;
    memset(p, 0, pages * page);
    c.words = (uint64_t *)(void *)p;
    TT_REQUIRE_EQ(pthread_create(&thread, NULL, count_on, &c), 0);
    for (size_t i = 0; i < pages; i++)
        TT_CHECK(tti_heap_leave(p + i * page, 1));
    atomic_store(&c.end, true);
    pthread_join(thread, NULL);
    TT_CHECK_EQ(c.lost, 0);
    tti_team_free_bytes(team, p);
    tti_team_close(team);
}

TT_TEST_LIMIT(coll_leave, threads_of_the_program_lose_nothing, 200)
{
    for (int i = 0; i < FEWER(50, 10); i++)
        world_run(1, NULL, keeps_what_is_written, NULL);
}
