/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline of a report: a few steps of all ranks on one clock, what each computed and where its buckets
 * of gradients were meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { WIDTH = 900, LEFT = 64, RIGHT = 16, INNER = WIDTH - LEFT - RIGHT };
enum { SHOWN = 3, LANES = 6, SCOPE_HEIGHT = 16, LANE_HEIGHT = 9 };

typedef struct span {
    const char *name;
    double start_us, dur_us;
} span;

typedef struct view {
    FILE *f;
    double from_us, to_us;
    int n_lanes; /* the most buckets of one backward */
} view;

static double number(const cJSON *e, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(e, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Whether event e is a scope of the program's; those of collectives have arguments. */
static bool read_scope(const tti_trace *t, const cJSON *e, span *s)
{
    const char *ph = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "ph"));
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(e, "args");

    s->name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "name"));
    s->start_us = number(e, "ts") + t->shift_us;
    s->dur_us = number(e, "dur");
    return ph != NULL && s->name != NULL && strcmp(ph, "X") == 0 &&
           !cJSON_HasObjectItem(args, "Process Group Name");
}

static const char *class_of(const char *name)
{
    return strcmp(name, "forward") == 0 ? "fwd" : strcmp(name, "backward") == 0 ? "bwd" : "oth";
}

/* The scopes of one rank with this name (NULL: all); to be freed. */
static span *scopes_of(const tti_trace *t, const char *name, int *n_p)
{
    span *list = malloc(((size_t)cJSON_GetArraySize(t->events) + 1) * sizeof *list);
    const cJSON *e;

    *n_p = 0;
    cJSON_ArrayForEach(e,
                       t->events) if (list != NULL && read_scope(t, e, &list[*n_p]) &&
                                      (name == NULL || strcmp(list[*n_p].name, name) == 0))++ *n_p;
    return list;
}

/* The quickest SHOWN steps in a row of rank 0, from one forward to the next. */
static bool choose(const tti_report *r, view *v)
{
    int n, m;
    span *forwards = scopes_of(&r->traces[0], "forward", &n);
    span *all = scopes_of(&r->traces[0], NULL, &m);
    double end = 0, best = 0;

    for (int i = 0; all != NULL && i < m; i++)
        end = all[i].start_us + all[i].dur_us > end ? all[i].start_us + all[i].dur_us : end;
    for (int i = 0; forwards != NULL && i < n && (i == 0 || i + SHOWN <= n); i++) {
        double to = i + SHOWN < n ? forwards[i + SHOWN].start_us : end;

        if (best > 0 && to - forwards[i].start_us >= best)
            continue;
        best = to - forwards[i].start_us;
        v->from_us = forwards[i].start_us;
        v->to_us = to;
    }
    free(forwards);
    free(all);
    return best > 0;
}

static void put_span(const view *v, const span *s, double y, double height, const char *class)
{
    double scale = INNER / (v->to_us - v->from_us);
    double from = s->start_us > v->from_us ? s->start_us : v->from_us;
    double to = s->start_us + s->dur_us < v->to_us ? s->start_us + s->dur_us : v->to_us;
    double w = (to - from) * scale;

    if (to <= from)
        return;
    fprintf(v->f,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\">",
            class, LEFT + (from - v->from_us) * scale, y,
            w > 4     ? w - 1
            : w < 1.5 ? 1.5
                      : w,
            height);
}

/* ---- one rank ------------------------------------------------------------------------------- */

static void put_scopes(const view *v, const tti_trace *t, double y)
{
    int n;
    span *list = scopes_of(t, NULL, &n);

    for (int i = 0; list != NULL && i < n; i++) {
        if (list[i].start_us >= v->to_us || list[i].start_us + list[i].dur_us <= v->from_us)
            continue;
        put_span(v, &list[i], y, SCOPE_HEIGHT, class_of(list[i].name));
        fprintf(v->f, "<title>rank %d, ", t->rank);
        tti_put_escaped(v->f, list[i].name);
        fprintf(v->f, ": %.3f ms</title></rect>\n", list[i].dur_us * 1e-3);
    }
    free(list);
}

