/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of numbers as text. Two passes: the first counts lines and the columns of the first one, the
 * second reads each line into its row. Nothing is trusted: every cell is checked. */
#include <string.h>

#include "data/data.h"
#include "data/number.h"

typedef struct reader {
    const char *at, *end;
    int64_t line; /* of `at`, from 1 */
    tt_csv_options o;
    int64_t width;      /* cells of each line */
    int64_t *place;     /* where the cell of a column goes in a row; -1: nowhere */
    int64_t n_out;      /* columns of the result */
    const char *source; /* for messages */
} reader;

static const char *line_end(const reader *r)
{
    const char *e = memchr(r->at, '\n', (size_t)(r->end - r->at));

    return e != NULL ? e : r->end;
}

static bool is_blank(const char *s, const char *end)
{
    for (; s < end; s++)
        if (*s != ' ' && *s != '\t' && *s != '\r')
            return false;
    return true;
}

/* The next line that is not empty; false at the end. */
static bool next_line(reader *r, const char **start_p, const char **end_p)
{
    while (r->at < r->end) {
        const char *start = r->at, *stop = line_end(r);

        r->at = stop < r->end ? stop + 1 : stop;
        r->line++;
        if (!is_blank(start, stop)) {
            *start_p = start;
            *end_p = stop;
            return true;
        }
    }
    return false;
}

/* Where the cell that begins at s ends: at a delimiter or at `end`. One in quotes may hold delimiters. */
static const char *cell_end(const reader *r, const char *s, const char *end)
{
    const char *stop;

    while (s < end && *s == ' ' && *s != r->o.delimiter)
        s++;
    if (s < end && *s == '"') {
        const char *close = memchr(s + 1, '"', (size_t)(end - s - 1));

        while (close != NULL && close + 1 < end && close[1] == '"')
            close = memchr(close + 2, '"', (size_t)(end - close - 2));
        if (close != NULL)
            s = close + 1;
    }
    stop = memchr(s, r->o.delimiter, (size_t)(end - s));
    return stop != NULL ? stop : end;
}

static int64_t count_cells(const reader *r, const char *s, const char *end)
{
    int64_t n = 1;

    for (s = cell_end(r, s, end); s < end; s = cell_end(r, s + 1, end))
        n++;
    return n;
}

/* Cuts spaces and one pair of quotes. */
static void trim(const char **s, const char **end)
{
    while (*s < *end && (**s == ' ' || **s == '\t'))
        ++*s;
    while (*s < *end && ((*end)[-1] == ' ' || (*end)[-1] == '\t' || (*end)[-1] == '\r'))
        --*end;
    if (*end - *s >= 2 && **s == '"' && (*end)[-1] == '"') {
        ++*s;
        --*end;
    }
}

static tt_status bad_cell(const reader *r, const char *s, const char *end, int64_t column)
{
    int n = end - s < 40 ? (int)(end - s) : 40;

    return TT_FAIL(TT_ERR_FORMAT,
                   "csv: %s: line %lld, column %lld: expected a number, got \"%.*s\"", r->source,
                   (long long)r->line, (long long)column + 1, n, s);
}

static tt_status read_cell(const reader *r, const char *s, const char *end, int64_t column,
                           void *row)
{
    int64_t to = r->place[column];
    bool ok;

    if (to < 0)
        return TT_OK;
    trim(&s, &end);
    if (r->o.dtype == TT_F64)
        ok = tti_parse_f64(s, end, (double *)row + to);
    else
        ok = tti_parse_f32(s, end, (float *)row + to);
    return ok ? TT_OK : bad_cell(r, s, end, column);
}

static tt_status read_row(const reader *r, const char *s, const char *end, void *row)
{
    const char *whole = s, *stop = s;
    int64_t column = 0;

    for (; column < r->width; column++, s = stop + 1) {
        stop = cell_end(r, s, end);
        TT_TRY(read_cell(r, s, stop, column, row));
        if (stop == end)
            break;
    }
    if (column + 1 == r->width && stop == end)
        return TT_OK;
    return TT_FAIL(TT_ERR_FORMAT, "csv: %s: line %lld: expected %lld columns, got %lld", r->source,
                   (long long)r->line, (long long)r->width, (long long)count_cells(r, whole, end));
}

