/* SPDX-License-Identifier: Apache-2.0 */
/* Whether reductions overlap with computing: the facts of a rank, and what follows from those of all. */
#include "pg/overlap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/status.h"
#include "tensor/tensor.h"
#include "tutti/collective.h"

/* ---- the decision ------------------------------------------------------------------------------- */

/* The cores that the ranks of `host` have together. Ranks may be in one control group, which shares its
 * quota, or in several: the largest quota is what they have at least. */
static int64_t cores_of_host(const tti_overlap_facts *all, int n, int64_t host)
{
    int64_t cores = 0, quota = 0;
    bool limited = true;

    for (int w = 0; w < TTI_OVERLAP_CPU_WORDS; w++) {
        uint64_t any = 0;

        for (int r = 0; r < n; r++)
            any |= all[r].host == host ? (uint64_t)all[r].cpus[w] : 0;
        cores += __builtin_popcountll(any);
    }
    for (int r = 0; r < n; r++) {
        if (all[r].host != host)
            continue;
        limited = limited && all[r].quota > 0;
        quota = all[r].quota > quota ? all[r].quota : quota;
    }
    return limited && quota < cores ? quota : cores;
}

/* Every compute thread, and an engine for every rank. */
static int64_t threads_of_host(const tti_overlap_facts *all, int n, int64_t host)
{
    int64_t threads = 0;

    for (int r = 0; r < n; r++)
        if (all[r].host == host)
            threads += all[r].threads + 1;
    return threads;
}

tti_overlap tti_overlap_choose(const tti_overlap_facts *all, int n)
{
    if (all[0].wanted != TTI_OVERLAP_AUTO)
        return (tti_overlap)all[0].wanted;
    for (int r = 0; r < n; r++)
        if (all[r].on_accelerator != 0)
            return TTI_OVERLAP_ENGINE; /* it computes on; the host's cores only wait */
    for (int r = 0; r < n; r++)
        if (cores_of_host(all, n, all[r].host) < threads_of_host(all, n, all[r].host))
            return TTI_OVERLAP_END;
    return TTI_OVERLAP_ENGINE;
}

static const char *const overlap_names[] = { "auto", "engine", "fill", "end" };
enum { N_OVERLAPS = sizeof overlap_names / sizeof overlap_names[0] };

const char *tti_overlap_name(tti_overlap mode)
{
    return (unsigned)mode < N_OVERLAPS ? overlap_names[mode] : "?";
}

/* ---- the facts ---------------------------------------------------------------------------------- */

int tti_overlap_cores_of_quota(const char *line)
{
    long long quota, period;

    if (sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0)
        return 0; /* "max 100000", and -1 in the older form */
    if (quota < period)
        return 1;
    return quota / period < 1 << 20 ? (int)(quota / period) : 0;
}

static bool overlap_read_line(const char *path, char *line, int room)
{
    FILE *f = fopen(path, "re");
    bool got = f != NULL && fgets(line, room, f) != NULL;

    if (f != NULL)
        fclose(f);
    return got;
}

/* The path of this process below the root of control groups, without a slash at its end. */
static void overlap_cgroup_path(char *path, size_t room)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[512];

    path[0] = '\0';
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(path, room, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (f != NULL)
        fclose(f);
    if (strcmp(path, "/") == 0)
        path[0] = '\0';
}

/* The least that the control group of this process and those above it grant; 0: no limit. */
static int overlap_quota(void)
{
    char path[512], file[600], line[64];
    int least = 0;

    overlap_cgroup_path(path, sizeof path);
    for (;;) {
        char *slash = strrchr(path, '/');
        int cores;

        snprintf(file, sizeof file, "/sys/fs/cgroup%s/cpu.max", path);
        cores = overlap_read_line(file, line, sizeof line) ? tti_overlap_cores_of_quota(line) : 0;
        if (cores > 0 && (least == 0 || cores < least))
            least = cores;
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

static int64_t overlap_host(void)
{
    char name[256] = "";
    uint64_t h = 14695981039346656037u;

    (void)gethostname(name, sizeof name - 1);
    for (const char *s = name; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (int64_t)(h >> 1);
}

/* What the environment asks for. */
static tti_overlap overlap_wanted(void)
{
    const char *s = tti_env_get(TTI_ENV_OVERLAP);

    for (int i = 0; s != NULL && i < N_OVERLAPS; i++)
        if (strcmp(s, overlap_names[i]) == 0)
            return (tti_overlap)i;
    if (s != NULL)
        tt_warn("environment", "TUTTI_OVERLAP: expected auto, engine, fill or end, got \"%s\"", s);
    return TTI_OVERLAP_AUTO;
}

void tti_overlap_look(tti_overlap_facts *f)
{
    cpu_set_t set;

    *f = (tti_overlap_facts){ .host = overlap_host(),
                              .wanted = overlap_wanted(),
                              .threads = tt_get_num_threads(),
                              .quota = overlap_quota() };
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int c = 0; c < CPU_SETSIZE && c < 64 * TTI_OVERLAP_CPU_WORDS; c++)
        if (CPU_ISSET(c, &set))
            f->cpus[c / 64] = (int64_t)((uint64_t)f->cpus[c / 64] | (uint64_t)1 << (c % 64));
}

/* ---- the exchange ------------------------------------------------------------------------------- */

static tt_status decide(tt_pg *pg, const tti_overlap_facts *mine, tti_overlap *mode_p)
{
    enum { WORDS = sizeof *mine / sizeof(int64_t) };
    int size = tt_pg_size(pg);
    tt_tensor *in = tt_from_data(mine, TT_SHAPE(WORDS), TT_I64);
    tt_tensor *out = tt_empty(TT_SHAPE((int64_t)size * WORDS), TT_I64, TT_CPU);
    const tti_overlap_facts *all;

    if (in == NULL || out == NULL)
        return tt_last_status();
    TT_TRY(tt_pg_all_gather_into(pg, in, out, NULL, NULL));
    all = (const tti_overlap_facts *)tti_data(out);
    for (int r = 1; r < size; r++)
        if (all[r].wanted != all[0].wanted)
            return TT_FAIL(TT_ERR_INVALID, "overlap is \"%s\" on rank 0, but \"%s\" on rank %d",
                           tti_overlap_name((tti_overlap)all[0].wanted),
                           tti_overlap_name((tti_overlap)all[r].wanted), r);
    *mode_p = tti_overlap_choose(all, size);
    return TT_OK;
}

tt_status tti_overlap_agree(tt_pg *pg, bool on_accelerator, tti_overlap *mode_p)
{
    tti_overlap_facts mine;
    tt_status st = TT_OK;

    tti_overlap_look(&mine);
    mine.on_accelerator = on_accelerator;
    TT_SCOPE {
        st = decide(pg, &mine, mode_p);
    }
    return st;
}
