/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each layer: a row says how to make it and what PyTorch's layer of the same
 * arguments has and prints. */
#ifndef TESTS_CONFORMANCE_LAYER_TABLE_H
#define TESTS_CONFORMANCE_LAYER_TABLE_H

#include "unit/nn/nn_data.h"

#define MAX_ENTRIES 48

typedef enum layer_init {
    ZEROS,
    ONES,
    UNIFORM, /* from -bound to bound */
    NORMAL,  /* standard */
    COUNTER, /* an int64 zero */
} layer_init;

typedef struct layer_entry {
    const char *name;
    tt_shape shape;
    layer_init init;
    double bound;
    bool buffer;
} layer_entry;

/* How training differs from evaluation. */
typedef enum layer_modes {
    SAME,
    DIFFERENT, /* by statistics */
    RANDOM,    /* by chance */
} layer_modes;

typedef struct layer_row {
    const char *name;
    tt_module *(*make)(void);
    const char *text; /* in the printed form */
    tt_shape in, out; /* of the input and what it gives */
    tt_shape in2;     /* of a second input; n_dims 0: none */
    int64_t n_index;  /* > 0: the input is indices below this */
    layer_modes modes;
    tt_shape bad;      /* an input of the wrong shape */
    const char *error; /* and what is said then; NULL: every shape will do */
    layer_entry state[MAX_ENTRIES];
} layer_row;

extern const layer_row layer_rows[];
extern const int layer_n_rows;
extern const layer_row sequence_rows[];
extern const int sequence_n_rows;

#endif
