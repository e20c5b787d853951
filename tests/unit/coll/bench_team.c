/* SPDX-License-Identifier: Apache-2.0 */
/* Times of the collectives of a team, without groups above it: medians and minima of rank 0 in microseconds, with
 * buffers altered between repetitions. Run with --hidden; on a quiet machine. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/testing.h>

#include "base/clock.h"
#include "coll/team.h"

#define MOST 16

typedef struct hall {
    _Atomic uint64_t came[MOST];
    int pids[MOST];
    _Atomic int start;
    unsigned char data[8][MOST][512];
} hall;

static hall *h;
static int size, rank;

static tt_status exchange(void *ctx, const char *step, const void *mine, size_t n, void *all)
{
    uint64_t call = atomic_load(&h->came[rank]) + 1;

    (void)ctx;
    (void)step;
    memcpy(h->data[call % 8][rank], mine, n);
    atomic_store(&h->came[rank], call);
    for (int r = 0; r < size; r++) {
        while (atomic_load(&h->came[r]) < call)
            sched_yield();
        memcpy((unsigned char *)all + (size_t)r * n, h->data[call % 8][r], n);
    }
    return TT_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Bytes as benchmarks of MPI count them: of the whole result of all_gather, of the whole input of all_to_all. */
static void set_up(tti_coll *c, tti_coll_kind kind, size_t bytes, char *in, char *out,
                   tti_span *ins, tti_span *outs)
{
    size_t part = bytes / (size_t)size;

    *c = (tti_coll){
        .kind = kind, .dtype = TT_F32, .deadline_ns = TTI_NEVER, .ins = ins, .outs = outs
    };
    c->in = (tti_span){ in, kind == TTI_COLL_ALL_GATHER || kind == TTI_COLL_GATHER ? part : bytes };
    c->out = (tti_span){ out, kind == TTI_COLL_REDUCE_SCATTER || kind == TTI_COLL_SCATTER ? part
                                                                                          : bytes };
    for (int r = 0; r < size; r++) {
        ins[r] = (tti_span){ in + (size_t)r * part, part };
        outs[r] = (tti_span){ out + (size_t)r * part, part };
    }
}

static void measure(tti_team *team, tti_coll_kind kind, size_t bytes, char *in, char *out)
{
    static double times[2001];
    tti_span ins[MOST], outs[MOST];
    tti_coll c, barrier = { .kind = TTI_COLL_BARRIER, .deadline_ns = TTI_NEVER };
    int inner = bytes <= 4096 ? 50 : bytes <= 65536 ? 5 : 1;
    int n = bytes <= (1u << 20) ? 400 : bytes <= (16u << 20) ? 40 : 7;

    set_up(&c, kind, bytes, in, out, ins, outs);
    for (int i = 0; i < n + 2; i++) {
        int64_t t;

        for (size_t at = 0; at < bytes; at += 4096)
            in[at]++;
        tti_team_run(team, &barrier);
        t = tti_now_ns();
        for (int k = 0; k < inner; k++)
            if (tti_team_run(team, &c) != TT_OK) {
                fprintf(stderr, "%s\n", tt_last_error());
                exit(1);
            }
        if (i >= 2)
            times[i - 2] = (double)(tti_now_ns() - t) / 1000.0 / inner;
    }
    qsort(times, (size_t)n, sizeof times[0], by_value);
    if (rank == 0)
        printf("%-14s %10zu %12.2f %12.2f\n", tti_coll_name(kind), bytes, times[n / 2], times[0]);
    fflush(stdout);
}

/* As launchers do: a core each, as far as there are. */
static void bind_core(void)
{
    cpu_set_t mine;

    CPU_ZERO(&mine);
    CPU_SET((size_t)rank % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &mine);
    sched_setaffinity(0, sizeof mine, &mine);
}

static void rank_main(int alloc, size_t most)
{
    static const tti_coll_kind kinds[] = { TTI_COLL_ALL_REDUCE,     TTI_COLL_ALL_GATHER,
                                           TTI_COLL_REDUCE_SCATTER, TTI_COLL_ALL_TO_ALL,
                                           TTI_COLL_BROADCAST,      TTI_COLL_BARRIER };
    tti_member members[MOST] = { { 0 } };
    tti_team_args args = { .rank = rank,
                           .size = size,
                           .group = "bench",
                           .members = members,
                           .timeout_ms = 10000,
                           .exchange = exchange };
    tti_team *team;
    char *in, *out;

    for (int r = 0; r < size; r++)
        members[r].pid = h->pids[r];
    if (tti_team_open(&args, &team) != TT_OK) {
        fprintf(stderr, "%s\n", tt_last_error());
        exit(1);
    }
    in = alloc ? tti_team_alloc(team, most) : aligned_alloc(4096, most);
    out = alloc ? tti_team_alloc(team, most) : aligned_alloc(4096, most);
    memset(in, 0, most);
    memset(out, 0, most);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t bytes = 8; bytes <= most; bytes *= kinds[k] == TTI_COLL_BARRIER ? most : 4)
            measure(team, kinds[k], bytes, in, out);
    }
    tti_team_close(team);
}

static void ranks(int n, int alloc, size_t most)
{
    size = n;
    h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TT_REQUIRE(h != MAP_FAILED);
    printf("%d ranks%s\n", n, alloc ? ", in place" : "");
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        int pid = fork();

        if (pid == 0) {
            rank = r;
            while (!atomic_load(&h->start))
                sched_yield();
            if (size <= sysconf(_SC_NPROCESSORS_ONLN))
                bind_core();
            rank_main(alloc, most);
            fflush(NULL);
            _exit(0);
        }
        h->pids[r] = pid;
    }
    atomic_store(&h->start, 1);
    for (int r = 0; r < size; r++)
        wait(NULL);
    munmap(h, sizeof *h);
}

TT_TEST_HIDDEN(coll_bench, times_of_a_team, 1200)
{
    ranks(2, 0, (size_t)256 << 20);
    ranks(2, 1, (size_t)256 << 20);
    ranks(4, 0, (size_t)32 << 20);
}
