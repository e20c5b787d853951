/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher says: single lines while the job runs, and the summary of a failure. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "launch/job.h"
#include "prof/hang.h"

#define MAX_ROWS 16
#define LINES 10

const char *tti_signal_name(int sig)
{
    static const struct {
        int sig;
        const char *name;
    } names[] = { { SIGHUP, "SIGHUP" },   { SIGINT, "SIGINT" },   { SIGQUIT, "SIGQUIT" },
                  { SIGILL, "SIGILL" },   { SIGTRAP, "SIGTRAP" }, { SIGABRT, "SIGABRT" },
                  { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },   { SIGKILL, "SIGKILL" },
                  { SIGUSR1, "SIGUSR1" }, { SIGSEGV, "SIGSEGV" }, { SIGUSR2, "SIGUSR2" },
                  { SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" }, { SIGTERM, "SIGTERM" },
                  { SIGXCPU, "SIGXCPU" }, { SIGXFSZ, "SIGXFSZ" }, { SIGSYS, "SIGSYS" } };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].sig == sig)
            return names[i].name;
    return "another signal";
}

void tti_status_words(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)%s", WTERMSIG(status),
                 tti_signal_name(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, size, "exited with code %d", WEXITSTATUS(status));
}

int tti_status_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void put(tti_job *job, const char *text)
{
    (void)tti_sink_put(&job->err, text, strlen(text));
    tti_sink_flush(&job->err);
}

void tti_job_say(tti_job *job, const char *fmt, ...)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "tutti run: ");
    va_list ap;

    va_start(ap, fmt);
    n += vsnprintf(text + n, sizeof text - (size_t)n - 2, fmt, ap);
    va_end(ap);
    if (n > (int)sizeof text - 3)
        n = (int)sizeof text - 3;
    text[n] = '\n';
    text[n + 1] = '\0';
    if (!job->opt.quiet)
        put(job, text);
}

/* ---- the last error of a rank ------------------------------------------------------------------ */

/* What the program wrote to TORCHELASTIC_ERROR_FILE: {"message": text or {"message": text}}. */
static bool error_file(const tti_job *job, const tti_rank *r, char *text, size_t size)
{
    char path[4200], data[16384];
    const cJSON *message;
    cJSON *root;
    size_t n;
    FILE *f;

    text[0] = '\0';
    snprintf(path, sizeof path, "%s/error_%d.json", job->dir, r->rank);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    n = fread(data, 1, sizeof data - 1, f);
    data[n] = '\0';
    fclose(f);
    root = cJSON_Parse(data);
    message = cJSON_GetObjectItemCaseSensitive(root, "message");
    if (cJSON_IsObject(message))
        message = cJSON_GetObjectItemCaseSensitive(message, "message");
    if (cJSON_IsString(message))
        snprintf(text, size, "%s", message->valuestring);
    cJSON_Delete(root);
    return text[0] != '\0';
}

