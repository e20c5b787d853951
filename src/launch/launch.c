/* SPDX-License-Identifier: Apache-2.0 */
/* tt_launch: prepares a job, runs rounds of it until one succeeds or no restart is left, cleans up. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "launch/job.h"
#include "launch/jobstore.h"

/* ---- options -------------------------------------------------------------------------------- */

static tt_status check_maps(const tt_launch_options *o);

static tt_status resolve(const tt_launch_options *in, tt_launch_options *o)
{
    *o = in != NULL ? *in : (tt_launch_options){ 0 };
    if (o->n_ranks == 0)
        o->n_ranks = 1;
    if (o->n_nodes == 0)
        o->n_nodes = 1;
    if (o->grace_ms == 0)
        o->grace_ms = 5000;
    if (o->join_timeout_ms <= 0)
        o->join_timeout_ms = 600000;
    if (o->out_fd == 0)
        o->out_fd = STDOUT_FILENO;
    if (o->err_fd == 0)
        o->err_fd = STDERR_FILENO;
    if (o->line_prefix == NULL)
        o->line_prefix = "[${rank}] ";
    if (o->n_ranks < 1 || o->n_nodes < 1 || o->n_ranks > TT_LAUNCH_MAX_RANKS / o->n_nodes)
        return TT_FAIL(TT_ERR_INVALID, "expected 1 to %d ranks, got %d on %d nodes",
                       TT_LAUNCH_MAX_RANKS, o->n_ranks, o->n_nodes);
    if (o->node_rank < 0 || o->node_rank >= o->n_nodes)
        return TT_FAIL(TT_ERR_INVALID, "--node-rank: expected 0 to %d, got %d", o->n_nodes - 1,
                       o->node_rank);
    if (o->max_restarts < 0)
        return TT_FAIL(TT_ERR_INVALID, "--max-restarts: expected 0 or more, got %d",
                       o->max_restarts);
    if (o->master_port < 0 || o->master_port > 65535)
        return TT_FAIL(TT_ERR_INVALID, "--master-port: expected 0 to 65535, got %d",
                       o->master_port);
    if (o->log_dir == NULL && (o->tee != NULL || o->redirects != NULL))
        return TT_FAIL(TT_ERR_INVALID,
                       "--tee and --redirects write to --log-dir, which is missing");
    if (o->log_dir != NULL && o->tee == NULL && o->redirects == NULL)
        o->tee = "3";
    return check_maps(o);
}

/* The texts that every rank reads its part of. */
static tt_status check_maps(const tt_launch_options *o)
{
    char prefix[64];
    bool listed;
    int flags;

    TT_TRY(tti_std_map(o->tee, 0, &flags));
    TT_TRY(tti_std_map(o->redirects, 0, &flags));
    TT_TRY(tti_launch_listed(o->ranks_shown, 0, &listed));
    return tti_prefix_make(o->line_prefix, 0, 0, prefix, sizeof prefix);
}

/* A secret of several nodes can be guessed from the proofs that go over the network, so it must not be short. */
static tt_status check_secret(const char *from, const char *secret)
{
    if (strlen(secret) < 16)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a line of at least 16 characters", from);
    return TT_OK;
}

/* The first line of the open file. */
static tt_status read_secret_line(tti_job *job, FILE *f)
{
    const char *path = job->opt.secret_file;
    char line[sizeof job->secret + 2] = ""; /* with its end */
    struct stat st;
    size_t n;

    if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a regular file", path);
    if ((st.st_mode & 077) != 0)
        return TT_FAIL(TT_ERR_INVALID, "%s: others can read it; chmod 600 it", path);
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    n = strcspn(line, "\r\n");
    if (n >= sizeof job->secret)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a line of at most %zu characters", path,
                       sizeof job->secret - 1);
    memcpy(job->secret, line, n);
    job->secret[n] = '\0';
    return check_secret(path, job->secret);
}

