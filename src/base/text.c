/* SPDX-License-Identifier: Apache-2.0 */
/* Growing texts; see text.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static bool reserve(tti_text *t, size_t more)
{
    if (t->status == TT_OK)
        t->status = tti_vec_reserve((void **)&t->data, &t->cap, t->n + more + 1, 1);
    return t->status == TT_OK;
}

void tti_text_add(tti_text *t, const char *words)
{
    size_t more = strlen(words);

    if (!reserve(t, more))
        return;
    memcpy(t->data + t->n, words, more + 1);
    t->n += more;
}

void tti_text_addf(tti_text *t, const char *fmt, ...)
{
    va_list args;
    int more;

    va_start(args, fmt);
    more = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (more < 0 || !reserve(t, (size_t)more))
        return;
    va_start(args, fmt);
    vsnprintf(t->data + t->n, (size_t)more + 1, fmt, args);
    va_end(args);
    t->n += (size_t)more;
}

void tti_text_cut(tti_text *t, size_t n)
{
    if (t->data == NULL || n > t->n)
        return;
    t->n = n;
    t->data[n] = '\0';
}

char *tti_text_take(tti_text *t)
{
    char *data;

    tti_text_add(t, "");
    if (t->status != TT_OK) {
        tti_text_fini(t);
        return NULL;
    }
    data = t->data;
    *t = (tti_text){ 0 };
    return data;
}

void tti_text_fini(tti_text *t)
{
    tti_mfree(t->data);
    t->data = NULL;
    t->n = t->cap = 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

size_t tti_json_piece(const char **text_p, char piece[8])
{
    const unsigned char *s = (const unsigned char *)*text_p;
    size_t n = tti_utf8_length(*text_p, 4); /* the NUL at the end is no part of a character */

    *text_p += n != 0 ? n : 1;
    if (n == 0)
        return (size_t)snprintf(piece, 8, "\\ufffd");
    if (*s < 0x20)
        return (size_t)snprintf(piece, 8, "\\u%04x", *s);
    if (*s == '"' || *s == '\\')
        return (size_t)snprintf(piece, 8, "\\%c", *s);
    memcpy(piece, s, n);
    return n;
}

void tti_text_add_json(tti_text *t, const char *words)
{
    char piece[8];

    tti_text_add(t, "\"");
    while (*words != '\0') {
        int n = (int)tti_json_piece(&words, piece);

        tti_text_addf(t, "%.*s", n, piece);
    }
    tti_text_add(t, "\"");
}
