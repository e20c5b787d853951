/* SPDX-License-Identifier: Apache-2.0 */
/* Being a rank: where this process or thread stands in its world, its barrier, what it declares. */
#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "testing/testing.h"
#include "testing/world.h"

static tti_rank_self process_self;
static _Thread_local tti_rank_self thread_self;

tti_rank_self tti_rank_get(void)
{
    return thread_self.world != NULL ? thread_self : process_self;
}

void tti_rank_enter_thread(tti_world *w, int rank)
{
    char name[16];

    thread_self = (tti_rank_self){ w, rank };
    tti_test_mine = w != NULL ? &w->ranks[rank].record : NULL;
    if (w == NULL)
        return;
    snprintf(name, sizeof name, "rank %d", rank);
    prctl(PR_SET_NAME, name);
}

const char *tti_test_thread_words(void)
{
    static _Thread_local char words[24];

    if (thread_self.world == NULL)
        return "";
    snprintf(words, sizeof words, "rank %d: ", thread_self.rank);
    return words;
}

int tt_test_rank(void)
{
    return tti_rank_get().rank;
}

int tt_test_size(void)
{
    const tti_world *w = tti_rank_get().world;

    return w != NULL ? w->size : 1;
}

long tt_test_rank_pid(int rank)
{
    tti_world *w = tti_rank_get().world;
    int pid;

    if (w == NULL || w->kind == TT_TEST_KIND_THREADS || rank < 0 || rank >= w->size)
        return getpid();
    while ((pid = atomic_load(&w->ranks[rank].pid)) == 0) /* it is just being started */
        usleep(100);
    return pid;
}

/* ---- the barrier ---- */

static void futex(atomic_uint *word, int op, unsigned value, const struct timespec *time)
{
    syscall(SYS_futex, word, op, value, time, NULL, 0);
}

void tti_gate_wake(tti_world *w)
{
    futex(&w->gate_turn, FUTEX_WAKE, INT_MAX, NULL);
}

void tt_test_barrier(void)
{
    static const struct timespec slice = { 0, 100000000 };
    tti_world *w = tti_rank_get().world;
    unsigned turn;

    if (w == NULL)
        return;
    turn = atomic_load(&w->gate_turn);
    if (atomic_fetch_add(&w->gate_count, 1) + 1 == (unsigned)w->size) {
        atomic_store(&w->gate_count, 0);
        atomic_fetch_add(&w->gate_turn, 1);
        tti_gate_wake(w);
        return;
    }
    while (atomic_load(&w->gate_turn) == turn) {
        if (atomic_load(&w->ending))
            tti_test_end_body(tt_test_failures() > 0 ? TT_TEST_EXIT_FAIL : TTI_EXIT_WOKEN);
        futex(&w->gate_turn, FUTEX_WAIT, turn, &slice);
    }
}

/* ---- how ranks may end ---- */

void tt_test_expect_exit(int rank, int status)
{
    tti_world *w = tti_rank_get().world;

    if (w == NULL)
        return;
    if (rank == TT_TEST_ANY_RANK) {
        atomic_store(&w->any_status, status);
        atomic_store(&w->any_expects, true);
    } else if (rank >= 0 && rank < w->size) {
        atomic_store(&w->ranks[rank].expected_status, status);
        atomic_store(&w->ranks[rank].expects, true);
    } else {
        tt_test_fail(__FILE__, __LINE__, "expect_exit: expected a rank below %d, got %d", w->size,
                     rank);
    }
}

void tt_test_ignore_exit(int rank)
{
    tti_world *w = tti_rank_get().world;

    for (int i = 0; w != NULL && i < w->size; i++) {
        if (rank == i || rank == TT_TEST_ANY_RANK)
            atomic_store(&w->ranks[i].ignored, true);
    }
}

/* ---- a process that was started as a rank ---- */

static tti_world *map_world(int fd)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(tti_world))
        return NULL;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

int tti_rank_main(const char *arg)
{
    const tt_test *t;
    int rank = -1, fd = -1;
    char name[16];
    tti_world *w;

    if (sscanf(arg, "%d:%d", &rank, &fd) != 2 || (w = map_world(fd)) == NULL || rank < 0 ||
        rank >= w->size) {
        fprintf(stderr, "testing: %s: expected what the harness gives, got '%s'\n", TTI_RANK_OPTION,
                arg);
        return 2;
    }
    process_self = (tti_rank_self){ w, rank };
    atomic_store(&w->ranks[rank].pid, (int)getpid());
    snprintf(name, sizeof name, "rank %d", rank);
    prctl(PR_SET_NAME, name);
    setvbuf(stdout, NULL, _IOLBF, 0);
    tti_test_stack_prepare();
    tti_test_stack_install(!tti_test_sanitized());
    if (w->kind == TT_TEST_KIND_KEPT)
        return tti_kept_loop(w, rank);
    t = tti_test_find(w->suite, w->name);
    if (t == NULL) {
        fprintf(stderr, "testing: rank %d: there is no test %s.%s\n", rank, w->suite, w->name);
        return 2;
    }
    return tti_test_body(t, &w->ranks[rank].record, w->seed, w->limit, true);
}
