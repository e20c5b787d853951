/* SPDX-License-Identifier: Apache-2.0 */
/* A curve as an SVG picture, for the examples. */
#ifndef EXAMPLES_PLOT_H
#define EXAMPLES_PLOT_H

#include <stdio.h>

/* Draw n values over their index; returns 0, or -1 when the file cannot be written. */
static inline int plot_svg(const char *path, const char *title, const double *values, int n)
{
    FILE *f = fopen(path, "w");
    double top = 1e-9;

    if (f == NULL)
        return -1;
    for (int i = 0; i < n; i++)
        top = values[i] > top ? values[i] : top;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"400\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"720\" height=\"400\" fill=\"white\"/>\n"
            "<text x=\"60\" y=\"28\" font-size=\"16\">%s</text>\n",
            title);
    for (int i = 0; i <= 4; i++) {
        double y = 350.0 - 75.0 * i;

        fprintf(f,
                "<line x1=\"60\" x2=\"700\" y1=\"%g\" y2=\"%g\" stroke=\"#ddd\"/>\n"
                "<text x=\"52\" y=\"%g\" text-anchor=\"end\">%.2f</text>\n",
                y, y, y + 4, top * i / 4);
    }
    fprintf(f, "<polyline fill=\"none\" stroke=\"#3465a4\" stroke-width=\"1.5\" points=\"");
    for (int i = 0; i < n; i++)
        fprintf(f, "%.1f,%.1f ", 60.0 + 640.0 * i / (n > 1 ? n - 1 : 1),
                350.0 - 300.0 * values[i] / top);
    fprintf(f, "\"/>\n<text x=\"700\" y=\"375\" text-anchor=\"end\">step %d</text>\n</svg>\n", n);
    return fclose(f);
}

#endif
