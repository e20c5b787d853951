/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `tutti run`: one table of options, torchrun's names first. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/job.h"

typedef enum kind { COUNT, NUMBER, SECONDS, TEXT, FLAG, IGNORED, IGNORED_FLAG } kind;

typedef struct option {
    const char *name; /* underscores and hyphens are the same */
    kind kind;
    size_t offset;
    int min;
} option;

#define AT(member) offsetof(tt_launch_options, member)

static const option options[] = {
    { "-n", COUNT, AT(n_ranks), 1 },
    { "--nproc-per-node", COUNT, AT(n_ranks), 1 },
    { "--nnodes", NUMBER, AT(n_nodes), 1 },
    { "--node-rank", NUMBER, AT(node_rank), 0 },
    { "--rdzv", TEXT, AT(endpoint), 0 },
    { "--rdzv-endpoint", TEXT, AT(endpoint), 0 },
    { "--rdzv-id", TEXT, AT(run_id), 0 },
    { "--join-timeout", SECONDS, AT(join_timeout_ms), 0 },
    { "--secret-file", TEXT, AT(secret_file), 0 },
    { "--master-addr", TEXT, AT(master_addr), 0 },
    { "--master-port", NUMBER, AT(master_port), 0 },
    { "--max-restarts", NUMBER, AT(max_restarts), 0 },
    { "--grace", SECONDS, AT(grace_ms), 0 },
    { "--log-dir", TEXT, AT(log_dir), 0 },
    { "--tee", TEXT, AT(tee), 0 },
    { "-t", TEXT, AT(tee), 0 },
    { "--redirects", TEXT, AT(redirects), 0 },
    { "-r", TEXT, AT(redirects), 0 },
    { "--local-ranks-filter", TEXT, AT(ranks_shown), 0 },
    { "--log-line-prefix-template", TEXT, AT(line_prefix), 0 },
    { "--summary", TEXT, AT(summary_file), 0 },
    { "--no-prefix", FLAG, AT(no_prefix), 0 },
    { "--no-bind", FLAG, AT(no_bind), 0 },
    { "--quiet", FLAG, AT(quiet), 0 },
    { "-q", FLAG, AT(quiet), 0 },
    { "--standalone", IGNORED_FLAG, 0, 0 },
    { "--no-python", IGNORED_FLAG, 0, 0 },
    { "--monitor-interval", IGNORED, 0, 0 },
    { "--rdzv-backend", IGNORED, 0, 0 },
    { "--rdzv-conf", IGNORED, 0, 0 },
    { "--start-method", IGNORED, 0, 0 },
};

const char *tt_launch_help(void)
{
    return "  -n N, --nproc-per-node N   ranks on this node; `auto`: one per core\n"
           "  --nnodes N                 nodes of the job\n"
           "  --node-rank K              which of them this is, from 0\n"
           "  --rdzv HOST:PORT           where node 0 listens; also --rdzv-endpoint\n"
           "  --rdzv-id ID               a name for the job, the same on all nodes\n"
           "  --secret-file FILE         the secret of a job on several nodes; else "
           "TUTTI_JOB_SECRET\n"
           "  --join-timeout S           how long nodes wait for each other; 600\n"
           "  --master-addr HOST         MASTER_ADDR of the ranks, for programs that want another "
           "store\n"
           "  --master-port PORT         MASTER_PORT likewise; a free one is chosen\n"
           "  --max-restarts R           start all ranks again after a failure, at most R times\n"
           "  --grace S                  seconds from SIGTERM to SIGKILL; 5\n"
           "  --log-dir DIR              write DIR/rank_N/{stdout,stderr}.log, and records of "
           "failures\n"
           "  --tee M, -t M              what goes to the log and here; 0 none, 1 stdout, 2 "
           "stderr,\n"
           "                             3 both (with --log-dir the default), or 0:3,1:1 for "
           "ranks\n"
           "  --redirects M, -r M        what goes to the log only\n"
           "  --local-ranks-filter L     show the output of these ranks only: 0,2\n"
           "  --log-line-prefix-template T  instead of '[${rank}] '; also ${local_rank}\n"
           "  --no-prefix                pass bytes on as they come\n"
           "  --no-bind                  do not bind ranks to cores\n"
           "  --summary FILE             write what happened, as JSON\n"
           "  --quiet, -q                say nothing but errors\n"
           "  --standalone, --no-python, --monitor-interval S, --rdzv-backend B, --rdzv-conf C,\n"
           "  --start-method M           accepted, not needed\n";
}

