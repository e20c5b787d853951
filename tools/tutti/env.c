/* SPDX-License-Identifier: Apache-2.0 */
/* tutti env: every environment variable of the library. */
#include <string.h>

#include "command.h"
#include "table.h"
#include "tutti/base.h"

static int run(const tti_args *args)
{
    static const char *const columns[] = { "name", "value", "help" };
    tti_table t = { .columns = columns, .n_columns = 3 };
    const char *name, *help, *value;

    for (int i = 0; tt_env_row(i, &name, &help, &value); i++) {
        tti_table_add(&t, name);
        tti_table_add(&t, value != NULL && strcmp(name, "TUTTI_JOB_SECRET") == 0 ? "(set)" : value);
        tti_table_add(&t, help);
    }
    return tti_table_finish(&t, args->format);
}

const tti_command tti_command_env = {
    .name = "env",
    .arguments = "[--tsv | --json]",
    .summary = "list the environment variables that the library reads",
    .help =
        "Lists every TUTTI_ variable: its name, its value here (\"-\" when it is not set, in JSON\n"
        "null) and what it is for.\n",
    .run = run,
};
