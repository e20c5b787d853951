/* SPDX-License-Identifier: Apache-2.0 */
/* How long tests of several ranks may take: by name, else the default; and how much longer on a busy machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "testing/testing.h"

enum { MAX_OVERRIDES = 64, DEFAULT_LIMIT = 300, SANITIZED_LIMIT = 500, MAX_STRETCH = 30 };

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

double tti_test_stretch_at(double load, long cores)
{
    double each = cores > 0 ? load / (double)cores : load;

    return each < 1 ? 1 : each > MAX_STRETCH ? MAX_STRETCH : each;
}

double tti_test_stretch(void)
{
    double load;

    if (getloadavg(&load, 1) != 1)
        return 1;
    return tti_test_stretch_at(load, sysconf(_SC_NPROCESSORS_ONLN));
}