static tt_status read_secret_file(tti_job *job)
{
    int fd = open(job->opt.secret_file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    tt_status st;

    if (f == NULL) {
        st = TT_FAIL(TT_ERR_IO, "%s: %s", job->opt.secret_file, strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    st = read_secret_line(job, f);
    fclose(f);
    return st;
}

static tt_status read_secret(tti_job *job)
{
    const char *secret = tti_env_get(TTI_ENV_JOB_SECRET);

    if (job->opt.secret_file != NULL)
        return read_secret_file(job);
    if (job->opt.n_nodes == 1)
        return tti_random_hex(job->secret, 32);
    if (secret == NULL)
        return TT_FAIL(TT_ERR_INVALID, "several nodes need a common secret: give all of them "
                                       "the same --secret-file or TUTTI_JOB_SECRET "
                                       "(`openssl rand -hex 32` makes one)");
    if (strlen(secret) >= sizeof job->secret || strchr(secret, '\n') != NULL)
        return TT_FAIL(TT_ERR_INVALID,
                       "TUTTI_JOB_SECRET: expected a line of at most 64 characters");
    memcpy(job->secret, secret, strlen(secret) + 1);
    return check_secret("TUTTI_JOB_SECRET", secret);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* What ranks print may be private: directories and files of logs are this user's alone. */
static tt_status make_dirs(const char *path)
{
    char part[4096];
    size_t n = strlen(path);

    if (n >= sizeof part)
        return TT_FAIL(TT_ERR_INVALID, "--log-dir: the path is too long");
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return TT_FAIL(TT_ERR_IO, "%s: %s", part, strerror(errno));
    }
    return TT_OK;
}

static tt_status make_private_dir(tti_job *job)
{
    char path[4096];
    const char *base = "/tmp";

    for (char **e = environ; e != NULL && *e != NULL; e++)
        if (strncmp(*e, "TMPDIR=/", 8) == 0)
            base = *e + 7;
    if (snprintf(path, sizeof path, "%s/tutti-XXXXXX", base) >= (int)sizeof path ||
        mkdtemp(path) == NULL)
        return TT_FAIL(TT_ERR_IO, "launch: no directory in %s: %s", base, strerror(errno));
    job->dir = tti_strdup(path);
    if (job->dir == NULL) {
        rmdir(path);
        return TT_ERR_NOMEM;
    }
    return TT_OK;
}

/* Makes the directory `dir`; *path_p is its absolute path, the caller's. */
static tt_status make_absolute(const char *dir, char **path_p)
{
    char path[4096];

    TT_TRY(make_dirs(dir));
    if (realpath(dir, path) == NULL)
        return TT_FAIL(TT_ERR_IO, "%s: %s", dir, strerror(errno));
    *path_p = tti_strdup(path);
    return *path_p != NULL ? TT_OK : TT_ERR_NOMEM;
}

/* Records of the ranks go where the user wants them, else to the logs, else where they end with the job. */
static tt_status make_directories(tti_job *job)
{
    const char *flight_dir = tti_env_get(TTI_ENV_FLIGHT_DIR);

    TT_TRY(make_private_dir(job));
    if (job->opt.log_dir != NULL)
        TT_TRY(make_absolute(job->opt.log_dir, &job->log_dir));
    if (flight_dir != NULL)
        return make_absolute(flight_dir, &job->flight_dir);
    job->flight_dir = tti_strdup(job->log_dir != NULL ? job->log_dir : job->dir);
    return job->flight_dir != NULL ? TT_OK : TT_ERR_NOMEM;
}

/* Removes the directory with all that programs have put in it. */
static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0) != 0) {
            char path[4400];

            if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path &&
                e->d_type == DT_DIR)
                remove_dir(path);
        }
    }
    if (d != NULL)
        closedir(d);
    rmdir(dir);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

static tt_status open_log(const tti_job *job, const tti_rank *r, const char *name, int *fd_p)
{
    char path[4400];

    snprintf(path, sizeof path, "%s/rank_%d", job->log_dir, r->rank);
    TT_TRY(make_dirs(path));
    snprintf(path, sizeof path, "%s/rank_%d/%s.log", job->log_dir, r->rank, name);
    *fd_p =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (job->restart > 0 ? O_APPEND : O_TRUNC), 0600);
    if (*fd_p < 0)
        return TT_FAIL(TT_ERR_IO, "%s: %s", path, strerror(errno));
    return TT_OK;
}

static void set_prefix(tti_stream *s, const char *words, int rank)
{
    static const int colours[] = { 36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91 };

    if (s->sink->colour)
        snprintf(s->prefix, sizeof s->prefix, "\033[%dm%s\033[0m", colours[rank % 12], words);
    else
        snprintf(s->prefix, sizeof s->prefix, "%s", words);
    s->n_prefix = strlen(s->prefix);
}

