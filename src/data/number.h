/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from text, correctly rounded, whatever the locale. */
#ifndef TTI_DATA_NUMBER_H
#define TTI_DATA_NUMBER_H

#include "base/status.h"

/* The decimal number at [text, end), which has no spaces around it; *end is readable and not part of a
 * number. Returns false if it is none. The float is rounded once, not by way of a double. */
bool tti_parse_f64(const char *text, const char *end, double *value_p);
bool tti_parse_f32(const char *text, const char *end, float *value_p);

#endif
