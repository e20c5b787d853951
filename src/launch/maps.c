/* SPDX-License-Identifier: Apache-2.0 */
/* Small languages of the command line: maps of ranks to outputs, lists of ranks, templates of tags. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/job.h"

/* A whole number at *p_p, which moves behind it. */
static bool number(const char **p_p, long *value_p)
{
    char *end;

    if (**p_p < '0' || **p_p > '9')
        return false;
    *value_p = strtol(*p_p, &end, 10);
    *p_p = end;
    return *value_p <= INT_MAX;
}

tt_status tti_std_map(const char *text, int local, int *flags_p)
{
    const char *p = text;
    long key, value;
    int flags = 0;

    if (text == NULL) {
        *flags_p = 0;
        return TT_OK;
    }
    if (number(&p, &key) && *p == '\0' && key <= 3) {
        *flags_p = (int)key;
        return TT_OK;
    }
    for (p = text;; p++) {
        if (!number(&p, &key) || *p++ != ':' || !number(&p, &value) || value > 3 ||
            (*p != ',' && *p != '\0'))
            return TT_FAIL(TT_ERR_INVALID, "expected 0 to 3 or RANK:0-3,..., got \"%s\"", text);
        if (key == local)
            flags = (int)value;
        if (*p == '\0')
            break;
    }
    *flags_p = flags;
    return TT_OK;
}

tt_status tti_launch_listed(const char *text, int local, bool *listed_p)
{
    bool listed = text == NULL || *text == '\0';
    long key;

    for (const char *p = text; p != NULL && *p != '\0'; p += *p == ',') {
        if (!number(&p, &key) || (*p != ',' && *p != '\0'))
            return TT_FAIL(TT_ERR_INVALID, "expected local ranks such as 0,2, got \"%s\"", text);
        listed = listed || key == local;
    }
    *listed_p = listed;
    return TT_OK;
}

tt_status tti_prefix_make(const char *template, int rank, int local_rank, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (const char *p = template; *p != '\0' && n + 1 < size;) {
        if (strncmp(p, "${rank}", 7) == 0) {
            n += (size_t)snprintf(text + n, size - n, "%d", rank);
            p += 7;
        } else if (strncmp(p, "${local_rank}", 13) == 0) {
            n += (size_t)snprintf(text + n, size - n, "%d", local_rank);
            p += 13;
        } else if (strncmp(p, "${role_name}", 12) == 0) {
            n += (size_t)snprintf(text + n, size - n, "default");
            p += 12;
        } else if (p[0] == '$' && p[1] == '{') {
            return TT_FAIL(TT_ERR_INVALID,
                           "prefix: expected ${rank}, ${local_rank} or ${role_name}, got \"%s\"",
                           p);
        } else {
            text[n++] = *p++;
            text[n] = '\0';
        }
    }
    if (n + 1 >= size)
        return TT_FAIL(TT_ERR_INVALID, "prefix: expected fewer than %zu characters", size - 1);
    return TT_OK;
}
