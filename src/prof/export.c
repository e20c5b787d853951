/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles as Chrome traces, with what tools for PyTorch's traces look for: distributedInfo, and per
 * collective the arguments by their names there. A rank is a process of the trace.
 *
 * Complete events ("X") of a thread have to nest. An asynchronous one that does not is written as a pair of
 * asynchronous events ("b", "e"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "prof/json.h"
#include "prof/prof.h"

/* What the whole trace needs to know. */
typedef struct trace {
    const tt_prof *p;
    const tt_prof_event **order; /* by thread, then by start */
    bool *paired;                /* of order[i]: not written as "X" */
    size_t n;
    int rank, world_size;
    char backend[16];
    int64_t *ends; /* a stack while looking for overlaps */
} trace;

static int global_rank(const tt_prof_event *e)
{
    if (e->rank < 0)
        return -1;
    return e->rank < e->n_ranks ? e->ranks[e->rank] : e->rank;
}

static bool of_group(const tt_prof_event *e)
{
    return e->rank >= 0;
}

/* ---- looking over the events ------------------------------------------------------------ */

static int by_thread(const void *a, const void *b)
{
    const tt_prof_event *x = *(const tt_prof_event *const *)a,
                        *y = *(const tt_prof_event *const *)b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->cpu_ns > y->cpu_ns ? -1 : x->cpu_ns < y->cpu_ns;
}

/* An asynchronous event nests when it ends before the next one of its thread begins, and before the one
 * around it ends. Others nest anyway. */
static void find_overlaps(trace *t)
{
    size_t depth = 0;

    for (size_t i = 0; i < t->n; i++) {
        const tt_prof_event *e = t->order[i];
        int64_t end = e->start_ns + e->cpu_ns;
        bool last = i + 1 == t->n || t->order[i + 1]->thread != e->thread;

        if (i == 0 || t->order[i - 1]->thread != e->thread)
            depth = 0;
        while (depth > 0 && t->ends[depth - 1] <= e->start_ns)
            depth--;
        t->paired[i] = e->async && ((!last && t->order[i + 1]->start_ns < end) ||
                                    (depth > 0 && t->ends[depth - 1] < end));
        if (!t->paired[i])
            t->ends[depth++] = end;
    }
}

/* Rank, size and backend: as the events say, else as the process was told. */
static void find_world(trace *t)
{
    bool found = false;

    tti_prof_world(&t->rank, &t->world_size, t->backend);
    for (size_t i = 0; i < tt_prof_n_events(t->p); i++) {
        const tt_prof_event *e = tt_prof_event_at(t->p, i);
        const char *colon;

        if (!of_group(e))
            continue;
        colon = strchr(e->name, ':');
        if (!found)
            t->rank = global_rank(e);
        found = true;
        if (e->world_size > t->world_size)
            t->world_size = e->world_size;
        for (int k = 0; k < e->n_ranks; k++)
            if (e->ranks[k] >= t->world_size)
                t->world_size = e->ranks[k] + 1;
        if (t->backend[0] == '\0' && colon != NULL && colon - e->name < (long)sizeof t->backend)
            memcpy(t->backend, e->name, (size_t)(colon - e->name));
    }
}

static void trace_fini(trace *t)
{
    tti_mfree(t->order);
    tti_mfree(t->paired);
    tti_mfree(t->ends);
}

static tt_status trace_init(trace *t, const tt_prof *p)
{
    *t = (trace){ .p = p, .n = tt_prof_n_events(p) };
    t->order = tti_malloc((t->n + 1) * sizeof *t->order);
    t->paired = tti_calloc(t->n + 1, sizeof *t->paired);
    t->ends = tti_malloc((t->n + 1) * sizeof *t->ends);
    if (t->order == NULL || t->paired == NULL || t->ends == NULL) {
        trace_fini(t);
        return TT_ERR_NOMEM;
    }
    for (size_t i = 0; i < t->n; i++)
        t->order[i] = tt_prof_event_at(p, i);
    qsort(t->order, t->n, sizeof *t->order, by_thread);
    find_overlaps(t);
    find_world(t);
    return TT_OK;
}

/* ---- arguments of an event -------------------------------------------------------------- */

static const char *const torch_dtypes[TT_N_DTYPES] = {
    [TT_F32] = "Float", [TT_F64] = "Double", [TT_F16] = "Half",         [TT_BF16] = "BFloat16",
    [TT_I8] = "Char",   [TT_U8] = "Byte",    [TT_I16] = "Short",        [TT_I32] = "Int",
    [TT_I64] = "Long",  [TT_BOOL] = "Bool",  [TT_C64] = "ComplexFloat", [TT_C128] = "ComplexDouble",
};

/* The operation's name there. */
static const char *torch_name(const char *name)
{
    const char *colon = strchr(name, ':');
    const char *op = colon != NULL ? colon + 1 : name;

    return strcmp(op, "all_reduce") == 0 ? "allreduce" : op;
}

/* "[0, 1]": a text, as tools expect it. */
static void put_list(tti_json *j, const char *key, const int *ints, const int64_t *longs, int n)
{
    tti_text text = { 0 };

    tti_text_add(&text, "[");
    for (int i = 0; i < n; i++)
        tti_text_addf(&text, "%s%lld", i != 0 ? ", " : "",
                      ints != NULL ? (long long)ints[i] : (long long)longs[i]);
    tti_text_add(&text, "]");
    tti_writer_check(&j->file, text.status);
    tti_json_text(j, key, tti_text_str(&text));
    tti_text_fini(&text);
}

static void put_group_args(tti_json *j, const tt_prof_event *e)
{
    int stride = e->n_ranks > 1 ? e->ranks[1] - e->ranks[0] : 1;

    for (int i = 1; i < e->n_ranks; i++)
        if (e->ranks[i] - e->ranks[i - 1] != stride)
            stride = -1; /* none */
    tti_json_text(j, "Collective name", torch_name(e->name));
    tti_json_text(j, "dtype", (unsigned)e->dtype < TT_N_DTYPES ? torch_dtypes[e->dtype] : "");
    tti_json_int(j, "In msg nelems", e->in_numel);
    tti_json_int(j, "Out msg nelems", e->out_numel);
    tti_json_int(j, "Group size", e->group_size);
    tti_json_text(j, "Process Group Name", e->group);
    tti_json_text(j, "Process Group Description", e->group_desc);
    put_list(j, "Process Group Ranks", e->ranks, NULL, e->n_ranks);
    tti_json_int(j, "Global rank start", e->n_ranks > 0 ? e->ranks[0] : 0);
    tti_json_int(j, "Global rank stride", stride);
    tti_json_uint(j, "Seq", e->seq);
    put_list(j, "In split size", NULL, e->in_splits, e->n_in_splits);
    put_list(j, "Out split size", NULL, e->out_splits, e->n_out_splits);
    tti_json_int(j, "Rank", global_rank(e));
    tti_json_bool(j, "Collective", e->is_collective);
    if (e->peer >= 0)
        tti_json_int(j, "Peer", e->peer);
}

static void put_args(tti_json *j, const tt_prof_event *e)
{
    tti_json_begin(j, "args", '{');
    if (of_group(e))
        put_group_args(j, e);
    if (e->n_shapes > 0) {
        tti_json_begin(j, "Input Dims", '[');
        for (int i = 0; i < e->n_shapes; i++) {
            tti_json_begin(j, NULL, '[');
            for (int d = 0; d < e->shapes[i].n_dims; d++)
                tti_json_int(j, NULL, e->shapes[i].dims[d]);
            tti_json_end(j, ']');
        }
        tti_json_end(j, ']');
    }
    if (e->async)
        tti_json_bool(j, "async", true);
    if (e->failed)
        tti_json_bool(j, "failed", true);
    tti_json_end(j, '}');
}

/* ---- events ---------------------------------------------------------------------------- */

static void put_event(tti_json *j, const tt_prof_event *e, int pid, const char *ph, uint64_t id)
{
    bool ends = ph[0] == 'e';

    tti_json_line(j);
    tti_json_begin(j, NULL, '{');
    tti_json_text(j, "ph", ph);
    tti_json_text(j, "cat", of_group(e) ? "user_annotation" : "cpu_op");
    tti_json_text(j, "name", e->name);
    tti_json_int(j, "pid", pid);
    tti_json_uint(j, "tid", e->thread);
    tti_json_micros(j, "ts", e->start_ns + (ends ? e->cpu_ns : 0));
    if (ph[0] == 'X')
        tti_json_micros(j, "dur", e->cpu_ns);
    else
        tti_json_uint(j, "id", id);
    if (!ends)
        put_args(j, e);
    tti_json_end(j, '}');
}

static void put_meta(tti_json *j, const char *what, int pid, uint64_t tid, const char *name)
{
    tti_json_line(j);
    tti_json_begin(j, NULL, '{');
    tti_json_text(j, "ph", "M");
    tti_json_text(j, "name", what);
    tti_json_int(j, "pid", pid);
    tti_json_uint(j, "tid", tid);
    tti_json_begin(j, "args", '{');
    tti_json_text(j, "name", name);
    tti_json_end(j, '}');
    tti_json_end(j, '}');
}

static const char *name_of(const tt_prof *p, uint64_t thread)
{
    for (size_t i = 0; i < p->n_threads; i++)
        if (p->threads[i].id == thread)
            return p->threads[i].name;
    return "";
}

static void put_thread(tti_json *j, const trace *t, int pid, uint64_t thread)
{
    char text[48];

    snprintf(text, sizeof text, "rank %d", pid);
    put_meta(j, "process_name", pid, 0, text);
    snprintf(text, sizeof text, "%s %llu", name_of(t->p, thread), (unsigned long long)thread);
    put_meta(j, "thread_name", pid, thread, text);
}

/* Ranks can be threads: operators of a thread belong to the rank whose operations it began. */
static void put_events(tti_json *j, const trace *t)
{
    for (size_t i = 0, end; i < t->n; i = end) {
        int pid = t->rank;
        bool found = false;

        for (end = i; end < t->n && t->order[end]->thread == t->order[i]->thread; end++)
            if (!found && of_group(t->order[end])) {
                pid = global_rank(t->order[end]);
                found = true;
            }
        put_thread(j, t, pid, t->order[i]->thread);
        for (size_t k = i; k < end; k++) {
            const tt_prof_event *e = t->order[k];
            int at = of_group(e) ? global_rank(e) : pid;

            put_event(j, e, at, t->paired[k] ? "b" : "X", k);
            if (t->paired[k])
                put_event(j, e, at, "e", k);
        }
    }
}

/* ---- the head -------------------------------------------------------------------------- */

/* Whether event i is the first of its group; groups are few, and names are kept once. */
static bool first_of_group(const tt_prof *p, size_t i, const char **seen, int *n_seen)
{
    const tt_prof_event *e = tt_prof_event_at(p, i);

    if (!of_group(e))
        return false;
    for (int k = 0; k < *n_seen; k++)
        if (seen[k] == e->group)
            return false;
    if (*n_seen == 64)
        return false;
    seen[(*n_seen)++] = e->group;
    return true;
}

static void put_groups(tti_json *j, const trace *t)
{
    const char *seen[64];
    char backend[32];
    int n_seen = 0;

    tti_json_begin(j, "pg_config", '[');
    for (size_t i = 0; i < tt_prof_n_events(t->p); i++) {
        const tt_prof_event *e = tt_prof_event_at(t->p, i);
        const char *colon;

        if (!first_of_group(t->p, i, seen, &n_seen))
            continue;
        colon = strchr(e->name, ':');
        snprintf(backend, sizeof backend, "cpu:%.*s", colon != NULL ? (int)(colon - e->name) : 0,
                 e->name);
        tti_json_begin(j, NULL, '{');
        tti_json_text(j, "pg_name", e->group);
        tti_json_text(j, "pg_desc", e->group_desc);
        tti_json_text(j, "backend_config", backend);
        tti_json_int(j, "pg_size", e->group_size);
        tti_json_begin(j, "ranks", '[');
        for (int k = 0; k < e->n_ranks; k++)
            tti_json_int(j, NULL, e->ranks[k]);
        tti_json_end(j, ']');
        tti_json_end(j, '}');
    }
    tti_json_end(j, ']');
    tti_json_int(j, "pg_count", n_seen);
}

/* Names the boot of this machine: traces with the same one share the monotonic clock. */
static void read_boot_id(char *id, size_t room)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    id[0] = '\0';
    if (f == NULL)
        return;
    if (fgets(id, (int)room, f) == NULL)
        id[0] = '\0';
    id[strcspn(id, "\n")] = '\0';
    fclose(f);
}

