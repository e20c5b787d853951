/* SPDX-License-Identifier: Apache-2.0 */
/* How long tests of several ranks may take: by name, else the default. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "testing/testing.h"

enum { MAX_OVERRIDES = 64, DEFAULT_LIMIT = 300, SANITIZED_LIMIT = 500 };

static struct {
    const char *name;
    double seconds;
} overrides[MAX_OVERRIDES];
static int n_overrides;

void tt_test_set_limit(const char *name, double seconds)
{
    if (n_overrides == MAX_OVERRIDES) {
        fprintf(stderr, "testing: more than %d limits by name\n", MAX_OVERRIDES);
        return;
    }
    overrides[n_overrides].name = name;
    overrides[n_overrides++].seconds = seconds;
}

double tt_test_limit_for(const char *id)
{
    const char *dot = strrchr(id, '.');
    const char *last = dot != NULL ? dot + 1 : id;

    for (int i = 0; i < n_overrides; i++) {
        if (strcmp(overrides[i].name, last) == 0)
            return overrides[i].seconds;
    }
    if (tti_test_sanitized())
        return SANITIZED_LIMIT;
    return (double)tti_env_int(TTI_ENV_TEST_LIMIT, 1, 1000000, DEFAULT_LIMIT);
}
