/* SPDX-License-Identifier: Apache-2.0 */
/* The one file of the harness that calls the library's groups and stores: group.c. */
#ifndef TTI_TESTING_GROUP_H
#define TTI_TESTING_GROUP_H

#include "testing/testing.h"

bool tti_group_has_backend(const char *name);
void tti_group_read_debug_level(void); /* from the environment */

#endif /* TTI_TESTING_GROUP_H */
