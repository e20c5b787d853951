/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are stopped and continued, slow, or aborted at random moments, in random groups: what succeeds is right, and
 * what the others have in their memory once they left stays as it is, whatever the late ones do. On memory of the group, on
 * works, buckets of data parallel training, of plain gradients, and on divided optimizers. LEAVE_TRIALS gives the
 * number of trials. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "golden/hashdata.h"
#include "tutti/autograd.h"
#include "tutti/collective.h"
#include "tutti/ddp.h"
#include "tutti/layers.h"
#include "tutti/ops.h"
#include "tutti/reducer.h"
#include "tutti/testing.h"
#include "tutti/zero.h"

enum { MOST_RANKS = 8, TENSORS = 3, STEPS = 400, ROWS = 4, FEATURES = 128 };
enum { SUDDEN_ENOUGH = 6 };
enum { LIMIT_MS = 60000 }; /* of anything that should end by itself */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TRIALS = 3 };
#else
enum { TRIALS = 15 };
#endif

typedef enum subject { TENSOR, WORKS, DDP, REDUCER, ZERO, N_SUBJECTS } subject;
typedef enum fault { STOPPED, SLOW, ABORTED, N_FAULTS } fault;

static const char *const subject_names[] = { "a tensor", "works", "ddp", "reducer", "zero" };
static const char *const fault_names[] = { "stopped", "slow", "aborted" };

/* Of all ranks of a trial. */
typedef struct board {
    _Atomic int open, left, ended; /* ranks that did */
    _Atomic int64_t wrong;         /* elements */
    _Atomic int inside;            /* the victim is in an operation now */
    _Atomic int struck;            /* it was when it was stopped or aborted */
} board;

typedef struct trial {
    subject what;
    fault how;
    int size, victim, step; /* step: in which a slow rank is slow */
    int delay_us;           /* from when all are open */
    int64_t n;              /* elements of a tensor */
    char path[512];
    board *b;
} trial;

/* One rank's state. */
typedef struct player {
    const trial *t;
    int rank, step;
    tt_pg *pg;
    tt_tensor *tensors[TENSORS]; /* that may be written to; NULL: none */
    tt_module *module;
    tt_ddp *ddp;
    tt_reducer *reducer;
    tt_zero *zero;
    float *plain; /* of the reducer */
} player;

