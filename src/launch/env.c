/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a rank: torchrun's variables by the same names, ours, and all else as it was. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/job.h"

typedef struct vars {
    tti_text text; /* name=value, each ended by a newline, which no value of ours has */
    int n;
} vars;

static void add(vars *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(vars *v, const char *fmt, ...)
{
    char line[4300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    tti_text_addf(&v->text, "%s\n", line);
    v->n++;
}

static bool in_environment(const char *name)
{
    size_t n = strlen(name);

    for (char **e = environ; e != NULL && *e != NULL; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return true;
    return false;
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
}

/* Whether ours, a text of lines, sets the same name as `entry`. */
static bool replaced(const vars *v, const char *entry)
{
    size_t n = strcspn(entry, "=") + 1;

    for (const char *p = tti_text_str(&v->text); *p != '\0'; p = strchr(p, '\n') + 1)
        if (strncmp(p, entry, n) == 0)
            return true;
    return false;
}

tt_status tti_launch_env(const tti_job *job, const tti_rank *r, char ***env_p)
{
    vars v = { 0 };
    size_t n = 0, k = 0;
    char **env;
    char *p;

    add_ours(&v, job, r);
    if (v.text.status != TT_OK) {
        tti_text_fini(&v.text);
        return TT_ERR_NOMEM;
    }
    while (environ != NULL && environ[n] != NULL)
        n++;
    env = tti_malloc((n + (size_t)v.n + 1) * sizeof *env + v.text.n + 1);
    if (env == NULL) {
        tti_text_fini(&v.text);
        return TT_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++)
        if (!replaced(&v, environ[i]))
            env[k++] = environ[i];
    p = (char *)(env + n + v.n + 1);
    memcpy(p, tti_text_str(&v.text), v.text.n + 1);
    for (int i = 0; i < v.n; i++) {
        env[k++] = p;
        p = strchr(p, '\n');
        *p++ = '\0';
    }
    env[k] = NULL;
    tti_text_fini(&v.text);
    *env_p = env;
    return TT_OK;
}
