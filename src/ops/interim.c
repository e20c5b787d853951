/* SPDX-License-Identifier: Apache-2.0 */
/* Interim weak definitions, overridden by the real operators as they land. */
#include "ops/op.h"

#define WEAK __attribute__((weak)) tt_tensor *
WEAK tt_sum_dims(tt_tensor *a, const int *d, int n, bool k)
{
    (void)a;
    (void)d;
    (void)n;
    (void)k;
    return NULL;
}
__attribute__((weak)) tt_generator *tt_default_generator(tt_device d)
{
    (void)d;
    return NULL;
}
__attribute__((weak)) tt_generator_state tt_generator_get(tt_generator *g)
{
    (void)g;
    return (tt_generator_state){ 0 };
}
__attribute__((weak)) void tt_generator_set(tt_generator *g, tt_generator_state s)
{
    (void)g;
    (void)s;
}
