/* SPDX-License-Identifier: Apache-2.0 */
/* One job of the launcher: its ranks, what they print, and how far their end has come. Everything here is
 * used by the thread that called tt_launch only. */
#ifndef TTI_LAUNCH_JOB_H
#define TTI_LAUNCH_JOB_H

#include <sched.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "launch/output.h"
#include "tutti/launch.h"
#include "tutti/store.h"

/* Which CPUs ranks get. `sets` is NULL when they are not bound. */
typedef struct tti_cpu_plan {
    int n_cpus;  /* this process may use */
    int threads; /* per rank */
    cpu_set_t *sets;
} tti_cpu_plan;

tt_status tti_cpu_plan_make(int n_ranks, bool no_bind, tti_cpu_plan *plan_p);
void tti_cpu_plan_fini(tti_cpu_plan *plan);

typedef struct tti_rank {
    int rank, local_rank;
    pid_t pid; /* 0: not started or reaped */
    pid_t shown_pid;
    int pidfd;
    bool ended;
    bool group_left; /* others of its process group were alive when it ended */
    bool by_us;      /* ended after we asked it to */
    int status;      /* as waitpid gives it */
    int64_t end_ns;  /* when it was noticed */
    tti_stream out, err;
} tti_rank;

typedef enum tti_phase {
    TTI_PHASE_RUN,
    TTI_PHASE_DUMP, /* survivors write down what they know */
    TTI_PHASE_TERM, /* SIGTERM was sent */
    TTI_PHASE_KILL, /* SIGKILL was sent */
} tti_phase;

struct tti_nodes;

typedef struct tti_job {
    const char *const *argv;
    tt_launch_options opt; /* resolved */
    char *program;         /* argv[0] as found in PATH */
    char secret[65], run_id[65], host[65];
    char store_addr[128], master_addr[80];
    int master_port;
    char *dir;        /* private, removed in the end */
    char *log_dir;    /* absolute; NULL: no logs */
    char *flight_dir; /* TUTTI_FLIGHT_DIR, or the log directory, or `dir` */
    tti_cpu_plan cpus;
    tti_rank *ranks;
    int n, world;
    int restart;
    struct timespec started; /* the round */

    tt_store *store;
    struct tti_nodes *nodes; /* NULL on one node */
    int reserved_fd;         /* holds MASTER_PORT */
    int guard_fd;            /* its closing tells the guard that we are gone */
    pid_t guard;

    tti_sink out, err;
    int signal_fd;
    sigset_t old_mask;
    struct sigaction old_pipe;

    tti_phase phase;
    int64_t phase_end; /* when the next phase starts */
    int n_alive;
    int first; /* local index of the first that failed; -1 */
    int signal;
    int n_signals;
    bool broken_pipe;
    bool remote_failed; /* on another node; `remote` says what */
    int remote_rank, remote_code;
    char remote[256];
} tti_job;

/* ---- starting --------------------------------------------------------------------------- */

/* The path of the program; on failure *code_p is 126 or 127. */
tt_status tti_program_find(const char *name, char **path_p, int *code_p);
/* The environment of a rank: that of this process with our variables. One block of memory. */
tt_status tti_launch_env(const tti_job *job, const tti_rank *r, char ***env_p);
tt_status tti_launch_spawn(tti_job *job, tti_rank *r);

/* A small process that kills the ranks and removes the directory when the launcher is killed. */
tt_status tti_guard_start(tti_job *job);
void tti_guard_tell(const tti_job *job, pid_t pid);
/* The rank was reaped and nothing of its group is left: its number may mean another process from now on. */
void tti_guard_forget(const tti_job *job, pid_t pid);
void tti_guard_stop(tti_job *job);

/* ---- running ---------------------------------------------------------------------------- */

tt_status tti_job_signals_take(tti_job *job);
void tti_job_signals_give_back(tti_job *job);
/* Until every rank has ended and all they wrote is passed on. */
tt_status tti_job_watch(tti_job *job);
/* Starts the end of the job, if it has not started. */
void tti_job_end(tti_job *job);
void tti_job_kill_strays(tti_job *job);

/* ---- several nodes ---------------------------------------------------------------------- */

/* Meets the other launchers; afterwards job->store_addr and the like are known everywhere. */
tt_status tti_nodes_join(tti_job *job);
tt_status tti_nodes_round(tti_job *job);
int tti_nodes_fd(const tti_job *job); /* readable when the job was decided elsewhere; -1 */
void tti_nodes_heard(tti_job *job);
/* Tells the other nodes that this rank failed here. */
void tti_nodes_failed(tti_job *job, const tti_rank *r);
tt_status tti_nodes_finish(tti_job *job);
void tti_nodes_free(tti_job *job);

/* ---- words ------------------------------------------------------------------------------ */

/* "exited with code 3", "was killed by signal 9 (SIGKILL)". */
void tti_status_words(int status, char *text, size_t size);
int tti_status_code(int status);
const char *tti_signal_name(int sig);
void tti_job_say(tti_job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tti_job_report(tti_job *job, bool will_restart);
tt_status tti_job_write_summary(const tti_job *job, const tt_launch_result *r);

/* ---- maps of the command line ------------------------------------------------------------ */

/* "3" or "0:1,1:3" for rank `local`. */
tt_status tti_std_map(const char *text, int local, int *flags_p);
/* Whether "0,2" has `local`; NULL has all. */
tt_status tti_launch_listed(const char *text, int local, bool *listed_p);
tt_status tti_prefix_make(const char *template, int rank, int local_rank, char *text, size_t size);

#endif
