/* SPDX-License-Identifier: Apache-2.0 */
/* The default group of a test. */
#include "testing/testing.h"
#include "testing/world.h"

void tti_world_end_body(int code)
{
    (void)code;
}

void tti_world_rank_died(tti_world *w, int rank, const char *cause)
{
    (void)w;
    (void)rank;
    (void)cause;
}
