/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers of the tests of layers: tensors with known numbers, and names in order. */
#ifndef TESTS_UNIT_NN_DATA_H
#define TESTS_UNIT_NN_DATA_H

#include <math.h>
#include <string.h>

#include "tutti/layers.h"
#include "tutti/models.h"
#include "tutti/ops.h"
#include "tutti/testing.h"

/* Element i is a smooth function of i and `salt`, between -1 and 1; of the scope. */
static inline double nn_number(int64_t i, double salt)
{
    return sin(1.7 * (double)i + 3.1 * salt + 0.3 * salt * (double)(i % 7));
}

static inline tt_tensor *nn_tensor(tt_shape shape, double salt)
{
    tt_tensor *t = tt_empty(shape, TT_F32, TT_CPU);
    float *p = t != NULL ? tt_tensor_data(t) : NULL;

    for (int64_t i = 0; p != NULL && i < tt_tensor_numel(t); i++)
        p[i] = (float)nn_number(i, salt);
    return t;
}

/* Give every parameter numbers of its own, a quarter as large. */
static inline void nn_fill_params(tt_module *m)
{
    tt_state_dict *all = tt_module_params(m, NULL);

    for (int i = 0; i < tt_state_dict_count(all); i++) {
        tt_tensor *t = tt_state_dict_tensor(all, i);
        float *p = tt_tensor_data(t);

        for (int64_t k = 0; k < tt_tensor_numel(t); k++)
            p[k] = 0.25f * (float)nn_number(k, 10 + i);
    }
    tt_state_dict_free(all);
}

static inline void nn_check_names(tt_state_dict *list, const char *const *names, int n)
{
    TT_CHECK_EQ(tt_state_dict_count(list), n);
    for (int i = 0; i < n; i++)
        TT_CHECK_STR(tt_state_dict_name(list, i), names[i]);
    tt_state_dict_free(list);
}

#define NN_NAMES(...)                     \
    (const char *const[]){ __VA_ARGS__ }, \
        (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *))

static inline float *nn_data(const tt_tensor *t)
{
    return tt_tensor_data(t);
}

static inline void nn_check_values(tt_tensor *t, const double *want, int64_t n, double tol)
{
    TT_REQUIRE_NOT_NULL(t);
    TT_REQUIRE_EQ(tt_tensor_numel(t), n);
    t = tt_contiguous(t);
    for (int64_t i = 0; i < n; i++)
        TT_CHECK_NEAR(nn_data(t)[i], want[i], tol);
}

#endif
