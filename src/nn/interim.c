/* SPDX-License-Identifier: Apache-2.0 */
/* Interim weak definitions, overridden by the real operators as they land. */
#include "nn/module.h"

#define WEAK __attribute__((weak))
WEAK bool tt_equal(const tt_tensor *a, const tt_tensor *b)
{
    return a == b;
}
WEAK tt_tensor *tt_uniform_(tt_tensor *x, double lo, double hi, tt_generator *gen)
{
    (void)lo;
    (void)hi;
    (void)gen;
    return x;
}
WEAK tt_tensor *tt_normal_(tt_tensor *x, double mean, double std, tt_generator *gen)
{
    (void)mean;
    (void)std;
    (void)gen;
    return x;
}
WEAK void tt_text_free(char *text)
{
    tti_mfree(text);
}
