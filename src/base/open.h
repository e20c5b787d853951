/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files that may come from strangers. */
#ifndef TTI_BASE_OPEN_H
#define TTI_BASE_OPEN_H

#include "base/status.h"

/* A descriptor to read a regular file by; -1 with the cause recorded, which begins with `what`. Anything else is refused
 * without waiting for it: a FIFO would hold us up for ever. */
int tti_open_regular(const char *what, const char *path);

#endif