static bool await_count(_Atomic int *count, int value)
{
    int64_t limit = tti_deadline(LIMIT_MS);

    while (atomic_load(count) < value && tti_now_ns() < limit)
        usleep(500);
    return atomic_load(count) >= value;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void count_wrong(const player *p, const float *data, int64_t n, float value)
{
    int64_t wrong = 0;

    for (int64_t i = 0; i < n; i++)
        wrong += data[i] != value;
    atomic_fetch_add(&p->t->b->wrong, wrong);
}

static void set_all(player *p, float value)
{
    for (int k = 0; k < TENSORS; k++)
        for (int64_t i = 0; p->tensors[k] != NULL && i < tt_tensor_numel(p->tensors[k]); i++)
            ((float *)tt_tensor_data(p->tensors[k]))[i] = value;
    for (int64_t i = 0; p->plain != NULL && i < p->t->n; i++)
        p->plain[i] = value;
}

static void check_all(const player *p, float value)
{
    for (int k = 0; k < TENSORS; k++)
        if (p->tensors[k] != NULL)
            count_wrong(p, tt_tensor_data(p->tensors[k]), tt_tensor_numel(p->tensors[k]), value);
    if (p->plain != NULL)
        count_wrong(p, p->plain, p->t->n, value);
}

/* Around the operations of a step: what comes before and after them is the rank's own business. */
static void set_inside(const player *p, bool inside)
{
    if (p->rank == p->t->victim)
        atomic_store(&p->t->b->inside, inside);
}

/* ---- one step of each subject ---------------------------------------------------------------- */

static float mean_of_ranks(const player *p)
{
    return (float)(p->t->size + 1) / 2;
}

static tt_status step_tensors(player *p)
{
    tt_work *works[TENSORS] = { NULL };
    int n = p->t->what == WORKS ? TENSORS : 1;
    tt_status st = TT_OK, one;

    set_all(p, (float)(p->rank + 1));
    set_inside(p, true);
    for (int k = 0; k < n; k++) {
        one = tt_pg_all_reduce(p->pg, p->tensors[k], NULL, n > 1 ? &works[k] : NULL);
        st = st != TT_OK ? st : one;
    }
    for (int k = 0; k < n; k++)
        if (works[k] != NULL) {
            one = tt_work_wait(works[k], 0);
            st = st != TT_OK ? st : one;
            tt_work_free(works[k]);
        }
    set_inside(p, false);
    if (st == TT_OK)
        check_all(p, mean_of_ranks(p) * (float)p->t->size);
    return st;
}

static tt_status step_ddp(player *p)
{
    tt_status st = TT_OK;

    tt_module_zero_grad(p->module);
    TT_SCOPE {
        tt_tensor *x = tt_full(TT_SHAPE(ROWS, FEATURES), p->rank + 1, TT_F32, TT_CPU);

        tt_tensor *loss = tt_sum(tt_ddp_forward(p->ddp, x));

        set_inside(p, true);
        st = tt_backward(loss);
        set_inside(p, false);
    }
    p->tensors[0] = tt_grad_of(tt_module_param_at(p->module, 0));
    if (st == TT_OK)
        check_all(p, mean_of_ranks(p) * ROWS);
    return st;
}

static tt_status step_reducer(player *p)
{
    tt_status st;

    set_all(p, (float)(p->rank + 1));
    set_inside(p, true);
    st = tt_reducer_ready(p->reducer, 0);
    if (st == TT_OK)
        st = tt_reducer_wait(p->reducer);
    set_inside(p, false);
    if (st == TT_OK)
        check_all(p, mean_of_ranks(p));
    return st;
}

/* Gradients are one and the rate is 1/2. */
static tt_status step_zero(player *p)
{
    tt_status st;

    set_inside(p, true);
    st = tt_zero_step(p->zero);
    set_inside(p, false);
    if (st == TT_OK)
        check_all(p, -0.5f * (float)(p->step + 1));
    return st;
}

static tt_status one_step(player *p)
{
    switch (p->t->what) {
    case DDP:
        return step_ddp(p);
    case REDUCER:
        return step_reducer(p);
    case ZERO:
        return step_zero(p);
    default:
        return step_tensors(p);
    }
}

/* ---- beginning --------------------------------------------------------------------------------- */

static void open_zero(player *p)
{
    for (int k = 0; k < TENSORS; k++) {
        p->tensors[k] = tt_tensor_retain(tt_zeros(TT_SHAPE(p->t->n / TENSORS), TT_F32, TT_CPU));
        TT_REQUIRE_OK(tt_set_requires_grad(p->tensors[k], true));
        TT_REQUIRE_OK(tt_set_grad(p->tensors[k], tt_ones_like(p->tensors[k])));
    }
    p->zero = tt_zero_sgd_new(p->pg, p->tensors, TENSORS, &(tt_sgd_options){ .lr = 0.5 }, NULL);
    TT_REQUIRE_NOT_NULL(p->zero);
}

static void open_player(player *p)
{
    const trial *t = p->t;
    char url[600];

    snprintf(url, sizeof url, "file://%s?rank=%d&size=%d", t->path, p->rank, t->size);
    p->pg = tt_pg_new(url, &(tt_pg_options){ .timeout_ms = LIMIT_MS });
    TT_REQUIRE_NOT_NULL(p->pg);
    if (t->what == DDP) {
        p->module = tt_linear_new(FEATURES, FEATURES, NULL);
        p->ddp = tt_ddp_new(p->module, p->pg, NULL);
        TT_REQUIRE_NOT_NULL(p->ddp);
    } else if (t->what == REDUCER) {
        p->reducer = tt_reducer_new(p->pg, &(tt_reducer_grad){ .n = t->n }, 1, NULL);
        TT_REQUIRE_NOT_NULL(p->reducer);
        p->plain = tt_reducer_data(p->reducer, 0);
    } else if (t->what == ZERO) {
        open_zero(p);
    } else {
        for (int k = 0; k < (t->what == WORKS ? TENSORS : 1); k++) {
            p->tensors[k] = tt_tensor_retain(tt_pg_alloc(p->pg, TT_SHAPE(t->n), TT_F32));
            TT_REQUIRE_NOT_NULL(p->tensors[k]);
        }
    }
    TT_REQUIRE_OK(tt_pg_barrier(p->pg, NULL, NULL));
    /* A rank that is late must not be the one whose time is over. */
    TT_REQUIRE_OK(tt_pg_set_timeout(p->pg, p->rank == t->victim ? LIMIT_MS : 150));
}

/* ---- ranks ---------------------------------------------------------------------------------------- */

static void *abort_later(void *ctx)
{
    player *p = ctx;

    usleep((useconds_t)p->t->delay_us);
    atomic_store(&p->t->b->struck, atomic_load(&p->t->b->inside));
    tt_pg_abort(p->pg, "enough");
    return NULL;
}

static void play(player *p)
{
    const trial *t = p->t;
    tt_status st = TT_OK;

    for (p->step = 0; st == TT_OK && p->step < STEPS; p->step++) {
        if (t->how == SLOW && p->rank == t->victim && p->step == t->step % 8)
            await_count(&t->b->left, t->size - 1);
        st = one_step(p);
    }
}

static void rank_main(const trial *t, int rank)
{
    player p = { .t = t, .rank = rank };
    bool aborts = t->how == ABORTED && rank == t->victim;
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tt_set_num_threads(1);
    TT_SCOPE {
        open_player(&p);
        atomic_fetch_add(&t->b->open, 1);
        if (aborts)
            TT_REQUIRE_EQ(pthread_create(&thread, NULL, abort_later, &p), 0);
        play(&p);
        if (aborts)
            pthread_join(thread, NULL);
        set_all(&p, 77);
        atomic_fetch_add(&t->b->left, 1);
        TT_CHECK(await_count(&t->b->left, t->size)); /* the late ones have come and gone, too */
        check_all(&p, 77);
        atomic_fetch_add(&t->b->ended, 1);
    }
    _exit(tt_test_failures() == 0 ? 0 : 1);
}

/* ---- trials ----------------------------------------------------------------------------------------- */

/* Stops the rank, and lets it go on once all others have left. */
static void stop_and_continue(const trial *t, pid_t pid)
{
    int64_t limit = tti_deadline(LIMIT_MS);
    siginfo_t info;

    usleep((useconds_t)t->delay_us);
    kill(pid, SIGSTOP);
    waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT);
    atomic_store(&t->b->struck, atomic_load(&t->b->inside));
    await_count(&t->b->left, t->size - 1);
    while (atomic_load(&t->b->ended) < t->size && tti_now_ns() < limit) {
        kill(pid, SIGCONT);
        usleep(1000);
    }
}

