/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files of several ranks, on one clock. */
#ifndef TTI_TOOLS_TRACE_FILE_H
#define TTI_TOOLS_TRACE_FILE_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tti_trace {
    const char *path;
    cJSON *json;
    cJSON *events;
    int rank;
    double shift_us; /* to add to its times */
} tti_trace;

/* One operation of a group on one rank. */
typedef struct tti_trace_op {
    const char *group, *name;
    double seq, start_us, dur_us, bytes;
    int rank;
    double pid, tid;
} tti_trace_op;

/* Loads all; false with words on standard error. */
bool tti_traces_load(char **paths, int n, tti_trace *traces);
void tti_traces_free(tti_trace *traces, int n);
/* All operations of groups in them, sorted by group, number, name and start; to be freed. NULL: no memory. */
tti_trace_op *tti_traces_ops(const tti_trace *traces, int n, size_t *n_ops_p);
/* Whether both are the same operation, on different ranks. */
bool tti_trace_same_op(const tti_trace_op *a, const tti_trace_op *b);

int tti_trace_merge(const char *out, char **paths, int n, bool arrows);
int tti_trace_summary(char **paths, int n, int format);

#endif
