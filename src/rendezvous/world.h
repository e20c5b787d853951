/* SPDX-License-Identifier: Apache-2.0 */
/* How the environment is asked which launcher started this process. */
#ifndef TTI_RENDEZVOUS_WORLD_H
#define TTI_RENDEZVOUS_WORLD_H

#include "base/env.h"
#include "base/status.h"
#include "tutti/rendezvous.h"

/* How far up the tree of processes the setting name=value was made: 0 by this process's parent, 1 by its
 * parent, and so on; INT_MAX when that cannot be told. */
int tti_env_depth(const char *name, const char *value);

/* A whole number in [lo, hi]; the error names the variable. */
tt_status tti_foreign_int(tti_foreign var, int lo, int hi, int *value_p);
/* The same for a variable that may be missing: -1. */
tt_status tti_foreign_maybe(tti_foreign var, int hi, int *value_p);

#endif
