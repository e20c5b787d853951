/* SPDX-License-Identifier: Apache-2.0 */
/* Every TUTTI_ variable is a row of env.def, every other a row of foreign.def; nothing else calls getenv. */
#ifndef TTI_BASE_ENV_H
#define TTI_BASE_ENV_H

#include "tutti/base.h"

typedef enum tti_env {
#define X(name, fallback, help) TTI_ENV_##name,
#include "base/env.def"
#undef X
    TTI_ENV_COUNT
} tti_env;

/* The variable's text, or NULL when unset or empty. */
const char *tti_env_get(tti_env var);

/* Its value as a whole number in [lo, hi], or `fallback` when unset; a value that is no such
 * number is a warning and the fallback. */
long long tti_env_int(tti_env var, long long lo, long long hi, long long fallback);

/* Which of the n names its value is, or `fallback` when unset; any other value is a warning and the fallback. */
int tti_env_choice(tti_env var, const char *const *names, int n, int fallback);

/* Variables of launchers and other libraries. */
typedef enum tti_foreign {
#define X(name, help) TTI_FOREIGN_##name,
#include "base/foreign.def"
#undef X
    TTI_FOREIGN_COUNT
} tti_foreign;

const char *tti_foreign_get(tti_foreign var); /* NULL when unset or empty */
const char *tti_foreign_name(tti_foreign var);

#endif
