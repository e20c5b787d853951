/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what the ranks of a training measured. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "files.h"

const char *const tti_part_names[TTI_N_PARTS] = { "forward", "backward", "waiting for gradients",
                                                  "optimizer, data, rest",
                                                  "communication behind backward" };
const char *const tti_part_class[TTI_N_PARTS] = { "fwd", "bwd", "exp", "oth", "hid" };

static const char *const keys[TTI_N_SERIES] = { "losses",      "step_us",          "forward_us",
                                                "backward_us", "communication_us", "overlap_us" };

/* ---- one rank ------------------------------------------------------------------------------- */

/* printf writes numbers that are none as nan or inf, which JSON does not have: a copy with null in their place. */
static char *without_nan(const char *text)
{
    char *copy = malloc(2 * strlen(text) + 1), *to = copy;
    bool quoted = false;

    for (const char *s = text; copy != NULL && *s != '\0';) {
        const char *word = s + (*s == '-' || *s == '+');
        size_t n = quoted                             ? 0
                   : strncasecmp(word, "nan", 3) == 0 ? 3
                   : strncasecmp(word, "infinity", 8) == 0
                       ? 8
                       : (strncasecmp(word, "inf", 3) == 0 ? 3 : 0);

        if (n > 0) {
            memcpy(to, "null", 4);
            to += 4;
            s = word + n;
            continue;
        }
        if (quoted && *s == '\\' && s[1] != '\0')
            *to++ = *s++;
        else if (*s == '"')
            quoted = !quoted;
        *to++ = *s++;
    }
    if (copy != NULL)
        *to = '\0';
    return copy;
}

static cJSON *parse_json(FILE *f)
{
    char *text = NULL, *clean = NULL;
    cJSON *json = NULL;
    long n = 0;

    if (fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) > 0 &&
        (text = malloc((size_t)n + 1)) != NULL) {
        rewind(f);
        n = (long)fread(text, 1, (size_t)n, f);
        text[n] = '\0';
        clean = without_nan(text);
    }
    if (clean != NULL)
        json = cJSON_ParseWithOpts(clean, NULL, true);
    free(clean);
    free(text);
    return json;
}

/* NULL with *missing_p set when there is no such file; otherwise, on failure, says why. */
static cJSON *read_json(const char *path, bool *missing_p)
{
    FILE *f = tti_open_input(path);
    cJSON *json = f != NULL ? parse_json(f) : NULL;

    *missing_p = f == NULL && errno == ENOENT;
    if (f == NULL && !*missing_p)
        fprintf(stderr, "tutti report: %s: %s\n", path, strerror(errno));
    else if (f != NULL && json == NULL)
        fprintf(stderr, "tutti report: %s: no whole JSON file\n", path);
    if (f != NULL)
        fclose(f);
    return json;
}

