/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace: what dumps and traces of several ranks say together. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "trace_file.h"
#include "tutti/prof.h"

static const char about[] =
    "  hang DIR          read the flight recorder dumps in DIR and say who keeps the others "
    "waiting\n"
    "  merge OUT IN...   write the traces of several ranks as one, on one clock, for Perfetto\n"
    "  summary IN...     what collectives cost: waiting for the last rank, and the rest\n\n"
    "  --json      hang, summary: print JSON\n"
    "  --tsv       summary: print lines separated by tabs\n"
    "  --arrows    merge: connect the same collective of all ranks\n"
    "  --help      print this\n\n"
    "Dumps are written to TUTTI_FLIGHT_DIR on failure and at SIGUSR2; traces by tt_prof_export.\n"
    "Exit codes of hang: 0 all is well, 1 somebody is to blame, 2 the dumps cannot be read.\n";

static int print_help(void)
{
    printf("usage: tutti trace %s\n\n%s", tti_command_trace.arguments, about);
    return TTI_EXIT_OK;
}

static int usage(const char *what, const char *word)
{
    fprintf(stderr, "tutti trace: %s%s%s%s\nusage: tutti trace %s\n", what,
            word != NULL ? " \"" : "", word != NULL ? word : "", word != NULL ? "\"" : "",
            tti_command_trace.arguments);
    return TTI_EXIT_USAGE;
}

static int hang(const char *dir, bool json)
{
    int n = 0;
    char *text = tt_flight_explain(dir, json, &n);

    if (text == NULL) {
        fprintf(stderr, "tutti trace hang: ");
        tti_put_plain(stderr, tt_last_error());
        return TTI_EXIT_USAGE;
    }
    if (n == 0 && !json)
        puts("all is well: no rank waits for another one");
    else
        tti_put_plain(stdout, text);
    tt_text_free(text);
    return n > 0 ? TTI_EXIT_FAILED : TTI_EXIT_OK;
}

static int run_words(int argc, char **argv)
{
    tti_format format = TTI_FORMAT_TEXT;
    bool arrows = false;
    int n = 0;

    for (int i = 0; i < argc; i++) { /* words that are no options move to the front */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
        if (strcmp(argv[i], "--json") == 0)
            format = TTI_FORMAT_JSON;
        else if (strcmp(argv[i], "--tsv") == 0)
            format = TTI_FORMAT_TSV;
        else if (strcmp(argv[i], "--arrows") == 0)
            arrows = true;
        else if (argv[i][0] == '-' && argv[i][1] != '\0')
            return usage("no option", argv[i]);
        else
            argv[n++] = argv[i];
    }
    if (n == 0)
        return usage("expected hang, merge or summary", NULL);
    if (strcmp(argv[0], "hang") == 0)
        return n == 2 ? hang(argv[1], format == TTI_FORMAT_JSON)
                      : usage("expected one directory", NULL);
    if (strcmp(argv[0], "merge") == 0)
        return n >= 3 ? tti_trace_merge(argv[1], argv + 2, n - 2, arrows)
                      : usage("expected OUT and at least one trace", NULL);
    if (strcmp(argv[0], "summary") == 0)
        return n >= 2 ? tti_trace_summary(argv + 1, n - 1, (int)format)
                      : usage("expected at least one trace", NULL);
    return usage("expected hang, merge or summary, got", argv[0]);
}

const tti_command tti_command_trace = {
    .name = "trace",
    .arguments = "hang DIR | merge OUT IN... | summary IN... [OPTIONS]",
    .summary = "explain a hang, merge and add up traces of several ranks",
    .run_words = run_words,
    .print_help = print_help,
};