/* Whether `word`, up to an equals sign, is this option. */
static bool is(const option *o, const char *word, const char **value_p)
{
    const char *a = o->name, *b = word;

    for (; *a != '\0'; a++, b++)
        if (*a != *b && !(*a == '-' && *b == '_' && b > word + 1))
            return false;
    *value_p = *b == '=' ? b + 1 : NULL;
    return *b == '\0' || *b == '=';
}

static tt_status read_number(const option *o, const char *word, const char *value, int *n_p)
{
    char *end;
    long n;

    if (o->kind == COUNT && (strcmp(value, "auto") == 0 || strcmp(value, "cpu") == 0)) {
        cpu_set_t set;

        *n_p = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        return TT_OK;
    }
    errno = 0;
    n = strtol(value, &end, 10);
    if (o->offset == AT(n_nodes) && *end == ':' && end != value) { /* min:max: we want them all */
        long most = strtol(end + 1, &end, 10);
        if (most != n)
            return TT_FAIL(TT_ERR_UNSUPPORTED, "%s: expected one number of nodes, got \"%s\"", word,
                           value);
    }
    if (end == value || *end != '\0' || errno != 0 || n < o->min || n > INT_MAX)
        return TT_FAIL(TT_ERR_INVALID, "%s: expected a whole number from %d, got \"%s\"", word,
                       o->min, value);
    *n_p = (int)n;
    return TT_OK;
}

static tt_status read_seconds(const char *word, const char *value, int *ms_p)
{
    char *end;
    double s = strtod(value, &end);

    if (end == value || *end != '\0' || !(s >= 0 && s <= 1e6))
        return TT_FAIL(TT_ERR_INVALID, "%s: expected seconds, got \"%s\"", word, value);
    *ms_p = s > 0 ? (int)ceil(s * 1e3) : -1;
    return TT_OK;
}

static tt_status apply(const option *o, const char *word, const char *value, void *opt)
{
    char *at = (char *)opt + o->offset;

    switch (o->kind) {
    case COUNT:
    case NUMBER:
        return read_number(o, word, value, (int *)at);
    case SECONDS:
        return read_seconds(word, value, (int *)at);
    case TEXT:
        *(const char **)at = value;
        return TT_OK;
    case FLAG:
        *(bool *)at = true;
        return TT_OK;
    default:
        return TT_OK;
    }
}

tt_status tt_launch_parse(int argc, const char *const *argv, tt_launch_options *opt_p,
                          int *n_used_p)
{
    tt_launch_options opt = { 0 };
    int i = 0;

    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0' && strcmp(argv[i], "--") != 0) {
        const char *word = argv[i++], *value = NULL;
        const option *o = NULL;

        for (size_t k = 0; k < sizeof options / sizeof options[0] && o == NULL; k++)
            if (is(&options[k], word, &value))
                o = &options[k];
        if (o == NULL && word[1] == 'n' && isdigit((unsigned char)word[2])) { /* -n4 */
            o = &options[0];
            value = word + 2;
        }
        if (o == NULL)
            return TT_FAIL(TT_ERR_INVALID, "no option \"%s\"", word);
        if (o->kind == FLAG || o->kind == IGNORED_FLAG) {
            if (value != NULL)
                return TT_FAIL(TT_ERR_INVALID, "%s: takes no value", o->name);
        } else if (value == NULL) {
            if (i == argc)
                return TT_FAIL(TT_ERR_INVALID, "%s: expected a value", word);
            value = argv[i++];
        }
        TT_TRY(apply(o, word, value, &opt));
    }
    i += i < argc && strcmp(argv[i], "--") == 0;
    *opt_p = opt;
    *n_used_p = i;
    return TT_OK;
}
