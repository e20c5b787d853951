/* SPDX-License-Identifier: Apache-2.0 */
/* What a command prints: rows of cells, as aligned text, tab-separated lines or JSON. Control
 * characters and broken UTF-8 are made harmless, because names may come from strangers' files. */
#ifndef TTI_TOOLS_TABLE_H
#define TTI_TOOLS_TABLE_H

#include <stddef.h>

#include "command.h"

typedef struct tti_cell {
    char *text;
    bool raw; /* JSON already: a number, a list, true */
} tti_cell;

typedef struct tti_table {
    const char *const *columns; /* names; for `pairs` there are two that are not printed */
    int n_columns;
    bool pairs; /* names and values: in JSON one object */
    tti_cell *cells;
    size_t n_cells, cap_cells;
    bool failed; /* out of memory */
} tti_table;

/* Append a cell; NULL is shown as "-", in JSON as null. */
void tti_table_add(tti_table *t, const char *text);
void tti_table_add_raw(tti_table *t, const char *json);
void tti_table_add_int(tti_table *t, long long value);

/* Print the table and free its cells. Gives the exit code. */
int tti_table_finish(tti_table *t, tti_format format);

#endif
