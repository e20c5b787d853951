/* SPDX-License-Identifier: Apache-2.0 */
/* The models of the golden trainings, built from our own modules; models.py has PyTorch's. */
#ifndef GOLDEN_TRAINING_H
#define GOLDEN_TRAINING_H

#include <cjson/cJSON.h>

#include "tutti/models.h"
#include "tutti/optim.h"
#include "tutti/tutti.h"

enum { GOLDEN_INPUTS = 4 };

typedef struct golden_model {
    const char *name; /* the training's name begins with it */
    tt_module *(*build)(const cJSON *config);
    /* `batch` has the inputs in the order of the file. */
    tt_tensor *(*loss)(tt_module *m, tt_tensor *const *batch);
} golden_model;

const golden_model *golden_find_model(const char *training);

#endif
