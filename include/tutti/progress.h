/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar for long loops: how far, how fast, how long still, and a few numbers of yours.
 *
 *     tt_progress *bar = tt_progress_new(steps, &(tt_progress_options){ .label = "train" });
 *     for (...) {
 *         ...
 *         tt_progress_set(bar, "loss", loss);
 *         tt_progress_update(bar, 1);
 *     }
 *     tt_progress_free(bar);
 *
 *     train  42% |########            | 4200/10000 [00:12<00:17, 338.1/s, loss=0.421]
 *
 * On a terminal it is drawn in place, at most ten times a second; elsewhere nothing is written unless
 * line_seconds asks for lines. Every function accepts NULL. A bar is used by one thread at a time. */
#ifndef TUTTI_PROGRESS_H
#define TUTTI_PROGRESS_H

#include <stdio.h>

#include "tutti/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_progress tt_progress;

typedef struct tt_progress_options {
    FILE *file;          /* NULL: standard error; borrowed */
    const char *label;   /* NULL: none; copied */
    const char *unit;    /* after the rate, as in "10.1 samples/s"; NULL: none; copied */
    int width;           /* columns; 0: those of the terminal, else 80 */
    double line_seconds; /* where it is no terminal: a line every so often; 0: none */
    bool always;         /* draw in place even where it is no terminal */
    bool clear;          /* take the bar away at the end */
} tt_progress_options;

/* `total` 0: not known, so there is no bar, only counts and rate. NULL when out of memory. */
TT_API tt_progress *tt_progress_new(int64_t total, const tt_progress_options *opt);
/* Draws the last state and ends the line. */
TT_API void tt_progress_free(tt_progress *p);

/* n more are done. */
TT_API void tt_progress_update(tt_progress *p, int64_t n);
/* Show a number, the last value for each name, in the order first set. At most 8 names of up to 15
 * characters; `name` must stay valid, as a literal does. */
TT_API void tt_progress_set(tt_progress *p, const char *name, double value);

#ifdef __cplusplus
}
#endif

#endif
