/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows. A failure to grow is remembered, so that a chain of appends is checked once, at
 * its end. */
#ifndef TTI_BASE_TEXT_H
#define TTI_BASE_TEXT_H

#include "base/mem.h"

typedef struct tti_text {
    char *data; /* NULL: empty */
    size_t n, cap;
    tt_status status;
} tti_text;

void tti_text_add(tti_text *t, const char *words);
/* As a string of JSON, with its quotation marks. What is not UTF-8 becomes U+FFFD. */
void tti_text_add_json(tti_text *t, const char *words);
/* For writers of their own: the next character of *text_p as it stands in a string of JSON; returns its bytes. */
size_t tti_json_piece(const char **text_p, char piece[8]);
void tti_text_addf(tti_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Cut it to its first n characters. */
void tti_text_cut(tti_text *t, size_t n);
/* Hand the text over: to be freed with tti_mfree, never NULL unless an append failed. */
char *tti_text_take(tti_text *t);
void tti_text_fini(tti_text *t);

/* The length of the character at the begin of n bytes, 0 when it is none: a NUL, overlong forms, surrogates and what is
 * beyond U+10FFFF are none. */
size_t tti_utf8_length(const char *text, size_t n);
/* True for `n` bytes of well-formed UTF-8 without a NUL. */
bool tti_text_is_utf8(const char *s, size_t n);

static inline const char *tti_text_str(const tti_text *t)
{
    return t->data != NULL ? t->data : "";
}

#endif
