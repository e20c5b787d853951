/* SPDX-License-Identifier: Apache-2.0 */
/* Reading flight recorder dumps: who keeps whom waiting. */
#ifndef TTI_PROF_HANG_H
#define TTI_PROF_HANG_H

#include "base/status.h"

/* What tt_flight_explain says about the dumps in `dir`, cut to `size`; "" when all is well. The job is over: whoever
 * calls this knows how each rank ended. */
tt_status tti_hang_explain(const char *dir, char *text, size_t size);

#endif
