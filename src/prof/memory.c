/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a profile. Running out is no failure of the operation that is profiled, so the error record is
 * left as it was. */
#include <stdalign.h>
#include <string.h>

#include "prof/prof.h"

#define BLOCK ((size_t)64 << 10)

typedef struct tti_prof_word {
    struct tti_prof_word *next;
    size_t bytes;
    uint64_t hash;
    alignas(16) unsigned char data[];
} word;

static void *quiet_calloc(size_t bytes)
{
    tti_error_copy copy;
    void *p;

    tti_error_save(&copy);
    p = tti_calloc(1, bytes);
    if (p == NULL)
        tti_error_restore(&copy);
    return p;
}

void *tti_prof_alloc(tti_prof_memory *m, size_t bytes)
{
    size_t head = (sizeof(tti_prof_block) + 15) & ~(size_t)15;
    tti_prof_block *b = m->blocks;
    void *p;

    bytes = (bytes + 15) & ~(size_t)15;
    if (b == NULL || b->size - b->used < bytes) {
        size_t size = head + bytes > BLOCK ? head + bytes : BLOCK;

        b = quiet_calloc(size);
        if (b == NULL)
            return NULL;
        *b = (tti_prof_block){ .next = m->blocks, .used = head, .size = size };
        m->blocks = b;
    }
    p = (char *)b + b->used;
    b->used += bytes;
    return p;
}

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *p, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static bool grow(tti_prof_memory *m)
{
    size_t cap = m->cap_words == 0 ? 64 : 2 * m->cap_words;
    word **table = quiet_calloc(cap * sizeof *table);

    if (table == NULL)
        return m->cap_words != 0;
    for (size_t i = 0; i < m->cap_words; i++)
        for (word *w = m->words[i], *next; w != NULL; w = next) {
            next = w->next;
            w->next = table[w->hash & (cap - 1)];
            table[w->hash & (cap - 1)] = w;
        }
    tti_mfree(m->words);
    m->words = table;
    m->cap_words = cap;
    return true;
}

const void *tti_prof_keep(tti_prof_memory *m, const void *data, size_t bytes)
{
    uint64_t h = hash_of(data, bytes);
    word *w, **at;

    if (m->n_words >= m->cap_words && !grow(m))
        return NULL;
    at = &m->words[h & (m->cap_words - 1)];
    for (w = *at; w != NULL; w = w->next)
        if (w->hash == h && w->bytes == bytes && memcmp(w->data, data, bytes) == 0)
            return w->data;
    w = tti_prof_alloc(m, sizeof *w + bytes);
    if (w == NULL)
        return NULL;
    *w = (word){ .next = *at, .bytes = bytes, .hash = h };
    memcpy(w->data, data, bytes);
    *at = w;
    m->n_words++;
    return w->data;
}

void tti_prof_memory_fini(tti_prof_memory *m)
{
    for (tti_prof_block *b = m->blocks, *next; b != NULL; b = next) {
        next = b->next;
        tti_mfree(b);
    }
    tti_mfree(m->words);
    *m = (tti_prof_memory){ 0 };
}