/* Which bucket of its backward an operation is; -1: it is not in any. */
static int bucket_of(const tti_trace_op *ops, size_t n, size_t i, const span *backwards, int n_back)
{
    for (int b = 0; b < n_back; b++) {
        double from = backwards[b].start_us, to = from + backwards[b].dur_us;
        int k = 0;

        if (ops[i].start_us < from || ops[i].start_us > to)
            continue;
        for (size_t j = 0; j < n; j++)
            k += ops[j].rank == ops[i].rank && ops[j].seq < ops[i].seq && ops[j].start_us >= from &&
                 ops[j].start_us <= to;
        return k;
    }
    return -1;
}

static void put_ops(const view *v, const tti_trace *t, const tti_trace_op *ops, size_t n, double y)
{
    int n_back;
    span *backwards = scopes_of(t, "backward", &n_back);

    for (size_t i = 0; backwards != NULL && i < n; i++) {
        span s = { ops[i].name, ops[i].start_us, ops[i].dur_us };
        int bucket = ops[i].rank == t->rank ? bucket_of(ops, n, i, backwards, n_back) : -1;

        if (ops[i].rank != t->rank || s.start_us >= v->to_us || s.start_us + s.dur_us <= v->from_us)
            continue;
        put_span(v, &s, y + LANE_HEIGHT * (bucket > 0 ? bucket % LANES : 0), LANE_HEIGHT - 3,
                 bucket >= 0 ? "hid" : "exp");
        fprintf(v->f, "<title>rank %d, ", t->rank);
        if (bucket >= 0)
            fprintf(v->f, "bucket %d, ", bucket);
        tti_put_escaped(v->f, s.name);
        fprintf(v->f, ", %.1f kB: %.3f ms</title></rect>\n", ops[i].bytes * 1e-3, s.dur_us * 1e-3);
    }
    free(backwards);
}

/* ---- all ranks ---------------------------------------------------------------------------------- */

static void put_axis(const view *v, double height)
{
    double ms = (v->to_us - v->from_us) * 1e-3, step = 1;

    while (ms / step > 12)
        step *= step == 2 ? 2.5 : 2;
    while (ms / step < 4)
        step /= 2;
    for (double x = 0; x <= ms; x += step) {
        double at = LEFT + INNER * x / ms;

        fprintf(v->f,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%.0f\"/>"
                "<text class=\"tick\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g ms</text>\n",
                at, at, height, at, height + 20, x);
    }
}

static int count_lanes(const tti_report *r)
{
    int n = (int)tti_report_number(r, "buckets");

    return n < 1 ? 1 : n > LANES ? LANES : n;
}

void tti_put_timeline(FILE *f, const tti_report *r)
{
    view v = { .f = f, .n_lanes = count_lanes(r) };
    double row = SCOPE_HEIGHT + 4 + v.n_lanes * LANE_HEIGHT + 12, height = row * r->n_ranks;
    size_t n_ops = 0;
    tti_trace_op *ops = tti_traces_ops(r->traces, r->n_ranks, &n_ops);

    if (ops == NULL || !choose(r, &v)) {
        fprintf(f, "<p>The traces have no steps.</p>\n");
        free(ops);
        return;
    }
    fprintf(
        f,
        "<p class=\"legend\"><span><i class=\"fwd\"></i>forward</span><span><i class=\"bwd\"></i>"
        "backward, waiting included</span><span><i class=\"oth\"></i>optimizer</span><span><i "
        "class=\"hid\"></i>"
        "bucket of gradients on its way</span><span><i class=\"exp\"></i>other collective"
        "</span></p>\n");
    fprintf(f, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"timeline of ranks\">\n",
            WIDTH, height + 28);
    put_axis(&v, height);
    for (int i = 0; i < r->n_ranks; i++) {
        double y = 6 + row * i;

        fprintf(f, "<text class=\"label\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">rank %d</text>\n",
                LEFT - 10, y + 13, r->traces[i].rank);
        put_scopes(&v, &r->traces[i], y);
        put_ops(&v, &r->traces[i], ops, n_ops, y + SCOPE_HEIGHT + 4);
    }
    fprintf(f, "</svg>\n");
    free(ops);
}
