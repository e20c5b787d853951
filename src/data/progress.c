/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar. An update adds to a counter and looks at the coarse clock; drawing builds the whole
 * line first and writes it at once, beginning with a carriage return, so that an interrupt at any
 * moment leaves the terminal usable: no mode is changed, no signal handled. */
#include "tutti/progress.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define MAX_VALUES 8
#define MAX_LINE 512
#define REDRAW_NS 100000000 /* ten times a second */

typedef struct shown_value {
    const char *name;
    double value;
} shown_value;

struct tt_progress {
    tt_progress_options o;
    char label[64], unit[32];
    int64_t total, done;
    int64_t start_ns, next_ns, period_ns; /* period 0: never draw */
    bool in_place;
    int last_length; /* of what is on the terminal */
    shown_value values[MAX_VALUES];
    int n_values;
};

typedef struct line {
    char text[MAX_LINE];
    int n;
} line;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void put(line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(line *l, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(l->text + l->n, sizeof l->text - (size_t)l->n, fmt, args);
    va_end(args);
    if (n > 0)
        l->n = l->n + n < MAX_LINE ? l->n + n : MAX_LINE - 1;
}

static void put_time(line *l, double seconds)
{
    long long s = seconds < 1e9 ? (long long)(seconds + 0.5) : 0;

    if (!(seconds < 1e9))
        put(l, "?");
    else if (s >= 3600)
        put(l, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        put(l, "%02lld:%02lld", s / 60, s % 60);
}

static void put_rate(line *l, double rate, const char *unit)
{
    const char *gap = unit[0] != '\0' ? " " : "";

    if (rate >= 1e6)
        put(l, "%.2fM%s%s/s", rate / 1e6, gap, unit);
    else if (rate >= 1e4)
        put(l, "%.1fk%s%s/s", rate / 1e3, gap, unit);
    else if (rate >= 1)
        put(l, "%.1f%s%s/s", rate, gap, unit);
    else
        put(l, "%.3g%s%s/s", rate, gap, unit);
}

static int columns(const tt_progress *p)
{
    struct winsize w;

    if (p->o.width > 0)
        return p->o.width < MAX_LINE - 2 ? p->o.width : MAX_LINE - 2;
    if (ioctl(fileno(p->o.file), TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col < MAX_LINE - 2 ? w.ws_col - 1 : MAX_LINE - 2;
    return 80;
}

/* Counts, times, rate and values: what stands right of the bar. */
static void put_numbers(const tt_progress *p, line *l)
{
    double seconds = (double)(now_ns() - p->start_ns) * 1e-9;
    double rate = seconds > 0 ? (double)p->done / seconds : 0;

    if (p->total > 0)
        put(l, "%lld/%lld [", (long long)p->done, (long long)p->total);
    else
        put(l, "%lld [", (long long)p->done);
    put_time(l, seconds);
    if (p->total > p->done) {
        put(l, "<");
        put_time(l, rate > 0 ? (double)(p->total - p->done) / rate : INFINITY);
    }
    put(l, ", ");
    put_rate(l, rate, p->unit);
    for (int i = 0; i < p->n_values; i++)
        put(l, ", %.15s=%.4g", p->values[i].name, p->values[i].value);
    put(l, "]");
}

static void put_bar(line *l, int width, double share)
{
    int full = (int)(share * width);

    put(l, "|");
    for (int i = 0; i < width; i++)
        put(l, i < full ? "#" : " ");
    put(l, "| ");
}

static void compose(const tt_progress *p, line *l, int limit)
{
    double share = p->total > 0 ? fmin(1, (double)p->done / (double)p->total) : 0;
    line numbers = { .n = 0 };
    int room;

    put_numbers(p, &numbers);
    if (p->label[0] != '\0')
        put(l, "%s ", p->label);
    if (p->total > 0) {
        put(l, "%3d%% ", (int)(share * 100));
        room = limit - l->n - numbers.n - 3;
        if (room >= 5)
            put_bar(l, room < 40 ? room : 40, share);
    }
    put(l, "%s", numbers.text);
    if (l->n > limit)
        l->n = limit;
    l->text[l->n] = '\0';
}

static void draw(tt_progress *p)
{
    line l = { .n = 0 };
    int length, blanks;

    if (!p->in_place) {
        compose(p, &l, columns(p));
        fprintf(p->o.file, "%s\n", l.text);
        fflush(p->o.file);
        return;
    }
    compose(p, &l, columns(p));
    length = l.n;
    blanks = p->last_length > length ? p->last_length - length : 0;
    p->last_length = length;
    fprintf(p->o.file, "\r%s%*s", l.text, blanks, "");
    fflush(p->o.file);
}

tt_progress *tt_progress_new(int64_t total, const tt_progress_options *opt)
{
    tt_progress *p = tti_calloc(1, sizeof *p);

    if (p == NULL)
        return NULL;
    if (opt != NULL)
        p->o = *opt;
    if (p->o.file == NULL)
        p->o.file = stderr;
    snprintf(p->label, sizeof p->label, "%s", p->o.label != NULL ? p->o.label : "");
    snprintf(p->unit, sizeof p->unit, "%s", p->o.unit != NULL ? p->o.unit : "");
    p->total = total > 0 ? total : 0;
    p->in_place = p->o.always || isatty(fileno(p->o.file)) == 1;
    if (p->in_place)
        p->period_ns = REDRAW_NS;
    else if (p->o.line_seconds > 0 && p->o.line_seconds < 1e9)
        p->period_ns = (int64_t)(p->o.line_seconds * 1e9) + 1;
    p->start_ns = now_ns();
    p->next_ns = p->period_ns > 0 ? p->start_ns + p->period_ns : INT64_MAX;
    if (p->in_place)
        draw(p);
    return p;
}

void tt_progress_free(tt_progress *p)
{
    if (p == NULL)
        return;
    if (p->in_place && p->o.clear) {
        fprintf(p->o.file, "\r%*s\r", p->last_length, "");
        fflush(p->o.file);
    } else if (p->period_ns > 0) {
        draw(p);
        if (p->in_place)
            fputc('\n', p->o.file);
        fflush(p->o.file);
    }
    tti_mfree(p);
}

void tt_progress_update(tt_progress *p, int64_t n)
{
    int64_t now;

    if (p == NULL)
        return;
    p->done += n;
    if (p->next_ns == INT64_MAX)
        return;
    now = now_ns();
    if (now < p->next_ns)
        return;
    p->next_ns = now + p->period_ns;
    draw(p);
}

void tt_progress_set(tt_progress *p, const char *name, double value)
{
    if (p == NULL || name == NULL)
        return;
    for (int i = 0; i < p->n_values; i++) {
        if (p->values[i].name == name || strcmp(p->values[i].name, name) == 0) {
            p->values[i].value = value;
            return;
        }
    }
    if (p->n_values < MAX_VALUES)
        p->values[p->n_values++] = (shown_value){ name, value };
}