static tt_status prepare_rank(tti_job *job, tti_rank *r, int local)
{
    const tt_launch_options *o = &job->opt;
    int tee, redirects;
    bool listed;
    char prefix[64];

    *r = (tti_rank){ .rank = o->node_rank * job->n + local, .local_rank = local, .pidfd = -1 };
    r->out = (tti_stream){ .fd = -1, .log_fd = -1, .sink = &job->out };
    r->err = (tti_stream){ .fd = -1, .log_fd = -1, .sink = &job->err };
    TT_TRY(tti_std_map(o->tee, local, &tee));
    TT_TRY(tti_std_map(o->redirects, local, &redirects));
    TT_TRY(tti_launch_listed(o->ranks_shown, local, &listed));
    TT_TRY(tti_prefix_make(o->line_prefix, r->rank, local, prefix, sizeof prefix));
    r->out.shown = listed && ((redirects & 1) == 0 || (tee & 1) != 0);
    r->err.shown = listed && ((redirects & 2) == 0 || (tee & 2) != 0);
    r->out.raw = r->err.raw = o->no_prefix || job->world == 1;
    set_prefix(&r->out, prefix, r->rank);
    set_prefix(&r->err, prefix, r->rank);
    if (((tee | redirects) & 1) != 0)
        TT_TRY(open_log(job, r, "stdout", &r->out.log_fd));
    if (((tee | redirects) & 2) != 0)
        TT_TRY(open_log(job, r, "stderr", &r->err.log_fd));
    return TT_OK;
}

static bool colours(int fd)
{
    for (char **e = environ; e != NULL && *e != NULL; e++)
        if ((strncmp(*e, "NO_COLOR=", 9) == 0 && (*e)[9] != '\0') || strcmp(*e, "TERM=dumb") == 0)
            return false;
    return isatty(fd) != 0;
}

static void close_rank(tti_rank *r)
{
    tti_stream_close(&r->out);
    tti_stream_close(&r->err);
    if (r->pidfd >= 0)
        close(r->pidfd);
    r->pidfd = -1;
}

/* ---- a round -------------------------------------------------------------------------------- */

static void say_cpus(tti_job *job)
{
    const tti_cpu_plan *p = &job->cpus;
    char bound[80] = "not bound to cores";

    if (job->n < 2 || job->restart > 0)
        return;
    if (p->sets != NULL)
        snprintf(bound, sizeof bound, "each bound to %d of %d cpus", CPU_COUNT(&p->sets[0]),
                 p->n_cpus);
    else if (job->n > p->n_cpus)
        snprintf(bound, sizeof bound, "not bound: more than the %d cpus there are", p->n_cpus);
    tti_job_say(job, "%d ranks, %s; OMP_NUM_THREADS=%d unless you set it", job->n, bound,
                p->threads);
}

/* The store and the ports of a round. */
static tt_status meet(tti_job *job)
{
    const tt_launch_options *o = &job->opt;

    clock_gettime(CLOCK_REALTIME_COARSE, &job->started);
    job->first = -1;
    job->phase = TTI_PHASE_RUN;
    job->phase_end = TTI_NEVER;
    if (o->n_nodes > 1)
        return tti_nodes_round(job);
    snprintf(job->master_addr, sizeof job->master_addr, "%s",
             o->master_addr != NULL ? o->master_addr : "127.0.0.1");
    job->master_port = o->master_port;
    if (o->master_port == 0)
        TT_TRY(tti_port_reserve("127.0.0.1", &job->master_port, &job->reserved_fd));
    return tti_jobstore_open(job, "127.0.0.1");
}

static void part(tti_job *job)
{
    for (int i = 0; job->ranks != NULL && i < job->n; i++)
        close_rank(&job->ranks[i]);
    if (job->reserved_fd >= 0)
        close(job->reserved_fd);
    job->reserved_fd = -1;
    tti_jobstore_close(job);
}

/* Ends what has started when a rank cannot be. */
static tt_status abandon(tti_job *job, tt_status st)
{
    tti_error_copy copy;

    tti_error_save(&copy);
    job->opt.grace_ms = -1;
    tti_job_end(job);
    if (job->n_alive > 0)
        (void)tti_job_watch(job);
    tti_error_restore(&copy);
    return st;
}

static tt_status run_round(tti_job *job)
{
    for (int i = 0; i < job->n; i++)
        TT_TRY(prepare_rank(job, &job->ranks[i], i));
    TT_TRY(meet(job));
    say_cpus(job);
    for (int i = 0; i < job->n; i++) {
        tt_status st = tti_launch_spawn(job, &job->ranks[i]);

        if (st != TT_OK)
            return abandon(job, st);
    }
    TT_TRY(tti_job_watch(job));
    return job->nodes != NULL ? tti_nodes_finish(job) : TT_OK;
}

/* ---- the job -------------------------------------------------------------------------------- */

