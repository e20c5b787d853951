/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient scaler to and from state dictionaries, as numbers of one float64. */
#include <stdio.h>

#include "base/error.h"
#include "amp/scaler.h"
#include "tutti/nn.h"

enum { SCALE, GROWTH, BACKOFF, INTERVAL, TRACKER, N_NUMBERS };

static const char *const names[N_NUMBERS] = { "scale", "growth_factor", "backoff_factor",
                                              "growth_interval", "growth_tracker" };

static tt_status name_of(char text[256], const char *prefix, int i)
{
    int n = snprintf(text, 256, "%s%s", prefix != NULL ? prefix : "", names[i]);

    return n < 256 ? TT_OK
                   : TT_FAIL(TT_ERR_INVALID, "grad_scaler: expected a prefix of at most 200 "
                                             "characters");
}

tt_status tt_grad_scaler_save(const tt_grad_scaler *s, tt_state_dict *sd, const char *prefix)
{
    double numbers[N_NUMBERS];
    char name[256];

    if (s == NULL || sd == NULL)
        return tti_null_given("grad_scaler_save", "a scaler and a dictionary");
    if (!s->enabled)
        return TT_OK;
    numbers[SCALE] = s->scale;
    numbers[GROWTH] = s->growth_factor;
    numbers[BACKOFF] = s->backoff_factor;
    numbers[INTERVAL] = (double)s->growth_interval;
    numbers[TRACKER] = (double)s->tracker;
    for (int i = 0; i < N_NUMBERS; i++) {
        TT_TRY(name_of(name, prefix, i));
        TT_SCOPE {
            tt_tensor *t = tt_from_data(&numbers[i], TT_SHAPE_SCALAR, TT_F64);

            TT_TRY(t != NULL ? tt_state_dict_set(sd, name, t) : tt_last_status());
        }
    }
    return TT_OK;
}

static tt_status read_number(const tt_state_dict *sd, const char *prefix, int i, double *number_p)
{
    char name[256];
    tt_tensor *t;

    TT_TRY(name_of(name, prefix, i));
    t = tt_state_dict_get(sd, name);
    if (t == NULL)
        return TT_FAIL(TT_ERR_NOT_FOUND, "grad_scaler_load: the state has no \"%s\"", name);
    if (t->dtype != TT_F64 || t->numel != 1)
        return TT_FAIL(TT_ERR_FORMAT, "grad_scaler_load: expected \"%s\" to be one float64", name);
    *number_p = tt_item(t);
    return TT_OK;
}

tt_status tt_grad_scaler_load(tt_grad_scaler *s, const tt_state_dict *sd, const char *prefix)
{
    double numbers[N_NUMBERS];

    if (s == NULL || sd == NULL)
        return tti_null_given("grad_scaler_load", "a scaler and a dictionary");
    if (!s->enabled)
        return TT_OK;
    for (int i = 0; i < N_NUMBERS; i++)
        TT_TRY(read_number(sd, prefix, i, &numbers[i]));
    if (!(numbers[INTERVAL] < 9e15 && numbers[TRACKER] >= 0 && numbers[TRACKER] < 9e15))
        return TT_FAIL(TT_ERR_FORMAT, "grad_scaler_load: expected counts, got %g and %g",
                       numbers[INTERVAL], numbers[TRACKER]);
    TT_TRY(tti_scaler_check(numbers[SCALE], numbers[GROWTH], numbers[BACKOFF],
                            (int64_t)numbers[INTERVAL]));
    TT_TRY(tti_scaler_set_scale(s, numbers[SCALE]));
    s->growth_factor = numbers[GROWTH];
    s->backoff_factor = numbers[BACKOFF];
    s->growth_interval = (int64_t)numbers[INTERVAL];
    s->tracker = (int64_t)numbers[TRACKER];
    return TT_OK;
}
