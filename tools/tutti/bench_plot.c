/* SPDX-License-Identifier: Apache-2.0 */
/* Time over size, both logarithmic, a line per operation: one SVG that needs nothing else. */
#include <math.h>
#include <stdio.h>

#include "bench.h"

enum { WIDTH = 760, HEIGHT = 480, LEFT = 70, RIGHT = 150, TOP = 40, BOTTOM = 50 };

typedef struct plot {
    FILE *f;
    const tti_bench_row *rows;
    int n;
    double x0, x1, y0, y1; /* logarithms: of 2 across, of 10 upwards */
} plot;

static const char *const colours[] = { "#3465a4", "#cc0000", "#4e9a06", "#f57900", "#75507b",
                                       "#c17d11", "#06989a", "#2e3436", "#c4a000", "#888a85" };

static bool is_drawn(const tti_bench_row *r)
{
    return r->bytes > 0 && r->median_us > 0;
}

static void find_range(plot *p)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;

    for (int i = 0; i < p->n; i++) {
        if (!is_drawn(&p->rows[i]))
            continue;
        x0 = fmin(x0, log2((double)p->rows[i].bytes));
        x1 = fmax(x1, log2((double)p->rows[i].bytes));
        y0 = fmin(y0, log10(p->rows[i].median_us));
        y1 = fmax(y1, log10(p->rows[i].median_us));
    }
    if (x0 > x1)
        x0 = x1 = y0 = y1 = 0;
    p->x0 = floor(x0);
    p->x1 = ceil(x1) > p->x0 ? ceil(x1) : p->x0 + 1;
    p->y0 = floor(y0);
    p->y1 = ceil(y1) > p->y0 ? ceil(y1) : p->y0 + 1;
}

static double across(const plot *p, double x)
{
    return LEFT + (x - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double up(const plot *p, double y)
{
    return HEIGHT - BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(const plot *p)
{
    static const char *const units[] = { "", " K", " M", " G", " T" };

    for (int y = (int)p->y0; y <= (int)p->y1; y++) {
        double at = up(p, y);

        fprintf(p->f, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>", LEFT, at, WIDTH - RIGHT);
        fprintf(p->f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 6, at + 4,
                pow(10, y));
    }
    for (int x = (int)p->x0; x <= (int)p->x1; x++) {
        double at = across(p, x);

        if ((x - (int)p->x0) % 3 != 0)
            continue;
        fprintf(p->f, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/>", at, TOP, HEIGHT - BOTTOM);
        fprintf(p->f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g%s</text>\n", at,
                HEIGHT - BOTTOM + 18, pow(2, x % 10), units[x / 10 < 5 ? x / 10 : 4]);
    }
    fprintf(p->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">bytes</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
}

/* The rows of one operation from `first` on; gives the row after them. */
static int draw_line(const plot *p, int first, int index)
{
    const char *colour = colours[(size_t)index % (sizeof colours / sizeof colours[0])];
    const tti_bench_op *op = p->rows[first].op;
    int i = first, drawn = 0;

    fprintf(p->f, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colour);
    for (; i < p->n && p->rows[i].op == op; i++)
        if (is_drawn(&p->rows[i])) {
            fprintf(p->f, "%.1f,%.1f ", across(p, log2((double)p->rows[i].bytes)),
                    up(p, log10(p->rows[i].median_us)));
            drawn++;
        }
    fprintf(p->f, "\"/>\n");
    if (drawn > 0)
        fprintf(p->f, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", WIDTH - RIGHT + 12,
                TOP + 16 + 20 * index, colour, op->name);
    return i;
}

static bool draw(plot *p)
{
    int index = 0;

    fprintf(p->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"24\" font-weight=\"bold\">microseconds, %d ranks</text>\n",
            WIDTH, HEIGHT, LEFT, p->n > 0 ? p->rows[0].ranks : 0);
    find_range(p);
    draw_axes(p);
    for (int i = 0; i < p->n; index++)
        i = draw_line(p, i, index);
    fprintf(p->f, "</svg>\n");
    return ferror(p->f) == 0;
}

tt_status tti_bench_plot(const char *path, const tti_bench_row *rows, int n)
{
    plot p = { .f = fopen(path, "w"), .rows = rows, .n = n };
    bool ok = p.f != NULL && draw(&p);

    if (p.f != NULL && fclose(p.f) != 0)
        ok = false;
    return ok ? TT_OK : tt_fail(TT_ERR_IO, "cannot write %s", path);
}
