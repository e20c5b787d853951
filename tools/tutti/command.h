/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `tutti`: one const record and one file each, listed in main.c. All take --help,
 * --tsv and --json. Exit codes: 0 done, 1 failed (standard error says why), 2 wrong arguments. */
#ifndef TTI_TOOLS_COMMAND_H
#define TTI_TOOLS_COMMAND_H

#include <stdbool.h>

enum { TTI_EXIT_OK = 0, TTI_EXIT_FAILED = 1, TTI_EXIT_USAGE = 2 };

typedef enum tti_format {
    TTI_FORMAT_TEXT,
    TTI_FORMAT_TSV,
    TTI_FORMAT_JSON,
} tti_format;

typedef struct tti_args {
    tti_format format;
    bool metadata;    /* --metadata, of `show` */
    bool kernels;     /* --kernels, of `doctor` */
    const char *file; /* of commands that take one */
} tti_args;

typedef struct tti_command {
    const char *name;
    const char *arguments; /* as in "usage: tutti name ARGUMENTS" */
    const char *summary;   /* one line */
    const char *help;      /* what follows the usage */
    bool takes_file;
    bool takes_metadata;
    bool takes_kernels;
    int (*run)(const tti_args *args);
    /* Instead of the above, for commands that read their words themselves. */
    int (*run_words)(int argc, char **argv);
    int (*print_help)(void);
} tti_command;

extern const tti_command tti_command_bench, tti_command_doctor, tti_command_env, tti_command_info;
extern const tti_command tti_command_report, tti_command_run, tti_command_show, tti_command_trace;
int tti_run_help(void);

#endif
