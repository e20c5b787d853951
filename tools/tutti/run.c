/* SPDX-License-Identifier: Apache-2.0 */
/* tutti run: starts the ranks of a job and watches over them. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "tutti/launch.h"

static const char about[] = "Starts N ranks of PROGRAM on this machine (or on each of several), "
                            "tells them who they are, shows\n"
                            "what they print, and ends when they end. When one fails the others "
                            "are ended and a summary says\n"
                            "which was first and why. Options end at the name of the program.\n\n";

static const char examples[] =
    "\nExamples:\n"
    "  tutti run -n 4 ./train --epochs 3            four ranks here\n"
    "  tutti run -n 2 --log-dir logs ./train        with a log file per rank\n"
    "  tutti run -n 4 --max-restarts 3 ./train      start again after a failure\n"
    "  tutti run -n 8 --nnodes 2 --node-rank 0 --rdzv 10.0.0.1:29400 --secret-file ~/.job "
    "./train\n\n"
    "Ranks find RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the "
    "like, as\n"
    "torchrun sets them, and TUTTI_STORE, TUTTI_RUN_ID, TUTTI_JOB_SECRET, TUTTI_FLIGHT_DIR.\n\n"
    "Exit codes: that of the first rank that failed, 128 + signal if it was killed; 128 + signal "
    "if\n"
    "`tutti run` was told to stop; 2 wrong arguments; 126 and 127 if the program cannot be run or "
    "found;\n"
    "1 if the job could not be started for another reason.\n";

static int usage(const char *why)
{
    fprintf(stderr, "tutti run: %s\nusage: tutti run %s\n`tutti run --help` lists the options\n",
            why, tti_command_run.arguments);
    return TTI_EXIT_USAGE;
}

static bool asks_for_help(int argc, char **argv, int n_used)
{
    for (int i = 0; i < argc && i < n_used; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run_words(int argc, char **argv)
{
    tt_launch_options opt;
    tt_launch_result result = { .exit_code = TTI_EXIT_FAILED };
    tt_status st;
    int n = 0;

    st = tt_launch_parse(argc, (const char *const *)argv, &opt, &n);
    if (st != TT_OK)
        return asks_for_help(argc, argv, argc) ? tti_run_help() : usage(tt_last_error());
    if (n == argc)
        return usage("expected a program");
    opt.own_process = true;
    st = tt_launch((const char *const *)argv + n, &opt, &result);
    if (st != TT_OK) {
        fprintf(stderr, "tutti run: %s\n", tt_last_error());
        if (result.exit_code == 0)
            return st == TT_ERR_INVALID ? TTI_EXIT_USAGE : TTI_EXIT_FAILED;
    }
    return result.exit_code;
}

int tti_run_help(void)
{
    printf("usage: tutti run %s\n\n%s%s%s", tti_command_run.arguments, about, tt_launch_help(),
           examples);
    return TTI_EXIT_OK;
}

const tti_command tti_command_run = {
    .name = "run",
    .arguments = "[-n N] [OPTIONS] PROGRAM [ARGUMENTS]",
    .summary = "start the ranks of a job and watch over them",
    .help = about,
    .run_words = run_words,
    .print_help = tti_run_help,
};
