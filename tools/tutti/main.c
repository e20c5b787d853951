/* SPDX-License-Identifier: Apache-2.0 */
/* The command `tutti`: finds the subcommand, reads its options and runs it. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "tutti/base.h"

static const tti_command *const commands[] = {
    &tti_command_bench,  &tti_command_doctor, &tti_command_env,  &tti_command_info,
    &tti_command_report, &tti_command_run,    &tti_command_show, &tti_command_trace,
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const tti_command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    fprintf(stderr, "tutti: no command \"%s\"; `tutti help` lists them\n", name);
    return NULL;
}

static void print_help(FILE *f)
{
    fprintf(f, "usage: tutti COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(f, "  %-8s %s\n", "help", "this, or `tutti help COMMAND`");
    fprintf(f, "\n  --version  the version of the library\n");
    fprintf(f, "\nExit codes: 0 done, 1 failed, 2 wrong arguments.\n");
}

static void print_command_help(const tti_command *c)
{
    if (c->print_help != NULL) {
        c->print_help();
        return;
    }
    printf("usage: tutti %s %s\n\n%s\n", c->name, c->arguments, c->help);
    printf("  --tsv       print lines separated by tabs, a header first if there are columns\n"
           "  --json      print JSON\n"
           "  --help      print this\n");
}

static int usage(const tti_command *c, const char *what, const char *word)
{
    fprintf(stderr, "tutti %s: %s%s%s%s\nusage: tutti %s %s\n", c->name, what,
            word != NULL ? " \"" : "", word != NULL ? word : "", word != NULL ? "\"" : "", c->name,
            c->arguments);
    return TTI_EXIT_USAGE;
}

static int run(const tti_command *c, int argc, char **argv)
{
    tti_args args = { .format = TTI_FORMAT_TEXT };
    bool options = true;

    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];

        if (options && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            print_command_help(c);
            return TTI_EXIT_OK;
        }
        if (options && strcmp(word, "--") == 0)
            options = false;
        else if (options && strcmp(word, "--tsv") == 0)
            args.format = TTI_FORMAT_TSV;
        else if (options && strcmp(word, "--json") == 0)
            args.format = TTI_FORMAT_JSON;
        else if (options && c->takes_metadata && strcmp(word, "--metadata") == 0)
            args.metadata = true;
        else if (options && c->takes_kernels && strcmp(word, "--kernels") == 0)
            args.kernels = true;
        else if (options && word[0] == '-' && word[1] != '\0')
            return usage(c, "no option", word);
        else if (c->takes_file && args.file == NULL)
            args.file = word;
        else
            return usage(c, "one argument too many:", word);
    }
    if (c->takes_file && args.file == NULL)
        return usage(c, "expected a file", NULL);
    return c->run(&args);
}

static int main_status(int argc, char **argv)
{
    const tti_command *c;

    if (argc < 2) {
        print_help(stderr);
        return TTI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tutti %s\n", tt_version());
        return TTI_EXIT_OK;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        if (argc < 3) {
            print_help(stdout);
            return TTI_EXIT_OK;
        }
        c = find(argv[2]);
        if (c != NULL)
            print_command_help(c);
        return c != NULL ? TTI_EXIT_OK : TTI_EXIT_USAGE;
    }
    c = find(argv[1]);
    if (c == NULL)
        return TTI_EXIT_USAGE;
    return c->run_words != NULL ? c->run_words(argc - 2, argv + 2) : run(c, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    int status = main_status(argc, argv);

    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("tutti: cannot write the output");
        return TTI_EXIT_FAILED;
    }
    return status;
}