static bool read_series(tti_report_rank *r, const char *path)
{
    for (int k = 0; k < TTI_N_SERIES; k++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(r->json, keys[k]), *item;
        int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, i = 0;

        if (n == 0 || (k > 0 && n != r->n)) {
            fprintf(stderr, "tutti report: %s: \"%s\" has %d numbers, expected %d\n", path, keys[k],
                    n, k > 0 ? r->n : 1);
            return false;
        }
        r->n = n;
        r->series[k] = malloc((size_t)n * sizeof(double));
        if (r->series[k] == NULL)
            return false;
        cJSON_ArrayForEach(item, list) r->series[k][i++] = cJSON_IsNumber(item) ? item->valuedouble
                                                           : k == TTI_LOSS      ? NAN
                                                                                : 0;
    }
    return true;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* The mean over the steps that were neither the fastest tenth nor the slowest: a machine that does something
 * else for a while would say more than all other steps. */
static bool add_up(tti_report_rank *r)
{
    double *sorted = malloc((size_t)r->n * sizeof *sorted), low, high, n = 0;

    if (sorted == NULL)
        return false;
    memcpy(sorted, r->series[TTI_STEP], (size_t)r->n * sizeof *sorted);
    qsort(sorted, (size_t)r->n, sizeof *sorted, by_value);
    low = sorted[r->n / 10];
    high = sorted[r->n - 1 - r->n / 10];
    r->median_us = sorted[r->n / 2];
    free(sorted);
    for (int i = 0; i < r->n; i++) {
        double step = r->series[TTI_STEP][i], forward = r->series[TTI_FORWARD][i];
        double backward = r->series[TTI_BACKWARD][i], hidden = r->series[TTI_OVERLAP][i];
        double exposed = r->series[TTI_COMM][i] - hidden;
        double other = step - forward - backward - exposed;

        if (step < low || step > high || other < 0)
            continue;
        r->part_us[TTI_PART_FORWARD] += forward;
        r->part_us[TTI_PART_BACKWARD] += backward;
        r->part_us[TTI_PART_EXPOSED] += exposed;
        r->part_us[TTI_PART_OTHER] += other;
        r->part_us[TTI_PART_HIDDEN] += hidden;
        r->step_us += step;
        n++;
    }
    for (int k = 0; k < TTI_N_PARTS; k++)
        r->part_us[k] /= n > 0 ? n : 1;
    r->step_us /= n > 0 ? n : 1;
    return true;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static bool load_ranks(tti_report *r, const char *dir)
{
    char path[4096];
    bool missing = false;

    for (;;) {
        tti_report_rank *more = realloc(r->ranks, (size_t)(r->n_ranks + 1) * sizeof *more);
        tti_report_rank *one;

        if (more == NULL)
            return false;
        r->ranks = more;
        one = &more[r->n_ranks];
        *one = (tti_report_rank){ .rank = r->n_ranks };
        snprintf(path, sizeof path, "%s/rank-%d.json", dir, r->n_ranks);
        one->json = read_json(path, &missing);
        if (one->json == NULL && !missing)
            return false;
        if (one->json == NULL)
            break;
        r->n_ranks++;
        if (!read_series(one, path) || !add_up(one))
            return false;
        if (one->n != r->ranks[0].n) {
            fprintf(stderr, "tutti report: %s: %d steps, rank 0 has %d\n", path, one->n,
                    r->ranks[0].n);
            return false;
        }
    }
    if (r->n_ranks == 0)
        fprintf(stderr, "tutti report: %s has no rank-0.json\n", dir);
    return r->n_ranks > 0;
}

static bool mean_loss(tti_report *r)
{
    r->n_steps = r->ranks[0].n;
    r->loss = calloc((size_t)r->n_steps, sizeof *r->loss);
    for (int i = 0; r->loss != NULL && i < r->n_steps; i++)
        for (int k = 0; k < r->n_ranks; k++)
            r->loss[i] += r->ranks[k].series[TTI_LOSS][i] / r->n_ranks;
    return r->loss != NULL;
}

static bool load_traces(tti_report *r, const char *dir)
{
    enum { ROOM = 4096 };
    char **list = calloc((size_t)r->n_ranks, sizeof *list);
    bool ok = list != NULL;

    r->paths = malloc((size_t)r->n_ranks * ROOM);
    for (int i = 0; list != NULL && r->paths != NULL && i < r->n_ranks; i++) {
        list[i] = r->paths + (size_t)i * ROOM;
        snprintf(list[i], ROOM, "%s/trace-%d.json", dir, i);
    }
    r->traces = calloc((size_t)r->n_ranks, sizeof *r->traces);
    ok =
        ok && r->paths != NULL && r->traces != NULL && tti_traces_load(list, r->n_ranks, r->traces);
    free(list);
    return ok;
}

bool tti_report_load(tti_report *r, const char *dir)
{
    return load_ranks(r, dir) && mean_loss(r) && load_traces(r, dir);
}

void tti_report_fini(tti_report *r)
{
    if (r->traces != NULL)
        tti_traces_free(r->traces, r->n_ranks);
    for (int i = 0; i < r->n_ranks; i++) {
        for (int k = 0; k < TTI_N_SERIES; k++)
            free(r->ranks[i].series[k]);
        cJSON_Delete(r->ranks[i].json);
    }
    free(r->ranks);
    free(r->loss);
    free(r->paths);
}

const char *tti_report_text(const tti_report *r, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r->ranks[0].json, key));

    return s != NULL ? s : "";
}

double tti_report_number(const tti_report *r, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(r->ranks[0].json, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}