static tt_status prepare(tti_job *job)
{
    tti_sink_open(&job->out, job->opt.out_fd);
    tti_sink_open(&job->err, job->opt.err_fd);
    job->out.colour = colours(job->opt.out_fd);
    job->err.colour = colours(job->opt.err_fd);
    job->ranks = tti_calloc((size_t)job->n, sizeof *job->ranks);
    if (job->ranks == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < job->n; i++) {
        job->ranks[i].pidfd = -1;
        job->ranks[i].out = job->ranks[i].err = (tti_stream){ .fd = -1, .log_fd = -1 };
    }
    TT_TRY(read_secret(job));
    if (job->opt.run_id != NULL)
        snprintf(job->run_id, sizeof job->run_id, "%s", job->opt.run_id);
    else if (job->opt.n_nodes > 1)
        snprintf(job->run_id, sizeof job->run_id, "job");
    else
        TT_TRY(tti_random_hex(job->run_id, 8));
    if (gethostname(job->host, sizeof job->host - 1) != 0)
        snprintf(job->host, sizeof job->host, "localhost");
    TT_TRY(make_directories(job));
    TT_TRY(tti_cpu_plan_make(job->n, job->opt.no_bind, &job->cpus));
    TT_TRY(tti_job_signals_take(job));
    if (job->opt.own_process)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    TT_TRY(tti_guard_start(job));
    return job->opt.n_nodes > 1 ? tti_nodes_join(job) : TT_OK;
}

static bool failed(const tti_job *job)
{
    return job->first >= 0 || job->remote_failed;
}

static tt_status rounds(tti_job *job)
{
    for (;;) {
        bool again;

        TT_TRY(run_round(job));
        again = failed(job) && job->signal == 0 && job->restart < job->opt.max_restarts;
        if (failed(job) && job->signal == 0)
            tti_job_report(job, again);
        if (!again)
            return TT_OK;
        part(job);
        job->remote_failed = false;
        job->restart++;
    }
}

static void result_fill(const tti_job *job, tt_launch_result *r)
{
    char words[128];

    *r = (tt_launch_result){ .failed_rank = -1, .signal = job->signal, .n_restarts = job->restart };
    if (job->first >= 0) {
        const tti_rank *k = &job->ranks[job->first];

        r->exit_code = tti_status_code(k->status);
        r->failed_rank = k->rank;
        r->failed_pid = k->shown_pid;
        tti_status_words(k->status, words, sizeof words);
        snprintf(r->cause, sizeof r->cause, "rank %d (pid %d on %s) %s", k->rank, r->failed_pid,
                 job->host, words);
    } else if (job->remote_failed) {
        r->exit_code = job->remote_code;
        r->failed_rank = job->remote_rank;
        snprintf(r->cause, sizeof r->cause, "%s", job->remote);
    }
    if (job->signal != 0) {
        r->exit_code = 128 + job->signal;
        snprintf(r->cause, sizeof r->cause, "the launcher got %s", tti_signal_name(job->signal));
    }
}

static void clean_up(tti_job *job)
{
    part(job);
    tti_nodes_free(job);
    tti_guard_stop(job);
    if (job->dir != NULL)
        remove_dir(job->dir);
    tti_job_signals_give_back(job);
    tti_sink_flush(&job->out);
    tti_sink_flush(&job->err);
    tti_sink_close(&job->out);
    tti_sink_close(&job->err);
    tti_cpu_plan_fini(&job->cpus);
    tti_mfree(job->ranks);
    tti_mfree(job->program);
    tti_mfree(job->dir);
    tti_mfree(job->log_dir);
    tti_mfree(job->flight_dir);
    tti_mfree(job);
}

tt_status tt_launch(const char *const *argv, const tt_launch_options *opt,
                    tt_launch_result *result_p)
{
    tt_launch_result result = { .failed_rank = -1 };
    tti_error_copy copy;
    tt_status st;
    tti_job *job;

    if (argv == NULL || argv[0] == NULL || result_p == NULL)
        return TT_FAIL(TT_ERR_INVALID, "launch: expected a program and a place for the result");
    job = tti_calloc(1, sizeof *job);
    if (job == NULL)
        return TT_ERR_NOMEM;
    job->argv = argv;
    job->signal_fd = job->guard_fd = job->reserved_fd = -1;
    pthread_sigmask(SIG_BLOCK, NULL, &job->old_mask);
    sigaction(SIGPIPE, NULL, &job->old_pipe);
    st = resolve(opt, &job->opt);
    job->n = st == TT_OK ? job->opt.n_ranks : 0;
    job->world = st == TT_OK ? job->n * job->opt.n_nodes : 0;
    if (st == TT_OK)
        st = tti_program_find(argv[0], &job->program, &result.exit_code);
    if (st == TT_OK)
        st = prepare(job);
    if (st == TT_OK) {
        result.exit_code = 126; /* if a rank cannot be started */
        st = rounds(job);
    }
    if (st == TT_OK)
        result_fill(job, &result);
    else if (job->signal != 0)
        result.exit_code = 128 + job->signal;
    if (st == TT_OK && job->opt.summary_file != NULL)
        st = tti_job_write_summary(job, &result);
    *result_p = result;
    tti_error_save(&copy);
    clean_up(job);
    if (st != TT_OK)
        tti_error_restore(&copy);
    return st;
}
