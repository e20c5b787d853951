/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: lower case, the module first, values after words. */
#ifndef TTI_BASE_LOG_H
#define TTI_BASE_LOG_H

#include "tutti/base.h"

void tti_log(tt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
