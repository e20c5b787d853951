/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of a report: the loss, and where the time of a step goes on each rank. */
#include <math.h>
#include <string.h>

#include "report.h"

enum { WIDTH = 900, LEFT = 64, RIGHT = 16, INNER = WIDTH - LEFT - RIGHT };

/* A round number of which about `n` make up `top`. */
static double tick_of(double top, int n)
{
    double raw = top / n, unit = pow(10, floor(log10(raw > 0 ? raw : 1)));

    return unit * (raw / unit > 5 ? 10 : raw / unit > 2 ? 5 : raw / unit > 1 ? 2 : 1);
}

void tti_put_escaped(FILE *f, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *name = strchr("<>&\"", *text) == NULL ? NULL
                           : *text == '<'                 ? "&lt;"
                           : *text == '>'                 ? "&gt;"
                           : *text == '&'                 ? "&amp;"
                                                          : "&quot;";

        if (name != NULL)
            fputs(name, f);
        else
            fputc(*text, f);
    }
}

/* ---- the loss -------------------------------------------------------------------------------- */

typedef struct axes {
    double x_max, y_max;
    int top, height;
} axes;

static double x_of(const axes *a, double x)
{
    return LEFT + INNER * x / (a->x_max > 0 ? a->x_max : 1);
}

static double y_of(const axes *a, double y)
{
    return a->top + a->height * (1 - y / (a->y_max > 0 ? a->y_max : 1));
}

static void put_axes(FILE *f, const axes *a, double x_step)
{
    double y_step = tick_of(a->y_max, 4);

    for (double y = 0; y <= a->y_max * 1.0001; y += y_step)
        fprintf(f,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, WIDTH - RIGHT, y_of(a, y), y_of(a, y), LEFT - 10, y_of(a, y) + 4, y);
    for (double x = 0; x <= a->x_max * 1.0001; x += x_step)
        fprintf(f, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                x_of(a, x), a->top + a->height + 20, x);
}

typedef double (*at_fn)(const double *values, int i, int width);

/* Values that are missing or no numbers leave a gap. */
static void put_curve(FILE *f, const axes *a, const tti_report *r, at_fn at, const char *class)
{
    bool open = false;

    for (int i = 0; i < r->n_steps; i++) {
        double y = at(r->loss, i, r->n_steps / 24 + 1);

        if (isnan(y)) {
            fprintf(f, open ? "\"/>\n" : "");
            open = false;
            continue;
        }
        if (!open)
            fprintf(f, "<polyline class=\"%s\" points=\"", class);
        open = true;
        fprintf(f, "%.1f,%.1f ", x_of(a, i + 1), y_of(a, y < a->y_max ? y : a->y_max));
    }
    fprintf(f, open ? "\"/>\n" : "");
}

static double raw_at(const double *values, int i, int width)
{
    (void)width;
    return values[i];
}

/* A running mean, which lags less the steeper the beginning: its window grows to `width`. */
static double smooth_at(const double *values, int i, int width)
{
    int n = i / 3 + 1 < width ? i / 3 + 1 : width, known = 0;
    double sum = 0;

    for (int k = 0; k < n; k++)
        if (!isnan(values[i - k])) {
            sum += values[i - k];
            known++;
        }
    return isnan(values[i]) ? NAN : sum / known;
}

static void put_last(FILE *f, const axes *a, const tti_report *r)
{
    double last = smooth_at(r->loss, r->n_steps - 1, r->n_steps / 24 + 1);

    if (isnan(last))
        fprintf(f,
                "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">the last loss is "
                "not a number</text>\n",
                x_of(a, r->n_steps) - 4, y_of(a, a->y_max) + 16);
    else
        fprintf(f,
                "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n"
                "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.3f</text>\n",
                x_of(a, r->n_steps), y_of(a, last), x_of(a, r->n_steps) - 4, y_of(a, last) - 12,
                last);
}

