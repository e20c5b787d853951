/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a rank: torchrun's variables by the same names, ours, and all else as it was. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "launch/job.h"

#define MAX_OURS 32

typedef struct vars {
    char *all[MAX_OURS]; /* name=value; values may have any characters */
    int n;
    tt_status status;
} vars;

static void add(vars *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(vars *v, const char *fmt, ...)
{
    char *line;
    va_list ap;
    int n;

    assert(v->n < MAX_OURS);
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    line = tti_malloc((size_t)n + 1);
    if (line == NULL) {
        v->status = TT_ERR_NOMEM;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(line, (size_t)n + 1, fmt, ap);
    va_end(ap);
    v->all[v->n++] = line;
}

static bool in_environment(const char *name)
{
    size_t n = strlen(name);

    for (char **e = environ; e != NULL && *e != NULL; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return true;
    return false;
}

/* Threads of OpenMP that wait for each other spin, and take the cores from those that work when there are more of both than
 * CPUs: then they sleep. OpenMP reads this once, before any code of the rank runs. */
static void add_wait_policy(vars *v, const tti_job *job)
{
    const char *text = tti_foreign_get(TTI_FOREIGN_OMP_NUM_THREADS);
    int64_t threads = text != NULL ? strtol(text, NULL, 10) : job->cpus.threads;

    threads = tti_env_int(TTI_ENV_NUM_THREADS, 1, 1024, threads);
    if (threads > 1 && job->n * threads > job->cpus.n_cpus && !in_environment("OMP_WAIT_POLICY") &&
        !in_environment("GOMP_SPINCOUNT"))
        add(v, "OMP_WAIT_POLICY=passive");
}

static void add_ours(vars *v, const tti_job *job, const tti_rank *r)
{
    const tt_launch_options *o = &job->opt;

    add(v, "RANK=%d", r->rank);
    add(v, "LOCAL_RANK=%d", r->local_rank);
    add(v, "WORLD_SIZE=%d", job->world);
    add(v, "LOCAL_WORLD_SIZE=%d", job->n);
    add(v, "GROUP_RANK=%d", o->node_rank);
    add(v, "GROUP_WORLD_SIZE=%d", o->n_nodes);
    add(v, "ROLE_RANK=%d", r->rank);
    add(v, "ROLE_WORLD_SIZE=%d", job->world);
    add(v, "ROLE_NAME=default");
    add(v, "MASTER_ADDR=%s", job->master_addr);
    add(v, "MASTER_PORT=%d", job->master_port);
    add(v, "TORCHELASTIC_RUN_ID=%s", job->run_id);
    add(v, "TORCHELASTIC_RESTART_COUNT=%d", job->restart);
    add(v, "TORCHELASTIC_MAX_RESTARTS=%d", o->max_restarts);
    /* The store at MASTER_PORT is that of whoever speaks another protocol than ours: rank 0 serves it. */
    add(v, "TORCHELASTIC_USE_AGENT_STORE=False");
    add(v, "TORCHELASTIC_ERROR_FILE=%s/error_%d.json", job->dir, r->rank);
    add(v, "TUTTI_RUN_ID=%s", job->run_id);
    add(v, "TUTTI_JOB_SECRET=%s", job->secret);
    add(v, "TUTTI_STORE=%s", job->store_addr);
    add(v, "TUTTI_FLIGHT_DIR=%s", job->flight_dir);
    if (!in_environment("OMP_NUM_THREADS"))
        add(v, "OMP_NUM_THREADS=%d", job->cpus.threads);
    add_wait_policy(v, job);
}

/* Whether ours sets the same name as `entry`. */
static bool replaced(const vars *v, const char *entry)
{
    size_t n = strcspn(entry, "=") + 1;

    for (int i = 0; i < v->n; i++)
        if (strncmp(v->all[i], entry, n) == 0)
            return true;
    return false;
}

/* Pointers first, then the texts of ours. */
static char **lay_out(const vars *v)
{
    size_t n = 0, k = 0, bytes = 0;
    char **env, *p;

    while (environ != NULL && environ[n] != NULL)
        n++;
    for (int i = 0; i < v->n; i++)
        bytes += strlen(v->all[i]) + 1;
    env = tti_malloc((n + (size_t)v->n + 1) * sizeof *env + bytes);
    if (env == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!replaced(v, environ[i]))
            env[k++] = environ[i];
    p = (char *)(env + n + v->n + 1);
    for (int i = 0; i < v->n; i++) {
        env[k++] = strcpy(p, v->all[i]);
        p += strlen(p) + 1;
    }
    env[k] = NULL;
    return env;
}

tt_status tti_launch_env(const tti_job *job, const tti_rank *r, char ***env_p)
{
    vars v = { 0 };
    char **env;

    add_ours(&v, job, r);
    env = v.status == TT_OK ? lay_out(&v) : NULL;
    for (int i = 0; i < v.n; i++)
        tti_mfree(v.all[i]);
    if (env == NULL)
        return TT_ERR_NOMEM;
    *env_p = env;
    return TT_OK;
}