/* Which column of the file goes where. One may be asked for twice only by reading twice. */
static tt_status place_columns(reader *r)
{
    r->place = tti_malloc((size_t)r->width * sizeof *r->place);
    if (r->place == NULL)
        return TT_ERR_NOMEM;
    for (int64_t c = 0; c < r->width; c++)
        r->place[c] = r->o.columns == NULL ? c : -1;
    r->n_out = r->o.columns == NULL ? r->width : r->o.n_columns;
    for (int i = 0; r->o.columns != NULL && i < r->o.n_columns; i++) {
        int64_t c = r->o.columns[i];

        if (c < 0 || c >= r->width || r->place[c] >= 0)
            return TT_FAIL(TT_ERR_INVALID,
                           "csv: %s: expected distinct columns below %lld, got %lld", r->source,
                           (long long)r->width, (long long)c);
        r->place[c] = i;
    }
    return TT_OK;
}

/* How many rows there are, and how many cells in the first. */
static int64_t survey(reader *r)
{
    const char *start, *end;
    reader ahead = *r;
    int64_t n = 0;

    while (next_line(&ahead, &start, &end)) {
        if (r->width == 0)
            r->width = count_cells(r, start, end);
        n++;
    }
    n -= r->o.header && n > 0;
    return r->o.max_rows > 0 && n > r->o.max_rows ? r->o.max_rows : n;
}

static tt_status fill(reader *r, int64_t n, tt_tensor *t)
{
    const char *start, *end;
    size_t row_bytes = (size_t)r->n_out * tti_esize(t);

    if (r->o.header)
        (void)next_line(r, &start, &end);
    for (int64_t i = 0; i < n && next_line(r, &start, &end); i++)
        TT_TRY(read_row(r, start, end, (char *)tti_data(t) + (size_t)i * row_bytes));
    return TT_OK;
}

/* text[size] is readable. */
static tt_tensor *parse(const char *text, size_t size, const tt_csv_options *opt,
                        const char *source)
{
    reader r = { .at = text, .end = text + size, .source = source };
    tt_tensor *t = NULL;
    int64_t n;

    if (opt != NULL)
        r.o = *opt;
    if (r.o.delimiter == 0)
        r.o.delimiter = ',';
    if (r.o.dtype != TT_F32 && r.o.dtype != TT_F64)
        return TT_FAIL_NULL(TT_ERR_INVALID, "csv: expected float32 or float64, got %s",
                            tt_dtype_name(r.o.dtype));
    n = survey(&r);
    if (r.width == 0)
        return TT_FAIL_NULL(TT_ERR_FORMAT, "csv: %s: expected at least one line, got none", source);
    if (place_columns(&r) == TT_OK)
        t = tti_empty((int64_t[]){ n, r.n_out }, 2, r.o.dtype, TT_CPU);
    if (t != NULL && fill(&r, n, t) != TT_OK)
        t = NULL;
    tti_mfree(r.place);
    return t;
}

tt_tensor *tt_csv_parse(const char *text, size_t size, const tt_csv_options *opt)
{
    char *copy;
    tt_tensor *t;

    if (text == NULL)
        return TT_FAIL_NULL(TT_ERR_INVALID, "csv: expected text, got NULL");
    copy = tti_malloc(size + 1); /* parsing wants a readable byte after the end */
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, size);
    copy[size] = '\0';
    t = parse(copy, size, opt, "text");
    tti_mfree(copy);
    return t;
}

tt_tensor *tt_csv_read(const char *path, const tt_csv_options *opt)
{
    size_t size = 0;
    char *text = tti_file_read("csv", path, NULL, &size);
    tt_tensor *t;

    if (text == NULL)
        return NULL;
    t = parse(text, size, opt, path);
    tti_mfree(text);
    return t;
}
