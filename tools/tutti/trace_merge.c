/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace merge: one trace of several ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "files.h"
#include "trace_file.h"

static bool put_json(FILE *f, const cJSON *j, bool *first)
{
    char *text = cJSON_PrintUnformatted(j);

    if (text == NULL)
        return false;
    fprintf(f, "%s\n%s", *first ? "" : ",", text);
    *first = false;
    cJSON_free(text);
    return true;
}

/* Times on the common clock; numbers of asynchronous events are made different per rank. */
static bool put_event(FILE *f, const tti_trace *t, cJSON *e, bool *first)
{
    cJSON *ts = cJSON_GetObjectItemCaseSensitive(e, "ts");
    cJSON *id = cJSON_GetObjectItemCaseSensitive(e, "id");
    char name[64];

    if (cJSON_IsNumber(ts))
        cJSON_SetNumberHelper(ts, ts->valuedouble + t->shift_us);
    if (cJSON_IsNumber(id)) {
        snprintf(name, sizeof name, "%d.%.0f", t->rank, id->valuedouble);
        cJSON_ReplaceItemInObjectCaseSensitive(e, "id", cJSON_CreateString(name));
    }
    return put_json(f, e, first);
}

/* An arrow from the first rank in each collective to every other one. */
static bool put_arrows(FILE *f, const tti_trace *traces, int n, bool *first)
{
    size_t n_ops, from = 0;
    tti_trace_op *ops = tti_traces_ops(traces, n, &n_ops);

    for (size_t i = 1; ops != NULL && i < n_ops; i++) {
        const tti_trace_op *a = &ops[from], *b = &ops[i];

        if (!tti_trace_same_op(a, b)) {
            from = i;
            continue;
        }
        fprintf(f,
                "%s\n{\"ph\":\"s\",\"cat\":\"collective\",\"name\":\"same collective\",\"id\":%zu,"
                "\"pid\":%.0f,\"tid\":%.0f,\"ts\":%.3f},\n"
                "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"collective\",\"name\":\"same collective\","
                "\"id\":%zu,\"pid\":%.0f,\"tid\":%.0f,\"ts\":%.3f}",
                *first ? "" : ",", i, a->pid, a->tid, a->start_us, i, b->pid, b->tid, b->start_us);
        *first = false;
    }
    free(ops);
    return ops != NULL;
}

static bool put_all(FILE *f, const tti_trace *traces, int n, bool arrows)
{
    cJSON *info = cJSON_GetObjectItemCaseSensitive(traces[0].json, "distributedInfo");
    char *text = cJSON_PrintUnformatted(info);
    bool first = true, ok = text != NULL;
    cJSON *e;

    fprintf(f, "{\"schemaVersion\":1,\"distributedInfo\":%s,\"displayTimeUnit\":\"ms\",",
            ok ? text : "{}");
    cJSON_free(text);
    fprintf(f, "\"merged_ranks\":[");
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%d", i != 0 ? "," : "", traces[i].rank);
    fprintf(f, "],\n\"traceEvents\":[");
    if (arrows) /* before the times of the events are changed */
        ok &= put_arrows(f, traces, n, &first);
    for (int i = 0; i < n; i++)
        cJSON_ArrayForEach(e, traces[i].events) ok &= put_event(f, &traces[i], e, &first);
    fprintf(f, "]}\n");
    return ok;
}

static int write_out(const char *out, const tti_trace *traces, int n, bool arrows)
{
    tti_replacement r;

    tti_replacement_open(&r, out);
    if (tti_replacement_finish(&r, r.f != NULL && put_all(r.f, traces, n, arrows)))
        return TTI_EXIT_OK;
    fprintf(stderr, "tutti trace merge: %s: %s\n", out, strerror(errno));
    return TTI_EXIT_FAILED;
}

int tti_trace_merge(const char *out, char **paths, int n, bool arrows)
{
    tti_trace *traces = calloc((size_t)n, sizeof *traces);
    int status = TTI_EXIT_USAGE;

    if (traces == NULL)
        return TTI_EXIT_FAILED;
    if (tti_traces_load(paths, n, traces))
        status = write_out(out, traces, n, arrows);
    tti_traces_free(traces, n);
    return status;
}