static bool run_trial(const trial *t)
{
    pid_t pids[MOST_RANKS];
    bool ok = true;

    for (int i = 0; i < t->size; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            rank_main(t, i);
    }
    ok = await_count(&t->b->open, t->size);
    if (ok && t->how == STOPPED)
        stop_and_continue(t, pids[t->victim]);
    ok = ok && await_count(&t->b->ended, t->size);
    for (int i = 0; i < t->size; i++) {
        int status = 0;

        if (!ok)
            kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
        ok = ok && status == 0;
    }
    ok = ok && atomic_load(&t->b->wrong) == 0;
    if (!ok)
        TT_FAIL_TEST("%s, %d ranks, rank %d %s after %d us: %lld wrong elements, %d of them open, "
                     "%d left, %d ended",
                     subject_names[t->what], t->size, t->victim, fault_names[t->how], t->delay_us,
                     (long long)atomic_load(&t->b->wrong), atomic_load(&t->b->open),
                     atomic_load(&t->b->left), atomic_load(&t->b->ended));
    return ok;
}

static void run_trials(subject first, subject last, int n)
{
    uint64_t seed = tt_test_seed();
    int n_run = 0, n_sudden = 0, n_struck = 0;
    int64_t wrong = 0;
    bool ok = true;
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TT_REQUIRE(b != MAP_FAILED);
    for (int i = 0; i < n && ok; i++) {
        uint64_t h = golden_hash(seed, (uint64_t)i), g = golden_hash(h, 1);
        trial t = { .what = (subject)(first + (subject)(h % (uint64_t)(last - first + 1))),
                    .how = (fault)(h / 8 % N_FAULTS),
                    .size = 2 + (int)(h / 64 % (MOST_RANKS - 1)),
                    .step = (int)(h / 1024 % 64),
                    .delay_us = (int)(g % 20000),
                    .n = 6000 + (int64_t)(g / 32768 % 120000),
                    .b = b };

        t.victim = (int)(g / 7 % (uint64_t)t.size);
        *b = (board){ 0 };
        snprintf(t.path, sizeof t.path, "%s/meet%d-%d", tt_test_tmpdir(), (int)first, i);
        n_run++;
        ok = run_trial(&t);
        n_sudden += t.how != SLOW;
        n_struck += atomic_load(&b->struck);
        wrong += atomic_load(&b->wrong);
    }
    munmap(b, sizeof *b);
    tt_test_note("seed %llu, %d trials, %lld wrong elements; %d ranks were stopped or aborted, %d "
                 "of them inside an operation",
                 (unsigned long long)seed, n_run, (long long)wrong, n_sudden, n_struck);
    if (n_sudden >= SUDDEN_ENOUGH) /* else the trials say nothing about what they are for */
        TT_CHECK_GT(n_struck, 0);
}

static int trials_wanted(void)
{
    const char *text = getenv("LEAVE_TRIALS");

    return text != NULL ? atoi(text) : TRIALS;
}

TT_TEST_LIMIT(leave_trials, tensors_of_the_group, 3600)
{
    run_trials(TENSOR, WORKS, trials_wanted());
}

TT_TEST_LIMIT(leave_trials, buckets_and_parameters, 3600)
{
    run_trials(DDP, ZERO, trials_wanted());
}
