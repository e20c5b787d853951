/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: cells are kept until the end, when widths are known. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(tti_table *t, const char *text, bool raw)
{
    if (t->failed)
        return;
    if (t->n_cells == t->cap_cells) {
        size_t cap = t->cap_cells != 0 ? 2 * t->cap_cells : 64;
        tti_cell *cells = realloc(t->cells, cap * sizeof *cells);

        if (cells == NULL) {
            t->failed = true;
            return;
        }
        t->cells = cells;
        t->cap_cells = cap;
    }
    t->cells[t->n_cells] = (tti_cell){ text != NULL ? strdup(text) : NULL, raw };
    t->failed = text != NULL && t->cells[t->n_cells].text == NULL;
    t->n_cells++;
}

void tti_table_add(tti_table *t, const char *text)
{
    add(t, text, false);
}

void tti_table_add_raw(tti_table *t, const char *json)
{
    add(t, json, true);
}

void tti_table_add_int(tti_table *t, long long value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", value);
    add(t, text, true);
}

/* ---- characters --------------------------------------------------------------------------------- */

/* Bytes of the printable UTF-8 character at s; 0 for control characters and what is no UTF-8. */
static size_t printable(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    unsigned code = s[0];

    if (n == 1)
        return code >= 0x20 && code != 0x7F ? 1 : 0;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    code &= 0xFFu >> (n + 1);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3Fu);
    }
    if (code < 0xA0 || (n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10FFFF)))
        return 0;
    return code >= 0xD800 && code < 0xE000 ? 0 : n;
}

/* Writes the text (unless `quiet`) and returns how many columns it takes. */
static int put_text(const char *text, bool quiet)
{
    const unsigned char *s = (const unsigned char *)(text != NULL ? text : "-");
    int width = 0;

    while (*s != '\0') {
        size_t n = printable(s);

        width += n != 0 ? 1 : 4;
        if (!quiet && n != 0)
            fwrite(s, 1, n, stdout);
        else if (!quiet)
            printf("\\x%02x", *s);
        s += n != 0 ? n : 1;
    }
    return width;
}

static void put_json(const tti_cell *c)
{
    const unsigned char *s = (const unsigned char *)c->text;

    if (c->text == NULL || c->raw) {
        fputs(c->text != NULL ? c->text : "null", stdout);
        return;
    }
    putchar('"');
    while (*s != '\0') {
        size_t n = printable(s);

        if (*s == '"' || *s == '\\')
            putchar('\\');
        if (n != 0)
            fwrite(s, 1, n, stdout);
        else if (*s < 0x80)
            printf("\\u%04x", *s);
        else
            fputs("\\ufffd", stdout);
        s += n != 0 ? n : 1;
    }
    putchar('"');
}

/* ---- the three forms ---------------------------------------------------------------------------- */

static bool has_colour(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

static void pad(int n)
{
    printf("%*s", n > 0 ? n : 0, "");
}

static void print_text(const tti_table *t)
{
    bool colour = has_colour();
    int widths[8] = { 0 };
    int last = t->n_columns - 1;

    for (int i = 0; i <= last && !t->pairs; i++)
        widths[i] = (int)strlen(t->columns[i]);
    for (size_t i = 0; i < t->n_cells; i++) {
        int column = (int)(i % (size_t)t->n_columns);
        int width = put_text(t->cells[i].text, true);

        if (widths[column] < width)
            widths[column] = width;
    }
    for (int i = 0; i <= last && !t->pairs; i++) {
        printf("%s%s%s", colour ? "\033[1m" : "", t->columns[i], colour ? "\033[0m" : "");
        pad(i < last ? widths[i] - (int)strlen(t->columns[i]) + 2 : 0);
        if (i == last)
            putchar('\n');
    }
    for (size_t i = 0; i < t->n_cells; i++) {
        int column = (int)(i % (size_t)t->n_columns);
        int width = put_text(t->cells[i].text, false);

        pad(column < last ? widths[column] - width + 2 : 0);
        if (column == last)
            putchar('\n');
    }
}

static void print_tsv(const tti_table *t)
{
    for (int i = 0; i < t->n_columns && !t->pairs; i++)
        printf("%s%c", t->columns[i], i + 1 < t->n_columns ? '\t' : '\n');
    for (size_t i = 0; i < t->n_cells; i++) {
        put_text(t->cells[i].text != NULL ? t->cells[i].text : "", false);
        putchar((i + 1) % (size_t)t->n_columns != 0 ? '\t' : '\n');
    }
}

static void print_json(const tti_table *t)
{
    size_t n = (size_t)t->n_columns;

    fputs(t->pairs ? "{" : "[", stdout);
    for (size_t i = 0; i < t->n_cells; i += n) {
        fputs(i != 0 ? ",\n " : "\n ", stdout);
        if (t->pairs) {
            put_json(&t->cells[i]);
            fputs(": ", stdout);
            put_json(&t->cells[i + 1]);
            continue;
        }
        for (size_t k = 0; k < n; k++) {
            printf("%s\"%s\": ", k != 0 ? ", " : "{", t->columns[k]);
            put_json(&t->cells[i + k]);
        }
        putchar('}');
    }
    puts(t->pairs ? "\n}" : "\n]");
}

int tti_table_finish(tti_table *t, tti_format format)
{
    bool failed = t->failed;

    if (failed)
        fprintf(stderr, "tutti: out of memory\n");
    else if (format == TTI_FORMAT_TEXT)
        print_text(t);
    else if (format == TTI_FORMAT_TSV)
        print_tsv(t);
    else
        print_json(t);
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i].text);
    free(t->cells);
    *t = (tti_table){ .failed = failed };
    return failed ? TTI_EXIT_FAILED : TTI_EXIT_OK;
}
