/* SPDX-License-Identifier: Apache-2.0 */
/* The table of environment variables. */
#include "base/env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *help;
} rows[] = {
#define X(name, fallback, help) { "TUTTI_" #name, help " (default: " fallback ")" },
#include "base/env.def"
#undef X
};

const char *tti_env_get(tti_env var)
{
    const char *s = getenv(rows[var].name);

    return s != NULL && s[0] != '\0' ? s : NULL;
}

long long tti_env_int(tti_env var, long long lo, long long hi, long long fallback)
{
    const char *s = tti_env_get(var);
    char *end;
    long long value;

    if (s == NULL)
        return fallback;
    errno = 0;
    value = strtoll(s, &end, 10);
    if (errno == 0 && end != s && *end == '\0' && value >= lo && value <= hi)
        return value;
    tt_warn("environment", "%s: expected a whole number from %lld to %lld, got \"%s\"",
            rows[var].name, lo, hi, s);
    return fallback;
}

int tti_env_choice(tti_env var, const char *const *names, int n, int fallback)
{
    const char *s = tti_env_get(var);
    char all[256] = "";
    size_t used = 0;

    if (s == NULL)
        return fallback;
    for (int i = 0; i < n; i++)
        if (strcmp(s, names[i]) == 0)
            return i;
    for (int i = 0; i < n && used < sizeof all; i++)
        used +=
            (size_t)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    tt_warn("environment", "%s: expected one of %s, got \"%s\"", rows[var].name, all, s);
    return fallback;
}

bool tt_env_row(int index, const char **name_p, const char **help_p, const char **value_p)
{
    if (index < 0 || index >= TTI_ENV_COUNT)
        return false;
    if (name_p != NULL)
        *name_p = rows[index].name;
    if (help_p != NULL)
        *help_p = rows[index].help;
    if (value_p != NULL)
        *value_p = tti_env_get((tti_env)index);
    return true;
}

static const char *const foreign[] = {
#define X(name, help) #name,
#include "base/foreign.def"
#undef X
};

const char *tti_foreign_name(tti_foreign var)
{
    return foreign[var];
}

const char *tti_foreign_get(tti_foreign var)
{
    const char *s = getenv(foreign[var]);

    return s != NULL && s[0] != '\0' ? s : NULL;
}
