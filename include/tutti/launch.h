/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher: starts the ranks of a job, watches over them and says why they failed. `tutti run` is
 * this function with a command line; docs/launch.md is the guide.
 *
 *     const char *const argv[] = { "./train", "--epochs", "3", NULL };
 *     tt_launch_result r;
 *     if (tt_launch(argv, &(tt_launch_options){ .n_ranks = 4 }, &r) == TT_OK)
 *         printf("the job ended with %d\n", r.exit_code);
 */
#ifndef TUTTI_LAUNCH_H
#define TUTTI_LAUNCH_H

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TT_LAUNCH_MAX_RANKS 65536

typedef struct tt_launch_options {
    int n_ranks;   /* on this node; 0: 1 */
    int n_nodes;   /* 0: 1. All have to start the same number of ranks */
    int node_rank; /* the place of this node among them */

    /* Several nodes: host:port of the first, where its launcher listens. They need one secret: a file
     * that only the user can read, or TUTTI_JOB_SECRET. NULL: the latter, or, on one node, 256 random bits. */
    const char *endpoint;
    const char *secret_file;
    const char *run_id;  /* NULL: random */
    int join_timeout_ms; /* 0: 600,000. How long nodes wait for each other */
    const char
        *master_addr; /* MASTER_ADDR of the ranks; NULL: the host of the endpoint, or 127.0.0.1 */
    int master_port;  /* MASTER_PORT; 0: a free one */

    /* Output. Maps are a number for all ranks of the node or "local rank:number,..."; 0 is neither,
     * 1 standard output, 2 standard error, 3 both. */
    const char *log_dir; /* log files go to rank_N/{stdout,stderr}.log in it; NULL: none */
    const char
        *redirects; /* what goes to the log only. Without `tee` and this, but with log_dir: tee 3 */
    const char *tee;          /* what goes to the log and on */
    const char *ranks_shown;  /* local ranks whose output is passed on, "0,2"; NULL: all */
    const char *line_prefix;  /* "${rank}", "${local_rank}", "${role_name}"; NULL: "[${rank}] " */
    bool no_prefix;           /* pass bytes on as they come. So it is in a job of one rank, too */
    bool quiet;               /* say nothing but errors */
    int out_fd, err_fd;       /* 0: 1 and 2 */
    const char *summary_file; /* where to write what happened, as JSON; NULL: nowhere */

    bool no_bind;     /* leave ranks on all cores */
    int max_restarts; /* of all ranks, after a failure */
    int grace_ms;     /* 0: 5,000; from SIGTERM to SIGKILL. -1: SIGKILL at once */
    /* The process does nothing else: signals that would end it are passed to the ranks, and every
     * child that is left in the end is ended. After one that ended the job they stay blocked: the process is about
     * to exit with its code. */
    bool own_process;
} tt_launch_options;

typedef struct tt_launch_result {
    int exit_code; /* of the job: 0, that of the first failed rank (128 + signal if it was killed),
                       * 128 + the signal that the launcher got, 126 or 127 if the program cannot run */
    int failed_rank; /* the first; -1 */
    int failed_pid;  /* 0 if it is on another node */
    int signal;      /* that the launcher got; 0 */
    int n_restarts;
    char cause[256]; /* such as "rank 3 (pid 471 on anna) was killed by signal 9 (SIGKILL)" */
} tt_launch_result;

/* Runs argv (ended by NULL; argv[0] is looked up in PATH) as many times as there are ranks and returns
 * when all have ended. TT_OK means that the job took place, whatever came of it. */
TT_API tt_status tt_launch(const char *const *argv, const tt_launch_options *opt,
                           tt_launch_result *result_p);

/* Reads the arguments of `tutti run`, without that name: options, as torchrun has them, up to the
 * program. Gives how many words belong to options. The texts stay in argv. */
TT_API tt_status tt_launch_parse(int argc, const char *const *argv, tt_launch_options *opt_p,
                                 int *n_used_p);
/* The options as --help lists them. */
TT_API const char *tt_launch_help(void);

#ifdef __cplusplus
}
#endif

#endif
