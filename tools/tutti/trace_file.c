/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of one boot of one machine share the monotonic clock, which puts them on one axis exactly. Others
 * are placed by the wall's clock and the offset the trace gives. */
#include "trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

/* ---- loading ------------------------------------------------------------------------------- */

static char *read_all(const char *path)
{
    FILE *f = tti_open_input(path);
    char *text = NULL;
    size_t n = 0, cap = 0, got = 1;

    while (f != NULL && got > 0) {
        if (cap - n < 65537) {
            char *more = realloc(text, cap = 2 * cap + 65537);

            if (more == NULL) {
                errno = ENOMEM;
                break;
            }
            text = more;
        }
        got = fread(text + n, 1, cap - n - 1, f);
        n += got;
        text[n] = '\0';
    }
    if (f == NULL || got > 0 || ferror(f)) {
        fprintf(stderr, "tutti trace: %s: %s\n", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (f != NULL)
        fclose(f);
    return text;
}

static bool bad(const tti_trace *t, const char *why)
{
    fprintf(stderr, "tutti trace: %s: %s\n", t->path, why);
    return false;
}

static bool load(tti_trace *t)
{
    char *text = read_all(t->path);
    const cJSON *info, *rank;

    if (text == NULL)
        return false;
    t->json = cJSON_ParseWithOpts(text, NULL, true);
    free(text);
    if (t->json == NULL)
        return bad(t, "no whole JSON file");
    t->events = cJSON_GetObjectItemCaseSensitive(t->json, "traceEvents");
    info = cJSON_GetObjectItemCaseSensitive(t->json, "distributedInfo");
    rank = cJSON_GetObjectItemCaseSensitive(info, "rank");
    if (!cJSON_IsArray(t->events))
        return bad(t, "no trace: it lacks traceEvents");
    if (!cJSON_IsNumber(rank))
        return bad(t, "it does not say its rank (distributedInfo)");
    t->rank = rank->valueint;
    return true;
}

/* ---- one clock ----------------------------------------------------------------------------- */

static const char *word(const tti_trace *t, const char *key)
{
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(t->json, "tutti");
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(own, key));

    return s != NULL ? s : "";
}

static long long base_ns(const tti_trace *t, bool monotonic)
{
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(t->json, "tutti");
    const cJSON *offset = cJSON_GetObjectItemCaseSensitive(own, "clock_offset_ns");
    const cJSON *base = cJSON_GetObjectItemCaseSensitive(t->json, "baseTimeNanoseconds");
    const char *s = word(t, monotonic ? "base_monotonic_ns" : "base_wall_ns");
    long long ns = cJSON_IsNumber(base) ? (long long)base->valuedouble : 0;

    if (s[0] != '\0')
        ns = strtoll(s, NULL, 10);
    if (!monotonic && cJSON_IsNumber(offset))
        ns += (long long)offset->valuedouble;
    return ns;
}

static void align(tti_trace *traces, int n)
{
    bool monotonic = word(&traces[0], "boot_id")[0] != '\0';
    long long first;

    for (int i = 0; i < n; i++)
        monotonic &= strcmp(word(&traces[i], "boot_id"), word(&traces[0], "boot_id")) == 0;
    first = base_ns(&traces[0], monotonic);
    for (int i = 1; i < n; i++)
        if (base_ns(&traces[i], monotonic) < first)
            first = base_ns(&traces[i], monotonic);
    for (int i = 0; i < n; i++)
        traces[i].shift_us = (double)(base_ns(&traces[i], monotonic) - first) * 1e-3;
}

bool tti_traces_load(char **paths, int n, tti_trace *traces)
{
    for (int i = 0; i < n; i++) {
        traces[i].path = paths[i];
        if (!load(&traces[i]))
            return false;
        for (int k = 0; k < i; k++)
            if (traces[k].rank == traces[i].rank) {
                fprintf(stderr, "tutti trace: %s and %s are both of rank %d\n", traces[k].path,
                        traces[i].path, traces[i].rank);
                return false;
            }
    }
    align(traces, n);
    return true;
}

void tti_traces_free(tti_trace *traces, int n)
{
    for (int i = 0; i < n; i++)
        cJSON_Delete(traces[i].json);
    free(traces);
}

/* ---- operations of groups -------------------------------------------------------------------- */

static double number(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static double dtype_bytes(const char *name)
{
    static const struct {
        const char *name;
        int bytes;
    } sizes[] = {
        { "Float", 4 }, { "Double", 8 }, { "Half", 2 },         { "BFloat16", 2 },
        { "Char", 1 },  { "Byte", 1 },   { "Short", 2 },        { "Int", 4 },
        { "Long", 8 },  { "Bool", 1 },   { "ComplexFloat", 8 }, { "ComplexDouble", 16 },
    };

    for (size_t i = 0; name != NULL && i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(sizes[i].name, name) == 0)
            return sizes[i].bytes;
    return 0;
}

static bool read_op(const tti_trace *t, const cJSON *e, tti_trace_op *op)
{
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(e, "args");
    const char *ph = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "ph"));
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(args, "Rank");

    *op = (tti_trace_op){
        .group = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(args, "Process Group Name")),
        .name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "name")),
        .seq = number(args, "Seq"),
        .start_us = number(e, "ts") + t->shift_us,
        .dur_us = number(e, "dur"),
        .bytes = number(args, "In msg nelems") *
                 dtype_bytes(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(args, "dtype"))),
        .rank = cJSON_IsNumber(rank) ? rank->valueint : t->rank,
        .pid = number(e, "pid"),
        .tid = number(e, "tid"),
    };
    if (op->group == NULL || op->name == NULL || ph == NULL)
        return false;
    if (strcmp(ph, "b") == 0 && e->next != NULL) /* its end follows */
        op->dur_us = number(e->next, "ts") - number(e, "ts");
    return strcmp(ph, "X") == 0 || strcmp(ph, "b") == 0;
}

static int by_op(const void *a, const void *b)
{
    const tti_trace_op *x = a, *y = b;
    int c = strcmp(x->group, y->group);

    if (c == 0 && x->seq != y->seq)
        c = x->seq < y->seq ? -1 : 1;
    if (c == 0)
        c = strcmp(x->name, y->name);
    if (c == 0 && x->start_us != y->start_us)
        c = x->start_us < y->start_us ? -1 : 1;
    return c;
}

bool tti_trace_same_op(const tti_trace_op *a, const tti_trace_op *b)
{
    return a->seq == b->seq && strcmp(a->group, b->group) == 0 && strcmp(a->name, b->name) == 0;
}

tti_trace_op *tti_traces_ops(const tti_trace *traces, int n, size_t *n_ops_p)
{
    size_t most = 1, k = 0;
    tti_trace_op *ops;
    const cJSON *e;

    for (int i = 0; i < n; i++)
        most += (size_t)cJSON_GetArraySize(traces[i].events);
    ops = malloc(most * sizeof *ops);
    for (int i = 0; ops != NULL && i < n; i++)
        cJSON_ArrayForEach(e, traces[i].events) k += read_op(&traces[i], e, &ops[k]);
    if (ops != NULL)
        qsort(ops, k, sizeof *ops, by_op);
    *n_ops_p = k;
    return ops;
}