void tti_put_loss(FILE *f, const tti_report *r)
{
    axes a = { .x_max = r->n_steps, .top = 16, .height = 240 };

    for (int i = 0; i < r->n_steps; i++)
        a.y_max = r->loss[i] > a.y_max ? r->loss[i] : a.y_max;
    a.y_max = ceil(a.y_max / tick_of(a.y_max, 4)) * tick_of(a.y_max, 4);
    fprintf(f, "<svg viewBox=\"0 0 %d 292\" role=\"img\" aria-label=\"loss over steps\">\n", WIDTH);
    put_axes(f, &a, tick_of(a.x_max, 8));
    put_curve(f, &a, r, raw_at, "raw");
    put_curve(f, &a, r, smooth_at, "smooth");
    put_last(f, &a, r);
    for (int i = 0; i < r->n_steps; i++) { /* what the pointer is over */
        fprintf(f,
                "<rect class=\"hit\" x=\"%.2f\" y=\"16\" width=\"%.2f\" height=\"240\"><title>step "
                "%d, ",
                x_of(&a, i + 0.5), (double)INNER / r->n_steps, i + 1);
        fprintf(f, isnan(r->loss[i]) ? "loss missing or not a number" : "loss %.4f", r->loss[i]);
        fprintf(f, "</title></rect>");
    }
    fprintf(f, "\n</svg>\n");
}

/* ---- where the time goes ------------------------------------------------------------------------ */

static void put_bar(FILE *f, double x, double y, double w, double h, const char *class)
{
    if (w < 0.5)
        return;
    fprintf(f, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\"/>",
            class, x, y, w > 3 ? w - 2 : w, h);
}

static void put_rank(FILE *f, const axes *a, const tti_report_rank *k, double y)
{
    double x = 0;

    fprintf(f, "<text class=\"label\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">rank %d</text>\n",
            LEFT - 10, y + 15, k->rank);
    for (int p = 0; p < TTI_PART_HIDDEN; p++) {
        fprintf(f, "<g>");
        put_bar(f, x_of(a, x), y, x_of(a, k->part_us[p]) - LEFT, 22, tti_part_class[p]);
        fprintf(f, "<title>rank %d, %s: %.2f ms</title></g>\n", k->rank, tti_part_names[p],
                k->part_us[p] * 1e-3);
        x += k->part_us[p];
    }
    /* Under the backward that hides it, ending where the waiting begins. */
    x = k->part_us[TTI_PART_FORWARD] + k->part_us[TTI_PART_BACKWARD] - k->part_us[TTI_PART_HIDDEN];
    fprintf(f, "<g>");
    put_bar(f, x_of(a, x), y + 25, x_of(a, k->part_us[TTI_PART_HIDDEN]) - LEFT, 6,
            tti_part_class[TTI_PART_HIDDEN]);
    fprintf(f, "<title>rank %d, %s: %.2f ms</title></g>\n", k->rank,
            tti_part_names[TTI_PART_HIDDEN], k->part_us[TTI_PART_HIDDEN] * 1e-3);
}

static void put_legend(FILE *f)
{
    fprintf(f, "<p class=\"legend\">");
    for (int p = 0; p < TTI_N_PARTS; p++)
        fprintf(f, "<span><i class=\"%s\"></i>%s</span>", tti_part_class[p], tti_part_names[p]);
    fprintf(f, "</p>\n");
}

static void put_table(FILE *f, const tti_report *r)
{
    fprintf(f, "<table><thead><tr><th>ms per step</th>");
    for (int p = 0; p < TTI_N_PARTS; p++)
        fprintf(f, "<th>%s</th>", tti_part_names[p]);
    fprintf(f, "<th>step</th><th>median step</th></tr></thead><tbody>\n");
    for (int i = 0; i < r->n_ranks; i++) {
        fprintf(f, "<tr><td>rank %d</td>", i);
        for (int p = 0; p < TTI_N_PARTS; p++)
            fprintf(f, "<td>%.2f</td>", r->ranks[i].part_us[p] * 1e-3);
        fprintf(f, "<td>%.2f</td><td>%.2f</td></tr>\n", r->ranks[i].step_us * 1e-3,
                r->ranks[i].median_us * 1e-3);
    }
    fprintf(f, "</tbody></table>\n");
}

void tti_put_parts(FILE *f, const tti_report *r)
{
    int row = 44, height = r->n_ranks * row;
    axes a = { .top = 4, .height = height, .y_max = 1 };

    for (int i = 0; i < r->n_ranks; i++)
        a.x_max = r->ranks[i].step_us > a.x_max ? r->ranks[i].step_us : a.x_max;
    put_legend(f);
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time of a step per rank\">\n",
            WIDTH, height + 32);
    for (double x = 0, step = tick_of(a.x_max, 8); x <= a.x_max * 1.0001; x += step)
        fprintf(f,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%d\"/>"
                "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g ms</text>\n",
                x_of(&a, x), x_of(&a, x), height, x_of(&a, x), height + 22, x * 1e-3);
    for (int i = 0; i < r->n_ranks; i++)
        put_rank(f, &a, &r->ranks[i], 8 + row * i);
    fprintf(f, "</svg>\n");
    put_table(f, r);
}