static bool mentions_error(const char *line, size_t n)
{
    static const char *const words[] = { "rror",  "ailed", "ssert", "xception",
                                         "abort", "fatal", "annot", "terminate called" };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(line, n, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* The last line of standard error that speaks of an error. */
static bool error_line(const tti_rank *r, char *text, size_t size)
{
    char tail[TTI_TAIL + 1];
    const char *line = tail;

    text[0] = '\0';
    tti_stream_tail(&r->err, 1 << 20, tail, sizeof tail);
    while (*line != '\0') {
        size_t n = strcspn(line, "\n");

        if (mentions_error(line, n))
            snprintf(text, size, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
    return text[0] != '\0';
}

/* ---- flight records ---------------------------------------------------------------------------- */

/* Whether ranks of this round wrote records: a log directory may have older ones. */
static bool has_records(const tti_job *job)
{
    DIR *d = opendir(job->flight_dir);
    struct dirent *e;
    struct stat st;
    bool found = false;

    while (d != NULL && !found && (e = readdir(d)) != NULL) {
        const char *dot = strrchr(e->d_name, '.');

        if (dot == NULL || strcmp(dot, ".json") != 0 || strncmp(e->d_name, "error_", 6) == 0)
            continue;
        found = fstatat(dirfd(d), e->d_name, &st, 0) == 0 &&
                (st.st_mtim.tv_sec > job->started.tv_sec ||
                 (st.st_mtim.tv_sec == job->started.tv_sec &&
                  st.st_mtim.tv_nsec >= job->started.tv_nsec));
    }
    if (d != NULL)
        closedir(d);
    return found;
}

static void add_records(tti_text *t, const tti_job *job)
{
    char text[2048] = "";

    if (!has_records(job))
        return;
    if (tti_hang_explain(job->flight_dir, text, sizeof text) == TT_OK && text[0] != '\0')
        tti_text_addf(t, "  what the ranks were doing: %s\n", text);
}

/* ---- the summary ------------------------------------------------------------------------------ */

static void add_lines(tti_text *t, const char *lines)
{
    while (*lines != '\0') {
        size_t n = strcspn(lines, "\n");

        tti_text_addf(t, "    | %.*s\n", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static void add_row(tti_text *t, const tti_job *job, const tti_rank *r)
{
    char words[128];

    tti_status_words(r->status, words, sizeof words);
    tti_text_addf(t, "  %-6d %-16.64s %-8d %s%s\n", r->rank, job->host, (int)r->shown_pid, words,
                  r == &job->ranks[job->first] ? "  <- first" : "");
}

static void add_detail(tti_text *t, const tti_job *job, const tti_rank *r)
{
    char text[TTI_TAIL + 1];

    if (error_file(job, r, text, sizeof text) || error_line(r, text, sizeof text))
        tti_text_addf(t, "  last error of rank %d: %s\n", r->rank, text);
    tti_stream_tail(&r->err, LINES, text, sizeof text);
    if (text[0] != '\0')
        tti_text_addf(t, "  last lines of its standard error:\n");
    if (text[0] == '\0') {
        tti_stream_tail(&r->out, LINES, text, sizeof text);
        if (text[0] != '\0')
            tti_text_addf(t, "  last lines of its standard output:\n");
    }
    add_lines(t, text);
}

void tti_job_report(tti_job *job, bool will_restart)
{
    tti_text t = { 0 };
    int n_failed = 0, n_ended = 0;

    if (job->first >= 0) {
        const tti_rank *first = &job->ranks[job->first];

        tti_text_addf(&t, "tutti run: the job failed\n  %-6s %-16s %-8s %s\n", "rank", "host",
                      "pid", "what happened");
        add_row(&t, job, first);
        for (int i = 0; i < job->n; i++) {
            tti_rank *r = &job->ranks[i];

            n_ended += r->by_us;
            if (r == first || r->by_us || r->status == 0 || !r->ended)
                continue;
            if (++n_failed < MAX_ROWS)
                add_row(&t, job, r);
        }
        if (n_failed >= MAX_ROWS)
            tti_text_addf(&t, "  and %d more failed after it\n", n_failed - MAX_ROWS + 1);
        if (n_ended > 0)
            tti_text_addf(&t, "  %d other%s ended because of it\n", n_ended,
                          n_ended == 1 ? " was" : "s were");
        add_detail(&t, job, first);
    } else if (job->remote_failed) {
        tti_text_addf(&t, "tutti run: the job failed elsewhere: %s\n", job->remote);
    }
    add_records(&t, job);
    if (will_restart)
        tti_text_addf(&t, "tutti run: starting all ranks again (%d of %d)\n", job->restart + 1,
                      job->opt.max_restarts);
    put(job, tti_text_str(&t));
    tti_text_fini(&t);
}

tt_status tti_job_write_summary(const tti_job *job, const tt_launch_result *r)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *ranks = cJSON_AddArrayToObject(root, "ranks");
    char *text;
    FILE *f;

    cJSON_AddStringToObject(root, "run_id", job->run_id);
    cJSON_AddNumberToObject(root, "exit_code", r->exit_code);
    cJSON_AddNumberToObject(root, "failed_rank", r->failed_rank);
    cJSON_AddStringToObject(root, "cause", r->cause);
    cJSON_AddNumberToObject(root, "signal", r->signal);
    cJSON_AddNumberToObject(root, "restarts", r->n_restarts);
    for (int i = 0; i < job->n; i++) {
        const tti_rank *k = &job->ranks[i];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddNumberToObject(item, "rank", k->rank);
        cJSON_AddStringToObject(item, "host", job->host);
        cJSON_AddNumberToObject(item, "pid", k->shown_pid);
        cJSON_AddNumberToObject(item, "exit_code", tti_status_code(k->status));
        cJSON_AddBoolToObject(item, "ended_by_launcher", k->by_us);
        cJSON_AddItemToArray(ranks, item);
    }
    text = cJSON_Print(root);
    cJSON_Delete(root);
    if (text == NULL)
        return TT_FAIL(TT_ERR_NOMEM, "launch: summary");
    f = fopen(job->opt.summary_file, "we");
    if (f != NULL) {
        fprintf(f, "%s\n", text);
        if (fclose(f) == 0)
            f = NULL;
        free(text);
        return f == NULL ? TT_OK
                         : TT_FAIL(TT_ERR_IO, "%s: %s", job->opt.summary_file, strerror(errno));
    }
    free(text);
    return TT_FAIL(TT_ERR_IO, "%s: %s", job->opt.summary_file, strerror(errno));
}