static void put_clock(tti_json *j, const tt_prof *p)
{
    char host[256] = "", boot[64], digits[24];

    (void)gethostname(host, sizeof host - 1);
    read_boot_id(boot, sizeof boot);
    tti_json_begin(j, "tutti", '{');
    tti_json_text(j, "version", tt_version());
    tti_json_text(j, "host", host);
    tti_json_int(j, "pid", getpid());
    tti_json_text(j, "boot_id", boot);
    /* As texts: readers of JSON may round numbers of this size. */
    snprintf(digits, sizeof digits, "%lld", (long long)p->start_ns);
    tti_json_text(j, "base_monotonic_ns", digits);
    snprintf(digits, sizeof digits, "%lld", (long long)p->wall_ns);
    tti_json_text(j, "base_wall_ns", digits);
    tti_json_int(j, "clock_offset_ns", 0);
    tti_json_uint(j, "dropped", p->n_dropped);
    tti_json_end(j, '}');
}

static void put_head(tti_json *j, const trace *t)
{
    tti_json_int(j, "schemaVersion", 1);
    tti_json_begin(j, "deviceProperties", '[');
    tti_json_end(j, ']');
    tti_json_begin(j, "distributedInfo", '{');
    tti_json_text(j, "backend", t->backend);
    tti_json_int(j, "rank", t->rank);
    tti_json_int(j, "world_size", t->world_size);
    put_groups(j, t);
    tti_json_end(j, '}');
    tti_json_text(j, "displayTimeUnit", "ms");
    tti_json_int(j, "baseTimeNanoseconds", t->p->wall_ns);
    put_clock(j, t->p);
}

tt_status tt_prof_export(const tt_prof *p, const char *path)
{
    tti_json j;
    trace t;
    tt_status st;

    if (p == NULL || path == NULL)
        return tti_null_given("prof", "a profile and a path");
    if (!p->stopped)
        return TT_FAIL(TT_ERR_INVALID, "prof: expected a stopped profile, got one that runs");
    TT_TRY(trace_init(&t, p));
    tti_json_open(&j, "prof", path, 0);
    tti_json_begin(&j, NULL, '{');
    put_head(&j, &t);
    tti_json_begin(&j, "traceEvents", '[');
    put_events(&j, &t);
    tti_json_end(&j, ']');
    tti_json_end(&j, '}');
    st = tti_json_finish(&j);
    trace_fini(&t);
    return st;
}
