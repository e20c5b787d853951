/* SPDX-License-Identifier: Apache-2.0 */
/* What `tutti report` knows of a training, and the parts of the page. */
#ifndef TTI_TOOLS_REPORT_H
#define TTI_TOOLS_REPORT_H

#include <stdio.h>

#include "trace_file.h"

/* Numbers of each step, as the ranks' files name them. */
enum { TTI_LOSS, TTI_STEP, TTI_FORWARD, TTI_BACKWARD, TTI_COMM, TTI_OVERLAP, TTI_N_SERIES };

/* A part of the time of a step; COMM_HIDDEN is inside of the others, the rest add up to the step. */
enum {
    TTI_PART_FORWARD,
    TTI_PART_BACKWARD,
    TTI_PART_EXPOSED,
    TTI_PART_OTHER,
    TTI_PART_HIDDEN,
    TTI_N_PARTS
};

typedef struct tti_report_rank {
    cJSON *json;
    int rank;
    double *series[TTI_N_SERIES]; /* owned */
    int n;                        /* steps */
    double part_us[TTI_N_PARTS];  /* of a typical step */
    double step_us;               /* their sum, and */
    double median_us;
} tti_report_rank;

typedef struct tti_report {
    tti_report_rank *ranks; /* in order of their numbers */
    int n_ranks;
    tti_trace *traces; /* one per rank; NULL: none */
    double *loss;      /* mean over the ranks; n_steps */
    int n_steps;
    char *paths; /* owned: of the traces */
} tti_report;

extern const char *const tti_part_names[TTI_N_PARTS]; /* "forward" */
extern const char *const tti_part_class[TTI_N_PARTS]; /* of the style sheet */

/* Reads rank-*.json and trace-*.json; false with words on standard error. */
bool tti_report_load(tti_report *r, const char *dir);
void tti_report_fini(tti_report *r);
const char *tti_report_text(const tti_report *r, const char *key); /* of rank 0; "" if none */
double tti_report_number(const tti_report *r, const char *key);    /* of rank 0; 0 if none */

void tti_put_escaped(FILE *f, const char *text);
void tti_put_loss(FILE *f, const tti_report *r);
void tti_put_parts(FILE *f, const tti_report *r);
void tti_put_timeline(FILE *f, const tti_report *r);

#endif
